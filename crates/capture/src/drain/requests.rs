//! Serving unwind tables: a target that meets a module waits until its table lies in `DIR/tables`.

use crate::chunk::ModuleStart;
use crate::rundir::directory::TABLES;
use crate::rundir::process_file::ProcessFile;
use crate::tables::supply::{TableInput, known_images, module_file, put};
use crate::tables::{self, TableCache};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

/// A module that a process waits for.
pub struct Request {
    /// The process file.
    pub source: Arc<ProcessFile>,
    /// Index of the module in it.
    pub index: u32,
    /// The module.
    pub module: ModuleStart,
}

/// Has the table of module `index` made, where its process waits for it; says so where nobody makes tables any more.
pub fn ask_if_wanted(tables: &Sender<Request>, source: &Arc<ProcessFile>, index: u32, module: ModuleStart) {
    if !source.module_wanted(index) {
        return;
    }
    let request = Request { source: Arc::clone(source), index, module };
    if let Err(unsent) = tables.send(request) {
        unsent.0.source.module_answer(index, false);
    }
}

/// Answers requests until the sender is gone. Tables are kept in the user's cache where there is one.
/// They go into the run directory of the process that waits.
pub fn serve(requests: &Receiver<Request>) {
    let cache = TableCache::for_user().ok();
    while let Ok(request) = requests.recv() {
        let tables = request.source.directory().join(TABLES);
        let ready = provide(&request, &tables, cache.as_ref()).is_some();
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
