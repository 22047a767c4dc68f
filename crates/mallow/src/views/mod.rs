//! Commands that show a recording. One file a view, its text apart where it is long.

pub mod blocks;
mod changes;
pub mod diff;
mod diff_answer;
mod diff_numbers;
mod diff_text;
pub mod export;
pub mod flame;
mod heap_moment;
mod histogram;
mod insights;
mod leak_states;
pub mod leaks;
pub mod list;
mod list_code;
mod list_sheet;
pub mod manual;
pub mod report;
pub mod report_document;
mod report_text;
mod summary;
mod threads_text;
pub mod timeline;
mod timeline_text;
pub mod top;
pub mod tree;
mod verdict;
