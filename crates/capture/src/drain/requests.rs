//! Serving unwind tables: a target that meets a module waits until its table lies in `DIR/tables`.

use crate::chunk::ModuleStart;
use crate::rundir::directory::{TABLES, lend_tables};
use crate::rundir::process_file::ProcessFile;
use crate::tables::supply::{TableInput, known_images, module_file, put};
use crate::tables::{self, TableCache};
use crate::wire;
use mallow_proc::Status;
use rustc_hash::FxHashMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A module that a process waits for.
pub struct Request {
    pub source: Arc<ProcessFile>,
    /// Index of the module in `source`.
    pub index: u32,
    pub module: ModuleStart,
    /// When the drain saw the request.
    pub since: Instant,
}

/// So long a process waits for one table.
const PATIENCE: Duration = Duration::from_millis(wire::TABLE_WAIT_MS);

/// What processes waited for tables, by their numbers.
#[derive(Debug, Default)]
pub struct TableWaits(Mutex<FxHashMap<u32, Waits>>);

/// Waits of one process; those of several threads at the same time count once.
#[derive(Clone, Debug, Default)]
struct Waits {
    sum: Duration,
    /// End of the last wait that `sum` has.
    until: Option<Instant>,
    /// When waits without an answer began, the oldest first; those that were given up are among them.
    open: Vec<Instant>,
}

impl Waits {
    fn count(&mut self, since: Instant, now: Instant) {
        let end = now.min(since + PATIENCE);
        let counted = self.until.map_or(since, |until| until.max(since));
        self.sum += end.saturating_duration_since(counted);
        self.until = Some(self.until.map_or(end, |until| until.max(end)));
    }
}

impl TableWaits {
    /// Notes that a process waits for a table from `since` on.
    pub fn begin(&self, process: u32, since: Instant) {
        self.of_all(|waits| waits.entry(process).or_default().open.push(since));
    }

    /// Notes the answer to the wait that began at `since`.
    fn end(&self, process: u32, since: Instant) {
        self.of_all(|waits| {
            let waits = waits.entry(process).or_default();
            waits.open.retain(|&open| open != since);
            waits.count(since, Instant::now());
        });
    }

    /// How long a process has waited in all, up to now.
    pub fn of(&self, process: u32) -> Duration {
        let mut waits = self.of_all(|waits| waits.get(&process).cloned()).unwrap_or_default();
        let now = Instant::now();
        std::mem::take(&mut waits.open).into_iter().for_each(|since| waits.count(since, now));
        waits.sum
    }

    /// How long the oldest wait without an answer has taken; None: nobody waits, or they have lost patience.
    pub fn longest(&self) -> Option<Duration> {
        self.of_all(|waits| {
            let open = waits.values().flat_map(|waits| &waits.open);
            open.map(Instant::elapsed).filter(|&time| time < PATIENCE).max()
        })
    }

    fn of_all<R>(&self, act: impl FnOnce(&mut FxHashMap<u32, Waits>) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Has the table of module `index` made, where its process waits for it; answers with none where nobody makes tables
/// any more. `waits`: where the wait is counted, if at all.
pub fn ask_if_wanted(
    tables: &Sender<Request>,
    waits: Option<&TableWaits>,
    source: &Arc<ProcessFile>,
    index: u32,
    module: ModuleStart,
) {
    if !source.module_wanted(index) {
        return;
    }
    let request = Request { source: Arc::clone(source), index, module, since: Instant::now() };
    // Before it can have its answer.
    if let Some(waits) = waits {
        waits.begin(request.module.process, request.since);
    }
    if let Err(unsent) = tables.send(request) {
        let request = unsent.0;
        if let Some(waits) = waits {
            waits.end(request.module.process, request.since);
        }
        request.source.module_answer(index, false);
    }
}

/// Answers requests until the sender is gone. Tables are kept in the user's cache where there is one.
/// They go into the run directory of the process that waits.
pub fn serve(requests: &Receiver<Request>, waits: &TableWaits) {
    let cache = TableCache::for_user().ok();
    let mut guests = Guests::default();
    while let Ok(request) = requests.recv() {
        guests.admit(&request.source);
        let tables = request.source.directory().join(TABLES);
        let ready = provide(&request, &tables, cache.as_ref()).is_some();
        // Before it goes on, and perhaps ends.
        waits.end(request.module.process, request.since);
        request.source.module_answer(request.index, ready);
    }
}

/// Users, others than mallow's, that read tables of a run directory: those of servers that gave up root's rights.
#[derive(Default)]
struct Guests(FxHashMap<PathBuf, Vec<u32>>);

impl Guests {
    /// Lets the process read its tables. Where that fails, it says itself that it could not.
    fn admit(&mut self, source: &ProcessFile) {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let status = Status::read(source.pid_here()).ok();
        let Some([.., user]) = status.and_then(|status| status.users()).filter(|[.., user]| *user != 0) else { return };
        let admitted = self.0.entry(source.directory().to_owned()).or_default();
        if !admitted.contains(&user) {
            admitted.push(user);
            let _ = lend_tables(source.directory(), admitted);
        }
    }
}

fn provide(request: &Request, tables: &Path, cache: Option<&TableCache>) -> Option<()> {
    let module = &request.module;
    if module.build_id.is_empty() {
        let elf = module_file(module, || request.source.pid_here())?;
        return tables::build_to(&elf, &tables.join(format!("{}-{}", request.source.pid, request.index))).ok();
    }
    if let Some((id, image)) = known_images().find(|(id, _)| *id == module.build_id) {
        return put(&id, TableInput::Image(image), tables, cache);
    }
    put(&module.build_id, TableInput::File(&module_file(module, || request.source.pid_here())?), tables, cache)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mallow may be slow, and the program end before its tables are there.
    #[test]
    fn who_loses_patience_has_waited_too() {
        let waits = TableWaits::default();
        let now = Instant::now();
        let ago = |seconds: u64| now.checked_sub(Duration::from_secs(seconds)).expect("a machine that runs for longer");
        assert_eq!(waits.of(7), Duration::ZERO);
        for seconds in [10, 8, 7] {
            waits.begin(7, ago(seconds));
        }
        // From 10 to 8 s ago, from 8 to 6, and from 7 to 5.
        assert_eq!(waits.of(7), Duration::from_secs(5));
        waits.end(7, ago(10));
        assert_eq!(waits.of(7), Duration::from_secs(5));
        assert_eq!(waits.of(8), Duration::ZERO);
        assert_eq!(waits.longest(), None, "it waits for none any more");
        // Threads of one process, and another process: those that wait still, whoever has lost patience.
        waits.begin(7, ago(1));
        waits.begin(7, now);
        assert!(waits.longest() >= Some(Duration::from_secs(1)));
        waits.begin(9, ago(10));
        assert!(waits.longest() >= Some(Duration::from_secs(1)));
    }
}
