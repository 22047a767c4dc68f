//! Text for people: columns, units, widths, colours, names.
//!
//! Every word that comes from a recording goes through [`Line`], which makes it harmless.

mod amount;
pub mod chart;
mod ending;
pub mod estimates;
mod look;
pub mod markdown;
pub mod moment;
mod names;
pub mod over_time;
mod page;
mod place;
mod table;
pub mod units;

pub use amount::{amount, change, change_style, measured, signed};
pub use ending::lacks;
pub use look::{Look, Stream};
pub use names::{function, location};
pub use page::{Line, Page, clean};
pub use place::{STACK_LINES, called, described, framed, heading, stacked};
pub use table::{Align, Table};
