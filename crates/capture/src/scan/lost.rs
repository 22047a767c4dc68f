//! Lost blocks: which of them are only held by other lost ones, and which hold each other in a cycle.

use super::graph::Graph;
use mallow_profile::LostKind;
use std::collections::BTreeMap;

/// The first so many sites of a cycle are named.
const NAMED: usize = 8;
/// Where one in so many has a pointer at the most, these pointers are stray words.
const STRAY: usize = 10;
const NONE: u32 = u32::MAX;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub lost: Vec<LostBlock>,
    /// Cycles that nothing points to, by the first [`NAMED`] sites of their blocks in the order of their allocation.
    pub cycles: BTreeMap<Vec<u32>, Cycles>,
    /// Addresses and sequence numbers of blocks that were freed, by a call that nobody saw.
    pub freed: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostBlock {
    pub address: u64,
    /// Number of the block's allocation.
    pub sequence: u64,
    pub site: u32,
    /// Bytes as requested.
    pub size: u64,
    /// Sequence number and site of the lost block that holds this one, and that no other lost block holds; None: no
    /// other lost block does.
    pub head: Option<(u64, u32)>,
    /// Kind of the `head`; without one, of the block itself.
    pub kind: LostKind,
    /// The `head`, or without one the block itself, belongs to one of [`Found::cycles`].
    pub in_cycle: bool,
}

/// Sums over the cycles of the same sites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cycles {
    pub count: u64,
    /// Blocks in the cycles and held by them.
    pub blocks: u64,
    /// Bytes of `blocks`, as requested.
    pub bytes: u64,
}

impl Found {
    pub fn of(graph: &Graph) -> Self {
        let mut numbers = vec![NONE; graph.blocks.len()];
        let (free, lost): (Vec<u32>, Vec<u32>) = (0..graph.blocks.len() as u32)
            .filter(|&block| !graph.reached[block as usize])
            .partition(|&block| graph.free[block as usize]);
        for (number, &block) in (0..).zip(&lost) {
            numbers[block as usize] = number;
        }
        let parts = Parts::of(graph, &lost, &numbers);
        let freed = free.into_iter().map(|block| &graph.blocks[block as usize]);
        let freed = freed.map(|block| (block.address, block.sequence)).collect();
        Self { freed, ..parts.found(graph, &lost, &numbers) }
    }
}

/// Strongly connected parts of the lost blocks.
struct Parts {
    /// For each lost block, by its index in the list of these, the number of its part.
    of: Vec<u32>,
    /// Indexes of lost blocks; those of part `p` are `members[first[p]..first[p + 1]]`.
    members: Vec<u32>,
    first: Vec<u32>,
}

impl Parts {
    /// Tarjan's search, with a stack of its own: a lost list may have millions of blocks.
    fn of(graph: &Graph, lost: &[u32], numbers: &[u32]) -> Self {
        let mut parts = Self { of: vec![NONE; lost.len()], members: Vec::new(), first: vec![0] };
        let (mut order, mut low) = (vec![NONE; lost.len()], vec![NONE; lost.len()]);
        let (mut open, mut calls): (Vec<u32>, Vec<(u32, u32)>) = Default::default();
        let mut next = 0;
        for start in 0..lost.len() as u32 {
            if order[start as usize] != NONE {
                continue;
            }
            calls.push((start, 0));
            while let Some((block, edge)) = calls.pop() {
                let b = block as usize;
                if edge == 0 {
                    (order[b], low[b]) = (next, next);
                    next += 1;
                    open.push(block);
                }
                let pointers = graph.pointers(lost[b]);
                let mut edge = edge as usize;
                let mut deeper = None;
                while let Some(&to) = pointers.get(edge) {
                    let to = numbers[to as usize];
                    edge += 1;
                    if to == NONE {
                        continue;
                    }
                    if order[to as usize] == NONE {
                        deeper = Some(to);
                        break;
                    }
                    if parts.of[to as usize] == NONE {
                        low[b] = low[b].min(order[to as usize]);
                    }
                }
                if let Some(to) = deeper {
                    calls.push((block, edge as u32));
                    calls.push((to, 0));
                    continue;
                }
                if low[b] == order[b] {
                    parts.close(&mut open, block);
                }
                if let Some(&(caller, _)) = calls.last() {
                    low[caller as usize] = low[caller as usize].min(low[b]);
                }
            }
        }
        parts
    }

    fn close(&mut self, open: &mut Vec<u32>, root: u32) {
        let part = self.first.len() as u32 - 1;
        while let Some(member) = open.pop() {
            self.of[member as usize] = part;
            self.members.push(member);
            if member == root {
                break;
            }
        }
        self.first.push(self.members.len() as u32);
    }

    fn members(&self, part: u32) -> &[u32] {
        &self.members[self.first[part as usize] as usize..self.first[part as usize + 1] as usize]
    }

    /// The only block of a part whose start none of the others has: a container, whose own blocks point back into it. A
    /// table's first slot has the address of a link in the table, and the root of a tree that of the tree's head. Who
    /// counts references, or has a pointer to a parent, has the address of a start, or has addresses within blocks of
    /// all of them alike.
    fn container(&self, part: u32, graph: &Graph, lost: &[u32]) -> Option<u32> {
        let mut entered = self.members(part).iter().filter(|&&number| !graph.begins[lost[number as usize] as usize]);
        let container = entered.next().filter(|_| entered.next().is_none())?;
        (self.members(part).len() > 1).then_some(*container)
    }

    /// Whether the blocks of a part hold each other by their first two words alone, where an object whose references
    /// are counted has its type and its count: a list that is linked both ways.
    fn is_ring(&self, part: u32, graph: &Graph, lost: &[u32]) -> bool {
        self.members(part).iter().all(|&number| {
            let block = lost[number as usize];
            let behind = graph.pointers(block).iter().skip(graph.in_head[block as usize].into());
            behind.copied().all(|to| lost.binary_search(&to).map_or(true, |to| self.of[to] != part))
        })
    }

    /// Sites of a part's blocks in the order of their allocation, each once, [`NAMED`] at the most. None: the part is
    /// no cycle.
    fn cycle(&self, part: u32, graph: &Graph, lost: &[u32]) -> Option<Vec<u32>> {
        let members = self.members(part);
        let &first = members.first()?;
        if members.len() == 1 && !graph.self_references[lost[first as usize] as usize]
            || self.container(part, graph, lost).is_some()
            || members.len() > 1 && self.is_ring(part, graph, lost)
        {
            return None;
        }
        let block = |number: u32| &graph.blocks[lost[number as usize] as usize];
        let mut members = members.to_vec();
        members.sort_unstable_by_key(|&number| block(number).sequence);
        let mut sites = Vec::new();
        for site in members.iter().map(|&number| block(number).site) {
            if sites.len() < NAMED && !sites.contains(&site) {
                sites.push(site);
            }
        }
        Some(sites)
    }

    /// For each part whether another part holds it.
    ///
    /// Memory that the program has not written yet has words of what was there before, and such a word may point into a
    /// cycle. It holds nothing: so of cycles of the same sites, nine in ten of which nothing points to, the others are
    /// not held by blocks of which one in ten at the most have such a pointer. A list, a tree or a table of cycles has
    /// its pointers everywhere.
    fn held(&self, graph: &Graph, lost: &[u32], numbers: &[u32]) -> Vec<bool> {
        let count = self.first.len() - 1;
        let site = |number: u32| graph.blocks[lost[number as usize] as usize].site;
        // Other parts that a block points into; there may be too many to list them all.
        let into = |number: u32| {
            let pointers = graph.pointers(lost[number as usize]).iter().map(|&to| numbers[to as usize]);
            let parts = pointers.filter(|&to| to != NONE).map(|to| self.of[to as usize]);
            parts.filter(move |&part| part != self.of[number as usize])
        };
        let blocks = 0..lost.len() as u32;
        let mut held = vec![false; count];
        for part in blocks.clone().flat_map(into) {
            held[part as usize] = true;
        }
        // Of the sites of cycles: how many there are, and how many are held.
        let mut kinds: BTreeMap<Vec<u32>, (usize, usize, usize)> = BTreeMap::new();
        let mut kind_of = vec![usize::MAX; count];
        for part in 0..count as u32 {
            let Some(sites) = self.cycle(part, graph, lost) else { continue };
            let next = kinds.len();
            let (kind, all, of_them_held) = kinds.entry(sites).or_insert((next, 0, 0));
            *all += 1;
            *of_them_held += usize::from(held[part as usize]);
            kind_of[part as usize] = *kind;
        }
        if kinds.is_empty() {
            return held;
        }
        let mut mostly_free = vec![false; kinds.len()];
        for (kind, all, of_them_held) in kinds.into_values() {
            mostly_free[kind] = of_them_held.saturating_mul(STRAY) <= all;
        }
        let kind = |part: u32| Some(kind_of[part as usize]).filter(|&kind| mostly_free.get(kind) == Some(&true));
        // Blocks of each site; and by site and kind, those of them that point to cycles of the kind.
        let mut of_site: BTreeMap<u32, usize> = BTreeMap::new();
        let mut pointing: BTreeMap<(u32, usize), usize> = BTreeMap::new();
        let mut pointed = Vec::new();
        for number in blocks.clone() {
            *of_site.entry(site(number)).or_default() += 1;
            pointed.clear();
            pointed.extend(into(number).filter_map(kind));
            pointed.sort_unstable();
            pointed.dedup();
            for &kind in &pointed {
                *pointing.entry((site(number), kind)).or_default() += 1;
            }
        }
        let is_stray = |number: u32, part: u32| {
            let Some(kind) = kind(part) else { return false };
            let pointing = pointing.get(&(site(number), kind)).copied().unwrap_or_default();
            pointing.saturating_mul(STRAY) <= of_site.get(&site(number)).copied().unwrap_or_default()
        };
        held.fill(false);
        for number in blocks {
            for part in into(number) {
                held[part as usize] |= !is_stray(number, part);
            }
        }
        held
    }

    fn found(&self, graph: &Graph, lost: &[u32], numbers: &[u32]) -> Found {
        let block = |number: u32| &graph.blocks[lost[number as usize] as usize];
        let pointers = |number: u32| {
            let to = graph.pointers(lost[number as usize]).iter().map(|&to| numbers[to as usize]);
            to.filter(|&to| to != NONE)
        };
        let count = self.first.len() as u32 - 1;
        let held = self.held(graph, lost, numbers);
        // What several hold is the first one's, by allocation.
        let first = |part: u32| self.members(part).iter().copied().min_by_key(|&n| block(n).sequence);
        let head = |part: u32| self.container(part, graph, lost).or_else(|| first(part));
        let mut heads: Vec<(u32, u32)> =
            (0..count).filter(|&p| !held[p as usize]).filter_map(|part| Some((head(part)?, part))).collect();
        heads.sort_unstable_by_key(|&(head, _)| block(head).sequence);
        let mut owner = vec![NONE; lost.len()];
        let mut found = Found::default();
        let mut in_cycle = vec![false; lost.len()];
        let mut waiting = Vec::new();
        for (head, part) in heads {
            let (mut blocks, mut bytes) = (0, 0u64);
            waiting.push(head);
            owner[head as usize] = head;
            while let Some(number) = waiting.pop() {
                blocks += 1;
                bytes = bytes.saturating_add(block(number).size);
                for to in pointers(number) {
                    let (from, into) = (self.of[number as usize], self.of[to as usize]);
                    // A cycle that a stray word points to is its own.
                    if owner[to as usize] == NONE && (from == into || held[into as usize]) {
                        owner[to as usize] = head;
                        waiting.push(to);
                    }
                }
            }
            if let Some(sites) = self.cycle(part, graph, lost) {
                in_cycle[head as usize] = true;
                let cycles = found.cycles.entry(sites).or_default();
                cycles.count += 1;
                cycles.blocks += blocks;
                cycles.bytes = cycles.bytes.saturating_add(bytes);
            }
        }
        found.lost = (0..lost.len() as u32)
            .map(|number| {
                let head = if owner[number as usize] == NONE { number } else { owner[number as usize] };
                let (block, of) = (block(number), block(head));
                let (address, sequence, site, size) = (block.address, block.sequence, block.site, block.size);
                let kind = graph.kinds[lost[head as usize] as usize];
                let in_cycle = in_cycle[head as usize];
                let head = (head != number).then_some((of.sequence, of.site));
                LostBlock { address, sequence, site, size, head, kind, in_cycle }
            })
            .collect();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::LiveBlock;

    /// Blocks of 10 bytes, each of a site of its own, with these pointers; those below `reached` are not lost.
    fn found(pointers: &[&[u32]], reached: usize) -> Found {
        of_sites(pointers, reached, |number| number)
    }

    /// The same, of these sites.
    fn of_sites(pointers: &[&[u32]], reached: usize, site: impl Fn(u32) -> u32) -> Found {
        of_graph(pointers, reached, site, &[], 0)
    }

    /// The same; what points to `entered` points into them, and the first `in_head` pointers of each block lie in its
    /// head.
    fn of_graph(pointers: &[&[u32]], reached: usize, site: impl Fn(u32) -> u32, entered: &[u32], in_head: u8) -> Found {
        let mut graph = Graph::default();
        for (number, to) in (0u32..).zip(pointers) {
            graph.blocks.push(LiveBlock {
                address: 16 * u64::from(number),
                size: 10,
                sequence: number.into(),
                site: site(number),
            });
            graph.first.push(graph.edges.len() as u32);
            graph.edges.extend(*to);
            graph.self_references.push(to.contains(&number));
            graph.in_head.push(in_head);
            graph.begins.push(!entered.contains(&number));
            graph.kinds.push(if number % 2 == 1 { LostKind::ImmortalString } else { LostKind::Other });
            graph.reached.push((number as usize) < reached);
            graph.free.push(false);
        }
        graph.first.push(graph.edges.len() as u32);
        Found::of(&graph)
    }

    fn heads(found: &Found) -> Vec<u32> {
        found.lost.iter().map(|lost| lost.head.map_or(lost.site, |(_, site)| site)).collect()
    }

    #[test]
    fn a_lost_block_holds_what_it_points_to() {
        let found = found(&[&[1], &[], &[3, 4, 1], &[4], &[], &[4]], 2);
        assert_eq!(heads(&found), [2, 2, 2, 5]);
        assert_eq!(found.lost.iter().filter(|lost| lost.head.is_none()).count(), 2);
        // What holds a block says what is lost.
        let kinds: Vec<_> = found.lost.iter().map(|lost| lost.kind).collect();
        assert_eq!(kinds, [LostKind::Other, LostKind::Other, LostKind::Other, LostKind::ImmortalString]);
        assert!(found.cycles.is_empty());
    }

    #[test]
    fn a_cycle_is_one_leak_with_all_that_it_holds() {
        let found = found(&[&[1], &[0, 2], &[], &[4], &[3]], 0);
        assert_eq!(heads(&found), [0, 0, 0, 3, 3]);
        let cycles: Vec<_> = found.cycles.iter().collect();
        assert_eq!(cycles[0], (&vec![0, 1], &Cycles { count: 1, blocks: 3, bytes: 30 }));
        assert_eq!(cycles[1], (&vec![3, 4], &Cycles { count: 1, blocks: 2, bytes: 20 }));
    }

    /// The number of a block among its own pointers is the reference to itself.
    #[test]
    fn a_block_that_refers_to_itself_is_a_cycle() {
        let found = found(&[&[0, 1], &[], &[2], &[2]], 0);
        assert_eq!(heads(&found), [0, 0, 3, 3]);
        let cycles: Vec<_> = found.cycles.iter().collect();
        assert_eq!(cycles, [(&vec![0], &Cycles { count: 1, blocks: 2, bytes: 20 })]);
    }

    /// A table (2) with its slots (3), whose first one points back into it, and nodes (4, 5) that hold a block (0)
    /// each.
    #[test]
    fn a_container_whose_blocks_point_back_into_it_is_no_cycle() {
        let table: &[&[u32]] = &[&[], &[], &[3, 4], &[2, 4, 5], &[0, 5], &[1]];
        let found = of_graph(table, 0, |n| n, &[2], 0);
        assert_eq!(heads(&found), [2; 6]);
        assert!(found.cycles.is_empty(), "{:?}", found.cycles);
        // Two of them that hold each other by their starts are one, and so are objects that all have a head before what
        // is pointed to.
        let found = of_graph(&[&[1], &[0]], 0, |n| n, &[0, 1], 0);
        assert_eq!(found.cycles.values().map(|cycles| cycles.count).sum::<u64>(), 1);
        let found = of_graph(&[&[1], &[0]], 0, |n| n, &[], 0);
        assert_eq!(found.cycles.values().map(|cycles| cycles.count).sum::<u64>(), 1);
    }

    /// Each block has the next and the one before in its first words, and its contents (3) behind them.
    #[test]
    fn a_list_that_is_linked_both_ways_is_no_cycle() {
        let list: &[&[u32]] = &[&[1, 2], &[2, 0, 3], &[0, 1], &[]];
        let found = of_graph(list, 0, |n| n, &[], 2);
        assert_eq!(heads(&found), [0; 4]);
        assert!(found.cycles.is_empty(), "{:?}", found.cycles);
        // One of them refers to another behind its head, as the counts of a shared_ptr do.
        let found = of_graph(&[&[1, 2], &[2, 0, 0], &[0, 1]], 0, |n| n, &[], 2);
        assert_eq!((heads(&found), found.cycles.len()), (vec![0; 3], 1));
    }

    #[test]
    fn a_cycle_that_a_lost_block_holds_is_that_blocks() {
        let found = found(&[&[2], &[0], &[1], &[0]], 0);
        assert_eq!(heads(&found), [3; 4]);
        assert!(found.cycles.is_empty());
    }

    /// Pairs of blocks of the sites 0 and 1 that point to each other, and what the second of a pair points to beside.
    fn pairs(count: u32, beside: impl Fn(u32) -> Option<u32>) -> (Vec<u64>, usize) {
        let pointers: Vec<Vec<u32>> =
            (0..2 * count).map(|n| [n ^ 1].into_iter().chain(beside(n / 2).filter(|_| n % 2 == 1)).collect()).collect();
        let pointers: Vec<&[u32]> = pointers.iter().map(|to| &to[..]).collect();
        let found = of_sites(&pointers, 0, |n| n % 2);
        let heads = found.lost.iter().filter(|lost| lost.head.is_none()).count();
        (found.cycles.values().map(|cycles| cycles.count).collect(), heads)
    }

    /// A pair begins at `2 * pair`.
    #[test]
    fn a_stray_word_makes_two_cycles_none() {
        assert_eq!(pairs(600, |_| None), (vec![600], 600));
        let stray =
            |pair| [(7, 14), (99, 1100), (300, 3)].into_iter().find(|&(from, _)| from == pair).map(|(_, to)| to);
        assert_eq!(pairs(600, stray), (vec![600], 600));
        assert_eq!(pairs(1, |_| None), (vec![1], 1));
        let found = of_sites(&[&[1], &[0]], 0, |n| n);
        assert_eq!(heads(&found), [0, 0]);
    }

    #[test]
    fn a_list_a_tree_and_a_table_of_cycles_are_one_leak() {
        let list = |pair: u32| (pair < 599).then_some(2 * (pair + 1));
        assert_eq!(pairs(600, list), (vec![1], 1));
        let parent_first = |pair: u32| (pair > 0).then(|| 2 * ((pair - 1) / 2));
        assert_eq!(pairs(600, parent_first), (vec![300], 300), "leaves point to what several hold");
        let one_holds_one = |pair: u32| pair.is_multiple_of(2).then_some(2 * (pair + 1));
        assert_eq!(pairs(600, one_holds_one), (vec![300], 300));
        assert_eq!(pairs(2, one_holds_one), (vec![1], 1));
        // Two in a hundred entries of a table share a slot; the table is the leak.
        let mut pointers: Vec<Vec<u32>> = vec![(1..=100).filter(|n| n % 50 != 0).collect()];
        pointers.extend((1..=100).map(|n| if n % 50 == 49 { vec![n, n + 1] } else { vec![n] }));
        let pointers: Vec<&[u32]> = pointers.iter().map(|to| &to[..]).collect();
        let found = of_sites(&pointers, 0, |n| n.min(1));
        assert_eq!(heads(&found), [0; 101]);
        assert!(found.cycles.is_empty());
        // One block holds a few of many cycles.
        let mut pointers: Vec<Vec<u32>> = vec![vec![1, 2, 3]];
        pointers.extend((1..=100).map(|n| vec![n]));
        let pointers: Vec<&[u32]> = pointers.iter().map(|to| &to[..]).collect();
        let found = of_sites(&pointers, 0, |n| n.min(1));
        assert_eq!(found.lost.iter().filter(|lost| lost.head.is_none()).count(), 98);
    }

    #[test]
    fn a_list_of_a_million_blocks_needs_no_stack() {
        const COUNT: u32 = 1_000_000;
        let pointers: Vec<[u32; 2]> = (0..COUNT).map(|n| [(n + 1) % COUNT, (n + COUNT - 1) % COUNT]).collect();
        let pointers: Vec<&[u32]> = pointers.iter().map(|to| &to[..]).collect();
        let found = found(&pointers, 0);
        assert_eq!(found.lost.iter().filter(|lost| lost.head.is_none()).count(), 1);
        assert_eq!(
            found.cycles.values().map(|cycles| (cycles.count, cycles.blocks)).collect::<Vec<_>>(),
            [(1, u64::from(COUNT))]
        );
    }
}
