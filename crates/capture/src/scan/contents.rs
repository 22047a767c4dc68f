//! What a block holds, as far as its words show it.

use mallow_proc::Mapping;
use mallow_profile::LostKind;

/// The head of an object whose references are counted: its type and its count, or two counts.
pub const OBJECT_HEAD: u64 = 16;
/// Words from the beginning of a block that are looked at.
pub const WORDS: usize = 7;
/// CPython 3.12 and later, on 64 bits: what precedes the characters of a string, of ASCII and of others.
const ASCII: u64 = 40;
const COMPACT: u64 = 56;
/// What the debug hooks of CPython's allocator put before an object, and around it at the most
/// (`PYTHONMALLOC=malloc_debug`).
const DEBUG_HEAD: usize = 2;
const DEBUG_BYTES: u64 = 32;

/// What was seen of a block, word by word.
#[derive(Clone, Copy, Debug, Default)]
pub struct Contents {
    address: u64,
    /// Bytes as requested.
    size: u64,
    first: [u64; WORDS],
    refers_to_itself: bool,
}

impl Contents {
    pub fn of(address: u64, size: u64) -> Self {
        Self { address, size, ..Self::default() }
    }

    /// Takes the word at address `at` of the block.
    #[inline]
    pub fn add(&mut self, at: u64, word: u64) {
        let offset = at - self.address;
        self.refers_to_itself |= word == self.address && offset >= OBJECT_HEAD;
        if let Some(first) = self.first.get_mut((offset / 8) as usize) {
            *first = word;
        }
    }

    /// Whether the block is an object that refers to itself: it has a pointer to its own start behind its head. A C
    /// list whose links come first has it in its head, where it is empty. GCC keeps the address of a coroutine's frame
    /// in the frame.
    pub fn refers_to_itself(&self, mappings: &[Mapping]) -> bool {
        self.refers_to_itself && !self.is_coroutine(mappings)
    }

    pub fn kind(&self, mappings: &[Mapping]) -> LostKind {
        match self.is_immortal_string(0, mappings) || self.is_immortal_string(DEBUG_HEAD, mappings) {
            true => LostKind::ImmortalString,
            false => LostKind::Other,
        }
    }

    /// Whether the first words are those of the frame of a C++ coroutine: how it is resumed, unless it is over, and how
    /// it is destroyed.
    fn is_coroutine(&self, mappings: &[Mapping]) -> bool {
        let [resume, destroy, ..] = self.first;
        let is_code = |address| is_in_file(address, mappings, |mapping| mapping.executable);
        is_code(destroy) && (resume == 0 || is_code(resume))
    }

    /// Whether an immortal string of CPython 3.12 or later begins at a word: a count of references below 0 as a number
    /// of 32 bits, a type in a file's data, and just the size that a compact string of its length and its kind has.
    fn is_immortal_string(&self, at: usize, mappings: &[Mapping]) -> bool {
        let Some(&[count, of_type, length, _hash, state]) = self.first.get(at..at + 5) else { return false };
        let (bytes, is_compact, is_ascii) = (state >> 2 & 7, state >> 5 & 1 == 1, state >> 6 & 1 == 1);
        let characters = length.checked_add(1).and_then(|length| length.checked_mul(bytes));
        let size = characters.and_then(|characters| characters.checked_add(if is_ascii { ASCII } else { COMPACT }));
        let hooks = if at == 0 { 0..=0 } else { 1..=DEBUG_BYTES };
        (count as u32 as i32) < 0
            && is_compact
            && matches!((bytes, is_ascii), (1, _) | (2 | 4, false))
            && size.and_then(|size| self.size.checked_sub(size)).is_some_and(|more| hooks.contains(&more))
            && is_in_file(of_type, mappings, |mapping| mapping.is_data())
    }
}

/// Whether an address lies in a mapping of a file that has this property.
fn is_in_file(address: u64, mappings: &[Mapping], has: impl Fn(&Mapping) -> bool) -> bool {
    let after = mappings.partition_point(|mapping| mapping.start <= address);
    let mapping = after.checked_sub(1).and_then(|at| mappings.get(at));
    mapping.is_some_and(|mapping| address < mapping.end && !mapping.is_anonymous() && has(mapping))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: u64 = 0x7000_0800;
    const START: u64 = 0x10_0000;
    /// State words of 3.12 to 3.14: interned, a kind, compact, ASCII.
    const ASCII_STATE: u64 = 0b110_0110;
    const WIDE_STATE: u64 = 0b010_1010;

    fn kind(size: u64, words: &[u64]) -> LostKind {
        let data =
            Mapping { start: 0x7000_0000, end: 0x7000_1000, readable: true, writable: true, ..Mapping::default() };
        let data = Mapping { path: "/usr/lib/libpython3.12.so.1.0".to_owned(), ..data };
        let mut contents = Contents::of(START, size);
        for (at, word) in (START..).step_by(8).zip(words) {
            contents.add(at, *word);
        }
        contents.kind(&[data])
    }

    #[test]
    fn immortal_strings_of_cpython_are_known_by_their_heads() {
        let immortal = [0xffff_ffff, TYPE, 9, 0x1234, ASCII_STATE, 0x6c6c_6163, 0];
        for (size, count, expected) in [
            (50, 0xffff_ffff, LostKind::ImmortalString),
            // 3.14: flags above a count of 3 << 30.
            (50, 0x0004_0000_c000_0001, LostKind::ImmortalString),
            (50, 1, LostKind::Other),
            // Another size, and one of the debug hooks' without their head.
            (49, 0xffff_ffff, LostKind::Other),
            (74, 0xffff_ffff, LostKind::Other),
        ] {
            let mut words = immortal;
            words[0] = count;
            assert_eq!(kind(size, &words), expected, "{size} {count:#x}");
        }
        // Two bytes a character.
        assert_eq!(kind(56 + 2 * 10, &[0xffff_ffff, TYPE, 9, 7, WIDE_STATE]), LostKind::ImmortalString);
        // A type that is in no file, a length that no block has, and a block that ends before its state.
        assert_eq!(kind(50, &[0xffff_ffff, START, 9, 0, ASCII_STATE]), LostKind::Other);
        assert_eq!(kind(50, &[0xffff_ffff, TYPE, u64::MAX, 0, ASCII_STATE]), LostKind::Other);
        assert_eq!(kind(50, &[0xffff_ffff, TYPE, u64::MAX / 2, 0, WIDE_STATE]), LostKind::Other);
        assert_eq!(kind(16, &[0xffff_ffff, TYPE]), LostKind::Other);
        let hooked = [&[50 << 56, 0xfdfd_fdfd_fdfd_fd6f][..], &immortal[..5]].concat();
        assert_eq!(kind(74, &hooked), LostKind::ImmortalString);
    }
}
