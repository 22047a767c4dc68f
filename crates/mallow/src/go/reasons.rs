//! Reasons in the margin of the sources that `mallow list` shows.

use std::collections::HashMap;

use anyhow::Result;
use mallow_golang::join::{Allocation, Explained, ReasonSource};
use mallow_profile::Profile;
use mallow_report::analysis::ListFunction;

use super::heap::Heap;
use super::names::short;
use crate::output::progress::Spinner;
use crate::output::text::Look;

/// Gives the lines of functions what is allocated there and why; says what is not known, and why.
pub fn reasons<T>(profile: &Profile, functions: &mut [ListFunction<T>]) -> Result<Vec<String>> {
    let working = Spinner::new();
    let mut heap = Heap::of(profile, None, None)?;
    let is_shown = |allocation: &Allocation| {
        allocation.chain.iter().any(|place| functions.iter().any(|function| function.function == place.function))
    };
    let (explained, _) = heap.explain(&[], &working, is_shown)?;
    let mut of_lines: HashMap<(String, u32), Vec<String>> = HashMap::new();
    for line in &explained {
        for (at, place) in line.allocation.chain.iter().enumerate() {
            let inner = at.checked_sub(1).map(|at| line.allocation.chain[at].function.as_str());
            let notes = of_lines.entry((place.function.clone(), place.line)).or_default();
            let note = note(line, inner);
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    for function in functions {
        for line in function.lines.iter_mut().filter(|line| !line.gone) {
            let at = line.line.and_then(|number| of_lines.remove(&(function.function.clone(), number)));
            line.reasons = at.unwrap_or_default();
        }
    }
    Ok(heap.notes)
}

/// `&bytes.Buffer{...} of bytes.NewBuffer, inlined here: converted to an interface for io.ReadAtLeast`.
fn note(line: &Explained, inner: Option<&str>) -> String {
    let explanation = &line.explanation;
    let inlined = inner.map(|inner| format!(" of {}, inlined here", short(inner, &Look::default())));
    let reason = match explanation.source {
        ReasonSource::None => "no reason is known",
        _ => explanation.reason.as_str(),
    };
    let sure = if explanation.one_of > 1 {
        format!(" (one of {}; which is not known)", explanation.one_of)
    } else {
        String::new()
    };
    format!("{}{}: {reason}{sure}", explanation.what, inlined.unwrap_or_default())
}
