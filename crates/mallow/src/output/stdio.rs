//! Standard output and standard error.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use unicode_width::UnicodeWidthStr;

use super::text::{Line, Look, Page, Stream, clean};

/// A signal asked mallow to end, and a handler keeps it from ending by that alone.
static ENDING: AtomicBool = AtomicBool::new(false);
/// Nobody read for [`GRACE`] after that.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);
/// Time for which a pipe may be full while mallow is about to end.
const GRACE: Duration = Duration::from_millis(500);
/// Interval of looks at a full pipe.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// A pipe that takes anything takes so much without waiting.
const PART: usize = 4096;

/// Mallow is about to end: from here on it waits for no reader. A signal handler may call this.
pub fn end_soon() {
    ENDING.store(true, Ordering::Relaxed);
}

/// Writes to standard output. A reader that has seen enough (`mallow report | head`) is no failure.
pub fn print(text: &str) -> Result<()> {
    let out = io::stdout().lock();
    allow_closed_pipe(write(out.as_fd(), text.as_bytes()))
}

/// Writes all of it, without a wait that no signal ends: a handler with which system calls go on would leave mallow in
/// a write to a pipe that nobody reads.
fn write(to: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    let mut full_since = None;
    while !bytes.is_empty() {
        match poll(&mut [PollFd::new(&to, PollFlags::OUT)], Some(&LOOK)) {
            Ok(0) | Err(Errno::INTR) if ENDING.load(Ordering::Relaxed) => {
                let since = *full_since.get_or_insert_with(Instant::now);
                if GIVEN_UP.load(Ordering::Relaxed) || since.elapsed() >= GRACE {
                    GIVEN_UP.store(true, Ordering::Relaxed);
                    return Err(io::Error::new(ErrorKind::TimedOut, "nobody reads it"));
                }
            }
            Ok(0) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => match rustix::io::write(to, &bytes[..bytes.len().min(PART)]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => (bytes, full_since) = (&bytes[written..], None),
                Err(Errno::INTR | Errno::AGAIN) => {}
                // As the standard library has it: a closed descriptor takes everything.
                Err(Errno::BADF) => return Ok(()),
                Err(error) => return Err(error.into()),
            },
        }
    }
    Ok(())
}

/// Result of writing to standard output, in which a closed pipe is no error.
pub fn allow_closed_pipe(result: std::io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::TimedOut => Err(error).context("cannot write to standard output"),
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output; is the disk full?")
        }
        _ => Ok(()),
    }
}

/// Says something on standard error, whatever a file's name or a target put into it: in one line, or on a terminal in
/// as many as it needs. Where standard error is closed, the message is lost.
pub fn notify(text: &str) {
    write_error(&message(text, Look::of(Stream::Err).width));
}

/// Broken between words. Where one of them is wider than the terminal, nothing is: it may be a path that somebody
/// copies.
fn message(text: &str, width: Option<usize>) -> String {
    let text = format!("mallow: {}", clean(text));
    let width = width.filter(|&width| text.split(' ').all(|word| word.width() <= width));
    let mut page = Page::new(Look { width, ..Look::default() });
    page.sentence(Line::new().plain(text));
    page.into_text()
}

/// Writes text to standard error, where it belongs beside a command's own output. As with [`notify`], an error is
/// ignored.
pub fn write_error(text: &str) {
    let err = io::stderr().lock();
    let _ = write(err.as_fd(), text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::message;

    #[test]
    fn messages_are_broken_between_words_where_the_terminal_ends() {
        assert_eq!(message("one two three", None), "mallow: one two three\n");
        assert_eq!(message("one two three", Some(40)), "mallow: one two three\n");
        assert_eq!(message("one two three", Some(15)), "mallow: one two\nthree\n");
        // Whatever is too long for a line is not cut.
        assert_eq!(
            message("cannot read /a/long/path/to/it now", Some(12)),
            "mallow: cannot read /a/long/path/to/it now\n"
        );
        assert_eq!(message("two\nlines", Some(40)).lines().count(), 1);
    }
}
