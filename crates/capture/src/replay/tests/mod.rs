//! The replay on rings that the tests write themselves.

mod basics;
mod patterns;
pub mod simulator;
mod threads;
mod windows;

pub use super::{End, Replay};
pub use crate::accounts::{EventSink, Ledger, Options};
use crate::chunk::{Chunk, ModuleStart, ProcessStart};
use crate::wire::record;
pub use mallow_profile::{Block, Call, Event, Moment};
use mallow_profile::{Profile, Site, StackId};
use std::io;

/// Words of one ring, as the target would write them.
#[derive(Clone, Debug, Default)]
pub struct Tape(pub Vec<u64>);

impl Tape {
    fn word(mut self, op: u64, flags: u64, argument: u64) -> Self {
        self.0.push(record::head(op, flags, argument));
        self
    }

    pub fn time(self, ms: u64) -> Self {
        self.word(record::OP_TIME, 0, ms)
    }

    pub fn order(self, number: u64) -> Self {
        self.word(record::OP_ORDER, 0, number)
    }

    pub fn region(self, number: u64, end: bool, this_thread: bool) -> Self {
        self.word(
            record::OP_REGION,
            if this_thread { record::FLAG_THIS_THREAD } else { 0 },
            number << 1 | u64::from(end),
        )
    }

    pub fn thread(self, tid: u64) -> Self {
        self.word(record::OP_THREAD, 0, tid)
    }

    pub fn generation(self, generation: u64) -> Self {
        self.word(record::OP_GENERATION, 0, generation)
    }

    pub fn lost(self, events: u64) -> Self {
        self.word(record::OP_LOST, 0, events)
    }

    pub fn stack(self, keep: u64, pcs: &[u64]) -> Self {
        self.stack_flags(0, keep, pcs)
    }

    pub fn stack_flags(self, flags: u64, keep: u64, pcs: &[u64]) -> Self {
        let mut tape = self.word(record::OP_STACK, flags, keep << 32 | pcs.len() as u64);
        tape.0.extend(pcs);
        tape
    }

    pub fn alloc(self, family: u64, address: u64, size: u64, stack: u64) -> Self {
        let mut tape = self.word(record::OP_ALLOC + family, 0, address);
        tape.0.push(size << record::STACK_BITS | stack);
        tape
    }

    pub fn alloc_wide(self, address: u64, size: u64, stack: u64) -> Self {
        let mut tape = self.word(record::OP_ALLOC, record::FLAG_WIDE_SIZE, address);
        tape.0.extend([size, stack]);
        tape
    }

    pub fn alloc_same(self, family: u64, address: u64) -> Self {
        self.word(record::OP_ALLOC + family, record::FLAG_SAME, address)
    }

    pub fn free(self, address: u64) -> Self {
        self.word(record::OP_FREE, 0, address)
    }

    pub fn begin(self, address: u64) -> Self {
        self.word(record::OP_REALLOC_BEGIN, 0, address)
    }

    pub fn done(self, address: u64, size: u64, stack: u64) -> Self {
        let mut tape = self.word(record::OP_REALLOC_DONE, 0, address);
        tape.0.push(size << record::STACK_BITS | stack);
        tape
    }

    pub fn freed(self) -> Self {
        self.word(record::OP_REALLOC_FREED, 0, 0)
    }

    pub fn failed(self) -> Self {
        self.word(record::OP_REALLOC_FAILED, 0, 0)
    }
}

/// A replay with one process and one module, `/bin/a` at 0x1000..0x9000, link-time address 0x100.
pub fn started() -> Replay<()> {
    let mut replay = Replay::new(Options::default(), ());
    process(&mut replay, 0);
    replay
}

pub fn process<S: EventSink>(replay: &mut Replay<S>, number: u32) {
    let start = ProcessStart { process: number, pid: 100 + number, ..ProcessStart::default() };
    replay.feed(&Chunk::Process(start)).unwrap();
    module(replay, number, "/bin/a", 0x1000..0x9000, 0);
}

pub fn module<S: EventSink>(
    replay: &mut Replay<S>,
    process: u32,
    path: &str,
    range: std::ops::Range<u64>,
    generation: u32,
) {
    let module = ModuleStart {
        process,
        start: range.start,
        end: range.end,
        base_svma: 0x100,
        generation,
        build_id: vec![1, 2],
        path: path.into(),
    };
    replay.feed(&Chunk::Module(module)).unwrap();
}

pub fn words<S: EventSink>(replay: &mut Replay<S>, process: u32, ring: u32, tape: Tape) {
    replay.feed(&Chunk::Words { process, ring, end: 0, words: &tape.0 }).unwrap();
}

pub fn round<S: EventSink>(replay: &mut Replay<S>, ms: u64) {
    replay.feed(&Chunk::Round { ms }).unwrap();
}

pub fn profile<S: EventSink>(replay: Replay<S>) -> Profile {
    let (profile, sink) = replay.finish(End { duration_ms: 1000, ..End::default() });
    sink.unwrap();
    profile
}

/// What a single ring says.
pub fn replayed(tape: Tape) -> Profile {
    let mut replay = started();
    words(&mut replay, 0, 0, tape);
    profile(replay)
}

/// Link-time addresses of a stack, the innermost first.
pub fn addresses(profile: &Profile, stack: StackId) -> Vec<u64> {
    profile.stacks.frames(stack).map(|frame| profile.frames[frame.0 as usize].address).collect()
}

/// The site whose stack has these link-time addresses.
pub fn site<'a>(profile: &'a Profile, stack: &[u64]) -> &'a Site {
    profile.sites.iter().find(|site| addresses(profile, site.stack) == stack).unwrap()
}

/// Keeps all events.
#[derive(Debug, Default)]
pub struct Log(pub Vec<(Moment, Event)>);

impl EventSink for Log {
    fn event(&mut self, at: Moment, event: Event) {
        self.0.push((at, event));
    }

    fn settle(&mut self, _: &Ledger) -> io::Result<()> {
        Ok(())
    }
}
