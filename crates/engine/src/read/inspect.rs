//! Contents of a data directory: files, use of bytes, encodings of each column.
//!
//! Does: read manifest, definition files and segments, of a store that runs or does not, and check what it reads. Does
//! not: take the store's lock, write anything, or look into the log; names that only the log knows yet are missing.

use std::collections::BTreeSet;
use std::path::Path;

use nilometer_codec::{Encoding, PhysicalType};

use crate::catalogue::Catalogue;
use crate::definitions_file::read_definitions;
use crate::disk::Disk;
use crate::error::Error;
use crate::layout::{segment_dir, segment_name};
use crate::log::Log;
use crate::manifest::{FileKind, Manifest};
use crate::schema::{Lsn, TableId};
pub use crate::segment::Tier;
use crate::segment::{ColumnChunk, GroupDirectory, Home, SERIES_PAGE, Segment, TIME_PAGE};

/// A running store may remove a file between our reading its manifest and the file; then the manifest is read again.
const ATTEMPTS: usize = 5;

/// What was found in a data directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inspection {
    /// Everything up to this LSN is in the files below; what came later is in the log.
    pub flushed_lsn: Lsn,
    /// In the order of their last LSN.
    pub segments: Vec<InspectedSegment>,
    /// By table id.
    pub tables: Vec<InspectedTable>,
    /// What the bytes of the data directory are spent on.
    pub bytes: ByteBudget,
}

/// Bytes by purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ByteBudget {
    /// Values, times and series of rows.
    pub pages: u64,
    /// Where pages are and what they span.
    pub directory: u64,
    /// Statistics of blocks and rollups of hours.
    pub statistics: u64,
    /// What finds series by name: definition and index files.
    pub index: u64,
    /// Headers and footers of segments, the manifest, and other files.
    pub rest: u64,
    /// Log files, in use or kept for reuse. Not in the total.
    pub log: u64,
}

impl ByteBudget {
    /// All but the log, which does not grow with the data.
    pub fn total(&self) -> u64 {
        self.pages + self.directory + self.statistics + self.index + self.rest
    }
}

/// A segment file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InspectedSegment {
    /// The number in its name.
    pub file_id: u64,
    /// Number of its format.
    pub format: u16,
    /// How it was written.
    pub tier: Tier,
    /// What rows it may hold.
    pub home: InspectedHome,
    /// Lowest LSN of its rows.
    pub min_lsn: Lsn,
    /// Highest LSN of its rows.
    pub max_lsn: Lsn,
    /// Deletes up to this LSN were applied to it.
    pub applied_lsn: Lsn,
    /// Rows in it.
    pub rows: u64,
    /// Groups of blocks.
    pub groups: u64,
    /// Blocks of one series.
    pub own_blocks: u64,
    /// Blocks that several series share.
    pub shared_blocks: u64,
    /// Flash pages of devices that stand in it as they are; 0 = it is no file of such pages.
    pub device_pages: u64,
    /// Size of the file.
    pub bytes: u64,
    /// Bytes of pages.
    pub page_bytes: u64,
    /// Bytes of group directories.
    pub directory_bytes: u64,
    /// Bytes of statistics.
    pub statistics_bytes: u64,
    /// Bytes of rollups.
    pub rollup_bytes: u64,
}

impl InspectedSegment {
    /// Header, footer and tail.
    pub fn rest_bytes(&self) -> u64 {
        let parts =
            self.page_bytes + self.directory_bytes + self.statistics_bytes + self.rollup_bytes;
        self.bytes.saturating_sub(parts)
    }
}

/// What rows a segment may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InspectedHome {
    /// Rows of any table and time.
    Mixed,
    /// Rows of one partition.
    Partition {
        /// Of this table.
        table: TableId,
        /// First time.
        start: i64,
        /// Time after the last.
        end: i64,
    },
}

/// What segments hold of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InspectedTable {
    /// Its id.
    pub id: TableId,
    /// Database, schema and table; `None` when no definition file names it.
    pub name: Option<[String; 3]>,
    /// Rows in all segments, duplicates between segments counted each.
    pub rows: u64,
    /// Time, series, then fields by id.
    pub columns: Vec<InspectedColumn>,
}

/// How a column is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InspectedColumn {
    /// What stands in it.
    pub role: ColumnRole,
    /// Its name; `None` when no definition file names it.
    pub name: Option<String>,
    /// How its values are represented. A field whose type changed stands here once for each.
    pub kind: PhysicalType,
    /// Pages by encoding, in the order of their first use.
    pub encodings: Vec<EncodingUse>,
}

/// What a column is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ColumnRole {
    /// Times of rows.
    Time,
    /// Series of rows, in blocks that several share.
    Series,
    /// The field of this id.
    Field(u32),
}

/// Pages of a column that are encoded alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodingUse {
    /// How.
    pub encoding: Encoding,
    /// Number of pages; times that go up evenly have none.
    pub pages: u64,
    /// Values in them, nulls not counted.
    pub values: u64,
    /// Their bytes, checksums included.
    pub bytes: u64,
}

impl InspectedColumn {
    fn add(&mut self, used: EncodingUse) {
        let mut known = self.encodings.iter_mut();
        match known.find(|known| known.encoding == used.encoding) {
            Some(known) => {
                known.pages += used.pages;
                known.values += used.values;
                known.bytes += used.bytes;
            }
            None => self.encodings.push(used),
        }
    }

    /// Values that are not null.
    pub fn values(&self) -> u64 {
        self.encodings.iter().map(|used| used.values).sum()
    }

    /// Bytes of its pages.
    pub fn bytes(&self) -> u64 {
        self.encodings.iter().map(|used| used.bytes).sum()
    }

    /// Bytes of a value on average; `None` when there is none.
    pub fn bytes_per_value(&self) -> Option<f64> {
        let values = self.values();
        (values > 0).then(|| self.bytes() as f64 / values as f64)
    }
}

/// Looks into the data directory `dir`, whether a server has it open or not.
pub fn inspect(disk: &dyn Disk, dir: &Path) -> Result<Inspection, Error> {
    let mut attempt = 1;
    loop {
        match look(disk, dir) {
            Err(Error::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound && attempt < ATTEMPTS =>
            {
                attempt += 1;
            }
            outcome => return outcome,
        }
    }
}

fn look(disk: &dyn Disk, dir: &Path) -> Result<Inspection, Error> {
    let manifest = Manifest::open(disk, dir)?;
    let folder = segment_dir(dir);
    let mut catalogue = Catalogue::default();
    read_definitions(disk, &folder, &manifest, &mut catalogue)?;
    let contents = &manifest.contents;
    let mut found = Inspection {
        flushed_lsn: contents.flushed_lsn,
        ..Inspection::default()
    };
    for file in &contents.files {
        match file.kind {
            FileKind::Definitions | FileKind::Index => found.bytes.index += file.bytes,
            FileKind::Keys | FileKind::Relations => found.bytes.rest += file.bytes,
        }
    }
    found.bytes.rest += size_of_file(disk, &dir.join("manifest"))?;
    let log = Log::dir_of(dir);
    for name in disk.list(&log).map_err(Error::io("list", &log))? {
        // A log file may go at any time; what is left of the log is not what an inspection is about.
        found.bytes.log += size_of_file(disk, &log.join(name)).unwrap_or(0);
    }
    for meta in &contents.segments {
        let path = folder.join(segment_name(meta.file_id));
        let segment = Segment::open_alone(disk, path, manifest.uuid(), meta.clone())?;
        let seen = look_into(&segment, &mut found.tables)?;
        found.bytes.pages += seen.page_bytes;
        found.bytes.directory += seen.directory_bytes;
        found.bytes.statistics += seen.statistics_bytes + seen.rollup_bytes;
        found.bytes.rest += seen.rest_bytes();
        found.segments.push(seen);
    }
    name_all(&catalogue, &mut found.tables);
    Ok(found)
}

fn size_of_file(disk: &dyn Disk, path: &Path) -> Result<u64, Error> {
    let file = disk.open(path).map_err(Error::io("open", path))?;
    file.size().map_err(Error::io("read", path))
}

fn look_into(
    segment: &Segment,
    tables: &mut Vec<InspectedTable>,
) -> Result<InspectedSegment, Error> {
    let mut seen = unread(segment);
    let mut units = BTreeSet::new();
    for (at, group) in segment.all_groups() {
        seen.groups += 1;
        seen.rows += group.rows;
        seen.page_bytes += group.pages;
        seen.directory_bytes += u64::from(group.directory.length);
        seen.statistics_bytes += u64::from(group.statistics.length);
        seen.rollup_bytes += u64::from(group.rollups.length);
        let directory = segment.directory(at)?;
        // A unit may be listed by several groups.
        units.extend(directory.units.iter().map(|unit| unit.offset));
        let shared = directory.blocks.iter().filter(|block| block.is_shared());
        let shared = shared.count() as u64;
        seen.shared_blocks += shared;
        seen.own_blocks += directory.blocks.len() as u64 - shared;
        let known = tables.iter().position(|table| table.id == group.table);
        let known = known.unwrap_or_else(|| {
            tables.push(InspectedTable {
                id: group.table,
                name: None,
                rows: 0,
                columns: Vec::new(),
            });
            tables.len() - 1
        });
        let Some(table) = tables.get_mut(known) else {
            continue;
        };
        table.rows += group.rows;
        for chunk in &directory.chunks {
            look_at_pages(segment, &directory, chunk, table)?;
        }
        for block in directory.blocks_without_times() {
            let is_one = block.min_time == block.max_time;
            let used = EncodingUse {
                encoding: if is_one {
                    Encoding::Constant
                } else {
                    Encoding::Stride
                },
                pages: 0,
                values: u64::from(block.rows),
                bytes: 0,
            };
            if let Some(column) = column_of(table, ColumnRole::Time, PhysicalType::I64) {
                column.add(used);
            }
        }
    }
    seen.device_pages = units.len() as u64;
    Ok(seen)
}

fn unread(segment: &Segment) -> InspectedSegment {
    let meta = &segment.meta;
    InspectedSegment {
        file_id: meta.file_id,
        format: segment.number(),
        tier: segment.tier(),
        home: match meta.home {
            Home::Mixed => InspectedHome::Mixed,
            Home::Partition(window) => InspectedHome::Partition {
                table: window.table,
                start: window.start,
                end: window.end,
            },
        },
        min_lsn: meta.min_lsn,
        max_lsn: meta.max_lsn,
        applied_lsn: meta.applied_lsn,
        rows: 0,
        groups: 0,
        own_blocks: 0,
        shared_blocks: 0,
        device_pages: 0,
        bytes: meta.bytes,
        page_bytes: 0,
        directory_bytes: 0,
        statistics_bytes: 0,
        rollup_bytes: 0,
    }
}

fn look_at_pages(
    segment: &Segment,
    directory: &GroupDirectory,
    chunk: &ColumnChunk,
    table: &mut InspectedTable,
) -> Result<(), Error> {
    let role = match chunk.column {
        TIME_PAGE => ColumnRole::Time,
        SERIES_PAGE => ColumnRole::Series,
        id => ColumnRole::Field(id),
    };
    let Some(column) = column_of(table, role, chunk.kind) else {
        return Ok(());
    };
    for (block, entry) in directory.blocks.iter().enumerate() {
        let Some((offset, length)) = chunk.page(block) else {
            continue;
        };
        let bytes = segment.read_span(offset, u64::from(length))?;
        let page = segment.check_page(chunk, entry.rows as usize, &bytes, offset)?;
        let header = page.header();
        let used = EncodingUse {
            encoding: header.encoding,
            pages: 1,
            values: (header.rows - page.nulls()) as u64,
            bytes: u64::from(length),
        };
        column.add(used);
    }
    Ok(())
}

/// A column of a table, which is new if nothing was known of it.
fn column_of(
    table: &mut InspectedTable,
    role: ColumnRole,
    kind: PhysicalType,
) -> Option<&mut InspectedColumn> {
    let mut columns = table.columns.iter();
    let known = columns.position(|column| (column.role, column.kind) == (role, kind));
    let at = known.unwrap_or(table.columns.len());
    if known.is_none() {
        table.columns.push(InspectedColumn {
            role,
            name: None,
            kind,
            encodings: Vec::new(),
        });
    }
    table.columns.get_mut(at)
}

/// Gives tables and columns the names that definition files have for them.
fn name_all(catalogue: &Catalogue, tables: &mut [InspectedTable]) {
    for table in tables.iter_mut() {
        table.columns.sort_by_key(|column| column.role);
        let Some(schema) = catalogue.table(table.id) else {
            continue;
        };
        for column in &mut table.columns {
            column.name = match column.role {
                ColumnRole::Time => Some(crate::schema::TIME_COLUMN.to_owned()),
                ColumnRole::Series => None,
                ColumnRole::Field(id) => {
                    let mut fields = schema.fields.iter();
                    let field = fields.find(|field| field.id.0 == id);
                    field.map(|field| field.name.clone())
                }
            };
        }
        table.name = catalogue.full_name(table.id);
    }
    tables.sort_by_key(|table| table.id);
}
