//! What a recording knows of its run before the first event.

use mallow_profile::command_word;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub command: Vec<String>,
    /// Wall clock at the start, milliseconds since 1970 UTC.
    pub started_unix_ms: u64,
}

impl Options {
    /// The options that the opening of a recording holds: of the command, only the first word. The other arguments
    /// follow at the end, as the process shows them then.
    pub fn opening(&self) -> Self {
        let word = self.command.first().map(|first| command_word(first, []).to_owned());
        Self { command: word.into_iter().collect(), ..*self }
    }
}
