//! What colours and widths of a flame graph mean.

use std::cmp::Reverse;

use mallow_report::analysis::{Flame, FlameGroup, GroupKind};
use unicode_width::UnicodeWidthStr;

use super::labels::fitting;
use super::scale::{CHARACTER, EDGE, LINE, PARTS, WIDTH, largest};
use crate::output::picture::{Picture, harmless, palette};
use crate::output::text::units::{of, percent};
use crate::output::text::{Look, amount, change};

/// Limit of groups that the legend names.
const NAMED: usize = 16;

/// Colours of groups of functions, and the lines that explain them.
pub struct Legend {
    /// Class of each group, by index.
    classes: Vec<String>,
    rows: Vec<Vec<Entry>>,
}

struct Entry {
    x: u32,
    /// Whether the entry begins a row.
    first: bool,
    /// Class of its swatch; None for words alone.
    class: Option<String>,
    text: String,
}

impl Legend {
    pub fn of(flame: &Flame) -> Self {
        let mut it = Self { classes: classes(flame), rows: Vec::new() };
        if flame.base.is_some() {
            it.changes(flame);
        } else {
            it.groups(flame);
        }
        it.begin_row();
        if flame.boxes.iter().any(|n| n.inlined) {
            it.add(Some("n i".to_owned()), "inlined into the caller".to_owned());
        }
        if !flame.raw {
            it.add(
                None,
                "Folded into callers: recursion, and what only passes requests on; --raw shows all.".to_owned(),
            );
        }
        it.add(None, "Order from left to right is by size, not by time.".to_owned());
        if flame.left_out > 0 {
            let least = match flame.min > flame.boxes[0].value / PARTS {
                true => amount(flame.by, flame.min, &Look::default()),
                false => format!("{} %", 100.0 / PARTS as f64),
            };
            it.add(None, format!("Not drawn: {} below {least}.", of(flame.left_out, "box")));
        }
        it
    }

    /// Adds the colours of a comparison.
    fn changes(&mut self, flame: &Flame) {
        let amount = |n: i64| change(flame.by, n, &Look::default());
        let what = match flame.callers {
            true => "how allocations by this call path have changed:",
            false => "how what a function allocated itself has changed:",
        };
        self.add(None, what.to_owned());
        let sides = [("u", "more", largest(flame, |n| n > 0)), ("d", "less", largest(flame, |n| n < 0))];
        for (class, words, largest) in sides {
            let most = largest.map_or("nowhere".to_owned(), |n| format!("at the most {}", amount(n)));
            self.add(Some(format!("{class}{}", palette::STEPS)), format!("{words}, {most}"));
        }
        self.add(Some("n".to_owned()), "as much as before".to_owned());
        self.add(None, "Widths are those of AFTER.".to_owned());
    }

    /// The colours of groups, the one first that most is allocated in or below.
    fn groups(&mut self, flame: &Flame) {
        let whole = flame.boxes[0].value;
        let what = match &flame.by_file_in {
            Some(module) => format!("Source files of {}, other modules; with what they call:", last_part(module)),
            None => "Modules, with what they call:".to_owned(),
        };
        self.add(None, what);
        let coloured = |class: &String| class != "rest";
        let mut shown = 0;
        for (index, group) in flame.groups.iter().enumerate() {
            if shown < NAMED && coloured(&self.classes[index]) {
                let text = format!("{} {}", name(group, &flame.groups), percent(group.cum, whole));
                self.add(Some(self.classes[index].clone()), text);
                shown += 1;
            }
        }
        if flame.groups.len() > shown {
            let what = if flame.by_file_in.is_some() { "other file or module" } else { "other module" };
            let left = (flame.groups.len() - shown) as u64;
            let what =
                if left == 1 { format!("1 {what}") } else { format!("{left} {}", what.replace("file", "files") + "s") };
            self.add(Some("rest".to_owned()), what);
        }
    }

    fn begin_row(&mut self) {
        self.rows.push(Vec::new());
    }

    /// The class of the boxes of a group.
    pub fn class(&self, group: Option<usize>) -> &str {
        group.map_or("n", |group| &self.classes[group])
    }

    /// Puts an entry beside the last one, or where it does not fit below it.
    fn add(&mut self, class: Option<String>, text: String) {
        let text = fitting(&harmless(&text), 90.0 * CHARACTER);
        let width = |e: &Entry| e.class.as_ref().map_or(0, |_| 18) + (e.text.width() as f64 * CHARACTER) as u32 + 20;
        let mut entry = Entry { x: EDGE, first: self.rows.last().is_some_and(Vec::is_empty), class, text };
        let end = self.rows.last().and_then(|row| row.last()).map_or(EDGE, |last| last.x + width(last));
        if self.rows.is_empty() || end + width(&entry) > WIDTH - EDGE {
            self.rows.push(Vec::new());
        } else {
            entry.x = end;
        }
        if let Some(row) = self.rows.last_mut() {
            row.push(entry);
        }
    }

    pub fn rows(&self) -> u32 {
        self.rows.len() as u32
    }

    /// Draws the rows, below each other.
    pub fn draw(&self, picture: &mut Picture, y: u32) {
        picture.open("g", &[("id", "legend"), ("transform", &format!("translate(0 {y})"))]);
        picture.line();
        for (index, row) in self.rows.iter().enumerate() {
            let baseline = LINE * index as u32;
            for entry in row {
                let (x, bottom) = (entry.x.to_string(), baseline.to_string());
                let top = (i64::from(baseline) - 10).to_string();
                let row: &[_] = if entry.first { &[("data-row", "1")] } else { &[] };
                picture.open("g", row);
                let mut text_x = x.clone();
                if let Some(class) = &entry.class {
                    let class = format!("swatch {class}");
                    let size = [("width", "12"), ("height", "12")];
                    picture.empty("rect", &[&[("class", class.as_str()), ("x", &x), ("y", &top)], &size[..]].concat());
                    text_x = (entry.x + 18).to_string();
                }
                let class = if entry.class.is_some() { "legend" } else { "note" };
                picture.label(&[("class", class), ("x", &text_x), ("y", &bottom)], &entry.text);
                picture.close();
                picture.line();
            }
        }
        picture.close();
        picture.line();
    }
}

/// The class of each group. The groups with the most area and those that allocate most, in turn, have a colour each:
/// the one that their name prefers if it is free. Those of the language are grey.
fn classes(flame: &Flame) -> Vec<String> {
    let mut area = vec![0u128; flame.groups.len()];
    for node in &flame.boxes {
        if let Some(group) = flame.functions[node.function].group {
            area[group] += u128::from(node.value);
        }
    }
    let mut classes = vec!["rest".to_owned(); area.len()];
    let all: Vec<usize> = (0..area.len()).collect();
    let (mut large, mut allocating) = (all.clone(), all);
    large.sort_by_key(|&at| (Reverse(area[at]), at));
    allocating.sort_by_key(|&at| (Reverse(flame.groups[at].own), at));
    let order = large.into_iter().zip(allocating).flat_map(|(a, b)| [a, b]);
    let mut taken = [false; palette::FILLS.len()];
    for at in order {
        if classes[at] != "rest" {
            continue;
        }
        let group = &flame.groups[at];
        classes[at] = match &group.kind {
            GroupKind::Generated => "x".to_owned(),
            GroupKind::Module(path) if group.runtime => {
                format!("r{}", palette::preferred(path, palette::RUNTIME.len()))
            }
            GroupKind::File(path) | GroupKind::Module(path) => {
                let first = palette::preferred(path, taken.len());
                let free = (first..first + taken.len()).map(|n| n % taken.len()).find(|&n| !taken[n]);
                let Some(colour) = free else { continue };
                taken[colour] = true;
                format!("c{colour}")
            }
        };
    }
    classes
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A file's name, with its directory where another one has the same.
fn name(group: &FlameGroup, all: &[FlameGroup]) -> String {
    let path_of = |group: &FlameGroup| match &group.kind {
        GroupKind::File(path) | GroupKind::Module(path) => path.clone(),
        GroupKind::Generated => "no file: generated code".to_owned(),
    };
    let path = path_of(group);
    let short = last_part(&path);
    if all.iter().filter(|other| last_part(&path_of(other)) == short).count() < 2 {
        return short.to_owned();
    }
    let from = path.rmatch_indices('/').nth(1).map_or(0, |(at, _)| at + 1);
    path[from..].to_owned()
}
