//! Flags of the commands that print what a shell, `man`, and readers of commands and documents want to know.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Flags of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsFlags {
    /// Shell to complete for
    ///
    /// The script goes to standard output. make install puts the scripts where shells look for them.
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: Shell,
}

/// A shell whose completions can be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// source <(mallow completions bash)
    Bash,
    /// mallow completions zsh > DIR/_mallow, where DIR is in $fpath
    Zsh,
    /// mallow completions fish | source
    Fish,
}

/// Flags of `man`.
#[derive(Debug, Args)]
pub struct ManFlags {
    /// Write all pages into this directory
    ///
    /// For man without make install: one file for each command. Default: one page, on standard output. Example:
    /// --into ~/.local/share/man/man1.
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub into: Option<PathBuf>,
    /// Command that the page describes
    ///
    /// Default: mallow as a whole. Example: mallow man record | man -l -.
    #[arg(value_name = "COMMAND")]
    pub command: Option<String>,
}

/// Flags of `help`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP_EXAMPLES)]
pub struct HelpFlags {
    /// Command; or json, with a document's name or without
    ///
    /// json lists the documents that --json prints, json NAME prints the JSON Schema of one: each field with its
    /// meaning, and the unit of each number. Default: mallow as a whole.
    #[arg(value_name = "COMMAND")]
    pub words: Vec<String>,
    /// Write all schemas into this directory
    ///
    /// With json: one file for each document, NAME.json. make install puts them into share/mallow/schemas. Example:
    /// --into schemas.
    #[arg(long, value_name = "DIR")]
    pub into: Option<PathBuf>,
}

const HELP_EXAMPLES: &str = "\
Examples:
  mallow help record             print the help of mallow record
  mallow help json               list the documents that --json prints
  mallow help json report        print the JSON Schema of mallow report --json";
