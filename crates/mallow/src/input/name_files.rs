//! Where names are read from, by the flags.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use mallow_symbols::{Given, Options};

use crate::flags::NameFlags;
use crate::output::stdio;

pub fn options(flags: &NameFlags) -> Result<Options> {
    if flags.binary.is_empty() && flags.symfs.is_none() {
        return Ok(Options::default());
    }
    let given = Given::new(&flags.binary, flags.symfs.as_deref())
        .map_err(|(path, error)| anyhow!("cannot read names from {}: {error}", path.display()))?;
    let mut options = Options::default();
    if let Some(symfs) = &flags.symfs {
        options.debug_directories.insert(0, symfs.join("usr/lib/debug"));
    }
    Ok(Options { given: Some(Arc::new(given)), ..options })
}

/// Says which of the files were of no use for this profile.
pub fn warn_of_unused(options: &Options, file: &Path) {
    for path in options.given.iter().flat_map(|given| given.unused()) {
        let whose = if path.is_dir() { "a file below it" } else { "it" };
        stdio::notify(&format!("--binary {}: {} has no call path through {whose}", path.display(), file.display()));
    }
}
