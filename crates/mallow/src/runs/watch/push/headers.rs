//! Headers of pushes, which have the secrets: from a file, in requests, and nowhere else.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use mallow_fleet::push::StoreKind;
use ureq::http::{HeaderName, HeaderValue};

/// More is no file of headers.
const MOST: u64 = 64 << 10;
/// Shorter values are no secrets, and may be a part of any sentence.
const SHORTEST_SECRET: usize = 4;
/// Names of headers that mallow sets itself.
const OURS: [&str; 8] = [
    "host",
    "connection",
    "content-length",
    "content-type",
    "content-encoding",
    "transfer-encoding",
    "accept",
    "accept-encoding",
];

/// A file of headers. A token that is renewed there is used from the next push on.
#[derive(Clone)]
pub struct HeaderFile {
    path: PathBuf,
    latest: Vec<(HeaderName, HeaderValue)>,
}

impl HeaderFile {
    /// Reads it: a file that is wrong is an error before a command starts.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self { path: path.to_owned(), latest: read(path)? })
    }

    /// The headers as they are now; those of before where the file cannot be read any more.
    pub fn now(&mut self) -> &[(HeaderName, HeaderValue)] {
        if let Ok(read) = read(&self.path) {
            self.latest = read;
        }
        &self.latest
    }

    /// Whether there are headers beside the name of a tenant.
    pub fn is_secret(&self) -> bool {
        self.latest.iter().any(|(name, _)| name != "x-scope-orgid")
    }

    /// The text without the values of the headers: a store may repeat what it was sent.
    pub fn redact(&self, text: &str) -> String {
        let values = self.latest.iter().filter_map(|(_, value)| std::str::from_utf8(value.as_bytes()).ok());
        let words = values.flat_map(|value| std::iter::once(value).chain(value.split_whitespace()));
        let secrets = words.filter(|word| word.len() >= SHORTEST_SECRET && !matches!(*word, "Bearer" | "Basic"));
        secrets.fold(text.to_owned(), |text, secret| text.replace(secret, "***"))
    }
}

/// `otlp=FILE` or `FILE`, for stores of that kind or for all.
pub fn parse(flag: &Path) -> (Option<StoreKind>, PathBuf) {
    let named = flag.to_str().and_then(|text| {
        let (kind, path) = text.split_once('=')?;
        Some((StoreKind::named(kind)?, PathBuf::from(path)))
    });
    match named {
        Some((kind, path)) => (Some(kind), path),
        None => (None, flag.to_owned()),
    }
}

fn read(path: &Path) -> Result<Vec<(HeaderName, HeaderValue)>> {
    let name = path.display();
    let mut text = String::new();
    let file = std::fs::File::open(path).with_context(|| format!("cannot read the headers in {name}"))?;
    file.take(MOST).read_to_string(&mut text).with_context(|| format!("cannot read the headers in {name}"))?;
    parsed(&text, &name.to_string())
}

fn parsed(text: &str, name: &str) -> Result<Vec<(HeaderName, HeaderValue)>> {
    let mut headers = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let pair = line.split_once(':').and_then(|(key, value)| {
            let key = HeaderName::from_bytes(key.trim().as_bytes()).ok()?;
            let mut value = HeaderValue::from_str(value.trim()).ok()?;
            value.set_sensitive(true);
            Some((key, value))
        });
        // The line itself may be a secret.
        let Some((key, value)) = pair else { bail!("{name}: line {number} is no header (NAME: VALUE)") };
        if OURS.contains(&key.as_str()) {
            bail!("{name}: line {number} is a header that mallow sets itself");
        }
        headers.push((key, value));
    }
    if headers.is_empty() {
        bail!("{name} has no headers");
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use mallow_fleet::push::StoreKind;

    use super::{HeaderFile, parse, parsed};

    fn file(text: &str) -> HeaderFile {
        HeaderFile { path: PathBuf::new(), latest: parsed(text, "f").expect("headers") }
    }

    #[test]
    fn lines_are_headers_and_errors_have_no_secret() {
        let headers =
            parsed("# token\n\nAuthorization: Bearer hunter2hunter2\nX-Scope-OrgID:t\n", "f").expect("headers");
        assert_eq!(headers.len(), 2);
        assert!(!format!("{headers:?}").contains("hunter2"), "{headers:?}");
        for wrong in ["", "hunter2", "a b: hunter2", "A: hunter2\u{1}", "Content-Length: 1", "Host: hunter2"] {
            let error = parsed(wrong, "f").expect_err(wrong).to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn what_a_store_repeats_is_hidden() {
        let file = file("Authorization: Bearer hunter2hunter2\nX: ab");
        assert!(file.is_secret());
        assert_eq!(file.redact("no: Bearer hunter2hunter2, ab"), "no: ***, ab");
        assert_eq!(file.redact("hunter2hunter2?"), "***?");
        assert!(!self::file("X-Scope-OrgID: tenant").is_secret());
    }

    #[test]
    fn a_file_may_be_for_one_store() {
        assert_eq!(parse(Path::new("parca=/a=b")), (Some(StoreKind::Parca), PathBuf::from("/a=b")));
        assert_eq!(parse(Path::new("/x/otlp=b")), (None, PathBuf::from("/x/otlp=b")));
    }
}
