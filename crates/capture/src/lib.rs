//! to be written

pub mod table;
