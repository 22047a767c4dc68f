//! The memory of another process, through `/proc/PID/mem`.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

/// Memory of a process. Stays that of the image that it was opened for: after an exec it reads and writes nothing.
#[derive(Debug)]
pub struct Memory(File);

impl Memory {
    /// For reading. Opening asks the kernel what attaching asks it: whether ptrace would be allowed. It changes nothing.
    pub fn open(pid: u32) -> io::Result<Self> {
        File::open(format!("/proc/{pid}/mem")).map(Self)
    }

    /// For reading and writing. Writes reach read-only mappings, too; a private mapping of a file gets a copy of the page.
    pub fn open_writable(pid: u32) -> io::Result<Self> {
        OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem")).map(Self)
    }

    /// Fills `bytes` from `address` on.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(bytes, address)
    }

    /// `length` bytes from `address` on, or as many of them as can be read.
    pub fn read_up_to(&self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let mut done = 0;
        while done < length {
            match self.0.read_at(&mut bytes[done..], address.saturating_add(done as u64)) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        bytes.truncate(done);
        bytes
    }

    /// Writes `bytes` at `address`. The caller has stopped every thread that could execute them.
    pub fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_and_written() {
        let target = [1_u8, 2, 3, 4];
        let address = target.as_ptr() as u64;
        let memory = Memory::open_writable(std::process::id()).unwrap();
        let mut bytes = [0; 4];
        memory.read(address, &mut bytes).unwrap();
        assert_eq!(bytes, target);
        memory.write(address, &[9, 8, 7, 6]).unwrap();
        assert_eq!(memory.read_up_to(address, 4), [9, 8, 7, 6]);
        assert!(memory.read(8, &mut bytes).is_err());
        assert_eq!(memory.read_up_to(8, 4), []);
    }
}
