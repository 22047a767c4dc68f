//! Where boxes are: from the tree of calls, or from its callers, to positions and widths.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use super::groups::Groups;
use super::model::{Flame, FlameBox, FlameFunction, Label};
use crate::analysis::compare::changes::{Amount, difference};
use crate::analysis::numbers::Measure;
use crate::analysis::stacks::calls::{Call, CallId, Callee, Calls};
use crate::analysis::stacks::function_kind::{FunctionKind, classify};
use crate::analysis::stacks::functions::Functions;

/// A box without a position. A node's index is above that of the node that it stands on.
#[derive(Clone, Copy)]
pub struct Node {
    parent: u32,
    callee: Callee,
    inlined: bool,
    recursive: bool,
    value: u64,
    own: u64,
    /// `value` in the profile that is compared with.
    before: u64,
    own_before: u64,
}

pub fn callees<A: Amount>(calls: &Calls<A>, by: Measure) -> Vec<Node> {
    let node = |(_, call): (CallId, &Call<A>)| Node {
        parent: call.caller.0,
        callee: call.callee,
        inlined: call.inlined,
        recursive: call.recursive,
        value: call.cum.values(by)[1],
        own: call.own.values(by)[1],
        before: call.cum.values(by)[0],
        own_before: call.own.values(by)[0],
    };
    calls.iter().map(node).collect()
}

pub fn callers<A: Amount>(calls: &Calls<A>, by: Measure) -> Vec<Node> {
    let none = Node {
        parent: 0,
        callee: Callee::Program,
        inlined: false,
        recursive: false,
        value: 0,
        own: 0,
        before: 0,
        own_before: 0,
    };
    let whole = none;
    let mut nodes = vec![whole];
    let mut below: FxHashMap<(u32, Callee), u32> = FxHashMap::default();
    for (id, call) in calls.iter() {
        let [before, value] = call.own.values(by);
        if [before, value] == [0; 2] {
            continue;
        }
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut nodes[0].value, value);
        add(&mut nodes[0].before, before);
        let (mut at, mut current) = (0, id);
        while current != CallId::ROOT {
            let call = calls.get(current);
            let parent = at;
            at = *below.entry((parent, call.callee)).or_insert_with(|| {
                let (callee, inlined, recursive) = (call.callee, call.inlined, call.recursive);
                nodes.push(Node { parent, callee, inlined, recursive, ..none });
                nodes.len() as u32 - 1
            });
            let node = &mut nodes[at as usize];
            add(&mut node.value, value);
            add(&mut node.before, before);
            node.inlined &= call.inlined;
            node.recursive |= call.recursive;
            current = call.caller;
        }
        add(&mut nodes[at as usize].own, value);
        add(&mut nodes[at as usize].own_before, before);
    }
    nodes
}

pub struct Layout<'a> {
    functions: &'a Functions<'a>,
    groups: &'a Groups,
    tree: &'a [Node],
    /// By callee, the index into [`Flame::functions`].
    known: FxHashMap<Callee, usize>,
    flame: &'a mut Flame,
}

impl<'a> Layout<'a> {
    pub fn new(functions: &'a Functions<'a>, groups: &'a Groups, tree: &'a [Node], flame: &'a mut Flame) -> Self {
        Self { functions, groups, tree, known: FxHashMap::default(), flame }
    }

    /// Places the boxes that are at least one part in `parts` of the whole.
    pub fn lay_out(&mut self, parts: u64) {
        let nodes = self.tree;
        let whole = nodes[0].value;
        // A node that is left out takes along all that stands on it: none of it is larger.
        let min = self.flame.min;
        let large = |node: &Node| {
            node.value > 0 && node.value >= min && u128::from(node.value) * u128::from(parts) >= u128::from(whole)
        };
        let mut children: Vec<Vec<u32>> = vec![Vec::new(); nodes.len()];
        let (changes, gone) = self.changes(&large);
        for (at, node) in nodes.iter().enumerate().skip(1) {
            if large(node) {
                children[node.parent as usize].push(at as u32);
            } else if node.value > 0 {
                self.flame.left_out += 1;
            }
        }
        let mut waiting = vec![(0u32, None, 0usize, 0u64)];
        while let Some((at, parent, depth, start)) = waiting.pop() {
            let &Node { callee, inlined, recursive, value, own, before, .. } = &nodes[at as usize];
            let index = self.flame.boxes.len();
            let function = self.function(callee);
            self.flame.boxes.push(FlameBox {
                parent,
                depth,
                start,
                value,
                own,
                before,
                change: changes[at as usize],
                gone: gone[at as usize],
                function,
                inlined,
                recursive,
            });
            let mut inner = std::mem::take(&mut children[at as usize]);
            let name = |at: u32| self.name(nodes[at as usize].callee);
            inner.sort_by_cached_key(|&at| (Reverse(nodes[at as usize].value), name(at), at));
            let mut start = start;
            let first = waiting.len();
            for at in inner {
                waiting.push((at, Some(index), depth + 1, start));
                start = start.saturating_add(nodes[at as usize].value);
            }
            waiting[first..].reverse();
        }
    }

    /// By node, the change of what stands on no other box, and what calls had that are gone: a call that is no box
    /// belongs to the node that it would stand on.
    fn changes(&mut self, large: &impl Fn(&Node) -> bool) -> (Vec<i64>, Vec<u64>) {
        let nodes = self.tree;
        let mut changes: Vec<i64> = nodes.iter().map(|node| difference(node.own_before, node.own)).collect();
        let mut gone = vec![0u64; nodes.len()];
        let mut functions: FxHashMap<Callee, u64> = FxHashMap::default();
        for node in &nodes[1..] {
            let parent = node.parent as usize;
            if !large(node) && (parent == 0 || large(&nodes[parent])) {
                changes[parent] = changes[parent].saturating_add(difference(node.before, node.value));
            }
            if node.value == 0 && node.before > 0 && (parent == 0 || nodes[parent].value > 0) {
                gone[parent] = gone[parent].saturating_add(node.before);
                let sum = functions.entry(node.callee).or_default();
                *sum = sum.saturating_add(node.before);
            }
        }
        self.flame.gone = functions.into_iter().map(|(callee, before)| (self.name(callee), before)).collect();
        self.flame.gone.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        (changes, gone)
    }

    fn name(&self, callee: Callee) -> String {
        match callee {
            Callee::Function(id) => self.functions.name(id),
            Callee::Program | Callee::Missing | Callee::Unknown => String::new(),
        }
    }

    fn function(&mut self, callee: Callee) -> usize {
        if let Some(&known) = self.known.get(&callee) {
            return known;
        }
        let label = match callee {
            Callee::Program => Label::Whole,
            Callee::Function(_) => Label::Function,
            Callee::Missing => Label::MissingFrames,
            Callee::Unknown => Label::NoStack,
        };
        let none =
            FlameFunction { label, name: String::new(), file: None, module: None, group: None, looked_past: false };
        let function = match callee {
            Callee::Function(id) => {
                let (name, file, path) = (self.functions.name(id), self.functions.file(id), self.functions.module(id));
                let looked_past = classify(Some(&name), file.as_deref(), path.as_deref()) != FunctionKind::Own;
                FlameFunction { name, file, module: path, group: Some(self.groups.of(id)), looked_past, ..none }
            }
            Callee::Program | Callee::Missing | Callee::Unknown => none,
        };
        self.flame.functions.push(function);
        let index = self.flame.functions.len() - 1;
        self.known.insert(callee, index);
        index
    }
}
