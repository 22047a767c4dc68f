//! The independent counter, `targets/oracle.c`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Counts, ProcessCounts};

/// The library to preload; it writes to `ORACLE_DIR`.
pub fn oracle_library() -> PathBuf {
    crate::library("oracle", "oracle", &[])
}

/// What the oracle counted in every process image, by pid. Its layout is `struct counts` of `oracle.c`.
///
/// # Panics
/// When a file is not one of the oracle's.
pub fn oracle_counts(dir: &Path) -> Vec<ProcessCounts> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).expect("the oracle's directory").flatten() {
        let bytes = fs::read(entry.path()).expect("the oracle's file");
        assert_eq!(bytes.len(), 22 * 8, "{entry:?}");
        let words: Vec<u64> = bytes.chunks(8).map(|w| u64::from_le_bytes(w.try_into().expect("8 bytes"))).collect();
        let mut counts = Counts::default();
        for (family, name) in crate::counts::FAMILIES.iter().enumerate() {
            counts.families.insert((*name).into(), (words[family], words[9 + family]));
        }
        counts.allocations = words[..9].iter().sum();
        counts.allocated_bytes = words[9..18].iter().sum();
        counts.frees = words[18] + words[19];
        counts.reallocs_in_place = words[20];
        counts.reallocs_moved = words[21];
        let name = entry.file_name().into_string().expect("PID.N");
        let (pid, _) = name.split_once('.').expect("PID.N");
        all.push(ProcessCounts { pid: pid.parse().expect("a pid"), counts });
    }
    all.sort_by_key(|p| p.pid);
    all
}
