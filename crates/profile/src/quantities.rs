//! The quantities that a profile has. Mallow's own recordings have all of them; other tools' files leave something out,
//! and what is left out is not 0.

use std::fmt;

macro_rules! define_quantities {
    ($($quantity:ident $name:literal { $($(#[$doc:meta])* $field:ident,)+ })+) => {
        /// A quantity that a profile may have. `docs/DEFINITIONS.md` defines each quantity.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum Quantity {
            $($quantity,)+
            /// Calls by the allocating function.
            Families,
            /// Times of the recording and of its peak.
            Times,
            /// When the blocks live at the end were allocated.
            Ages,
            /// What the wall clock showed at the start.
            Started,
            /// Process ids, and which process allocated what.
            Processes,
            /// How many threads there were.
            Threads,
            /// The exit status of the command.
            ExitStatus,
            /// What sites do with their blocks.
            Patterns,
            /// Each single allocation and free.
            Events,
        }

        impl Quantity {
            /// Quantities that have a field of [`crate::Counts`].
            pub const COUNTS: [Self; [$($name),+].len()] = [$(Self::$quantity),+];

            /// All quantities, each once.
            pub const ALL: [Self; Self::COUNTS.len() + 9] = [
                $(Self::$quantity,)+
                Self::Families,
                Self::Times,
                Self::Ages,
                Self::Started,
                Self::Processes,
                Self::Threads,
                Self::ExitStatus,
                Self::Patterns,
                Self::Events,
            ];

            fn name(self) -> &'static str {
                match self {
                    $(Self::$quantity => $name,)+
                    Self::Families => "functions called",
                    Self::Times => "times",
                    Self::Ages => "ages of leaks",
                    Self::Started => "wall clock",
                    Self::Processes => "process ids",
                    Self::Threads => "threads",
                    Self::ExitStatus => "exit status",
                    Self::Patterns => "patterns",
                    Self::Events => "single events",
                }
            }
        }
    };
}

count_table!(define_quantities);

impl fmt::Display for Quantity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// A set of quantities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantities(u32);

impl Quantities {
    /// The set of the listed quantities.
    pub fn of(quantities: &[Quantity]) -> Self {
        quantities.iter().fold(Self::default(), |set, &quantity| set.with(quantity))
    }

    /// The set with one more.
    #[must_use]
    pub fn with(self, quantity: Quantity) -> Self {
        Self(self.0 | 1 << quantity as u32)
    }

    /// Whether the quantity is in the set.
    pub fn has(self, quantity: Quantity) -> bool {
        self.0 & 1 << quantity as u32 != 0
    }

    /// Quantities that are in both sets.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// The source of a profile that is no recording of Mallow's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The tool or format that wrote the file, as people call it: `heaptrack`, `pprof`, …
    pub format: &'static str,
    /// The quantities that it has. Counts of others are 0 and mean nothing.
    pub quantities: Quantities,
    /// Numbers are estimates from a sample: one allocation in about so many bytes.
    pub sampled_bytes: Option<u64>,
}

impl Origin {
    /// Whether numbers are estimates from a sample.
    pub fn is_sampled(&self) -> bool {
        self.sampled_bytes.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::{Quantities, Quantity};

    #[test]
    fn a_set_has_what_was_put_into_it() {
        let some = Quantities::of(&[Quantity::Peak, Quantity::Events]);
        let held: Vec<_> = Quantity::ALL.into_iter().filter(|&quantity| some.has(quantity)).collect();
        assert_eq!(held, [Quantity::Peak, Quantity::Events]);
        assert_eq!(Quantities::of(&Quantity::ALL).and(some), some);
        assert_eq!(Quantities::of(&[Quantity::Live]).and(some), Quantities::default());
    }
}
