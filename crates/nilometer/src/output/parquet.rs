//! Parquet files, several row groups at a time on threads of their own.
//!
//! Reading rows and encoding them both cost; with one thread they would add up. Groups are written in the order of their
//! rows, and only so many wait that memory stays flat.

pub(crate) mod digest;
mod tags;

use std::collections::VecDeque;
use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Scope;

use anyhow::Context;
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int32Type, Schema, SchemaRef};
use bytes::Bytes;
use clap::ValueEnum;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use parquet::basic::{Compression as Codec, Encoding, ZstdLevel};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::{ColumnPath, SchemaDescPtr, SchemaDescriptor};

use self::digest::Digested;
use self::tags::{TagColumn, is_tag};

/// Rows of a group. A reader takes one as a unit of work; ten columns of eight bytes are then 20 MB.
const GROUP_ROWS: usize = 256 << 10;

/// How the pages of a file are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Compression {
    /// Smallest files.
    #[default]
    Zstd,
    /// Widest support.
    Snappy,
    /// Fastest.
    Lz4,
    /// No compression.
    None,
}

/// The rows of a group, and the writers of its columns.
struct Work {
    batches: Vec<RecordBatch>,
    writers: Vec<ArrowColumnWriter>,
    schema: SchemaDescPtr,
    done: SyncSender<Result<Vec<Chunk>, ParquetError>>,
}

/// A column of a group, encoded.
enum Chunk {
    Field(ArrowColumnChunk),
    Tag(Bytes, ColumnCloseResult),
}

type Done = Receiver<Result<Vec<Chunk>, ParquetError>>;

pub(super) fn write(
    schema: &SchemaRef,
    batches: &mut dyn Iterator<Item = anyhow::Result<RecordBatch>>,
    compression: Compression,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<()> {
    let properties = properties(schema, compression);
    let writer = ArrowWriter::try_new(Digested::new(out), Arc::clone(schema), Some(properties))
        .context("the answer cannot be written as Parquet; cast the column to text")?;
    let (mut file, factory) = writer.into_serialized_writer()?;
    let described = file.schema_descr().root_schema_ptr();
    let described = Arc::new(SchemaDescriptor::new(described));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let mut groups = Groups::start(scope, &factory, described, threads);
        let mut append = |chunks: Vec<Chunk>| -> anyhow::Result<()> {
            let mut group = file.next_row_group()?;
            for chunk in chunks {
                match chunk {
                    Chunk::Field(chunk) => chunk.append_to_row_group(&mut group)?,
                    Chunk::Tag(bytes, close) => group.append_column(&bytes, close)?,
                }
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
    file.flush()?;
    file.inner_mut().begin_footer();
    file.into_inner()?.finish()?;
    Ok(())
}

/// Groups that are being encoded, oldest first.
struct Groups<'a> {
    factory: &'a ArrowRowGroupWriterFactory,
    schema: SchemaDescPtr,
    work: SyncSender<Work>,
    encoding: VecDeque<Done>,
    encoding_max: usize,
    next: usize,
}

impl<'a> Groups<'a> {
    fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        factory: &'a ArrowRowGroupWriterFactory,
        schema: SchemaDescPtr,
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
                    let chunks = encode(&work.batches, work.writers, &work.schema);
                    // Whoever gave the work up does not need it any more.
                    drop(work.done.send(chunks));
                }
            });
        }
        Self {
            factory,
            schema,
            work,
            encoding: VecDeque::new(),
            encoding_max: threads + 1,
            next: 0,
        }
    }

    fn encode(
        &mut self,
        batches: Vec<RecordBatch>,
        append: &mut dyn FnMut(Vec<Chunk>) -> anyhow::Result<()>,
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
            schema: Arc::clone(&self.schema),
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
        append: &mut dyn FnMut(Vec<Chunk>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let Some(oldest) = self.encoding.pop_front() else {
            return Ok(());
        };
        let chunks = oldest.recv().context("an encoder ended early")?;
        append(chunks.context("the rows cannot be written as Parquet")?)
    }

    fn finish(
        mut self,
        append: &mut dyn FnMut(Vec<Chunk>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        while !self.encoding.is_empty() {
            self.append_oldest(append)?;
        }
        Ok(())
    }
}

fn encode(
    batches: &[RecordBatch],
    writers: Vec<ArrowColumnWriter>,
    described: &SchemaDescriptor,
) -> Result<Vec<Chunk>, ParquetError> {
    let mut chunks = Vec::with_capacity(writers.len());
    let mut leaves = writers.into_iter();
    let schema = batches.first().map(RecordBatch::schema);
    let fields = schema.iter().flat_map(|schema| schema.fields());
    for (at, field) in fields.enumerate() {
        let columns = batches.iter().filter_map(|batch| batch.columns().get(at));
        if is_tag(field.data_type()) {
            let mut tag = TagColumn::default();
            for column in columns {
                tag.add(column.as_dictionary::<Int32Type>())?;
            }
            // The writer in whose place it stands has written nothing.
            leaves.next();
            let (bytes, close) = tag.close(described.column(chunks.len()))?;
            chunks.push(Chunk::Tag(bytes, close));
            continue;
        }
        let mut writers: Vec<ArrowColumnWriter> = Vec::new();
        for column in columns {
            for (nth, leaf) in compute_leaves(field, column)?.into_iter().enumerate() {
                if nth == writers.len() {
                    writers.extend(leaves.next());
                }
                if let Some(writer) = writers.get_mut(nth) {
                    writer.write(&leaf)?;
                }
            }
        }
        for writer in writers {
            chunks.push(Chunk::Field(writer.close()?));
        }
    }
    Ok(chunks)
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
        .set_created_by(digest::created_by())
        .set_statistics_enabled(EnabledStatistics::Chunk)
        // Columns of tags have none, and without statistics of pages nobody looks for places of pages.
        .set_offset_index_disabled(true);
    for field in schema.fields() {
        // Neighbours are near each other in times and in most counts. Their differences take less time and room than a
        // dictionary, which has to look every value up.
        let is_whole = matches!(
            field.data_type(),
            DataType::Timestamp(..) | DataType::Int64 | DataType::UInt64
        );
        if is_whole {
            let column = ColumnPath::from(field.name().as_str());
            properties = properties
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
        }
    }
    properties.build()
}
