//! One ring: words that wait for their turn, and what records refer to.

use crate::wire::record;
use mallow_profile::Block;
use mallow_profile::{StackId, Stacks};

/// The site of a stack that no event of the ring has used yet.
pub const NO_SITE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
pub struct StackDefinition {
    pub stack: StackId,
    /// Index of the stack's site in the ring's process, or [`NO_SITE`].
    pub site: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct Transit {
    /// Address of the block before the realloc.
    pub address: u64,
    /// None: no allocation of the block was seen.
    pub block: Option<Block>,
}

/// A ring, with the words that wait.
#[derive(Debug)]
pub struct Ring {
    /// Number of the ring in its process.
    pub number: u32,
    /// Position, in words since the ring began, after the last of the waiting words.
    end: u64,
    words: Vec<u64>,
    start: usize,
    due: usize,
    aged: usize,
    /// Stacks of this generation, by number.
    pub stacks: Vec<StackDefinition>,
    /// The stack defined or used last.
    pub last: StackId,
    /// Size and stack number that came last in one word.
    pub packed: Option<(u64, u32)>,
    /// Generation of modules that addresses belong to.
    pub generation: u32,
    /// Index of the owner; None before the first event or THREAD record.
    pub thread: Option<u32>,
    /// Milliseconds of the last TIME record.
    pub ms: u64,
    /// Number of the last ORDER record.
    pub order: u64,
    /// The block whose realloc is under way.
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

/// Fewer replayed words than this are moved out of the way only when that is for free.
const COMPACT: usize = 1 << 12;

impl Ring {
    pub fn new(number: u32) -> Self {
        Self { number, ..Self::default() }
    }

    /// Adds words of this round: whole records that make sense, which end at position `end`.
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

    /// The length in words of the least number of whole records that has so many words.
    pub fn whole_records(&self, words: usize) -> usize {
        let mut count = 0;
        while count < words
            && let Some((_, length)) = record::decode(&self.waiting()[count..])
        {
            count += length;
        }
        count.max(words)
    }

    /// How many waiting words are two rounds old: what they depend on is aged, and so is all that other rings wrote
    /// before a number of the process that they hold was taken.
    pub fn due(&self) -> usize {
        self.due - self.start
    }

    /// How many waiting words are from earlier rounds: whatever they depend on is here by now.
    pub fn aged(&self) -> usize {
        self.aged - self.start
    }

    /// Ends a round: the waiting words are aged, and the aged ones are due.
    pub fn age(&mut self) {
        self.due = self.aged;
        self.aged = self.words.len();
    }

    /// Drops so many waiting words, which were replayed.
    pub fn consume(&mut self, words: usize) {
        self.start += words;
        self.aged = self.aged.max(self.start);
        self.due = self.due.max(self.start);
    }

    /// Takes the words out, so that they can be read while the ring changes, and the index of the first waiting one;
    /// [`Ring::put_back`] returns them.
    pub fn take(&mut self) -> (Vec<u64>, usize) {
        (std::mem::take(&mut self.words), self.start)
    }

    pub fn put_back(&mut self, words: Vec<u64>) {
        self.words = words;
    }
}

/// Whether the replay has come to `heads`: for each ring, by its number, words since the ring began.
pub fn is_past(heads: &[u64], rings: &[Ring]) -> bool {
    let head = |ring: &Ring| heads.get(ring.number as usize).copied().unwrap_or_default();
    let known = rings.iter().filter(|ring| head(ring) > 0).count();
    known == heads.iter().filter(|&&head| head > 0).count()
        && rings.iter().all(|ring| ring.words_to(head(ring)) == Some(0))
}
