//! `mallow go`: what Go programs allocate, and why.

mod bench;
mod bench_compare;
mod bench_document;
mod bench_text;
mod benchmark_figures;
mod count;
mod escape;
mod escape_document;
mod escape_text;
mod figures;
#[cfg(test)]
mod fixture;
mod generated;
pub mod heap;
pub mod measurement;
mod names;
mod profile;
mod program_source;
pub mod reasons;
mod revision;
mod why;

use std::process::ExitCode;

use anyhow::Result;

use crate::flags::{GoCommand, GoFlags};

pub use bench_document::GoBench;
pub use escape_document::EscapeDocument;
pub use profile::GoProfile;
pub use why::GoWhy;

pub fn run(flags: &GoFlags) -> Result<ExitCode> {
    match &flags.command {
        GoCommand::Bench(flags) => bench::run(flags),
        GoCommand::Why(flags) => why::run(flags),
        GoCommand::Profile(flags) => profile::run(flags),
        GoCommand::Escape(flags) => escape::run(flags),
    }
}
