//! Events from the columns of event blocks: what [`super::codec`] describes, read.

use super::bytes::{Cursor, Nonsense, unfold};
use super::codec::*;
use super::live_blocks::LiveBlocks;
use mallow_profile::{Block, Call, Event, Moment};

/// Most events of one block that is no nonsense: a writer makes no more.
const MOST: u64 = 1 << 16;

/// Numbers in the tables that events refer to: as little as fits into a cache.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Number of the process of each thread.
    pub threads: Vec<u32>,
    /// Number of the process of each site.
    pub sites: Vec<u32>,
    /// How many processes there are.
    pub processes: u32,
}

#[derive(Clone, Copy, Debug)]
struct Used {
    /// The size that was read last, plus 1; 0 before the first one.
    size: u64,
    process: u32,
}

#[derive(Debug, Default)]
pub struct Decoder {
    model: Model,
    used: Vec<Used>,
    living: LiveBlocks,
}

struct Columns {
    ops: Cursor,
    sites: Cursor,
    sizes: Cursor,
    blocks: Cursor,
    context: Cursor,
}

impl Decoder {
    /// Calls `each` with the events of a block. At the end of a process, `each` may take its live blocks; the others
    /// are gone once it returns.
    pub fn block(
        &mut self,
        columns: Vec<Cursor>,
        known: &Known,
        mut each: impl FnMut(&mut LiveBlocks, Moment, Event),
    ) -> Result<(), Nonsense> {
        let columns: [Cursor; COLUMNS] =
            columns.try_into().map_err(|_| Nonsense("an event block has another number of columns"))?;
        let [mut head, ops, sites, sizes, blocks, context] = columns;
        let events = head.number()?;
        if events > MOST {
            return Err(Nonsense("an event block has too many events"));
        }
        let mut columns = Columns { ops, sites, sizes, blocks, context };
        for _ in 0..events {
            let (at, event) = self.next(&mut columns, known)?;
            each(&mut self.living, at, event);
            if event == Event::EndProcess {
                drop(self.living.drain(at.process));
            }
        }
        let Columns { ops, sites, sizes, blocks, context } = columns;
        match [head, ops, sites, sizes, blocks, context].iter().all(Cursor::is_empty) {
            true => Ok(()),
            false => Err(Nonsense("an event block has more than its events")),
        }
    }

    pub fn living(&mut self) -> &mut LiveBlocks {
        &mut self.living
    }

    #[inline]
    fn next(&mut self, columns: &mut Columns, known: &Known) -> Result<(Moment, Event), Nonsense> {
        loop {
            let slots = self.model.slots();
            let byte = columns.ops.byte()?;
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
            let Model { process, thread, ms, .. } = self.model;
            match op {
                TIME => self.model.ms = unfold(columns.context.number()?, ms),
                THREAD => {
                    self.model.thread = columns.context.small()?;
                    self.model.process =
                        *known.threads.get(self.model.thread as usize).ok_or(Nonsense("no such thread"))?;
                }
                END => {
                    let process = columns.context.small()?;
                    if process >= known.processes {
                        return Err(Nonsense("no such process"));
                    }
                    return Ok((Moment { process, thread: 0, ms }, Event::EndProcess));
                }
                REGION if thread != u32::MAX => {
                    let packed = columns.context.number()?;
                    let number = u32::try_from(packed >> 2).map_err(|_| Nonsense("no such region"))?;
                    let event = Event::Region { number, end: packed & 1 != 0, this_thread: packed & 2 != 0 };
                    return Ok((Moment { process, thread, ms }, event));
                }
                _ if thread == u32::MAX => return Err(Nonsense("an event of no thread")),
                _ if has_site(op) => return self.allocation(columns, known, slots, guess, op),
                _ => return self.release(columns, slots, op),
            }
        }
    }

    #[inline]
    fn allocation(
        &mut self,
        columns: &mut Columns,
        known: &Known,
        slots: (usize, usize),
        guess: Option<u32>,
        op: u8,
    ) -> Result<(Moment, Event), Nonsense> {
        let Model { process, thread, ms, .. } = self.model;
        let site = match guess {
            Some(symbol) => symbol >> OP_BITS,
            None => {
                let back = columns.sites.number()?;
                let site = (self.used.len() as u64).checked_sub(back).ok_or(Nonsense("no such site"))?;
                u32::try_from(site).map_err(|_| Nonsense("no such site"))?
            }
        };
        if site as usize == self.used.len() {
            let process = *known.sites.get(site as usize).ok_or(Nonsense("no such site"))?;
            self.used.push(Used { size: 0, process });
        }
        let used = self.used.get_mut(site as usize).ok_or(Nonsense("a site is used before its turn"))?;
        if used.process != process {
            return Err(Nonsense("a site of another process"));
        }
        match columns.sizes.number()? {
            0 => {}
            size => used.size = size,
        }
        let size = used.size.checked_sub(1).ok_or(Nonsense("a size that was never given"))?;
        self.model.remember(slots, symbol(op, site), op, site);
        let event = if op < REALLOCATE {
            Event::Allocate(Call { family: op - ALLOCATE, site, size })
        } else {
            let kind = op - REALLOCATE;
            let old = if kind & 4 == 0 { Some(self.named(columns, process)?) } else { None };
            let call = Call { family: REALLOC_FAMILY + (kind >> 1 & 1), site, size };
            Event::Reallocate { call, old, moved: kind & 1 != 0 }
        };
        let block = Block { sequence: self.living.next(), site, size, ms, thread: Block::thread_mark(thread) };
        self.living.born(process, block)?;
        Ok((Moment { process, thread, ms }, event))
    }

    #[inline]
    fn release(&mut self, columns: &mut Columns, slots: (usize, usize), op: u8) -> Result<(Moment, Event), Nonsense> {
        let Model { process, thread, ms, .. } = self.model;
        let (event, site) = match op {
            FREE | REALLOC_FREE | UNSEEN_FREE => {
                let block = self.named(columns, process)?;
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
        Ok((Moment { process, thread, ms }, event))
    }

    #[inline]
    fn named(&mut self, columns: &mut Columns, process: u32) -> Result<Block, Nonsense> {
        let number = unfold(columns.blocks.any_number()?, self.model.named);
        let block = self.living.take(process, number).ok_or(Nonsense("a block is freed that is not live"))?;
        self.model.named = number + 1;
        Ok(block)
    }
}
