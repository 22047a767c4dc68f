//! The table of sites.

use std::io;
use std::sync::LazyLock;

use mallow_profile::{Count, Profile, Quantity, Site, Stacks};

use super::{Cell, Column, Kind, Rows};
use crate::frames::{functions, program};
use mallow_report::analysis::NamedSites;

const fn column(name: &'static str, kind: Kind) -> Column {
    Column { name, kind }
}

/// The columns, in their order. `docs/guide/tables.md` says what they hold.
pub static COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    let before = [
        column("site", Kind::Number),
        column("pid", Kind::Number),
        column("process", Kind::Text),
        column("function", Kind::Text),
        column("file", Kind::Text),
        column("line", Kind::Number),
        column("module", Kind::Text),
    ];
    let after = [
        column("live_oldest_ms", Kind::Number),
        column("live_youngest_ms", Kind::Number),
        column("stack", Kind::Texts),
        column("places", Kind::Texts),
        column("modules", Kind::Texts),
        column("cut", Kind::Truth),
    ];
    before.into_iter().chain(COUNTS.iter().map(|count| column(count.key, Kind::Number))).chain(after).collect()
});

pub fn quantities() -> Vec<Quantity> {
    Quantity::COUNTS.into_iter().chain([Quantity::Ages, Quantity::Processes]).collect()
}

/// The counts of a site, in the order of their columns: the peak is before the leaks.
static COUNTS: LazyLock<Vec<Count>> = LazyLock::new(|| {
    let mut counts = Count::ALL.to_vec();
    let is = |quantities: [Quantity; 2]| move |count: &Count| quantities.contains(&count.quantity);
    let peak: Vec<Count> = counts.extract_if(.., |count| is([Quantity::Peak, Quantity::PeakBytes])(count)).collect();
    let leaks = counts.iter().position(is([Quantity::Live, Quantity::LiveBytes])).unwrap_or(counts.len());
    counts.splice(leaks..leaks, peak);
    counts
});

pub fn write_sites(profile: &Profile, mut rows: impl Rows) -> io::Result<()> {
    let named = NamedSites::new(profile);
    for (index, site) in profile.sites.iter().enumerate() {
        rows.row(row(profile, &named, index, site))?;
    }
    rows.finish()
}

fn row(profile: &Profile, named: &NamedSites, index: usize, site: &Site) -> Vec<Cell> {
    let cell = |quantity: Quantity, number: u64| if profile.has(quantity) { Cell::Number(number) } else { Cell::Empty };
    let process = profile.processes.get(site.process.0 as usize);
    let place = named.frame(site.stack);
    let mut cells = vec![
        Cell::Number(index as u64),
        process.map_or(Cell::Empty, |process| cell(Quantity::Processes, process.pid.into())),
        process.map(|process| program(process).to_owned()).into(),
    ];
    let (function, file, line, module) = match place {
        Some(frame) => (Some(frame.function), frame.file, frame.line, frame.module),
        None => (None, None, None, None),
    };
    cells.extend([function.into(), file.into(), line.map(u64::from).into(), module.into()]);
    cells.extend(COUNTS.iter().map(|count| cell(count.quantity, (count.of)(&site.counts))));
    let age = |ms| if site.counts.live > 0 { cell(Quantity::Ages, ms) } else { Cell::Empty };
    cells.extend([age(site.live_oldest_ms), age(site.live_youngest_ms)]);
    let (mut names, mut places, mut modules) = (Vec::new(), Vec::new(), Vec::new());
    for frame in profile.stacks.frames(site.stack) {
        for function in functions(profile, frame) {
            places.push(match (function.file, function.line) {
                (Some(file), 0) => file.to_owned(),
                (Some(file), line) => format!("{file}:{line}"),
                (None, _) => String::new(),
            });
            modules.push(function.module.unwrap_or_default().to_owned());
            names.push(function.name.into_owned());
        }
    }
    let cut = profile.stacks.is_cut(site.stack) || site.stack == Stacks::CUT_ROOT;
    cells.extend([Cell::Texts(names), Cell::Texts(places), Cell::Texts(modules), Cell::Truth(cut)]);
    cells
}
