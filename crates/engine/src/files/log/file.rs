//! Bytes of a log file: its header and its records' headers. See `docs/format/log.md`.

use std::path::Path;

use nilometer_codec::crc32c;

use crate::error::{Error, Malformed};
use crate::file_header::{self, FileFormat, Format, take};
use crate::schema::Lsn;

/// The header's block; records start after it.
pub(super) const HEADER_BYTES: usize = 512;
/// Writers start records at multiples of this. Readers that look for a record behind damage look at every byte.
pub(super) const RECORD_ALIGN: usize = 8;
/// Size of a record's header.
pub(super) const RECORD_HEADER_BYTES: usize = 40;

const KIND: FileFormat = FileFormat {
    magic: *b"NILOLOG0",
    format: 8,
};
const RECORD_MAGIC: u32 = u32::from_le_bytes(*b"NREC");
const LAST_PART: u32 = 1;

pub(crate) fn file_name(number: u64) -> String {
    format!("{number:016}.log")
}

pub(crate) fn file_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log")?;
    let is_number = digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| digits.parse().ok())?
}

/// What a log file says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub(crate) uuid: [u8; 16],
    pub(crate) number: u64,
    /// LSN of the first record; everything before it was durable when the file was started.
    pub(crate) start_lsn: Lsn,
}

impl FileHeader {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let own = own_fields(self.number, self.start_lsn);
        file_header::encode(KIND, self.uuid, &own, HEADER_BYTES)
    }

    pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<(Self, Format), Error> {
        let header = file_header::decode::<16>(bytes, KIND, path)?;
        let (number, start_lsn) = take_own(&header.own).map_err(|what| what.at(path, 0))?;
        if start_lsn == 0 {
            return Err(Error::corrupt(path, 0, "the log starts before LSN 1"));
        }
        let own = Self {
            uuid: header.uuid,
            number,
            start_lsn,
        };
        Ok((own, header.format))
    }
}

/// A file's number and an LSN, as a header has them.
pub(super) fn own_fields(number: u64, lsn: Lsn) -> Vec<u8> {
    [number.to_le_bytes(), lsn.to_le_bytes()].concat()
}

/// The same back.
pub(super) fn take_own(own: &[u8; 16]) -> Result<(u64, Lsn), Malformed> {
    let mut own = own.as_slice();
    let number = u64::from_le_bytes(take(&mut own)?);
    Ok((number, u64::from_le_bytes(take(&mut own)?)))
}

/// What stands before a record's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordHeader {
    pub(super) length: u32,
    pub(super) lsn: Lsn,
    /// Highest durable LSN when the record's group was written.
    pub(super) durable_lsn: Lsn,
    pub(super) part: u32,
    pub(super) last: bool,
}

impl RecordHeader {
    /// Bytes that a record with this payload takes in the file.
    pub(super) fn padded(payload_bytes: usize) -> u64 {
        (RECORD_HEADER_BYTES + payload_bytes).next_multiple_of(RECORD_ALIGN) as u64
    }

    pub(super) fn encode(&self, file_number: u64, payload: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&RECORD_MAGIC.to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&self.lsn.to_le_bytes());
        out.extend_from_slice(&self.durable_lsn.to_le_bytes());
        out.extend_from_slice(&self.part.to_le_bytes());
        let flags = if self.last { LAST_PART } else { 0 };
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&crc32c(0, payload).to_le_bytes());
        let crc = crc32c(seed(file_number), out.get(start..).unwrap_or_default());
        out.extend_from_slice(&crc.to_le_bytes());
    }

    /// Reads a header of file `file_number`; `None` when no such header stands here.
    pub(super) fn decode(file_number: u64, bytes: &[u8]) -> Option<(Self, u32)> {
        let mut input = bytes.get(..RECORD_HEADER_BYTES)?;
        let covered = input.get(..RECORD_HEADER_BYTES - 4)?;
        let magic = u32::from_le_bytes(take(&mut input).ok()?);
        if magic != RECORD_MAGIC {
            return None;
        }
        let length = u32::from_le_bytes(take(&mut input).ok()?);
        let lsn = u64::from_le_bytes(take(&mut input).ok()?);
        let durable_lsn = u64::from_le_bytes(take(&mut input).ok()?);
        let part = u32::from_le_bytes(take(&mut input).ok()?);
        let flags = u32::from_le_bytes(take(&mut input).ok()?);
        let payload_crc = u32::from_le_bytes(take(&mut input).ok()?);
        let crc = u32::from_le_bytes(take(&mut input).ok()?);
        if crc != crc32c(seed(file_number), covered) {
            return None;
        }
        let header = Self {
            length,
            lsn,
            durable_lsn,
            part,
            last: flags & LAST_PART != 0,
        };
        Some((header, payload_crc))
    }
}

/// Records of a file's earlier life fail their checksum, because the number is part of it.
fn seed(file_number: u64) -> u32 {
    crc32c(0, &file_number.to_le_bytes())
}
