//! SARIF 2.1.0, for code scanning: <https://docs.oasis-open.org/sarif/sarif/v2.1.0/>.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// Something that is found at a place. Each has one, or GitHub takes none.
#[derive(Debug, Default)]
pub struct Finding {
    /// Name of the rule.
    pub rule: &'static str,
    /// `error`, `warning` or `note`.
    pub level: &'static str,
    pub message: String,
    /// Path from the root of the version control.
    pub file: String,
    /// Line number, counted from 1.
    pub line: u32,
    /// Column number, counted from 1; 0 where unknown.
    pub column: u32,
    /// Text that stays the same from run to run; empty: the reader is to find that by itself.
    pub fingerprint: String,
    /// Other places of the finding.
    pub related: Vec<Related>,
}

/// A place that belongs to a finding.
#[derive(Debug)]
pub struct Related {
    pub message: String,
    /// Path from the root of the version control.
    pub file: String,
    /// Line number, counted from 1.
    pub line: u32,
}

/// Rules of the findings, each once, with descriptions.
pub fn rules(findings: &[Finding], describe: impl Fn(&str) -> String) -> Vec<(&'static str, String)> {
    let rules: BTreeSet<&'static str> = findings.iter().map(|finding| finding.rule).collect();
    rules.into_iter().map(|rule| (rule, describe(rule))).collect()
}

pub fn document(rules: &[(&'static str, String)], findings: &[Finding]) -> Value {
    let rules: Vec<Value> =
        rules.iter().map(|(id, text)| json!({ "id": id, "shortDescription": { "text": text } })).collect();
    let results: Vec<Value> = findings.iter().map(result).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "mallow", "version": env!("CARGO_PKG_VERSION"), "rules": rules } },
            "results": results,
        }],
    })
}

fn result(finding: &Finding) -> Value {
    let mut region = json!({ "startLine": finding.line.max(1) });
    if finding.column > 0 {
        region["startColumn"] = finding.column.into();
    }
    let location = json!({ "artifactLocation": { "uri": uri(&finding.file) }, "region": region });
    let mut result = json!({
        "ruleId": finding.rule,
        "level": finding.level,
        "message": { "text": finding.message },
        "locations": [{ "physicalLocation": location }],
    });
    if !finding.fingerprint.is_empty() {
        result["partialFingerprints"] = json!({ "mallow/v1": finding.fingerprint });
    }
    if !finding.related.is_empty() {
        result["relatedLocations"] = finding.related.iter().enumerate().map(related).collect();
    }
    result
}

fn related((number, place): (usize, &Related)) -> Value {
    let location =
        json!({ "artifactLocation": { "uri": uri(&place.file) }, "region": { "startLine": place.line.max(1) } });
    json!({ "id": number + 1, "message": { "text": place.message }, "physicalLocation": location })
}

/// Adds classes of the CWE list to the rules of a document, as GitHub shows them.
pub fn add_weaknesses(document: &mut Value, of: impl Fn(&str) -> Vec<u16>) {
    let rules = document.pointer_mut("/runs/0/tool/driver/rules").and_then(Value::as_array_mut);
    for rule in rules.into_iter().flatten() {
        let numbers = of(rule["id"].as_str().unwrap_or_default());
        let classes = numbers.iter().map(|number| format!("external/cwe/cwe-{number:03}"));
        let tags: Vec<String> = ["security".to_owned()].into_iter().chain(classes).collect();
        if !numbers.is_empty() {
            rule["properties"] = json!({ "tags": tags });
        }
    }
}

/// Directory in which paths of sources begin: that under version control around `base`, or `base` itself.
pub fn root(base: &Path) -> PathBuf {
    let base = base.canonicalize().unwrap_or_else(|_| base.to_owned());
    base.ancestors().find(|dir| dir.join(".git").exists()).unwrap_or(&base).to_owned()
}

fn uri(path: &str) -> String {
    let mut out = String::new();
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => out.push(byte.into()),
            // Writing into a string cannot fail.
            byte => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}
