//! `mallow view`: a page for the browser. A small server answers its requests by the views of the command line.

mod about;
mod api;
mod assets;
mod browser;
mod choices;
mod document_cache;
mod exported_file;
mod flame_document;
pub mod live;
mod live_words;
mod ranges;
mod rss_map_document;
mod subject;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use mallow_web::{Access, Limits, Listener, Misuse, Once, Request, Response, Server, Token};

use self::api::Api;
pub use self::exported_file::export;
use self::subject::PageSubject;
use crate::flags::PageFlags;
use crate::input::recording::Recording;
use crate::output::{exit, progress, stdio};

/// Interval at which the time without requests is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Page for a browser that has no valid token: mostly one that was open when an earlier mallow ended.
const DOOR: &str = include_str!("door.html");

/// Serves the page until nobody asks any more.
pub fn run(flags: &PageFlags) -> Result<ExitCode> {
    let path = Recording::path_or_newest(flags.file.as_deref())?;
    let subject = match &flags.after {
        None => PageSubject::open(&path, &flags.names)?,
        Some(after) => PageSubject::compare(&path, after, &flags.names)?,
    };
    let door = Door::open(flags)?;
    let api = Api::new(subject).with_reasons(&flags.reasons)?;
    let server = door.serve(flags, move |request| api.answer(request))?;
    while flags.idle.is_zero() || server.idle() < flags.idle {
        std::thread::sleep(LOOK);
    }
    server.stop();
    stdio::notify("nobody looked at the page any more: ended");
    Ok(exit::OK)
}

/// An address that is taken, before anything answers there.
pub struct Door(Listener);

impl Door {
    /// Binds the address that the flags name.
    pub fn open(flags: &PageFlags) -> Result<Self> {
        let wanted = SocketAddr::new(flags.listen, flags.port);
        let listener = Listener::bind(wanted).map_err(|error| match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                anyhow!("port {} is taken: choose another one, or leave --port out", flags.port)
            }
            _ => anyhow!("cannot listen on {wanted}: {error}"),
        })?;
        Ok(Self(listener))
    }

    /// Answers from here on, prints the address and opens the browser.
    fn serve(self, flags: &PageFlags, answer: impl Fn(&Request) -> Response + Send + Sync + 'static) -> Result<Server> {
        let bound = self.0.address().context("a server for browsers has an address")?;
        let tokens = "the kernel gives no random numbers";
        let random = || Token::random().context(tokens);
        let (token, opened) = (random()?, random()?);
        let once = Once::new(opened.clone(), random()?, |misuse| stdio::notify(&warning(misuse)));
        let cookie = format!("mallow-{}", bound.port());
        let access = Access::with_token(token.clone()).and_cookie(cookie).and_once(once).and_door(DOOR);
        let server = Server::start(self.0, access, Limits::default(), answer).context("cannot start the server")?;
        // From here on, whoever waits looks at the page.
        progress::turn_off();
        let at = reachable(bound);
        stdio::print(&format!("http://{at}/?token={}\n", token.text()))?;
        stdio::notify("Ctrl-C ends it");
        if !flags.no_browser
            && let Err(error) = browser::open(&format!("http://{at}/?token={}", opened.text()))
        {
            stdio::notify(&format!("{error:#}: open the address above in a browser"));
        }
        Ok(server)
    }
}

/// Warning about somebody who has the address that the browser was started with.
fn warning(misuse: Misuse) -> String {
    let was_refused =
        "had the address that the browser was started with, and was refused; command lines are readable by all users";
    match misuse {
        Misuse::Again => "the address that the browser was started with was used a second time: what the first one got ends now, as one of \
                          the two was not the browser; open the address above"
            .to_owned(),
        Misuse::OtherUser(uid) => format!("user {uid} of this machine {was_refused}"),
        Misuse::UnknownUser => format!("somebody {was_refused}; if that was your browser, open the address above"),
    }
}

/// The address that a browser of this machine asks, where the server listens on all of them.
fn reachable(bound: SocketAddr) -> SocketAddr {
    match bound {
        SocketAddr::V4(at) if at.ip().is_unspecified() => SocketAddr::from(([127, 0, 0, 1], at.port())),
        SocketAddr::V6(at) if at.ip().is_unspecified() => SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], at.port())),
        other => other,
    }
}
