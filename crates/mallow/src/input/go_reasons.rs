//! Reasons beside Go lines, as a file has them: JSON of `mallow go escape` or `mallow go profile`, or the compiler's
//! text.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use mallow_golang::escape::{Escapes, VERSION};
use mallow_golang::read::{Diagnostics, read as read_text};
use serde::Deserialize;

/// A file that is larger is not read.
const LARGEST: u64 = 256 << 20;
/// Characters of a reason that are kept.
const LONGEST: usize = 400;
/// The directory that relative names of the compiler's text start at: which one that was, the text does not say.
const HERE: &str = "/(directory of the build)";

/// Why something is allocated at a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReason {
    /// The source: an absolute path, or one from the directory in which the compiler ran.
    pub file: String,
    /// Line number, counted from 1.
    pub line: u32,
    /// Import path of the package; None where the file does not say.
    pub package: Option<String>,
    /// The function without its package: `(*T).m`; None where the file does not say.
    pub function: Option<String>,
    /// Allocation and reason: `&T{...}: returned`.
    pub text: String,
}

pub fn read(path: &Path) -> Result<Vec<FileReason>> {
    let name = path.display();
    let mut text = Vec::new();
    let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
    file.take(LARGEST + 1).read_to_end(&mut text).with_context(|| format!("cannot read {name}"))?;
    if text.len() as u64 > LARGEST {
        bail!("{name} has more than {} MiB: it is no file of reasons", LARGEST >> 20);
    }
    parse(&text).with_context(|| format!("cannot use {name} as --go-reasons"))
}

fn parse(text: &[u8]) -> Result<Vec<FileReason>> {
    match text.trim_ascii_start().first() {
        None => bail!("it is empty; mallow go escape --json ./... writes reasons"),
        Some(b'{') => of_json(text),
        Some(_) => of_compiler(text),
    }
}

/// The parts of both commands' documents that are needed.
#[derive(Deserialize)]
struct Document {
    version: Option<u32>,
    sites: Option<Vec<EscapeSite>>,
    lines: Option<Vec<ProfileLine>>,
}

#[derive(Deserialize)]
struct EscapeSite {
    package: String,
    function: Option<String>,
    file: String,
    line: u32,
    inlined_from: Option<SourceLine>,
    what: String,
    why: String,
}

#[derive(Deserialize)]
struct SourceLine {
    file: String,
    line: u32,
}

#[derive(Deserialize)]
struct ProfileLine {
    chain: Vec<FunctionLine>,
    what: String,
    reason: String,
    one_of: usize,
}

#[derive(Deserialize)]
struct FunctionLine {
    function: String,
    file: String,
    line: u32,
}

fn of_json(text: &[u8]) -> Result<Vec<FileReason>> {
    const WANTED: &str = "it is not what mallow go escape --json or mallow go profile --json writes";
    let document: Document = serde_json::from_slice(text).context(WANTED)?;
    if let Some(version) = document.version.filter(|version| *version > VERSION) {
        bail!("it is from a newer mallow (version {version}, known up to {VERSION})");
    }
    Ok(match (document.sites, document.lines) {
        (Some(sites), _) => sites.into_iter().flat_map(of_site).collect(),
        (None, Some(lines)) => lines.iter().flat_map(of_line).collect(),
        (None, None) => bail!(WANTED),
    })
}

/// A reason for the line of the function that was compiled, and one for the line that was inlined into it.
fn of_site(site: EscapeSite) -> Vec<FileReason> {
    let EscapeSite { package, function, file, line, inlined_from, what, why } = site;
    let base = |file: &str| file.rsplit('/').next().unwrap_or_default().to_owned();
    let mut reasons = Vec::new();
    let from = inlined_from.as_ref().map(|inner| format!(", inlined from {}:{}", base(&inner.file), inner.line));
    let outer = shortened(&format!("{what}{}: {why}", from.unwrap_or_default()));
    if let Some(inner) = inlined_from {
        let into = function.as_deref().map(|function| format!("{function} at ")).unwrap_or_default();
        let text = shortened(&format!("{what}, inlined into {into}{}:{line}: {why}", base(&file)));
        reasons.push(FileReason { file: inner.file, line: inner.line, package: None, function: None, text });
    }
    let package = Some(package).filter(|package| !package.is_empty());
    reasons.push(FileReason { file, line, package, function, text: outer });
    reasons
}

/// One for each line of the inline chain.
fn of_line(line: &ProfileLine) -> Vec<FileReason> {
    let reason = if line.reason.is_empty() { "no reason is known" } else { &line.reason };
    let sure = if line.one_of > 1 { format!(" (one of {}; which is not known)", line.one_of) } else { String::new() };
    let places = line.chain.iter().enumerate();
    let reason = |(at, place): (usize, &FunctionLine)| {
        let inner = at.checked_sub(1).and_then(|at| line.chain.get(at));
        let of = inner.map(|inner| format!(" of {}, inlined here", last_part(&inner.function)));
        let (package, function) = parts(&place.function);
        FileReason {
            file: place.file.clone(),
            line: place.line,
            package: Some(package),
            function: Some(function.to_owned()),
            text: shortened(&format!("{}{}: {reason}{sure}", line.what, of.unwrap_or_default())),
        }
    };
    places.map(reason).collect()
}

/// The function without directories: `bytes.NewBuffer` of `vendored/bytes.NewBuffer`.
fn last_part(function: &str) -> &str {
    let name = function.split('[').next().unwrap_or(function);
    name.rsplit('/').next().unwrap_or(name)
}

/// The package of a function as profiles name it, and the rest: `github.com/a/b` and `(*T).m[…]`. The linker writes a
/// dot of the package's last part as `%2e`.
pub fn parts(function: &str) -> (String, &str) {
    let name = function.split('[').next().unwrap_or(function);
    let last = name.rfind('/').map_or(0, |at| at + 1);
    let end = name[last..].find('.').map_or(name.len(), |at| last + at);
    (name[..end].replace("%2e", "."), function.get(end + 1..).unwrap_or_default())
}

/// The output of `go build -gcflags=-m=2`: each package follows a line `# IMPORT/PATH`.
fn of_compiler(text: &[u8]) -> Result<Vec<FileReason>> {
    const WANTED: &str = "it is neither JSON of mallow go escape or mallow go profile, nor the output of go build \
        -gcflags=-m=2 on standard error";
    let text = std::str::from_utf8(text).context(WANTED)?;
    let mut chunks: Vec<(&str, String)> = vec![("", String::new())];
    for line in text.lines() {
        match line.strip_prefix("# ") {
            Some(package) => chunks.push((package.split(' ').next().unwrap_or(package), String::new())),
            None => chunks.last_mut().into_iter().for_each(|(_, chunk)| chunk.extend([line, "\n"])),
        }
    }
    let chunks = chunks.iter().filter(|(_, chunk)| !chunk.is_empty());
    let found = chunks.map(|(package, chunk)| read_text(package, HERE, &[], chunk));
    let found: Vec<Diagnostics> = found.collect::<Result<_, _>>()?;
    if found.iter().all(|one| one.list.is_empty()) {
        bail!(WANTED);
    }
    let sites = Escapes::of("", &found, &[], HERE).sites.into_iter().map(|site| EscapeSite {
        package: site.package,
        function: site.function,
        file: site.file,
        line: site.line,
        inlined_from: site.inlined_from.map(|place| SourceLine { file: place.file, line: place.line }),
        what: site.what,
        why: site.why,
    });
    Ok(sites.flat_map(of_site).collect())
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(reasons: &[FileReason]) -> Vec<String> {
        reasons.iter().map(|reason| format!("{}:{} {}", reason.file, reason.line, reason.text)).collect()
    }

    #[test]
    fn json_of_escape_has_both_lines_of_inlined_code() {
        let json = r#"{"version": 1, "go": "go1.26.8", "packages": [], "passed_over": 0, "sites": [
            {"package": "example.com/a", "function": "(*T).m", "file": "sub/a.go", "line": 7, "column": 2,
             "inlined_from": {"file": "/go/src/bytes/buffer.go", "line": 490}, "kind": "composite",
             "what": "&bytes.Buffer{...}", "reason": "returned", "why": "returned"}]}"#;
        let reasons = parse(json.as_bytes()).expect("reasons");
        assert_eq!(
            texts(&reasons),
            [
                "/go/src/bytes/buffer.go:490 &bytes.Buffer{...}, inlined into (*T).m at a.go:7: returned",
                "sub/a.go:7 &bytes.Buffer{...}, inlined from buffer.go:490: returned"
            ]
        );
        assert_eq!((&reasons[0].package, &reasons[0].function), (&None, &None));
        assert_eq!(
            (reasons[1].package.as_deref(), reasons[1].function.as_deref()),
            (Some("example.com/a"), Some("(*T).m"))
        );
    }

    #[test]
    fn json_of_profile_has_what_the_runtime_knows() {
        let json = r#"{"go": "go1.26.8", "notes": [], "lines": [
            {"chain": [{"function": "x/bytes.NewBuffer", "file": "/go/bytes/buffer.go", "line": 490},
                       {"function": "example.com/a/stream.Copy", "file": "/p/stream.go", "line": 9}],
             "what": "&bytes.Buffer{...}", "reason": "returned", "source": "compiler", "one_of": 2},
            {"chain": [{"function": "main.stub", "file": "/p/stub.s", "line": 1}],
             "what": "not known", "reason": "", "source": "none", "one_of": 1}]}"#;
        let reasons = parse(json.as_bytes()).expect("reasons");
        assert_eq!(
            texts(&reasons),
            [
                "/go/bytes/buffer.go:490 &bytes.Buffer{...}: returned (one of 2; which is not known)",
                "/p/stream.go:9 &bytes.Buffer{...} of bytes.NewBuffer, inlined here: returned (one of 2; which is not known)",
                "/p/stub.s:1 not known: no reason is known"
            ]
        );
        let second = (reasons[1].package.as_deref(), reasons[1].function.as_deref());
        assert_eq!(second, (Some("example.com/a/stream"), Some("Copy")));
    }

    #[test]
    fn the_compilers_text_has_packages_and_reasons() {
        let text = "# example.com/a\n./a.go:5:6: can inline New with cost 10 as: func() *T { return &T{} }\n\
            ./a.go:6:9: &T{} escapes to heap in New:\n./a.go:6:9:   flow: ~r0 ← &{storage for &T{}}:\n\
            ./a.go:6:9:     from &T{} (spill) at ./a.go:6:9\n./a.go:6:9:     from return &T{} (return) at ./a.go:6:2\n\
            ./a.go:6:9: &T{} escapes to heap\n# example.com/a/b\nb/b.go:3:10: make([]int, n) escapes to heap\n";
        let reasons = parse(text.as_bytes()).expect("reasons");
        assert_eq!(reasons[0].text, "&T{}: returned");
        let is: Vec<_> =
            reasons.iter().map(|reason| (reason.file.as_str(), reason.line, reason.package.as_deref())).collect();
        assert_eq!(is, [("a.go", 6, Some("example.com/a")), ("b/b.go", 3, Some("example.com/a/b"))]);
    }

    #[test]
    fn what_is_no_file_of_reasons_is_an_error() {
        for (text, says) in [
            ("", "it is empty"),
            (" \n", "it is empty"),
            ("{}", "it is not what mallow go escape --json"),
            ("{\"sites\": 3}", "it is not what"),
            ("{\"sites\": [{\"file\": \"a.go\"}]}", "it is not what"),
            ("{\"sites\": [", "it is not what"),
            ("{\"version\": 99, \"sites\": []}", "a newer mallow (version 99"),
            ("[1]", "it is neither JSON"),
            ("hello\nworld\n", "it is neither JSON"),
            ("\u{0}\u{1}", "it is neither JSON"),
        ] {
            let error = format!("{:#}", parse(text.as_bytes()).expect_err(text));
            assert!(error.contains(says) && !error.contains('\n'), "{text:?}: {error}");
        }
        assert!(parse(b"\xff\xfe").is_err_and(|error| format!("{error:#}").contains("it is neither JSON")));
    }

    #[test]
    fn functions_in_parts_and_long_reasons() {
        for (function, package, rest) in [
            ("example.com/a.(*T).m", "example.com/a", "(*T).m"),
            ("gopkg.in/yaml%2ev3.(*decoder).scalar", "gopkg.in/yaml.v3", "(*decoder).scalar"),
            (
                "main.G[go.shape.struct { example.com/x.a int }].func1",
                "main",
                "G[go.shape.struct { example.com/x.a int }].func1",
            ),
            ("memcpy", "memcpy", ""),
            ("", "", ""),
        ] {
            assert_eq!(parts(function), (package.to_owned(), rest), "{function}");
        }
        assert_eq!(shortened(&"ä".repeat(1000)).chars().count(), LONGEST + 1);
    }
}
