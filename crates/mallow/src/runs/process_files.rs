//! Files of `/proc` that say in which surroundings a process runs.

use std::io::Read;

/// More of a file of `/proc` is not read.
const MOST: u64 = 256 << 10;

/// A file of a process's directory. Empty if it cannot be read: the process has ended, or is another user's.
pub fn read(pid: u32, name: &str) -> Vec<u8> {
    read_path(&format!("/proc/{pid}/{name}"))
}

/// Content of a file in `/proc`, at most [`MOST`] bytes; empty where it cannot be read.
pub fn read_path(path: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(file) = std::fs::File::open(path) {
        // A process that ends meanwhile has nothing more to read.
        let _ = file.take(MOST).read_to_end(&mut bytes);
    }
    bytes
}
