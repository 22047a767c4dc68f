//! Reading: three passes over the bytes. Tables may come after what refers to them, so the first pass finds the
//! strings, functions and mappings, the second makes frames of locations, the third adds samples up.

use mallow_profile::{
    Counts, Frame, FrameId, Line, ModuleId, ProcessId, Quantities, Quantity, StackId, Stacks, StringId, add_precisions,
};
use prost::Message;
use rustc_hash::FxHashMap;

use super::chosen::SampleType;
use super::fields::{Field, Fields, Value, damaged, unusable};
use super::kinds::{CALLS, Kind};
use super::labels::Labels;
use super::messages::{self, Function, Location, Mapping, Values, field};
use super::tables::Tables;
use crate::builder::Builder;
use crate::input::Input;
use crate::{Addresses, Foreign, FormatError, InputFormat};

/// Whether a profile begins like this. Its fields have the numbers and types of one, and what is a message in them is
/// that message: text may look like fields for some bytes.
pub fn looks_like(head: &[u8]) -> bool {
    let mut fields = Fields::of(head);
    let mut seen = 0;
    loop {
        match fields.next() {
            // The head may end in the middle of a field, but then some were whole.
            Some(Err(_)) => return seen > 0 && fields.reaches_past_end(),
            Some(Ok(Field { number, value })) => {
                let fits = match (number, value) {
                    (field::SAMPLE_TYPE | field::PERIOD_TYPE, Value::Bytes(bytes)) => is_value_type(bytes),
                    (field::SAMPLE, Value::Bytes(bytes)) => Values::decode(bytes).is_ok(),
                    (field::MAPPING, Value::Bytes(bytes)) => Mapping::decode(bytes).is_ok(),
                    (field::LOCATION, Value::Bytes(bytes)) => Location::decode(bytes).is_ok(),
                    (field::FUNCTION, Value::Bytes(bytes)) => Function::decode(bytes).is_ok(),
                    (field::STRING_TABLE, Value::Bytes(_)) => true,
                    // Numbers, comments, and what a later version may add.
                    (7..=10 | 12 | 14, Value::Number(_)) | (13 | 15.., _) => seen > 0,
                    _ => false,
                };
                if !fits {
                    return false;
                }
                seen += 1;
            }
            None => return seen > 0,
        }
    }
}

fn is_value_type(bytes: &[u8]) -> bool {
    let mut fields = Fields::of(bytes);
    fields.all(|field| matches!(field, Ok(Field { number: 1 | 2, value: Value::Number(_) })))
}

/// Reads a profile: the values that are `chosen`, or else those whose names are known.
pub fn read(input: &mut Input, chosen: &[SampleType]) -> Result<Foreign, FormatError> {
    read_into(input, chosen, Builder::site_in)
}

/// Reads a profile, with a site for each sample.
pub fn read_samples(input: &mut Input) -> Result<Foreign, FormatError> {
    read_into(input, &[], Builder::new_site)
}

/// Reads a profile; `site` finds or makes the site of a sample.
fn read_into(
    input: &mut Input,
    chosen: &[SampleType],
    site: impl Fn(&mut Builder, ProcessId, StackId) -> usize,
) -> Result<Foreign, FormatError> {
    let bytes = input.whole(InputFormat::Pprof)?;
    let tables = Tables::read(&bytes)?;
    let kinds = tables.kinds(chosen)?;
    let mut builder = Builder::new(InputFormat::Pprof);
    builder.read(bytes.len());
    let mut locations = Locations::new(&tables, &mut builder);
    for field in Fields::of(&bytes) {
        let Field { number, value } = field?;
        if number == field::LOCATION {
            locations.add(value.bytes()?, &mut builder)?;
        }
    }
    let Locations { frames, offsets, named, .. } = locations;
    let mut labels = Labels::of(&tables.strings);
    let mut values = Values::default();
    for field in Fields::of(&bytes) {
        let Field { number, value } = field?;
        if number == field::SAMPLE {
            values.clear();
            values.merge(value.bytes()?).map_err(|e| damaged(&bytes, value.start(), &e.to_string()))?;
            if values.value.len() != kinds.len() {
                let what = format!("a sample has {} values, and the profile {} types", values.value.len(), kinds.len());
                return Err(damaged(&bytes, value.start(), &what));
            }
            let counts = count(&values.value, &kinds)?;
            let ids = values.location_id.iter().filter_map(|id| frames.get(id)).copied();
            let known = ids.clone().count();
            if known < values.location_id.len() {
                return Err(damaged(&bytes, value.start(), "a sample names a location that there is not"));
            }
            let (process, root, precisions) = match &mut labels {
                None => (ProcessId(0), Stacks::ROOT, None),
                Some(labels) => labels.read(value.bytes()?, &tables, &mut builder)?,
            };
            let stack = builder.stack_on(root, ids)?;
            let site = site(&mut builder, process, stack);
            builder.profile.sites[site].counts += counts;
            add_precisions(&mut builder.profile.sites[site].precisions, precisions.as_ref());
        }
    }
    let mut quantities = Quantities::of(&kinds.iter().flatten().map(|kind| kind.quantity).collect::<Vec<_>>());
    if labels.is_some_and(|labels| labels.name_processes()) {
        quantities = quantities.with(Quantity::Processes);
    }
    builder.profile.started_unix_ms = u64::try_from(tables.time_nanos).unwrap_or(0) / 1_000_000;
    if let Some(nanos) = u64::try_from(tables.duration_nanos).ok().filter(|&nanos| nanos > 0) {
        builder.profile.duration_ms = nanos / 1_000_000;
    }
    // Mallow's own say what the command was; of others it is known what they had loaded first.
    match (tables.command(), tables.mappings.first()) {
        (Some(command), _) => builder.profile.command.push(command),
        (None, Some(mapping)) => {
            let path = tables.text(mapping.filename).into_owned();
            builder.process.executable.clone_from(&path);
            builder.profile.command.extend(Some(path).filter(|path| !path.is_empty()));
        }
        (None, None) => {}
    }
    builder.profile.unrecorded.extend(tables.incomplete());
    if !chosen.is_empty() {
        builder.remarks.push(format!("reading {}", tables.read_as(&kinds).join(", ")));
    }
    let lost = tables.other_kinds(&kinds);
    if !lost.is_empty() {
        let why = if chosen.is_empty() { "are no counts of allocations: they are" } else { "are not chosen, and" };
        builder.remarks.push(format!("its {} {why} left out", lost.join(", ")));
    }
    let addresses = match (named, offsets) {
        (true, _) => Addresses::Opaque,
        (false, true) => Addresses::FileOffsets,
        (false, false) => Addresses::LinkTime,
    };
    Ok(builder.finish(quantities, tables.sampled_bytes(), addresses))
}

fn count(values: &[i64], kinds: &[Option<&'static Kind>]) -> Result<Counts, FormatError> {
    let mut counts = Counts::default();
    for (&value, kind) in values.iter().zip(kinds) {
        let Some(kind) = kind else { continue };
        let Ok(value) = u64::try_from(value) else {
            return Err(unusable("holds negative numbers: it is the difference of two profiles. Compare those"));
        };
        let field = (kind.field)(&mut counts);
        *field = field.saturating_add(value);
    }
    Ok(counts)
}

/// Frames by the ids of locations.
struct Locations<'t, 'a> {
    tables: &'t Tables<'a>,
    /// By the id of a mapping, its module and the distance from addresses in memory to those in the file.
    modules: FxHashMap<u64, (ModuleId, u64)>,
    strings: FxHashMap<i64, StringId>,
    frames: FxHashMap<u64, FrameId>,
    location: Location,
    /// Whether some addresses are offsets into files.
    offsets: bool,
    /// Whether Mallow wrote the profile, so that addresses are those of calls.
    calls: bool,
    /// Whether all locations have names.
    named: bool,
}

impl<'t, 'a> Locations<'t, 'a> {
    fn new(tables: &'t Tables<'a>, builder: &mut Builder) -> Self {
        let mut offsets = false;
        let mut modules = FxHashMap::default();
        for mapping in &tables.mappings {
            let path = tables.text(mapping.filename);
            if path.is_empty() {
                continue;
            }
            let build_id = unhex(&tables.text(mapping.build_id));
            // A mapping of all memory says that addresses are the file's own already.
            let whole = mapping.memory_start == 0 && mapping.file_offset == 0;
            offsets |= !whole;
            let shift = mapping.memory_start.wrapping_sub(mapping.file_offset);
            let module = if build_id.is_empty() { builder.module(&path) } else { builder.add_module(&path, build_id) };
            modules.insert(mapping.id, (module, shift));
        }
        Self {
            tables,
            modules,
            strings: FxHashMap::default(),
            frames: FxHashMap::default(),
            location: Location::default(),
            offsets,
            calls: tables.comments.iter().any(|&index| tables.text(index) == CALLS),
            named: true,
        }
    }

    fn add(&mut self, bytes: &[u8], builder: &mut Builder) -> Result<(), FormatError> {
        self.location.clear();
        self.location.merge(bytes).map_err(|error| damaged(self.tables.all, bytes, &error.to_string()))?;
        let lines = std::mem::take(&mut self.location.line);
        let named: Vec<Line> = lines.iter().filter_map(|line| self.line(line, builder)).collect();
        self.location.line = lines;
        let module = self.modules.get(&self.location.mapping_id).copied();
        let address = match module {
            Some((_, shift)) => self.location.address.wrapping_sub(shift),
            None => self.location.address,
        };
        self.named &= !named.is_empty();
        let module = module.map(|(module, _)| module);
        // Its own writer's go back to what they were.
        let (address, exact) = if self.calls { (address.wrapping_add(1), false) } else { (address, true) };
        let frame = builder.add_frame(Frame { lines: named, ..Frame::new(module, address, exact) });
        self.frames.insert(self.location.id, frame);
        Ok(())
    }

    fn line(&mut self, line: &messages::Line, builder: &mut Builder) -> Option<Line> {
        let &(name, file) = self.tables.functions.get(&line.function_id)?;
        let function = self.string(name, builder)?;
        let file = self.string(file, builder);
        Some(Line { function, file, line: u32::try_from(line.line).unwrap_or(0) })
    }

    /// None for the empty string.
    fn string(&mut self, index: i64, builder: &mut Builder) -> Option<StringId> {
        if let Some(&id) = self.strings.get(&index) {
            return Some(id);
        }
        let text = self.tables.text(index);
        if text.is_empty() {
            return None;
        }
        let id = builder.profile.strings.intern(&text);
        self.strings.insert(index, id);
        Some(id)
    }
}

/// The bytes of an even number of hexadecimal digits; empty for other ids, such as Go's.
fn unhex(text: &str) -> Vec<u8> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    match digits {
        Some(digits) if digits.len() >= 16 && digits.len() % 2 == 0 => {
            digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
        }
        _ => Vec::new(),
    }
}
