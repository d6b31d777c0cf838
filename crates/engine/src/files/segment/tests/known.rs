//! Statistics and rollups say what a reader of the rows would find, and damage to them is noticed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nilometer_codec::stats::Statistics;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::segment::directory::{BlockClock, Shared, Unit};
use crate::segment::footer::Footer;
use crate::segment::statistics::GroupStatistics;
use crate::segment::{HOUR_NS, Summary, Totals};

/// A table of integers, floats and booleans: every column has nulls, series 3 has few rows.
fn sample() -> TableRows {
    let mut keys = Vec::new();
    for (series, rows, step) in [(1, 3000, 10), (2, 700, 30), (3, 50, 60), (4, 1200, 5)] {
        keys.extend((0..rows).map(|at| (series, 5 * HOUR_NS + at * step * 1_000_000_000 - 7)));
    }
    let rows = keys.len() as i64;
    let valid = |at: i64| at % 7 != 0 && !(200..1500).contains(&(at % 2000));
    let numbers: Vec<_> = (0..rows)
        .map(|at| valid(at).then_some((at * 7919) % 1000 - 300))
        .collect();
    let mut floats = integers(2, &numbers);
    floats.values = Values::F64(
        numbers
            .iter()
            .map(|n| n.unwrap_or(0) as f64 / 10.0)
            .collect(),
    );
    let mut booleans = integers(3, &numbers);
    booleans.values = Values::Bool(numbers.iter().map(|n| n.is_some_and(|n| n > 0)).collect());
    let words: Vec<String> = (0..rows).map(|at| format!("w{at}")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let columns = vec![integers(1, &numbers), floats, booleans, text(4, &words)];
    table_rows(&keys, columns)
}

fn written_sample() -> (MemoryDisk, Segment) {
    let input = TableInput {
        rows: sample(),
        settings: settings(Duplicates::Last),
    };
    written(|writer| assert!(writer.write_table(&input).is_ok()))
}

/// (series, time, value of column 1) of rows that have one.
fn numbers() -> Vec<(u32, i64, i64)> {
    let rows = sample();
    let Values::I64(values) = &rows.columns[0].values else {
        panic!("integers")
    };
    let all = rows.series.iter().zip(&rows.times).zip(values).enumerate();
    all.filter(|(row, _)| rows.columns[0].validity.is_valid(*row))
        .map(|(_, ((&series, &time), &value))| (series, time, value))
        .collect()
}

#[test]
fn statistics_say_what_the_rows_of_each_own_block_have() {
    let (_, segment) = written_sample();
    let numbers = numbers();
    let mut own = 0;
    for (group, _) in segment.groups(TABLE) {
        let directory = segment.directory(group).unwrap();
        let statistics = segment.statistics(group).unwrap().expect("own blocks");
        let n = directory.blocks.len();
        let found = statistics.column(1, PhysicalType::I64, n).unwrap().unwrap();
        assert!(
            statistics
                .column(1, PhysicalType::F64, n)
                .unwrap()
                .is_none()
        );
        for (block, found) in directory.blocks.iter().zip(found) {
            // Series 3 is alone in its block because its neighbours have blocks of their own.
            let expected: Vec<i64> = numbers
                .iter()
                .filter(|(series, time, _)| {
                    *series == block.first_series
                        && (block.min_time..=block.max_time).contains(time)
                })
                .map(|(_, _, value)| *value)
                .collect();
            let Some(found) = found else {
                assert!(expected.is_empty(), "{block:?}");
                continue;
            };
            own += 1;
            assert_eq!(found.non_null as usize, expected.len());
            let sum = expected.iter().map(|&value| i128::from(value)).sum();
            let (min, max) = (expected.iter().min(), expected.iter().max());
            let (min, max) = (*min.unwrap(), *max.unwrap());
            assert_eq!(found.values, Statistics::Int { min, max, sum });
            assert_eq!(found.first.unwrap().bits as i64, expected[0]);
            assert_eq!(found.last.unwrap().bits as i64, *expected.last().unwrap());
        }
    }
    assert!(own > 3, "{own}");
}

#[test]
fn rollups_say_what_the_rows_of_each_hour_have() {
    let (_, segment) = written_sample();
    let mut expected: BTreeMap<(u32, i64), Vec<(i64, i64)>> = BTreeMap::new();
    for (series, time, value) in numbers() {
        let hour = expected
            .entry((series, time.div_euclid(HOUR_NS)))
            .or_default();
        hour.push((time, value));
    }
    let mut rows = 0;
    for (group, _) in segment.groups(TABLE) {
        let rollups = segment.rollups(group).unwrap();
        let Some(rollups) = rollups else { continue };
        let columns = [
            (1, PhysicalType::I64),
            (2, PhysicalType::F64),
            (3, PhysicalType::Bool),
        ];
        let all: Vec<usize> = (0..rollups.entries.len()).collect();
        let columns =
            columns.map(|(id, kind)| rollups.column(id, kind, &all, true).unwrap().unwrap());
        let text = rollups.column(4, PhysicalType::Text, &all, true).unwrap();
        assert!(text.is_none());
        for (at, entry) in rollups.entries.iter().enumerate() {
            rows += u64::from(entry.rows);
            let values = expected
                .remove(&(entry.series, entry.hour))
                .unwrap_or_default();
            let found: [Option<Summary>; 3] = [0, 1, 2].map(|column| columns[column][at]);
            if values.is_empty() {
                assert_eq!(found, [None; 3]);
                continue;
            }
            let numbers = || values.iter().map(|(_, value)| *value);
            let (min, max) = (numbers().min().unwrap(), numbers().max().unwrap());
            let sum: i64 = numbers().sum();
            let sum_int = i128::from(sum);
            let [ints, floats, booleans] = found.map(|summary| summary.expect("values"));
            assert_eq!(
                ints.totals,
                Totals::Int {
                    min,
                    max,
                    sum: sum_int
                }
            );
            let trues = numbers().filter(|&value| value > 0).count() as u64;
            assert_eq!(booleans.totals, Totals::Bool { trues });
            let Totals::Float {
                min: a,
                max: b,
                sum: c,
                non_finite: false,
            } = floats.totals
            else {
                panic!("{floats:?}")
            };
            assert_eq!((a, b), (min as f64 / 10.0, max as f64 / 10.0));
            let magnitude: f64 = numbers().map(|value| (value as f64 / 10.0).abs()).sum();
            assert!((c - sum as f64 / 10.0).abs() <= 1e-12 * magnitude);
            let (first, last) = (values[0], *values.last().unwrap());
            assert_eq!((ints.first.time, ints.first.bits as i64), first);
            assert_eq!((ints.last.time, ints.last.bits as i64), last);
            assert_eq!(floats.last.bits, (last.1 as f64 / 10.0).to_bits());
            assert_eq!(floats.count as usize, values.len());
        }
    }
    assert_eq!(rows, 3000 + 700 + 50 + 1200);
    assert!(expected.is_empty(), "{} hours missing", expected.len());
}

#[test]
fn few_rows_an_hour_have_no_rollups_and_shared_blocks_no_statistics() {
    let keys: Vec<(u32, i64)> = (0..512).map(|at| (1, at * HOUR_NS / 60)).collect();
    let values: Vec<_> = (0..512).map(Some).collect();
    let input = TableInput {
        rows: table_rows(&keys, vec![integers(1, &values)]),
        settings: settings(Duplicates::Last),
    };
    let (_, segment) = written(|writer| assert!(writer.write_table(&input).is_ok()));
    assert!(segment.rollups(0).unwrap().is_none());
    assert!(segment.statistics(0).unwrap().is_some());

    let keys: Vec<(u32, i64)> = (0..512).map(|at| (at / 64, i64::from(at % 64))).collect();
    let input = TableInput {
        rows: table_rows(&keys, vec![integers(1, &values)]),
        settings: settings(Duplicates::Last),
    };
    let (_, segment) = written(|writer| assert!(writer.write_table(&input).is_ok()));
    assert!(segment.rollups(0).unwrap().is_none());
    assert!(segment.statistics(0).unwrap().is_none());
}

#[test]
fn copied_blocks_have_the_statistics_and_rollups_of_their_rows() {
    let rows = sample();
    let (disk, source) = written_sample();
    let groups: Vec<_> = source
        .groups(TABLE)
        .map(|(at, group)| (at, *group))
        .collect();
    let mut blocks = Vec::new();
    for (group, _) in &groups {
        let n = source.directory(*group).unwrap().blocks.len();
        blocks.push(
            (0..n)
                .map(|at| copied(&source, *group, at))
                .collect::<Vec<_>>(),
        );
    }
    let no_rows = table_rows(&[], Vec::new());
    let (other, _) = written(|writer| {
        for ((_, meta), blocks) in groups.iter().zip(&blocks) {
            let blocks: Vec<BlockInput> = blocks.iter().map(BlockInput::Copied).collect();
            let group = GroupInput {
                table: rows.table,
                partition_start: meta.partition_start,
                rows: &no_rows,
                blocks: &blocks,
                rollups: true,
            };
            writer.write_group(&group).unwrap();
        }
    });
    assert_eq!(bytes_of(&disk), bytes_of(&other));
}

/// Everything that a reader can learn from a segment, or that it is damaged.
fn read_all(disk: &MemoryDisk, bytes: u64, rows: u64) -> Result<String, crate::Error> {
    let segment = opened(disk, bytes, rows)?;
    let mut all = format!("{:?} {:?}", segment.format, segment.tier());
    for (group, meta) in segment.groups(TABLE) {
        let directory = segment.directory(group)?;
        let parts = (segment.statistics(group)?, segment.rollups(group)?);
        write!(all, "{meta:?} {directory:?} {parts:?}").unwrap();
        let mut page = ColumnBuf::default();
        for chunk in &directory.chunks {
            for (block, entry) in directory.blocks.iter().enumerate() {
                let Some((offset, length)) = chunk.page(block) else {
                    continue;
                };
                let bytes = segment.read_span(offset, u64::from(length))?;
                segment.decode_page(chunk, entry.rows as usize, &bytes, offset, &mut page)?;
                write!(all, "{:?} {:?}", page.as_column(), page.rows()).unwrap();
            }
        }
    }
    Ok(all)
}

/// Two series with statistics, rollups, nulls and text.
fn small(format: SegmentFormat) -> (MemoryDisk, Segment) {
    let keys: Vec<(u32, i64)> = (0..300)
        .map(|at| (1 + at / 150, i64::from(at % 150) * 40_000_000_000))
        .collect();
    let values: Vec<_> = (0..300).map(|at| (at % 3 > 0).then_some(at)).collect();
    let input = TableInput {
        rows: table_rows(&keys, vec![integers(1, &values), text(2, &["x"; 300])]),
        settings: settings(Duplicates::Last),
    };
    written_as(format, |writer| {
        assert!(writer.write_table(&input).is_ok());
    })
}

#[test]
fn every_flipped_bit_is_noticed() {
    for format in SegmentFormat::ALL {
        flips_are_noticed(format);
    }
}

fn flips_are_noticed(format: SegmentFormat) {
    let (disk, segment) = small(format);
    assert!(segment.rollups(0).unwrap().is_some());
    let bytes = bytes_of(&disk);
    let size = bytes.len() as u64;
    read_all(&disk, size, 300).unwrap();
    let file = disk.open(&path()).unwrap();
    for bit in 0..bytes.len() * 8 {
        let (at, flip) = (bit / 8, 1 << (bit % 8));
        file.write_at(&[bytes[at] ^ flip], at as u64).unwrap();
        assert!(read_all(&disk, size, 300).is_err(), "bit {bit}");
        file.write_at(&[bytes[at]], at as u64).unwrap();
    }
}

/// A disk that puts a write in another's place leaves bytes whose checksum is right for their own place. Format 1 takes a page for
/// its neighbour if both have one length; later ones do not.
#[test]
fn a_page_in_another_s_place_is_noticed() {
    for format in SegmentFormat::ALL {
        let keys: Vec<(u32, i64)> = (0..512)
            .map(|at| (1 + at / 128, i64::from(at % 128)))
            .collect();
        // Numbers of one width, so that the pages of all blocks have one length.
        let values: Vec<_> = (0..512).map(|at| Some((at * 37 + at / 128) % 64)).collect();
        let input = TableInput {
            rows: table_rows(&keys, vec![integers(1, &values)]),
            settings: settings(Duplicates::Last),
        };
        let (disk, segment) = written_as(format, |writer| {
            assert!(writer.write_table(&input).is_ok());
        });
        let bytes = bytes_of(&disk);
        let expected = read_all(&disk, bytes.len() as u64, 512).unwrap();
        let directory = segment.directory(0).unwrap();
        let chunk = directory.chunk(1).unwrap();
        let ((one, length), (other, same)) = (chunk.page(0).unwrap(), chunk.page(2).unwrap());
        assert_eq!(length, same);
        let file = disk.open(&path()).unwrap();
        let page = &bytes[other as usize..other as usize + length as usize];
        file.write_at(page, one).unwrap();
        let read = read_all(&disk, bytes.len() as u64, 512);
        if format == SegmentFormat::First {
            assert_ne!(read.unwrap(), expected);
        } else {
            let error = read.unwrap_err().to_string();
            assert!(error.contains("a page fails its checksum"), "{error}");
        }
    }
}

/// The same of a whole file: a page of another segment, at the same offset, is not this one's.
#[test]
fn a_page_of_another_file_is_noticed() {
    let (disk, segment) = small(SegmentFormat::NOW);
    let directory = segment.directory(0).unwrap();
    let chunk = directory.chunk(1).unwrap();
    let own = directory.blocks[0].rows as usize;
    let (offset, length) = chunk.page(0).unwrap();
    let bytes = bytes_of(&disk);
    let page = &bytes[offset as usize..(offset + u64::from(length)) as usize];
    assert!(segment.check_page(chunk, own, page, offset).is_ok());
    assert!(segment.check_page(chunk, own, page, offset + 1).is_err());
    let other = PathBuf::from("/0000000000000006.seg");
    let mut writer = SegmentWriter::create(&disk, &other, UUID, 6).unwrap();
    assert!(
        writer
            .write_table(&TableInput {
                rows: table_rows(&[(1, 1)], Vec::new()),
                settings: settings(Duplicates::Last),
            })
            .is_ok()
    );
    let (bytes, rows) = writer.finish(true).unwrap();
    let meta = SegmentMeta {
        file_id: 6,
        bytes,
        rows,
        ..segment.meta.clone()
    };
    let other = Segment::open_alone(&disk, other, UUID, meta).unwrap();
    assert!(other.check_page(chunk, own, page, offset).is_err());
}

/// What only device pages and the cold tier need is in a directory whether this version's writers use it or not.
#[test]
fn a_directory_reads_back_as_written() {
    let block = |series: u32| BlockEntry {
        first_series: series,
        last_series: series,
        rows: 3,
        min_time: 5,
        max_time: 9,
    };
    let mut chunk = ColumnChunk::new(7, PhysicalType::F64, 100);
    chunk.lengths = vec![10, 0, 30];
    chunk.starts = vec![200, 120, 64];
    chunk.shared = Shared::new(&[1, 2, 3]);
    let plain = ColumnChunk {
        starts: Vec::new(),
        shared: Shared::default(),
        ..chunk.clone()
    };
    let clock = |shift: i64| BlockClock {
        flags: u8::from(shift > 0),
        unit: 1_000_000,
        shift,
    };
    let directory = GroupDirectory {
        table: TABLE,
        blocks: vec![block(1), block(2), block(2)],
        clocks: vec![clock(0), clock(i64::MIN), clock(i64::MAX)],
        units: vec![
            Unit {
                offset: 64,
                length: 4096,
                crc: 0,
            },
            Unit {
                offset: 4160,
                length: 4096,
                crc: u32::MAX,
            },
        ],
        device_series: vec![(0, 17), (3, 2)],
        chunks: vec![chunk, plain],
        large: Vec::new(),
        first_page: 0,
    };
    let mut bytes = Vec::new();
    directory.encode(SegmentFormat::Second, &mut bytes);
    assert_eq!(
        GroupDirectory::decode(&bytes, SegmentFormat::Second).unwrap(),
        directory
    );
    let places: Vec<_> = directory.chunks[0].pages(&[0, 1, 2]).collect();
    assert_eq!(places, [Some((200, 10)), None, Some((64, 30))]);
    assert_eq!(directory.chunks[1].page(2), Some((110, 30)));
    for cut in 0..bytes.len() {
        assert!(
            GroupDirectory::decode(&bytes[..cut], SegmentFormat::Second).is_err(),
            "{cut}"
        );
    }
    // The first format has no room for it.
    let plain = GroupDirectory {
        clocks: Vec::new(),
        units: Vec::new(),
        device_series: Vec::new(),
        chunks: directory.chunks[1..].to_vec(),
        ..directory
    };
    bytes.clear();
    plain.encode(SegmentFormat::First, &mut bytes);
    assert_eq!(
        GroupDirectory::decode(&bytes, SegmentFormat::First).unwrap(),
        plain
    );
    assert!(GroupDirectory::decode(&bytes, SegmentFormat::Second).is_err());
}

#[test]
fn a_row_may_hold_as_much_text_as_a_page() {
    let long = "x".repeat(nilometer_codec::TEXT_BYTES_MAX);
    let words = ["a", &long, "b"];
    let input = TableInput {
        rows: table_rows(&[(1, 1), (1, 2), (1, 3)], vec![text(1, &words)]),
        settings: settings(Duplicates::Last),
    };
    // From format 2 on such a value stands outside of its page.
    let (_, segment) = written_as(SegmentFormat::First, |writer| {
        assert!(writer.write_table(&input).is_ok());
    });
    let rows = rows_of(&segment);
    let read: Vec<&str> = rows.iter().map(|row| row.2[0].1.as_str()).collect();
    assert!(
        read == words,
        "{:?}",
        read.iter().map(|t| t.len()).collect::<Vec<_>>()
    );
    let sizes: Vec<u64> = segment.groups(TABLE).map(|(_, g)| g.rows).collect();
    assert_eq!(sizes, [1, 1, 1]);
}

/// The benchmark's data: ten integers that walk at random between 0 and 100, a row every ten seconds.
fn cpu_rows(series: u32, rows: usize) -> TableRows {
    let mut state = 88_172_645_463_325_252_u64;
    let mut step = || {
        // Twelve uniform numbers add up to nearly a normal one of deviation 1.
        let mut sum = 0.0;
        for _ in 0..12 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            sum += (state >> 11) as f64 / (1u64 << 53) as f64;
        }
        sum - 6.0
    };
    let keys: Vec<(u32, i64)> = (0..series)
        .flat_map(|id| (0..rows).map(move |at| (1 + id, at as i64 * 10_000_000_000)))
        .collect();
    let mut column = |id: u32| {
        let mut values = Vec::new();
        for _ in 0..series {
            let mut value: f64 = 50.0 + 10.0 * step();
            for _ in 0..rows {
                value = (value + step()).clamp(0.0, 100.0);
                values.push(Some(value as i64));
            }
        }
        integers(id, &values)
    };
    let columns = (1..=10).map(&mut column).collect();
    table_rows(&keys, columns)
}

#[test]
fn statistics_and_rollups_of_the_benchmarks_data_are_small() {
    let input = TableInput {
        rows: cpu_rows(20, 8640),
        settings: settings(Duplicates::Last),
    };
    let (_, segment) = written(|writer| assert!(writer.write_table(&input).is_ok()));
    let sum = |of: &dyn Fn(&footer::GroupMeta) -> u64| -> f64 {
        segment
            .groups(TABLE)
            .map(|(_, group)| of(group) as f64)
            .sum()
    };
    let values = sum(&|group| group.rows) * 10.0;
    let statistics = sum(&|group| u64::from(group.statistics.length)) / values;
    let rollups = sum(&|group| u64::from(group.rollups.length)) / values;
    assert!(statistics <= 0.01, "{statistics} bytes a value");
    assert!(rollups <= 0.02, "{rollups} bytes a value");
}

proptest! {
    #[test]
    fn any_bytes_are_an_error_or_parts_of_a_segment(
        noise in vec(any::<u8>(), 0..300),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let (disk, segment) = small(SegmentFormat::NOW);
        let group = segment.group(0).unwrap();
        let bytes = bytes_of(&disk);
        let part = |offset: u64, length: u64| {
            let mut part = bytes[offset as usize..(offset + length) as usize].to_vec();
            let at = at.index(part.len());
            part[at] = byte;
            [part[..at].to_vec(), part]
        };
        for bytes in part(group.directory_offset(), u64::from(group.directory.length)).iter().chain([&noise]) {
            for format in SegmentFormat::ALL {
                drop(GroupDirectory::decode(bytes, format));
            }
        }
        for bytes in part(group.statistics_offset(), u64::from(group.statistics.length)).iter().chain([&noise]) {
            if let Ok(read) = GroupStatistics::decode(bytes) {
                drop(read.column(1, PhysicalType::I64, 2));
                drop(read.column(2, PhysicalType::Text, 256));
            }
        }
        let end = bytes.len() as u64 - TAIL_BYTES;
        let start = group.rollups_offset() + u64::from(group.rollups.length);
        for bytes in part(start, end - start).iter().chain([&noise]) {
            for format in SegmentFormat::ALL {
                drop(Footer::decode(bytes, format));
            }
        }
    }
}
