//! Bytes from anywhere for the decoders of a segment; see `crate::hostile`.

use std::path::PathBuf;
use std::sync::Arc;

use nilometer_codec::{PhysicalType, crc32c};

use super::directory::GroupDirectory;
use super::footer::{self, Part, Tail};
use super::rollup::GroupRollups;
use super::statistics::GroupStatistics;
use super::{GROUP_BLOCKS_MAX, HEADER_BYTES, Home, KIND, Segment, SegmentMeta, TAIL_BYTES};
use crate::disk::{Disk as _, MemoryDisk, write_all_at};
use crate::file_header;
use crate::hostile::{SEED_UUID, agrees};

const FILE_ID: u64 = 1;
const KINDS: [PhysicalType; 6] = [
    PhysicalType::I64,
    PhysicalType::U64,
    PhysicalType::F64,
    PhysicalType::Bool,
    PhysicalType::Text,
    PhysicalType::Bytes,
];

pub(crate) fn footer(bytes: &[u8]) {
    agrees(bytes, footer::decode, |(kind, groups)| {
        let mut out = Vec::new();
        footer::encode(*kind, groups, &mut out);
        out
    });
}

pub(crate) fn directory(bytes: &[u8]) {
    agrees(bytes, GroupDirectory::decode, |directory| {
        assert!(directory.blocks.len() <= GROUP_BLOCKS_MAX);
        for chunk in &directory.chunks {
            for block in 0..=directory.blocks.len() {
                chunk.page(block);
            }
        }
        let mut out = Vec::new();
        directory.encode(&mut out);
        out
    });
}

pub(crate) fn statistics(bytes: &[u8]) {
    agrees(bytes, GroupStatistics::decode, |statistics| {
        for kind in KINDS {
            for column in 0..4 {
                // Behind the list of columns stand packed columns, which are read one by one.
                let _ = statistics.column(column, kind, GROUP_BLOCKS_MAX);
            }
        }
        let mut out = Vec::new();
        statistics.encode(&mut out);
        out
    });
}

pub(crate) fn rollups(bytes: &[u8]) {
    agrees(bytes, GroupRollups::decode, |rollups| {
        for series in 0..4 {
            rollups.of_series(series);
        }
        let all: Vec<usize> = (0..rollups.entries.len()).collect();
        for kind in KINDS {
            for column in 0..4 {
                let _ = rollups.column(column, kind, &all);
            }
        }
        let mut out = Vec::new();
        rollups.encode(&mut out);
        out
    });
}

/// A whole file, whose checksums are made right, so that what is behind them is reached.
pub(crate) fn file(bytes: &[u8]) {
    let sealed = seal(bytes).unwrap_or_else(|| bytes.to_vec());
    let disk = MemoryDisk::new();
    let path = PathBuf::from("/hostile.seg");
    let file = disk.create(&path).expect("the disk is empty");
    write_all_at(file.as_ref(), &sealed, 0).expect("the disk has room");
    let meta = SegmentMeta {
        file_id: FILE_ID,
        bytes: sealed.len() as u64,
        rows: 1,
        min_lsn: 1,
        max_lsn: 1,
        applied_lsn: 1,
        home: Home::Mixed,
    };
    let disk = Arc::new(disk);
    let _ = Segment::groups_left(disk.as_ref(), &path, &meta);
    if let Ok(segment) = Segment::open_alone(disk.as_ref(), path, SEED_UUID, meta) {
        let _ = segment.verify();
    }
}

/// The same bytes with the header, the tail and the checksums that they need to be looked at.
fn seal(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = file_header::encode(KIND, SEED_UUID, &FILE_ID.to_le_bytes(), HEADER_BYTES);
    out.extend_from_slice(bytes.get(HEADER_BYTES..)?);
    let tail_at = out.len().checked_sub(usize::try_from(TAIL_BYTES).ok()?)?;
    // The places stand in the tail behind the file's id.
    let number = |bytes: &[u8], at: usize| {
        let eight = bytes.get(tail_at + at..tail_at + at + 8)?;
        Some(u64::from_le_bytes(eight.try_into().ok()?))
    };
    let (offset, length) = (number(&out, 8)?, number(&out, 16)?);
    out.truncate(tail_at);
    let range = span(offset, length)?;
    let (kind, mut groups) = footer::decode(out.get(range.clone())?).ok()?;
    for group in &mut groups {
        seal_pages(&mut out, group.directory_offset(), group.directory.length);
        let statistics_at = group.statistics_offset();
        let rollups_at = group.rollups_offset();
        seal_part(&out, group.directory_offset(), &mut group.directory);
        seal_part(&out, statistics_at, &mut group.statistics);
        seal_part(&out, rollups_at, &mut group.rollups);
    }
    let mut footer = Vec::new();
    footer::encode(kind, &groups, &mut footer);
    // Numbers may have been written longer than they need to be; then the footer stands where it fits.
    out.truncate(range.start);
    out.extend_from_slice(&footer);
    let tail = Tail {
        offset,
        length: footer.len() as u64,
        crc: crc32c(0, &footer),
    };
    tail.encode(FILE_ID, &mut out);
    Some(out)
}

fn span(offset: u64, length: u64) -> Option<std::ops::Range<usize>> {
    let end = offset.checked_add(length)?;
    Some(usize::try_from(offset).ok()?..usize::try_from(end).ok()?)
}

fn seal_part(out: &[u8], offset: u64, part: &mut Part) {
    let range = span(offset, u64::from(part.length));
    if let Some(bytes) = range.and_then(|range| out.get(range)) {
        part.crc = crc32c(0, bytes);
    }
}

fn seal_pages(out: &mut [u8], offset: u64, length: u32) {
    let range = span(offset, u64::from(length));
    let directory = range.and_then(|range| GroupDirectory::decode(out.get(range)?).ok());
    let Some(directory) = directory else { return };
    for chunk in &directory.chunks {
        for block in 0..directory.blocks.len() {
            let place = chunk.page(block);
            let range = place.and_then(|(offset, length)| span(offset, u64::from(length)));
            let page = range.and_then(|range| out.get_mut(range));
            if let Some((page, crc)) = page.and_then(|page| page.split_last_chunk_mut::<4>()) {
                *crc = crc32c(0, page).to_le_bytes();
            }
        }
    }
}

/// What a real file has for each of the targets.
pub(crate) fn seeds(bytes: &[u8], seeds: &mut Vec<(&'static str, Vec<u8>)>) {
    let sealed = seal(bytes);
    let Some(footer_at) = sealed.as_ref().and_then(|out| {
        let at = out.len().checked_sub(usize::try_from(TAIL_BYTES).ok()?)?;
        let tail = Tail::decode(out.get(at..)?, FILE_ID).ok()?;
        span(tail.offset, tail.length)
    }) else {
        return;
    };
    let out = sealed.unwrap_or_default();
    let footer = out.get(footer_at).unwrap_or_default();
    seeds.push(("segment_footer", footer.to_vec()));
    seeds.push(("segment_file", bytes.to_vec()));
    let Ok((_, groups)) = footer::decode(footer) else {
        return;
    };
    for group in groups {
        for (name, offset, part) in [
            (
                "segment_directory",
                group.directory_offset(),
                group.directory,
            ),
            (
                "segment_statistics",
                group.statistics_offset(),
                group.statistics,
            ),
            ("segment_rollups", group.rollups_offset(), group.rollups),
        ] {
            let range = span(offset, u64::from(part.length));
            let part = range.and_then(|range| out.get(range)).unwrap_or_default();
            if !part.is_empty() {
                seeds.push((name, part.to_vec()));
            }
        }
    }
}
