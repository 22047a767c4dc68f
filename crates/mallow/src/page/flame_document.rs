//! A flame graph as JSON: columns, because a page draws ten thousands of boxes.

use mallow_report::analysis::{Flame, FlameBox, FlameFunction, GroupKind, Label};
use serde::Serialize;

use crate::flags::By;

#[derive(Debug, Serialize)]
pub struct FlameDocument<'a> {
    by: String,
    callers: bool,
    total: u64,
    sites: u64,
    left_out: u64,
    /// The profile that it is compared with: all of it, and the change since.
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<Base>,
    /// Functions whose calls are gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    gone: Option<Vec<Gone<'a>>>,
    groups: Vec<Group<'a>>,
    functions: Functions<'a>,
    boxes: Boxes,
}

#[derive(Debug, Serialize)]
struct Base {
    before: u64,
    change: i64,
}

#[derive(Debug, Serialize)]
struct Gone<'a> {
    name: &'a str,
    before: u64,
}

#[derive(Debug, Serialize)]
struct Group<'a> {
    name: &'a str,
    kind: &'static str,
    runtime: bool,
    own: u64,
    cum: u64,
}

#[derive(Debug, Serialize)]
struct Functions<'a> {
    label: Vec<&'static str>,
    name: Vec<&'a str>,
    file: Vec<Option<&'a str>>,
    module: Vec<Option<&'a str>>,
    group: Vec<Option<usize>>,
    looked_past: Vec<bool>,
}

#[derive(Debug, Serialize)]
struct Boxes {
    parent: Vec<Option<usize>>,
    depth: Vec<usize>,
    start: Vec<u64>,
    value: Vec<u64>,
    own: Vec<u64>,
    function: Vec<usize>,
    inlined: Vec<bool>,
    recursive: Vec<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Vec<u64>>,
    /// Change of the part of each box on which no other box stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<Vec<i64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gone: Option<Vec<u64>>,
}

impl<'a> FlameDocument<'a> {
    pub fn of(flame: &'a Flame) -> Self {
        let compared = flame.base.is_some();
        let group = |group: &'a mallow_report::analysis::FlameGroup| {
            let (name, kind) = match &group.kind {
                GroupKind::File(path) => (path.as_str(), "file"),
                GroupKind::Module(path) => (path.as_str(), "module"),
                GroupKind::Generated => ("", "generated"),
            };
            Group { name, kind, runtime: group.runtime, own: group.own, cum: group.cum }
        };
        Self {
            by: By::from(flame.by).to_string(),
            callers: flame.callers,
            total: flame.boxes.first().map_or(0, |whole| whole.value),
            sites: flame.sites,
            left_out: flame.left_out,
            base: flame.base.map(|base| Base { before: base.before, change: base.change }),
            gone: compared.then(|| flame.gone.iter().map(|(name, before)| Gone { name, before: *before }).collect()),
            groups: flame.groups.iter().map(group).collect(),
            functions: Functions::of(&flame.functions),
            boxes: Boxes::of(&flame.boxes, compared),
        }
    }
}

impl<'a> Functions<'a> {
    fn of(functions: &'a [FlameFunction]) -> Self {
        let label = |function: &FlameFunction| match function.label {
            Label::Whole => "whole",
            Label::Function => "function",
            Label::MissingFrames => "missing_frames",
            Label::NoStack => "no_stack",
        };
        Self {
            label: functions.iter().map(label).collect(),
            name: functions.iter().map(|function| function.name.as_str()).collect(),
            file: functions.iter().map(|function| function.file.as_deref()).collect(),
            module: functions.iter().map(|function| function.module.as_deref()).collect(),
            group: functions.iter().map(|function| function.group).collect(),
            looked_past: functions.iter().map(|function| function.looked_past).collect(),
        }
    }
}

impl Boxes {
    fn of(boxes: &[FlameBox], compared: bool) -> Self {
        Self {
            parent: boxes.iter().map(|one| one.parent).collect(),
            depth: boxes.iter().map(|one| one.depth).collect(),
            start: boxes.iter().map(|one| one.start).collect(),
            value: boxes.iter().map(|one| one.value).collect(),
            own: boxes.iter().map(|one| one.own).collect(),
            function: boxes.iter().map(|one| one.function).collect(),
            inlined: boxes.iter().map(|one| one.inlined).collect(),
            recursive: boxes.iter().map(|one| one.recursive).collect(),
            before: compared.then(|| boxes.iter().map(|one| one.before).collect()),
            change: compared.then(|| boxes.iter().map(|one| one.change).collect()),
            gone: compared.then(|| boxes.iter().map(|one| one.gone).collect()),
        }
    }
}
