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
    /// Run benchmarks, and show every line that allocates, what, how much, and why
    Bench(GoBenchFlags),
    /// Show all that is known of one place: what is allocated there, the whole way to the heap, the source
    Why(GoWhyFlags),
    /// Show every line that allocates in a heap profile that is there already, of a server too, and why
    Profile(GoProfileFlags),
    /// Show every allocation in the heap that the compiler sees, and why; and which ones are new
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
