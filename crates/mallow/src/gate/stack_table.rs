//! Stacks as a baseline keeps them: a table of frames, and a line for each stack.
//!
//! ```json
//! "frames": [ "main main (main.c:8)", "read_row read_row (parser.c:12)", "write write (out.c:3)" ],
//! "stacks": [ "75000 4138000 0 main read_row", "10 80 1 write" ],
//! "rest": { "stacks": 120, "allocations": 150, … }
//! ```
//!
//! A frame is a short name, and what it stands for. A stack is its allocations, their requested bytes, how many
//! outermost frames it has in common with the line before, and the short names of the others, the outermost first. Both
//! are sorted and short names come from functions' names, so that a change of one stack is a change of one line or two.

use std::collections::{BTreeMap, HashMap, HashSet};

use mallow_report::analysis::gate::{Rest, SiteCount, name_of};

/// Bytes of a case in the file, its stacks and frames together. Hundreds of stacks, and still something to review.
const MOST_BYTES: usize = 64 << 10;
/// Bytes of a line beside what it says: indentation, quotes, a comma and the end.
const LINE: usize = 16;
/// A short name has so many bytes at the most, before what tells it apart.
const SHORT: usize = 16;

/// The stacks of a case in the file.
#[derive(Debug, Default, PartialEq)]
pub struct StackTable {
    pub frames: Vec<String>,
    pub stacks: Vec<String>,
}

/// The stacks that explain the most, as many as there is room for, and the sum of the others.
pub fn keep(mut sites: Vec<SiteCount>) -> (Vec<SiteCount>, Rest) {
    let sum = |of: fn(&SiteCount) -> u64| sites.iter().map(|site| of(site) as f64).sum::<f64>().max(1.0);
    let (allocations, bytes) = (sum(|site| site.allocations), sum(|site| site.allocated_bytes));
    let share = |site: &SiteCount| {
        let (of_allocations, of_bytes) = (site.allocations as f64 / allocations, site.allocated_bytes as f64 / bytes);
        of_allocations.max(of_bytes)
    };
    sites.sort_by(|a, b| share(b).total_cmp(&share(a)).then_with(|| a.stack.cmp(&b.stack)));
    let mut room = Room::default();
    let mut rest = Rest::default();
    let kept: Vec<SiteCount> = sites
        .into_iter()
        .filter(|site| {
            // Once one is summed up, all smaller ones are: size alone decides what is in the sum.
            let keep = rest.is_none() && room.take(site);
            if !keep {
                rest.add(site);
            }
            keep
        })
        .collect();
    fit(kept, rest)
}

/// Gives up the smallest until the table is as small as it must be: many functions of one name need longer short names.
fn fit(mut kept: Vec<SiteCount>, mut rest: Rest) -> (Vec<SiteCount>, Rest) {
    while StackTable::of(&kept).bytes() > MOST_BYTES {
        let most = kept.len() - kept.len() / 8 - 1;
        kept.drain(most..).for_each(|site| rest.add(&site));
    }
    (kept, rest)
}

/// Approximate room of stacks in the file.
#[derive(Default)]
struct Room {
    used: usize,
    frames: HashSet<String>,
    /// Nodes by caller and frame: what stacks have in common is there once.
    nodes: HashMap<(usize, String), usize>,
}

impl Room {
    /// True where there is room for one more.
    fn take(&mut self, site: &SiteCount) -> bool {
        // Two numbers of 20 digits and one of 10.
        let mut needed = LINE + 52;
        let mut new_frames: HashSet<&String> = HashSet::new();
        let mut caller = Some(0);
        for frame in site.stack.iter().rev() {
            caller = caller.and_then(|caller| self.nodes.get(&(caller, frame.clone())).copied());
            let short = short_name(frame).len() + TELLS_APART + 1;
            if caller.is_none() {
                needed += short;
            }
            if !self.frames.contains(frame) && new_frames.insert(frame) {
                needed += LINE + short + serde_json::to_string(frame).map_or(frame.len(), |text| text.len());
            }
        }
        if self.used + needed > MOST_BYTES {
            return false;
        }
        self.used += needed;
        self.frames.extend(new_frames.into_iter().cloned());
        let mut caller = 0;
        for frame in site.stack.iter().rev() {
            let next = self.nodes.len() + 1;
            caller = *self.nodes.entry((caller, frame.clone())).or_insert(next);
        }
        true
    }
}

/// Bytes that tell most short names apart: a tilde and three letters.
const TELLS_APART: usize = 4;
const DIGEST: usize = 13;

/// The last name in a function's name, without types and parameters: `push_back` of
/// `std::vector<int>::push_back(int&&)`. Of Swift's closures it is the function that they are in.
fn short_name(frame: &str) -> String {
    let name = name_of(frame);
    let name = name.rsplit(" in ").next().unwrap_or(name);
    let name = name.split(" -> ").next().unwrap_or(name);
    let mut plain = String::new();
    let mut depth = 0usize;
    for c in name.chars() {
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' | ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    let mut words = plain.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    let word = words.next_back().unwrap_or("frame");
    word.chars().take(SHORT).collect()
}

/// 64 bits of FNV-1a in letters and digits: the same on each machine.
fn digest(text: &str) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    (0..DIGEST).map(|at| b"abcdefghijklmnopqrstuvwxyz234567"[(hash >> (5 * at)) as usize % 32] as char).collect()
}

/// A short name for each frame.
fn short_names<'a>(frames: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, String> {
    let mut alike: BTreeMap<String, HashSet<&str>> = BTreeMap::new();
    for frame in frames {
        alike.entry(short_name(frame)).or_default().insert(frame);
    }
    let mut names = BTreeMap::new();
    for (short, frames) in alike {
        if frames.len() == 1 {
            names.extend(frames.into_iter().map(|frame| (frame, short.clone())));
            continue;
        }
        let digests: Vec<_> = frames.into_iter().map(|frame| (frame, digest(frame))).collect();
        let differ = |length: usize| {
            let starts: HashSet<&str> = digests.iter().map(|(_, digest)| &digest[..length]).collect();
            starts.len() == digests.len()
        };
        let length = (3..DIGEST).find(|&length| differ(length)).unwrap_or(DIGEST);
        names.extend(digests.iter().map(|(frame, digest)| (*frame, format!("{short}~{}", &digest[..length]))));
    }
    names
}

impl StackTable {
    /// Bytes of the table in the file, estimated.
    fn bytes(&self) -> usize {
        let line = |line: &String| LINE + serde_json::to_string(line).map_or(line.len(), |text| text.len());
        self.frames.iter().chain(&self.stacks).map(line).sum()
    }

    pub fn of(sites: &[SiteCount]) -> Self {
        let names = short_names(sites.iter().flat_map(|site| &site.stack).map(String::as_str));
        let mut frames: Vec<_> = names.iter().map(|(frame, short)| format!("{short} {frame}")).collect();
        frames.sort();
        let path = |site: &SiteCount| -> Vec<String> {
            site.stack.iter().rev().filter_map(|frame| names.get(frame.as_str()).cloned()).collect()
        };
        let mut paths: Vec<_> = sites.iter().map(|site| (path(site), site)).collect();
        paths.sort_by(|(a, one), (b, other)| a.cmp(b).then(one.allocations.cmp(&other.allocations)));
        let mut before: &[String] = &[];
        let mut stacks = Vec::new();
        for (path, site) in &paths {
            let common = before.iter().zip(path).take_while(|(a, b)| a == b).count();
            let mut line = format!("{} {} {common}", site.allocations, site.allocated_bytes);
            for short in &path[common..] {
                line.push(' ');
                line.push_str(short);
            }
            stacks.push(line);
            before = path;
        }
        Self { frames, stacks }
    }

    /// The stacks of a table, or what is wrong with it.
    pub fn sites(&self) -> Result<Vec<SiteCount>, String> {
        let mut names: HashMap<&str, &str> = HashMap::new();
        for line in &self.frames {
            let (short, frame) = line.split_once(' ').ok_or_else(|| format!("{line:?} is no frame"))?;
            names.insert(short, frame);
        }
        let mut path: Vec<&str> = Vec::new();
        let mut sites = Vec::new();
        for line in &self.stacks {
            let fault = || format!("{line:?} is no stack");
            let mut words = line.split(' ');
            let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).ok_or_else(fault);
            let (allocations, allocated_bytes, common) = (number()?, number()?, number()?);
            if common > path.len() as u64 {
                return Err(fault());
            }
            path.truncate(common as usize);
            for short in words {
                path.push(names.get(short).ok_or_else(|| format!("{short} in {line:?} is no frame"))?);
            }
            let stack = path.iter().rev().map(|frame| (*frame).to_owned()).collect();
            sites.push(SiteCount { stack, allocations, allocated_bytes });
        }
        sites.sort_by(|a, b| b.allocations.cmp(&a.allocations).then_with(|| a.stack.cmp(&b.stack)));
        Ok(sites)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(stack: &[&str], allocations: u64) -> SiteCount {
        let stack = stack.iter().map(|step| (*step).to_owned()).collect();
        SiteCount { stack, allocations, allocated_bytes: 16 * allocations }
    }

    #[test]
    fn short_names_are_the_last_of_a_function() {
        for (frame, expected) in [
            ("read_row (parser.c:12)", "read_row"),
            ("std::vector<int, std::allocator<int> >::push_back(int&&) (v.h:3)", "push_back"),
            ("closure #1 in run(identifier:) (test_a.swift:23)", "run"),
            ("NIOPosix.SelectableEventLoop.run() -> ()", "run"),
            ("test_a.boxed(Swift.Int) -> test_a.Box (shared.swift:2)", "boxed"),
            ("closure #1 () -> Swift.Int in test_a.run(identifier: Swift.String) -> ()", "run"),
            ("operator new(unsigned long) [libstdc++.so.6]", "new"),
            ("(anonymous namespace)", "frame"),
            ("", "frame"),
        ] {
            assert_eq!(short_name(frame), expected, "{frame}");
        }
    }

    #[test]
    fn what_is_written_is_read_and_a_stack_is_a_line() {
        let sites = [
            site(&["grow (a.cc:7)", "b::run() (a.cc:2)", "main (a.cc:1)"], 900),
            site(&["grow (a.cc:7)", "a::run() (a.cc:9)", "main (a.cc:1)"], 12),
            site(&["main (a.cc:1)"], 3),
            site(&[], 1),
        ];
        let table = StackTable::of(&sites);
        assert_eq!(table.frames[0..2], ["grow grow (a.cc:7)", "main main (a.cc:1)"]);
        assert!(table.frames[2].starts_with("run~") && table.frames[2].contains("::run() (a.cc:"), "{table:?}");
        assert_eq!(table.stacks[0..2], ["1 16 0", "3 48 0 main"]);
        assert!(table.stacks.iter().any(|line| line.starts_with("900 14400 1 run~") && line.ends_with(" grow")));
        assert_eq!(table.sites().expect("stacks"), sites);
        // One more stack is one more line, and perhaps one that has more in common now.
        let more = [&sites[..], &[site(&["new_one (b.cc:1)", "main (a.cc:1)"], 5)]].concat();
        let grown = StackTable::of(&more);
        let new = |old: &[String], now: &[String]| now.iter().filter(|line| !old.contains(line)).count();
        assert_eq!((new(&table.frames, &grown.frames), new(&table.stacks, &grown.stacks)), (1, 1));
    }

    #[test]
    fn what_is_no_table_is_no_stacks() {
        let table = |frames: &[&str], stacks: &[&str]| {
            let own = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
            StackTable { frames: own(frames), stacks: own(stacks) }.sites().expect_err("no stacks")
        };
        assert_eq!(table(&["a"], &[]), "\"a\" is no frame");
        assert_eq!(table(&["a a"], &["1 1 0 b"]), "b in \"1 1 0 b\" is no frame");
        for line in ["", "1 1", "1 -1 0 a", "1 1 1 a", "1 1 99999999999999999999"] {
            assert_eq!(table(&["a a"], &[line]), format!("{line:?} is no stack"));
        }
    }

    #[test]
    fn the_largest_are_kept_and_no_case_is_large() {
        let long = "x".repeat(1000);
        let sites: Vec<_> = (0..5000u64)
            .map(|n| {
                let frames: Vec<String> = (0..30).map(|at| format!("{long}{} (a.c:{})", n * 30 + at, n)).collect();
                let frames: Vec<&str> =
                    if n % 3 == 0 { frames.iter().map(String::as_str).collect() } else { vec!["f"] };
                site(&frames, 1 + n % 97)
            })
            .collect();
        let (all, total) = (sites.len() as u64, sites.iter().map(|site| site.allocations).sum::<u64>());
        let (kept, rest) = keep(sites);
        let table = StackTable::of(&kept);
        assert!(table.bytes() <= MOST_BYTES && !kept.is_empty(), "{}", table.bytes());
        assert_eq!(kept.len() as u64 + rest.stacks, all);
        assert_eq!(kept.iter().map(|site| site.allocations).sum::<u64>() + rest.allocations, total);
        assert!(kept.iter().all(|site| site.allocations >= rest.largest_allocations));
        // A deep recursion alone.
        let deep: Vec<&str> = vec!["recurse (a.c:1)"; 100_000];
        assert_eq!(keep(vec![site(&deep, 9)]).0.len(), 0);
    }
}
