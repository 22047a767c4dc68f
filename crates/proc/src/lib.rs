//! The one reader of `/proc/PID/maps`, `smaps`, `stat`, `status` and `auxv`, of the vdso, and of limits of control
//! groups.
//!
//! - [`mappings`] of the text that [`read_maps`] returns: no line allocates anything.
//! - [`read_smaps`]: mappings, their sizes and their flags, line by line. A process with 65,000 mappings has 100 MB of
//!   text, of which one line at a time is in memory.
//! - [`Stat`]: one read, nothing allocated. Who watches many processes asks each of them every other second.
//! - [`Status`]: fields by what they mean.
//! - [`Task`]: whose file it is. [`auxiliary_vector`] tells one image of a process from the next.
//! - [`GroupMemory`]: what the control groups of a process have used of their memory.
//! - [`vdso`]: the kernel's module, which is in no file.
//!
//! These files are bytes, not text: names of threads and of files are any bytes but NUL. Any process can choose its
//! own, with newlines, parentheses and ` (deleted)` in them. A line that is not one of its file is left out, and no
//! input causes a panic: `tests/hostile.rs`.
//!
//! # Why not the crate procfs
//!
//! procfs 0.18 parses all of these files and many more, except the fields `Kthread` and `Seccomp_filters` that Mallow
//! needs. It is a good crate for one's own processes. It was tried and rejected, because Mallow reads those of others:
//!
//! - It reads `maps` and `smaps` as UTF-8. Where a process has mapped one file with a name in Latin-1, it returns no
//!   mapping at all.
//! - It slices at fixed offsets: the mapping of a file `/SYSV1`, which a container can have, is a panic of mallow.
//! - It cuts the name of a process off at a colon, trims blanks off paths, and fails where `status` lacks one of 20
//!   fields that nothing here reads; sandboxes such as gVisor leave many out.
//! - It has a `HashMap<String, u64>` of each mapping in `smaps`, and one of all lines of `status`. Of a process with
//!   40,000 mappings, `smaps` took 350 ms and 1,080,000 allocations, here 84 ms and 30: as long as the kernel takes to
//!   write the text. `maps` took 25 ms, here 20 ms, and 11 ms where the paths stay in the text; a `stat` 4 µs, here
//!   2 µs; a `status` 23 µs and 217 allocations, here 4 µs and 9.
//! - It adds 169 kB to a program that reads these four files, this crate 29 kB. The command has a bound on its size.
//!
//! Reading another root than `/proc`, which procfs can do, is of no use here: below `/proc/PID/root` Mallow opens
//! files, but never another `/proc`.

// A damaged file, or a hostile one, ends in an error: what cannot fail says why in an `expect` of its own.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented
    )
)]

mod groups;
mod maps;
mod numbers;
mod smaps;
mod stat;
mod status;
mod task;
mod vdso;

pub use groups::GroupMemory;
pub use maps::{DELETED, Mapping, mappings, read_maps};
pub use smaps::{SmapsLine, parse_smaps, read_smaps};
pub use stat::Stat;
pub use status::Status;
pub use task::{Task, auxiliary_vector};
pub use vdso::{VDSO, vdso};
