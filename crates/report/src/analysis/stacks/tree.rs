//! Who calls whom to allocate: from the outermost functions in, or from those that allocate out.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use mallow_profile::Profile;
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::calls::{Call, CallId, Callee, Calls};
use super::functions::{Functions, reads_like_another};
use super::profile_views::ProfileViews;
use super::tell_apart::{Row, Shown, tell_apart};
use crate::analysis::compare::changes::{Amount, Both, Changed, RowSource};
use crate::analysis::numbers::{Measure, Totals};

#[derive(Clone, Copy, Debug)]
pub struct TreeOptions {
    /// The measure that rows are sorted by.
    pub by: Measure,
    /// Whether rows go from the functions that allocate to their callers, not from the outermost functions to those
    /// that they call.
    pub callers: bool,
    /// Whether every function of each stack has a row.
    pub raw: bool,
    /// Most rows below one another.
    pub depth: usize,
    /// Least value of a row, at least 1. A function has no row of its own, either, where all but less than this is in
    /// one row below it.
    pub min: u64,
    /// Most lines: rows, and one below each row that shows some of its rows and hides others.
    pub limit: usize,
}

/// Calls as a tree.
///
/// A row counts the sites below it. Each number of a row is that of its own plus those of the rows below it, hidden
/// ones included, and the numbers of the outermost rows add up to those of all sites where the measure is above 0.
///
/// Without `raw`, functions that only pass the request on belong to their caller, and calls of a function that is on
/// the path already to its first call.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tree<T = Totals> {
    /// The command line that was recorded.
    pub command: Vec<String>,
    /// Measure that rows are chosen and sorted by.
    pub by: Measure,
    /// True: rows are called by those below them. False: they call those below them.
    pub callers: bool,
    /// Each function of a stack is shown, those that only pass the request on, too.
    pub raw: bool,
    /// Sums over the recording.
    #[serde(flatten)]
    pub totals: T,
    /// The functions of all rows: rows name them by their places here, from 0.
    pub functions: Vec<TreeFunction>,
    /// The outermost functions, or those that allocate; the largest first.
    pub rows: Vec<TreeRow<T>>,
    /// Sums of the outermost rows that are not shown; null where all are.
    pub hidden: Option<Hidden<T>>,
}

/// One row: a function, or several, where each calls the next one and hardly anything else.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TreeRow<T = Totals> {
    /// Indices into the document's `functions`, from 0: each function calls the next one, or is called by it with
    /// `callers`.
    pub functions: Vec<u32>,
    /// Indices into the document's `functions` of those whose recursive calls, direct or through others, are in this
    /// row and below.
    pub recursive: Vec<u32>,
    /// Sums of the first of the functions and its callees; with `callers`, what the outermost row's function allocated
    /// itself when it was called on this path.
    pub cum: T,
    /// Sums that are in no row below this: what the functions allocated themselves; with `callers`, what nothing
    /// called.
    #[serde(rename = "self")]
    pub self_sums: T,
    /// Rows below this one, the largest first.
    pub children: Vec<TreeRow<T>>,
    /// Sums of the rows below this one that are not shown; null where all are.
    pub hidden: Option<Hidden<T>>,
}

/// A function of a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TreeFunction {
    /// Demangled name, `module+0xoffset`, or words in parentheses for what stands in no stack.
    pub function: String,
    /// Other functions that have the same code; left out where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub folded: Vec<String>,
    /// Source file of the function, as debug information names it; null where no line is known.
    pub file: Option<String>,
    /// Path of the ELF file in which the function was seen first; null where none is known.
    pub module: Option<String>,
    /// Another function of the tree has the same name without its arguments.
    #[serde(skip)]
    pub keeps_arguments: bool,
}

impl Row for TreeFunction {
    fn shown(&self) -> Option<Shown<'_>> {
        let (file, module) = (self.file.as_deref(), self.module.as_deref());
        Some(Shown { function: &self.function, file, line: None, module, by: None })
    }

    fn keep_arguments(&mut self) {
        self.keeps_arguments = true;
    }
}

impl<T> Tree<T> {
    /// The functions of a row, each with whether it calls itself.
    pub fn called<'a>(&'a self, row: &'a TreeRow<T>) -> impl Iterator<Item = (&'a TreeFunction, bool)> {
        let known = |&at: &u32| Some((self.functions.get(at as usize)?, row.recursive.contains(&at)));
        row.functions.iter().filter_map(known)
    }
}

/// Rows that are not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hidden<T = Totals> {
    /// Rows that are not shown.
    pub rows: u64,
    /// Sums of the rows that are not shown.
    pub cum: T,
}

/// Costs one step for each frame that stacks do not share; with `callers` and without limit one for each frame of each
/// stack.
pub fn tree(profile: &Profile, options: TreeOptions) -> Tree {
    ProfileViews::of(profile).tree(options)
}

impl ProfileViews<'_> {
    pub fn tree(&self, options: TreeOptions) -> Tree {
        self.view(|source| grown(source, options))
    }
}

/// The changes from one profile to another, as a tree. Rows are chosen by all that changed below them, in either
/// direction: their own change may be less than that of a row below.
pub fn tree_changes(both: &Both, options: TreeOptions) -> Tree<Changed> {
    both.view(|source| grown(source, options))
}

fn grown<A: Amount>(source: RowSource<'_, A>, options: TreeOptions) -> Tree<A::Shown> {
    let functions = source.functions;
    let calls = Calls::new(source, options.raw, options.by);
    let mut selection = Selection::new(&calls, options);
    selection.grow();
    let (names, rows, hidden) = selection.into_rows(functions);
    Tree {
        command: source.profile.command.clone(),
        by: options.by,
        callers: options.callers,
        raw: options.raw,
        totals: source.totals.shown(options.by),
        functions: names,
        rows,
        hidden,
    }
}

/// One part in so many is the most of a row that may be outside of the one below it, where both are printed together.
const HARDLY: u64 = 20;

/// A row under construction. A node's index is above that of the node that it is below.
struct Node<A> {
    parent: usize,
    /// Number of rows above this one, the root among them.
    depth: usize,
    functions: Vec<(Callee, bool)>,
    cum: A,
    self_sums: A,
    children: Vec<usize>,
    members: Members,
    /// Whether a function of the row above calls this one that is not its last: a row of its own would say something
    /// else.
    aside: bool,
    shown: bool,
    shown_below: usize,
}

/// The part of the calls that a row stands for.
#[derive(Clone, Copy)]
enum Members {
    Call(CallId),
    /// A range of indices into [`Selection::paths`].
    Paths(usize, usize),
}

/// A call with an own amount, and the call that the walk from it to the root has reached.
#[derive(Clone, Copy)]
struct CallPath {
    from: CallId,
    at: CallId,
}

struct Group<A> {
    callee: Callee,
    recursive: bool,
    cum: A,
    members: Members,
}

/// The rows that are shown, chosen the largest first: a row is never larger than the one it is below.
struct Selection<'a, A> {
    calls: &'a Calls<A>,
    options: TreeOptions,
    /// The callees of each call, one call after another, and the index where each call's begin; empty with `callers`.
    called: Vec<CallId>,
    starts: Vec<usize>,
    /// Call paths of the rows, one row after another; empty without `callers`.
    paths: Vec<CallPath>,
    nodes: Vec<Node<A>>,
    /// Rows that may be shown next, with their weights.
    next: BinaryHeap<(u64, Reverse<usize>)>,
}

impl<'a, A: Amount> Selection<'a, A> {
    fn new(calls: &'a Calls<A>, options: TreeOptions) -> Self {
        let mut it = Self {
            calls,
            options,
            called: Vec::new(),
            starts: Vec::new(),
            paths: Vec::new(),
            nodes: Vec::new(),
            next: BinaryHeap::new(),
        };
        let members = if options.callers {
            let ends = calls.iter().filter(|(_, call)| call.own != A::default());
            it.paths = ends.map(|(id, _)| CallPath { from: id, at: id }).collect();
            Members::Paths(0, it.paths.len())
        } else {
            // Functions from which recursion went back, and nothing else, have nothing.
            let counts = |call: &Call<A>| call.cum != A::default();
            it.called = calls.iter().skip(1).filter(|(_, call)| counts(call)).map(|(id, _)| id).collect();
            it.called.sort_by_key(|&id| calls.get(id).caller);
            it.starts = calls.iter().map(|(id, _)| it.called.partition_point(|&c| calls.get(c).caller < id)).collect();
            it.starts.push(it.called.len());
            Members::Call(CallId::ROOT)
        };
        it.nodes.push(Node {
            parent: 0,
            depth: 0,
            functions: Vec::new(),
            cum: calls.get(CallId::ROOT).cum,
            self_sums: A::default(),
            children: Vec::new(),
            members,
            aside: false,
            shown: true,
            shown_below: 0,
        });
        it.expand(0);
        it
    }

    fn value(&self, node: usize) -> u64 {
        self.nodes[node].cum.weight(self.options.by)
    }

    /// Shows rows until no line is left.
    fn grow(&mut self) {
        let mut lines = 0;
        while let Some((_, Reverse(node))) = self.next.pop() {
            let parent = &self.nodes[self.nodes[node].parent];
            let after = lines - self.lines_below(parent, parent.shown_below);
            let after = after + self.lines_below(parent, parent.shown_below + 1);
            if after > self.options.limit && lines > 0 {
                break;
            }
            lines = after;
            self.show(node);
        }
        // A line that announces one more row has room for the row, however small.
        for index in 0..self.nodes.len() {
            let node = &self.nodes[index];
            if node.shown_below > 0
                && node.shown_below + 1 == node.children.len()
                && let Some(&last) = node.children.iter().find(|&&c| !self.nodes[c].shown)
                && self.nodes[last].depth <= self.options.depth
                && !self.nodes[last].aside
            {
                self.show(last);
            }
        }
    }

    fn show(&mut self, node: usize) {
        let parent = self.nodes[node].parent;
        self.nodes[node].shown = true;
        self.nodes[parent].shown_below += 1;
        self.expand(node);
    }

    fn may(&self, node: usize) -> bool {
        self.nodes[node].depth <= self.options.depth && self.value(node) >= self.options.min
    }

    /// Lines for what is directly below a row, with so many of its children shown. Where none is, the row itself has
    /// room to say so.
    fn lines_below(&self, node: &Node<A>, shown: usize) -> usize {
        let own = self.options.callers && node.self_sums != A::default();
        match shown {
            0 => 0,
            _ => shown + usize::from(shown < node.children.len()) + usize::from(own),
        }
    }

    /// Finds the rows below a row that is going to be shown.
    fn expand(&mut self, node: usize) {
        let by = self.options.by;
        let value = |amount: &A| amount.weight(by);
        let (mut groups, mut aside): (Vec<Group<A>>, Vec<Group<A>>) = Default::default();
        loop {
            let (own, more) = self.split(self.nodes[node].members);
            self.nodes[node].self_sums += own;
            aside.append(&mut groups);
            groups.extend(more);
            let Some(largest) = (0..groups.len()).max_by_key(|&at| value(&groups[at].cum)) else { break };
            // A row that is next to nothing but the one below it is one with that.
            let cum = value(&self.nodes[node].cum);
            let rest = cum - value(&groups[largest].cum);
            if node == 0 || rest >= self.options.min || rest > cum / HARDLY {
                break;
            }
            let only = groups.swap_remove(largest);
            self.nodes[node].functions.push((only.callee, only.recursive));
            self.nodes[node].members = only.members;
        }
        let depth = self.nodes[node].depth + 1;
        let groups = groups.into_iter().map(|g| (g, false)).chain(aside.into_iter().map(|g| (g, true)));
        let mut children: Vec<_> = groups.map(|(g, aside)| (Reverse(value(&g.cum)), g.callee, aside, g)).collect();
        children.sort_by_key(|&(value, callee, aside, _)| (value, callee, aside));
        for (value, callee, aside, group) in children {
            let id = self.nodes.len();
            self.nodes.push(Node {
                parent: node,
                depth,
                functions: vec![(callee, group.recursive)],
                cum: group.cum,
                self_sums: A::default(),
                children: Vec::new(),
                members: group.members,
                aside,
                shown: false,
                shown_below: 0,
            });
            self.nodes[node].children.push(id);
            if self.may(id) {
                self.next.push((value.0, Reverse(id)));
            }
        }
    }

    /// The own amount of members, and the functions that they called or were called by.
    fn split(&mut self, members: Members) -> (A, Vec<Group<A>>) {
        match members {
            Members::Call(id) => {
                let (from, to) = (self.starts[id.0 as usize], self.starts[id.0 as usize + 1]);
                let group = |&id: &CallId| {
                    let call = self.calls.get(id);
                    Group { callee: call.callee, recursive: call.recursive, cum: call.cum, members: Members::Call(id) }
                };
                (self.calls.get(id).own, self.called[from..to].iter().map(group).collect())
            }
            Members::Paths(from, to) => self.split_paths(from, to),
        }
    }

    fn split_paths(&mut self, from: usize, to: usize) -> (A, Vec<Group<A>>) {
        let calls = self.calls;
        let paths = &mut self.paths[from..to];
        paths.sort_unstable_by_key(|path| (calls.get(path.at).callee, path.from));
        let (mut own, mut groups) = (A::default(), Vec::new());
        let mut at = from;
        for same in paths.chunk_by_mut(|a, b| calls.get(a.at).callee == calls.get(b.at).callee) {
            let begin = at;
            at += same.len();
            let callee = calls.get(same[0].at).callee;
            let (mut cum, mut recursive) = (A::default(), false);
            for path in same {
                cum += calls.get(path.from).own;
                recursive |= calls.get(path.at).recursive;
                path.at = calls.get(path.at).caller;
            }
            match callee {
                Callee::Program => own = cum,
                _ => groups.push(Group { callee, recursive, cum, members: Members::Paths(begin, at) }),
            }
        }
        (own, groups)
    }

    fn into_rows(mut self, functions: &Functions<'_>) -> Rows<A::Shown> {
        let mut places: FxHashMap<Callee, u32> = FxHashMap::default();
        let mut names = Vec::new();
        for (callee, _) in self.nodes.iter().filter(|node| node.shown).flat_map(|node| &node.functions) {
            places.entry(*callee).or_insert_with(|| {
                names.push(function(functions, *callee));
                names.len() as u32 - 1
            });
        }
        tell_apart(names.iter_mut());
        let by = self.options.by;
        let mut rows: Vec<Option<TreeRow<A::Shown>>> = Vec::new();
        rows.resize_with(self.nodes.len(), || None);
        // Rows have higher numbers than the ones they are below, so those below are ready.
        for index in (0..self.nodes.len()).rev() {
            let node = &mut self.nodes[index];
            if !node.shown {
                continue;
            }
            let called = std::mem::take(&mut node.functions);
            let children = std::mem::take(&mut node.children);
            let (cum, self_sums) = (node.cum.shown(by), node.self_sums.shown(by));
            let (mut shown, mut hidden, mut count) = (Vec::new(), A::default(), 0);
            for child in children {
                match rows[child].take() {
                    Some(row) => shown.push(row),
                    None => {
                        hidden += self.nodes[child].cum;
                        count += 1;
                    }
                }
            }
            let recursive = called.iter().filter(|(_, recursive)| *recursive).map(|(callee, _)| places[callee]);
            rows[index] = Some(TreeRow {
                functions: called.iter().map(|(callee, _)| places[callee]).collect(),
                recursive: recursive.collect(),
                cum,
                self_sums,
                children: shown,
                hidden: (count > 0).then(|| Hidden { rows: count, cum: hidden.shown(by) }),
            });
        }
        let (rows, hidden) = rows.swap_remove(0).map_or((Vec::new(), None), |root| (root.children, root.hidden));
        (names, rows, hidden)
    }
}

/// The functions of a tree, its rows, and what is hidden at the root.
type Rows<T> = (Vec<TreeFunction>, Vec<TreeRow<T>>, Option<Hidden<T>>);

fn function(functions: &Functions<'_>, callee: Callee) -> TreeFunction {
    let words = |text: &str| TreeFunction {
        function: text.to_owned(),
        folded: Vec::new(),
        file: None,
        module: None,
        keeps_arguments: false,
    };
    match callee {
        Callee::Function(id) => {
            let (file, module) = (functions.file(id), functions.module(id));
            let (function, folded) = (functions.name(id), functions.folded(id));
            TreeFunction { keeps_arguments: reads_like_another(&function, &folded), function, folded, file, module }
        }
        Callee::Missing => words("(outer frames are missing)"),
        Callee::Unknown | Callee::Program => words("(no stack is known)"),
    }
}

#[cfg(test)]
mod tests;
