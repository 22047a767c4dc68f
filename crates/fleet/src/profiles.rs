//! Profiles for `go tool pprof` and for scrapers that read what it reads.

use std::io;

use mallow_formats::{pprof, write_heap_text};
use mallow_profile::Profile;

/// A gzipped profile. `names`: with names of functions; otherwise with addresses and build ids alone. `since`: what
/// changed since that earlier profile of the same program.
pub fn heap(profile: &Profile, shown_first: &str, names: bool, since: Option<&Profile>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    pprof::write_as(profile, &pprof::Options { shown_first, names, since }, &mut bytes)?;
    Ok(bytes)
}

/// A profile as text with names, which is not compressed.
pub fn heap_text(profile: &Profile) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    write_heap_text(profile, &mut bytes)?;
    Ok(bytes)
}
