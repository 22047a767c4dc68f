//! What is said of an allocation that several expressions of its line come into question for, or that is for several
//! variables at once.

use super::explanation::{Explanation, ReasonSource};

/// Limit of expressions that are named.
const NAMED: usize = 3;

/// One explanation that is true whichever it is: it names the expressions, and a reason and a suggestion for all or
/// each with its own.
/// Precondition: there are several.
pub fn of(each: Vec<Explanation>) -> Explanation {
    let what = listed(each.iter().map(|one| one.what.clone()), ", ", " or ");
    let names = each.iter().map(|one| one.what.clone()).collect();
    Explanation { one_of: each.len(), ..joined(what, names, each, "; or ") }
}

/// The explanation of one block that holds all of these variables.
/// Precondition: there are several.
pub fn together(names: Vec<String>, each: Vec<Explanation>) -> Explanation {
    let what = format!("variables {} in one block", listed(names.iter().cloned(), ", ", " and "));
    joined(what, names, each, "; ")
}

/// One explanation of several: common statements once, the others for each.
fn joined(what: String, names: Vec<String>, each: Vec<Explanation>, between: &str) -> Explanation {
    let same = |text: &dyn Fn(&Explanation) -> String| {
        let mut texts = each.iter().map(text);
        let first = texts.next();
        first.filter(|first| texts.all(|other| other == *first))
    };
    let reason = same(&|one| one.reason.clone()).unwrap_or_else(|| {
        let with = |(name, one): (&String, &Explanation)| match one.reason.as_str() {
            "" => format!("{name}: no reason is known"),
            reason => format!("{name}: {reason}"),
        };
        listed(names.iter().zip(&each).map(with), between, between)
    });
    let steps = each.first().map(|one| one.steps.clone()).filter(|steps| each.iter().all(|one| one.steps == *steps));
    let remedy = each.first().and_then(|one| one.remedy.clone());
    let source =
        [ReasonSource::Compiler, ReasonSource::Runtime].into_iter().find(|&by| each.iter().any(|one| one.source == by));
    Explanation {
        what,
        reason,
        source: source.unwrap_or(ReasonSource::None),
        steps: steps.unwrap_or_default(),
        remedy: remedy.filter(|remedy| each.iter().all(|one| one.remedy.as_ref() == Some(remedy))),
        one_of: 1,
        diagnostic: None,
    }
}

/// `a, b or c`, `a, b, c or one of 2 others`; each once.
fn listed(all: impl Iterator<Item = String>, comma: &str, or: &str) -> String {
    let mut texts: Vec<String> = Vec::new();
    for text in all {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let others = texts.len().saturating_sub(NAMED);
    if others > 0 {
        texts.truncate(NAMED);
        texts.push(if others == 1 { "another".to_owned() } else { format!("one of {others} others") });
    }
    match texts.split_last() {
        Some((last, first)) if !first.is_empty() => format!("{}{or}{last}", first.join(comma)),
        Some((last, _)) => last.clone(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(what: &str, reason: &str, remedy: Option<&str>) -> Explanation {
        Explanation {
            what: what.to_owned(),
            reason: reason.to_owned(),
            source: if reason.is_empty() { ReasonSource::None } else { ReasonSource::Compiler },
            steps: vec![format!("{what} at 5")],
            remedy: remedy.map(str::to_owned),
            one_of: 1,
            diagnostic: None,
        }
    }

    #[test]
    fn all_are_named_and_only_what_is_true_of_all_is_said_of_all() {
        let both = of(vec![one("new(T)", "returned", Some("by value")), one("&T{...}", "sent", Some("by value"))]);
        assert_eq!((both.what.as_str(), both.one_of, both.source), ("new(T) or &T{...}", 2, ReasonSource::Compiler));
        assert_eq!(both.reason, "new(T): returned; or &T{...}: sent");
        assert_eq!((both.remedy.as_deref(), both.steps.len()), (Some("by value"), 0));
        let alike = of(vec![one("&T{...}", "returned", Some("by value")), one("&T{...}", "returned", None)]);
        assert_eq!((alike.what.as_str(), alike.reason.as_str(), alike.remedy), ("&T{...}", "returned", None));
        assert_eq!(alike.steps, ["&T{...} at 5"]);
        let unknown = of(vec![one("a", "", None), one("b", "sent", None)]);
        assert_eq!(
            (unknown.reason.as_str(), unknown.source),
            ("a: no reason is known; or b: sent", ReasonSource::Compiler)
        );
        let silent = of(vec![one("a", "", None), one("b", "", None)]);
        assert_eq!((silent.reason.as_str(), silent.source), ("", ReasonSource::None));
    }

    #[test]
    fn variables_of_one_block_are_all_named() {
        let each = || vec![one("variable x", "returned", None), one("variable y", "sent", None)];
        let block = together(vec!["x".to_owned(), "y".to_owned()], each());
        assert_eq!((block.what.as_str(), block.one_of), ("variables x and y in one block", 1));
        assert_eq!(block.reason, "x: returned; y: sent");
    }

    #[test]
    fn many_are_counted() {
        let of_count = |count: u32| of((0..count).map(|n| one(&format!("x{n}"), "sent", None)).collect()).what;
        assert_eq!(of_count(3), "x0, x1 or x2");
        assert_eq!(of_count(4), "x0, x1, x2 or another");
        assert_eq!(of_count(6), "x0, x1, x2 or one of 3 others");
    }
}
