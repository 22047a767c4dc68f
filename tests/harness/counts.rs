//! Counts, as `mallow stat --json`, `mallow report --json`, the oracle and the targets themselves print them.

use std::collections::BTreeMap;
use std::ops::{AddAssign, Sub};

use serde_json::Value;

/// The allocating functions, in the order of `enum mallow_family`.
pub const FAMILIES: [&str; 9] =
    ["malloc", "calloc", "realloc", "reallocarray", "aligned_alloc", "memalign", "posix_memalign", "valloc", "pvalloc"];

/// Sums of a process or a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub allocations: u64,
    pub allocated_bytes: u64,
    /// All releases, whoever allocated the block.
    pub frees: u64,
    pub reallocs_in_place: u64,
    pub reallocs_moved: u64,
    /// Calls and bytes by function; those never called may be left out.
    pub families: BTreeMap<String, (u64, u64)>,
}

/// Sums of one process image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessCounts {
    pub pid: u32,
    pub counts: Counts,
}

/// What a target says that it did.
#[derive(Clone, Debug)]
pub struct Truth {
    /// The function that made all of the allocations; empty where they were several.
    pub family: String,
    /// The sums.
    pub counts: Counts,
}

/// A number of an object.
///
/// # Panics
/// When it is not there.
pub fn number(object: &Value, key: &str) -> u64 {
    object[key].as_u64().unwrap_or_else(|| panic!("no number {key:?} in {object:#}"))
}

impl Counts {
    /// From an object with the project's words as keys, which both commands write.
    pub fn read(object: &Value) -> Self {
        let foreign = |o: &Value| o["foreign_frees"].as_u64().unwrap_or(0);
        let from_processes = object["processes"].as_array().map_or(0, |all| all.iter().map(foreign).sum());
        let mut counts = Self {
            allocations: number(object, "allocations"),
            allocated_bytes: number(object, "allocated_bytes"),
            // A recording files a free under its block's site; blocks of unknown origin are counted apart.
            frees: number(object, "frees") + foreign(object) + from_processes,
            reallocs_in_place: number(object, "reallocs_in_place"),
            reallocs_moved: number(object, "reallocs_moved"),
            families: BTreeMap::new(),
        };
        for row in object["families"].as_array().into_iter().flatten() {
            let name = row["family"].as_str().expect("a family's name").to_owned();
            counts.families.insert(name, (number(row, "allocations"), number(row, "allocated_bytes")));
        }
        counts.tidy();
        counts
    }

    /// From what a target printed about itself.
    ///
    /// # Panics
    /// When it is not such an object.
    pub fn truth(text: &str) -> Truth {
        let object: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
        let counts = Self {
            allocations: number(&object, "allocations"),
            allocated_bytes: number(&object, "allocated_bytes"),
            frees: number(&object, "frees") + number(&object, "realloc_frees"),
            reallocs_in_place: number(&object, "reallocs_in_place"),
            reallocs_moved: number(&object, "reallocs_moved"),
            families: BTreeMap::new(),
        };
        Truth { family: object["family"].as_str().expect("a family").to_owned(), counts }
    }

    /// Without what was never called.
    pub fn tidy(&mut self) {
        self.families.retain(|_, calls| *calls != (0, 0));
    }

    /// Without the division by function.
    pub fn sums(&self) -> Self {
        Self { families: BTreeMap::new(), ..self.clone() }
    }
}

impl AddAssign<&Self> for Counts {
    fn add_assign(&mut self, other: &Self) {
        self.allocations += other.allocations;
        self.allocated_bytes += other.allocated_bytes;
        self.frees += other.frees;
        self.reallocs_in_place += other.reallocs_in_place;
        self.reallocs_moved += other.reallocs_moved;
        for (name, calls) in &other.families {
            let mine = self.families.entry(name.clone()).or_default();
            mine.0 += calls.0;
            mine.1 += calls.1;
        }
        self.tidy();
    }
}

impl Sub<&Counts> for &Counts {
    type Output = Counts;

    /// What `self` has more than `other`.
    fn sub(self, other: &Counts) -> Counts {
        let minus = |a: u64, b: u64| a.checked_sub(b).unwrap_or_else(|| panic!("{self:?} is less than {other:?}"));
        let mut more = Counts {
            allocations: minus(self.allocations, other.allocations),
            allocated_bytes: minus(self.allocated_bytes, other.allocated_bytes),
            frees: minus(self.frees, other.frees),
            reallocs_in_place: minus(self.reallocs_in_place, other.reallocs_in_place),
            reallocs_moved: minus(self.reallocs_moved, other.reallocs_moved),
            families: self.families.clone(),
        };
        for (name, calls) in &other.families {
            let mine = more.families.entry(name.clone()).or_default();
            *mine = (minus(mine.0, calls.0), minus(mine.1, calls.1));
        }
        more.tidy();
        more
    }
}
