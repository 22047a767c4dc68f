//! What `mallow guard` writes for other programs: JUnit XML, SARIF, GitHub annotations.

use std::collections::HashMap;
use std::path::Path;

use mallow_report::analysis::Frame;
use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};
use serde_json::Value;

use super::errors::Report;
use super::steps::OperationDocument;
use super::{identity, text, words};
use crate::output::sarif::{self, Finding, Related};
use crate::output::text::{Look, Page, clean};

/// An error or a crash, as these formats have it.
struct Entry<'a> {
    kind: &'static str,
    /// Text that is the same in each run.
    name: String,
    /// Number that identifies the error in each run; empty: `name` does.
    identity: String,
    title: String,
    /// Text of the screen, with whole stacks.
    text: String,
    /// The error, the free and the allocation.
    steps: Vec<&'a OperationDocument>,
}

fn entries<'a>(report: &'a Report<'_>) -> Vec<Entry<'a>> {
    let look = Look::default();
    let errors = report.errors.iter().map(|error| Entry {
        kind: error.kind,
        title: format!("{}: {}", error.kind.replace('-', " "), error.place),
        text: printed(|page| text::one(error, &look, true, page)),
        name: identity::name(error.kind, &error.steps()),
        identity: error.identity.clone(),
        steps: error.steps(),
    });
    let crashes = report.crashes.iter().map(|crash| Entry {
        kind: words::CRASH,
        title: format!("{} ({}): {}", words::CRASH, crash.signal, crash.place),
        text: printed(|page| text::crash(crash, &look, true, page)),
        name: identity::name(&format!("{} ({})", words::CRASH, crash.signal), &crash.steps()),
        identity: crash.identity.clone(),
        steps: crash.steps(),
    });
    let unseen = report.crash_unseen().map(|signal| {
        let title = format!("{} ({signal}): {}", words::CRASH, words::UNSEEN);
        let name = format!("{} ({signal})", words::CRASH);
        Entry { kind: words::CRASH, name, identity: String::new(), text: title.clone(), title, steps: Vec::new() }
    });
    let too_little = report.too_little.as_ref().map(|why| Entry {
        kind: words::TOO_LITTLE,
        name: words::TOO_LITTLE.to_owned(),
        identity: String::new(),
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
    entry.steps.iter().find_map(|step| source(step, root))
}

/// The innermost line of a stack that is a source below `root`.
fn source(step: &OperationDocument, root: &Path) -> Option<(String, u32)> {
    let inside = |frame: &Frame| {
        let (file, line) = (frame.file.as_deref()?, frame.line?);
        let below = Path::new(file).strip_prefix(root).unwrap_or(Path::new(file));
        (below.is_relative() && root.join(below).is_file()).then(|| (below.to_string_lossy().into_owned(), line))
    };
    step.stack.frames.iter().find_map(inside)
}

/// Places where the block was freed and allocated, in sources below `root`.
fn related(entry: &Entry<'_>, root: &Path) -> Vec<Related> {
    let others = entry.steps.iter().skip(1).rev();
    let named = others.zip(["the block was allocated here", "the block was freed here"]);
    let places = named.filter_map(|(step, message)| {
        let (file, line) = source(step, root)?;
        Some(Related { message: message.to_owned(), file, line })
    });
    places.collect()
}

/// A report that CI servers read: a failed test for each error or crash, or one that passed.
pub fn junit(report: &Report<'_>, command: &str) -> Result<String, String> {
    let mut suite = TestSuite::new("mallow guard");
    let entries = entries(report);
    let mut seen: HashMap<String, u32> = HashMap::new();
    if entries.is_empty() {
        suite.add_test_case(TestCase::new(clean(command).into_owned(), TestCaseStatus::success()));
    }
    for entry in entries {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
        status.set_message(clean(&entry.title).into_owned());
        status.set_type(entry.kind);
        status.set_description(entry.text);
        let name = if entry.identity.is_empty() { entry.name } else { format!("{} [{}]", entry.name, entry.identity) };
        // Errors that differ in lines alone, as two allocations in one function, get a number.
        let nth = seen.entry(name.clone()).or_insert(0_u32);
        *nth += 1;
        let name = if *nth > 1 { format!("{name} #{nth}") } else { name };
        let mut test = TestCase::new(clean(&name).into_owned(), status);
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
            let related = related(&entry, root);
            let (rule, fingerprint) = (entry.kind, entry.identity);
            Finding { rule, level: "error", message: entry.text, file, line, column: 0, fingerprint, related }
        })
        .collect();
    let mut document = sarif::document(&sarif::rules(&findings, |rule| words::describe(rule).to_owned()), &findings);
    sarif::add_weaknesses(&mut document, identity::weaknesses_of_kind);
    document
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
