//! Flags of the commands that print what a shell and `man` want to know.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Flags of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsFlags {
    /// The shell
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
    /// Write all pages into the directory DIR
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub into: Option<PathBuf>,
    /// The command that the page is about [default: mallow as a whole]
    #[arg(value_name = "COMMAND")]
    pub command: Option<String>,
}
