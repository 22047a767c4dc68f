//! Flame graphs: boxes as wide as what they allocated, with names, numbers, tooltips, zoom and search.

mod labels;
mod legend;
mod scale;
#[cfg(test)]
mod tests;

use mallow_report::analysis::{Flame, FlameBox};

pub(super) use self::labels::fitting;
use self::labels::{beside, notes, numbers, shown_name, title, tooltip};
use self::legend::Legend;
pub use self::scale::PARTS;
use self::scale::{BOX, CHARACTER, CONTROLS, EDGE, LINE, ROW, SLIVER, WIDTH, coloured, largest};
use super::{Picture, palette, values};

pub fn draw(flame: &Flame, filters: Option<&str>) -> String {
    let legend = Legend::of(flame);
    let notes = notes(flame, filters);
    let deepest = flame.boxes.iter().map(|n| n.depth).max().unwrap_or(0) as u32;
    let boxes_height = (deepest + 1) * ROW;
    let search_y = 34 + LINE * notes.len() as u32;
    let top = search_y + CONTROLS;
    let legend_y = top + boxes_height + 26;
    let height = legend_y + legend.rows() * LINE + 8;

    let title = title(flame);
    let mut picture = Picture::new(WIDTH, height, &title);
    picture.style(include_str!("flame.css"));
    picture.paper(None);
    picture.open("g", &[("id", "content")]);
    let (edge, y) = (EDGE.to_string(), top.to_string());
    let (width, inner) = ((WIDTH - 2 * EDGE).to_string(), boxes_height.to_string());
    picture.open("svg", &[("id", "boxes"), ("x", &edge), ("y", &y), ("width", &width), ("height", &inner)]);
    picture.line();
    let strongest = largest(flame, |_| true).map_or(0, i64::unsigned_abs);
    for node in &flame.boxes {
        let row = if flame.callers { node.depth as u32 } else { deepest - node.depth as u32 };
        draw_box(&mut picture, flame, &legend, node, row, strongest);
    }
    picture.close();
    picture.line();
    legend.draw(&mut picture, legend_y);
    picture.close();
    picture.line();
    // After the boxes, which scroll away below it.
    picture.open("g", &[("id", "head")]);
    picture.paper(Some(top - 4));
    picture
        .label(&[("class", "title"), ("x", &edge), ("y", "24")], &fitting(&title, f64::from(WIDTH - 2 * EDGE) * 0.74));
    for (index, (class, text)) in notes.iter().enumerate() {
        let y = (44 + LINE * index as u32).to_string();
        picture.line();
        picture.label(&[("class", class), ("x", &edge), ("y", &y)], text);
    }
    controls(&mut picture, search_y);
    picture.close();
    picture.line();
    let shown = values(flame.functions.iter().map(|f| shown_name(f).into()));
    let constants = [
        format!("\nconst NAMES = {shown};\n"),
        format!("const CHARACTER = {CHARACTER}, SLIVER = {SLIVER}, SEARCH_Y = {search_y}, TOP = {top};\n"),
        format!("const LEGEND_ROWS = {}, UPWARDS = {};\n", legend.rows(), !flame.callers),
    ];
    picture.script(&constants.concat(), include_str!("flame.js"));
    picture.finish()
}

/// Draws elements that a script fills in: the search field goes to the left end of the first line.
fn controls(picture: &mut Picture, y: u32) {
    let (baseline, first, second) = ((y + 17).to_string(), (y + 43).to_string(), (y + 60).to_string());
    let edge = EDGE.to_string();
    picture.line();
    picture.open("g", &[("id", "tools"), ("class", "screen")]);
    picture.label(&[("id", "matched"), ("x", "244"), ("y", &baseline)], "");
    let right = (WIDTH - EDGE).to_string();
    let attributes = [
        ("id", "reset"),
        ("class", "button right hidden"),
        ("x", right.as_str()),
        ("y", &baseline),
        ("text-anchor", "end"),
    ];
    picture.label(&attributes, "show all");
    picture.label(&[("id", "size"), ("x", &edge), ("y", &first)], "");
    picture.label(&[("id", "function"), ("class", "name"), ("x", &edge), ("y", &first)], "");
    picture.label(&[("id", "details"), ("class", "note"), ("x", &edge), ("y", &second)], "");
    picture.close();
    picture.line();
}

/// `strongest`: the change that has the strongest colour.
fn draw_box(picture: &mut Picture, flame: &Flame, legend: &Legend, node: &FlameBox, row: u32, strongest: u64) {
    let function = &flame.functions[node.function];
    let whole = flame.boxes[0].value.max(1) as f64;
    let (left, share) = (node.start as f64 / whole * 100.0, node.value as f64 / whole * 100.0);
    let (x, width) = (format!("{left:.5}%"), format!("{share:.5}%"));
    let (index, depth, numbers) = (node.function.to_string(), node.depth.to_string(), numbers(flame, node));
    let mut group = vec![("data-f", index.as_str()), ("data-d", &depth), ("data-v", &numbers)];
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
            // Neighbours of one colour can be distinguished: it has one of three strengths.
            let strength = ["", " v1", " v2"][function.name.bytes().fold(0, |sum, b| sum + usize::from(b)) % 3];
            legend.class(function.group).to_owned() + strength
        }
    };
    class.push_str(if node.inlined { " i" } else { "" });
    class.push_str(if pixels < SLIVER { " s" } else { "" });
    let (y, height) = ((row * ROW).to_string(), BOX.to_string());
    picture.empty("rect", &[("class", &class), ("x", &x), ("y", &y), ("width", &width), ("height", &height)]);
    let name = shown_name(function);
    let words = fitting(&name, pixels - 6.0);
    if !words.is_empty() {
        let baseline = (row * ROW + 12).to_string();
        let mut attributes = vec![("x", x.as_str()), ("dx", "3"), ("y", &baseline)];
        if function.looked_past {
            attributes.push(("class", "p"));
        }
        picture.open("text", &attributes);
        picture.words(&words);
        if let Some(numbers) = beside(&name, &numbers, pixels - 6.0) {
            picture.open("tspan", &[("class", "v")]);
            picture.words(&numbers);
            picture.close();
        }
        picture.close();
    }
    picture.close();
    picture.line();
}

/// The colour of a box in a comparison: the more of the largest change it is, the stronger. Roots make small ones
/// visible.
fn change_class(flame: &Flame, node: &FlameBox, strongest: u64) -> String {
    let change = if flame.callers && node.parent.is_none() { 0 } else { coloured(flame, node) };
    let part = (change.unsigned_abs() as f64 / strongest.max(1) as f64).sqrt();
    match change {
        0 => "n".to_owned(),
        1.. => format!("u{}", palette::step(part)),
        _ => format!("d{}", palette::step(part)),
    }
}
