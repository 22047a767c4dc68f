//! What `?` shows: all keys, and what the words mean.

use ratatui::text::{Line, Span};

use super::fit::{fit, strong};
use crate::runs::watch::headline::whole;

/// Keys and their effects. At most 58 columns wide and 18 lines long: that fits a terminal of 60 columns and 20 rows.
const KEYS: [(&str, &str); 11] = [
    ("↑ ↓ j k", "choose a place; PgUp, PgDn, Home, End"),
    ("Enter", "its call paths and figures; Esc: back"),
    ("s", "sort by the next: size, growth, age, …"),
    ("/", "search in names; Esc shows all"),
    ("o", "old blocks alone (--older-than), or all"),
    ("m   u", "mute the place; mute nothing any more"),
    ("+   -", "sample twice as much, half as much"),
    ("d", "stop sampling, or begin again"),
    ("r", "write a report to the file of -o"),
    ("q", "leave; the program continues"),
    ("Ctrl-C", "end the program; with -p: leave"),
];

/// The lines, each at most `width` columns.
pub fn help(warm_up_ms: u64, width: usize) -> Vec<Line<'static>> {
    let words = [
        ("growing", "significantly, and no end is in sight".to_owned()),
        ("so far", format!("for less than {}: maybe a cache", whole(warm_up_ms))),
        ("undecided", "may be chance; uneven: in steps".to_owned()),
        ("slowing", "it fades, as in a cache that fills up".to_owned()),
        ("±7 %", "holds the truth 95 times in 100".to_owned()),
    ];
    let line = |key: &str, text: &str| {
        fit(vec![Span::styled(format!("  {key:<10} "), strong()), Span::raw(text.to_owned())], width)
    };
    let mut lines = vec![Line::styled("Keys (? or Esc closes this help)", strong())];
    lines.extend(KEYS.iter().map(|(key, text)| line(key, text)));
    lines.push(Line::styled("Words", strong()));
    lines.extend(words.iter().map(|(word, text)| line(word, text)));
    lines
}
