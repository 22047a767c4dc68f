//! Why the Go tool gave no answer, in one line.

use std::io;
use std::path::PathBuf;

/// Why the Go tool gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum GoError {
    #[error("go is not found in PATH; install Go, or put its bin directory into PATH")]
    Missing,
    #[error("cannot run go: {0}")]
    Start(#[source] io::Error),
    /// The version of Go makes no sense.
    #[error("cannot make out the version of Go: {0:?}")]
    Version(String),
    #[error("{0} is too old: Go 1.22 or later is needed")]
    Old(String),
    #[error("this go builds for {0}; Mallow reads code of linux/amd64 alone (GOOS, GOARCH)")]
    Platform(String),
    /// An answer of Go is not what was asked for.
    #[error("cannot read the answer of {0}: {1}")]
    Answer(&'static str, String),
    /// Go exits with an error.
    #[error("{verb}: {first}{}", and(*.more))]
    Says {
        /// The command: `go list`, for instance.
        verb: String,
        /// First line of the error output.
        first: String,
        /// Number of lines behind the first.
        more: usize,
    },
    #[error("{package} does not compile: {first}{}", and(*.more))]
    DoesNotCompile {
        package: String,
        /// First line of the compiler's errors.
        first: String,
        /// Number of lines behind the first.
        more: usize,
    },
    #[error("no package matches {0}")]
    NoPackage(String),
    #[error("{package}: {what}")]
    Failed {
        /// Import path of the package.
        package: String,
        what: String,
    },
    #[error("cannot use the cache {0}: {1}")]
    Cache(PathBuf, #[source] io::Error),
    #[error("no cache directory: neither XDG_CACHE_HOME nor HOME is set to an absolute path")]
    NoHome,
}

fn and(lines: usize) -> String {
    match lines {
        0 => String::new(),
        1 => " (and 1 more line)".to_owned(),
        n => format!(" (and {n} more lines)"),
    }
}

/// The first line that is neither empty nor a package header, and how many such lines follow.
fn summarize(said: &[u8]) -> (String, usize) {
    let text = String::from_utf8_lossy(said);
    let mut lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty() && !line.starts_with("# "));
    let first = lines.next().unwrap_or("it failed without a word").trim_start().to_owned();
    (first, lines.count())
}

impl GoError {
    pub(super) fn says(verb: &str, said: &[u8]) -> Self {
        let (first, more) = summarize(said);
        Self::Says { verb: verb.to_owned(), first, more }
    }

    pub(super) fn does_not_compile(package: &str, said: &[u8]) -> Self {
        let (first, more) = summarize(said);
        Self::DoesNotCompile { package: package.to_owned(), first, more }
    }
}

#[cfg(test)]
mod tests {
    use super::GoError;

    #[test]
    fn what_go_says_is_one_line() {
        let said = b"# example.com/a [example.com/a.test]\n./a.go:3:2: undefined: x\n./a.go:4:2: undefined: y\n\n";
        assert_eq!(
            GoError::does_not_compile("example.com/a", said).to_string(),
            "example.com/a does not compile: ./a.go:3:2: undefined: x (and 1 more line)"
        );
        assert_eq!(GoError::says("go list", b"").to_string(), "go list: it failed without a word");
    }
}
