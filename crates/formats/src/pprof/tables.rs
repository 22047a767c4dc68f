//! What the first pass over a profile finds: what its samples refer to.

use std::borrow::Cow;

use mallow_profile::Quantity;
use prost::Message;
use rustc_hash::FxHashMap;

use super::chosen::{SampleType, described};
use super::fields::{Field, Fields, Value, damaged, unusable};
use super::kinds::{self, COMMAND, INCOMPLETE, Kind};
use super::messages::{Function, Mapping, ValueType, field};
use crate::FormatError;
use crate::input::name;

/// Most sample types that an error names.
const SHOWN: usize = 8;

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

    /// Sentences about what the numbers lack, from comments of Mallow's own.
    pub fn incomplete(&self) -> impl Iterator<Item = String> {
        let sentence = |&index| Some(self.text(index).strip_prefix(INCOMPLETE)?.to_owned());
        self.comments.iter().filter_map(sentence)
    }

    pub fn text(&self, index: i64) -> Cow<'a, str> {
        name(usize::try_from(index).ok().and_then(|index| self.strings.get(index)).copied().unwrap_or_default())
    }

    /// Name and unit of each value of a sample.
    fn types(&self) -> impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)> {
        self.sample_types.iter().map(|t| (self.text(t.r#type), self.text(t.unit)))
    }

    /// By value of a sample, its kind: of the `chosen` ones, or else of all whose names are known.
    pub fn kinds(&self, chosen: &[SampleType]) -> Result<Vec<Option<&'static Kind>>, FormatError> {
        if chosen.is_empty() { self.known_kinds() } else { self.chosen_kinds(chosen) }
    }

    fn chosen_kinds(&self, chosen: &[SampleType]) -> Result<Vec<Option<&'static Kind>>, FormatError> {
        let types: Vec<_> = self.types().collect();
        let mut all: Vec<Option<&'static Kind>> = vec![None; types.len()];
        for one in chosen {
            let Some(index) = (0..types.len()).find(|&index| one.is(index, &types[index].0)) else {
                let have = types.iter().enumerate().map(|(index, (name, unit))| described(index, name, unit));
                let have: Vec<_> = have.take(SHOWN).collect();
                return Err(unusable(format!("has no sample type {}, but {}", one.name(), have.join(", "))));
            };
            let Some(kind) = one.kind(&types[index].0, &types[index].1) else { continue };
            let is_other = |(other, of): (usize, &Option<&Kind>)| {
                other != index && of.is_some_and(|of| of.quantity == kind.quantity)
            };
            if all.iter().enumerate().any(is_other) {
                let what = kind.quantity;
                return Err(unusable(format!("has one number for its {what}, and --sample-type names a second one")));
            }
            all[index] = Some(kind);
        }
        let is_shown = |kind: &Kind| !matches!(kind.quantity, Quantity::Live | Quantity::Peak);
        if !all.iter().flatten().any(|kind| is_shown(kind)) {
            return Err(unusable("would have blocks that are live, without their bytes: choose a value of bytes, too"));
        }
        Ok(all)
    }

    fn known_kinds(&self) -> Result<Vec<Option<&'static Kind>>, FormatError> {
        let mut seen: Vec<(&Kind, Cow<'_, str>)> = Vec::new();
        let all: Vec<_> = self
            .types()
            .map(|(name, unit)| {
                // A second one of the same would count everything twice.
                let kind = kinds::of(&name, &unit)?;
                if seen.iter().any(|(known, before)| std::ptr::eq(*known, kind) && !kinds::add_up(before, &name)) {
                    return None;
                }
                seen.push((kind, name));
                Some(kind)
            })
            .collect();
        if all.iter().all(Option::is_none) {
            return Err(unusable(match self.other_kinds(&all) {
                none if none.is_empty() => "holds no numbers at all".to_owned(),
                some => format!(
                    "holds {}, no allocations: give one of the heap (alloc_objects, inuse_space, …), or say by \
                     --sample-type NAME which of these counts them",
                    some.join(", ")
                ),
            }));
        }
        Ok(all)
    }

    /// Texts like `value 2/bytes as live bytes`, for values that mean something.
    pub fn read_as(&self, kinds: &[Option<&Kind>]) -> Vec<String> {
        let types = self.types().zip(kinds).enumerate();
        let read = types.filter_map(|(index, ((name, unit), kind))| {
            kind.map(|kind| format!("{} as {}", described(index, &name, &unit), kind.quantity))
        });
        read.collect()
    }

    /// The values that mean nothing, where `kinds` is what each means; but for those that are a second number for
    /// something.
    pub fn other_kinds(&self, kinds: &[Option<&Kind>]) -> Vec<String> {
        let others = self.types().zip(kinds).enumerate().filter(|(_, ((name, unit), kind))| {
            let known = kinds::of(name, unit);
            kind.is_none() && known.is_none_or(|known| !kinds.iter().flatten().any(|kind| std::ptr::eq(*kind, known)))
        });
        others.map(|(index, ((name, unit), _))| described(index, &name, &unit)).take(SHOWN).collect()
    }

    pub fn sampled_bytes(&self) -> Option<u64> {
        let of_bytes = self.text(self.period_type.unit) == "bytes";
        u64::try_from(self.period).ok().filter(|&period| of_bytes && period > 1)
    }
}
