//! Checks of the doctor, and their table.

use mallow_capture::preflight::{Finding, Status};
use serde::Serialize;

use crate::output::text::{Line, Look, Page};

/// One check, as it is printed.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Check {
    /// Name of the check.
    check: &'static str,
    /// Result: `works`, `partly` or `fails`.
    status: &'static str,
    /// What the check found, a sentence.
    found: String,
    /// How to remove the obstacle, a sentence; null where there is none.
    remedy: Option<String>,
    #[serde(skip)]
    pub how: Status,
}

impl From<Finding> for Check {
    fn from(Finding { check, status, found, remedy, .. }: Finding) -> Self {
        Self { check, status: word(status), found, remedy, how: status }
    }
}

/// Name of the status in JSON and in the table.
pub fn word(status: Status) -> &'static str {
    match status {
        Status::Works => "works",
        Status::Partly => "partly",
        Status::Fails => "fails",
    }
}

pub fn checks(checks: &[Check], look: &Look, page: &mut Page) {
    const STATUS: usize = 6;
    const NAME: usize = 13;
    for check in checks {
        let status = match check.how {
            Status::Works => Line::new().faint(check.status),
            Status::Partly => Line::new().strong(check.status),
            Status::Fails => Line::new().warning(check.status),
        };
        let gap = " ".repeat(STATUS.saturating_sub(status.width()));
        let first = Line::new().plain("  ").then(status).plain(gap).plain(format!("  {:NAME$}  ", check.check));
        let indent = " ".repeat(first.width());
        page.hanging(first, &check.found);
        if let Some(remedy) = &check.remedy {
            let arrow = if look.ascii { "-> " } else { "→ " };
            page.hanging(Line::new().plain(indent).plain(arrow), remedy);
        }
    }
}
