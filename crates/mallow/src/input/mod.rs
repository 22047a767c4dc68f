//! What commands read: recordings and profiles of other tools, filters, names.

pub mod coverage;
mod embedded;
mod file;
pub mod filters;
mod foreign;
pub mod names;
pub mod recording;
mod remote;
