//! How the time of a recording is cut into pieces, one for each point of a timeline.

/// Milliseconds since the recording began: the first one, and the one after the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub from: u64,
    pub to: u64,
}

impl Window {
    /// Fits the asked window into a run of this duration. The millisecond in which the run ended belongs to it.
    pub fn of(asked: (u64, Option<u64>), duration_ms: u64) -> Self {
        let all = duration_ms.saturating_add(1);
        let to = asked.1.map_or(all, |to| to.min(all)).max(1);
        Self { from: asked.0.min(to - 1), to }
    }

    pub fn milliseconds(self) -> u64 {
        self.to - self.from
    }

    /// Whether the window is cut by order: it has at most half as many milliseconds as there are points.
    pub fn is_short(self, points: usize) -> bool {
        self.milliseconds().saturating_mul(2) <= points as u64
    }
}

/// Pieces of a window. Times are known in whole milliseconds, so a piece is some of them; where the window is short for
/// the number of points, milliseconds are cut further, by the order of their events: the more events, the more pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    window: Window,
    into: Into,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Into {
    /// Milliseconds of a piece.
    Times(u64),
    /// Milliseconds, each of one or more pieces, which have equally many of its events.
    Order(Vec<Millisecond>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Millisecond {
    /// Index of the first piece, and number of pieces.
    first: usize,
    parts: u32,
    /// Number of events, and of those that were seen again in the second reading.
    events: u64,
    seen: u64,
}

impl Cut {
    /// Cuts a window into at most `points` pieces of whole milliseconds.
    pub fn by_time(window: Window, points: usize) -> Self {
        Self { window, into: Into::Times(window.milliseconds().div_ceil(points.max(1) as u64).max(1)) }
    }

    /// Cuts a window that is short for `points` pieces. `events` has the number of events of each millisecond.
    pub fn by_order(window: Window, points: usize, events: &[u64]) -> Self {
        let all: u128 = events.iter().map(|events| u128::from(*events)).sum();
        let spare = points.saturating_sub(events.len()) as u128;
        let mut next = 0;
        let millisecond = |&events: &u64| {
            let parts = 1 + (spare * u128::from(events)).checked_div(all).unwrap_or(0) as u32;
            let first = next;
            next += parts as usize;
            Millisecond { first, parts, events, seen: 0 }
        };
        Self { window, into: Into::Order(events.iter().map(millisecond).collect()) }
    }

    pub fn pieces(&self) -> usize {
        match &self.into {
            Into::Times(ms) => self.window.milliseconds().div_ceil(*ms) as usize,
            Into::Order(all) => all.last().map_or(0, |last| last.first + last.parts as usize),
        }
    }

    /// Milliseconds of a piece; 1 where it is shorter.
    pub fn milliseconds(&self) -> u64 {
        match &self.into {
            Into::Times(ms) => *ms,
            Into::Order(_) => 1,
        }
    }

    /// Whether pieces are parts of milliseconds.
    pub fn is_by_order(&self) -> bool {
        matches!(self.into, Into::Order(_))
    }

    /// The piece of the next event, which must be in the window.
    #[inline]
    pub fn piece(&mut self, ms: u64) -> usize {
        let ms = ms.saturating_sub(self.window.from);
        match &mut self.into {
            Into::Times(width) => (ms / *width) as usize,
            Into::Order(all) => {
                let last = all.len().saturating_sub(1);
                let Some(at) = all.get_mut((ms as usize).min(last)) else { return 0 };
                // More events than were counted: a file that changed meanwhile.
                let before = at.seen.min(at.events.saturating_sub(1));
                at.seen += 1;
                at.first + (u128::from(before) * u128::from(at.parts) / u128::from(at.events.max(1))) as usize
            }
        }
    }

    /// The millisecond in which a piece begins, the index of the piece within it, and its number of pieces.
    pub fn place(&self, piece: usize) -> (u64, u32, u32) {
        match &self.into {
            // The last piece may end where numbers do.
            Into::Times(ms) => (self.window.from.saturating_add((piece as u64).saturating_mul(*ms)), 0, 1),
            Into::Order(all) => {
                let at = all.partition_point(|ms| ms.first <= piece).saturating_sub(1);
                let (first, parts) = all.get(at).map_or((0, 1), |ms| (ms.first, ms.parts));
                (self.window.from + at as u64, (piece - first) as u32, parts)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Cut, Window};

    #[test]
    fn windows_are_within_the_run() {
        for (asked, duration, from, to) in [
            ((0, None), 9, 0, 10),
            ((3, Some(5)), 9, 3, 5),
            ((3, Some(50)), 9, 3, 10),
            ((30, None), 9, 9, 10),
            ((0, Some(0)), 0, 0, 1),
            ((0, None), u64::MAX, 0, u64::MAX),
        ] {
            assert_eq!(Window::of(asked, duration), Window { from, to }, "{asked:?} of {duration}");
        }
        let window = |ms: u64| Window { from: 7, to: 7 + ms };
        assert!(window(50).is_short(100) && !window(51).is_short(100));
    }

    #[test]
    fn all_of_the_window_is_in_at_most_so_many_pieces() {
        for (from, to, points, ms, pieces) in [
            (0, 100, 100, 1, 100),
            (0, 101, 100, 2, 51),
            (50, 151, 100, 2, 51),
            (0, 1, 100, 1, 1),
            (0, 1001, 1, 1001, 1),
            (0, u64::MAX, 4, 1 << 62, 4),
        ] {
            let mut cut = Cut::by_time(Window { from, to }, points);
            assert_eq!((cut.milliseconds(), cut.pieces()), (ms, pieces));
            assert_eq!((cut.piece(from), cut.piece(to - 1)), (0, pieces - 1));
            assert_eq!(cut.place(pieces - 1), (from + ms * (pieces as u64 - 1), 0, 1));
            assert!(cut.place(pieces).0 >= to);
        }
    }

    #[test]
    fn the_order_cuts_milliseconds_by_their_events() {
        let mut cut = Cut::by_order(Window { from: 5, to: 8 }, 8, &[4, 0, 1]);
        // One each; of the five that are left four and one.
        assert_eq!((cut.pieces(), cut.milliseconds(), cut.is_by_order()), (8, 1, true));
        assert_eq!([5, 5, 5, 5, 7, 7, 9].map(|ms| cut.piece(ms)), [0, 1, 2, 3, 6, 6, 6]);
        let places = [(5, 0, 5), (5, 1, 5), (5, 2, 5), (5, 3, 5), (5, 4, 5), (6, 0, 1), (7, 0, 2), (7, 1, 2)];
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(|piece| cut.place(piece)), places);
        assert_eq!(Cut::by_order(Window { from: 0, to: 2 }, 9, &[0, 0]).pieces(), 2);
    }
}
