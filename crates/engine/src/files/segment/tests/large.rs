//! Large values: outside of pages, read when asked for, and every flip of them noticed.

use nilometer_codec::stats::Statistics;

use super::*;
use crate::segment::directory::GroupDirectory;

/// Values of these sizes that no compression makes small, or that it does.
fn value(bytes: usize, is_random: bool) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64 + bytes as u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        if is_random { state as u8 } else { b'y' }
    };
    (0..bytes).map(next).collect()
}

fn blob(id: u32, values: &[Option<&[u8]>]) -> Column {
    let mut strings = Strings::default();
    let mut validity = Validity::default();
    for value in values {
        strings.push(value.unwrap_or_default());
        validity.push(value.is_some());
    }
    Column {
        id: ColumnId(id),
        values: Values::Bytes(strings),
        validity,
    }
}

/// What a segment has of a column of bytes, by block.
fn read(segment: &Segment, column: u32) -> Vec<Vec<Vec<u8>>> {
    let mut blocks = Vec::new();
    for (group, _) in segment.all_groups() {
        let directory: Arc<GroupDirectory> = segment.directory(group).unwrap();
        for block in 0..directory.blocks.len() {
            let chunk = directory.chunk(column).unwrap();
            let (offset, length) = chunk.page(block).unwrap();
            let bytes = segment.read_span(offset, u64::from(length)).unwrap();
            let mut page = ColumnBuf::default();
            let rows = directory.blocks[block].rows as usize;
            segment
                .decode_page(chunk, rows, &bytes, offset, &mut page)
                .unwrap();
            let mut values = Values::from_page(&page);
            let large = directory.large_of(column, block);
            segment.put_large(&directory, large, &mut values).unwrap();
            let (Values::Text(strings) | Values::Bytes(strings)) = values else {
                panic!("numbers");
            };
            blocks.push(
                (0..strings.len())
                    .map(|row| strings.get(row).to_vec())
                    .collect(),
            );
        }
    }
    blocks
}

#[test]
fn large_values_come_back_and_leave_blocks_full() {
    let sizes = [0, 1, 16 << 10, (16 << 10) + 1, 100_000, 3 << 20];
    let values: Vec<Vec<u8>> = (0..300)
        .map(|at| value(sizes[at % 5] + usize::from(at % 7 == 0), at % 2 == 0))
        .chain([value(3 << 20, true)])
        .collect();
    let keys: Vec<(u32, i64)> = (0..301).map(|at| (1, at)).collect();
    let given: Vec<Option<&[u8]>> = values.iter().map(|it| Some(it.as_slice())).collect();
    let numbers: Vec<_> = (0..301).map(Some).collect();
    let input = TableInput {
        rows: table_rows(&keys, vec![integers(1, &numbers), blob(2, &given)]),
        settings: settings(Duplicates::Last),
    };
    let (_, segment) = written(|writer| assert!(writer.write_table(&input).is_ok()));
    segment.verify().unwrap();
    let blocks = read(&segment, 2);
    // Of 10 MiB of values one block: in its page there are a few hundred KiB.
    let rows: Vec<usize> = blocks.iter().map(Vec::len).collect();
    assert!(rows.len() <= 3, "{rows:?}");
    assert!(blocks.concat() == values);
    // Statistics know the beginnings.
    let statistics = segment.statistics(0).unwrap().unwrap();
    let pages = statistics
        .column(2, PhysicalType::Bytes, blocks.len())
        .unwrap()
        .unwrap();
    assert!(matches!(pages[0].unwrap().values, Statistics::Text { .. }));
}

#[test]
fn a_text_is_not_cut_within_a_character() {
    for lead in 0..4 {
        let text = "x".repeat(lead) + &"\u{1f30a}".repeat(5000);
        let input = TableInput {
            rows: table_rows(&[(1, 1), (1, 2)], vec![super::text(1, &[&text, "short"])]),
            settings: settings(Duplicates::Last),
        };
        let (_, segment) = written(|writer| assert!(writer.write_table(&input).is_ok()));
        let blocks = read(&segment, 1);
        assert!(blocks == [[text.into_bytes(), b"short".to_vec()]]);
    }
}

#[test]
fn damage_to_a_large_value_is_noticed() {
    let whole = value(20_000, true);
    let packed = value(20_000, false);
    let given = [Some(whole.as_slice()), None, Some(packed.as_slice())];
    let input = TableInput {
        rows: table_rows(&[(1, 1), (1, 2), (1, 3)], vec![blob(2, &given)]),
        settings: settings(Duplicates::Last),
    };
    let (disk, segment) = written(|writer| assert!(writer.write_table(&input).is_ok()));
    let directory = segment.directory(0).unwrap();
    assert_eq!(directory.large.len(), 2);
    assert_eq!(directory.large[0].stored, 20_000);
    assert!(directory.large[1].stored < 100);
    let bytes = bytes_of(&disk);
    let file = disk.open(&path()).unwrap();
    let group = segment.group(0).unwrap();
    let mut places: Vec<u64> = vec![group.large_offset(), group.large_offset() + 3];
    for value in &directory.large {
        let start = group.offset + value.offset;
        places.extend([
            start,
            start + 9,
            start + u64::from(value.stored),
            start + u64::from(value.stored) + 3,
        ]);
    }
    for at in places {
        let byte = bytes[at as usize];
        file.write_at(&[byte ^ 0x10], at).unwrap();
        let again = opened(&disk, bytes.len() as u64, 3).unwrap();
        let error = again.verify().unwrap_err().to_string();
        assert!(error.contains("fails its checksum"), "{at}: {error}");
        file.write_at(&[byte], at).unwrap();
    }
    opened(&disk, bytes.len() as u64, 3)
        .unwrap()
        .verify()
        .unwrap();
}

/// Format 1 has no room for them, and blocks are cut as they always were.
#[test]
fn an_earlier_format_has_no_large_values() {
    let long = value(2 << 20, true);
    let given = [Some(long.as_slice()), Some(long.as_slice())];
    let input = TableInput {
        rows: table_rows(&[(1, 1), (1, 2)], vec![blob(2, &given)]),
        settings: settings(Duplicates::Last),
    };
    let (_, segment) = written_as(SegmentFormat::First, |writer| {
        assert!(writer.write_table(&input).is_ok());
    });
    let directory = segment.directory(0).unwrap();
    assert!(directory.large.is_empty());
    assert_eq!(directory.blocks.len(), 2);
}
