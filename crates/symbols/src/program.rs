//! The names of all functions of a module.

use mallow_profile::Module;
use object::{Object, ObjectSymbol, SymbolKind};

use crate::demangle::{Style, demangle};
use crate::image::Image;
use crate::locate;
use crate::options::Options;
use crate::sections::{Store, load, mini_debug_info};

/// Debug information with more text than this is not read: its names are then not all names.
const TEXT: usize = 512 << 20;

/// Calls back with the name of each function of a module, demangled, some of them several times. Functions that were
/// inlined everywhere have no symbol, so the texts of debug information are among the names, and with them names of
/// types and variables. Returns whether these are all functions, as far as the compiler and the linker kept them: false
/// where the file is another one or not here, and where it has exported names alone. `ended_unix_ms` is when the
/// recording ended.
pub fn each_function(module: &Module, ended_unix_ms: u64, options: &Options, each: &mut dyn FnMut(&str)) -> bool {
    let Ok(files) = locate::files(module, ended_unix_ms, options, &[]) else { return false };
    let Ok(own) = files.image.parse() else { return false };
    let style = Style { rust_hashes: false, verbatim: own.section_by_name(".go.buildinfo").is_some() };
    for symbol in own.dynamic_symbols() {
        name(&symbol, style, each);
    }
    let mini = mini_debug_info(&files.image);
    let tables = [Some(&*files.image), files.separate.as_deref(), mini.as_ref()];
    let mut complete = false;
    for image in tables.into_iter().flatten() {
        let Ok(file) = image.parse() else { continue };
        for symbol in file.symbols() {
            complete |= name(&symbol, style, each);
        }
    }
    let texts = [Some(&*files.image), files.separate.as_deref(), files.supplementary.as_deref()];
    complete && texts.into_iter().flatten().all(|image| debug_texts(image, style, each))
}

/// Passes the symbol's demangled name to `each`, if the symbol is a function's; returns whether it is.
fn name<'a>(symbol: &impl ObjectSymbol<'a>, style: Style, each: &mut dyn FnMut(&str)) -> bool {
    if symbol.is_undefined() || symbol.kind() != SymbolKind::Text {
        return false;
    }
    if let Ok(name) = symbol.name() {
        each(&demangle(name, style));
    }
    true
}

/// Passes names of the debug information's strings to `each`; returns whether all were read.
fn debug_texts(image: &Image, style: Style, each: &mut dyn FnMut(&str)) -> bool {
    let Ok(file) = image.parse() else { return false };
    let store = Store::default();
    let Ok(texts) = load(&file, ".debug_str", &store) else { return false };
    if texts.slice().len() > TEXT {
        return false;
    }
    for text in texts.slice().split(|byte| *byte == 0) {
        if let Ok(text) = std::str::from_utf8(text)
            && !text.is_empty()
        {
            each(&demangle(text, style));
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_of(path: &str, name: &str) -> (bool, bool) {
        let build_id = Image::open(std::path::Path::new(path)).ok().and_then(|image| image.build_id().ok());
        let module = Module { path: path.to_owned(), build_id: build_id.unwrap_or_default() };
        let mut found = false;
        let complete = each_function(&module, 0, &Options::default(), &mut |one| found |= one == name);
        (found, complete)
    }

    #[test]
    fn functions_of_a_program_are_known_by_their_names_and_of_a_missing_file_nothing_is() {
        let own = std::env::current_exe().expect("a program");
        let own = own.to_str().expect("UTF-8");
        assert_eq!(names_of(own, "mallow_symbols::program::each_function"), (true, true));
        assert_eq!(names_of(own, "mallow_symbols::program::no_such_function_"), (false, true));
        assert_eq!(names_of("/nowhere/program", "main"), (false, false));
        assert_eq!(names_of("/etc/passwd", "main"), (false, false));
    }
}
