//! A cold file: pages that share a header, values outside of pages, and every flip and every cut of it noticed.

use super::*;

const ROWS: i64 = 700;

/// A segment of numbers that crowd, so that pages in pco pay, and one text that is large.
fn cold() -> (MemoryDisk, Segment) {
    let mut state = 88_172_645_463_325_252_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        i64::from(state as u8)
    };
    let keys: Vec<(u32, i64)> = (0..ROWS).map(|at| (1, at * 10)).collect();
    let numbers: Vec<Option<i64>> = (0..ROWS)
        .map(|at| (at % 50 > 0).then_some(next() * next() / 256))
        .collect();
    let large = "many words, ".repeat(2000);
    let mut words = vec!["few words"; ROWS as usize];
    words[333] = &large;
    let rows = table_rows(&keys, vec![integers(1, &numbers), text(2, &words)]);
    let disk = MemoryDisk::new();
    let writer =
        SegmentWriter::create_of(SegmentFormat::NOW, &disk, &path(), UUID, FILE_ID).unwrap();
    let mut writer = writer.of_partition(Tier::Cold);
    let blocks = writer.block_ranges(&rows, 0..rows.rows()).into_iter();
    let blocks: Vec<BlockInput> = blocks.map(BlockInput::Rows).collect();
    let group = GroupInput {
        table: TABLE,
        partition_start: 0,
        rows: &rows,
        blocks: &blocks,
        rollups: true,
    };
    writer.write_group(&group).unwrap();
    let (bytes, rows) = writer.finish(true).unwrap();
    let segment = opened(&disk, bytes, rows).unwrap();
    (disk, segment)
}

#[test]
fn every_flip_and_every_cut_of_a_cold_file_is_noticed() {
    let (disk, segment) = cold();
    let directory = segment.directory(0).unwrap();
    let numbers = directory.chunk(1).unwrap();
    assert!(segment.keeps_pages(numbers), "no page is in pco");
    assert_eq!(directory.large.len(), 1);
    segment.verify().unwrap();
    drop(segment);
    let bytes = bytes_of(&disk);
    let verified = |disk: &MemoryDisk| {
        let segment = opened(disk, bytes.len() as u64, ROWS as u64)?;
        segment.verify()
    };
    let file = disk.open(&path()).unwrap();
    // The zeros at the end of the header too: they were under no checksum, and a flip there passed every check.
    for (at, byte) in bytes.iter().enumerate() {
        let flipped = byte ^ 1 << (at % 8);
        file.write_at(&[flipped], at as u64).unwrap();
        let error = verified(&disk).expect_err(&format!("byte {at} of {}", bytes.len()));
        assert!(error.to_string().contains(".seg"), "{at}: {error}");
        file.write_at(&[*byte], at as u64).unwrap();
    }
    verified(&disk).unwrap();
    for end in 0..bytes.len() {
        let disk = MemoryDisk::new();
        let file = disk.create(&path()).unwrap();
        file.write_at(&bytes[..end], 0).unwrap();
        assert!(verified(&disk).is_err(), "{end} of {} bytes", bytes.len());
    }
}
