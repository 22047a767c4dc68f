//! Reasons of a file, joined with the lines of a profile.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::time::SystemTime;

use anyhow::Result;
use mallow_golang::names::without_types;
use mallow_profile::Profile;
use mallow_report::analysis::ListFunction;

use super::go_reasons::{FileReason, parts, read};

/// Reasons of one line that are shown.
const MOST: usize = 20;

/// Reasons by the lines of a profile.
#[derive(Debug, Default)]
pub struct LineReasons {
    by_line: HashMap<(String, u32), Vec<FileReason>>,
    /// Remarks on what does not fit, a sentence each.
    pub notes: Vec<String>,
}

/// The packages of each Go source that a profile names.
type Sources = BTreeMap<String, BTreeSet<String>>;

impl LineReasons {
    /// Reads a file's reasons for the sources of a profile.
    pub fn open(path: &Path, profile: &Profile) -> Result<Self> {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let mut joined = Self::of(read(path)?, profile, &name);
        if let Some(written) = modified(path) {
            // A relative name is one of -trimpath, of no file that is here.
            let changed =
                |file: &&str| file.starts_with('/') && modified(Path::new(file)).is_some_and(|at| at > written);
            let files: BTreeSet<&str> = joined.by_line.keys().map(|(file, _)| file.as_str()).collect();
            let newer: Vec<&str> = files.into_iter().filter(changed).collect();
            if let [first, others @ ..] = newer.as_slice() {
                let others = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
                joined.notes.push(format!(
                    "{first}{others} changed after {name} was written: reasons may be beside other lines"
                ));
            }
        }
        Ok(joined)
    }

    fn of(reasons: Vec<FileReason>, profile: &Profile, name: &str) -> Self {
        let sources = sources(profile);
        let root = root(&reasons, &sources);
        let mut joined = Self::default();
        let any = !reasons.is_empty();
        for reason in reasons {
            if let Some(file) = in_profile(&reason, root.as_deref(), &sources) {
                joined.by_line.entry((file, reason.line)).or_default().push(reason);
            }
        }
        if !any {
            joined.notes.push(format!("{name} has no reasons: nothing is in the heap of its packages"));
        } else if joined.by_line.is_empty() {
            joined.notes.push(format!("{name} is of other sources: none of its files is in the profile"));
        }
        joined
    }

    /// Gives lines of functions their reasons.
    pub fn add<T>(&self, functions: &mut [ListFunction<T>]) {
        for function in functions {
            let Some(file) = function.file.clone() else { continue };
            let name = without_types(parts(&function.function).1);
            for line in function.lines.iter_mut().filter(|line| !line.gone) {
                let known = line.line.and_then(|number| self.by_line.get(&(file.clone(), number)));
                line.reasons = known.map(|known| texts(known, &name)).unwrap_or_default();
            }
        }
    }
}

/// The reasons for a function. Those for another one on the line, as a function literal, name it.
fn texts(known: &[FileReason], name: &str) -> Vec<String> {
    let of = |reason: &FileReason| reason.function.as_deref().map(without_types);
    let exact = known.iter().filter(|reason| of(reason).is_none_or(|function| function == name));
    let mut texts: Vec<String> = exact.map(|reason| reason.text.clone()).collect();
    if texts.is_empty() {
        let others =
            known.iter().filter_map(|reason| Some(format!("in {}: {}", reason.function.as_ref()?, reason.text)));
        texts = others.collect();
    }
    let mut seen = HashSet::new();
    texts.retain(|text| seen.insert(text.clone()));
    if texts.len() > MOST {
        let rest = texts.len() - MOST;
        texts.truncate(MOST);
        texts.push(format!("and {rest} more"));
    }
    texts
}

fn sources(profile: &Profile) -> Sources {
    let mut sources = Sources::new();
    for line in profile.frames.iter().flat_map(|frame| &frame.lines) {
        let file = line.file.map_or("", |file| profile.strings.get(file));
        if file.ends_with(".go") {
            let package = parts(profile.strings.get(line.function)).0;
            sources.entry(file.to_owned()).or_default().insert(package);
        }
    }
    sources
}

/// The directory, as the profile names it, in which the compiler ran: the one that explains most relative names.
fn root(reasons: &[FileReason], sources: &Sources) -> Option<String> {
    let relative = reasons.iter().filter(|reason| !reason.file.starts_with('/'));
    let files: BTreeSet<(&str, Option<&str>)> =
        relative.map(|reason| (plain(&reason.file), reason.package.as_deref())).collect();
    let mut by_base: HashMap<&str, Vec<(&String, &BTreeSet<String>)>> = HashMap::new();
    for (file, packages) in sources {
        by_base.entry(base(file)).or_default().push((file, packages));
    }
    let mut votes: HashMap<&str, usize> = HashMap::new();
    for (file, package) in files {
        for (source, packages) in by_base.get(base(file)).into_iter().flatten() {
            let directory = source.strip_suffix(file).filter(|before| before.is_empty() || before.ends_with('/'));
            if let Some(directory) = directory.filter(|_| is_of(package, packages)) {
                *votes.entry(directory).or_default() += 1;
            }
        }
    }
    // Of as many, the one nearest to the root: a program's main.go may be in each directory.
    let best =
        votes.into_iter().max_by_key(|(directory, votes)| (*votes, std::cmp::Reverse((directory.len(), *directory))));
    best.map(|(directory, _)| directory.to_owned())
}

/// The profile's name of a reason's source.
fn in_profile(reason: &FileReason, root: Option<&str>, sources: &Sources) -> Option<String> {
    let file = match reason.file.starts_with('/') {
        true => reason.file.clone(),
        false => format!("{}{}", root?, plain(&reason.file)),
    };
    sources.get(&file).filter(|packages| is_of(reason.package.as_deref(), packages))?;
    Some(file)
}

/// Profiles name a program's own package `main`, whatever its import path is.
fn is_of(package: Option<&str>, packages: &BTreeSet<String>) -> bool {
    package.is_none_or(|package| packages.contains(package) || packages.contains("main"))
}

fn plain(file: &str) -> &str {
    file.strip_prefix("./").unwrap_or(file)
}

fn base(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).ok()?.modified().ok()
}

#[cfg(test)]
mod tests {
    use mallow_report::analysis::{ListOptions, Measure, list};
    use mallow_report::testing::{Builder, blocks};

    use super::*;

    fn reason(file: &str, line: u32, package: &str, function: &str, text: &str) -> FileReason {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        FileReason {
            file: file.to_owned(),
            line,
            package: some(package),
            function: some(function),
            text: text.to_owned(),
        }
    }

    fn profile() -> Profile {
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 10);
        for stack in [
            ["example.com/m/util.(*T).Grow@/x/m/util/main.go:5", "main.run@/x/m/main.go:9", "main.main@/x/m/main.go:3"],
            [
                "example.com/m/util.G[...].func1@/x/m/util/main.go:7",
                "main.run@/x/m/cmd/main.go:9",
                "main.main@/x/m/main.go:3",
            ],
            ["bytes.NewBuffer@/go/src/bytes/buffer.go:490", "main.run@/x/m/main.go:9", "main.main@/x/m/main.go:3"],
        ] {
            b.site(p, &stack, blocks(5, 100, 0, 0));
        }
        b.profile
    }

    /// Lines with reasons: `main.go:5 main.run text`.
    fn shown(reasons: Vec<FileReason>) -> (Vec<String>, Vec<String>) {
        let profile = profile();
        let joined = LineReasons::of(reasons, &profile, "reasons.json");
        let options = ListOptions { by: Measure::Allocations, raw: false, limit: usize::MAX };
        let mut report = list(&profile, &".".parse().expect("a pattern"), options);
        joined.add(&mut report.functions);
        let mut out = Vec::new();
        for function in &report.functions {
            for (line, reason) in function.lines.iter().flat_map(|line| line.reasons.iter().map(move |r| (line, r))) {
                let file = function.file.as_deref().unwrap_or_default();
                out.push(format!("{file}:{} {} {reason}", line.line.unwrap_or(0), function.function));
            }
        }
        out.sort();
        (out, joined.notes)
    }

    #[test]
    fn relative_names_start_where_most_of_them_are_found() {
        let (lines, notes) = shown(vec![
            reason("./main.go", 9, "example.com/m", "run", "a: returned"),
            reason("util/main.go", 5, "example.com/m/util", "(*T).Grow", "b: returned"),
            reason("/go/src/bytes/buffer.go", 490, "", "", "c: returned"),
        ]);
        assert_eq!(
            lines,
            [
                "/go/src/bytes/buffer.go:490 bytes.NewBuffer c: returned",
                "/x/m/main.go:9 main.run a: returned",
                "/x/m/util/main.go:5 example.com/m/util.(*T).Grow b: returned"
            ]
        );
        assert_eq!(notes, [""; 0]);
    }

    #[test]
    fn packages_and_functions_are_told_apart() {
        let (lines, _) = shown(vec![
            reason("util/main.go", 5, "example.com/m/util", "(*T).Grow", "a"),
            reason("util/main.go", 5, "example.com/m/util", "(*T).Grow", "a"),
            reason("util/main.go", 5, "example.com/m/util", "(*T).Grow.func1", "not this"),
            reason("util/main.go", 7, "example.com/m/util", "G[go.shape.int].func1", "generic"),
            reason("main.go", 3, "example.com/m", "main.func1", "a literal"),
            reason("util/main.go", 5, "example.com/another", "(*T).Grow", "another package"),
        ]);
        assert_eq!(
            lines,
            [
                "/x/m/main.go:3 main.main in main.func1: a literal",
                "/x/m/util/main.go:5 example.com/m/util.(*T).Grow a",
                "/x/m/util/main.go:7 example.com/m/util.G[...].func1 generic"
            ]
        );
    }

    #[test]
    fn reasons_that_fit_nothing_are_reported() {
        assert_eq!(shown(vec![]).1, ["reasons.json has no reasons: nothing is in the heap of its packages"]);
        let (lines, notes) = shown(vec![reason("other.go", 9, "", "", "a"), reason("/y/main.go", 9, "", "", "b")]);
        assert_eq!(lines, [""; 0]);
        assert_eq!(notes, ["reasons.json is of other sources: none of its files is in the profile"]);
    }

    #[test]
    fn a_line_with_very_many_has_the_first() {
        let many = (0..50).map(|n| reason("main.go", 9, "example.com/m", "run", &format!("r{n}"))).collect();
        let (lines, _) = shown(many);
        assert_eq!(lines.len(), MOST + 1);
        assert!(lines.iter().any(|line| line.ends_with("and 30 more")), "{lines:?}");
    }
}
