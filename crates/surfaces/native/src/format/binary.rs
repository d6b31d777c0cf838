//! Answers in columns: an Arrow stream, and a Parquet file whose row groups leave as they fill.

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow_ipc::writer::StreamWriter;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use super::cannot;
use nilometer_http::ErrorResponse;

/// Rows and bytes of a row group: enough that its columns compress, little enough that a hundred answers at one time
/// fit the memory of a small machine.
const GROUP_ROWS_MAX: usize = 128 << 10;
const GROUP_BYTES_MAX: usize = 8 << 20;

/// Writes `application/vnd.apache.arrow.stream`: the schema, then each batch as it comes. A dictionary goes out when it
/// differs from the one before.
pub(crate) struct Stream {
    writer: StreamWriter<Vec<u8>>,
}

impl Stream {
    pub(super) fn new(schema: &Schema) -> Result<Self, ErrorResponse> {
        let writer = StreamWriter::try_new(Vec::new(), schema).map_err(|error| cannot(&error))?;
        Ok(Self { writer })
    }

    pub(super) fn batch(
        &mut self,
        batch: &RecordBatch,
        out: &mut Vec<u8>,
    ) -> Result<(), ErrorResponse> {
        self.writer.write(batch).map_err(|error| cannot(&error))?;
        out.append(self.writer.get_mut());
        Ok(())
    }

    pub(super) fn finish(mut self, out: &mut Vec<u8>) -> Result<(), ErrorResponse> {
        self.writer.finish().map_err(|error| cannot(&error))?;
        out.append(self.writer.get_mut());
        Ok(())
    }
}

/// Writes a Parquet file. What is kept until the end is a few hundred bytes a row group and column.
pub(crate) struct Parquet {
    writer: ArrowWriter<Vec<u8>>,
}

impl Parquet {
    pub(super) fn new(schema: SchemaRef) -> Result<Self, ErrorResponse> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_max_row_group_row_count(Some(GROUP_ROWS_MAX))
            .set_max_row_group_bytes(Some(GROUP_BYTES_MAX))
            .build();
        let writer = ArrowWriter::try_new(Vec::new(), schema, Some(properties))
            .map_err(|error| cannot(&error))?;
        Ok(Self { writer })
    }

    pub(super) fn batch(
        &mut self,
        batch: &RecordBatch,
        out: &mut Vec<u8>,
    ) -> Result<(), ErrorResponse> {
        self.writer.write(batch).map_err(|error| cannot(&error))?;
        // The file's offsets are counted by the writer, not taken from its buffer, so that may be emptied.
        out.append(self.writer.inner_mut());
        Ok(())
    }

    /// Bytes of the row group that is being filled, encoded and not.
    pub(super) fn held_bytes(&self) -> usize {
        self.writer.memory_size()
    }

    pub(super) fn finish(mut self, out: &mut Vec<u8>) -> Result<(), ErrorResponse> {
        self.writer.finish().map_err(|error| cannot(&error))?;
        out.append(self.writer.inner_mut());
        Ok(())
    }
}
