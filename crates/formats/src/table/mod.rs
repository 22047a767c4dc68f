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

/// Types of columns. Each cell may be empty, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Number,
    Text,
    Texts,
    Truth,
}

#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Not known, or not to be said of this row.
    Empty,
    /// A number. Databases know numbers below 2^63 alone.
    Number(u64),
    Text(Cow<'static, str>),
    Texts(Vec<String>),
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

pub trait Rows {
    /// Writes a row with a cell for each column.
    fn row(&mut self, cells: Vec<Cell>) -> io::Result<()>;

    /// Call it after the last row.
    fn finish(self) -> io::Result<()>;
}
