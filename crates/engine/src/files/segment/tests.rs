//! What a segment promises to its writers and readers, without an engine around it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nilometer_codec::{ColumnBuf, PhysicalType};

use super::*;
use crate::batch::{Column, Strings, TableRows, Validity, Values};
use crate::budget::MemoryBudget;
use crate::disk::{Disk, MemoryDisk};
use crate::schema::{ColumnId, Duplicates, PARTITION_INTERVAL_NS, TableId, TableSettings};

const UUID: [u8; 16] = [7; 16];
const FILE_ID: u64 = 5;
pub(super) const TABLE: TableId = TableId(3);

pub(super) fn path() -> PathBuf {
    PathBuf::from("/0000000000000005.seg")
}

/// A column of optional integers.
pub(super) fn integers(id: u32, values: &[Option<i64>]) -> Column {
    let mut validity = Validity::default();
    for value in values {
        validity.push(value.is_some());
    }
    Column {
        id: ColumnId(id),
        values: Values::I64(values.iter().map(|v| v.unwrap_or(0)).collect()),
        validity,
    }
}

pub(super) fn text(id: u32, values: &[&str]) -> Column {
    let mut strings = Strings::default();
    for value in values {
        strings.push(value.as_bytes());
    }
    Column {
        id: ColumnId(id),
        values: Values::Text(strings),
        validity: Validity::all(values.len()),
    }
}

pub(super) fn table_rows(keys: &[(u32, i64)], columns: Vec<Column>) -> TableRows {
    TableRows {
        table: TABLE,
        series: keys.iter().map(|key| key.0).collect(),
        times: keys.iter().map(|key| key.1).collect(),
        columns,
    }
}

pub(super) fn settings(duplicates: Duplicates) -> TableSettings {
    TableSettings {
        duplicates,
        ..TableSettings::default()
    }
}

/// Writes a segment on a disk of its own and opens it.
pub(super) fn written(write: impl FnOnce(&mut SegmentWriter)) -> (MemoryDisk, Segment) {
    written_as(SegmentFormat::NOW, write)
}

/// The same in this format.
pub(super) fn written_as(
    format: SegmentFormat,
    write: impl FnOnce(&mut SegmentWriter),
) -> (MemoryDisk, Segment) {
    let disk = MemoryDisk::new();
    let mut writer = SegmentWriter::create_of(format, &disk, &path(), UUID, FILE_ID).unwrap();
    write(&mut writer);
    let (bytes, rows) = writer.finish(true).unwrap();
    let segment = opened(&disk, bytes, rows).unwrap();
    (disk, segment)
}

pub(super) fn opened(disk: &MemoryDisk, bytes: u64, rows: u64) -> Result<Segment, crate::Error> {
    let meta = SegmentMeta {
        file_id: FILE_ID,
        bytes,
        rows,
        min_lsn: 1,
        max_lsn: 1,
        applied_lsn: 1,
        home: Home::Mixed,
    };
    let budget = MemoryBudget::new(1 << 30);
    let cache = SegmentCache::new(Arc::new(disk.clone()), budget, &crate::Options::default());
    Segment::open(&Arc::new(cache), path(), UUID, meta)
}

/// A value of a page as text; `None` = null.
fn shown(page: &ColumnBuf, row: usize) -> Option<String> {
    let is_null = |bits: &[u8]| bits[row / 8] >> (row % 8) & 1 == 0;
    if page.validity().is_some_and(is_null) {
        return None;
    }
    Some(match page.physical_type() {
        PhysicalType::I64 => page.i64s()[row].to_string(),
        PhysicalType::U64 => page.u64s()[row].to_string(),
        PhysicalType::F64 => format!("{:?}", page.f64s()[row]),
        PhysicalType::Bool => page.bools()[row].to_string(),
        PhysicalType::Text | PhysicalType::Bytes => {
            let (offsets, bytes) = page.text();
            let value = &bytes[offsets[row] as usize..offsets[row + 1] as usize];
            String::from_utf8(value.to_vec()).unwrap()
        }
    })
}

/// (series, time, values by column id) of every row, in the order of the file.
pub(super) type Rows = Vec<(i64, i64, Vec<(u32, String)>)>;

/// Every row of a table, page by page.
pub(super) fn rows_of(segment: &Segment) -> Rows {
    let mut rows = Vec::new();
    for (group, _) in segment.groups(TABLE) {
        let directory = segment.directory(group).unwrap();
        for (at, block) in directory.blocks.iter().enumerate() {
            let mut read: Rows =
                vec![(i64::from(block.first_series), 0, Vec::new()); block.rows as usize];
            if directory.has_no_times(at) {
                // Only even ones: the first, the last, and what lies between.
                assert!(segment.format >= SegmentFormat::Third);
                let between = (block.max_time - block.min_time) / i64::from(block.rows - 1).max(1);
                for (row, number) in read.iter_mut().zip(0..) {
                    row.1 = block.min_time + number * between;
                }
            }
            for chunk in &directory.chunks {
                let Some((offset, length)) = chunk.page(at) else {
                    continue;
                };
                let bytes = segment.read_span(offset, u64::from(length)).unwrap();
                let mut page = ColumnBuf::default();
                segment
                    .decode_page(chunk, block.rows as usize, &bytes, offset, &mut page)
                    .unwrap();
                assert_eq!(page.rows(), read.len());
                let large = directory.large_of(chunk.column, at);
                if !large.is_empty() {
                    let mut values = Values::from_page(&page);
                    segment.put_large(&directory, large, &mut values).unwrap();
                    let (Values::Text(strings) | Values::Bytes(strings)) = values else {
                        panic!("numbers");
                    };
                    for (row, out) in read.iter_mut().enumerate() {
                        if page.as_column().is_present(row) {
                            let value = String::from_utf8(strings.get(row).to_vec()).unwrap();
                            out.2.push((chunk.column, value));
                        }
                    }
                    continue;
                }
                for (row, out) in read.iter_mut().enumerate() {
                    match chunk.column {
                        TIME_PAGE => out.1 = page.i64s()[row],
                        SERIES_PAGE => out.0 = page.i64s()[row],
                        column => out.2.extend(shown(&page, row).map(|text| (column, text))),
                    }
                }
            }
            rows.extend(read);
        }
    }
    rows
}

#[test]
fn duplicates_follow_the_tables_settings() {
    let rows = table_rows(
        &[(1, 10), (2, 10), (1, 10), (1, 5)],
        vec![
            integers(1, &[Some(1), Some(2), None, Some(4)]),
            integers(2, &[Some(10), None, Some(30), None]),
        ],
    );
    let cases = [
        (
            Duplicates::Last,
            vec![vec![(1, 4)], vec![(1, 1), (2, 30)], vec![(1, 2)]],
        ),
        (
            Duplicates::Keep,
            vec![
                vec![(1, 4)],
                vec![(1, 1), (2, 10)],
                vec![(2, 30)],
                vec![(1, 2)],
            ],
        ),
        (
            Duplicates::Unique,
            vec![vec![(1, 4)], vec![(2, 30)], vec![(1, 2)]],
        ),
    ];
    for (duplicates, expected) in cases {
        let input = TableInput {
            rows: rows.clone(),
            settings: settings(duplicates),
        };
        let (_, segment) = written(|writer| assert!(writer.write_table(&input).is_ok()));
        let values: Vec<Vec<(u32, i64)>> = rows_of(&segment)
            .into_iter()
            .map(|(_, _, values)| {
                let number = |(id, text): (u32, String)| (id, text.parse().unwrap());
                values.into_iter().map(number).collect()
            })
            .collect();
        assert_eq!(values, expected, "{duplicates:?}");
        assert_eq!(segment.meta.rows, expected.len() as u64);
    }
}

/// Three series: two with blocks of their own, a small one between.
pub(super) fn sorted_sample() -> TableRows {
    let mut keys = Vec::new();
    keys.extend((0..1500).map(|at| (1, at * 10)));
    keys.extend((0..20).map(|at| (2, at * 7)));
    keys.extend((0..20).map(|at| (4, at * 7)));
    keys.extend((0..600).map(|at| (9, at * 10)));
    let n = keys.len() as i64;
    let numbers: Vec<_> = (0..n).map(|at| (at % 5 > 0).then_some(at * at)).collect();
    let words: Vec<String> = (0..n).map(|at| format!("w{}", at % 17)).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    table_rows(&keys, vec![integers(1, &numbers), text(2, &words)])
}

#[test]
fn sorted_rows_make_the_same_file_whoever_cuts_them() {
    let rows = sorted_sample();
    let input = TableInput {
        rows: rows.clone(),
        settings: settings(Duplicates::Last),
    };
    let (one, _) = written(|writer| assert!(writer.write_table(&input).is_ok()));
    let (other, _) = written(|writer| {
        let blocks = writer.block_ranges(&rows, 0..rows.rows()).into_iter();
        let blocks: Vec<BlockInput> = blocks.map(BlockInput::Rows).collect();
        assert_eq!(blocks.len(), 4);
        let group = GroupInput {
            table: TABLE,
            partition_start: 0,
            rows: &rows,
            blocks: &blocks,
            rollups: true,
        };
        writer.write_group(&group).unwrap();
    });
    assert_eq!(bytes_of(&one), bytes_of(&other));
}

pub(super) fn bytes_of(disk: &MemoryDisk) -> Vec<u8> {
    let file = disk.open(&path()).unwrap();
    let mut bytes = vec![0; file.size().unwrap() as usize];
    crate::disk::read_exact_at(file.as_ref(), &mut bytes, 0).unwrap();
    bytes
}

/// A block of a segment as the compaction takes it over.
pub(super) fn copied(segment: &Segment, group: usize, block: usize) -> CopiedBlock {
    let directory = segment.directory(group).unwrap();
    let pages = directory.chunks.iter().filter_map(|chunk| {
        let (offset, length) = chunk.page(block)?;
        let bytes = segment.read_span(offset, u64::from(length)).unwrap();
        let rows = directory.blocks[block].rows as usize;
        let page = segment.check_page(chunk, rows, &bytes, offset).unwrap();
        let mut bytes = Vec::new();
        page.put(&mut bytes).unwrap();
        Some(CopiedPage {
            column: chunk.column,
            kind: chunk.kind,
            bytes,
        })
    });
    CopiedBlock {
        entry: directory.blocks[block],
        pages: pages.collect(),
    }
}

#[test]
fn copied_blocks_keep_their_pages_beside_blocks_of_rows() {
    let rows = sorted_sample();
    let input = TableInput {
        rows: rows.clone(),
        settings: settings(Duplicates::Last),
    };
    let (_, source) = written(|writer| assert!(writer.write_table(&input).is_ok()));
    let taken: Vec<CopiedBlock> = (0..4).map(|block| copied(&source, 0, block)).collect();
    // The rows of the second and third block only, and one column of them: the other one comes with the copies.
    let mut middle = rows.clone();
    middle.series.drain(..1024);
    middle.times.drain(..1024);
    middle.columns = vec![Column::new(ColumnId(1), PhysicalType::I64)];
    middle.columns[0].extend_range(&rows.columns[0], 1024..rows.rows());
    let blocks = [
        BlockInput::Copied(&taken[0]),
        BlockInput::Rows(0..476),
        BlockInput::Rows(476..516),
        BlockInput::Copied(&taken[3]),
    ];
    let (_, segment) = written(|writer| {
        let group = GroupInput {
            table: TABLE,
            partition_start: 0,
            rows: &middle,
            blocks: &blocks,
            rollups: false,
        };
        writer.write_group(&group).unwrap();
    });
    let mut expected = rows_of(&source);
    for row in &mut expected[1024..1540] {
        row.2.retain(|(column, _)| *column == 1);
    }
    assert_eq!(rows_of(&segment), expected);
    assert_eq!(
        copied(&segment, 0, 0).pages[1].bytes,
        taken[0].pages[1].bytes
    );
}

#[test]
fn blocks_and_groups_end_at_partitions() {
    let day = PARTITION_INTERVAL_NS;
    let keys: Vec<(u32, i64)> = (0..400).map(|at| (1, (at - 100) * (day / 100))).collect();
    let values: Vec<_> = (0..400).map(Some).collect();
    let input = TableInput {
        rows: table_rows(&keys, vec![integers(1, &values)]),
        settings: settings(Duplicates::Last),
    };
    let (_, segment) = written(|writer| assert!(writer.write_table(&input).is_ok()));
    let starts: Vec<i64> = segment
        .groups(TABLE)
        .map(|(_, group)| {
            assert!(group.min_time >= group.partition_start);
            assert!(group.max_time < group.partition_start + day);
            group.partition_start
        })
        .collect();
    assert_eq!(starts, [-day, 0, day, 2 * day]);
    assert_eq!(rows_of(&segment).len(), 400);
}

/// A year in random order made every flush hold a dozen rows of each series and day, in blocks of fifty series: of the
/// bytes of a flush a third was for what lies between one series and the next.
#[test]
fn a_few_rows_in_each_of_many_windows_are_cut_at_wider_ones() {
    let day = PARTITION_INTERVAL_NS;
    let keys: Vec<(u32, i64)> = (0..4000)
        .map(|at| (1 + at as u32 % 4, (at - 2000) * (day / 10) + 7))
        .collect();
    let values: Vec<_> = (0..4000).map(Some).collect();
    let input = TableInput {
        rows: table_rows(&keys, vec![integers(1, &values)]),
        settings: settings(Duplicates::Last),
    };
    // 400 days from 200 before to 200 after time 0. By weeks of eight days 80 rows each; by 64 days 640, but at the ends.
    let groups = |rows_min: u64| -> Vec<(i64, i64, i64)> {
        let disk = MemoryDisk::new();
        let mut writer = SegmentWriter::create(&disk, &path(), UUID, FILE_ID)
            .unwrap()
            .with_window_rows_min(rows_min);
        writer.write_table(&input).unwrap();
        let (bytes, rows) = writer.finish(true).unwrap();
        let segment = opened(&disk, bytes, rows).unwrap();
        assert_eq!(rows_of(&segment).len(), 4000);
        let groups = segment.groups(TABLE).map(|(_, group)| group);
        groups
            .map(|it| (it.partition_start, it.min_time, it.max_time))
            .collect()
    };
    for (rows_min, days, expected) in [
        (0, 1, 400),
        (10, 1, 400),
        (11, 8, 50),
        (81, 64, 8),
        (4000, 64, 8),
        // A table with fewer rows is small however it is cut.
        (4001, 1, 400),
    ] {
        let groups = groups(rows_min);
        assert_eq!(groups.len(), expected, "{rows_min}");
        for (start, first, last) in groups {
            assert_eq!(
                start % (days * day),
                0,
                "windows do not straddle wider ones"
            );
            assert!(start <= first && last < start + days * day, "{rows_min}");
        }
    }
}

#[test]
fn a_group_of_very_many_columns_ends_early() {
    let rows = 1024 * 4;
    let keys: Vec<(u32, i64)> = (0..rows).map(|at| (1, at)).collect();
    let values: Vec<_> = (0..rows).map(|at| Some(at % 3)).collect();
    let columns = (1..=1000).map(|id| integers(id, &values)).collect();
    let input = TableInput {
        rows: table_rows(&keys, columns),
        settings: settings(Duplicates::Last),
    };
    let (_, segment) = written(|writer| assert!(writer.write_table(&input).is_ok()));
    // A block of 1024 rows and 1000 columns is a little less than 8 MiB, its keys included.
    let sizes: Vec<u64> = segment.groups(TABLE).map(|(_, group)| group.rows).collect();
    assert_eq!(sizes, [2048; 2]);
}

#[test]
fn what_is_not_finished_is_no_segment() {
    let disk = MemoryDisk::new();
    let mut writer = SegmentWriter::create(&disk, Path::new(&path()), UUID, FILE_ID).unwrap();
    let input = TableInput {
        rows: sorted_sample(),
        settings: settings(Duplicates::Last),
    };
    writer.write_table(&input).unwrap();
    drop(writer);
    let bytes = bytes_of(&disk).len() as u64;
    assert!(opened(&disk, bytes, 0).is_err());
}

mod cold;
mod device;
mod golden;
mod known;
mod large;
