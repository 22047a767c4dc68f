//! The probes of `otel_memory` beside the contract of OpenTelemetry's memory profiling (opentelemetry-ebpf-profiler,
//! design-docs/00003-memory-profiling): `alloc(user, size, w)` of a sampled allocation, `free(ptr)` of a block that was
//! sampled.

use std::collections::HashMap;
use std::process::Command;

use harness::{Case, directory, not_run, tool};

use crate::bpftrace::{Tracer, preloaded_library};

/// A probe as the note in the library describes it.
#[derive(Debug)]
struct Note {
    name: String,
    semaphore: u64,
    arguments: Vec<String>,
}

/// Those of the provider, read by binutils.
fn notes(library: &str) -> Vec<Note> {
    let read = Command::new(tool("readelf")).args(["-n", library]).output().expect("readelf");
    let text = String::from_utf8_lossy(&read.stdout).into_owned();
    let mut lines = text.lines().map(str::trim);
    let mut notes = Vec::new();
    while let Some(line) = lines.next() {
        if line != "Provider: otel_memory" {
            continue;
        }
        let mut field =
            |name: &str| lines.next().and_then(|line| line.strip_prefix(name)).expect(name).trim().to_owned();
        let (name, place, arguments) = (field("Name:"), field("Location:"), field("Arguments:"));
        let semaphore = place.rsplit_once("Semaphore: 0x").expect("a semaphore").1;
        let semaphore = u64::from_str_radix(semaphore, 16).expect("an address");
        notes.push(Note { name, semaphore, arguments: arguments.split(' ').map(str::to_owned).collect() });
    }
    notes
}

/// Writable memory of the library, by its addresses.
fn writable(library: &str) -> Vec<std::ops::Range<u64>> {
    let read = Command::new(tool("readelf")).args(["-lW", library]).output().expect("readelf");
    let text = String::from_utf8_lossy(&read.stdout).into_owned();
    let segments = text.lines().filter(|line| line.trim_start().starts_with("LOAD") && line.contains(" RW "));
    let hex = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).expect("a number");
    let range = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        hex(words[2])..hex(words[2]) + hex(words[5])
    };
    segments.map(range).collect()
}

/// What a profiler needs that discovers probes by `.note.stapsdt`: each at one place, its arguments of 8 bytes, and a
/// semaphore to count up.
#[test]
fn notes_describe_the_probes_of_the_contract() {
    let place = directory();
    let library = preloaded_library(place.path());
    let notes = notes(&library);
    let mut names: Vec<(&str, usize)> = notes.iter().map(|note| (note.name.as_str(), note.arguments.len())).collect();
    names.sort_unstable();
    assert_eq!(names, [("alloc", 3), ("free", 1)], "{notes:?}");
    let writable = writable(&library);
    for note in &notes {
        assert!(note.arguments.iter().all(|argument| argument.starts_with("8@")), "unsigned, 8 bytes each: {note:?}");
        assert!(writable.iter().any(|segment| segment.contains(&note.semaphore)), "{note:?} {writable:x?}");
    }
}

#[test]
fn a_profiler_of_another_kind_gets_what_the_contract_says() {
    const TEST: &str = "a_profiler_of_another_kind_gets_what_the_contract_says";
    const BLOCKS: u64 = 20_000;
    const SIZE: u64 = 200;
    const LARGE: u64 = 1 << 20;
    // Of sampled cases.
    const PERIOD: u64 = 4096;
    let place = directory();
    let library = preloaded_library(place.path());
    let script = format!(
        "usdt:{library}:otel_memory:alloc {{ printf(\"A %d %llx %llu %llu\\n\", pid, arg0, arg1, arg2); }} \
         usdt:{library}:otel_memory:free {{ printf(\"F %d %llx\\n\", pid, arg0); }}"
    );
    let tracer = match Tracer::start(place.path(), &script) {
        Ok(tracer) => tracer,
        Err(why) => return not_run(TEST, &why),
    };
    let sampled = Case::target("hoard").args([&BLOCKS.to_string(), &SIZE.to_string(), "free"]).sampled();
    let text = tracer.end();
    let pid = sampled.outcome.pid.to_string();
    let mut live: HashMap<&str, (u64, u64)> = HashMap::new();
    let (mut allocations, mut frees, mut weights, mut large) = (0, 0, 0, 0);
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        match words[..] {
            ["A", of, block, _, _] if of == pid => {
                let (size, weight) = (number(3), number(4));
                // One sample stands for so many bytes: on average, the sum over samples is the bytes allocated.
                let expected = size as f64 / -(-(size as f64) / PERIOD as f64).exp_m1();
                assert!((weight as f64 - expected).abs() <= 1.0, "{line}: {expected}");
                assert!(live.insert(block, (size, weight)).is_none(), "{line}: it is live already");
                allocations += 1;
                weights += if size == SIZE { weight } else { 0 };
                large += u64::from(size == LARGE);
            }
            ["F", of, block] if of == pid => {
                let (size, _) =
                    live.remove(block).unwrap_or_else(|| panic!("{line}: it was not sampled, or freed twice"));
                assert_eq!(size, SIZE, "the others stay");
                frees += 1;
            }
            _ => {}
        }
    }
    assert_eq!(allocations, sampled.samples, "each sample, and nothing else: {text}");
    assert_eq!(large, 10, "a block of many periods is always sampled");
    assert!(live.values().all(|(size, _)| *size != SIZE), "all of these were freed: {live:?}");
    // 980 samples on average; five standard deviations.
    let (truth, far) = ((BLOCKS * SIZE) as f64, 5.0 * (BLOCKS as f64 * SIZE as f64 * PERIOD as f64).sqrt());
    assert!((weights as f64 - truth).abs() < far, "{weights} of {truth}, {frees} frees");
}
