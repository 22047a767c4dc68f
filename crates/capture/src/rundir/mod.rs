//! The run directory: how it is made, what its files say, and who writes them.

pub(crate) mod changes;
pub(crate) mod command_line;
pub mod directory;
pub(crate) mod doorbell;
pub mod owner;
pub(crate) mod presence;
pub mod process_file;
pub mod results;
