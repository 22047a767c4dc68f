//! What the records of a ring touch: addresses, times, stamps.

use super::ring::Ring;
use crate::wire::record::{Record, decode};

pub enum Effect {
    /// Mallow's clock moved since the record before.
    Pause,
    /// An event at no address.
    Nothing,
    /// A region of all threads begins or ends.
    Region,
    /// Number of a moment of the process, and how many words before the record no other ring had a later one; 0: not
    /// known.
    Order(u64, u32),
    /// Whether the address gets a block or gives one up, and the address.
    Address(bool, u64),
}

/// Calls `f` with each waiting record that has an effect, and the number of waiting words before it.
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
