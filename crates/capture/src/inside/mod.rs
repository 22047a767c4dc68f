//! Allocators inside of executables and libraries: images ask at their start which functions are to be patched, and
//! write the patches that are planned here. docs/design/hook.md has the whole of it.
//!
//! | file | holds |
//! | --- | --- |
//! | `question.rs` | what an image asks, and the answer: `struct mallow_ask`, `struct mallow_patches` |
//! | `survey.rs` | the allocators of a module, by its symbols |
//! | `planner.rs` | the patches of an image |
//! | `server.rs` | the thread that answers |

mod planner;
mod question;
mod server;
mod survey;

pub use planner::{Finding, ModuleDetours, Planner, fail_module};
pub use server::Server;
pub use survey::seeming_in_library;

use crate::preflight;
use mallow_profile::AllocatorInside;

/// Sentences about allocators that are not counted, in programs without a recorded event. `images` are the executables
/// that have one.
pub fn unseen<'a>(all: &[AllocatorInside], images: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let is_unseen = |one: &&AllocatorInside| one.functions == 0 && !images.clone().any(|image| image == one.program);
    let sentence = |one: &AllocatorInside| match one.remedy.is_empty() {
        true => preflight::not_seen(one),
        false => format!("{}; {}", preflight::not_seen(one), one.remedy),
    };
    all.iter().filter(is_unseen).map(sentence).collect()
}
