//! Fetching memory before it is needed. It changes nothing but time.

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

/// Asks for the line of a processor's cache in which `table[at]` lies, if there is such a place.
#[inline]
pub fn prefetch<T>(table: &[T], at: usize) {
    if let Some(place) = table.get(at) {
        // SAFETY: it changes nothing, and the address is that of an element.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast()) };
    }
}
