//! Wrappers of the allocator, by the shape of the stacks that lead through them.
//!
//! `jv_mem_alloc`, `xmalloc` of a stripped program, `PyUnicode_New`: nearly all that a program allocates has such a
//! function on its stacks, and none of them answers who allocates. No list of names has them all. A function is a
//! wrapper if it does hardly anything else on the stacks of a profile:
//!
//! - it calls the allocator, or another wrapper, and no function of the program that allocates;
//! - it does so at few lines, and not through a container;
//! - several functions call it, for different sizes. What makes blocks of one size is a constructor, and an answer.
//!   Where two or three call it, these are wrappers of it, as those of `gc_alloc` are.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

/// Functions of the program that are looked at, from the allocator outwards.
pub const DEPTH: usize = 6;
/// Fewest different functions that call a wrapper.
const CALLERS: usize = 4;
/// Most lines of a module at which a wrapper allocates.
const LINES: usize = 3;
/// Least ratio of the largest size that a wrapper asks for to the smallest.
const SIZES: u64 = 2;
/// Percentage of a wrapper's requests that other work may add at the most: collecting garbage when memory is scarce,
/// say.
const OTHER_WORK_PERCENT: u64 = 5;
/// Most levels of wrappers of wrappers.
const LEVELS: usize = 4;
/// Least percentage of its requests that a function with few callers passes on for wrappers.
const WRAPPERS_PERCENT: u64 = 80;
/// Least percentage of all requests that a wrapper with few callers passes on: to find one costs a look at all sites.
const WORTH_PERCENT: u64 = 1;

/// A function of the program on the call path of a request to the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Passage {
    pub function: u32,
    /// The module of the function: another build has other lines.
    pub module: u32,
    /// Equal for calls that the function makes on one line.
    pub line: u64,
    /// Whether the function calls the next one, or the allocator, without a function of the language's library between.
    pub direct: bool,
}

/// Requests of one shape: those of sites that lead to the allocator through the same passages are looked at together.
/// Most sites differ far from the allocator alone.
#[derive(Debug, Default)]
pub struct Requests {
    all: FxHashMap<Box<[Passage]>, Request>,
}

impl Requests {
    /// Adds requests with their smallest and largest size in bytes, 0 where it is unknown, and their passages from the
    /// innermost function outwards.
    pub fn add(&mut self, number: u64, sizes: (u64, u64), passages: &[Passage]) {
        let request = match self.all.get_mut(passages) {
            Some(request) => request,
            None => self.all.entry(passages.into()).or_default(),
        };
        request.number = request.number.saturating_add(number);
        widen(&mut request.sizes, sizes);
    }
}

#[derive(Debug, Default)]
struct Request {
    number: u64,
    /// Smallest and largest in bytes; 0: none is known.
    sizes: (u64, u64),
}

/// Takes sizes into a range, if they are known.
fn widen(range: &mut (u64, u64), sizes: (u64, u64)) {
    if sizes.0 > 0 {
        range.0 = if range.0 == 0 { sizes.0 } else { range.0.min(sizes.0) };
        range.1 = range.1.max(sizes.1);
    }
}

/// By function, whether it is a wrapper.
pub fn wrappers(functions: usize, requests: &Requests) -> Vec<bool> {
    let shapes_if = |wrappers: &[bool]| {
        let mut shapes: Vec<Shape> = Vec::new();
        shapes.resize_with(functions, Shape::default);
        requests.all.iter().for_each(|(passages, request)| look(passages, request, wrappers, &mut shapes));
        shapes
    };
    let all = requests.all.values().fold(0u64, |sum, request| sum.saturating_add(request.number));
    let mut wrappers = vec![false; functions];
    for _ in 0..LEVELS {
        let shapes = shapes_if(&wrappers);
        let mut found = false;
        for (wrapper, shape) in wrappers.iter_mut().zip(&shapes) {
            found |= !*wrapper && shape.passes_on();
            *wrapper |= shape.passes_on();
        }
        let worth = |shape: &Shape| u128::from(shape.passed) * 100 >= u128::from(all) * u128::from(WORTH_PERCENT);
        let few = |at: &usize| !wrappers[*at] && shapes[*at].passes_on_for_few() && worth(&shapes[*at]);
        let few: Vec<usize> = (0..functions).filter(few).collect();
        if !few.is_empty() {
            // If they were wrappers, would their callers be?
            let mut supposed = wrappers.clone();
            few.iter().for_each(|&at| supposed[at] = true);
            let outer = shapes_if(&supposed);
            for at in few {
                let for_wrappers = shapes[at].passed_for(&|caller| wrappers[caller] || outer[caller].passes_on());
                if u128::from(for_wrappers) * 100 >= u128::from(shapes[at].passed) * u128::from(WRAPPERS_PERCENT) {
                    (wrappers[at], found) = (true, true);
                }
            }
        }
        if !found {
            break;
        }
    }
    wrappers
}

#[derive(Default)]
struct Shape {
    /// Number of requests that the function passes on, and of those that its other work leads to.
    passed: u64,
    worked: u64,
    /// Requests by caller; one more caller than matter is not counted.
    callers: BTreeMap<u32, u64>,
    lines: Lines,
    /// Smallest and largest request in bytes; 0: none is known.
    sizes: (u64, u64),
}

impl Shape {
    /// Whether the function passes requests on, and several functions call it.
    fn passes_on(&self) -> bool {
        self.is_thin() && self.callers.len() >= CALLERS
    }

    /// Whether the function passes requests on, and two or three functions call it.
    fn passes_on_for_few(&self) -> bool {
        self.is_thin() && (2..CALLERS).contains(&self.callers.len())
    }

    fn passed_for(&self, which: &dyn Fn(usize) -> bool) -> u64 {
        self.callers.iter().filter(|(caller, _)| which(**caller as usize)).map(|(_, number)| number).sum()
    }

    /// Whether the function does little else than pass requests on, at few lines and for different sizes.
    fn is_thin(&self) -> bool {
        let sizes = self.sizes.1.checked_div(self.sizes.0).is_some_and(|ratio| ratio >= SIZES);
        let other_work = u128::from(self.worked) * 100 > u128::from(self.passed) * u128::from(OTHER_WORK_PERCENT);
        !other_work && sizes && self.lines.are_few()
    }
}

/// Lines of a function, by module; one more than matter is not counted.
#[derive(Default)]
struct Lines(BTreeMap<u32, BTreeSet<u64>>);

impl Lines {
    fn add(&mut self, module: u32, line: u64) {
        let lines = self.0.entry(module).or_default();
        if lines.len() <= LINES {
            lines.insert(line);
        }
    }

    /// Whether there are so few lines in each module that the function may only pass requests on.
    fn are_few(&self) -> bool {
        self.0.values().all(|lines| lines.len() <= LINES)
    }
}

fn look(passages: &[Passage], request: &Request, wrappers: &[bool], shapes: &mut [Shape]) {
    let mut open = passages.iter().filter(|passage| !wrappers[passage.function as usize]);
    let Some(first) = open.next() else { return };
    let mut direct = first.direct;
    // Between it and the allocator are wrappers alone: each of them has to be called directly.
    direct &= passages.iter().take_while(|passage| *passage != first).all(|passage| passage.direct);
    let shape = &mut shapes[first.function as usize];
    let sum = if direct { &mut shape.passed } else { &mut shape.worked };
    *sum = sum.saturating_add(request.number);
    shape.lines.add(first.module, first.line);
    widen(&mut shape.sizes, request.sizes);
    for (at, outer) in open.enumerate() {
        if at == 0 {
            let callers = &mut shapes[first.function as usize].callers;
            if callers.len() < CALLERS || callers.contains_key(&outer.function) {
                let sum = callers.entry(outer.function).or_default();
                *sum = sum.saturating_add(request.number);
            }
        }
        // Recursion too is work of its own.
        let shape = &mut shapes[outer.function as usize];
        shape.worked = shape.worked.saturating_add(request.number);
    }
}

#[cfg(test)]
mod tests {
    use super::{Passage, Requests, wrappers};

    fn found(requests: &[(u64, &[u32])]) -> Vec<usize> {
        let mut all = Requests::default();
        for &(size, functions) in requests {
            let passage = |&function: &u32| Passage { function, module: 0, line: function.into(), direct: true };
            all.add(1, (size, size), &functions.iter().map(passage).collect::<Vec<_>>());
        }
        let wrappers = wrappers(10, &all);
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
    fn what_few_wrappers_call_is_a_wrapper() {
        // gc_alloc is called by two functions, and each of them by others.
        let sizes = [8, 16, 24, 32];
        let of = |inner: u32, outer: [u32; 4]| [0, 1, 2, 3].map(|at| (sizes[at], vec![0, inner, outer[at]]));
        let all = |first: &[(u64, Vec<u32>)], second: &[(u64, Vec<u32>)]| {
            let all: Vec<(u64, &[u32])> = first.iter().chain(second).map(|(size, f)| (*size, f.as_slice())).collect();
            found(&all)
        };
        assert_eq!(all(&of(1, [3, 4, 5, 6]), &of(2, [6, 7, 8, 9])), [0, 1, 2]);
        // One of the two is no wrapper, and stands for half of it.
        assert_eq!(all(&of(1, [3, 4, 5, 6]), &of(2, [7, 7, 7, 7])), [0usize; 0]);
        // Or for little.
        assert_eq!(all(&of(1, [3, 4, 5, 6]), &[(8, vec![0, 2, 7])]), [0, 1]);
    }

    #[test]
    fn what_allocates_at_many_lines_or_through_a_container_works() {
        let of = |lines: [(u32, u64); 4], direct| {
            let mut all = Requests::default();
            for (&(module, line), caller) in lines.iter().zip(1..) {
                let outer = Passage { function: caller, module, line: 99, direct: true };
                let size = 8 * u64::from(caller);
                all.add(1, (size, size), &[Passage { function: 0, module, line, direct }, outer]);
            }
            wrappers(9, &all)[0]
        };
        assert!(of([(0, 1), (0, 2), (0, 3), (0, 1)], true));
        assert!(!of([(0, 1), (0, 2), (0, 3), (0, 4)], true));
        assert!(!of([(0, 1), (0, 1), (0, 1), (0, 1)], false));
        // Another build of it has other lines.
        assert!(of([(0, 1), (0, 2), (1, 3), (1, 4)], true));
    }
}
