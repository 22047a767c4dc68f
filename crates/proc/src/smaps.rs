//! `/proc/PID/smaps`: the mappings of a process with their sizes.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

use crate::maps::Mapping;
use crate::numbers::decimal;
use crate::task::Task;

/// Bytes of text that are kept.
const TEXT: usize = 64 << 10;

/// One line of it. Sizes and flags are those of the mapping before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmapsLine<'a> {
    Mapping(Mapping<&'a [u8]>),
    /// A size, by the kernel's name of it (`Rss`), in bytes.
    Size {
        name: &'a [u8],
        bytes: u64,
    },
    /// One of the `VmFlags`: two letters.
    Flag(&'a [u8]),
}

/// Calls `each` with what is in the lines of `smaps`. The kernel takes the process's mmap lock, but never for long:
/// page faults go on, and a thread that maps memory waits for a part of it. Mappings come by address, but one that was
/// moved meanwhile may come twice. There are none where the process has no memory any more.
pub fn read_smaps(task: impl Into<Task>, each: &mut dyn FnMut(SmapsLine<'_>)) -> io::Result<()> {
    let file = File::open(task.into().file("smaps"))?;
    parse_smaps(&mut BufReader::with_capacity(TEXT, file), each)
}

/// Gives each line of a text of `/proc/PID/smaps` to `each`. A line that is no [`SmapsLine`] is left out.
pub fn parse_smaps(text: &mut dyn BufRead, each: &mut dyn FnMut(SmapsLine<'_>)) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if text.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        match line.first() {
            // Names of sizes begin with a capital, addresses are lower-case hexadecimal.
            Some(b'A'..=b'Z') => field(line, each),
            _ => Mapping::parse(line).into_iter().for_each(|mapping| each(SmapsLine::Mapping(mapping))),
        }
    }
}

/// `Rss:                  16 kB`, or `VmFlags: rd wr mr mw me ac `.
fn field(line: &[u8], each: &mut dyn FnMut(SmapsLine<'_>)) {
    let Some(colon) = line.iter().position(|&byte| byte == b':') else { return };
    let name = line.get(..colon).unwrap_or_default();
    let value = line.get(colon + 1..).unwrap_or_default().trim_ascii();
    if name == b"VmFlags" {
        let flags = value.split(|&byte| byte == b' ').filter(|flag| !flag.is_empty());
        flags.for_each(|flag| each(SmapsLine::Flag(flag)));
    } else if let Some(kilobytes) = value.strip_suffix(b" kB").and_then(decimal) {
        each(SmapsLine::Size { name, bytes: kilobytes.saturating_mul(1024) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_mappings_sizes_and_flags() {
        let text = b"5000-6000 r-xp 00000000 fe:00 24                     /usr/bin/a: b (deleted)\nSize: 4 kB\nRss:   12 kB\n\
            THPeligible:           0\nProtectionKey:         0\nRss: 99999999999999999999 kB\nSwap: 18446744073709551615 kB\n\
            VmFlags: rd ex \n\xff\xff\n7000-8000 nonsense\nSize\n-\n9000-a000 rw-p 0 0:0 0\n";
        let mut all = Vec::new();
        parse_smaps(&mut &text[..], &mut |line| {
            all.push(match line {
                SmapsLine::Mapping(one) => format!("{:x} {}", one.start, one.into_owned().path),
                SmapsLine::Size { name, bytes } => format!("{} {bytes}", String::from_utf8_lossy(name)),
                SmapsLine::Flag(flag) => String::from_utf8_lossy(flag).into_owned(),
            });
        })
        .unwrap();
        let most = format!("Swap {}", u64::MAX);
        assert_eq!(all, ["5000 /usr/bin/a: b (deleted)", "Size 4096", "Rss 12288", &most, "rd", "ex", "9000 "]);
    }

    #[test]
    fn this_process_has_sizes() {
        let (mut mappings, mut rss, mut flags) = (0, 0, 0);
        let mut count = |line: SmapsLine<'_>| match line {
            SmapsLine::Mapping(_) => mappings += 1,
            SmapsLine::Size { name: b"Rss", bytes } => rss += bytes,
            SmapsLine::Size { .. } => {}
            SmapsLine::Flag(_) => flags += 1,
        };
        read_smaps(Task::Own, &mut count).unwrap();
        assert!(mappings > 10 && rss > 100 << 10, "{mappings} {rss} {flags}");
        assert_eq!(read_smaps(u32::MAX, &mut |_| ()).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
