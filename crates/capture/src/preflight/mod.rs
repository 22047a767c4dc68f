//! What of a command Mallow would see, and whether this machine lets it look: found out from files and limits. Nothing
//! is run. What `stat` and `record` say of a command that was out of sight comes from here, too.

mod c_library;
mod chain;
mod checks;
pub(crate) mod executed_names;
mod families;
mod finding;
mod inlined;
mod limits;
mod machine;
mod options;
mod program;
mod purpose;
mod rights;
pub mod search;
mod signatures;

pub use chain::{Chain, ChainFile};
pub(crate) use checks::{Runtimes, custom_allocators, not_seen, settle_linked, why_program};
pub use checks::{command, file, language, out_of_reach, unpicked, why};
pub use families::{Family, LIBRARY_TLS, family_of, is_marker, maker_of};
pub(crate) use families::{is_sure, seeming, variable_of};
pub use finding::{Finding, Status};
pub(crate) use inlined::{APART, malloc_inlined_into};
pub use limits::attaching;
pub use machine::machine;
pub(crate) use options::options_of;
pub use program::GO_HEAP;
pub use purpose::{IS_STRIPPED, Purpose, STRIPPED};
pub(crate) use signatures::{Signature, is_usable_size, signature_in_library, signature_of};

#[cfg(test)]
mod tests;
