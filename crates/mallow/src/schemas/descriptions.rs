//! What the schemas must say of each field: what it means, and of a number its unit.

use serde_json::Value;

use super::units::is_number;

/// Beginnings of a description that only its neighbour explains.
const PRONOUNS: &[&str] = &[
    "Their ", "Its ", "It ", "See ", "And ", "Those ", "They ", "These ", "The same", "Which ", "Who ", "Whose ",
    "Of it",
];

/// Fields without a description, with one that readers of the schema cannot follow, or numbers without a unit: a line
/// each, with the name of the document.
pub fn faults(name: &str, schema: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    look(name, schema, &mut faults);
    faults
}

fn look(place: &str, schema: &Value, faults: &mut Vec<String>) {
    match schema {
        Value::Object(object) => {
            for (key, value) in object {
                match (key.as_str(), value) {
                    ("properties", Value::Object(fields)) => {
                        for (field, schema) in fields {
                            let place = format!("{place}.{field}");
                            faults.extend(fault(schema).map(|fault| format!("{place}: {fault}")));
                            look(&place, schema, faults);
                        }
                    }
                    ("$defs", Value::Object(types)) => {
                        types.iter().for_each(|(name, schema)| look(name, schema, faults));
                    }
                    ("description" | "enum" | "const", _) => {}
                    _ => look(place, value, faults),
                }
            }
        }
        Value::Array(all) => all.iter().for_each(|schema| look(place, schema, faults)),
        _ => {}
    }
}

fn fault(field: &Value) -> Option<String> {
    let Some(description) = field["description"].as_str().filter(|text| !text.is_empty()) else {
        return Some("no description".to_owned());
    };
    if is_number(field) && field["unit"].as_str().is_none_or(str::is_empty) {
        return Some("no unit".to_owned());
    }
    let pronoun = PRONOUNS.iter().any(|word| description.starts_with(word));
    let of_rust = description.contains("[`") || description.contains("None");
    (pronoun || of_rust).then(|| format!("not for readers of JSON: {description}"))
}
