//! The drain: empties the rings of all processes into the spool, keeps the clock that they read, and notices processes
//! and modules that come and go. It must never be slow: threads wait for it.

use super::arguments::ShownArguments;
use super::exits::{self, EndChecks, ExitStage, Exits, WaitBudget};
use super::memory::{Finding, MemoryQueue};
use super::requests::{self, Request, TableWaits};
use super::spool::SpoolWriter;
use super::thread_names::ThreadNames;
use crate::chunk::{Chunk, ExitKind};
use crate::rundir::directory::RunDirectory;
use crate::rundir::doorbell;
use crate::rundir::owner::Owner;
use crate::rundir::process_file::{self, ExitState, ProcessFile};
use crate::tables::supply::Bases;
use crate::wire::{self, control};
use mallow_profile::command_word;
use rustc_hash::{FxHashMap, FxHashSet};
use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// What others may know of a drain while it works.
#[derive(Default)]
pub struct DrainState {
    /// Bytes of whole chunks in the spool.
    pub spooled: AtomicU64,
    /// Process images that have appeared so far.
    pub processes: AtomicU32,
    /// Process images that have not ended.
    pub running: AtomicU32,
    /// Set by others: read what is left, then end.
    pub finish: AtomicBool,
    /// Set by others once the drain has ended: nothing more comes into the spool.
    pub drained: AtomicBool,
    /// Set by others: replay no more.
    pub stop: AtomicBool,
    /// Set by others for some milliseconds: the replay is to leave the processors to the target.
    pub rests: AtomicBool,
    /// Set by others: when mallow had attached to the process, on CLOCK_MONOTONIC. 0: it did not as yet.
    pub attached_ns: AtomicU64,
    /// Bytes of the spool that were replayed: set by the replay.
    pub replayed: AtomicU64,
    /// Processes that wait at their exit, and whose [`Chunk::Exit`] is in the spool.
    pub exits: Exits,
    /// Processes whose memory is read, and what was found.
    pub memory: Arc<MemoryQueue>,
    /// What processes waited for unwind tables.
    pub table_waits: TableWaits,
}

/// How far the replay may lag behind, in bytes of spool, before targets are made to wait.
const LAG_MOST: u64 = 4 << 30;
/// How often the drain looks while events come, and when they have not for a while.
const BUSY_SLEEP: Duration = Duration::from_millis(1);
const IDLE_SLEEP: Duration = Duration::from_millis(5);
/// From what filling of the fullest ring on the drain does not sleep at all.
const BUSY_PERCENT: u64 = 20;
/// Words of a reading that one chunk takes.
const READING_PART: usize = 1 << 19;
/// How often the drain looks for ended threads, and for changed names and arguments.
const CENSUS: Duration = Duration::from_millis(50);

struct Image {
    source: Arc<ProcessFile>,
    number: u32,
    name: OsString,
    modules: u32,
    /// Position up to which each ring was spooled.
    tails: Vec<u64>,
    heads: Vec<u64>,
    /// The first of the thread blocks that the next census looks at.
    reclaimed: u32,
    exit: ExitStage,
    /// How long the image waited at its exit; 0 until that is over.
    waited: Duration,
    names: ThreadNames,
    arguments: ShownArguments,
}

impl Image {
    /// Reads how far each ring is written. True if any has words that were not spooled.
    fn look(&mut self) -> bool {
        if self.exit == ExitStage::Not && self.source.exit_state() == ExitState::Waits {
            self.exit = ExitStage::Rounds(2, Instant::now());
        }
        self.heads.clear();
        self.heads.extend((0..self.source.threads()).map(|index| self.source.head(index)));
        while self.tails.len() < self.heads.len() {
            self.tails.push(self.source.tail(self.tails.len() as u32));
        }
        self.heads.iter().zip(&self.tails).any(|(head, tail)| head != tail)
    }
}

pub struct Drain<'a> {
    run: &'a RunDirectory,
    shown: &'a DrainState,
    spool: SpoolWriter,
    tables: Sender<Request>,
    began_ns: u64,
    images: Vec<Image>,
    seen: FxHashSet<OsString>,
    numbers: u32,
    bases: Bases,
    /// Rounds that have to follow the last pass that found something.
    unsettled: u32,
    end_checks: EndChecks,
    /// Budgets of the waits at exits: for the command's process, and for all others together.
    budgets: [WaitBudget; 2],
    /// Processes that wait at their exit are scanned.
    is_scanning: bool,
    /// Arguments are to be in the recording.
    has_arguments: bool,
}

impl<'a> Drain<'a> {
    /// A drain of `run` that writes to `spool` and sends requests for tables to `tables`.
    pub fn new(
        run: &'a RunDirectory,
        shown: &'a DrainState,
        spool: SpoolWriter,
        tables: Sender<Request>,
        began_ns: u64,
    ) -> Self {
        let flags = run.control().get32(control::FLAGS);
        let is_limited = flags & wire::SCAN_FORKED == 0;
        Self {
            run,
            shown,
            spool,
            tables,
            began_ns,
            images: Vec::new(),
            seen: FxHashSet::default(),
            numbers: 0,
            bases: Bases::default(),
            unsettled: 0,
            end_checks: EndChecks::default(),
            budgets: [WaitBudget::new(is_limited); 2],
            is_scanning: flags & wire::SCAN != 0,
            has_arguments: flags & wire::NO_ARGUMENTS == 0,
        }
    }

    /// Works until `DrainState::finish` is set and everything is read. An error is the spool's: the recording ends
    /// there.
    pub fn work(mut self) -> io::Result<()> {
        let result = self.watch();
        self.run.end();
        let finished = result.and_then(|()| self.finish());
        for image in &self.images {
            image.source.close();
        }
        finished
    }

    fn watch(&mut self) -> io::Result<()> {
        let control = self.run.control();
        let mut last_bell = u32::MAX;
        let mut last_census = Instant::now();
        let mut idle = 0u32;
        while !self.shown.finish.load(Ordering::Acquire) {
            control.set64(control::EPOCH, self.run.elapsed_ms());
            let bell = control.get32(control::DOORBELL);
            if bell != last_bell {
                last_bell = bell;
                self.discover()?;
            }
            if last_census.elapsed() >= CENSUS {
                last_census = Instant::now();
                self.census()?;
            }
            let fullest = self.pass()?;
            idle = if fullest == 0 { idle.saturating_add(1) } else { 0 };
            let lag = self.spool.written().saturating_sub(self.shown.replayed.load(Ordering::Relaxed));
            if lag > LAG_MOST {
                std::thread::sleep(Duration::from_millis(50));
            } else if fullest < BUSY_PERCENT && !self.images.iter().any(|image| image.exit.has_rounds()) {
                doorbell::sleep(control, bell, if idle > 50 { IDLE_SLEEP } else { BUSY_SLEEP });
            }
        }
        Ok(())
    }

    /// The command has ended: reads what is left until nothing comes any more.
    fn finish(&mut self) -> io::Result<()> {
        self.discover()?;
        let mut quiet = 0;
        // Processes that live on see the end at their next event. One that never stops is left after a while.
        for _ in 0..1000 {
            quiet = if self.pass()? == 0 { quiet + 1 } else { 0 };
            if quiet == 3 {
                break;
            }
        }
        let ms = self.run.elapsed_ms();
        let all = std::mem::take(&mut self.images);
        let replaced = self.replaced(&all);
        for (image, replaced) in all.into_iter().zip(replaced) {
            self.end(image, ms, replaced)?;
        }
        Ok(())
    }

    /// Looks for new process files. Fails where the spool takes no more: whoever it left out would wait for room in its
    /// rings for ever.
    fn discover(&mut self) -> io::Result<()> {
        for (name, source) in process_file::unseen(self.run.path(), &self.seen) {
            self.seen.insert(name.clone());
            let Some(source) = source else { continue };
            let number = self.numbers;
            self.numbers += 1;
            let arguments = ShownArguments::new(&source);
            let mut process = source.process(number, self.began_ns);
            if !self.has_arguments {
                process.arguments.truncate(1);
                process
                    .arguments
                    .iter_mut()
                    .for_each(|word| *word = command_word(word, [&*process.executable]).to_owned());
            }
            // Its file begins with its first event, and its recording with the attachment.
            let attached_ns = self.shown.attached_ns.load(Ordering::Acquire);
            if attached_ns != 0 && process.pid == self.run.control().get32(control::ROOT_PID) {
                process.start_ms = process.start_ms.min(attached_ns.saturating_sub(self.began_ns) / 1_000_000);
            }
            self.end_checks.ask();
            self.append(&Chunk::Process(process))?;
            self.shown.processes.fetch_add(1, Ordering::Relaxed);
            self.shown.running.fetch_add(1, Ordering::Relaxed);
            let source = Arc::new(source);
            self.shown.memory.add(number, Arc::clone(&source));
            self.images.push(Image {
                source,
                number,
                name,
                modules: 0,
                tails: Vec::new(),
                heads: Vec::new(),
                reclaimed: 0,
                exit: ExitStage::Not,
                waited: Duration::ZERO,
                names: ThreadNames::default(),
                arguments,
            });
        }
        Ok(())
    }

    /// Frees thread blocks of threads that are gone, and reads threads' names and processes' arguments.
    fn census(&mut self) -> io::Result<()> {
        for image in &mut self.images {
            if image.source.threads() > 4 {
                image.reclaimed = image.source.reclaim(image.reclaimed);
            }
        }
        let mut named = Vec::new();
        for image in &mut self.images {
            let names = image.names.census(&image.source, image.source.threads());
            named.extend(names.into_iter().map(|(tid, name)| (image.number, tid, name)));
        }
        for (process, tid, name) in named {
            self.append(&Chunk::ThreadName { process, tid, name })?;
        }
        let mut shown = Vec::new();
        for image in self.images.iter_mut().filter(|_| self.has_arguments) {
            shown.extend(image.arguments.census(&image.source).map(|words| (image.number, words)));
        }
        for (process, words) in shown {
            self.append(&Chunk::Arguments { process, words })?;
        }
        Ok(())
    }

    /// Takes out the images whose process is gone or has become another image.
    fn take_ended(&mut self) -> Vec<Image> {
        let (alive, mut over): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.images).into_iter().partition(|image| image.source.alive());
        // By their starts: a serial number is free again once its image is done with. And by process: a pid may be that
        // of several, each in a namespace of its own.
        let mut newest: FxHashMap<Owner, u64> = FxHashMap::default();
        for image in &alive {
            let Some(writer) = image.source.writer() else { continue };
            let start = newest.entry(writer).or_default();
            *start = (*start).max(image.source.start_ns());
        }
        for image in alive {
            let newest = image.source.writer().and_then(|writer| newest.get(&writer));
            let replaced = newest.is_some_and(|&newest| newest > image.source.start_ns());
            if replaced { &mut over } else { &mut self.images }.push(image);
        }
        over
    }

    /// Whether each image of `over`, which has ended, ended by exec.
    fn replaced(&self, over: &[Image]) -> Vec<bool> {
        let all = || over.iter().chain(&self.images).map(|image| &*image.source);
        over.iter().map(|image| exits::is_replaced(&image.source, all())).collect()
    }

    fn end(&mut self, mut image: Image, ms: u64, replaced: bool) -> io::Result<()> {
        let lost = image.source.lost();
        // It ended before anybody looked at its exit again.
        if let Some(since) = image.exit.since() {
            let purse = usize::from(image.source.pid != self.run.control().get32(control::ROOT_PID));
            image.waited = since.elapsed();
            self.budgets[purse].spend(image.waited);
        }
        self.shown.memory.remove(image.number);
        self.findings()?;
        let unscanned = exits::unscanned(&image.source).filter(|_| self.is_scanning);
        if let Some(kind) = replaced.then_some(ExitKind::Exec).or(unscanned) {
            self.shown.exits.remove(image.number);
            self.append(&Chunk::Exit { process: image.number, kind })?;
        }
        if let Some(words) = image.arguments.at_end(&image.source).filter(|_| self.has_arguments) {
            self.append(&Chunk::Arguments { process: image.number, words })?;
        }
        let usable = image.source.size_classes();
        if !usable.is_empty() {
            self.append(&Chunk::SizeClasses { process: image.number, usable: &usable })?;
        }
        image.source.close();
        if !image.waited.is_zero() {
            self.append(&Chunk::ExitWait { process: image.number, ms: image.waited.as_millis() as u64 })?;
        }
        let waited = self.shown.table_waits.of(image.number);
        let late = image.source.late_tables();
        if late > 0 || !waited.is_zero() {
            self.append(&Chunk::TableWait { process: image.number, ms: waited.as_millis() as u64, late })?;
        }
        self.append(&Chunk::ProcessEnd { process: image.number, ms, lost })?;
        self.shown.running.fetch_sub(1, Ordering::Relaxed);
        if std::fs::remove_file(self.run.path().join(&image.name)).is_ok() {
            // A later image of this pid may take the name.
            self.seen.remove(&image.name);
        }
        Ok(())
    }

    /// Reads every ring once. Returns how full the fullest was, in percent, 1 at least where there was anything.
    ///
    /// Whether a process has ended is asked between the heads and the words: what another process did after that end,
    /// and this pass reads, then comes after the end in the spool; what earlier passes read was before it, and is
    /// replayed before it.
    fn pass(&mut self) -> io::Result<u64> {
        let mut has_words = false;
        for image in &mut self.images {
            has_words |= image.look();
        }
        let mut ended = Vec::new();
        if self.end_checks.is_due(self.images.len(), has_words) {
            let began = Instant::now();
            ended = self.take_ended();
            self.end_checks.took(began.elapsed());
        }
        let replaced = self.replaced(&ended);
        // Nobody writes it any more: what it holds now is all.
        ended.iter_mut().for_each(|image| _ = image.look());
        let mut images = std::mem::take(&mut self.images);
        let spooled = images
            .iter_mut()
            .chain(&mut ended)
            .try_fold(0, |fullest: u64, image| self.spool_image(image).map(|percent| fullest.max(percent)));
        self.images = images;
        let fullest = spooled?;
        if fullest > 0 || self.unsettled > 0 || self.images.iter().any(|image| image.exit.has_rounds()) {
            self.append(&Chunk::Round { ms: self.run.elapsed_ms() })?;
        }
        let ms = self.run.elapsed_ms();
        for (image, replaced) in ended.into_iter().zip(replaced) {
            self.end(image, ms, replaced)?;
        }
        self.exits()?;
        self.unsettled = if fullest > 0 { 2 } else { self.unsettled.saturating_sub(1) };
        Ok(fullest)
    }

    /// Hands images that wait at their exit to the replay, two rounds after their last events; lets those go on that
    /// were copied, and all that have waited for too long.
    fn exits(&mut self) -> io::Result<()> {
        if self.images.iter().all(|image| image.exit.since().is_none()) {
            return self.findings();
        }
        // Before findings are spooled: then those of the others are among them.
        let awaited = self.shown.memory.awaited();
        self.findings()?;
        let root = self.run.control().get32(control::ROOT_PID);
        let mut waiting = [Duration::ZERO; 2];
        for image in &mut self.images {
            let Some(time) = image.exit.since().map(|since| since.elapsed()) else { continue };
            let purse = usize::from(image.source.pid != root);
            match image.source.exit_state() {
                ExitState::Waits => waiting[purse] += time,
                _ => {
                    self.budgets[purse].spend(time);
                    image.waited = time;
                    image.exit = ExitStage::Over;
                }
            }
        }
        let elapsed = self.run.began().elapsed();
        let is_over = [0, 1].map(|purse| self.budgets[purse].is_over(waiting[purse], elapsed));
        let mut chunks = Vec::new();
        for image in &mut self.images {
            let Some(since) = image.exit.since() else { continue };
            let purse = usize::from(image.source.pid != root);
            if is_over[purse] && image.source.go_on() {
                image.waited = since.elapsed();
                self.budgets[purse].spend(image.waited);
                image.exit = ExitStage::Over;
                self.shown.exits.remove(image.number);
                self.shown.memory.exit_read(image.number);
                drop(self.shown.memory.take_copy(image.number));
                if self.is_scanning {
                    chunks.push((image.number, ExitKind::OutOfTime));
                }
                continue;
            }
            match image.exit {
                ExitStage::Rounds(0, _) if self.shown.memory.exits(image.number) => {
                    image.exit = ExitStage::Read(since);
                }
                ExitStage::Read(_) if awaited.contains(&image.number) => {}
                ExitStage::Read(_) if self.is_scanning => image.exit = ExitStage::Known(2, since),
                ExitStage::Rounds(0, _) | ExitStage::Read(_) if !self.is_scanning => {
                    image.source.go_on();
                    image.waited = since.elapsed();
                    self.budgets[purse].spend(image.waited);
                    image.exit = ExitStage::Over;
                }
                ExitStage::Rounds(0, _) | ExitStage::Read(_) | ExitStage::Known(0, _) => {
                    let source = Arc::clone(&image.source);
                    let copy = self.shown.memory.take_copy(image.number);
                    // Added before the chunk is: the replay may be there at once.
                    match copy.filter(|copy| copy.heads == image.tails) {
                        Some(copy) if image.source.go_on() => {
                            self.shown.exits.add_copy(image.number, source, copy);
                            image.waited = since.elapsed();
                            self.budgets[purse].spend(image.waited);
                            image.exit = ExitStage::Over;
                        }
                        _ => {
                            self.shown.exits.add(image.number, source, since);
                            image.exit = ExitStage::Spooled(since);
                        }
                    }
                    chunks.push((image.number, ExitKind::Waits));
                }
                ExitStage::Rounds(rounds, _) => image.exit = ExitStage::Rounds(rounds - 1, since),
                ExitStage::Known(rounds, _) => image.exit = ExitStage::Known(rounds - 1, since),
                ExitStage::Not | ExitStage::Spooled(_) | ExitStage::Over => {}
            }
        }
        for (process, kind) in chunks {
            self.append(&Chunk::Exit { process, kind })?;
        }
        Ok(())
    }

    /// Spools what was read of processes' memory. A reading that the disk has no room for is left out.
    fn findings(&mut self) -> io::Result<()> {
        for finding in self.shown.memory.take() {
            match finding {
                Finding::Rss { process, ms, rss, peak, heads } => {
                    self.append(&Chunk::Rss { process, ms, rss, peak, heads: &heads })?;
                }
                Finding::FinalRss { process, ms, peak } => self.append(&Chunk::FinalRss { process, ms, peak })?,
                Finding::Moment { process, number, is_end, heads } => {
                    self.append(&Chunk::Reading { process, number, is_end, heads: &heads })?;
                }
                Finding::Reading { process, words } if self.spool.fits(words.len()) => {
                    let mut parts = words.chunks(READING_PART).peekable();
                    while let Some(words) = parts.next() {
                        self.append(&Chunk::Memory { process, is_last: parts.peek().is_none(), words })?;
                    }
                }
                Finding::Reading { .. } => {}
            }
        }
        Ok(())
    }

    /// Spools what one image had written when it was looked at. Heads are read before modules, and modules before
    /// words: a module that a word refers to is always known.
    fn spool_image(&mut self, image: &mut Image) -> io::Result<u64> {
        let source = Arc::clone(&image.source);
        let threads = image.heads.len() as u32;
        self.modules(image)?;
        for (tid, name) in image.names.appeared(&source, threads) {
            self.append(&Chunk::ThreadName { process: image.number, tid, name })?;
        }
        let mut fullest = 0;
        for index in 0..threads {
            let (head, tail) = (image.heads[index as usize], image.tails[index as usize]);
            let size = source.ring_words(index);
            let count = head.wrapping_sub(tail);
            if count == 0 {
                continue;
            }
            fullest = fullest.max((100 * count.min(size) / size).max(1));
            let words = if count <= size { source.ring_segments(index, tail, head) } else { None };
            if let Some(words) = words {
                self.spool.append_words(image.number, index, head, words)?;
                self.shown.spooled.store(self.spool.written(), Ordering::Release);
            }
            // A head that ran away was written over: what lies between makes no sense, so it is passed over.
            image.tails[index as usize] = head;
            source.set_tail(index, head);
        }
        Ok(fullest)
    }

    fn modules(&mut self, image: &mut Image) -> io::Result<()> {
        let count = image.source.modules();
        while image.modules < count {
            let index = image.modules;
            let mut module = image.source.module(image.number, index);
            module.base_svma = self.bases.of(&module, || image.source.pid_here());
            self.append(&Chunk::Module(module.clone()))?;
            requests::ask_if_wanted(&self.tables, Some(&self.shown.table_waits), &image.source, index, module);
            image.modules += 1;
        }
        Ok(())
    }

    fn append(&mut self, chunk: &Chunk) -> io::Result<()> {
        self.spool.append(chunk)?;
        self.shown.spooled.store(self.spool.written(), Ordering::Release);
        Ok(())
    }
}
