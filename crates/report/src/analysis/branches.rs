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
    /// Which, by their places in the list.
    pub paths: Vec<usize>,
    /// The caller that tells them from the others of the line, by its place among the callers. None: the line itself.
    pub caller: Option<usize>,
    /// Names them from look to look.
    pub id: u64,
}

/// What is looked for.
pub trait Criterion {
    /// A branch that fits, and what is known of it.
    type Found;

    /// The branch, if its paths together fit.
    fn find(&mut self, branch: &Branch) -> Option<Self::Found>;

    /// Whether parts of a branch may fit, where `found` says whether the branch does.
    fn has_parts(&self, branch: &Branch, found: bool) -> bool;

    /// Whether a branch that fits is what to name, and not those of its parts that fit by themselves.
    fn is_named_whole(&mut self, whole: &Self::Found, inner: &[Self::Found]) -> bool;
}

/// The call paths of a line.
pub struct Branches<'a> {
    line: u64,
    /// Of each path the callers of the line, the nearest one first, each by a number that names its function and line.
    paths: Vec<&'a [u64]>,
}

impl<'a> Branches<'a> {
    /// `line` names the line.
    pub fn of(line: u64, paths: impl IntoIterator<Item = &'a [u64]>) -> Self {
        Self { line, paths: paths.into_iter().collect() }
    }

    /// What fits of the line.
    pub fn find<C: Criterion>(&self, criterion: &mut C) -> Vec<C::Found> {
        let root = Branch { paths: (0..self.paths.len()).collect(), caller: None, id: self.line };
        self.within(root, 0, criterion)
    }

    /// What fits of a branch whose callers are the same up to `depth`, without it.
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

    /// Its parts from the first caller on in which its paths differ, and how many callers are the same in each; none
    /// where they do not differ.
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

    /// Names a branch by its callers up to this one.
    fn id(&self, paths: &[usize], depth: usize, ends: bool) -> u64 {
        let callers = paths.first().and_then(|at| self.paths.get(*at)).copied().unwrap_or_default();
        number_of((self.line, &callers[..callers.len().min(depth + 1)], ends))
    }
}

/// A number that names something, the same in each run.
pub fn number_of(what: impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    what.hash(&mut hasher);
    // The hasher's low bits carry little information.
    hasher.finish().wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
