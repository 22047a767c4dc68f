//! The records of a ring, as `preload/base/wire.h` lays them out: the one place on this side that knows their words.
//! Nothing here trusts a word.

use mallow_profile::FAMILIES;

/// `MALLOW_OP_PAD`
pub const OP_PAD: u64 = 1;
/// `MALLOW_OP_TIME`
pub const OP_TIME: u64 = 2;
/// `MALLOW_OP_THREAD`
pub const OP_THREAD: u64 = 3;
/// `MALLOW_OP_GENERATION`
pub const OP_GENERATION: u64 = 4;
/// `MALLOW_OP_LOST`
pub const OP_LOST: u64 = 5;
/// `MALLOW_OP_STACK`
pub const OP_STACK: u64 = 6;
/// `MALLOW_OP_FREE`
pub const OP_FREE: u64 = 7;
/// `MALLOW_OP_REALLOC_BEGIN`
pub const OP_REALLOC_BEGIN: u64 = 8;
/// `MALLOW_OP_REALLOC_DONE`
pub const OP_REALLOC_DONE: u64 = 9;
/// `MALLOW_OP_REALLOC_FREED`
pub const OP_REALLOC_FREED: u64 = 10;
/// `MALLOW_OP_REALLOC_FAILED`
pub const OP_REALLOC_FAILED: u64 = 11;
/// `MALLOW_OP_ORDER`
pub const OP_ORDER: u64 = 12;
/// `MALLOW_OP_REGION`
pub const OP_REGION: u64 = 13;
/// `MALLOW_OP_ALLOC`
pub const OP_ALLOC: u64 = 16;
const OP_ALLOC_LAST: u64 = OP_ALLOC + FAMILIES.len() as u64 - 1;

/// `MALLOW_FLAG_WIDE_SIZE`
pub const FLAG_WIDE_SIZE: u64 = 1;
/// `MALLOW_FLAG_REALLOCARRAY`
pub const FLAG_REALLOCARRAY: u64 = 2;
/// `MALLOW_FLAG_CUT`
pub const FLAG_CUT: u64 = super::FLAG_CUT as u64;
/// `MALLOW_FLAG_THIS_THREAD`
pub const FLAG_THIS_THREAD: u64 = 8;
/// `MALLOW_FLAG_AGAIN`
pub const FLAG_AGAIN: u64 = 32;
/// `MALLOW_FLAG_SAME`
pub const FLAG_SAME: u64 = 16;

const REALLOC: u8 = 2;
const REALLOCARRAY: u8 = 3;

const ARGUMENT: u64 = (1 << 48) - 1;
/// `MALLOW_STACK_BITS`
pub const STACK_BITS: u32 = 24;
/// Frames that one STACK record may bring.
const DEPTH_LIMIT: usize = super::DEPTH_LIMIT as usize;
/// Time stamps end here (35 years), so that sums of them cannot overflow.
const TIME_LIMIT: u64 = 1 << 40;
/// So do the moments of a process: 9e15 events.
const ORDER_LIMIT: u64 = 1 << 47;

/// A record, with the numbers that the target wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A block was allocated; `realloc`: it concludes a REALLOC_BEGIN.
    Alloc { address: u64, what: What, family: u8, realloc: bool },
    /// A block is about to be freed.
    Free { address: u64 },
    /// A block is about to be reallocated.
    ReallocBegin { address: u64 },
    /// The block of REALLOC_BEGIN was freed.
    ReallocFreed,
    /// The block of REALLOC_BEGIN is as before.
    ReallocFailed,
    /// Defines the next stack.
    Stack { keep: u32, pcs: &'a [u64], cut: bool },
    /// Milliseconds since the recording began.
    Time { ms: u64 },
    /// A moment of the process. `since`: so many words before, no other ring had a later moment; 0: not known.
    Order { number: u64, since: u32 },
    /// Who owns the ring.
    Thread { tid: u32, again: bool },
    /// Which modules count.
    Generation { generation: u32 },
    /// Events not written.
    Lost { events: u64 },
    /// A run of a measured region begins or ends.
    Region { number: u32, end: bool, this_thread: bool },
}

/// Size and stack of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// In one word, which later records of the ring may mean.
    Packed { size: u64, stack: u32 },
    /// In two words.
    Wide { size: u64, stack: u32 },
    /// Those of the last [`What::Packed`] of the ring.
    Same,
}

/// The record at the start of `words` and its length in words; None if it makes no sense or is not whole.
#[inline]
pub fn decode(words: &[u64]) -> Option<(Record<'_>, usize)> {
    let head = *words.first()?;
    let (op, flags, argument) = (head >> 56, head >> 48 & 0xff, head & ARGUMENT);
    let record = match op {
        OP_FREE if argument != 0 => Record::Free { address: argument },
        OP_ALLOC..=OP_ALLOC_LAST | OP_REALLOC_DONE if argument != 0 => {
            let realloc = op == OP_REALLOC_DONE;
            let family = match realloc {
                true if flags & FLAG_REALLOCARRAY != 0 => REALLOCARRAY,
                true => REALLOC,
                false => (op - OP_ALLOC) as u8,
            };
            if flags & (FLAG_SAME | FLAG_WIDE_SIZE) == FLAG_SAME {
                return Some((Record::Alloc { address: argument, what: What::Same, family, realloc }, 1));
            }
            let second = *words.get(1)?;
            if flags & FLAG_WIDE_SIZE != 0 {
                let stack = *words.get(2)?;
                // No address space holds a block of half its size.
                if second > ARGUMENT / 2 || stack >> STACK_BITS != 0 || flags & FLAG_SAME != 0 {
                    return None;
                }
                let what = What::Wide { size: second, stack: stack as u32 };
                return Some((Record::Alloc { address: argument, what, family, realloc }, 3));
            }
            let stack = (second & ((1 << STACK_BITS) - 1)) as u32;
            let what = What::Packed { size: second >> STACK_BITS, stack };
            return Some((Record::Alloc { address: argument, what, family, realloc }, 2));
        }
        OP_STACK => {
            let (keep, new) = ((argument >> 32) as u32, (argument & 0xffff) as usize);
            if keep as usize + new > DEPTH_LIMIT {
                return None;
            }
            let pcs = words.get(1..1 + new)?;
            return Some((Record::Stack { keep, pcs, cut: flags & FLAG_CUT != 0 }, 1 + new));
        }
        OP_TIME if argument < TIME_LIMIT => Record::Time { ms: argument },
        OP_ORDER if argument < ORDER_LIMIT => Record::Order { number: argument, since: flags as u32 },
        OP_THREAD => Record::Thread { tid: argument as u32, again: flags & FLAG_AGAIN != 0 },
        OP_GENERATION => Record::Generation { generation: argument as u32 },
        OP_LOST => Record::Lost { events: argument },
        OP_REGION => Record::Region {
            number: (argument >> 1) as u32,
            end: argument & 1 != 0,
            this_thread: flags & FLAG_THIS_THREAD != 0,
        },
        OP_REALLOC_BEGIN if argument != 0 => Record::ReallocBegin { address: argument },
        OP_REALLOC_FREED => Record::ReallocFreed,
        OP_REALLOC_FAILED => Record::ReallocFailed,
        _ => return None,
    };
    Some((record, 1))
}

/// The first word of a record.
pub const fn head(op: u64, flags: u64, argument: u64) -> u64 {
    op << 56 | flags << 48 | argument
}

/// Words of the record that begins with `head`, which need not be a sound one: [`decode`] finds that out. PAD, which
/// ends a lap, has no length of its own: 1.
pub fn length(head: u64) -> usize {
    let (op, flags) = (head >> 56, head >> 48 & 0xff);
    match op {
        OP_STACK => 1 + (head & 0xffff) as usize,
        _ if op == OP_REALLOC_DONE || op >= OP_ALLOC => {
            2 + usize::from(flags & FLAG_WIDE_SIZE != 0) - usize::from(flags & FLAG_SAME != 0)
        }
        _ => 1,
    }
}

/// A lap that could not hold the next record ends with a PAD record and unused words. Removes them from the `count`
/// words that begin at `from` and reach to the end of a lap, or not so far.
pub fn drop_pad(words: &mut Vec<u64>, from: usize, count: usize) {
    let end = (from + count).min(words.len());
    let mut at = from;
    while at < end {
        if words[at] >> 56 == OP_PAD {
            words.drain(at..end);
            return;
        }
        at += length(words[at]);
    }
}

/// How many of the words are whole records that make sense.
pub fn sound(words: &[u64]) -> usize {
    let mut at = 0;
    while let Some((_, length)) = decode(&words[at..]) {
        at += length;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value that `preload/base/wire.h` gives to a name.
    fn wire(name: &str) -> u64 {
        let text = include_str!("../../../../preload/base/wire.h");
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let value = |at: usize| {
            let value = text[at + name.len()..].trim_start_matches([' ', '=']);
            value[..value.find(|c: char| !c.is_ascii_digit())?].parse().ok()
        };
        let whole = |at: usize| text[at + name.len()..].starts_with(' ') && !text[..at].ends_with(is_name);
        let found = text.match_indices(name).filter(|(at, _)| whole(*at)).find_map(|(at, _)| value(at));
        found.unwrap_or_else(|| panic!("{name} is not in wire.h"))
    }

    #[test]
    fn numbers_are_those_of_the_wire() {
        for (name, value) in [
            ("MALLOW_OP_PAD", OP_PAD),
            ("MALLOW_OP_TIME", OP_TIME),
            ("MALLOW_OP_THREAD", OP_THREAD),
            ("MALLOW_OP_GENERATION", OP_GENERATION),
            ("MALLOW_OP_LOST", OP_LOST),
            ("MALLOW_OP_STACK", OP_STACK),
            ("MALLOW_OP_FREE", OP_FREE),
            ("MALLOW_OP_REALLOC_BEGIN", OP_REALLOC_BEGIN),
            ("MALLOW_OP_REALLOC_DONE", OP_REALLOC_DONE),
            ("MALLOW_OP_REALLOC_FREED", OP_REALLOC_FREED),
            ("MALLOW_OP_REALLOC_FAILED", OP_REALLOC_FAILED),
            ("MALLOW_OP_ORDER", OP_ORDER),
            ("MALLOW_OP_REGION", OP_REGION),
            ("MALLOW_OP_ALLOC", OP_ALLOC),
            ("MALLOW_FLAG_WIDE_SIZE", FLAG_WIDE_SIZE),
            ("MALLOW_FLAG_REALLOCARRAY", FLAG_REALLOCARRAY),
            ("MALLOW_FLAG_CUT", FLAG_CUT),
            ("MALLOW_FLAG_THIS_THREAD", FLAG_THIS_THREAD),
            ("MALLOW_FLAG_SAME", FLAG_SAME),
            ("MALLOW_FLAG_AGAIN", FLAG_AGAIN),
            ("MALLOW_STACK_BITS", u64::from(STACK_BITS)),
            ("MALLOW_DEPTH_LIMIT", DEPTH_LIMIT as u64),
        ] {
            assert_eq!(wire(name), value, "{name}");
        }
        assert_eq!((FAMILIES[usize::from(REALLOC)], FAMILIES[usize::from(REALLOCARRAY)]), ("realloc", "reallocarray"));
    }

    #[test]
    fn a_length_is_that_of_the_record() {
        for op in 0..=255 {
            for flags in 0..=31 {
                let words = [head(op, flags, 3), 1, 2, 3];
                if let Some((_, used)) = decode(&words) {
                    assert_eq!(length(words[0]), used, "op {op}, flags {flags}");
                }
            }
        }
    }

    #[test]
    fn nothing_is_read_past_the_end() {
        for op in 0..=255u64 {
            for flags in [0, FLAG_WIDE_SIZE, FLAG_SAME, FLAG_SAME | FLAG_WIDE_SIZE] {
                let words = [op << 56 | flags << 48 | 3, 1, 2];
                for length in 0..words.len() {
                    if let Some((_, used)) = decode(&words[..length]) {
                        assert!(0 < used && used <= length);
                    }
                }
            }
        }
    }
}
