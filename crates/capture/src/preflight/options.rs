//! Options that are compiled into a copy of an allocator: what its users need not set.

use super::families::JEMALLOC_NAME;
use std::collections::BTreeMap;

const OPTIONS: [&str; 3] = ["background_thread", "dirty_decay_ms", "muzzy_decay_ms"];

/// Options that the copy in this file has from its build (`--with-malloc-conf`) or from a variable of its program
/// (`malloc_conf`), as the environment would have them: a text of names and values that ends with a 0. Options with two
/// values in the file are left out. Empty: there are none.
pub fn options_of(allocator: &str, file: &[u8]) -> String {
    if allocator != JEMALLOC_NAME {
        return String::new();
    }
    let mut all: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    for name in OPTIONS {
        for at in memchr::memmem::find_iter(file, name) {
            let Some(value) = value(file, at, name.len()) else { continue };
            let known = all.entry(name).or_insert(Some(value));
            *known = known.filter(|known| *known == value);
        }
    }
    let known = all.into_iter().filter_map(|(name, value)| Some(format!("{name}:{}", value?)));
    known.collect::<Vec<_>>().join(",")
}

/// The value behind a name at this place, in a list that ends with a 0. None: it is another text, such as an example in
/// a message.
fn value(file: &[u8], at: usize, length: usize) -> Option<&str> {
    let is_of_list = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_:,-".contains(byte);
    let is_of_text = |byte: &u8| b"= \"'`".contains(byte);
    if at.checked_sub(1).and_then(|before| file.get(before)).is_some_and(is_of_text) {
        return None;
    }
    let rest = file.get(at + length..)?.strip_prefix(b":")?;
    let end = rest.iter().position(|byte| !is_of_list(byte)).filter(|&end| rest[end] == 0)?;
    let list = std::str::from_utf8(&rest[..end]).ok()?;
    list.split(',').next().filter(|value| !value.is_empty() && !value.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::options_of;

    #[test]
    fn a_copy_has_the_options_of_its_build() {
        let of = |file: &[u8]| options_of("jemalloc", file);
        assert_eq!(of(b"x\0background_thread:true\0y"), "background_thread:true");
        let list = b"percpu_arena:percpu,dirty_decay_ms:0,muzzy_decay_ms:-1,background_thread:true\0";
        assert_eq!(of(list), "background_thread:true,dirty_decay_ms:0,muzzy_decay_ms:-1");
        // Rust does not end texts with a 0: this one has it of its own, and what is before it has none.
        assert_eq!(of(b"not found.background_thread:true\0"), "background_thread:true");
        for none in [
            &b"background_thread\0dirty_decay_ms\0"[..],
            b"MALLOC_CONF=background_thread:true\0",
            b"use background_thread:true\0",
            b"background_thread:true to help\0",
            b"background_thread:true",
            b"background_thread:true\0background_thread:false\0",
            b"background_thread:\0",
        ] {
            assert_eq!(of(none), "", "{}", String::from_utf8_lossy(none));
        }
        assert_eq!(options_of("mimalloc", b"background_thread:true\0"), "");
    }
}
