//! Advice where it can be followed: who reads it changes their own code, not a library's.

use super::Allocation;
use crate::advice::Advice;
use crate::names::{formats, returns_text};

/// Functions of the standard library whose callers have another way to do the same.
const OTHER_WAYS: [(&str, Advice); 7] = [
    ("fmt.Sprint", Advice::FormatText),
    ("fmt.", Advice::Format),
    ("reflect.", Advice::NoReflection),
    ("internal/reflectlite.", Advice::NoReflection),
    ("time.NewTimer", Advice::KeptTimer),
    ("time.NewTicker", Advice::KeptTimer),
    ("time.AfterFunc", Advice::KeptTimer),
];

/// Functions whose buffer grows, unless it was given its size.
const GROWING: [&str; 2] = ["strings.(*Builder).Write", "bytes.(*Buffer).Write"];

/// The advice on an allocation, for whoever has the code around it.
pub(super) fn advice(allocation: &Allocation, advice: Option<Advice>) -> Option<Advice> {
    let of_chain = |place: Option<&super::AllocationLine>| place.map_or("", |place| place.function.as_str()).to_owned();
    if allocation.callers.is_empty() {
        let innermost = of_chain(allocation.chain.first());
        let grows = advice == Some(Advice::KeptSlice) && GROWING.iter().any(|name| innermost.starts_with(name));
        return match (grows, allocation.of_library) {
            (true, _) => Some(Advice::Grow),
            (false, false) => advice,
            (false, true) => other_way(&innermost).filter(|advice| replaceable(*advice, &innermost)),
        };
    }
    let advice = other_way(&of_chain(allocation.chain.last()))?;
    // What is not known to be called is not known to be replaceable.
    if allocation.callers.iter().any(|caller| caller.callees.is_empty()) {
        return None;
    }
    let callees = || allocation.callers.iter().flat_map(|caller| &caller.callees);
    let is_text = advice == Advice::Format && callees().all(|callee| returns_text(callee));
    let advice = if is_text { Advice::FormatText } else { advice };
    callees().all(|callee| replaceable(advice, callee)).then_some(advice)
}

fn other_way(library: &str) -> Option<Advice> {
    OTHER_WAYS.into_iter().find(|(name, _)| library.starts_with(name)).map(|(_, advice)| advice)
}

/// A line that calls this function can do without it: one that another library calls (`log.Printf` calls package fmt)
/// is out of its reach.
fn replaceable(advice: Advice, callee: &str) -> bool {
    match advice {
        Advice::Format | Advice::FormatText => formats(callee),
        Advice::KeptTimer => callee.starts_with("time."),
        _ => true,
    }
}
