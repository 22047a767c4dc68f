//! How fast rings are replayed and written: CPU time per event, and bytes of the file per event.
//!
//! `replay_speed [FILE…]`: each FILE holds the words of one ring (`preload/base/wire.h`), little-endian. Without files,
//! a made-up program: loops over a few hundred stacks, most blocks short-lived, a million live at the end.

use mallow_capture::accounts::{EventSink, Options};
use mallow_capture::chunk::{Chunk, ProcessStart};
use mallow_capture::recording::{Choice, Reader, Writer};
use mallow_capture::replay::{End, Replay};
use mallow_capture::wire::record;
use mallow_profile::Profile;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Words of one chunk: what a drain finds in a ring at a time.
const CHUNK: usize = 1 << 14;

fn main() -> io::Result<()> {
    let files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() {
        return measure("made up", &made_up(5_000_000));
    }
    for file in files {
        let bytes = std::fs::read(&file)?;
        let word = |chunk: &[u8]| u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| chunk[i]));
        measure(&file, &bytes.chunks_exact(8).map(word).collect::<Vec<u64>>())?;
    }
    Ok(())
}

fn measure(name: &str, words: &[u64]) -> io::Result<()> {
    let directory = std::env::temp_dir().join(format!("replay_speed-{}.mallow", std::process::id()));
    let path: &Path = &directory;

    let start = cpu();
    let (profile, _) = replay(words, ())?;
    let alone = cpu() - start;

    let start = cpu();
    let (_, writer) = replay(words, Writer::create(path, &Options::default())?)?;
    let written = cpu() - start;
    writer.finish(&profile)?;
    let finished = cpu() - start - written;
    let bytes = std::fs::metadata(path)?.len();

    let start = cpu();
    let (mut reader, again) = Reader::open(path, &mut |_| {}).map_err(io::Error::other)?;
    let reading = cpu() - start;
    assert_eq!(again.totals, profile.totals);
    let start = cpu();
    let mut count = 0u64;
    reader.visit(&mut Choice::all(&again), &mut |_| {}, |_, _| count += 1).map_err(io::Error::other)?;
    let decoding = cpu() - start;
    std::fs::remove_file(path)?;

    let all = profile.totals.allocations + profile.processes.iter().map(|p| p.families.all_frees()).sum::<u64>();
    let each = |time: Duration| time.as_nanos() as f64 / all as f64;
    println!(
        "{name}: {all} events, {} sites, {} stacks, {} live",
        profile.sites.len(),
        profile.stacks.len(),
        profile.totals.live
    );
    println!(
        "  replayed {:.1} ns an event, replayed and written {:.1}; closed in {finished:.1?}",
        each(alone),
        each(written)
    );
    println!(
        "  {:.3} bytes an event; read in {reading:.1?}, {count} events decoded at {:.1} ns",
        bytes as f64 / all as f64,
        each(decoding)
    );
    Ok(())
}

fn replay<S: EventSink>(words: &[u64], sink: S) -> io::Result<(Profile, S)> {
    let mut replay = Replay::new(Options::default(), sink);
    replay.feed(&Chunk::Process(ProcessStart::default()))?;
    let (mut begin, mut at) = (0, 0);
    while at < words.len() {
        at += record::length(words[at]);
        if at - begin >= CHUNK || at >= words.len() {
            replay.feed(&Chunk::Words { process: 0, ring: 0, end: 0, words: &words[begin..at.min(words.len())] })?;
            replay.feed(&Chunk::Round { ms: 0 })?;
            begin = at;
        }
    }
    let (profile, sink) = replay.finish(End::default());
    Ok((profile, sink?))
}

fn made_up(allocations: u64) -> Vec<u64> {
    let mut words = vec![record::head(record::OP_THREAD, 0, 1)];
    let mut live: Vec<u64> = Vec::new();
    let mut cached: Vec<u64> = Vec::new();
    let (mut fresh, mut dice) = (0x5555_0000_0000u64, 1u64);
    for n in 0..allocations {
        dice = dice.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let stack = if n % 400 < 300 { n % 400 } else { (dice >> 33) % 400 };
        if n < 400 {
            // Twenty frames, four of them new.
            words.push(record::head(record::OP_STACK, 0, if n == 0 { 20 } else { 16 << 32 | 4 }));
            words.extend((0..if n == 0 { 20 } else { 4 }).map(|depth| 0x40_0000 + 64 * n + depth));
        }
        if n % 4000 == 0 {
            words.push(record::head(record::OP_TIME, 0, 1 + n / 4000));
        }
        let address = cached.pop().unwrap_or_else(|| {
            fresh += 48;
            fresh
        });
        let what = (16 + stack) << record::STACK_BITS | if n < 400 { n } else { stack };
        words.extend([record::head(record::OP_ALLOC, 0, address), what]);
        live.push(address);
        while dice >> 60 != 0 && (live.len() as u64) > n / 5 {
            let at = live.len() - 1 - (dice >> 40) as usize % live.len().min(30);
            let address = live.swap_remove(at);
            words.push(record::head(record::OP_FREE, 0, address));
            cached.push(address);
        }
    }
    words
}

fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
