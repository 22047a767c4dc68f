//! Maps of JSON in which no name comes twice.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// Keeps what a map would swallow: a name that is there twice, as after a merge, is refused.
#[derive(Debug)]
pub struct UniqueMap<V>(pub BTreeMap<String, V>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for UniqueMap<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Names(PhantomData))
    }
}

struct Names<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for Names<V> {
    type Value = UniqueMap<V>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut all = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            if name.trim().is_empty() || name.chars().any(char::is_control) {
                return Err(A::Error::custom("a name that nobody can type"));
            }
            let value = map.next_value()?;
            if all.contains_key(&name) {
                return Err(A::Error::custom(format!("{name} is there twice")));
            }
            all.insert(name, value);
        }
        Ok(UniqueMap(all))
    }
}
