//! Serving unwind tables: a target that meets a module waits until its table lies in `DIR/tables`.

use crate::chunk::ModuleStart;
use crate::rundir::directory::TABLES;
use crate::rundir::process_file::ProcessFile;
use crate::tables::supply::{TableInput, known_images, module_file, put};
use crate::tables::{self, TableCache};
use rustc_hash::FxHashMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A module that a process waits for.
pub struct Request {
    pub source: Arc<ProcessFile>,
    /// Index of the module in it.
    pub index: u32,
    pub module: ModuleStart,
    /// When it was seen.
    pub since: Instant,
}

/// What processes waited for tables, by their numbers: how long in all, and until when. Threads that wait at once wait
/// once.
#[derive(Debug, Default)]
pub struct TableWaits(Mutex<FxHashMap<u32, (Duration, Option<Instant>)>>);

impl TableWaits {
    /// A process waited from then until now.
    fn add(&self, process: u32, since: Instant) {
        let mut waits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (waited, until) = waits.entry(process).or_default();
        let now = Instant::now();
        *waited += now.saturating_duration_since(until.map_or(since, |until| until.max(since)));
        *until = Some(now);
    }

    /// How long a process waited.
    pub fn of(&self, process: u32) -> Duration {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&process)
            .map_or(Duration::ZERO, |(waited, _)| *waited)
    }
}

/// Has the table of module `index` made, where its process waits for it; says so where nobody makes tables any more.
pub fn ask_if_wanted(tables: &Sender<Request>, source: &Arc<ProcessFile>, index: u32, module: ModuleStart) {
    if !source.module_wanted(index) {
        return;
    }
    let request = Request { source: Arc::clone(source), index, module, since: Instant::now() };
    if let Err(unsent) = tables.send(request) {
        unsent.0.source.module_answer(index, false);
    }
}

/// Answers requests until the sender is gone. Tables are kept in the user's cache where there is one.
/// They go into the run directory of the process that waits.
pub fn serve(requests: &Receiver<Request>, waits: &TableWaits) {
    let cache = TableCache::for_user().ok();
    while let Ok(request) = requests.recv() {
        let tables = request.source.directory().join(TABLES);
        let ready = provide(&request, &tables, cache.as_ref()).is_some();
        // Before it goes on, and perhaps ends.
        waits.add(request.module.process, request.since);
        request.source.module_answer(request.index, ready);
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
