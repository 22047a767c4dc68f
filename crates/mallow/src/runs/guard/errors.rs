//! Errors that were found, with names: once for each kind and place, with a count.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use mallow_capture::guard::{Finding, Kind, Leak, Message, Outcome, Search};
use mallow_capture::watch::Watch;
use mallow_profile::{Profile, StackId, Stacks};
use mallow_report::analysis::{CustomAllocatorRow, Stack, Suppressions};
use serde::Serialize;

use crate::output::text::units::{count, of};

use super::super::watch::ending_signals;
use super::crashes::{self, CrashDocument};
use super::identity;
use super::leak::LeakDocument;
use super::operations::Operations;
use super::steps::{self, BlockDocument, OperationDocument, block_of, family, intern, looks_alike, step};
use super::words;

/// An error, as a report shows it and JSON has it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ErrorDocument {
    /// Kind of the error: `use-after-free`, `double-free`, ….
    pub kind: &'static str,
    /// Identity of the error, stable from run to run: a hash of the kind, the access and the program's own frames.
    pub identity: String,
    /// Numbers of the error's weaknesses in the Common Weakness Enumeration.
    pub cwe: &'static [u16],
    /// Process id; of an error that was found several times, that of the first time.
    pub pid: u32,
    /// Address that was accessed or freed, or the first one of its page; of changed bytes the first one, of a leak that
    /// of the first block. In hexadecimal.
    pub address: String,
    /// Kind of the access: `read` or `write`; null where memory was not accessed.
    pub access: Option<&'static str>,
    /// Function of the C library by which the program let the kernel access the memory; null where there was no such
    /// call.
    pub call: Option<&'static str>,
    /// Description of the address relative to its block, for people.
    pub place: String,
    /// Memory that is mapped at the address of a foreign free: `unknown`, `unmapped`, `stack`, `file`, `heap` or
    /// `mapped`; null for other kinds.
    pub region: Option<&'static str>,
    /// Functions that allocated and freed the block of a mismatched free; null for other kinds.
    pub operations: Option<Operations>,
    /// Number of times that the error was found; of a leak, the number of lost blocks.
    pub count: u64,
    /// Sums of the lost blocks of a leak; null for other kinds.
    pub leak: Option<LeakDocument>,
    /// Thread and stack of the access or the free; of a leak, those of the allocation.
    pub error: OperationDocument,
    /// Reason why the stack of `error` is not known or not whole; null where it is whole.
    pub without_stack: Option<String>,
    /// Block at or nearest to the address; null where none is near.
    pub block: Option<BlockDocument>,
    /// Bytes of memory, in hexadecimal: those that were changed, or those of a live block that are nearest to the
    /// access. Empty where there are none.
    pub bytes: String,
    /// What to do next, a sentence.
    pub advice: &'static str,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report<'a> {
    /// The command line that was guarded.
    pub command: Vec<String>,
    /// Exit status of the command as a shell shows it, 128 + signal where one ended it; null where it is not known.
    pub exit_status: Option<i32>,
    /// Name of the signal that ended the command; null where none did.
    pub ended_by: Option<String>,
    /// Errors, in the order in which they were found.
    pub errors: &'a [ErrorDocument],
    /// Signals that ended guarded processes, the command's children too.
    pub crashes: &'a [CrashDocument],
    /// Errors that `--suppressions` left out, each once, as `errors` would list them.
    pub suppressed: u64,
    /// Errors beyond those that are looked at in one process.
    pub lost: u64,
    /// Allocations that were guarded.
    pub guarded: u64,
    /// Allocations that were to be guarded and were not.
    pub unguarded: u64,
    /// Allocations that no slot fits: larger, or more aligned.
    pub unfit: u64,
    /// Numbers of processes that are not guarded, by the reason.
    pub refused: BTreeMap<String, u64>,
    /// Numbers of processes in which a signal handler takes the place of userfaultfd, by the reason why that is
    /// refused.
    pub handled: BTreeMap<String, u64>,
    /// Numbers of processes that were guarded no more from some moment on, by the reason.
    pub ended: BTreeMap<String, u64>,
    /// Reasons why programs that the command started are out of reach, a clause each.
    pub unreached: Vec<String>,
    /// Reason why the command itself is out of reach, a sentence; null: it was within reach.
    pub out_of_reach: Option<String>,
    /// Reason why less was guarded than `--require-guarded` asks for, a sentence; null: it was enough, or nobody asked.
    pub too_little: Option<String>,
    /// At which end of a block no page is missing, and the value of --place that has it there. None: it is either.
    #[serde(skip)]
    pub beyond: Option<(&'static str, &'static str)>,
    /// Numbers of processes whose allocations were not compared with their frees, by the reason.
    pub uncompared: BTreeMap<String, u64>,
    /// Allocators above malloc: blocks that they cut out of theirs are not guarded.
    pub custom_allocators: Vec<CustomAllocatorRow>,
    /// Process images that were seen.
    #[serde(skip)]
    pub processes: usize,
    /// Frees by another operation than the block's that are no errors: a module may have operators of its own.
    pub unsure: u64,
    /// Processes that were searched for leaks; an exec ends one and begins another.
    pub searched: u64,
    /// Numbers of processes that were not searched for leaks, by the reason; empty where nobody asked for the search.
    pub unsearched: BTreeMap<String, u64>,
    /// Names of the programs that each reason of `refused`, `handled`, `ended`, `uncompared` and `unsearched` is true
    /// of.
    pub programs: BTreeMap<String, BTreeSet<String>>,
}

impl Report<'_> {
    /// Whether every image that is known to have run was guarded from its beginning to its end, with each of its
    /// allocations.
    pub fn is_whole(&self) -> bool {
        let all_of_each = self.unguarded == 0 && self.unfit == 0 && self.custom_allocators.is_empty();
        all_of_each && self.refused.is_empty() && self.ended.is_empty() && self.unreached.is_empty()
    }

    /// Why fewer than `percent` of the allocations were guarded, or none; None: as many were.
    pub fn shortfall(&self, percent: f64) -> Option<String> {
        let all = self.guarded.saturating_add(self.unguarded).saturating_add(self.unfit);
        if self.guarded == 0 {
            return Some("Nothing was guarded, and --require-guarded asks for it.".to_owned());
        }
        // The quotient of two counts: exact enough to show, and compared as a product.
        let share = self.guarded as f64 * 100.0 / all as f64;
        if share < percent {
            let all = of(all, "allocation");
            return Some(format!(
                "{} of {all} were guarded, fewer than the {percent} % of --require-guarded.",
                count(self.guarded)
            ));
        }
        let unknown = [&self.refused, &self.ended]
            .into_iter()
            .flat_map(BTreeMap::values)
            .fold(0, |sum: u64, n| sum.saturating_add(*n))
            + self.unreached.len() as u64;
        let who = of(unknown, "process");
        (percent > 0.0 && unknown > 0)
            .then(|| format!("How much of {who} was guarded is not known, and --require-guarded asks for {percent} %."))
    }

    /// The signal of an error that ended the command, where no crash was seen.
    pub fn crash_unseen(&self) -> Option<&'static str> {
        let signal = self.exit_status? - 128;
        ending_signals::crash(signal).filter(|_| self.ended_by.is_some() && self.crashes.is_empty())
    }
}

#[derive(Debug, Default)]
pub struct Known {
    /// Suppressions of all kinds but leaks.
    pub errors: Suppressions,
    pub leaks: Suppressions,
}

/// Kind and stacks of an error: errors with one key are counted as one.
type Key = (Kind, Option<bool>, StackId, StackId, StackId);

impl Known {
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("cannot read the suppressions in {name}"))?;
        let parse =
            |kind| Suppressions::parse_kind(kind, &text).with_context(|| format!("{name} is no suppression file"));
        Ok(Self { errors: parse("guard")?, leaks: parse("leak")? })
    }
}

pub struct Errors {
    places: HashMap<Key, Option<usize>>,
    known: Known,
    /// Stacks of leaks that were left out.
    left_out: Vec<Stack>,
    /// Errors in the order in which they were found.
    pub all: Vec<ErrorDocument>,
    /// Signals that ended processes.
    pub crashes: Vec<CrashDocument>,
    /// Number of errors that were left out, each once.
    pub suppressed: u64,
    /// Outcomes of images that have ended.
    pub outcomes: Vec<Outcome>,
}

impl ErrorDocument {
    /// The error, the free and the allocation, as far as there are any.
    pub fn steps(&self) -> Vec<&OperationDocument> {
        steps::all(&self.error, self.block.as_ref())
    }

    /// Adds a leak of the same stack in another process, or by another function of malloc's family.
    fn add_leak(&mut self, count: u64, more: LeakDocument) {
        self.count += count;
        if let Some(leak) = &mut self.leak {
            leak.cycles += more.cycles;
            leak.bytes = leak.bytes.saturating_add(more.bytes);
            leak.held += more.held;
            leak.held_bytes = leak.held_bytes.saturating_add(more.held_bytes);
            self.place = leak.place(self.count);
            self.advice = leak.advice(self.count);
        }
    }
}

impl Errors {
    pub fn new(known: Known) -> Self {
        Self {
            places: HashMap::new(),
            known,
            left_out: Vec::new(),
            all: Vec::new(),
            crashes: Vec::new(),
            suppressed: 0,
            outcomes: Vec::new(),
        }
    }

    /// Takes a message of the keeper; `name` looks up the names of new frames. The error that is new with it.
    pub fn take(
        &mut self,
        message: Message,
        watch: &mut Watch,
        name: &mut dyn FnMut(&mut Profile),
    ) -> Option<&ErrorDocument> {
        match message {
            Message::Outcome(outcome) => {
                self.outcomes.push(outcome);
                None
            }
            Message::Finding(finding) => self.add(*finding, watch, name),
            Message::Leak(leak) => self.add_leak(&leak, watch, name),
            Message::Crash(crash) => {
                crashes::add(&mut self.crashes, &crash, watch, name);
                None
            }
        }
    }

    /// Why images were not searched for leaks, and how many.
    pub fn unsearched(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for reason in self.outcomes.iter().filter_map(|outcome| self.why_unsearched(outcome)) {
            *all.entry(reason.to_owned()).or_default() += 1;
        }
        all
    }

    /// Why the image was not searched for leaks. None: it was, or nobody asked for it.
    fn why_unsearched<'o>(&self, outcome: &'o Outcome) -> Option<&'o str> {
        let is_later = |other: &Outcome| other.pid == outcome.pid && other.began_ns > outcome.began_ns;
        match &outcome.search {
            Search::Unwanted | Search::Done => None,
            Search::Not(reason) => Some(reason),
            Search::Unknown if !self.outcomes.iter().any(is_later) => {
                Some("ended by a signal, or became a program that Mallow does not see")
            }
            Search::Replaced | Search::Unknown => Some("became another program by exec"),
        }
    }

    /// Names of executables by each reason why images were guarded or searched in part or not at all. One process may
    /// be several images, and a reason is true of one of them alone.
    pub fn programs(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for outcome in &self.outcomes {
            let name = outcome.executable.rsplit('/').next().unwrap_or_default();
            let reasons = [&outcome.refused, &outcome.handled, &outcome.ended, &outcome.uncompared];
            let reasons = reasons.into_iter().flatten().map(String::as_str).chain(self.why_unsearched(outcome));
            for reason in reasons.filter(|_| !name.is_empty()) {
                all.entry(reason.to_owned()).or_default().insert(name.to_owned());
            }
        }
        all
    }

    /// The largest leaks first, behind all other errors. Nothing may be taken after this.
    pub fn sort_leaks(&mut self) {
        self.places.clear();
        self.all.sort_by_key(|error| error.leak.map(|leak| Reverse(leak.bytes.saturating_add(leak.held_bytes))));
    }

    fn add_leak(
        &mut self,
        leak: &Leak,
        watch: &mut Watch,
        name: &mut dyn FnMut(&mut Profile),
    ) -> Option<&ErrorDocument> {
        let stack = intern(watch, (leak.pid, leak.serial), &leak.block.allocated.stack);
        let key = (Kind::Leak, None, stack, stack, Stacks::ROOT);
        let &Leak { count, cycles, bytes, held, held_bytes, .. } = leak;
        let own = LeakDocument { cycles, bytes, held, held_bytes };
        if let Some(known) = self.places.get(&key) {
            if let Some(error) = known.and_then(|at| self.all.get_mut(at)) {
                error.add_leak(count, own);
            }
            return None;
        }
        name(watch.profile_mut());
        let step = step(&leak.block.allocated, leak.at_ns, watch.profile(), stack);
        if self.known.leaks.covers(&step.stack) {
            self.places.insert(key, None);
            if !self.left_out.iter().any(|known| looks_alike(known, &step.stack)) {
                self.left_out.push(step.stack);
                self.suppressed += 1;
            }
            return None;
        }
        // Calls that look the same to the reader, as of a loop that the compiler unrolled.
        let alike = |error: &ErrorDocument| error.leak.is_some() && looks_alike(&error.error.stack, &step.stack);
        if let Some(at) = self.all.iter().position(alike) {
            self.places.insert(key, Some(at));
            self.all[at].add_leak(count, own);
            return None;
        }
        self.places.insert(key, Some(self.all.len()));
        self.all.push(ErrorDocument {
            kind: words::LEAK,
            identity: identity::of(words::LEAK, None, &[&step]),
            cwe: identity::weaknesses(words::LEAK, None),
            pid: leak.pid,
            address: format!("{:#x}", leak.block.address),
            access: None,
            call: None,
            place: own.place(count),
            region: None,
            operations: None,
            count,
            leak: Some(own),
            error: step.clone(),
            without_stack: None,
            block: Some(BlockDocument {
                address: format!("{:#x}", leak.block.address),
                size: leak.block.size,
                family: family(&leak.block),
                allocated: step,
                freed: None,
            }),
            bytes: String::new(),
            advice: own.advice(count),
        });
        self.all.last()
    }

    fn add(
        &mut self,
        finding: Finding,
        watch: &mut Watch,
        name: &mut dyn FnMut(&mut Profile),
    ) -> Option<&ErrorDocument> {
        let image = (finding.pid, finding.serial);
        let block = finding.block.as_ref();
        let operations =
            [Some(&finding.operation), block.map(|block| &block.allocated), block.and_then(|b| b.freed.as_ref())];
        let [error, allocated, freed] = operations
            .map(|operation| operation.map_or(Stacks::ROOT, |operation| intern(watch, image, &operation.stack)));
        let key = (finding.kind, finding.write, error, allocated, freed);
        if let Some(known) = self.places.get(&key) {
            if let Some(error) = known.and_then(|at| self.all.get_mut(at)) {
                error.count += 1;
            }
            return None;
        }
        name(watch.profile_mut());
        let profile = watch.profile();
        let at_ns = finding.operation.at_ns;
        let mut document = ErrorDocument {
            kind: words::name(finding.kind),
            identity: String::new(),
            cwe: &[],
            pid: finding.pid,
            address: format!("{:#x}", finding.address),
            access: finding.write.map(|write| if write { "write" } else { "read" }),
            call: finding.write.and_then(|_| steps::call_of(profile, error)),
            place: words::place(&finding),
            region: finding.region.as_ref().map(words::region),
            operations: block.zip(finding.mismatch).map(|(block, mismatch)| Operations::of(block, mismatch)),
            count: 1,
            leak: None,
            error: step(&finding.operation, at_ns, profile, error),
            without_stack: finding.without_stack.clone(),
            block: block.map(|block| block_of(block, at_ns, profile, (allocated, freed))),
            bytes: finding.bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            advice: words::advice(finding.kind, finding.address, block),
        };
        document.identity = identity::of(document.kind, document.access, &document.steps());
        document.cwe = identity::weaknesses(document.kind, document.access);
        let stacks = [Some(&document.error), document.block.as_ref().map(|block| &block.allocated)];
        let freed = document.block.as_ref().and_then(|block| block.freed.as_ref());
        if stacks.into_iter().chain([freed]).flatten().any(|step| self.known.errors.covers(&step.stack)) {
            self.places.insert(key, None);
            self.suppressed += 1;
            return None;
        }
        self.places.insert(key, Some(self.all.len()));
        self.all.push(document);
        self.all.last()
    }
}
