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
use super::calls::Calls;
use super::changes::{Amount, Both, Source, difference, of_one};
use super::numbers::Ending;

/// The graph. Costs a step for each frame that stacks do not share; with `callers`, one for each frame of each stack.
pub fn flame(profile: &Profile, options: FlameOptions) -> Flame {
    of_one(profile, |source| drawn(source, options))
}

/// The graph of the second profile, with what changed since the first.
pub fn flame_changes(both: &Both, options: FlameOptions) -> Flame {
    let mut flame = both.view(|source| drawn(source, options));
    let [before, after] = both.totals.values(options.by);
    let change = difference(before, after);
    let in_boxes = flame.boxes.iter().fold(0i64, |sum, node| sum.saturating_add(node.change));
    // What no stack has, the whole has.
    flame.boxes[0].change = flame.boxes[0].change.saturating_add(change.saturating_sub(in_boxes));
    flame.base = Some(FlameBase { before, change });
    flame
}

fn drawn<A: Amount>(source: Source<'_, A>, options: FlameOptions) -> Flame {
    let profile = source.profile;
    let functions = source.functions();
    let by = options.by;
    let calls = Calls::new(source, &functions, options.raw, by);
    let mut sites = 0;
    (source.sites)(&mut |_, amount| sites += u64::from(amount.values(by)[1] > 0));
    let tree = if options.callers { callers(&calls, by) } else { callees(&calls, by) };
    let mut flame = Flame {
        command: profile.command.clone(),
        by,
        callers: options.callers,
        raw: options.raw,
        totals: profile.totals.into(),
        base: None,
        peak_ms: profile.peak_ms,
        ending: Ending::of(profile),
        sites,
        gone: Vec::new(),
        left_out: 0,
        min: options.least.of(by.of(&profile.totals.into())),
        functions: Vec::new(),
        groups: Vec::new(),
        by_file_in: None,
        boxes: Vec::new(),
    };
    let groups = Groups::new(source, &functions, &calls, options);
    flame.by_file_in = groups.by_file_in().map(str::to_owned);
    Layout::new(&functions, &groups, &tree, &mut flame).lay_out(options.parts);
    groups.finish(&mut flame);
    flame
}
