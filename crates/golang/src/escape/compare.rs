//! What is in the heap now and was not before.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Site;
use crate::model::Kind;
use crate::names::written;

#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// Places that the compiler puts into the heap now, and did not in the base.
    pub new: Vec<Site>,
    /// Places of the base that the compiler puts into the heap no longer.
    pub gone: Vec<Site>,
    /// Number of places that allocate in both.
    pub same: u64,
}

/// Lines are not compared, as they move. A place is identified by its package, the function of the source, and the
/// expression; of several that look alike those with the same reason are the same, and then those in the same order.
pub fn compare(before: &[Site], now: &[Site]) -> Comparison {
    let mut alike: BTreeMap<_, (Vec<&Site>, Vec<&Site>)> = BTreeMap::new();
    for site in before {
        alike.entry(key(site)).or_default().0.push(site);
    }
    for site in now {
        alike.entry(key(site)).or_default().1.push(site);
    }
    let mut found = Comparison::default();
    for (mut old, mut new) in alike.into_values() {
        let all = new.len();
        new.retain(|site| match old.iter().position(|other| other.why == site.why) {
            Some(at) => {
                old.remove(at);
                false
            }
            None => true,
        });
        let paired = old.len().min(new.len());
        found.same += (all - (new.len() - paired)) as u64;
        found.new.extend(new.drain(paired..).cloned());
        found.gone.extend(old.drain(paired..).cloned());
    }
    let place = |site: &Site| (site.file.clone(), site.line, site.column);
    found.new.sort_by_key(place);
    found.gone.sort_by_key(place);
    found
}

fn key(site: &Site) -> (&str, String, &str, Kind) {
    (&site.package, written(site.function.as_deref().unwrap_or_default()), &site.what, site.kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Reason;

    fn site(function: &str, line: u32, what: &str, why: &str) -> Site {
        Site {
            package: "p".into(),
            function: Some(function.into()),
            file: "a.go".into(),
            line,
            column: 1,
            inlined_from: None,
            kind: Kind::Composite,
            what: what.into(),
            reason: Reason::Unknown,
            why: why.into(),
            chain: Vec::new(),
            suggestion: None,
            allocations: None,
            allocated_bytes: None,
            shared_with: 0,
            positions: Vec::new(),
        }
    }

    fn lines(sites: &[Site]) -> Vec<u32> {
        sites.iter().map(|site| site.line).collect()
    }

    #[test]
    fn lines_that_moved_are_the_same() {
        let before = [site("F", 3, "&T{}", "returned"), site("F.func1", 5, "x", "captured")];
        let now = [site("F", 13, "&T{}", "returned"), site("F.func2", 25, "x", "captured")];
        let found = compare(&before, &now);
        assert_eq!((found.new.len(), found.gone.len(), found.same), (0, 0, 2));
    }

    #[test]
    fn one_more_of_the_same_is_new() {
        let before = [site("F", 3, "&T{}", "returned"), site("G", 9, "&T{}", "returned")];
        let now = [site("F", 3, "&T{}", "sent"), site("F", 4, "&T{}", "returned"), site("H", 9, "&T{}", "returned")];
        let found = compare(&before, &now);
        assert_eq!((lines(&found.new), lines(&found.gone), found.same), (vec![3, 9], vec![9], 1));
        assert_eq!(found.new[0].why, "sent");
        assert_eq!(found.new[1].function.as_deref(), Some("H"));
    }

    #[test]
    fn a_reason_that_changes_is_no_new_allocation() {
        let found = compare(&[site("F", 3, "&T{}", "returned")], &[site("F", 3, "&T{}", "sent")]);
        assert_eq!((found.new.len(), found.gone.len(), found.same), (0, 0, 1));
    }
}
