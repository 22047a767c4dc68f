//! The heap at one moment.

use mallow_profile::{Call, Counts, Event, Moment, Profile, StackId};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::change::{Change, changes};
use super::levels::{Levels, sites_by_process};
use crate::analysis::leaks::sites::Live;
use crate::analysis::numbers::{Ending, Least, LeftOut, Measure};
use crate::analysis::stacks::functions::{Frame, Functions, Stack};
use crate::analysis::summary::overview::{Place, places};

/// Live blocks at a moment, by place.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeapAt {
    /// The command line that was recorded.
    pub command: Vec<String>,
    /// Milliseconds from the begin of the recording to its end.
    pub duration_ms: u64,
    #[serde(flatten)]
    pub ending: Ending,
    /// Moment of the numbers, in milliseconds since the recording began: within this millisecond, the one at which most
    /// was live.
    pub ms: u64,
    /// Live blocks at the moment.
    pub live: u64,
    /// Requested bytes of the blocks in `live`.
    pub live_bytes: u64,
    /// Places where something was live, shown here or not.
    pub places_in_all: u64,
    /// Places with live blocks, the most bytes first.
    pub places: Vec<LivePlace>,
    /// Sums of the places that are not shown; null where all are.
    pub hidden: Option<LeftOut<Live>>,
}

impl HeapAt {
    /// Leaves out places with fewer live bytes.
    pub fn leave_out(&mut self, least: Least) {
        let min = least.of(self.live_bytes);
        let sums = |place: &LivePlace| Live { live: place.live, live_bytes: place.live_bytes };
        LeftOut::small(&mut self.hidden, &mut self.places, |place| place.live_bytes >= min, sums);
    }
}

/// A line of a function of the program's own, with all sites that it names.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LivePlace {
    /// The function; without its keys where the place's sites have no frames.
    #[serde(flatten)]
    pub frame: Option<Frame>,
    /// Function that the line called to get its memory; null where that is an allocating function.
    pub through: Option<String>,
    /// Live blocks at the moment.
    pub live: u64,
    /// Requested bytes of the blocks in `live`.
    pub live_bytes: u64,
    /// Call sites of the place with live blocks.
    pub sites: u64,
    /// Call site of the place with the most live bytes.
    pub largest_site: LiveSite,
}

/// One call site of a place.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LiveSite {
    /// Live blocks at the moment.
    pub live: u64,
    /// Requested bytes of the blocks in `live`.
    pub live_bytes: u64,
    #[serde(flatten)]
    pub stack: Stack,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeapMoment {
    /// The moment within this millisecond at which most was live.
    Ms(u64),
    /// The moment of the whole recording at which most was live.
    Peak,
    /// The last moment, before blocks were given up with their processes.
    End,
}

/// Makes a [`HeapAt`] of all events, which are read once.
pub struct HeapAtBuilder<'a> {
    profile: &'a Profile,
    moment: HeapMoment,
    /// By site, its live bytes, and its live blocks beside them.
    levels: Levels,
    sites_of: FxHashMap<u32, Vec<u32>>,
    /// The latest time so far, in milliseconds: times may go back a little between threads.
    clock: u64,
    ms: u64,
    /// Whether the moment has begun, and whether it is over, so that nothing more is taken in.
    begun: bool,
    over: bool,
    /// Whether the last event was the end of a process.
    ending: bool,
}

impl<'a> HeapAtBuilder<'a> {
    pub fn new(profile: &'a Profile, moment: HeapMoment) -> Self {
        let (sites_of, levels) = (sites_by_process(profile), Levels::new(profile.sites.len()));
        Self { profile, moment, levels, sites_of, clock: 0, ms: 0, begun: false, over: false, ending: false }
    }

    #[inline]
    pub fn event(&mut self, at: Moment, event: &Event) {
        self.clock = self.clock.max(at.ms);
        let ended = matches!(event, Event::EndProcess);
        match self.moment {
            HeapMoment::Ms(ms) => {
                self.over |= self.clock > ms;
                if self.over {
                    return;
                }
                if self.clock == ms && !self.begun {
                    self.begun = true;
                    self.levels.begin();
                }
            }
            HeapMoment::End if ended && !self.ending => self.begin_end(),
            HeapMoment::Peak | HeapMoment::End => {}
        }
        self.ending = ended;
        for change in changes(at, event) {
            match change {
                Change::Born(call) => self.born(call),
                Change::Gone(block) => self.gone(block.site as usize, block.size, 1),
                Change::AllGone(process) => {
                    for site in self.sites_of.get(&process).cloned().unwrap_or_default() {
                        let (bytes, blocks) = self.levels.now(site as usize);
                        self.gone(site as usize, bytes, blocks);
                    }
                }
            }
        }
    }

    fn begin_end(&mut self) {
        self.levels.begin();
        self.ms = self.clock;
    }

    #[inline]
    fn born(&mut self, call: Call) {
        let site = call.site as usize;
        if site < self.levels.len() && self.levels.raise(site, call.size) && self.moment == HeapMoment::Peak {
            self.ms = self.clock;
        }
    }

    #[inline]
    fn gone(&mut self, site: usize, bytes: u64, blocks: u64) {
        if site < self.levels.len() {
            self.levels.lower(site, bytes, blocks);
        }
    }

    /// Call it after the last event. Lists at most `limit` places.
    pub fn finish(mut self, limit: usize) -> HeapAt {
        match self.moment {
            // Nothing happened within this millisecond: it was as before.
            HeapMoment::Ms(_) if !self.begun => self.levels.begin(),
            HeapMoment::End if !self.ending => self.begin_end(),
            HeapMoment::Ms(_) | HeapMoment::End | HeapMoment::Peak => {}
        }
        let mut stacks: FxHashMap<StackId, Counts> = FxHashMap::default();
        let mut live = Counts::default();
        for (index, site) in self.profile.sites.iter().enumerate() {
            let (peak_bytes, peak) = self.levels.at_highest(index);
            let counts = Counts { peak, peak_bytes, ..Counts::default() };
            live += counts;
            if peak > 0 {
                *stacks.entry(site.stack).or_default() += counts;
            }
        }
        let mut stacks: Vec<_> = stacks.into_iter().collect();
        stacks.sort_unstable_by_key(|(stack, _)| *stack);
        let functions = Functions::new(self.profile);
        let ranked = places(&functions, &stacks, Measure::Peak, limit);
        let place = |place: Place| LivePlace {
            frame: place.frame,
            through: place.through,
            live: place.totals.peak,
            live_bytes: place.totals.peak_bytes,
            sites: place.sites,
            largest_site: LiveSite {
                live: place.largest_site.totals.peak,
                live_bytes: place.largest_site.totals.peak_bytes,
                stack: place.largest_site.stack,
            },
        };
        HeapAt {
            command: self.profile.command.clone(),
            duration_ms: self.profile.duration_ms,
            ending: Ending::of(self.profile),
            // The ends of processes may be noticed after the recording's.
            ms: if let HeapMoment::Ms(ms) = self.moment { ms } else { self.ms.min(self.profile.duration_ms) },
            live: live.peak,
            live_bytes: live.peak_bytes,
            places_in_all: ranked.places,
            hidden: ranked.hidden.map(|hidden| LeftOut {
                rows: hidden.rows,
                sums: Live { live: hidden.sums.peak, live_bytes: hidden.sums.peak_bytes },
            }),
            places: ranked.largest.into_iter().map(place).collect(),
        }
    }
}
