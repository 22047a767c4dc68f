//! What recordings carry for other machines, and packing it into them.

use super::super::attachments::SourceFile;
use super::*;
use mallow_profile::{ModuleId, ModuleSummary, NameSource, Note, Summary};
use std::path::PathBuf;

/// What a look-up might have found, one of each kind.
pub fn names() -> Summary {
    let found = [
        NameSource::DebugInformation,
        NameSource::SymbolTable,
        NameSource::DynamicSymbols,
        NameSource::Nothing,
        NameSource::FileGone("No such file".to_owned()),
        NameSource::BuildIdDiffers { now: vec![1, 2, 255] },
        NameSource::Unreadable("not an ELF file".to_owned()),
        NameSource::WrittenSince,
    ];
    let path = |name: &str| PathBuf::from(name);
    let notes = vec![
        Note::DebugFileMissing(path("a")),
        Note::DebugFileDiffers(path("ü")),
        Note::SupplementaryMissing(path("")),
        Note::SplitMissing(path("d\n")),
        Note::Damaged("why".to_owned()),
    ];
    let module = |found| ModuleSummary {
        module: ModuleId(0),
        found,
        debug_file: None,
        notes: Vec::new(),
        frames: 3,
        named: 2,
        located: 1,
        remedy: None,
    };
    let mut modules: Vec<_> = found.into_iter().map(module).collect();
    modules[1].debug_file = Some(path("/usr/lib/debug/x"));
    modules[1].remedy = Some("a package".to_owned());
    modules[2].notes = notes;
    Summary { modules, without_module: 5, without_module_named: 4 }
}

pub fn sources() -> Vec<SourceFile> {
    let source = |name: &str, text: &[u8]| SourceFile {
        name: name.to_owned(),
        path: format!("/where/{name}"),
        written_unix_ms: 1_700_000_000_000,
        text: text.to_vec(),
    };
    vec![source("f.c", b"int f;\n"), source("empty.c", b""), source("ü\n.c", b"\xff\0")]
}

fn packed(bytes: &[u8], with: &[SourceFile]) -> Vec<u8> {
    let (mut reader, mut profile) = Reader::new(Cursor::new(bytes), &mut |_| {}).unwrap();
    let mut names = names();
    // A cut may be before the first module.
    names.modules.retain(|_| !profile.modules.is_empty());
    profile.names.get_or_insert(names);
    reader.pack(&profile, &mut with.iter().cloned(), Vec::new()).unwrap()
}

#[test]
fn sources_of_any_size_come_back() {
    let big: Vec<u8> = (0..9_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut all = sources();
    all.insert(1, SourceFile { name: "big.c".to_owned(), text: big, ..SourceFile::default() });
    let bytes = packed(&recorded(300).1, &all);
    assert_eq!(reader(&bytes).unwrap().sources().unwrap(), all);
    assert!(blocks(&bytes).iter().filter(|block| block.1 == Kind::Sources).count() > 2);
}

/// Of a function without a name its beginning is known, whatever it is.
#[test]
fn beginnings_of_functions_come_back() {
    let (mut profile, writer) = run(Writer::new(Vec::new(), &options()).unwrap(), 300);
    for (at, frame) in profile.frames.iter_mut().enumerate() {
        frame.lines.clear();
        frame.start = [Some(frame.address), None, Some(frame.address.wrapping_sub(77)), Some(u64::MAX)][at % 4];
    }
    assert!(profile.frames.len() >= 4);
    let expected: Vec<_> = profile.frames.iter().map(|frame| frame.start).collect();
    let bytes = writer.unwrap().finish(&profile).unwrap();
    let read = read_bytes(&bytes).unwrap();
    assert_eq!(read.frames.iter().map(|frame| frame.start).collect::<Vec<_>>(), expected);
}

/// Which of several functions of one code was called is not known on another machine either.
#[test]
fn names_of_one_code_come_back() {
    let (mut profile, writer) = run(Writer::new(Vec::new(), &options()).unwrap(), 300);
    let mut before = None;
    for at in 0..profile.frames.len() {
        let function = profile.strings.intern(&format!("grow<T{at}>"));
        let frame = &mut profile.frames[at];
        frame.lines = vec![Line { function, file: None, line: 0 }; at % 3];
        frame.folded = before.filter(|_| at % 3 > 0);
        before = [None, Some(function)][at % 2];
    }
    let folded = profile.frames.iter().filter(|frame| frame.folded.is_some()).count();
    assert!(folded > 1 && folded < profile.frames.len());
    let bytes = writer.unwrap().finish(&profile).unwrap();
    assert_same(&profile, &read_bytes(&bytes).unwrap());
}

/// Names of templates have kilobytes, and a column has its limit.
#[test]
fn names_of_any_length_come_back() {
    let (mut profile, writer) = run(Writer::new(Vec::new(), &options()).unwrap(), 300);
    for number in 0..4 {
        let long = |n: usize| (0..4096).map(|i| format!("{:08x}", (i * n).wrapping_mul(2_654_435_761))).collect();
        let lines: Vec<String> = (0..100).map(|n| long(1 + 1000 * number + n)).collect();
        let lines: Vec<_> = lines.iter().map(|line| profile.strings.intern(line)).collect();
        let line = |&function| Line { function, file: Some(function), line: u32::MAX };
        profile.frames[number].lines = lines.iter().map(line).collect();
    }
    assert!(profile.frames.len() > 4);
    let bytes = writer.unwrap().finish(&profile).unwrap();
    assert!(blocks(&bytes).iter().filter(|block| block.1 == Kind::Lines).count() >= 3);
    assert_same(&profile, &read_bytes(&bytes).unwrap());
}

#[test]
fn a_packed_recording_says_the_same_and_packing_it_again_changes_nothing() {
    let (mut profile, writer) = run(Writer::new(Vec::new(), &options()).unwrap(), 3000);
    let bytes = writer.unwrap().finish(&profile).unwrap();
    assert_eq!(read_bytes(&bytes).unwrap().names, None);
    let once = packed(&bytes, &sources());
    profile.names = Some(names());
    let read = read_bytes(&once).unwrap();
    assert_same(&profile, &read);
    assert_eq!((read.duration_ms, &read.ending), (profile.duration_ms, &profile.ending));
    assert_eq!(events(&once).unwrap(), events(&bytes).unwrap());
    let carried = reader(&once).unwrap().sources().unwrap();
    assert!(packed(&once, &carried) == once);
}

/// The index of a packed file names its blocks of events, wherever they are now.
#[test]
fn the_index_is_right_after_packing() {
    let (_, bytes) = recorded(3000);
    let index = |bytes: &[u8]| {
        let (at, _) = *blocks(bytes).iter().find(|block| block.1 == Kind::Index).unwrap();
        let head = Head::parse(bytes[at..at + HEAD].try_into().unwrap(), 0).unwrap();
        let mut columns = head.unpack(&mut &bytes[at + HEAD..], 0).unwrap();
        let count = columns[0].number().unwrap();
        let mut at = 0;
        let entry = |_| {
            at += columns[1].number().unwrap();
            let numbers = [2, 3, 4].map(|c: usize| columns[c].number().unwrap());
            (at as usize, numbers)
        };
        (0..count).map(entry).collect::<Vec<_>>()
    };
    let whole = packed(&bytes, &[]);
    let expected = index(&whole);
    assert!(!expected.is_empty());
    assert!(expected.iter().all(|entry| blocks(&whole).contains(&(entry.0, Kind::Events))), "{expected:?}");
    // That of a cut file is made anew, and the same.
    assert_eq!(index(&packed(&bytes[..bytes.len() - 16], &[])), expected);
}

#[test]
fn a_recording_cut_anywhere_can_be_packed() {
    let (_, bytes) = recorded(200);
    for end in (16..bytes.len()).step_by(37) {
        let cut = read_bytes(&bytes[..end]).unwrap();
        let packed = packed(&bytes[..end], &sources());
        let mut read = read_bytes(&packed).unwrap();
        assert_eq!(read.names.take().unwrap().without_module, 5);
        assert_same(&cut, &read);
        assert_eq!((cut.duration_ms, &cut.ending), (read.duration_ms, &read.ending));
        assert!(read.ending.cut_short.is_some());
        assert_eq!(events(&packed).unwrap(), events(&bytes[..end]).unwrap());
    }
}

#[test]
fn what_follows_damage_is_left_out_of_a_cut_recording() {
    let (_, bytes) = recorded(3000);
    let (at, _) = *blocks(&bytes).iter().rfind(|block| block.1 == Kind::Events).unwrap();
    let mut damaged = bytes[..bytes.len() - 16].to_vec();
    damaged[at + HEAD + 20] ^= 1;
    let packed = packed(&damaged, &[]);
    let read = read_bytes(&packed).unwrap();
    let expected = format!("the recording is damaged at byte {at}: a block's checksum is wrong");
    assert_eq!(read.ending.cut_short.as_deref(), Some(expected.as_str()));
    assert_eq!(events(&packed).unwrap(), events(&damaged).unwrap());
}

#[test]
fn a_full_disk_is_reported_as_such() {
    let (_, bytes) = recorded(300);
    let (mut reader, profile) = Reader::new(Cursor::new(&bytes), &mut |_| {}).unwrap();
    let whole = packed(&bytes, &sources()).len();
    for free in [0, 15, 16, 200, whole / 2, whole - 1] {
        let disk = Disk { bytes: Vec::new(), free };
        let error = reader.pack(&profile, &mut sources().into_iter(), disk).map(|_| ()).unwrap_err();
        assert!(matches!(&error, PackError::Write(e) if e.kind() == io::ErrorKind::StorageFull), "{free}: {error}");
    }
}

#[test]
fn names_of_a_module_that_is_not_there_are_refused() {
    let (_, bytes) = recorded(10);
    let (mut reader, mut profile) = Reader::new(Cursor::new(&bytes), &mut |_| {}).unwrap();
    let mut names = names();
    names.modules[0].module = ModuleId(profile.modules.len() as u32);
    profile.names = Some(names);
    let bytes = reader.pack(&profile, &mut std::iter::empty(), Vec::new()).unwrap();
    assert!(read_bytes(&bytes).unwrap_err().to_string().contains("no such module"));
}
