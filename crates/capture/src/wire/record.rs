//! The records of a ring, as `preload/base/wire.h` lays them out: the one place on this side that knows their words.
//! Nothing here trusts a word.

use mallow_profile::FAMILIES;

pub const OP_PAD: u64 = 1;
pub const OP_TIME: u64 = 2;
pub const OP_THREAD: u64 = 3;
pub const OP_GENERATION: u64 = 4;
pub const OP_LOST: u64 = 5;
pub const OP_STACK: u64 = 6;
pub const OP_FREE: u64 = 7;
pub const OP_REALLOC_BEGIN: u64 = 8;
pub const OP_REALLOC_DONE: u64 = 9;
pub const OP_REALLOC_FREED: u64 = 10;
pub const OP_REALLOC_FAILED: u64 = 11;
pub const OP_ORDER: u64 = 12;
pub const OP_REGION: u64 = 13;
pub const OP_ALLOC: u64 = 16;
const OP_ALLOC_LAST: u64 = OP_ALLOC + FAMILIES.len() as u64 - 1;

pub const FLAG_WIDE_SIZE: u64 = 1;
pub const FLAG_REALLOCARRAY: u64 = 2;
pub const FLAG_CUT: u64 = super::FLAG_CUT as u64;
pub const FLAG_THIS_THREAD: u64 = 8;
pub const FLAG_AGAIN: u64 = 32;
pub const FLAG_SAME: u64 = 16;

const REALLOC: u8 = 2;
const REALLOCARRAY: u8 = 3;

const ARGUMENT: u64 = (1 << 48) - 1;
pub const STACK_BITS: u32 = 24;
const DEPTH_LIMIT: usize = super::DEPTH_LIMIT as usize;
/// Time stamps of 35 years or more are damage: sums of smaller ones cannot overflow.
const TIME_LIMIT: u64 = 1 << 40;
/// ORDER numbers end here (9e15 events), so that sums of them cannot overflow.
const ORDER_LIMIT: u64 = 1 << 47;

/// A record, with the numbers that the target wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// `realloc`: this ends the ring's last REALLOC_BEGIN; `family` is an index of `FAMILIES`.
    Alloc { address: u64, what: What, family: u8, realloc: bool },
    /// Written before the block is freed.
    Free { address: u64 },
    /// Written before the call; the ring goes on with `Alloc { realloc: true, .. }`, `ReallocFreed` or `ReallocFailed`.
    ReallocBegin { address: u64 },
    /// `realloc(p, 0)` returned NULL: the block of `ReallocBegin` is free.
    ReallocFreed,
    /// The reallocation failed: the block of `ReallocBegin` is as before.
    ReallocFailed,
    /// Defines the ring's next stack number: the `keep` frames nearest to the root of the stack that the ring had last,
    /// then `pcs`, the one nearest to the root first. `cut`: frames nearer to the root are missing.
    Stack { keep: u32, pcs: &'a [u64], cut: bool },
    /// Milliseconds since the recording began.
    Time { ms: u64 },
    /// Moment `number` of the process, as `wire.h` defines ORDER. `since`: words of this ring before the record at
    /// which no other ring had a later number yet; 0: not known.
    Order { number: u64, since: u32 },
    /// Thread `tid` owns the ring from here on; `again`: it has given a ring back before.
    Thread { tid: u32, again: bool },
    /// Addresses in later STACK records belong to the modules of this generation; stack numbers begin again at 0.
    Generation { generation: u32 },
    /// So many events of this ring were not written here.
    Lost { events: u64 },
    /// Run `number` of a measured region begins or ends here; `this_thread`: for this ring alone, else for all rings.
    Region { number: u32, end: bool, this_thread: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Size and stack that fit into one word; later records of the ring may mean them by `Same`.
    Packed { size: u64, stack: u32 },
    /// Size or stack that one word has no room for.
    Wide { size: u64, stack: u32 },
    /// Size and stack of the ring's last [`What::Packed`].
    Same,
}

/// The record at the start of `words`, and its length in words; None if it makes no sense or is not whole.
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

/// The first word of a record, for flags below 256 and an argument below 2^48.
pub const fn head(op: u64, flags: u64, argument: u64) -> u64 {
    op << 56 | flags << 48 | argument
}

/// Words of the record that begins with `head`, sound or not; 1 for a PAD, which has no length of its own.
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

/// Takes the PAD record and the unused words behind it out of the `count` words from `from` on. These must begin with a
/// record and not reach past the end of a lap of the ring.
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

/// How many words, from the first on, are whole records that make sense.
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
