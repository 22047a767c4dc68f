//! Numbers by chance: nothing secret depends on them.

use std::hash::{BuildHasher, Hasher, RandomState};

fn word() -> u64 {
    // Each state has keys of its own, from the system.
    RandomState::new().build_hasher().finish()
}

/// From 0 up to 1, which is left out.
pub fn chance() -> f64 {
    (word() >> 11) as f64 / (1u64 << 53) as f64
}

/// 16 bytes that nobody else has.
pub fn id() -> [u8; 16] {
    (u128::from(word()) << 64 | u128::from(word())).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::{chance, id};

    #[test]
    fn no_two_are_the_same() {
        let mut ids: Vec<_> = (0..100).map(|_| id()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 100);
        assert!((0..100).all(|_| (0.0..1.0).contains(&chance())));
    }
}
