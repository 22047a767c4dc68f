//! Functions of the program's own that are in another file.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::report::Why;
use super::stacks::{AFTER, BEFORE, Group, Joint, Token};

pub(super) struct Moved {
    functions: FxHashMap<Token, Why>,
    /// By side, names of files that the other side lacks.
    one_sided: [BTreeSet<String>; 2],
    /// Names of files, before and after, that have most of their functions in common.
    alike: BTreeSet<(String, String)>,
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
        Self { functions, one_sided: [alone(BEFORE), alone(AFTER)], alike: alike(joint, &files) }
    }

    /// Whether a file has another name now: the old one is there no more, the new one was not there, and it has most of
    /// the old one's functions.
    pub fn is_file(&self, from: &str, to: &str) -> bool {
        self.one_sided[BEFORE].contains(from)
            && self.one_sided[AFTER].contains(to)
            && self.alike.contains(&(from.to_owned(), to.to_owned()))
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

/// Pairs of files of which each has more than half of its functions in common with the other. Each program has a
/// `main`: that one does not count.
fn alike(joint: &Joint, files: &[BTreeMap<Token, BTreeSet<&str>>; 2]) -> BTreeSet<(String, String)> {
    let mut own: [BTreeMap<&str, usize>; 2] = Default::default();
    let mut common: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let name = |side: usize, token: &Token| Some(one(files[side].get(token)?)?.1);
    for (side, own) in own.iter_mut().enumerate() {
        for token in files[side].keys().filter(|token| joint.text(**token) != "main") {
            let Some(here) = name(side, token) else { continue };
            *own.entry(here).or_default() += 1;
            if let Some(after) = name(AFTER, token).filter(|_| side == BEFORE) {
                *common.entry((here, after)).or_default() += 1;
            }
        }
    }
    let most = |((from, to), shared): &((&str, &str), usize)| {
        let all = [own[BEFORE].get(from), own[AFTER].get(to)];
        all.into_iter().flatten().all(|all| shared * 2 > *all)
    };
    let pairs = common.into_iter().filter(most);
    pairs.map(|((from, to), _)| (from.to_owned(), to.to_owned())).collect()
}

/// Directory and name of the only file; None if there are several.
fn one<'f>(files: &BTreeSet<&'f str>) -> Option<(&'f str, &'f str)> {
    if files.len() == 1 { files.first().map(|file| split(file)) } else { None }
}

/// The directory with its slash, and the name.
fn split(path: &str) -> (&str, &str) {
    path.split_at(path.rfind('/').map_or(0, |at| at + 1))
}

#[cfg(test)]
mod tests {
    use mallow_profile::{Counts, Profile};

    use crate::analysis::Measure;
    use crate::analysis::compare::diff::{DiffOptions, Rules, diff};
    use crate::testing::{Builder, blocks};

    fn built(sites: &[(&[&str], Counts)]) -> Profile {
        let mut made = Builder::default();
        let process = made.process(1, &["a"], 10);
        sites.iter().for_each(|(stack, counts)| {
            made.site(process, stack, *counts);
        });
        made.profile
    }

    /// Each program has a `main`, and many have an `init`.
    #[test]
    fn files_of_two_programs_are_not_one_with_another_name() {
        let sites = |file: &str, others: &[&str]| -> Profile {
            let of = |name: &str| format!("{name}@{file}:7");
            let names = others.iter().chain(&["init"]).map(|name| [of(name), of("main")]);
            let stacks: Vec<[String; 2]> = names.collect();
            let stacks: Vec<[&str; 2]> = stacks.iter().map(|[name, main]| [&name[..], &main[..]]).collect();
            built(&stacks.iter().map(|stack| (&stack[..], blocks(5, 8, 0, 0))).collect::<Vec<(&[&str], Counts)>>())
        };
        let options = DiffOptions {
            by: Measure::Allocations,
            rules: Rules::ALL,
            min: 0,
            limit: usize::MAX,
            any_measure: true,
            places: usize::MAX,
        };
        let renamed = |before: &[&str], after: &[&str]| {
            let report = diff(&sites("server.c", before), &sites("game.c", after), options);
            report.renamed.iter().any(|one| one.file)
        };
        assert!(!renamed(&["serve"], &["play"]));
        assert!(!renamed(&["serve", "accept"], &["play", "draw"]));
        assert!(renamed(&["serve"], &["serve"]));
        assert!(renamed(&["serve", "accept"], &["serve", "play"]));
    }
}
