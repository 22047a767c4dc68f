//! Flags of `mallow go`.

use std::ffi::OsString;

use clap::{Args, Subcommand};

use super::go_bench::{GoBenchFlags, GoProfileFlags, GoWhyFlags};
use super::go_escape::GoEscapeFlags;

/// Flags of `go`.
#[derive(Debug, Args)]
pub struct GoFlags {
    /// What to do.
    #[command(subcommand)]
    pub command: GoCommand,
}

/// What to do with a Go program.
#[derive(Debug, Subcommand)]
pub enum GoCommand {
    /// Run benchmarks and explain each line that allocates
    Bench(GoBenchFlags),
    /// Explain one line or function: allocations, path to the heap
    Why(GoWhyFlags),
    /// Explain the lines of an existing heap profile
    Profile(GoProfileFlags),
    /// Show what escapes to the heap, and what is new
    Escape(GoEscapeFlags),
}

/// Flags that the Go tool knows with one dash, which is how its users write them.
const GOS: [&str; 5] = ["bench", "benchtime", "count", "tags", "json"];

/// The command line, with two dashes before flags of Go's where it is `mallow go …`.
pub fn as_written(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut all: Vec<OsString> = arguments.collect();
    if all.get(1).is_none_or(|command| command != "go") {
        return all;
    }
    for argument in all.iter_mut().skip(2) {
        let Some(text) = argument.to_str() else { continue };
        if text == "--" {
            break;
        }
        let Some(flag) = text.strip_prefix('-') else { continue };
        let name = flag.split('=').next().unwrap_or_default();
        if GOS.contains(&name) {
            *argument = OsString::from(format!("-{text}"));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::as_written;

    #[test]
    fn flags_are_written_as_go_has_them() {
        let read = |text: &str| {
            let all = as_written(text.split(' ').map(OsString::from));
            all.join(&OsString::from(" ")).into_string().expect("text")
        };
        for (written, is) in [
            ("mallow go bench . -bench X -count=5 --json", "mallow go bench . --bench X --count=5 --json"),
            ("mallow go escape -v -tags=a", "mallow go escape -v --tags=a"),
            ("mallow go bench -bench -- -count", "mallow go bench --bench -- -count"),
            ("mallow record prog -bench", "mallow record prog -bench"),
            ("mallow go bench -other", "mallow go bench -other"),
        ] {
            assert_eq!(read(written), is);
        }
    }
}
