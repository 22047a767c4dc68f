//! Events as columns of an event block.
//!
//! Programs repeat themselves, so each event is guessed from those before it, and a right guess is a small number that
//! zstd makes vanish. What is guessed is the event's *symbol*: its op, with the site where it has one. The writer and
//! the reader keep the same [`Model`], which lives on from block to block: event blocks are read from the first on.
//!
//! | column | for | holds |
//! | --- | --- | --- |
//! | 0 | the block | number of events |
//! | 1 | each event | a byte: 0 or 1 where the guess by the last three or the last one event is right, else op + 2 |
//! | 2 | a symbol with a site not guessed | 0: the site that has the next number and was not used before; else sites used − site |
//! | 3 | an allocation | 0: the size that this site had last; else size + 1 |
//! | 4 | an event that names a block | [`fold`] of its sequence number and that of the block named last + 1 |
//! | 5 | TIME, THREAD, END, REGION | fold of the milliseconds and those before; index of the thread; number of the process; number of the run × 4 + 2 for this thread alone + 1 at its end |

use super::bytes::{fold, put};
use mallow_arch::prefetch::prefetch;
use mallow_profile::{Block, Call, Event, FAMILIES, Moment};

/// Columns of an event block.
pub const COLUMNS: usize = 6;

const HEAD: usize = 0;
const OPS: usize = 1;
const SITES: usize = 2;
const SIZES: usize = 3;
const BLOCKS: usize = 4;
const CONTEXT: usize = 5;

/// First op of an allocation: its family is added.
pub const ALLOCATE: u8 = 0;
/// First op of a realloc: plus 1 if the block moved, 2 for reallocarray, 4 if the old block is not known.
pub const REALLOCATE: u8 = FAMILIES.len() as u8;
pub const FREE: u8 = REALLOCATE + 8;
pub const FOREIGN_FREE: u8 = FREE + 1;
pub const REALLOC_FREE: u8 = FREE + 2;
pub const FOREIGN_REALLOC_FREE: u8 = FREE + 3;
pub const UNSEEN_FREE: u8 = FREE + 4;
pub const END: u8 = FREE + 5;
pub const TIME: u8 = FREE + 6;
pub const THREAD: u8 = FREE + 7;
pub const REGION: u8 = FREE + 8;

pub const GUESS_LONG: u8 = 0;
pub const GUESS_SHORT: u8 = 1;
pub const GUESSES: u8 = 2;

pub const REALLOC_FAMILY: u8 = 2;
/// Low bits of a guessed symbol that have the op.
pub const OP_BITS: u32 = 5;
const SITES_GUESSED: u32 = 1 << (32 - OP_BITS);
pub fn has_site(op: u8) -> bool {
    op < FREE
}

/// State that writer and reader share, beside the last size of each site.
#[derive(Debug)]
pub struct Model {
    pub process: u32,
    pub thread: u32,
    pub ms: u64,
    /// Sequence number of the block that was named last, plus 1.
    pub named: u64,
    /// Marks of the last three events, 20 bits each; the last one lowest.
    history: u64,
    pub long: Vec<u32>,
    pub short: Vec<u32>,
}

const LONG_BITS: u32 = 18;
const SHORT_BITS: u32 = 16;
/// Bits of a place within one line of a processor's cache.
const LINE_BITS: u32 = 4;
const MARK_BITS: u32 = 20;
const MARK: u64 = (1 << MARK_BITS) - 1;

impl Default for Model {
    fn default() -> Self {
        Self {
            process: 0,
            thread: u32::MAX,
            ms: 0,
            named: 0,
            history: 0,
            long: vec![UNKNOWN; 1 << LONG_BITS],
            short: vec![UNKNOWN; 1 << SHORT_BITS],
        }
    }
}

impl Model {
    #[inline]
    pub fn slots(&self) -> (usize, usize) {
        let last = hash(self.history & MARK);
        let in_line = last >> (64 - LINE_BITS);
        (line(self.history >> MARK_BITS) | in_line as usize, (last >> (64 - SHORT_BITS)) as usize)
    }

    /// Takes the event into the history. `site` is its own, or that of the block which it names.
    #[inline]
    pub fn remember(&mut self, slots: (usize, usize), symbol: u32, op: u8, site: u32) {
        self.long[slots.0] = symbol;
        self.short[slots.1] = symbol;
        let mark = u64::from(site.wrapping_mul(2) | u32::from(has_site(op))) & MARK;
        self.history = (self.history << MARK_BITS | mark) & ((1 << (3 * MARK_BITS)) - 1);
        prefetch(&self.long, line(self.history & ((1 << (2 * MARK_BITS)) - 1)));
    }
}

fn hash(value: u64) -> u64 {
    value.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Index in the long table of the line of two marks. Two events of three determine which line is read, so that it can
/// be fetched an event ahead: the table is larger than the cache that is near.
#[inline]
fn line(marks: u64) -> usize {
    (hash(marks) >> (64 - LONG_BITS + LINE_BITS) << LINE_BITS) as usize
}

/// No symbol. Zero, so that large tables cost nothing until they are used; symbols are kept inverted.
pub const UNKNOWN: u32 = 0;

#[inline]
pub fn symbol(op: u8, site: u32) -> u32 {
    if site < SITES_GUESSED { !(site << OP_BITS | u32::from(op)) } else { UNKNOWN }
}

#[derive(Default)]
pub struct Encoder {
    model: Model,
    /// Last size plus 1 of each site that was used.
    sizes: Vec<u64>,
    columns: [Vec<u8>; COLUMNS],
    events: u64,
    first_ms: u64,
    last_ms: u64,
}

#[derive(Debug, Default)]
pub struct Encoded {
    /// Columns as in the module's table.
    pub columns: [Vec<u8>; COLUMNS],
    pub events: u64,
    /// Time of the earliest event.
    pub first_ms: u64,
    /// Time of the latest event.
    pub last_ms: u64,
}

impl Encoder {
    pub fn events(&self) -> u64 {
        self.events
    }

    #[inline]
    pub fn event(&mut self, at: Moment, event: Event) {
        self.context(at, matches!(event, Event::EndProcess));
        if self.events == 0 {
            (self.first_ms, self.last_ms) = (at.ms, at.ms);
        }
        self.first_ms = self.first_ms.min(at.ms);
        self.last_ms = self.last_ms.max(at.ms);
        self.events += 1;
        match event {
            Event::Allocate(call) => {
                self.op(ALLOCATE + call.family, call.site);
                self.size(call);
            }
            Event::Free(Some(block)) => self.names(FREE, block),
            Event::Free(None) => self.op(FOREIGN_FREE, 0),
            Event::Reallocate { call, old, moved } => {
                let array = u8::from(call.family != REALLOC_FAMILY);
                let op = REALLOCATE + u8::from(moved) + 2 * array + 4 * u8::from(old.is_none());
                self.op(op, call.site);
                self.size(call);
                if let Some(block) = old {
                    self.name(block);
                }
            }
            Event::ReallocFree(Some(block)) => self.names(REALLOC_FREE, block),
            Event::ReallocFree(None) => self.op(FOREIGN_REALLOC_FREE, 0),
            Event::UnseenFree(block) => self.names(UNSEEN_FREE, block),
            Event::Region { number, end, this_thread } => {
                self.columns[OPS].push(GUESSES + REGION);
                put(&mut self.columns[CONTEXT], u64::from(number) << 2 | u64::from(this_thread) << 1 | u64::from(end));
            }
            Event::EndProcess => {
                self.columns[OPS].push(GUESSES + END);
                put(&mut self.columns[CONTEXT], u64::from(at.process));
            }
        }
    }

    /// Ends the block: its columns, and what the index says of it.
    pub fn take(&mut self) -> Encoded {
        let mut columns = std::mem::take(&mut self.columns);
        put(&mut columns[HEAD], self.events);
        let Self { first_ms, last_ms, .. } = *self;
        Encoded { columns, events: std::mem::take(&mut self.events), first_ms, last_ms }
    }

    #[inline]
    fn context(&mut self, at: Moment, end: bool) {
        if at.ms != self.model.ms {
            self.columns[OPS].push(GUESSES + TIME);
            put(&mut self.columns[CONTEXT], fold(at.ms, self.model.ms));
            self.model.ms = at.ms;
        }
        if at.thread != self.model.thread && !end {
            self.columns[OPS].push(GUESSES + THREAD);
            put(&mut self.columns[CONTEXT], u64::from(at.thread));
            self.model.thread = at.thread;
        }
    }

    #[inline]
    fn op(&mut self, op: u8, site: u32) {
        self.symbol(op, site, site);
    }

    /// `of` is the site that goes into the history.
    #[inline]
    fn symbol(&mut self, op: u8, site: u32, of: u32) {
        let slots = self.model.slots();
        let symbol = symbol(op, site);
        if symbol != UNKNOWN && self.model.long[slots.0] == symbol {
            self.columns[OPS].push(GUESS_LONG);
        } else if symbol != UNKNOWN && self.model.short[slots.1] == symbol {
            self.columns[OPS].push(GUESS_SHORT);
        } else {
            self.columns[OPS].push(GUESSES + op);
            if has_site(op) {
                put(&mut self.columns[SITES], (self.sizes.len() as u64).saturating_sub(u64::from(site)));
            }
        }
        self.model.remember(slots, symbol, op, of);
    }

    #[inline]
    fn size(&mut self, call: Call) {
        // Sites are numbered in the order of their first use.
        debug_assert!(call.site as usize <= self.sizes.len());
        if call.site as usize == self.sizes.len() {
            self.sizes.push(0);
        }
        let last = &mut self.sizes[call.site as usize];
        let size = call.size.saturating_add(1);
        put(&mut self.columns[SIZES], if *last == size { 0 } else { size });
        *last = size;
    }

    #[inline]
    fn names(&mut self, op: u8, block: Block) {
        self.symbol(op, 0, block.site);
        self.name(block);
    }

    #[inline]
    fn name(&mut self, block: Block) {
        put(&mut self.columns[BLOCKS], fold(block.sequence, self.model.named));
        self.model.named = block.sequence + 1;
    }
}
