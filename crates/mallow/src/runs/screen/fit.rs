//! Text in the room that there is: what does not fit ends with an ellipsis.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use crate::output::text::{Look, before_number, end_of_columns};

pub fn strong() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// Style of less important text.
pub fn faint() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

/// Style of text that must not be overlooked.
pub fn warning(look: &Look) -> Style {
    if look.colour { Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD) } else { strong() }
}

/// A line of these pieces in at most `width` columns.
pub fn fit(spans: Vec<Span<'static>>, width: usize) -> Line<'static> {
    let whole: usize = spans.iter().map(Span::width).sum();
    if whole <= width {
        return Line::from(spans);
    }
    let mut left = width.saturating_sub(1);
    let mut kept = Vec::new();
    for span in spans {
        if span.width() <= left {
            left -= span.width();
            kept.push(span);
            continue;
        }
        let end = end_of_columns(&span.content, left).unwrap_or(span.content.len());
        let mut text = span.content[..before_number(&span.content, end)].to_owned();
        if !text.ends_with('…') {
            text.push('…');
        }
        kept.push(Span::styled(text, span.style));
        break;
    }
    Line::from(kept)
}

/// Words in lines of at most `width` columns.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use ratatui::text::Span;

    use super::{fit, wrap};

    #[test]
    fn what_is_cut_ends_with_an_ellipsis() {
        let spans = || vec![Span::raw("remember "), Span::raw("日本語"), Span::raw(" srv.cpp")];
        let texts = [30, 23, 22, 14, 9, 1, 0].map(|width| fit(spans(), width).to_string());
        assert_eq!(
            texts,
            [
                "remember 日本語 srv.cpp",
                "remember 日本語 srv.cpp",
                "remember 日本語 srv.c…",
                "remember 日本…",
                "remember…",
                "…",
                "…"
            ]
        );
    }

    #[test]
    fn no_number_is_cut() {
        let shown = |width| fit(vec![Span::raw("rss 1.60 GB, "), Span::raw("+120 MB")], width).to_string();
        assert_eq!(
            [20, 19, 17, 12].map(shown),
            ["rss 1.60 GB, +120 MB", "rss 1.60 GB, …", "rss 1.60 GB, …", "rss 1.60 GB…"]
        );
        assert_eq!(shown(11), "rss …");
    }

    #[test]
    fn words_are_not_broken() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("a longword", 3), ["a", "longword"]);
    }
}
