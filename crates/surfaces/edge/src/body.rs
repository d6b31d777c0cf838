//! The pages of a body, one after another, up to the first that is not taken.
//!
//! Does: cut the body into pages, leave out those that are there already, check order and limits before anything is decoded,
//! gather the rows, and the bytes of pages that are kept. Does not: store them. What is before a page that is not taken counts: its bytes were checked by themselves, and
//! a device that lost its connection in the middle does not send them again.

use std::collections::BTreeMap;

use nilometer_codec::device::{DevicePage, device_page_bytes};
use nilometer_service::{BodyPermit, DeviceProgress, Error as ServiceError, FlashPages};

use crate::config::EdgeConfig;
use crate::page::{PageError, blocks, decoded_bytes, start_ns};
use crate::rows::Rows;

/// Bytes of the checksum at the end of a page.
const CRC_BYTES: usize = 4;

/// What the pages are held against.
#[derive(Debug)]
pub(crate) struct Rules<'a> {
    pub(crate) config: &'a EdgeConfig,
    pub(crate) device: &'a str,
    pub(crate) clocks: &'a BTreeMap<u32, i64>,
    /// How far the flash has been taken in.
    pub(crate) known: Option<DeviceProgress>,
}

/// What became of the pages of a body.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// Pages that are new.
    pub(crate) pages: u64,
    /// Pages that were there already.
    pub(crate) repeated: u64,
    /// How far the flash has been taken in once the rows are stored.
    pub(crate) progress: Option<DeviceProgress>,
    /// The rows of the new pages.
    pub(crate) rows: Rows,
    /// Those of the new pages that are kept as they are.
    pub(crate) kept: FlashPages,
    /// The page at which it ends, if that is not the last one.
    pub(crate) stopped: Option<Stopped>,
}

/// The page at which a body ends.
#[derive(Debug)]
pub(crate) struct Stopped {
    /// Counted from 1.
    pub(crate) page: u64,
    /// Where it begins in the body.
    pub(crate) offset: usize,
    /// Its sequence, if its checksum holds.
    pub(crate) sequence: Option<u64>,
    pub(crate) reason: Reason,
}

/// Why a body ends at a page.
#[derive(Debug)]
pub(crate) enum Reason {
    /// The page cannot be taken.
    Page(PageError),
    /// A limit: its setting, and its value.
    Limit(&'static str, usize),
    /// There is no memory for its rows now.
    Memory(ServiceError),
    /// The rows could not be put into columns.
    Rows(String),
}

/// The page before, as far as the next one depends on it.
struct Before {
    sequence: u64,
    /// What has to follow, if it is not the last one of its seal.
    owed: Option<(u64, u16, u32)>,
}

/// Takes pages until the body, or what may be taken, ends. `held` covers what the rows take.
pub(crate) fn take(body: &[u8], rules: &Rules<'_>, held: &mut BodyPermit) -> Taken {
    let mut taken = Taken {
        progress: rules.known,
        ..Taken::default()
    };
    let mut rows_bytes = 0;
    let mut before = None;
    let mut offset = 0;
    while let Some(rest) = body.get(offset..).filter(|rest| !rest.is_empty()) {
        let mut sequence = None;
        let page = take_page(rest, rules, (&mut before, &mut sequence), &mut |bytes| {
            rows_bytes += bytes;
            let most = rules.config.rows_bytes_max;
            if rows_bytes > most {
                return Err(Reason::Limit("edge-rows-bytes-max", most));
            }
            // Twice: as they are decoded, and as they are stored.
            held.cover(2 * rows_bytes).map_err(Reason::Memory)
        });
        let added = page.and_then(|page| {
            let Some(new) = page.new else {
                taken.repeated += 1;
                return Ok(page.bytes);
            };
            let most = rules.config.tables_max;
            if taken.rows.tables_with(&new.blocks) > most {
                return Err(Reason::Limit("edge-tables-max", most));
            }
            let kept = taken.kept.len();
            if let Some(start_ns) = new.start_ns {
                let bytes = rest.get(..page.bytes).unwrap_or_default();
                taken.kept.push(bytes, start_ns, new.blocks.len());
            }
            for (at, block) in new.blocks.iter().enumerate() {
                let from = new.start_ns.map(|_| (kept, at));
                let added = taken.rows.add(block, from);
                added.map_err(|error| Reason::Rows(error.to_string()))?;
            }
            taken.pages += 1;
            taken.progress = Some(new.progress);
            Ok(page.bytes)
        });
        match added {
            Ok(bytes) => offset += bytes,
            Err(reason) => {
                taken.stopped = Some(Stopped {
                    page: taken.pages + taken.repeated + 1,
                    offset,
                    sequence,
                    reason,
                });
                break;
            }
        }
    }
    taken
}

/// A page that may be taken.
struct Page {
    bytes: usize,
    /// `None` = it is there already.
    new: Option<New>,
}

struct New {
    progress: DeviceProgress,
    blocks: Vec<crate::page::Block>,
    /// When the device's ticks began; `None` = the page is not kept.
    start_ns: Option<i64>,
}

fn take_page(
    rest: &[u8],
    rules: &Rules<'_>,
    (before, shown): (&mut Option<Before>, &mut Option<u64>),
    charge: &mut dyn FnMut(usize) -> Result<(), Reason>,
) -> Result<Page, Reason> {
    let damaged = |error| Reason::Page(PageError::Damaged(error));
    let length = device_page_bytes(rest).map_err(damaged)?;
    let bytes = rest.get(..length).unwrap_or_default();
    let page = DevicePage::open(bytes).map_err(damaged)?;
    let sequence = page.sequence;
    *shown = Some(sequence);
    if sequence == 0 || i64::try_from(sequence).is_err() {
        return Err(Reason::Page(PageError::Sequence));
    }
    if let Some(before) = before {
        let before_it = before.sequence;
        if sequence <= before_it {
            return Err(Reason::Page(PageError::Order {
                sequence,
                before: before_it,
            }));
        }
        if before
            .owed
            .is_some_and(|owed| owed != (sequence, page.part, page.source))
        {
            return Err(Reason::Page(PageError::Unended));
        }
    }
    let progress = DeviceProgress {
        sequence,
        checksum: checksum(bytes),
    };
    let is_there = rules.known.is_some_and(|known| sequence <= known.sequence);
    if rules
        .known
        .is_some_and(|known| sequence == known.sequence && progress.checksum != known.checksum)
    {
        return Err(Reason::Page(PageError::OtherStore { sequence }));
    }
    let new = if is_there {
        None
    } else {
        let keeps = rules.config.keep_pages;
        charge(decoded_bytes(&page, bytes) + if keeps { length } else { 0 })?;
        let device = (rules.config.device_tag.as_str(), rules.device);
        let blocks = blocks(&page, bytes, rules.clocks, device).map_err(Reason::Page)?;
        let start_ns = start_ns(&page, rules.clocks).filter(|_| keeps);
        Some(New {
            progress,
            blocks,
            start_ns,
        })
    };
    let owed = (sequence + 1, page.part.wrapping_add(1), page.source);
    *before = Some(Before {
        sequence,
        owed: (!page.is_last).then_some(owed),
    });
    Ok(Page { bytes: length, new })
}

/// The checksum that a page ends with.
fn checksum(page: &[u8]) -> u32 {
    let at = page.len().saturating_sub(CRC_BYTES);
    let last = page.get(at..).and_then(|rest| rest.first_chunk());
    last.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}
