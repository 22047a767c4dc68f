//! The run directory: how it is made, what its files say, who writes them, and what a killed mallow leaves in it.

pub mod directory;
pub mod leftovers;
pub mod outsiders;
pub mod owner;
pub(crate) mod presence;
pub mod process_file;
pub mod results;
