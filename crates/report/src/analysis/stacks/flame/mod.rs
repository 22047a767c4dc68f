//! Calls as boxes: what a flame graph draws.

mod boxes;
mod groups;
mod model;
#[cfg(test)]
mod tests;

use mallow_profile::Profile;

use self::boxes::{Layout, callees, callers};
use self::groups::Groups;
pub use self::model::{Flame, FlameBase, FlameBox, FlameFunction, FlameGroup, FlameOptions, GroupKind, Label};
use crate::analysis::compare::changes::{Amount, Both, RowSource, difference};
use crate::analysis::numbers::Ending;
use crate::analysis::stacks::calls::Calls;
use crate::analysis::stacks::profile_views::ProfileViews;

/// Costs a step for each frame that stacks do not share; with `callers`, one for each frame of each stack.
pub fn flame(profile: &Profile, options: FlameOptions) -> Flame {
    ProfileViews::of(profile).flame_fitting(options, &mut |_, _| None)
}

/// Returns the options to draw a graph with again, smaller; None if it is small enough. Only `parts` and `least` may
/// differ. Drawing again costs a step for each call, and nothing for stacks.
pub type Shrink<'a> = dyn FnMut(&Flame, FlameOptions) -> Option<FlameOptions> + 'a;

impl ProfileViews<'_> {
    /// Draws the graph until `shrink` returns None.
    pub fn flame_fitting(&self, options: FlameOptions, shrink: &mut Shrink<'_>) -> Flame {
        self.view(|source| drawn(source, options, shrink))
    }
}

/// The graph of the second profile, with what changed since the first.
pub fn flame_changes(both: &Both, options: FlameOptions) -> Flame {
    flame_changes_fitting(both, options, &mut |_, _| None)
}

/// Draws the graph of changes until `shrink` returns None.
pub fn flame_changes_fitting(both: &Both, options: FlameOptions, shrink: &mut Shrink<'_>) -> Flame {
    let mut flame = both.view(|source| drawn(source, options, shrink));
    let [before, after] = both.totals.values(options.by);
    let change = difference(before, after);
    let in_boxes = flame.boxes.iter().fold(0i64, |sum, node| sum.saturating_add(node.change));
    // What no stack has, the whole has.
    flame.boxes[0].change = flame.boxes[0].change.saturating_add(change.saturating_sub(in_boxes));
    flame.base = Some(FlameBase { before, change });
    flame
}

fn drawn<A: Amount>(source: RowSource<'_, A>, mut options: FlameOptions, shrink: &mut Shrink<'_>) -> Flame {
    let functions = source.functions;
    let by = options.by;
    let calls = Calls::new(source, options.raw, by);
    let mut sites = 0;
    (source.sites)(&mut |_, amount| sites += u64::from(amount.values(by)[1] > 0));
    let tree = if options.callers { callers(&calls, by) } else { callees(&calls, by) };
    let groups = Groups::new(source, &calls, options);
    loop {
        let mut flame = empty(source.profile, options, sites);
        flame.by_file_in = groups.by_file_in().map(str::to_owned);
        Layout::new(functions, &groups, &tree, &mut flame).lay_out(options.parts);
        groups.finish(&mut flame);
        match shrink(&flame, options) {
            None => return flame,
            Some(smaller) => options = FlameOptions { parts: smaller.parts, least: smaller.least, ..options },
        }
    }
}

fn empty(profile: &Profile, options: FlameOptions, sites: u64) -> Flame {
    Flame {
        command: profile.command.clone(),
        by: options.by,
        callers: options.callers,
        raw: options.raw,
        totals: profile.totals.into(),
        base: None,
        peak_ms: profile.peak_ms,
        ending: Ending::of(profile),
        sites,
        gone: Vec::new(),
        left_out: 0,
        min: options.least.of(options.by.of(&profile.totals.into())),
        functions: Vec::new(),
        groups: Vec::new(),
        by_file_in: None,
        boxes: Vec::new(),
    }
}
