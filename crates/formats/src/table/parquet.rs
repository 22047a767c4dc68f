//! Parquet, with zstd inside.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::{Cell, Column, Kind, Rows};

/// Rows that are held until they are written together: their columns are packed each for itself.
const GROUP: usize = 1 << 16;
/// Texts of lists that are held at the most: rows with deep stacks are written sooner.
const TEXTS: usize = 1 << 20;

pub struct Parquet<W: Write + Send> {
    columns: Vec<Column>,
    writer: SerializedFileWriter<W>,
    rows: Vec<Vec<Cell>>,
    texts: usize,
}

impl<W: Write + Send> Parquet<W> {
    pub fn new(name: &str, columns: &[Column], out: W) -> io::Result<Self> {
        let fields: String = columns.iter().map(field).collect();
        let schema = parse_message_type(&format!("message {name} {{ {fields} }}")).map_err(failed)?;
        let zstd = ZstdLevel::try_new(3).map_err(failed)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(zstd))
            .set_created_by(concat!("mallow ", env!("CARGO_PKG_VERSION")).to_owned());
        let writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties.build())).map_err(failed)?;
        Ok(Self { columns: columns.to_vec(), writer, rows: Vec::new(), texts: 0 })
    }

    fn group(&mut self) -> io::Result<()> {
        let rows = std::mem::take(&mut self.rows);
        self.texts = 0;
        let mut group = self.writer.next_row_group().map_err(failed)?;
        for (index, column) in self.columns.iter().enumerate() {
            let cells = rows.iter().map(|row| row.get(index).unwrap_or(&Cell::Empty));
            let Some(mut writer) = group.next_column().map_err(failed)? else { break };
            let levels: Vec<i16> = cells.clone().map(|cell| i16::from(*cell != Cell::Empty)).collect();
            match column.kind {
                Kind::Number => {
                    let number = |cell: &Cell| match cell {
                        Cell::Number(number) => Some(i64::try_from(*number).unwrap_or(i64::MAX)),
                        _ => None,
                    };
                    let values: Vec<i64> = cells.filter_map(number).collect();
                    writer.typed::<Int64Type>().write_batch(&values, Some(&levels), None).map_err(failed)?;
                }
                Kind::Truth => {
                    let truth = |cell: &Cell| if let Cell::Truth(truth) = cell { Some(*truth) } else { None };
                    let values: Vec<bool> = cells.filter_map(truth).collect();
                    writer.typed::<BoolType>().write_batch(&values, Some(&levels), None).map_err(failed)?;
                }
                Kind::Text => {
                    let text = |cell: &Cell| if let Cell::Text(text) = cell { Some(bytes(text)) } else { None };
                    let values: Vec<ByteArray> = cells.filter_map(text).collect();
                    writer.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None).map_err(failed)?;
                }
                Kind::Texts => {
                    let (values, defined, repeated) = lists(cells);
                    let typed = writer.typed::<ByteArrayType>();
                    typed.write_batch(&values, Some(&defined), Some(&repeated)).map_err(failed)?;
                }
            }
            writer.close().map_err(failed)?;
        }
        group.close().map_err(failed)?;
        Ok(())
    }
}

/// A column in the words of Parquet's schemas. Lists are those that every reader knows: three levels.
fn field(column: &Column) -> String {
    let name = column.name;
    match column.kind {
        Kind::Number => format!("OPTIONAL INT64 {name};"),
        Kind::Truth => format!("OPTIONAL BOOLEAN {name};"),
        Kind::Text => format!("OPTIONAL BYTE_ARRAY {name} (UTF8);"),
        Kind::Texts => {
            format!("OPTIONAL GROUP {name} (LIST) {{ REPEATED GROUP list {{ REQUIRED BYTE_ARRAY element (UTF8); }} }}")
        }
    }
}

/// Values, with the definition level of each (0: no list, 1: an empty one, 2: a text) and its repetition level (1: in
/// the list of the one before, 0: begins one).
fn lists<'c>(cells: impl Iterator<Item = &'c Cell>) -> (Vec<ByteArray>, Vec<i16>, Vec<i16>) {
    let (mut values, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    for cell in cells {
        match cell {
            Cell::Texts(texts) if !texts.is_empty() => {
                for (index, text) in texts.iter().enumerate() {
                    values.push(bytes(text));
                    defined.push(2);
                    repeated.push(i16::from(index > 0));
                }
            }
            cell => {
                defined.push(i16::from(matches!(cell, Cell::Texts(_))));
                repeated.push(0);
            }
        }
    }
    (values, defined, repeated)
}

fn bytes(text: &str) -> ByteArray {
    ByteArray::from(text)
}

fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(inner) => *inner,
            Err(inner) => io::Error::other(inner),
        },
        error => io::Error::other(error),
    }
}

impl<W: Write + Send> Rows for Parquet<W> {
    fn row(&mut self, cells: Vec<Cell>) -> io::Result<()> {
        self.texts +=
            cells.iter().map(|cell| if let Cell::Texts(texts) = cell { texts.len() } else { 0 }).sum::<usize>();
        self.rows.push(cells);
        match self.rows.len() < GROUP && self.texts < TEXTS {
            true => Ok(()),
            false => self.group(),
        }
    }

    fn finish(mut self) -> io::Result<()> {
        if !self.rows.is_empty() {
            self.group()?;
        }
        self.writer.close().map_err(failed)?;
        Ok(())
    }
}
