//! What one check came to.

use mallow_profile::AllocatorKind;

/// How much of what a check is about works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    Works,
    /// Something of it is not seen, or costs more than it should.
    Partly,
    /// Nothing would be recorded.
    Fails,
}

/// What a check came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub check: &'static str,
    pub status: Status,
    /// What was found, and what that means.
    pub found: String,
    /// What to do about it.
    pub remedy: Option<String>,
    /// The allocator above malloc that was found.
    pub allocator: AllocatorKind,
}

impl Finding {
    pub fn works(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, status: Status::Works, found: found.into(), remedy: None, allocator: AllocatorKind::Other }
    }

    /// Something is not.
    pub fn partly(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { status: Status::Partly, remedy: Some(remedy.into()), ..Self::works(check, found) }
    }

    /// Nothing is.
    pub fn fails(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { status: Status::Fails, remedy: Some(remedy.into()), ..Self::works(check, found) }
    }

    /// Nothing would be recorded.
    pub(super) fn is_fatal(&self) -> bool {
        self.status == Status::Fails
    }

    pub fn sentence(&self) -> String {
        let remedy = self.remedy.iter().map(|remedy| format!("; {remedy}")).collect::<String>();
        format!("{}{remedy}", self.found)
    }
}
