//! Wrappers of the allocator, by the shape of the stacks that lead through them.
//!
//! `jv_mem_alloc`, `xmalloc` of a stripped program, `PyUnicode_New`: nearly all that a program allocates has such a
//! function on its stacks, and none of them answers who allocates. No list of names has them all. A function is a
//! wrapper if it does hardly anything else on the stacks of a profile:
//!
//! - it calls the allocator, or another wrapper, and no function of the program that allocates;
//! - it does so at few lines, and not through a container;
//! - several functions call it, for different sizes. What makes blocks of one size is a constructor, and an answer.

use std::collections::BTreeSet;

/// Functions of the program that are looked at, from the allocator outwards.
pub const DEPTH: usize = 6;
/// Different functions that call a wrapper, at the least.
const CALLERS: usize = 4;
/// Lines at which it allocates, at the most.
const LINES: usize = 3;
/// Between the smallest size asked for and the largest one, at the least.
const SIZES: u64 = 2;
/// Of what passes through it, what it may do besides, in percent: collecting garbage when memory is scarce, say.
const BESIDES_PERCENT: u64 = 5;
/// Wrappers of wrappers, at the most.
const LEVELS: usize = 4;

/// A function of the program on the way of a request to the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Its number.
    pub function: u32,
    /// Where it makes the call: equal numbers are one line.
    pub line: u64,
    /// It calls the next one, or the allocator, without a function of the language's library between.
    pub direct: bool,
}

/// The requests of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// How many.
    pub number: u64,
    /// The smallest and the largest size in bytes; 0 where it is unknown.
    pub sizes: (u64, u64),
    /// The innermost function first.
    pub passages: Vec<Passage>,
}

/// Which of `functions` functions are wrappers. `visit` calls what it is given with each site's requests; it is called
/// [`LEVELS`] times at the most.
pub fn wrappers(functions: usize, mut visit: impl FnMut(&mut dyn FnMut(&Request))) -> Vec<bool> {
    let mut wrappers = vec![false; functions];
    for _ in 0..LEVELS {
        let mut shapes: Vec<Shape> = Vec::new();
        shapes.resize_with(functions, Shape::default);
        visit(&mut |request| look(request, &wrappers, &mut shapes));
        let mut found = false;
        for (wrapper, shape) in wrappers.iter_mut().zip(&shapes) {
            found |= !*wrapper && shape.passes_on();
            *wrapper |= shape.passes_on();
        }
        if !found {
            break;
        }
    }
    wrappers
}

/// What is known of a function.
#[derive(Default)]
struct Shape {
    /// Requests that it passes on, and those that something else leads to that it does.
    passed: u64,
    worked: u64,
    callers: Few<CALLERS>,
    lines: Few<{ LINES + 1 }>,
    smallest: u64,
    largest: u64,
}

impl Shape {
    fn passes_on(&self) -> bool {
        let sizes = self.smallest > 0 && self.largest / self.smallest >= SIZES;
        let besides = u128::from(self.worked) * 100 > u128::from(self.passed) * u128::from(BESIDES_PERCENT);
        !besides && sizes && self.callers.is_full() && !self.lines.is_full()
    }
}

/// Up to `N` different numbers.
struct Few<const N: usize>(BTreeSet<u64>);

impl<const N: usize> Default for Few<N> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<const N: usize> Few<N> {
    fn add(&mut self, number: u64) {
        if !self.is_full() {
            self.0.insert(number);
        }
    }

    fn is_full(&self) -> bool {
        self.0.len() >= N
    }
}

fn look(request: &Request, wrappers: &[bool], shapes: &mut [Shape]) {
    let mut open = request.passages.iter().filter(|passage| !wrappers[passage.function as usize]);
    let Some(first) = open.next() else { return };
    let mut direct = first.direct;
    // Between it and the allocator are wrappers alone: each of them has to be called directly.
    direct &= request.passages.iter().take_while(|passage| *passage != first).all(|passage| passage.direct);
    let shape = &mut shapes[first.function as usize];
    let sum = if direct { &mut shape.passed } else { &mut shape.worked };
    *sum = sum.saturating_add(request.number);
    shape.lines.add(first.line);
    let (smallest, largest) = request.sizes;
    if smallest > 0 {
        shape.smallest = if shape.smallest == 0 { smallest } else { shape.smallest.min(smallest) };
        shape.largest = shape.largest.max(largest);
    }
    for (at, outer) in open.enumerate() {
        if at == 0 {
            shapes[first.function as usize].callers.add(outer.function.into());
        }
        // Recursion too is work of its own.
        let shape = &mut shapes[outer.function as usize];
        shape.worked = shape.worked.saturating_add(request.number);
    }
}

#[cfg(test)]
mod tests {
    use super::{Passage, Request, wrappers};

    fn found(requests: &[(u64, &[u32])]) -> Vec<usize> {
        let requests: Vec<Request> = requests
            .iter()
            .map(|&(size, functions)| {
                let passage = |&function: &u32| Passage { function, line: function.into(), direct: true };
                Request { number: 1, sizes: (size, size), passages: functions.iter().map(passage).collect() }
            })
            .collect();
        let wrappers = wrappers(10, |each| requests.iter().for_each(each));
        (0..10).filter(|&function| wrappers[function]).collect()
    }

    #[test]
    fn what_many_call_for_different_sizes_is_a_wrapper() {
        assert_eq!(found(&[(8, &[0, 1]), (16, &[0, 2]), (24, &[0, 3]), (32, &[0, 4])]), [0]);
        // Three callers.
        assert_eq!(found(&[(8, &[0, 1]), (16, &[0, 2]), (24, &[0, 3]), (32, &[0, 3])]), [0usize; 0]);
        // One size: it makes things of one kind.
        assert_eq!(found(&[(8, &[0, 1]), (8, &[0, 2]), (8, &[0, 3]), (8, &[0, 4])]), [0usize; 0]);
        // It calls another function that allocates.
        let works = [(8, &[0, 1][..]), (16, &[0, 2]), (24, &[0, 3]), (32, &[0, 4]), (8, &[5, 0, 1])];
        assert_eq!(found(&works), [0usize; 0]);
        // So it does where it is recursive.
        let recursive = [(8, &[0, 1][..]), (16, &[0, 2]), (24, &[0, 3]), (32, &[0, 4]), (8, &[0, 1, 0])];
        assert_eq!(found(&recursive), [0usize; 0]);
    }

    #[test]
    fn wrappers_of_wrappers_are_wrappers() {
        let through = [(8, &[0, 1, 2][..]), (16, &[0, 1, 3]), (24, &[0, 1, 4]), (32, &[0, 1, 5])];
        assert_eq!(found(&through), [0usize; 0], "one function calls the innermost");
        let more = [through.as_slice(), &[(9, &[0, 6][..]), (9, &[0, 7]), (9, &[0, 8])]].concat();
        assert_eq!(found(&more), [0, 1]);
    }

    #[test]
    fn what_allocates_at_many_lines_or_through_a_container_works() {
        let request = |size, caller, line, direct| Request {
            number: 1,
            sizes: (size, size),
            passages: vec![Passage { function: 0, line, direct }, Passage { function: caller, line: 99, direct: true }],
        };
        let of = |lines: [u64; 4], direct| {
            let requests: Vec<Request> = lines
                .iter()
                .zip(1..)
                .map(|(&line, caller)| request(8 * u64::from(caller), caller, line, direct))
                .collect();
            wrappers(9, |each| requests.iter().for_each(each))[0]
        };
        assert!(of([1, 2, 3, 1], true));
        assert!(!of([1, 2, 3, 4], true));
        assert!(!of([1, 1, 1, 1], false));
    }
}
