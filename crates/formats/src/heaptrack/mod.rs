//! heaptrack's data files, versions 1 to 3: interpreted ones, and raw ones, in which names have not been looked up yet.
//!
//! A line is a letter and numbers in hexadecimal:
//!
//! | line | interpreted | raw |
//! | --- | --- | --- |
//! | `v` | heaptrack's version, the file's | the same |
//! | `X` | the command | the same |
//! | `x` | | the executable |
//! | `s` | a string: its length (from version 3 on), the string | |
//! | `m` | | a module: path, where it is loaded, segments; `-` forgets all |
//! | `i` | a frame: address, module, function, file, line, and the same three for each function around it | |
//! | `t` | a stack: frame, caller's stack | address, caller's stack |
//! | `a` | a kind of allocation: size, stack | |
//! | `+` | an allocation: its kind | size, stack, address |
//! | `-` | a free: the kind of the block | address |
//! | `c` | milliseconds since the start | the same |
//!
//! Strings, frames and stacks are numbered from 1, 0 is none; kinds from 0.

mod ledger;
mod read;
mod write;

/// A remark, which heaptrack passes over, in files that Mallow wrote: addresses are those of calls, one less than those
/// of recordings.
const CALLS: &str = "# addresses: of calls, by mallow";

pub use read::read;
pub use write::{CARRIES, Writer};
