//! Text for people: columns, units, widths, colours, names.
//!
//! Every word that comes from a recording goes through [`Line`], which makes it harmless.

mod amount;
pub mod chart;
pub mod estimates;
pub mod gaps;
mod look;
pub mod markdown;
mod names;
mod page;
mod place;
mod table;
pub mod time_axis;
pub mod units;
pub mod utc;

pub use amount::{amount, change, change_style, measured, signed};
pub use look::{Look, Stream};
pub use names::{elided, function, function_in_list, function_of, location};
pub use page::{Line, Page, before_number, clean, end_of_columns};
pub use place::{
    STACK_LINES, called, described, described_by, framed, framed_place, heading, passed, stacked, with_one_code,
};
pub use table::{Align, Table};
