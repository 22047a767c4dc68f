//! The same answers as addr2line and llvm-symbolizer, over the code of small programs.

mod support;

use support::{Place, addr2line, compile, llvm_symbolizer, look_up, nowhere, text};

/// Peers give raw names, as they write return types and hashes that Mallow leaves out.
fn demangled(Place(name, file, line): &Place) -> Place {
    Place(mallow_symbols::demangled(name).into_owned(), file.clone(), *line)
}

/// addr2line gives the innermost function the name of the symbol, even where it is an inlined one, and the outermost
/// its bare name: only positions can be compared.
fn position(Place(_, file, line): &Place) -> Place {
    Place(String::new(), file.clone(), *line)
}

/// The same place, or a function for which they give only the last part of the name.
fn same(ours: &Place, theirs: &Place) -> bool {
    let scoped = ours.0.strip_suffix(&theirs.0).is_some_and(|scopes| scopes.ends_with("::"));
    (ours.0 == theirs.0 || scoped) && (&ours.1, ours.2) == (&theirs.1, theirs.2)
}

/// The same addresses have the same functions, files and lines, but for one in a hundred.
fn check(peer: &str, ours: &[Vec<Place>], theirs: &[Vec<Place>], addresses: &[u64], view: fn(&Place) -> Place) {
    assert_eq!(ours.len(), theirs.len());
    let mut differ = String::new();
    let (mut equal, mut asked) = (0, 0);
    for ((ours, theirs), address) in ours.iter().zip(theirs).zip(addresses) {
        if !ours.iter().chain(theirs).any(|place| place.2 > 0) {
            continue;
        }
        asked += 1;
        let pairs = || ours.iter().map(view).zip(theirs.iter().map(demangled).map(|place| view(&place)));
        if ours.len() == theirs.len() && pairs().all(|(ours, theirs)| same(&ours, &theirs)) {
            equal += 1;
        } else if differ.len() < 4000 {
            differ += &format!("{address:#x}\n  ours {ours:?}\n  theirs {theirs:?}\n");
        }
    }
    println!("{peer}: {equal} of {asked}\n{differ}");
    assert!(asked > 100 && equal * 100 >= asked * 99, "{peer}: {equal} of {asked} equal\n{differ}");
}

fn compare(program: &str, flags: &[&str], step: usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = compile(folder.path(), program, flags);
    let addresses = text(&path, step);
    let (ours, summary) = look_up(&path, &addresses, nowhere());
    assert_eq!(summary.notes, []);
    check("addr2line", &ours, &addr2line(&path, &addresses), &addresses, position);
    check("llvm-symbolizer", &ours, &llvm_symbolizer(&path, &addresses), &addresses, Place::clone);
}

#[test]
fn c() {
    compare("plain.c", &["-O2", "-g"], 1);
}

#[test]
fn c_with_dwarf_4_and_compressed_sections() {
    compare("plain.c", &["-O2", "-g", "-gdwarf-4", "-Wl,--compress-debug-sections=zlib"], 1);
}

#[test]
fn cpp() {
    compare("shapes.cpp", &["-O2", "-g"], 31);
}

#[test]
fn cpp_without_optimisation() {
    compare("shapes.cpp", &["-O0", "-g"], 67);
}

#[test]
fn rust() {
    compare("words.rs", &["--edition=2024", "-O", "-g"], 67);
}

#[test]
fn rust_v0_names() {
    compare("words.rs", &["--edition=2024", "-g", "-Csymbol-mangling-version=v0"], 67);
}

#[test]
fn rust_lines_alone() {
    compare("words.rs", &["--edition=2024", "-O", "-Cdebuginfo=line-tables-only"], 67);
}
