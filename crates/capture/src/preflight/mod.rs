//! What of a command Mallow would see, and whether this machine lets it look: found out from files and limits. Nothing
//! is run. What `stat` and `record` say of a command that was out of sight comes from here, too.

mod chain;
mod checks;
mod finding;
mod machine;
mod program;
mod rights;
pub(crate) mod search;

pub use chain::{Chain, Step};
pub use checks::{command, why};
pub(crate) use checks::{custom_allocators, why_program};
pub use finding::{Finding, Status};
pub use machine::machine;

#[cfg(test)]
mod tests;
