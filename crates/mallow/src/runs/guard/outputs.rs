//! What `mallow guard` writes for other programs: JUnit XML, SARIF, GitHub annotations.

use std::path::Path;

use mallow_report::analysis::Frame;
use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};
use serde_json::Value;

use super::errors::ErrorDocument;
use super::{text, words};
use crate::output::sarif::{self, Finding};
use crate::output::text::{Look, Page, clean};

fn title(error: &ErrorDocument) -> String {
    format!("{}: {}", error.kind.replace('-', " "), error.place)
}

fn whole(error: &ErrorDocument) -> String {
    let mut page = Page::new(Look::default());
    text::one(error, &Look::default(), true, &mut page);
    page.into_text()
}

/// The innermost line of the error's stack, or of the block's, that is a source below `root`.
fn line(error: &ErrorDocument, root: &Path) -> Option<(String, u32)> {
    let block = error.block.as_ref();
    let stacks = [Some(&error.error), block.and_then(|b| b.freed.as_ref()), block.map(|b| &b.allocated)];
    let inside = |frame: &Frame| {
        let (file, line) = (frame.file.as_deref()?, frame.line?);
        let below = Path::new(file).strip_prefix(root).unwrap_or(Path::new(file));
        (below.is_relative() && root.join(below).is_file()).then(|| (below.to_string_lossy().into_owned(), line))
    };
    stacks.into_iter().flatten().find_map(|step| step.stack.frames.iter().find_map(inside))
}

/// A report that CI servers read: a failed test for each error, or one that passed.
pub fn junit(errors: &[ErrorDocument], command: &str) -> Result<String, String> {
    let mut suite = TestSuite::new("mallow guard");
    if errors.is_empty() {
        suite.add_test_case(TestCase::new(clean(command).into_owned(), TestCaseStatus::success()));
    }
    for error in errors {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
        status.set_message(clean(&title(error)).into_owned());
        status.set_type(error.kind);
        status.set_description(whole(error));
        let mut test = TestCase::new(clean(&title(error)).into_owned(), status);
        test.set_classname("mallow");
        suite.add_test_case(test);
    }
    let mut junit = quick_junit::Report::new("mallow guard");
    junit.add_test_suite(suite);
    junit.to_string().map_err(|error| error.to_string())
}

/// SARIF, for code scanning. An error without a line in the project has the command as its place.
pub fn sarif(errors: &[ErrorDocument], command: &str, root: &Path) -> Value {
    let findings: Vec<Finding> = errors
        .iter()
        .map(|error| {
            let (file, line) = line(error, root).unwrap_or_else(|| (command.to_owned(), 1));
            Finding { rule: error.kind, level: "error", message: whole(error), file, line, column: 0 }
        })
        .collect();
    sarif::document(&sarif::rules(&findings, |rule| words::describe(rule).to_owned()), &findings)
}

/// Workflow commands: GitHub shows them at their lines.
pub fn github(errors: &[ErrorDocument], root: &Path) -> String {
    let data = |text: &str| clean(text).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let property = |text: &str| data(text).replace(':', "%3A").replace(',', "%2C");
    let one = |error: &ErrorDocument| {
        let place = line(error, root).map(|(file, line)| format!("file={},line={line},", property(&file)));
        let place = place.unwrap_or_default();
        format!("::error {place}title={}::{}\n", property(error.kind), data(&title(error)))
    };
    errors.iter().map(one).collect()
}
