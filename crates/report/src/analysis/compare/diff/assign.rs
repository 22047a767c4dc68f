//! One partner each, so that all pairs together are worth most.

use pathfinding::kuhn_munkres::kuhn_munkres;
use pathfinding::matrix::Matrix;

/// Most stacks of a side that compete with one another and get the best assignment, at a cost that grows with the cube.
/// Of more, the best pair is taken first, then the best of those that are left.
const EXACT: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Edge {
    pub before: usize,
    pub after: usize,
    /// Likeness of the functions alone, from 0 to 1.
    pub alike: f32,
    /// Likeness of functions and numbers, from 0 to 1.
    pub score: f32,
}

/// Pairs, as indices of edges. No stack is in two of them, and edges worth nothing are in none.
pub(super) fn assign(edges: &[Edge], befores: usize, afters: usize, worth: impl Fn(f32) -> f32) -> Vec<usize> {
    let mut sets = Sets::new(befores + afters);
    for edge in edges {
        sets.join(edge.before, befores + edge.after);
    }
    let mut order: Vec<(usize, usize)> = (0..edges.len()).map(|at| (sets.of(edges[at].before), at)).collect();
    order.sort_unstable();
    let mut chosen = Vec::new();
    for component in order.chunk_by(|a, b| a.0 == b.0) {
        let component: Vec<usize> = component.iter().map(|&(_, at)| at).collect();
        chosen.extend(best(edges, &component, &worth));
    }
    chosen.sort_unstable();
    chosen
}

fn best(edges: &[Edge], component: &[usize], worth: &impl Fn(f32) -> f32) -> Vec<usize> {
    let numbers = |of: fn(&Edge) -> usize| {
        let mut all: Vec<usize> = component.iter().map(|&at| of(&edges[at])).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    let (befores, afters) = (numbers(|edge| edge.before), numbers(|edge| edge.after));
    if component.len() == 1 {
        return component.iter().copied().filter(|&at| worth(edges[at].score) > 0.0).collect();
    }
    if befores.len() > EXACT || afters.len() > EXACT {
        return greedy(edges, component, worth);
    }
    // Rows may not be more than columns. A cell of 0 leaves both alone.
    let swapped = befores.len() > afters.len();
    let (rows, columns) = if swapped { (&afters, &befores) } else { (&befores, &afters) };
    let mut weights = Matrix::new(rows.len(), columns.len(), 0i64);
    let mut edge_at = Matrix::new(rows.len(), columns.len(), usize::MAX);
    for &at in component {
        let edge = &edges[at];
        let ends = if swapped { [edge.after, edge.before] } else { [edge.before, edge.after] };
        let (Ok(row), Ok(column)) = (rows.binary_search(&ends[0]), columns.binary_search(&ends[1])) else { continue };
        let weight = (f64::from(worth(edge.score).max(0.0)) * 1e6) as i64;
        if weight > weights[(row, column)] {
            weights[(row, column)] = weight;
            edge_at[(row, column)] = at;
        }
    }
    let (_, columns) = kuhn_munkres(&weights);
    columns.into_iter().enumerate().map(|at| edge_at[at]).filter(|&at| at != usize::MAX).collect()
}

fn greedy(edges: &[Edge], component: &[usize], worth: &impl Fn(f32) -> f32) -> Vec<usize> {
    let mut order = component.to_vec();
    order.sort_by(|&a, &b| {
        let (a, b) = (&edges[a], &edges[b]);
        b.score.total_cmp(&a.score).then((a.before, a.after).cmp(&(b.before, b.after)))
    });
    let mut taken = [std::collections::BTreeSet::new(), std::collections::BTreeSet::new()];
    order.retain(|&at| {
        let edge = &edges[at];
        let free = worth(edge.score) > 0.0 && !taken[0].contains(&edge.before) && !taken[1].contains(&edge.after);
        if free {
            taken[0].insert(edge.before);
            taken[1].insert(edge.after);
        }
        free
    });
    order
}

/// Sets of numbers that belong together; the least number of a set stands for it.
struct Sets(Vec<usize>);

impl Sets {
    fn new(all: usize) -> Self {
        Self((0..all).collect())
    }

    fn of(&mut self, mut at: usize) -> usize {
        while self.0[at] != at {
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.of(a), self.of(b));
        self.0[a.max(b)] = a.min(b);
    }
}

#[cfg(test)]
mod tests {
    use super::{Edge, assign};

    fn pairs(edges: &[(usize, usize, f32)]) -> Vec<(usize, usize)> {
        let edges: Vec<Edge> =
            edges.iter().map(|&(before, after, score)| Edge { before, after, alike: score, score }).collect();
        let all = 1 + edges.iter().map(|edge| edge.before.max(edge.after)).max().unwrap_or(0);
        assign(&edges, all, all, |score| score - 0.5)
            .into_iter()
            .map(|at| (edges[at].before, edges[at].after))
            .collect()
    }

    #[test]
    fn all_pairs_together_are_worth_most() {
        // The best pair first would leave 0.6 of the other two.
        assert_eq!(pairs(&[(0, 0, 0.95), (0, 1, 0.9), (1, 0, 0.9)]), [(0, 1), (1, 0)]);
        assert_eq!(pairs(&[(0, 0, 0.9), (1, 1, 0.8), (5, 5, 0.4)]), [(0, 0), (1, 1)]);
        assert_eq!(pairs(&[(0, 0, 0.6), (1, 0, 0.7), (2, 0, 0.65)]), [(1, 0)]);
        assert_eq!(pairs(&[]), []);
    }

    #[test]
    fn of_many_the_best_come_first() {
        let edges: Vec<_> = (0..300).flat_map(|n| [(n, n, 0.9), (n, (n + 1) % 300, 0.8)]).collect();
        assert_eq!(pairs(&edges), (0..300).map(|n| (n, n)).collect::<Vec<_>>());
    }
}
