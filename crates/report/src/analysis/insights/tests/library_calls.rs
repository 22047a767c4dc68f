//! What the library's calls do with memory decides what can be done about it.

use mallow_profile::{Counts, Patterns};

use super::{COPY, HASH, NEW, VECTOR, all, beside, by_realloc, one, silent, sizes};
use crate::analysis::insights::Evidence;
use crate::testing::{Builder, blocks};

const PUSH: [&str; 2] = [NEW, VECTOR];

/// A vector of three sizes: the first two blocks come from one call, the third from the next one.
fn at_two_calls(alternating: u64) -> crate::testing::Builder {
    let mut b = Builder::default();
    let process = b.process(1, &["a"], 10);
    b.site(process, &["work@a.cc:1", "main@a.cc:9"], blocks(1_000_000, 100, 0, 0));
    let first = Patterns {
        growth_steps: 19_000,
        grown_buffers: 19_000,
        copied_bytes: 608_000,
        alternating: 19_000,
        ..sizes(32, 64)
    };
    let frames = [&PUSH[..], &["parse@a.cc:5", "main@a.cc:10"]].concat();
    b.site(process, &frames, blocks(38_000, 48, 0, 0)).patterns = first.into();
    let second = Patterns { growth_steps: 19_000, copied_bytes: 1_216_000, alternating, ..sizes(128, 128) };
    let frames = [&PUSH[..], &["parse@a.cc:6", "main@a.cc:10"]].concat();
    b.site(process, &frames, blocks(19_000, 128, 0, 0)).patterns = second.into();
    b
}

/// It was "built anew 0 times" at the second call.
#[test]
fn a_container_that_grows_at_two_calls_is_counted_once() {
    let found = one(&at_two_calls(19_000).profile);
    let Evidence::RebuiltContainer { times, allocations, growth_steps, copied_bytes, largest_bytes, .. } =
        found.evidence
    else {
        panic!("{found:?}")
    };
    assert_eq!((times, allocations, growth_steps), (19_000, 57_000, 38_000));
    assert_eq!((copied_bytes, largest_bytes, found.sites, found.frame.line), (1_824_000, 128, 2, Some(5)));
    // The first two blocks of each are gone before the next vector, the third is not: they live side by side.
    let found = one(&at_two_calls(100).profile);
    let Evidence::GrownBuffer { grown_buffers, growth_steps, .. } = found.evidence else { panic!("{found:?}") };
    assert_eq!((grown_buffers, growth_steps), (Some(19_000), 38_000));
}

/// Each vector is given room for 64 bytes, where an object of 32 is freed next, and grows twice at another call: what
/// looked like a third step is its beginning.
#[test]
fn a_container_that_is_given_room_begins_there() {
    const RESERVE: &str = "std::vector<int, std::allocator<int> >::reserve(unsigned long)";
    let mut b = Builder::default();
    let process = b.process(1, &["a"], 10);
    b.site(process, &["work@a.cc:1", "main@a.cc:9"], blocks(1_000_000, 100, 0, 0));
    let steps = |growth_steps, copied_bytes, smallest, largest| Patterns {
        growth_steps,
        grown_buffers: 9_000,
        copied_bytes,
        alternating: 10_000,
        ..sizes(smallest, largest)
    };
    let first = steps(10_000, 320_000, 64, 64);
    let frames = [NEW, RESERVE, "parse@a.cc:5", "main@a.cc:10"];
    b.site(process, &frames, blocks(10_000, 64, 0, 0)).patterns = first.into();
    let second = Patterns { grown_buffers: 1_000, ..steps(20_000, 1_920_000, 128, 256) };
    let frames = [&PUSH[..], &["parse@a.cc:6", "main@a.cc:10"]].concat();
    b.site(process, &frames, blocks(20_000, 192, 0, 0)).patterns = second.into();
    let found = one(&b.profile);
    let (steps, copied) = match found.evidence {
        Evidence::RebuiltContainer { growth_steps, copied_bytes, .. }
        | Evidence::GrownBuffer { growth_steps, copied_bytes, .. } => (growth_steps, copied_bytes),
        _ => panic!("{found:?}"),
    };
    assert_eq!((steps, copied), (20_000, 1_920_000));
}

#[test]
fn buffers_that_began_elsewhere_have_no_number() {
    let patterns = Patterns { growth_steps: 38_000, alternating: 19_000, copied_bytes: 2_000_000, ..sizes(128, 256) };
    let frames = [&PUSH[..], &["more@a.cc:6", "main@a.cc:10"]].concat();
    for grown_buffers in [0, 1, 9_000] {
        let found = one(&beside(&frames, blocks(38_000, 190, 0, 0), Patterns { grown_buffers, ..patterns }));
        assert!(matches!(found.evidence, Evidence::GrownBuffer { grown_buffers: None, .. }), "{found:?}");
        assert_eq!(found.remedy, "reserve() the final size.");
    }
}

fn remedy(frames: &[&str], counts: Counts, patterns: Patterns) -> Option<String> {
    let frames = [frames, &["f@a.rs:5", "main@a.rs:10"]].concat();
    let mut found = all(&beside(&frames, counts, patterns));
    assert!(found.len() < 2, "{found:#?}");
    found.pop().map(|insight| insight.remedy)
}

const PATH: &[&str] = &["<alloc::vec::Vec<u8>>::with_capacity_in", "<[u8]>::to_vec", "<std::path::Path>::_join"];

/// `entry.path()` makes a new path of its final size, so that no capacity can be given, and none can be kept.
#[test]
fn what_a_function_returns_anew_has_no_capacity() {
    let returned = "std::path::Path::_join returns a new one in each call: call it less often, or pass on the one that it \
                    returned.";
    let returned = returned.replace("std::path::Path", "<std::path::Path>");
    let few = Counts { peak: 1, peak_bytes: 40, ..blocks(400_000, 40, 0, 0) };
    // Some follow each other by chance, from small to large.
    for growth_steps in [0, 900, 60_000] {
        let by_chance =
            Patterns { growth_steps, grown_buffers: growth_steps, copied_bytes: growth_steps * 30, ..sizes(20, 90) };
        for alternating in [100, 250_000, 400_000] {
            let said = remedy(PATH, few, Patterns { alternating, ..by_chance });
            assert_eq!(said.as_deref(), Some(&*returned), "{growth_steps} {alternating}");
        }
    }
    // And what the call itself enlarges by realloc is none of its caller's.
    let inside = Patterns { growth_steps: 200_000, grown_buffers: 200_000, copied_bytes: 9 << 20, ..sizes(20, 90) };
    assert_eq!(remedy(PATH, by_realloc(few, 200_000), inside).as_deref(), Some(&*returned));
    // Nor is one that replaces the last one a buffer that grows.
    let replaced = Patterns { growth_steps: 390_000, grown_buffers: 9_000, copied_bytes: 9_000_000, ..sizes(20, 90) };
    assert_eq!(remedy(PATH, few, replaced).as_deref(), Some(&*returned));
}

#[test]
fn a_copy_is_borrowed_and_a_filled_container_is_kept() {
    let counts = Counts { peak: 1, peak_bytes: 40, ..blocks(400_000, 40, 0, 0) };
    let short = Patterns { alternating: 400_000, ..sizes(20, 90) };
    let long = Patterns { alternating: 100, ..sizes(20, 90) };
    let assign =
        "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::assign(unsigned long, char)";
    for (function, while_short, while_long) in [
        (
            "<alloc::vec::Vec<u8> as core::clone::Clone>::clone",
            Some("Borrow the slice where a copy is made."),
            Some("Move it where a copy is made."),
        ),
        ("alloc::vec::from_elem::<u8>", Some("Keep one and clear() it."), None),
        (VECTOR, Some("Keep one and clear() it."), None),
        (HASH, Some("Keep one and clear() it."), None),
        (assign, Some("Keep one and clear() it."), None),
        (
            COPY,
            Some("Pass std::string_view or a reference where a copy is made."),
            Some("Pass std::string_view or a reference where a copy is made."),
        ),
    ] {
        assert_eq!(remedy(&[function], counts, short).as_deref(), while_short, "{function}");
        assert_eq!(remedy(&[function], counts, long).as_deref(), while_long, "{function}");
    }
    // A call that enlarges its container does so by realloc, or one in twenty at the least.
    let grown = |steps| Patterns { growth_steps: steps, grown_buffers: steps, ..long };
    let said = remedy(&["<alloc::vec::Vec<u8>>::push"], by_realloc(counts, 40_000), grown(40_000));
    assert_eq!(said.as_deref(), Some("Make it with_capacity, or move it where a copy is made."));
    assert_eq!(remedy(&["<alloc::vec::Vec<u8>>::push"], counts, grown(19_000)), None);
    // Of a copy, all that could grow is what was copied.
    let copied = [NEW, "std::vector<int, std::allocator<int> >::vector(std::vector<int, std::allocator<int> > const&)"];
    assert_eq!(remedy(&copied, counts, grown(100_000)).as_deref(), Some("Move it where a copy is made."));
    assert!(silent(&beside(&[VECTOR, "f@a.cc:5", "main@a.cc:9"], counts, long)));
}

/// `v = std::vector<int>(n)` with a larger n each time: the last one is given up, and nothing of it is copied.
#[test]
fn a_container_that_is_made_anew_each_time_does_not_grow() {
    const FORMAT: &str = "alloc::fmt::format";
    let counts = blocks(60_000, 3000, 0, 0);
    let patterns = Patterns { growth_steps: 59_999, grown_buffers: 1, copied_bytes: 90 << 20, ..sizes(4, 80_000) };
    let of = |function: &str, counts: Counts| beside(&[function, "f@a.cc:5", "main@a.cc:9"], counts, patterns);
    for made in [
        "std::vector<int, std::allocator<int> >::vector(unsigned long, std::allocator<int> const&)",
        "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::basic_string(unsigned long, char)",
        "alloc::vec::from_elem::<u8>",
        FORMAT,
    ] {
        assert!(silent(&of(made, counts)), "{made}");
    }
    let grown = Patterns { growth_steps: 55_000, grown_buffers: 5_000, ..patterns };
    let frames = [FORMAT, "f@a.rs:5", "main@a.rs:9"];
    let found = one(&beside(&frames, by_realloc(counts, 55_000), grown));
    assert_eq!(found.remedy, "String::with_capacity(n), then write! into it.");
}

#[test]
fn containers_have_their_own_names() {
    let named = |frames: &[&str]| {
        let frames = [frames, &["f@a.rs:5", "main@a.rs:10"]].concat();
        let counts = Counts { peak: 1, ..blocks(400_000, 40, 0, 0) };
        let found = one(&beside(&frames, counts, Patterns { alternating: 400_000, ..sizes(20, 90) }));
        let Evidence::TemporaryBlock { container, .. } = found.evidence else { panic!("{found:?}") };
        container
    };
    const TABLE: &str = "hashbrown::raw::RawTable<T,A>::reserve_rehash";
    const MAP: &str = "hashbrown::map::HashMap<K,V,S,A>::insert";
    for (frames, expected) in [
        (&[TABLE][..], "HashMap or HashSet"),
        (&[TABLE, MAP], "HashMap"),
        (
            &[
                TABLE,
                MAP,
                "hashbrown::set::HashSet<T,S,A>::insert",
                "std::collections::hash::set::HashSet<T,S>::insert",
            ],
            "HashSet",
        ),
        (&["alloc::boxed::Box<T>::new", "alloc::rc::Rc<T>::new"], "Arc or Rc"),
        (
            &[
                "alloc::boxed::Box<T>::new",
                "alloc::collections::btree::map::BTreeMap<K,V>::insert",
                "alloc::collections::btree::set::BTreeSet<T>::insert",
            ],
            "BTreeSet",
        ),
        (
            &["alloc::raw_vec::RawVec<T,A>::grow_one", "alloc::collections::vec_deque::VecDeque<T,A>::push_back"],
            "VecDeque",
        ),
        (
            &[
                "std::__cxx11::basic_istringstream<char, std::char_traits<char>, std::allocator<char> >::basic_istringstream()",
            ],
            "std::istringstream",
        ),
        (&["std::forward_list<int, std::allocator<int> >::push_front(int&&)"], "std::forward_list"),
        (
            &[
                "std::vector<int, std::allocator<int> >::push_back(int const&)",
                "std::priority_queue<int, std::vector<int, std::allocator<int> >, std::less<int> >::push(int const&)",
            ],
            "std::priority_queue",
        ),
        (
            &[
                "alloc::raw_vec::RawVec<T,A>::grow_one",
                "alloc::vec::Vec<T,A>::push",
                "alloc::collections::binary_heap::BinaryHeap<T,A>::push",
            ],
            "BinaryHeap",
        ),
    ] {
        assert_eq!(named(frames), Some(expected), "{frames:?}");
    }
}
