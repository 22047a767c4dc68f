//! Sample types that a user names: what their numbers are is then the user's word.

use std::borrow::Cow;
use std::str::FromStr;

use super::kinds::{self, Kind};

/// A value of each sample, and the meaning of its number, as the command line has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleType {
    /// Name of the value, or its position among the values, from 1 on: some have no name.
    name: String,
    /// Prefix of the name that Mallow has for such numbers; None: as the value's name says, or allocated.
    meaning: Option<&'static str>,
}

/// Meanings that a number may have, each with the prefix of the names of such types.
const MEANINGS: [(&str, &str); 3] = [("allocated", "alloc"), ("live", "inuse"), ("peak", "peak")];

impl FromStr for SampleType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, meaning) = text.rsplit_once('=').map_or((text, None), |(name, meaning)| (name, Some(meaning)));
        if name.is_empty() {
            return Err("a name is expected before =, or a number: of a value without a name, 1 for the first".into());
        }
        let beginning = |meaning: &str| {
            let found = MEANINGS.iter().find(|(word, _)| *word == meaning);
            found.map(|(_, beginning)| *beginning).ok_or_else(|| format!("{meaning} is none of allocated, live, peak"))
        };
        Ok(Self { name: name.to_owned(), meaning: meaning.map(beginning).transpose()? })
    }
}

impl SampleType {
    /// Whether this is the `index`th value of a profile, counted from 0.
    pub fn is(&self, index: usize, name: &str) -> bool {
        self.name == name || self.name.parse() == Ok(index + 1)
    }

    /// The kind of a value with this name; the unit says whether it counts bytes, or else blocks.
    pub fn kind(&self, name: &str, unit: &str) -> Option<&'static Kind> {
        if let Some(known) = kinds::of(name, unit).filter(|_| self.meaning.is_none()) {
            return Some(known);
        }
        let meaning = self.meaning.unwrap_or(MEANINGS[0].1);
        let is_bytes = matches!(unit, "bytes" | "byte");
        let (ending, unit) = if is_bytes { ("space", "bytes") } else { ("objects", "count") };
        kinds::of(&format!("{meaning}_{ending}"), unit)
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The value's name for people: `alloc_x/bytes`, or `value 2/count` of one without a name.
pub fn described(index: usize, name: &str, unit: &str) -> String {
    let name: Cow<'_, str> = if name.is_empty() { format!("value {}", index + 1).into() } else { name.into() };
    if unit.is_empty() { name.into_owned() } else { format!("{name}/{unit}") }
}

#[cfg(test)]
mod tests {
    use super::SampleType;
    use mallow_profile::Quantity;

    #[test]
    fn what_is_named_and_what_it_means() {
        let of = |text: &str| text.parse::<SampleType>();
        let quantity = |text: &str, unit| of(text).expect("a type").kind(text, unit).expect("a kind").quantity;
        assert_eq!(quantity("inuse_space", "bytes"), Quantity::LiveBytes);
        assert_eq!(quantity("tlab", "bytes"), Quantity::AllocatedBytes);
        assert_eq!(quantity("tlab", ""), Quantity::Allocations);
        assert_eq!(quantity("tlab=live", "bytes"), Quantity::LiveBytes);
        assert_eq!(quantity("a=b=peak", "count"), Quantity::Peak);
        assert!(of("tlab=freed").is_err_and(|why| why.contains("allocated, live, peak")));
        assert!(of("=live").is_err() && of("").is_err());
        let second = of("2").expect("a number");
        assert!(second.is(1, "") && !second.is(0, "") && !second.is(2, "x"));
    }
}
