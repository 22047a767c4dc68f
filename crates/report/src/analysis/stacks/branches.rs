//! The call paths of a line as a tree of its callers, and which branches of it are named.
//!
//! A line that allocates for many, as a helper does, has blocks of a cache beside those of a leak. Together they show
//! what the cache does: the leak in them is a few blocks among many. So the callers of the line are a tree, from the
//! line outwards, and each branch is looked at by itself, by a [`Criterion`]. What is named is the branch nearest to
//! the line that fits as a whole.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};

/// Callers that are looked at, from the line outwards.
pub const CALLERS: usize = 64;

/// Call paths of a line with the same callers up to one of them.
#[derive(Clone, Debug)]
pub struct Branch {
    /// Indices into the paths that [`Branches::of`] was called with.
    pub paths: Vec<usize>,
    /// Index, from the line outwards, of the caller that tells these paths from the others; None: all paths of the
    /// line.
    pub caller: Option<usize>,
    /// A hash of the line and these callers, the same from report to report.
    pub id: u64,
}

/// Decides which branches [`Branches::find`] returns.
pub trait Criterion {
    type Found;

    /// Returns the branch if its paths together fit.
    fn find(&mut self, branch: &Branch) -> Option<Self::Found>;

    /// Says whether parts of a branch may fit. `found` says whether the branch itself does.
    fn has_parts(&self, branch: &Branch, found: bool) -> bool;

    /// Says whether a branch that fits replaces those of its parts that fit by themselves.
    fn is_named_whole(&mut self, whole: &Self::Found, inner: &[Self::Found]) -> bool;
}

pub struct Branches<'a> {
    line: u64,
    /// By path, the callers from the line outwards; [`super::callers::Callers::name`] gives the numbers.
    paths: Vec<&'a [u64]>,
}

impl<'a> Branches<'a> {
    /// `line` is a number that names the line, and the id of the branch with all paths.
    pub fn of(line: u64, paths: impl IntoIterator<Item = &'a [u64]>) -> Self {
        Self { line, paths: paths.into_iter().collect() }
    }

    /// Returns the branches that fit, none of which contains another.
    pub fn find<C: Criterion>(&self, criterion: &mut C) -> Vec<C::Found> {
        let root = Branch { paths: (0..self.paths.len()).collect(), caller: None, id: self.line };
        self.within(root, 0, criterion)
    }

    /// `depth` counts the callers that all paths of the branch are known to share.
    fn within<C: Criterion>(&self, branch: Branch, depth: usize, criterion: &mut C) -> Vec<C::Found> {
        let whole = criterion.find(&branch);
        if !criterion.has_parts(&branch, whole.is_some()) {
            return whole.into_iter().collect();
        }
        let parts = self.parts(&branch, depth);
        let inner: Vec<C::Found> =
            parts.into_iter().flat_map(|(inner, depth)| self.within(inner, depth, criterion)).collect();
        match whole {
            Some(whole) if criterion.is_named_whole(&whole, &inner) => vec![whole],
            _ => inner,
        }
    }

    /// Divides a branch at the first caller in which its paths differ. With each part is the number of callers that its
    /// paths share; empty where the paths do not differ.
    fn parts(&self, branch: &Branch, mut depth: usize) -> Vec<(Branch, usize)> {
        if branch.paths.len() < 2 {
            return Vec::new();
        }
        let caller = |at: &usize, depth: usize| self.paths.get(*at).and_then(|path| path.get(depth)).copied();
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

    /// A hash of the line and of the paths' callers up to index `depth`, inclusive.
    fn id(&self, paths: &[usize], depth: usize, ends: bool) -> u64 {
        let callers = paths.first().and_then(|at| self.paths.get(*at)).copied().unwrap_or_default();
        number_of((self.line, &callers[..callers.len().min(depth + 1)], ends))
    }
}

/// Hashes `what`, the same in each run.
pub fn number_of(what: impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    what.hash(&mut hasher);
    // The hasher's low bits carry little information.
    hasher.finish().wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
