//! Which files' names are missing, why, and what would bring them.

use std::path::Path;

use mallow_profile::Module;
use mallow_report::analysis::Frame;
use mallow_symbols::{ModuleSummary, NameSource, Note, missing_debug_file, remedies};
use serde::Serialize;

/// A file whose functions or source lines are missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MissingNames {
    /// Path of the ELF file.
    pub module: String,
    /// True where most functions have no names either.
    pub without_functions: bool,
    /// True where some functions have names.
    #[serde(skip)]
    pub some_functions: bool,
    /// True where the names of inlined functions alone are missing: they are in a file that several modules share.
    pub without_inlined: bool,
    /// True where parts of the module lack their source lines too: they are in split debug files.
    #[serde(skip)]
    pub without_split: bool,
    /// Names that were found, as a sentence.
    pub found: String,
    /// How to get the missing names, as a sentence; null where nothing would bring them.
    pub remedy: Option<String>,
    /// Command that asks the servers of `DEBUGINFOD_URLS` for the names; left out where no server is set, or none may
    /// have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fetch: Option<String>,
}

impl MissingNames {
    /// Missing names of each module that lacks some; where a remedy was not looked up before, it is now.
    pub fn all<'a>(modules: impl IntoIterator<Item = (&'a Module, &'a ModuleSummary)>) -> Vec<Self> {
        Self::with(modules, remedies)
    }

    /// Missing names as [`MissingNames::all`] has them, with remedies from elsewhere.
    pub fn with<'a>(
        modules: impl IntoIterator<Item = (&'a Module, &'a ModuleSummary)>,
        remedies: impl FnOnce(&[(&Module, &ModuleSummary)]) -> Vec<Option<String>>,
    ) -> Vec<Self> {
        let lacking: Vec<_> = modules.into_iter().filter(|(_, summary)| lacks(summary)).collect();
        let asked: Vec<_> = lacking.iter().copied().filter(|(_, summary)| summary.remedy.is_none()).collect();
        let mut found = remedies(&asked).into_iter();
        let of = |(module, summary): (&Module, &ModuleSummary)| Self {
            module: module.path.clone(),
            without_functions: summary.named < summary.frames.div_ceil(2),
            some_functions: summary.named > 0,
            without_inlined: summary.located > 0,
            without_split: summary.notes.iter().any(is_split),
            found: why(summary),
            remedy: summary.remedy.clone().or_else(|| found.next().flatten()),
            fetch: None,
        };
        lacking.into_iter().map(of).collect()
    }

    /// Adds the command that fetches the names of a recording, to those that a server may have, if one is configured.
    pub fn offer_fetch<'a>(
        all: &mut [Self],
        recording: &Path,
        modules: impl Iterator<Item = (&'a Module, &'a ModuleSummary)>,
    ) {
        if std::env::var("DEBUGINFOD_URLS").is_ok_and(|urls| !urls.trim().is_empty()) && recording != Path::new("") {
            for (module, _) in modules.filter(|(module, summary)| missing_debug_file(module, summary).is_some()) {
                let of_module = all.iter_mut().filter(|missing| missing.module == module.path);
                of_module.for_each(|missing| missing.fetch = Some(fetch_command(recording)));
            }
        }
    }

    pub fn line(&self) -> String {
        let what = if self.has_few() { "Few names".to_owned() } else { format!("No {}", self.what()) };
        format!("{what} of {}: {}{}", self.module, self.found, self.remedies())
    }

    /// The missing names and their remedy, for a file that was named before.
    pub fn lack_and_remedy(&self) -> String {
        format!("{}{}", self.what(), self.remedies())
    }

    /// Whether one of these functions is an address in this file, and something would bring its name.
    pub fn is_of_addresses<'f>(&self, functions: impl IntoIterator<Item = &'f Frame>) -> bool {
        let brings = self.fetch.is_some() || self.remedy.is_some();
        brings
            && functions.into_iter().any(|function| !function.named && function.module.as_deref() == Some(&self.module))
    }

    fn has_few(&self) -> bool {
        self.without_functions && self.some_functions && !self.without_inlined
    }

    fn what(&self) -> &'static str {
        if self.without_split && !self.without_functions {
            return match self.without_inlined {
                true => "source lines and inlined functions of parts",
                false => "source lines and inlined functions",
            };
        }
        match (self.without_functions, self.without_inlined) {
            (_, true) => "names of inlined functions",
            (true, _) if self.has_few() => "most names",
            (true, _) => "names",
            (false, _) => "source lines",
        }
    }

    fn remedies(&self) -> String {
        let fetch = self.fetch.as_ref().map(|fetch| format!("try {fetch}"));
        fetch.iter().chain(&self.remedy).flat_map(|remedy| ["; ", remedy]).collect()
    }
}

/// The command that fetches the debug files of a recording.
pub fn fetch_command(recording: &Path) -> String {
    format!("mallow symbols --fetch {}", shell_words::quote(&recording.to_string_lossy()))
}

/// True where source lines, or names of inlined functions, are missing.
pub fn lacks(summary: &ModuleSummary) -> bool {
    summary.located == 0 || missing_file(summary).is_some()
}

/// True where names of inlined functions are missing, and of split debug files the source lines of some functions.
pub fn lacks_inlined(summary: &ModuleSummary) -> bool {
    summary.located > 0 && missing_file(summary).is_some()
}

fn is_split(note: &Note) -> bool {
    matches!(note, Note::SplitMissing(_))
}

/// A file that is not here, and that holds a part of the debug information: what dwz took out of several files, or a
/// split unit.
fn missing_file(summary: &ModuleSummary) -> Option<&Note> {
    summary.notes.iter().find(|note| is_split(note) || matches!(note, Note::SupplementaryMissing(_)))
}

fn why(summary: &ModuleSummary) -> String {
    if let Some(split) = summary.notes.iter().find(|note| is_split(note)) {
        return split.to_string();
    }
    match (&summary.found, missing_file(summary).or(summary.notes.first())) {
        // What it has is not what was asked for.
        (NameSource::DebugInformation, Some(note)) => note.to_string(),
        (NameSource::DebugInformation, None) => "debug information of other parts of it alone".to_owned(),
        (found, _) => found.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use mallow_profile::ModuleId;

    use super::*;

    #[test]
    fn a_line_says_what_is_missing_and_what_brings_it() {
        let module = |path: &str| Module { path: path.to_owned(), build_id: Vec::new() };
        let summary = |found, named, located, remedy: Option<&str>| ModuleSummary {
            module: ModuleId(0),
            found,
            debug_file: None,
            notes: Vec::new(),
            frames: 9,
            named,
            located,
            remedy: remedy.map(str::to_owned),
        };
        let modules = [
            (module("/a"), summary(NameSource::SymbolTable, 9, 0, Some("this brings them"))),
            (module("/b"), summary(NameSource::DebugInformation, 9, 1, None)),
            (
                module("/f"),
                ModuleSummary {
                    notes: vec![Note::SplitMissing("/s/f.dwo".into())],
                    ..summary(NameSource::DebugInformation, 9, 5, None)
                },
            ),
            (
                module("/g"),
                ModuleSummary {
                    notes: vec![Note::SplitMissing("/s/g.dwo".into()), Note::SplitMissing("/s/h.dwo".into())],
                    ..summary(NameSource::SymbolTable, 9, 0, None)
                },
            ),
            (module("/c"), summary(NameSource::Unreadable("an object file".to_owned()), 0, 0, None)),
            (module("/d"), summary(NameSource::DynamicSymbols, 1, 0, None)),
            (
                module("/e"),
                ModuleSummary {
                    notes: vec![
                        Note::DebugFileDiffers("/e.debug".into()),
                        Note::SupplementaryMissing("../e.dwz".into()),
                    ],
                    ..summary(NameSource::DebugInformation, 9, 9, None)
                },
            ),
        ];
        let lines: Vec<_> =
            MissingNames::all(modules.iter().map(|(m, s)| (m, s))).iter().map(MissingNames::line).collect();
        assert_eq!(
            lines,
            [
                "No source lines of /a: symbol table, no debug information; this brings them",
                "No source lines and inlined functions of parts of /f: no split debug file /s/f.dwo; /s/f.dwo, or a .dwp file \
                 beside the program, brings them",
                "No source lines and inlined functions of /g: no split debug file /s/g.dwo; /s/g.dwo and others, or a .dwp file \
                 beside the program, bring them",
                "No names of /c: not readable: an object file",
                "Few names of /d: dynamic symbols alone; a build with -g that is not stripped afterwards brings them",
                "No names of inlined functions of /e: no supplementary debug file ../e.dwz; ../e.dwz brings them",
            ]
        );
    }
}
