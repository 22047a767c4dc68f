//! speedscope's own JSON: one profile for each measure, with shared frames.

use std::io::{self, Write};

use mallow_profile::Profile;
use serde::Serialize;

use super::frames::{PICTURES, Picture, Table, title};
use mallow_report::analysis::by_stack;

#[derive(Serialize)]
struct Frame<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sampled<'a> {
    r#type: &'a str,
    name: &'a str,
    unit: &'a str,
    start_value: u64,
    end_value: u64,
    /// Functions of each stack, the outermost first.
    samples: Vec<Vec<u32>>,
    weights: Vec<u64>,
}

/// `exporter` names the program that wrote the file.
pub fn write(profile: &Profile, exporter: &str, mut out: impl Write) -> io::Result<()> {
    let stacks: Vec<_> = by_stack(profile).collect();
    let mut table = Table::new(profile);
    write!(out, "{{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"name\":")?;
    serde_json::to_writer(&mut out, &title(profile))?;
    write!(out, ",\"exporter\":")?;
    serde_json::to_writer(&mut out, exporter)?;
    write!(out, ",\"activeProfileIndex\":0,\"profiles\":[")?;
    let mut first = true;
    for Picture { name, bytes, of, .. } in PICTURES.iter().filter(|picture| profile.has(picture.quantity)) {
        let (mut samples, mut weights) = (Vec::new(), Vec::new());
        for (stack, counts) in stacks.iter().filter(|(_, counts)| of(counts) > 0) {
            let mut functions = table.stack(*stack);
            functions.reverse();
            samples.push(functions);
            weights.push(of(counts));
        }
        let total = weights.iter().fold(0u64, |sum, weight| sum.saturating_add(*weight));
        let unit = if *bytes { "bytes" } else { "none" };
        let sampled = Sampled { r#type: "sampled", name, unit, start_value: 0, end_value: total, samples, weights };
        if !std::mem::replace(&mut first, false) {
            write!(out, ",")?;
        }
        serde_json::to_writer(&mut out, &sampled)?;
    }
    write!(out, "],\"shared\":{{\"frames\":[")?;
    for (index, function) in table.functions.iter().enumerate() {
        if index > 0 {
            write!(out, ",")?;
        }
        let line = Some(function.line).filter(|line| *line > 0);
        serde_json::to_writer(&mut out, &Frame { name: &function.name, file: function.file, line })?;
    }
    writeln!(out, "]}}}}")?;
    out.flush()
}
