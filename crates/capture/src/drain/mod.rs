//! Emptying rings while a command runs: into the spool, with the tables that targets wait for.

mod arguments;
pub mod exits;
pub mod memory;
pub mod requests;
pub mod rings;
pub mod spool;
pub mod thread_names;
