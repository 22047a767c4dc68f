//! The arguments that a process shows once it runs: mysql wipes its password, servers write a title over them. What a
//! process has wiped is to be in no recording.
//!
//! The library notes them at an orderly exit. Until then mallow looks now and then, for processes that are killed or
//! end by `_exit`.

use crate::rundir::command_line;
use crate::rundir::process_file::{ExitState, ProcessFile};
use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

/// The longest pause between two looks.
const LONGEST: Duration = Duration::from_secs(10);

/// What an image has shown so far.
#[derive(Debug)]
pub struct ShownArguments {
    /// Arguments that the process file had when the image appeared.
    first: Vec<u8>,
    last: Vec<u8>,
    looked: Instant,
    pause: Duration,
}

impl ShownArguments {
    pub fn new(source: &ProcessFile) -> Self {
        let first = source.arguments_text();
        Self { last: first.clone(), first, looked: Instant::now(), pause: Duration::ZERO }
    }

    /// Arguments of a running process, where they changed. Pauses between two looks double: a look costs about 20 µs.
    pub fn census(&mut self, source: &ProcessFile) -> Option<Vec<String>> {
        if self.looked.elapsed() < self.pause {
            return None;
        }
        (self.looked, self.pause) = (Instant::now(), (2 * self.pause).clamp(Duration::from_millis(50), LONGEST));
        let mut text = Vec::new();
        let file = File::open(format!("/proc/{}/cmdline", source.pid_here())).ok()?;
        file.take(source.arguments_room() as u64).read_to_end(&mut text).ok()?;
        // Nothing is shown by a process that has ended. After an exec, the line is another image's: that is announced
        // before it.
        let is_shown = !text.is_empty() && source.exit_state() != ExitState::Exec && source.alive();
        if is_shown { self.changed(text) } else { None }
    }

    /// Arguments that an image had noted at its exit, where they have changed since the last look.
    pub fn at_end(&mut self, source: &ProcessFile) -> Option<Vec<String>> {
        let text = source.arguments_text();
        if text == self.first { None } else { self.changed(text) }
    }

    fn changed(&mut self, text: Vec<u8>) -> Option<Vec<String>> {
        if text == self.last {
            return None;
        }
        self.last = text;
        Some(command_line::texts(&self.last, true))
    }
}
