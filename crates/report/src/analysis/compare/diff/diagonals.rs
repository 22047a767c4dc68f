//! The cost of an alignment, diagonal by diagonal: cells of one do not depend on each other.

use super::stacks::Token;

/// Cost, as a part of both weights, of taking two overloads or two instances of a template for one. Not less than the
/// cost where each of the two is on one side alone.
pub(super) const OVERLOADED: f32 = 0.3;

/// A function of a stack, as the alignment needs it.
#[derive(Clone, Copy)]
pub(super) struct Facts {
    pub token: Token,
    /// Equal for overloads, and for instances of a template.
    pub short: u32,
    /// Whether another function has this `short`.
    pub overloaded: bool,
    pub weight: f32,
    /// Cost of the function where the other stack lacks it.
    pub lacking: f32,
    /// Whether only the program of this side has the function, as far as it is known: it may have another name on the
    /// other side.
    pub exclusive: bool,
}

/// The functions of a stack in arrays, one for each field of [`Facts`].
#[derive(Default)]
pub(super) struct Columns {
    tokens: Vec<u32>,
    shorts: Vec<u32>,
    weights: Vec<f32>,
    lacking: Vec<f32>,
    /// Indices of the functions that may have another name on the other side.
    pub exclusive_at: Vec<usize>,
    /// Whether a function of the stack has overloads.
    overloaded: bool,
}

impl Columns {
    /// Replaces what was there before.
    pub fn set(&mut self, functions: impl Iterator<Item = Facts>) {
        self.tokens.clear();
        self.shorts.clear();
        self.weights.clear();
        self.lacking.clear();
        self.exclusive_at.clear();
        self.overloaded = false;
        for function in functions {
            if function.exclusive {
                self.exclusive_at.push(self.tokens.len());
            }
            self.tokens.push(function.token.0);
            self.shorts.push(function.short);
            self.weights.push(function.weight);
            self.lacking.push(function.lacking);
            self.overloaded |= function.overloaded;
        }
    }

    fn part(&self, from: usize, length: usize) -> Part<'_> {
        let range = from..from + length;
        Part {
            tokens: &self.tokens[range.clone()],
            shorts: &self.shorts[range.clone()],
            weights: &self.weights[range.clone()],
            lacking: &self.lacking[range],
        }
    }
}

/// A range of [`Columns`].
struct Part<'c> {
    tokens: &'c [u32],
    shorts: &'c [u32],
    weights: &'c [f32],
    lacking: &'c [f32],
}

/// The cells of a table where two functions may be one with two names, by diagonals. Few cells are among them, and a
/// diagonal takes them in after all others.
#[derive(Default)]
pub(super) struct RenameCosts {
    /// Row, counted from 1, and cost; sorted by diagonal.
    costs: Vec<(u32, f32)>,
    /// By diagonal, from diagonal 2 on, the end of its `costs`.
    ends: Vec<u32>,
}

impl RenameCosts {
    /// `of` returns the cost of a pair by its indices in both `exclusive_at`. The functions of `is` are in reverse
    /// order.
    pub fn set(&mut self, was: &Columns, is: &Columns, mut of: impl FnMut(usize, usize) -> f32) {
        self.costs.clear();
        self.ends.clear();
        if was.exclusive_at.is_empty() || is.exclusive_at.is_empty() {
            return;
        }
        let columns = is.tokens.len();
        // Sorted by counting: first how many each diagonal has, then where they begin, at last where they end.
        self.ends.resize(was.tokens.len() + columns, 0);
        for row in &was.exclusive_at {
            is.exclusive_at.iter().for_each(|at| self.ends[row + columns - 1 - at] += 1);
        }
        let mut sum = 0;
        for end in &mut self.ends {
            (*end, sum) = (sum, sum + *end);
        }
        self.costs.resize(sum as usize, (0, 0.0));
        for (i, row) in was.exclusive_at.iter().enumerate() {
            for (j, at) in is.exclusive_at.iter().enumerate() {
                let end = &mut self.ends[row + columns - 1 - at];
                self.costs[*end as usize] = (*row as u32 + 1, of(i, j));
                *end += 1;
            }
        }
    }

    pub fn len(&self) -> usize {
        self.costs.len()
    }

    /// Rows and costs on a diagonal.
    fn of(&self, diagonal: usize) -> &[(u32, f32)] {
        let Some(&end) = self.ends.get(diagonal.wrapping_sub(2)) else { return &[] };
        let from = diagonal.checked_sub(3).map_or(0, |before| self.ends[before]);
        &self.costs[from as usize..end as usize]
    }
}

/// The table of costs of two stacks, diagonal by diagonal. The functions of `is` are in reverse order.
pub(super) struct Alignment<'c> {
    pub was: &'c Columns,
    pub is: &'c Columns,
    pub renames: &'c RenameCosts,
}

/// The last three diagonals of a table, by rows.
#[derive(Default)]
pub(super) struct Diagonals([Vec<f32>; 3]);

impl Diagonals {
    /// The cost of making the one stack the other; None above `most`.
    pub fn cost(&mut self, of: &Alignment<'_>, most: f32) -> Option<f32> {
        /// Diagonals that are made before two of them are compared with `most`.
        const LOOK: usize = 8;
        let (rows, columns) = of.size();
        let [mut here, mut before, mut two_before] = self.0.each_mut();
        for diagonal in [&mut here, &mut before, &mut two_before] {
            diagonal.clear();
            diagonal.resize(rows + 1, 0.0);
        }
        for diagonal in 1..=rows + columns {
            std::mem::swap(&mut two_before, &mut before);
            std::mem::swap(&mut before, &mut here);
            of.diagonal(diagonal, two_before, before, here);
            // Each path through the table has a cell on one of two diagonals that follow each other, and costs no less
            // than it.
            if diagonal.is_multiple_of(LOOK) {
                let within = |diagonal: usize, cells: &[f32]| {
                    let cells = of.cells(diagonal, cells);
                    // One look where the two stacks are about as long, before a look at all.
                    cells[cells.len() / 2] <= most || cells.iter().any(|cost| *cost <= most)
                };
                if !within(diagonal, here) && !within(diagonal - 1, before) {
                    return None;
                }
            }
        }
        Some(here[rows]).filter(|cost| *cost <= most)
    }
}

#[derive(Default)]
pub(super) struct Table {
    cells: Vec<f32>,
    rows: usize,
}

impl Table {
    /// Replaces what was there before.
    pub fn set(&mut self, of: &Alignment<'_>) {
        let (rows, columns) = of.size();
        self.rows = rows;
        let width = rows + 1;
        let length = width * (rows + columns + 1);
        if self.cells.len() < length {
            self.cells.resize(length, 0.0);
        }
        // The cells outside of the table keep what they had: nothing reads them.
        self.cells[0] = 0.0;
        for diagonal in 1..=rows + columns {
            let (done, here) = self.cells.split_at_mut(diagonal * width);
            let before = &done[(diagonal - 1) * width..];
            let two_before = &done[diagonal.saturating_sub(2) * width..][..width];
            of.diagonal(diagonal, two_before, before, &mut here[..width]);
        }
    }

    /// What it costs to make the first `row` functions of the one stack the first `column` of the other.
    pub fn at(&self, row: usize, column: usize) -> f32 {
        self.cells[(row + column) * (self.rows + 1) + row]
    }
}

impl Alignment<'_> {
    fn size(&self) -> (usize, usize) {
        (self.was.tokens.len(), self.is.tokens.len())
    }

    /// The cells of a diagonal that are inside of the table.
    fn cells<'d>(&self, diagonal: usize, cells: &'d [f32]) -> &'d [f32] {
        let (rows, columns) = self.size();
        &cells[diagonal.saturating_sub(columns)..=diagonal.min(rows)]
    }

    /// Makes a diagonal from the two before it.
    fn diagonal(&self, diagonal: usize, two_before: &[f32], before: &[f32], here: &mut [f32]) {
        let Self { was, is, renames } = self;
        let (rows, columns) = self.size();
        // Rows whose cell is not at the edge of the table.
        let first = diagonal.saturating_sub(columns).max(1);
        let end = (rows + 1).min(diagonal);
        if diagonal <= columns {
            here[0] = before[0] + is.lacking[columns - diagonal];
        }
        if diagonal <= rows {
            here[diagonal] = before[diagonal - 1] + was.lacking[diagonal - 1];
        }
        if first >= end {
            return;
        }
        // Of row i, the column is diagonal - i; in reverse order it goes up with the row.
        let length = end - first;
        let reversed = columns + first - diagonal;
        let parts = (&was.part(first - 1, length), &is.part(reversed, length));
        let (two, one, cells) = (&two_before[first - 1..end - 1], &before[first - 1..end], &mut here[first..end]);
        match was.overloaded && is.overloaded {
            true => inner::<true>(parts, two, one, cells),
            false => inner::<false>(parts, two, one, cells),
        }
        for &(row, cost) in renames.of(diagonal) {
            let row = row as usize;
            here[row] = lesser(two_before[row - 1] + cost, here[row]);
        }
    }
}

/// Cells of a diagonal. No branch and no call, so that compilers make vectors of it, and less to read where no function
/// has overloads, as in C.
#[inline(never)]
fn inner<const OVERLOADS: bool>((was, is): (&Part, &Part), two_before: &[f32], before: &[f32], here: &mut [f32]) {
    let length = here.len();
    let (left, above) = (&before[1..=length], &before[..length]);
    let two_before = &two_before[..length];
    let (tokens, other_tokens) = (&was.tokens[..length], &is.tokens[..length]);
    let (shorts, other_shorts) = (&was.shorts[..length], &is.shorts[..length]);
    let (weights, other_weights) = (&was.weights[..length], &is.weights[..length]);
    let (lacking, other_lacking) = (&was.lacking[..length], &is.lacking[..length]);
    for at in 0..length {
        let unlike = if OVERLOADS && shorts[at] == other_shorts[at] {
            (weights[at] + other_weights[at]) * OVERLOADED
        } else {
            f32::INFINITY
        };
        let together = if tokens[at] == other_tokens[at] { 0.0 } else { unlike };
        let apart = lesser(above[at] + lacking[at], left[at] + other_lacking[at]);
        here[at] = lesser(two_before[at] + together, apart);
    }
}

/// The lesser one by one instruction, as [`f32::min`] is not. Neither may be NaN.
#[inline(always)]
fn lesser(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}
