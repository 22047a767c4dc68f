//! Snapshots: pprof files in a directory, fewer of them the older they are.
//!
//! All of the last hour stay, the first of each hour of the last day, and the first of each day of the last month.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use mallow_formats::pprof;
use mallow_profile::Profile;

use crate::output::text::utc::date;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
const MONTH: u64 = 31 * DAY;

#[derive(Debug)]
pub struct Snapshots {
    directory: PathBuf,
}

impl Snapshots {
    /// Makes the directory where it is not there. It is private, as what a heap holds may be.
    pub fn open(directory: &Path) -> Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.with_context(|| format!("cannot make {} for snapshots", directory.display()))?;
        Ok(Self { directory: directory.to_owned() })
    }

    /// Writes a snapshot under a name that holds its time, all of it or nothing, and removes those that are too many.
    pub fn write(&self, profile: &Profile, unix_s: u64) -> Result<PathBuf> {
        let path = self.put(&name(unix_s), |out| pprof::write(profile, out))?;
        self.thin(unix_s)?;
        Ok(path)
    }

    /// Writes a snapshot that is never removed, and a report beside it in a file of this kind.
    pub fn save(&self, profile: &Profile, report: &str, kind: &str, unix_s: u64) -> Result<[PathBuf; 2]> {
        let stem = format!("saved-{}", stamp(unix_s));
        let report = self.put(&format!("{stem}.{kind}"), |out| out.write_all(report.as_bytes()))?;
        let profile = self.put(&format!("{stem}.pb.gz"), |out| pprof::write(profile, out))?;
        Ok([profile, report])
    }

    /// A file that is whole or not there.
    fn put(&self, name: &str, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<PathBuf> {
        let path = self.directory.join(name);
        let written = || -> io::Result<()> {
            let mut file = tempfile::Builder::new().prefix(".heap-").tempfile_in(&self.directory)?;
            let mut out = BufWriter::new(&mut file);
            write(&mut out)?;
            out.flush()?;
            drop(out);
            file.as_file().sync_all()?;
            file.persist(&path).map_err(|error| error.error)?;
            Ok(())
        };
        written().with_context(|| format!("cannot write the snapshot {}", path.display()))?;
        Ok(path)
    }

    fn thin(&self, now: u64) -> Result<()> {
        let entries =
            fs::read_dir(&self.directory).with_context(|| format!("cannot read {}", self.directory.display()))?;
        let mut times: Vec<u64> = entries.flatten().filter_map(|entry| time(entry.file_name().to_str()?)).collect();
        times.sort_unstable();
        for old in too_many(&times, now) {
            // Somebody else may have removed it.
            let _ = fs::remove_file(self.directory.join(name(old)));
        }
        Ok(())
    }
}

/// Times, the oldest first, that have one before them that stands for them.
fn too_many(times: &[u64], now: u64) -> Vec<u64> {
    let mut last = None;
    let mut gone = Vec::new();
    for &time in times {
        let age = now.saturating_sub(time);
        if age > MONTH {
            gone.push(time);
            continue;
        }
        let span = if age > DAY { DAY } else { HOUR };
        let within = (span, time / span);
        if age > HOUR && last == Some(within) {
            gone.push(time);
        }
        last = (age > HOUR).then_some(within);
    }
    gone
}

/// The file name `heap-20261121T174803Z.pb.gz`.
fn name(unix_s: u64) -> String {
    format!("heap-{}.pb.gz", stamp(unix_s))
}

/// The time as `20261121T174803Z`.
fn stamp(unix_s: u64) -> String {
    let (days, seconds) = (unix_s / DAY, unix_s % DAY);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (seconds / HOUR, seconds / 60 % 60, seconds % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// The time of a snapshot's name; None for any other name.
fn time(file: &str) -> Option<u64> {
    let stamp = file.strip_prefix("heap-")?.strip_suffix("Z.pb.gz")?;
    let (day, clock) = stamp.split_once('T')?;
    if day.len() != 8 || clock.len() != 6 || !stamp.is_ascii() {
        return None;
    }
    let part = |text: &str, from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    let (year, month, date_day) = (part(day, 0, 4)?, part(day, 4, 6)?, part(day, 6, 8)?);
    // A day of a year is near the first one of that year: look there.
    let first = (year.checked_sub(1970)?) * 365;
    let days = (first..first + 366 + 200).find(|&days| date(days) == (year, month, date_day))?;
    let seconds = part(clock, 0, 2)? * HOUR + part(clock, 2, 4)? * 60 + part(clock, 4, 6)?;
    let unix_s = days * DAY + seconds;
    // What is written differently is not ours.
    (name(unix_s) == file).then_some(unix_s)
}

#[cfg(test)]
mod tests {
    use mallow_profile::Profile;

    use super::{DAY, HOUR, Snapshots, name, time, too_many};

    #[test]
    fn names_hold_the_time_and_nothing_else_is_a_name() {
        assert_eq!(name(0), "heap-19700101T000000Z.pb.gz");
        assert_eq!(name(1_795_283_283), "heap-20261121T174803Z.pb.gz");
        for seconds in [0, 951_782_400, 951_868_799, 1_795_283_283, 4_102_444_799, 4_107_542_400] {
            assert_eq!(time(&name(seconds)), Some(seconds));
        }
        for other in [
            "heap.pb.gz",
            "heap-20261321T174803Z.pb.gz",
            "heap-20260230T000000Z.pb.gz",
            "heap-20261121T250000Z.pb.gz",
            "x",
            "heap-2026é121T17480Z.pb.gz",
        ] {
            assert_eq!(time(other), None, "{other}");
        }
    }

    /// As a mallow does it that reports every ten minutes for forty days.
    #[test]
    fn old_snapshots_are_thinned() {
        let start = 1_795_219_200;
        let mut kept: Vec<u64> = Vec::new();
        for step in 0..40 * 144 {
            let now = start + step * 600;
            kept.push(now);
            let gone = too_many(&kept, now);
            kept.retain(|time| !gone.contains(time));
        }
        let now = start + (40 * 144 - 1) * 600;
        let aged = |from: u64, to: u64| kept.iter().filter(|&&time| (from..to).contains(&(now - time))).count();
        assert_eq!(aged(0, HOUR), 6);
        assert_eq!(aged(HOUR + 600, DAY), 23);
        assert!((29..=31).contains(&aged(DAY + HOUR, 31 * DAY)), "{}", aged(DAY + HOUR, 31 * DAY));
        assert_eq!(aged(31 * DAY + 1, u64::MAX), 0);
    }

    #[test]
    fn a_snapshot_is_whole_and_other_files_stay() {
        let place = tempfile::tempdir().expect("a directory");
        let directory = place.path().join("a/b");
        let snapshots = Snapshots::open(&directory).expect("a directory");
        std::fs::write(directory.join("mine.txt"), "x").expect("a file");
        let first = snapshots.write(&Profile::default(), 1_795_283_283).expect("a snapshot");
        assert!(first.is_file());
        snapshots.write(&Profile::default(), 1_795_283_283 + 40 * DAY).expect("a snapshot");
        let mut names: Vec<_> =
            std::fs::read_dir(&directory).expect("a directory").flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        assert_eq!(names, ["heap-20261231T174803Z.pb.gz", "mine.txt"]);
    }
}
