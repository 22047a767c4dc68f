//! What measured regions wrote into the run directory.

use crate::wire::result as wire;
use mallow_profile::Region;
use std::path::Path;

/// A record of a target: a run of a region, or a proof that counting works.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionResult {
    pub kind: Kind,
    /// Process that wrote the record, in its own namespace.
    pub pid: u32,
    /// Thread that wrote the record, in its own namespace.
    pub tid: u32,
    /// Name of the region, at most 127 bytes.
    pub name: String,
    /// Number of the run among those of its kind in one call of `mallow_measure`.
    pub run: u32,
    /// Number of the run among those of all processes, from 1: a beginning and its end have the same one.
    pub number: u32,
    /// Operations performed; 0: not known.
    pub operations: u64,
    pub allocations: u64,
    /// Bytes of `allocations`, as requested.
    pub allocated_bytes: u64,
    pub frees: u64,
    pub reallocs_in_place: u64,
    pub reallocs_moved: u64,
    /// Calls that could not be counted.
    pub unrecorded: u64,
    /// File descriptors that were opened and stayed open, less those closed; None where that is not known.
    pub leaked_fds: Option<i64>,
    /// The record counts the calling thread alone.
    pub this_thread: bool,
    /// Other threads still allocated when the wait for quiet was given up.
    pub restless: bool,
    /// The region's name was longer than `name`.
    pub name_cut: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A run began. Without a record of its end it never ended.
    #[default]
    Begun,
    /// A run before the measured ones.
    Warmup,
    Measured,
    /// The known calls of a process image's start: [`RegionResult::proves_counting`] says what must be in it.
    Check,
    /// The calls of `Check` with one allocation, one byte and one free more.
    Planted,
}

impl RegionResult {
    /// Whether a record of [`Kind::Check`] or [`Kind::Planted`] counted exactly what was called.
    pub fn proves_counting(&self) -> bool {
        let more = u64::from(self.kind == Kind::Planted);
        let calls = wire::CHECK_ALLOCATIONS + more;
        (self.allocations, self.allocated_bytes, self.frees, self.unrecorded)
            == (calls, wire::CHECK_BYTES + more, calls, 0)
    }
}

/// The records of a run directory. A target may have written anything: what is no record is passed over.
pub fn read(directory: &Path) -> Vec<RegionResult> {
    // A file of our own directory that a target appended to; a huge one is cut, which a missing end then shows.
    const MOST: u64 = 256 << 20;
    let bytes = super::directory::read_file(&directory.join("results"), MOST).unwrap_or_default();
    bytes.chunks_exact(wire::BYTES).filter_map(parse).collect()
}

/// The runs that ended.
pub fn regions(directory: &Path) -> Vec<Region> {
    read(directory)
        .into_iter()
        .filter(|result| matches!(result.kind, Kind::Warmup | Kind::Measured))
        .map(|result| Region {
            number: result.number,
            name: result.name,
            run: result.run,
            warmup: result.kind == Kind::Warmup,
            operations: result.operations,
        })
        .collect()
}

fn parse(record: &[u8]) -> Option<RegionResult> {
    let u32_at = |at: usize| record[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
    let u64_at = |at: usize| record[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
    if u32_at(wire::MAGIC) != wire::MAGIC_VALUE {
        return None;
    }
    let kind = match u32_at(wire::KIND) {
        wire::BEGUN => Kind::Begun,
        wire::WARMUP => Kind::Warmup,
        wire::MEASURED => Kind::Measured,
        wire::CHECK => Kind::Check,
        wire::PLANTED => Kind::Planted,
        _ => return None,
    };
    let descriptors = [wire::DESCRIPTORS_BEFORE, wire::DESCRIPTORS_AFTER].map(|at| i64::from(u32_at(at) as i32));
    let flags = u32_at(wire::FLAGS);
    let name = &record[wire::NAME..];
    let name = &name[..(u32_at(wire::NAME_LEN) as usize).min(name.len())];
    Some(RegionResult {
        kind,
        pid: u32_at(wire::PID),
        tid: u32_at(wire::TID),
        name: String::from_utf8_lossy(name).into_owned(),
        run: u32_at(wire::RUN),
        number: u32_at(wire::NUMBER),
        operations: u64_at(wire::OPERATIONS),
        allocations: u64_at(wire::ALLOCATIONS),
        allocated_bytes: u64_at(wire::ALLOCATED_BYTES),
        frees: u64_at(wire::FREES),
        reallocs_in_place: u64_at(wire::REALLOCS_IN_PLACE),
        reallocs_moved: u64_at(wire::REALLOCS_MOVED),
        unrecorded: u64_at(wire::UNRECORDED),
        leaked_fds: descriptors.iter().all(|&n| n >= 0).then(|| descriptors[1] - descriptors[0]),
        this_thread: flags & wire::THIS_THREAD != 0,
        restless: flags & wire::RESTLESS != 0,
        name_cut: flags & wire::NAME_CUT != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = vec![0; wire::BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(wire::MAGIC, &wire::MAGIC_VALUE.to_le_bytes());
        put(wire::KIND, &wire::MEASURED.to_le_bytes());
        put(wire::FLAGS, &wire::RESTLESS.to_le_bytes());
        put(wire::NAME_LEN, &5u32.to_le_bytes());
        put(wire::NAME, b"parse!");
        put(wire::ALLOCATIONS, &7u64.to_le_bytes());
        put(wire::DESCRIPTORS_BEFORE, &3i32.to_le_bytes());
        put(wire::DESCRIPTORS_AFTER, &5i32.to_le_bytes());
        change(&mut bytes);
        bytes
    }

    fn read_back(bytes: &[u8]) -> Vec<RegionResult> {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("results"), bytes).expect("a file");
        read(directory.path())
    }

    #[test]
    fn a_record_is_read() {
        let expected = RegionResult {
            kind: Kind::Measured,
            name: "parse".into(),
            allocations: 7,
            leaked_fds: Some(2),
            restless: true,
            ..RegionResult::default()
        };
        assert_eq!(read_back(&record(|_| ())), [expected]);
    }

    #[test]
    fn what_is_no_record_is_passed_over() {
        let mut bytes = record(|b| b[wire::MAGIC] = 0);
        bytes.extend(record(|b| b[wire::KIND] = 99));
        bytes.extend(record(|b| b[wire::NAME_LEN..wire::NAME_LEN + 4].fill(0xff)));
        bytes.extend(record(|b| b[wire::DESCRIPTORS_AFTER..wire::DESCRIPTORS_AFTER + 4].fill(0xff)));
        bytes.extend(&record(|_| ())[..100]);
        let read = read_back(&bytes);
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].name.len(), read[1].leaked_fds), (128, None));
        assert_eq!(super::read(std::path::Path::new("/nowhere")), []);
    }

    #[test]
    fn a_proof_is_exact() {
        let proof = |kind, allocations| RegionResult {
            kind,
            allocations,
            allocated_bytes: wire::CHECK_BYTES + (allocations - wire::CHECK_ALLOCATIONS),
            frees: allocations,
            ..RegionResult::default()
        };
        assert!(proof(Kind::Check, 4).proves_counting() && proof(Kind::Planted, 5).proves_counting());
        assert!(!proof(Kind::Check, 5).proves_counting() && !proof(Kind::Planted, 4).proves_counting());
    }
}
