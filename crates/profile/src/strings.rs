//! Interned strings.

use rustc_hash::FxHashMap;

/// A string of [`Strings`]. Equal ids are equal strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StringId(pub u32);

/// A set of strings, each held once.
#[derive(Clone, Debug, Default)]
pub struct Strings {
    all: Vec<Box<str>>,
    ids: FxHashMap<Box<str>, StringId>,
}

impl Strings {
    /// The id of `text`, which is added if it is new.
    #[expect(clippy::expect_used, reason = "memory ends before the numbers do")]
    pub fn intern(&mut self, text: &str) -> StringId {
        if let Some(&id) = self.ids.get(text) {
            return id;
        }
        let id = StringId(u32::try_from(self.all.len()).expect("fewer than 2^32 strings: they would take 64 GiB"));
        self.all.push(text.into());
        self.ids.insert(text.into(), id);
        id
    }

    /// The string of `id`; the empty string for an id of another set.
    pub fn get(&self, id: StringId) -> &str {
        self.all.get(id.0 as usize).map_or("", |s| s)
    }

    /// How many strings there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All strings, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|s| &**s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_share_an_id() {
        let mut strings = Strings::default();
        let a = strings.intern("malloc");
        let b = strings.intern("free");
        assert_eq!(strings.intern("malloc"), a);
        assert_ne!(a, b);
        assert_eq!(strings.get(b), "free");
        assert_eq!(strings.len(), 2);
    }
}
