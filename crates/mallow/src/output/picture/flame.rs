//! Flame graphs: boxes as wide as what they allocated, with names, tooltips, zoom and search.

use mallow_report::analysis::{Flame, FlameBox, FlameFunction, FlameModule, Label, Measure, difference};
use mallow_report::names;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::{Picture, colour, harmless, values};
use crate::output::text::units::{bytes, of, percent, span};
use crate::output::text::{Look, amount, change, clean, measured, signed};

/// The picture's width where no script fits it to the window, in pixels.
const WIDTH: u32 = 1200;
/// Left and right of the boxes.
const EDGE: u32 = 12;
/// A box and the gap to the next one.
const ROW: u32 = 17;
const BOX: u32 = 16;
/// Of a character of the boxes' font; wider than in any common one.
const CHARACTER: f64 = 7.3;
/// Lines of text.
const LINE: u32 = 18;
/// Search and details.
const CONTROLS: u32 = 54;
/// Narrower boxes have no border: one of two pixels would be nothing else.
const SLIVER: f64 = 3.0;
/// Functions named of which calls are gone.
const GONE: usize = 4;
/// Modules that the legend names.
const LEGEND: usize = 16;

/// Boxes narrower than this part of the picture are left out: less than half a pixel.
pub const PARTS: u64 = 2500;

/// The picture.
pub fn draw(flame: &Flame, filters: Option<&str>) -> String {
    let legend = Legend::of(flame);
    let notes = notes(flame, filters);
    let deepest = flame.boxes.iter().map(|n| n.depth).max().unwrap_or(0) as u32;
    let boxes_height = (deepest + 1) * ROW;
    // Search and details are at the root's side, where reading begins.
    let header = 34 + LINE * notes.len() as u32;
    let (search_y, top) =
        if flame.callers { (header, header + CONTROLS) } else { (header + 12 + boxes_height, header + 8) };
    let legend_y = header + CONTROLS + boxes_height + 26;
    let height = legend_y + legend.rows() * LINE + 8;

    let title = title(flame);
    let mut picture = Picture::new(WIDTH, height, &title);
    picture.code("style", &(include_str!("flame.css").to_owned() + &legend.style()));
    picture.empty("rect", &[("class", "paper"), ("width", "100%"), ("height", "100%")]);
    picture.line();
    let edge = EDGE.to_string();
    picture
        .label(&[("class", "title"), ("x", &edge), ("y", "24")], &fitting(&title, f64::from(WIDTH - 2 * EDGE) * 0.74));
    for (index, (class, text)) in notes.iter().enumerate() {
        let y = (42 + LINE * index as u32).to_string();
        picture.line();
        picture.label(&[("class", class), ("x", &edge), ("y", &y)], text);
    }
    controls(&mut picture, search_y);
    let (y, width, inner) = (top.to_string(), (WIDTH - 2 * EDGE).to_string(), boxes_height.to_string());
    picture.open("svg", &[("id", "boxes"), ("x", &edge), ("y", &y), ("width", &width), ("height", &inner)]);
    picture.line();
    let strongest = largest(flame, |_| true).map_or(0, i64::unsigned_abs);
    for node in &flame.boxes {
        let row = if flame.callers { node.depth as u32 } else { deepest - node.depth as u32 };
        draw_box(&mut picture, flame, node, row, strongest);
    }
    picture.close();
    picture.line();
    legend.draw(&mut picture, legend_y);
    let shown = values(flame.functions.iter().map(|f| shown_name(f).into()));
    let constants = [
        format!("\nconst NAMES = {shown};\n"),
        format!("const CHARACTER = {CHARACTER}, SLIVER = {SLIVER};\n"),
        format!("const SEARCH_Y = {search_y}, UPWARDS = {};\n", !flame.callers),
    ];
    picture.code("script", &(constants.concat() + include_str!("flame.js")));
    picture.finish()
}

fn title(flame: &Flame) -> String {
    let command = flame.command.join(" ");
    if command.is_empty() { "(command unknown)".to_owned() } else { clean(&command).into_owned() }
}

/// What is drawn, and what it lacks; each a class and a line.
fn notes(flame: &Flame, filters: Option<&str>) -> Vec<(&'static str, String)> {
    let total = flame.by.of(&flame.totals);
    let amount = amount(flame.by, total, &Look::default());
    let how = if flame.callers { "by the function that allocates and its callers" } else { "by call stack" };
    let moment = match flame.by {
        Measure::Peak => format!(" (at {})", span(flame.peak_ms)),
        _ => String::new(),
    };
    let mut first = measured(flame.by).to_owned();
    first[..1].make_ascii_uppercase();
    let mut notes = vec![("note", format!("{first}{moment} {how}: {amount} in {}", of(flame.sites, "stack")))];
    if let Some(base) = &flame.base {
        let change = change(flame.by, base.change, &Look::default());
        let mut text = format!("Before: {}; change {change}", amount_of(flame, base.before));
        if !flame.gone.is_empty() {
            let all = flame.gone.iter().fold(0u64, |sum, (_, gone)| sum.saturating_add(*gone));
            let most = flame.gone.iter().take(GONE).map(|(name, gone)| {
                let name = if name.is_empty() { "stacks that are not known".to_owned() } else { names::short(name) };
                format!("{name} {}", amount_of(flame, *gone))
            });
            let more = if flame.gone.len() > GONE { ", …" } else { "" };
            let most = most.collect::<Vec<_>>().join(", ");
            text += &format!(". Gone, and not drawn: {} of calls of {most}{more}", amount_of(flame, all));
        }
        notes.push(("note", text));
    }
    notes.extend(filters.map(|filters| ("note", filters.to_owned())));
    if let Some(why) = &flame.ending.cut_short {
        notes.push(("warning", format!("The recording is cut short: {why}. Numbers are those up to the cut.")));
    }
    if flame.ending.lost > 0 {
        let lost = of(flame.ending.lost, "event");
        notes.push(("warning", format!("{lost} could not be recorded: the true numbers are higher.")));
    }
    notes
}

fn amount_of(flame: &Flame, n: u64) -> String {
    amount(flame.by, n, &Look::default())
}

/// What a script fills in: the search field goes to the left end of this line.
fn controls(picture: &mut Picture, y: u32) {
    let (baseline, details) = ((y + 17).to_string(), (y + 42).to_string());
    picture.line();
    picture.label(&[("id", "matched"), ("class", "screen"), ("x", "244"), ("y", &baseline)], "");
    let right = (WIDTH - EDGE).to_string();
    let attributes = [
        ("id", "reset"),
        ("class", "screen button right hidden"),
        ("x", right.as_str()),
        ("y", &baseline),
        ("text-anchor", "end"),
    ];
    picture.label(&attributes, "show all");
    picture.label(&[("id", "details"), ("class", "screen"), ("x", "12"), ("y", &details)], "");
    picture.line();
}

/// `strongest`: the change that has the strongest colour.
fn draw_box(picture: &mut Picture, flame: &Flame, node: &FlameBox, row: u32, strongest: u64) {
    let function = &flame.functions[node.function];
    let whole = flame.boxes[0].value.max(1) as f64;
    let (left, share) = (node.start as f64 / whole * 100.0, node.value as f64 / whole * 100.0);
    let (x, width) = (format!("{left:.5}%"), format!("{share:.5}%"));
    let (index, depth) = (node.function.to_string(), node.depth.to_string());
    let mut group = vec![("data-f", index.as_str()), ("data-d", &depth)];
    if function.looked_past {
        group.push(("data-p", "1"));
    }
    picture.open("g", &group);
    picture.open("title", &[]);
    picture.words(&tooltip(flame, node, function));
    picture.close();
    let pixels = share / 100.0 * f64::from(WIDTH - 2 * EDGE);
    let mut class = match flame.base {
        Some(_) => change_class(flame, node, strongest),
        None => {
            // Neighbours of one module can be told apart: its colour, in one of three strengths.
            let strength = ["", " v1", " v2"][function.name.bytes().fold(0, |sum, b| sum + usize::from(b)) % 3];
            function.module.map_or("n".to_owned(), |m| format!("m{m}")) + strength
        }
    };
    class.push_str(if node.inlined { " i" } else { "" });
    class.push_str(if pixels < SLIVER { " s" } else { "" });
    let (y, height) = ((row * ROW).to_string(), BOX.to_string());
    picture.empty("rect", &[("class", &class), ("x", &x), ("y", &y), ("width", &width), ("height", &height)]);
    let words = fitting(&shown_name(function), pixels - 6.0);
    if !words.is_empty() {
        let baseline = (row * ROW + 12).to_string();
        let mut attributes = vec![("x", x.as_str()), ("dx", "3"), ("y", &baseline)];
        if function.looked_past {
            attributes.push(("class", "p"));
        }
        picture.label(&attributes, &words);
    }
    picture.close();
    picture.line();
}

/// What of a box its colour tells: its own change and, among callers, the change of what was allocated by its way.
fn coloured(flame: &Flame, node: &FlameBox) -> i64 {
    if flame.callers { difference(node.before, node.value) } else { node.change }
}

/// The largest of those changes that `of` is true for; the whole has none of its own among callers.
fn largest(flame: &Flame, of: fn(i64) -> bool) -> Option<i64> {
    let boxes = flame.boxes.iter().skip(usize::from(flame.callers));
    boxes.map(|node| coloured(flame, node)).filter(|&change| of(change)).max_by_key(|change| change.unsigned_abs())
}

/// The colour of a box in a comparison: the more of the largest change it is, the stronger. Roots make small ones visible.
fn change_class(flame: &Flame, node: &FlameBox, strongest: u64) -> String {
    let change = if flame.callers && node.parent.is_none() { 0 } else { coloured(flame, node) };
    let part = (change.unsigned_abs() as f64 / strongest.max(1) as f64).sqrt();
    match change {
        0 => "n".to_owned(),
        1.. => format!("u{}", colour::step(part)),
        _ => format!("d{}", colour::step(part)),
    }
}

/// A function's name as it stands in its box.
fn shown_name(function: &FlameFunction) -> String {
    match function.label {
        Label::Function => harmless(&names::short(&function.name)).into_owned(),
        Label::Whole => "all".to_owned(),
        Label::MissingFrames => "(outer frames are missing)".to_owned(),
        Label::NoStack => "(no stack is known)".to_owned(),
    }
}

/// As much of a name as there is room for. C++ and Rust names tell most at their end.
pub(super) fn fitting(name: &str, room: f64) -> String {
    let fits = (room / CHARACTER).max(0.0) as usize;
    if name.width() <= fits {
        return name.to_owned();
    }
    if fits < 3 {
        return String::new();
    }
    let mut left = fits - 1;
    let mut take = |c: &char| {
        let width = c.width().unwrap_or(0);
        let fits = width <= left;
        left = if fits { left - width } else { 0 };
        fits
    };
    if name.contains("::") {
        let mut end: Vec<char> = name.chars().rev().take_while(&mut take).collect();
        end.push('…');
        end.iter().rev().collect()
    } else {
        let mut start: String = name.chars().take_while(&mut take).collect();
        start.push('…');
        start
    }
}

/// The whole name, where it is, and how much.
fn tooltip(flame: &Flame, node: &FlameBox, function: &FlameFunction) -> String {
    let mut lines = Vec::new();
    match function.label {
        Label::Function => lines.push(harmless(&function.name).into_owned()),
        Label::Whole | Label::MissingFrames | Label::NoStack => lines.push(shown_name(function)),
    }
    let module = function.module.map(|m| module_name(&flame.modules[m]));
    let place: Vec<_> = function.file.iter().cloned().chain(module.map(|m| format!("[{m}]"))).collect();
    if !place.is_empty() {
        lines.push(harmless(&place.join(" ")).into_owned());
    }
    if node.inlined {
        lines.push("inlined into its caller".to_owned());
    }
    if node.recursive {
        lines.push("calls itself, maybe through others".to_owned());
    }
    let amount = |n: u64| match flame.by.is_bytes() {
        true => bytes(n, true),
        false => of(n, measured(flame.by).trim_end_matches('s')),
    };
    let mut size = format!("{}, {}", amount(node.value), percent(node.value, flame.boxes[0].value));
    if !flame.callers && node.own > 0 && node.own < node.value {
        size.push_str(&format!("; {} of them by itself", amount(node.own)));
    }
    lines.push(size);
    if flame.base.is_some() {
        let signed = |n: i64| signed(n, amount(n.unsigned_abs()));
        let change = match difference(node.before, node.value) {
            0 => "as many now".to_owned(),
            change => signed(change),
        };
        lines.push(format!("before: {}; {change}", amount(node.before)));
        if node.change != 0 && !flame.callers {
            let gone = match node.gone {
                0 => String::new(),
                gone => format!(", of these {} of calls that are gone", signed(0i64.saturating_sub_unsigned(gone))),
            };
            lines.push(format!("by itself: {}{gone}", signed(node.change)));
        }
    }
    lines.join("\n")
}

fn module_name(module: &FlameModule) -> &str {
    module.path.as_deref().unwrap_or("no file: generated code")
}

/// Colours of modules, and the lines that explain them.
struct Legend {
    /// Fill by module.
    fills: Vec<String>,
    rows: Vec<Vec<Entry>>,
}

struct Entry {
    x: u32,
    /// Class of its swatch; None for words alone.
    class: Option<String>,
    text: String,
}

impl Legend {
    fn of(flame: &Flame) -> Self {
        let fill = |m: &FlameModule| match &m.path {
            Some(path) => colour::of_module(path, m.runtime),
            None => colour::GENERATED.to_owned(),
        };
        let fills = match flame.base {
            Some(_) => Vec::new(),
            None => flame.modules.iter().map(fill).collect(),
        };
        let mut it = Self { fills, rows: Vec::new() };
        if flame.base.is_some() {
            it.changes(flame);
        } else {
            it.modules(flame);
        }
        it.rows.push(Vec::new());
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

    /// What colours mean in a comparison.
    fn changes(&mut self, flame: &Flame) {
        let told = |n: i64| change(flame.by, n, &Look::default());
        let what = match flame.callers {
            true => "how allocations by this call path have changed:",
            false => "how what a function allocated itself has changed:",
        };
        self.add(None, what.to_owned());
        let sides = [("u", "more", largest(flame, |n| n > 0)), ("d", "less", largest(flame, |n| n < 0))];
        for (class, words, largest) in sides {
            let most = largest.map_or("nowhere".to_owned(), |n| format!("at the most {}", told(n)));
            self.add(Some(format!("{class}{}", colour::STEPS)), format!("{words}, {most}"));
        }
        self.add(Some("n".to_owned()), "as much as before".to_owned());
        self.add(None, "Widths are those of AFTER.".to_owned());
    }

    /// Which module has which colour.
    fn modules(&mut self, flame: &Flame) {
        let it = self;
        let whole = flame.boxes[0].value;
        it.add(None, "modules, and what their functions asked for:".to_owned());
        for (index, module) in flame.modules.iter().enumerate().take(LEGEND) {
            let name = module_name(module);
            let file = name.rsplit('/').next().unwrap_or(name);
            it.add(Some(format!("m{index}")), format!("{file} {}", percent(module.value, whole)));
        }
        if flame.modules.len() > LEGEND {
            it.add(None, format!("and {} more", of((flame.modules.len() - LEGEND) as u64, "module")));
        }
    }

    /// Puts an entry beside the last one, or where it does not fit below it.
    fn add(&mut self, class: Option<String>, text: String) {
        let text = fitting(&harmless(&text), 90.0 * CHARACTER);
        let width = |e: &Entry| e.class.as_ref().map_or(0, |_| 18) + (e.text.width() as f64 * CHARACTER) as u32 + 20;
        let mut entry = Entry { x: EDGE, class, text };
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

    fn rows(&self) -> u32 {
        self.rows.len() as u32
    }

    fn style(&self) -> String {
        let rules = self.fills.iter().enumerate().map(|(index, fill)| format!(".m{index} {{ fill: {fill}; }}\n"));
        let steps = (1..=colour::STEPS).filter(|_| self.fills.is_empty()).flat_map(|step| {
            let [more, less] = colour::of_change(step);
            [format!(".u{step} {{ fill: {more}; }}\n"), format!(".d{step} {{ fill: {less}; }}\n")]
        });
        rules.chain([format!(".n {{ fill: {}; }}\n", colour::NOTHING)]).chain(steps).collect()
    }

    fn draw(&self, picture: &mut Picture, y: u32) {
        for (index, row) in self.rows.iter().enumerate() {
            let baseline = y + LINE * index as u32;
            for entry in row {
                let (x, top, bottom) = (entry.x.to_string(), (baseline - 10).to_string(), baseline.to_string());
                let mut text_x = x.clone();
                if let Some(class) = &entry.class {
                    let class = format!("swatch {class}");
                    let size = [("width", "12"), ("height", "12")];
                    picture.empty("rect", &[&[("class", class.as_str()), ("x", &x), ("y", &top)], &size[..]].concat());
                    text_x = (entry.x + 18).to_string();
                }
                let class = if entry.class.is_some() { "legend" } else { "note" };
                picture.label(&[("class", class), ("x", &text_x), ("y", &bottom)], &entry.text);
                picture.line();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mallow_profile::Profile;
    use mallow_report::analysis::diff::Rules;
    use mallow_report::analysis::{Both, Flame, FlameOptions, Least, Measure, flame, flame_changes};
    use mallow_report::testing::{Builder, blocks, parser};

    use super::{CHARACTER, PARTS, draw, fitting};
    use crate::output::picture::testing::{hostile, parsed};

    fn graph(profile: &Profile, by: Measure, callers: bool) -> Flame {
        flame(profile, FlameOptions { by, callers, raw: by == Measure::Bytes, parts: PARTS, least: Least::Amount(0) })
    }

    /// The picture without its style sheet and its script.
    fn drawn(flame: &Flame) -> String {
        let text = draw(flame, None);
        parsed(&text);
        let without = |text: &str, name: &str| {
            let (before, rest) = text.split_once(&format!("<{name}>")).expect("it has one");
            format!("{before}{}", rest.split_once(&format!("</{name}>\n")).expect("it ends").1)
        };
        without(&without(&text, "style"), "script")
    }

    #[test]
    fn a_graph_of_bytes() {
        insta::assert_snapshot!(drawn(&graph(&parser(), Measure::Bytes, false)));
    }

    #[test]
    fn callers_of_what_leaked_in_a_recording_that_was_cut_short() {
        let mut profile = parser();
        profile.ending.cut_short = Some("the disk is full".to_owned());
        profile.ending.lost = 3;
        insta::assert_snapshot!(drawn(&graph(&profile, Measure::Leaked, true)));
    }

    #[test]
    fn what_changed_is_red_or_blue() {
        let mut after = parser();
        after.sites[0].counts += blocks(900_000, 40, 500_000, 0);
        after.totals += blocks(900_000, 40, 500_000, 0);
        for gone in after.sites.drain(1..3) {
            after.totals.allocations -= gone.counts.allocations;
        }
        let both = Both::new(&parser(), &after, Measure::Allocations, Rules::ALL);
        let options = |callers| FlameOptions {
            by: Measure::Allocations,
            callers,
            raw: false,
            parts: PARTS,
            least: Least::Amount(0),
        };
        insta::assert_snapshot!([false, true].map(|callers| drawn(&flame_changes(&both, options(callers)))).join("\n"));
    }

    #[test]
    fn boxes_fill_what_is_below_them_and_say_their_numbers() {
        let flame = graph(&parser(), Measure::Allocations, false);
        let text = draw(&flame, Some("Filtered by focus parse"));
        let document = parsed(&text);
        let frames = document.descendants().find(|n| n.attribute("id") == Some("boxes")).expect("boxes");
        let boxes: Vec<_> = frames.children().filter(|n| n.has_tag_name("g")).collect();
        assert_eq!(boxes.len(), flame.boxes.len());
        for (node, group) in flame.boxes.iter().zip(&boxes) {
            let rect = group.children().find(|n| n.has_tag_name("rect")).expect("a box");
            let number = |name: &str| -> f64 {
                let text = rect.attribute(name).expect("an attribute");
                text.trim_end_matches('%').parse().expect("a number")
            };
            let expected = node.value as f64 * 100.0 / flame.totals.allocations as f64;
            assert!((number("width") - expected).abs() < 0.0001 && number("x") + number("width") < 100.0001);
            let title = group.children().find(|n| n.has_tag_name("title")).and_then(|t| t.text()).unwrap_or_default();
            let amount = crate::output::text::units::of(node.value, "allocation");
            assert!(title.contains(&amount), "{title}");
            if let Some(parent) = node.parent {
                let below = boxes[parent].children().find(|n| n.has_tag_name("rect")).expect("a box");
                let y: f64 = below.attribute("y").expect("y").parse().expect("a number");
                assert_eq!(y - number("y"), 17.0, "one row above its caller");
            }
        }
    }

    #[test]
    fn hostile_names_are_text() {
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 10);
        let names = hostile();
        for (index, name) in names.iter().enumerate() {
            // `stack` gives some signs a meaning: these names come in by the string table.
            let stack = b.stack(&[&format!("f{index}!m{index}.so"), "main"]);
            let frame = b.profile.stacks.top(stack).expect("a frame").0;
            let function = b.profile.strings.intern(name);
            b.profile.frames[frame.0 as usize].lines[0].function = function;
            b.profile.frames[frame.0 as usize].lines[0].file = Some(function);
            let module = b.profile.frames[frame.0 as usize].module.expect("a module");
            b.profile.modules[module.0 as usize].path = name.clone();
            b.site(p, &[&format!("g{index}"), "main"], blocks(1, 1, 0, 0)).stack = stack;
        }
        b.profile.command = names;
        for callers in [false, true] {
            let text = draw(&graph(&b.profile, Measure::Allocations, callers), Some(&b.profile.command[0]));
            let document = parsed(&text);
            assert_eq!(document.descendants().filter(|n| n.has_tag_name("script")).count(), 1);
            assert!(!text.contains(|c: char| (c.is_control() && c != '\n') || c == '\u{202e}'));
            assert!(text.len() < 200_000, "{} bytes", text.len());
        }
    }

    #[test]
    fn names_fit_into_their_boxes() {
        let cut = |name: &str, characters: f64| fitting(name, characters * CHARACTER);
        assert_eq!(cut("parse_row", 9.0), "parse_row");
        assert_eq!(cut("parse_row", 8.0), "parse_r…");
        assert_eq!(cut("app::Parser::parse_row", 11.0), "…:parse_row");
        assert_eq!(cut("日本語日本語", 7.0), "日本語…");
        assert_eq!((cut("parse_row", 3.0), cut("parse_row", 2.9)), ("pa…".to_owned(), String::new()));
    }
}
