//! A package of allocation tests in SwiftNIO's shape: one program for each source, `test_1000_reqs.swift`, which
//! measures under its own name, or under names that begin with it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, value};

use super::selection::begins_with;

/// Directory in which the Swift package manager puts release builds.
pub const BUILT: &str = ".build/release";

/// The programs of a package, and the cases that each of them makes.
#[derive(Debug, Default)]
pub struct Package {
    /// Names of cases by program.
    pub programs: BTreeMap<String, BTreeSet<String>>,
    /// Directory of the sources; None where it was not found.
    pub sources: Option<PathBuf>,
    /// Programs that are assumed, because a limit is there and no source.
    pub assumed: Vec<String>,
}

impl Package {
    /// The package that limits are of. Its sources are looked for in `Sources` of the cases' directory, and around the
    /// file of the limits, where SwiftNIO has them.
    pub fn of<'a>(limits: impl Iterator<Item = &'a String>, file: &Path, home: &Path) -> Self {
        let beside = file.parent().unwrap_or(Path::new(""));
        let above = beside.parent().unwrap_or(Path::new(""));
        let around = [beside.to_owned(), above.to_owned()].into_iter().chain(directories(above));
        let places = std::iter::once((home.join("Sources"), true)).chain(around.map(|place| (place, false)));
        let found = places.map(|(place, directories)| (tests(&place, directories), place));
        let found = found.filter(|(tests, _)| !tests.is_empty()).map(|(tests, place)| (place, tests)).next();
        let (sources, tests) = found.map_or((None, BTreeSet::new()), |(place, tests)| (Some(place), tests));
        let mut package = Self { sources, ..Self::default() };
        for limit in limits {
            let case = if limit.starts_with("test_") { limit.clone() } else { format!("test_{limit}") };
            let longest = tests.iter().filter(|test| begins_with(limit, test)).max_by_key(|test| test.len());
            let program = longest.unwrap_or_else(|| {
                package.assumed.push(case.clone());
                &case
            });
            package.programs.entry(program.clone()).or_default().insert(case);
        }
        package
    }

    /// A file with its cases, which `from` made; without limits.
    pub fn cases(&self, from: &Path) -> DocumentMut {
        let mut document = DocumentMut::new();
        let mut defaults = Table::new();
        defaults.decor_mut().set_prefix(format!(
            "# Made by mallow test --import {}. Build first: swift build -c release\n\n",
            from.display()
        ));
        defaults["runs"] = value(10);
        defaults["warmup"] = value(1);
        defaults["settle"] = value(5);
        defaults["judge"] = value("limits");
        document["defaults"] = Item::Table(defaults);
        let mut cases = ArrayOfTables::new();
        for (program, names) in &self.programs {
            let mut case = Table::new();
            case["command"] = value(shell_words::quote(&format!("{BUILT}/{program}")).into_owned());
            case["regions"] = value(names.iter().collect::<Array>());
            cases.push(case);
        }
        document["case"] = Item::ArrayOfTables(cases);
        document
    }
}

fn entries(place: &Path) -> Vec<PathBuf> {
    let read = std::fs::read_dir(place).into_iter().flatten().flatten();
    let mut entries: Vec<PathBuf> = read.map(|entry| entry.path()).collect();
    entries.sort();
    entries
}

fn directories(place: &Path) -> Vec<PathBuf> {
    let place = if place.as_os_str().is_empty() { Path::new(".") } else { place };
    entries(place).into_iter().filter(|path| path.is_dir()).collect()
}

/// The tests of a directory: each `test_a.swift`, or each directory `test_a` with sources in it.
fn tests(place: &Path, directories: bool) -> BTreeSet<String> {
    let place = if place.as_os_str().is_empty() { Path::new(".") } else { place };
    let name = |path: PathBuf| {
        let swift = |path: &Path| path.extension().is_some_and(|extension| extension == "swift");
        let test = if directories { entries(&path).iter().any(|file| swift(file)) } else { swift(&path) };
        let name = path.file_stem()?.to_str()?;
        (test && name.starts_with("test_")).then(|| name.to_owned())
    };
    entries(place).into_iter().filter_map(name).collect()
}
