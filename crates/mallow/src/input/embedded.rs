//! What a recording carries so that it can be read on another machine: names, and sources.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::{Duration, UNIX_EPOCH};

use mallow_capture::recording::{ReadError, SourceFile};
use mallow_symbols::SourceText;

/// Names and sources that are in the recording itself.
#[derive(Debug, Default)]
pub struct Embedded {
    /// Whether the recording carries its names.
    pub names: bool,
    /// Sources by name, read when they are first asked for.
    sources: OnceLock<Result<HashMap<String, SourceText>, ReadError>>,
}

impl Embedded {
    pub fn of(names: bool) -> Self {
        Self { names, ..Self::default() }
    }

    /// The text of a source file by its name, if the recording has it. `read` reads all of them, once.
    pub fn source(
        &self,
        file: &str,
        read: impl FnOnce() -> Result<Vec<SourceFile>, ReadError>,
    ) -> Result<Option<SourceText>, &ReadError> {
        let by_name = |sources: Vec<SourceFile>| sources.into_iter().map(|s| (s.name.clone(), text(s))).collect();
        let sources = self.sources.get_or_init(|| read().map(by_name)).as_ref()?;
        Ok(sources.get(file).cloned())
    }
}

fn text(source: SourceFile) -> SourceText {
    let written = UNIX_EPOCH.checked_add(Duration::from_millis(source.written_unix_ms)).unwrap_or(UNIX_EPOCH);
    let text = String::from_utf8_lossy(&source.text).into_owned();
    SourceText { path: source.path.into(), text, written }
}
