//! What has another name, or is in another place, said once: not for each stack that it is on.

use std::collections::{BTreeMap, BTreeSet};

use super::moved::Moved;
use super::report::{DiffRename, Why};
use super::stacks::Joint;

/// Counts the reasons of all stacks that name something; the one that most stacks have comes first.
pub(super) fn renamed<'w>(stacks: impl Iterator<Item = &'w [Why]>, moved: &Moved, joint: &Joint) -> Vec<DiffRename> {
    // An address says nothing of another build.
    let is_own = |function: &str| joint.is_own_text(function) && !function.contains("+0x");
    let mut all: BTreeMap<(bool, Why), (u64, BTreeSet<&str>)> = BTreeMap::new();
    for whys in stacks {
        let mut seen = BTreeSet::new();
        for why in whys {
            let (why, function) = match why {
                Why::Moved { function, from, to } => {
                    // All functions that went from one file to another are one.
                    (Why::Moved { function: String::new(), from: from.clone(), to: to.clone() }, Some(&function[..]))
                }
                Why::Renamed { .. } | Why::Gone { .. } | Why::New { .. } => (why.clone(), None),
                Why::Split | Why::Merged | Why::SameNumbers => continue,
            };
            let file = matches!(&why, Why::Moved { from, to, .. } if moved.is_file(from, to));
            let (stacks, functions) = all.entry((file, why.clone())).or_default();
            *stacks += u64::from(seen.insert(why));
            functions.extend(function);
        }
    }
    let mut renamed: Vec<DiffRename> = all
        .into_iter()
        .map(|((file, mut why), (stacks, functions))| {
            if let Why::Moved { function, .. } = &mut why
                && functions.len() == 1
            {
                functions.iter().for_each(|name| function.push_str(name));
            }
            let own = match &why {
                Why::Renamed { from, to, .. } => [from, to].into_iter().all(|name| is_own(name)),
                Why::Gone { function } | Why::New { function } => is_own(function),
                _ => true,
            };
            DiffRename { why, file, own, functions: functions.len() as u64, stacks }
        })
        .collect();
    renamed.sort_by_key(|one| (std::cmp::Reverse(one.file), std::cmp::Reverse(one.stacks)));
    renamed
}

#[cfg(test)]
mod tests {
    use mallow_profile::Profile;

    use crate::analysis::compare::diff::{DiffOptions, Why, diff};
    use crate::analysis::numbers::Measure;
    use crate::testing::{Builder, blocks};

    fn program(inner: &str, parse: &str) -> Profile {
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 10);
        for (at, caller) in ["load", "reload", "import", "check"].into_iter().enumerate() {
            let number = 100 + 10 * at as u64;
            b.site(p, &["_IO_file_doallocate!libc.so.6", inner, "print", caller, "main"], blocks(number, 1024, 0, 0));
            b.site(p, &[parse, caller, "main"], blocks(7 * number, 24, 0, 0));
        }
        b.profile
    }

    /// Which name of one code is shown depends on what else the linker found to be the same.
    #[test]
    fn another_name_of_one_code_is_no_other_function() {
        let rules = Default::default();
        let options = DiffOptions { by: Measure::Allocations, rules, min: 0, limit: 99, any_measure: false, places: 9 };
        let print = "_IO_fputs!libc.so.6";
        let renamed = |before: &str, after: &str| {
            let report = diff(&program(print, before), &program(print, after), options);
            assert_eq!((report.only_before.rows_in_all, report.only_after.rows_in_all), (0, 0));
            report.renamed.len()
        };
        assert_eq!(renamed("parse", "read"), 1);
        assert_eq!([renamed("parse = read", "read"), renamed("parse", "read = parse = scan")], [0, 0]);
        assert_eq!(renamed("parse = scan", "read"), 1);
    }

    #[test]
    fn two_functions_of_the_c_library_are_two() {
        let rules = Default::default();
        let options = DiffOptions { by: Measure::Allocations, rules, min: 0, limit: 99, any_measure: false, places: 9 };
        let report = diff(&program("_IO_fputs!libc.so.6", "parse"), &program("_IO_fwrite!libc.so.6", "read"), options);
        let names: Vec<_> = report.renamed.iter().map(|one| (&one.why, one.own)).collect();
        let renamed = Why::Renamed { from: "parse".to_owned(), to: "read".to_owned(), certain: false };
        assert!(names.contains(&(&renamed, true)), "{names:?}");
        let others = names.iter().filter(|(why, _)| matches!(why, Why::Renamed { .. })).count();
        assert_eq!(others, 1, "{names:?}");
        // The program's stack is the same: another function of the library is on it.
        let gone = Why::Gone { function: "_IO_fputs".to_owned() };
        assert!(names.contains(&(&gone, false)), "{names:?}");
        assert_eq!((report.only_before.rows_in_all, report.only_after.rows_in_all), (0, 0));
    }
}
