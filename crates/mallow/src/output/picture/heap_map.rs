//! A map of the heap's pages: occupied, with holes, free. Complete without a script: each cell has its tooltip.

use mallow_report::analysis::{HeapCell, PageMap, Rss, TerritoryKind};
use mallow_report::names;

use super::flame::fitting;
use super::{Picture, harmless, limits};
use crate::output::text::clean;
use crate::output::text::units::{bytes, of, percent, span};

/// Cells of a picture: a browser shows as many without a pause.
pub const CELLS: u64 = 8192;

const WIDTH: u32 = 1200;
const EDGE: u32 = 12;
const LINE: u32 = 18;
/// Of a cell, with its gap.
const SIZE: u32 = 9;
const COLUMNS: usize = ((WIDTH - 2 * EDGE) / SIZE) as usize;
const PAGE: u64 = 4096;

/// Kinds of cells, with the classes of their colours.
const LEGEND: [(&str, &str); 5] = [
    ("c0", "occupied: holes are less than a quarter"),
    ("c2", "holes: a quarter or more"),
    ("c1", "holes: three quarters or more"),
    ("r1", "free pages"),
    ("n", "not in memory"),
];

/// The picture.
pub fn draw(report: &Rss, map: &PageMap) -> String {
    let account = &report.account;
    let command = clean(&report.command.join(" ")).into_owned();
    let command = if command.is_empty() { "(command unknown)".to_owned() } else { command };
    let cell = of(map.pages_per_cell, "page");
    let note = format!(
        "Pages of {} ({}) at {}: RSS {}, live blocks {}; a square is {cell}",
        account.executable.rsplit('/').next().unwrap_or_default(),
        account.pid,
        span(account.ms),
        bytes(account.rss, false),
        bytes(account.live_bytes, false),
    );
    let mut notes = vec![("note", note)];
    notes.extend(limits(&report.ending, None));
    let top = 40 + LINE * notes.len() as u32;
    let legend_y = top;
    let mut y = legend_y + LINE + 14;
    let starts: Vec<u32> = map
        .rows
        .iter()
        .map(|row| {
            let start = y;
            y += LINE + 6 + row.cells.len().div_ceil(COLUMNS) as u32 * SIZE + 8;
            start
        })
        .collect();
    let mut picture = Picture::new(WIDTH, y + EDGE, &command);
    picture.style("rect.cell { stroke: #808080; stroke-width: 0.3; }\n");
    picture.paper(None);
    text(&mut picture, "title", EDGE, 24, &fitting(&command, f64::from(WIDTH - 2 * EDGE) * 0.74));
    for (index, (class, note)) in notes.iter().enumerate() {
        text(&mut picture, class, EDGE, 44 + LINE * index as u32, note);
    }
    let mut x = EDGE;
    for (class, words) in LEGEND {
        square(&mut picture, class, x, legend_y, "");
        text(&mut picture, "legend", x + 14, legend_y + 9, words);
        x += 40 + words.len() as u32 * 7;
    }
    for (row, start) in map.rows.iter().zip(starts) {
        let name = match row.kind {
            TerritoryKind::MainArena => "main arena",
            TerritoryKind::ThreadArena => "thread arena",
            TerritoryKind::OwnMappings => "blocks with their own mappings",
            TerritoryKind::Allocator => "mapping of the allocator",
        };
        text(&mut picture, "scale", EDGE, start + 12, &format!("{name}, {:#x}", row.start));
        for (index, cell) in row.cells.iter().enumerate() {
            let (column, line) = (index % COLUMNS, index / COLUMNS);
            let (x, y) = (EDGE + column as u32 * SIZE, start + LINE + line as u32 * SIZE);
            let bytes = map.pages_per_cell * PAGE;
            square(&mut picture, class(cell), x, y, &tooltip(cell, row.start + index as u64 * bytes, bytes, map));
        }
    }
    picture.finish()
}

fn class(cell: &HeapCell) -> &'static str {
    let pinned = cell.used + cell.holes;
    match cell {
        _ if pinned == 0 && cell.free == 0 => "n",
        _ if cell.free > pinned => "r1",
        _ if cell.holes * 4 < pinned => "c0",
        _ if cell.holes * 4 < pinned * 3 => "c2",
        _ => "c1",
    }
}

fn tooltip(cell: &HeapCell, start: u64, size: u64, map: &PageMap) -> String {
    let absent = size.saturating_sub(cell.used + cell.holes + cell.free);
    let mut lines = vec![format!("{start:#x}")];
    let amounts = [(cell.used, "occupied"), (cell.holes, "holes"), (cell.free, "free"), (absent, "not in memory")];
    lines.extend(amounts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{what}: {}", bytes(*n, false))));
    let all: u64 = cell.places.iter().map(|(_, n)| n).sum();
    for &(place, n) in &cell.places {
        let frame = map.places.get(place as usize).and_then(Option::as_ref);
        let name = frame.map_or("(no stack is known)".to_owned(), |frame| {
            let at = frame
                .file
                .as_deref()
                .zip(frame.line)
                .map(|(file, line)| format!(" {}:{line}", file.rsplit('/').next().unwrap_or(file)));
            format!("{}{}", harmless(&names::short(&frame.function)), at.unwrap_or_default())
        });
        lines.push(format!("{name}: {}, {}", bytes(n, false), percent(n, all)));
    }
    lines.join("\n")
}

fn square(picture: &mut Picture, class: &str, x: u32, y: u32, tooltip: &str) {
    let class = format!("cell {class}");
    let (x, y, size) = (x.to_string(), y.to_string(), (SIZE - 1).to_string());
    let attributes = [("class", class.as_str()), ("x", &x), ("y", &y), ("width", &size), ("height", &size)];
    if tooltip.is_empty() {
        picture.empty("rect", &attributes);
    } else {
        picture.open("rect", &attributes);
        picture.open("title", &[]);
        picture.words(tooltip);
        picture.close();
        picture.close();
    }
}

fn text(picture: &mut Picture, class: &str, x: u32, y: u32, words: &str) {
    picture.label(&[("class", class), ("x", &x.to_string()), ("y", &y.to_string())], words);
    picture.line();
}

#[cfg(test)]
mod tests {
    use mallow_profile::Profile;
    use mallow_report::analysis::{page_map, rss};
    use mallow_report::testing::fragmented;

    use super::super::testing::{hostile, parsed};
    use super::{CELLS, draw};

    fn picture(profile: &Profile, cells: u64) -> String {
        let (_, heap) = fragmented();
        let report = rss(profile, 0, Some(&heap), 9).expect("a report");
        draw(&report, &page_map(profile, &profile.footprints[0], &heap, cells))
    }

    #[test]
    fn each_cell_has_its_pages_and_places() {
        let (profile, _) = fragmented();
        let text = picture(&profile, 40);
        insta::assert_snapshot!(super::super::testing::bare_of_style(&text));
        let all = picture(&profile, CELLS);
        let document = parsed(&all);
        let cells = document.descendants().filter(|node| node.has_tag_name("rect") && node.has_children()).count();
        assert_eq!(cells, 2200, "a cell for each page of the heap");
    }

    #[test]
    fn names_are_data() {
        let (mut profile, _) = fragmented();
        for name in hostile() {
            profile.command = vec![name.clone()];
            let id = profile.strings.intern(&name);
            profile.frames.iter_mut().flat_map(|frame| &mut frame.lines).for_each(|line| line.function = id);
            parsed(&picture(&profile, 40));
        }
    }
}
