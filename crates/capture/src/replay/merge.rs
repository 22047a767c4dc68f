//! The order of what several rings did to one address.
//!
//! At an address allocations and frees alternate, and each ring's records are in order. Usually that leaves one order,
//! or several that come to the same. The one is looked for that follows the time stamps, with backtracking: it must
//! have all aged records, and should have as many others as possible; the last ones may depend on words to come. If
//! there is none, the records that fit nowhere stay where the time stamps put them.

use rustc_hash::FxHashSet;

/// A record that takes a block from an address or gives one to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touch {
    pub lane: u32,
    /// Index of the record among the lane's.
    pub op: u32,
    /// Time of the record, about.
    pub time: u64,
    /// The moment of the process in or after which the record came.
    pub from: u64,
    /// The moment of the process before which the record came.
    pub to: u64,
    /// The record gives: the address must be free. Otherwise it takes: there must be a block.
    pub gives: bool,
    /// All that the record depends on is there.
    pub aged: bool,
}

/// How many records do not fit in an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Misfits {
    pub aged: usize,
    /// Records that are not aged: they wait for words to come.
    pub fresh: usize,
}

/// Steps back that one address may cost, in addition to four for each record. Programs never need more; the limit is
/// there for targets that write nonsense.
const PATIENCE: usize = 1000;

/// Merges lanes, one address after the other in the same memory.
#[derive(Debug, Default)]
pub struct Merger {
    lists: Vec<List>,
    /// Indexes of `lists`, in the order so far.
    order: Vec<u32>,
    best: Vec<u32>,
    failed: FxHashSet<u64>,
    steps_back: u64,
    sorted: Vec<Touch>,
}

/// Indexes of a lane's records that are not merged yet.
#[derive(Debug)]
struct List {
    next: usize,
    end: usize,
    /// Distinguishes sets of positions: their hash is the sum of positions times salts.
    salt: u64,
}

impl Merger {
    /// Puts the records of an address in order; they must be sorted by lane and op. `live`: there is a block at first.
    pub fn merge(&mut self, live: bool, touches: &mut [Touch]) -> Misfits {
        self.lists.clear();
        let mut begin = 0;
        for group in touches.chunk_by(|a, b| a.lane == b.lane) {
            let salt = (self.lists.len() as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) | 1;
            self.lists.push(List { next: begin, end: begin + group.len(), salt });
            begin += group.len();
        }
        if !self.search(live, touches) {
            self.by_time(live, touches);
        }
        self.lay_out(touches);
        misfits(live, touches)
    }

    /// How many steps back there were since this was asked last: what merging costs.
    pub fn take_steps_back(&mut self) -> u64 {
        std::mem::take(&mut self.steps_back)
    }

    /// Looks for an order of all aged records and as many others as possible, and leaves it in `order`. False: there is
    /// none.
    fn search(&mut self, live: bool, touches: &[Touch]) -> bool {
        self.rewind();
        self.failed.clear();
        self.best.clear();
        let mut found = false;
        let most = longest(live, touches);
        let mut patience = PATIENCE + 4 * touches.len();
        let mut live = live;
        let mut position = 0u64;
        // Candidates at or before this one were tried at the present position.
        let mut tried = None;
        loop {
            let bound = self.bound(touches);
            let candidate = (self.lists.iter().enumerate())
                .filter(|(_, list)| list.next < list.end && touches[list.next].gives != live)
                .filter(|(_, list)| touches[list.next].from < bound)
                .map(|(i, list)| (touches[list.next].time, i))
                .filter(|&key| tried.is_none_or(|tried| key > tried))
                .min();
            if let Some((_, i)) = candidate {
                let list = &mut self.lists[i];
                let next = position.wrapping_add(list.salt);
                if !self.failed.is_empty() && self.failed.contains(&next) {
                    tried = candidate;
                    continue;
                }
                list.next += 1;
                (position, live, tried) = (next, !live, None);
                self.order.push(i as u32);
                continue;
            }
            let aged_done = || self.lists.iter().all(|list| list.next == list.end || !touches[list.next].aged);
            if tried.is_none() && (!found || self.order.len() > self.best.len()) && aged_done() {
                found = true;
                if self.order.len() == most {
                    return true;
                }
                self.best.clone_from(&self.order);
            }
            let Some(last) = self.order.pop().filter(|_| patience > 0) else {
                std::mem::swap(&mut self.order, &mut self.best);
                return found;
            };
            patience -= 1;
            self.steps_back += 1;
            self.failed.insert(position);
            let list = &mut self.lists[last as usize];
            list.next -= 1;
            (position, live) = (position.wrapping_sub(list.salt), !live);
            tried = Some((touches[list.next].time, last as usize));
        }
    }

    /// Orders by time what fits, and the aged records where nothing fits.
    fn by_time(&mut self, mut live: bool, touches: &[Touch]) {
        self.rewind();
        loop {
            let bound = self.bound(touches);
            let heads = self.lists.iter().enumerate().filter(|(_, list)| list.next < list.end);
            let next = heads
                .map(|(i, list)| (i, touches[list.next]))
                .filter(|(_, head)| head.gives != live || head.aged)
                .min_by_key(|(i, head)| (head.gives == live, head.from >= bound, head.time, *i));
            let Some((i, head)) = next else { return };
            self.lists[i].next += 1;
            self.order.push(i as u32);
            live = head.gives;
        }
    }

    /// The moment before which the next record must have begun: the least end of whatever is still to come.
    fn bound(&self, touches: &[Touch]) -> u64 {
        let heads = self.lists.iter().filter(|list| list.next < list.end);
        heads.map(|list| touches[list.next].to).min().unwrap_or(u64::MAX)
    }

    fn rewind(&mut self) {
        self.order.clear();
        let mut begin = 0;
        for list in &mut self.lists {
            list.next = begin;
            begin = list.end;
        }
    }

    /// Puts the records in `order` first, and the others behind them, by time.
    fn lay_out(&mut self, touches: &mut [Touch]) {
        let order = std::mem::take(&mut self.order);
        self.rewind();
        self.sorted.clear();
        for &i in &order {
            let list = &mut self.lists[i as usize];
            self.sorted.push(touches[list.next]);
            list.next += 1;
        }
        let placed = self.sorted.len();
        for list in &self.lists {
            self.sorted.extend_from_slice(&touches[list.next..list.end]);
        }
        // Times never fall within a lane, and the sort keeps the order of equals.
        self.sorted[placed..].sort_by_key(|touch| touch.time);
        touches.copy_from_slice(&self.sorted);
        self.order = order;
    }
}

/// How many records can alternate at the most.
fn longest(live: bool, touches: &[Touch]) -> usize {
    let gives = touches.iter().filter(|touch| touch.gives).count();
    let takes = touches.len() - gives;
    let (first, second) = if live { (takes, gives) } else { (gives, takes) };
    if first > second { 2 * second + 1 } else { 2 * first }
}

/// How many records do not fit in this order.
pub fn misfits(mut live: bool, touches: &[Touch]) -> Misfits {
    let mut misfits = Misfits::default();
    for touch in touches {
        if touch.gives != live {
            live = touch.gives;
        } else if touch.aged {
            misfits.aged += 1;
        } else {
            misfits.fresh += 1;
        }
    }
    misfits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lanes as text: `+` gives, `-` takes, a capital-like `|` ends what is aged. Times are positions in the text.
    fn lanes(text: &[&str]) -> Vec<Touch> {
        let mut touches = Vec::new();
        for (lane, text) in text.iter().enumerate() {
            let aged = text.find('|').unwrap_or(text.len());
            for (op, (at, _)) in (0..).zip(text.match_indices(['+', '-'])) {
                let gives = text.as_bytes()[at] == b'+';
                let (from, to) = (0, u64::MAX);
                touches.push(Touch { lane: lane as u32, op, time: at as u64, from, to, gives, aged: at < aged });
            }
        }
        touches
    }

    fn merged(live: bool, text: &[&str]) -> (String, Misfits) {
        let mut touches = lanes(text);
        let misfits = Merger::default().merge(live, &mut touches);
        (touches.iter().map(|touch| char::from(b'a' + touch.lane as u8)).collect(), misfits)
    }

    #[test]
    fn alternation_decides_before_time_does() {
        let none = Misfits::default();
        assert_eq!(merged(false, &["+-", " -+"]), ("abba".into(), none));
        assert_eq!(merged(false, &["+   -", "  + -"]), ("aabb".into(), none));
        assert_eq!(merged(true, &["+", "  -"]), ("ba".into(), none));
        assert_eq!(merged(false, &["+-+", "   -"]), ("aaab".into(), none));
        // The second lane's free comes early in time, but the first lane needs its own.
        assert_eq!(merged(false, &["+ -+", " - "]), ("aaab".into(), none));
    }

    #[test]
    fn what_is_fresh_may_wait() {
        assert_eq!(merged(false, &["+-", "|-"]), ("aab".into(), Misfits { aged: 0, fresh: 1 }));
        assert_eq!(merged(false, &["+-", "|-+"]), ("abba".into(), Misfits::default()));
        assert_eq!(merged(false, &["+", "- |-"]), ("abb".into(), Misfits { aged: 0, fresh: 1 }));
        // What the first lane has last must have come from the second one's, whatever the times say.
        assert_eq!(merged(false, &["+ |- + +", "-| - -"]), ("aaababb".into(), Misfits { aged: 0, fresh: 1 }));
        assert_eq!(merged(false, &["-"]), ("a".into(), Misfits { aged: 1, fresh: 0 }));
    }

    proptest! {
        /// A true order is cut into lanes: an order without misfits is found again.
        #[test]
        fn what_was_in_order_is_put_in_order(lane in prop::collection::vec(0u32..5, 0..60), live: bool, slow in 1u64..9) {
            let mut touches: Vec<Touch> = (0..).zip(&lane)
                .map(|(i, &lane)| {
                    let (time, gives) = (u64::from(i) / slow, (i % 2 == 0) != live);
                    Touch { lane, op: i, time, from: 0, to: u64::MAX, gives, aged: true }
                })
                .collect();
            touches.sort_by_key(|touch| (touch.lane, touch.op));
            let mut sorted = touches.clone();
            prop_assert_eq!(Merger::default().merge(live, &mut sorted), Misfits::default());
            for lane in 0..5 {
                let of = |all: &[Touch]| all.iter().filter(|touch| touch.lane == lane).copied().collect::<Vec<_>>();
                prop_assert_eq!(of(&touches), of(&sorted));
            }
        }
    }
}
