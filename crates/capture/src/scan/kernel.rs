//! Addresses that a program has handed to the kernel, which gives them back: a block may be in no other hand.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};

/// Bytes of one file of `/proc` that are read: a million descriptors in one epoll.
const MOST: u64 = 128 << 20;
const EPOLL: &str = "anon_inode:[eventpoll]";

/// The words that events of epoll and signals of timers come with, as far as the kernel shows them (proc(5): `fdinfo`,
/// `timers`).
pub fn held(pid: u32) -> Vec<u64> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let polls = descriptors.filter(|entry| fs::read_link(entry.path()).is_ok_and(|to| to.as_os_str() == EPOLL));
    let files = polls.map(|entry| format!("/proc/{pid}/fdinfo/{}", entry.file_name().display()));
    let mut words = Vec::new();
    for file in files.chain([format!("/proc/{pid}/timers")]) {
        if let Ok(file) = File::open(file) {
            words.extend(BufReader::new(file.take(MOST)).lines().map_while(Result::ok).filter_map(|line| word(&line)));
        }
    }
    words
}

/// `tfd: 5 events: 1c data: 55f268a842a0 pos:0 …`, or `signal: 10/000055f268a8ba10`.
fn word(line: &str) -> Option<u64> {
    let digits = match line.strip_prefix("signal:") {
        Some(signal) => signal.split_once('/')?.1,
        None => line.strip_prefix("tfd:")?.split_once("data:")?.1,
    };
    u64::from_str_radix(digits.split_whitespace().next()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_and_timers_have_words() {
        for (line, expected) in [
            ("tfd:        7 events:       1c data:     55f268a84310  pos:0 ino:a8dc59 sdev:f", Some(0x55f2_68a8_4310)),
            ("tfd:        7 events: 80000019 data: ffffffffffffffff  pos:0", Some(u64::MAX)),
            ("tfd:        7 events:       1c", None),
            ("signal: 10/000055f268a8ba10", Some(0x55f2_68a8_ba10)),
            ("signal: 10", None),
            ("notify: signal/pid.7408", None),
            ("data: 12", None),
            ("", None),
        ] {
            assert_eq!(word(line), expected, "{line}");
        }
        assert!(held(u32::MAX).is_empty());
    }
}
