//! Bytes from anywhere for the log; see `crate::hostile`.

use std::path::Path;
use std::sync::Arc;

use nilometer_codec::crc32c;

use super::file::{RECORD_HEADER_BYTES, RecordHeader};
use super::mark::{BLOCK_BYTES, BLOCK_CRC_AT, MARK, Mark, MarkFile};
use super::{
    FileHeader, HEADER_BYTES, Log, LogOptions, RECORD_ALIGN, encode_batch_records, file_name,
    file_number,
};
use crate::disk::{Disk, MemoryDisk, write_all_at};
use crate::error::{Error, Malformed};
use crate::hostile::{SEED_UUID, pieces};
use crate::record;
use crate::schema::Lsn;

const NUMBER: u64 = 1;
const HEADER: FileHeader = FileHeader {
    uuid: SEED_UUID,
    number: NUMBER,
    start_lsn: 1,
};

/// What is replayed of a log of these bytes.
fn replayed(text: &[u8]) -> Result<Vec<(Lsn, Vec<u8>)>, Error> {
    let disk = MemoryDisk::new();
    let dir = Path::new("/d/log");
    let file = disk
        .create(&dir.join(file_name(NUMBER)))
        .expect("the disk is empty");
    write_all_at(file.as_ref(), text, 0).expect("the disk has room");
    let options = LogOptions {
        file_bytes: 1 << 20,
        free_files_max: 1,
        sabotage: None,
    };
    let mut found = Vec::new();
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let mut visit = |lsn: Lsn, payload: &[u8]| -> Result<(), Malformed> {
        found.push((lsn, payload.to_vec()));
        Ok(())
    };
    Log::open(disk, dir.to_owned(), SEED_UUID, 0, options, &mut visit)?;
    Ok(found)
}

/// Records, each behind its length in two bytes: a log of them gives them back.
pub(crate) fn records(bytes: &[u8]) {
    let mut text = HEADER.encode();
    let mut sent = Vec::new();
    for payload in pieces(bytes) {
        let lsn = sent.len() as Lsn + 1;
        encode_batch_records(NUMBER, lsn, lsn - 1, payload, &mut text);
        sent.push((lsn, payload.to_vec()));
    }
    let found = replayed(&text).expect("a log without damage opens");
    assert!(found == sent, "{} records of {}", found.len(), sent.len());
}

/// A whole file, whose header and checksums are made right; and what its records say.
pub(crate) fn file(bytes: &[u8]) {
    let mut text = HEADER.encode();
    text.extend_from_slice(bytes.get(HEADER_BYTES..).unwrap_or_default());
    let mut at = HEADER_BYTES;
    while let Some(length) = seal(&mut text, at) {
        at += (RECORD_HEADER_BYTES + length).next_multiple_of(RECORD_ALIGN);
    }
    for (lsn, payload) in replayed(&text).unwrap_or_default() {
        let _ = record::decode(lsn, &payload);
    }
}

/// A mark whose owner and checksums are made right: it reads, or is of a newer form, and the next one is newer than what it says.
pub(crate) fn mark(bytes: &[u8]) {
    let disk = MemoryDisk::new();
    let dir = Path::new("/d/log");
    let mut text = bytes.to_vec();
    for block in text.chunks_mut(BLOCK_BYTES) {
        if let Some((covered, rest)) = block.split_at_mut_checked(BLOCK_CRC_AT)
            && let Some(crc) = rest.first_chunk_mut::<4>()
        {
            if let Some(owner) = covered.get_mut(16..32) {
                owner.copy_from_slice(&SEED_UUID);
            }
            *crc = crc32c(0, covered).to_le_bytes();
        }
    }
    let file = disk.create(&dir.join(MARK)).expect("the disk is empty");
    write_all_at(file.as_ref(), &text, 0).expect("the disk has room");
    let Ok(mut found) = MarkFile::read(&disk, dir, SEED_UUID) else {
        return;
    };
    let number = found.newest().map_or(0, |mark| mark.number) + 1;
    if file_number(&file_name(number)).is_none() {
        return;
    }
    let next = Mark { number, lsn: 1 };
    found.note(next);
    let again = MarkFile::read(&disk, dir, SEED_UUID).expect("it did before");
    assert_eq!(again.newest(), Some(next));
}

/// Makes the checksums of the record right whose header stands here; returns how long its payload is.
fn seal(text: &mut [u8], at: usize) -> Option<usize> {
    let header = text.get(at..at + RECORD_HEADER_BYTES)?;
    let length = header.get(4..8)?.try_into().map(u32::from_le_bytes).ok()?;
    let length = usize::try_from(length).ok()?;
    let end = (at + RECORD_HEADER_BYTES).checked_add(length)?;
    let payload = crc32c(0, text.get(at + RECORD_HEADER_BYTES..end)?);
    let header = text.get_mut(at..at + RECORD_HEADER_BYTES)?;
    let (covered, crc) = header.split_last_chunk_mut::<4>()?;
    let payload_at = covered.len().checked_sub(4)?;
    covered
        .get_mut(payload_at..)?
        .copy_from_slice(&payload.to_le_bytes());
    *crc = crc32c(crc32c(0, &NUMBER.to_le_bytes()), covered).to_le_bytes();
    Some(length)
}

/// The records of a real file.
pub(crate) fn seeds(bytes: &[u8], seeds: &mut Vec<(&'static str, Vec<u8>)>) {
    let Ok((header, _)) = FileHeader::decode(bytes, Path::new("")) else {
        return;
    };
    let mut all = Vec::new();
    let mut at = HEADER_BYTES;
    while let Some((found, _)) =
        RecordHeader::decode(header.number, bytes.get(at..).unwrap_or_default())
    {
        let length = found.length as usize;
        let from = at + RECORD_HEADER_BYTES;
        let payload = bytes.get(from..from + length).unwrap_or_default();
        seeds.push(("record", payload.to_vec()));
        if let Some((1, entries)) = payload.split_first().map(|(kind, rest)| (*kind, rest)) {
            seeds.push(("definitions", entries.to_vec()));
        }
        all.extend(u16::try_from(payload.len()).unwrap_or(0).to_le_bytes());
        all.extend_from_slice(payload);
        at += (RECORD_HEADER_BYTES + length).next_multiple_of(RECORD_ALIGN);
    }
    let end = at.next_multiple_of(HEADER_BYTES).min(bytes.len());
    seeds.push(("log_file", bytes.get(..end).unwrap_or_default().to_vec()));
    seeds.push(("log_records", all));
}
