//! Text from a recording in Markdown.

use std::fmt::Write;

use super::page::clean;

/// Text in a table's cell or a list: nothing in a name can end it.
pub fn cell(text: &str) -> String {
    let mut out = String::new();
    for c in clean(text).chars() {
        match c {
            '|' | '`' | '<' | '>' | '*' | '_' | '[' | ']' | '\\' | '&' => {
                let _ = write!(out, "&#{};", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::cell;

    #[test]
    fn nothing_in_a_name_ends_a_cell_or_becomes_markup() {
        assert_eq!(cell("a|b `c` <d>"), "a&#124;b &#96;c&#96; &#60;d&#62;");
        assert_eq!(cell("x\ny"), "x&#92;u{a}y");
    }
}
