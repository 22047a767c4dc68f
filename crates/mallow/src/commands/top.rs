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
    let recording = Recording::open(&flags.source)?;
    let look = flags.view.look(Stream::Out);
    let screen = if flags.view.json { usize::MAX } else { look.height.map_or(20, |h| h.saturating_sub(5).max(5)) };
    let options = TopOptions {
        by: recording.measure(flags.by)?,
        cum: flags.cum,
        raw: flags.raw,
        limit: flags.view.limit(screen),
    };
    let report = top(&recording.profile, options);
    output::print(&if flags.view.json {
        recording.json(&report)?
    } else {
        recording.filters.above(text(&report, &look), &look)
    })?;
    Ok(exit::OK)
}

fn text(report: &Top, look: &Look) -> String {
    let mut page = Page::new(*look);
    let by = report.by;
    let amount = |n: u64| amount(by, n, look);
    let measure = measured(by);
    let total = by.of(&report.totals);
    let order = if report.cum { "cum: by a function and all that it called" } else { "flat: by a function itself" };
    page.line(
        Line::new().strong(format!("Functions by {measure}")).plain(format!(", {order}; {} in all", amount(total))),
    );
    if report.functions.is_empty() {
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
    table.onto(&mut page);
    let more = report.functions_in_all - report.functions.len() as u64;
    if more > 0 {
        page.line(Line::new().faint(format!("  and {} more; --limit 0 shows all", count(more))));
    }
    page.into_text()
}

#[cfg(test)]
mod tests {
    use mallow_report::analysis::{Measure, TopOptions, top};
    use mallow_report::testing::parser;

    use super::text;
    use crate::text::Look;

    #[test]
    fn functions_flat_and_cum() {
        let options = TopOptions { by: Measure::Allocations, cum: false, raw: false, limit: 20 };
        insta::assert_snapshot!(text(&top(&parser(), options), &Look::default()));
    }

    #[test]
    fn functions_by_bytes_with_all_that_they_call_and_to_the_letter() {
        let options = TopOptions { by: Measure::Bytes, cum: true, raw: true, limit: 6 };
        insta::assert_snapshot!(text(&top(&parser(), options), &Look { full_names: true, ..Look::default() }));
    }

    #[test]
    fn nothing_is_said_to_be_nothing() {
        let options = TopOptions { by: Measure::Leaked, cum: false, raw: false, limit: 6 };
        let text = text(&top(&mallow_profile::Profile::default(), options), &Look::default());
        assert_eq!(text, "Functions by leaked bytes, flat: by a function itself; 0 B in all\n  none\n");
    }
}
