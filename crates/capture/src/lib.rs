//! to be written

pub mod chunk;
pub mod replay;
pub mod table;
