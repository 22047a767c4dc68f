//! The files in memory, at the end of a heap profile as text.

use crate::FormatError;
use crate::input::{Lines, hexadecimal, name};

/// A mapping of a file in memory.
pub struct Map {
    pub start: u64,
    pub end: u64,
    pub offset: u64,
    pub path: String,
}

/// Reads lines as `/proc/PID/maps` has them. Mappings of no file are passed over.
pub fn read(lines: &mut Lines) -> Result<Vec<Map>, FormatError> {
    let mut maps = Vec::new();
    while let Some(line) = lines.next()? {
        let text = name(line);
        let mut words = text.split_ascii_whitespace();
        let range = words.next().and_then(|range| range.split_once('-'));
        let Some((start, end)) =
            range.and_then(|(a, b)| Some((hexadecimal(a.as_bytes())?, hexadecimal(b.as_bytes())?)))
        else {
            continue;
        };
        let Some(offset) = words.nth(1).and_then(|offset| hexadecimal(offset.as_bytes())) else { continue };
        // The path may have spaces.
        let Some(path) = text.find('/').map(|at| text[at..].to_owned()) else { continue };
        if start < end {
            maps.push(Map { start, end, offset, path });
        }
    }
    maps.sort_by_key(|map| map.start);
    Ok(maps)
}
