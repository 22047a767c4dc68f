//! What is counted, for a site, a process or a whole recording. Sums saturate: a file may say anything.

use std::ops::AddAssign;

use crate::quantities::{Quantities, Quantity};

/// One of the [`Counts`].
#[derive(Clone, Copy, Debug)]
pub struct Count {
    /// The count's name in JSON, in tables and in the code.
    pub key: &'static str,
    /// The quantity that a profile needs to have for it.
    pub quantity: Quantity,
    /// Reads the count from the counts of a site.
    pub of: fn(&Counts) -> u64,
}

macro_rules! define_counts {
    ($($quantity:ident $name:literal { $($(#[$doc:meta])* $field:ident,)+ })+) => {
        /// Sums of one site, function, process or recording. `docs/DEFINITIONS.md` defines each quantity.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub struct Counts {
            $($($(#[$doc])* pub $field: u64,)+)+
        }

        impl Count {
            /// All counts, in the order of the fields of [`Counts`].
            pub const ALL: [Self; [$($(stringify!($field)),+),+].len()] =
                [$($(Self { key: stringify!($field), quantity: Quantity::$quantity, of: |counts| counts.$field }),+),+];
        }

        impl Counts {
            /// Each number, in the order of the fields and of [`Count::ALL`].
            pub fn numbers_mut(&mut self) -> [&mut u64; Count::ALL.len()] {
                [$($(&mut self.$field),+),+]
            }
        }
    };
}

count_table!(define_counts);

impl Counts {
    /// The counts of these quantities; the others are 0.
    #[must_use]
    pub fn of(mut self, quantities: Quantities) -> Self {
        for (number, count) in self.numbers_mut().into_iter().zip(Count::ALL) {
            *number *= u64::from(quantities.has(count.quantity));
        }
        self
    }

    /// Allocations minus frees; below 0 where blocks were freed that were allocated elsewhere.
    pub fn remaining(&self) -> i64 {
        self.allocations.wrapping_sub(self.frees) as i64
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, mut other: Self) {
        for (sum, number) in self.numbers_mut().into_iter().zip(other.numbers_mut()) {
            *sum = sum.saturating_add(*number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each field another number, so that a sum in the wrong field is seen.
    fn counts(first: u64) -> Counts {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = std::array::from_fn(|n| first + n as u64);
        Counts {
            allocations: a,
            allocated_bytes: b,
            frees: c,
            freed_bytes: d,
            temporary: e,
            temporary_bytes: f,
            live: g,
            live_bytes: h,
            peak: i,
            peak_bytes: j,
            reallocs_in_place: k,
            reallocs_moved: l,
        }
    }

    fn each(counts: &Counts) -> [u64; 12] {
        let c = counts;
        [
            c.allocations,
            c.allocated_bytes,
            c.frees,
            c.freed_bytes,
            c.temporary,
            c.temporary_bytes,
            c.live,
            c.live_bytes,
            c.peak,
            c.peak_bytes,
            c.reallocs_in_place,
            c.reallocs_moved,
        ]
    }

    #[test]
    fn each_field_is_added_to_itself() {
        let mut sum = counts(1000);
        sum += counts(50);
        assert_eq!(each(&sum), std::array::from_fn(|n| 1050 + 2 * n as u64));
    }

    #[test]
    fn sums_stop_at_the_greatest_number() {
        let mut sum = counts(u64::MAX - 11);
        sum += counts(11);
        assert_eq!(each(&sum), [u64::MAX; 12]);
    }

    #[test]
    fn the_table_names_the_fields_in_their_order() {
        let sum = counts(1);
        assert_eq!(Count::ALL.map(|count| (count.of)(&sum)), each(&sum));
        assert_eq!(Count::ALL.map(|count| count.key)[..3], ["allocations", "allocated_bytes", "frees"]);
        let quantities: Vec<Quantity> = Count::ALL.iter().map(|count| count.quantity).collect();
        assert!(Quantity::COUNTS.iter().all(|quantity| quantities.contains(quantity)));
    }

    #[test]
    fn counts_of_some_quantities_have_no_others() {
        let some = counts(1).of(Quantities::of(&[Quantity::Frees, Quantity::Reallocs]));
        assert_eq!(each(&some), [0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 11, 12]);
    }

    #[test]
    fn remaining_may_be_below_zero() {
        assert_eq!(Counts { allocations: 3, frees: 5, ..Counts::default() }.remaining(), -2);
        assert_eq!(Counts { allocations: 5, frees: 3, ..Counts::default() }.remaining(), 2);
    }
}
