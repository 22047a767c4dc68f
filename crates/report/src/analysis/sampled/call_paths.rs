//! Growth by call path: which callers of a line tell what grows from what does not ([`Branches`]). What grows is the
//! branch nearest to the line whose paths all grow, as far as anything shows.
//!
//! A tree with n leaves has at most 2 n - 1 branches, so there are at most twice as many tests as there are sites, and
//! the limit of chance is divided by so many ([`mallow_estimates`]).

use mallow_estimates::{LEAST_SAMPLES, SampleLedger, SiteFigures, Standings, Verdict};
use mallow_profile::StackId;
use rustc_hash::FxHashSet;

use crate::analysis::stacks::branches::{Branch, Branches, Criterion};

/// Paths that keep less than this share of what the growing ones keep are not among what grows.
const KEEPING: f64 = 0.5;
/// Most blocks that are expected, 39 times in 40, where none was picked: `-ln 0.025`.
const UNSEEN: f64 = 3.69;

/// A call path of a line: stacks that read the same.
#[derive(Clone, Debug, Default)]
pub struct CallPath {
    pub stacks: Vec<StackId>,
    /// The callers from the line outwards; a number names the function and line of each.
    pub callers: Vec<u64>,
}

/// Call paths of a line that grow, and that all go through one caller of it.
#[derive(Clone, Debug)]
pub struct GrowingPaths {
    /// Indices into the paths of the line.
    pub paths: Vec<usize>,
    /// Index, from the line outwards, of the caller that tells these paths from the others; None: all paths of the
    /// line.
    pub caller: Option<usize>,
    /// A hash of the line and these callers, the same from look to look.
    pub id: u64,
    /// Figures of all these paths together.
    pub figures: SiteFigures,
}

/// Finds which of a line's call paths grow. `id` names the line.
pub fn growing_paths(
    ledger: &SampleLedger,
    id: u64,
    paths: &[CallPath],
    standings: &mut Standings,
) -> Vec<GrowingPaths> {
    Branches::of(id, paths.iter().map(|path| &path.callers[..])).find(&mut Growing { ledger, paths, standings })
}

struct Growing<'a> {
    ledger: &'a SampleLedger,
    paths: &'a [CallPath],
    standings: &'a mut Standings,
}

impl Criterion for Growing<'_> {
    type Found = GrowingPaths;

    /// The branch, if its paths grow together.
    fn find(&mut self, branch: &Branch) -> Option<GrowingPaths> {
        let stacks = self.stacks(&branch.paths);
        let growth = self.standings.settle(branch.id, &self.ledger.evidence_of(&stacks));
        if growth.verdict < Verdict::SoFar {
            return None;
        }
        let figures = SiteFigures { growth, ..self.ledger.site(&stacks) };
        Some(GrowingPaths { paths: branch.paths.clone(), caller: branch.caller, id: branch.id, figures })
    }

    /// Each branch is looked at whenever its line is: verdicts depend on the looks so far.
    fn has_parts(&self, _: &Branch, _: bool) -> bool {
        true
    }

    /// Whether a branch that grows is named instead of those of its parts that grow by themselves: unless the rest of
    /// it does something else, the same part of the program is behind all of it.
    fn is_named_whole(&mut self, whole: &GrowingPaths, inner: &[GrowingPaths]) -> bool {
        let verdict = inner.iter().map(|part| part.figures.growth.verdict).max();
        if verdict > Some(whole.figures.growth.verdict) {
            return false;
        }
        let of_inner: Vec<usize> = inner.iter().flat_map(|part| part.paths.iter().copied()).collect();
        let known: FxHashSet<usize> = of_inner.iter().copied().collect();
        let rest: Vec<usize> = whole.paths.iter().filter(|at| !known.contains(at)).copied().collect();
        if inner.is_empty() || rest.is_empty() {
            return true;
        }
        // Two looks at the same program name the same.
        let were_named =
            !self.standings.was_named(whole.id) && inner.iter().all(|part| self.standings.was_named(part.id));
        let (rest, of_inner) = (self.ledger.site(&self.stacks(&rest)), self.ledger.site(&self.stacks(&of_inner)));
        match were_named {
            true => rest.growth.verdict >= Verdict::SoFar,
            false => !self.differs(&rest, &of_inner),
        }
    }
}

impl Growing<'_> {
    fn stacks(&self, paths: &[usize]) -> Vec<StackId> {
        paths.iter().filter_map(|at| self.paths.get(*at)).flat_map(|path| path.stacks.iter().copied()).collect()
    }

    /// Whether the rest keeps less of what it allocates, or holds, than the growing paths do.
    fn differs(&self, rest: &SiteFigures, growing: &SiteFigures) -> bool {
        let of = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let allocated = of(rest.allocated_bytes.value, growing.allocated_bytes.value);
        let held = of(rest.live_bytes.value, growing.live_bytes.value);
        let expected = growing.growth.bytes_per_hour.value * allocated.max(held);
        let (rate, over_ns) = (rest.growth.bytes_per_hour, growing.growth.over_ns);
        let unseen = UNSEEN * self.ledger.longest_period() as f64 * 3.6e12 / over_ns.max(1) as f64;
        let samples = rest.allocated_bytes.samples.max(rest.live_bytes.samples) as f64;
        samples >= LEAST_SAMPLES && rate.high.unwrap_or(rate.value.max(0.0) + unseen) < KEEPING * expected
    }
}
