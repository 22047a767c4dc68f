//! The dynamic linker's list of what it has loaded (`_r_debug` and `struct link_map` of `<link.h>`), in another
//! process.
//!
//! Reading the mappings of a process takes the lock that its page faults and calls of `mmap` need, for as long as they
//! are many. Whether this list is as it was, one system call says, without that lock in the common case.

use std::collections::HashSet;

use crate::memory::Memory;
use crate::module::Module;

/// Longer lists than this are not read.
const LONGEST: usize = 4096;
/// Pieces that the kernel reads at once (UIO_MAXIOV).
const AT_ONCE: usize = 1024;

/// The variable of the dynamic linker, and what of it is read: the first five fields, and `r_next` since version 2.
const VARIABLE: &str = "_r_debug";
const DEBUG_BYTES: usize = 40;
const VERSION_WITH_NEXT: u64 = 2;
/// The fields of `struct link_map` before `l_prev`.
const ENTRY_BYTES: usize = 32;

/// The list as it was when it was read. Entries are recognised by what the linker keeps in them; another library in the
/// place of one, with a list entry of the same contents, is not noticed.
#[derive(Debug)]
pub struct LoadList {
    pid: u32,
    /// Address of the linker's `_r_debug`.
    variable: u64,
    /// None: the list could not be read, or was about to change.
    pieces: Option<Vec<Piece>>,
}

#[derive(Debug)]
struct Piece {
    address: u64,
    bytes: Vec<u8>,
}

impl Piece {
    fn read(memory: &Memory, address: u64, length: usize) -> Option<Self> {
        let mut bytes = vec![0; length];
        memory.read(address, &mut bytes).ok()?;
        Some(Self { address, bytes })
    }

    fn word(&self, index: usize) -> u64 {
        self.bytes.as_chunks::<8>().0.get(index).map_or(0, |word| u64::from_le_bytes(*word))
    }
}

impl LoadList {
    /// The list of process `pid`, not read yet. None: its dynamic linker has none.
    pub fn of(pid: u32, modules: &[Module]) -> Option<Self> {
        let linker = modules.iter().find(|module| module.soname.starts_with("ld-linux"))?;
        Some(Self { pid, variable: linker.export(VARIABLE)?, pieces: None })
    }

    pub fn read(&mut self, memory: &Memory) {
        self.pieces = pieces(self.variable, memory);
    }

    /// Whether the process has the list that was read. False where it was never read, or cannot be read now.
    pub fn is_same(&self) -> bool {
        self.pieces.as_ref().is_some_and(|all| all.chunks(AT_ONCE).all(|pieces| self.has(pieces)))
    }

    fn has(&self, pieces: &[Piece]) -> bool {
        let before: Vec<u8> = pieces.iter().flat_map(|piece| &piece.bytes).copied().collect();
        let mut now = vec![0_u8; before.len()];
        let here = libc::iovec { iov_base: now.as_mut_ptr().cast(), iov_len: now.len() };
        let there = |piece: &Piece| libc::iovec {
            iov_base: std::ptr::without_provenance_mut(piece.address as usize),
            iov_len: piece.bytes.len(),
        };
        let there: Vec<libc::iovec> = pieces.iter().map(there).collect();
        let (pid, count) = (self.pid as libc::pid_t, there.len() as libc::c_ulong);
        // SAFETY: the vectors and the buffer live until the call returns; the other addresses are those of another
        // process.
        let read = unsafe { libc::process_vm_readv(pid, &here, 1, there.as_ptr(), count, 0) };
        usize::try_from(read) == Ok(before.len()) && now == before
    }
}

/// The variable, and the lists that it leads to: one for each name space of libraries.
fn pieces(variable: u64, memory: &Memory) -> Option<Vec<Piece>> {
    let (mut pieces, mut seen) = (Vec::new(), HashSet::new());
    let mut debug = variable;
    while debug != 0 && seen.insert(debug) && pieces.len() < LONGEST {
        let mut piece = Piece::read(memory, debug, DEBUG_BYTES)?;
        let has_next = piece.word(0) & 0xffff_ffff >= VERSION_WITH_NEXT;
        if has_next {
            piece = Piece::read(memory, debug, DEBUG_BYTES + 8)?;
        }
        // RT_CONSISTENT
        if piece.word(3) & 0xffff_ffff != 0 {
            return None;
        }
        let mut entry = piece.word(1);
        debug = if has_next { piece.word(5) } else { 0 };
        pieces.push(piece);
        while entry != 0 {
            if !seen.insert(entry) || pieces.len() >= LONGEST {
                return None;
            }
            let piece = Piece::read(memory, entry, ENTRY_BYTES)?;
            entry = piece.word(3);
            pieces.push(piece);
        }
    }
    (debug == 0).then_some(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::Maps;
    use crate::process::Process;

    fn of_this_process() -> (LoadList, Memory) {
        let process = Process::read(std::process::id()).unwrap();
        let (modules, _) = Module::all(&process, &Maps::read(process.pid).unwrap());
        (LoadList::of(process.pid, &modules).unwrap(), Memory::open(process.pid).unwrap())
    }

    /// `struct r_debug` and two entries, in this process.
    fn invent(words: &mut [u64; 16]) -> LoadList {
        let at = words.as_ptr() as u64;
        // Version 1, first entry, breakpoint, state, base; then the entries: base, name, dynamic section, next.
        *words = [1, at + 64, 0, 0, 0, 7, 7, 7, 0x1000, 1, 2, at + 96, 0x2000, 3, 4, 0];
        std::hint::black_box(words);
        LoadList { pid: std::process::id(), variable: at, pieces: None }
    }

    #[test]
    fn the_list_of_this_process_is_read_and_stays_the_same() {
        let (mut list, memory) = of_this_process();
        assert!(!list.is_same(), "not read yet");
        list.read(&memory);
        assert!(list.pieces.as_ref().unwrap().len() > 3, "the variable, the program, libraries");
        assert!(list.is_same());
    }

    #[test]
    fn each_change_is_noticed() {
        let (_, memory) = of_this_process();
        let mut words = [0; 16];
        for changed in [1, 3, 8, 10, 11, 12, 15] {
            let mut list = invent(&mut words);
            list.read(&memory);
            assert!(list.pieces.as_ref().unwrap().len() == 3 && list.is_same());
            words[changed] += 1;
            std::hint::black_box(&mut words);
            assert!(!list.is_same(), "word {changed}");
        }
    }

    #[test]
    fn hostile_lists_have_an_end() {
        let (_, memory) = of_this_process();
        let mut words = [0; 16];
        let mut list = invent(&mut words);
        let at = list.variable;
        let mut is_read = |word: usize, value: u64| {
            invent(&mut words);
            words[word] = value;
            std::hint::black_box(&mut words);
            list.read(&memory);
            list.is_same()
        };
        assert!(is_read(0, 1));
        assert!(!is_read(15, at + 64), "a circle");
        assert!(!is_read(15, 8), "leads to no memory");
        assert!(!is_read(3, 1), "being changed");
        list.pid = u32::MAX >> 1;
        assert!(!list.is_same(), "no such process");
    }
}
