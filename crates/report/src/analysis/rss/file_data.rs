//! Data of files, and whose most of it is.

use std::collections::BTreeMap;

use mallow_profile::{Footprint, MappingKind};

use super::ledger::RssLedger;

/// A file's share of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfFile {
    pub name: String,
    /// Resident bytes, `.bss` included.
    pub bytes: u64,
    /// Resident bytes of `.bss`.
    pub bss: u64,
}

/// The file with most data, `.bss` included; None where no file has any.
pub fn largest(footprint: &Footprint, ledger: Option<&RssLedger<'_>>) -> Option<OfFile> {
    let mut all: BTreeMap<&str, OfFile> = BTreeMap::new();
    let mut add = |name, bytes: u64, bss: u64| {
        let own = all.entry(name).or_default();
        (own.bytes, own.bss) = (own.bytes.saturating_add(bytes), own.bss.saturating_add(bss));
    };
    for mapping in &footprint.mappings {
        let rss = mapping.sizes.rss;
        match mapping.kind {
            MappingKind::FileData => add(mapping.name.as_str(), rss, 0),
            MappingKind::Bss => add(mapping.name.as_str(), rss, rss),
            _ => {}
        }
    }
    for &(index, bytes) in ledger.into_iter().flat_map(|ledger| &ledger.unnamed_bss) {
        let file = index.checked_sub(1).and_then(|before| footprint.mappings.get(before));
        add(file.map_or("", |file| file.name.as_str()), bytes, bytes);
    }
    let most = all.into_iter().filter(|(name, own)| !name.is_empty() && own.bytes > 0);
    let (name, own) = most.max_by_key(|(_, own)| own.bytes)?;
    Some(OfFile { name: name.to_owned(), ..own })
}

#[cfg(test)]
mod tests {
    use super::super::PartKind;
    use super::super::tests::{Made, glibc, mapping};
    use super::*;

    const PAGE: u64 = 4096;

    /// A program with more `.bss` than any file has data, an allocator's block in it, and memory of its own right
    /// behind libc's data.
    #[test]
    fn bss_is_its_modules_and_what_an_allocator_has_of_it_is_not() {
        let at = 0x5555_0000_0000 - 0x100_0000;
        let program = vec![
            mapping(MappingKind::FileData, at, 2, 2, "/bin/server"),
            mapping(MappingKind::Bss, at + 2 * PAGE, 100, 60, "/bin/server"),
        ];
        let behind = 0x7f00_0000_0000 + 104 * PAGE;
        let own = vec![mapping(MappingKind::Anonymous, behind, 90, 90, "")];
        let mut made = Made::new([program, glibc(4, 4), own].concat(), &[]);
        made.profile.footprints[0].mappings.sort_by_key(|mapping| mapping.start);
        let report = made.report();
        let part = |kind| report.account.parts.iter().find(|part| part.part == kind).expect("it");
        let data = part(PartKind::Data);
        assert_eq!((data.bytes, data.mapping.as_deref()), (64 * PAGE as i64, Some("/bin/server")));
        assert_eq!((data.file_bytes, data.bss_bytes), (Some(62 * PAGE), Some(60 * PAGE)));
        assert_eq!(part(PartKind::Mappings).bytes, 90 * PAGE as i64);
        assert!(report.account.parts.iter().all(|part| part.part != PartKind::Unsettled));
    }
}
