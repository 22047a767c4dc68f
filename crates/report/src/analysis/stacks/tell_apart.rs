//! Functions of rows that would read the same, although they are several: instances of one generic function, say.

use rustc_hash::FxHashMap;

use crate::names;

/// A row that names a function.
pub(crate) trait Row {
    /// The function, its source file and line, and its module, as far as the row shows them; None if the row names no
    /// function.
    fn shown(&self) -> Option<Shown<'_>>;
    /// Makes the row show its function with arguments.
    fn keep_arguments(&mut self);
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Shown<'a> {
    /// Name of the function, with arguments.
    pub function: &'a str,
    pub file: Option<&'a str>,
    pub line: Option<u32>,
    pub module: Option<&'a str>,
    /// The function by which the row's function allocates, where the row shows that.
    pub by: Option<&'a str>,
}

/// Makes rows that would read the same show the arguments of their functions.
pub(crate) fn tell_apart<'r, R: Row + 'r>(rows: impl Iterator<Item = &'r mut R>) {
    let mut rows: Vec<&mut R> = rows.collect();
    let alike: Vec<usize> = {
        let short = |shown: Shown<'_>| names::short(shown.function);
        let mut known: FxHashMap<(String, Shown<'_>), Vec<(usize, &str)>> = FxHashMap::default();
        for (at, row) in rows.iter().enumerate() {
            let Some(shown) = row.shown() else { continue };
            let key = (short(shown), Shown { function: "", ..shown });
            known.entry(key).or_default().push((at, shown.function));
        }
        let several = known.into_values().filter(|all| all.windows(2).any(|two| two[0].1 != two[1].1));
        several.flatten().map(|(at, _)| at).collect()
    };
    for at in alike {
        rows[at].keep_arguments();
    }
}

#[cfg(test)]
mod tests {
    use crate::analysis::{Measure, TopOptions, TreeOptions, top, tree};
    use crate::testing::{Builder, blocks};

    #[test]
    fn instances_of_one_template_keep_their_arguments_and_other_rows_do_not() {
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 10);
        for function in
            ["grow<int>(int)@a.h:4", "grow<char>(char)@a.h:4", "load<int>(int)@a.cc:9", "grow<int>(int)@b.h:4"]
        {
            b.site(p, &[function, "main@a.cc:20"], blocks(5, 10, 0, 0));
        }
        let options = TopOptions { by: Measure::Allocations, cum: false, raw: false, limit: usize::MAX };
        let kept = |rows: &mut dyn Iterator<Item = (bool, &str)>| {
            let mut kept: Vec<String> = rows.filter(|(kept, _)| *kept).map(|(_, name)| name.to_owned()).collect();
            kept.sort();
            kept
        };
        let functions = top(&b.profile, options).functions;
        let mut of_top = functions.iter().map(|row| (row.keeps_arguments, row.function.as_str()));
        assert_eq!(kept(&mut of_top), ["grow<char>(char)", "grow<int>(int)"]);
        let (by, depth, limit) = (Measure::Allocations, usize::MAX, usize::MAX);
        let options = TreeOptions { by, callers: false, raw: false, depth, min: 1, limit };
        let functions = tree(&b.profile, options).functions;
        let mut of_tree = functions.iter().map(|row| (row.keeps_arguments, row.function.as_str()));
        assert_eq!(kept(&mut of_tree), ["grow<char>(char)", "grow<int>(int)"]);
    }
}
