//! Values of labels: names of any program, cut and escaped.

/// Characters of a label's value. Names of templates have thousands; a store keeps each for as long as it keeps the
/// series.
const LONGEST: usize = 120;

/// A value as Prometheus' text has it between quotes.
pub fn value(text: &str) -> String {
    let mut out = String::new();
    let mut characters = text.chars();
    for character in characters.by_ref().take(LONGEST) {
        match character {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other if other.is_control() => out.push(' '),
            other => out.push(other),
        }
    }
    if characters.next().is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn names_are_cut_and_cannot_end_a_value() {
        assert_eq!(value("operator\"\"_x\\\n\r"), "operator\\\"\\\"_x\\\\\\n ");
        let long = value(&"é".repeat(121));
        assert_eq!(long.chars().count(), 121);
        assert!(long.ends_with("é…"));
    }
}
