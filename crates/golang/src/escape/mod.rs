//! Every allocation in the heap that the compiler sees, whether it is ever run or not.

mod compare;
mod follow;
mod rank;

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::chain::{self, outermost, plain};
use crate::model::{Diagnostic, Kind, Position, Reason};
use crate::names::without_types;
use crate::read::Diagnostics;

pub use compare::{Comparison, compare};
pub use follow::name_of;
pub use rank::{Ranked, rank};

pub const VERSION: u32 = 1;

/// Allocations of some packages in the heap, as the compiler says. A later run can be compared with the JSON
/// (`--base`).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Escapes {
    /// Version of the file format that `--base` reads.
    pub version: u32,
    /// Version of the Go compiler: `go1.26.8`.
    pub go: String,
    /// Import paths of the packages that were compiled.
    pub packages: Vec<String>,
    /// Places at which a function allocates in the heap, by file and line; with a profile, the most allocations first.
    pub sites: Vec<Site>,
    /// Number of lines that the compiler printed and Mallow does not know.
    pub passed_over: u64,
    /// Some of the lines that `passed_over` counts, as the compiler printed them; left out where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
}

/// A place of a function that allocates in the heap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Site {
    /// Import path of the package that was compiled.
    pub package: String,
    /// The function that was compiled; null where the compiler does not name it.
    pub function: Option<String>,
    /// Source file of the allocation: its path from the directory where the command ran, or absolute outside of it.
    pub file: String,
    /// Line in `file`, from 1.
    pub line: u32,
    /// Column in bytes, from 1; 0 where the compiler does not say it.
    pub column: u32,
    /// File and line of the source text, where the compiler inlined it from another function; left out elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inlined_from: Option<FileLine>,
    /// Form of the allocation.
    pub kind: Kind,
    /// The compiler's expression: `make([]byte, size)`, `&bytes.Buffer{...}`, `n`.
    pub what: String,
    /// Reason why the value is in the heap.
    #[serde(flatten)]
    pub reason: Reason,
    /// `reason` as a sentence for people.
    pub why: String,
    /// Steps of the escape flow, a text each; empty where the compiler says none.
    #[serde(default)]
    pub chain: Vec<String>,
    /// Suggestion how to avoid the allocation, a sentence; null where there is none.
    #[serde(default)]
    pub suggestion: Option<String>,
    /// Allocations that the profile has at this line, and of what was inlined there; left out without a profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocations: Option<u64>,
    /// Bytes of `allocations`, by the profile; left out without a profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_bytes: Option<u64>,
    /// Number of other places that the profile cannot tell apart from this one: the same line, the same functions. Left
    /// out where there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub shared_with: u64,
    /// Position of the allocation, then those of the calls that inlined it, as debug information has them.
    #[serde(skip)]
    pub positions: Vec<Position>,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileLine {
    /// Source file: its path from the directory where the command ran, or absolute outside of it.
    pub file: String,
    /// Line in `file`, from 1.
    pub line: u32,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Escapes {
    /// Escapes of these packages, as compiled by `go`. Files below `directory` are named by their path from there.
    pub fn of(go: &str, found: &[Diagnostics], packages: &[String], directory: &str) -> Self {
        let mut escapes = Self { version: VERSION, go: go.to_owned(), packages: packages.to_vec(), ..Self::default() };
        let mut seen = HashSet::new();
        for diagnostics in found {
            escapes.passed_over += diagnostics.passed_over;
            escapes.examples.extend(diagnostics.examples.iter().cloned());
            for one in diagnostics.list.iter().filter(|one| one.allocates()) {
                let site = site(one, directory);
                // The compiler has a generic function once for types that look alike, and once more with a dictionary.
                if seen.insert(identity(one, &site)) {
                    escapes.sites.push(site);
                }
            }
        }
        escapes.sites.sort_by(|a, b| (&a.file, a.line, a.column, &a.what).cmp(&(&b.file, b.line, b.column, &b.what)));
        escapes
    }
}

/// Key of an allocation. A generic function's own body counts once, whatever its types are.
fn identity(one: &Diagnostic, site: &Site) -> (Position, String, Option<(Position, String)>, Kind) {
    let function = site.function.as_deref().unwrap_or_default();
    let apart = || (outermost(&one.position, &one.inlined_at).clone(), site.what.clone());
    (one.position.clone(), without_types(function), (!function.contains('[')).then(apart), site.kind)
}

fn site(one: &Diagnostic, directory: &str) -> Site {
    let at = outermost(&one.position, &one.inlined_at);
    let inlined = !one.inlined_at.is_empty();
    Site {
        package: one.package.clone(),
        function: one.function.as_deref().map(plain),
        file: below(&at.file, directory),
        line: at.line,
        column: at.column,
        inlined_from: inlined.then(|| FileLine { file: below(&one.position.file, directory), line: one.position.line }),
        kind: one.kind,
        what: plain(&one.what),
        reason: one.reason.clone(),
        why: one.reason.words(),
        chain: one.chain(),
        suggestion: one.remedy().map(|advice| advice.text().to_owned()),
        allocations: None,
        allocated_bytes: None,
        shared_with: 0,
        positions: std::iter::once(&one.position).chain(&one.inlined_at).cloned().collect(),
    }
}

fn below(file: &str, directory: &str) -> String {
    let rest = file.strip_prefix(directory).and_then(|rest| rest.strip_prefix('/'));
    rest.unwrap_or(file).to_owned()
}

impl Site {
    pub fn flow_line(&self) -> Option<String> {
        (!self.chain.is_empty()).then(|| self.chain.join(" → "))
    }

    /// The suggestion as a sentence.
    pub fn suggested(&self) -> Option<String> {
        self.suggestion.as_ref().map(|suggestion| format!("Suggestion: {suggestion}."))
    }

    /// File and line: `stream.go:83`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }

    /// File and line of the call that inlined it: `buffer.go:490`.
    pub fn inlined_place(&self) -> Option<String> {
        self.inlined_from.as_ref().map(|place| format!("{}:{}", chain::base(&place.file), place.line))
    }
}
