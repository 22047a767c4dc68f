//! What one check came to.

use mallow_profile::AllocatorKind;

/// How much of what a check is about works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    Works,
    /// Something is not seen, or costs more than it should.
    Partly,
    /// Nothing would be recorded.
    Fails,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name of what was looked at, as `mallow doctor` shows it.
    pub check: &'static str,
    pub status: Status,
    pub found: String,
    /// A clause: what to do about it.
    pub remedy: Option<String>,
    /// The allocator above malloc that was found; `Other` where none was.
    pub allocator: AllocatorKind,
}

impl Finding {
    pub fn works(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, status: Status::Works, found: found.into(), remedy: None, allocator: AllocatorKind::Other }
    }

    pub fn partly(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { status: Status::Partly, remedy: Some(remedy.into()), ..Self::works(check, found) }
    }

    pub fn fails(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { status: Status::Fails, remedy: Some(remedy.into()), ..Self::works(check, found) }
    }

    pub(super) fn is_fatal(&self) -> bool {
        self.status == Status::Fails
    }

    pub fn sentence(&self) -> String {
        let remedy = self.remedy.iter().map(|remedy| format!("; {remedy}")).collect::<String>();
        format!("{}{remedy}", self.found)
    }
}
