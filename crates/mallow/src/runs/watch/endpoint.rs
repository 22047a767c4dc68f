//! Answers to scrapers: requests come on threads of the server, and the watch answers their questions between two
//! looks.
//!
//! A document is made once a second at the most, however many ask for it, so that scrapers cost the watch a bounded
//! share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use mallow_fleet::{Document, Measurement, heap, heap_text, metrics};
use mallow_profile::{Profile, program_name};
use mallow_report::analysis::sampled::SampleLedger;
use mallow_report::analysis::{ProgramProfiles, Watched, merge_moments};
use mallow_web::{Access, Limits, Listener, Request, Response, Server, Token};

use crate::flags::{ListenAddress, ListenFlags};

/// A document stays for so long, and for so many times as long as making it took.
const FRESH: Duration = Duration::from_secs(1);
const SHARE: u32 = 20;
/// Time that a request waits for the watch, which may look up names of a large program.
const PATIENCE: Duration = Duration::from_secs(30);
/// A watch that has not looked for so long is not well.
const LONGEST_LOOK_MS: u64 = 30_000;
/// Differences that wait at one time; each holds a profile.
const DELTAS: u64 = 4;
const WORKERS: usize = 8;
const CONNECTIONS: usize = 64;

/// Subject of a question to the watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrapeSubject {
    Metrics,
    /// The profile, with names.
    Profile,
    /// Profiles of one of two moments, by program.
    Moment,
}

pub enum Answer {
    /// The text in Prometheus' format.
    Metrics(String),
    Profile(Box<Profile>),
    /// Profiles of many programs.
    Moment(ProgramProfiles),
}

/// A question, and where its answer goes.
pub struct Question {
    pub subject: ScrapeSubject,
    reply: SyncSender<Answer>,
}

impl Question {
    /// Answers it. Whoever asked may have left.
    pub fn answer(self, answer: Answer) {
        let _ = self.reply.try_send(answer);
    }
}

/// A bound address, before anything answers there.
pub struct Doorway {
    listener: Listener,
    access: Access,
    address: ListenAddress,
}

/// The watch's side of the endpoint. Requests end when it is dropped.
pub struct Endpoint {
    questions: Receiver<Question>,
    shared: Arc<Shared>,
    /// URL that is printed: `http://…`, or `unix:` with a path.
    pub address: String,
    /// Allocations and their bytes in the latest numbers.
    counted: (u64, u64),
    _server: Server,
}

struct Shared {
    began: Instant,
    looked_ms: AtomicU64,
    deltas: AtomicU64,
    asking: Mutex<Sender<Question>>,
    names: bool,
    /// Documents of live blocks, allocations, text and metrics, in this order.
    documents: [Mutex<Option<Made>>; 4],
}

struct Made {
    at: Instant,
    took: Duration,
    body: Vec<u8>,
}

impl Doorway {
    /// Takes the address that the flags name, before a command is started.
    pub fn open(flags: &ListenFlags) -> Result<Option<Self>> {
        let Some(address) = &flags.listen else { return Ok(None) };
        let access = match &flags.token {
            None => Access::open(),
            Some(file) => {
                let text = std::fs::read_to_string(file)
                    .with_context(|| format!("cannot read the token in {}", file.display()))?;
                Access::with_token(Token::parse(text.trim()).map_err(|what| anyhow!("{}: {what}", file.display()))?)
            }
        };
        let listener = match address {
            ListenAddress::File(path) => Listener::bind_file(path),
            ListenAddress::Tcp(tcp) => {
                if !tcp.ip().to_canonical().is_loopback() && !flags.listen_publicly {
                    bail!("other machines can reach {tcp}: --listen-publicly allows that, and needs --token FILE");
                }
                Listener::bind(*tcp)
            }
        };
        let name = match address {
            ListenAddress::File(path) => path.display().to_string(),
            ListenAddress::Tcp(tcp) => tcp.to_string(),
        };
        let listener = listener.with_context(|| format!("cannot listen on {name}"))?;
        Ok(Some(Self { listener, access, address: address.clone() }))
    }

    /// Starts to answer requests. `names`: profiles have names of functions.
    pub fn serve(self, names: bool) -> Result<Endpoint> {
        let (asking, questions) = channel();
        let shared = Arc::new(Shared {
            began: Instant::now(),
            looked_ms: AtomicU64::new(0),
            deltas: AtomicU64::new(0),
            asking: Mutex::new(asking),
            names,
            documents: Default::default(),
        });
        let limits = Limits { connections: CONNECTIONS, workers: WORKERS, ..Limits::default() };
        let answering = Arc::clone(&shared);
        let server = Server::start(self.listener, self.access, limits, move |request| answering.respond(request))
            .context("cannot answer scrapers")?;
        let address = match (server.address(), &self.address) {
            (Some(tcp), _) => format!("http://{tcp}"),
            (None, ListenAddress::File(path)) => format!("unix:{}", path.display()),
            (None, ListenAddress::Tcp(tcp)) => format!("http://{tcp}"),
        };
        Ok(Endpoint { questions, shared, address, counted: (0, 0), _server: server })
    }
}

impl Endpoint {
    /// Questions since the last look. Notes that the watch is well.
    pub fn take(&self) -> Vec<Question> {
        self.shared.looked_ms.store(self.shared.age_ms(), Ordering::Relaxed);
        self.questions.try_iter().collect()
    }

    /// The numbers of a report. A counter never becomes less: sums of the same numbers in another order may differ in
    /// their last digit.
    pub fn metrics(&mut self, report: &Watched, ledger: &SampleLedger) -> String {
        let (allocations, allocated_bytes) = ledger.allocated();
        self.counted.0 = self.counted.0.max(allocations.value as u64);
        self.counted.1 = self.counted.1.max(allocated_bytes.value as u64);
        metrics::metrics(&Measurement {
            report,
            allocations: self.counted.0,
            allocated_bytes: self.counted.1,
            program: report.command.first().map_or("", |name| program_name(name, "")),
            version: env!("CARGO_PKG_VERSION"),
        })
    }
}

impl Shared {
    fn age_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn respond(&self, request: &Request) -> Response {
        const TEXT: &str = "text/plain; charset=utf-8";
        let Some(document) = Document::of(request.path(), |name| request.parameter(name)) else {
            return Response::error(404, "there is no such document: / lists all");
        };
        let made = match document {
            Err(error) => return Response::error(400, &error.to_string()),
            Ok(Document::Index) => return Response::of(TEXT, Document::index()),
            Ok(Document::Health) => {
                let silent = self.age_ms().saturating_sub(self.looked_ms.load(Ordering::Relaxed));
                return match silent {
                    ..LONGEST_LOOK_MS => Response::of(TEXT, "ok\n"),
                    _ => Response::error(503, &format!("mallow has not looked for {} s", silent / 1000)),
                };
            }
            Ok(Document::Metrics) => self.document(3, || match self.ask(ScrapeSubject::Metrics)? {
                Answer::Metrics(text) => Ok(text.into_bytes()),
                _ => bail!("another answer was asked for"),
            }),
            Ok(Document::HeapText) => self.document(2, || Ok(heap_text(&self.profile()?)?)),
            Ok(Document::Heap { shown_first, seconds: 0 }) => {
                let number = usize::from(shown_first == "alloc_space");
                self.document(number, || Ok(heap(&self.profile()?, shown_first, self.names, None)?))
            }
            Ok(Document::Heap { shown_first, seconds }) => {
                if self.deltas.fetch_add(1, Ordering::AcqRel) >= DELTAS {
                    self.deltas.fetch_sub(1, Ordering::AcqRel);
                    return Response::error(503, "others wait for such a difference: ask again later");
                }
                let made = self.delta(shown_first, seconds);
                self.deltas.fetch_sub(1, Ordering::AcqRel);
                made
            }
        };
        match (made, document) {
            (Err(error), _) => Response::error(503, &format!("{error:#}")),
            (Ok(body), Ok(Document::Metrics)) => Response::of(metrics::CONTENT_TYPE, body),
            (Ok(body), Ok(Document::HeapText)) => Response::of(TEXT, body),
            (Ok(body), _) => Response::of("application/octet-stream", body)
                .with("content-disposition", "attachment; filename=\"heap.pb.gz\""),
        }
    }

    /// A document of these, made anew if it is old. Others that ask for it wait meanwhile.
    fn document(&self, number: usize, make: impl FnOnce() -> Result<Vec<u8>>) -> Result<Vec<u8>> {
        let mut kept = self.documents[number].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = kept.as_ref().filter(|made| made.at.elapsed() < FRESH.max(made.took * SHARE)) {
            return Ok(made.body.clone());
        }
        let began = Instant::now();
        let body = make()?;
        *kept = Some(Made { at: Instant::now(), took: began.elapsed(), body: body.clone() });
        Ok(body)
    }

    fn delta(&self, shown_first: &str, seconds: u32) -> Result<Vec<u8>> {
        let before = self.ask(ScrapeSubject::Moment)?;
        std::thread::sleep(Duration::from_secs(seconds.into()));
        let (before, now) = match (before, self.ask(ScrapeSubject::Moment)?) {
            (Answer::Profile(before), Answer::Profile(now)) => (*before, *now),
            (Answer::Moment(before), Answer::Moment(now)) => merge_moments(&before, &now),
            _ => bail!("another answer was asked for"),
        };
        Ok(heap(&now, shown_first, self.names, Some(&before))?)
    }

    fn profile(&self) -> Result<Profile> {
        match self.ask(ScrapeSubject::Profile)? {
            Answer::Profile(profile) => Ok(*profile),
            _ => bail!("another answer was asked for"),
        }
    }

    fn ask(&self, subject: ScrapeSubject) -> Result<Answer> {
        let (reply, answer) = sync_channel(1);
        let asked = self.asking.lock().unwrap_or_else(PoisonError::into_inner).send(Question { subject, reply });
        asked.map_err(|_| anyhow!("the watch has ended"))?;
        answer.recv_timeout(PATIENCE).map_err(|_| anyhow!("the watch is busy, or has ended"))
    }
}
