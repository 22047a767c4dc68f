//! Commands that show a recording. One file a view, its text apart where it is long.

mod changes;
pub mod diff;
mod diff_answer;
mod diff_numbers;
mod diff_text;
pub mod export;
pub mod flame;
mod heap_moment;
mod insights;
pub mod leaks;
pub mod list;
mod list_code;
pub mod manual;
pub mod report;
pub mod report_document;
mod report_text;
mod summary;
pub mod timeline;
mod timeline_text;
pub mod top;
pub mod tree;
mod verdict;
