//! Flash pages of devices that rows of a batch come from, on their way into a file of such pages.
//!
//! Does: hold a page's bytes as the device sent them and say which table, series and columns its blocks became; encode that for the
//! log. Does not: stand for rows: those are in the batch, and count. A page is kept where its blocks say what the rows do.
//! Next: `docs/format/log.md`, `engine/maintain/kept_pages.rs`.

use std::sync::Arc;

use nilometer_codec::device::{DEVICE_PAGE_BYTES_MAX, DevicePage};
use nilometer_codec::varint;

use crate::definition::{take_bytes, take_u32};
use crate::error::Malformed;
use crate::schema::{ColumnId, TableId};

/// Memory of a page beside its bytes, and of a block of it.
const PAGE_BYTES: usize = 96;
const BLOCK_BYTES: usize = 56;

/// A flash page of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptPage {
    /// As the device sent it.
    pub(crate) bytes: Arc<[u8]>,
    /// Nanoseconds since 1970 of tick 0 of the device.
    pub(crate) start_ns: i64,
    /// By block of the page; `None` = its rows are only rows.
    pub(crate) blocks: Vec<Option<BlockPlace>>,
}

/// What a block of a page became.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockPlace {
    pub(crate) table: TableId,
    pub(crate) series: u32,
    /// By field of the block.
    pub(crate) columns: Vec<ColumnId>,
}

impl KeptPage {
    /// Memory in use, roughly.
    pub(crate) fn memory(&self) -> usize {
        let columns = self.blocks.iter().flatten().map(|it| it.columns.len());
        self.bytes.len() + PAGE_BYTES + self.blocks.len() * BLOCK_BYTES + 4 * columns.sum::<usize>()
    }

    /// The same with other ids of series.
    pub(crate) fn with_series(&self, id_of: &impl Fn(u32) -> u32) -> Self {
        let mut page = self.clone();
        for block in page.blocks.iter_mut().flatten() {
            block.series = id_of(block.series);
        }
        page
    }

    /// Appends the page as the log has it.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        varint::put_u64(self.bytes.len() as u64, out);
        out.extend_from_slice(&self.bytes);
        varint::put_i64(self.start_ns, out);
        for block in &self.blocks {
            let columns = block.as_ref().map_or(0, |it| it.columns.len());
            varint::put_u64(columns as u64, out);
            let Some(block) = block else { continue };
            varint::put_u64(u64::from(block.table.0), out);
            varint::put_u64(u64::from(block.series), out);
            for column in &block.columns {
                varint::put_u64(u64::from(column.0), out);
            }
        }
    }

    /// Reads a page and moves `input` past it.
    pub(crate) fn decode(input: &mut &[u8]) -> Result<Self, Malformed> {
        let length = take_u32(input)? as usize;
        if length > DEVICE_PAGE_BYTES_MAX {
            return Err(Malformed::new("a page of a device of more than 64 KiB"));
        }
        let bytes = take_bytes(input, length)?;
        let page = DevicePage::open(bytes)?;
        let start_ns = varint::get_i64(input)?;
        let mut blocks = Vec::with_capacity(page.blocks.len());
        for block in &page.blocks {
            let columns = take_u32(input)? as usize;
            if columns == 0 {
                blocks.push(None);
                continue;
            }
            if columns != block.fields.len() {
                return Err(Malformed::new("a block of a page has other columns"));
            }
            let (table, series) = (TableId(take_u32(input)?), take_u32(input)?);
            let columns = (0..columns).map(|_| take_u32(input).map(ColumnId));
            blocks.push(Some(BlockPlace {
                table,
                series,
                columns: columns.collect::<Result<_, _>>()?,
            }));
        }
        Ok(Self {
            bytes: bytes.into(),
            start_ns,
            blocks,
        })
    }
}
