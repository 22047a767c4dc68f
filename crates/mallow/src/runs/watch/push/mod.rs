//! Profiles that are sent to stores.
//!
//! ```text
//! watch ── a copy of the profile ──▶ maker ── request ──▶ queue ──▶ sender ──▶ store
//!                                         └── request ──▶ queue ──▶ sender ──▶ store
//! ```
//!
//! Each arrow is a thread that waits for nobody on its right: the watch offers nothing while the maker works, and the
//! maker makes nothing for a queue that is full.

mod chance;
mod client;
mod facts;
mod headers;
mod maker;
mod queue;
mod sender;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use mallow_fleet::push::{ProcessFacts, Resource, Store, StoreKind, spread};
use mallow_profile::Process;
use serde::Serialize;
use ureq::tls::RootCerts;

use self::chance::chance;
use self::client::{StoreClient, trusted};
pub use self::facts::facts;
use self::headers::HeaderFile;
pub use self::maker::WatchedProfile;
use self::maker::{Maker, Offer};
use self::queue::{Queue, StoreFigures};
use crate::flags::PushFlags;
use crate::output::text::units::of;

/// Time for which mallow stays for unsent requests when it wants to leave.
const LAST_ATTEMPT: Duration = Duration::from_secs(5);
/// Time after which the same trouble is reported again.
const AGAIN: Duration = Duration::from_secs(600);
/// Troubles that are remembered; more are not reported.
const TROUBLES: usize = 100;

/// Stores, before anything is sent to them.
pub struct PushPlan {
    stores: Vec<(Store, Option<HeaderFile>)>,
    trusted: Option<RootCerts>,
    every: Duration,
    names: bool,
}

/// Figures of all stores that profiles are pushed to.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PushFigures {
    /// Figures of each store, in the order of the flags.
    pub stores: Vec<StoreFigures>,
}

pub struct Push {
    offers: SyncSender<Offer>,
    busy: Arc<AtomicBool>,
    queues: Vec<Arc<Queue>>,
    every: Duration,
    next: Instant,
    /// Processes that the maker does not know yet, by source.
    new: Vec<(u64, Resource)>,
    reported: HashMap<String, Instant>,
}

impl PushPlan {
    /// Starts to push as the flags say. None: nothing is sent. No error has a secret in it.
    pub fn of(flags: &PushFlags, names: bool) -> Result<Option<Self>> {
        if flags.push.is_empty() {
            return Ok(None);
        }
        let parsed = flags.push.iter().map(|text| Store::parse(text).map_err(|what| anyhow!("--push: {what}")));
        let stores: Vec<Store> = parsed.collect::<Result<_>>()?;
        let files: Vec<_> = flags.push_header_file.iter().map(|flag| headers::parse(flag)).collect();
        if let Some((Some(kind), _)) = files.iter().find(|(kind, _)| kind.is_some_and(|kind| !has(&stores, kind))) {
            bail!("--push-header-file: nothing is sent to {}", kind.name());
        }
        if files.iter().any(|(kind, _)| kind.is_none()) && stores.len() > 1 {
            bail!("--push-header-file: there are several stores; STORE=FILE says which of them gets the headers");
        }
        let with_headers = stores.into_iter().map(|store| {
            let mut own = files.iter().filter(|(kind, _)| kind.is_none_or(|kind| kind == store.kind));
            let file = own.next().map(|(_, path)| HeaderFile::open(path)).transpose()?;
            if own.next().is_some() {
                bail!("--push-header-file: two files are for {}", store.kind.name());
            }
            if store.is_plain() && file.as_ref().is_some_and(HeaderFile::is_secret) {
                bail!(
                    "{} is another machine, and http:// would show it the headers on the way: give https://",
                    store.url
                );
            }
            Ok((store, file))
        });
        let stores: Vec<_> = with_headers.collect::<Result<_>>()?;
        let encrypted = stores.iter().any(|(store, _)| store.url.starts_with("https://"));
        let trusted = (encrypted || flags.push_ca.is_some()).then(|| trusted(flags.push_ca.as_deref())).transpose()?;
        Ok(Some(Self { stores, trusted, every: flags.push_every, names }))
    }

    /// Starts the threads. The first push comes by chance within one interval.
    pub fn start(self) -> Result<Push> {
        let (offers, offered) = sync_channel(1);
        let busy = Arc::new(AtomicBool::new(false));
        let mut recipients = Vec::new();
        for (store, headers) in self.stores {
            let queue = Arc::new(Queue::of(&store));
            let client = StoreClient::new(store.clone(), headers, self.trusted.clone());
            let served = Arc::clone(&queue);
            let name = format!("push {}", store.kind.name());
            Builder::new().name(name).spawn(move || sender::serve(&served, client)).context("cannot start a thread")?;
            recipients.push((store, queue));
        }
        let queues = recipients.iter().map(|(_, queue)| Arc::clone(queue)).collect();
        let (maker, works) = (Maker::new(recipients, self.names), Arc::clone(&busy));
        let thread = Builder::new().name("push".to_owned());
        thread.spawn(move || maker.work(&offered, &works)).context("cannot start a thread")?;
        let next = Instant::now() + self.every.mul_f64(chance());
        Ok(Push { offers, busy, queues, every: self.every, next, new: Vec::new(), reported: HashMap::new() })
    }
}

fn has(stores: &[Store], kind: StoreKind) -> bool {
    stores.iter().any(|store| store.kind == kind)
}

impl Push {
    /// Reads what is known of a process that is new, the next one of this source: when it has ended it is too late.
    /// `here`: its number on this machine, which it may call otherwise itself.
    pub fn notice(&mut self, source: u64, here: Option<u32>, process: &Process) {
        let of: ProcessFacts = facts(here, process.pid, &process.executable);
        self.new.push((source, Resource::of(&of)));
    }

    /// Whether it is time to offer profiles.
    pub fn is_due(&self) -> bool {
        Instant::now() >= self.next
    }

    /// Whether the maker is still at work. The next profiles cover more.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    /// A round of offers begins: when the next one is due.
    pub fn begin_round(&mut self) {
        self.next = Instant::now() + spread(self.every, chance());
    }

    /// Sends these, one by one. Not while it is busy.
    pub fn offer(&mut self, watched: Vec<WatchedProfile>) {
        self.busy.store(true, Ordering::Release);
        let offer = Offer { watched, resources: std::mem::take(&mut self.new) };
        if self.offers.try_send(offer).is_err() {
            self.count_unsent(1);
        }
    }

    /// Profiles that could not even be offered.
    pub fn count_unsent(&self, profiles: u64) {
        self.queues.iter().for_each(|queue| queue.count_unsent(profiles));
    }

    /// New troubles of the stores, a sentence each.
    pub fn news(&mut self) -> Vec<String> {
        let mut news = Vec::new();
        for StoreFigures { store, url, trouble, .. } in self.figures().stores {
            let Some(trouble) = trouble else { continue };
            let text = format!("push to {store} at {url}: {trouble}");
            let old = self.reported.get(&text).is_some_and(|at| at.elapsed() < AGAIN);
            if !old && (self.reported.len() < TROUBLES || self.reported.contains_key(&text)) {
                self.reported.insert(text.clone(), Instant::now());
                news.push(text);
            }
        }
        news
    }

    pub fn figures(&self) -> PushFigures {
        PushFigures { stores: self.queues.iter().map(|queue| queue.figures()).collect() }
    }

    /// Sends the last ones, and waits for the stores: some seconds at the most, and only until `hurry` says so. `last`:
    /// some of them, until there are no more.
    pub fn finish(
        mut self,
        mut last: impl FnMut(&mut Self) -> Option<Vec<WatchedProfile>>,
        hurry: &dyn Fn() -> bool,
    ) -> PushFigures {
        let end = Instant::now() + LAST_ATTEMPT;
        let wait_until = |over: &dyn Fn() -> bool| {
            while !over() && !hurry() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        loop {
            wait_until(&|| !self.is_busy());
            let Some(watched) = last(&mut self) else { break };
            match self.is_busy() {
                true => self.count_unsent(watched.len() as u64),
                false => self.offer(watched),
            }
        }
        self.queues.iter().for_each(|queue| queue.close());
        wait_until(&|| self.queues.iter().all(|queue| queue.is_over()));
        // What is made from here on comes too late.
        if self.is_busy() {
            self.count_unsent(1);
        }
        self.queues.iter().for_each(|queue| queue.leave());
        self.figures()
    }
}

impl PushFigures {
    pub fn lines(&self) -> Vec<String> {
        let line = |of_store: &StoreFigures| {
            let StoreFigures { store, url, sent, rejected, unknown, unsent, trouble, .. } = of_store;
            let lost = [(rejected, "rejected"), (unknown, "of unknown fate"), (unsent, "unsent")];
            let lost =
                lost.iter().filter(|(number, _)| **number > 0).map(|(number, what)| format!(", {number} {what}"));
            let why = trouble.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
            format!("pushed {} to {store} at {url}{}{why}", of(*sent, "profile"), lost.collect::<String>())
        };
        self.stores.iter().map(line).collect()
    }
}
