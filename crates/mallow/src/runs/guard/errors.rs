//! Errors that were found, with names: once for each kind and place, with a count.

use std::collections::{BTreeMap, HashMap};

use mallow_capture::guard::{Addresses, Deed, Finding, Kind, Message, Outcome};
use mallow_capture::watch::Watch;
use mallow_profile::{FAMILIES, Profile, StackId, Stacks};
use mallow_report::analysis::{Stack, Suppressions, stack_of};
use serde::Serialize;

use super::words;

/// A thread and what it did, as a report shows it.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// Thread.
    pub tid: u32,
    /// Its name; empty where it had ended.
    pub thread: String,
    /// Milliseconds before the error.
    pub before_ms: u64,
    /// Where.
    pub stack: Stack,
}

/// The block.
#[derive(Clone, Debug, Serialize)]
pub struct BlockDocument {
    /// Its first byte, in hexadecimal.
    pub address: String,
    /// Requested bytes.
    pub size: u64,
    /// The function that was called.
    pub family: &'static str,
    /// Its allocation.
    pub allocated: Step,
    /// Its free.
    pub freed: Option<Step>,
}

/// An error, as a report shows it and JSON has it.
#[derive(Clone, Debug, Serialize)]
pub struct ErrorDocument {
    /// One of the names of [`words::name`].
    pub kind: &'static str,
    /// Process.
    pub pid: u32,
    /// The first address, in hexadecimal.
    pub address: String,
    /// `read` or `write`; none: no access.
    pub access: Option<&'static str>,
    /// Where the address is, in words.
    pub place: String,
    /// How often it was found.
    pub count: u64,
    /// The access, or the free.
    pub error: Step,
    /// Why its stack is not known or not whole.
    pub without_stack: Option<String>,
    /// The block.
    pub block: Option<BlockDocument>,
    /// Bytes of memory, in hexadecimal: what they are depends on the kind.
    pub bytes: String,
    /// What to do.
    pub advice: &'static str,
}

/// What is reported.
#[derive(Debug, Serialize)]
pub struct Report<'a> {
    /// The command.
    pub command: Vec<String>,
    /// Its status; 128 + signal where one ended it.
    pub exit_status: Option<i32>,
    /// Errors, in the order in which they were found.
    pub errors: &'a [ErrorDocument],
    /// Errors that `--suppressions` left out.
    pub suppressed: u64,
    /// Errors beyond those that are looked at in one process.
    pub lost: u64,
    /// Guarded allocations.
    pub guarded: u64,
    /// Those that were to be guarded, and were not.
    pub unguarded: u64,
    /// Those larger or more aligned than any slot.
    pub unfit: u64,
    /// Why processes are not guarded, and how many.
    pub refused: BTreeMap<String, u64>,
}

/// The same stacks and kind are one error.
type Key = (Kind, Option<bool>, StackId, StackId, StackId);

/// Errors of a run.
pub struct Errors {
    places: HashMap<Key, Option<usize>>,
    suppressions: Suppressions,
    /// In the order in which they were found.
    pub all: Vec<ErrorDocument>,
    /// Errors that were left out.
    pub suppressed: u64,
    /// Of images that are over.
    pub outcomes: Vec<Outcome>,
}

impl Errors {
    /// None yet.
    pub fn new(suppressions: Suppressions) -> Self {
        Self { places: HashMap::new(), suppressions, all: Vec::new(), suppressed: 0, outcomes: Vec::new() }
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
        }
    }

    fn add(
        &mut self,
        finding: Finding,
        watch: &mut Watch,
        name: &mut dyn FnMut(&mut Profile),
    ) -> Option<&ErrorDocument> {
        let image = (finding.pid, finding.serial);
        let mut intern = |addresses: &Addresses| {
            let Addresses { pcs, generation, cut } = addresses;
            watch.stack(image, *generation, pcs, *cut).unwrap_or(Stacks::ROOT)
        };
        let block = finding.block.as_ref();
        let deeds = [Some(&finding.deed), block.map(|block| &block.allocated), block.and_then(|b| b.freed.as_ref())];
        let [error, allocated, freed] = deeds.map(|deed| deed.map_or(Stacks::ROOT, |deed| intern(&deed.stack)));
        let key = (finding.kind, finding.write, error, allocated, freed);
        if let Some(known) = self.places.get(&key) {
            match known.and_then(|at| self.all.get_mut(at)) {
                Some(error) => error.count += 1,
                None => self.suppressed += 1,
            }
            return None;
        }
        name(watch.profile_mut());
        let profile = watch.profile();
        let at_ns = finding.deed.at_ns;
        let step = |deed: &Deed, stack: StackId| Step {
            tid: deed.tid,
            thread: deed.thread.clone(),
            before_ms: at_ns.saturating_sub(deed.at_ns) / 1_000_000,
            stack: stack_of(profile, stack),
        };
        let document = ErrorDocument {
            kind: words::name(finding.kind),
            pid: finding.pid,
            address: format!("{:#x}", finding.address),
            access: finding.write.map(|write| if write { "write" } else { "read" }),
            place: words::place(&finding),
            count: 1,
            error: step(&finding.deed, error),
            without_stack: finding.without_stack.clone(),
            block: block.map(|block| BlockDocument {
                address: format!("{:#x}", block.address),
                size: block.size,
                family: FAMILIES.get(usize::from(block.family)).copied().unwrap_or_default(),
                allocated: step(&block.allocated, allocated),
                freed: block.freed.as_ref().map(|deed| step(deed, freed)),
            }),
            bytes: finding.bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            advice: words::advice(finding.kind),
        };
        let stacks = [Some(&document.error), document.block.as_ref().map(|block| &block.allocated)];
        let freed = document.block.as_ref().and_then(|block| block.freed.as_ref());
        if stacks.into_iter().chain([freed]).flatten().any(|step| self.suppressions.covers(&step.stack)) {
            self.places.insert(key, None);
            self.suppressed += 1;
            return None;
        }
        self.places.insert(key, Some(self.all.len()));
        self.all.push(document);
        self.all.last()
    }
}
