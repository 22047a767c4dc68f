//! What blocks are picked for, and what is said where an allocator gets none of them.

/// Why an allocator inside of a stripped program is not seen, as a clause.
pub const IS_STRIPPED: &str = "it is stripped, so its functions cannot be found";
/// What to do about a stripped program with an allocator inside.
pub const STRIPPED: &str = "build it without strip (CARGO_PROFILE_RELEASE_STRIP=none), or install its debug symbols";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    #[default]
    Sampling,
    Guarding,
}

impl Purpose {
    /// What is done with blocks: `sampled`, `guarded`.
    pub(super) fn done(self) -> &'static str {
        match self {
            Self::Sampling => "sampled",
            Self::Guarding => "guarded",
        }
    }

    /// What to do instead, before a program with an allocator inside is started. Without its symbols nobody sees that.
    pub(super) fn before(self, is_hidden: bool) -> &'static str {
        match self {
            Self::Guarding => BUILT_WITHOUT,
            Self::Sampling if is_hidden => STRIPPED,
            Self::Sampling => "mallow record sees it",
        }
    }

    /// The reason, behind "is not sampled", that an allocator inside of a program is not, and what to do instead.
    pub(super) fn inside(self, is_hidden: bool) -> (String, &'static str) {
        match self {
            Self::Guarding => (String::new(), BUILT_WITHOUT),
            Self::Sampling if is_hidden => (format!(": {IS_STRIPPED}"), STRIPPED),
            Self::Sampling => (
                " where mallow watch starts the program".to_owned(),
                "start it by itself, and mallow watch -p PID samples that; mallow record sees it",
            ),
        }
    }
}

/// Guarded blocks are those of the C library's functions, wherever these lead.
const BUILT_WITHOUT: &str = "built without it, the program has all of its blocks guarded";
