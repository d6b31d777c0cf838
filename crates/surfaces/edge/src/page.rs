//! One page of a device: what it takes decoded, and its rows with their times by the server's clock.
//!
//! Does: say from the heads of its columns how much it becomes, decode it once, which checks its statistics, and name what of it
//! no table can have. Does not: know what came before it.

use std::collections::{BTreeMap, BTreeSet};

use nilometer_codec::device::{DeviceBlock, DevicePage, split_key};
use nilometer_codec::{ColumnBuf, Encoding, PhysicalType, page_header};

/// The column of times in every table.
pub(crate) const TIME: &str = "time";

/// What a block takes beside its values: names, places in lists.
const BLOCK_BYTES: usize = 1024;

/// What a column of a block takes beside its values.
const COLUMN_BYTES: usize = 256;

/// Why a page is not taken in.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PageError {
    /// Its bytes are not a page, or not the one that was written.
    #[error("{0}; send it again as it is in the flash")]
    Damaged(nilometer_codec::Error),
    #[error(
        "pages are sent in the order of their sequences, and this one has {sequence} after {before}"
    )]
    Order { sequence: u64, before: u64 },
    #[error(
        "it is no continuation of the page before it, whose seal has no end; leave out pages of seals that were interrupted"
    )]
    Unended,
    #[error("pages have sequences from 1 on, up to 2^63")]
    Sequence,
    #[error(
        "its times count from start {boot} of the device, and what to add to them is not known; add clock={boot}:TICKS"
    )]
    Clock { boot: u32 },
    #[error(
        "its times are beyond those that 64 bits of nanoseconds have; correct the device's clock, or what is added to its ticks"
    )]
    Time,
    #[error("its series {key:?} {reason}")]
    Series { key: String, reason: String },
    #[error(
        "the flash of this device was taken in up to another page of sequence {sequence}; a flash that was erased begins another store: raise the number 'store'"
    )]
    OtherStore { sequence: u64 },
}

/// Rows of one series.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) table: String,
    pub(crate) tags: Vec<(String, String)>,
    /// In nanoseconds since 1970.
    pub(crate) times: Vec<i64>,
    pub(crate) fields: Vec<(String, ColumnBuf)>,
}

/// Bytes that the rows of a page take, at most.
pub(crate) fn decoded_bytes(page: &DevicePage<'_>, bytes: &[u8]) -> usize {
    let blocks = page.blocks.iter().map(|block| {
        let fields = block.fields.iter().map(|field| {
            let column = bytes.get(field.page.clone()).unwrap_or_default();
            COLUMN_BYTES + values_bytes(column, block.rows)
        });
        // Times, the key in its parts, and the codes of tags.
        BLOCK_BYTES + 8 * block.rows + 16 * block.key.len() + fields.sum::<usize>()
    });
    blocks.sum()
}

fn values_bytes(column: &[u8], rows: usize) -> usize {
    let Ok(header) = page_header(column) else {
        return 0;
    };
    match (header.physical_type, header.encoding) {
        (PhysicalType::Bool, _) => rows,
        (PhysicalType::I64 | PhysicalType::U64 | PhysicalType::F64, _) => 8 * rows,
        (PhysicalType::Text | PhysicalType::Bytes, Encoding::Plain) => 8 * rows + column.len(),
        // Each row may have the longest text that there is room for.
        (PhysicalType::Text | PhysicalType::Bytes, _) => {
            let texts = rows.saturating_mul(column.len());
            8 * rows + texts.min(nilometer_codec::TEXT_BYTES_MAX)
        }
    }
}

/// The time of a page's tick 0, in nanoseconds since 1970; `None` = 64 bits do not have it, or it is not known.
pub(crate) fn start_ns(page: &DevicePage<'_>, clocks: &BTreeMap<u32, i64>) -> Option<i64> {
    shift_of(page, clocks)?.checked_mul(i64::from(page.tick_ns))
}

/// What is added to the ticks of a page.
fn shift_of(page: &DevicePage<'_>, clocks: &BTreeMap<u32, i64>) -> Option<i64> {
    match page.boot {
        0 => Some(0),
        boot => clocks.get(&boot).copied(),
    }
}

/// The rows of a page. `device` is the tag that says whose they are, and its value.
pub(crate) fn blocks(
    page: &DevicePage<'_>,
    bytes: &[u8],
    clocks: &BTreeMap<u32, i64>,
    device: (&str, &str),
) -> Result<Vec<Block>, PageError> {
    let boot = page.boot;
    let shift = shift_of(page, clocks).ok_or(PageError::Clock { boot })?;
    let mut blocks = Vec::with_capacity(page.blocks.len());
    for block in &page.blocks {
        blocks.push(named(block, device)?);
    }
    let mut at = 0;
    let mut are_times_right = true;
    let mut buffer = ColumnBuf::default();
    let decoded = page.decode(bytes, &mut buffer, |block, field, column| match field {
        None => {
            let time = |ticks: &i64| {
                let ticks = ticks.checked_add(block.base)?.checked_add(shift)?;
                ticks.checked_mul(i64::from(page.tick_ns))
            };
            let times: Option<Vec<i64>> = column.i64s().iter().map(time).collect();
            are_times_right &= times.is_some();
            if let Some(out) = blocks.get_mut(at) {
                out.times = times.unwrap_or_default();
            }
            at += 1;
        }
        Some(field) => {
            if let Some(out) = at.checked_sub(1).and_then(|at| blocks.get_mut(at)) {
                out.fields.push((field.name.to_owned(), column.to_kept()));
            }
        }
    });
    decoded.map_err(PageError::Damaged)?;
    if !are_times_right {
        return Err(PageError::Time);
    }
    Ok(blocks)
}

/// A block without its values. Names that one table cannot have together are refused here, where the page is known.
fn named(block: &DeviceBlock<'_>, (tag, device): (&str, &str)) -> Result<Block, PageError> {
    let (table, mut tags) = split_key(block.key).map_err(PageError::Damaged)?;
    let refused = |reason: String| PageError::Series {
        key: block.key.to_owned(),
        reason,
    };
    match tags.iter().find(|(name, _)| name == tag) {
        Some((_, value)) if value == device => {}
        Some((_, value)) => {
            return Err(refused(format!(
                "has the tag {tag}={value}, and the device is {device:?}; name the tag otherwise, here or in the setting edge-device-tag"
            )));
        }
        None => tags.push((tag.to_owned(), device.to_owned())),
    }
    let mut names = BTreeSet::from([TIME]);
    let fields = block.fields.iter().map(|field| field.name);
    let all = tags.iter().map(|(name, _)| name.as_str()).chain(fields);
    for name in all {
        if !names.insert(name) {
            return Err(refused(format!(
                "has two columns called {name:?}, that of the time among them; name one otherwise"
            )));
        }
    }
    Ok(Block {
        table,
        tags,
        times: Vec::new(),
        fields: Vec::with_capacity(block.fields.len()),
    })
}
