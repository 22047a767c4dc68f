//! What the parts of RSS are called in text, and whose they are.

use mallow_report::analysis::{Part, PartKind, RssAccount};

/// An allocator's name, and of several where it is. None: its name is not known.
pub fn owner(allocator: Option<&str>, module: Option<&str>, account: &RssAccount) -> Option<String> {
    let file = module.map(|path| path.rsplit('/').next().unwrap_or(path)).filter(|_| account.allocators.len() > 1);
    // Without its suffixes and version.
    let file = file.map(|file| file.split_once('.').map_or(file, |(name, _)| name)).filter(|file| !file.is_empty());
    match (allocator, file) {
        (Some(name), Some(file)) if !file.starts_with(&format!("lib{name}")) => Some(format!("{name} in {file}")),
        (Some(name), _) => Some(name.to_owned()),
        (None, Some(file)) => Some(format!("the allocator in {file}")),
        (None, None) => None,
    }
}

/// Title of a part, with the owner where there are several allocators.
pub fn title_of(part: &Part, account: &RssAccount) -> String {
    let whose = owner(part.allocator, part.module.as_deref(), account);
    if let Some(whose) = whose.as_ref().filter(|name| part.part == PartKind::Allocator && name.contains(' ')) {
        return format!("tables of {whose}");
    }
    if part.part == PartKind::Mappings {
        return mapped(account);
    }
    let words = meaning(part.part, whose.as_deref().unwrap_or("allocator"));
    let is_only = account.parts.iter().filter(|one| one.part == part.part).count() == 1;
    let is_main = part.allocator == account.allocator && is_only && part.part != PartKind::FreePages;
    let is_one_of_several = part.owner.is_some() && part.part != PartKind::Allocator && account.allocators.len() > 1;
    match whose.filter(|_| is_one_of_several && !is_main) {
        Some(whose) => format!("{words}, {whose}"),
        None => words,
    }
}

/// Mappings without a live block. What glibc frees in one it unmaps, unless its heap goes on there; of other allocators
/// they may be anything.
pub fn mapped(account: &RssAccount) -> String {
    let program = meaning(PartKind::Mappings, "");
    let keeps = |name: &&str| *name != "glibc";
    let other = account.allocators.iter().find_map(|row| row.allocator.filter(keeps));
    match other.or(account.heap_is_blocked.then_some("glibc")) {
        Some(name) => format!("{program}, or by {name}"),
        None => program,
    }
}

/// Title of a kind of part.
pub fn meaning(part: PartKind, allocator: &str) -> String {
    match part {
        PartKind::Live => "live blocks",
        PartKind::Rounding => "rounding up of requests",
        PartKind::Allocator => {
            let what = if allocator == "glibc" { "headers" } else { "tables" };
            return format!("{allocator}'s {what}");
        }
        PartKind::Holes => "holes between live blocks",
        PartKind::HolesAndRounding => "holes and rounding",
        PartKind::FreePages => "free pages",
        PartKind::ThreadCaches => "caches of threads",
        PartKind::OlderOrFree => "free, or older blocks",
        PartKind::Undivided => "allocators and mappings",
        PartKind::NeverTouched => "of live, never touched",
        PartKind::Swapped => "of live, in swap",
        PartKind::Pymalloc => "pymalloc's arenas",
        PartKind::V8Heap => "V8's heap",
        PartKind::JavaHeap => "the JVM's heap",
        PartKind::GoHeap => "Go's heap",
        PartKind::Mappings => "mapped by the program",
        PartKind::Stacks => "stacks of threads",
        PartKind::Text => "code of files",
        PartKind::Data => "data of files",
        PartKind::Shared => "shared memory",
        PartKind::Kernel => "the kernel's",
        PartKind::Mallow => "Mallow's own",
        PartKind::Unsettled => "changed while read",
    }
    .to_owned()
}
