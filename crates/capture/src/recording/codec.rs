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

use super::bytes::{Cursor, Nonsense, fold, put, unfold};
use crate::replay::{GRAIN_BITS, KEY_MAX, Live};
use mallow_profile::{Block, Call, Event, FAMILIES, Moment};

/// Columns of an event block.
pub const COLUMNS: usize = 6;

const HEAD: usize = 0;
const OPS: usize = 1;
const SITES: usize = 2;
const SIZES: usize = 3;
const BLOCKS: usize = 4;
const CONTEXT: usize = 5;

/// Allocations: + family.
const ALLOCATE: u8 = 0;
/// Reallocs: + 1 if moved, + 2 for reallocarray, + 4 if the old block is not known.
const REALLOCATE: u8 = FAMILIES.len() as u8;
const FREE: u8 = REALLOCATE + 8;
const FOREIGN_FREE: u8 = FREE + 1;
const REALLOC_FREE: u8 = FREE + 2;
const FOREIGN_REALLOC_FREE: u8 = FREE + 3;
const UNSEEN_FREE: u8 = FREE + 4;
const END: u8 = FREE + 5;
const TIME: u8 = FREE + 6;
const THREAD: u8 = FREE + 7;
const REGION: u8 = FREE + 8;

const GUESS_LONG: u8 = 0;
const GUESS_SHORT: u8 = 1;
const GUESSES: u8 = 2;

const REALLOC_FAMILY: u8 = 2;
/// Guessed symbols keep the op in this many low bits.
const OP_BITS: u32 = 5;
const SITES_GUESSED: u32 = 1 << (32 - OP_BITS);
/// Live blocks that a reader keeps. Each costs 32 to 48 bytes.
const LIVE_MAX: usize = 1 << 26;

fn has_site(op: u8) -> bool {
    op < FREE
}

/// What both sides know.
struct Model {
    process: u32,
    thread: u32,
    ms: u64,
    /// Sequence number of the next allocation.
    sequence: u64,
    /// Number of the block named last, plus 1.
    named: u64,
    /// 20 bits for each of the last three events; the last one lowest.
    history: u64,
    long: Vec<u32>,
    short: Vec<u32>,
    /// Size plus 1 by site; its length is the number of sites used.
    sizes: Vec<u64>,
}

const LONG_BITS: u32 = 18;
const SHORT_BITS: u32 = 16;

impl Default for Model {
    fn default() -> Self {
        Self {
            process: 0,
            thread: u32::MAX,
            ms: 0,
            sequence: 0,
            named: 0,
            history: 0,
            long: vec![UNKNOWN; 1 << LONG_BITS],
            short: vec![UNKNOWN; 1 << SHORT_BITS],
            sizes: Vec::new(),
        }
    }
}

impl Model {
    #[inline]
    fn slots(&self) -> (usize, usize) {
        let long = self.history.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - LONG_BITS);
        let short = (self.history & 0xf_ffff).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SHORT_BITS);
        (long as usize, short as usize)
    }

    /// The event is in the past now. `site`: its own, or that of the block which it names.
    #[inline]
    fn remember(&mut self, slots: (usize, usize), symbol: u32, op: u8, site: u32) {
        self.long[slots.0] = symbol;
        self.short[slots.1] = symbol;
        let mark = (site.wrapping_mul(2) | u32::from(has_site(op))) & 0xf_ffff;
        self.history = (self.history << 20 | u64::from(mark)) & ((1 << 60) - 1);
    }
}

/// No symbol. Zero, so that large tables of it cost nothing until they are used; symbols are kept inverted.
const UNKNOWN: u32 = 0;

#[inline]
fn symbol(op: u8, site: u32) -> u32 {
    if site < SITES_GUESSED { !(site << OP_BITS | u32::from(op)) } else { UNKNOWN }
}

/// Makes columns of events.
#[derive(Default)]
pub struct Encoder {
    model: Model,
    columns: [Vec<u8>; COLUMNS],
    events: u64,
    first_ms: u64,
    last_ms: u64,
}

/// Columns of one block, and what the index says about it.
#[derive(Debug, Default)]
pub struct Encoded {
    /// See the module's text.
    pub columns: [Vec<u8>; COLUMNS],
    /// How many events.
    pub events: u64,
    /// The earliest.
    pub first_ms: u64,
    /// The latest.
    pub last_ms: u64,
}

impl Encoder {
    /// Events since the last block.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Adds an event.
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

    /// The block so far; the next one begins.
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

    /// `of`: the site that goes into the history.
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
                put(&mut self.columns[SITES], (self.model.sizes.len() as u64).saturating_sub(u64::from(site)));
            }
        }
        self.model.remember(slots, symbol, op, of);
    }

    #[inline]
    fn size(&mut self, call: Call) {
        // Sites are numbered in the order of their first use.
        debug_assert!(call.site as usize <= self.model.sizes.len());
        if call.site as usize == self.model.sizes.len() {
            self.model.sizes.push(0);
        }
        let last = &mut self.model.sizes[call.site as usize];
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

/// The key of a block among the live ones: blocks with numbers next to each other are neighbours there.
#[inline]
fn key_of(sequence: u64) -> Option<u64> {
    (sequence < KEY_MAX >> GRAIN_BITS).then(|| (sequence + 1) << GRAIN_BITS)
}

/// What a reader must know of the tables to make sense of events: as little as fits into a cache.
#[derive(Debug, Default)]
pub struct Known {
    /// The process of each thread.
    pub threads: Vec<u32>,
    /// The process of each site.
    pub sites: Vec<u32>,
    /// How many processes there are.
    pub processes: u32,
}

/// Reads columns of events.
#[derive(Default)]
pub struct Decoder {
    model: Model,
    columns: Vec<Cursor>,
    left: u64,
    /// By process; see [`key_of`].
    live: Vec<Live>,
    live_blocks: usize,
}

impl Decoder {
    /// Begins a block. Precondition: the one before was read to its end.
    pub fn begin(&mut self, mut columns: Vec<Cursor>) -> Result<(), Nonsense> {
        if columns.len() != COLUMNS {
            return Err(Nonsense("an event block has another number of columns"));
        }
        self.left = columns[HEAD].number()?;
        self.columns = columns;
        Ok(())
    }

    /// The next event; None at the end of the block.
    #[inline]
    pub fn next(&mut self, known: &Known) -> Result<Option<(Moment, Event)>, Nonsense> {
        if self.left == 0 {
            let rest = self.columns.iter().any(|column| !column.is_empty());
            return if rest { Err(Nonsense("an event block has more than its events")) } else { Ok(None) };
        }
        self.left -= 1;
        loop {
            let slots = self.model.slots();
            let byte = self.columns[OPS].byte()?;
            let guess = match byte {
                GUESS_LONG => Some(self.model.long[slots.0]),
                GUESS_SHORT => Some(self.model.short[slots.1]),
                _ => None,
            };
            if guess == Some(UNKNOWN) {
                return Err(Nonsense("an event is guessed from nothing"));
            }
            let guess = guess.map(|symbol| !symbol);
            let op = guess.map_or(byte.wrapping_sub(GUESSES), |symbol| (symbol & ((1 << OP_BITS) - 1)) as u8);
            match op {
                TIME => self.model.ms = unfold(self.columns[CONTEXT].number()?, self.model.ms),
                THREAD => {
                    self.model.thread = self.columns[CONTEXT].small()?;
                    self.model.process =
                        *known.threads.get(self.model.thread as usize).ok_or(Nonsense("no such thread"))?;
                }
                END => {
                    let process = self.columns[CONTEXT].small()?;
                    if process >= known.processes {
                        return Err(Nonsense("no such process"));
                    }
                    return Ok(Some((Moment { process, thread: 0, ms: self.model.ms }, Event::EndProcess)));
                }
                REGION if self.model.thread != u32::MAX => {
                    let Model { process, thread, ms, .. } = self.model;
                    let told = self.columns[CONTEXT].number()?;
                    let number = u32::try_from(told >> 2).map_err(|_| Nonsense("no such region"))?;
                    let event = Event::Region { number, end: told & 1 != 0, this_thread: told & 2 != 0 };
                    return Ok(Some((Moment { process, thread, ms }, event)));
                }
                _ => return self.event(known, slots, guess, op).map(Some),
            }
        }
    }

    #[inline]
    fn event(
        &mut self,
        known: &Known,
        slots: (usize, usize),
        guess: Option<u32>,
        op: u8,
    ) -> Result<(Moment, Event), Nonsense> {
        let Model { process, thread, ms, .. } = self.model;
        if thread == u32::MAX {
            return Err(Nonsense("an event of no thread"));
        }
        let at = Moment { process, thread, ms };
        if !has_site(op) {
            let (event, site) = match op {
                FREE | REALLOC_FREE | UNSEEN_FREE => {
                    let block = self.named(process)?;
                    let event = match op {
                        FREE => Event::Free(Some(block)),
                        REALLOC_FREE => Event::ReallocFree(Some(block)),
                        _ => Event::UnseenFree(block),
                    };
                    (event, block.site)
                }
                FOREIGN_FREE => (Event::Free(None), 0),
                FOREIGN_REALLOC_FREE => (Event::ReallocFree(None), 0),
                _ => return Err(Nonsense("an event of no known kind")),
            };
            self.model.remember(slots, symbol(op, 0), op, site);
            return Ok((at, event));
        }
        let site = match guess {
            Some(symbol) => symbol >> OP_BITS,
            None => {
                let back = self.columns[SITES].number()?;
                let site = (self.model.sizes.len() as u64).checked_sub(back).ok_or(Nonsense("no such site"))?;
                u32::try_from(site).map_err(|_| Nonsense("no such site"))?
            }
        };
        if known.sites.get(site as usize) != Some(&process) {
            return Err(Nonsense("no such site"));
        }
        let size = self.size(site)?;
        self.model.remember(slots, symbol(op, site), op, site);
        let event = if op < REALLOCATE {
            Event::Allocate(Call { family: op - ALLOCATE, site, size })
        } else {
            let kind = op - REALLOCATE;
            let old = if kind & 4 == 0 { Some(self.named(process)?) } else { None };
            let call = Call { family: REALLOC_FAMILY + (kind >> 1 & 1), site, size };
            Event::Reallocate { call, old, moved: kind & 1 != 0 }
        };
        self.born(
            process,
            Block { sequence: self.model.sequence, site, size, ms, thread: Block::thread_mark(thread) },
        )?;
        Ok((at, event))
    }

    #[inline]
    fn size(&mut self, site: u32) -> Result<u64, Nonsense> {
        let sizes = &mut self.model.sizes;
        if site as usize == sizes.len() {
            sizes.push(0);
        }
        let last = sizes.get_mut(site as usize).ok_or(Nonsense("a site is used before its turn"))?;
        *last = match self.columns[SIZES].number()? {
            0 => *last,
            size => size,
        };
        last.checked_sub(1).ok_or(Nonsense("a size that was never told"))
    }

    #[inline]
    fn born(&mut self, process: u32, block: Block) -> Result<(), Nonsense> {
        self.model.sequence += 1;
        self.live_blocks += 1;
        let key = key_of(block.sequence).filter(|_| self.live_blocks <= LIVE_MAX);
        let Some(key) = key else {
            return Err(Nonsense("more blocks than can be live"));
        };
        if process as usize >= self.live.len() {
            self.live.resize_with(process as usize + 1, Live::default);
        }
        self.live[process as usize].insert(key, block);
        Ok(())
    }

    #[inline]
    fn named(&mut self, process: u32) -> Result<Block, Nonsense> {
        let sequence = unfold(self.columns[BLOCKS].number()?, self.model.named);
        let live = self.live.get_mut(process as usize);
        let block = key_of(sequence).and_then(|key| live?.remove(key));
        let block = block.ok_or(Nonsense("a block is freed that is not live"))?;
        self.live_blocks -= 1;
        self.model.named = sequence + 1;
        Ok(block)
    }

    /// Takes what is still live of a process.
    pub fn drain(&mut self, process: u32) -> Live {
        let live = self.live.get_mut(process as usize).map(std::mem::take).unwrap_or_default();
        self.live_blocks -= live.len();
        live
    }
}
