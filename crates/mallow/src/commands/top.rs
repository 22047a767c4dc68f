//! `mallow top`: functions, flat and cum.

use std::process::ExitCode;

use anyhow::Result;
use mallow_report::analysis::{Top, TopOptions, top};

use super::source::Recording;
use crate::flags::TopFlags;
use crate::text::units::{count, percent};
use crate::text::{Align, Line, Look, Page, Stream, Table, amount, function, location, measured};
use crate::{exit, output};

/// Shows the functions.
pub fn run(flags: &TopFlags) -> Result<ExitCode> {
    let recording = Recording::open(&flags.rows.source)?;
    let look = flags.rows.view.look(Stream::Out);
    let screen = if flags.rows.view.json { usize::MAX } else { look.height.map_or(20, |h| h.saturating_sub(5).max(5)) };
    let options = TopOptions {
        by: recording.measure(flags.by)?,
        cum: flags.cum,
        raw: flags.raw,
        limit: flags.rows.view.limit(screen),
    };
    let mut report = top(&recording.profile, options);
    if let Some(least) = flags.rows.least.min {
        report.leave_out(least);
    }
    output::print(&if flags.rows.view.json {
        recording.json(&report)?
    } else {
        recording.filters.above(text(&report, &look, report.functions.len() == options.limit), &look)
    })?;
    recording.tell_lacks();
    Ok(exit::OK)
}

/// `more`: a higher limit would show more functions.
fn text(report: &Top, look: &Look, more: bool) -> String {
    let mut page = Page::new(*look);
    let by = report.by;
    let amount = |n: u64| amount(by, n, look);
    let measure = measured(by);
    let total = by.of(&report.totals);
    let order = if report.cum { "cum: by a function and all that it called" } else { "flat: by a function itself" };
    page.line(
        Line::new().strong(format!("Functions by {measure}")).plain(format!(", {order}; {} in all", amount(total))),
    );
    if report.functions_in_all == 0 {
        page.line(Line::new().plain("  none"));
        return page.into_text();
    }
    let mut table = Table::new(&[Align::Right, Align::Right, Align::Right, Align::Right, Align::Left]);
    table.row(["flat", "flat %", "cum", "cum %", "function"].map(|t| Line::new().faint(t)));
    for f in &report.functions {
        let (flat, cum) = (by.of(&f.flat), by.of(&f.cum));
        let at = location(&f.function, f.file.as_deref(), None, f.module.as_deref(), look);
        table.row([
            Line::new().plain(amount(flat)),
            Line::new().plain(percent(flat, total)),
            Line::new().plain(amount(cum)),
            Line::new().plain(percent(cum, total)),
            Line::new().strong(function(&f.function, look)).plain(" ").faint(at),
        ]);
    }
    if let Some(hidden) = &report.hidden {
        let flat = by.of(&hidden.sums);
        let cells =
            [amount(flat), percent(flat, total), String::new(), String::new()].map(|text| Line::new().plain(text));
        table.row(cells.into_iter().chain([Line::new().faint(format!("… {} more", count(hidden.rows)))]));
    }
    table.onto(&mut page);
    if report.hidden.is_some() && more {
        page.line(Line::new().faint("  --limit 0 shows all"));
    }
    page.into_text()
}

#[cfg(test)]
mod tests {
    use mallow_report::analysis::{Least, Measure, TopOptions, top};
    use mallow_report::testing::parser;

    use super::text;
    use crate::text::Look;

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
        report.leave_out(Least::Amount(10));
        insta::assert_snapshot!(text(&report, &Look::default(), false));
    }

    #[test]
    fn nothing_is_said_to_be_nothing() {
        let options = TopOptions { by: Measure::Leaked, cum: false, raw: false, limit: 6 };
        let text = text(&top(&mallow_profile::Profile::default(), options), &Look::default(), true);
        assert_eq!(text, "Functions by leaked bytes, flat: by a function itself; 0 B in all\n  none\n");
    }
}
