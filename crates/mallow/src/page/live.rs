//! The page of a process that is watched: the same views, of what is known of it now.
//!
//! Requests come on threads of the server. One that wants news leaves a question, and the watch answers it between two
//! looks. However many ask, that is once a second at the most, and a twentieth of the watch's time.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use mallow_profile::Profile;
use mallow_report::analysis::Watched;
use mallow_web::{Request, Response, Server};
use serde::Serialize;

use super::api::Api;
pub use super::live_words::LiveSentences;
use super::live_words::LiveWords;
use super::subject::PageSubject;
use super::{Door, assets};
use crate::flags::PageFlags;
use crate::input::recording::Recording;
use crate::output::{json, stdio};

/// A look is fresh for this time, and for [`SHARE`] times as long as it took.
const FRESH: Duration = Duration::from_secs(1);
const SHARE: u32 = 20;
/// Time that a request waits for the watch, which may look up names of a large program.
const PATIENCE: Duration = Duration::from_secs(30);
/// Points of RSS over time; with more, every other one goes.
const POINTS: usize = 480;

/// State of a watch at one moment.
pub struct LiveLook {
    /// Report of all that is live.
    pub report: Watched,
    /// The finding, as a sentence.
    pub headline: String,
    /// Sentences of the terminal beside the headline.
    pub sentences: LiveSentences,
    /// Live bytes over time, with milliseconds since the watching began.
    pub history: Vec<(u64, u64)>,
    /// Profile of the look's blocks. Its frames have their names.
    pub profile: Profile,
}

/// A request for a look, and where the look goes.
pub struct Question(SyncSender<Box<LiveLook>>);

impl Question {
    /// Answers it. Whoever asked may have left.
    pub fn answer(self, look: LiveLook) {
        let _ = self.0.try_send(Box::new(look));
    }
}

/// The watch's side of the page. The server ends when it is dropped.
pub struct LivePage {
    questions: Receiver<Question>,
    idle: Duration,
    server: Server,
}

impl LivePage {
    /// Answers from here on, of this process.
    pub fn serve(door: Door, flags: &PageFlags, pid: u32) -> Result<Self> {
        let (asking, questions) = channel();
        let api = LiveApi { pid, asking: Mutex::new(asking), newest: Mutex::default() };
        let server = door.serve(flags, move |request| api.answer(request))?;
        Ok(Self { questions, idle: flags.idle, server })
    }

    /// Questions since the last look.
    pub fn take(&self) -> Vec<Question> {
        self.questions.try_iter().collect()
    }

    /// Whether nobody has asked for so long that nobody will, which is reported.
    pub fn is_abandoned(&self) -> bool {
        let abandoned = !self.idle.is_zero() && self.server.idle() >= self.idle;
        if abandoned {
            stdio::notify("nobody looked at the page any more");
        }
        abandoned
    }
}

struct LiveApi {
    pid: u32,
    asking: Mutex<Sender<Question>>,
    newest: Mutex<Option<Newest>>,
}

/// The latest look, ready for requests.
struct Newest {
    at: Instant,
    took: Duration,
    api: Arc<Api>,
    document: Arc<str>,
    rss: Vec<(u64, u64)>,
}

/// Answer of `/api/live`: the report of `mallow watch --json`, without its sites, its estimates in words, and the
/// series that the page draws.
#[derive(Serialize)]
struct LiveDocument<'a> {
    headline: &'a str,
    sentences: &'a LiveSentences,
    history: &'a [(u64, u64)],
    rss: &'a [(u64, u64)],
    report: &'a Watched,
    words: LiveWords,
}

impl LiveApi {
    fn answer(&self, request: &Request) -> Response {
        if let Some(asset) = assets::answer(request) {
            return asset;
        }
        match request.path() {
            "/api/live" => match self.newest(true) {
                Ok((_, document)) => Response::json(document.to_string()),
                Err(error) => Response::error(503, &format!("{error:#}")),
            },
            _ => match self.newest(false) {
                Ok((api, _)) => api.answer(request),
                Err(error) => Response::error(503, &format!("{error:#}")),
            },
        }
    }

    /// The latest look and its document. `fresh`: a new look, if the latest is old; views of one page are of one look.
    /// Others wait meanwhile.
    fn newest(&self, fresh: bool) -> Result<(Arc<Api>, Arc<str>)> {
        let mut kept = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let old = |newest: &Newest| fresh && newest.at.elapsed() >= FRESH.max(newest.took * SHARE);
        if let Some(newest) = kept.as_ref().filter(|newest| !old(newest)) {
            return Ok((Arc::clone(&newest.api), Arc::clone(&newest.document)));
        }
        let began = Instant::now();
        let rss = kept.as_ref().map(|newest| newest.rss.clone()).unwrap_or_default();
        let made = self.made(*self.look()?, rss, began)?;
        let newest = kept.insert(made);
        Ok((Arc::clone(&newest.api), Arc::clone(&newest.document)))
    }

    fn look(&self) -> Result<Box<LiveLook>> {
        let (reply, answer) = sync_channel(1);
        let asked = self.asking.lock().unwrap_or_else(PoisonError::into_inner).send(Question(reply));
        asked.map_err(|_| anyhow!("the watch has ended"))?;
        answer.recv_timeout(PATIENCE).map_err(|_| anyhow!("the watch is busy, or has ended"))
    }

    fn made(&self, look: LiveLook, mut rss: Vec<(u64, u64)>, began: Instant) -> Result<Newest> {
        let LiveLook { mut report, headline, sentences, history, profile } = look;
        if let Some(memory) = &report.memory {
            rss.push((report.watched_ms, memory.rss));
        }
        if rss.len() > POINTS {
            rss = thinned(&rss);
        }
        // The flame graph and the tables have them.
        report.sites.clear();
        let words = LiveWords::of(&report);
        let document = json::data(&LiveDocument {
            headline: &headline,
            sentences: &sentences,
            history: &history,
            rss: &rss,
            report: &report,
            words,
        })?;
        let recording = Recording::named(profile, Default::default()).at(Path::new(&format!("process {}", self.pid)));
        let api = Arc::new(Api::of_process(PageSubject::of_recording(recording), self.pid));
        Ok(Newest { at: Instant::now(), took: began.elapsed(), api, document: document.into(), rss })
    }
}

/// Every other point, and the latest one.
fn thinned(points: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let last = points.len().saturating_sub(1);
    points.iter().enumerate().filter(|(at, _)| at % 2 == last % 2).map(|(_, point)| *point).collect()
}

#[cfg(test)]
mod tests {
    use super::thinned;

    #[test]
    fn thinning_keeps_the_latest_point() {
        let points: Vec<(u64, u64)> = (0..7).map(|at| (at, 10 * at)).collect();
        assert_eq!(thinned(&points), [(0, 0), (2, 20), (4, 40), (6, 60)]);
        assert_eq!(thinned(&points[..6]), [(1, 10), (3, 30), (5, 50)]);
        assert_eq!(thinned(&[]), []);
    }
}
