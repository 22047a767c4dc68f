//! What a recording knows of its run before the first event.

use mallow_profile::command_word;

/// What is known before the first chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The command line that is recorded.
    pub command: Vec<String>,
    /// Wall clock at the start, milliseconds since 1970 UTC.
    pub started_unix_ms: u64,
}

impl Options {
    /// What the opening of a recording has of them: of the command, its first word. The others follow at the end, as
    /// its process shows them then.
    pub fn opening(&self) -> Self {
        let word = self.command.first().map(|first| command_word(first, []).to_owned());
        Self { command: word.into_iter().collect(), ..*self }
    }
}
