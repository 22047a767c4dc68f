//! How text is to look on the stream that it goes to.

use std::io::IsTerminal;

use rustix::termios::tcgetwinsize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Out,
    Err,
}

/// Form of text. The default is for pipes and files: lines of any length, without colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Columns of the terminal. None: lines are as long as they are.
    pub width: Option<usize>,
    pub height: Option<usize>,
    /// Whether colours and weights are used.
    pub colour: bool,
    /// Draw with letters and signs of ASCII alone.
    pub ascii: bool,
    /// Whether bytes are printed to the last digit.
    pub exact: bool,
    /// Whether names and paths are whole.
    pub full_names: bool,
    /// Places have their modules beside their lines: they are of several programs.
    pub modules: bool,
}

impl Look {
    /// The form for a stream: widths and colours are for terminals alone, and colours not where NO_COLOR is set (to
    /// anything but the empty string) or the terminal is a dumb one. Drawings are in ASCII where the locale's
    /// characters are not those of Unicode.
    pub fn of(stream: Stream) -> Self {
        let size = match stream {
            Stream::Out if std::io::stdout().is_terminal() => tcgetwinsize(std::io::stdout()),
            Stream::Err if std::io::stderr().is_terminal() => tcgetwinsize(std::io::stderr()),
            _ => return Self { ascii: ascii(), ..Self::default() },
        };
        let (width, height) = size.map_or((0, 0), |s| (usize::from(s.ws_col), usize::from(s.ws_row)));
        let set = |name| std::env::var_os(name).is_some_and(|v| !v.is_empty());
        let dumb = std::env::var_os("TERM").is_none_or(|t| t == "dumb");
        Self {
            // A terminal that does not know its size has 0: no line can be cut for it.
            width: (width > 0).then_some(width.max(40)),
            height: (height > 0).then_some(height),
            colour: !set("NO_COLOR") && !dumb,
            ascii: ascii(),
            exact: false,
            full_names: false,
            modules: false,
        }
    }
}

/// Whether the locale's characters are not Unicode's, by the first of the C library's variables that is set.
fn ascii() -> bool {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let locale = names.iter().filter_map(std::env::var_os).find(|value| !value.is_empty());
    let locale = locale.map_or(String::new(), |l| l.to_string_lossy().to_lowercase());
    !locale.contains("utf-8") && !locale.contains("utf8")
}
