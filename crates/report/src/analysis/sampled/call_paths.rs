//! Growth by call path: which callers of a line tell what grows from what does not.
//!
//! A line that allocates for many, as a helper does, has blocks of a cache beside those of a leak. Together they show what the cache
//! does: the leak in them is a few blocks among many. So the callers of the line are a tree, from the line outwards, and each
//! branch is tested by itself. What grows is the branch nearest to the line whose paths all grow, as far as anything shows.
//!
//! A tree with n leaves has at most 2 n - 1 branches, so there are at most twice as many tests as there are sites, and the limit of
//! chance is divided by so many ([`super::growth`]).

use std::hash::{Hash, Hasher};

use mallow_profile::StackId;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};

use super::book::{Book, SiteFigures};
use super::estimate::LEAST_SAMPLES;
use super::growth::Verdict;
use super::standing::Standings;

/// Paths that keep less than this share of what the growing ones keep are not among what grows.
const KEEPING: f64 = 0.5;
/// So many blocks are expected at the most, 39 times in 40, where none was picked: `-ln 0.025`.
const UNSEEN: f64 = 3.69;
/// Callers that are looked at, from the line outwards.
pub const CALLERS: usize = 64;

/// A call path of a line: stacks that read the same.
#[derive(Clone, Debug, Default)]
pub struct CallPath {
    /// The stacks.
    pub stacks: Vec<StackId>,
    /// The callers of the line, the nearest one first, each by a number that names its function and line. [`CALLERS`] of them
    /// are looked at.
    pub callers: Vec<u64>,
}

/// Call paths of a line that grow, and that all go through one caller of it.
#[derive(Clone, Debug)]
pub struct GrowingPaths {
    /// Which, by their places in the list.
    pub paths: Vec<usize>,
    /// The caller that tells them from the others of the line, by its place among the callers. None: the line itself.
    pub caller: Option<usize>,
    /// Names them from look to look.
    pub id: u64,
    /// Those of all of them.
    pub figures: SiteFigures,
}

/// What grows of a line with these call paths. `id` names the line.
pub fn growing_paths(book: &Book, id: u64, paths: &[CallPath], standings: &mut Standings) -> Vec<GrowingPaths> {
    let all: Vec<usize> = (0..paths.len()).collect();
    Search { book, line: id, paths, standings }.within(Branch { paths: all, caller: None, id }, 0)
}

struct Search<'a> {
    book: &'a Book,
    line: u64,
    paths: &'a [CallPath],
    standings: &'a mut Standings,
}

/// Paths with the same callers up to one of them.
struct Branch {
    paths: Vec<usize>,
    caller: Option<usize>,
    id: u64,
}

impl Search<'_> {
    /// What grows of a branch whose callers are the same up to `depth`, without it.
    fn within(&mut self, branch: Branch, depth: usize) -> Vec<GrowingPaths> {
        let whole = self.grows(&branch);
        let inner: Vec<GrowingPaths> =
            self.branches(&branch, depth).into_iter().flat_map(|(inner, depth)| self.within(inner, depth)).collect();
        match whole {
            Some(whole) if self.is_named_whole(&whole, &inner) => vec![whole],
            _ => inner,
        }
    }

    /// The branch, if its paths grow together.
    fn grows(&mut self, branch: &Branch) -> Option<GrowingPaths> {
        let stacks = self.stacks(&branch.paths);
        let growth = self.standings.settle(branch.id, &self.book.evidence_of(&stacks));
        if growth.verdict < Verdict::SoFar {
            return None;
        }
        let figures = SiteFigures { growth, ..self.book.site(&stacks) };
        Some(GrowingPaths { paths: branch.paths.clone(), caller: branch.caller, id: branch.id, figures })
    }

    fn stacks(&self, paths: &[usize]) -> Vec<StackId> {
        paths.iter().filter_map(|at| self.paths.get(*at)).flat_map(|path| path.stacks.iter().copied()).collect()
    }

    /// Its parts from the first caller on in which its paths differ, and how many callers are the same in each; none where they do
    /// not differ.
    fn branches(&self, branch: &Branch, mut depth: usize) -> Vec<(Branch, usize)> {
        if branch.paths.len() < 2 {
            return Vec::new();
        }
        let caller = |at: &usize, depth: usize| self.paths.get(*at).and_then(|path| path.callers.get(depth)).copied();
        while depth < CALLERS {
            let mut parts: FxHashMap<Option<u64>, Vec<usize>> = FxHashMap::default();
            for at in &branch.paths {
                parts.entry(caller(at, depth)).or_default().push(*at);
            }
            if parts.len() > 1 {
                let part = |(key, paths): (Option<u64>, Vec<usize>)| {
                    // One without a further caller is named by the last that it has.
                    let caller = if key.is_some() { Some(depth) } else { branch.caller };
                    let id = self.id(&paths, depth, key.is_none());
                    (Branch { paths, caller, id }, depth + 1)
                };
                let mut parts: Vec<_> = parts.into_iter().map(part).collect();
                parts.sort_unstable_by_key(|(branch, _)| branch.paths.first().copied());
                return parts;
            }
            if parts.contains_key(&None) {
                break;
            }
            depth += 1;
        }
        Vec::new()
    }

    /// Names a branch by its callers up to this one.
    fn id(&self, paths: &[usize], depth: usize, ends: bool) -> u64 {
        let callers = paths.first().and_then(|at| self.paths.get(*at)).map_or(&[][..], |path| &path.callers);
        let mut hasher = FxHasher::default();
        (self.line, &callers[..callers.len().min(depth + 1)], ends).hash(&mut hasher);
        // The hasher's low bits carry little information.
        hasher.finish().wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// Whether a branch that grows is what to name, and not those of its parts that grow by themselves: unless the rest of it
    /// does something else, the same part of the program is behind all of it.
    fn is_named_whole(&self, whole: &GrowingPaths, inner: &[GrowingPaths]) -> bool {
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
        let (rest, of_inner) = (self.book.site(&self.stacks(&rest)), self.book.site(&self.stacks(&of_inner)));
        match were_named {
            true => rest.growth.verdict >= Verdict::SoFar,
            false => !self.differs(&rest, &of_inner),
        }
    }

    /// Whether paths keep less of what they allocate, or hold, than those that grow do.
    fn differs(&self, rest: &SiteFigures, growing: &SiteFigures) -> bool {
        let of = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let allocated = of(rest.allocated_bytes.value, growing.allocated_bytes.value);
        let held = of(rest.live_bytes.value, growing.live_bytes.value);
        let expected = growing.growth.bytes_per_hour.value * allocated.max(held);
        let (rate, over_ns) = (rest.growth.bytes_per_hour, growing.growth.over_ns);
        let unseen = UNSEEN * self.book.longest_period() as f64 * 3.6e12 / over_ns.max(1) as f64;
        let samples = rest.allocated_bytes.samples.max(rest.live_bytes.samples) as f64;
        samples >= LEAST_SAMPLES && rate.high.unwrap_or(rate.value.max(0.0) + unseen) < KEEPING * expected
    }
}
