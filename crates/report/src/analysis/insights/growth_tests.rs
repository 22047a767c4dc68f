//! A buffer that grew at the peak of live bytes.

use mallow_profile::{Counts, Patterns, Profile};

use super::tests::{HASH, VECTOR, all, large, one, silent, sizes};
use super::{Evidence, insights};
use crate::testing::{Builder, blocks};

/// A stream has no `reserve()`.
const STREAM: &str =
    "std::__cxx11::basic_stringbuf<char, std::char_traits<char>, std::allocator<char> >::overflow(int)";

/// The one buffer of a container that copies: 10 MB that had 5 MB before, with so many blocks at the peak.
fn copied(container: &str, peak: u64, peak_bytes: u64) -> Profile {
    let patterns = Patterns {
        kept: 1,
        kept_bytes: 10 << 20,
        kept_slack: 5 << 20,
        growth_steps: 9,
        grown_buffers: 1,
        ..sizes(16, 10 << 20)
    };
    let counts = Counts { peak, peak_bytes, ..blocks(10, 2 << 20, 0, 0) };
    let mut profile = large(&[container], counts, patterns, 395);
    profile.totals.peak_bytes = 20 << 20;
    profile
}

#[test]
fn a_copy_at_the_peak_is_spared_by_a_capacity_and_not_by_shrinking() {
    // The old block is 5 MB, and up to 5 MB of the new one are unused; a hash table is full.
    for (container, saves, remedy) in [
        (VECTOR, 10 << 20, "reserve() the final size"),
        (HASH, 5 << 20, "Give it its final size with_capacity"),
        (STREAM, 10 << 20, "Append to a std::string that has its final size by reserve()"),
    ] {
        let profile = copied(container, 2, 15 << 20);
        let found = one(&profile);
        let Evidence::GrowingAtPeak { growing: 1, growing_bytes, old_bytes } = found.evidence else {
            panic!("{found:?}")
        };
        assert_eq!((growing_bytes, old_bytes, found.saves.peak_bytes), (10 << 20, 5 << 20, saves));
        let then = "the old block is not there then, and the next highest moment is the peak.";
        assert_eq!(found.remedy, format!("{remedy}: {then}"));
        // Without the copy the next highest moment is the peak, and nobody knows which: no promise in the verdict.
        let all = crate::analysis::leak_causes(&profile, 3);
        let live = crate::analysis::LiveBlocks { all: &all, lost: None, unscanned: None };
        let verdict = crate::analysis::verdict(&crate::analysis::overview(&profile, 3), &live, &insights(&profile, 3));
        let is_saving = |one: &_| matches!(one, crate::analysis::Statement::PeakSaving(_));
        assert!(!verdict.statements.iter().any(is_saving), "{verdict:?}");
    }
    // How long the block was kept after the copy differs from run to run: what was live at the peak does not.
    let mut brief = copied(VECTOR, 2, 15 << 20);
    let patterns = &mut brief.sites.last_mut().expect("a site").patterns;
    (patterns.kept, patterns.kept_bytes, patterns.kept_slack) = (0, 0, 0);
    assert_eq!(one(&brief).evidence, one(&copied(VECTOR, 2, 15 << 20)).evidence);
    let mut earlier = brief.clone();
    let site = earlier.sites.last_mut().expect("a site");
    site.counts.peak_bytes = 7 << 20;
    assert!(silent(&earlier), "the peak was in an earlier step");
    let mut others = brief;
    others.sites.last_mut().expect("a site").patterns.growth_steps = 40;
    others.sites.last_mut().expect("a site").counts.allocations = 41;
    assert!(!all(&others).iter().any(|found| matches!(found.evidence, Evidence::GrowingAtPeak { .. })));
    // After the copy.
    assert!(matches!(one(&copied(VECTOR, 1, 10 << 20)).evidence, Evidence::KeptSlack { kept: 1, .. }));
    assert!(silent(&copied(HASH, 1, 10 << 20)), "a hash table grows because it is full");
    let rehash = "std::_Hashtable<int, int>::_M_rehash(unsigned long)";
    assert!(silent(&copied(rehash, 1, 10 << 20)), "so does that of C++");
    assert!(silent(&copied(VECTOR, 1, 5 << 20)), "before the copy");
}

/// The arrays of glyphs of a font, each sized once: where a larger one follows by chance, that looks like a step.
#[test]
fn a_vector_that_is_sized_once_is_not_advised_to_reserve() {
    let sized = "std::vector<unsigned char, std::allocator<unsigned char> >::_M_default_append(unsigned long)";
    let found = |growth_steps, copied_bytes| {
        let patterns =
            Patterns { alternating: 20_600, growth_steps, grown_buffers: growth_steps, copied_bytes, ..sizes(1, 158) };
        let counts = Counts { peak: 1, peak_bytes: 158, ..blocks(34_500, 18, 0, 0) };
        let mut b = Builder::default();
        let process = b.process(1, &["a"], 10);
        b.site(process, &["work@a.cc:1", "main@a.cc:9"], blocks(100_000, 100, 0, 0));
        b.site(process, &[sized, "read@a.cc:5", "main@a.cc:9"], counts).patterns = patterns.into();
        one(&b.profile)
    };
    let chance = found(2_710, 26_780);
    assert_eq!(chance.remedy, "Keep one and clear() it.");
    assert_eq!(chance.saves.copied_bytes, 0, "nothing grew");
    // A tenth of the calls, or of the bytes.
    for (steps, copied) in [(3_450, 26_780), (2_710, 62_100)] {
        let grown = found(steps, copied);
        assert_eq!(grown.remedy, "reserve() the size it will have, or keep one and clear() it.", "{steps} {copied}");
        assert_eq!(grown.saves.copied_bytes, copied);
    }
    assert_eq!(found(2_710, 62_000).remedy, chance.remedy);
}
