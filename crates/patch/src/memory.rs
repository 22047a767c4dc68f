//! The memory of another process, through `/proc/PID/mem`.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

/// Memory of a process. Stays that of the image that it was opened for: after an exec it reads and writes nothing.
#[derive(Debug)]
pub struct Memory(File);

impl Memory {
    /// Opens the memory of process `pid` for reading. The kernel asks for what attaching needs, the right to ptrace it,
    /// and changes nothing.
    pub fn open(pid: u32) -> io::Result<Self> {
        File::open(format!("/proc/{pid}/mem")).map(Self)
    }

    /// Opens the memory of process `pid` for reading and writing. Writes reach read-only mappings, too; a private
    /// mapping of a file gets a copy of the page.
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

/// Bytes that are read at once: frames of a stack lie close together, and each request takes the process's memory lock.
const WINDOW: usize = 2 << 10;

/// Bytes of a window that lie before the address that was asked for: registers of one frame are not saved in the order
/// of their numbers.
const BEFORE: u64 = 128;

/// Memory of a process in which nothing changes meanwhile, read in large pieces.
#[derive(Debug)]
pub(crate) struct Window<'a> {
    memory: &'a Memory,
    /// Address of the piece that was read last, and its bytes.
    piece: RefCell<(u64, Vec<u8>)>,
}

impl<'a> Window<'a> {
    /// An empty window: nothing is read before it is asked for.
    pub(crate) fn new(memory: &'a Memory) -> Self {
        Self { memory, piece: RefCell::new((0, Vec::new())) }
    }

    /// The word at `address`. None: it cannot be read.
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes).map(|()| u64::from_le_bytes(bytes))
    }

    /// Fills `bytes` from `address` on. None: they cannot be read.
    pub(crate) fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        let mut piece = self.piece.borrow_mut();
        if !copy_from(&piece, address, bytes) {
            let start = address.saturating_sub(BEFORE);
            *piece = (start, self.memory.read_up_to(start, WINDOW));
            if !copy_from(&piece, address, bytes) {
                // It may be the first page of a mapping, or the last one.
                self.memory.read(address, bytes).ok()?;
            }
        }
        Some(())
    }
}

fn copy_from((start, piece): &(u64, Vec<u8>), address: u64, bytes: &mut [u8]) -> bool {
    let at = address.checked_sub(*start).and_then(|at| usize::try_from(at).ok());
    let found = at.and_then(|at| piece.get(at..at.checked_add(bytes.len())?));
    found.map(|found| bytes.copy_from_slice(found)).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_the_words_of_memory_in_any_order() {
        let words: Vec<u64> = (1..=2000).collect();
        let start = words.as_ptr() as u64;
        let memory = Memory::open(std::process::id()).unwrap();
        let window = Window::new(&memory);
        // Forwards, backwards, and far apart.
        for word in (0..2000).chain((0..2000).rev()).chain((0..2000).map(|n| n * 677 % 2000)) {
            assert_eq!(window.word(start + 8 * word), Some(word + 1));
        }
        let mut half = [0; 4];
        assert_eq!(window.read(start + 4, &mut half), Some(()));
        assert_eq!(half, [0; 4]);
        assert_eq!((window.word(8), window.word(u64::MAX), window.word(u64::MAX - 4)), (None, None, None));
        assert_eq!(window.word(start), Some(1), "a failed read loses nothing");
    }

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
