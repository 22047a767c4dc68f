//! What a comparison says.

use mallow_profile::Origin;
use serde::Serialize;

use crate::analysis::functions::{Frame, Stack};
use crate::analysis::numbers::{Measure, Totals};
use crate::analysis::sampled::Estimate;

/// Two profiles, compared by stack. What the lists show, what they leave out and what is in no stack add up to
/// `change`. The two sides are serialised by whoever knows which quantities each of them has.
#[derive(Clone, Debug, Serialize)]
pub struct Diff {
    pub by: Measure,
    /// The first profile.
    #[serde(skip)]
    pub before: DiffSide,
    /// The second.
    #[serde(skip)]
    pub after: DiffSide,
    /// How much more the second has, in all.
    pub change: i64,
    pub verdict: Verdict,
    /// Each measure that both profiles have, with the largest places.
    pub totals: Vec<DiffTotal>,
    /// Places by the measure of the verdict, the largest change first.
    pub places: DiffTotal,
    /// What has another name or is elsewhere, each once.
    pub renamed: Vec<DiffRename>,
    /// Stacks of the first profile alone, the largest first.
    pub only_before: DiffList,
    /// Stacks of the second.
    pub only_after: DiffList,
    /// Stacks of both, with different numbers; the largest change first.
    pub different: DiffList,
    /// Stacks of both that are not equal, and have equal numbers.
    pub recognised: DiffList,
    /// Stacks that are equal, with equal numbers.
    pub equal_stacks: u64,
    /// What is in the totals and in no stack.
    pub elsewhere: i64,
    /// Changes that the lists show.
    pub shown: i64,
    /// Changes that they leave out.
    pub hidden: i64,
}

/// What changed, in short.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// By this measure: what was asked for, or else the one that changed.
    pub by: Measure,
    /// What the first profile has.
    pub before: u64,
    /// And the second.
    pub after: u64,
    /// `after` - `before`.
    pub change: i64,
    /// `change` with its interval, where numbers are estimates and it is known how precise they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// What the places here are of all that changed in either direction, from 0 to 1.
    pub share: f64,
    /// All places changed in the same direction.
    pub one_way: bool,
    /// Places that changed, those here among them.
    pub places_in_all: u64,
    /// The fewest places that are more than half of what changed, if these are few; else the largest. None where no
    /// place changed.
    pub places: Vec<DiffPlace>,
}

impl Verdict {
    /// The places are more than half of what changed.
    pub fn is_clear(&self) -> bool {
        self.share > 0.5
    }
}

/// What changed by one measure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiffTotal {
    pub by: Measure,
    /// The first profile's total.
    pub before: u64,
    /// The second's.
    pub after: u64,
    /// `after` - `before`.
    pub change: i64,
    /// `change` with its interval, where numbers are estimates and it is known how precise they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// What places changed by, in either direction.
    pub moved: u64,
    /// What is in the totals and at no place.
    pub elsewhere: i64,
    /// Places that changed, shown here or not.
    pub places: u64,
    /// The largest changes first.
    pub largest: Vec<DiffPlace>,
}

/// A place, with what it has in both profiles.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiffPlace {
    /// The function and its line, of the second profile if it is there; None where its sites have no frames.
    #[serde(flatten)]
    pub frame: Option<Frame>,
    /// The function by which that one allocates, where other call paths of it changed the other way; None: the line
    /// itself allocates.
    pub by: Option<String>,
    /// The function that it called to get its memory, if that is more than an allocating function.
    pub through: Option<String>,
    /// What became of it.
    pub state: State,
    /// By the measure, in the first profile.
    pub before: u64,
    /// And in the second.
    pub after: u64,
    /// Other functions that requested what it has in `before`, those with the most first: the same memory is requested
    /// here now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub formerly: Vec<FormerFunction>,
    /// `after` - `before`.
    pub change: i64,
    /// `change` with its interval, where numbers are estimates and it is known how precise they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// How many sites it names, in both.
    pub sites: u64,
    /// The stack that changed most.
    pub stack: Stack,
}

/// A function of the first profile that requested what another one requests in the second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FormerFunction {
    pub function: String,
    /// What it requested, by the measure.
    pub before: u64,
}

/// What became of a place, by the measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Only the second profile has anything there.
    New,
    /// Only the first has.
    Gone,
    /// The second has more.
    More,
    /// The second has less.
    Fewer,
}

impl State {
    pub(super) fn of(before: u64, after: u64) -> Self {
        match (before, after) {
            (0, _) => Self::New,
            (_, 0) => Self::Gone,
            _ if after > before => Self::More,
            _ => Self::Fewer,
        }
    }
}

/// A file or a function with another name, functions that moved, or a function that is on the call path on one side
/// alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiffRename {
    /// What happened. Of functions that moved together, the name is empty.
    #[serde(flatten)]
    pub why: Why,
    /// The whole file has another name.
    pub file: bool,
    /// It is of the program's own functions, by its name, and not of a library that views look past.
    pub own: bool,
    /// Functions that moved.
    pub functions: u64,
    /// Stacks that it is on.
    pub stacks: u64,
}

/// One of two profiles.
#[derive(Clone, Debug, Serialize)]
pub struct DiffSide {
    /// The command line that was recorded.
    pub command: Vec<String>,
    /// Whose file it is; null for a recording.
    #[serde(serialize_with = "format_name", rename = "format")]
    pub origin: Option<Origin>,
    /// All of it, by the measure.
    pub value: u64,
    /// Sums over the profile.
    #[serde(flatten)]
    pub totals: Totals,
}

fn format_name<S: serde::Serializer>(origin: &Option<Origin>, to: S) -> Result<S::Ok, S::Error> {
    origin.as_ref().map(|origin| origin.format).serialize(to)
}

/// Rows of one kind.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DiffList {
    /// How many there are, shown here or not.
    pub rows_in_all: u64,
    /// Their changes.
    pub change: i64,
    /// The largest first.
    pub rows: Vec<DiffRow>,
}

impl DiffList {
    /// How many are not shown.
    pub fn hidden(&self) -> u64 {
        self.rows_in_all.saturating_sub(self.rows.len() as u64)
    }

    /// Changes of those that are not shown.
    pub fn hidden_change(&self) -> i64 {
        self.rows.iter().fold(self.change, |left, row| left.saturating_sub(row.change))
    }
}

/// A stack that changed, or several that are one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiffRow {
    /// What was allocated there, by the measure.
    pub before: u64,
    /// And now.
    pub after: u64,
    /// `after` - `before`.
    pub change: i64,
    /// How sure it is that these are the same, from 0 to 1; 1 where they are equal by the rules.
    pub confidence: f64,
    pub why: Vec<Why>,
    /// One stack, or one for each of those that it became or was made of.
    pub stacks: Vec<DiffStack>,
}

/// Why stacks that are not equal are the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Why {
    /// A function has another name.
    Renamed {
        from: String,
        to: String,
        /// The functions of both programs are known: AFTER has no function of the old name, and BEFORE none of the new
        /// one, and several stacks or the names themselves say that they are one. Otherwise they may be two.
        certain: bool,
    },
    /// A function is in another file.
    Moved { function: String, from: String, to: String },
    /// A function is no longer on the path: it was put into its caller, or is not called any more.
    Gone { function: String },
    /// A function has come in between.
    New { function: String },
    /// One stack became several.
    Split,
    /// Several stacks became one.
    Merged,
    /// As many allocations and bytes as before.
    SameNumbers,
}

/// A stack before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiffStack {
    /// What was allocated there before; null where another stack of the row has it, or it was not there.
    pub before: Option<u64>,
    /// And after.
    pub after: Option<u64>,
    /// The innermost function first.
    pub frames: Vec<DiffFrame>,
    /// The outermost frames are missing.
    pub cut: bool,
}

/// A function of a stack.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiffFrame {
    pub of: Mark,
    /// As it is after, or was before where it is there no more.
    #[serde(flatten)]
    pub frame: Frame,
}

/// Whether a function is on both stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// On both.
    Both,
    /// On the one before alone.
    Before,
    /// On the one after alone.
    After,
}
