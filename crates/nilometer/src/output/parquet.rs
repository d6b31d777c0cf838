//! Parquet files, several row groups at a time on threads of their own.
//!
//! Reading rows and encoding them both cost; with one thread they would add up. Groups are written in the order of their
//! rows, and only so many wait that memory stays flat.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Scope;

use anyhow::Context;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use clap::ValueEnum;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use parquet::basic::{Compression as Codec, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

/// Rows of a group. A reader takes one as a unit of work; ten columns of eight bytes are then 20 MB.
const GROUP_ROWS: usize = 256 << 10;

/// How the pages of a file are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Compression {
    /// Smallest files.
    #[default]
    Zstd,
    /// What every reader knows.
    Snappy,
    /// Fastest.
    Lz4,
    /// Not at all.
    None,
}

/// The rows of a group, and the writers of its columns.
struct Work {
    batches: Vec<RecordBatch>,
    writers: Vec<ArrowColumnWriter>,
    done: SyncSender<Result<Vec<ArrowColumnChunk>, ParquetError>>,
}

type Done = Receiver<Result<Vec<ArrowColumnChunk>, ParquetError>>;

pub(super) fn write(
    schema: &SchemaRef,
    batches: &mut dyn Iterator<Item = anyhow::Result<RecordBatch>>,
    compression: Compression,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<()> {
    let properties = properties(schema, compression);
    let writer = ArrowWriter::try_new(out, Arc::clone(schema), Some(properties))
        .context("the answer cannot be written as Parquet; cast the column to text")?;
    let (mut file, factory) = writer.into_serialized_writer()?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let mut groups = Groups::start(scope, &factory, threads);
        let mut append = |chunks: Vec<ArrowColumnChunk>| -> anyhow::Result<()> {
            let mut group = file.next_row_group()?;
            for chunk in chunks {
                chunk.append_to_row_group(&mut group)?;
            }
            group.close()?;
            Ok(())
        };
        let (mut waiting, mut rows) = (Vec::new(), 0);
        for batch in batches {
            let mut batch = batch?;
            while rows + batch.num_rows() >= GROUP_ROWS {
                let taken = GROUP_ROWS - rows;
                waiting.push(batch.slice(0, taken));
                batch = batch.slice(taken, batch.num_rows() - taken);
                groups.encode(std::mem::take(&mut waiting), &mut append)?;
                rows = 0;
            }
            rows += batch.num_rows();
            if batch.num_rows() > 0 {
                waiting.push(batch);
            }
        }
        if rows > 0 {
            groups.encode(waiting, &mut append)?;
        }
        groups.finish(&mut append)
    })?;
    file.close()?;
    Ok(())
}

/// Groups that are being encoded, oldest first.
struct Groups<'a> {
    factory: &'a ArrowRowGroupWriterFactory,
    work: SyncSender<Work>,
    encoding: VecDeque<Done>,
    encoding_max: usize,
    next: usize,
}

impl<'a> Groups<'a> {
    fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        factory: &'a ArrowRowGroupWriterFactory,
        threads: usize,
    ) -> Self {
        let (work, taken) = sync_channel::<Work>(threads);
        let taken = Arc::new(Mutex::new(taken));
        for _ in 0..threads {
            let taken = Arc::clone(&taken);
            scope.spawn(move || {
                loop {
                    let next = taken.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(work) = next else { return };
                    let chunks = encode(&work.batches, work.writers);
                    // Whoever gave the work up does not need it any more.
                    drop(work.done.send(chunks));
                }
            });
        }
        Self {
            factory,
            work,
            encoding: VecDeque::new(),
            encoding_max: threads + 1,
            next: 0,
        }
    }

    fn encode(
        &mut self,
        batches: Vec<RecordBatch>,
        append: &mut dyn FnMut(Vec<ArrowColumnChunk>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        while self.encoding.len() >= self.encoding_max {
            self.append_oldest(append)?;
        }
        let writers = self.factory.create_column_writers(self.next)?;
        self.next += 1;
        let (done, chunks) = sync_channel(1);
        let work = Work {
            batches,
            writers,
            done,
        };
        self.work
            .send(work)
            .ok()
            .context("an encoder ended early")?;
        self.encoding.push_back(chunks);
        Ok(())
    }

    fn append_oldest(
        &mut self,
        append: &mut dyn FnMut(Vec<ArrowColumnChunk>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let Some(oldest) = self.encoding.pop_front() else {
            return Ok(());
        };
        let chunks = oldest.recv().context("an encoder ended early")?;
        append(chunks.context("the rows cannot be written as Parquet")?)
    }

    fn finish(
        mut self,
        append: &mut dyn FnMut(Vec<ArrowColumnChunk>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        while !self.encoding.is_empty() {
            self.append_oldest(append)?;
        }
        Ok(())
    }
}

fn encode(
    batches: &[RecordBatch],
    mut writers: Vec<ArrowColumnWriter>,
) -> Result<Vec<ArrowColumnChunk>, ParquetError> {
    for batch in batches {
        let mut next = writers.iter_mut();
        let schema = batch.schema();
        for (field, column) in schema.fields().iter().zip(batch.columns()) {
            for leaf in compute_leaves(field, column)? {
                if let Some(writer) = next.next() {
                    writer.write(&leaf)?;
                }
            }
        }
    }
    writers.into_iter().map(ArrowColumnWriter::close).collect()
}

fn properties(schema: &Schema, compression: Compression) -> WriterProperties {
    let codec = match compression {
        Compression::Zstd => Codec::ZSTD(ZstdLevel::default()),
        Compression::Snappy => Codec::SNAPPY,
        Compression::Lz4 => Codec::LZ4_RAW,
        Compression::None => Codec::UNCOMPRESSED,
    };
    let mut properties = WriterProperties::builder()
        .set_compression(codec)
        .set_statistics_enabled(EnabledStatistics::Chunk);
    for field in schema.fields() {
        // Times hardly repeat within a group, so looking for repetitions only costs.
        if matches!(field.data_type(), DataType::Timestamp(..)) {
            let column = ColumnPath::from(field.name().as_str());
            properties = properties.set_column_dictionary_enabled(column, false);
        }
    }
    properties.build()
}
