//! Flags of `symbols`.

use std::path::PathBuf;

use clap::Args;

use super::names::NameFlags;

/// Flags of `symbols`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Exit status:
  0  all is listed; with --fetch, the servers gave what is missing, or do not have it
  1  Mallow failed, or a server could not be asked
  2  the command line makes no sense

Environment:
  DEBUGINFOD_URLS        servers, separated by spaces, asked in this order: http:// by
                         mallow itself, https:// by debuginfod-find if it is installed
  DEBUGINFOD_CACHE_PATH  the cache; else $XDG_CACHE_HOME/debuginfod_client, else
                         ~/.cache/debuginfod_client
  DEBUGINFOD_TIMEOUT     seconds in which a server must send 100 kB; 90 by default
  DEBUGINFOD_MAXTIME     seconds that one file may take; 3600 by default
  DEBUGINFOD_MAXSIZE     bytes that one file may have; 4294967296 by default")]
pub struct SymbolsFlags {
    /// Download missing debug files
    ///
    /// Asks the servers of DEBUGINFOD_URLS for the debug files of the build-ids in the list, and keeps them in the
    /// cache that gdb, perf and other tools share. The next view uses them. Nothing else in mallow downloads anything.
    /// Default: list only. Example: DEBUGINFOD_URLS=https://debuginfod.debian.net mallow symbols --fetch
    #[arg(long)]
    pub fetch: bool,
    /// Write JSON
    ///
    /// For scripts: each file under `modules`, what was downloaded under `fetched`. Default: text.
    #[arg(long)]
    pub json: bool,
    /// Recording or profile to list the files of
    ///
    /// Default: the newest *.mallow in the current directory.
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Where names are.
    #[command(flatten)]
    pub names: NameFlags,
}
