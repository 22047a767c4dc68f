//! Random stories of a few processes: as a recording, and as a list of blocks in which everything can be looked up.

use super::*;
use crate::scan::LostBlock;
use mallow_profile::{
    Block, Call, Frame, FrameId, LostBlocks, LostKind, ProcessId, Scan, ScanOutcome, StackId, Stacks, sum_lost,
};
use std::collections::BTreeMap;

/// One thing that happens. Numbers are taken modulo what there is.
#[derive(Clone, Debug)]
pub enum Step {
    Allocate { thread: u32, place: u32, size: u64, family: u8 },
    Reallocate { thread: u32, place: u32, size: u64, which: u8, moved: bool, foreign: bool },
    Free { thread: u32, which: u8, how: How },
    Later { ms: u64 },
    Earlier,
    End { process: u32 },
}

/// How a block goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Free,
    Realloc,
    ReallocFree,
    Unseen,
    Foreign,
    ForeignRealloc,
}

pub const PROCESSES: u32 = 3;
pub const THREADS: u32 = 7;
const PLACES: u32 = 5;

pub fn sizes() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 0u64..5, 2 => Just(64), 1 => Just(u64::MAX >> 10), 2 => 60u64..5000]
}

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let thread = || 0..THREADS;
    let place = || 0..PLACES;
    let how = prop_oneof![
        8 => Just(How::Free),
        1 => Just(How::ReallocFree),
        1 => Just(How::Unseen),
        1 => Just(How::Foreign),
        1 => Just(How::ForeignRealloc),
    ];
    let step = prop_oneof![
        12 => (thread(), place(), sizes(), 0u8..9)
            .prop_map(|(thread, place, size, family)| Step::Allocate { thread, place, size, family }),
        4 => (thread(), place(), sizes(), any::<u8>(), any::<bool>(), prop::bool::weighted(0.2)).prop_map(
            |(thread, place, size, which, moved, foreign)| Step::Reallocate { thread, place, size, which, moved, foreign }
        ),
        10 => (thread(), any::<u8>(), how).prop_map(|(thread, which, how)| Step::Free { thread, which, how }),
        4 => (0u64..40).prop_map(|ms| Step::Later { ms }),
        1 => Just(Step::Earlier),
        1 => (0..4 * PROCESSES).prop_map(|process| Step::End { process }),
    ];
    prop::collection::vec(step, 0..150)
}

/// A block, from its beginning to its end. Events are named by their index.
#[derive(Clone, Debug)]
pub struct Life {
    pub born: usize,
    pub at: Moment,
    pub call: Call,
    /// It was made by realloc of another block, which moved or did not.
    pub moved: Option<bool>,
    pub gone: Option<(usize, Moment, How)>,
    /// Its process's end, where it lived so long.
    pub live: Option<(usize, u64)>,
}

impl Life {
    pub fn end_ms(&self) -> u64 {
        self.gone.map(|(_, at, _)| at.ms).or(self.live.map(|(_, ms)| ms)).unwrap()
    }
}

/// The events of a story, with what they amount to.
#[derive(Default)]
pub struct Story {
    pub events: Vec<(Moment, Event)>,
    pub lives: Vec<Life>,
    /// Process and place of each site.
    pub sites: Vec<(u32, u32)>,
    /// Lost blocks, by number.
    pub lost: Vec<LostBlock>,
    pub profile: Profile,
    pub file: Vec<u8>,
}

impl Story {
    /// Of each three blocks that leak, the first one is lost, and holds the second one. The second process was not
    /// scanned, the third one ended by exec if it leaked anything.
    fn lose(&mut self) {
        let mut live = 0;
        let (mut head, mut kind) = (None, LostKind::Other);
        for (sequence, life) in (0..).zip(&self.lives) {
            if life.live.is_none() || life.at.process != 0 {
                continue;
            }
            live += 1;
            if live % 3 == 1 {
                kind = if live % 2 == 1 { LostKind::ImmortalString } else { LostKind::Other };
            }
            let lost = LostBlock {
                address: 0,
                sequence,
                site: life.call.site,
                size: life.call.size,
                head: if live % 3 == 1 { None } else { head },
                kind,
                in_cycle: false,
            };
            match live % 3 {
                1 => head = Some((sequence, life.call.site)),
                2 => {}
                _ => continue,
            }
            self.lost.push(lost);
        }
    }

    fn scans(&self, stacks: &[StackId]) -> Vec<Scan> {
        let stack = |site: u32| stacks[self.sites[site as usize].1 as usize];
        let row = |lost: &LostBlock| LostBlocks {
            stack: stack(lost.site),
            head: lost.head.map(|(_, site)| stack(site)),
            kind: lost.kind,
            blocks: 1,
            bytes: lost.size,
        };
        let outcomes = [ScanOutcome::Scanned, ScanOutcome::Failed("killed".to_owned()), ScanOutcome::Exec];
        let mut scans: Vec<Scan> = (0..)
            .zip(outcomes)
            .map(|(process, outcome)| Scan { process: ProcessId(process), outcome, ..Scan::default() })
            .filter(|scan| self.lives.iter().any(|life| life.live.is_some() && life.at.process == scan.process.0))
            .collect();
        for scan in scans.iter_mut().filter(|scan| scan.process == ProcessId(0)) {
            scan.lost = sum_lost(self.lost.iter().map(row).collect());
        }
        scans
    }
}

#[derive(Default)]
struct StoryBuilder {
    ledger: Ledger,
    stacks: Vec<StackId>,
    sites: BTreeMap<(u32, u32), u32>,
    live: [Vec<Block>; PROCESSES as usize],
    ended: [bool; PROCESSES as usize],
    ms: u64,
    story: Story,
}

/// Builds a story. `close`: the ends of processes that have not ended are events too. A file has blocks of so many
/// events.
pub fn build_story(steps: &[Step], close: bool, events: u64) -> Story {
    let mut builder = StoryBuilder { ms: 10, ..StoryBuilder::default() };
    for pid in 0..PROCESSES {
        builder.ledger.add_process(Process { pid: 100 + pid, start_ms: u64::from(pid), ..Process::default() });
    }
    for thread in 0..THREADS {
        builder.ledger.add_thread(thread % PROCESSES, 1000 + thread);
    }
    let frame = |address| Frame::new(None, address, false);
    builder.ledger.catalog.frames = (0..PLACES).map(|place| frame(place.into())).collect();
    builder.stacks =
        (0..PLACES).map(|place| builder.ledger.catalog.stacks.push(Stacks::ROOT, FrameId(place))).collect();
    steps.iter().for_each(|step| builder.step(step));
    let last = builder.story.events.iter().map(|(at, _)| at.ms).fold(u64::from(PROCESSES) - 1, u64::max);
    for process in 0..PROCESSES {
        builder.end(process, last, close);
    }
    let StoryBuilder { ledger, mut story, stacks, .. } = builder;
    story.lose();
    let mut writer = Writer::new(Vec::new(), &options()).unwrap().blocks_of(events);
    for &(at, event) in &story.events {
        writer.event(at, event);
        writer.settle(&ledger).unwrap();
    }
    for process in 0..PROCESSES {
        let lost = story.lost.iter().filter(|lost| story.lives[lost.sequence as usize].at.process == process);
        writer.lost_blocks(process, lost.copied().collect());
    }
    writer.close(&ledger).unwrap();
    let scans = story.scans(&stacks);
    story.profile = Profile { duration_ms: last, scans, ..ledger.close() };
    story.file = writer.finish(&story.profile).unwrap();
    story
}

impl StoryBuilder {
    fn step(&mut self, step: &Step) {
        match *step {
            Step::Later { ms } => self.ms += ms,
            // Never by more than time has gone on.
            Step::Earlier => self.ms -= 1.min(self.ms - 1),
            Step::End { process } if process < PROCESSES => self.end(process, self.ms, true),
            Step::End { .. } => {}
            Step::Allocate { thread, place, size, family } => {
                let Some(at) = self.moment(thread) else { return };
                let call = Call { family, site: self.site(at.process, place), size };
                self.born(at, call, None);
                self.story.events.push((at, Event::Allocate(call)));
            }
            Step::Reallocate { thread, place, size, which, moved, foreign } => {
                let Some(at) = self.moment(thread) else { return };
                let old = if foreign { None } else { self.take(at.process, which) };
                if let Some(block) = old {
                    self.story.lives[block.sequence as usize].gone = Some((self.story.events.len(), at, How::Realloc));
                }
                let call = Call { family: 2 + u8::from(size == 64), site: self.site(at.process, place), size };
                self.born_by(at, call, Some(moved), |ledger| ledger.reallocate(at, old.as_ref(), call, moved));
                self.story.events.push((at, Event::Reallocate { call, old, moved }));
            }
            Step::Free { thread, which, how } => {
                let Some(at) = self.moment(thread) else { return };
                let foreign = matches!(how, How::Foreign | How::ForeignRealloc);
                let block = if foreign { None } else { self.take(at.process, which) };
                if let Some(block) = block {
                    self.story.lives[block.sequence as usize].gone = Some((self.story.events.len(), at, how));
                }
                let event = match (how, block) {
                    (How::Unseen, Some(block)) => Event::UnseenFree(block),
                    (How::Unseen, None) => return,
                    (How::ReallocFree | How::ForeignRealloc, block) => Event::ReallocFree(block),
                    (_, block) => Event::Free(block),
                };
                match event {
                    Event::UnseenFree(block) => self.ledger.unseen_free(at, &block),
                    Event::ReallocFree(block) => self.ledger.realloc_free(at, block.as_ref()),
                    _ => self.ledger.free(at, block.as_ref()),
                }
                self.story.events.push((at, event));
            }
        }
    }

    fn moment(&self, thread: u32) -> Option<Moment> {
        let process = thread % PROCESSES;
        (!self.ended[process as usize]).then_some(Moment { process, thread, ms: self.ms })
    }

    fn site(&mut self, process: u32, place: u32) -> u32 {
        *self.sites.entry((process, place)).or_insert_with(|| {
            self.story.sites.push((process, place));
            self.ledger.add_site(process, self.stacks[place as usize])
        })
    }

    fn take(&mut self, process: u32, which: u8) -> Option<Block> {
        let live = &mut self.live[process as usize];
        (!live.is_empty()).then(|| live.swap_remove(usize::from(which) % live.len()))
    }

    fn born(&mut self, at: Moment, call: Call, moved: Option<bool>) {
        self.born_by(at, call, moved, |ledger| ledger.allocate(at, call));
    }

    fn born_by(&mut self, at: Moment, call: Call, moved: Option<bool>, post: impl FnOnce(&mut Ledger) -> Block) {
        let block = post(&mut self.ledger);
        assert_eq!(block.sequence, self.story.lives.len() as u64);
        self.live[at.process as usize].push(block);
        let born = self.story.events.len();
        self.story.lives.push(Life { born, at, call, moved, gone: None, live: None });
    }

    fn end(&mut self, process: u32, ms: u64, recorded: bool) {
        if std::mem::replace(&mut self.ended[process as usize], true) {
            return;
        }
        let live = std::mem::take(&mut self.live[process as usize]);
        for block in &live {
            self.story.lives[block.sequence as usize].live = Some((self.story.events.len(), ms));
        }
        self.ledger.end_process(process, ms, live.into_iter());
        if recorded {
            self.story.events.push((Moment { process, thread: 0, ms }, Event::EndProcess));
        }
    }
}
