//! Names of functions and places, as long as a person needs them.

use mallow_report::analysis::Frame;
use mallow_report::names;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::look::Look;
use super::units::count;

/// A function's name: the qualified name alone, or all of it with `--full-names`.
pub fn function(name: &str, look: &Look) -> String {
    if look.full_names { name.to_owned() } else { names::short(name) }
}

/// The name of a row's function: with its arguments where another row's would read the same.
pub fn function_of(frame: &Frame, look: &Look) -> String {
    function_in_list(&frame.function, frame.keeps_arguments, look)
}

/// The name of a function in a list, with arguments where they tell it from another one.
pub fn function_in_list(name: &str, keeps_arguments: bool, look: &Look) -> String {
    if keeps_arguments && !look.full_names { names::with_arguments(name) } else { function(name, look) }
}

/// Columns of a function's other name.
const OTHER_NAME: usize = 48;

/// Remark on a function whose code others share: `(or Vec<long>::grow and 3 more: one code)`, with all of them where
/// names are full; None where it has its code for itself. Which of them was called is not known.
pub fn one_code(function: &str, folded: &[String], look: &Look) -> Option<String> {
    let (first, more) = folded.split_first()?;
    if look.full_names {
        return Some(format!("(or {}: one code)", folded.join(", or ")));
    }
    let forms: [fn(&str) -> String; 2] = [names::short, names::with_arguments];
    let differs = forms.into_iter().find(|form| form(first) != form(function));
    let other = elided(&differs.map_or_else(|| first.clone(), |form| form(first)), OTHER_NAME);
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", count(more.len() as u64)) };
    Some(format!("(or {other}{more}: one code)"))
}

/// Place of a function: `parser.cc:212`, or `[libsqlite3.so.0]` where no source is known, or both where the recording
/// has several programs; empty where neither is known, or where the name itself is `module+0xoffset`.
pub fn location(name: &str, file: Option<&str>, line: Option<u32>, module: Option<&str>, look: &Look) -> String {
    let base = |path: &str| {
        let short = if look.full_names { path } else { file_name(path) };
        short.to_owned()
    };
    let whose = module.filter(|_| look.modules).map_or(String::new(), |module| format!(" [{}]", base(module)));
    match (file, line, module) {
        (Some(file), Some(line), _) => format!("{}:{line}{whose}", base(file)),
        (Some(file), None, _) => base(file) + &whose,
        (None, _, Some(module)) if !name.contains("+0x") => format!("[{}]", base(module)),
        _ => String::new(),
    }
}

/// The name in at most `columns` columns: of one that is wider, the middle is left out. What is behind the last
/// separator, which is the function, stays whole if it fits.
pub fn elided(name: &str, columns: usize) -> String {
    if name.width() <= columns {
        return name.to_owned();
    }
    let room = columns.saturating_sub(1);
    // In brackets are arguments.
    let (mut depth, mut last) = (0i32, 0);
    for (at, c) in name.char_indices() {
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' | ')' | ']' | '}' => depth = (depth - 1).max(0),
            ':' | '.' | '/' if depth == 0 && !name[at + 1..].starts_with(':') => last = at + 1,
            _ => {}
        }
    }
    let begin = last - name[..last].chars().rev().take_while(|c| *c == ':' || *c == '.').count();
    // Without its arguments, if it is too wide with them.
    if name[begin..].width() > room
        && let Some(arguments) = name[begin..].find(['(', '<', '[']).filter(|&at| at > 2)
    {
        return elided(&name[..begin + arguments], room) + "…";
    }
    // Where the function alone is too wide, both of its ends say more than one.
    let tail = if name[begin..].width() <= room { name[begin..].width() } else { room - room / 2 };
    let (mut end, mut used) = (String::new(), 0);
    for c in name.chars().rev() {
        used += c.width().unwrap_or(0);
        if used > tail {
            break;
        }
        end.insert(0, c);
    }
    let mut begin = String::new();
    let mut left = room - end.width().min(room);
    for c in name.chars() {
        let Some(less) = left.checked_sub(c.width().unwrap_or(0)) else { break };
        left = less;
        begin.push(c);
    }
    format!("{begin}…{end}")
}

/// Files that are called the same in each package: their directory tells them apart.
const OF_PACKAGES: &[&str] = &["__init__.py", "__main__.py", "index.js"];

/// The last part of a path, with its directory where many have the same.
fn file_name(path: &str) -> &str {
    let Some((directory, name)) = path.rsplit_once('/') else { return path };
    if !OF_PACKAGES.contains(&name) {
        return name;
    }
    let from = directory.rfind('/').map_or(0, |at| at + 1);
    if directory[from..].is_empty() { name } else { &path[from..] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_name_that_is_cut_the_function_stays() {
        for (name, columns, expected) in [
            ("ns::f", 5, "ns::f"),
            ("heap::base::Worklist<…>::Local::Publish", 20, "heap::base…::Publish"),
            ("heap::base::Worklist<a::b>::Publish<c::d>", 30, "heap::base::Wo…::Publish<c::d>"),
            ("main.(*Server).handleRequest", 20, "main.….handleRequest"),
            ("app::Parser::parse_row(std::string const&)", 26, "app::Parser::parse_row…"),
            ("app::Parser::parse_row(std::string const&)", 20, "app::Pa…::parse_row…"),
            ("a_function_with_one_long_name", 12, "a_fun…g_name"),
            ("名前空間::関数", 9, "名…::関数"),
            ("", 0, ""),
            ("abc", 0, "…"),
            (")>::x", 3, ")…x"),
        ] {
            let cut = elided(name, columns);
            assert!(cut.width() <= columns.max(1), "{cut}");
            assert_eq!(cut, expected, "{name}");
        }
    }

    #[test]
    fn the_best_that_is_known_is_shown() {
        let look = Look::default();
        let full = Look { full_names: true, ..look };
        let (file, module) = (Some("/src/app/parser.cc"), Some("/usr/lib/libx.so.1"));
        assert_eq!(location("f", file, Some(212), module, &look), "parser.cc:212");
        let package = |path: &str| location("<module>", Some(path), None, None, &look);
        assert_eq!(package("/usr/lib/python3.13/json/__init__.py"), "json/__init__.py");
        assert_eq!([package("/__init__.py"), package("a/index.js")], ["__init__.py", "a/index.js"]);
        assert_eq!(location("f", file, Some(212), module, &full), "/src/app/parser.cc:212");
        assert_eq!(location("f", file, None, module, &look), "parser.cc");
        assert_eq!(location("f", None, None, module, &look), "[libx.so.1]");
        assert_eq!(location("libx.so.1+0x12", None, None, module, &look), "");
        let programs = Look { modules: true, ..look };
        assert_eq!(location("f", file, Some(212), module, &programs), "parser.cc:212 [libx.so.1]");
        assert_eq!(location("f", None, None, module, &programs), "[libx.so.1]");
        assert_eq!(function("ns::f<int>(int)", &look), "ns::f<…>");
        assert_eq!(function("ns::f<int>(int)", &full), "ns::f<int>(int)");
    }
}
