//! Unwind tables: a module's call frame information as sorted fixed-size rules that the target can walk with.
//!
//! [`build`] reads `.eh_frame` (or `.debug_frame`) once, so that the target needs to know no DWARF. Code that these do
//! not describe gets rules from its instructions. The file layout is the "unwind tables" part of `preload/base/wire.h`.
//! [`TableCache`] keeps the tables of a user by build-id.

mod builder;
mod cache;
mod code;
mod elf;
mod error;
mod expression;
mod function;
mod image;
mod layout;
mod row;
mod rows;
mod stats;
pub(crate) mod supply;
mod swift;
mod view;

pub(crate) use builder::map;
pub use builder::{base_svma, build, build_file, build_id, build_with_stats, has_frames};
pub use cache::{CacheError, TableCache, build_to, write_table};
pub use error::TableError;
pub use layout::WIRE_VERSION;
pub use mallow_arch::rule::Rule;
pub use stats::TableStats;
pub use view::TableView;
