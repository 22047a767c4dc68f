//! Files that were made to break the reader: an answer or none, and never a panic.

mod support;

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use mallow_profile::{Module, ModuleId, Profile};
use mallow_symbols::{Note, Options, Symbolizer};
use proptest::prelude::*;
use support::{add, compile, look_up, nowhere, run, symbol, text};

/// Programs of all kinds, as bytes, with some addresses of each.
fn programs() -> &'static [(Vec<u8>, Vec<u64>)] {
    static PROGRAMS: OnceLock<Vec<(Vec<u8>, Vec<u64>)>> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let flags: [&[&str]; 5] = [
            &["-O2", "-g"],
            &["-O2", "-g", "-gdwarf-4", "-Wl,--compress-debug-sections=zlib"],
            &["-O2", "-g", "-gdwarf-3", "-Wl,--emit-relocs"],
            &["-O2", "-g", "-gsplit-dwarf"],
            &["-O2", "-fcf-protection", "-rdynamic"],
        ];
        let build = |flags: &&[&str]| {
            let path = compile(folder.path(), "plain.c", flags);
            let mut addresses = text(&path, 7);
            // The stubs before .text as well.
            addresses.extend((addresses[0] & !0xfff..addresses[0]).step_by(24));
            (fs::read(&path).unwrap(), addresses)
        };
        let mut all: Vec<_> = flags.iter().map(build).collect();
        let cpp = compile(folder.path(), "shapes.cpp", &["-O1", "-g"]);
        all.push((fs::read(&cpp).unwrap(), text(&cpp, 97)));
        let path = folder.path().join("plain");
        let mini = folder.path().join("mini");
        run(std::process::Command::new("objcopy").args(["-S", "--keep-symbol=internal"]).arg(&path).arg(&mini));
        run(std::process::Command::new("xz").arg(&mini));
        let section = format!(".gnu_debugdata={}", mini.with_extension("xz").display());
        run(std::process::Command::new("objcopy").args(["-S", "--add-section", &section]).arg(&path));
        all.push((fs::read(&path).unwrap(), text(&path, 7)));
        all
    })
}

/// Looks everything up; the names do not matter. The recording says whatever build-id the file has by then.
fn read(path: &Path, addresses: &[u64]) {
    use object::Object;
    let bytes = fs::read(path).unwrap();
    let id = object::File::parse(&*bytes).ok().and_then(|f| f.build_id().ok().flatten().map(<[u8]>::to_vec));
    let module = Module { path: path.to_str().unwrap().into(), build_id: id.unwrap_or_default() };
    let mut profile = Profile { modules: vec![module], ..Profile::default() };
    for &address in addresses.iter().chain(&[0, 1, u64::MAX, u64::MAX - 1, 1 << 63]) {
        add(&mut profile, address, address % 2 == 0);
    }
    let directory = path.parent().unwrap().to_path_buf();
    if let Ok(code) = Symbolizer::new(nowhere()).code(&profile, ModuleId(0)) {
        for &address in addresses.iter().take(20).chain(&[0, 1, u64::MAX]) {
            let range = code.function(address).unwrap_or(address..address.saturating_add(64));
            for instruction in code.instructions(range).iter().take(50) {
                let _ = (instruction.text(), code.target(instruction), code.name(instruction.next()));
            }
        }
    }
    let options = Options {
        debug_directories: vec![directory],
        debuginfod_cache: None,
        rust_hashes: true,
        root: None,
        given: None,
    };
    let summary = Symbolizer::new(options).symbolize_all(&mut profile);
    assert_eq!(summary.modules.len(), 1);
    assert!(!format!("{summary:?}{}", summary.modules[0].found).is_empty());
}

fn sections(bytes: &[u8]) -> Vec<(usize, usize)> {
    use object::{Object, ObjectSection};
    let file = object::File::parse(bytes).unwrap();
    let all = file.sections().filter(|section| {
        let name = section.name().unwrap_or_default();
        [".debug", ".symtab", ".strtab", ".dyn", ".rela", ".plt", ".gnu_debug", ".note"]
            .iter()
            .any(|p| name.starts_with(p))
    });
    let mut ranges: Vec<_> = all.filter_map(|section| section.file_range()).collect();
    // The section headers, at the end, and the file's own.
    ranges.push((bytes.len() as u64 - 64 * 30, 64 * 30));
    ranges.push((0, 64));
    ranges.into_iter().filter(|range| range.1 > 0).map(|(start, size)| (start as usize, size as usize)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn flipped_bytes_where_they_matter(
        program in 0usize..7,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..12),
    ) {
        let (original, addresses) = &programs()[program];
        let mut bytes = original.clone();
        let places = sections(original);
        for (section, offset, value) in edits {
            let (start, size) = places[section.index(places.len())];
            bytes[start + offset.index(size)] = value;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        fs::write(&path, bytes).unwrap();
        read(&path, addresses);
    }

    #[test]
    fn files_cut_short(program in 0usize..7, at in any::<prop::sample::Index>()) {
        let (original, addresses) = &programs()[program];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        fs::write(&path, &original[..at.index(original.len())]).unwrap();
        read(&path, addresses);
    }
}

#[test]
fn entries_nested_without_end() {
    for (depth, deep) in [(400, false), (600, true), (3_000_000, true)] {
        let folder = tempfile::tempdir().unwrap();
        let path = compile(folder.path(), "nested.s", &[&format!("-Wa,--defsym,DEPTH={depth}")]);
        // The stack that a thread has by default is the smallest of those that this runs on.
        let thread = std::thread::Builder::new().stack_size(2 << 20);
        let address = symbol(&path, "main");
        let (places, summary) = thread.spawn(move || look_up(&path, &[address], nowhere())).unwrap().join().unwrap();
        assert_eq!(places[0][0].0, "main");
        assert_eq!(summary.notes.iter().any(|note| matches!(note, Note::Damaged(_))), deep, "{depth}");
    }
}

#[test]
fn sections_that_claim_more_than_they_hold() {
    let folder = tempfile::tempdir().unwrap();
    for (compression, claim) in [("zlib", 1u64 << 31), ("zlib", 1 << 40), ("zlib", 17), ("zstd", 1 << 40), ("zstd", 17)]
    {
        let path = compile(folder.path(), "plain.c", &["-O2", "-g"]);
        run(std::process::Command::new("objcopy").arg(format!("--compress-debug-sections={compression}")).arg(&path));
        let address = symbol(&path, "internal");
        let (places, _) = look_up(&path, &[address], nowhere());
        assert_eq!((places[0][0].0.as_str(), places[0][0].2), ("internal", 28));
        let mut bytes = fs::read(&path).unwrap();
        let start = {
            use object::{Object, ObjectSection};
            let file = object::File::parse(&*bytes).unwrap();
            file.section_by_name(".debug_info").unwrap().compressed_file_range().unwrap().offset as usize
        };
        // ch_size stands 16 bytes before the data.
        bytes[start - 16..start - 8].copy_from_slice(&claim.to_le_bytes());
        fs::write(&path, bytes).unwrap();
        let (places, summary) = look_up(&path, &[address], nowhere());
        assert_eq!((places[0][0].0.as_str(), places[0][0].2), ("internal", 0), "{compression} {claim}");
        assert!(matches!(summary.notes[..], [Note::Damaged(_)]), "{:?}", summary.notes);
    }
}
