//! Tables of real files say what gimli says for the same addresses, and damaged files make errors.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, LittleEndian, RegisterRule, UnwindContext, UnwindSection,
};
use mallow_arch::dwarf::{self, SAVED};
use mallow_arch::machine::NAME;
use mallow_arch::rule::*;
use mallow_capture::tables::{self, TableError, TableView};
use object::{Object, ObjectSection};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// gimli's view of a file.
struct Reference<'data> {
    section: EhFrame<Slice<'data>>,
    header: gimli::ParsedEhFrameHdr<Slice<'data>>,
    bases: BaseAddresses,
    entry: u64,
}

impl<'data> Reference<'data> {
    fn new(data: &'data [u8]) -> Self {
        let file = object::File::parse(data).expect("ELF");
        let section = |name| file.section_by_name(name).expect("section");
        let (frames, header) = (section(".eh_frame"), section(".eh_frame_hdr"));
        let bases = BaseAddresses::default().set_eh_frame(frames.address()).set_eh_frame_hdr(header.address());
        let parsed = EhFrameHdr::new(header.data().expect("data"), LittleEndian).parse(&bases, 8).expect("header");
        Self {
            section: EhFrame::new(frames.data().expect("data"), LittleEndian),
            header: parsed,
            bases,
            entry: file.entry(),
        }
    }

    /// Starts, ends and one place inside of all functions.
    fn addresses(&self) -> BTreeSet<u64> {
        let mut addresses = BTreeSet::new();
        let mut entries = self.section.entries(&self.bases);
        while let Some(entry) = entries.next().expect("entry") {
            let gimli::CieOrFde::Fde(partial) = entry else { continue };
            let fde = partial.parse(EhFrame::cie_from_offset).expect("function");
            let (start, end) = (fde.initial_address(), fde.end_address());
            // A multiplicative step stands for random places and is the same in each run.
            let inside = start + (start.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % (end - start).max(1);
            addresses.extend([start.saturating_sub(1), start, start + 1, inside, end - 1, end, end + 1]);
        }
        addresses
    }

    fn compare(&self, table: &TableView<'_>, address: u64, context: &mut UnwindContext<usize>) -> Result<(), String> {
        let rule = table.rule_at(address).ok_or("no rule")?;
        let lookup = self.header.table().expect("search table");
        let found =
            lookup.unwind_info_for_address(&self.section, &self.bases, context, address, EhFrame::cie_from_offset);
        let Ok(row) = found else {
            let entry = (self.entry..self.entry + 64).contains(&address) && rule == Rule::END;
            // Between functions, the rule comes from instructions: the return address lies below the frame then.
            let by_register = matches!(rule.cfa_kind, CFA_OFFSET | CFA_DEREF);
            let analyzed = by_register && (rule.kind[RA], rule.offset[RA]) == (SAVED_AT_CFA, RETURN_SLOT);
            return if rule == Rule::NONE || entry || analyzed {
                Ok(())
            } else {
                Err(format!("{rule:?} where gimli has none"))
            };
        };
        if matches!(row.register(dwarf::RA), None | Some(RegisterRule::Undefined)) {
            return if rule == Rule::END { Ok(()) } else { Err(format!("{rule:?} at an end")) };
        }
        // eh_return and vfork keep the return address in a register for an instruction or two.
        if matches!(row.register(dwarf::RA), Some(RegisterRule::Register(_))) {
            return if rule == Rule::NONE { Ok(()) } else { Err(format!("{rule:?} with the address in a register")) };
        }
        let wanted = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                let reg = match *register {
                    dwarf::SP => CFA_SP.into(),
                    other => SAVED.iter().position(|&saved| saved == other).unwrap_or(99),
                };
                Some((CFA_OFFSET, reg, *offset))
            }
            CfaRule::Expression(_) => None,
        };
        let got = (rule.cfa_kind, usize::from(rule.cfa_reg), i64::from(rule.cfa_offset));
        match wanted {
            Some((_, 99, _)) => {
                return if rule == Rule::NONE { Ok(()) } else { Err(format!("{rule:?} for another register")) };
            }
            Some(wanted) if wanted != got => return Err(format!("CFA {got:?}, not {wanted:?}")),
            None if !matches!(rule.cfa_kind, CFA_DEREF | CFA_PLT) => {
                return Err(format!("{rule:?} for a CFA expression"));
            }
            _ => {}
        }
        for (i, register) in SAVED.into_iter().enumerate() {
            let wanted = match row.register(register) {
                None | Some(RegisterRule::SameValue) => (SAVED_SAME, 0),
                Some(RegisterRule::Offset(offset)) => (SAVED_AT_CFA, offset),
                Some(RegisterRule::ValOffset(offset)) => (SAVED_IS_CFA, offset),
                Some(RegisterRule::Expression(_)) if matches!(rule.kind[i], SAVED_AT_SP | SAVED_AT_FP) => continue,
                other => return Err(format!("{other:?} became {rule:?}")),
            };
            let got = (rule.kind[i], i64::from(rule.offset[i]));
            if got != wanted {
                return Err(format!("register {i}: {got:?}, not {wanted:?}"));
            }
        }
        let quick = table.quick_rule_at(address).ok_or("no quick rule")?;
        let same = |i: usize| (quick.kind[i], quick.offset[i]) == (rule.kind[i], rule.offset[i]);
        let whole = quick == rule;
        let simple = quick.cfa_offset == rule.cfa_offset && quick.cfa_reg == rule.cfa_reg && same(FP) && same(RA);
        if whole || simple { Ok(()) } else { Err(format!("quick form {quick:?} of {rule:?}")) }
    }
}

fn check(path: &Path) {
    let data = std::fs::read(path).expect("file");
    let (image, stats) = tables::build_with_stats(&data).expect("table");
    let table = TableView::parse(&image).expect("header");
    table.check().expect("sound");
    assert_eq!(stats.unreadable_functions, 0, "{stats:?}");
    let reference = Reference::new(&data);
    let addresses = reference.addresses();
    assert!(addresses.len() > 10 && stats.functions > 3, "{stats:?}");
    let mut context = UnwindContext::new();
    for address in addresses {
        if let Err(difference) = reference.compare(&table, address, &mut context) {
            panic!("{} at {address:#x}: {difference}", path.display());
        }
    }
    println!("{}: {stats:?}, {} bytes", path.display(), image.len());
}

/// What `program` prints, if it is installed, as a path.
fn path_from(program: &str, arguments: &[&str]) -> Option<PathBuf> {
    let output = Command::new(program).args(arguments).output().ok()?;
    Path::new(String::from_utf8(output.stdout).ok()?.trim()).canonicalize().ok()
}

/// The libraries that this program itself has mapped.
fn mapped(name: &str) -> Option<PathBuf> {
    let text = mallow_proc::read_maps(mallow_proc::Task::Own).expect("maps");
    let mut paths = mallow_proc::mappings(&text).map(|mapping| mapping.into_owned().path);
    paths.find(|path| path.contains(name)).map(PathBuf::from)
}

#[test]
fn the_c_library_and_the_dynamic_linker() {
    check(&mapped("libc.so.6").or_else(|| mapped("ld-musl")).expect("a C library"));
    check(&mapped("/ld-").expect("a dynamic linker"));
}

#[test]
fn this_program() {
    check(&std::env::current_exe().expect("own path"));
}

#[test]
fn the_cxx_library_and_compiler() {
    for arguments in [["-print-file-name=libstdc++.so.6"], ["-print-prog-name=cc1plus"]] {
        if let Some(path) = path_from("gcc", &arguments) {
            check(&path);
        }
    }
}

#[test]
fn python() {
    let find = "print(next((l.split()[5] for l in open('/proc/self/maps') if 'libpython' in l), sys.executable))";
    if let Some(path) = path_from("python3", &["-c", &format!("import sys; {find}")]) {
        check(&path);
    }
}

#[test]
fn the_signal_trampoline_restores_registers_from_the_stack() {
    let data = std::fs::read(mapped("libc.so.6").or_else(|| mapped("ld-musl")).expect("a C library")).expect("file");
    let image = tables::build(&data).expect("table");
    let table = TableView::parse(&image).expect("header");
    let addresses = Reference::new(&data).addresses();
    let signal = addresses.iter().filter_map(|&at| table.rule_at(at)).find(|rule| rule.signal_frame == 1);
    // struct ucontext of x86-64 Linux: rsp is at 160, then rip; rbx at 128; rbp at 120; r12 to r15 from 72 on.
    let signal = signal.expect("__restore_rt has a rule");
    assert_eq!((signal.cfa_kind, signal.cfa_reg, signal.cfa_offset, signal.cfa_extra), (3, 7, 160, 0));
    assert_eq!(signal.kind, [2; 7]);
    assert_eq!(signal.offset, [128, 120, 72, 80, 88, 96, 168]);
}

#[test]
fn the_vdso_has_a_table() {
    let Some(image) = mallow_proc::vdso().expect("maps") else {
        // Past the test's own output, which nobody sees of a test that does not fail.
        writeln!(std::io::stderr(), "not run: the_vdso_has_a_table: the kernel gives this process none")
            .expect("stderr");
        return;
    };
    assert!(tables::build_id(image).is_some());
    let table = tables::build(image).expect("table");
    assert!(TableView::parse(&table).expect("header").rows() > 2);
}

/// A small library with every kind of rule that compilers make.
fn library() -> &'static [u8] {
    static LIBRARY: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    LIBRARY.get_or_init(|| std::fs::read(mapped("libgcc_s").expect("libgcc_s")).expect("file"))
}

#[test]
fn files_that_are_no_elf_file_of_this_machine() {
    assert!(matches!(tables::build(b""), Err(TableError::NotElf)));
    assert!(matches!(tables::build(b"#!/bin/sh\n"), Err(TableError::NotElf)));
    assert!(matches!(tables::build(b"\x7fELF"), Err(TableError::OtherMachine(_))));
    let mut other = library().to_vec();
    other[18] = 183;
    let error = tables::build(&other).expect_err("aarch64");
    assert_eq!(error.to_string(), format!("unwind tables are made for {NAME} only, not for aarch64"));
    assert!(matches!(tables::build_file(Path::new("/dev/null")), Err(TableError::NotElf)));
}

#[test]
fn section_headers_are_not_needed() {
    let whole = library();
    let mut stripped = whole.to_vec();
    stripped[40..48].fill(0); // e_shoff
    stripped[60..64].fill(0); // e_shnum, e_shstrndx
    assert_eq!(tables::build(&stripped).expect("by program header"), tables::build(whole).expect("by section"));
    assert_eq!(tables::build_id(&stripped), tables::build_id(whole));
    assert!(tables::build_id(whole).is_some());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_make_sound_tables_or_errors(
        cut in prop::option::of(0..200_000_usize),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 0..40),
    ) {
        let mut data = library().to_vec();
        data.truncate(cut.unwrap_or(data.len()));
        let frames = object::File::parse(library()).ok().and_then(|f| f.section_by_name(".eh_frame")?.file_range());
        let (from, size) = frames.expect("frames");
        for (index, byte, in_frames) in flips {
            // Half of the damage goes where it hurts.
            let at = if in_frames { from as usize + index.index(size as usize) } else { index.index(data.len().max(1)) };
            if let Some(place) = data.get_mut(at) {
                *place = byte;
            }
        }
        let _ = (tables::build_id(&data), tables::base_svma(&data));
        if let Ok(image) = tables::build(&data) {
            TableView::parse(&image).expect("header").check().expect("sound");
        }
    }

    #[test]
    fn damaged_tables_are_refused_or_harmless(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        at in any::<u64>(),
    ) {
        static TABLE: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
        let mut image = TABLE.get_or_init(|| tables::build(library()).expect("table")).clone();
        for (index, byte) in flips {
            // The header is small and decides most: it gets half of the damage.
            let place = if byte & 1 == 0 { index.index(64) } else { index.index(image.len()) };
            image[place] = byte;
        }
        if let Ok(table) = TableView::parse(&image) {
            let _ = (table.check(), table.rule_at(at), table.quick_rule_at(at % (1 << 20)));
        }
    }
}
