//! Bytes from anywhere for the decoders of an index file; see `crate::hostile`.

use std::path::PathBuf;
use std::sync::Arc;

use nilometer_codec::crc32c;

use super::block::{
    PostingPlace, decode_dictionary, decode_list, encode_dictionary, put_u32s, take_u32s,
};
use super::footer::{Footer, Layout};
use super::layout::{HEADER_BYTES, KIND, MAGIC, TAIL_BYTES, VALUES_OF_ONE_BLOCK};
use super::{BlockCache, Index};
use crate::budget::MemoryBudget;
use crate::disk::{Disk as _, MemoryDisk, write_all_at};
use crate::file_header;
use crate::hostile::{SEED_UUID, agrees};
use crate::schema::TableId;

const FILE_ID: u64 = 1;
/// Numbers of one block at most, and a few more.
const NUMBERS: usize = 2000;

pub(crate) fn footer(bytes: &[u8]) {
    agrees(
        bytes,
        |bytes| Footer::decode(bytes, Layout::Twice),
        Footer::encode,
    );
    // The earlier layout is only read.
    let _ = Footer::decode(bytes, Layout::Once);
}

/// The first two bytes say how many values or numbers are to be expected.
pub(crate) fn blocks(bytes: &[u8]) {
    let Some((n, bytes)) = bytes.split_first_chunk::<2>() else {
        return;
    };
    let n = usize::from(u16::from_le_bytes(*n));
    let values = n % (VALUES_OF_ONE_BLOCK + 2);
    agrees(
        bytes,
        |bytes| decode_dictionary(bytes, values),
        |block| {
            let mut out = Vec::new();
            let places: Vec<PostingPlace> = block.places.clone();
            encode_dictionary(block.values.iter(), &places, &mut out);
            out
        },
    );
    let numbers = n % NUMBERS;
    agrees(
        bytes,
        |mut bytes| take_u32s(&mut bytes, numbers),
        |numbers| {
            let mut out = Vec::new();
            put_u32s(numbers.iter().copied(), &mut out);
            out
        },
    );
    let series = 5000;
    agrees(
        bytes,
        |bytes| decode_list(bytes, numbers, series),
        |list| {
            assert!(list.max().is_none_or(|last| last < series));
            let mut out = Vec::new();
            put_u32s(list.iter(), &mut out);
            out
        },
    );
}

/// A whole file, whose header, tails and footers are made right; what does not read of it is salvaged.
pub(crate) fn file(bytes: &[u8]) {
    let sealed = seal(bytes).unwrap_or_else(|| bytes.to_vec());
    let disk = MemoryDisk::new();
    let path = PathBuf::from("/hostile.idx");
    let file = disk.create(&path).expect("the disk is empty");
    write_all_at(file.as_ref(), &sealed, 0).expect("the disk has room");
    let cache = Arc::new(BlockCache::new(1 << 20, &MemoryBudget::new(64 << 20)));
    let length = sealed.len() as u64;
    let Ok(index) = Index::open(&disk, &path, SEED_UUID, FILE_ID, length, cache) else {
        return;
    };
    let _ = index.verify();
    let tables: Vec<TableId> = index.tables().collect();
    for table in tables {
        let _ = index.salvage(table);
        let _ = index.all_ids(table);
        index.span(table);
    }
}

/// The file's bytes with right checksums of its ends. Places of the footer: in the tail, behind the file's id.
fn seal(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = file_header::encode(KIND, SEED_UUID, &FILE_ID.to_le_bytes(), HEADER_BYTES);
    out.extend_from_slice(bytes.get(HEADER_BYTES..)?);
    let tail_at = out.len().checked_sub(TAIL_BYTES)?;
    let number = |bytes: &[u8], at: usize| {
        let eight = bytes.get(tail_at + at..tail_at + at + 8)?;
        Some(u64::from_le_bytes(eight.try_into().ok()?))
    };
    let (offset, length) = (number(&out, 8)?, number(&out, 16)?);
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(length).ok()?)?;
    let footer = out.get(start..end)?.to_vec();
    let mut tail = FILE_ID.to_le_bytes().to_vec();
    tail.extend_from_slice(&offset.to_le_bytes());
    tail.extend_from_slice(&length.to_le_bytes());
    tail.extend_from_slice(&crc32c(0, &footer).to_le_bytes());
    let crc = crc32c(0, &tail);
    tail.extend_from_slice(&crc.to_le_bytes());
    tail.extend_from_slice(&MAGIC);
    out.truncate(end);
    out.extend_from_slice(&footer);
    out.extend_from_slice(&tail);
    out.get_mut(HEADER_BYTES..HEADER_BYTES + TAIL_BYTES)?
        .copy_from_slice(&tail);
    Some(out)
}

/// What a real file has for the targets.
pub(crate) fn seeds(bytes: &[u8], seeds: &mut Vec<(&'static str, Vec<u8>)>) {
    seeds.push(("index_file", bytes.to_vec()));
    let Some(sealed) = seal(bytes) else { return };
    let tail = sealed.len().saturating_sub(TAIL_BYTES);
    let at = |at: usize| {
        let eight = sealed.get(tail + at..tail + at + 8)?;
        usize::try_from(u64::from_le_bytes(eight.try_into().ok()?)).ok()
    };
    if let (Some(offset), Some(length)) = (at(8), at(16)) {
        let footer = sealed.get(offset..offset + length).unwrap_or_default();
        seeds.push(("index_footer", footer.to_vec()));
    }
}
