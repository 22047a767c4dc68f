//! The layout of a table file: the "unwind tables" part of `preload/base/wire.h`. Its rules are the processor's.

pub(super) use mallow_arch::rule::*;

pub const WIRE_VERSION: u32 = crate::wire::VERSION;
pub(super) const MAGIC: u32 = 0x544c_414d;
pub(super) const HEADER_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// The number behind the name, as C writes it.
    fn number(text: &str, name: &str) -> Option<u32> {
        let line = text.lines().find_map(|line| line.strip_prefix("#define ")?.strip_prefix(name))?;
        let value = line.split_whitespace().next()?.trim_end_matches('u');
        match value.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => value.parse().ok(),
        }
    }

    #[test]
    fn values_are_those_of_the_wire() {
        let path = format!("{}/../../preload/base/wire.h", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).expect("a header of the wire");
        assert_eq!(number(&text, "MALLOW_TABLE_MAGIC"), Some(MAGIC));
        assert_eq!(number(&text, "MALLOW_WIRE_VERSION"), Some(WIRE_VERSION));
    }
}
