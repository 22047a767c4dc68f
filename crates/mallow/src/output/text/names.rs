//! Names of functions and places, as long as a person needs them.

use mallow_report::names;

use super::look::Look;

/// A function's name: the qualified name alone, or all of it with `--full-names`.
pub fn function(name: &str, look: &Look) -> String {
    if look.full_names { name.to_owned() } else { names::short(name) }
}

/// Where a function is: `parser.cc:212`, or `[libsqlite3.so.0]` where no source is known; nothing where neither is, or
/// where the name itself is `module+0xoffset`.
pub fn location(name: &str, file: Option<&str>, line: Option<u32>, module: Option<&str>, look: &Look) -> String {
    let base = |path: &str| {
        let short = if look.full_names { path } else { file_name(path) };
        short.to_owned()
    };
    match (file, line, module) {
        (Some(file), Some(line), _) => format!("{}:{line}", base(file)),
        (Some(file), None, _) => base(file),
        (None, _, Some(module)) if !name.contains("+0x") => format!("[{}]", base(module)),
        _ => String::new(),
    }
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
        assert_eq!(function("ns::f<int>(int)", &look), "ns::f<…>");
        assert_eq!(function("ns::f<int>(int)", &full), "ns::f<int>(int)");
    }
}
