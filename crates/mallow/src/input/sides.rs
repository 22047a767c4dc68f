//! What two recordings that are compared lack: a change of their numbers may be no change of the program.

use super::recording::Recording;
use crate::output::text::gaps;

/// What the totals of either side lack, a sentence each, with the side's file or "both".
pub fn incomplete_totals(sides: [&Recording; 2]) -> Vec<String> {
    let mut all = by_side(sides, Recording::incomplete_totals);
    all.extend(ended_otherwise(sides));
    all
}

/// The same, and what the call paths lack.
pub fn incomplete(sides: [&Recording; 2]) -> Vec<String> {
    let mut all = by_side(sides, Recording::incomplete);
    all.extend(ended_otherwise(sides));
    all
}

/// The lines that come before any view of the two: what they lack, and which part of both is compared.
pub fn notices(sides: [&Recording; 2]) -> Vec<String> {
    let incomplete = incomplete(sides).into_iter().map(|text| format!("{}{text}", gaps::INCOMPLETE));
    incomplete.chain(sides[1].filters.describe()).collect()
}

fn by_side(sides: [&Recording; 2], of: impl Fn(&Recording) -> Vec<String>) -> Vec<String> {
    let [before, after] = sides.map(of);
    let both = before.iter().filter(|text| after.contains(text)).map(|text| format!("both: {text}"));
    let one = |side: usize, texts: &[String], others: &[String]| {
        let file = sides[side].path().display();
        let alone = texts.iter().filter(|text| !others.contains(text));
        alone.map(|text| format!("{file}: {text}")).collect::<Vec<_>>()
    };
    both.chain(one(0, &before, &after)).chain(one(1, &after, &before)).collect()
}

/// A command that failed, or was ended, in one of the two alone.
fn ended_otherwise(sides: [&Recording; 2]) -> Option<String> {
    let [before, after] = sides.map(|side| side.profile.ending.exit_status);
    let (before, after) = (before?, after?);
    let (failed, status, other, others) = match before == 0 || after != 0 {
        _ if before == after => return None,
        true => (sides[1], after, sides[0], before),
        false => (sides[0], before, sides[1], after),
    };
    let (file, beside) = (failed.path().display(), other.path().display());
    Some(format!(
        "{file}: the command ended with status {status}, that of {beside} with {others}: one of them may have done less"
    ))
}

#[cfg(test)]
mod tests {
    use mallow_report::testing::parser;

    use super::*;

    fn ended(status: Option<i32>) -> Recording {
        let mut profile = parser();
        profile.ending.exit_status = status;
        Recording::of(profile)
    }

    #[test]
    fn commands_that_ended_otherwise_are_named() {
        let said = |before, after| {
            let [before, after] = [("a", before), ("b", after)].map(|(name, status)| ended(status).at(name.as_ref()));
            incomplete([&before, &after])
        };
        assert!(said(Some(0), Some(0)).is_empty() && said(Some(1), Some(1)).is_empty());
        assert!(said(None, Some(1)).is_empty(), "nothing is known of one");
        let text = |file, status, other, others| {
            format!(
                "{file}: the command ended with status {status}, that of {other} with {others}: one of them may have \
                 done less"
            )
        };
        assert_eq!(said(Some(0), Some(134)), [text("b", 134, "a", 0)]);
        assert_eq!(said(Some(134), Some(0)), [text("a", 134, "b", 0)]);
        assert_eq!(said(Some(1), Some(134)), [text("b", 134, "a", 1)]);
    }
}
