//! What the sample types of heap profiles mean in Mallow's words.

use mallow_profile::{Counts, Quantity};

/// A quantity, and the count that has its number.
pub struct Kind {
    pub quantity: Quantity,
    pub field: fn(&mut Counts) -> &mut u64,
}

const fn kind(quantity: Quantity, field: fn(&mut Counts) -> &mut u64) -> Kind {
    Kind { quantity, field }
}

/// The quantities that pprof carries, under the names that Mallow writes: Go's, where Go has one.
pub const WRITTEN: [(&str, &str, Kind); 10] = [
    ("alloc_objects", "count", kind(Quantity::Allocations, |c| &mut c.allocations)),
    ("alloc_space", "bytes", kind(Quantity::AllocatedBytes, |c| &mut c.allocated_bytes)),
    ("inuse_objects", "count", kind(Quantity::Live, |c| &mut c.live)),
    ("inuse_space", "bytes", kind(Quantity::LiveBytes, |c| &mut c.live_bytes)),
    ("peak_objects", "count", kind(Quantity::Peak, |c| &mut c.peak)),
    ("peak_space", "bytes", kind(Quantity::PeakBytes, |c| &mut c.peak_bytes)),
    ("temporary_objects", "count", kind(Quantity::Temporary, |c| &mut c.temporary)),
    ("temporary_space", "bytes", kind(Quantity::TemporaryBytes, |c| &mut c.temporary_bytes)),
    ("reallocs_in_place", "count", kind(Quantity::Reallocs, |c| &mut c.reallocs_in_place)),
    ("reallocs_moved", "count", kind(Quantity::Reallocs, |c| &mut c.reallocs_moved)),
];

/// The keys of the labels that Mallow writes, and reads.
pub mod label {
    pub const PID: &str = "pid";
    pub const PROCESS: &str = "process";
    /// Path of the file that the process was read from, where several were merged.
    pub const SOURCE: &str = "source";
    /// Says that the outermost functions of the stack are missing.
    pub const CUT: &str = "cut";
}

/// Prefix of the command line in a comment.
pub const COMMAND: &str = "command: ";
/// Prefix of a sentence about what the numbers lack, in a comment.
pub const INCOMPLETE: &str = "incomplete: ";
/// A comment that says that addresses are those of calls, one less than those of recordings.
pub const CALLS: &str = "addresses: of calls, by mallow";

/// Other tools' names for the first four, with `_` for `-`. What pprof calls objects and space, without more, is what
/// was live when the profile was taken. `alloc_in_new_tlab_objects` and its like are missing: they count samples of a
/// JVM, and not allocations.
const OTHERS: [(&str, &str); 19] = [
    ("objects", "inuse_objects"),
    ("space", "inuse_space"),
    ("live_objects", "inuse_objects"),
    ("live_space", "inuse_space"),
    ("live_bytes", "inuse_space"),
    ("inuse_bytes", "inuse_space"),
    ("allocations", "alloc_objects"),
    ("allocs", "alloc_objects"),
    ("alloc_count", "alloc_objects"),
    ("alloc_bytes", "alloc_space"),
    ("allocated_bytes", "alloc_space"),
    ("alloc_size", "alloc_space"),
    ("alloc_samples", "alloc_objects"),
    ("heap_live_samples", "inuse_objects"),
    ("heap_live_size", "inuse_space"),
    ("heap_space", "inuse_space"),
    ("alloc_sample_bytes", "alloc_space"),
    (PARTS[0], "alloc_space"),
    (PARTS[1], "alloc_space"),
];

/// A JVM allocates in a thread's buffer or outside of it, and a profile has both: together they are what was allocated.
const PARTS: [&str; 2] = ["alloc_in_new_tlab_bytes", "alloc_outside_tlab_bytes"];

/// Whether these two are parts of one quantity, and not two numbers for the same.
pub fn add_up(one: &str, other: &str) -> bool {
    one != other && PARTS.contains(&one) && PARTS.contains(&other)
}

/// The kind of a sample type; None for one that is not about allocations, or has another unit.
pub fn of(name: &str, unit: &str) -> Option<&'static Kind> {
    let name = name.replace('-', "_");
    let name = OTHERS.iter().find(|(other, _)| *other == name).map_or(&*name, |(_, ours)| ours);
    let factor = |unit: &str| matches!(unit, "bytes" | "byte");
    let count = |unit: &str| matches!(unit, "count" | "objects" | "");
    let (_, _, kind) = WRITTEN
        .iter()
        .find(|(ours, wanted, _)| *ours == name && if *wanted == "bytes" { factor(unit) } else { count(unit) })?;
    Some(kind)
}

#[cfg(test)]
mod tests {
    use super::{add_up, of};
    use mallow_profile::Quantity;

    /// Datadog's profilers and the converters of JFR have names of their own.
    #[test]
    fn other_tools_names() {
        let quantity = |name, unit| of(name, unit).map(|kind| kind.quantity);
        for (name, unit, expected) in [
            ("heap-live-size", "bytes", Some(Quantity::LiveBytes)),
            ("heap-live-samples", "count", Some(Quantity::Live)),
            ("heap-space", "bytes", Some(Quantity::LiveBytes)),
            ("alloc-samples", "count", Some(Quantity::Allocations)),
            ("alloc-space", "bytes", Some(Quantity::AllocatedBytes)),
            ("inuse_space", "bytes", Some(Quantity::LiveBytes)),
            ("alloc_outside_tlab_bytes", "bytes", Some(Quantity::AllocatedBytes)),
            ("alloc_in_new_tlab_objects", "count", None),
            ("alloc-samples-unscaled", "count", None),
            ("cpu-time", "nanoseconds", None),
            ("heap-live-size", "count", None),
        ] {
            assert_eq!(quantity(name, unit), expected, "{name}/{unit}");
        }
        assert!(add_up("alloc_in_new_tlab_bytes", "alloc_outside_tlab_bytes"));
        assert!(!add_up("alloc_in_new_tlab_bytes", "alloc_in_new_tlab_bytes") && !add_up("alloc_size", "alloc_bytes"));
    }
}
