//! What `mallow go escape` shows: as JSON, SARIF and text.

use std::path::Path;

use mallow_golang::escape::{Comparison, Escapes, Ranked, Site, compare};
use serde::Serialize;

use crate::output::sarif::{self, Finding};
use crate::output::stdio;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EscapeDocument {
    /// Allocations in the heap.
    #[serde(flatten)]
    pub escapes: Escapes,
    /// Sums of the profile at listed places; left out without a profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Ranked>,
    /// Revision or file that is compared with; left out where nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Differences from `base`; without its keys where nothing is compared.
    #[serde(flatten)]
    pub comparison: Option<Comparison>,
}

impl EscapeDocument {
    /// Compares it with what the compiler put into the heap before.
    pub fn compare(&mut self, base: &Escapes, name: String) {
        if base.go != self.escapes.go {
            stdio::notify(&format!(
                "{name} was compiled by {}, and this by {}: compilers differ too",
                base.go, self.escapes.go
            ));
        }
        self.comparison = Some(compare(&base.sites, &self.escapes.sites));
        self.base = Some(name);
    }

    /// The sites to report in detail: the new ones, or all.
    pub fn reported_sites(&self) -> &[Site] {
        self.comparison.as_ref().map_or(&self.escapes.sites, |comparison| &comparison.new)
    }

    /// The document as SARIF, for code scanning. Paths begin where the version control does.
    pub fn sarif(&self, here: &Path) -> serde_json::Value {
        let root = sarif::root(here);
        let level = if self.comparison.is_some() { "warning" } else { "note" };
        let findings: Vec<Finding> = self
            .reported_sites()
            .iter()
            .map(|site| {
                let file = here.join(&site.file);
                let message =
                    [Some(format!("{} is in the heap: {}", site.what, site.why)), site.flow_line(), site.suggested()];
                Finding {
                    rule: site.reason.key(),
                    level,
                    message: message.into_iter().flatten().collect::<Vec<_>>().join("\n"),
                    file: file.strip_prefix(&root).unwrap_or(&file).to_string_lossy().into_owned(),
                    line: site.line,
                    column: site.column,
                    ..Finding::default()
                }
            })
            .collect();
        sarif::document(&sarif::rules(&findings, |rule| format!("In the heap: {}", rule.replace('_', " "))), &findings)
    }
}
