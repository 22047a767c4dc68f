//! Names addresses of a file, as `addr2line -fiCe FILE` does: `addresses FILE < addresses-in-hexadecimal`.

use std::io::{self, BufRead, Write};

use mallow_profile::{Frame, Module, ModuleId, Profile};
use mallow_symbols::{Options, Symbolizer};

fn main() -> io::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_default();
    let build_id = std::env::args().nth(2).unwrap_or_default();
    let byte = |pair: &[u8]| u8::from_str_radix(&String::from_utf8_lossy(pair), 16).unwrap_or(0);
    let build_id = build_id.as_bytes().chunks(2).map(byte).collect();
    let mut profile = Profile { modules: vec![Module { path, build_id }], ..Profile::default() };
    for line in io::stdin().lock().lines() {
        let line = line?;
        let Ok(address) = u64::from_str_radix(line.trim().trim_start_matches("0x"), 16) else { continue };
        profile.frames.push(Frame::new(Some(ModuleId(0)), address, true));
    }
    let summary = Symbolizer::new(Options::default()).symbolize_all(&mut profile);
    let mut out = io::BufWriter::new(io::stdout().lock());
    for frame in &profile.frames {
        writeln!(out, "{:#x}", frame.address)?;
        for line in &frame.lines {
            let file = line.file.map_or("??", |file| profile.strings.get(file));
            writeln!(out, "{}\n{}:{}", profile.strings.get(line.function), file, line.line)?;
        }
    }
    for module in &summary.modules {
        eprintln!("{module:?}");
    }
    Ok(())
}
