//! Names that stand in a heap profile as text: before it, as jeprof, google-pprof and php-memprof put them, or below
//! each stack, as Go and Mallow do.
//!
//! ```text
//! --- symbol                                       1: 1024 [1: 1024] @ 0x4bcb2d 0x4c2c0d
//! binary=./app                                     #  0x4bcb2c  main.fill+0x2c  /src/main.go:17
//! 0x0000558710d1e163 hold<0000000000001149>        #  0x4c2c0c  main.main+0xac  /src/main.go:31
//! ---
//! ```

use mallow_profile::{Line, Strings};
use rustc_hash::FxHashMap;

use crate::input::{Lines, hexadecimal, name};
use crate::{FormatError, InputFormat};

pub struct Named {
    function: String,
    file: Option<(String, u32)>,
}

impl Named {
    pub fn line(&self, strings: &mut Strings) -> Line {
        let file = self.file.as_ref().map(|(file, line)| (strings.intern(file), *line));
        Line {
            function: strings.intern(&self.function),
            file: file.map(|(file, _)| file),
            line: file.map_or(0, |(_, line)| line),
        }
    }
}

/// Reads a comment below a stack: `#`, an address, a function, its place, with tabs between. The address is missing
/// where a function was put into the one above it. None for other comments, and for a function without a name.
pub fn comment(text: &[u8], go: bool) -> Option<(Option<u64>, Named)> {
    let text = name(text.strip_prefix(b"#\t")?);
    let (address, rest) = text.split_once('\t')?;
    let address = match address {
        "" => None,
        address => Some(hexadecimal(address.as_bytes())?),
    };
    let mut fields = rest.split('\t').filter(|field| !field.is_empty());
    let function = fields.next()?;
    let offset = function.rsplit_once("+0x").filter(|(_, offset)| hexadecimal(offset.as_bytes()).is_some());
    let function = match (offset, go) {
        (Some((function, _)), true) => function,
        // A place in a file, for lack of a name.
        (Some(_), false) => return None,
        (None, _) => function,
    };
    let file = fields.next().and_then(|place| {
        let (file, line) = place.rsplit_once(':')?;
        Some((file.to_owned(), line.parse().ok()?))
    });
    Some((address, Named { function: function.to_owned(), file }))
}

/// Names by address, from the table before a profile. A name has one more function for each `--` in it, the innermost
/// last.
#[derive(Default)]
pub struct SymbolTable {
    names: FxHashMap<u64, String>,
    pub binary: Option<String>,
}

/// The line that a table begins with.
pub const TABLE: &[u8] = b"--- symbol";

impl SymbolTable {
    /// Reads up to and including the line that ends the table, `---`.
    pub fn read(lines: &mut Lines) -> Result<Self, FormatError> {
        let mut table = Self::default();
        loop {
            let Some(line) = lines.next()? else { return Err(lines.damaged("the text ends within its symbols")) };
            let text = name(line.trim_ascii());
            if text == "---" {
                return Ok(table);
            }
            if let Some(path) = text.strip_prefix("binary=") {
                table.binary = Some(path.to_owned());
                continue;
            }
            let entry = text.split_once(' ').and_then(|(address, name)| {
                Some((address.strip_prefix("0x").and_then(|digits| hexadecimal(digits.as_bytes()))?, name))
            });
            let Some((address, name)) = entry else {
                // `num_symbols: 3`, and what else describes the table.
                if text.is_empty() || text.contains([':', '=']) {
                    continue;
                }
                return Err(lines.damaged("this is no symbol"));
            };
            // What could not be named is an address here, too.
            if !name.starts_with("0x") {
                table.names.insert(address, name.to_owned());
            }
        }
    }

    /// The whole name of an address, as the table has it.
    pub fn name(&self, address: u64) -> Option<&str> {
        self.names.get(&address).map(String::as_str)
    }

    /// The functions of an address of a stack, the innermost first. jemalloc's tools name a caller by the address of
    /// its call, which is before the return address; gperftools' do so when they write the stack.
    pub fn lines(&self, format: InputFormat, address: u64, innermost: bool, strings: &mut Strings) -> Vec<Line> {
        let (call, here) = (self.names.get(&address.wrapping_sub(1)), self.names.get(&address));
        let found = match format == InputFormat::Jemalloc && !innermost {
            true => call.or(here),
            false => here.or(call),
        };
        let functions = found.into_iter().flat_map(|name| name.rsplit("--"));
        let functions = functions.map(|name| without_marks(name.trim())).filter(|name| !matches!(*name, "" | "??"));
        functions.map(|function| Line { function: strings.intern(function), file: None, line: 0 }).collect()
    }
}

/// Removes `<1149>`, the function's address, and `@@GLIBC_2.2.5`, its version.
fn without_marks(name: &str) -> &str {
    let is_address = |digits: &str| digits.len() >= 8 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let marked = name.strip_suffix('>').and_then(|name| name.rsplit_once('<'));
    let name = marked.filter(|(_, digits)| is_address(digits)).map_or(name, |(name, _)| name);
    match name.rsplit_once("@@") {
        Some((function, version)) if !version.contains([')', '>']) => function,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_tools_are_no_part_of_a_name() {
        for (raw, expected) in [
            ("hold<0000000000001149>", "hold"),
            ("std::vector<int>::grow", "std::vector<int>::grow"),
            ("std::vector<abc>", "std::vector<abc>"),
            ("std::f(char const*, int)@@GLIBCXX_3.4.26<00000000000a0a67>", "std::f(char const*, int)"),
            ("operator<<", "operator<<"),
        ] {
            assert_eq!(without_marks(raw), expected);
        }
    }

    #[test]
    fn a_comment_has_an_address_a_function_and_a_place() {
        let parse = |text: &str, go| comment(text.as_bytes(), go).map(|(at, n)| (at, n.function, n.file));
        let at = |file: &str, line| Some((file.to_owned(), line));
        assert_eq!(
            parse("#\t0x4d\tmain.(*List[...]).Add+0x1c\t\t/src/a b/main.go:17", true),
            Some((Some(0x4d), "main.(*List[...]).Add".to_owned(), at("/src/a b/main.go", 17)))
        );
        assert_eq!(parse("#\t\tinner(int)\ta.c:3", false), Some((None, "inner(int)".to_owned(), at("a.c", 3))));
        assert_eq!(parse("#\t0x4d\tapp+0x12\t/bin/app", false), None);
        assert_eq!(parse("# runtime.MemStats", true), None);
        assert_eq!(parse("#\t0x4d", true), None);
    }
}
