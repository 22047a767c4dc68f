//! The JSON documents that mallow prints, checked against their schemas in `docs/schemas/`.

use std::collections::HashMap;
use std::fs;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use jsonschema::Validator;
use serde_json::{Deserializer, Value};

use crate::workspace;

/// Faults of a document that a failed test shows.
const SHOWN: usize = 5;

/// A document of mallow.
///
/// # Panics
/// When it is no JSON, names no schema of `docs/schemas/`, or is not as that schema says: an unlisted field is a
/// fault, too.
pub fn document(text: impl AsRef<[u8]>) -> Value {
    let text = text.as_ref();
    let document =
        serde_json::from_slice(text).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(text)));
    check(&document);
    document
}

/// Documents of mallow, one a line, each as [`document`] has it.
pub fn documents(text: &str) -> Vec<Value> {
    text.lines().map(document).collect()
}

/// Checks each document of mallow in what a program printed. What else is there is passed over: JSON of another
/// program's, and a document that is cut short.
pub(crate) fn check_all(printed: &[u8]) {
    const BEGINNINGS: [&[u8]; 2] = [b"{\"schema\":", b"{\n  \"schema\":"];
    let mut at = 0;
    while at < printed.len() {
        let rest = &printed[at..];
        if BEGINNINGS.iter().any(|beginning| rest.starts_with(beginning)) {
            let mut values = Deserializer::from_slice(rest).into_iter::<Value>();
            if let Some(Ok(document)) = values.next() {
                check(&document);
                at += values.byte_offset();
                continue;
            }
        }
        at += rest.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |end| end + 1);
    }
}

fn check(document: &Value) {
    let name = document["schema"].as_str().unwrap_or_else(|| panic!("a document without a schema: {document:#}"));
    let validator = validator(name);
    let faults: Vec<_> = validator
        .iter_errors(document)
        .take(SHOWN)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(faults.is_empty(), "not as docs/schemas/{name}.json says:\n{}\n{document:#}", faults.join("\n"));
}

/// The validator of a schema, made once.
fn validator(name: &str) -> Arc<Validator> {
    static MADE: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let make = || {
        let path = workspace().join("docs/schemas").join(format!("{name}.json"));
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let schema: Value = serde_json::from_str(&text).expect("a schema is JSON");
        Arc::new(jsonschema::draft202012::new(&schema).expect("a schema of draft 2020-12"))
    };
    made.entry(name.to_owned()).or_insert_with(make).clone()
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use serde_json::json;

    use super::*;

    fn example() -> Value {
        json!({ "schema": "recover-1", "left_behind": [], "ended_by_signal": [], "unfinished_files": ["a"] })
    }

    /// Whether what was printed passes.
    fn passes(printed: String) -> bool {
        catch_unwind(|| check_all(printed.as_bytes())).is_ok()
    }

    #[test]
    fn an_unlisted_field_is_a_fault() {
        let good = example();
        let mut more = example();
        more["more"] = 1.into();
        assert!(passes(good.to_string()) && passes(format!("{good:#}")));
        assert!(!passes(more.to_string()) && !passes(format!("{more:#}\n")));
        assert!(!passes(format!("what a program prints\n{good}\n{more}\n")), "not only the first");
        assert!(passes(format!("{{\"a program\": \"prints JSON\"}}\n{good}\n{{\"schema\":\"recover-1\",\"left")));
    }

    #[test]
    fn a_missing_field_or_one_of_another_type_is_a_fault() {
        let mut less = example();
        less.as_object_mut().expect("an object").remove("left_behind");
        let mut other = example();
        other["left_behind"] = 0.into();
        let mut unknown = example();
        unknown["schema"] = "recover-0".into();
        for wrong in [less, other, unknown, json!({})] {
            assert!(catch_unwind(|| document(wrong.to_string())).is_err(), "{wrong}");
        }
    }
}
