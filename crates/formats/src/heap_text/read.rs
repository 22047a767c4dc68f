//! Reading heap profiles as text: jemalloc's `heap_v2`, those of gperftools and of Go. Stacks are addresses; the end
//! says which files they lie in, as the kernel lists them.
//!
//! ```text
//! heap_v2/524288                                  heap profile: 15: 8937 [ 2571: 285639] @ heapprofile
//!   t*: 28: 56637 [0: 0]                             1: 4096 [ 1: 4096] @ 0x7f16842a2630 0x55a3d1efba62
//! @ 0x7f16842a2630 0x55a3d1efba62
//!   t*: 1: 1024 [0: 0]
//!   t0: 1: 1024 [0: 0]
//! ```

use super::maps;
use super::memprof;
use super::names::{SymbolTable, TABLE, comment};
use super::raw::Raw;
use super::write::LINK_TIME;
use crate::input::{Lines, decimal, name};
use crate::{Foreign, FormatError, InputFormat};

/// The format of a text that begins like this; the profile may be behind a table of symbols. None for any other text.
pub fn detect<'a>(mut lines: impl Iterator<Item = &'a [u8]>) -> Option<InputFormat> {
    let mut first = lines.next()?;
    if first.trim_ascii() == TABLE {
        let mut rest = lines.by_ref().skip_while(|line| line.trim_ascii() != b"---").skip(1);
        let head = rest.find(|line| !(line.is_empty() || line.starts_with(b"--- heap")));
        // Of a table that is longer than what is here, of what pprof makes and of php-memprof, the reader finds out.
        first = head.filter(|head| !head.starts_with(b"--- ")).unwrap_or(b"heap profile:");
    }
    if first.starts_with(b"heap_v2/") {
        return Some(InputFormat::Jemalloc);
    }
    if !first.starts_with(b"heap profile:") {
        return None;
    }
    let by_go = |line: &[u8]| line.starts_with(b"#\t0x") || line.starts_with(b"# runtime.MemStats");
    let go = first.windows(7).any(|part| part == b"@ heap/") && lines.any(by_go);
    Some(if go { InputFormat::GoText } else { InputFormat::Gperftools })
}

/// Reads a profile of any of these formats.
pub fn read(mut lines: Lines) -> Result<Foreign, FormatError> {
    let mut first = lines.next()?.unwrap_or_default().to_vec();
    let mut symbols = SymbolTable::default();
    if first.trim_ascii() == TABLE {
        symbols = SymbolTable::read(&mut lines)?;
        loop {
            let Some(line) = lines.next()? else { return Err(lines.damaged("no profile follows the symbols")) };
            if line.trim_ascii() == b"--- profile" {
                return memprof::read(lines, &symbols);
            }
            // `--- heap`
            if !(line.is_empty() || line.starts_with(b"---")) {
                first = line.to_vec();
                break;
            }
        }
    }
    match first.strip_prefix(b"heap_v2/") {
        Some(period) => {
            lines.set_format(InputFormat::Jemalloc);
            read_jemalloc(lines, period, symbols)
        }
        None => read_gperftools(lines, &first, symbols),
    }
}

/// Reads `1: 4096 [ 1: 4096]`, and returns what comes after it. Counts are None if one is below 0; all is None for
/// other text.
fn numbers(text: &[u8]) -> Option<(Option<[u64; 4]>, &[u8])> {
    let mut all = [0; 4];
    let mut negative = false;
    let mut rest = text;
    for (number, end) in all.iter_mut().zip(b":[:]") {
        rest = rest.trim_ascii_start();
        if let Some(digits) = rest.strip_prefix(b"-") {
            (negative, rest) = (true, digits);
        }
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        *number = decimal(&rest[..digits])?;
        rest = rest[digits..].trim_ascii_start().strip_prefix(&[*end])?;
    }
    Some(((!negative).then_some(all), rest))
}

fn read_jemalloc(mut lines: Lines, period: &[u8], symbols: SymbolTable) -> Result<Foreign, FormatError> {
    let Some(period) = decimal(period.trim_ascii()) else {
        return Err(lines.damaged("the sampling period is missing"));
    };
    let mut raw = Raw::new(&lines, period, symbols);
    // Before the first stack come the sums.
    let mut begun = false;
    loop {
        let Some(line) = lines.next()? else { return raw.finish(&[]) };
        raw.builder.read(line.len() + 1);
        let text = line.trim_ascii();
        if let Some(addresses) = text.strip_prefix(b"@") {
            begun = raw.begin(addresses)?;
            if !begun {
                return Err(lines.damaged("this is no stack of addresses"));
            }
        } else if let Some(counts) = text.strip_prefix(b"t*:") {
            let Some((Some(counts), _)) = numbers(counts) else { return Err(lines.damaged("these are no counts")) };
            if std::mem::take(&mut begun) {
                raw.count(counts);
            }
        } else if text == b"MAPPED_LIBRARIES:" {
            let maps = maps::read(&mut lines)?;
            return raw.finish(&maps);
        } else if !(text.is_empty() || text.starts_with(b"t")) {
            return Err(lines.damaged("this belongs to no heap profile"));
        }
    }
}

/// The sampling period in the head of a profile, in bytes; 1 where all allocations were recorded.
fn period(lines: &Lines, head: &[u8]) -> Result<u64, FormatError> {
    let head = head.strip_prefix(b"heap profile:").and_then(|head| {
        let (_, rest) = numbers(head)?;
        let kind = rest.trim_ascii_start().strip_prefix(b"@")?.trim_ascii();
        Some(name(kind).into_owned())
    });
    match head.as_deref().map(|head| head.split_once('/').unwrap_or((head, ""))) {
        Some(("heapprofile" | "heap", "")) => Ok(1),
        Some((kind @ ("heap_v2" | "heap" | "heapz_v2"), period)) => match (decimal(period.as_bytes()), kind) {
            // Go prints twice its rate, as the first tcmalloc did, and all readers halve it.
            (Some(period), "heap") => Ok(period / 2),
            (Some(period), _) => Ok(period),
            (None, _) => Err(lines.damaged("the sampling period is missing")),
        },
        Some((other, _)) => Err(lines.unusable(format!("counts {other}, not blocks of the heap"))),
        None => Err(lines.damaged("this is no head of a heap profile")),
    }
}

fn read_gperftools(mut lines: Lines, head: &[u8], symbols: SymbolTable) -> Result<Foreign, FormatError> {
    let mut raw = Raw::new(&lines, period(&lines, head)?, symbols);
    let go = lines.format() == InputFormat::GoText;
    let mut negative = 0u64;
    let maps = loop {
        let Some(line) = lines.next()? else { break Vec::new() };
        raw.builder.read(line.len() + 1);
        let text = line.trim_ascii();
        if text == b"MAPPED_LIBRARIES:" {
            break maps::read(&mut lines)?;
        }
        if text.starts_with(b"#") {
            if let Some((address, name)) = comment(text, go) {
                raw.name(address, name);
            }
            raw.link_time |= text == LINK_TIME.as_bytes();
            continue;
        }
        if text.is_empty() {
            continue;
        }
        let parsed =
            numbers(text).and_then(|(counts, rest)| Some((counts, rest.trim_ascii_start().strip_prefix(b"@")?)));
        let Some((counts, addresses)) = parsed else { return Err(lines.damaged("these are no counts with a stack")) };
        if !raw.begin(addresses)? {
            return Err(lines.damaged("this is no stack of addresses"));
        }
        match counts {
            Some(counts) => raw.count(counts),
            None => negative += 1,
        }
    };
    if negative > 0 {
        raw.builder.remarks.push(format!(
            "{negative} of its lines count fewer than 0 blocks, for mappings that were unmapped in parts: left out, as \
             google-pprof does"
        ));
    }
    raw.finish(&maps)
}
