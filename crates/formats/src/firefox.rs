//! The Firefox Profiler's processed profiles, version 48: a thread for each measure, whose samples weigh what was
//! allocated. Later versions of the profiler read it too.

use std::io::{self, Write};

use mallow_profile::{Counts, Profile, StackId};
use rustc_hash::FxHashMap;
use serde::Serialize;
use serde_json::json;

use super::frames::{Function, PICTURES, Picture, Table, title};
use mallow_report::analysis::by_stack;

const VERSION: u32 = 48;

/// `exporter` names the program that wrote the file.
pub fn write(profile: &Profile, exporter: &str, mut out: impl Write) -> io::Result<()> {
    let meta = json!({
        "version": 24,
        "preprocessedProfileVersion": VERSION,
        "product": title(profile),
        "importedFrom": exporter,
        "interval": 1,
        "startTime": profile.started_unix_ms,
        "processType": 0,
        "debug": false,
        "stackwalk": 1,
        "symbolicated": true,
        "usesOnlyOneStackType": true,
        "sourceCodeIsNotOnSearchfox": true,
        "categories": [{ "name": "Other", "color": "grey", "subcategories": ["Other"] }],
        "markerSchema": [],
        "extensions": { "length": 0, "baseURL": [], "id": [], "name": [] },
    });
    let libs: Vec<_> = profile.modules.iter().map(|module| library(&module.path, &module.build_id)).collect();
    write!(out, "{{\"meta\":{meta},\"pages\":[],\"counters\":[],\"profilerOverhead\":[],\"libs\":")?;
    serde_json::to_writer(&mut out, &libs)?;
    write!(out, ",\"threads\":[")?;
    let stacks: Vec<_> = by_stack(profile).collect();
    let pictures = PICTURES.iter().filter(|picture| profile.has(picture.quantity));
    for (index, picture) in pictures.enumerate() {
        if index > 0 {
            write!(out, ",")?;
        }
        serde_json::to_writer(&mut out, &thread(profile, &stacks, picture, index))?;
    }
    writeln!(out, "]}}")?;
    out.flush()
}

fn library(path: &str, build_id: &[u8]) -> serde_json::Value {
    let name = path.rsplit('/').next().unwrap_or(path);
    let id: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let code_id = Some(id).filter(|id| !id.is_empty());
    json!({
        "arch": "", "name": name, "path": path, "debugName": name, "debugPath": path, "breakpadId": "", "codeId": code_id,
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Thread {
    process_type: &'static str,
    process_startup_time: u64,
    process_shutdown_time: Option<u64>,
    register_time: u64,
    unregister_time: Option<u64>,
    paused_ranges: [u8; 0],
    name: &'static str,
    process_name: String,
    is_main_thread: bool,
    pid: String,
    tid: usize,
    samples: Samples,
    markers: serde_json::Value,
    stack_table: Stacks,
    frame_table: Frames,
    func_table: Functions,
    resource_table: Resources,
    native_symbols: serde_json::Value,
    string_array: Vec<String>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Samples {
    weight_type: &'static str,
    weight: Vec<u64>,
    stack: Vec<Option<u32>>,
    time: Vec<u32>,
    length: usize,
}

#[derive(Default, Serialize)]
struct Stacks {
    frame: Vec<u32>,
    prefix: Vec<Option<u32>>,
    category: Vec<u8>,
    subcategory: Vec<u8>,
    length: usize,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Frames {
    address: Vec<i8>,
    inline_depth: Vec<u8>,
    category: Vec<u8>,
    subcategory: Vec<u8>,
    func: Vec<u32>,
    native_symbol: Vec<Option<u8>>,
    #[serde(rename = "innerWindowID")]
    inner_window_id: Vec<Option<u8>>,
    implementation: Vec<Option<u8>>,
    line: Vec<Option<u32>>,
    column: Vec<Option<u8>>,
    length: usize,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Functions {
    #[serde(rename = "isJS")]
    is_js: Vec<bool>,
    #[serde(rename = "relevantForJS")]
    relevant_for_js: Vec<bool>,
    name: Vec<u32>,
    resource: Vec<i32>,
    file_name: Vec<Option<u32>>,
    line_number: Vec<Option<u32>>,
    column_number: Vec<Option<u8>>,
    length: usize,
}

#[derive(Default, Serialize)]
struct Resources {
    lib: Vec<u32>,
    name: Vec<u32>,
    host: Vec<Option<u8>>,
    r#type: Vec<u8>,
    length: usize,
}

struct Builder<'a> {
    profile: &'a Profile,
    table: Table<'a>,
    strings: FxHashMap<String, u32>,
    string_array: Vec<String>,
    stacks: Stacks,
    nodes: FxHashMap<(Option<u32>, u32), u32>,
    frames: Frames,
    functions: Functions,
    function_ids: FxHashMap<(u32, Option<u32>, i32), u32>,
    resources: Resources,
    resource_ids: FxHashMap<String, i32>,
}

fn thread(profile: &Profile, stacks: &[(StackId, Counts)], picture: &Picture, tid: usize) -> Thread {
    let mut builder = Builder {
        profile,
        table: Table::new(profile),
        strings: FxHashMap::default(),
        string_array: Vec::new(),
        stacks: Stacks::default(),
        nodes: FxHashMap::default(),
        frames: Frames::default(),
        functions: Functions::default(),
        function_ids: FxHashMap::default(),
        resources: Resources::default(),
        resource_ids: FxHashMap::default(),
    };
    // Samples are weighed in bytes or, as pieces, in samples.
    let mut samples = Samples { weight_type: if picture.bytes { "bytes" } else { "samples" }, ..Samples::default() };
    for (stack, counts) in stacks {
        let weight = (picture.of)(counts);
        if weight > 0 {
            samples.weight.push(weight);
            samples.stack.push(builder.stack(*stack));
            samples.time.push(0);
            samples.length += 1;
        }
    }
    let process = profile.processes.first();
    Thread {
        process_type: "default",
        process_startup_time: 0,
        process_shutdown_time: None,
        register_time: 0,
        unregister_time: None,
        paused_ranges: [],
        name: picture.name,
        process_name: title(profile),
        is_main_thread: tid == 0,
        pid: process.map_or(0, |process| process.pid).to_string(),
        tid,
        samples,
        markers: json!({
            "category": [], "data": [], "endTime": [], "name": [], "phase": [], "startTime": [], "length": 0,
        }),
        stack_table: builder.stacks,
        frame_table: builder.frames,
        func_table: builder.functions,
        resource_table: builder.resources,
        native_symbols: json!({ "libIndex": [], "address": [], "name": [], "functionSize": [], "length": 0 }),
        string_array: builder.string_array,
    }
}

impl Builder<'_> {
    fn stack(&mut self, stack: StackId) -> Option<u32> {
        let mut at = None;
        for function in self.table.stack(stack).into_iter().rev() {
            self.frames_up_to(function);
            let next = self.stacks.length as u32;
            let node = *self.nodes.entry((at, function)).or_insert(next);
            if node == next {
                self.stacks.frame.push(function);
                self.stacks.prefix.push(at);
                self.stacks.category.push(0);
                self.stacks.subcategory.push(0);
                self.stacks.length += 1;
            }
            at = Some(node);
        }
        at
    }

    /// Frames are numbered as the functions of the table are: a line of a function is one there.
    fn frames_up_to(&mut self, number: u32) {
        while self.frames.length <= number as usize {
            let Function { name, file, line, module } = self.table.functions[self.frames.length].clone();
            let line = Some(line).filter(|line| *line > 0);
            let func = self.function(&name, file, module);
            let frames = &mut self.frames;
            frames.address.push(-1);
            frames.inline_depth.push(0);
            frames.category.push(0);
            frames.subcategory.push(0);
            frames.func.push(func);
            frames.native_symbol.push(None);
            frames.inner_window_id.push(None);
            frames.implementation.push(None);
            frames.line.push(line);
            frames.column.push(None);
            frames.length += 1;
        }
    }

    fn function(&mut self, name: &str, file: Option<&str>, module: Option<&str>) -> u32 {
        let name = self.string(name);
        let file = file.map(|file| self.string(file));
        let resource = module.map_or(-1, |path| self.resource(path));
        let next = self.functions.length as u32;
        let id = *self.function_ids.entry((name, file, resource)).or_insert(next);
        if id == next {
            let functions = &mut self.functions;
            functions.is_js.push(false);
            functions.relevant_for_js.push(false);
            functions.name.push(name);
            functions.resource.push(resource);
            functions.file_name.push(file);
            functions.line_number.push(None);
            functions.column_number.push(None);
            functions.length += 1;
        }
        id
    }

    fn resource(&mut self, path: &str) -> i32 {
        /// Kind of resource of Firefox's profiler.
        const LIBRARY: u8 = 1;
        if let Some(&id) = self.resource_ids.get(path) {
            return id;
        }
        let lib = self.profile.modules.iter().position(|module| module.path == path).unwrap_or(0);
        let name = self.string(path.rsplit('/').next().unwrap_or(path));
        let id = self.resources.length as i32;
        self.resources.lib.push(lib as u32);
        self.resources.name.push(name);
        self.resources.host.push(None);
        self.resources.r#type.push(LIBRARY);
        self.resources.length += 1;
        self.resource_ids.insert(path.to_owned(), id);
        id
    }

    fn string(&mut self, text: &str) -> u32 {
        if let Some(&id) = self.strings.get(text) {
            return id;
        }
        let id = self.string_array.len() as u32;
        self.string_array.push(text.to_owned());
        self.strings.insert(text.to_owned(), id);
        id
    }
}
