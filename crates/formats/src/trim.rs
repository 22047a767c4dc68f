//! Takes the allocating function itself off stacks: those of a recording begin at its caller.

use mallow_profile::{FAMILIES, Frame, Profile, StackId, Stacks, add_precisions};
use rustc_hash::FxHashMap;

use mallow_report::names;

/// Most frames between the program and the place where a tool took the stack.
const INNERMOST: usize = 16;

/// Names of functions that allocate apart from [`FAMILIES`], without prefixes of allocators.
const OTHERS: [&str; 8] = [
    "reallocf",
    "mallocx",
    "rallocx",
    "malloc_zone_malloc",
    "malloc_zone_calloc",
    "malloc_zone_realloc",
    "malloc_zone_memalign",
    "malloc_zone_valloc",
];

const PREFIXES: [&str; 7] = ["__libc_", "__GI___libc_", "_rjem_", "je_", "tc_", "mi_", "_"];

/// Prefixes of the file names of shared objects that are allocators.
const ALLOCATORS: [&str; 6] =
    ["libjemalloc.", "libtcmalloc", "libmimalloc.", "vgpreload_", "libsystem_malloc.", "libheaptrack_"];

/// Removes innermost frames that belong to an allocator, and adds up sites whose stacks are the same then.
pub fn trim(profile: &mut Profile) {
    let inner: Vec<bool> = profile.frames.iter().map(|frame| is_allocator(profile, frame)).collect();
    if !inner.contains(&true) {
        return;
    }
    // In place: of a large file, the sites are a good part of the memory.
    let Profile { sites, stacks, .. } = profile;
    let mut known: FxHashMap<_, usize> = FxHashMap::default();
    let mut kept = 0;
    for at in 0..sites.len() {
        let stack = caller(stacks, &inner, sites[at].stack);
        let into = *known.entry((sites[at].process, stack)).or_insert(kept);
        if into == kept {
            sites.swap(kept, at);
            sites[kept].stack = stack;
            kept += 1;
        } else {
            let (counts, patterns) = (sites[at].counts, std::mem::take(&mut sites[at].patterns));
            let precisions = sites[at].precisions.take();
            sites[into].counts += counts;
            sites[into].patterns += &patterns;
            add_precisions(&mut sites[into].precisions, precisions.as_deref());
        }
    }
    sites.truncate(kept);
}

/// The stack without its innermost frames up to the outermost one that belongs to an allocator. A stack of those alone
/// stays.
fn caller(stacks: &Stacks, inner: &[bool], stack: StackId) -> StackId {
    let (mut at, mut best) = (stack, stack);
    for _ in 0..INNERMOST {
        let Some((frame, parent)) = stacks.top(at) else { break };
        at = parent;
        if inner.get(frame.0 as usize).copied().unwrap_or(false) && stacks.depth(parent) > 0 {
            best = parent;
        }
    }
    best
}

fn is_allocator(profile: &Profile, frame: &Frame) -> bool {
    let function = frame.lines.last().map(|line| names::short(profile.strings.get(line.function)));
    if let Some(function) = &function {
        let bare = PREFIXES.iter().find_map(|prefix| function.strip_prefix(prefix)).unwrap_or(function);
        if [bare, function.as_str()].iter().any(|name| FAMILIES.contains(name) || OTHERS.contains(name)) {
            return true;
        }
        if function.starts_with("operator new") {
            return false;
        }
    }
    let module = frame.module.and_then(|module| profile.modules.get(module.0 as usize));
    module.is_some_and(|module| {
        let file = module.path.rsplit('/').next().unwrap_or_default();
        ALLOCATORS.iter().any(|prefix| file.starts_with(prefix))
    })
}

#[cfg(test)]
mod tests {
    use super::trim;
    use mallow_report::testing::{Builder, blocks};

    fn tops(stacks: &[&[&str]]) -> Vec<(Vec<String>, u64)> {
        let mut b = Builder::default();
        let process = b.process(1, &["a"], 10);
        for stack in stacks {
            b.site(process, stack, blocks(1, 8, 0, 0));
        }
        trim(&mut b.profile);
        let profile = &b.profile;
        let name = |frame: mallow_profile::FrameId| {
            let lines = &profile.frames[frame.0 as usize].lines;
            lines.last().map_or("", |line| profile.strings.get(line.function)).to_owned()
        };
        profile
            .sites
            .iter()
            .map(|s| (profile.stacks.frames(s.stack).map(name).collect(), s.counts.allocations))
            .collect()
    }

    #[test]
    fn stacks_begin_at_the_caller_of_the_allocating_function() {
        for stack in [
            &["malloc!libc.so.6", "xmalloc", "main"][..],
            &["+0x10!libjemalloc.so.2", "+0x20!libjemalloc.so.2", "xmalloc", "main"],
            &["_rjem_je_prof_backtrace", "_rjem_malloc", "xmalloc", "main"],
            &["xmalloc", "main"],
        ] {
            assert_eq!(tops(&[stack]), [(vec!["xmalloc".to_owned(), "main".to_owned()], 1)], "{stack:?}");
        }
        let new = &["operator new(unsigned long)!vgpreload_dhat.so", "main"][..];
        assert_eq!(tops(&[new])[0].0.len(), 2, "a function of the program's choice stays");
        assert_eq!(tops(&[&["malloc"]])[0].0, ["malloc"]);
    }

    #[test]
    fn sites_that_become_one_are_added_up() {
        let sums = tops(&[&["malloc", "main"], &["calloc", "main"], &["free_standing", "main"]]);
        assert_eq!(sums.iter().map(|s| s.1).collect::<Vec<_>>(), [2, 1]);
    }
}
