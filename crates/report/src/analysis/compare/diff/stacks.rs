//! The stacks of two profiles in one trie of what stays the same: two stacks are one where they are one node.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use mallow_profile::{Counts, Frame, FrameId, Module, ModuleId, Profile, StackId, Stacks};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};

use super::normalise::{Rule, Rules, function};
use crate::analysis::numbers::Measure;
use crate::analysis::stacks::by_stack::by_stack;
use crate::analysis::stacks::function_kind::FunctionKind;
use crate::analysis::stacks::functions::{FunctionId, Functions, Step};

/// A function by what of its name is the same in both profiles. Numbers follow the order of these texts, not that of a
/// file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Token(pub u32);

/// Index of a node of the trie of both profiles' stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeId(pub u32);

/// Index of the first profile wherever something is indexed by side.
pub(crate) const BEFORE: usize = 0;
/// Index of the second profile wherever something is indexed by side.
pub(crate) const AFTER: usize = 1;

struct Side<'a> {
    profile: &'a Profile,
    functions: Functions<'a>,
    /// By frame, the token of each of its functions, the innermost first; None where nothing of a function is the same
    /// in another build.
    tokens: Vec<Box<[Option<Token>]>>,
    /// By frame, whether both profiles have its code: the same build of its file, or a script of the same path.
    shared: Vec<bool>,
}

/// Stacks of both profiles with the same functions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub node: NodeId,
    /// Sums of these stacks, by side.
    pub counts: [Counts; 2],
    /// By side, the stack with the largest change; None where it has no such stack.
    pub stacks: [Option<StackId>; 2],
}

pub(crate) struct Joint<'a> {
    sides: [Side<'a>; 2],
    texts: Vec<String>,
    /// By token, whether the function is one of the program's own.
    own: Vec<bool>,
    /// By token, whether both profiles have the code of all of its frames.
    settled: Vec<bool>,
    /// By token, whether all of its frames are in files, which list their functions.
    listed: Vec<bool>,
    /// Pairs of functions that share one code, the smaller token first.
    folded: FxHashSet<(Token, Token)>,
    /// By node, its caller and its function; the two roots are their own callers.
    nodes: Vec<(NodeId, Token)>,
    /// By side and stack, its node.
    places: [Vec<NodeId>; 2],
}

const NO_TOKEN: Token = Token(u32::MAX);
const ROOT: NodeId = NodeId(0);
const CUT_ROOT: NodeId = NodeId(1);

impl<'a> Joint<'a> {
    /// Costs a step for each frame that stacks do not share.
    pub fn new(profiles: [&'a Profile; 2], rules: Rules) -> Self {
        let functions = profiles.map(Functions::new);
        let builds = profiles.map(builds);
        let shared = [BEFORE, AFTER].map(|side| {
            // A build may be installed under another name.
            let ids: FxHashSet<&[u8]> = builds[1 - side].iter().map(|(_, id)| *id).collect();
            let is_shared = |module: &Module| ids.contains(&module.build_id[..]);
            let modules = profiles[side].modules.iter().map(is_shared).collect::<Vec<bool>>();
            let scripts = scripts(profiles[1 - side]);
            let is_shared = |frame: &Frame| match frame.module {
                Some(ModuleId(at)) => modules.get(at as usize) == Some(&true),
                None => script(profiles[side], frame).is_some_and(|file| scripts.contains(file)),
            };
            profiles[side].frames.iter().map(is_shared).collect::<Vec<bool>>()
        });
        let text = |side: usize, step: &Step| text(profiles[side], &functions[side], step, &builds[1 - side], rules);
        // Functions are many times as many as texts where lines are kept apart.
        let mut known: FxHashMap<String, u32> = FxHashMap::default();
        let mut own: Vec<bool> = Vec::new();
        let mut folded: Vec<(u32, String)> = Vec::new();
        let mut tokens: [Vec<Box<[Option<Token>]>>; 2] = Default::default();
        for side in [BEFORE, AFTER] {
            let mut of_function: FxHashMap<(FunctionId, bool, u32), Option<u32>> = FxHashMap::default();
            for frame in 0..profiles[side].frames.len() {
                let steps = functions[side].steps_of(FrameId(frame as u32));
                let of_step = steps.iter().map(|step| {
                    let line = if rules.has(Rule::Lines) { 0 } else { step.line };
                    let inlined = !rules.has(Rule::Inlining) && step.inlined;
                    let token = *of_function.entry((step.function, inlined, line)).or_insert_with(|| {
                        let next = known.len() as u32;
                        let token = *known.entry(text(side, step)?).or_insert(next);
                        own.resize(own.len().max(token as usize + 1), false);
                        own[token as usize] |= step.kind == FunctionKind::Own;
                        let others = functions[side].folded(step.function);
                        let others = others.iter().filter_map(|name| Some(function(name, rules)?.into_owned()));
                        folded.extend(others.map(|name| (token, name)));
                        Some(token)
                    });
                    token.map(Token)
                });
                tokens[side].push(of_step.collect());
            }
        }
        // Numbers in the order of the texts.
        let mut texts: Vec<(String, u32)> = known.into_iter().collect();
        texts.sort_unstable();
        let mut number = vec![0u32; texts.len()];
        for (new, (_, old)) in texts.iter().enumerate() {
            number[*old as usize] = new as u32;
        }
        for token in tokens.iter_mut().flatten().flat_map(|frame| frame.iter_mut()).flatten() {
            *token = Token(number[token.0 as usize]);
        }
        let own = texts.iter().map(|(_, old)| own[*old as usize]).collect();
        let (mut settled, mut listed) = (vec![true; texts.len()], vec![true; texts.len()]);
        for side in [BEFORE, AFTER] {
            for ((frame, of_frame), shared) in profiles[side].frames.iter().zip(&tokens[side]).zip(&shared[side]) {
                for token in of_frame.iter().flatten() {
                    settled[token.0 as usize] &= shared;
                    listed[token.0 as usize] &= frame.module.is_some();
                }
            }
        }
        let pair = |(token, other): &(u32, String)| {
            let other = texts.binary_search_by(|(text, _)| text.cmp(other)).ok()?;
            let (one, other) = (Token(number[*token as usize]), Token(other as u32));
            Some((one.min(other), one.max(other)))
        };
        let folded = folded.iter().filter_map(pair).collect();
        let [before, after] = functions;
        let [tokens_before, tokens_after] = tokens;
        let [shared_before, shared_after] = shared;
        let mut joint = Self {
            sides: [
                Side { profile: profiles[BEFORE], functions: before, tokens: tokens_before, shared: shared_before },
                Side { profile: profiles[AFTER], functions: after, tokens: tokens_after, shared: shared_after },
            ],
            texts: texts.into_iter().map(|(text, _)| text).collect(),
            own,
            settled,
            listed,
            folded,
            nodes: vec![(ROOT, NO_TOKEN), (CUT_ROOT, NO_TOKEN)],
            places: Default::default(),
        };
        joint.grow();
        joint
    }

    fn grow(&mut self) {
        let mut children: FxHashMap<(NodeId, Token), NodeId> = FxHashMap::default();
        for side in [BEFORE, AFTER] {
            let Side { profile, tokens, .. } = &self.sides[side];
            let mut places: Vec<NodeId> = Vec::with_capacity(profile.stacks.len());
            // Callers have lower numbers than what they call.
            for at in 0..profile.stacks.len() {
                let id = StackId(at as u32);
                let place = match profile.stacks.top(id) {
                    None if id == Stacks::CUT_ROOT => CUT_ROOT,
                    None => ROOT,
                    Some((frame, caller)) => {
                        let caller = places.get(caller.0 as usize).copied().unwrap_or(ROOT);
                        let tokens = tokens.get(frame.0 as usize).map_or(&[][..], |tokens| tokens);
                        tokens.iter().rev().flatten().fold(caller, |node, &token| {
                            *children.entry((node, token)).or_insert_with(|| {
                                self.nodes.push((node, token));
                                NodeId(self.nodes.len() as u32 - 1)
                            })
                        })
                    }
                };
                places.push(place);
            }
            self.places[side] = places;
        }
    }

    /// The order means nothing; see [`Joint::sort`].
    pub fn groups(&self, by: Measure) -> Vec<Group> {
        let mut index: FxHashMap<NodeId, usize> = FxHashMap::default();
        let mut groups: Vec<Group> = Vec::new();
        let mut members: Vec<(usize, usize, StackId, u64)> = Vec::new();
        for side in [BEFORE, AFTER] {
            for (stack, counts) in by_stack(self.sides[side].profile) {
                let node = self.node(side, stack);
                let at = *index.entry(node).or_insert_with(|| {
                    groups.push(Group { node, counts: Default::default(), stacks: [None, None] });
                    groups.len() - 1
                });
                groups[at].counts[side] += counts;
                members.push((at, side, stack, by.of(&counts.into())));
            }
        }
        members.sort_unstable_by_key(|&(group, ..)| group);
        for of_group in members.chunk_by(|a, b| a.0 == b.0) {
            let group = &mut groups[of_group[0].0];
            for side in [BEFORE, AFTER] {
                group.stacks[side] = self.largest(side, of_group);
            }
        }
        groups
    }

    /// The stack of a group that changed most; the largest where all lines moved. None without a stack of this side.
    /// Stacks of a group differ by their lines alone.
    fn largest(&self, side: usize, members: &[(usize, usize, StackId, u64)]) -> Option<StackId> {
        let mut own = members.iter().filter(|member| member.1 == side);
        let &(_, _, first, _) = own.next()?;
        if own.next().is_none() {
            return Some(first);
        }
        let mut others: FxHashMap<Vec<u32>, u64> = FxHashMap::default();
        for &(_, _, stack, value) in members.iter().filter(|member| member.1 != side) {
            *others.entry(self.lines(1 - side, stack)).or_default() += value;
        }
        let own = members.iter().filter(|member| member.1 == side).map(|&(_, _, stack, value)| {
            let lines = self.lines(side, stack);
            let change = value.abs_diff(others.get(&lines).copied().unwrap_or(0));
            (change, value, std::cmp::Reverse(lines), stack)
        });
        own.max_by(|a, b| (a.0, a.1, &a.2).cmp(&(b.0, b.1, &b.2))).map(|(.., stack)| stack)
    }

    /// The lines of a stack, the innermost first, at most `FAR`; 0 where one is not known.
    pub fn lines(&self, side: usize, stack: StackId) -> Vec<u32> {
        self.each_line(side, stack).collect()
    }

    /// Whether no line of the stack is known.
    pub fn is_unlined(&self, side: usize, stack: StackId) -> bool {
        self.each_line(side, stack).all(|line| line == 0)
    }

    fn each_line(&self, side: usize, stack: StackId) -> impl Iterator<Item = u32> + '_ {
        /// Further out, no line tells two stacks apart.
        const FAR: usize = 256;
        self.sides[side].functions.steps(stack).take(FAR).map(|step| step.line)
    }

    pub fn node(&self, side: usize, stack: StackId) -> NodeId {
        self.places[side].get(stack.0 as usize).copied().unwrap_or(ROOT)
    }

    /// The functions of a node, the innermost first.
    pub fn tokens(&self, node: NodeId) -> impl Iterator<Item = Token> + '_ {
        let mut at = node;
        std::iter::from_fn(move || {
            let &(caller, token) = self.nodes.get(at.0 as usize)?;
            (token != NO_TOKEN).then(|| {
                at = caller;
                token
            })
        })
    }

    /// Puts stacks into an order that is the same whatever the order of the files. Their functions are written side by
    /// side for it: stacks of an interpreter have many in common, and each would be a step through the trie.
    pub fn sort(&self, groups: &mut Vec<Group>) {
        let (mut tokens, mut ranges) = (Vec::new(), Vec::with_capacity(groups.len()));
        for group in groups.iter() {
            let begin = tokens.len();
            tokens.extend(self.tokens(group.node));
            ranges.push(begin..tokens.len());
        }
        let functions = |at: usize| &tokens[ranges[at].clone()];
        let mut order: Vec<usize> = (0..groups.len()).collect();
        order.sort_unstable_by(|&a, &b| {
            let roots = || self.root(groups[a].node).cmp(&self.root(groups[b].node));
            functions(a).cmp(functions(b)).then_with(roots)
        });
        let mut unsorted: Vec<Option<Group>> = std::mem::take(groups).into_iter().map(Some).collect();
        groups.extend(order.into_iter().filter_map(|at| unsorted[at].take()));
    }

    fn root(&self, node: NodeId) -> NodeId {
        let callers = std::iter::successors(Some(node), |&at| self.nodes.get(at.0 as usize).map(|node| node.0));
        // A root is its own caller.
        callers.take(self.nodes.len()).find(|&at| at == ROOT || at == CUT_ROOT).unwrap_or(ROOT)
    }

    pub fn text(&self, token: Token) -> &str {
        self.texts.get(token.0 as usize).map_or("", String::as_str)
    }

    pub fn is_own(&self, token: Token) -> bool {
        self.own.get(token.0 as usize).copied().unwrap_or(false)
    }

    /// Whether a function with this text, as [`Joint::text`] returns it, is one of the program's own; false for an
    /// unknown one.
    pub fn is_own_text(&self, text: &str) -> bool {
        self.texts.binary_search_by(|one| one.as_str().cmp(text)).is_ok_and(|at| self.own[at])
    }

    /// Whether these may be one function with two names. Two of the C library's are two: its names are an interface.
    pub fn may_be_renamed(&self, before: Token, after: Token) -> bool {
        let of_c = |token| !self.is_own(token) && !self.text(token).contains([':', '.', ' ', '<']);
        !(of_c(before) && of_c(after))
    }

    /// Whether both names have the same code in a build: which of them is shown is chance.
    pub fn are_one_code(&self, one: Token, other: Token) -> bool {
        self.folded.contains(&(one.min(other), one.max(other)))
    }

    /// The number of functions; tokens are below it.
    pub fn functions(&self) -> usize {
        self.texts.len()
    }

    /// A side's functions of a stack, the innermost first, each with what stays the same of it.
    pub fn steps(&self, side: usize, stack: StackId) -> impl Iterator<Item = (&Step, Option<Token>)> {
        let Side { functions, tokens, .. } = &self.sides[side];
        functions.frames(stack).flat_map(move |(frame, steps)| {
            let tokens = tokens.get(frame.0 as usize).map_or(&[][..], |tokens| tokens);
            steps.iter().zip(tokens.iter().copied())
        })
    }

    /// By function, its first step among the frames of a side.
    pub fn first_steps(&self, side: usize) -> FxHashMap<Token, Step> {
        let Side { functions, tokens, .. } = &self.sides[side];
        let mut first: FxHashMap<Token, Step> = FxHashMap::default();
        for (frame, tokens) in tokens.iter().enumerate() {
            let steps = functions.steps_of(FrameId(frame as u32)).iter().zip(tokens.iter());
            steps.for_each(|(step, token)| {
                token.map(|token| first.entry(token).or_insert(*step));
            });
        }
        first
    }

    /// The functions of all frames of a side.
    pub fn all_steps(&self, side: usize) -> impl Iterator<Item = &Step> {
        let Side { functions, tokens, .. } = &self.sides[side];
        (0..tokens.len()).flat_map(|frame| functions.steps_of(FrameId(frame as u32)))
    }

    pub fn functions_of(&self, side: usize) -> &Functions<'a> {
        &self.sides[side].functions
    }

    /// The source files of a side's functions of the program's own, as far as they are known.
    pub fn files(&self, side: usize) -> BTreeMap<Token, BTreeSet<&str>> {
        let Side { profile, functions, tokens, .. } = &self.sides[side];
        let mut files: BTreeMap<Token, BTreeSet<&str>> = BTreeMap::new();
        for (frame, tokens) in tokens.iter().enumerate() {
            let steps = functions.steps_of(FrameId(frame as u32)).iter().zip(tokens.iter());
            for (step, token) in steps.filter(|(step, _)| step.kind == FunctionKind::Own) {
                if let (Some(token), Some(file)) = (token, step.file()) {
                    files.entry(*token).or_default().insert(profile.strings.get(file));
                }
            }
        }
        files
    }

    /// Whether both profiles have this function's code: the same build of its file, or a script of the same path. Then
    /// it has no other name, and was not inlined.
    pub fn is_settled(&self, token: Token) -> bool {
        self.settled.get(token.0 as usize).copied().unwrap_or(false)
    }

    /// Whether the files of the programs list the function; those of scripts are in no such file.
    pub fn is_listed(&self, token: Token) -> bool {
        self.listed.get(token.0 as usize).copied().unwrap_or(false)
    }

    /// On a stack with frames of scripts, the function that reports name it by; None on other stacks.
    pub fn requesting_of_script(&self, side: usize, stack: StackId) -> Option<Token> {
        let functions = &self.sides[side].functions;
        if !functions.steps(stack).any(|step| functions.is_script(step)) {
            return None;
        }
        self.steps(side, stack).find(|(step, _)| step.kind == FunctionKind::Own)?.1
    }

    /// A number that the files of a stack's scripts have in common in both profiles.
    pub fn script_files(&self, side: usize, stack: StackId) -> u64 {
        let Side { profile, .. } = &self.sides[side];
        let frames = profile.stacks.frames(stack).filter_map(|frame| profile.frames.get(frame.0 as usize));
        let mut hasher = FxHasher::default();
        frames.filter_map(|frame| script(profile, frame)).for_each(|file| file.hash(&mut hasher));
        hasher.finish()
    }

    /// Whether both profiles have the code of each frame: then no function of the stack has another name on the other
    /// side.
    pub fn is_of_one_build(&self, side: usize, stack: StackId) -> bool {
        let Side { profile, shared, .. } = &self.sides[side];
        let is_shared = |frame: FrameId| shared.get(frame.0 as usize) == Some(&true);
        !self.is_cut(side, stack) && profile.stacks.frames(stack).all(is_shared)
    }

    /// Functions of a side's frames whose code both profiles have.
    pub fn shared_functions(&self, side: usize) -> impl Iterator<Item = Token> + '_ {
        let Side { tokens, shared, .. } = &self.sides[side];
        let frames = tokens.iter().zip(shared).filter(|(_, shared)| **shared);
        frames.flat_map(|(tokens, _)| tokens.iter().flatten().copied())
    }

    /// Whether the outermost frames of a stack are missing.
    pub fn is_cut(&self, side: usize, stack: StackId) -> bool {
        self.sides[side].profile.stacks.is_cut(stack)
    }
}

/// The paths of a profile's scripts.
fn scripts(profile: &Profile) -> FxHashSet<&str> {
    profile.frames.iter().filter_map(|frame| script(profile, frame)).collect()
}

/// The path of the script that a frame is a function of. None for code in a file, and for a function that is named by
/// its line: that is another one where a line above it was inserted.
fn script<'p>(profile: &'p Profile, frame: &Frame) -> Option<&'p str> {
    let line = frame.lines.first().filter(|_| frame.module.is_none())?;
    let is_anonymous = profile.strings.get(line.function).starts_with("(anonymous");
    line.file.filter(|_| !is_anonymous).map(|file| profile.strings.get(file))
}

/// The files that a profile knows by their builds.
fn builds(profile: &Profile) -> FxHashSet<(&str, &[u8])> {
    let modules = profile.modules.iter().filter(|module| !module.build_id.is_empty());
    modules.map(|module| (file_name(&module.path), &module.build_id[..])).collect()
}

pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// What of a function is the same in both profiles; None for nothing. An address is the same where both have the same
/// build of its file.
fn text(
    profile: &Profile,
    functions: &Functions,
    step: &Step,
    builds: &FxHashSet<(&str, &[u8])>,
    rules: Rules,
) -> Option<String> {
    let mut text = match functions.known_name(step.function) {
        Some(name) => function(name, rules)?.into_owned(),
        None => {
            let module = step.module.and_then(|ModuleId(module)| profile.modules.get(module as usize));
            let same = module.is_some_and(|m| builds.contains(&(file_name(&m.path), &m.build_id[..])));
            match module {
                _ if same || !rules.has(Rule::Addresses) => functions.name(step.function),
                // Without the version.
                Some(module) => {
                    let name = file_name(&module.path);
                    name.find(".so").map_or(name, |at| &name[..at + 3]).to_owned()
                }
                None => "??".to_owned(),
            }
        }
    };
    let file = (!rules.has(Rule::Files)).then(|| functions.file(step.function)).flatten();
    match (file, rules.has(Rule::Lines)) {
        (Some(file), true) => text += &format!(" ({file})"),
        (Some(file), false) => text += &format!(" ({file}:{})", step.line),
        (None, false) if step.line > 0 => text += &format!(" (:{})", step.line),
        (None, _) => {}
    }
    if !rules.has(Rule::Inlining) && step.inlined {
        text += " [inlined]";
    }
    Some(text)
}
