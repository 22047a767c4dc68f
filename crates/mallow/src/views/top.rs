//! `mallow top`: functions, self and cum.

use std::process::ExitCode;

use anyhow::Result;
use mallow_report::analysis::sampled::Estimate;
use mallow_report::analysis::{Changed, ProfileViews, Top, TopOptions, top_changes};

use super::changes::{self, Pair, RowSums};
use crate::flags::TopFlags;
use crate::input::recording::Recording;
use crate::output::text::estimates::margin;
use crate::output::text::units::{count, percent};
use crate::output::text::{
    Align, Line, Look, Page, Stream, Table, amount, function_in_list, location, measured, with_one_code,
};
use crate::output::{exit, json, stdio};

pub fn run(flags: &TopFlags) -> Result<ExitCode> {
    let look = flags.rows.view.look(Stream::Out);
    let screen = if flags.rows.view.json { usize::MAX } else { look.height.map_or(20, |h| h.saturating_sub(5).max(5)) };
    let limit = flags.rows.view.limit(screen);
    if let Some(before) = &flags.base.base {
        let pair = Pair::open(before, &flags.base, &flags.rows.source, flags.by)?;
        let (report, sums) = changed_functions(flags, &pair, limit);
        if flags.rows.view.json {
            json::print(&pair.document(&report, Some(sums))?)?;
        } else {
            pair.print(changed(&report, &pair, &sums, &look, report.functions.len() == limit), &look)?;
        }
        return Ok(exit::OK);
    }
    let recording = Recording::open(&flags.rows.source)?;
    let views = ProfileViews::of(&recording.profile);
    if flags.rows.view.json {
        stdio::print(&document(flags, &recording, &views)?)?;
        recording.warn_of_gaps();
        return Ok(exit::OK);
    }
    let report = report(flags, &recording, &views, limit)?;
    stdio::print(&recording.above(&text(&report, &look, report.functions.len() == limit), &look))?;
    Ok(exit::OK)
}

/// The JSON of a recording. Precondition: `views` are those of its profile.
pub fn document(flags: &TopFlags, recording: &Recording, views: &ProfileViews<'_>) -> Result<String> {
    recording.json(&report(flags, recording, views, flags.rows.view.limit(usize::MAX))?)
}

pub fn changes_document(flags: &TopFlags, pair: &Pair) -> Result<String> {
    let (report, sums) = changed_functions(flags, pair, flags.rows.view.limit(usize::MAX));
    json::line(&pair.document(&report, Some(sums))?)
}

fn changed_functions(flags: &TopFlags, pair: &Pair, limit: usize) -> (Top<Changed>, RowSums) {
    let mut report = top_changes(&pair.both, TopOptions { by: pair.by, cum: flags.cum, raw: flags.raw, limit });
    report.leave_out(pair.least(flags.rows.least.min));
    let hidden = report.hidden.map(|hidden| (hidden.rows, hidden.sums));
    let sums = pair.sums(report.functions.iter().map(|f| f.self_sums), hidden);
    (report, sums)
}

fn report(flags: &TopFlags, recording: &Recording, views: &ProfileViews<'_>, limit: usize) -> Result<Top> {
    let by = recording.measure(flags.by)?;
    let mut report = views.top(TopOptions { by, cum: flags.cum, raw: flags.raw, limit });
    if let Some(least) = flags.rows.least.min {
        report.leave_out(least.of(by.of(&report.totals)));
    }
    Ok(report)
}

/// `more`: a higher limit would show more functions.
fn text(report: &Top, look: &Look, more: bool) -> String {
    let mut page = Page::new(*look);
    let by = report.by;
    let amount = |n: u64| amount(by, n, look);
    let measure = measured(by);
    let total = by.of(&report.totals);
    let order = if report.cum { "cum: including callees" } else { "self: excluding callees" };
    page.sentence(
        Line::new().strong(format!("Functions by {measure}")).plain(format!(", {order}; {} in all", amount(total))),
    );
    if report.functions_in_all == 0 {
        page.line(Line::new().plain("  none"));
        return page.into_text();
    }
    // Estimates have a column of their intervals behind each of the two.
    let sampled = report.functions.iter().any(|f| f.self_estimate.is_some() || f.cum_estimate.is_some());
    let titles: &[&str] = match sampled {
        true => &["self", "95 %", "self %", "cum", "95 %", "cum %", "function"],
        false => &["self", "self %", "cum", "cum %", "function"],
    };
    let mut align = vec![Align::Right; titles.len() - 1];
    align.push(Align::Left);
    let mut table = Table::new(&align);
    table.row(titles.iter().map(|title| Line::new().faint(*title)));
    let sum = |sum: u64, estimate: Option<&Estimate>| {
        let margin = sampled.then(|| estimate.map_or(String::new(), |estimate| margin(estimate, look, amount)));
        [Some(amount(sum)), margin, Some(percent(sum, total))].into_iter().flatten().map(|text| Line::new().plain(text))
    };
    for f in &report.functions {
        let at = location(&f.function, f.file.as_deref(), None, f.module.as_deref(), look);
        let name = Line::new().strong_name(function_in_list(&f.function, f.keeps_arguments, look)).plain(" ").faint(at);
        let name = with_one_code(name, &f.function, &f.folded, look);
        let self_cells = sum(by.of(&f.self_sums), f.self_estimate.as_ref());
        table.row(self_cells.chain(sum(by.of(&f.cum), f.cum_estimate.as_ref())).chain([name]));
    }
    if let Some(hidden) = &report.hidden {
        let none = vec![Line::new(); titles.len() / 2];
        let cells = sum(by.of(&hidden.sums), None).chain(none);
        table.row(cells.chain([Line::new().faint(format!("… {} more", count(hidden.rows)))]));
    }
    table.onto(&mut page);
    if report.hidden.is_some() && more {
        page.sentence(Line::new().faint("  --limit 0 shows all"));
    }
    page.into_text()
}

fn changed(report: &Top<Changed>, pair: &Pair, sums: &RowSums, look: &Look, more: bool) -> String {
    let mut page = Page::new(*look);
    let (by, cum) = (report.by, report.cum);
    let order = if cum { "; cum: including callees" } else { "; self: excluding callees" };
    page.sentence(pair.heading("Functions", order, look));
    let mut table = Table::new(&[Align::Right, Align::Right, Align::Right, Align::Right, Align::Left]);
    let other = if cum { "self change" } else { "cum change" };
    table.row(["before", "after", "change", other, "function"].map(|t| Line::new().faint(t)));
    for f in &report.functions {
        let at = location(&f.function, f.file.as_deref(), None, f.module.as_deref(), look);
        let (shown, other) = if cum { (&f.cum, &f.self_sums) } else { (&f.self_sums, &f.cum) };
        let name = Line::new().strong_name(function_in_list(&f.function, f.keeps_arguments, look)).plain(" ").faint(at);
        let name = with_one_code(name, &f.function, &f.folded, look);
        table.row(changes::cells(by, shown, look).into_iter().chain([changes::cell(by, other, look), name]));
    }
    if let Some(hidden) = &report.hidden {
        // Self alone adds up.
        let [before, after, change] = changes::cells(by, &hidden.sums, look);
        let none = || Line::new();
        let cells = if cum { [none(), none(), none(), change] } else { [before, after, change, none()] };
        table.row(cells.into_iter().chain([Line::new().faint(format!("… {} more", count(hidden.rows)))]));
    }
    if report.functions_in_all > 0 {
        table.onto(&mut page);
    }
    pair.total(sums, "function", &mut page);
    if report.hidden.is_some() && more {
        page.sentence(Line::new().faint("  --limit 0 shows all"));
    }
    page.into_text()
}

#[cfg(test)]
mod tests {
    use mallow_report::analysis::{Measure, TopOptions, top, top_changes};
    use mallow_report::testing::parser;

    use super::{changed, text};
    use crate::output::text::Look;
    use crate::views::changes;

    #[test]
    fn functions_flat_and_cum() {
        let options = TopOptions { by: Measure::Allocations, cum: false, raw: false, limit: 20 };
        insta::assert_snapshot!(text(&top(&parser(), options), &Look::default(), true));
    }

    #[test]
    fn functions_by_bytes_with_all_that_they_call_and_to_the_letter() {
        let options = TopOptions { by: Measure::Bytes, cum: true, raw: true, limit: 6 };
        insta::assert_snapshot!(text(&top(&parser(), options), &Look { full_names: true, ..Look::default() }, true));
    }

    #[test]
    fn functions_that_are_left_out_are_a_sum() {
        let options = TopOptions { by: Measure::Allocations, cum: false, raw: false, limit: 20 };
        let mut report = top(&parser(), options);
        report.leave_out(10);
        insta::assert_snapshot!(text(&report, &Look::default(), false));
    }

    #[test]
    fn functions_that_changed_and_a_line_that_adds_up() {
        let shown = |by, cum, limit, look: &Look| {
            let pair = changes::testing::parsers(by);
            let report = top_changes(&pair.both, TopOptions { by, cum, raw: false, limit });
            let hidden = report.hidden.map(|hidden| (hidden.rows, hidden.sums));
            let sums = pair.sums(report.functions.iter().map(|f| f.self_sums), hidden);
            changed(&report, &pair, &sums, look, true)
        };
        let colour = Look { colour: true, exact: true, ..Look::default() };
        let texts = [
            shown(Measure::Allocations, false, 20, &Look::default()),
            shown(Measure::Bytes, true, 2, &Look::default()),
            shown(Measure::Bytes, true, 2, &colour).replace('\u{1b}', "ESC"),
            shown(Measure::Live, false, 20, &Look::default()),
        ];
        insta::assert_snapshot!(texts.join("\n"));
    }

    #[test]
    fn nothing_is_said_to_be_nothing() {
        let options = TopOptions { by: Measure::Live, cum: false, raw: false, limit: 6 };
        let text = text(&top(&mallow_profile::Profile::default(), options), &Look::default(), true);
        assert_eq!(text, "Functions by live bytes, self: excluding callees; 0 B in all\n  none\n");
    }
}
