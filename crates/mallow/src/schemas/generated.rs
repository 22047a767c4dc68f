//! Schemas as the documents' types have them, and the comparison with those of `docs/schemas/`.

use std::collections::BTreeSet;

use mallow_profile::Quantity;
use mallow_report::analysis::keys;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use super::descriptions::faults;
use super::units::add_units;
use crate::input::coverage::FilteredReport;

/// The report of a recording or a profile, with the fields that [`crate::input::recording::Recording`] adds.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "a shape, not a value")]
pub struct OfRecording<'a, R: serde::Serialize> {
    /// Format of the file, by its tool; left out for a recording of Mallow.
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<String>,
    /// Sampling interval: one allocation in about so many bytes was recorded, and numbers are estimates. Left out
    /// where all were.
    #[serde(skip_serializing_if = "Option::is_none")]
    sampled_bytes: Option<u64>,
    /// Sentences on what the file does not say; fields that would say it are left out. Left out for a recording of
    /// Mallow.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<Vec<String>>,
    #[serde(flatten)]
    report: FilteredReport<'a, R>,
}

/// The schema of a document that is written.
pub fn schema<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>()
}

/// `UPDATE_SCHEMAS=1` writes them anew.
#[test]
fn the_schemas_are_those_of_the_types() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas");
    let mut wrong = Vec::new();
    let mut names = Vec::new();
    for (name, title, schema) in super::of_types() {
        let text = format!("{:#}\n", finished(name, title, schema.to_value()));
        let file = folder.join(format!("{name}.json"));
        names.push(format!("{name}.json"));
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            std::fs::write(&file, &text).expect("the schema");
        }
        if std::fs::read_to_string(&file).unwrap_or_default() != text {
            wrong.push(name);
        }
    }
    let listed = std::fs::read_dir(folder).expect("the schemas").flatten();
    let more: Vec<_> =
        listed.map(|file| file.file_name()).filter(|n| !names.iter().any(|name| n == name.as_str())).collect();
    assert!(wrong.is_empty() && more.is_empty(), "UPDATE_SCHEMAS=1 writes {wrong:?} anew; {more:?} are of no document");
}

#[test]
fn each_field_has_a_meaning_and_each_number_a_unit() {
    let schemas = super::of_types().into_iter();
    let faults: BTreeSet<String> =
        schemas.flat_map(|(name, title, schema)| faults(name, &finished(name, title, schema.to_value()))).collect();
    assert!(faults.is_empty(), "{}", faults.into_iter().collect::<Vec<_>>().join("\n"));
}

/// The schema with its name, and with fields that a profile of another tool may lack as optional. No other fields are
/// allowed.
fn finished(name: &str, title: &str, mut schema: Value) -> Value {
    let lacking: Vec<&str> = Quantity::ALL.into_iter().flat_map(keys).collect();
    let mut parts = BTreeSet::new();
    add_parts(&schema, Part::Whole, &mut parts);
    Closing { parts, lacking: &lacking }.close(&mut schema, Part::Whole);
    add_units(&mut schema, name);
    let named = json!({ "const": name, "description": "Name and version of this schema." });
    let mut properties = Map::from_iter([("schema".to_owned(), named)]);
    if let Some(Value::Object(others)) = schema.get_mut("properties").map(Value::take) {
        properties.extend(others);
    }
    schema["properties"] = properties.into();
    schema["title"] = title.into();
    schema["$id"] = name.into();
    if let Some(required) = schema["required"].as_array_mut() {
        required.insert(0, "schema".into());
    }
    schema
}

/// Whether the fields of a schema are all that an object has, or some of them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    /// One of several schemas that describe one object.
    Some,
}

struct Closing<'a> {
    /// References to types that are a part of other objects somewhere: where such a type is a whole object, the place
    /// that refers to it is closed, not the type.
    parts: BTreeSet<String>,
    /// Fields that may be missing.
    lacking: &'a [&'a str],
}

impl Closing<'_> {
    /// Forbids fields that are not listed, and requires none that may be missing. Describes the field that names a
    /// variant by the variant.
    fn close(&self, schema: &mut Value, part: Part) {
        let Some(object) = schema.as_object_mut() else { return };
        let refers = object.get("$ref").and_then(Value::as_str).is_some_and(|to| self.parts.contains(to));
        let described = ["properties", "oneOf", "allOf"].iter().any(|key| object.contains_key(*key));
        if (described || refers) && part == Part::Whole && !object.contains_key("additionalProperties") {
            object.insert("unevaluatedProperties".to_owned(), false.into());
        }
        if let Some(Value::Array(required)) = object.get_mut("required") {
            required.retain(|key| !self.lacking.iter().any(|lacking| key == lacking));
        }
        describe_variant(object);
        for (schema, part) in parts_of(object) {
            self.close(schema, part);
        }
        for key in ["items", "additionalProperties"] {
            object.get_mut(key).into_iter().for_each(|schema| self.close(schema, Part::Whole));
        }
        if let Some(Value::Object(fields)) = object.get_mut("properties") {
            fields.values_mut().for_each(|schema| self.close(schema, Part::Whole));
        }
        if let Some(Value::Array(items)) = object.get_mut("prefixItems") {
            items.iter_mut().for_each(|schema| self.close(schema, Part::Whole));
        }
        if let Some(Value::Object(types)) = object.get_mut("$defs") {
            for (name, schema) in types {
                let is_part = self.parts.contains(&format!("#/$defs/{name}"));
                self.close(schema, if is_part { Part::Some } else { Part::Whole });
            }
        }
    }
}

/// The alternatives of an object, each with what it is a part of. Alternatives of one reference are whole types.
fn parts_of(object: &mut Map<String, Value>) -> Vec<(&mut Value, Part)> {
    let has_fields = object.contains_key("properties");
    let mut parts = Vec::new();
    for (key, alternatives) in object {
        let part = match key.as_str() {
            "anyOf" if !has_fields => Part::Whole,
            "oneOf" | "anyOf" | "allOf" => Part::Some,
            _ => continue,
        };
        parts.extend(alternatives.as_array_mut().into_iter().flatten().map(|schema| (schema, part)));
    }
    parts
}

/// References to types that are a part of an object, beside fields or other parts.
fn add_parts(schema: &Value, part: Part, parts: &mut BTreeSet<String>) {
    match schema {
        Value::Object(object) => {
            let has_fields = object.contains_key("properties");
            if let Some(to) = object.get("$ref").and_then(Value::as_str)
                && (part == Part::Some || has_fields)
            {
                parts.insert(to.to_owned());
            }
            for (key, value) in object {
                let part = match key.as_str() {
                    "oneOf" | "allOf" => Part::Some,
                    "anyOf" if has_fields => Part::Some,
                    _ => Part::Whole,
                };
                match value {
                    Value::Array(all) => all.iter().for_each(|schema| add_parts(schema, part, parts)),
                    value if key == "properties" || key == "$defs" => {
                        value.as_object().into_iter().flatten().for_each(|(_, field)| {
                            add_parts(field, Part::Whole, parts);
                        });
                    }
                    value => add_parts(value, Part::Whole, parts),
                }
            }
        }
        Value::Array(all) => all.iter().for_each(|schema| add_parts(schema, part, parts)),
        _ => {}
    }
}

/// serde makes two fields that no comment describes: the tag of a variant, and an object with the variant's fields.
fn describe_variant(variant: &mut Map<String, Value>) {
    let Some(description) = variant.get("description").cloned() else { return };
    let Some(Value::Object(fields)) = variant.get_mut("properties") else { return };
    if !fields.values().any(|field| field.get("const").is_some()) {
        return;
    }
    for field in fields.values_mut().filter_map(Value::as_object_mut) {
        let of_variant = ["const", "properties", "$ref"].iter().any(|key| field.contains_key(*key));
        if of_variant && !field.contains_key("description") {
            field.insert("description".to_owned(), description.clone());
        }
    }
}
