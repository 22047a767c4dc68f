//! `mallow pack`: puts names and sources into a recording, so that it says the same on any machine.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result, bail};
use mallow_capture::recording::{PackError, SourceFile};
use mallow_profile::{Profile, Quantity};
use mallow_symbols::{is_source_name, source_text};
use tempfile::NamedTempFile;

use crate::flags::PackFlags;
use crate::input::names::MissingNames;
use crate::input::recording::Recording;
use crate::output::destination;
use crate::output::text::units::{bytes, count, of};
use crate::output::{exit, stdio};

/// Packs, and says what is in it now and what is not.
pub fn run(flags: &PackFlags) -> Result<ExitCode> {
    let mut recording = Recording::read_with(&flags.file, &flags.names)?;
    recording.require(Quantity::Events, "only recordings of mallow can be packed")?;
    let had_names = recording.is_packed();
    let carried = recording.embedded_sources()?;
    let in_place = flags.output.is_none();
    if flags.no_arguments {
        recording.profile.remove_arguments();
    }
    if had_names && in_place && !flags.no_arguments && (carried.is_empty() || !flags.no_sources) {
        stdio::notify(&format!("{} is packed already", flags.file.display()));
        return Ok(exit::OK);
    }
    let sources = match (flags.no_sources, had_names) {
        (true, _) => Sources::default(),
        // What lies here may be of another version than what was recorded.
        (false, true) => Sources { found: carried, missing: 0 },
        (false, false) => Sources::of(&recording.profile, &flags.source_dir),
    };
    recording.keep_names();
    let to = flags.output.as_ref().unwrap_or(&flags.file);
    let packed = contents(&recording.profile, &sources);
    let length = write(&recording, sources, &flags.file, to)?;
    stdio::notify(&format!("packed {}: {packed}; {} in all", to.display(), bytes(length, false)));
    warn_of_missing_names(&recording);
    recording.warn_of_gaps();
    Ok(exit::OK)
}

/// Lists the files whose functions or source lines could not be packed.
pub fn warn_of_missing_names(recording: &Recording) {
    const SHOWN: usize = 4;
    let summaries = recording.names.lacking();
    let modules = summaries.iter().filter_map(|s| Some((recording.profile.modules.get(s.module.0 as usize)?, *s)));
    let lacking = MissingNames::all(modules);
    for file in lacking.iter().take(SHOWN) {
        stdio::notify(&file.line());
    }
    if lacking.len() > SHOWN {
        stdio::notify(&format!("{} more lack source lines", of((lacking.len() - SHOWN) as u64, "file")));
    }
}

/// `names of 12 functions, 3 source files (48.1 kB), 2 not found`.
pub fn contents(profile: &Profile, sources: &Sources) -> String {
    let functions: BTreeSet<_> =
        profile.frames.iter().flat_map(|frame| &frame.lines).map(|line| line.function).collect();
    let size = sources.found.iter().map(|source| source.text.len() as u64).sum();
    let files = match sources.found.len() as u64 {
        0 => "no sources".to_owned(),
        n => format!("{} ({})", of(n, "source file"), bytes(size, false)),
    };
    let missing = if sources.missing == 0 { String::new() } else { format!(", {} not found", count(sources.missing)) };
    format!("names of {}, {files}{missing}", of(functions.len() as u64, "function"))
}

/// The sources that a recording is to carry.
#[derive(Debug, Default)]
pub struct Sources {
    pub found: Vec<SourceFile>,
    /// Number of sources that could not be read.
    missing: u64,
}

impl Sources {
    /// The sources that the lines of frames name, as far as they are here. Debug information is data: what it names
    /// and is no source by its name is not taken along.
    pub fn of(profile: &Profile, directories: &[PathBuf]) -> Self {
        let lines = profile.frames.iter().flat_map(|frame| &frame.lines);
        let files: BTreeSet<_> = lines.filter_map(|line| Some(profile.strings.get(line.file?))).collect();
        let mut sources = Self::default();
        for name in files {
            match Some(name).filter(|name| is_source_name(name)).map(|name| source_text(name, directories)) {
                Some(Ok(found)) => sources.found.push(SourceFile {
                    name: name.to_owned(),
                    path: found.path.to_string_lossy().into_owned(),
                    written_unix_ms: found.written.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64),
                    text: found.text.into_bytes(),
                }),
                _ => sources.missing += 1,
            }
        }
        sources
    }
}

/// Writes beside the file and renames, so that there is the old one or the new one, whole.
fn write(recording: &Recording, sources: Sources, from: &Path, to: &Path) -> Result<u64> {
    destination::is_somewhere(to)?;
    // A link stays, and what it leads to is replaced.
    let place = fs::canonicalize(to).unwrap_or_else(|_| to.to_owned());
    let cannot = || format!("cannot write {}", to.display());
    match fs::metadata(&place) {
        Ok(there) if !there.is_file() => bail!("{}: it is no regular file", cannot()),
        _ => {}
    }
    let directory = match place.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mode = fs::metadata(from).with_context(cannot)?.permissions();
    let beside = tempfile::Builder::new().prefix(".mallow-pack-").tempfile_in(directory).with_context(cannot)?;
    let written = recording.pack(&mut sources.found.into_iter(), io::BufWriter::new(beside));
    let buffered = match written {
        Ok(buffered) => buffered,
        Err(PackError::Read(error)) => return Err(error).with_context(|| format!("cannot read {}", from.display())),
        Err(PackError::Write(error)) => return Err(error).with_context(cannot),
    };
    let beside: NamedTempFile = buffered.into_inner().map_err(io::IntoInnerError::into_error).with_context(cannot)?;
    let file: &File = beside.as_file();
    file.set_permissions(mode).with_context(cannot)?;
    // A disk may be found full only when what was written goes to it.
    file.sync_all().with_context(cannot)?;
    let length = file.metadata().with_context(cannot)?.len();
    beside.persist(&place).map_err(|error| error.error).with_context(cannot)?;
    Ok(length)
}
