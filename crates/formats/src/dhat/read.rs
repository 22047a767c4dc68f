//! DHAT's JSON, version 2, of valgrind and of the dhat crate.

use std::fmt;
use std::io::BufReader;

use mallow_profile::{Counts, Frame, Quantities, Quantity};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::builder::{Builder, DEPTH};
use crate::input::Input;
use crate::valgrind::Text;
use crate::{Addresses, At, Foreign, FormatError, InputFormat};

/// A program point: its numbers, and the range of its frames among those of all points.
struct Point {
    counts: Counts,
    frames: std::ops::Range<usize>,
}

/// The parts of a file that are read. Points come before the table of their frames.
#[derive(Default)]
struct File {
    version: Option<u64>,
    mode: String,
    lifetimes: bool,
    command: String,
    pid: u64,
    unit: String,
    end: u64,
    peak: u64,
    points: Vec<Point>,
    indexes: Vec<u32>,
    frames: Vec<String>,
}

pub fn read(input: Input) -> Result<Foreign, FormatError> {
    let mut file = File::default();
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(64 << 10, input));
    (&mut file).deserialize(&mut json).and_then(|()| json.end()).map_err(|error| match error.is_io() {
        true => FormatError::Io(error.into()),
        false => damaged(At::Line(error.line() as u64), error.to_string()),
    })?;
    if file.version != Some(2) {
        return Err(unusable("has another version than 2, the one that is known"));
    }
    if file.mode != "heap" {
        return Err(unusable("is of another mode than heap: run valgrind --tool=dhat --mode=heap"));
    }
    build(file)
}

fn damaged(at: At, what: impl Into<String>) -> FormatError {
    FormatError::Damaged { format: InputFormat::Dhat, at, what: what.into() }
}

fn unusable(what: &str) -> FormatError {
    FormatError::Unusable { format: InputFormat::Dhat, what: what.to_owned() }
}

fn build(file: File) -> Result<Foreign, FormatError> {
    let mut builder = Builder::new(InputFormat::Dhat);
    builder.read(4 * file.indexes.len());
    let frames: Vec<Text> = file.frames.iter().map(|text| Text::parse(text)).collect();
    let mut stack = Vec::new();
    for point in &file.points {
        stack.clear();
        let indexes = &file.indexes[point.frames.clone()];
        let mut at = 0;
        while at < indexes.len() && stack.len() <= DEPTH {
            let text = frame(&frames, indexes[at])?;
            // Functions that were put into one another have one address. The same frame again is a recursion.
            let mut length = 1;
            while at + length < indexes.len()
                && indexes[at + length] != indexes[at + length - 1]
                && text.address.is_some()
                && frame(&frames, indexes[at + length])?.address == text.address
            {
                length += 1;
            }
            let functions = &indexes[at..at + length];
            at += length;
            if text.address.is_none() && text.function == Some("[root]") {
                continue;
            }
            let lines = functions.iter().filter_map(|&index| frames[index as usize].to_line(&mut builder)).collect();
            let module = text.module.map(|path| builder.module(path));
            stack.push(builder.frame(Frame { lines, ..Frame::new(module, text.address.unwrap_or(0), true) }));
        }
        let site = builder.stack(stack.iter().copied())?;
        let Counts { allocations, allocated_bytes, .. } = point.counts;
        // A file that says that it has no lifetimes may have their numbers all the same.
        let without_lifetimes = Counts { allocations, allocated_bytes, ..Counts::default() };
        builder.add(site, if file.lifetimes { point.counts } else { without_lifetimes });
    }
    let mut quantities = vec![Quantity::Allocations, Quantity::AllocatedBytes];
    if file.lifetimes {
        quantities.extend([Quantity::Peak, Quantity::PeakBytes, Quantity::Live, Quantity::LiveBytes]);
        // valgrind counts instructions.
        if let Some(per_ms) = match file.unit.as_str() {
            "ms" => Some(1),
            "us" | "µs" => Some(1000),
            "ns" => Some(1_000_000),
            _ => None,
        } {
            quantities.push(Quantity::Times);
            builder.profile.duration_ms = file.end / per_ms;
            builder.profile.peak_ms = file.peak / per_ms;
        }
    }
    builder.profile.command.extend(Some(file.command).filter(|command| !command.is_empty()));
    builder.process.pid = u32::try_from(file.pid).unwrap_or(0);
    Ok(builder.finish(Quantities::of(&quantities).with(Quantity::Processes), None, Addresses::Opaque))
}

fn frame<'f, 'a>(frames: &'f [Text<'a>], index: u32) -> Result<&'f Text<'a>, FormatError> {
    frames.get(index as usize).ok_or_else(|| damaged(At::Somewhere, "a stack names a frame that there is not"))
}

/// A visitor that takes a JSON object apart, key by key, or an array, item by item.
struct Parts<F>(F);

impl<'de> DeserializeSeed<'de> for &mut File {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(Parts(self))
    }
}

impl<'de> Visitor<'de> for Parts<&mut File> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("a DHAT profile")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let file = self.0;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "dhatFileVersion" => file.version = Some(map.next_value()?),
                "mode" => file.mode = map.next_value()?,
                "bklt" => file.lifetimes = map.next_value()?,
                "cmd" => file.command = map.next_value()?,
                "pid" => file.pid = map.next_value()?,
                "tu" => file.unit = map.next_value()?,
                "te" => file.end = map.next_value()?,
                "tg" => file.peak = map.next_value()?,
                "pps" => map.next_value_seed(Points(file))?,
                "ftbl" => file.frames = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

struct Points<'f>(&'f mut File);

impl<'de> DeserializeSeed<'de> for Points<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Points<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("program points")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut points: A) -> Result<(), A::Error> {
        while points.next_element_seed(OnePoint(self.0))?.is_some() {}
        Ok(())
    }
}

struct OnePoint<'f>(&'f mut File);

impl<'de> DeserializeSeed<'de> for OnePoint<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for OnePoint<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("a program point")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let file = self.0;
        let mut counts = Counts::default();
        let first = file.indexes.len();
        let mut stacks = 0;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "tb" => counts.allocated_bytes = map.next_value()?,
                "tbk" => counts.allocations = map.next_value()?,
                "gb" => counts.peak_bytes = map.next_value()?,
                "gbk" => counts.peak = map.next_value()?,
                "eb" => counts.live_bytes = map.next_value()?,
                "ebk" => counts.live = map.next_value()?,
                "fs" => {
                    stacks += 1;
                    map.next_value_seed(Indexes(&mut file.indexes))?;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if stacks != 1 {
            return Err(A::Error::custom("a program point without a stack"));
        }
        file.points.push(Point { counts, frames: first..file.indexes.len() });
        Ok(())
    }
}

struct Indexes<'f>(&'f mut Vec<u32>);

impl<'de> DeserializeSeed<'de> for Indexes<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Indexes<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("indexes of frames")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut indexes: A) -> Result<(), A::Error> {
        while let Some(index) = indexes.next_element()? {
            self.0.push(index);
        }
        Ok(())
    }
}
