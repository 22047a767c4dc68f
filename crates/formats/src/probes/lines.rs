//! Lines of such a text: what an event begins with, and frames.

use std::sync::LazyLock;

use regex::Regex;

use crate::input::hexadecimal;
use mallow_report::names::without_offset;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// The probes of Mallow and of libpoireau.
    Mallow,
    OpenTelemetry,
}

/// The line that an event begins with.
pub struct Header<'a> {
    /// None where the text has none.
    pub pid: Option<u32>,
    pub tid: u32,
    pub comm: &'a str,
    /// Nanoseconds of the text's clock.
    pub at_ns: u64,
    pub provider: Provider,
    pub event: &'a str,
    pub arguments: &'a str,
}

/// `redis-server  4711/4712 [001]  17.602282: sdt_mallow:malloc: (7f5c3d00) arg1=362`: perf script, and
/// examples/probes.bt.
static SCRIPT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^\s*(\S.*?)\s+(?:(\d+)/)?(\d+)\s+(?:\[\d+\]\s+)?(\d+)\.(\d{1,9}):\s+(?:\d+\s+)?(?:sdt_)?(mallow|libpoireau|otel_memory):(\w+):\s*(.*)$").ok()
});

/// `17602.282 redis-server/4711 sdt_mallow:malloc(__probe_ip: 140369, arg1: 362)`: perf trace, whose times are
/// milliseconds.
static TRACE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^\s*(\d+)\.(\d{1,6})\s+(?:\([^)]*\):?\s+)?(\S.*?)/(\d+)\s+(?:sdt_)?(mallow|libpoireau|otel_memory):(\w+)\((.*)\)$").ok()
});

/// None for a line that begins no event.
pub fn header(text: &str) -> Option<Header<'_>> {
    // Most lines are frames.
    if !names_a_probe(text) {
        return None;
    }
    let provider = |name: &str| if name == "otel_memory" { Provider::OpenTelemetry } else { Provider::Mallow };
    if let Some(found) = SCRIPT.as_ref().and_then(|script| script.captures(text)) {
        let part = |at: usize| found.get(at).map_or("", |part| part.as_str());
        return Some(Header {
            pid: found.get(2).and_then(|pid| pid.as_str().parse().ok()),
            tid: part(3).parse().ok()?,
            comm: part(1),
            at_ns: nanoseconds(part(4), part(5), 1_000_000_000, 9)?,
            provider: provider(part(6)),
            event: found.get(7)?.as_str(),
            arguments: found.get(8)?.as_str(),
        });
    }
    let found = TRACE.as_ref()?.captures(text)?;
    let part = |at: usize| found.get(at).map_or("", |part| part.as_str());
    Some(Header {
        pid: None,
        tid: part(4).parse().ok()?,
        comm: found.get(3)?.as_str(),
        at_ns: nanoseconds(part(1), part(2), 1_000_000, 6)?,
        provider: provider(part(5)),
        event: found.get(6)?.as_str(),
        arguments: found.get(7)?.as_str(),
    })
}

/// Whether the line may be an event.
pub fn names_a_probe(text: &str) -> bool {
    ["mallow:", "libpoireau:", "otel_memory:"].iter().any(|provider| text.contains(provider))
}

/// Nanoseconds of `whole.fraction` units, each of `unit` nanoseconds, which is 10^`digits`.
fn nanoseconds(whole: &str, fraction: &str, unit: u64, digits: u32) -> Option<u64> {
    let missing = 10u64.checked_pow(digits.checked_sub(fraction.len() as u32)?)?;
    whole.parse::<u64>().ok()?.checked_mul(unit)?.checked_add(fraction.parse::<u64>().ok()?.checked_mul(missing)?)
}

/// The values of `arg1`, `arg2`, … in their order; none of them where one is missing or no number.
pub fn arguments(text: &str) -> Vec<u64> {
    let mut values = Vec::new();
    for word in text.split([' ', ',']).filter(|word| !word.is_empty()).collect::<Vec<_>>().windows(2) {
        // perf trace: `arg1: 362`.
        if argument_number(word[0].strip_suffix(':').unwrap_or_default()) == Some(values.len() + 1) {
            values.extend(number(word[1]));
        }
    }
    for word in text.split([' ', ',']) {
        // perf script: `arg1=362`.
        if let Some((name, value)) = word.split_once('=')
            && argument_number(name) == Some(values.len() + 1)
        {
            values.extend(number(value));
        }
    }
    values
}

fn argument_number(name: &str) -> Option<usize> {
    name.strip_prefix("arg")?.parse().ok()
}

/// Reads a number as perf prints it, with a sign where it takes the value for signed.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => hexadecimal(digits.as_bytes()),
        None => text.parse().ok().or_else(|| text.parse::<i64>().ok().map(|value| value as u64)),
    }
}

/// Removes the number that perf adds to an event which a program has in several places: `malloc_1`, `malloc_2`.
pub fn without_number(event: &str) -> &str {
    match event.rsplit_once('_') {
        Some((name, digits)) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => event,
    }
}

/// The period under which a block of `size` bytes stands for `weighted`: `weighted = size / (1 - exp(-size / period))`.
pub fn period_of(size: u64, weighted: u64) -> u64 {
    if weighted <= size {
        return 1;
    }
    let size = size as f64;
    (-size / (-size / weighted as f64).ln_1p()).round().max(1.0) as u64
}

pub struct Named<'a> {
    /// Address of the frame; 0 where it was not printed.
    pub address: u64,
    pub function: Option<&'a str>,
    pub module: &'a str,
}

/// Reads `7f5c3d00 malloc+0x20 (/usr/lib/libc.so.6)`, which has no address in perf trace.
pub fn frame(text: &str) -> Option<Named<'_>> {
    if !text.starts_with([' ', '\t']) {
        return None;
    }
    let (rest, module) = text.trim().strip_suffix(')')?.rsplit_once(" (")?;
    let (address, function) = match rest.split_once(' ') {
        Some((first, rest)) if hexadecimal(first.as_bytes()).is_some() => (hexadecimal(first.as_bytes())?, rest.trim()),
        _ => (0, rest.trim()),
    };
    // perf trace numbers what has no name: `[0] ([unknown])`.
    let nameless = function.is_empty() || function.starts_with('[') || function.starts_with("0x");
    Some(Named { address, function: (!nameless).then(|| without_offset(function)), module })
}
