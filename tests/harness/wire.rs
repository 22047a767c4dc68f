//! Where fields of the files in a run directory are, as a C compiler lays out `preload/base/wire.h`.

use std::collections::HashMap;
use std::ops::Range;
use std::process::Command;
use std::sync::OnceLock;

/// The bytes of `STRUCT.FIELD`, from the beginning of the struct on.
///
/// # Panics
/// For a field that `targets/wire_fields.c` does not list.
pub fn field(name: &str) -> Range<usize> {
    static FIELDS: OnceLock<HashMap<String, Range<usize>>> = OnceLock::new();
    FIELDS.get_or_init(fields).get(name).unwrap_or_else(|| panic!("targets/wire_fields.c lacks {name}")).clone()
}

/// The number in this field of a struct that begins at `start`; None past the end.
pub fn number(bytes: &[u8], start: usize, name: &str) -> Option<u64> {
    let Range { start: from, end } = field(name);
    let bytes = bytes.get(start.checked_add(from)?..start.checked_add(end)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn fields() -> HashMap<String, Range<usize>> {
    let include = format!("-I{}", crate::workspace().join("preload").display());
    let program = crate::program_as("wire_fields", "wire_fields", "cc", &[&include]);
    let output = Command::new(program).output().expect("wire_fields");
    let text = String::from_utf8(output.stdout).expect("text");
    let row = |line: &str| {
        let (name, numbers) = line.split_once(' ')?;
        let (offset, bytes) = numbers.split_once(' ')?;
        let offset: usize = offset.parse().ok()?;
        Some((name.to_owned(), offset..offset + bytes.parse::<usize>().ok()?))
    };
    text.lines().filter_map(row).collect()
}
