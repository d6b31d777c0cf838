//! Bytes from anywhere for the decoders of a segment; see `crate::hostile`.

use std::path::PathBuf;
use std::sync::Arc;

use nilometer_codec::PhysicalType;

use super::checksum::{Checksums, SegmentFormat};
use super::directory::GroupDirectory;
use super::footer::{Footer, Part, Tail};
use super::large;
use super::rollup::GroupRollups;
use super::statistics::GroupStatistics;
use super::{GROUP_BLOCKS_MAX, HEADER_BYTES, Home, KIND, Segment, SegmentMeta, TAIL_BYTES};
use crate::disk::{Disk as _, MemoryDisk, write_all_at};
use crate::file_header::{self, FileFormat};
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
    for format in SegmentFormat::ALL {
        agrees(
            bytes,
            |bytes| Footer::decode(bytes, format),
            |footer| {
                let mut out = Vec::new();
                footer.encode(format, &mut out);
                out
            },
        );
    }
}

pub(crate) fn directory(bytes: &[u8]) {
    for format in SegmentFormat::ALL {
        let decode = |bytes: &[u8]| GroupDirectory::decode(bytes, format);
        agrees(bytes, decode, |directory| {
            assert!(directory.blocks.len() <= GROUP_BLOCKS_MAX);
            let all: Vec<usize> = (0..=directory.blocks.len()).collect();
            for chunk in &directory.chunks {
                let each = all.iter().map(|&block| chunk.page(block));
                assert!(each.eq(chunk.pages(&all)), "places differ");
            }
            let mut out = Vec::new();
            directory.encode(format, &mut out);
            out
        });
    }
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
    for format in SegmentFormat::ALL {
        let decode = |bytes: &[u8]| GroupRollups::decode(bytes, format);
        agrees(bytes, decode, |rollups| {
            for series in 0..4 {
                rollups.of_series(series);
            }
            let all: Vec<usize> = (0..rollups.entries.len()).collect();
            for kind in KINDS {
                for column in 0..4 {
                    for ends in [true, false] {
                        let _ = rollups.column(column, kind, &all, ends);
                    }
                }
            }
            let mut out = Vec::new();
            rollups.encode(&mut out);
            out
        });
    }
}

/// A whole file, whose checksums are made right, so that what is behind them is reached.
pub(crate) fn file(bytes: &[u8]) {
    for format in SegmentFormat::ALL {
        let sealed = seal(bytes, format).unwrap_or_else(|| bytes.to_vec());
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
        let _ = Segment::groups_left(disk.as_ref(), &path, SEED_UUID, &meta);
        if let Ok(segment) = Segment::open_alone(disk.as_ref(), path, SEED_UUID, meta) {
            let _ = segment.verify();
        }
    }
}

/// The same bytes with the header, the tail and the checksums that they need to be looked at.
fn seal(bytes: &[u8], format: SegmentFormat) -> Option<Vec<u8>> {
    let kind = FileFormat {
        format: format as u16,
        ..KIND
    };
    let sums = Checksums::new(format, SEED_UUID, FILE_ID);
    let mut out = file_header::encode(kind, SEED_UUID, &FILE_ID.to_le_bytes(), HEADER_BYTES);
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
    let mut footer = Footer::decode(out.get(range.clone())?, format).ok()?;
    for group in &mut footer.groups {
        let directory = span(group.directory_offset(), u64::from(group.directory.length));
        let directory = directory.and_then(|at| GroupDirectory::decode(out.get(at)?, format).ok());
        if let Some(directory) = directory {
            seal_pages(&mut out, sums, &directory);
        }
        let large = span(group.large_offset(), u64::from(group.large.length));
        let large = large.and_then(|at| large::decode(out.get(at)?).ok());
        for value in large.unwrap_or_default() {
            let offset = group.offset.saturating_add(value.offset);
            seal_unit(&mut out, sums, offset, u64::from(value.stored) + 4);
        }
        let (statistics_at, rollups_at) = (group.statistics_offset(), group.rollups_offset());
        let large_at = group.large_offset();
        seal_part(&out, sums, group.directory_offset(), &mut group.directory);
        seal_part(&out, sums, statistics_at, &mut group.statistics);
        seal_part(&out, sums, rollups_at, &mut group.rollups);
        seal_part(&out, sums, large_at, &mut group.large);
    }
    let mut bytes = Vec::new();
    footer.encode(format, &mut bytes);
    // Numbers may have been written longer than they need to be; then the footer stands where it fits.
    out.truncate(range.start);
    out.extend_from_slice(&bytes);
    let tail = Tail {
        offset,
        length: bytes.len() as u64,
        crc: sums.of(offset, &bytes),
    };
    tail.encode(FILE_ID, &mut out);
    Some(out)
}

fn span(offset: u64, length: u64) -> Option<std::ops::Range<usize>> {
    let end = offset.checked_add(length)?;
    Some(usize::try_from(offset).ok()?..usize::try_from(end).ok()?)
}

fn seal_part(out: &[u8], sums: Checksums, offset: u64, part: &mut Part) {
    let range = span(offset, u64::from(part.length));
    if let Some(bytes) = range.and_then(|range| out.get(range)) {
        part.crc = sums.of(offset, bytes);
    }
}

/// Pages of a device have the checksum of theirs, which is in the directory too, and stays as it is.
fn seal_pages(out: &mut [u8], sums: Checksums, directory: &GroupDirectory) {
    if !directory.units.is_empty() {
        return;
    }
    for chunk in &directory.chunks {
        for block in 0..directory.blocks.len() {
            let Some((offset, length)) = chunk.page(block) else {
                continue;
            };
            seal_unit(out, sums, offset, u64::from(length));
        }
    }
}

fn seal_unit(out: &mut [u8], sums: Checksums, offset: u64, length: u64) {
    let range = span(offset, length);
    let unit = range.and_then(|range| out.get_mut(range));
    if let Some((bytes, crc)) = unit.and_then(|unit| unit.split_last_chunk_mut::<4>()) {
        *crc = sums.of(offset, bytes).to_le_bytes();
    }
}

/// The list of large values, and what it says of bytes that stand for any of them.
pub(crate) fn large(bytes: &[u8]) {
    agrees(bytes, large::decode, |values| {
        let mut whole = Vec::new();
        for value in values.iter().take(4) {
            whole.clear();
            let _ = large::unpack(value, bytes, &mut whole);
            assert!(!large::of_block(values, value.column, value.block as usize).is_empty());
        }
        let mut out = Vec::new();
        large::encode(values, &mut out);
        out
    });
}

/// What a real file has for each of the targets.
pub(crate) fn seeds(bytes: &[u8], seeds: &mut Vec<(&'static str, Vec<u8>)>) {
    let sealed = seal(bytes, SegmentFormat::NOW);
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
    let Ok(footer) = Footer::decode(footer, SegmentFormat::NOW) else {
        return;
    };
    for group in footer.groups {
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
            ("segment_large", group.large_offset(), group.large),
        ] {
            let range = span(offset, u64::from(part.length));
            let part = range.and_then(|range| out.get(range)).unwrap_or_default();
            if !part.is_empty() {
                seeds.push((name, part.to_vec()));
            }
        }
    }
}
