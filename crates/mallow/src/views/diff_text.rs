//! A comparison as text, and as Markdown.

use std::path::Path;

use mallow_profile::{Origin, Word};
use mallow_report::analysis::diff::{Diff, DiffFrame, DiffList, DiffRow, DiffStack, Mark, Why};
use mallow_report::analysis::{Measure, Totals};

use crate::input::coverage::{self, provenance};
use crate::output::text::markdown::cell;
use crate::output::text::units::{bytes, count, fixed, of, percent, ratio};
use crate::output::text::{Align, Line, Look, Page, Table, change, change_style, framed, function, measured, signed};

/// What the two files are called.
#[derive(Debug)]
pub struct Names {
    pub before: String,
    pub after: String,
}

impl Names {
    /// As short as they can be told apart.
    pub fn of(files: &[String; 2]) -> Self {
        let name =
            |path: &String| Path::new(path).file_name().map_or(path.clone(), |n| n.to_string_lossy().into_owned());
        let [before, after] = files.each_ref().map(name);
        let [before, after] = if before == after { files.clone() } else { [before, after] };
        Self { before, after }
    }
}

/// How numbers are shown.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    /// What is compared.
    pub by: Measure,
    /// They are divided by this.
    pub per: Option<f64>,
    /// So many rows of a list are shown at the most: of one that has as many, a higher limit shows more.
    pub more: usize,
    /// How text is to look.
    pub look: Look,
}

impl Numbers {
    fn amount(&self, n: u64) -> String {
        self.amount_by(self.by, n)
    }

    fn amount_by(&self, by: Measure, n: u64) -> String {
        match self.per {
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

    /// What shows the rest, where anything does.
    fn advice(&self, list: &DiffList) -> &'static str {
        if list.rows.len() >= self.more { "; --limit 0 shows all" } else { "" }
    }

    fn change(&self, n: i64) -> String {
        signed(n, self.amount(n.unsigned_abs()))
    }
}

/// The lists, with their titles.
fn lists<'a>(diff: &'a Diff, names: &Names) -> [(String, &'a DiffList); 3] {
    [
        (format!("Only in BEFORE, {}", names.before), &diff.only_before),
        (format!("Only in AFTER, {}", names.after), &diff.only_after),
        ("Different numbers".to_owned(), &diff.different),
    ]
}

/// For people.
pub fn text(diff: &Diff, names: &Names, numbers: &Numbers, depth: usize) -> String {
    let look = &numbers.look;
    let mut page = Page::new(*look);
    let per = numbers.per.map_or(String::new(), |per| format!(", divided by {per}"));
    page.line(
        Line::new()
            .strong(format!("{} → {}", names.before, names.after))
            .plain(format!(", by {}{per}", measured(diff.by))),
    );
    for (name, side) in [("BEFORE", &diff.before), ("AFTER", &diff.after)] {
        if let Some(origin) = &side.origin {
            page.line(Line::new().faint(format!("{name}: ")).then(provenance(origin)));
        }
    }
    totals(diff, numbers).onto(&mut page);
    for (title, list) in lists(diff, names) {
        if list.rows_in_all == 0 {
            continue;
        }
        page.gap();
        let in_all = format!(": {} in {}", numbers.change(list.change), of(list.rows_in_all, "stack"));
        page.line(Line::new().strong(title).plain(in_all));
        for row in &list.rows {
            show(row, numbers, depth, &mut page);
        }
        left_out(list, numbers, &mut page);
    }
    recognised(diff, numbers, &mut page);
    page.gap();
    if diff.equal_stacks > 0 {
        page.line(Line::new().faint(format!("{} without a difference.", of(diff.equal_stacks, "stack"))));
    }
    page.line(Line::new().strong(reconciled_stacks(diff, numbers)));
    page.into_text()
}

/// Changes that moved no number, each with all stacks that it made another: the most sure of them first.
fn recognised(diff: &Diff, numbers: &Numbers, page: &mut Page) {
    if diff.recognised.rows_in_all == 0 {
        return;
    }
    page.gap();
    let in_all = format!(": {}", of(diff.recognised.rows_in_all, "stack"));
    page.line(Line::new().strong("Equal numbers, other stacks").plain(in_all));
    let mut by_reason: Vec<(String, f64, u64, u64)> = Vec::new();
    for row in &diff.recognised.rows {
        let Some(why) = reasons(row, &numbers.look) else { continue };
        match by_reason.iter_mut().find(|(reason, ..)| *reason == why) {
            Some((_, sure, stacks, value)) => {
                (*sure, *stacks, *value) = (sure.min(row.confidence), *stacks + 1, value.saturating_add(row.after));
            }
            None => by_reason.push((why, row.confidence, 1, row.after)),
        }
    }
    for (why, confidence, stacks, value) in by_reason {
        let (amount, stacks) = (numbers.amount(value), of(stacks, "stack"));
        page.paragraph(2, &format!("{amount} in {stacks}, {}: {why}", sure(confidence)));
    }
    let hidden = diff.recognised.hidden();
    if hidden > 0 {
        let all = numbers.advice(&diff.recognised);
        page.line(Line::new().faint(format!("  and {} more{all}", of(hidden, "stack"))));
    }
}

/// What is shown and what is not, and what they add up to.
#[derive(Clone, Copy, Debug)]
pub struct Reconciled {
    /// What is compared.
    pub by: Measure,
    /// Changes of rows that are shown.
    pub shown: i64,
    /// Changes of those that are not, and how many these are.
    pub hidden: (i64, u64),
    /// What is in no stack.
    pub elsewhere: i64,
    /// All of them.
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

/// The same of stacks.
fn reconciled_stacks(diff: &Diff, numbers: &Numbers) -> String {
    let rows = [&diff.only_before, &diff.only_after, &diff.different].iter().map(|list| list.hidden()).sum();
    let Diff { by, shown, hidden, elsewhere, change, .. } = *diff;
    let told = reconciled(&Reconciled { by, shown, hidden: (hidden, rows), elsewhere, change }, "stack");
    let per = numbers.per.map_or(String::new(), |per| format!(", {} divided by {per}", numbers.change(change)));
    told + &per
}

fn tells(origin: &Option<Origin>, word: Word) -> bool {
    origin.as_ref().is_none_or(|origin| origin.tells.has(word))
}

fn totals(diff: &Diff, numbers: &Numbers) -> Table {
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Right, Align::Right]);
    table.row(["", "before", "after", "change", ""].map(|title| Line::new().faint(title)));
    let sides = [&diff.before, &diff.after];
    for by in coverage::MEASURES.map(Measure::from) {
        if !sides.iter().all(|side| tells(&side.origin, by.word())) {
            continue;
        }
        let value = |totals: &Totals| by.of(totals);
        let (before, after) = (value(&diff.before.totals), value(&diff.after.totals));
        let amount = numbers.amount_by(by, after.abs_diff(before));
        let change = if after < before { -1 } else { i64::from(after > before) };
        let share = percent(after.abs_diff(before), before);
        let name = Line::new();
        table.row([
            if by == diff.by { name.strong(measured(by)) } else { name.plain(measured(by)) },
            Line::new().plain(numbers.amount_by(by, before)),
            Line::new().plain(numbers.amount_by(by, after)),
            Line::new().plain(signed(change, amount)),
            Line::new().plain(if share.is_empty() { share } else { signed(change, share) }),
        ]);
    }
    table
}

fn left_out(list: &DiffList, numbers: &Numbers, page: &mut Page) {
    if list.hidden() > 0 {
        let change = numbers.change(list.hidden_change());
        let all = numbers.advice(list);
        page.line(Line::new().faint(format!("  and {} more, {change}{all}", count(list.hidden()))));
    }
}

/// Why stacks that are not equal are the same, in words.
fn reason(why: &Why, look: &Look) -> String {
    let name = |text: &str| function(text, look);
    match why {
        Why::Renamed { from, to } => format!("{} is called {} now", name(from), name(to)),
        Why::Moved { function, from, to } => format!("{} has moved from {from} to {to}", name(function)),
        Why::Gone { function } => format!("{} is no longer on the call path: inlined, perhaps", name(function)),
        Why::New { function } => format!("{} has come in between: no longer inlined, perhaps", name(function)),
        Why::Split => "one stack has become several".to_owned(),
        Why::Merged => "several stacks have become one".to_owned(),
        Why::SameNumbers => "the numbers are equal".to_owned(),
    }
}

/// So many reasons are told of a pair.
const REASONS: usize = 4;

/// Why a pair is one; nothing of stacks that are equal.
fn reasons(row: &DiffRow, look: &Look) -> Option<String> {
    let mut why: Vec<_> = row.why.iter().map(|why| reason(why, look)).collect();
    if why.len() > REASONS {
        let more = why.split_off(REASONS - 1).len();
        why.push(format!("and {more} more"));
    }
    (!why.is_empty()).then(|| why.join("; "))
}

fn sure(confidence: f64) -> String {
    format!("{:.0} % sure", (confidence * 100.0).floor())
}

/// The same, and how sure it is.
fn explanation(row: &DiffRow, look: &Look) -> Option<String> {
    reasons(row, look).map(|why| format!("{}: {why}", sure(row.confidence)))
}

fn show(row: &DiffRow, numbers: &Numbers, depth: usize, page: &mut Page) {
    let both = row.stacks.iter().any(|stack| stack.before.is_some()) && row.stacks.iter().any(|s| s.after.is_some());
    let mut line = Line::new().plain("  ");
    if row.change != 0 {
        line = line.styled(change_style(row.change), numbers.change(row.change));
    }
    if both {
        let numbers = match row.change {
            0 => numbers.amount(row.after),
            _ => format!("  {} → {}", numbers.amount(row.before), numbers.amount(row.after)),
        };
        line = line.plain(numbers);
    }
    page.line(line);
    if let Some(why) = explanation(row, &numbers.look) {
        page.paragraph(6, &why);
    }
    for stack in &row.stacks {
        if row.stacks.len() > 1 {
            let told = |n: Option<u64>| n.map_or("·".to_owned(), |n| numbers.amount(n));
            page.line(Line::new().plain(format!("      {} → {}", told(stack.before), told(stack.after))));
        }
        frames(stack, both, numbers, depth, page);
    }
}

/// Of functions that only pass the request on, so many are shown, the outermost of them.
const PASSED: usize = 2;

/// The functions of a stack that are worth a line.
fn worth(stack: &DiffStack, pair: bool, depth: usize) -> Vec<&DiffFrame> {
    if depth == 0 {
        return stack.frames.iter().collect();
    }
    let own = stack.frames.iter().position(|frame| !frame.frame.looked_past).unwrap_or(stack.frames.len());
    let first = if own == stack.frames.len() { 0 } else { own.saturating_sub(PASSED) };
    let mut left = depth;
    let shown = stack.frames.iter().enumerate().filter(|(at, frame)| {
        let differs = pair && frame.of != Mark::Both;
        let plain = *at >= first && (*at < own || !frame.frame.looked_past) && left > 0;
        left -= usize::from(plain && !differs);
        differs || plain
    });
    shown.map(|(_, frame)| frame).collect()
}

fn frames(stack: &DiffStack, pair: bool, numbers: &Numbers, depth: usize, page: &mut Page) {
    if stack.frames.is_empty() {
        page.line(Line::new().faint("        (no stack is known)"));
    }
    let shown = worth(stack, pair, depth);
    for frame in &shown {
        let mark = match frame.of {
            Mark::Before if pair => "-",
            Mark::After if pair => "+",
            _ => " ",
        };
        page.line(Line::new().plain(format!("      {mark} ")).then(framed(&frame.frame, &numbers.look)));
    }
    let outer = stack.frames.iter().rev().take_while(|frame| !shown.iter().any(|shown| std::ptr::eq(*shown, *frame)));
    let hidden = outer.filter(|frame| !frame.frame.looked_past).count();
    if hidden > 0 {
        page.line(Line::new().faint(format!("        … {hidden} more; --depth 0 shows all")));
    }
    if stack.cut {
        page.line(Line::new().faint("        … outer frames are missing"));
    }
}

/// For a pull request.
pub fn markdown(diff: &Diff, names: &Names, numbers: &Numbers, depth: usize) -> String {
    let numbers = &Numbers {
        look: Look { exact: numbers.look.exact, full_names: numbers.look.full_names, ..Look::default() },
        ..*numbers
    };
    let what = measured(diff.by);
    let mut out = format!(
        "### {} {what}: {} → {}\n\n",
        numbers.change(diff.change),
        numbers.amount(diff.before.value),
        numbers.amount(diff.after.value)
    );
    for (title, list) in
        lists(diff, names).into_iter().chain([("Equal numbers, other stacks".to_owned(), &diff.recognised)])
    {
        if list.rows.is_empty() {
            continue;
        }
        out += &format!(
            "**{}** {} in {}\n\n| change | before | after | stack |\n| ---: | ---: | ---: | --- |\n",
            cell(&title),
            numbers.change(list.change),
            of(list.rows_in_all, "stack")
        );
        for row in &list.rows {
            let stacks: Vec<_> = row.stacks.iter().map(|stack| way(stack, row, numbers, depth)).collect();
            let why = explanation(row, &numbers.look).map_or(String::new(), |why| format!("<br>{}", cell(&why)));
            out += &format!(
                "| {} | {} | {} | {}{why} |\n",
                numbers.change(row.change),
                numbers.amount(row.before),
                numbers.amount(row.after),
                stacks.join("<br>")
            );
        }
        out.push('\n');
    }
    out + &cell(&reconciled_stacks(diff, numbers)) + "\n"
}

/// `copy ← -parse ← +read ← main`
fn way(stack: &DiffStack, row: &DiffRow, numbers: &Numbers, depth: usize) -> String {
    let pair = row.before > 0 && row.after > 0;
    let step = |frame: &&DiffFrame| {
        let name = cell(&function(&frame.frame.function, &numbers.look));
        match frame.of {
            Mark::Before if pair => format!("<del>{name}</del>"),
            Mark::After if pair => format!("<ins>{name}</ins>"),
            _ => name,
        }
    };
    let shown: Vec<_> = worth(stack, pair, depth).iter().map(step).collect();
    if shown.is_empty() { "(no stack is known)".to_owned() } else { shown.join(" ← ") }
}

#[cfg(test)]
mod tests {
    use mallow_profile::{Origin, Profile, Word, Words};
    use mallow_report::analysis::Measure;
    use mallow_report::analysis::diff::{Diff, DiffOptions, Rules, diff};
    use mallow_report::testing::{parser, parser_later};

    use super::{Names, Numbers, markdown, text};
    use crate::output::text::Look;

    fn compared(before: &Profile, after: &Profile, by: Measure) -> Diff {
        diff(before, after, DiffOptions { by, rules: Rules::ALL, min: 100, limit: 2 })
    }

    fn names() -> Names {
        Names::of(&["/old/run.mallow".to_owned(), "/new/other.mallow".to_owned()])
    }

    fn numbers(by: Measure) -> Numbers {
        Numbers { by, per: None, more: 2, look: Look::default() }
    }

    #[test]
    fn lists_and_a_line_that_adds_up() {
        let diff = compared(&parser(), &parser_later(), Measure::Allocations);
        insta::assert_snapshot!(text(&diff, &names(), &numbers(Measure::Allocations), 6));
    }

    #[test]
    fn numbers_that_are_divided_and_whole_stacks() {
        let diff = compared(&parser_later(), &parser(), Measure::Bytes);
        let numbers = Numbers { per: Some(11_000.0), ..numbers(Measure::Bytes) };
        insta::assert_snapshot!(text(&diff, &names(), &numbers, 0));
    }

    #[test]
    fn a_table_for_a_pull_request() {
        let diff = compared(&parser(), &parser_later(), Measure::Allocations);
        insta::assert_snapshot!(markdown(&diff, &names(), &numbers(Measure::Allocations), 3));
    }

    #[test]
    fn what_one_file_does_not_tell_is_left_out() {
        let mut other = parser_later();
        let tells = Words::of(&[Word::Allocations, Word::LeakedBytes]);
        other.origin = Some(Origin { format: "pprof", tells, sampled_bytes: Some(524_288) });
        let shown =
            text(&compared(&parser(), &other, Measure::Allocations), &names(), &numbers(Measure::Allocations), 6);
        assert!(shown.contains("AFTER: pprof profile, sampled"), "{shown}");
        assert!(shown.contains("leaked bytes") && !shown.contains("temporary"), "{shown}");
    }

    #[test]
    fn files_of_one_name_are_told_apart() {
        let names = Names::of(&["/old/run.mallow".to_owned(), "/new/run.mallow".to_owned()]);
        assert_eq!([names.before, names.after], ["/old/run.mallow", "/new/run.mallow"]);
    }

    #[test]
    fn nothing_from_a_file_reaches_the_terminal_as_a_command() {
        let mut profile = parser();
        let evil = profile.strings.intern("\u{1b}[31m|evil<b>");
        profile.frames.iter_mut().flat_map(|frame| &mut frame.lines).for_each(|line| line.function = evil);
        let numbers = numbers(Measure::Bytes);
        let diff = compared(&Profile::default(), &profile, Measure::Bytes);
        let names = Names::of(&["a\u{1b}[2J".to_owned(), "b".to_owned()]);
        let table = markdown(&diff, &names, &numbers, 0);
        let shown = text(&diff, &names, &numbers, 0) + &table;
        assert!(!shown.contains('\u{1b}') && !table.contains("<b>"), "{shown}");
        assert!(shown.contains("evil"), "{shown}");
    }
}
