//! A store: its kind and its address.

use std::fmt;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use mallow_profile::Profile;

use super::ledger::Window;
use super::request::Request;
use super::resource::Resource;
use super::{otlp, parca, pyroscope};
use crate::profiles::heap;

/// Protocol of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreKind {
    /// OpenTelemetry's profiles by HTTP (OTLP).
    Otlp,
    Pyroscope,
    Parca,
}

impl StoreKind {
    const ALL: [(&str, Self); 3] = [("otlp", Self::Otlp), ("pyroscope", Self::Pyroscope), ("parca", Self::Parca)];

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// A store and its address, which has no secret in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    pub kind: StoreKind,
    /// `http://host:port/path`, without a `/` at its end.
    pub url: String,
}

/// Why an address is none. It never repeats the address: there may be a password in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadAddress(&'static str);

impl fmt::Display for BadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Store {
    /// Reads a store such as `otlp=http://collector:4318`.
    pub fn parse(text: &str) -> Result<Self, BadAddress> {
        let form = BadAddress("give otlp=URL, pyroscope=URL or parca=URL, with http:// or https://");
        let (kind, url) = text.split_once('=').ok_or(form)?;
        let kind = StoreKind::named(kind).ok_or(form)?;
        let (scheme, rest) = url.split_once("://").ok_or(form)?;
        if !matches!(scheme, "http" | "https") {
            return Err(form);
        }
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains('@') {
            return Err(BadAddress("an address has no user and no password: --push-header-file has secrets"));
        }
        if rest.contains(['?', '#']) || rest.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(BadAddress("an address ends with its path: no ?, no # and no white space"));
        }
        if authority.is_empty() || authority.starts_with(':') {
            return Err(form);
        }
        Ok(Self { kind, url: url.trim_end_matches('/').to_owned() })
    }

    /// Whether other machines can read what is sent.
    pub fn is_plain(&self) -> bool {
        let Some(rest) = self.url.strip_prefix("http://") else { return false };
        let authority = rest.split('/').next().unwrap_or_default();
        let host = match authority.strip_prefix('[') {
            Some(six) => six.split(']').next().unwrap_or_default(),
            None => authority.split(':').next().unwrap_or_default(),
        };
        let four = host.strip_prefix("127.").is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'));
        !(four || host == "::1" || host == "localhost")
    }

    /// The request that carries a window. `profile` has the tables of its sites; its own sites do not matter. `id`:
    /// what no other window has. `names`: with names of functions.
    pub fn request(
        &self,
        profile: &mut Profile,
        window: &mut Window,
        resource: &Resource,
        id: [u8; 16],
        names: bool,
    ) -> io::Result<Request> {
        if self.kind == StoreKind::Otlp {
            let message = otlp::encode(profile, window, resource, id, names);
            let mut packed = GzEncoder::new(Vec::new(), Compression::default());
            packed.write_all(&message)?;
            let headers =
                vec![("content-type", "application/x-protobuf".to_owned()), ("content-encoding", "gzip".to_owned())];
            return Ok(Request { path: otlp::PATH.to_owned(), headers, body: packed.finish()? });
        }
        let times = (profile.started_unix_ms, profile.duration_ms);
        (profile.started_unix_ms, profile.duration_ms) =
            (window.began_ms, window.ended_ms - window.began_ms.min(window.ended_ms));
        // Arguments may be secrets.
        let command = std::mem::take(&mut profile.command);
        std::mem::swap(&mut profile.sites, &mut window.sites);
        let pprof = heap(profile, "inuse_space", names, None);
        std::mem::swap(&mut profile.sites, &mut window.sites);
        profile.command = command;
        (profile.started_unix_ms, profile.duration_ms) = times;
        let pprof = pprof?;
        Ok(match self.kind {
            StoreKind::Pyroscope => pyroscope::request(window, resource, id, &pprof),
            StoreKind::Parca | StoreKind::Otlp => parca::request(resource, pprof),
        })
    }
}

#[cfg(test)]
mod tests {
    use mallow_formats::read;
    use mallow_report::testing::parser;

    use super::super::ledger::PushLedger;
    use super::super::resource::Resource;
    use super::{Store, StoreKind};

    #[test]
    fn addresses_have_no_secrets() {
        let store = Store::parse("otlp=http://collector:4318/").expect("a store");
        assert_eq!((store.kind, store.url.as_str()), (StoreKind::Otlp, "http://collector:4318"));
        let store = Store::parse("parca=https://[::1]:7070/a/b").expect("a store");
        assert_eq!((store.kind, store.url.as_str()), (StoreKind::Parca, "https://[::1]:7070/a/b"));
        for wrong in [
            "",
            "otlp",
            "http://h",
            "zipkin=http://h",
            "otlp=h:4318",
            "otlp=ftp://h",
            "otlp=http://",
            "otlp=http://:80",
            "otlp=http://h/?key=hunter2",
            "otlp=http://h/#hunter2",
            "otlp=https://user:hunter2@h",
            "otlp=https://hunter2@h/",
            "otlp=http://h ",
        ] {
            let error = Store::parse(wrong).expect_err(wrong).to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn what_leaves_the_machine_unread_is_known() {
        let plain = |url: &str| Store::parse(&format!("otlp={url}")).expect("a store").is_plain();
        for far in
            ["http://h", "http://127.example:1/", "http://localhost.example", "http://[::2]:1", "http://10.0.0.1"]
        {
            assert!(plain(far), "{far}");
        }
        for near in ["https://h", "http://127.0.0.1:4318", "http://localhost/x", "http://[::1]:4318"] {
            assert!(!plain(near), "{near}");
        }
    }

    #[test]
    fn pprof_has_the_window_and_no_command_line() {
        let mut profile = parser();
        let before = profile.clone();
        let mut windows = PushLedger::default().windows(&profile, &|_| true);
        let store = Store::parse("pyroscope=http://h").expect("a store");
        let sent =
            store.request(&mut profile, &mut windows[0], &Resource::default(), [1; 16], true).expect("a request");
        assert_eq!((&profile.sites, &profile.command), (&before.sites, &before.command));
        let starts = sent.body.windows(2).position(|two| two == [0x1f, 0x8b]).expect("gzip");
        let ends = starts + sent.body[starts..].windows(4).position(|four| four == b"\r\n--").expect("a boundary");
        let read = read(&sent.body[starts..ends], None, &mut |_| {}).expect("pprof").profile;
        assert!(!read.command.iter().any(|word| word.contains("9000")), "{:?}", read.command);
        let of = before.sites.iter().filter(|site| site.process.0 == 0).map(|site| site.counts.allocated_bytes);
        assert_eq!(read.totals.allocated_bytes, of.sum::<u64>());
    }
}
