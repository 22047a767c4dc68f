//! The live view of `mallow watch`: a terminal that is given back however it ends.

mod chart;
mod draw;
mod fit;
mod help;
mod places;
mod state;
#[cfg(test)]
pub mod tests;

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::mem::ManuallyDrop;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode,
};
use ratatui::crossterm::{execute, queue};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

pub use state::{Request, State};

use crate::output::text::Look;

/// The terminal is in the view's hands.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal of this process, whatever its standard streams are.
fn tty() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/tty")
}

/// Gives the terminal back, once. A failure is ignored: it has no place to be reported.
fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = disable_raw_mode();
        if let Ok(mut tty) = tty() {
            let _ = execute!(tty, LeaveAlternateScreen, ratatui::crossterm::cursor::Show);
            let _ = tty.flush();
        }
    }
}

/// A terminal with the live view on it. Dropped, it is as it was before; so it is after a panic.
pub struct Screen {
    /// Never dropped: where the terminal is gone, ratatui's own drop prints that to standard error, which is gone as
    /// well, and panics. It has nothing to do after [`give_back`].
    terminal: ManuallyDrop<Terminal<CrosstermBackend<BufWriter<File>>>>,
    look: Look,
}

impl Screen {
    pub fn take(look: Look) -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                before(panic);
            }));
        });
        let mut tty = BufWriter::new(tty()?);
        enable_raw_mode()?;
        TAKEN.store(true, Ordering::SeqCst);
        let made = execute!(tty, EnterAlternateScreen).and_then(|()| Terminal::new(CrosstermBackend::new(tty)));
        let terminal = made.inspect_err(|_| give_back())?;
        Ok(Self { terminal: ManuallyDrop::new(terminal), look })
    }

    /// Draws what there is to show, as one update: a terminal that knows such updates (DEC private mode 2026) never
    /// shows half of it, and others ignore the marks.
    pub fn draw(&mut self, state: &mut State) -> io::Result<()> {
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        let drawn = self.terminal.draw(|frame| draw::draw(frame, state, &self.look)).map(drop);
        execute!(self.terminal.backend_mut(), EndSynchronizedUpdate)?;
        drawn
    }

    /// Waits for a key, at most so long. Other events than keys ask for nothing but a new drawing.
    pub fn wait(&mut self, state: &mut State, at_most: Duration) -> io::Result<Request> {
        // A terminal that hung up would be read for ever.
        if !wait_for_input(at_most)? {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the terminal is gone"));
        }
        match event::poll(Duration::ZERO) {
            Ok(false) => Ok(Request::Nothing),
            Ok(true) => match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => Ok(state.key(key)),
                _ => Ok(Request::Nothing),
            },
            // A signal came; who asked for it looks at it.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Request::Nothing),
            Err(error) => Err(error),
        }
    }
}

/// Waits for input, a signal or the time's end. False: the terminal hung up.
fn wait_for_input(at_most: Duration) -> io::Result<bool> {
    let input = rustix::stdio::stdin();
    let mut watched = [PollFd::new(&input, PollFlags::IN)];
    let at_most = Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: at_most.subsec_nanos().into() };
    match poll(&mut watched, Some(&at_most)) {
        Ok(_) => Ok(!watched[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)),
        Err(Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}
