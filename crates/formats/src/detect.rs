//! Which format a file has, by its first bytes.

use super::{FormatError, InputFormat, aggregation, folded, heap_text, heaptrack_print, input, massif, pprof, probes};

/// The format of a file that begins like this, unpacked.
pub fn detect(head: &[u8]) -> Result<InputFormat, FormatError> {
    if head.is_empty() {
        return Err(FormatError::Unknown(": it is empty"));
    }
    let lines = || head.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let first = lines().next().unwrap_or_default();
    let words: Vec<_> = first.split(|&byte| byte == b' ').collect();
    let heaptrack = matches!(words[..], [b"v", version, ..] if input::hexadecimal(version).is_some());
    let json = head.trim_ascii_start();
    if let Some(format) = heap_text::detect(lines()) {
        return Ok(format);
    }
    let tests: [(bool, InputFormat); 6] = [
        (heaptrack, InputFormat::Heaptrack),
        (json.starts_with(b"{") && contains(json, b"\"dhatFileVersion\""), InputFormat::Dhat),
        (massif::looks_like(lines()), InputFormat::Massif),
        (heaptrack_print::looks_like(lines()), InputFormat::HeaptrackPrint),
        (aggregation::looks_like_bpftrace(lines()), InputFormat::Bpftrace),
        (probes::looks_like(lines()), InputFormat::Probes),
    ];
    if let Some((_, format)) = tests.into_iter().find(|(is, _)| *is) {
        return Ok(format);
    }
    if pprof::looks_like(head) {
        return Ok(InputFormat::Pprof);
    }
    // The last line of the head may be half a line.
    let Some(end) = head.iter().rposition(|&byte| byte == b'\n') else { return one_line(head) };
    let whole = &head[..end];
    let lines = || whole.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    if folded::looks_like(lines()) {
        return Ok(InputFormat::Folded);
    }
    if aggregation::looks_like_dtrace(lines()) {
        return Ok(InputFormat::Dtrace);
    }
    Err(FormatError::Unknown(foreign_to_all(head)))
}

/// The format of a single line: a stack that is deeper than the head is long, or the only one.
fn one_line(head: &[u8]) -> Result<InputFormat, FormatError> {
    let frames = head.iter().filter(|&&byte| byte == b';').count();
    let text = !head.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t');
    match text && (folded::looks_like([head].into_iter()) || frames > 100) {
        true => Ok(InputFormat::Folded),
        false => Err(FormatError::Unknown(foreign_to_all(head))),
    }
}

/// A hint for files that people give by mistake; empty for all others.
fn foreign_to_all(head: &[u8]) -> &'static str {
    match head {
        [0x7f, b'E', b'L', b'F', ..] => ": it is a program; record it with mallow record",
        _ if head.starts_with(b"PERFILE2") => {
            ": it is perf's; fold its stacks first, or, of mallow's probes: perf script | mallow import -"
        }
        _ => "",
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
