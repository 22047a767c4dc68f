//! Which leaked blocks something still points to, as scans of processes at their exit found.

use mallow_profile::{LostSite, ProcessId, Profile, Site, StackId};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::functions::{Frame, Functions};
use super::leak_sites::{LeakSite, Leaked};

/// What is known of a leaked block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeakState {
    /// Nothing points to it but lost blocks. It counts at the call path of the lost block that holds it.
    Lost,
    /// Something points to it.
    Reachable,
    /// The memory of its process was not scanned.
    Unscanned,
}

/// How the leaked blocks of a recording divide.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LeakStates {
    /// Lost blocks.
    pub lost_blocks: u64,
    /// Their bytes.
    pub lost_bytes: u64,
    /// Blocks that something still pointed to.
    pub reachable_blocks: u64,
    /// Their bytes.
    pub reachable_bytes: u64,
    /// Processes that were not scanned, by the reason.
    pub unscanned: Vec<Unscanned>,
    /// Cycles of lost blocks, those with the most bytes first.
    pub lost_cycles: Vec<Cycle>,
}

/// Leaked blocks of processes that were not scanned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Unscanned {
    /// Why.
    pub reason: String,
    /// Process ids.
    pub pids: Vec<u32>,
    /// Their leaked blocks.
    #[serde(flatten)]
    pub leaked: Leaked,
}

/// Lost blocks that point to each other in a circle, and are held by nothing else.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Cycle {
    /// How many circles.
    pub count: u64,
    /// Blocks in them, and held by them.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Where their blocks come from, in the order of allocation.
    pub places: Vec<CyclePlace>,
}

/// Where a block of a cycle comes from.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CyclePlace {
    /// The function of the program; None where its stack has no frames.
    #[serde(flatten)]
    pub frame: Option<Frame>,
    /// What holds it: `shared_ptr`, `Rc` or `Arc`, where its stack shows that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<&'static str>,
}

/// From sites to the states of their blocks.
pub(super) struct States<'a> {
    lost: FxHashMap<(ProcessId, StackId), &'a LostSite>,
    failures: FxHashMap<ProcessId, Option<&'a str>>,
}

impl<'a> States<'a> {
    /// None: the recording has no scans.
    pub fn of(profile: &'a Profile) -> Option<Self> {
        if profile.scans.is_empty() {
            return None;
        }
        let sites =
            profile.scans.iter().flat_map(|scan| scan.sites.iter().map(|site| ((scan.process, site.stack), site)));
        let failures = profile.scans.iter().map(|scan| (scan.process, scan.failure.as_deref()));
        Some(Self { lost: sites.collect(), failures: failures.collect() })
    }

    /// Why the process of a site was not scanned.
    fn failure(&self, site: &Site) -> Option<&'a str> {
        self.failures.get(&site.process).copied().unwrap_or(Some("no scan was asked for"))
    }

    /// What of a site's leaked blocks has this state; and of them, how many no other lost block holds.
    pub fn leaked(&self, site: &Site, state: LeakState) -> (Leaked, u64) {
        let all = Leaked { leaked: site.counts.leaked, leaked_bytes: site.counts.leaked_bytes };
        let lost = self.lost.get(&(site.process, site.stack)).map(|lost| **lost).unwrap_or_default();
        match (self.failure(site), state) {
            (Some(_), LeakState::Unscanned) => (all, all.leaked),
            (Some(_), _) | (None, LeakState::Unscanned) => (Leaked::default(), 0),
            (None, LeakState::Lost) => {
                let leaked = lost.heads.saturating_add(lost.held);
                let leaked_bytes = lost.head_bytes.saturating_add(lost.held_bytes);
                (Leaked { leaked, leaked_bytes }, lost.heads)
            }
            (None, LeakState::Reachable) => {
                let leaked = all.leaked.saturating_sub(lost.lost);
                (Leaked { leaked, leaked_bytes: all.leaked_bytes.saturating_sub(lost.lost_bytes) }, leaked)
            }
        }
    }
}

/// What is live of a site in this state, or in any; None: nothing is.
pub(super) fn chosen(
    profile: &Profile,
    site: &Site,
    states: Option<&States<'_>>,
    state: Option<LeakState>,
) -> Option<LeakSite> {
    if site.counts.leaked == 0 && site.counts.leaked_bytes == 0 {
        return None;
    }
    let mut chosen = LeakSite::of(profile, site);
    if let Some(state) = state {
        let (Leaked { leaked, leaked_bytes }, heads) = states?.leaked(site, state);
        let heads = if state == LeakState::Lost { heads } else { 0 };
        chosen = LeakSite { leaked, leaked_bytes, heads, ..chosen };
    }
    (chosen.leaked > 0 || chosen.leaked_bytes > 0).then_some(chosen)
}

/// How the leaked blocks of a recording divide; None: it has no scans. At most `limit` kinds of cycles.
pub fn leak_states(profile: &Profile, limit: usize) -> Option<LeakStates> {
    let states = States::of(profile)?;
    let mut sums = LeakStates::default();
    let leaking = profile.sites.iter().filter(|s| s.counts.leaked > 0 || s.counts.leaked_bytes > 0);
    let mut all = [Leaked::default(); 2];
    for site in leaking {
        for (sum, state) in all.iter_mut().zip([LeakState::Lost, LeakState::Reachable]) {
            *sum += states.leaked(site, state).0;
        }
        if let Some(reason) = states.failure(site) {
            let (leaked, _) = states.leaked(site, LeakState::Unscanned);
            let at = sums.unscanned.iter().position(|known| known.reason == reason).unwrap_or_else(|| {
                sums.unscanned.push(Unscanned { reason: reason.to_owned(), ..Unscanned::default() });
                sums.unscanned.len() - 1
            });
            let known = &mut sums.unscanned[at];
            known.leaked += leaked;
            if let Some(process) = profile.processes.get(site.process.0 as usize)
                && !known.pids.contains(&process.pid)
            {
                known.pids.push(process.pid);
            }
        }
    }
    [sums.lost_blocks, sums.reachable_blocks] = all.map(|leaked| leaked.leaked);
    [sums.lost_bytes, sums.reachable_bytes] = all.map(|leaked| leaked.leaked_bytes);
    sums.lost_cycles = cycles(profile, limit);
    Some(sums)
}

fn cycles(profile: &Profile, limit: usize) -> Vec<Cycle> {
    if profile.scans.iter().all(|scan| scan.cycles.is_empty()) {
        return Vec::new();
    }
    let functions = Functions::new(profile);
    let mut known: FxHashMap<Vec<_>, Cycle> = FxHashMap::default();
    for cycle in profile.scans.iter().flat_map(|scan| &scan.cycles) {
        let mut key = Vec::new();
        let mut places = Vec::new();
        for &stack in &cycle.stacks {
            let named = functions.named(stack);
            let line = named.map(|named| named.key());
            // A block and what controls it may come from one line.
            if !key.contains(&line) {
                key.push(line);
                let frame = named.map(|named| functions.frame(&named.step));
                places.push(CyclePlace { frame, pointer: pointer(&functions, stack) });
            }
        }
        let sum = known.entry(key).or_insert_with(|| Cycle { places, ..Cycle::default() });
        sum.count = sum.count.saturating_add(cycle.count);
        sum.blocks = sum.blocks.saturating_add(cycle.blocks);
        sum.bytes = sum.bytes.saturating_add(cycle.bytes);
    }
    let mut all: Vec<Cycle> = known.into_values().collect();
    all.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(b.count.cmp(&a.count)));
    all.truncate(limit);
    all
}

/// What counts the references to a block, by the functions that allocated it.
fn pointer(functions: &Functions<'_>, stack: StackId) -> Option<&'static str> {
    const MARKS: [(&str, &str); 6] = [
        ("swift_allocObject", "Swift reference"),
        ("std::make_shared<", "shared_ptr"),
        ("std::__shared_count<", "shared_ptr"),
        ("std::allocate_shared<", "shared_ptr"),
        ("alloc::rc::Rc<", "Rc"),
        ("alloc::sync::Arc<", "Arc"),
    ];
    functions.steps(stack).take_while(|step| functions.is_looked_past(step)).find_map(|step| {
        let name = functions.name(step.function);
        MARKS.iter().find(|(mark, _)| name.contains(mark)).map(|&(_, pointer)| pointer)
    })
}
