//! How a number went over time, in a bounded number of points.

/// Most points; half of them are left when there are more.
const POINTS: usize = 240;

/// Points at even distances. Each is the highest number since the one before.
#[derive(Debug, Default)]
pub struct History {
    points: Vec<(u64, u64)>,
    stride_ns: u64,
    highest: u64,
}

impl History {
    pub fn add(&mut self, now_ns: u64, number: u64) {
        self.highest = self.highest.max(number);
        let due = self.points.last().is_none_or(|(last, _)| now_ns.saturating_sub(*last) >= self.stride_ns.max(1));
        if !due {
            return;
        }
        self.points.push((now_ns, std::mem::take(&mut self.highest)));
        if self.points.len() >= POINTS {
            let pairs = self.points.chunks(2);
            let joined = pairs.map(|pair| (pair[pair.len() - 1].0, pair.iter().map(|p| p.1).max().unwrap_or(0)));
            self.points = joined.collect();
            let span = now_ns - self.points[0].0;
            self.stride_ns = span / (self.points.len() as u64 - 1).max(1);
        }
    }

    /// Time and number of each point, the oldest first.
    pub fn points(&self) -> &[(u64, u64)] {
        &self.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_stay_few_and_keep_the_highest() {
        let mut history = History::default();
        for at in 0..100_000 {
            history.add(at, if at == 54_321 { 9_999 } else { at / 1000 });
            assert!(history.points().len() < POINTS);
        }
        assert!(history.points().len() >= POINTS / 2 - 1);
        assert_eq!(history.points().iter().filter(|(_, number)| *number == 9_999).count(), 1);
        assert!(history.points().is_sorted_by(|a, b| a.0 < b.0));
    }
}
