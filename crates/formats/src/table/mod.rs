//! Sites and events as tables, for databases: the columns, and what stands in them. [`Csv`] and [`Parquet`] write them.

mod csv;
mod events;
mod parquet;
mod sites;

use std::borrow::Cow;
use std::io;

pub use csv::Csv;
pub use events::{COLUMNS as EVENTS, Events};
pub use parquet::Parquet;
pub use sites::{COLUMNS as SITES, quantities as site_quantities, write_sites};

/// What a column holds. Each cell may be empty, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number.
    Number,
    /// Text.
    Text,
    /// Texts.
    Texts,
    /// True or false.
    Truth,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
}

/// What stands in one column of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Not known, or not to be said of this row.
    Empty,
    /// A number. Databases know numbers below 2^63 alone.
    Number(u64),
    /// Text.
    Text(Cow<'static, str>),
    /// Texts.
    Texts(Vec<String>),
    /// True or false.
    Truth(bool),
}

impl From<Option<u64>> for Cell {
    fn from(number: Option<u64>) -> Self {
        number.map_or(Self::Empty, Self::Number)
    }
}

impl From<Option<String>> for Cell {
    fn from(text: Option<String>) -> Self {
        text.map_or(Self::Empty, |text| Self::Text(text.into()))
    }
}

/// Takes rows.
pub trait Rows {
    /// One row: a cell for each column.
    fn row(&mut self, cells: Vec<Cell>) -> io::Result<()>;

    /// There are no more.
    fn finish(self) -> io::Result<()>;
}
