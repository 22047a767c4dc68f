//! Commands that run programs, and that make, keep and mend recordings.

mod attached;
pub mod doctor;
mod exit_status;
pub mod fleet;
pub mod guard;
pub mod import;
pub mod merge;
pub mod pack;
mod process_files;
pub mod record;
mod recording_file;
pub mod recover;
pub mod rss;
pub mod run;
mod screen;
mod script;
mod script_names;
pub mod stat;
mod stat_text;
mod status_line;
pub mod symbols;
mod unrecorded;
pub mod watch;
