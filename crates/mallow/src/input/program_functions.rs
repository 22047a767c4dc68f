//! The functions of a recorded program, as its files have them.

use std::collections::BTreeSet;

use mallow_profile::ModuleId;

use super::recording::Recording;

/// Calls back with the names of all functions of these modules of a side, and returns whether the files that were
/// recorded are here and have them all. Names of other things may be among them.
pub fn each_function(
    sides: [&Recording; 2],
    side: usize,
    modules: &BTreeSet<ModuleId>,
    each: &mut dyn FnMut(&str),
) -> bool {
    let Some(recording) = sides.get(side) else { return false };
    let profile = &recording.profile;
    let ended_unix_ms = profile.started_unix_ms.saturating_add(profile.duration_ms);
    let mut complete = !modules.is_empty();
    for id in modules {
        let Some(module) = profile.modules.get(id.0 as usize) else { return false };
        // Without a build-id, nobody knows whether a file is the one that was recorded on another machine.
        if module.build_id.is_empty() && (recording.is_packed() || profile.origin.is_some()) {
            return false;
        }
        complete &= mallow_symbols::each_function(module, ended_unix_ms, recording.name_options(), each);
    }
    complete
}
