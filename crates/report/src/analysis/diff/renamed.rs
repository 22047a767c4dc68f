//! What has another name, or is in another place, said once: not for each stack that it is on.

use std::collections::{BTreeMap, BTreeSet};

use super::moved::Moved;
use super::report::{DiffRename, Why};
use super::stacks::Joint;

/// Of all reasons, those that name something; the one that most stacks have comes first.
pub(super) fn renamed<'w>(stacks: impl Iterator<Item = &'w [Why]>, moved: &Moved, joint: &Joint) -> Vec<DiffRename> {
    // An address says nothing of another build.
    let is_own = |function: &str| joint.is_own_text(function) && !function.contains("+0x");
    let mut all: BTreeMap<(bool, Why), (u64, BTreeSet<&str>)> = BTreeMap::new();
    for whys in stacks {
        let mut seen = BTreeSet::new();
        for why in whys {
            let (why, function) = match why {
                Why::Moved { function, from, to } => {
                    // All functions that went from one file to another are one.
                    (Why::Moved { function: String::new(), from: from.clone(), to: to.clone() }, Some(&function[..]))
                }
                Why::Renamed { .. } | Why::Gone { .. } | Why::New { .. } => (why.clone(), None),
                Why::Split | Why::Merged | Why::SameNumbers => continue,
            };
            let file = matches!(&why, Why::Moved { from, to, .. } if moved.is_file(from, to));
            let (stacks, functions) = all.entry((file, why.clone())).or_default();
            *stacks += u64::from(seen.insert(why));
            functions.extend(function);
        }
    }
    let mut renamed: Vec<DiffRename> = all
        .into_iter()
        .map(|((file, mut why), (stacks, functions))| {
            if let Why::Moved { function, .. } = &mut why
                && functions.len() == 1
            {
                functions.iter().for_each(|name| function.push_str(name));
            }
            let own = match &why {
                Why::Renamed { from, to } => [from, to].into_iter().all(|name| is_own(name)),
                Why::Gone { function } | Why::New { function } => is_own(function),
                _ => true,
            };
            DiffRename { why, file, own, functions: functions.len() as u64, stacks }
        })
        .collect();
    renamed.sort_by_key(|one| (std::cmp::Reverse(one.file), std::cmp::Reverse(one.stacks)));
    renamed
}
