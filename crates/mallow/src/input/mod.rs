//! What commands read: recordings and profiles of other tools, filters, names, functions of programs, reasons of Go's
//! compiler.

pub mod coverage;
mod embedded;
mod file;
pub mod filters;
mod foreign;
pub mod go_reasons;
mod incomplete;
pub mod line_reasons;
pub mod name_files;
pub mod names;
pub mod processes;
pub mod program_functions;
pub mod recording;
mod remote;
pub mod sides;
