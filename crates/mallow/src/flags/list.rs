//! Flags of `list`.

use std::path::PathBuf;

use clap::Args;
use mallow_report::analysis::Pattern;

use super::base::BaseFlags;
use super::go_reasons::GoReasonsFlags;
use super::views::{By, RowFlags};

/// Flags of `list`.
#[derive(Debug, Args)]
pub struct ListFlags {
    /// Measure to sort by and show
    ///
    /// Default: allocations, or the first measure that the profile of another tool has. Example: --by peak.
    #[arg(long, value_enum)]
    pub by: Option<By>,
    /// Show machine code instead of sources
    ///
    /// Each instruction that allocates, or that calls a function that does, with its numbers. Default: source lines.
    #[arg(long, conflicts_with_all = ["base", "go_reasons"])]
    pub asm: bool,
    /// Show library frames as functions
    ///
    /// Allocating functions and containers are listed themselves. Default: they are part of their callers.
    #[arg(long)]
    pub raw: bool,
    /// Directories to search for sources
    ///
    /// For sources that are not where the compiler saw them: the longest end of their path that exists below DIR is
    /// taken. May be given several times. Default: the paths of the debug information. Example: --source-path
    /// ~/src/program.
    #[arg(long, alias = "source-dir", value_name = "DIR[:DIR]", value_delimiter = ':')]
    pub source_path: Vec<PathBuf>,
    /// Replace the start of source paths
    ///
    /// Paths that begin with FROM are read below TO. May be given several times. Default: none. Example: --source-map
    /// /build=/home/me/src.
    #[arg(long, value_name = "FROM=TO", value_parser = SourceMap::parse)]
    pub source_map: Vec<SourceMap>,
    /// Functions to show
    ///
    /// A regular expression on their names. Example: mallow list 'Parser::'.
    #[arg(value_name = "REGEX")]
    pub regex: Pattern,
    /// Reasons beside Go lines.
    #[command(flatten)]
    pub reasons: GoReasonsFlags,
    /// What to show, and how.
    #[command(flatten)]
    pub rows: RowFlags,
    /// What it is compared with.
    #[command(flatten)]
    pub base: BaseFlags,
}

/// A directory that sources were in, and the one that they are in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceMap {
    from: String,
    to: PathBuf,
}

impl SourceMap {
    fn parse(text: &str) -> Result<Self, String> {
        let (from, to) = text.split_once('=').ok_or("it has no '=': FROM=TO")?;
        let to = std::path::absolute(to).map_err(|error| format!("{to:?}: {error}"))?;
        Ok(Self { from: from.trim_end_matches('/').to_owned(), to })
    }

    /// The path of a source, where it begins with the directory that is meant.
    pub fn apply(&self, path: &str) -> Option<PathBuf> {
        let rest = path.strip_prefix(self.from.as_str())?;
        if rest.is_empty() { Some(self.to.clone()) } else { Some(self.to.join(rest.strip_prefix('/')?)) }
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::SourceMap;

    #[test]
    fn whole_directories_are_mapped() {
        let map = |text: &str, path: &str| SourceMap::parse(text).expect("a map").apply(path);
        let is = |path: &str| Some(PathBuf::from(path));
        assert_eq!(map("/build=/src", "/build/a/b.c"), is("/src/a/b.c"));
        assert_eq!(map("/build/=/src/", "/build/b.c"), is("/src/b.c"));
        assert_eq!(map("/build/b.c=/src/c.c", "/build/b.c"), is("/src/c.c"));
        assert_eq!(map("/build=/src", "/builder/b.c"), None);
        assert_eq!(map(".=/src", "./b.c"), is("/src/b.c"));
        assert_eq!(map("=/old", "/b.c"), is("/old/b.c"));
        let here = std::env::current_dir().expect("here");
        assert_eq!(map("/build=sub", "/build/b.c"), Some(here.join(Path::new("sub/b.c"))));
        assert!(SourceMap::parse("/build").is_err_and(|why| why.contains("FROM=TO")));
    }
}
