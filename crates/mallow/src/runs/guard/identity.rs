//! What stays the same of an error from run to run: a number for code scanning, a name for CI servers, and its class in
//! the CWE list.

use std::path::Path;

use mallow_report::analysis::{Frame, Stack};

use super::steps::OperationDocument;

/// FNV-1a, 64 bits: a function that other tools can compute, and that no release changes.
struct Fnv(u64);

impl Fnv {
    fn add(&mut self, text: &str) {
        // A byte that is in no UTF-8 ends each part.
        for byte in text.bytes().chain([0xff]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// A hash of an error's kind, its access, and the program's own frames in its stacks, by their functions and file
/// names: neither addresses and line numbers, threads nor times. 16 hexadecimal digits.
pub fn of(kind: &str, access: Option<&str>, steps: &[&OperationDocument]) -> String {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    hash.add(kind);
    hash.add(access.unwrap_or_default());
    for step in steps {
        hash.add("stack");
        for frame in step.stack.own() {
            hash.add(if has_name(frame) { &frame.function } else { "" });
            hash.add(base_name(frame.file.as_deref().or(frame.module.as_deref()).unwrap_or_default()));
        }
    }
    format!("{:016x}", hash.0)
}

/// The kind, and the innermost function of the program's own with its line: that of the error, or of the block.
pub fn name(kind: &str, steps: &[&OperationDocument]) -> String {
    let named = |stack: &Stack| stack.own().into_iter().find(|frame| has_name(frame) && !frame.looked_past).cloned();
    let Some(frame) = steps.iter().find_map(|step| named(&step.stack)) else { return kind.to_owned() };
    let place = match (&frame.file, frame.line, &frame.module) {
        (Some(file), Some(line), _) => format!(" ({}:{line})", base_name(file)),
        (Some(file), None, _) => format!(" ({})", base_name(file)),
        (None, _, Some(module)) => format!(" ({})", base_name(module)),
        (None, _, None) => String::new(),
    };
    format!("{kind} in {}{place}", frame.function)
}

/// Numbers of the Common Weakness Enumeration that an error of this kind is; none: it may be several.
pub fn weaknesses(kind: &str, access: Option<&str>) -> &'static [u16] {
    match (kind, access) {
        ("use-after-free", _) => &[416],
        ("overflow", Some("write")) | ("write-beside-block", _) => &[787],
        ("overflow", _) => &[125],
        ("underflow", Some("write")) => &[124],
        ("underflow", _) => &[127],
        ("wild-access", _) => &[823],
        ("double-free", _) => &[415],
        ("interior-free", _) => &[761],
        ("foreign-free", _) => &[590],
        ("leak", _) => &[401],
        ("mismatched-free", _) => &[762],
        _ => &[],
    }
}

/// CWE numbers of all errors of a kind.
pub fn weaknesses_of_kind(kind: &str) -> Vec<u16> {
    let mut all: Vec<u16> =
        [Some("read"), Some("write")].into_iter().flat_map(|access| weaknesses(kind, access)).copied().collect();
    all.dedup();
    all
}

/// Whether the frame has a function's name, and not an address.
fn has_name(frame: &Frame) -> bool {
    !frame.function.starts_with("0x") && !frame.function.is_empty()
}

fn base_name(path: &str) -> &str {
    Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or(path)
}
