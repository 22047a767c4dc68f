//! What a comparison says.

use mallow_profile::Origin;
use serde::Serialize;

use crate::analysis::numbers::{Measure, Totals};
use crate::analysis::sampled::Estimate;
use crate::analysis::stacks::functions::{Frame, Stack};

/// Two profiles, compared by stack. What the lists show, what they leave out and what is in no stack add up to
/// `change`. The two sides are serialised by whoever knows which quantities each of them has.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Diff {
    /// Measure of `change`, of the lists of stacks and of `places`.
    pub by: Measure,
    /// Command line and totals of the first profile.
    #[serde(skip)]
    pub before: DiffSide,
    /// Command line and totals of the second profile.
    #[serde(skip)]
    pub after: DiffSide,
    /// Total of the second profile minus that of the first, by the measure `by`.
    pub change: i64,
    /// Places that explain the change.
    pub verdict: Verdict,
    /// Changes by each measure that both profiles have, with the largest places.
    pub totals: Vec<DiffTotal>,
    /// Places by the measure of the verdict, the largest change first.
    pub places: DiffTotal,
    /// Functions and files with another name or at another place, each once.
    pub renamed: Vec<DiffRename>,
    /// Stacks of the first profile alone, the largest first.
    pub only_before: DiffList,
    /// Stacks of the second profile alone, the largest first.
    pub only_after: DiffList,
    /// Stacks of both, with different numbers; the largest change first.
    pub different: DiffList,
    /// Stacks of both that are not equal, and have equal numbers.
    pub recognised: DiffList,
    /// Stacks that are equal, with equal numbers.
    pub equal_stacks: u64,
    /// Change of the totals that is in no stack, by the measure `by`.
    pub elsewhere: i64,
    /// Sum of the changes in the lists' shown rows, by the measure `by`.
    pub shown: i64,
    /// Sum of the changes in the lists' rows that are not shown, by the measure `by`.
    pub hidden: i64,
}

/// The change in short, and the places that explain it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verdict {
    /// Measure of the verdict: the one that was asked for, else the one that changed.
    pub by: Measure,
    /// Total of the first profile, by the measure `by`.
    pub before: u64,
    /// Total of the second profile, by the measure `by`.
    pub after: u64,
    /// Change of the total by the measure `by`: `after` - `before`.
    pub change: i64,
    /// Estimate of `change` with its interval; left out where numbers were counted, or their precision is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// Share of the changes in either direction that `places` have, from 0 to 1.
    pub share: f64,
    /// Each place that changed did so in the same direction.
    pub one_way: bool,
    /// Places that changed, those here among them.
    pub places_in_all: u64,
    /// The fewest places that make up more than half of the change, if they are few; else the largest. Empty where no
    /// place changed.
    pub places: Vec<DiffPlace>,
}

impl Verdict {
    /// Whether the places are more than half of what changed.
    pub fn is_clear(&self) -> bool {
        self.share > 0.5
    }
}

/// Changes by one measure.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiffTotal {
    /// Measure of the numbers.
    pub by: Measure,
    /// Total of the first profile, by the measure `by`.
    pub before: u64,
    /// Total of the second profile, by the measure `by`.
    pub after: u64,
    /// Change of the total by the measure `by`: `after` - `before`.
    pub change: i64,
    /// Estimate of `change` with its interval; left out where numbers were counted, or their precision is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// Sum of the places' changes without their signs, by the measure `by`.
    pub moved: u64,
    /// Change of the totals that is at no place, by the measure `by`.
    pub elsewhere: i64,
    /// Places that changed, shown here or not.
    pub places: u64,
    /// Places that changed, the largest change first.
    pub largest: Vec<DiffPlace>,
}

/// A place, with what it has in both profiles.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiffPlace {
    /// The function and its line, of the second profile if it is there; without its keys where the place's sites have
    /// no frames.
    #[serde(flatten)]
    pub frame: Option<Frame>,
    /// Function by which the line's function allocates, where other call paths of it changed the other way; null: the
    /// line itself allocates.
    pub by: Option<String>,
    /// Function that the line called to get its memory; null where that is an allocating function.
    pub through: Option<String>,
    /// Direction of the change.
    pub state: State,
    /// Total of the place in the first profile, by the measure of the list.
    pub before: u64,
    /// Total of the place in the second profile, by the measure of the list.
    pub after: u64,
    /// Other functions that requested the memory of `before` in the first profile, those with the most first; left out
    /// where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub formerly: Vec<FormerFunction>,
    /// Change of the place by the measure of the list: `after` - `before`.
    pub change: i64,
    /// Estimate of `change` with its interval; left out where numbers were counted, or their precision is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// Call sites of the place, in both profiles.
    pub sites: u64,
    /// Stack of the place that changed most.
    pub stack: Stack,
}

/// A function of the first profile that requested what another one requests in the second.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FormerFunction {
    /// Demangled name of the function.
    pub function: String,
    /// Total of the function in the first profile, by the measure of the list.
    pub before: u64,
}

/// Change of a place, by the measure of its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Only the second profile has something at the place.
    New,
    /// Only the first profile has something at the place.
    Gone,
    /// The second profile has more at the place.
    More,
    /// The second profile has less at the place.
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiffRename {
    /// Change of the name or the file; the name is empty for functions that moved together.
    #[serde(flatten)]
    pub why: Why,
    /// The whole file has another name.
    pub file: bool,
    /// True: a function of the program itself, by its name. False: of a library that views look past.
    pub own: bool,
    /// Functions that moved from one file to another; 0 for changes of another kind.
    pub functions: u64,
    /// Stacks that have the change.
    pub stacks: u64,
}

/// One of two profiles.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiffSide {
    /// The command line that was recorded.
    pub command: Vec<String>,
    /// Format of the file, by its tool; null for a recording.
    #[serde(serialize_with = "format_name", rename = "format")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub origin: Option<Origin>,
    /// Total of the profile, by the measure `by` of the document.
    pub value: u64,
    /// Sums over the profile.
    #[serde(flatten)]
    pub totals: Totals,
}

fn format_name<S: serde::Serializer>(origin: &Option<Origin>, to: S) -> Result<S::Ok, S::Error> {
    origin.as_ref().map(|origin| origin.format).serialize(to)
}

/// Rows of a comparison, of one kind.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiffList {
    /// Rows of the list, shown here or not.
    pub rows_in_all: u64,
    /// Sum of the rows' changes, by the measure `by` of the document.
    pub change: i64,
    /// Rows, the largest change first.
    pub rows: Vec<DiffRow>,
}

impl DiffList {
    /// Rows that are not shown.
    pub fn hidden(&self) -> u64 {
        self.rows_in_all.saturating_sub(self.rows.len() as u64)
    }

    /// Sum of the changes of the rows that are not shown.
    pub fn hidden_change(&self) -> i64 {
        self.rows.iter().fold(self.change, |left, row| left.saturating_sub(row.change))
    }
}

/// A stack that changed, or several that are one.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiffRow {
    /// Total of the row in the first profile, by the measure `by` of the document.
    pub before: u64,
    /// Total of the row in the second profile, by the measure `by` of the document.
    pub after: u64,
    /// Change of the row by the measure `by` of the document: `after` - `before`.
    pub change: i64,
    /// Confidence that the stacks are the same, from 0 to 1; 1 where the rules make them equal.
    pub confidence: f64,
    /// Reasons for which different stacks are taken as the same.
    pub why: Vec<Why>,
    /// Stacks of the row: one, or those that it became or was made of.
    pub stacks: Vec<DiffStack>,
}

/// Reason why stacks that are not equal are taken as the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Why {
    /// A function has another name.
    Renamed {
        /// Name of the function in the first profile.
        from: String,
        /// Name of the function in the second profile.
        to: String,
        /// The functions of both programs are known: AFTER has no function of the old name, and BEFORE none of the new
        /// one, and several stacks or the names themselves say that they are one. Otherwise they may be two.
        certain: bool,
    },
    /// A function is in another file.
    Moved {
        /// Name of the function.
        function: String,
        /// Source file in the first profile.
        from: String,
        /// Source file in the second profile.
        to: String,
    },
    /// A function is no longer on the path: it was put into its caller, or is not called any more.
    Gone {
        /// Name of the function.
        function: String,
    },
    /// A function has come onto the path in between.
    New {
        /// Name of the function.
        function: String,
    },
    /// One stack became several.
    Split,
    /// Several stacks became one.
    Merged,
    /// The stacks have as many allocations and bytes as before.
    SameNumbers,
}

/// A stack before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiffStack {
    /// Total of the stack in the first profile, by the measure `by`; null where another stack of the row has it, or
    /// there is none.
    pub before: Option<u64>,
    /// Total of the stack in the second profile, by the measure `by`; null where another stack of the row has it, or
    /// there is none.
    pub after: Option<u64>,
    /// Functions of the stack, the innermost first.
    pub frames: Vec<DiffFrame>,
    /// The outermost frames are missing.
    pub cut: bool,
}

/// A function of a stack.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiffFrame {
    /// Profile in which the frame is on the stack.
    pub of: Mark,
    /// The function as it is in the second profile, or was in the first one where it is there no more.
    #[serde(flatten)]
    pub frame: Frame,
}

/// Profiles in which a function is on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// The function is on both stacks.
    Both,
    /// The function is on the stack of the first profile alone.
    Before,
    /// The function is on the stack of the second profile alone.
    After,
}
