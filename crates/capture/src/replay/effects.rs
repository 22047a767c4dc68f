//! What the records of a ring touch: addresses, times, stamps.

use super::ring::Ring;
use crate::wire::record::{Record, decode};

/// What a record means for the order of rings.
pub enum Effect {
    /// Mallow's clock moved since the record before.
    Pause,
    /// An event at no address.
    Nothing,
    /// A region of all threads begins or ends.
    Region,
    /// A moment of the process, and how many words before it none of another ring had come.
    Order(u64, u32),
    /// Whether it gives, and the address.
    Address(bool, u64),
}

/// Calls `f` with (begin, what) for each waiting record of an address or a time.
#[inline]
pub fn for_each_effect(ring: &Ring, mut f: impl FnMut(u32, Effect)) {
    let words = ring.waiting();
    let mut transit = ring.transit.map(|t| t.address);
    let mut at = 0;
    while let Some((record, length)) = decode(&words[at..]) {
        let begin = at as u32;
        at += length;
        let effect = match record {
            Record::Alloc { address, realloc, .. } => {
                if realloc {
                    transit = None;
                }
                Effect::Address(true, address)
            }
            Record::Free { address } => Effect::Address(false, address),
            Record::ReallocBegin { address } => {
                transit = Some(address);
                Effect::Address(false, address)
            }
            Record::ReallocFailed => match transit.take() {
                Some(address) => Effect::Address(true, address),
                None => Effect::Nothing,
            },
            Record::ReallocFreed => {
                transit = None;
                Effect::Nothing
            }
            Record::Region { this_thread: false, .. } => Effect::Region,
            Record::Time { .. } => Effect::Pause,
            Record::Order { number, since } => Effect::Order(number, since),
            _ => continue,
        };
        f(begin, effect);
    }
}
