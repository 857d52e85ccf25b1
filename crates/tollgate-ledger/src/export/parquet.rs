//! Apache Parquet: columns in groups of rows, as the `parquet` crate writes them.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::{COLUMNS, Cell, Kind};

/// A group is written when it has so many rows or so many bytes: that much is held in memory.
const ROWS_MAX: usize = 50_000;
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// A file that is written.
pub(super) struct File<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    columns: Vec<Vec<Cell>>,
    bytes: usize,
}

impl<W: Write + Send> File<W> {
    pub(super) fn new(out: W) -> io::Result<Self> {
        let columns = COLUMNS.map(|(name, kind)| match kind {
            Kind::Time => format!("optional int64 {name} (timestamp(micros,true));"),
            Kind::Number => format!("optional int64 {name};"),
            Kind::Text => format!("optional binary {name} (string);"),
        });
        let schema = format!("message attempt {{ {} }}", columns.concat());
        let schema = Arc::new(parse_message_type(&schema).map_err(other)?);
        let properties = WriterProperties::builder().set_created_by("tollgate".to_owned()).build();
        let writer = SerializedFileWriter::new(out, schema, Arc::new(properties)).map_err(other)?;
        Ok(Self { writer, columns: vec![Vec::new(); COLUMNS.len()], bytes: 0 })
    }

    pub(super) fn row(&mut self, row: [Cell; COLUMNS.len()]) -> io::Result<()> {
        for (column, cell) in self.columns.iter_mut().zip(row) {
            self.bytes += size_of::<Cell>() + if let Cell::Text(text) = &cell { text.len() } else { 0 };
            column.push(cell);
        }
        let rows = self.columns.first().map_or(0, Vec::len);
        if rows >= ROWS_MAX || self.bytes >= BYTES_MAX { self.group() } else { Ok(()) }
    }

    fn group(&mut self) -> io::Result<()> {
        if self.bytes == 0 {
            return Ok(());
        }
        self.bytes = 0;
        let mut group = self.writer.next_row_group().map_err(other)?;
        for (column, (_, kind)) in self.columns.iter_mut().zip(COLUMNS) {
            let cells = std::mem::take(column);
            let levels: Vec<i16> = cells.iter().map(|cell| i16::from(*cell != Cell::Nothing)).collect();
            let Some(mut writer) = group.next_column().map_err(other)? else { break };
            if kind == Kind::Text {
                let texts: Vec<ByteArray> = cells.into_iter().filter_map(text).collect();
                writer.typed::<ByteArrayType>().write_batch(&texts, Some(&levels), None).map_err(other)?;
            } else {
                let numbers: Vec<i64> = cells.iter().filter_map(number).collect();
                writer.typed::<Int64Type>().write_batch(&numbers, Some(&levels), None).map_err(other)?;
            }
            writer.close().map_err(other)?;
        }
        group.close().map_err(other)?;
        Ok(())
    }

    pub(super) fn close(mut self) -> io::Result<()> {
        self.group()?;
        self.writer.close().map_err(other)?;
        Ok(())
    }
}

fn text(cell: Cell) -> Option<ByteArray> {
    match cell {
        Cell::Text(text) => Some(text.into_bytes().into()),
        Cell::Nothing | Cell::Time(_) | Cell::Number(_) => None,
    }
}

fn number(cell: &Cell) -> Option<i64> {
    match cell {
        Cell::Time(time) => Some(time.as_microsecond()),
        Cell::Number(number) => Some(i64::try_from(*number).unwrap_or(i64::MAX)),
        Cell::Nothing | Cell::Text(_) => None,
    }
}

/// What the disk or the reader said stays what it was.
fn other(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => source.downcast().map_or_else(io::Error::other, |error| *error),
        error => io::Error::other(error),
    }
}
