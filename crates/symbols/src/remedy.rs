//! What would bring names that are missing.

use std::collections::HashMap;
use std::path::Path;
use std::thread::{Builder, JoinHandle};

use mallow_profile::{Module, ModuleSummary, NameSource, Note};
use object::{Object, ObjectSection};

use crate::image::Image;
use crate::packages::debug_packages;
use crate::vdso;

/// Remedy for the functions and lines that each module lacks, in words that can follow a semicolon. None: it lacks
/// nothing, or nobody has more. This may start a package manager: once for all modules, so ask for all at once.
pub fn remedies(modules: &[(&Module, &ModuleSummary)]) -> Vec<Option<String>> {
    remedies_from(modules, &debug_packages(&lacking(modules)))
}

/// A question to the package manager, which a thread of its own asks: it takes a tenth of a second, in which there may
/// be other things to do. Nobody waits for the answer of one that is dropped.
#[derive(Debug)]
pub struct Packages(Option<JoinHandle<HashMap<String, String>>>);

impl Packages {
    /// Asks for what [`remedies`] of these modules, or of some of them, will need.
    pub fn ask(modules: &[(&Module, &ModuleSummary)]) -> Self {
        let paths: Vec<String> = lacking(modules).into_iter().map(str::to_owned).collect();
        let ask = move || debug_packages(&paths.iter().map(String::as_str).collect::<Vec<_>>());
        Self(Builder::new().spawn(ask).ok())
    }

    /// [`remedies`] with the answer, for modules that were asked for.
    pub fn remedies(self, modules: &[(&Module, &ModuleSummary)]) -> Vec<Option<String>> {
        match self.0.and_then(|thread| thread.join().ok()) {
            Some(packages) => remedies_from(modules, &packages),
            None => remedies(modules),
        }
    }
}

/// Paths of the files that a package may have more of.
fn lacking<'a>(modules: &[(&'a Module, &ModuleSummary)]) -> Vec<&'a str> {
    let lacks = |module: &&(&Module, &ModuleSummary)| is_without_debug_information(&module.1.found);
    modules.iter().filter(lacks).map(|module| module.0.path.as_str()).collect()
}

fn remedies_from(modules: &[(&Module, &ModuleSummary)], packages: &HashMap<String, String>) -> Vec<Option<String>> {
    modules.iter().map(|(module, summary)| remedy(module, summary, packages.get(&module.path))).collect()
}

fn is_without_debug_information(found: &NameSource) -> bool {
    matches!(found, NameSource::SymbolTable | NameSource::DynamicSymbols | NameSource::Nothing)
}

fn remedy(module: &Module, summary: &ModuleSummary, package: Option<&String>) -> Option<String> {
    let text = |text: &str| Some(text.to_owned());
    if module.path == vdso::PATH {
        return None;
    }
    let split = summary.notes.iter().filter(|note| matches!(note, Note::SplitMissing(_))).count();
    if let Some(missing) = summary.notes.iter().find_map(|note| match note {
        Note::SplitMissing(file) if split > 1 => {
            Some(format!("{} and others, or a .dwp file beside the program, bring them", file.display()))
        }
        Note::SplitMissing(file) => Some(format!("{}, or a .dwp file beside the program, brings them", file.display())),
        Note::SupplementaryMissing(file) => Some(format!("{} brings them", file.display())),
        _ => None,
    }) {
        return Some(missing);
    }
    match &summary.found {
        NameSource::DebugInformation => None,
        NameSource::FileGone(_) | NameSource::BuildIdDiffers { .. } | NameSource::WrittenSince => text(
            "--binary FILE reads them from a copy; record --embed-symbols, or mallow pack right after recording, keeps them",
        ),
        NameSource::Unreadable(_) => None,
        NameSource::SymbolTable | NameSource::DynamicSymbols | NameSource::Nothing if package.is_some() => {
            package.cloned()
        }
        NameSource::SymbolTable | NameSource::DynamicSymbols | NameSource::Nothing => match language(&module.path) {
            Language::Rust if summary.found == NameSource::SymbolTable => {
                text("debug = \"line-tables-only\" in the profile of Cargo.toml, or rustc -g, brings them")
            }
            // A Rust compiler writes a symbol table: the profile, or cargo install's package, strips.
            Language::Rust => text(
                "strip = false and debug = \"line-tables-only\" in the profile of Cargo.toml bring them; of cargo install, \
                 CARGO_PROFILE_RELEASE_STRIP=none and CARGO_PROFILE_RELEASE_DEBUG=line-tables-only",
            ),
            Language::Go => text("a build without -ldflags=-w brings them"),
            Language::Other if summary.found == NameSource::SymbolTable => text("a build with -g brings them"),
            Language::Other => text("a build with -g that is not stripped afterwards brings them"),
        },
    }
}

enum Language {
    Rust,
    Go,
    Other,
}

/// The language that a file was compiled from, as far as it matters here.
fn language(path: &str) -> Language {
    let Ok(image) = Image::open(Path::new(path)) else { return Language::Other };
    let Ok(file) = image.parse() else { return Language::Other };
    let comment = file.section_by_name(".comment").and_then(|section| section.data().ok()).unwrap_or_default();
    if file.section_by_name(".go.buildinfo").is_some() {
        Language::Go
    } else if comment.windows(6).any(|word| word == b"rustc ") {
        Language::Rust
    } else {
        Language::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mallow_profile::ModuleId;

    fn remedy_of(path: &str, found: NameSource, notes: Vec<Note>) -> Option<String> {
        let module = Module { path: path.to_owned(), build_id: Vec::new() };
        let summary = ModuleSummary {
            module: ModuleId(0),
            found,
            debug_file: None,
            notes,
            frames: 1,
            named: 0,
            located: 0,
            remedy: None,
        };
        let modules = [(&module, &summary)];
        // Asked for in the background, it is what it is when asked for at once.
        assert_eq!(Packages::ask(&modules).remedies(&modules), remedies(&modules));
        remedies(&modules).pop().flatten()
    }

    #[test]
    fn each_lack_has_its_remedy() {
        let starts =
            |text: Option<String>, with: &str| assert!(text.as_ref().is_some_and(|t| t.starts_with(with)), "{text:?}");
        assert_eq!(remedy_of("/no/such", NameSource::DebugInformation, Vec::new()), None);
        assert_eq!(remedy_of("[vdso]", NameSource::DynamicSymbols, Vec::new()), None);
        starts(remedy_of("/no/such", NameSource::SymbolTable, Vec::new()), "a build with -g brings");
        starts(remedy_of("/no/such", NameSource::Nothing, Vec::new()), "a build with -g that is not stripped");
        starts(remedy_of("/no/such", NameSource::FileGone(String::new()), Vec::new()), "--binary FILE reads them");
        let split = vec![Note::SplitMissing("/b/a.dwo".into())];
        starts(remedy_of("/no/such", NameSource::DebugInformation, split), "/b/a.dwo, or a .dwp file");
        let own = std::env::current_exe().unwrap();
        starts(remedy_of(own.to_str().unwrap(), NameSource::SymbolTable, Vec::new()), "debug = \"line-tables-only\"");
        starts(remedy_of(own.to_str().unwrap(), NameSource::DynamicSymbols, Vec::new()), "strip = false and debug");
        assert!(remedy_of("/lib/x86_64-linux-gnu/libc.so.6", NameSource::DynamicSymbols, Vec::new()).is_some());
    }
}
