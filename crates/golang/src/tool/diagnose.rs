//! What the compiler says of packages, kept by what was compiled.
//!
//! Go replays what a compiler printed (`-m=2`) when it finds the package in its cache, and not the files that it wrote
//! (`-json`). So both are kept here, under the identifier that Go gives to the compiler's inputs, and a package is
//! compiled with these flags once.

use std::fs;
use std::io;
use std::path::Path;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::build::TestBinary;
use super::cache::Shelf;
use super::{Go, GoError, Input};
use crate::read::{Diagnostics, LineDirectives, ReadError, read_generated};
use crate::settle::settle;
use crate::source::GoSource;

#[derive(Clone, Debug)]
pub struct Unit {
    pub package: String,
    /// The package whose test this one was compiled for.
    pub for_test: Option<String>,
    /// Relative file names in `text` begin here.
    pub directory: String,
    /// Contents of the files of `-json=0,DIR`.
    pub json: Vec<String>,
    pub text: String,
}

/// Sources that are larger are not read.
const LARGEST_SOURCE: u64 = 16 << 20;

impl Unit {
    /// Reads it, and settles by the sources what the compiler leaves open.
    pub fn read(&self) -> Result<Diagnostics, ReadError> {
        let mut texts: FxHashMap<String, Option<String>> = FxHashMap::default();
        let mut directives = |file: &str| {
            let text = texts.entry(file.to_owned()).or_insert_with(|| text_of(Path::new(file)));
            text.as_deref().map(LineDirectives::of)
        };
        let mut found = read_generated(&self.package, &self.directory, &self.json, &self.text, &mut directives)?;
        let mut sources: FxHashMap<String, Option<Rc<GoSource>>> = FxHashMap::default();
        settle(&mut found.list, &mut |file| {
            let mut text = || texts.remove(file).unwrap_or_else(|| text_of(Path::new(file)));
            sources.entry(file.to_owned()).or_insert_with(|| text().map(GoSource::parse).map(Rc::new)).clone()
        });
        Ok(found)
    }
}

/// A Go source. None where this is no file here, as for a name of `-trimpath` or what the compiler makes itself, or one
/// that a source was generated from, or a file that is too large.
pub fn source(file: &Path) -> Option<GoSource> {
    text_of(file).map(GoSource::parse)
}

fn text_of(file: &Path) -> Option<String> {
    let is_source = file.is_absolute() && file.extension().is_some_and(|extension| extension == "go");
    let length = fs::metadata(file).ok().filter(|_| is_source)?.len();
    let text = (length <= LARGEST_SOURCE).then(|| fs::read(file).ok())??;
    Some(String::from_utf8_lossy(&text).into_owned())
}

const TEXT: &str = "text";
const DIRECTORY: &str = "directory";
const JSON: &str = "json";

impl Go {
    /// Compiler output for those of the packages `wanted` that a test binary is made of.
    pub fn diagnose_test(&self, binary: &TestBinary, wanted: &[Input]) -> Result<Vec<Unit>, GoError> {
        self.diagnose_by(wanted, |flags| self.compile(flags, &["-test"], std::slice::from_ref(&binary.package)))
    }

    /// Compiler output for packages without their tests.
    pub fn diagnose(&self, packages: &[String]) -> Result<Vec<Unit>, GoError> {
        let inputs = self.inputs(packages, false, false)?;
        self.diagnose_by(&inputs, |flags| self.compile(flags, &[], packages))
    }

    /// Compiles, and links nothing; what is printed meanwhile.
    fn compile(&self, flags: &[String], how: &[&str], packages: &[String]) -> Result<Vec<u8>, GoError> {
        let mut more = flags.to_vec();
        more.extend_from_slice(packages);
        let output = self.run(&[&["list", "-export"], how].concat(), &more)?;
        match output.status.success() {
            true => Ok(output.stderr),
            false => Err(GoError::does_not_compile(&packages.join(" "), &output.stderr)),
        }
    }

    /// `compile` compiles with these flags, and gives what was printed.
    fn diagnose_by(
        &self,
        wanted: &[Input],
        compile: impl Fn(&[String]) -> Result<Vec<u8>, GoError>,
    ) -> Result<Vec<Unit>, GoError> {
        let compiled: Vec<&Input> = wanted.iter().filter(|input| !input.build_id.is_empty()).collect();
        let missing: Vec<&Input> =
            compiled.iter().copied().filter(|i| self.cache.find(Shelf::Diagnostics, &entry(i)).is_none()).collect();
        if !missing.is_empty() {
            let draft = self.cache.draft()?;
            // The tests of a package have the flags of the package itself.
            let mut directories: FxHashMap<String, String> = FxHashMap::default();
            for input in &missing {
                let next = format!("json{}", directories.len());
                directories.entry(plain(input)).or_insert(next);
            }
            let mut flags: Vec<String> = Vec::new();
            for (package, name) in &directories {
                let json = draft.path().join(name);
                flags.push(format!("-gcflags={package}=-m=2 -json=0,{}", json.display()));
            }
            flags.sort_unstable();
            let said = String::from_utf8_lossy(&compile(&flags)?).into_owned();
            let texts = by_package(&said);
            for input in &missing {
                let json = directories.get(&plain(input)).map(|name| draft.path().join(name));
                let text = texts.get(header(input).as_str()).copied().unwrap_or_default();
                self.store(input, json.as_deref(), text)?;
            }
        }
        compiled.into_iter().map(|input| self.load(input)).collect()
    }

    fn store(&self, input: &Input, json: Option<&Path>, text: &str) -> Result<(), GoError> {
        let failed = |error: io::Error| self.cache.failed(error);
        let draft = self.cache.draft()?;
        let into = draft.path().join(JSON);
        fs::create_dir(&into).map_err(failed)?;
        for directory in [escaped(&input.package), "main".to_owned()] {
            let Some(Ok(files)) = json.map(|json| fs::read_dir(json.join(&directory))) else { continue };
            for file in files.flatten().filter(|file| file.file_name() != "_testmain.json") {
                fs::copy(file.path(), into.join(file.file_name())).map_err(failed)?;
            }
            break;
        }
        fs::write(draft.path().join(TEXT), text).map_err(failed)?;
        fs::write(draft.path().join(DIRECTORY), self.directory().to_string_lossy().as_bytes()).map_err(failed)?;
        self.cache.keep(Shelf::Diagnostics, &entry(input), draft.path()).map(drop)
    }

    fn load(&self, input: &Input) -> Result<Unit, GoError> {
        let failed = |error: io::Error| self.cache.failed(error);
        let missing = || failed(io::Error::from(io::ErrorKind::NotFound));
        let path = self.cache.find(Shelf::Diagnostics, &entry(input)).ok_or_else(missing)?;
        let mut files: Vec<_> =
            fs::read_dir(path.join(JSON)).map_err(failed)?.flatten().map(|file| file.path()).collect();
        files.sort_unstable();
        let read = |path: &Path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Ok(Unit {
            package: input.package.clone(),
            for_test: input.for_test.clone(),
            directory: read(&path.join(DIRECTORY)).map_err(failed)?,
            json: files.iter().map(|path| read(path)).collect::<Result<_, _>>().map_err(failed)?,
            text: read(&path.join(TEXT)).map_err(failed)?,
        })
    }
}

/// The name of an entry: Go's identifier of all that went into the compiler, and what came out of it. It is made of
/// letters, digits, `-`, `_` and one slash.
fn entry(input: &Input) -> String {
    input.build_id.replace('/', ".")
}

/// The package whose flags this one is compiled with.
fn plain(input: &Input) -> String {
    match &input.for_test {
        Some(test) if input.package == format!("{test}_test") => test.clone(),
        _ => input.package.clone(),
    }
}

/// Header that Go prints before the compiler output for a package.
fn header(input: &Input) -> String {
    match &input.for_test {
        Some(test) => format!("{} [{test}.test]", input.package),
        None => input.package.clone(),
    }
}

/// The package's directory as the compiler escapes it.
fn escaped(package: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~$&+:=@".contains(&byte);
    let byte = |byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    package.bytes().map(byte).collect()
}

fn by_package(said: &str) -> FxHashMap<&str, &str> {
    let mut parts = FxHashMap::default();
    let mut rest = said;
    let mut current: Option<(&str, &str)> = None;
    while !rest.is_empty() {
        let end = rest.find('\n').map_or(rest.len(), |at| at + 1);
        let (line, after) = rest.split_at(end);
        if let Some(name) = line.strip_prefix("# ") {
            if let Some((before, start)) = current {
                parts.insert(before, &start[..start.len() - rest.len()]);
            }
            current = Some((name.trim_end(), after));
        }
        rest = after;
    }
    if let Some((name, start)) = current {
        parts.insert(name, start);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::{by_package, escaped};

    #[test]
    fn output_is_split_by_package() {
        let said = "before\n# a/b\n./x.go:1:2: one\n./x.go:2:2: two\n# a/b [a/b.test]\n# c\nthree";
        let parts = by_package(said);
        assert_eq!(parts["a/b"], "./x.go:1:2: one\n./x.go:2:2: two\n");
        assert_eq!((parts["a/b [a/b.test]"], parts["c"], parts.len()), ("", "three", 3));
    }

    #[test]
    fn packages_as_directories() {
        assert_eq!(escaped("example.com/a-b/v2"), "example.com%2Fa-b%2Fv2");
    }
}
