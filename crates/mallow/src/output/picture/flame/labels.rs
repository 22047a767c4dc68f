//! Texts of a flame graph: title, notes, names in boxes, tooltips.

use mallow_report::analysis::{Flame, FlameBox, FlameFunction, Label, Measure, difference};
use mallow_report::names;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::scale::CHARACTER;
use crate::output::picture::{Note, harmless, limits};
use crate::output::text::units::{bytes, of, percent, span};
use crate::output::text::{Look, amount, change, clean, measured, signed};

/// Limit of named functions whose calls are gone.
const GONE: usize = 4;

pub fn title(flame: &Flame) -> String {
    let command = flame.command.join(" ");
    if command.is_empty() { "(command unknown)".to_owned() } else { clean(&command).into_owned() }
}

/// Notes on what is drawn and what it lacks, each a class and a line.
pub fn notes(flame: &Flame, filters: Option<&str>) -> Vec<Note> {
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
    notes.extend(limits(&flame.ending, filters));
    notes
}

/// An amount of what is measured, for people.
pub fn amount_of(flame: &Flame, n: u64) -> String {
    amount(flame.by, n, &Look::default())
}

/// A function's name as it stands in its box.
pub fn shown_name(function: &FlameFunction) -> String {
    match function.label {
        Label::Function => harmless(&names::short(&function.name)).into_owned(),
        Label::Whole => "all".to_owned(),
        Label::MissingFrames => "(outer frames are missing)".to_owned(),
        Label::NoStack => "(no stack is known)".to_owned(),
    }
}

/// As much of a name as fits into `room`. C++ and Rust names are most specific at their end.
pub fn fitting(name: &str, room: f64) -> String {
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

/// Amount of a box, and its part of the whole; two spaces are between them.
pub fn numbers(flame: &Flame, node: &FlameBox) -> String {
    format!("{}  {}", amount_of(flame, node.value), percent(node.value, flame.boxes[0].value))
}

/// The numbers of a box beside its name, or the last one alone, if there is room for the whole name and them.
pub fn beside(name: &str, numbers: &str, room: f64) -> Option<String> {
    let left = ((room / CHARACTER).max(0.0) as usize).checked_sub(name.width() + 2)?;
    let percent = numbers.rsplit("  ").next().unwrap_or(numbers);
    let fits = [numbers, percent].into_iter().find(|numbers| numbers.width() <= left)?;
    Some(format!("\u{a0}\u{a0}{}", fits.replace("  ", "\u{a0}\u{a0}")))
}

/// Amount, whole name, place and change of a box.
pub fn tooltip(flame: &Flame, node: &FlameBox, function: &FlameFunction) -> String {
    let amount = |n: u64| match flame.by.is_bytes() {
        true => bytes(n, true),
        false => of(n, measured(flame.by).trim_end_matches('s')),
    };
    let mut size = format!("{}, {}", amount(node.value), percent(node.value, flame.boxes[0].value));
    if !flame.callers && node.own > 0 && node.own < node.value {
        size.push_str(&format!("; {} of them by itself", amount(node.own)));
    }
    let mut lines = vec![size];
    match function.label {
        Label::Function => lines.push(harmless(&function.name).into_owned()),
        Label::Whole | Label::MissingFrames | Label::NoStack => lines.push(shown_name(function)),
    }
    let module = function.group.map(|_| function.module.as_deref().unwrap_or("no file: generated code"));
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
