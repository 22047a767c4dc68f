//! What was found for each module when names were looked up, and what is missing.

use std::fmt;
use std::path::PathBuf;

use crate::code::ModuleId;

/// The best that a module has to offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameSource {
    /// Debug information, of some of the frames at least: inlined functions and source lines.
    DebugInformation,
    /// A symbol table alone: functions without lines. Rebuilding with `-g` or the debug package brings lines.
    SymbolTable,
    /// Only the symbols that the dynamic linker needs: the file was stripped, its internal functions have no names, or
    /// the name of an exported neighbour is all there is.
    DynamicSymbols,
    /// A readable file without any symbols.
    Nothing,
    /// The file is no longer there, or may not be read. In words.
    FileGone(String),
    /// The file is not the one that was recorded: it was not used.
    BuildIdDiffers {
        /// The build-id of the file that is there now; empty where it has none.
        now: Vec<u8>,
    },
    /// The file was written after the recording, and no build-id shows whether it is the one that was recorded: it was
    /// not used.
    WrittenSince,
    /// The file is no ELF file that can be read. In words.
    Unreadable(String),
}

impl fmt::Display for NameSource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DebugInformation => out.write_str("debug information"),
            Self::SymbolTable => out.write_str("symbol table, no debug information"),
            Self::DynamicSymbols => out.write_str("dynamic symbols alone"),
            Self::Nothing => out.write_str("no symbols"),
            Self::FileGone(why) => write!(out, "not readable: {why}"),
            Self::BuildIdDiffers { now } if now.is_empty() => {
                out.write_str("not the file that was recorded: it has no build-id")
            }
            Self::BuildIdDiffers { now } => {
                out.write_str("not the file that was recorded: its build-id is ")?;
                now.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
            }
            Self::WrittenSince => out.write_str("written after the recording, and it has no build-id to know it by"),
            Self::Unreadable(why) => write!(out, "not readable: {why}"),
        }
    }
}

/// Something about a module that explains missing names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A separate debug file is named by the module, and none of the places has it.
    DebugFileMissing(PathBuf),
    /// A file at a debug file's place belongs to another build: it was not used.
    DebugFileDiffers(PathBuf),
    /// The debug information refers to a shared supplementary file that is not there: some names are missing.
    SupplementaryMissing(PathBuf),
    /// The debug information of some units is in a `.dwo` or `.dwp` file that is not there: their functions
    /// have the names of the symbol table, and no lines.
    SplitMissing(PathBuf),
    /// Debug information that makes no sense, or more than is reasonable. In words.
    Damaged(String),
}

impl fmt::Display for Note {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DebugFileMissing(path) => write!(out, "no debug file {}", path.display()),
            Self::DebugFileDiffers(path) => write!(out, "{} belongs to another build", path.display()),
            Self::SupplementaryMissing(path) => write!(out, "no supplementary debug file {}", path.display()),
            Self::SplitMissing(path) => write!(out, "no split debug file {}", path.display()),
            Self::Damaged(why) => write!(out, "damaged debug information: {why}"),
        }
    }
}

/// How far the frames of one module have names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleSummary {
    /// An index of the profile's modules.
    pub module: ModuleId,
    /// The best source of names that the module has.
    pub found: NameSource,
    /// The separate file that the debug information or the symbol table came from.
    pub debug_file: Option<PathBuf>,
    /// Why names may be missing. Each thing once.
    pub notes: Vec<Note>,
    /// Frames of the module that were asked for, those that had lines already included.
    pub frames: u32,
    /// Frames that have a function name, of those in `frames`.
    pub named: u32,
    /// Frames whose source file is known, of those in `frames`.
    pub located: u32,
    /// What would bring what is missing, in words; None where it was not asked for.
    pub remedy: Option<String>,
}

/// What looking up the names of a profile's frames found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Modules that frames were asked for of, in the order of their ids.
    pub modules: Vec<ModuleSummary>,
    /// Frames in no module: those of JITs.
    pub without_module: u32,
    /// Frames of `without_module` that have a name.
    pub without_module_named: u32,
}

impl Summary {
    /// Modules that lack something, those with the most unnamed frames first, then those with the most frames without a
    /// source file.
    pub fn lacking(&self) -> Vec<&ModuleSummary> {
        let mut lacking: Vec<_> = self.modules.iter().filter(|m| m.located < m.frames || !m.notes.is_empty()).collect();
        lacking.sort_by_key(|m| std::cmp::Reverse((m.frames - m.named, m.frames - m.located)));
        lacking
    }
}
