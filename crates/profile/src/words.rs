//! What a profile tells. Mallow's own recordings tell everything; other tools' files leave something out, and what is
//! left out is not 0.

use std::fmt;

macro_rules! define_words {
    ($($word:ident $name:literal { $($(#[$doc:meta])* $field:ident,)+ })+) => {
        /// Something that a profile may tell. `docs/DEFINITIONS.md` defines each word.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum Word {
            $($word,)+
            /// Which of the allocating functions was called.
            Families,
            /// How long it took, and when the peak was.
            Times,
            /// When leaked blocks were allocated.
            Ages,
            /// What the wall clock showed at the start.
            Started,
            /// Process ids, and which process allocated what.
            Processes,
            /// How many threads there were.
            Threads,
            /// How the command ended.
            ExitStatus,
            /// What sites do with their blocks.
            Patterns,
            /// Each allocation and free for itself.
            Events,
        }

        impl Word {
            /// Those that [`crate::Counts`] has numbers of.
            pub const COUNTS: [Self; [$($name),+].len()] = [$(Self::$word),+];

            /// All of them.
            pub const ALL: [Self; Self::COUNTS.len() + 9] = [
                $(Self::$word,)+
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
                    $(Self::$word => $name,)+
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

count_table!(define_words);

impl fmt::Display for Word {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// A set of words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Words(u32);

impl Words {
    /// A set of these.
    pub fn of(words: &[Word]) -> Self {
        words.iter().fold(Self::default(), |set, &word| set.with(word))
    }

    /// The set with one more.
    #[must_use]
    pub fn with(self, word: Word) -> Self {
        Self(self.0 | 1 << word as u32)
    }

    /// Is it in the set?
    pub fn has(self, word: Word) -> bool {
        self.0 & 1 << word as u32 != 0
    }

    /// Those of both sets.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// Where a profile comes from that is no recording of Mallow's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Whose file it is, as people call it: `heaptrack`, `pprof`, …
    pub format: &'static str,
    /// What it tells. Counts of other words are 0 and mean nothing.
    pub tells: Words,
    /// Numbers are estimates from a sample: one allocation in about so many bytes.
    pub sampled_bytes: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::{Word, Words};

    #[test]
    fn a_set_has_what_was_put_into_it() {
        let some = Words::of(&[Word::Peak, Word::Events]);
        let told: Vec<_> = Word::ALL.into_iter().filter(|&word| some.has(word)).collect();
        assert_eq!(told, [Word::Peak, Word::Events]);
        assert_eq!(Words::of(&Word::ALL).and(some), some);
        assert_eq!(Words::of(&[Word::Leaked]).and(some), Words::default());
    }
}
