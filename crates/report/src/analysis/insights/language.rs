//! The language that a call path is written in, as far as advice depends on it.

use crate::analysis::stacks::functions::{Functions, Step};

/// The language that a remedy is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Rust,
    /// What the Rust compiler writes to drop a value: nobody can edit it.
    DropGlue,
    Other,
}

/// The language of a function of the program; `through` is what it called.
pub(super) fn language(functions: &Functions<'_>, step: &Step, through: Option<&str>) -> Language {
    let name = functions.known_name(step.function).unwrap_or_default();
    let is_glue =
        |name: &str| name.starts_with("core::ptr::drop_in_place") || name.ends_with(" as core::ops::drop::Drop>::drop");
    if is_glue(name) || through.is_some_and(is_glue) {
        return Language::DropGlue;
    }
    let is_rust = name.starts_with('<') && name.contains(" as ") && name.contains(">::")
        || functions.frame(step).file.is_some_and(|file| file.ends_with(".rs"));
    if is_rust { Language::Rust } else { Language::Other }
}
