//! What stacks are made of, and the views of rows: functions, lines, calls, graphs.

pub(super) mod branches;
pub(super) mod by_stack;
pub(super) mod callers;
pub(super) mod calls;
pub(super) mod custom_allocators;
pub(super) mod flame;
pub mod function_kind;
pub(super) mod function_sums;
pub(super) mod functions;
pub(super) mod line_sums;
pub(super) mod list;
pub(super) mod named_sites;
pub(super) mod narrow;
pub(super) mod profile_views;
pub(super) mod runtimes;
pub(super) mod scripts;
pub(super) mod step;
pub(super) mod tell_apart;
pub(super) mod top;
pub(super) mod tree;
pub(super) mod wrappers;
