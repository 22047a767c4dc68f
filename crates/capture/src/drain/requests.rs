//! Serving unwind tables: a target that meets a module waits until its table lies in `DIR/tables`.

use crate::chunk::ModuleStart;
use crate::rundir::process_file::Source;
use crate::tables::{self, TableCache};
use memmap2::Mmap;
use rustc_hash::FxHashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

/// A module that a process waits for.
pub struct Request {
    /// The process file.
    pub source: Arc<Source>,
    /// Index of the module in it.
    pub index: u32,
    /// The module.
    pub module: ModuleStart,
}

/// Has the table of module `index` made, where its process waits for it; where nobody makes tables any more, tells it so.
pub fn ask_if_wanted(tables: &Sender<Request>, source: &Arc<Source>, index: u32, module: ModuleStart) {
    if !source.module_wanted(index) {
        return;
    }
    let request = Request { source: Arc::clone(source), index, module };
    if let Err(unsent) = tables.send(request) {
        unsent.0.source.module_answer(index, false);
    }
}

/// Answers requests until the sender is gone. Tables are kept in the user's cache where there is one.
pub fn serve(requests: &Receiver<Request>, directory: &Path) {
    let tables = directory.join("tables");
    let cache = TableCache::for_user().ok();
    while let Ok(request) = requests.recv() {
        let ready = provide(&request, &tables, cache.as_ref()).is_some();
        request.source.module_answer(request.index, ready);
    }
}

fn provide(request: &Request, tables: &Path, cache: Option<&TableCache>) -> Option<()> {
    let module = &request.module;
    if module.build_id.is_empty() {
        let elf = module_file(&module.path, request.source.pid)?;
        return tables::build_to(&elf, &tables.join(format!("{}-{}", request.source.pid, request.index))).ok();
    }
    if module.path == "[vdso]" {
        return put(&module.build_id, Elf::Image(vdso()?), tables, cache);
    }
    put(&module.build_id, Elf::File(&module_file(&module.path, request.source.pid)?), tables, cache)
}

/// What a table is made of.
pub(crate) enum Elf<'a> {
    File(&'a Path),
    Image(&'a [u8]),
}

/// Puts the table of an ELF file into `tables`, by way of the cache where there is one.
pub(crate) fn put(build_id: &[u8], elf: Elf, tables: &Path, cache: Option<&TableCache>) -> Option<()> {
    let name: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let target = tables.join(name);
    if target.exists() {
        return Some(());
    }
    let cached = cache.and_then(|cache| match &elf {
        Elf::Image(elf) => cache.get_or_build_image(build_id, elf).ok(),
        Elf::File(path) => cache.get_or_build(build_id, path).ok(),
    });
    if let Some(cached) = cached {
        return std::os::unix::fs::symlink(cached, target).ok();
    }
    match elf {
        Elf::Image(elf) => tables::write_table(&target, &tables::build(elf).ok()?).ok(),
        Elf::File(path) => tables::build_to(path, &target).ok(),
    }
}

/// The file of a module: as the process names it, or below its own root directory.
fn module_file(path: &str, pid: u32) -> Option<PathBuf> {
    let plain = PathBuf::from(path);
    let inside = PathBuf::from(format!("/proc/{pid}/root{path}"));
    [plain, inside].into_iter().find(|p| p.is_file())
}

/// This process's own vdso: the kernel maps the same one into all. It lives as long as the process.
pub(crate) fn vdso() -> Option<&'static [u8]> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
    // SAFETY: the kernel maps these pages for the life of the process, and nothing writes to them.
    Some(unsafe { std::slice::from_raw_parts(start as *const u8, end.checked_sub(start)?) })
}

/// Link-time addresses of modules' first pages, remembered by path.
#[derive(Default)]
pub struct Bases(FxHashMap<(String, Vec<u8>), u64>);

impl Bases {
    /// `base_svma` of a module of the process `pid`; 0 where its file cannot be read.
    pub fn of(&mut self, module: &ModuleStart, pid: u32) -> u64 {
        *self.0.entry((module.path.clone(), module.build_id.clone())).or_insert_with(|| {
            let map = module_file(&module.path, pid)
                .and_then(|path| File::open(path).ok())
                // SAFETY: read only, and only its headers are looked at; a file that changes meanwhile yields other
                // numbers. One that is truncated meanwhile could raise SIGBUS: loaded files are busy or replaced whole.
                .and_then(|file| unsafe { Mmap::map(&file).ok() });
            map.map_or(0, |elf| tables::base_svma(&elf))
        })
    }
}
