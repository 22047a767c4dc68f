//! What each function allocated itself, and together with what it called.

use mallow_profile::Precision;

use crate::analysis::compare::changes::{Amount, RowSource};
use crate::analysis::numbers::Measure;

/// Sums by function, in the order of their ids.
pub(crate) struct FunctionSums<A> {
    /// Self, and cum.
    pub sums: Vec<(A, A)>,
    /// The precision of each of the two; empty where the source has none.
    pub precisions: Vec<(Precision, Precision)>,
}

impl<A: Amount> FunctionSums<A> {
    /// Costs a walk over each stack. Sums are those of every measure, precisions those of `by`.
    pub fn of(source: RowSource<'_, A>, raw: bool, by: Measure) -> Self {
        let functions = source.functions;
        let mut sums = vec![(A::default(), A::default()); functions.len()];
        // Of each function, the last site that had it on its stack.
        let mut seen = vec![0u64; functions.len()];
        let mut site = 0;
        let no_precision = (Precision::default(), Precision::default());
        let mut precisions = vec![no_precision; if source.precisions.is_some() { functions.len() } else { 0 }];
        (source.sites)(&mut |stack, amount| {
            let innermost = if raw {
                functions.steps(stack).next().map(|s| s.function)
            } else {
                functions.named(stack).map(|n| n.step.function)
            };
            let Some(innermost) = innermost else { return };
            sums[innermost.0 as usize].0 += amount;
            site += 1;
            // Where only looked-past functions are on the stack, the one that names it stands for all.
            seen[innermost.0 as usize] = site;
            sums[innermost.0 as usize].1 += amount;
            let precision = source.precisions.map(|table| table.by(stack, by));
            if let Some(precision) = precision {
                precisions[innermost.0 as usize].0 += precision;
                precisions[innermost.0 as usize].1 += precision;
            }
            functions.frames(stack).flat_map(|(_, steps)| steps).for_each(|step| {
                let function = step.function.0 as usize;
                if seen[function] != site && (raw || !functions.is_looked_past(step)) {
                    seen[function] = site;
                    sums[function].1 += amount;
                    if let Some(precision) = precision {
                        precisions[function].1 += precision;
                    }
                }
            });
        });
        Self { sums, precisions }
    }
}
