//! Functions of the program's own that are in another file.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::report::Why;
use super::stacks::{AFTER, BEFORE, Group, Joint, Token};

pub(super) struct Moved {
    functions: FxHashMap<Token, Why>,
    /// By side, names of files that the other side lacks.
    one_sided: [BTreeSet<String>; 2],
}

impl Moved {
    /// Goes by the names of files. Where only the directory is another, a function counts as moved unless most
    /// functions of its directory went the same way: builds have directories of their own.
    pub fn of(joint: &Joint) -> Self {
        let files = [BEFORE, AFTER].map(|side| joint.files(side));
        let mut targets: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
        let functions = || files[BEFORE].iter().filter_map(|(token, was)| Some((token, was, files[AFTER].get(token)?)));
        for (_, was, is) in functions() {
            if let (Some((from, was)), Some((to, is))) = (one(was), one(is))
                && was == is
            {
                *targets.entry(from).or_default().entry(to).or_default() += 1;
            }
        }
        let usual = |from: &str| {
            let to = targets.get(from)?.iter().max_by_key(|(to, functions)| (**functions, std::cmp::Reverse(**to)))?;
            Some(*to.0)
        };
        let moved = functions().filter_map(|(token, was, is)| {
            let ((from, was), (to, is)) = (one(was)?, one(is)?);
            let elsewhere = was == is && usual(from).is_some_and(|usual| usual != to);
            let path =
                |directory: &str, name: &str| if elsewhere { format!("{directory}{name}") } else { name.to_owned() };
            (was != is || elsewhere).then(|| {
                let function = joint.text(*token).to_owned();
                (*token, Why::Moved { function, from: path(from, was), to: path(to, is) })
            })
        });
        let functions = moved.collect();
        let names = [BEFORE, AFTER]
            .map(|side| files[side].values().flatten().map(|file| split(file).1).collect::<BTreeSet<&str>>());
        let alone = |side: usize| names[side].difference(&names[1 - side]).map(|name| (*name).to_owned()).collect();
        Self { functions, one_sided: [alone(BEFORE), alone(AFTER)] }
    }

    /// Whether a file has another name now: the old one is there no more, and the new one was not there.
    pub fn is_file(&self, from: &str, to: &str) -> bool {
        self.one_sided[BEFORE].contains(from) && self.one_sided[AFTER].contains(to)
    }

    /// The moves of the functions of a group's stacks, each once.
    pub fn why(&self, joint: &Joint, group: &Group) -> Vec<Why> {
        if self.functions.is_empty() {
            return Vec::new();
        }
        let mut why: Vec<Why> =
            joint.tokens(group.node).filter_map(|token| self.functions.get(&token).cloned()).collect();
        // Recursion names each function once.
        let mut seen = BTreeSet::new();
        why.retain(|why| seen.insert(why.clone()));
        why
    }
}

/// Directory and name of the only file; None if there are several.
fn one<'f>(files: &BTreeSet<&'f str>) -> Option<(&'f str, &'f str)> {
    if files.len() == 1 { files.first().map(|file| split(file)) } else { None }
}

/// The directory with its slash, and the name.
fn split(path: &str) -> (&str, &str) {
    path.split_at(path.rfind('/').map_or(0, |at| at + 1))
}
