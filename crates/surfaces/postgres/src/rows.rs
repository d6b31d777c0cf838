//! Rows of an answer as messages, and as what COPY sends.

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::error::ArrowError;
use bytes::{BufMut, BytesMut};

use crate::copy::format::{CopyFormat, CopyWriter};
use crate::values::column::{Column, Fixed};
use crate::values::kind::{Format, Kind};
use crate::values::moment::Zone;
use crate::wire::replies::ColumnOf;

/// What a client is told of the columns of an answer.
pub(crate) fn columns_of(schema: &Schema) -> Vec<ColumnOf> {
    let fields = schema.fields().iter();
    let columns = fields.map(|field| ColumnOf {
        name: field.name().clone(),
        kind: match field.data_type() {
            // What nothing says the type of, such as `SELECT NULL`.
            DataType::Null => Kind::TEXT,
            _ => Kind::of_field(field),
        },
        modifier: Kind::modifier_of(field),
    });
    columns.collect()
}

/// Bytes of a row that are gathered before they are added.
const GATHERED_BYTES: usize = 256;

/// How rows are written.
#[derive(Debug, Clone)]
pub(crate) enum Encoding {
    /// As messages, with the formats that a client asks for.
    Rows(Vec<i16>),
    /// As the data of a COPY.
    Copy(CopyFormat),
}

/// Writes the rows of one answer.
#[derive(Debug)]
pub(crate) struct Encoder {
    columns: Vec<ColumnOf>,
    formats: Vec<Format>,
    zone: Zone,
    copy: Option<CopyWriter>,
}

/// The rows of a batch that are to be written.
#[derive(Debug)]
pub(crate) struct Columns(Vec<Column>);

impl Encoder {
    /// `None` = there are other formats than columns.
    pub(crate) fn new(schema: &SchemaRef, encoding: &Encoding, zone: Zone) -> Option<Self> {
        let columns = columns_of(schema);
        let (formats, copy) = match encoding {
            Encoding::Rows(codes) => (Format::each(codes, columns.len())?, None),
            Encoding::Copy(format) => {
                let of_values = match format {
                    CopyFormat::Binary => Format::Binary,
                    _ => Format::Text,
                };
                let writer = CopyWriter::new(format.clone());
                (vec![of_values; columns.len()], Some(writer))
            }
        };
        Some(Self {
            columns,
            formats,
            zone,
            copy,
        })
    }

    pub(crate) fn columns(&self) -> &[ColumnOf] {
        &self.columns
    }

    pub(crate) fn formats(&self) -> &[Format] {
        &self.formats
    }

    /// What comes before the first row.
    pub(crate) fn begin(&self, out: &mut BytesMut) {
        if let Some(copy) = &self.copy {
            let names = self.columns.iter().map(|column| column.name.as_str());
            copy.begin(names, out);
        }
    }

    /// What comes after the last row.
    pub(crate) fn end(&self, out: &mut BytesMut) {
        if let Some(copy) = &self.copy {
            copy.end(out);
        }
    }

    /// Looks at the columns of a batch.
    pub(crate) fn batch(&self, batch: &RecordBatch) -> Result<Columns, ArrowError> {
        let arrays = batch.columns().iter().zip(&self.columns).zip(&self.formats);
        let columns = arrays.map(|((array, column), format)| {
            let letters = column.kind.padded_to(column.modifier);
            let made = Column::new(array, column.kind, *format, self.zone);
            made.map(|made| made.padded(letters))
        });
        columns.collect::<Result<Vec<_>, _>>().map(Columns)
    }

    /// Adds a row.
    pub(crate) fn row(
        &self,
        columns: &Columns,
        row: usize,
        out: &mut BytesMut,
    ) -> Result<(), ArrowError> {
        if let Some(copy) = &self.copy {
            return copy.row(&columns.0, row, out);
        }
        let start = out.len();
        out.put_u8(b'D');
        out.put_i32(0);
        out.put_u16(u16::try_from(columns.0.len()).unwrap_or(u16::MAX));
        // Values of few bytes are gathered, and added together.
        let mut gathered = [0; GATHERED_BYTES];
        let mut used = 0;
        for column in &columns.0 {
            let Some(fixed) = column.fixed(row) else {
                out.extend_from_slice(gathered.get(..used).unwrap_or_default());
                used = 0;
                column.put(row, out)?;
                continue;
            };
            if used + Fixed::BYTES_MAX > GATHERED_BYTES {
                out.extend_from_slice(gathered.get(..used).unwrap_or_default());
                used = 0;
            }
            if let Some(place) = gathered.get_mut(used..used + Fixed::BYTES_MAX) {
                place.copy_from_slice(&fixed.bytes);
            }
            used += fixed.length;
        }
        out.extend_from_slice(gathered.get(..used).unwrap_or_default());
        let length = out.len() - start - 1;
        let Some(length) = i32::try_from(length).ok().filter(|it| *it < i32::MAX / 2) else {
            return Err(ArrowError::InvalidArgumentError(
                "a row is longer than a message of the protocol".to_owned(),
            ));
        };
        if let Some(place) = out.get_mut(start + 1..start + 5) {
            place.copy_from_slice(&length.to_be_bytes());
        }
        Ok(())
    }
}
