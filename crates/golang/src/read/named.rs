//! Places below `//line` directives: the text has the lines that these name, and where they give no column none; JSON
//! has those of the source itself.

use std::collections::HashMap;

use super::directives::LineDirectives;
use super::json::Json;
use super::paths;
use super::text::Text;
use crate::model::Position;

#[derive(Default)]
pub(super) struct Named {
    /// Sources with directives.
    sources: HashMap<String, LineDirectives>,
    /// Names in the text, which has no directory of a file that a directive names without one, as they are.
    files: HashMap<String, String>,
}

impl Named {
    /// `directory` is where names in the text start; `directives` are those of a source.
    pub fn new(json: &mut Json, directory: &str, directives: &mut dyn FnMut(&str) -> Option<LineDirectives>) -> Self {
        let mut named = Self::default();
        let own = std::mem::take(&mut json.files);
        for file in &own {
            named.add(file, directives);
        }
        for (source, directives) in &named.sources {
            for file in directives.files() {
                named.files.insert(paths::absolute(directory, file), beside(source, file));
            }
        }
        json.positions(|position| named.add(&position.file, directives));
        named
    }

    fn add(&mut self, file: &str, directives: &mut dyn FnMut(&str) -> Option<LineDirectives>) {
        if file.starts_with('/') && !self.sources.contains_key(file) {
            self.sources.insert(file.to_owned(), directives(file).unwrap_or_default());
        }
    }

    pub fn rename_json(&self, json: &mut Json) {
        json.positions(|position| {
            let named =
                self.sources.get(&position.file).and_then(|source| source.named(position.line, position.column));
            if let Some(named) = named {
                *position = Position { file: beside(&position.file, &named.file), ..named };
            }
        });
    }

    pub fn rename_text(&self, text: &mut Text) {
        if self.files.is_empty() {
            return;
        }
        text.positions(|position| {
            if let Some(file) = self.files.get(&position.file) {
                position.file.clone_from(file);
            }
        });
    }
}

/// A file that a directive of `source` names.
fn beside(source: &str, file: &str) -> String {
    paths::absolute(source.rsplit_once('/').map_or("", |(directory, _)| directory), file)
}

#[cfg(test)]
mod tests {
    use super::super::{read, read_generated};
    use super::*;

    /// What go1.26 says in /home of `/home/p/rules.go`, shortened.
    const TEXT: &str = "\
rules.y:40: &T{...} escapes to heap in F:
rules.y:40:   flow: {heap} ← &{storage for &T{...}}:
rules.y:40:     from &T{...} (spill) at rules.y:40
rules.y:40:     from last = &T{...} (assign) at rules.y:40
rules.y:40: &T{...} escapes to heap
";
    const JSON: &str = r#"{"version":0,"package":"p","goos":"linux","goarch":"amd64","gc_version":"go1.26","file":"/home/p/rules.go"}
{"range":{"start":{"line":5,"character":9}},"code":"escape","message":"&T{...} escapes to heap","relatedInformation":[{"location":{"uri":"file:///home/p/rules.go","range":{"start":{"line":3,"character":29}}},"message":"inlineLoc"},{"location":{"uri":"file:///home/p/rules.go","range":{"start":{"line":5,"character":9}}},"message":"escflow:    flow: {heap} ← &{storage for &T{...}}:"}]}
{"range":{"start":{"line":5,"character":9}},"code":"escape","message":""}
"#;
    const SOURCE: &str =
        "package p\n//line skeleton:7\nfunc made() *T { return &T{} }\n//line rules.y:40\nlast = made()\n";

    #[test]
    fn text_and_json_below_a_directive_are_of_one_allocation() {
        let mut source = |file: &str| (file == "/home/p/rules.go").then(|| LineDirectives::of(SOURCE));
        let found = read_generated("p", "/home", &[JSON.to_owned()], TEXT, &mut source).expect("text and JSON");
        let [one] = &found.list[..] else { panic!("{:?}", found.list) };
        let at = |position: &Position| (position.file.clone(), position.line, position.column);
        assert_eq!(at(&one.position), ("/home/p/skeleton".to_owned(), 7, 0));
        assert_eq!(one.inlined_at.iter().map(at).collect::<Vec<_>>(), [("/home/p/rules.y".to_owned(), 40, 0)]);
        assert!(one.placed);
        // Without the source nothing shows where the file is.
        let found = read("p", "/home", &[], TEXT).expect("text");
        assert_eq!(at(&found.list[0].position), ("/home/rules.y".to_owned(), 40, 0));
    }
}
