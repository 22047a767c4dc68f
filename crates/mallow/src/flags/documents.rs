//! Flags of the commands that print what a shell and `man` want to know.

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
