//! What two recordings that are compared lack: a change of their numbers may be no change of the program.

use super::recording::Recording;

/// What the totals of either side lack, a sentence each, with the side's file or "both".
pub fn incomplete_totals(sides: [&Recording; 2]) -> Vec<String> {
    by_side(sides, Recording::incomplete_totals)
}

/// The same, and what the call paths lack.
pub fn incomplete(sides: [&Recording; 2]) -> Vec<String> {
    by_side(sides, Recording::incomplete)
}

/// [`Recording::notices`] of the two.
pub fn notices(sides: [&Recording; 2]) -> Vec<String> {
    sides[1].filters.notices(incomplete(sides))
}

fn by_side(sides: [&Recording; 2], of: impl Fn(&Recording) -> Vec<String>) -> Vec<String> {
    let [before, after] = sides.map(of);
    let both = before.iter().filter(|text| after.contains(text)).map(|text| format!("both: {text}"));
    let one = |side: usize, texts: &[String], others: &[String]| {
        let file = sides[side].path().display();
        let alone = texts.iter().filter(|text| !others.contains(text));
        alone.map(|text| format!("{file}: {text}")).collect::<Vec<_>>()
    };
    let alone = one(0, &before, &after).into_iter().chain(one(1, &after, &before));
    both.chain(alone).chain(ended_otherwise(sides)).collect()
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
