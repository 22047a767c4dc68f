//! `mallow test`: a gate on allocations.

mod baseline;
mod bounds;
mod case_verdict;
mod command;
mod config;
mod config_file;
mod explanation;
mod go_benchmarks;
mod import;
mod outcome;
mod outputs;
mod package;
mod replacement;
mod rerun;
mod runner;
mod selection;
mod stack_table;
mod swift_package;
mod swiftnio;
mod text;
mod unique_map;
mod update;

pub use case_verdict::Report;
pub use command::run;
