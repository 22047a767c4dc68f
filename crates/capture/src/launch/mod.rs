//! Starting a command with the library in it, and what mallow does while the command lives.

pub(crate) mod blind_spots;
pub mod command;
pub mod outsiders;
pub(crate) mod preparation;
pub mod signals;
