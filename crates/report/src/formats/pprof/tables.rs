//! What the first pass over a profile finds: what its samples refer to.

use prost::Message;
use rustc_hash::FxHashMap;

use super::fields::{Field, Fields, Value, damaged, unusable};
use super::kinds::{self, COMMAND, Kind};
use super::messages::{Function, Mapping, ValueType, field};
use crate::formats::FormatError;
use crate::formats::input::name;

/// What the first pass found.
pub struct Tables<'a> {
    pub all: &'a [u8],
    pub strings: Vec<&'a [u8]>,
    pub functions: FxHashMap<u64, (i64, i64)>,
    pub mappings: Vec<Mapping>,
    pub sample_types: Vec<ValueType>,
    pub period_type: ValueType,
    pub period: i64,
    pub time_nanos: i64,
    pub duration_nanos: i64,
    pub comments: Vec<i64>,
}

impl<'a> Tables<'a> {
    pub fn read(all: &'a [u8]) -> Result<Self, FormatError> {
        let mut it = Self {
            all,
            strings: Vec::new(),
            functions: FxHashMap::default(),
            mappings: Vec::new(),
            sample_types: Vec::new(),
            period_type: ValueType::default(),
            period: 0,
            time_nanos: 0,
            duration_nanos: 0,
            comments: Vec::new(),
        };
        for field in Fields::of(all) {
            let Field { number, value } = field?;
            match number {
                field::STRING_TABLE => it.strings.push(value.bytes()?),
                field::SAMPLE_TYPE => it.sample_types.push(it.message(value)?),
                field::MAPPING => it.mappings.push(it.message(value)?),
                field::FUNCTION => {
                    let function: Function = it.message(value)?;
                    let name = if function.name != 0 { function.name } else { function.system_name };
                    it.functions.insert(function.id, (name, function.filename));
                }
                field::PERIOD_TYPE => it.period_type = it.message(value)?,
                field::PERIOD => it.period = value.number()? as i64,
                field::TIME_NANOS => it.time_nanos = value.number()? as i64,
                field::DURATION_NANOS => it.duration_nanos = value.number()? as i64,
                field::COMMENT => it.comments.extend(value.number().ok().map(|index| index as i64)),
                _ => {}
            }
        }
        Ok(it)
    }

    pub fn message<M: Message + Default>(&self, value: Value<'a>) -> Result<M, FormatError> {
        let bytes = value.bytes()?;
        M::decode(bytes).map_err(|error| damaged(self.all, bytes, &error.to_string()))
    }

    /// The command, where a comment has it.
    pub fn command(&self) -> Option<String> {
        self.comments.iter().find_map(|&index| Some(self.text(index).strip_prefix(COMMAND)?.to_owned()))
    }

    pub fn text(&self, index: i64) -> std::borrow::Cow<'a, str> {
        name(usize::try_from(index).ok().and_then(|index| self.strings.get(index)).copied().unwrap_or_default())
    }

    /// For each value of a sample, what it means.
    pub fn kinds(&self) -> Result<Vec<Option<&'static Kind>>, FormatError> {
        let mut seen: Vec<(&Kind, std::borrow::Cow<'_, str>)> = Vec::new();
        let all: Vec<_> = self
            .sample_types
            .iter()
            .map(|t| {
                // A second one of the same would count everything twice.
                let name = self.text(t.r#type);
                let kind = kinds::of(&name, &self.text(t.unit))?;
                if seen.iter().any(|(known, before)| std::ptr::eq(*known, kind) && !kinds::add_up(before, &name)) {
                    return None;
                }
                seen.push((kind, name));
                Some(kind)
            })
            .collect();
        if all.iter().all(Option::is_none) {
            let held = match self.other_kinds() {
                none if none.is_empty() => "no numbers at all".to_owned(),
                some => some.join(", "),
            };
            return Err(unusable(format!(
                "holds {held}, no allocations: give one of the heap (alloc_objects, inuse_space, …)"
            )));
        }
        Ok(all)
    }

    pub fn other_kinds(&self) -> Vec<String> {
        let types = self.sample_types.iter().map(|t| (self.text(t.r#type), self.text(t.unit)));
        let others = types.filter(|(name, unit)| kinds::of(name, unit).is_none());
        others.map(|(name, unit)| format!("{name}/{unit}")).take(8).collect()
    }

    pub fn sampled_bytes(&self) -> Option<u64> {
        let of_bytes = self.text(self.period_type.unit) == "bytes";
        u64::try_from(self.period).ok().filter(|&period| of_bytes && period > 1)
    }
}
