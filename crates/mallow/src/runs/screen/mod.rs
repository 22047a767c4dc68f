//! The live view of `mallow watch`: a terminal that is given back however it ends.

mod draw;
mod state;
#[cfg(test)]
mod tests;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};

pub use state::{Request, State};

use crate::output::text::Look;

/// The terminal is in the view's hands.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal of this process, whatever its standard streams are.
fn tty() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/tty")
}

/// Gives the terminal back, once. Where that fails there is nobody to tell.
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
    terminal: Terminal<CrosstermBackend<File>>,
    look: Look,
}

impl Screen {
    /// Takes the terminal.
    pub fn take(look: Look) -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                before(panic);
            }));
        });
        let mut tty = tty()?;
        enable_raw_mode()?;
        TAKEN.store(true, Ordering::SeqCst);
        let made = execute!(tty, EnterAlternateScreen).and_then(|()| Terminal::new(CrosstermBackend::new(tty)));
        let terminal = made.inspect_err(|_| give_back())?;
        Ok(Self { terminal, look })
    }

    /// Draws what there is to show.
    pub fn draw(&mut self, state: &mut State) -> io::Result<()> {
        self.terminal.draw(|frame| draw::draw(frame, state, &self.look)).map(drop)
    }

    /// Waits for a key, at most so long. Other events than keys ask for nothing but a new drawing.
    pub fn wait(&mut self, state: &mut State, at_most: Duration) -> io::Result<Request> {
        match event::poll(at_most) {
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

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}
