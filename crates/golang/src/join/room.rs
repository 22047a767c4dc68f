//! What a map makes a block for when it gets a key. A profile does not have the runtime's own functions that make it:
//! its size shows it.

/// A map, by the blocks that it makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Map {
    /// Bytes of a block with 8 slots.
    pub slots: u64,
    /// Bytes of a key that is larger than the 128 that slots hold.
    pub key: Option<u64>,
    /// Bytes of a value that is larger than the 128 that slots hold.
    pub value: Option<u64>,
    /// One more bucket is made where many keys are in one: before Go 1.24.
    pub overflows: bool,
}

/// Possible uses of blocks of one size. None is set: it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Room {
    /// A block of 8 slots.
    pub slots: bool,
    /// Whether blocks of slots may be overflow buckets.
    pub overflows: bool,
    pub key: bool,
    pub value: bool,
    /// Slots for more keys than before.
    pub growth: bool,
}

/// Sizes of the runtime's blocks, above those that are all multiples of 16 bytes, from 256 to 32,768.
const CLASSES: [u64; 49] = [
    256, 288, 320, 352, 384, 416, 448, 480, 512, 576, 640, 704, 768, 896, 1024, 1152, 1280, 1408, 1536, 1792, 2048,
    2304, 2688, 3072, 3200, 3456, 4096, 4864, 5376, 6144, 6528, 6784, 6912, 8192, 9472, 9728, 10_240, 10_880, 12_288,
    13_568, 14_336, 16_384, 18_432, 19_072, 20_480, 21_760, 24_576, 27_264, 28_672,
];
/// Blocks above are whole pages; between the last of the table and this there is none.
const LARGEST: u64 = 32_768;
const PAGE: u64 = 8192;
/// Smaller objects have no word before them that says where their pointers are.
const HEADERLESS: u64 = 512;

/// The block of an object of so many bytes.
fn block(size: u64) -> u64 {
    match size {
        0..=8 => 8,
        9..=16 => 16,
        17..=24 => 24,
        25..=256 => size.next_multiple_of(16),
        _ if size > LARGEST => size.div_ceil(PAGE).saturating_mul(PAGE),
        _ => CLASSES.into_iter().find(|&class| class >= size).unwrap_or(LARGEST),
    }
}

/// Can all of these be blocks of one object of so many bytes each? Small ones without pointers may share theirs.
pub(super) fn holds(size: u64, pointers: bool, allocations: u64, bytes: u64) -> bool {
    /// A block that small objects share.
    const SHARED: u64 = 16;
    let is = |block: u64| near(block, allocations, bytes);
    is(block(size))
        || !pointers && size < SHARED && is(SHARED)
        || pointers && size > HEADERLESS && is(block(size.saturating_add(8)))
}

/// Have these blocks this size? Estimates are rounded.
fn near(block: u64, allocations: u64, bytes: u64) -> bool {
    let all = bytes as f64;
    (all - block as f64 * allocations as f64).abs() * 200.0 <= all
}

impl Map {
    /// Uses of blocks with these sums. `mixed`: blocks of several sizes may be among them.
    pub fn room(&self, allocations: u64, bytes: u64, mixed: bool) -> Room {
        let is = |size: u64| holds(size, true, allocations, bytes);
        let (slots, key, value) = (is(self.slots), self.key.is_some_and(is), self.value.is_some_and(is));
        if slots || key || value {
            return Room { slots, overflows: slots && self.overflows, key, value, growth: false };
        }
        let largest = [Some(self.slots), self.key, self.value].into_iter().flatten().max().unwrap_or_default();
        let growth = !mixed || bytes as f64 > block(largest.saturating_add(8)) as f64 * allocations as f64;
        Room { growth, ..Room::default() }
    }
}

impl Room {
    /// Name and reason of the blocks, for a map whose type is `of`.
    pub fn words(&self, of: &str) -> (String, String) {
        if self.growth {
            return (format!("growth of a {of}"), "the map grows as keys are added".to_owned());
        }
        let slots = match self.overflows {
            true => "a bucket of 8 slots: the map's first, or one more where many keys fell into one",
            false => "the map makes its first 8 slots for its first key",
        };
        let parts = [
            (self.slots, "slots", slots),
            (self.key, "a key", "a key of more than 128 bytes: the map keeps it in a block of its own"),
            (self.value, "a value", "a value of more than 128 bytes: the map keeps it in a block of its own"),
        ];
        let parts: Vec<_> = parts.into_iter().filter(|part| part.0).collect();
        if parts.is_empty() {
            return (format!("room in a {of}"), "the map makes room for what is added".to_owned());
        }
        let what = parts.iter().map(|part| part.1).collect::<Vec<_>>().join(" or ");
        (format!("{what} of a {of}"), parts.iter().map(|part| part.2).collect::<Vec<_>>().join("; or "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Map = Map { slots: 200, key: None, value: None, overflows: false };
    const LARGE: Map = Map { slots: 136, key: None, value: Some(1008), overflows: false };

    fn reason(map: &Map, allocations: u64, bytes: u64, mixed: bool) -> (String, bool) {
        let room = map.room(allocations, bytes, mixed);
        (room.words("map[int]T").1, room.growth)
    }

    #[test]
    fn the_first_slots_are_no_growth() {
        let slots = "the map makes its first 8 slots for its first key";
        assert_eq!(reason(&SMALL, 5, 5 * 208, false), (slots.to_owned(), false));
        let growth = ("the map grows as keys are added".to_owned(), true);
        assert_eq!(reason(&SMALL, 5, 5 * 416, false), growth);
        assert_eq!(reason(&SMALL, 5, 5 * 32, false), growth, "what it has of its tables");
        assert_eq!(reason(&SMALL, 5, 3 * 208 + 2 * 416, true), growth);
        let bucket = reason(&Map { overflows: true, ..SMALL }, 5, 5 * 208, false);
        assert_eq!(
            bucket,
            ("a bucket of 8 slots: the map's first, or one more where many keys fell into one".to_owned(), false)
        );
    }

    #[test]
    fn a_large_value_has_a_block_of_its_own() {
        let value = "a value of more than 128 bytes: the map keeps it in a block of its own";
        assert_eq!(reason(&LARGE, 1000, 1000 * 1024, false), (value.to_owned(), false));
        assert_eq!(reason(&LARGE, 1, 144, false).0, "the map makes its first 8 slots for its first key");
        assert!(reason(&LARGE, 1, 288, false).1);
        // A mixture of values and slots, in a profile that has no sizes.
        assert_eq!(reason(&LARGE, 1000, 998 * 1024 + 2 * 288, true).0, value, "nearly all are values");
        let unknown = ("the map makes room for what is added".to_owned(), false);
        assert_eq!(reason(&LARGE, 1000, 500 * 1024 + 500 * 288, true), unknown);
        let key = Map { key: Some(300), value: None, ..LARGE }.room(1, 320, false);
        assert_eq!(key.words("map[K]V").0, "a key of a map[K]V");
        let either = Map { value: Some(144), ..LARGE }.room(1, 144, false).words("map[int]T");
        assert_eq!(either.0, "slots or a value of a map[int]T");
    }

    #[test]
    fn objects_have_blocks_of_their_size() {
        for (size, pointers, allocations, bytes, expected) in [
            (90_000, true, 3000, 3000 * 90_112, true),
            (90_000, true, 30, 30 * 112, false),
            (600, true, 5, 5 * 640, true),
            (8, false, 9, 9 * 16, true),
            (8, false, 9, 9 * 8, true),
            (8, true, 9, 9 * 16, false),
            (8, false, 9, 9 * 112, false),
        ] {
            assert_eq!(holds(size, pointers, allocations, bytes), expected, "{size} {allocations} {bytes}");
        }
    }

    #[test]
    fn blocks_of_the_runtime() {
        let sizes = [1, 9, 17, 25, 136, 257, 1008, 28_673, 32_768, 32_769];
        assert_eq!(sizes.map(block), [8, 16, 24, 32, 144, 288, 1024, 32_768, 32_768, 40_960]);
    }
}
