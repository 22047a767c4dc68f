//! One ring: words that wait for their turn, and what records refer to.

use crate::wire::record;
use mallow_profile::Block;
use mallow_profile::{StackId, Stacks};

/// The site of a stack that no event of the ring has used yet.
pub const NO_SITE: u32 = u32::MAX;

/// A stack that the ring defined.
#[derive(Clone, Copy, Debug)]
pub struct StackDefinition {
    pub stack: StackId,
    /// Its site in the ring's process, or [`NO_SITE`].
    pub site: u32,
}

/// A block between REALLOC_BEGIN and what concludes it: it is in nobody's hands.
#[derive(Clone, Copy, Debug)]
pub struct Transit {
    /// Its old address.
    pub address: u64,
    /// None: it was not seen allocated.
    pub block: Option<Block>,
}

/// See the module's text.
#[derive(Debug)]
pub struct Ring {
    /// Its number in the process.
    pub number: u32,
    /// Position in the ring after the last of the waiting words.
    end: u64,
    words: Vec<u64>,
    start: usize,
    due: usize,
    aged: usize,
    /// By stack number.
    pub stacks: Vec<StackDefinition>,
    /// The stack defined or used last.
    pub last: StackId,
    /// Size and stack number that came last in one word.
    pub packed: Option<(u64, u32)>,
    /// The modules that count.
    pub generation: u32,
    /// Index of the owner; None before the first event or THREAD record.
    pub thread: Option<u32>,
    /// When: the last TIME record.
    pub ms: u64,
    /// The last ORDER record.
    pub order: u64,
    /// See [`Transit`].
    pub transit: Option<Transit>,
}

impl Default for Ring {
    fn default() -> Self {
        Self {
            number: 0,
            end: 0,
            words: Vec::new(),
            start: 0,
            due: 0,
            aged: 0,
            stacks: Vec::new(),
            last: Stacks::ROOT,
            packed: None,
            generation: 0,
            thread: None,
            ms: 0,
            order: 0,
            transit: None,
        }
    }
}

/// Words read below this are moved out of the way only when that is for free.
const COMPACT: usize = 1 << 12;

impl Ring {
    /// Number `number` of its process, without words.
    pub fn new(number: u32) -> Self {
        Self { number, ..Self::default() }
    }

    /// Adds words of this round: whole records that make sense, which end at this position.
    pub fn push(&mut self, words: &[u64], end: u64) {
        self.end = end;
        if self.start == self.words.len() || (self.start >= COMPACT && self.start * 2 >= self.words.len()) {
            self.words.drain(..self.start);
            self.aged -= self.start;
            self.due -= self.start;
            self.start = 0;
        }
        self.words.extend_from_slice(words);
    }

    pub fn waiting(&self) -> &[u64] {
        &self.words[self.start..]
    }

    /// How many waiting words come before a position of the ring; None: such words are yet to come. Where the ring's
    /// end lies between, what closes it there counts as well, so that it may be some words too few.
    pub fn words_to(&self, position: u64) -> Option<usize> {
        let after = self.end.checked_sub(position)?;
        Some(self.waiting().len().saturating_sub(usize::try_from(after).unwrap_or(usize::MAX)))
    }

    /// The least number of whole records that has so many words: in words.
    pub fn whole_records(&self, words: usize) -> usize {
        let mut count = 0;
        while count < words
            && let Some((_, length)) = record::decode(&self.waiting()[count..])
        {
            count += length;
        }
        count.max(words)
    }

    /// How many of the waiting words are two rounds old: what they depend on is aged, and so is all that other rings
    /// wrote before a number of the process that they hold was taken.
    pub fn due(&self) -> usize {
        self.due - self.start
    }

    /// How many of the waiting words are from earlier rounds: whatever they depend on is here by now.
    pub fn aged(&self) -> usize {
        self.aged - self.start
    }

    /// A round is over: what waits now is aged, and what was aged is due.
    pub fn age(&mut self) {
        self.due = self.aged;
        self.aged = self.words.len();
    }

    /// The waiting words were replayed up to here.
    pub fn consume(&mut self, words: usize) {
        self.start += words;
        self.aged = self.aged.max(self.start);
        self.due = self.due.max(self.start);
    }

    /// Takes the words out, so that they can be read while the ring changes; [`Ring::put_back`] returns them.
    pub fn take(&mut self) -> (Vec<u64>, usize) {
        (std::mem::take(&mut self.words), self.start)
    }

    /// See [`Ring::take`].
    pub fn put_back(&mut self, words: Vec<u64>) {
        self.words = words;
    }
}

/// Whether rings have been replayed so far.
pub fn is_past(heads: &[u64], rings: &[Ring]) -> bool {
    let head = |ring: &Ring| heads.get(ring.number as usize).copied().unwrap_or_default();
    let known = rings.iter().filter(|ring| head(ring) > 0).count();
    known == heads.iter().filter(|&&head| head > 0).count()
        && rings.iter().all(|ring| ring.words_to(head(ring)) == Some(0))
}
