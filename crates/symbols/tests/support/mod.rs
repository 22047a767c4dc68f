//! Building small programs, and asking other tools about them.
#![allow(dead_code)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mallow_profile::{Frame, FrameId, Module, ModuleId, Profile};
use mallow_symbols::{ModuleSummary, Options, Symbolizer};
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};

/// One function of an address: its name, the file's name without directories, the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place(pub String, pub String, pub u32);

/// Runs a command that must succeed.
pub fn run(command: &mut Command) -> Vec<u8> {
    let output = command.stderr(Stdio::piped()).output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The source of a test program.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// Compiles `name` with the compiler of its language and returns the executable in `folder`.
pub fn compile(folder: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let source = source(name);
    let out = folder.join(source.file_stem().unwrap());
    let mut command = match source.extension().and_then(|e| e.to_str()) {
        Some("cpp") => Command::new("g++"),
        Some("rs") => Command::new("rustc"),
        Some("go") => {
            // Its cache is that of the other tests, so that the standard library is built once.
            let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/go-cache");
            let mut command = Command::new("go");
            command.env("GOCACHE", std::path::absolute(cache).unwrap()).env("GO111MODULE", "off");
            run(command.current_dir(folder).arg("build").args(flags).arg("-o").arg(&out).arg(source));
            return out;
        }
        _ => Command::new("gcc"),
    };
    run(command.current_dir(folder).arg(source).arg("-o").arg(&out).args(flags));
    out
}

/// A profile with one module, whose build-id is the file's own.
pub fn profile(path: &Path) -> Profile {
    let bytes = std::fs::read(path).unwrap();
    let build_id = object::File::parse(&*bytes).ok().and_then(|f| f.build_id().ok().flatten().map(<[u8]>::to_vec));
    let module = Module { path: path.to_str().unwrap().into(), build_id: build_id.unwrap_or_default() };
    Profile { modules: vec![module], ..Profile::default() }
}

/// Adds a frame of the profile's first module.
pub fn add(profile: &mut Profile, address: u64, exact: bool) -> FrameId {
    profile.frames.push(Frame::new(Some(ModuleId(0)), address, exact));
    FrameId(profile.frames.len() as u32 - 1)
}

/// What a frame's lines say.
pub fn places(profile: &Profile, frame: FrameId) -> Vec<Place> {
    let place = |line: &mallow_profile::Line| {
        let file = line.file.map_or("", |file| profile.strings.get(file));
        Place(profile.strings.get(line.function).into(), file_name(file), line.line)
    };
    profile.frames[frame.0 as usize].lines.iter().map(place).collect()
}

/// Function names of a frame, the innermost first.
pub fn names(profile: &Profile, frame: FrameId) -> Vec<String> {
    places(profile, frame).into_iter().map(|place| place.0).collect()
}

fn file_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or_default().to_string()
}

/// Looks up exact addresses of one file.
pub fn look_up(path: &Path, addresses: &[u64], options: Options) -> (Vec<Vec<Place>>, ModuleSummary) {
    let mut profile = profile(path);
    let frames: Vec<_> = addresses.iter().map(|&address| add(&mut profile, address, true)).collect();
    let summary = Symbolizer::new(options).symbolize_all(&mut profile);
    let [module] = summary.modules.as_slice() else { panic!("one module: {summary:?}") };
    (frames.iter().map(|&frame| places(&profile, frame)).collect(), module.clone())
}

/// Options that look nowhere but beside the file.
pub fn nowhere() -> Options {
    Options { debug_directories: Vec::new(), debuginfod_cache: None, ..Options::default() }
}

/// Every `step`th address of the file's functions: not of the padding between them, which addr2line counts to the one
/// before.
pub fn text(path: &Path, step: usize) -> Vec<u64> {
    let bytes = std::fs::read(path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let text = file.section_by_name(".text").unwrap();
    let functions = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0);
    let functions = functions.filter(|symbol| symbol.section_index() == Some(text.index()));
    let mut addresses: Vec<_> = functions.flat_map(|f| f.address()..f.address() + f.size()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses.into_iter().step_by(step).collect()
}

/// The addresses of a section.
pub fn section(path: &Path, name: &str) -> std::ops::Range<u64> {
    let bytes = std::fs::read(path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let section = file.section_by_name(name).unwrap();
    section.address()..section.address() + section.size()
}

/// The address of a symbol, by its mangled name.
pub fn symbol(path: &Path, name: &str) -> u64 {
    let bytes = std::fs::read(path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let found = file.symbols().chain(file.dynamic_symbols()).find(|symbol| symbol.name() == Ok(name));
    found.unwrap_or_else(|| panic!("no symbol {name}")).address()
}

/// The first call instruction's return address in a function, and the function that is called, by objdump.
pub fn call(path: &Path, function: &str, callee: &str) -> u64 {
    let text = run(Command::new("objdump").arg("-d").arg("--no-show-raw-insn").arg(path));
    let text = String::from_utf8(text).unwrap();
    let start = text.find(&format!("<{function}>:\n")).unwrap_or_else(|| panic!("no {function}"));
    let mut lines = text[start..].lines().skip(1);
    lines.find(|line| line.contains("call") && line.contains(callee)).unwrap_or_else(|| panic!("no call of {callee}"));
    u64::from_str_radix(lines.next().unwrap().trim().split(':').next().unwrap(), 16).unwrap()
}

/// What binutils' addr2line says, names as in the file.
pub fn addr2line(path: &Path, addresses: &[u64]) -> Vec<Vec<Place>> {
    let output = ask(Command::new("addr2line").args(["-a", "-f", "-i", "-e"]).arg(path), addresses);
    let mut all: Vec<Vec<Place>> = Vec::new();
    let mut lines = output.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            all.push(Vec::new());
            continue;
        }
        let position = lines.next().unwrap().split(" (disc").next().unwrap();
        all.last_mut().unwrap().push(place(line, position));
    }
    assert_eq!(all.len(), addresses.len());
    all
}

/// What llvm-symbolizer says, names as in the file.
pub fn llvm_symbolizer(path: &Path, addresses: &[u64]) -> Vec<Vec<Place>> {
    let mut command = Command::new("llvm-symbolizer");
    let output = ask(command.args(["--no-demangle", "--inlines", "--functions=linkage", "--obj"]).arg(path), addresses);
    let mut all = vec![Vec::new()];
    let mut lines = output.lines();
    while let Some(line) = lines.next() {
        if line.is_empty() {
            all.push(Vec::new());
            continue;
        }
        let position = lines.next().unwrap().rsplit_once(':').unwrap().0;
        all.last_mut().unwrap().push(place(line, position));
    }
    all.truncate(addresses.len());
    all
}

fn place(name: &str, position: &str) -> Place {
    let (file, line) = position.rsplit_once(':').unwrap();
    let unknown = |text: &str| if text == "??" { String::new() } else { text.to_string() };
    Place(name.to_string(), file_name(&unknown(file)), line.parse().unwrap_or(0))
}

fn ask(command: &mut Command, addresses: &[u64]) -> String {
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = started.unwrap_or_else(|e| panic!("{command:?}: {e}: tests/prerequisites installs it"));
    let mut input = child.stdin.take().unwrap();
    let text: String = addresses.iter().map(|address| format!("{address:#x}\n")).collect();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    String::from_utf8(output.stdout).unwrap()
}
