//! Reading the log of a running store for the sake of its checksums, a piece at a time.
//!
//! Does: check the headers of files in use and every record in them that is durable. Does not: look at what is being
//! written, know what a record means, or decide what is needed still: whoever is told of a suspect place finds out.

use std::path::Path;
use std::sync::Arc;

use nilometer_codec::crc32c;

use super::file::{FileHeader, HEADER_BYTES, RECORD_HEADER_BYTES, RecordHeader};
use super::{Log, lock};
use crate::disk::{DiskFile, read_exact_at};
use crate::error::Error;
use crate::schema::Lsn;

/// What is read at once, unless a record is longer.
const PIECE_BYTES: usize = 256 << 10;

/// How far the log was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogPlace {
    number: u64,
    offset: u64,
    expected: Lsn,
    part: u32,
}

/// What one call has read.
#[derive(Debug, Default)]
pub(crate) struct LogRead {
    pub(crate) bytes: u64,
    /// All that was durable when the call began has been read.
    pub(crate) is_end: bool,
    /// What does not read; the next call goes on with the next file.
    pub(crate) suspect: Option<Error>,
}

/// A file in use.
struct Live {
    number: u64,
    start_lsn: Lsn,
    /// Of the file that takes over.
    next_start: Option<Lsn>,
    file: Arc<dyn DiskFile>,
    path: std::path::PathBuf,
}

impl Log {
    /// Reads on from a place, about so many bytes; `None` = from the beginning.
    pub(crate) fn verify_some(
        &self,
        place: &mut Option<LogPlace>,
        bytes_max: u64,
    ) -> Result<LogRead, Error> {
        let durable = self.durable();
        let mut read = LogRead::default();
        while read.bytes < bytes_max && read.suspect.is_none() {
            let from = place.map_or(0, |place| place.number);
            let Some(live) = self.live_from(from) else {
                read.is_end = true;
                break;
            };
            let at = match place.filter(|place| place.number == live.number && place.offset > 0) {
                Some(at) => at,
                None => LogPlace {
                    number: live.number,
                    offset: 0,
                    expected: live.start_lsn,
                    part: 0,
                },
            };
            let next = self.verify_piece(&live, at, durable, &mut read)?;
            *place = Some(next.unwrap_or(LogPlace {
                number: live.number + 1,
                offset: 0,
                ..at
            }));
        }
        Ok(read)
    }

    /// Whether a file of this path has records that are needed.
    pub(crate) fn is_live(&self, path: &Path) -> bool {
        lock(&self.files).live.iter().any(|live| live.path == path)
    }

    /// Has the next record begin another file.
    pub(crate) fn end_file(&self) {
        let mut queue = lock(&self.queue);
        if queue.offset > HEADER_BYTES as u64 {
            queue.file_number += 1;
            queue.offset = HEADER_BYTES as u64;
        }
    }

    fn live_from(&self, number: u64) -> Option<Live> {
        let files = lock(&self.files);
        let at = files.live.iter().position(|live| live.number >= number)?;
        let live = files.live.get(at)?;
        Some(Live {
            number: live.number,
            start_lsn: live.start_lsn,
            next_start: files.live.get(at + 1).map(|next| next.start_lsn),
            file: Arc::clone(&live.file),
            path: live.path.clone(),
        })
    }

    /// Reads one piece of a file; `None` = nothing is left of it to read.
    fn verify_piece(
        &self,
        live: &Live,
        mut at: LogPlace,
        durable: Lsn,
        read: &mut LogRead,
    ) -> Result<Option<LogPlace>, Error> {
        if at.offset == 0 {
            at.offset = HEADER_BYTES as u64;
            let header = piece(live, 0, HEADER_BYTES)?;
            read.bytes += header.len() as u64;
            if let Err(error) = self.check_header(live, &header) {
                read.suspect = Some(error);
                return Ok(None);
            }
        }
        let is_due = |expected: Lsn| {
            expected <= durable && live.next_start.is_none_or(|next| expected < next)
        };
        if !is_due(at.expected) {
            return Ok(None);
        }
        let mut bytes = piece(live, at.offset, PIECE_BYTES)?;
        if let Some((first, _)) = RecordHeader::decode(live.number, &bytes) {
            // A record that is longer than a piece is read as a whole.
            let length = RECORD_HEADER_BYTES + first.length as usize;
            if length > bytes.len() && first.length as usize <= super::RECORD_PAYLOAD_BYTES_MAX {
                bytes = piece(live, at.offset, length)?;
            }
        }
        let mut from = 0;
        while is_due(at.expected) {
            let rest = bytes.get(from..).unwrap_or_default();
            match record(live.number, rest) {
                Some(record) if record.lsn == at.expected && record.part == at.part => {
                    let length = RecordHeader::padded(record.length as usize);
                    at.offset += length;
                    from += usize::try_from(length).unwrap_or(usize::MAX);
                    read.bytes += length;
                    at.part += 1;
                    if record.last {
                        at.expected += 1;
                        at.part = 0;
                    }
                }
                // The piece ended within a record; the next one begins with it.
                None if from > 0 => break,
                _ => {
                    let reason = format!("LSN {} was durable and does not read", at.expected);
                    read.suspect = Some(Error::corrupt(&live.path, at.offset, reason));
                    return Ok(None);
                }
            }
        }
        Ok(Some(at))
    }

    fn check_header(&self, live: &Live, bytes: &[u8]) -> Result<(), Error> {
        let (header, _) = FileHeader::decode(bytes, &live.path)?;
        let expected = FileHeader {
            uuid: self.uuid,
            number: live.number,
            start_lsn: live.start_lsn,
        };
        if header == expected {
            Ok(())
        } else {
            let reason = "the header is that of another log file";
            Err(Error::corrupt(&live.path, 0, reason))
        }
    }
}

/// Up to so many bytes, fewer at the file's end.
fn piece(live: &Live, offset: u64, most: usize) -> Result<Vec<u8>, Error> {
    let size = live.file.size().map_err(Error::io("read", &live.path))?;
    let left = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
    let mut bytes = vec![0; most.min(left)];
    read_exact_at(live.file.as_ref(), &mut bytes, offset).map_err(Error::io("read", &live.path))?;
    Ok(bytes)
}

/// The record at the beginning of some bytes, if all of it is there and passes its checksums.
fn record(number: u64, bytes: &[u8]) -> Option<RecordHeader> {
    let (header, payload_crc) = RecordHeader::decode(number, bytes)?;
    let end = RECORD_HEADER_BYTES.checked_add(header.length as usize)?;
    let payload = bytes.get(RECORD_HEADER_BYTES..end)?;
    (crc32c(0, payload) == payload_crc).then_some(header)
}
