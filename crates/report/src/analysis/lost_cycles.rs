//! Lost blocks that hold each other: cycles.

use mallow_profile::{Profile, StackId};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::functions::{Frame, Functions};

/// Lost blocks that point to each other in a circle, and are held by nothing else.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Cycle {
    pub count: u64,
    /// Blocks in them, and held by them.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Where their blocks come from, in the order of allocation.
    pub places: Vec<CyclePlace>,
}

/// Where a block of a cycle comes from.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CyclePlace {
    /// The function of the program; None where its stack has no frames.
    #[serde(flatten)]
    pub frame: Option<Frame>,
    /// What holds it: `shared_ptr`, `Rc` or `Arc`, where its stack shows that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<&'static str>,
}

/// Those of counted references and then those with the most bytes, at most `limit` kinds. `is_listed`: whether lost
/// blocks with this stack are among those that are listed, and not all of them a runtime's by design.
pub(super) fn cycles(
    profile: &Profile,
    functions: &Functions<'_>,
    limit: usize,
    is_listed: impl Fn(StackId) -> bool,
) -> Vec<Cycle> {
    let mut known: FxHashMap<Vec<_>, Cycle> = FxHashMap::default();
    let all = profile.scans.iter().flat_map(|scan| &scan.cycles);
    for cycle in all.filter(|cycle| cycle.stacks.is_empty() || cycle.stacks.iter().any(|&stack| is_listed(stack))) {
        let mut key = Vec::new();
        let mut places = Vec::new();
        for &stack in &cycle.stacks {
            let named = functions.named(stack);
            let line = named.map(|named| named.key());
            // A block and what controls it may come from one line.
            if !key.contains(&line) {
                key.push(line);
                let frame = named.map(|named| functions.frame(&named.step));
                places.push(CyclePlace { frame, pointer: pointer(functions, stack) });
            }
        }
        let sum = known.entry(key).or_insert_with(|| Cycle { places, ..Cycle::default() });
        sum.count = sum.count.saturating_add(cycle.count);
        sum.blocks = sum.blocks.saturating_add(cycle.blocks);
        sum.bytes = sum.bytes.saturating_add(cycle.bytes);
    }
    let mut all: Vec<Cycle> = known.into_values().collect();
    // Counted references first: that these are cycles, and who has to break them, is known.
    let is_counted = |cycle: &Cycle| cycle.places.iter().any(|place| place.pointer.is_some());
    all.sort_by_key(|cycle| std::cmp::Reverse((is_counted(cycle), cycle.bytes, cycle.count)));
    all.truncate(limit);
    all
}

/// What counts the references to a block, by the functions that allocated it.
fn pointer(functions: &Functions<'_>, stack: StackId) -> Option<&'static str> {
    const MARKS: [(&str, &str); 6] = [
        ("swift_allocObject", "Swift reference"),
        ("std::make_shared<", "shared_ptr"),
        ("std::__shared_count<", "shared_ptr"),
        ("std::allocate_shared<", "shared_ptr"),
        ("alloc::rc::Rc<", "Rc"),
        ("alloc::sync::Arc<", "Arc"),
    ];
    functions.steps(stack).take_while(|step| functions.is_looked_past(step)).find_map(|step| {
        let name = functions.name(step.function);
        MARKS.iter().find(|(mark, _)| name.contains(mark)).map(|&(_, pointer)| pointer)
    })
}

#[cfg(test)]
mod tests {
    use mallow_profile::{LostCycle, Scan};

    use crate::analysis::functions::Functions;
    use crate::testing::{Builder, blocks};

    #[test]
    fn a_cycle_of_what_is_not_listed_is_none() {
        let mut b = Builder::default();
        let java = b.process(7, &["java"], 10);
        let frames = ["os::malloc!libjvm.so", "JNI_CreateJavaVM!libjvm.so", "JLI_Launch!libjli.so"];
        b.site(java, &frames, blocks(4, 10, 0, 2));
        b.site(java, &["f@a.c:1", "main@a.c:9"], blocks(4, 10, 0, 2));
        let of = |site: usize| b.profile.sites[site].stack;
        let cycle = |stacks| LostCycle { count: 1, blocks: 2, bytes: 20, stacks };
        let cycles = vec![cycle(vec![of(0)]), cycle(vec![of(1)]), cycle(vec![of(0), of(1)])];
        b.profile.scans = vec![Scan { process: java, cycles, ..Scan::default() }];
        let functions = Functions::new(&b.profile);
        assert_eq!(super::cycles(&b.profile, &functions, 9, |stack| stack == of(1)).len(), 2);
        assert_eq!(super::cycles(&b.profile, &functions, 9, |_| true).len(), 3);
    }
}
