//! `mallow help`: the help of a command, the documents of `--json`, and their schemas.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::flags::{Flags, HelpFlags};
use crate::output::exit::UsageError;
use crate::output::{exit, stdio};
use crate::schemas;

/// Prints what the words name, or writes all schemas into a directory.
pub fn run(flags: &HelpFlags) -> Result<ExitCode> {
    let words: Vec<&str> = flags.words.iter().map(String::as_str).collect();
    match (words.as_slice(), &flags.into) {
        (["json"], Some(directory)) => {
            std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
            for (name, schema) in schemas::all()? {
                let path = directory.join(format!("{name}.json"));
                std::fs::write(&path, schema).with_context(|| format!("cannot write {}", path.display()))?;
            }
        }
        (_, Some(_)) => bail!(UsageError("--into is for all schemas: mallow help json --into DIR".to_owned())),
        (["json"], None) => stdio::print(&schemas::list())?,
        (["json", name], None) => match schemas::of(name)? {
            Some(schema) => stdio::print(&schema)?,
            None => bail!(UsageError(format!("there is no document {name}; mallow help json lists them"))),
        },
        (["json", _, more, ..], None) => bail!(UsageError(format!("a document has one name; {more} is too many"))),
        _ => Flags::print_help(&flags.words).map_err(|word| {
            UsageError(format!("there is no command {word}; mallow --help lists them, and mallow help json documents"))
        })?,
    }
    Ok(exit::OK)
}
