//! Writing: a gzipped profile, as Go writes one.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use mallow_profile::{Counts, FrameId, Profile, Quantity};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use rustc_hash::FxHashMap;

use super::earlier::Earlier;
use super::kinds::{CALLS, COMMAND, INCOMPLETE, Kind, WRITTEN, label};
use super::messages::{Function, Label, Line, Location, Mapping, Sample, ValueType, field};
use super::precision_labels;
use crate::frames::{functions, program};

/// The quantities that a written profile has. Frees follow from allocations and what was live at the end.
pub fn carries() -> Vec<Quantity> {
    let mut quantities: Vec<Quantity> = WRITTEN.iter().map(|(_, _, kind)| kind.quantity).collect();
    quantities.extend([Quantity::Frees, Quantity::FreedBytes, Quantity::Processes, Quantity::Started]);
    quantities
}

#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Name of the sample type that readers show first.
    pub shown_first: &'a str,
    /// Whether functions have names, files and lines. Otherwise readers look them up, by address and build id.
    pub names: bool,
    /// An earlier state of the same profile: values are what changed since, and may be below 0.
    pub since: Option<&'a Profile>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self { shown_first: "alloc_space", names: true, since: None }
    }
}

/// Writes a profile. Processes are distinguished by the labels `pid` and `process`.
pub fn write(profile: &Profile, out: impl Write) -> io::Result<()> {
    write_as(profile, &Options::default(), out)
}

pub fn write_as(profile: &Profile, options: &Options<'_>, out: impl Write) -> io::Result<()> {
    let mut writer = Writer {
        options,
        out: GzEncoder::new(out, Compression::default()),
        buffer: Vec::new(),
        strings: FxHashMap::default(),
        functions: FxHashMap::default(),
        locations: vec![0; profile.frames.len()],
        written: 0,
        profile,
    };
    writer.all()?;
    writer.flush(0)?;
    writer.out.finish()?.flush()
}

struct Writer<'p, W: Write> {
    out: GzEncoder<W>,
    buffer: Vec<u8>,
    /// By string, its number; strings are written as they come up.
    strings: FxHashMap<String, i64>,
    functions: FxHashMap<(i64, i64), u64>,
    /// By frame, the number of its location; 0 where it is not written yet.
    locations: Vec<u64>,
    /// Number of locations so far. Locations, functions and mappings are numbered 1, 2, 3 …: the format leaves that
    /// free, and Parca wants it so.
    written: u64,
    profile: &'p Profile,
    options: &'p Options<'p>,
}

impl<W: Write> Writer<'_, W> {
    fn all(&mut self) -> io::Result<()> {
        let profile = self.profile;
        // Number 0 is the empty one.
        self.string("");
        let kinds: Vec<(&str, &str, &Kind)> = WRITTEN
            .iter()
            .filter(|(_, _, kind)| profile.has(kind.quantity))
            .map(|(name, unit, kind)| (*name, *unit, kind))
            .collect();
        for (name, unit, _) in &kinds {
            let kind = ValueType { r#type: self.string(name), unit: self.string(unit) };
            self.message(field::SAMPLE_TYPE, &kind);
        }
        for (index, module) in profile.modules.iter().enumerate() {
            let build_id: String = module.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
            let mapping = Mapping {
                id: index as u64 + 1,
                // A mapping of all memory: addresses are those of the file already.
                memory_start: 0,
                memory_limit: u64::MAX,
                file_offset: 0,
                filename: self.string(&module.path),
                build_id: self.string(&build_id),
                has_functions: self.options.names,
                has_filenames: self.options.names,
                has_line_numbers: self.options.names,
                has_inline_frames: self.options.names,
            };
            self.message(field::MAPPING, &mapping);
        }
        let labels = profile.processes.iter().map(|process| {
            let mut labels = Vec::new();
            if !profile.has(Quantity::Processes) {
                return labels;
            }
            if process.pid > 0 {
                labels.push(Label { key: self.string(label::PID), num: process.pid.into(), ..Label::default() });
            }
            for (key, text) in [(label::PROCESS, program(process)), (label::SOURCE, &process.source)] {
                if !text.is_empty() {
                    labels.push(Label { key: self.string(key), str: self.string(text), ..Label::default() });
                }
            }
            labels
        });
        let labels: Vec<_> = labels.collect();
        let mut before = self.options.since.map(Earlier::of).unwrap_or_default();
        let gone = before.without_site(profile);
        let nothing = Counts::default();
        let now = profile.sites.iter().map(|site| (site.process, site.stack, site.counts, site.precisions.as_deref()));
        // Of what changed within one process they say nothing: its two moments have samples in common.
        let has_precisions = self.options.since.is_none() && profile.sites.iter().any(|site| site.precisions.is_some());
        let keys = if has_precisions { precision_labels::KEYS.map(|key| self.string(key)) } else { [0; 4] };
        for (process, stack, mut counts, precisions) in
            now.chain(gone.into_iter().map(|(process, stack)| (process, stack, nothing, None)))
        {
            let mut earlier = before.take(profile, process, stack);
            let number = |kind: &Kind, counts: &mut Counts| i64::try_from(*(kind.field)(counts)).unwrap_or(i64::MAX);
            let value: Vec<i64> = kinds
                .iter()
                .map(|(_, _, kind)| number(kind, &mut counts).saturating_sub(number(kind, &mut earlier)))
                .collect();
            if value.iter().all(|value| *value == 0) {
                continue;
            }
            let location_id = profile.stacks.frames(stack).filter_map(|frame| self.location(frame)).collect();
            let mut label = labels.get(process.0 as usize).cloned().unwrap_or_default();
            if profile.stacks.is_cut(stack) {
                label.push(Label { key: self.string(label::CUT), num: 1, ..Label::default() });
            }
            if let Some(precisions) = precisions.filter(|_| has_precisions) {
                precision_labels::write(precisions, &keys, &mut label);
            }
            self.message(field::SAMPLE, &Sample { location_id, value, label });
            self.flush(1 << 16)?;
        }
        let nanos = |ms: u64| ms.saturating_mul(1_000_000);
        let earlier_ms = self.options.since.map_or(0, |since| since.duration_ms);
        self.number(field::TIME_NANOS, nanos(profile.started_unix_ms.saturating_add(earlier_ms)));
        if profile.has(Quantity::Times) {
            self.number(field::DURATION_NANOS, nanos(profile.duration_ms.saturating_sub(earlier_ms)));
        }
        if let Some(period) = profile.origin.as_ref().and_then(|origin| origin.sampled_bytes) {
            let kind = ValueType { r#type: self.string("space"), unit: self.string("bytes") };
            self.message(field::PERIOD_TYPE, &kind);
            self.number(field::PERIOD, period);
        }
        if profile.has(Quantity::AllocatedBytes) {
            let default = self.string(self.options.shown_first);
            self.number(field::DEFAULT_SAMPLE_TYPE, default as u64);
        }
        let calls = self.string(CALLS);
        self.number(field::COMMENT, calls as u64);
        if !profile.command.is_empty() {
            let command = self.string(&format!("{COMMAND}{}", profile.command.join(" ")));
            self.number(field::COMMENT, command as u64);
        }
        for sentence in &profile.unrecorded {
            let sentence = self.string(&format!("{INCOMPLETE}{sentence}"));
            self.number(field::COMMENT, sentence as u64);
        }
        Ok(())
    }

    /// The number of a frame's location, which is written when it comes up first.
    fn location(&mut self, frame: FrameId) -> Option<u64> {
        let index = frame.0 as usize;
        let raw = self.profile.frames.get(index)?;
        let known = self.locations.get(index).copied().filter(|&id| id != 0);
        if known.is_some() {
            return known;
        }
        let mut line = Vec::new();
        if self.options.names && !raw.lines.is_empty() {
            for function in functions(self.profile, frame) {
                let key = (self.string(&function.name), self.string(function.file.unwrap_or_default()));
                let next = self.functions.len() as u64 + 1;
                let id = *self.functions.entry(key).or_insert(next);
                if id == next {
                    let function = Function { id, name: key.0, system_name: key.0, filename: key.1, start_line: 0 };
                    self.message(field::FUNCTION, &function);
                }
                line.push(Line { function_id: id, line: function.line.into() });
            }
        }
        self.written += 1;
        self.locations[index] = self.written;
        let location = Location {
            id: self.written,
            mapping_id: raw.module.map_or(0, |module| u64::from(module.0) + 1),
            // The address of the call, not that behind it.
            address: raw.address.saturating_sub(u64::from(!raw.exact)),
            line,
        };
        self.message(field::LOCATION, &location);
        Some(self.written)
    }

    fn string(&mut self, text: &str) -> i64 {
        if let Some(&index) = self.strings.get(text) {
            return index;
        }
        let index = self.strings.len() as i64;
        self.strings.insert(text.to_owned(), index);
        encode_key(field::STRING_TABLE, WireType::LengthDelimited, &mut self.buffer);
        encode_varint(text.len() as u64, &mut self.buffer);
        self.buffer.extend_from_slice(text.as_bytes());
        index
    }

    fn message(&mut self, number: u32, message: &impl Message) {
        encode_key(number, WireType::LengthDelimited, &mut self.buffer);
        encode_varint(message.encoded_len() as u64, &mut self.buffer);
        message.encode_raw(&mut self.buffer);
    }

    fn number(&mut self, number: u32, value: u64) {
        encode_key(number, WireType::Varint, &mut self.buffer);
        encode_varint(value, &mut self.buffer);
    }

    /// Passes on what is in the buffer, once it has more bytes than `more_than`.
    fn flush(&mut self, more_than: usize) -> io::Result<()> {
        if self.buffer.len() > more_than {
            self.out.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }
}
