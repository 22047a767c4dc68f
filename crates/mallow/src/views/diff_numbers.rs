//! How a comparison shows numbers, and the line in which they add up.

use std::path::Path;

use mallow_report::analysis::Measure;
use mallow_report::analysis::sampled::Estimate;

use crate::output::text::estimates::margin_of_change;
use crate::output::text::units::{bytes, count, fixed, of, ratio};
use crate::output::text::{Look, change, measured, signed};

#[derive(Debug)]
pub struct Names {
    pub before: String,
    pub after: String,
}

impl Names {
    /// Names of the files, as short as they stay distinct.
    pub fn of(files: &[String; 2]) -> Self {
        let name =
            |path: &String| Path::new(path).file_name().map_or(path.clone(), |n| n.to_string_lossy().into_owned());
        let [before, after] = files.each_ref().map(name);
        let [before, after] = if before == after { files.clone() } else { [before, after] };
        Self { before, after }
    }
}

/// Form of the numbers of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    pub by: Measure,
    /// Divisor of the numbers; None: they are whole.
    pub per: Option<f64>,
    /// Limit of rows in a list: of one that has as many, a higher limit shows more.
    pub more: usize,
    pub look: Look,
}

impl Numbers {
    pub fn amount(&self, n: u64) -> String {
        self.amount_by(self.by, n)
    }

    pub fn amount_by(&self, by: Measure, n: u64) -> String {
        // A peak is no sum of what operations do.
        match self.per.filter(|_| by != Measure::Peak) {
            Some(per) => {
                let unit = if by.is_bytes() { " B" } else { "" };
                let divided = n as f64 / per;
                let text = if divided.fract() == 0.0 { fixed(divided, 0) } else { ratio(divided) };
                text + unit
            }
            None if by.is_bytes() => bytes(n, self.look.exact),
            None => count(n),
        }
    }

    pub fn change(&self, n: i64) -> String {
        self.change_by(self.by, n)
    }

    pub fn change_by(&self, by: Measure, n: i64) -> String {
        signed(n, self.amount_by(by, n.unsigned_abs()))
    }

    /// The margin of a change of estimates; empty where it is not known.
    pub fn margin_by(&self, by: Measure, change: Option<Estimate>) -> String {
        change.map_or(String::new(), |change| margin_of_change(&change, &self.look, |n| self.amount_by(by, n)))
    }

    /// End of a line of whole numbers, where numbers are divided; else empty.
    pub fn per_operation(&self, by: Measure, n: i64) -> String {
        let per = self.per.filter(|_| by != Measure::Peak);
        per.map_or(String::new(), |per| format!(", {} divided by {per}", self.change_by(by, n)))
    }
}

/// Changes of the rows of a comparison, which add up to `change`.
#[derive(Clone, Copy, Debug)]
pub struct Reconciled {
    pub by: Measure,
    pub shown: i64,
    /// Sum of the changes of rows that are not shown, and their number.
    pub hidden: (i64, u64),
    /// Change that is in no stack.
    pub elsewhere: i64,
    pub change: i64,
}

/// `Shown +1,500, left out -200 in 7 stacks: net +1,300 allocations`, to the last digit.
pub fn reconciled(sums: &Reconciled, noun: &str) -> String {
    let exact = |n: i64| change(sums.by, n, &Look { exact: true, ..Look::default() });
    let mut parts = vec![format!("Shown {}", exact(sums.shown))];
    parts.push(match sums.hidden {
        (_, 0) => "nothing left out".to_owned(),
        (change, rows) => format!("left out {} in {}", exact(change), of(rows, noun)),
    });
    if sums.elsewhere != 0 {
        parts.push(format!("in no stack {}", exact(sums.elsewhere)));
    }
    format!("{}: net {} {}", parts.join(", "), exact(sums.change), measured(sums.by))
}
