//! Which of the compiler's diagnostics an allocation belongs to.

use rustc_hash::FxHashMap;

use super::fit::{Fit, alike, same};
use super::order::{in_order, inner_first};
use super::runtime::Family;
use super::{Allocation, AllocationLine};
use crate::model::{Diagnostic, Verdict};

/// All that the compiler said, by where it stands in the function that was compiled.
#[derive(Debug, Default)]
pub struct Compiled {
    list: Vec<Diagnostic>,
    /// Indices of `list` by the line.
    at: FxHashMap<u32, Vec<usize>>,
}

#[derive(Clone, Debug)]
pub struct Found<'a> {
    /// Candidates, at least one. Several: code and diagnostics do not show which.
    pub diagnostics: Vec<&'a Diagnostic>,
    /// Whether all of `diagnostics` are meant: several small variables in one block.
    pub together: bool,
}

impl Compiled {
    pub fn new(list: Vec<Diagnostic>) -> Self {
        let mut at: FxHashMap<_, Vec<usize>> = FxHashMap::default();
        for (index, diagnostic) in list.iter().enumerate() {
            let outermost = diagnostic.inlined_at.last().unwrap_or(&diagnostic.position);
            at.entry(outermost.line).or_default().push(index);
        }
        Self { list, at }
    }

    pub fn all(&self) -> &[Diagnostic] {
        &self.list
    }

    /// The diagnostics of each allocation, by its index; None where the compiler said nothing of it.
    pub(super) fn find(&self, allocations: &[Allocation]) -> Vec<Option<Found<'_>>> {
        // What allocated nothing takes its expression all the same.
        let silent = silent_calls(allocations);
        let counted = allocations.len();
        let allocations: Vec<&Allocation> = allocations.iter().chain(&silent).collect();
        let candidates = |allocation: &&Allocation| self.candidates(allocation, Fit::likeliest);
        let mut may_be: Vec<Vec<usize>> = allocations.iter().map(candidates).collect();
        // Allocations of one function that the same diagnostics come into question for.
        let mut rivals: FxHashMap<(Vec<usize>, Option<&str>), Vec<usize>> = FxHashMap::default();
        let mut of_line: FxHashMap<(&[AllocationLine], Option<&str>), Vec<usize>> = FxHashMap::default();
        for (index, allocation) in allocations.iter().enumerate() {
            if !may_be[index].is_empty() {
                let symbol = allocation.symbol.as_deref();
                of_line.entry((&allocation.chain, symbol)).or_default().push(index);
            }
        }
        let mut ordered = vec![false; allocations.len()];
        let mut together = vec![false; allocations.len()];
        for rows in of_line.values() {
            self.order(rows, &mut may_be, &mut ordered, &allocations);
            let rows: Vec<usize> = rows.iter().copied().filter(|&row| !ordered[row]).collect();
            self.widen(&rows, &mut may_be, &allocations);
            self.divide(&rows, &mut may_be, &allocations);
            for &row in &rows {
                let combined = allocations[row].call.as_ref().is_some_and(|call| call.combined);
                let disjoint =
                    |&other: &usize| other == row || !may_be[other].iter().any(|it| may_be[row].contains(it));
                together[row] = combined && may_be[row].len() > 1 && rows.iter().all(disjoint);
            }
        }
        let open = |index: &usize| !may_be[*index].is_empty() && !ordered[*index] && !together[*index];
        for index in (0..allocations.len()).filter(open) {
            let symbol = allocations[index].symbol.as_deref();
            rivals.entry((may_be[index].clone(), symbol)).or_default().push(index);
        }
        for ((candidates, _), mut rivals) in rivals {
            if rivals.len() != candidates.len() || !self.places_differ(&candidates) {
                continue;
            }
            // Code is mostly in the order of the source.
            rivals.sort_by_key(|&index| allocations[index].address);
            for (index, diagnostic) in rivals.into_iter().zip(candidates) {
                may_be[index] = vec![diagnostic];
            }
        }
        let found = |(may_be, together): (Vec<usize>, bool)| {
            let diagnostics: Vec<_> = may_be.into_iter().map(|index| &self.list[index]).collect();
            (!diagnostics.is_empty()).then_some(Found { diagnostics, together })
        };
        may_be.into_iter().zip(together).take(counted).map(found).collect()
    }

    /// Assigns values that are put into interfaces by the order of the source: there are as many calls, or fewer where
    /// some values need none. Only for rows whose line's calls are all known.
    fn order(&self, rows: &[usize], may_be: &mut [Vec<usize>], ordered: &mut [bool], allocations: &[&Allocation]) {
        let boxes = |&row: &usize| {
            let call = allocations[row].call.as_ref();
            !allocations[row].calls_of_line.is_empty()
                && call.is_some_and(|call| Family::of(&call.callee) == Some(Family::Box))
        };
        let mut rows: Vec<usize> = rows.iter().copied().filter(boxes).collect();
        rows.sort_by_key(|&row| allocations[row].address);
        let distinct = rows.windows(2).all(|pair| allocations[pair[0]].address != allocations[pair[1]].address);
        if rows.is_empty() || !distinct {
            return;
        }
        let likeliest: Vec<Vec<usize>> = rows.iter().map(|&row| may_be[row].clone()).collect();
        let all = || rows.iter().map(|&row| self.candidates(allocations[row], |fit| fit.place)).collect();
        let Some(found) = self.ordered(likeliest).or_else(|| self.ordered(all())) else { return };
        for (row, found) in rows.into_iter().zip(found) {
            may_be[row] = found;
            ordered[row] = true;
        }
    }

    fn ordered(&self, may_be: Vec<Vec<usize>>) -> Option<Vec<Vec<usize>>> {
        let mut all: Vec<usize> = may_be.iter().flatten().copied().collect();
        self.sort(&mut all);
        all.dedup();
        if !self.places_differ(&all) {
            return None;
        }
        let number = |index: &usize| all.iter().position(|other| other == index);
        let fits: Vec<Vec<usize>> = may_be.iter().map(|row| row.iter().filter_map(number).collect()).collect();
        let of = |row: Vec<usize>| row.into_iter().filter_map(|number| all.get(number).copied()).collect();
        Some(in_order(&fits)?.into_iter().map(of).collect())
    }

    /// Puts expressions into the order in which they are evaluated.
    fn sort(&self, list: &mut [usize]) {
        list.sort_by_key(|&index| (self.list[index].position.column, index));
        inner_first(list, |index| (self.list[index].what.as_str(), self.list[index].position.column));
    }

    /// Adds less likely expressions where a line allocates in more places than it has likeliest ones.
    fn widen(&self, rows: &[usize], may_be: &mut [Vec<usize>], allocations: &[&Allocation]) {
        let mut alike: FxHashMap<Vec<usize>, Vec<usize>> = FxHashMap::default();
        for &row in rows {
            alike.entry(may_be[row].clone()).or_default().push(row);
        }
        for (likeliest, rows) in alike {
            let mut addresses: Vec<u64> = rows.iter().map(|&row| allocations[row].address).collect();
            addresses.sort_unstable();
            addresses.dedup();
            if addresses.len() <= likeliest.len() {
                continue;
            }
            for row in rows {
                may_be[row] = self.candidates(allocations[row], |fit| fit.place);
            }
        }
    }

    /// Divides the expressions of a line that has as many of them as allocations: each is another's, and what is
    /// certain of one is no other's.
    fn divide(&self, rows: &[usize], may_be: &mut [Vec<usize>], allocations: &[&Allocation]) {
        let mut addresses: Vec<u64> = rows.iter().map(|&row| allocations[row].address).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let mut all: Vec<usize> = rows.iter().flat_map(|&row| may_be[row].iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        if addresses.len() != rows.len() || all.len() != rows.len() || !self.places_differ(&all) {
            return;
        }
        let mut taken: Vec<usize> = Vec::new();
        while let Some(&row) = rows.iter().find(|&&row| may_be[row].len() == 1 && !taken.contains(&may_be[row][0])) {
            let certain = may_be[row][0];
            taken.push(certain);
            for &other in rows.iter().filter(|&&other| other != row) {
                if may_be[other].len() > 1 {
                    may_be[other].retain(|&candidate| candidate != certain);
                }
            }
        }
    }

    /// One instance of a generic function has no order beside another, and neither has what has no column.
    fn places_differ(&self, candidates: &[usize]) -> bool {
        let place = |index: usize| {
            let one = &self.list[index];
            (&one.position, &one.inlined_at, one.kind)
        };
        let differs =
            |(at, &index): (usize, &usize)| candidates[..at].iter().all(|&other| place(other) != place(index));
        let known = |&index: &usize| self.list[index].position.column > 0;
        (candidates.len() < 2 || candidates.iter().all(known)) && candidates.iter().enumerate().all(differs)
    }

    /// The diagnostics that it may be, by column: those that fit best.
    fn candidates(&self, allocation: &Allocation, points: impl Fn(Fit) -> u32) -> Vec<usize> {
        let Some(outermost) = allocation.chain.last() else { return Vec::new() };
        // Without the program nobody knows what is called: then it is something that the compiler put into the heap.
        let call = allocation.call.as_ref();
        let kinds = match call.map(|call| (call, Family::of(&call.callee))) {
            Some((call, Some(family))) => Some(family.kinds(call)),
            Some((_, None)) => return Vec::new(),
            None => None,
        };
        let Some(here) = self.at.get(&outermost.line) else { return Vec::new() };
        let mut best: Vec<usize> = Vec::new();
        let mut score = 0;
        for &index in here {
            let diagnostic = &self.list[index];
            if !same(diagnostic.inlined_at.last().unwrap_or(&diagnostic.position), outermost) {
                continue;
            }
            let may = kinds.map_or(diagnostic.allocates(), |kinds| kinds.contains(&diagnostic.kind));
            // Nothing is allocated for a constant in an interface.
            if !may || diagnostic.verdict != Verdict::DoesNotEscape && !diagnostic.allocates() {
                continue;
            }
            let Some(this) = alike(diagnostic, allocation, call).map(&points) else { continue };
            if this > score {
                best.clear();
                score = this;
            }
            if this == score {
                best.push(index);
            }
        }
        self.sort(&mut best);
        // An instance of a generic function for each type says the same.
        best.dedup_by(|b, a| {
            let (a, b) = (&self.list[*a], &self.list[*b]);
            let same = (&a.position, &a.what, a.kind, a.verdict) == (&b.position, &b.what, b.kind, b.verdict);
            same && (a.position.column > 0 || a.reason == b.reason)
        });
        best
    }
}

/// Calls on the lines of allocations that allocated nothing: a small number in an interface needs no block.
fn silent_calls(allocations: &[Allocation]) -> Vec<Allocation> {
    let mut of_line: FxHashMap<(&[AllocationLine], Option<&str>), Vec<&Allocation>> = FxHashMap::default();
    for allocation in allocations {
        of_line.entry((&allocation.chain, allocation.symbol.as_deref())).or_default().push(allocation);
    }
    let mut silent = Vec::new();
    for rows in of_line.into_values() {
        let Some(known) = rows.iter().find(|row| !row.calls_of_line.is_empty()) else { continue };
        for (range, call) in &known.calls_of_line {
            if !rows.iter().any(|row| range.contains(&row.address)) {
                silent.push(Allocation {
                    address: range.start,
                    call: Some(call.clone()),
                    allocations: 0.0,
                    bytes: 0.0,
                    small: 0.0,
                    shared: 0.0,
                    callers: Vec::new(),
                    ..(*known).clone()
                });
            }
        }
    }
    silent
}

#[cfg(test)]
mod tests;
