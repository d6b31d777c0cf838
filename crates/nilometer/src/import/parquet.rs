//! Parquet files to points.

use std::fs::File;
use std::path::Path;

use anyhow::Context;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::batch::{Batch, Lines, Outlet, Reject, Start};
use crate::lines::{LinePrinter, Wishes};

/// Rows of a batch.
const BATCH_ROWS: usize = 10_000;

/// A file whose footer was read.
pub(super) struct ParquetFile {
    builder: ParquetRecordBatchReaderBuilder<File>,
    pub(super) printer: LinePrinter,
}

impl ParquetFile {
    pub(super) fn open(path: &Path, table: &str, wishes: &Wishes) -> anyhow::Result<Self> {
        let file = File::open(path)?;
        let builder = ParquetRecordBatchReaderBuilder::try_new(file)
            .context("it is no Parquet file, or a damaged one")?;
        let printer = LinePrinter::new(builder.schema(), table, wishes)?;
        Ok(Self { builder, printer })
    }

    pub(super) fn rows(&self) -> u64 {
        u64::try_from(self.builder.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    /// Sends all rows from `start` on; `on_rows` hears how many were read.
    pub(super) fn send(
        self,
        input: usize,
        start: Start,
        outlet: &Outlet,
        on_rows: &dyn Fn(u64),
    ) -> anyhow::Result<()> {
        let offset = usize::try_from(start.at).context("the file has fewer rows than that")?;
        let reader = self.builder.with_batch_size(BATCH_ROWS).with_offset(offset);
        let mut begin = start.at;
        for rows in reader.build().context("the file cannot be read")? {
            let rows =
                rows.with_context(|| format!("the file cannot be read after row {begin}"))?;
            let (mut text, mut lines, mut rejected) = (Vec::new(), Vec::new(), Vec::new());
            let mut on_row = |row: usize, printed: Result<&[u8], String>| {
                let line = begin + row as u64 + 1;
                match printed {
                    Ok(text) => lines.extend(memchr::memchr_iter(b'\n', text).map(|_| line)),
                    Err(reason) => rejected.push(Reject {
                        line,
                        text: String::new(),
                        reason,
                    }),
                }
            };
            let printed = self.printer.print(&rows, &mut text, &mut on_row)?;
            let end = begin + rows.num_rows() as u64;
            outlet.send(Batch {
                input,
                begin,
                end,
                text,
                rows: printed.rows,
                lines: Lines::Listed(lines),
                rejected,
                values_left_out: printed.values_left_out,
            })?;
            begin = end;
            on_rows(begin);
        }
        Ok(())
    }
}
