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
/// Width of a cell with its gap.
const SIZE: u32 = 9;
const COLUMNS: usize = ((WIDTH - 2 * EDGE) / SIZE) as usize;
const PAGE: u64 = 4096;
/// Width of a line of text.
const ROOM: f64 = (WIDTH - 2 * EDGE) as f64;

/// Kinds of cells, with the classes of their colours.
const LEGEND: [(&str, &str); 5] = [
    ("used", "occupied: holes are less than a quarter"),
    ("some", "holes: a quarter or more"),
    ("most", "holes: three quarters or more"),
    ("free", "free pages"),
    ("n", "not in memory"),
];

/// No text stands on a cell, so dark windows have bright ones too: what to look at first is the brightest in both.
const STYLE: &str = "\
.cause { font-weight: 600; }
.cell { stroke: #808080; stroke-width: 0.3; }
.used { fill: #9bd0f5; }
.some { fill: #ead537; }
.most { fill: #df862a; }
.free { fill: #c0c4cb; }
@media screen and (prefers-color-scheme: dark) {
  .used { fill: #1868ca; }
  .some { fill: #bd9a1c; }
  .most { fill: #f28c38; }
  .free { fill: #7f858f; }
}
";

/// The picture. `cause`: the sentence that says why RSS is what it is.
pub fn draw(report: &Rss, map: &PageMap, cause: Option<&str>) -> String {
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
    notes.extend(cause.map(|cause| ("cause", fitting(cause, ROOM))));
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
    picture.style(STYLE);
    picture.paper(None);
    text(&mut picture, "title", EDGE, 24, &fitting(&command, ROOM * 0.74));
    for (index, (class, note)) in notes.iter().enumerate() {
        text(&mut picture, class, EDGE, 44 + LINE * index as u32, note);
    }
    let mut x = EDGE;
    for (kind, words) in LEGEND {
        let cells = map.rows.iter().flat_map(|row| &row.cells).filter(|cell| class(cell) == kind);
        let sum = cells.fold(0, |sum, cell| sum + cell.used + cell.holes + cell.free);
        let words = if sum > 0 { format!("{words} ({})", bytes(sum, false)) } else { words.to_owned() };
        square(&mut picture, kind, x, legend_y, "");
        text(&mut picture, "legend", x + 14, legend_y + 9, &words);
        x += 30 + words.len() as u32 * 13 / 2;
    }
    for (row, start) in map.rows.iter().zip(starts) {
        let name = match row.kind {
            TerritoryKind::MainArena => "main arena",
            TerritoryKind::ThreadArena => "thread arena",
            TerritoryKind::OwnMappings => "blocks with their own mappings",
            TerritoryKind::Allocator => "mapping of the allocator",
        };
        let of_row = |amount: fn(&HeapCell) -> u64| row.cells.iter().map(amount).sum::<u64>();
        let sums = amounts(of_row(|cell| cell.used), of_row(|cell| cell.holes), of_row(|cell| cell.free), 0);
        text(&mut picture, "scale", EDGE, start + 12, &format!("{name}, {:#x}: {}", row.start, sums.join(", ")));
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
        _ if cell.free > pinned => "free",
        _ if cell.holes * 4 < pinned => "used",
        _ if cell.holes * 4 < pinned * 3 => "some",
        _ => "most",
    }
}

/// `occupied: 132 kB` and so on, without what is 0.
fn amounts(used: u64, holes: u64, free: u64, absent: u64) -> Vec<String> {
    let all = [(used, "occupied"), (holes, "holes"), (free, "free"), (absent, "not in memory")];
    all.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{what}: {}", bytes(*n, false))).collect()
}

fn tooltip(cell: &HeapCell, start: u64, size: u64, map: &PageMap) -> String {
    let absent = size.saturating_sub(cell.used + cell.holes + cell.free);
    let mut lines = vec![format!("{start:#x}")];
    lines.extend(amounts(cell.used, cell.holes, cell.free, absent));
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
        draw(
            &report,
            &page_map(profile, &profile.footprints[0], &heap, cells),
            Some("Cause: app::Cache::put cache.cc:31"),
        )
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
        let (_, heap) = fragmented();
        for name in hostile() {
            let report = rss(&profile, 0, Some(&heap), 9).expect("a report");
            let map = page_map(&profile, &profile.footprints[0], &heap, 40);
            let long = name.repeat(99);
            parsed(&draw(&report, &map, Some(&long)));
            profile.command = vec![name.clone()];
            let id = profile.strings.intern(&name);
            profile.frames.iter_mut().flat_map(|frame| &mut frame.lines).for_each(|line| line.function = id);
            parsed(&picture(&profile, 40));
        }
    }
}
