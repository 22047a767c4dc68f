//! `mallow tree`: who calls whom to allocate.

use std::process::ExitCode;

use anyhow::Result;
use mallow_report::analysis::{
    Changed, Hidden, Least, Measure, ProfileViews, Shown, Totals, Tree, TreeFunction, TreeOptions, TreeRow,
    tree_changes,
};

use super::changes::{self, Pair, RowSums};
use crate::flags::{By, TreeFlags};
use crate::input::recording::Recording;
use crate::output::text::units::{count, percent};
use crate::output::text::{
    Align, Line, Look, Page, Stream, Table, amount, function_in_list, location, measured, with_one_code,
};
use crate::output::{exit, json, stdio};

/// Rows below one another, where nothing else is said. Many readers of JSON stop at 128 levels, and a row is two.
const JSON_DEPTH: u16 = 60;
/// Limit of rows below one another in text, where the number of rows bounds it first.
const TEXT_DEPTH: u16 = 1000;

/// Amount below which a function gets no row, where not all rows are asked for.
const WORTH: Least = Least::Percent(0.5);

pub fn run(flags: &TreeFlags) -> Result<ExitCode> {
    let look = flags.rows.view.look(Stream::Out);
    let (least, options) = options(flags, look.height.map_or(30, |h| h.saturating_sub(5).max(5)));
    let more = flags.depth.is_none() && flags.rows.least.min.is_none() && flags.rows.view.limit != Some(0);
    if let Some(before) = &flags.base.base {
        let pair = Pair::open(before, &flags.base, &flags.rows.source, flags.by)?;
        let (report, sums) = changed_calls(&pair, least, options);
        if flags.rows.view.json {
            json::print(&pair.document(&report, Some(sums))?)?;
        } else {
            pair.print(changed(&report, &pair, &sums, &look, more), &look)?;
        }
        return Ok(exit::OK);
    }
    let recording = Recording::open(&flags.rows.source)?;
    let views = ProfileViews::of(&recording.profile);
    let report = report(&recording, &views, flags.by, |by, total| options(by, least.of(total)))?;
    if flags.rows.view.json {
        recording.print_json(&report)?;
        recording.warn_of_gaps();
    } else {
        stdio::print(&recording.above(&text(&report, &look, more), &look))?;
    }
    Ok(exit::OK)
}

/// The JSON of a recording. Precondition: the flags ask for JSON, and `views` are those of its profile.
pub fn document(flags: &TreeFlags, recording: &Recording, views: &ProfileViews<'_>) -> Result<String> {
    let (least, options) = options(flags, usize::MAX);
    recording.json_line(&report(recording, views, flags.by, |by, total| options(by, least.of(total)))?)
}

/// The JSON of two recordings. Precondition: the flags ask for JSON.
pub fn changes_document(flags: &TreeFlags, pair: &Pair) -> Result<String> {
    let (least, options) = options(flags, usize::MAX);
    let (report, sums) = changed_calls(pair, least, options);
    json::line(&pair.document(&report, Some(sums))?)
}

fn changed_calls(pair: &Pair, least: Least, options: impl Fn(Measure, u64) -> TreeOptions) -> (Tree<Changed>, RowSums) {
    let report = tree_changes(&pair.both, options(pair.by, pair.least(Some(least))));
    let sums = pair.sums(report.rows.iter().map(|row| row.cum), report.hidden.map(|h| (h.rows, h.cum)));
    (report, sums)
}

/// The least amount of a row, and the options of a tree; a screen has room for `screen` rows.
fn options(flags: &TreeFlags, screen: usize) -> (Least, impl Fn(Measure, u64) -> TreeOptions) {
    let view = &flags.rows.view;
    let depth = flags.depth.unwrap_or(if view.json { JSON_DEPTH } else { TEXT_DEPTH });
    let all = view.json || view.limit == Some(0);
    let least = flags.rows.least.min.unwrap_or(if all { Least::Amount(0) } else { WORTH });
    let limit = view.limit(if view.json { usize::MAX } else { screen });
    let (callers, raw, depth) = (flags.callers, flags.raw, depth.into());
    (least, move |by, min: u64| TreeOptions { by, callers, raw, depth, min: min.max(1), limit })
}

/// `options` makes them from the measure and the sum of all.
fn report(
    recording: &Recording,
    views: &ProfileViews<'_>,
    by: Option<By>,
    options: impl Fn(Measure, u64) -> TreeOptions,
) -> Result<Tree> {
    let by = recording.measure(by)?;
    Ok(views.tree(options(by, by.of(&recording.profile.totals.into()))))
}

/// `more`: a higher limit would show more rows.
fn text(report: &Tree, look: &Look, more: bool) -> String {
    let mut page = Page::new(*look);
    let total = report.by.of(&report.totals);
    let (what, order) = titles(report.callers);
    page.line(
        Line::new()
            .strong(format!("{what} by {}", measured(report.by)))
            .plain(format!(", {order}; {} in all", amount(report.by, total, look))),
    );
    if report.rows.is_empty() && report.hidden.is_none() {
        page.line(Line::new().plain("  none"));
        return page.into_text();
    }
    let (by, callers) = (report.by, report.callers);
    let titles: &[&str] = if callers { &["self", "self %", "function"] } else { &["cum", "cum %", "self", "function"] };
    let cells = |value: &Totals, own: Option<&Totals>| {
        let value = by.of(value);
        let mut cells = vec![Line::new().plain(amount(by, value, look)), Line::new().plain(percent(value, total))];
        if !callers {
            cells.push(match own.map(|own| by.of(own)) {
                Some(0) => Line::new().faint("."),
                Some(own) => Line::new().plain(amount(by, own, look)),
                None => Line::new(),
            });
        }
        cells
    };
    rows(report, &Columns { titles, cells: &cells }, look, more, &mut page);
    page.into_text()
}

fn changed(report: &Tree<Changed>, pair: &Pair, sums: &RowSums, look: &Look, more: bool) -> String {
    let mut page = Page::new(*look);
    let (by, callers) = (report.by, report.callers);
    let (what, order) = titles(callers);
    page.line(pair.heading(what, &format!("; {order}"), look));
    let titles: &[&str] = match callers {
        true => &["before", "after", "change", "function"],
        false => &["before", "after", "change", "self change", "function"],
    };
    let cells = |value: &Changed, own: Option<&Changed>| {
        let mut cells = Vec::from(changes::cells(by, value, look));
        if !callers {
            cells.push(own.map_or(Line::new(), |own| changes::cell(by, own, look)));
        }
        cells
    };
    if !report.rows.is_empty() {
        rows(report, &Columns { titles, cells: &cells }, look, more, &mut page);
    }
    pair.total(sums, "row", &mut page);
    page.into_text()
}

fn titles(callers: bool) -> (&'static str, &'static str) {
    match callers {
        true => ("Callers", "each below what it called"),
        false => ("Calls", "self: excluding callees"),
    }
}

struct Columns<'a, T> {
    titles: &'a [&'static str],
    /// Cells of a row's value, and of what it has by itself.
    cells: &'a dyn Fn(&T, Option<&T>) -> Vec<Line>,
}

fn rows<T: Shown>(report: &Tree<T>, columns: &Columns<'_, T>, look: &Look, more: bool, page: &mut Page) {
    let mut lines = Lines { report, columns, look, lines: Vec::new(), hidden: false, recursive: false };
    lines.below(&report.rows, None, report.hidden.as_ref(), None);
    let (hidden, recursive) = (lines.hidden, lines.recursive);
    lines.onto(page);
    if recursive {
        page.line(Line::new().faint("  ↻ calls itself, maybe through others; --raw shows each call"));
    }
    if hidden && more {
        page.line(Line::new().faint("  --limit 0 shows all rows"));
    }
}

/// The beginning of a row: what connects it with those around it.
#[derive(Clone, Debug, Default)]
struct Branch(Vec<bool>);

impl Branch {
    /// The row below this one; `last` if no other follows there.
    fn below(parent: Option<&Self>, last: bool) -> Self {
        Self(parent.map_or_else(Vec::new, |p| p.0.iter().copied().chain([last]).collect()))
    }

    /// The connections as text of at most about so many columns: the nearest ones are kept.
    fn text(&self, room: usize) -> String {
        let kept = (room / 2).max(2);
        let cut = if self.0.len() > kept { self.0.len() - kept + 1 } else { 0 };
        let mut out = if cut > 0 { "… ".to_owned() } else { String::new() };
        for (index, last) in self.0.iter().enumerate().skip(cut) {
            out.push_str(match (index + 1 == self.0.len(), last) {
                (true, true) => "└ ",
                (true, false) => "├ ",
                (false, true) => "  ",
                (false, false) => "│ ",
            });
        }
        out
    }
}

/// A line before it is known how much room its name has.
struct Row<'a, T> {
    value: T,
    own: Option<T>,
    branch: Branch,
    name: Name<'a, T>,
}

enum Name<'a, T> {
    Functions(&'a TreeRow<T>),
    /// Number of hidden rows.
    More(u64),
    /// The beginning of a call path, which nothing called.
    Begins,
}

struct Lines<'a, T> {
    report: &'a Tree<T>,
    columns: &'a Columns<'a, T>,
    look: &'a Look,
    lines: Vec<Row<'a, T>>,
    /// Whether some rows are not shown.
    hidden: bool,
    /// A function of a row calls itself.
    recursive: bool,
}

impl<'a, T: Shown> Lines<'a, T> {
    /// Adds the lines for what is below a row.
    fn below(&mut self, rows: &'a [TreeRow<T>], own: Option<T>, hidden: Option<&Hidden<T>>, branch: Option<&Branch>) {
        let by = self.report.by;
        self.hidden |= hidden.is_some();
        let rest = usize::from(own.is_some()) + usize::from(hidden.is_some());
        for (index, row) in rows.iter().enumerate() {
            self.recursive |= !row.recursive.is_empty();
            let branch = Branch::below(branch, index + 1 == rows.len() && rest == 0);
            let own = row.self_sums;
            let line = Row {
                value: row.cum,
                own: Some(own).filter(|_| !self.report.callers),
                branch: branch.clone(),
                name: Name::Functions(row),
            };
            self.lines.push(line);
            if row.children.is_empty() {
                self.hidden |= row.hidden.is_some();
            } else {
                let own = Some(own).filter(|own| own.whole(by) > 0 && self.report.callers);
                self.below(&row.children, own, row.hidden.as_ref(), Some(&branch));
            }
        }
        if let Some(value) = own {
            let branch = Branch::below(branch, hidden.is_none());
            self.lines.push(Row { value, own: None, branch, name: Name::Begins });
        }
        if let Some(hidden) = hidden {
            let (value, branch) = (hidden.cum, Branch::below(branch, true));
            self.lines.push(Row { value, own: None, branch, name: Name::More(hidden.rows) });
        }
    }

    fn onto(self, page: &mut Page) {
        let (titles, look) = (self.columns.titles, self.look);
        let mut align = vec![Align::Right; titles.len() - 1];
        let cells: Vec<Vec<Line>> =
            self.lines.iter().map(|line| (self.columns.cells)(&line.value, line.own.as_ref())).collect();
        let width = |column: usize| {
            let rows = cells.iter().map(|c| c[column].width());
            rows.max().unwrap_or(0).max(titles[column].len()) + 2
        };
        let numbers: usize = (0..align.len()).map(width).sum();
        let room = look.width.map(|w| w.saturating_sub(numbers + 2));
        align.push(Align::Left);
        let mut table = Table::new(&align);
        table.row(titles.iter().map(|t| Line::new().faint(t)));
        for (line, mut cells) in self.lines.iter().zip(cells) {
            let branch = line.branch.text(room.map_or(usize::MAX, |r| r / 3));
            let name = Line::new().faint(&branch);
            let room = room.map(|r| r.saturating_sub(name.width()));
            cells.push(name.then(match line.name {
                Name::Functions(row) => functions(self.report, row, look, room),
                Name::More(rows) => Line::new().faint(format!("… {} more", count(rows))),
                Name::Begins => Line::new().faint("(no caller)"),
            }));
            table.row(cells);
        }
        table.onto(page);
    }
}

/// `main → load → …3… → parse_row parser.cc`. The last function counts, so it is the middle that gives way; among
/// callers it is the first that counts, and the end.
fn functions<T>(report: &Tree<T>, row: &TreeRow<T>, look: &Look, room: Option<usize>) -> Line {
    let callers = report.callers;
    let arrow = || Line::new().faint(if callers { " ← " } else { " → " });
    let name = |f: &TreeFunction| function_in_list(&f.function, f.keeps_arguments, look);
    let mark = |recursive: bool, line: Line| line.faint(if recursive { " ↻" } else { "" });
    let called: Vec<_> = report.called(row).collect();
    let key = if callers { called.split_first() } else { called.split_last() };
    let Some((&(key, recursive), others)) = key else { return Line::new() };
    let strong = mark(recursive, Line::new().strong(name(key)));
    let at = location(&key.function, key.file.as_deref(), None, key.module.as_deref(), look);
    let at = if at.is_empty() { Line::new() } else { Line::new().plain(" ").faint(at) };
    let at = with_one_code(at, &key.function, &key.folded, look);
    let more = match &row.hidden {
        Some(hidden) if row.children.is_empty() => Line::new().faint(format!(" ({} more)", count(hidden.rows))),
        _ => Line::new(),
    };
    let link = |link: Line| if callers { arrow().then(link) } else { link.then(arrow()) };
    let others: Vec<Line> =
        others.iter().map(|&(f, recursive)| link(mark(recursive, Line::new().plain(name(f))))).collect();
    // With so many of the first and of the last of the others.
    let line = |first: usize, last: usize, at: &Line| {
        let left_out = others.len() - first - last;
        let gap = (left_out > 0).then(|| link(Line::new().faint(format!("…{}…", count(left_out as u64)))));
        let shown = others[..first].iter().cloned().chain(gap).chain(others[others.len() - last..].iter().cloned());
        let chain = shown.fold(Line::new(), Line::then);
        let strong = strong.clone().then(at.clone());
        (if callers { strong.then(chain) } else { chain.then(strong) }).then(more.clone())
    };
    let fits = |line: &Line| room.is_none_or(|room| line.width() <= room);
    let (all, nowhere) = (others.len(), Line::new());
    // Names say more than the file does.
    let whole = [line(all, 0, &at), line(all, 0, &nowhere)];
    let shorter = (0..all).rev().map(|kept| match (callers, kept) {
        (true, _) => line(kept, 0, &nowhere),
        (false, 0) => line(0, 0, &nowhere),
        (false, _) => line(1, kept - 1, &nowhere),
    });
    whole.into_iter().chain(shorter).find(fits).unwrap_or_else(|| line(0, 0, &nowhere))
}

#[cfg(test)]
mod tests {
    use mallow_profile::Profile;
    use mallow_report::analysis::{Measure, Tree, TreeOptions, tree, tree_changes};
    use mallow_report::testing::{Builder, blocks, parser};

    use super::{changed, text};
    use crate::output::text::Look;
    use crate::views::changes;

    const ALL: TreeOptions =
        TreeOptions { by: Measure::Allocations, callers: false, raw: false, depth: 1000, min: 1, limit: usize::MAX };

    fn shown(report: &Tree, width: usize) -> String {
        text(report, &Look { width: Some(width), ..Look::default() }, true)
    }

    /// A parser that calls itself, and a way to it that is long.
    fn recursive() -> Profile {
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 10);
        let way = ["start@start.cc:1", "serve@serve.cc:2", "answer@serve.cc:3", "main@main.cc:4"];
        let add = |b: &mut Builder, inner: &[&str], count| {
            let frames = [inner, &way].concat();
            b.site(p, &frames, blocks(count, 100, 0, 0));
        };
        add(&mut b, &["leaf@p.cc:1", "term@p.cc:2", "sum@p.cc:3", "term@p.cc:2", "sum@p.cc:3"], 900);
        add(&mut b, &["term@p.cc:2", "sum@p.cc:3"], 90);
        add(&mut b, &["sum@p.cc:3"], 7);
        add(&mut b, &["log@log.cc:1"], 2);
        add(&mut b, &["close@log.cc:1"], 1);
        b.profile
    }

    #[test]
    fn calls_from_main_on() {
        insta::assert_snapshot!(text(&tree(&parser(), ALL), &Look::default(), true));
    }

    #[test]
    fn callers_by_bytes() {
        let report = tree(&parser(), TreeOptions { callers: true, by: Measure::Bytes, ..ALL });
        insta::assert_snapshot!(text(&report, &Look::default(), true));
    }

    #[test]
    fn recursion_long_ways_and_what_is_hidden() {
        insta::assert_snapshot!(shown(&tree(&recursive(), TreeOptions { min: 5, limit: 5, ..ALL }), 72));
    }

    #[test]
    fn narrow_terminals_keep_the_function_that_counts() {
        let both = [false, true].map(|callers| shown(&tree(&recursive(), TreeOptions { callers, ..ALL }), 48));
        insta::assert_snapshot!(both.join("\n"));
    }

    #[test]
    fn branches_of_deep_trees_leave_room_for_names() {
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 10);
        let names: Vec<String> = (0..20).map(|n| format!("f{n}")).collect();
        for depth in 1..=names.len() {
            let frames: Vec<&str> = names[..depth].iter().rev().map(String::as_str).collect();
            b.site(p, &frames, blocks(1, 8, 0, 0));
        }
        let report = tree(&b.profile, ALL);
        let narrow = shown(&report, 50);
        assert!(narrow.lines().last().is_some_and(|line| line.ends_with("  …     └ f19 [program]")), "{narrow}");
        assert!(text(&report, &Look::default(), true).contains(&format!("{}└ f19 ", "  ".repeat(18))));
    }

    #[test]
    fn what_nothing_called_has_a_row_among_callers() {
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 10);
        b.site(p, &["f"], blocks(3, 8, 0, 0));
        b.site(p, &["f", "main"], blocks(4, 8, 0, 0));
        let text = text(&tree(&b.profile, TreeOptions { callers: true, ..ALL }), &Look::default(), true);
        assert!(text.ends_with("├ main [program]\n     3   42.9 %  └ (no caller)\n"), "{text}");
    }

    #[test]
    fn rows_and_what_surrounds_them_fit_on_a_screen() {
        for limit in 2..20 {
            let report = tree(&parser(), TreeOptions { limit, raw: true, ..ALL });
            let lines = shown(&report, 80).lines().filter(|line| line.contains('%')).count() - 1;
            assert!(lines <= limit, "{lines} lines with limit {limit}");
        }
    }

    #[test]
    fn what_changed_as_a_tree() {
        let shown = |callers, limit| {
            let pair = changes::testing::parsers(Measure::Allocations);
            let report = tree_changes(&pair.both, TreeOptions { callers, limit, ..ALL });
            let sums = pair.sums(report.rows.iter().map(|row| row.cum), report.hidden.map(|h| (h.rows, h.cum)));
            changed(&report, &pair, &sums, &Look { width: Some(90), ..Look::default() }, true)
        };
        insta::assert_snapshot!([shown(false, 20), shown(true, 20), shown(false, 1)].join("\n"));
    }

    #[test]
    fn nothing_is_said_to_be_nothing() {
        let report = tree(&Profile::default(), TreeOptions { by: Measure::Live, ..ALL });
        assert_eq!(
            text(&report, &Look::default(), true),
            "Calls by live bytes, self: excluding callees; 0 B in all\n  none\n"
        );
    }
}
