//! A window as OpenTelemetry's profiles: one for each sample type, which share a dictionary.

use mallow_formats::functions;
use mallow_profile::{Counts, FrameId, Profile, StackId};
use prost::Message;
use rustc_hash::FxHashMap;

use super::ledger::Window;
use super::otlp_messages::{
    AnyValue, Attributed, Dictionary, ExportRequest, Function, KeyValue, KeyValueAndUnit, Line, Link, Location,
    Mapping, OneTypeProfile, ResourceProfiles, Sample, Scope, ScopeProfiles, Stack, ValueType, any_value,
};
use super::resource::{Resource, Value};

/// Path of the request, behind the address of a store.
pub const PATH: &str = "/v1development/profiles";

/// A sample type: its name and unit as Go has them, whether it is what happened within the window, and its number.
struct Type {
    name: &'static str,
    unit: &'static str,
    within: bool,
    of: fn(&Counts) -> u64,
}

/// Sample types, those first that readers look at first.
const TYPES: [Type; 4] = [
    Type { name: "inuse_space", unit: "bytes", within: false, of: |counts| counts.live_bytes },
    Type { name: "inuse_objects", unit: "count", within: false, of: |counts| counts.live },
    Type { name: "alloc_space", unit: "bytes", within: true, of: |counts| counts.allocated_bytes },
    Type { name: "alloc_objects", unit: "count", within: true, of: |counts| counts.allocations },
];

/// The message, not packed. `id`: 16 bytes that no other window has. `names`: with names of functions.
pub fn encode(profile: &Profile, window: &Window, resource: &Resource, id: [u8; 16], names: bool) -> Vec<u8> {
    let mut tables = Tables::new(profile, names);
    let stacks: Vec<i32> = window.sites.iter().map(|site| tables.stack(site.stack)).collect();
    let profiles = TYPES.iter().zip(0u8..).map(|(of, number)| {
        let samples = window.sites.iter().zip(&stacks).map(|(site, stack)| (stack, (of.of)(&site.counts)));
        let samples = samples.filter(|(_, value)| *value > 0).map(|(stack, value)| Sample {
            stack_index: *stack,
            values: vec![i64::try_from(value).unwrap_or(i64::MAX)],
        });
        let nanos = |ms: u64| ms.saturating_mul(1_000_000);
        // What is live is so at the end, and takes no time.
        let began_ms = if of.within { window.began_ms } else { window.ended_ms };
        let mut profile_id = id.to_vec();
        profile_id[15] ^= number;
        let period = profile.origin.as_ref().and_then(|origin| origin.sampled_bytes);
        OneTypeProfile {
            sample_type: Some(tables.value_type(of.name, of.unit)),
            samples: samples.collect(),
            time_unix_nano: nanos(began_ms),
            duration_nano: nanos(window.ended_ms.saturating_sub(began_ms)),
            period_type: period.map(|_| tables.value_type("space", "bytes")),
            period: period.and_then(|bytes| i64::try_from(bytes).ok()).unwrap_or(0),
            profile_id,
        }
    });
    let scope = Scope { name: "mallow".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let profiles = ScopeProfiles { scope: Some(scope), profiles: profiles.collect() };
    let attributes = resource.iter().map(|(key, value)| KeyValue { key: key.to_owned(), value: Some(any(value)) });
    let resource = Attributed { attributes: attributes.collect() };
    let of_process = ResourceProfiles { resource: Some(resource), scope_profiles: vec![profiles] };
    ExportRequest { resource_profiles: vec![of_process], dictionary: Some(tables.dictionary) }.encode_to_vec()
}

fn any(value: &Value) -> AnyValue {
    let value = match value {
        Value::Text(text) => any_value::Value::Text(text.clone()),
        Value::Number(number) => any_value::Value::Number(*number),
    };
    AnyValue { value: Some(value) }
}

/// The dictionary as it grows. Number 0 of each table stands for none.
struct Tables<'p> {
    profile: &'p Profile,
    names: bool,
    dictionary: Dictionary,
    strings: FxHashMap<String, i32>,
    functions: FxHashMap<Function, i32>,
    mappings: FxHashMap<u32, i32>,
    locations: FxHashMap<u32, i32>,
    stacks: FxHashMap<u32, i32>,
    /// The attribute of a location that says that it is machine code.
    native: i32,
}

impl<'p> Tables<'p> {
    fn new(profile: &'p Profile, names: bool) -> Self {
        let dictionary = Dictionary {
            mapping_table: vec![Mapping::default()],
            location_table: vec![Location::default()],
            function_table: vec![Function::default()],
            link_table: vec![Link::default()],
            string_table: vec![String::new()],
            attribute_table: vec![KeyValueAndUnit::default()],
            stack_table: vec![Stack::default()],
        };
        let mut tables = Self {
            profile,
            names,
            dictionary,
            strings: FxHashMap::from_iter([(String::new(), 0)]),
            functions: FxHashMap::default(),
            mappings: FxHashMap::default(),
            locations: FxHashMap::default(),
            stacks: FxHashMap::default(),
            native: 0,
        };
        tables.native = tables.attribute("profile.frame.type", "native");
        tables
    }

    fn string(&mut self, text: &str) -> i32 {
        if let Some(known) = self.strings.get(text) {
            return *known;
        }
        let number = push(&mut self.dictionary.string_table, text.to_owned());
        self.strings.insert(text.to_owned(), number);
        number
    }

    fn value_type(&mut self, name: &str, unit: &str) -> ValueType {
        ValueType { type_strindex: self.string(name), unit_strindex: self.string(unit) }
    }

    fn attribute(&mut self, key: &str, value: &str) -> i32 {
        let key_strindex = self.string(key);
        let value = Some(any(&Value::Text(value.to_owned())));
        push(&mut self.dictionary.attribute_table, KeyValueAndUnit { key_strindex, value })
    }

    fn stack(&mut self, stack: StackId) -> i32 {
        if let Some(known) = self.stacks.get(&stack.0) {
            return *known;
        }
        let profile = self.profile;
        let location_indices: Vec<i32> = profile.stacks.frames(stack).map(|frame| self.location(frame)).collect();
        let number = match location_indices.is_empty() {
            true => 0,
            false => push(&mut self.dictionary.stack_table, Stack { location_indices }),
        };
        self.stacks.insert(stack.0, number);
        number
    }

    fn location(&mut self, frame: FrameId) -> i32 {
        if let Some(known) = self.locations.get(&frame.0) {
            return *known;
        }
        let Some(raw) = self.profile.frames.get(frame.0 as usize) else { return 0 };
        let mapping_index = raw.module.map_or(0, |module| self.mapping(module.0));
        let mut lines = Vec::new();
        if self.names && !raw.lines.is_empty() {
            for function in functions(self.profile, frame) {
                let name_strindex = self.string(&function.name);
                let filename_strindex = self.string(function.file.unwrap_or_default());
                let key = Function { name_strindex, filename_strindex };
                let table = &mut self.dictionary.function_table;
                let function_index = *self.functions.entry(key.clone()).or_insert_with(|| push(table, key));
                lines.push(Line { function_index, line: function.line.into() });
            }
        }
        // The address of the call, not that behind it.
        let address = raw.address.saturating_sub(u64::from(!raw.exact));
        let attribute_indices = vec![self.native];
        let location = Location { mapping_index, address, lines, attribute_indices };
        let number = push(&mut self.dictionary.location_table, location);
        self.locations.insert(frame.0, number);
        number
    }

    fn mapping(&mut self, module: u32) -> i32 {
        if let Some(known) = self.mappings.get(&module) {
            return *known;
        }
        let Some(known) = self.profile.modules.get(module as usize) else { return 0 };
        let build_id: String = known.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        let attribute_indices = match build_id.is_empty() {
            true => Vec::new(),
            false => vec![self.attribute("process.executable.build_id.gnu", &build_id)],
        };
        let filename_strindex = self.string(&known.path);
        // A mapping of all memory: addresses are those of the file already.
        let mapping = Mapping { memory_start: 0, memory_limit: u64::MAX, filename_strindex, attribute_indices };
        let number = push(&mut self.dictionary.mapping_table, mapping);
        self.mappings.insert(module, number);
        number
    }
}

fn push<T>(table: &mut Vec<T>, entry: T) -> i32 {
    table.push(entry);
    i32::try_from(table.len() - 1).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use mallow_report::testing::parser;
    use prost::Message;

    use super::super::ledger::PushLedger;
    use super::super::otlp_messages::{Dictionary, ExportRequest};
    use super::super::resource::{ProcessFacts, Resource};
    use super::{TYPES, encode};

    fn encoded(names: bool) -> (ExportRequest, mallow_profile::Profile) {
        let profile = parser();
        let windows = PushLedger::default().windows(&profile, &|_| true);
        let facts = ProcessFacts { pid: 4711, executable: "/usr/bin/parser".to_owned(), ..ProcessFacts::default() };
        let bytes = encode(&profile, &windows[0], &Resource::of(&facts), [7; 16], names);
        (ExportRequest::decode(&bytes[..]).expect("a message"), profile)
    }

    fn text(dictionary: &Dictionary, number: i32) -> &str {
        &dictionary.string_table[number as usize]
    }

    #[test]
    fn each_sample_type_is_a_profile_with_the_numbers_of_the_sites() {
        let (request, profile) = encoded(true);
        let dictionary = request.dictionary.expect("a dictionary");
        let profiles = &request.resource_profiles[0].scope_profiles[0].profiles;
        assert_eq!(profiles.len(), TYPES.len());
        for (one, of) in profiles.iter().zip(&TYPES) {
            let sample_type = one.sample_type.as_ref().expect("a type");
            assert_eq!(text(&dictionary, sample_type.type_strindex), of.name);
            assert_eq!(text(&dictionary, sample_type.unit_strindex), of.unit);
            let sum: i64 = one.samples.iter().flat_map(|sample| &sample.values).sum();
            let sites = profile.sites.iter().filter(|site| site.process.0 == 0);
            assert_eq!(sum as u64, sites.map(|site| (of.of)(&site.counts)).sum::<u64>(), "{}", of.name);
            assert_eq!(one.duration_nano > 0, of.within, "{}", of.name);
        }
        let mut ids: Vec<_> = profiles.iter().map(|one| one.profile_id.clone()).collect();
        ids.dedup();
        assert_eq!((ids.len(), ids[0].len()), (TYPES.len(), 16));
    }

    #[test]
    fn stacks_lead_to_the_functions_of_the_sites() {
        let (request, profile) = encoded(true);
        let dictionary = request.dictionary.expect("a dictionary");
        let samples = &request.resource_profiles[0].scope_profiles[0].profiles[2].samples;
        let site = profile.sites.iter().find(|site| site.counts.allocated_bytes > 0).expect("a site");
        let named = |stack: i32| -> Vec<&str> {
            let stack = &dictionary.stack_table[stack as usize].location_indices;
            let locations = stack.iter().map(|number| &dictionary.location_table[*number as usize]);
            let lines = locations.flat_map(|location| &location.lines);
            let functions = lines.map(|line| &dictionary.function_table[line.function_index as usize]);
            functions.map(|function| text(&dictionary, function.name_strindex)).collect()
        };
        let frames = profile.stacks.frames(site.stack);
        let names: Vec<String> =
            frames.flat_map(|frame| super::functions(&profile, frame)).map(|f| f.name.into_owned()).collect();
        let sent = samples.iter().find(|sample| sample.values == [site.counts.allocated_bytes as i64]).expect("it");
        assert_eq!(named(sent.stack_index), names);
    }

    #[test]
    fn number_0_of_each_table_is_none() {
        let dictionary = encoded(true).0.dictionary.expect("a dictionary");
        let none = Dictionary {
            mapping_table: vec![Default::default()],
            location_table: vec![Default::default()],
            function_table: vec![Default::default()],
            link_table: vec![Default::default()],
            string_table: vec![String::new()],
            attribute_table: vec![Default::default()],
            stack_table: vec![Default::default()],
        };
        let mut first = dictionary.clone();
        first.mapping_table.truncate(1);
        first.location_table.truncate(1);
        first.function_table.truncate(1);
        first.string_table.truncate(1);
        first.attribute_table.truncate(1);
        first.stack_table.truncate(1);
        assert_eq!(first, none);
        assert!(dictionary.stack_table.iter().skip(1).all(|stack| !stack.location_indices.contains(&0)));
    }

    #[test]
    fn a_store_that_looks_names_up_gets_addresses() {
        let dictionary = encoded(false).0.dictionary.expect("a dictionary");
        assert_eq!(dictionary.function_table.len(), 1);
        assert!(dictionary.location_table.iter().skip(1).all(|location| location.address > 0));
    }
}
