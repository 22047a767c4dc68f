//! Fetching memory before it is needed. It changes nothing but time: where a processor has no such hint here, nothing
//! is done.

/// Asks for the line of a processor's cache in which `table[at]` lies, if there is such a place.
#[inline]
pub fn prefetch<T>(table: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(place) = table.get(at) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: it changes nothing, and the address is that of an element.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (table, at);
}
