//! `mallow list`: functions line by line, with their sources or machine code.

use std::process::ExitCode;

use anyhow::{Result, bail};
use mallow_report::analysis::{Changed, List, ListOptions, ProfileViews, Shown, list_changes};

use super::changes::{self, Pair};
use super::list_code::{Body, Finder};
use super::list_sheet::{Columns, Sheet, columns};
use crate::flags::ListFlags;
use crate::go::heap::is_go;
use crate::go::reasons::reasons;
use crate::input::line_reasons::LineReasons;
use crate::input::recording::Recording;
use crate::output::text::units::of;
use crate::output::text::{Line, Look, Page, Stream, amount, change, function, measured};
use crate::output::{exit, json, stdio};

/// Functions shown, where the number is not said.
const FUNCTIONS: usize = 10;

/// Limit of notes at the end.
const NOTES: usize = 4;

/// Source of the reasons beside Go lines.
#[derive(Clone, Copy, Debug)]
pub enum Reasons<'a> {
    /// The compiler is asked, for a profile of a Go program.
    Compiler,
    File(&'a LineReasons),
    /// No reasons: a page runs no compiler.
    None,
}

pub fn run(flags: &ListFlags) -> Result<ExitCode> {
    if let Some(forgotten) = forgotten(flags) {
        stdio::notify(&forgotten);
        return Ok(ExitCode::from(exit::USAGE));
    }
    let look = flags.rows.view.look(Stream::Out);
    let limit = flags.rows.view.limit(if flags.rows.view.json { usize::MAX } else { FUNCTIONS });
    if let Some(before) = &flags.base.base {
        if flags.reasons.go_reasons.is_some() {
            bail!("--go-reasons is for one recording: leave --base out");
        }
        return run_changes(flags, &Pair::open(before, &flags.base, &flags.rows.source, flags.by)?, limit, &look);
    }
    let recording = Recording::open(&flags.rows.source)?;
    let views = ProfileViews::of(&recording.profile);
    let by = recording.measure(flags.by)?;
    let file = &flags.reasons.go_reasons;
    let file = file.as_deref().map(|path| LineReasons::open(path, &recording.profile)).transpose()?;
    let reasons = file.as_ref().map_or(Reasons::Compiler, Reasons::File);
    if flags.rows.view.json {
        stdio::print(&document(flags, &recording, &views, reasons)?)?;
        recording.warn_of_gaps();
        return Ok(exit::OK);
    }
    let (report, bodies) = report(flags, &recording, &views, (limit, &look), reasons)?;
    let columns = columns(by, &look, &|quantity| recording.profile.has(quantity));
    let columns = Columns::of(&columns, &report, &look);
    let heading = heading(&report, &look);
    let more = report.functions.len() == limit;
    stdio::print(&recording.above(&text(&report, heading, &bodies, &columns, &look, more), &look))?;
    Ok(exit::OK)
}

/// The JSON of a recording. Precondition: `views` are those of its profile.
pub fn document(
    flags: &ListFlags,
    recording: &Recording,
    views: &ProfileViews<'_>,
    reasons: Reasons<'_>,
) -> Result<String> {
    let look = flags.rows.view.look(Stream::Out);
    recording.json(&report(flags, recording, views, (flags.rows.view.limit(usize::MAX), &look), reasons)?.0)
}

/// The functions that the flags ask for, and the source or the code of each. Fails where there are none.
fn report(
    flags: &ListFlags,
    recording: &Recording,
    views: &ProfileViews<'_>,
    (limit, look): (usize, &Look),
    from: Reasons<'_>,
) -> Result<(List, Vec<Body>)> {
    let by = recording.measure(flags.by)?;
    let mut report = views.list(&flags.regex, ListOptions { by, raw: flags.raw, limit });
    if report.functions.is_empty() {
        bail!("{}", nothing(&report, flags.regex.as_str(), unnamed(recording), look));
    }
    if let Some(least) = flags.rows.least.min {
        report.leave_out(least.of(by.of(&report.totals)));
    }
    let mut finder = Finder::new(recording, flags, by);
    let bodies: Vec<Body> = report.functions.iter_mut().map(|function| finder.body(function)).collect();
    report.notes = finder.notes();
    match from {
        Reasons::File(file) if !flags.asm => {
            file.add(&mut report.functions);
            report.notes.extend_from_slice(&file.notes);
        }
        Reasons::Compiler if !flags.asm && !flags.raw && is_go(&recording.profile) => {
            let more = reasons(&recording.profile, &mut report.functions);
            report.notes.extend(more.unwrap_or_else(|error| vec![format!("No reasons: {error:#}")]));
        }
        _ => {}
    }
    Ok((report, bodies))
}

/// The advice where a file is named and no function: a file's name is a regular expression, too, which no function
/// matches.
fn forgotten(flags: &ListFlags) -> Option<String> {
    let name = flags.regex.as_str();
    let is_file = flags.rows.source.file.is_none() && std::path::Path::new(name).is_file();
    is_file.then(|| format!("{name} is a file; which functions? mallow list REGEX {name}, where . matches all"))
}

fn run_changes(flags: &ListFlags, pair: &Pair, limit: usize, look: &Look) -> Result<ExitCode> {
    let (report, bodies) = changed_lines(flags, pair, limit, look)?;
    if flags.rows.view.json {
        json::print(&pair.document(&report, None)?)?;
    } else {
        pair.print(changed(&report, pair, &bodies, look, report.functions.len() == limit), look)?;
    }
    Ok(exit::OK)
}

pub fn changes_document(flags: &ListFlags, pair: &Pair) -> Result<String> {
    let look = flags.rows.view.look(Stream::Out);
    json::line(&pair.document(&changed_lines(flags, pair, flags.rows.view.limit(usize::MAX), &look)?.0, None)?)
}

/// The lines that changed. Fails where there are none.
fn changed_lines(flags: &ListFlags, pair: &Pair, limit: usize, look: &Look) -> Result<(List<Changed>, Vec<Body>)> {
    let by = pair.by;
    let mut report = list_changes(&pair.both, &flags.regex, ListOptions { by, raw: flags.raw, limit });
    if report.functions.is_empty() {
        if !report.without.is_empty() {
            let names: Vec<_> = report.without.iter().map(|name| function(name, look)).collect();
            bail!("the {} of {} have not changed", measured(by), names.join(", "));
        }
        bail!("{}", nothing(&report, flags.regex.as_str(), unnamed(&pair.after), look));
    }
    report.leave_out(pair.least(flags.rows.least.min));
    let mut finder = Finder::new(&pair.after, flags, by);
    let bodies: Vec<Body> = report.functions.iter_mut().map(|function| finder.body(function)).collect();
    report.notes = finder.notes();
    Ok((report, bodies))
}

fn changed(report: &List<Changed>, pair: &Pair, bodies: &[Body], look: &Look, more: bool) -> String {
    let by = pair.by;
    let cells = |numbers: Option<(&Changed, &Changed)>| match numbers {
        Some((self_sums, cum)) => {
            Vec::from(changes::cells(by, self_sums, look)).into_iter().chain([changes::cell(by, cum, look)]).collect()
        }
        None => vec![Line::new(); 4],
    };
    let columns = Columns {
        titles: vec!["before", "after", "change", "cum change"],
        cells: Box::new(cells),
        self_sums: Box::new(|sums| change(by, sums.change, look)),
        share: Box::new(|_| String::new()),
    };
    let heading = pair.heading("Lines", "; self: excluding callees, cum: including callees", look);
    text(report, heading, bodies, &columns, look, more)
}

/// Why there is nothing to show, and what to do.
fn nothing<T: Shown>(report: &List<T>, regex: &str, unnamed: Option<String>, look: &Look) -> String {
    let named = |names: &[String]| names.iter().map(|name| function(name, look)).collect::<Vec<_>>().join(", ");
    if !report.without.is_empty() {
        return format!("there are no {} in {}", measured(report.by), named(&report.without));
    }
    if !report.looked_past.is_empty() {
        let names = named(&report.looked_past);
        return format!("what {names} allocated is shown at the lines that called it; --raw shows the function itself");
    }
    let unnamed = unnamed.map_or(String::new(), |why| format!("; {why}"));
    format!("no function of the recording matches {regex:?}; mallow top --cum --limit 0 shows all{unnamed}")
}

/// The module that has the most functions without a name, and why.
fn unnamed(recording: &Recording) -> Option<String> {
    let summary = recording.names.lacking().into_iter().find(|summary| summary.named < summary.frames)?;
    let module = recording.profile.modules.get(summary.module.0 as usize)?;
    Some(format!("functions of {} have no names: {}", module.path, summary.found))
}

fn heading(report: &List, look: &Look) -> Line {
    let total = report.by.of(&report.totals);
    Line::new()
        .strong(format!("Lines by {}", measured(report.by)))
        .plain(format!(", self: excluding callees, cum: including callees; {} in all", amount(report.by, total, look)))
}

/// `more`: a higher limit would show more functions.
fn text<T: Shown>(
    report: &List<T>,
    heading: Line,
    bodies: &[Body],
    columns: &Columns<'_, T>,
    look: &Look,
    more: bool,
) -> String {
    let mut page = Page::new(*look);
    page.sentence(heading);
    let mut sheet = Sheet::new(report.by, columns, look);
    for (index, (function, body)) in report.functions.iter().zip(bodies).enumerate() {
        if index > 0 {
            sheet.separator();
        }
        sheet.function(function, body);
    }
    sheet.onto(&mut page);
    page.gap();
    if report.functions.iter().any(|f| f.counts_lines_twice(report.by)) {
        page.sentence(Line::new().faint("↻ calls itself: what it allocates then counts at each line that led there"));
    }
    if let Some(hidden) = &report.hidden {
        let self_sums = (columns.self_sums)(&hidden.sums);
        let all = if more { "; --limit 0 shows all" } else { "" };
        page.sentence(Line::new().faint(format!("and {} more, {self_sums} self{all}", of(hidden.rows, "function"))));
    }
    for note in report.notes.iter().take(NOTES) {
        page.sentence(Line::new().warning(note));
    }
    if report.notes.len() > NOTES {
        page.sentence(Line::new().faint(format!("and {} more like that", report.notes.len() - NOTES)));
    }
    let text = page.into_text();
    format!("{}\n", text.trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use mallow_profile::{Profile, Quantity};
    use mallow_report::analysis::{List, ListOptions, Measure, list, list_changes};
    use mallow_report::testing::{Builder, blocks};

    use super::{changed, heading, nothing, text};
    use crate::output::text::Look;
    use crate::views::changes;
    use crate::views::list_code::{Block, Body, Row};
    use crate::views::list_sheet::{Columns, columns};

    /// A function that calls itself, has a line that an inlined function is in, and an allocation that no line has.
    fn profile() -> Profile {
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 10);
        let new = "operator new(unsigned long)!libstdc++.so.6";
        b.site(
            p,
            &[new, "copy(char const*)@/src/a.cc:3 | walk(int)@/src/a.cc:12", "main@/src/a.cc:30"],
            blocks(500, 100, 0, 1),
        );
        b.site(
            p,
            &[new, "walk(int)@/src/a.cc:13", "walk(int)@/src/a.cc:25", "main@/src/a.cc:30"],
            blocks(40, 100, 0, 0),
        );
        b.site(p, &[new, "walk(int)@/src/a.cc:0", "main@/src/a.cc:30"], blocks(3, 100, 0, 0));
        b.site(p, &["strdup!libc.so.6", "load@/src/b.cc:400", "main@/src/a.cc:31"], blocks(7, 10, 0, 0));
        b.profile
    }

    fn report(profile: &Profile, names: &[&str], by: Measure) -> List {
        let pattern = format!("^({})", names.join("|")).parse().expect("a pattern");
        list(profile, &pattern, ListOptions { by, raw: false, limit: usize::MAX })
    }

    fn source() -> Body {
        let line = |n: usize| match n {
            11 => "    int walk(int depth) {".to_owned(),
            12 => "        names.push_back(copy(name));".to_owned(),
            14 | 22 => String::new(),
            25 => "        return walk(depth - 1); \u{1b}[31m".to_owned(),
            n => format!("        line {n};"),
        };
        Body::Source((1..=31).map(line).collect())
    }

    fn shown(report: &List, bodies: &[Body], look: &Look) -> String {
        let columns = columns(report.by, look, &|_| true);
        text(report, heading(report, look), bodies, &Columns::of(&columns, report, look), look, true)
    }

    #[test]
    fn sources_with_numbers_and_what_surrounds_them() {
        let report = report(&profile(), &["walk", "load"], Measure::Allocations);
        insta::assert_snapshot!(shown(&report, &[source(), source()], &Look::default()));
    }

    #[test]
    fn narrow_terminals_show_what_was_asked_for() {
        let mut report = report(&profile(), &["walk"], Measure::Live);
        report.notes = (1..=6).map(|n| format!("There is no /src/{n}.cc: name its directory")).collect();
        let look = Look { width: Some(60), exact: true, ..Look::default() };
        insta::assert_snapshot!(shown(&report, &[source()], &look));
    }

    #[test]
    fn machine_code_and_bare_lines() {
        let report = report(&profile(), &["walk", "load"], Measure::Bytes);
        let counted = |at: usize| Row::Instruction {
            address: format!("4{at}00"),
            text: "call 0x1010".to_owned(),
            target: Some("operator new(unsigned long)".to_owned()),
            counted: Some(at),
        };
        let plain = Row::Instruction {
            address: "4005".to_owned(),
            text: "mov %rax, %rdi".to_owned(),
            target: None,
            counted: None,
        };
        let all = report.functions[0].instructions.len();
        let code = vec![
            Block { inside: None, rows: vec![Row::Gap, plain, counted(0)] },
            Block { inside: Some("main(int, char**)".to_owned()), rows: (1..all).map(counted).collect() },
        ];
        insta::assert_snapshot!(shown(&report, &[Body::Code(code), Body::Lines], &Look::default()));
    }

    #[test]
    fn numbers_that_are_missing_have_no_columns() {
        let report = report(&profile(), &["load"], Measure::Bytes);
        let columns = columns(Measure::Bytes, &Look::default(), &|quantity| quantity == Quantity::AllocatedBytes);
        let look = Look::default();
        let text =
            text(&report, heading(&report, &look), &[Body::Lines], &Columns::of(&columns, &report, &look), &look, true);
        assert!(text.contains("\n  self bytes  cum bytes\n        70 B       70 B       load b.cc"), "{text}");
    }

    #[test]
    fn lines_that_changed_and_lines_that_are_gone() {
        let before = profile();
        let mut after = Builder::default();
        let p = after.process(1, &["a"], 10);
        after.site(
            p,
            &["copy(char const*)@/src/a.cc:3 | walk(int)@/src/a.cc:25", "main@/src/a.cc:30"],
            blocks(900, 9, 0, 0),
        );
        let pair = changes::testing::pair(before, after.profile, Measure::Allocations);
        let pattern = "^walk".parse().expect("a pattern");
        let by = Measure::Allocations;
        let report = list_changes(&pair.both, &pattern, ListOptions { by, raw: false, limit: 9 });
        let look = Look::default();
        insta::assert_snapshot!(changed(&report, &pair, &[source()], &look, true));
    }

    #[test]
    fn why_there_is_nothing() {
        let (profile, look) = (profile(), Look::default());
        let answer = |names: &[&str], by| nothing(&report(&profile, names, by), "^x", None, &look);
        assert_eq!(answer(&["load"], Measure::Live), "there are no live bytes in load");
        let new = "what operator new allocated is shown at the lines that called it; --raw shows the function itself";
        assert_eq!(answer(&["operator new"], Measure::Bytes), new);
        let none = "no function of the recording matches \"^x\"; mallow top --cum --limit 0 shows all";
        assert_eq!(answer(&["x"], Measure::Bytes), none);
        let unnamed = Some("functions of /a have no names: no symbols".to_owned());
        let answer = nothing(&report(&profile, &["x"], Measure::Bytes), "^x", unnamed, &look);
        assert_eq!(answer, format!("{none}; functions of /a have no names: no symbols"));
    }
}
