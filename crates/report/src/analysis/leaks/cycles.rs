//! Lost blocks that hold each other: cycles.

use mallow_profile::{Profile, StackId};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::analysis::stacks::functions::{Frame, Functions};

/// Lost blocks that point to each other in a circle, and are held by nothing else.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cycle {
    /// Number of the cycles of this form.
    pub count: u64,
    /// Blocks of the cycles, with those that they hold.
    pub blocks: u64,
    /// Requested bytes of `blocks`.
    pub bytes: u64,
    /// Lines that allocated the blocks of the cycle, in the order of allocation.
    pub places: Vec<CyclePlace>,
    /// Whether references to each block of the cycles are counted, as far as the stacks show: no block is one that its
    /// owner has to free, and to which another one points back.
    #[serde(skip)]
    pub is_counted: bool,
}

/// Origin of a block of a cycle.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CyclePlace {
    /// The function of the program; without its keys where the block's stack has no frames.
    #[serde(flatten)]
    pub frame: Option<Frame>,
    /// Smart pointer that holds the block: `shared_ptr`, `Rc` or `Arc`, where its stack shows that; left out elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<&'static str>,
}

/// Lists at most `limit` kinds of cycles: those of counted references first, then those with the most bytes.
/// `is_listed` says whether lost blocks with a stack are among those that are listed, and not all of them a runtime's
/// by design.
pub(in crate::analysis) fn cycles(
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
        let sum = known.entry(key).or_insert_with(|| Cycle { places, is_counted: true, ..Cycle::default() });
        sum.is_counted &= is_counted(functions, &cycle.stacks);
        sum.count = sum.count.saturating_add(cycle.count);
        sum.blocks = sum.blocks.saturating_add(cycle.blocks);
        sum.bytes = sum.bytes.saturating_add(cycle.bytes);
    }
    let mut all: Vec<Cycle> = known.into_values().collect();
    // Counted references first: that these are cycles, and who has to break them, is known.
    let has_counts = |cycle: &Cycle| cycle.places.iter().any(|place| place.pointer.is_some());
    all.sort_by_key(|cycle| std::cmp::Reverse((has_counts(cycle), cycle.bytes, cycle.count)));
    all.truncate(limit);
    all
}

/// Whether each block of a cycle has counted references. An object that `shared_ptr` took over has its counts in a
/// block beside it, and a container has its elements in one of its own.
fn is_counted(functions: &Functions<'_>, stacks: &[StackId]) -> bool {
    const WITH_ITS_COUNTS: [&str; 2] = ["std::make_shared<", "std::allocate_shared<"];
    let calls = |stack: StackId, marks: &[&str]| {
        let mut passed = functions.steps(stack).take_while(|step| functions.is_looked_past(step));
        passed.any(|step| marks.iter().any(|mark| functions.name(step.function).contains(mark)))
    };
    let (mut counts, mut others) = (0u32, 0u32);
    for &stack in stacks {
        match pointer(functions, stack) {
            Some("shared_ptr") => counts += u32::from(!calls(stack, &WITH_ITS_COUNTS)),
            None if calls(stack, &["std::"]) => {}
            None => others += 1,
            // In Swift and safe Rust, nothing else refers back.
            Some(_) => return true,
        }
    }
    others <= counts
}

/// The kind of counted reference to a block, by the functions that allocated it; None for no such block.
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

    use crate::analysis::stacks::functions::Functions;
    use crate::testing::{Builder, blocks};

    /// A tree that somebody forgot to delete, whose nodes have the address of the one above, keeps itself no more alive
    /// than any other.
    #[test]
    fn a_cycle_with_an_owner_that_nothing_counts_is_not_kept_alive_by_itself() {
        let mut b = Builder::default();
        let process = b.process(7, &["a"], 10);
        let shared = ["std::__shared_count<(__gnu_cxx::_Lock_policy)2>::__shared_count<Node>(Node*&)"];
        let made = [&shared[..], &["std::make_shared<Node>()"]].concat();
        let vector = ["std::vector<int, std::allocator<int> >::push_back(int const&)"];
        for frames in [&[][..], &shared[..], &made, &vector] {
            b.site(process, &[frames, &["f@a.cc:1", "main@a.cc:9"]].concat(), blocks(4, 10, 0, 2));
        }
        b.site(process, &["alloc::rc::Rc<a::Node>::new", "f@a.rs:1"], blocks(4, 10, 0, 2));
        let functions = Functions::new(&b.profile);
        let of = |sites: &[usize]| {
            let stacks: Vec<_> = sites.iter().map(|&site| b.profile.sites[site].stack).collect();
            super::is_counted(&functions, &stacks)
        };
        let (raw, counts, made, vector, rc) = (0, 1, 2, 3, 4);
        for (sites, expected) in [
            (&[made][..], true),
            (&[raw, made], false),
            (&[raw, counts], true),
            (&[made, vector], true),
            (&[raw, rc], true),
            (&[raw], false),
        ] {
            assert_eq!(of(sites), expected, "{sites:?}");
        }
    }

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
