//! Calls as boxes: what a flame graph draws.

use std::cmp::Reverse;

use mallow_profile::Profile;
use rustc_hash::FxHashMap;

use super::calls::{Call, CallId, Callee, Calls};
use super::changes::{Amount, Both, Source, difference, of_one};
use super::functions::Functions;
use super::interest::{Interest, interest};
use super::numbers::{Ending, Least, Measure, Totals};

/// What to draw.
#[derive(Clone, Copy, Debug)]
pub struct FlameOptions {
    /// Boxes are as wide as this says.
    pub by: Measure,
    /// From the functions that allocate to their callers, and not from `main` to the functions called.
    pub callers: bool,
    /// Every function of each stack is a box.
    pub raw: bool,
    /// Boxes below one part in so many of the whole are left out.
    pub parts: u64,
    /// And those with less than this.
    pub least: Least,
}

/// Boxes. Equal functions called by the same function are one; what is folded without `raw` is what [`super::tree()`]
/// folds.
#[derive(Clone, Debug)]
pub struct Flame {
    /// The command line that was recorded.
    pub command: Vec<String>,
    /// The measure.
    pub by: Measure,
    /// It begins at the functions that allocate.
    pub callers: bool,
    /// Every function of each stack is a box.
    pub raw: bool,
    /// Sums over the recording.
    pub totals: Totals,
    /// When the peak was, milliseconds since the recording began.
    pub peak_ms: u64,
    /// How the recording ended.
    pub ending: Ending,
    /// Stacks where the measure is above 0.
    pub sites: u64,
    /// Boxes that were too small.
    pub left_out: u64,
    /// Where another profile is compared with: what that had.
    pub base: Option<FlameBase>,
    /// Functions of which calls are gone, which are no boxes, and what that had there; the largest first.
    pub gone: Vec<(String, u64)>,
    /// The least that was asked for.
    pub min: u64,
    /// The functions of the boxes.
    pub functions: Vec<FlameFunction>,
    /// The modules of all functions that allocate, and of those of the boxes; the largest first.
    pub modules: Vec<FlameModule>,
    /// Each box after the one that it stands on; siblings side by side, the largest first. The first one is the whole.
    pub boxes: Vec<FlameBox>,
}

/// The profile that a graph is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlameBase {
    /// All of it, by the measure.
    pub before: u64,
    /// How much more there is now.
    pub change: i64,
}

/// One function of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlameFunction {
    /// What it stands for.
    pub label: Label,
    /// Demangled name, or `module+0xoffset`; empty for what is no function.
    pub name: String,
    /// Source file.
    pub file: Option<String>,
    /// Index in [`Flame::modules`].
    pub module: Option<usize>,
    /// It only passes the request on, and other reports look past it.
    pub looked_past: bool,
}

/// What a box stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Label {
    /// Everything.
    Whole,
    /// A function.
    Function,
    /// The outer frames of a stack that was cut.
    MissingFrames,
    /// Allocations without a stack.
    NoStack,
}

/// One module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlameModule {
    /// Path of the ELF file; None for generated code.
    pub path: Option<String>,
    /// It belongs to the language, not to the program.
    pub runtime: bool,
    /// What its functions allocated themselves.
    pub value: u64,
}

/// A box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlameBox {
    /// The one that it stands on: its caller, or with `callers` its callee. The whole has none.
    pub parent: Option<usize>,
    /// How many boxes are below it.
    pub depth: usize,
    /// How much of the measure stands to its left.
    pub start: u64,
    /// How wide it is.
    pub value: u64,
    /// What of this stands on no other box: what the function allocated itself.
    pub own: u64,
    /// How much there was before; 0 where nothing is compared.
    pub before: u64,
    /// How what stands on no other box has changed: own, and calls that are no boxes. Adds up to all that changed.
    pub change: i64,
    /// Of this, what calls had that are gone.
    pub gone: u64,
    /// Index in [`Flame::functions`].
    pub function: usize,
    /// The compiler put it into its caller.
    pub inlined: bool,
    /// Its calls of itself are folded into it.
    pub recursive: bool,
}

/// The graph. Costs a step for each frame that stacks do not share; with `callers`, one for each frame of each stack.
pub fn flame(profile: &Profile, options: FlameOptions) -> Flame {
    of_one(profile, |source| drawn(source, options))
}

/// The graph of the second profile, with what changed since the first.
pub fn flame_changes(both: &Both, options: FlameOptions) -> Flame {
    let mut flame = both.view(|source| drawn(source, options));
    let [before, after] = both.totals.values(options.by);
    let change = difference(before, after);
    let in_boxes = flame.boxes.iter().fold(0i64, |sum, node| sum.saturating_add(node.change));
    // What no stack has, the whole has.
    flame.boxes[0].change = flame.boxes[0].change.saturating_add(change.saturating_sub(in_boxes));
    flame.base = Some(FlameBase { before, change });
    flame
}

fn drawn<A: Amount>(source: Source<'_, A>, options: FlameOptions) -> Flame {
    let profile = source.profile;
    let functions = Functions::new(profile);
    let by = options.by;
    let calls = Calls::new(source, &functions, options.raw, by);
    let mut sites = 0;
    (source.sites)(&mut |_, amount| sites += u64::from(amount.values(by)[1] > 0));
    let tree = if options.callers { callers(&calls, by) } else { callees(&calls, by) };
    let mut flame = Flame {
        command: profile.command.clone(),
        by,
        callers: options.callers,
        raw: options.raw,
        totals: profile.totals.into(),
        base: None,
        peak_ms: profile.peak_ms,
        ending: Ending::of(profile),
        sites,
        gone: Vec::new(),
        left_out: 0,
        min: options.least.of(by.of(&profile.totals.into())),
        functions: Vec::new(),
        modules: Vec::new(),
        boxes: Vec::new(),
    };
    let mut layout = Layout {
        functions: &functions,
        tree: &tree,
        known: FxHashMap::default(),
        modules: FxHashMap::default(),
        flame: &mut flame,
    };
    layout.lay_out(options.parts);
    for (_, call) in calls.iter() {
        layout.allocated(call.callee, call.own.values(by)[1]);
    }
    layout.sort_modules();
    flame
}

#[derive(Clone, Copy)]
/// A box before it has a place. Its number is above that of the one that it stands on.
struct Node {
    parent: u32,
    callee: Callee,
    inlined: bool,
    recursive: bool,
    value: u64,
    own: u64,
    /// The same, of the profile that is compared with.
    before: u64,
    own_before: u64,
}

fn callees<A: Amount>(calls: &Calls<A>, by: Measure) -> Vec<Node> {
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

fn callers<A: Amount>(calls: &Calls<A>, by: Measure) -> Vec<Node> {
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
        let (mut at, mut way) = (0, id);
        while way != CallId::ROOT {
            let call = calls.get(way);
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
            way = call.caller;
        }
        add(&mut nodes[at as usize].own, value);
        add(&mut nodes[at as usize].own_before, before);
    }
    nodes
}

struct Layout<'a> {
    functions: &'a Functions<'a>,
    tree: &'a [Node],
    /// Indices in the report.
    known: FxHashMap<Callee, usize>,
    modules: FxHashMap<Option<String>, usize>,
    flame: &'a mut Flame,
}

impl Layout<'_> {
    fn lay_out(&mut self, parts: u64) {
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

    /// Of each node, how what stands on no other box has changed, and what calls had that are gone: a call that is no box
    /// belongs to the one that it would stand on.
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
        let none = FlameFunction { label, name: String::new(), file: None, module: None, looked_past: false };
        let function = match callee {
            Callee::Function(id) => {
                let (name, file, path) = (self.functions.name(id), self.functions.file(id), self.functions.module(id));
                let looked_past = interest(Some(&name), file.as_deref(), path.as_deref()) != Interest::Own;
                FlameFunction { name, file, module: Some(self.module(path)), looked_past, ..none }
            }
            Callee::Program | Callee::Missing | Callee::Unknown => none,
        };
        self.flame.functions.push(function);
        let index = self.flame.functions.len() - 1;
        self.known.insert(callee, index);
        index
    }

    /// Two files at one path (one was rebuilt meanwhile) are one to people.
    fn module(&mut self, path: Option<String>) -> usize {
        *self.modules.entry(path).or_insert_with_key(|path| {
            let runtime = path.is_some() && interest(None, None, path.as_deref()) == Interest::Runtime;
            self.flame.modules.push(FlameModule { path: path.clone(), runtime, value: 0 });
            self.flame.modules.len() - 1
        })
    }

    fn allocated(&mut self, callee: Callee, value: u64) {
        if let (Callee::Function(id), 1..) = (callee, value) {
            let module = self.module(self.functions.module(id));
            let sum = &mut self.flame.modules[module].value;
            *sum = sum.saturating_add(value);
        }
    }

    fn sort_modules(&mut self) {
        let modules = &self.flame.modules;
        let mut order: Vec<usize> = (0..modules.len()).collect();
        order.sort_by_key(|&at| (Reverse(modules[at].value), modules[at].path.clone()));
        let mut place = vec![0; order.len()];
        for (to, &from) in order.iter().enumerate() {
            place[from] = to;
        }
        self.flame.modules = order.iter().map(|&at| modules[at].clone()).collect();
        for function in &mut self.flame.functions {
            function.module = function.module.map(|at| place[at]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Flame, FlameOptions, Label, flame};
    use crate::analysis::{Least, Measure};
    use crate::testing::{Builder, blocks, parser};
    use mallow_profile::{Profile, Stacks};

    const ALL: FlameOptions =
        FlameOptions { by: Measure::Allocations, callers: false, raw: false, parts: u64::MAX, least: Least::Amount(0) };

    /// Boxes, indented by their depth: name, start, width, own.
    fn shown(flame: &Flame) -> Vec<String> {
        let line = |n: &super::FlameBox| {
            let f = &flame.functions[n.function];
            let name = if f.label == Label::Function { f.name.clone() } else { format!("{:?}", f.label) };
            let mark = if n.inlined { " inlined" } else { "" };
            format!("{}{name}{mark} {}+{} {}", " ".repeat(n.depth), n.start, n.value, n.own)
        };
        flame.boxes.iter().map(line).collect()
    }

    fn small() -> Profile {
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 10);
        b.site(p, &["operator new!libstdc++.so.6", "leaf@a.c:1 | walk@a.c:9", "main"], blocks(5, 10, 0, 0));
        b.site(p, &["operator new!libstdc++.so.6", "leaf@a.c:2 | walk@a.c:10", "main"], blocks(4, 10, 0, 0));
        b.site(p, &["leaf@a.c:3", "main"], blocks(20, 10, 0, 0));
        b.site(p, &["main"], blocks(2, 10, 0, 0));
        b.site(p, &[], blocks(1, 10, 0, 0));
        b.profile
    }

    #[test]
    fn functions_stand_on_their_callers_the_largest_first() {
        let flame = flame(&small(), ALL);
        let expected = [
            "Whole 0+32 0",
            " main 0+31 2",
            "  leaf 0+20 20",
            "  walk 20+9 0",
            "   leaf inlined 20+9 9",
            " NoStack 31+1 1",
        ];
        assert_eq!(shown(&flame), expected);
        let parents: Vec<_> = flame.boxes.iter().map(|n| n.parent).collect();
        assert_eq!(parents, [None, Some(0), Some(1), Some(1), Some(3), Some(0)]);
        assert_eq!((flame.sites, flame.left_out), (5, 0));
        assert_eq!(flame.functions.iter().filter(|f| f.name == "leaf").count(), 1);
        assert!(!flame.boxes.iter().any(|n| n.recursive));
    }

    #[test]
    fn each_function_of_a_stack_is_a_box_in_a_raw_graph() {
        let raw = FlameOptions { raw: true, ..ALL };
        let graph = flame(&small(), raw);
        assert_eq!(shown(&graph)[4..6], ["   leaf inlined 20+9 0", "    operator new 20+9 9"]);
        let passed: Vec<_> = graph.functions.iter().filter(|f| f.looked_past).map(|f| f.name.as_str()).collect();
        assert_eq!(passed, ["operator new"]);
        let callers = flame(&small(), FlameOptions { callers: true, ..raw });
        assert!(shown(&callers).contains(&" operator new 20+9 0".to_owned()), "{:?}", shown(&callers));
    }

    #[test]
    fn callers_hang_from_the_function_that_allocates() {
        let expected = [
            "Whole 0+32 0",
            " leaf 0+29 0",
            "  main 0+20 20",
            "  walk 20+9 0",
            "   main 20+9 9",
            " main 29+2 2",
            " NoStack 31+1 1",
        ];
        assert_eq!(shown(&flame(&small(), FlameOptions { callers: true, ..ALL })), expected);
    }

    #[test]
    fn a_function_is_inlined_where_all_of_its_calls_are() {
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 10);
        b.site(p, &["f@a.c:1 | main@a.c:1"], blocks(3, 1, 0, 0));
        b.site(p, &["f@a.c:1", "main@a.c:2"], blocks(2, 1, 0, 0));
        b.site(p, &["g@a.c:1 | main@a.c:3"], blocks(2, 1, 0, 0));
        b.site(p, &["g@a.c:2", "g@a.c:1 | main@a.c:3"], blocks(2, 1, 0, 0));
        let graph = flame(&b.profile, ALL);
        assert_eq!(shown(&graph), ["Whole 0+9 0", " main 0+9 0", "  f 0+5 5", "  g inlined 5+4 4"]);
        assert_eq!(graph.boxes.iter().map(|n| n.recursive).collect::<Vec<_>>(), [false, false, false, false]);
        b.site(p, &["g@a.c:2", "g@a.c:2", "g@a.c:1 | main@a.c:3"], blocks(2, 1, 0, 0));
        assert!(flame(&b.profile, ALL).boxes.iter().any(|n| n.recursive && n.inlined));
    }

    #[test]
    fn what_is_too_small_is_left_out_and_counted() {
        let graph = flame(&small(), FlameOptions { parts: 4, ..ALL });
        let expected = ["Whole 0+32 0", " main 0+31 2", "  leaf 0+20 20", "  walk 20+9 0", "   leaf inlined 20+9 9"];
        assert_eq!((shown(&graph), graph.left_out), (expected.map(str::to_owned).to_vec(), 1));
        let graph = flame(&small(), FlameOptions { parts: 3, ..ALL });
        assert_eq!((graph.boxes.len(), graph.left_out), (3, 3));
        for (least, boxes) in [(Least::Amount(20), 3), (Least::Amount(9), 5), (Least::Percent(29.0), 3)] {
            assert_eq!(flame(&small(), FlameOptions { least, ..ALL }).boxes.len(), boxes, "{least:?}");
        }
    }

    #[test]
    fn modules_have_what_their_functions_allocated() {
        for callers in [false, true] {
            let flame = flame(&parser(), FlameOptions { by: Measure::Bytes, callers, ..ALL });
            let file = |path: &Option<String>| path.as_deref().unwrap_or("").rsplit('/').next().map(str::to_owned);
            let modules: Vec<_> =
                flame.modules.iter().map(|m| (file(&m.path).unwrap_or_default(), m.runtime, m.value)).collect();
            let expected = [
                ("program".to_owned(), false, 38_412_000),
                ("libplugin.so".to_owned(), false, 7_000_000),
                ("ld-linux-x86-64.so.2".to_owned(), true, 3600),
            ];
            assert_eq!(modules, expected);
            assert_eq!(flame.boxes[0].value, flame.totals.allocated_bytes);
            for (at, node) in flame.boxes.iter().enumerate() {
                let on_it = flame.boxes.iter().filter(|n| n.parent == Some(at));
                assert_eq!(on_it.map(|n| n.value).sum::<u64>() + node.own, node.value);
            }
        }
    }

    #[test]
    fn modules_of_boxes_that_were_left_out_have_their_part() {
        let flame = flame(&parser(), FlameOptions { by: Measure::Bytes, parts: 2, ..ALL });
        assert_eq!(flame.modules.iter().map(|m| m.value).sum::<u64>(), flame.totals.allocated_bytes);
    }

    #[test]
    fn stacks_that_were_cut_say_so_at_their_outer_end() {
        let mut profile = small();
        let main = profile.stacks.top(profile.sites[3].stack).expect("a frame").0;
        let stack = profile.stacks.push(Stacks::CUT_ROOT, main);
        profile.sites.truncate(1);
        (profile.sites[0].stack, profile.sites[0].counts) = (stack, blocks(50, 1, 0, 0));
        assert_eq!(shown(&flame(&profile, ALL)), ["Whole 0+50 0", " MissingFrames 0+50 0", "  main 0+50 50"]);
        let callers = FlameOptions { callers: true, ..ALL };
        assert_eq!(shown(&flame(&profile, callers)), ["Whole 0+50 0", " main 0+50 0", "  MissingFrames 0+50 50"]);
    }
}
