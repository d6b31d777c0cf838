//! The three formats of COPY, and rows written in them.

use std::sync::atomic::{AtomicBool, Ordering};

use arrow::error::ArrowError;
use bytes::{BufMut, BytesMut};

use crate::values::column::Column;

/// What every binary COPY begins with.
pub(crate) const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";

/// Text: a line a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextFormat {
    pub(crate) delimiter: u8,
    pub(crate) null: String,
    pub(crate) has_header: bool,
}

/// Values with commas between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CsvFormat {
    pub(crate) delimiter: u8,
    pub(crate) null: String,
    pub(crate) quote: u8,
    pub(crate) escape: u8,
    pub(crate) has_header: bool,
}

/// A format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CopyFormat {
    Text(TextFormat),
    Csv(CsvFormat),
    Binary,
}

impl Default for CopyFormat {
    fn default() -> Self {
        Self::Text(TextFormat {
            delimiter: b'\t',
            null: "\\N".to_owned(),
            has_header: false,
        })
    }
}

impl CopyFormat {
    /// As the messages that begin a COPY have it: 0 = text of some kind, 1 = binary.
    pub(crate) fn code(&self) -> i8 {
        i8::from(*self == Self::Binary)
    }
}

/// Writes the rows of a COPY, each as a message.
#[derive(Debug)]
pub(crate) struct CopyWriter {
    format: CopyFormat,
    /// The header of the binary format waits for the first row, or for the end: some drivers take it with what follows only, as
    /// PostgreSQL sends it.
    owes_header: AtomicBool,
}

impl CopyWriter {
    pub(crate) fn new(format: CopyFormat) -> Self {
        let owes_header = AtomicBool::new(format == CopyFormat::Binary);
        Self {
            format,
            owes_header,
        }
    }

    /// The header of a text, where there is one.
    pub(crate) fn begin<'a>(&self, names: impl Iterator<Item = &'a str>, out: &mut BytesMut) {
        match &self.format {
            CopyFormat::Text(text) if text.has_header => message(out, |out| {
                for (at, name) in names.enumerate() {
                    if at > 0 {
                        out.put_u8(text.delimiter);
                    }
                    let start = out.len();
                    out.extend_from_slice(name.as_bytes());
                    escape(out, start, text.delimiter);
                }
                out.put_u8(b'\n');
            }),
            CopyFormat::Csv(csv) if csv.has_header => message(out, |out| {
                for (at, name) in names.enumerate() {
                    if at > 0 {
                        out.put_u8(csv.delimiter);
                    }
                    let start = out.len();
                    out.extend_from_slice(name.as_bytes());
                    quote(out, start, csv);
                }
                out.put_u8(b'\n');
            }),
            CopyFormat::Binary | CopyFormat::Text(_) | CopyFormat::Csv(_) => {}
        }
    }

    /// The header of the binary format, once.
    fn put_header(&self, out: &mut BytesMut) {
        if self.owes_header.swap(false, Ordering::Relaxed) {
            out.extend_from_slice(SIGNATURE);
            // Flags, and the length of what follows the header.
            out.put_i64(0);
        }
    }

    /// What says that there is no further row, where something does.
    pub(crate) fn end(&self, out: &mut BytesMut) {
        if self.format == CopyFormat::Binary {
            message(out, |out| {
                self.put_header(out);
                out.put_i16(-1);
            });
        }
    }

    /// A row.
    pub(crate) fn row(
        &self,
        columns: &[Column],
        row: usize,
        out: &mut BytesMut,
    ) -> Result<(), ArrowError> {
        let mut failed = None;
        message(out, |out| {
            failed = self.put(columns, row, out).err();
        });
        failed.map_or(Ok(()), Err)
    }

    fn put(&self, columns: &[Column], row: usize, out: &mut BytesMut) -> Result<(), ArrowError> {
        match &self.format {
            CopyFormat::Binary => {
                self.put_header(out);
                out.put_u16(u16::try_from(columns.len()).unwrap_or(u16::MAX));
                for column in columns {
                    column.put(row, out)?;
                }
                return Ok(());
            }
            CopyFormat::Text(text) => {
                for (at, column) in columns.iter().enumerate() {
                    if at > 0 {
                        out.put_u8(text.delimiter);
                    }
                    let start = out.len();
                    if column.put_value(row, out)? {
                        escape(out, start, text.delimiter);
                    } else {
                        out.extend_from_slice(text.null.as_bytes());
                    }
                }
            }
            CopyFormat::Csv(csv) => {
                for (at, column) in columns.iter().enumerate() {
                    if at > 0 {
                        out.put_u8(csv.delimiter);
                    }
                    let start = out.len();
                    if column.put_value(row, out)? {
                        quote(out, start, csv);
                    } else {
                        out.extend_from_slice(csv.null.as_bytes());
                    }
                }
            }
        }
        out.put_u8(b'\n');
        Ok(())
    }
}

/// Adds a message `CopyData`.
fn message(out: &mut BytesMut, put: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.put_u8(b'd');
    out.put_i32(0);
    put(out);
    let length = i32::try_from(out.len() - start - 1).unwrap_or(i32::MAX);
    if let Some(place) = out.get_mut(start + 1..start + 5) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}

/// Puts backslashes before what would be read as something else in a value that begins here.
fn escape(out: &mut BytesMut, start: usize, delimiter: u8) {
    let is_special = |byte: u8| matches!(byte, 8..=13 | b'\\') || byte == delimiter;
    let value = out.get(start..).unwrap_or_default();
    if !value.iter().copied().any(is_special) {
        return;
    }
    let value = out.split_off(start);
    for byte in value {
        let letter = match byte {
            8 => b'b',
            9 => b't',
            10 => b'n',
            11 => b'v',
            12 => b'f',
            13 => b'r',
            other => other,
        };
        if is_special(byte) {
            out.put_u8(b'\\');
        }
        out.put_u8(letter);
    }
}

/// Puts a value that begins here between quotes, where it would be read as something else.
fn quote(out: &mut BytesMut, start: usize, csv: &CsvFormat) {
    let value = out.get(start..).unwrap_or_default();
    let is_special =
        |byte: &u8| *byte == csv.delimiter || *byte == csv.quote || matches!(byte, b'\n' | b'\r');
    let is_plain = value != csv.null.as_bytes() && value != b"\\." && !value.iter().any(is_special);
    if is_plain {
        return;
    }
    let value = out.split_off(start);
    out.put_u8(csv.quote);
    for byte in value {
        if byte == csv.quote || byte == csv.escape {
            out.put_u8(csv.escape);
        }
        out.put_u8(byte);
    }
    out.put_u8(csv.quote);
}
