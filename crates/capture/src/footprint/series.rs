//! RSS over time, in bounded memory.

use mallow_profile::RssPoint;

/// Points that are kept of a process, at the most.
const MOST: usize = 512;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    points: Vec<RssPoint>,
    /// Shortest time from one point to the next.
    every_ms: u64,
    highest: RssPoint,
    last: RssPoint,
}

impl Series {
    /// Adds a point; one that is earlier than the last one is left out.
    pub fn push(&mut self, point: RssPoint) {
        if point.ms < self.last.ms {
            return;
        }
        if point.rss > self.highest.rss {
            self.highest = point;
        }
        self.last = point;
        let is_due = self.points.last().is_none_or(|last| point.ms >= last.ms.saturating_add(self.every_ms));
        if !is_due {
            return;
        }
        self.points.push(point);
        if self.points.len() >= MOST {
            let mut at = 0;
            self.points.retain(|_| {
                at += 1;
                at & 1 == 1
            });
            let (first, last) = (self.points.first(), self.points.last());
            let whole = first.zip(last).map_or(0, |(first, last)| last.ms.saturating_sub(first.ms));
            self.every_ms = whole / self.points.len() as u64;
        }
    }

    /// Sets what was live in a reading, if its point is kept: large blocks came and went while it was made, and its
    /// mappings show which of them are in it. One moment has one figure.
    pub fn amend(&mut self, ms: u64, rss: u64, live_bytes: u64) {
        let is_it = |point: &&mut RssPoint| point.ms == ms && point.rss == rss;
        let kept = self.points.iter_mut().rev().find(is_it);
        for point in kept.into_iter().chain([&mut self.highest, &mut self.last].into_iter().filter(is_it)) {
            point.live_bytes = live_bytes;
        }
    }

    /// All points that are kept, by time: the highest and the last one are among them.
    pub fn into_points(self) -> Vec<RssPoint> {
        let Self { mut points, highest, last, .. } = self;
        for point in [highest, last] {
            let at = points.partition_point(|other| other.ms < point.ms);
            let same = points[at..].iter().take_while(|other| other.ms == point.ms);
            if point != RssPoint::default() && !same.into_iter().any(|other| *other == point) {
                points.insert(at, point);
            }
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_highest_and_the_last_are_kept(steps in prop::collection::vec((0u64..50, 1u64..1000), 1..3000)) {
            let mut series = Series::default();
            let (mut ms, mut highest) = (0, 0);
            for &(step, rss) in &steps {
                ms += step;
                highest = highest.max(rss);
                series.push(RssPoint { ms, rss, live_bytes: rss / 2 });
            }
            let points = series.into_points();
            prop_assert!(points.len() <= MOST + 2 && points.is_sorted_by_key(|point| point.ms));
            prop_assert_eq!(points.iter().map(|point| point.rss).max(), Some(highest));
            let last = points.iter().rev().take_while(|point| point.ms == ms);
            prop_assert!(last.into_iter().any(|point| point.rss == steps[steps.len() - 1].1));
            // Evenly: no hole is longer than a few times the average.
            let longest = points.windows(2).map(|two| two[1].ms - two[0].ms).max().unwrap_or(0);
            prop_assert!(points.len() < 256 || longest <= 4 * ms / points.len() as u64 + 200, "{}", longest);
        }
    }
}
