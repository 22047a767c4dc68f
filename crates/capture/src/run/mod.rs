//! A run: its directory, the command in it, and what is read out of it while it goes on.

mod beforehand;
pub mod directory;
pub mod drain;
pub mod launch;
pub mod left;
pub mod recover;
pub mod results;
pub mod session;
pub mod signals;
pub mod source;
pub mod spool;
pub mod steady;
pub mod tables;
pub mod unreached;
mod unwatched;
pub mod writer;
