//! A comparison as text, and as Markdown.

use mallow_report::analysis::Measure;
use mallow_report::analysis::diff::{Diff, DiffFrame, DiffList, DiffRename, DiffRow, DiffStack, Mark, Why};

use super::diff_answer::{self, PlaceLimits};
use super::diff_numbers::{Names, Numbers, Reconciled, reconciled};
use crate::input::coverage::provenance;
use crate::output::text::markdown::cell;
use crate::output::text::units::{count, of};
use crate::output::text::{Line, Look, Page, change_style, framed, function, gaps, measured};

fn lists<'a>(diff: &'a Diff, names: &Names) -> [(String, &'a DiffList); 3] {
    [
        (format!("Only in BEFORE, {}", names.before), &diff.only_before),
        (format!("Only in AFTER, {}", names.after), &diff.only_after),
        ("Different numbers".to_owned(), &diff.different),
    ]
}

#[derive(Clone, Copy, Debug)]
pub struct Detail {
    /// Limits of places. On a terminal, the rows that it has room for, unless all are asked for.
    pub places: PlaceLimits,
    /// Rows are as many as the screen has room for.
    pub fit: bool,
    /// Lines of the screen that other text takes.
    pub taken: usize,
    pub stacks: bool,
    /// Whether stacks with other names and equal numbers are shown, too.
    pub all: bool,
    /// Number of functions shown of each stack.
    pub depth: usize,
}

/// The comparison for people, the answer first.
pub fn text(diff: &Diff, names: &Names, numbers: &Numbers, detail: &Detail) -> String {
    let look = &numbers.look;
    let mut page = Page::new(*look);
    let verdict = diff_answer::verdict(diff, numbers);
    match look.width.is_none_or(|width| verdict.chars().count() <= width) {
        true => page.sentence(Line::new().strong(verdict)),
        false => page.paragraph(0, &verdict),
    }
    let has_peak = diff.totals.iter().any(|total| total.by == Measure::Peak);
    let but = if has_peak { " but for peaks" } else { "" };
    let per = numbers.per.map_or(String::new(), |per| format!(", divided by {per}{but}"));
    let by = measured(diff.verdict.by);
    page.sentence(Line::new().plain(format!("{} → {}, by {by}{per}", names.before, names.after)));
    for (name, side) in [("BEFORE", &diff.before), ("AFTER", &diff.after)] {
        if let Some(origin) = &side.origin {
            page.sentence(Line::new().faint(format!("{name}: ")).then(provenance(origin)));
        }
    }
    page.gap();
    diff_answer::totals(diff, numbers).onto(&mut page);
    let mut below = Page::new(*look);
    diff_answer::renamed(diff, detail.all, look, &mut below);
    if detail.stacks {
        stacks(diff, numbers, detail.depth, &mut below);
    }
    if detail.stacks || detail.all {
        recognised(diff, numbers, &mut below);
        if diff.equal_stacks > 0 {
            below.gap();
            below.line(Line::new().faint(format!("{} without a difference.", of(diff.equal_stacks, "stack"))));
        }
    }
    let below = below.into_text();
    let above = page.into_text();
    let mut limits = detail.places;
    if let Some(height) = look.height.filter(|_| detail.fit) {
        // The title, the line of what is left out, the last line, which may be two, two empty lines and the prompt.
        const AROUND: usize = 7;
        const FEWEST: usize = 3;
        let used = above.lines().count() + below.lines().count() + detail.taken + AROUND;
        limits.rows = limits.rows.min(height.saturating_sub(used).max(FEWEST));
    }
    let mut page = Page::from_text(above, *look);
    diff_answer::places(diff, numbers, limits, &mut page);
    if !below.is_empty() {
        page.gap();
        page = Page::from_text(page.into_text() + &below, *look);
    }
    if detail.stacks {
        page.gap();
    }
    page.paragraph(
        0,
        &match detail.stacks {
            true => reconciled_stacks(diff, numbers),
            false => diff_answer::reconciled_places(diff, numbers, limits),
        },
    );
    page.into_text()
}

/// Stacks by size, whatever became of them.
fn stacks(diff: &Diff, numbers: &Numbers, depth: usize, page: &mut Page) {
    let lists = [&diff.only_before, &diff.only_after, &diff.different];
    let all = lists.iter().map(|list| list.rows_in_all).sum::<u64>();
    if all == 0 {
        return;
    }
    page.gap();
    let [before, after, different] = lists.map(|list| count(list.rows_in_all));
    let kinds = format!(": {before} only in BEFORE, {after} only in AFTER, {different} with different numbers");
    page.sentence(Line::new().strong("Stacks").plain(kinds));
    let tags = ["  only in BEFORE", "  only in AFTER", ""];
    let mut rows: Vec<(&str, &DiffRow)> =
        lists.iter().zip(tags).flat_map(|(list, tag)| list.rows.iter().map(move |row| (tag, row))).collect();
    rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.change.unsigned_abs()));
    let files: Vec<[&str; 2]> = diff.renamed.iter().filter(|one| one.file).filter_map(moved).collect();
    for (tag, row) in &rows {
        show(row, tag, &files, numbers, depth, page);
    }
    let hidden = all.saturating_sub(rows.len() as u64);
    if hidden > 0 {
        let change = numbers.change(diff.hidden);
        page.sentence(Line::new().faint(format!("  and {} more, {change}; --limit 0 shows all", count(hidden))));
    }
}

/// The places from which and to which functions moved; None for another reason.
fn moved(one: &DiffRename) -> Option<[&str; 2]> {
    match &one.why {
        Why::Moved { from, to, .. } => Some([from, to]),
        _ => None,
    }
}

/// The flag that shows the rest of a list, or nothing.
fn advice(list: &DiffList, numbers: &Numbers) -> &'static str {
    if list.rows.len() >= numbers.more { "; --limit 0 shows all" } else { "" }
}

/// Changes that moved no number, each with all stacks that it made another: the most sure of them first.
fn recognised(diff: &Diff, numbers: &Numbers, page: &mut Page) {
    if diff.recognised.rows_in_all == 0 {
        return;
    }
    page.gap();
    let in_all = format!(": {}", of(diff.recognised.rows_in_all, "stack"));
    page.sentence(Line::new().strong("Equal numbers, other stacks").plain(in_all));
    let files: Vec<[&str; 2]> = diff.renamed.iter().filter(|one| one.file).filter_map(moved).collect();
    let mut by_reason: Vec<(String, f64, u64, u64)> = Vec::new();
    for row in &diff.recognised.rows {
        let Some(why) = reasons(row, &files, &numbers.look) else { continue };
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
        let all = advice(&diff.recognised, numbers);
        page.sentence(Line::new().faint(format!("  and {} more{all}", of(hidden, "stack"))));
    }
}

/// The line in which changes of stacks add up.
fn reconciled_stacks(diff: &Diff, numbers: &Numbers) -> String {
    let rows = [&diff.only_before, &diff.only_after, &diff.different].iter().map(|list| list.hidden()).sum();
    let Diff { by, shown, hidden, elsewhere, change, .. } = *diff;
    let sum = reconciled(&Reconciled { by, shown, hidden: (hidden, rows), elsewhere, change }, "stack");
    sum + &numbers.per_operation(by, change)
}

/// Why stacks that are not equal are the same, in words.
fn reason(why: &Why, look: &Look) -> String {
    let name = |text: &str| function(text, look);
    match why {
        Why::Renamed { from, to, certain: true } => format!("{} is called {} now", name(from), name(to)),
        Why::Renamed { from, to, .. } => format!("{} is called {} now, perhaps", name(from), name(to)),
        Why::Moved { function, from, to } => format!("{} has moved from {from} to {to}", name(function)),
        Why::Gone { function } => format!("{} is no longer on the call path: inlined, perhaps", name(function)),
        Why::New { function } => format!("{} has come in between: no longer inlined, perhaps", name(function)),
        Why::Split => "one stack has become several".to_owned(),
        Why::Merged => "several stacks have become one".to_owned(),
        Why::SameNumbers => "the numbers are equal".to_owned(),
    }
}

/// Limit of reasons for a pair.
const REASONS: usize = 4;

/// Why a pair is one; nothing of stacks that are equal but for `files` with other names, which are said elsewhere.
fn reasons(row: &DiffRow, files: &[[&str; 2]], look: &Look) -> Option<String> {
    let said = |why: &&Why| match why {
        Why::Moved { from, to, .. } => files.contains(&[from, to]),
        _ => false,
    };
    let mut why: Vec<_> = row.why.iter().filter(|why| !said(why)).map(|why| reason(why, look)).collect();
    if why.len() > REASONS {
        let more = why.split_off(REASONS - 1).len();
        why.push(format!("and {more} more"));
    }
    (!why.is_empty()).then(|| why.join("; "))
}

fn sure(confidence: f64) -> String {
    format!("{:.0} % sure", (confidence * 100.0).floor())
}

/// The reasons for a pair, and how sure they are.
fn explanation(row: &DiffRow, files: &[[&str; 2]], look: &Look) -> Option<String> {
    reasons(row, files, look).map(|why| format!("{}: {why}", sure(row.confidence)))
}

fn show(row: &DiffRow, tag: &str, files: &[[&str; 2]], numbers: &Numbers, depth: usize, page: &mut Page) {
    let both = row.stacks.iter().any(|stack| stack.before.is_some()) && row.stacks.iter().any(|s| s.after.is_some());
    let mut line = Line::new().plain("  ");
    if row.change != 0 {
        line = line.styled(change_style(row.change), numbers.change(row.change)).plain(tag);
    }
    if both {
        let numbers = match row.change {
            0 => numbers.amount(row.after),
            _ => format!("  {} → {}", numbers.amount(row.before), numbers.amount(row.after)),
        };
        line = line.plain(numbers);
    }
    page.line(line);
    if let Some(why) = explanation(row, files, &numbers.look) {
        page.paragraph(6, &why);
    }
    for stack in &row.stacks {
        if row.stacks.len() > 1 {
            let amount = |n: Option<u64>| n.map_or("·".to_owned(), |n| numbers.amount(n));
            page.line(Line::new().plain(format!("      {} → {}", amount(stack.before), amount(stack.after))));
        }
        frames(stack, both, numbers, depth, page);
    }
}

/// Number of functions that only pass the request on and are shown, the outermost of them.
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
        page.sentence(Line::new().faint(format!("        … {hidden} more; --depth 0 shows all")));
    }
    if stack.cut {
        page.line(Line::new().faint("        … outer frames are missing"));
    }
}

/// What the numbers of either side lack, a paragraph each, above the comparison as Markdown.
pub fn markdown_gaps(lacking: &[String]) -> String {
    lacking.iter().map(|text| format!("**{}** {}\n\n", gaps::INCOMPLETE.trim(), cell(text))).collect()
}

/// The comparison as Markdown, for a pull request.
pub fn markdown(diff: &Diff, names: &Names, numbers: &Numbers, depth: usize) -> String {
    let numbers = &Numbers {
        look: Look { exact: numbers.look.exact, full_names: numbers.look.full_names, ..Look::default() },
        ..*numbers
    };
    let what = measured(diff.by);
    let mut out = format!(
        "### {} {what}: {} → {}{}\n\n",
        numbers.change(diff.change),
        numbers.amount(diff.before.value),
        numbers.amount(diff.after.value),
        if diff_answer::is_estimated(diff) { ", by estimates" } else { "" }
    );
    out += &format!("{}\n\n", cell(&diff_answer::verdict(diff, numbers)));
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
            let why = explanation(row, &[], &numbers.look).map_or(String::new(), |why| format!("<br>{}", cell(&why)));
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
    use mallow_profile::{Counts, Origin, Precision, Precisions, ProcessId, Profile, Quantities, Quantity};
    use mallow_report::analysis::Measure;
    use mallow_report::analysis::diff::{Diff, DiffOptions, Rules, diff};
    use mallow_report::testing::{Builder, blocks, parser, parser_later};

    use super::{Detail, Names, Numbers, PlaceLimits, markdown, text};
    use crate::output::text::Look;

    fn compared(before: &Profile, after: &Profile, by: Measure) -> Diff {
        let options = DiffOptions { by, rules: Rules::ALL, min: 100, limit: 2, any_measure: true, places: usize::MAX };
        diff(before, after, options)
    }

    fn detail(stacks: bool, depth: usize) -> Detail {
        let places = PlaceLimits { rows: 10, min: 100, floor: true };
        Detail { places, fit: true, taken: 0, stacks, all: stacks, depth }
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
        let numbers = numbers(Measure::Allocations);
        insta::assert_snapshot!(text(&diff, &names(), &numbers, &detail(true, 6)));
    }

    #[test]
    fn the_answer_is_on_the_first_screen() {
        let diff = compared(&parser(), &parser_later(), Measure::Allocations);
        let look = Look { width: Some(80), height: Some(24), ..Look::default() };
        let shown = text(&diff, &names(), &Numbers { look, ..numbers(Measure::Allocations) }, &detail(false, 6));
        insta::assert_snapshot!(shown);
    }

    #[test]
    fn one_allocation_has_a_noun_of_one() {
        let of = |count: u64| {
            let mut made = Builder::default();
            let process = made.process(1, &["a"], 10);
            made.site(process, &["f@a.c:1", "main"], blocks(count, 8, 0, 0));
            made.profile
        };
        for (before, after, expected) in [
            (1, 1, "No change: 1 allocation in both,"),
            (2, 2, "No change: 2 allocations in both,"),
            (1, 2, "+1 allocation (+100.0 %)"),
            (3, 1, "-2 allocations (-66.7 %)"),
        ] {
            let diff = compared(&of(before), &of(after), Measure::Allocations);
            let shown = text(&diff, &names(), &numbers(Measure::Allocations), &detail(false, 6));
            assert!(shown.starts_with(expected), "{shown}");
        }
    }

    #[test]
    fn a_screen_has_room_for_it_however_much_changed() {
        let mut more = Builder { profile: parser() };
        for n in 0..90u64 {
            more.site(ProcessId(0), &[&format!("f{n}@/src/noise.cc:{n}"), "main"], blocks(10_000 - n, 8, 0, 0));
        }
        let after = more.profile;
        let diff = compared(&parser(), &after, Measure::Allocations);
        let look = Look { width: Some(80), height: Some(24), ..Look::default() };
        let detail = Detail { places: PlaceLimits { min: 0, ..detail(false, 6).places }, ..detail(false, 6) };
        let shown = text(&diff, &names(), &Numbers { look, ..numbers(Measure::Allocations) }, &detail);
        assert!(shown.lines().count() <= 23 && shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        assert!(shown.contains("the largest, f0 noise.cc") && shown.contains("--all shows them"), "{shown}");
        assert!(shown.contains("and 83 more"), "{shown}");
    }

    #[test]
    fn numbers_that_are_divided_and_whole_stacks() {
        let diff = compared(&parser_later(), &parser(), Measure::Bytes);
        let numbers = Numbers { per: Some(11_000.0), ..numbers(Measure::Bytes) };
        insta::assert_snapshot!(text(&diff, &names(), &numbers, &detail(true, 0)));
    }

    #[test]
    fn a_table_for_a_pull_request() {
        let diff = compared(&parser(), &parser_later(), Measure::Allocations);
        insta::assert_snapshot!(markdown(&diff, &names(), &numbers(Measure::Allocations), 3));
    }

    #[test]
    fn what_is_missing_in_one_file_is_left_out() {
        let mut other = parser_later();
        let quantities = Quantities::of(&[Quantity::Allocations, Quantity::LiveBytes]);
        other.origin = Some(Origin { format: "pprof", quantities, sampled_bytes: Some(524_288) });
        let shown = text(
            &compared(&parser(), &other, Measure::Allocations),
            &names(),
            &numbers(Measure::Allocations),
            &detail(true, 6),
        );
        assert!(shown.contains("AFTER: pprof profile, sampled"), "{shown}");
        assert!(shown.contains("live bytes") && !shown.contains("temporary"), "{shown}");
    }

    /// A profile whose numbers are estimates: of so many samples each, by a period of 1000 bytes.
    fn sampled(mut profile: Profile, samples: f64) -> Profile {
        let quantities = Quantities::of(&[Quantity::LiveBytes, Quantity::Processes]);
        profile.origin = Some(Origin { format: "pprof", quantities, sampled_bytes: Some(1000) });
        profile.totals = profile.totals.of(quantities);
        for site in &mut profile.sites {
            site.counts = site.counts.of(quantities);
            let mut precisions = Precisions::exact(&site.counts);
            let (value, bytes) = (site.counts.live_bytes as f64, &mut precisions.live_bytes);
            let weight = value / samples;
            let [variance, third] = [weight * weight * samples, weight.powi(3) * samples];
            *bytes =
                Precision { value, samples, seen: 1.0, missed: 1e6, variance, third, common: third, heaviest: weight };
            site.precisions = Some(Box::new(precisions));
        }
        profile
    }

    #[test]
    fn changes_of_estimates_have_intervals_and_may_be_chance() {
        let live = |of: [u64; 2]| {
            let mut b = Builder::default();
            let process = b.process(1, &["server"], 10);
            b.site(process, &["keep@a.c:1", "main"], Counts { live_bytes: of[0], ..Counts::default() });
            b.site(process, &["fill@a.c:2", "main"], Counts { live_bytes: of[1], ..Counts::default() });
            b.profile
        };
        let text_of = |before: Profile, after: Profile| {
            text(&compared(&before, &after, Measure::Live), &names(), &numbers(Measure::Live), &detail(false, 6))
        };
        let shown = text_of(sampled(live([1_000_000, 500_000]), 100.0), sampled(live([3_000_000, 510_000]), 100.0));
        assert!(shown.starts_with("+2.01 MB live (+134.0 %)"), "{shown}");
        let row =
            |name: &str| shown.lines().rfind(|line| line.contains(name)).unwrap_or_else(|| panic!("{name}: {shown}"));
        assert!(
            row("keep").contains("+2.00 MB") && row("keep").contains(" ±") && !row("keep").contains("signif"),
            "{shown}"
        );
        assert!(row("fill").contains(" to ") && row("fill").contains("not significant"), "{shown}");
        let same = text_of(sampled(live([1_000_000, 500_000]), 100.0), sampled(live([1_020_000, 500_000]), 100.0));
        assert!(same.starts_with("Not significant: +20.0 kB live"), "{same}");
        let few = text_of(sampled(live([1_000_000, 500_000]), 2.0), sampled(live([3_000_000, 510_000]), 2.0));
        assert!(few.contains("too few"), "{few}");
        // Beside a recording, whose numbers were counted, the interval is that of the other side.
        let counted = text_of(live([1_000_000, 500_000]), sampled(live([3_000_000, 510_000]), 100.0));
        assert!(counted.contains("95 %") && counted.contains(" ±"), "{counted}");
        // Nothing is known of one side.
        let mut unknown = sampled(live([1_000_000, 500_000]), 100.0);
        unknown.sites.iter_mut().for_each(|site| site.precisions = None);
        let shown = text_of(unknown, sampled(live([3_000_000, 510_000]), 100.0));
        assert!(!shown.contains("95 %"), "{shown}");
        assert!(shown.starts_with("By estimates, +2.01 MB live (+134.0 %)"), "{shown}");
    }

    /// Go's heap profiles, whose samples have no precision: a place without a sample may allocate as before.
    #[test]
    fn what_has_no_sample_is_neither_new_nor_gone() {
        let live = |place: &str, live_bytes, period| {
            let mut b = Builder::default();
            let process = b.process(1, &["server"], 10);
            b.site(process, &["keep@a.go:1", "main"], Counts { live_bytes: 4_200_000, ..Counts::default() });
            b.site(process, &[place, "main"], Counts { live_bytes, ..Counts::default() });
            let quantities = Quantities::of(&[Quantity::LiveBytes]);
            let mut profile = b.profile;
            profile.origin = Some(Origin { format: "pprof", quantities, sampled_bytes: period });
            profile
        };
        let compare = |before: Option<u64>, after: Option<u64>| {
            let (fill, insert) = (live("fill@a.go:2", 524_288, before), live("insert@a.go:3", 2_097_152, after));
            let diff = compared(&fill, &insert, Measure::Live);
            let shown = text(&diff, &names(), &numbers(Measure::Live), &detail(false, 6));
            let row = |name: &str| {
                shown.lines().rfind(|line| line.contains(name)).unwrap_or_else(|| panic!("{name}: {shown}")).to_owned()
            };
            let rows = [row("insert"), row("fill")];
            (shown, rows, markdown(&diff, &names(), &numbers(Measure::Live), 3))
        };
        let (shown, [new, gone], table) = compare(Some(524_288), Some(524_288));
        assert!(shown.starts_with("By estimates, +1.57 MB live (+33.3 %)"), "{shown}");
        assert!(new.contains("no sample before") && gone.contains("no sample after"), "{shown}");
        assert!(table.lines().next().is_some_and(|title| title.ends_with(", by estimates")), "{table}");
        let (shown, [new, gone], table) = compare(None, None);
        assert!(shown.starts_with("+1.57 MB live (+33.3 %)") && !table.contains("estimates"), "{shown}");
        assert!(new.contains(" new ") && gone.contains(" gone "), "{shown}");
        let (shown, [new, gone], _) = compare(None, Some(524_288));
        assert!(shown.starts_with("By estimates, ") && new.contains(" new ") && gone.contains("no sample"), "{shown}");
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
        let shown = text(&diff, &names, &numbers, &detail(true, 0)) + &table;
        assert!(!shown.contains('\u{1b}') && !table.contains("<b>"), "{shown}");
        assert!(shown.contains("evil"), "{shown}");
    }
}
