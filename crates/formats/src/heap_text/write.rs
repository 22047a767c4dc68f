//! Writing a heap profile as text, as Go's endpoints do with `?debug=1`: for people, and for each reader of gperftools'
//! format.

use std::io::{self, Write};

use mallow_profile::{FrameId, ModuleId, Profile};

use crate::frames::{functions, plain};

/// A comment that says that addresses are link-time ones of their modules. Offsets into files are what other writers
/// mean.
pub const LINK_TIME: &str = "# mallow: link-time addresses";

/// Addresses that each module has in the text: those of several modules would be the same otherwise.
const SPAN: u64 = 1 << 40;

/// Writes live blocks and all allocations of each site, those with most live bytes first.
pub fn write(profile: &Profile, mut out: impl Write) -> io::Result<()> {
    let totals = profile.totals;
    let head = (totals.live, totals.live_bytes, totals.allocations, totals.allocated_bytes);
    // `heapprofile` has no period: the numbers are estimates of all, and no reader may scale them again.
    writeln!(out, "heap profile: {}: {} [{}: {}] @ heapprofile", head.0, head.1, head.2, head.3)?;
    writeln!(out, "{LINK_TIME}")?;
    let mut sites: Vec<_> = profile.sites.iter().filter(|site| site.counts.allocations > 0).collect();
    sites.sort_by_key(|site| {
        (std::cmp::Reverse(site.counts.live_bytes), std::cmp::Reverse(site.counts.allocated_bytes))
    });
    for site in sites {
        let counts = site.counts;
        write!(out, "{}: {} [{}: {}] @", counts.live, counts.live_bytes, counts.allocations, counts.allocated_bytes)?;
        for frame in profile.stacks.frames(site.stack) {
            write!(out, " {:#x}", address(profile, frame))?;
        }
        writeln!(out)?;
        for frame in profile.stacks.frames(site.stack) {
            let mut at = format!("{:#x}", address(profile, frame));
            for function in functions(profile, frame) {
                write!(out, "#\t{at}\t{}", plain(&function.name))?;
                match function.file {
                    Some(file) => writeln!(out, "\t{}:{}", plain(file), function.line)?,
                    None => writeln!(out, "\t{}", plain(function.module.unwrap_or_default()))?,
                }
                // The functions into which the compiler put it have the same address.
                at.clear();
            }
        }
        writeln!(out)?;
    }
    writeln!(out, "MAPPED_LIBRARIES:")?;
    for (index, module) in profile.modules.iter().enumerate() {
        let start = base(ModuleId(index as u32));
        writeln!(out, "{start:x}-{:x} r-xp 00000000 00:00 0 {}", start + SPAN, plain(&module.path))?;
    }
    Ok(())
}

fn base(module: ModuleId) -> u64 {
    SPAN.saturating_mul(u64::from(module.0 % (1 << 20)) + 1)
}

fn address(profile: &Profile, frame: FrameId) -> u64 {
    let Some(frame) = profile.frames.get(frame.0 as usize) else { return 0 };
    frame.module.map_or(frame.address, |module| base(module) + frame.address % SPAN)
}

#[cfg(test)]
mod tests {
    use super::write;
    use crate::read;
    use mallow_report::testing::parser;

    #[test]
    fn what_is_written_is_read_again() {
        let mut profile = parser();
        // As the profile of a watch: nothing but allocations and live blocks.
        profile.totals.frees = 0;
        let mut text = Vec::new();
        write(&profile, &mut text).expect("text");
        let again = read(&text[..], None, &mut |_| {}).expect("a heap profile").profile;
        assert_eq!(again.totals.allocations, profile.totals.allocations);
        assert_eq!(again.totals.allocated_bytes, profile.totals.allocated_bytes);
        assert_eq!((again.totals.live, again.totals.live_bytes), (profile.totals.live, profile.totals.live_bytes));
        let named = |profile: &mallow_profile::Profile| {
            let mut all: Vec<_> = profile
                .frames
                .iter()
                .flat_map(|frame| &frame.lines)
                .map(|line| (profile.strings.get(line.function).to_owned(), line.line))
                .collect();
            all.sort();
            all.dedup();
            all
        };
        assert_eq!(named(&again), named(&profile), "names that stand in it are read");
        let text = String::from_utf8(text).expect("UTF-8");
        assert!(text.starts_with("heap profile: "), "{text}");
        assert!(text.lines().any(|line| line.starts_with("#\t0x") && line.contains("parse")), "{text}");
    }

    #[test]
    fn names_cannot_end_a_line() {
        let mut profile = parser();
        for module in &mut profile.modules {
            module.path = "/tmp/a\nMAPPED_LIBRARIES:\n".to_owned();
        }
        let mut text = Vec::new();
        write(&profile, &mut text).expect("text");
        let text = String::from_utf8(text).expect("UTF-8");
        assert_eq!(text.lines().filter(|line| line.starts_with("MAPPED_LIBRARIES:")).count(), 1, "{text}");
    }
}
