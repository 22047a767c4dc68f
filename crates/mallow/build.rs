//! Makes the table of the page's files: each file of `src/page/assets/` is part of the command. And the same page in
//! one file, for `mallow export --format html`: its modules are one script, its style is inside, and a policy lets
//! nothing else run. And the JSON Schemas of `docs/schemas/`, for `mallow help json`.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// Lines of `index.html` that become what they lead to.
const CHARSET: &str = "<meta charset=\"utf-8\">";
const STYLE: &str = "<link rel=\"stylesheet\" href=\"/page/style.css\">";
const SCRIPT: &str = "<script type=\"module\" src=\"/page/main.js\"></script>";
/// Where the exported page finds its numbers.
const MODEL: &str = "<script type=\"application/json\" id=\"mallow-model\">";

fn main() -> io::Result<()> {
    let assets = Path::new("src/page/assets");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", assets.display());
    let entries = fs::read_dir(assets)?.map(|entry| entry.map(|entry| entry.path()));
    let mut files: Vec<PathBuf> = entries.collect::<Result<_, _>>()?;
    files.sort();
    let mut table = "&[\n".to_owned();
    for file in files {
        println!("cargo::rerun-if-changed={}", file.display());
        let (name, path) = (file.file_name().unwrap_or_default(), fs::canonicalize(&file)?);
        writeln!(table, "({name:?}, include_bytes!({path:?}) as &[u8]),").map_err(io::Error::other)?;
    }
    table += "]\n";
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?;
    fs::write(Path::new(&out).join("assets.rs"), table)?;
    let [head, tail] = self_contained(assets)?;
    fs::write(Path::new(&out).join("page_head.html"), head)?;
    fs::write(Path::new(&out).join("page_tail.html"), tail)?;
    fs::write(Path::new(&out).join("schemas.json.xz"), schemas(Path::new("../../docs/schemas"))?)
}

/// The schemas of a folder, by name, as one object of JSON: xz. They have types in common, far from each other.
fn schemas(folder: &Path) -> io::Result<Vec<u8>> {
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| entry.map(|file| file.path())).collect::<Result<_, _>>()?;
    files.sort();
    let mut text = "{".to_owned();
    for (number, file) in files.iter().enumerate() {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let lines: String = fs::read_to_string(file)?.lines().map(str::trim_start).collect();
        let comma = if number == 0 { "" } else { "," };
        write!(text, "{comma}{name:?}:{lines}").map_err(io::Error::other)?;
    }
    text.push('}');
    let mut packed = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(9))?;
    io::Write::write_all(&mut packed, text.as_bytes())?;
    packed.finish()
}

/// The page in one file: what is before its numbers, and what is after them.
fn self_contained(assets: &Path) -> io::Result<[String; 2]> {
    let index = fs::read_to_string(assets.join("index.html"))?;
    let style = fs::read_to_string(assets.join("style.css"))?;
    let mut bundle = Bundle { assets, script: "\"use strict\";\n".to_owned(), done: Vec::new(), open: Vec::new() };
    bundle.add("main.js")?;
    let script = bundle.script;
    if script.contains("</script") || script.contains("<!--") || style.contains("</style") {
        return Err(io::Error::other("a file of the page would end the element that it is in"));
    }
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text.as_bytes())));
    let policy = format!(
        "default-src 'none'; script-src {}; style-src {}; img-src data:; base-uri 'none'; form-action 'none'",
        hash(&script),
        hash(&style)
    );
    let policy = format!("{CHARSET}\n<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">");
    let replaced = |text: &str, line: &str, by: &str| match text.matches(line).count() {
        1 => Ok(text.replacen(line, by, 1)),
        number => Err(io::Error::other(format!("index.html has {line} {number} times, not once"))),
    };
    let index = replaced(&index, CHARSET, &policy)?;
    let index = replaced(&index, STYLE, &format!("<style>{style}</style>"))?;
    let (head, tail) =
        index.split_once(SCRIPT).ok_or_else(|| io::Error::other(format!("index.html has no {SCRIPT}")))?;
    let tail = format!("</script>\n<script type=\"module\">{script}</script>{tail}");
    Ok([format!("{head}{MODEL}"), tail])
}

/// Modules as one script: each is a function that returns what it exports.
struct Bundle<'a> {
    assets: &'a Path,
    script: String,
    done: Vec<String>,
    /// Modules that wait for those that they import.
    open: Vec<String>,
}

impl Bundle<'_> {
    fn add(&mut self, name: &str) -> io::Result<()> {
        if self.done.iter().any(|done| done == name) {
            return Ok(());
        }
        let wrong = |what: &str| io::Error::other(format!("{name}: {what}"));
        if self.open.iter().any(|open| open == name) {
            return Err(wrong("it imports itself, through others"));
        }
        self.open.push(name.to_owned());
        let text = fs::read_to_string(self.assets.join(name))?;
        let (mut body, mut exports) = (String::new(), Vec::new());
        for line in text.lines() {
            let line = if let Some(rest) = line.strip_prefix("import ") {
                let import = rest.strip_suffix("\";").and_then(|rest| rest.split_once(" from \"./"));
                let (names, from) = import.ok_or_else(|| wrong(&format!("no import like that: {line}")))?;
                if names.contains(" as ") || !names.starts_with('{') {
                    return Err(wrong(&format!("no import like that: {line}")));
                }
                self.add(from)?;
                format!("const {names} = {};", variable(from))
            } else if let Some(rest) = line.strip_prefix("export ") {
                let keyword =
                    ["async function ", "function ", "class ", "const "].into_iter().find(|k| rest.starts_with(k));
                let keyword = keyword.ok_or_else(|| wrong(&format!("no export like that: {line}")))?;
                let end = |c: char| !c.is_alphanumeric() && c != '_' && c != '$';
                exports.push(rest[keyword.len()..].split(end).next().unwrap_or_default().to_owned());
                rest.to_owned()
            } else {
                line.to_owned()
            };
            body += &line;
            body.push('\n');
        }
        let exports = exports.join(", ");
        self.script += &format!("const {} = (() => {{\n{body}return {{ {exports} }};\n}})();\n", variable(name));
        self.open.pop();
        self.done.push(name.to_owned());
        Ok(())
    }
}

/// The name of a module's exports.
fn variable(file: &str) -> String {
    format!("module_{}", file.trim_end_matches(".js").replace(|c: char| !c.is_ascii_alphanumeric(), "_"))
}
