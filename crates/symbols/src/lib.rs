//! Module and address → inlined functions, `file:line`, demangled names.
//!
//! [`Symbolizer`] fills [`Frame::lines`](mallow_profile::Frame) of a profile after the run, from the files that the
//! target had loaded: DWARF, else `.symtab`, else `.dynsym` and the compressed `.gnu_debugdata`, else the names of PLT
//! stubs. Separate debug files are found by build-id and by `.gnu_debuglink`, their shared part by `.gnu_debugaltlink`,
//! split DWARF in `.dwp` and `.dwo` files. [`PerfMap`] and [`symbolize_jit`] name the code of JITs.
//!
//! [`Code`] has a module's machine code as text. [`functions`] has the symbols of functions by their names.
//!
//! What cannot be named stays unnamed, and [`Summary`] says why. A file that is not the one which was recorded (another
//! build-id) is never used: wrong names are worse than none.
//!
//! This crate fetches nothing: it reads local files alone. [`DebugCache`] verifies what a client fetched. Other
//! machines' ELF files are read if they are little-endian; PLT stubs are named, and instructions decoded, of the
//! processor alone that mallow runs on.
//!
//! Every file is treated as hostile: what makes no sense in it is an error of that module, not of the run. The one
//! thing not defended against is a file that shrinks while it is mapped (the kernel answers with SIGBUS).

// A damaged file, or a hostile one, ends in an error: what cannot fail says why in an `expect` of its own.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented
    )
)]

mod adopt;
mod callers;
mod code;
mod debug_cache;
mod demangle;
mod dwarf;
mod functions;
mod given;
mod go;
mod go_lines;
mod go_types;
mod image;
mod jit;
mod locate;
mod mapped;
mod module;
mod nesting;
mod options;
mod packages;
mod perf_map;
mod plt;
mod program;
mod remedy;
mod scope;
mod sections;
mod source_text;
mod split;
mod survey;
mod symbolizer;
mod symtab;
mod unwind_entries;
mod vdso;

pub use adopt::{adopt, rename};
pub use callers::callers;
pub use code::{Code, CodeError};
pub use debug_cache::{DebugCache, DebugFileError, NewDebugFile, hex, missing_debug_file};
pub use demangle::demangled;
pub use functions::{FunctionSymbol, FunctionSymbols, SymbolSource, functions};
pub use given::Given;
pub use go::{GoCall, GoProgram, TINY};
pub use go_types::{GoMap, GoType};
pub use jit::{JitProcess, MapPlace, symbolize_jit, symbolize_jit_all, symbolize_jit_frames, symbolize_jit_in};
pub use mallow_arch::instruction::Instruction;
pub use mallow_profile::{ModuleSummary, NameSource, Note, Summary};
pub use module::UNKNOWN;
pub use options::Options;
pub use perf_map::{PerfMap, PerfMapError};
pub use program::each_function;
pub use remedy::{Packages, remedies};
pub use source_text::{SourceError, SourceText, is_source_name, source_text};
pub use survey::survey;
pub use symbolizer::Symbolizer;
