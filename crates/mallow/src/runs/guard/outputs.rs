//! What `mallow guard` writes for other programs: JUnit XML, SARIF, GitHub annotations.

use std::path::Path;

use mallow_report::analysis::Frame;
use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};
use serde_json::Value;

use super::errors::Report;
use super::steps::{BlockDocument, Step};
use super::{text, words};
use crate::output::sarif::{self, Finding};
use crate::output::text::{Look, Page, clean};

/// An error or a crash, as these formats have it.
struct Entry<'a> {
    kind: &'static str,
    title: String,
    /// As on the screen, with whole stacks.
    text: String,
    /// The error, the free and the allocation.
    steps: Vec<&'a Step>,
}

fn entries<'a>(report: &'a Report<'_>) -> Vec<Entry<'a>> {
    let look = Look::default();
    let steps = |error: &'a Step, block: Option<&'a BlockDocument>| {
        let freed = block.and_then(|block| block.freed.as_ref());
        [Some(error), freed, block.map(|block| &block.allocated)].into_iter().flatten().collect()
    };
    let errors = report.errors.iter().map(|error| Entry {
        kind: error.kind,
        title: format!("{}: {}", error.kind.replace('-', " "), error.place),
        text: printed(|page| text::one(error, &look, true, page)),
        steps: steps(&error.error, error.block.as_ref()),
    });
    let crashes = report.crashes.iter().map(|crash| Entry {
        kind: words::CRASH,
        title: format!("{} ({}): {}", words::CRASH, crash.signal, crash.place),
        text: printed(|page| text::crash(crash, &look, true, page)),
        steps: steps(&crash.error, crash.block.as_ref()),
    });
    let unseen = report.crash_unseen().map(|signal| {
        let title = format!("{} ({signal}): {}", words::CRASH, words::UNSEEN);
        Entry { kind: words::CRASH, text: title.clone(), title, steps: Vec::new() }
    });
    let too_little = report.too_little.as_ref().map(|why| Entry {
        kind: words::TOO_LITTLE,
        title: why.clone(),
        text: why.clone(),
        steps: Vec::new(),
    });
    errors.chain(crashes).chain(unseen).chain(too_little).collect()
}

fn printed(print: impl FnOnce(&mut Page)) -> String {
    let mut page = Page::new(Look::default());
    print(&mut page);
    page.into_text()
}

/// The innermost line of the error's stack, or of the block's, that is a source below `root`.
fn line(entry: &Entry<'_>, root: &Path) -> Option<(String, u32)> {
    let inside = |frame: &Frame| {
        let (file, line) = (frame.file.as_deref()?, frame.line?);
        let below = Path::new(file).strip_prefix(root).unwrap_or(Path::new(file));
        (below.is_relative() && root.join(below).is_file()).then(|| (below.to_string_lossy().into_owned(), line))
    };
    entry.steps.iter().find_map(|step| step.stack.frames.iter().find_map(inside))
}

/// A report that CI servers read: a failed test for each error or crash, or one that passed.
pub fn junit(report: &Report<'_>, command: &str) -> Result<String, String> {
    let mut suite = TestSuite::new("mallow guard");
    let entries = entries(report);
    if entries.is_empty() {
        suite.add_test_case(TestCase::new(clean(command).into_owned(), TestCaseStatus::success()));
    }
    for entry in entries {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
        status.set_message(clean(&entry.title).into_owned());
        status.set_type(entry.kind);
        status.set_description(entry.text);
        let mut test = TestCase::new(clean(&entry.title).into_owned(), status);
        test.set_classname("mallow");
        suite.add_test_case(test);
    }
    let mut junit = quick_junit::Report::new("mallow guard");
    junit.add_test_suite(suite);
    junit.to_string().map_err(|error| error.to_string())
}

/// SARIF, for code scanning. An error without a line in the project has the command as its place.
pub fn sarif(report: &Report<'_>, command: &str, root: &Path) -> Value {
    let findings: Vec<Finding> = entries(report)
        .into_iter()
        .map(|entry| {
            let (file, line) = line(&entry, root).unwrap_or_else(|| (command.to_owned(), 1));
            Finding { rule: entry.kind, level: "error", message: entry.text, file, line, column: 0 }
        })
        .collect();
    sarif::document(&sarif::rules(&findings, |rule| words::describe(rule).to_owned()), &findings)
}

/// Workflow commands: GitHub shows them at their lines.
pub fn github(report: &Report<'_>, root: &Path) -> String {
    let data = |text: &str| clean(text).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let property = |text: &str| data(text).replace(':', "%3A").replace(',', "%2C");
    let one = |entry: &Entry<'_>| {
        let place = line(entry, root).map(|(file, line)| format!("file={},line={line},", property(&file)));
        let place = place.unwrap_or_default();
        format!("::error {place}title={}::{}\n", property(entry.kind), data(&entry.title))
    };
    entries(report).iter().map(one).collect()
}
