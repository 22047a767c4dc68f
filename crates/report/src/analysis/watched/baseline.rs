//! Sites that are known from an earlier time.

use std::hash::{Hash, Hasher};

use mallow_profile::{Profile, StackId};
use rustc_hash::{FxHashSet, FxHasher};

use crate::analysis::stacks::functions::Functions;

/// Stacks that an earlier profile had live. They are compared by the names of their functions, so that a rebuild in
/// between changes nothing; two stacks of the same names are one.
#[derive(Clone, Debug, Default)]
pub struct Baseline {
    stacks: FxHashSet<u64>,
}

impl Baseline {
    /// The stacks of what was live when the profile ended.
    pub fn of(profile: &Profile) -> Self {
        let functions = Functions::new(profile);
        let live = profile.sites.iter().filter(|site| site.counts.live > 0 || site.counts.live_bytes > 0);
        Self { stacks: live.map(|site| key(&functions, site.stack)).collect() }
    }

    pub(crate) fn has(&self, functions: &Functions<'_>, stack: StackId) -> bool {
        self.stacks.contains(&key(functions, stack))
    }
}

/// Hashes the program's own functions: allocating functions and start-up code may be left out of a file.
fn key(functions: &Functions<'_>, stack: StackId) -> u64 {
    let mut hasher = FxHasher::default();
    for step in
        functions.steps(stack).filter(|step| step.kind == crate::analysis::stacks::function_kind::FunctionKind::Own)
    {
        functions.name(step.function).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::Baseline;
    use crate::analysis::stacks::functions::Functions;
    use crate::testing::{Builder, blocks};

    #[test]
    fn stacks_are_known_by_their_names() {
        let mut b = Builder::default();
        let process = b.process(1, &["a"], 100);
        b.site(process, &["malloc", "put@a.c:3", "main@a.c:9"], blocks(1, 8, 0, 1));
        b.site(process, &["freed@a.c:5", "main@a.c:9"], blocks(1, 8, 0, 0));
        let baseline = Baseline::of(&b.profile);
        let moved = b.stack(&["put@a.c:4", "main@a.c:12"]);
        let freed = b.stack(&["freed@a.c:5", "main@a.c:9"]);
        let deeper = b.stack(&["put@a.c:3", "serve@a.c:7", "main@a.c:9"]);
        let functions = Functions::new(&b.profile);
        assert_eq!([moved, freed, deeper].map(|stack| baseline.has(&functions, stack)), [true, false, false]);
    }
}
