//! Which blocks a selection chose, and what the numbers of sites and processes have become.

use mallow_profile::{Block, Call, Event, Moment, ProcessId, Profile};

/// A bit for each allocation, by its sequence number.
#[derive(Clone, Debug, Default)]
pub(super) struct Bits {
    words: Vec<u64>,
    length: u64,
}

impl Bits {
    #[inline]
    pub fn push(&mut self, bit: bool) {
        let at = self.length % 64;
        if at == 0 {
            self.words.push(0);
        }
        if let Some(last) = self.words.last_mut() {
            *last |= u64::from(bit) << at;
        }
        self.length += 1;
    }

    /// False also for a number beyond the last.
    #[inline]
    pub fn get(&self, number: u64) -> bool {
        self.words.get((number / 64) as usize).is_some_and(|word| word >> (number % 64) & 1 != 0)
    }

    #[inline]
    pub fn clear(&mut self, number: u64) {
        if let Some(word) = self.words.get_mut((number / 64) as usize) {
            *word &= !(1 << (number % 64));
        }
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    pub fn ones(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

const NONE: u32 = u32::MAX;

/// New numbers for the entries that are there, in their order; [`NONE`] for the others.
fn renumber(there: impl Iterator<Item = bool>) -> Vec<u32> {
    let mut next = 0;
    there
        .map(|there| {
            next += u32::from(there);
            if there { next - 1 } else { NONE }
        })
        .collect()
}

/// Keeps the entries of `all` that have a new number.
fn keep<T>(all: &mut Vec<T>, numbers: &[u32]) {
    let mut numbers = numbers.iter();
    all.retain(|_| numbers.next().is_some_and(|&number| number != NONE));
}

/// Keeps what belongs to processes that have a new number, and gives it that.
fn keep_of<T>(all: &mut Vec<T>, numbers: &[u32], process: impl Fn(&mut T) -> &mut ProcessId) {
    all.retain_mut(|one| {
        let process = process(one);
        let new = number(numbers, process.0);
        new.into_iter().for_each(|new| *process = ProcessId(new));
        new.is_some()
    });
}

/// The blocks of a selection: which events belong to it, and how they name its sites, processes and threads.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Chosen allocations; None: all.
    blocks: Option<Bits>,
    /// The new number of each site of the recording, or [`NONE`].
    sites: Vec<u32>,
    processes: Vec<u32>,
    threads: Vec<u32>,
    /// Frees of blocks that were not seen allocated are among the events.
    foreign: bool,
    sequence: u64,
}

impl Choice {
    /// All blocks of a profile, under the numbers that it has.
    pub fn all(profile: &Profile) -> Self {
        let all = |length: usize| (0..length as u32).collect();
        Self {
            blocks: None,
            sites: all(profile.sites.len()),
            processes: all(profile.processes.len()),
            threads: all(profile.threads.len()),
            foreign: true,
            sequence: 0,
        }
    }

    /// Takes sites at which none of these blocks was allocated, and processes without sites, from the profile.
    pub(super) fn of(blocks: Bits, foreign: bool, profile: &mut Profile) -> Self {
        let sites = renumber(profile.sites.iter().map(|site| site.counts.allocations > 0));
        keep(&mut profile.sites, &sites);
        let mut has_sites = vec![false; profile.processes.len()];
        profile.sites.iter().for_each(|site| has_sites[site.process.0 as usize] = true);
        let processes = renumber(has_sites.iter().copied());
        keep(&mut profile.processes, &processes);
        let threads = renumber(profile.threads.iter().map(|thread| has_sites[thread.process.0 as usize]));
        keep(&mut profile.threads, &threads);
        keep(&mut profile.thread_names, &threads);
        let new = |process: &mut ProcessId| *process = ProcessId(processes[process.0 as usize]);
        profile.sites.iter_mut().for_each(|site| new(&mut site.process));
        profile.threads.iter_mut().for_each(|thread| new(&mut thread.process));
        keep_of(&mut profile.scans, &processes, |scan| &mut scan.process);
        keep_of(&mut profile.footprints, &processes, |footprint| &mut footprint.process);
        keep_of(&mut profile.rss, &processes, |series| &mut series.process);
        keep_of(&mut profile.size_classes, &processes, |classes| &mut classes.process);
        keep_of(&mut profile.custom_allocators, &processes, |allocator| &mut allocator.process);
        Self { blocks: Some(blocks), sites, processes, threads, foreign, sequence: 0 }
    }

    /// Chooses among the chosen blocks. `sites` has a new number for each present one, None for a site that is not
    /// wanted. Frees that belong to no site are not wanted either unless `foreign`.
    pub fn narrow(&mut self, sites: &[Option<u32>], foreign: bool) {
        for site in &mut self.sites {
            *site = sites.get(*site as usize).copied().flatten().unwrap_or(NONE);
        }
        self.foreign &= foreign;
    }

    /// How many allocations were visited so far.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Goes back before the first event.
    pub(super) fn rewind(&mut self) {
        self.sequence = 0;
    }

    /// The next event of the recording, as an event of the selection; None where it is no part of it.
    ///
    /// A realloc with only one of its two blocks chosen is an allocation that took over no block, or a realloc that
    /// freed.
    #[inline]
    pub(super) fn event(&mut self, at: Moment, event: Event) -> Option<(Moment, Event)> {
        let event = match event {
            Event::Allocate(call) => Event::Allocate(self.born(call)?),
            Event::Free(None) | Event::ReallocFree(None) if self.foreign => event,
            Event::Free(block) => Event::Free(Some(self.block(block?)?)),
            Event::ReallocFree(block) => Event::ReallocFree(Some(self.block(block?)?)),
            Event::UnseenFree(block) => Event::UnseenFree(self.block(block)?),
            Event::Reallocate { call, old, moved } => {
                let old = old.and_then(|old| self.block(old));
                match self.born(call) {
                    Some(call) => Event::Reallocate { call, old, moved },
                    None => Event::ReallocFree(Some(old?)),
                }
            }
            Event::Region { .. } | Event::EndProcess => event,
        };
        let process = number(&self.processes, at.process)?;
        let thread = number(&self.threads, at.thread).unwrap_or(0);
        Some((Moment { process, thread, ms: at.ms }, event))
    }

    #[inline]
    fn born(&mut self, call: Call) -> Option<Call> {
        let sequence = self.sequence;
        self.sequence += 1;
        Some(Call { site: self.site(sequence, call.site)?, ..call })
    }

    #[inline]
    fn block(&self, block: Block) -> Option<Block> {
        Some(Block { site: self.site(block.sequence, block.site)?, ..block })
    }

    #[inline]
    fn site(&self, sequence: u64, site: u32) -> Option<u32> {
        if self.blocks.as_ref().is_some_and(|blocks| !blocks.get(sequence)) {
            return None;
        }
        number(&self.sites, site)
    }
}

#[inline]
fn number(numbers: &[u32], old: u32) -> Option<u32> {
    numbers.get(old as usize).copied().filter(|&new| new != NONE)
}
