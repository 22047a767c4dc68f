//! Lines of other files that a Go source is made of, as `//line` says: goyacc's are those of the grammar.

use crate::model::Position;

/// The `//line` directives of one source.
#[derive(Clone, Debug, Default)]
pub struct LineDirectives(Vec<Directive>);

#[derive(Clone, Debug)]
struct Directive {
    /// The line of the source below the directive, which is the first that it names.
    from: u32,
    file: String,
    line: u32,
    /// None: the compiler names no columns below it.
    column: Option<u32>,
}

impl LineDirectives {
    pub fn of(source: &str) -> Self {
        let mut all: Vec<Directive> = Vec::new();
        for (text, from) in source.lines().zip(2_u32..) {
            let Some(text) = text.strip_prefix("//line ") else { continue };
            let last = |text: &str| {
                let (before, number) = text.rsplit_once(':')?;
                Some((before.to_owned(), number.parse::<u32>().ok().filter(|&number| number > 0)?))
            };
            let Some((before, number)) = last(text.trim_end_matches('\r')) else { continue };
            let (mut file, line, column) = match last(&before) {
                Some((file, line)) => (file, line, Some(number)),
                None => (before, number, None),
            };
            if file.is_empty() {
                // With a column it is the file that was named last.
                let Some(named) = all.last().filter(|_| column.is_some()) else { continue };
                file.clone_from(&named.file);
            }
            all.push(Directive { from, file, line, column });
        }
        Self(all)
    }

    /// The files that are named.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|directive| directive.file.as_str())
    }

    /// The place as the compiler's text and debug information have it, with the name as the directive has it.
    /// None above the first directive.
    pub fn named(&self, line: u32, column: u32) -> Option<Position> {
        let one = self.0.iter().rev().find(|directive| directive.from <= line)?;
        let column = match one.column {
            None => 0,
            Some(first) if line == one.from => first.saturating_add(column.saturating_sub(1)),
            Some(_) => column,
        };
        Some(Position { file: one.file.clone(), line: one.line.saturating_add(line - one.from), column })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_below_a_directive_are_of_its_file() {
        let source = "package p\n//line a.y:40\none\ntwo\n//line b.y:7:3\nthree\nfour\n//line :9:1\nfive\n\
                      //line x\n//line y:0\nsix\n";
        let directives = LineDirectives::of(source);
        let named = |line, column| directives.named(line, column).map(|at| (at.file, at.line, at.column));
        let at = |file: &str, line, column| Some((file.to_owned(), line, column));
        assert_eq!(named(1, 9), None);
        assert_eq!([named(3, 5), named(4, 1)], [at("a.y", 40, 0), at("a.y", 41, 0)]);
        assert_eq!([named(6, 2), named(7, 2)], [at("b.y", 7, 4), at("b.y", 8, 2)]);
        assert_eq!([named(9, 2), named(12, 4)], [at("b.y", 9, 2), at("b.y", 12, 4)]);
        assert_eq!(directives.files().collect::<Vec<_>>(), ["a.y", "b.y", "b.y"]);
    }
}
