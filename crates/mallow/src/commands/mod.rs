//! One file a command. A command gets its flags, and says with which status to exit.

pub mod carried;
pub mod documents;
pub mod filtered;
pub mod flame;
mod foreign;
pub mod heap_at;
mod insights;
pub mod lacking;
pub mod launched;
pub mod leaks;
pub mod list;
pub mod list_code;
pub mod pack;
pub mod record;
pub mod recover;
pub mod report;
pub mod source;
pub mod stat;
pub mod stat_text;
pub mod test;
pub mod timeline;
pub mod timeline_text;
pub mod told;
pub mod top;
pub mod tree;
pub mod written;
