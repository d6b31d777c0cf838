//! Files of keys. Bytes: `docs/format/keys.md`.

use std::path::Path;

use nilometer_codec::{decode_i64s, encode_i64s};

use super::Taken;
use crate::checked_file::{self, Identity};
use crate::definition::take_bytes;
use crate::disk::Disk;
use crate::error::{Error, Malformed};
use crate::file_header::{FileFormat, take};

pub(crate) const KIND: FileFormat = FileFormat {
    magic: *b"NILOKEY0",
    format: 2,
};
const KEY_BYTES: usize = 16;

/// Writes and syncs a file of keys; returns its size. The folder's names are the caller's to sync.
pub(crate) fn write(
    disk: &dyn Disk,
    path: &Path,
    uuid: [u8; 16],
    file_id: u64,
    taken: &[Taken],
) -> Result<u64, Error> {
    let identity = Identity {
        kind: KIND,
        uuid,
        file_id,
    };
    checked_file::write(disk, path, identity, taken.len() as u64, &encode(taken))
}

/// Reads a file of keys.
pub(crate) fn read(
    disk: &dyn Disk,
    path: &Path,
    uuid: [u8; 16],
    file_id: u64,
) -> Result<Vec<Taken>, Error> {
    let identity = Identity {
        kind: KIND,
        uuid,
        file_id,
    };
    checked_file::read(disk, path, identity, decode)
}

pub(super) fn encode(taken: &[Taken]) -> Vec<u8> {
    let mut out: Vec<u8> = taken.iter().flat_map(|it| it.key).collect();
    let columns: [fn(&Taken) -> i64; 3] = [
        |it| it.lsn.cast_signed(),
        |it| it.rows.cast_signed(),
        |it| it.accepted_ns,
    ];
    for of in columns {
        let numbers: Vec<i64> = taken.iter().map(of).collect();
        encode_i64s(&numbers, &mut out);
    }
    out
}

pub(super) fn decode(number: u64, payload: &[u8]) -> Result<Vec<Taken>, Malformed> {
    let mut input = payload;
    // Checked against the bytes before anything is made as large as the header says.
    let n = usize::try_from(number).unwrap_or(usize::MAX);
    let mut keys = take_bytes(&mut input, n.saturating_mul(KEY_BYTES))?;
    let mut columns = [Vec::new(), Vec::new(), Vec::new()];
    for column in &mut columns {
        decode_i64s(&mut input, n, column)?;
    }
    if !input.is_empty() {
        return Err(Malformed::new("bytes after the last key"));
    }
    let [lsns, rows, times] = &columns;
    let mut taken = Vec::with_capacity(n);
    for ((lsn, rows), accepted_ns) in lsns.iter().zip(rows).zip(times) {
        taken.push(Taken {
            key: take(&mut keys)?,
            lsn: lsn.cast_unsigned(),
            rows: rows.cast_unsigned(),
            accepted_ns: *accepted_ns,
        });
    }
    if !taken.is_sorted_by(|a, b| a.lsn < b.lsn && a.accepted_ns <= b.accepted_ns) {
        return Err(Malformed::new("the keys are out of order"));
    }
    Ok(taken)
}
