//! Files of a device's pages: the golden one, packed from the formats' pages alone, and its damage.

use std::fmt::Write as _;

use serde_json::Value;

use super::*;
use crate::disk::write_all_at;
use crate::kept_page::{BlockPlace, KeptPage};

type DeviceRows = Vec<(u32, u32, i64, Vec<(u32, String)>)>;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/4/device")
}

fn golden() -> Vec<u8> {
    std::fs::read(folder().join("pages.seg")).unwrap()
}

fn page_of_device(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/device-1");
    std::fs::read(folder.join(name).with_extension("bin")).unwrap()
}

fn expected() -> DeviceRows {
    let json = std::fs::read_to_string(folder().join("pages.json")).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    let row = |row: &Value| {
        let number = |at: usize| row[at].as_i64().unwrap();
        let fields = row[3].as_object().unwrap().iter();
        let fields = fields.map(|(column, value)| {
            let value = value.as_str().unwrap().to_owned();
            (column.parse().unwrap(), value)
        });
        (
            number(0) as u32,
            number(1) as u32,
            number(2),
            fields.collect(),
        )
    };
    json["rows"].as_array().unwrap().iter().map(row).collect()
}

fn open_bytes(bytes: &[u8]) -> Result<Segment, crate::Error> {
    let disk = MemoryDisk::new();
    let to = disk.create(&path()).unwrap();
    write_all_at(to.as_ref(), bytes, 0).unwrap();
    opened(&disk, bytes.len() as u64, 166)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        write!(out, "{byte:02x}").unwrap();
        out
    })
}

/// A value as the pages' own lists of rows spell it.
fn spelled(page: &ColumnBuf, row: usize) -> String {
    match page.physical_type() {
        PhysicalType::F64 => format!("{:016x}", page.f64s()[row].to_bits()),
        PhysicalType::Bool => u8::from(page.bools()[row]).to_string(),
        PhysicalType::Text | PhysicalType::Bytes => {
            let (offsets, bytes) = page.text();
            hex(&bytes[offsets[row] as usize..offsets[row + 1] as usize])
        }
        _ => shown(page, row).unwrap(),
    }
}

/// Every row, or what is wrong.
fn read(segment: &Segment) -> Result<DeviceRows, crate::Error> {
    let mut rows = Vec::new();
    for (group, meta) in segment.all_groups() {
        let directory = segment.directory(group)?;
        for (at, block) in directory.blocks.iter().enumerate() {
            assert!(!block.is_shared());
            let start = rows.len();
            for chunk in &directory.chunks {
                let Some((offset, length)) = chunk.page(at) else {
                    continue;
                };
                let bytes = segment.read_span(offset, u64::from(length))?;
                let mut page = ColumnBuf::default();
                segment.decode_page(chunk, block.rows as usize, &bytes, offset, &mut page)?;
                if chunk.column == TIME_PAGE {
                    let series = block.first_series;
                    let times = page.i64s().iter();
                    rows.extend(times.map(|time| (meta.table.0, series, *time, Vec::new())));
                    continue;
                }
                for (row, out) in rows[start..].iter_mut().enumerate() {
                    out.3.push((chunk.column, spelled(&page, row)));
                }
            }
        }
    }
    Ok(rows)
}

#[test]
fn a_segment_holds_pages_of_a_device_as_they_are_and_reads_them() {
    let bytes = golden();
    let segment = open_bytes(&bytes).unwrap();
    segment.verify().unwrap();
    assert_eq!(read(&segment).unwrap(), expected());
    let units = std::fs::read_to_string(folder().join("pages.units")).unwrap();
    for line in units.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let start: usize = words[0].parse().unwrap();
        let unit = &bytes[start..start + words[1].parse::<usize>().unwrap()];
        let (page, filler) = unit.split_at(page_of_device(words[2]).len());
        assert!(page == page_of_device(words[2]) && filler.iter().all(|byte| *byte == 0xff));
    }
    assert_eq!(units.lines().count(), 4);
}

/// Of each byte one bit, and every truncation: nothing is read as something else.
#[test]
fn damage_to_a_segment_of_device_pages_is_noticed() {
    let bytes = golden();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let found = open_bytes(&damaged).and_then(|segment| {
            segment.verify()?;
            read(&segment)
        });
        assert!(found.is_err(), "byte {at}");
    }
    for length in 0..bytes.len() {
        assert!(open_bytes(&bytes[..length]).is_err(), "{length} bytes");
    }
}

/// Two pages of one length and form, each with a right checksum, change places: a checksum that says nothing of its place does not
/// tell, and the directory does.
#[test]
fn a_page_of_a_device_in_anothers_place_is_noticed() {
    let first = page_of_device("one_series");
    let mut other = first.clone();
    // Another temperature in the same times: the last byte of its first page of values.
    let page = nilometer_codec::device::DevicePage::open(&first).unwrap();
    let field = &page.blocks[0].fields[1];
    assert_eq!(field.name, "humidity");
    let (at, end) = (field.page.end - 1, first.len() - 4);
    other[at] ^= 0x40;
    let crc = nilometer_codec::crc32c(0, &other[..end]);
    other[end..].copy_from_slice(&crc.to_le_bytes());
    assert!(nilometer_codec::device::DevicePage::open(&other).is_ok());
    let written = |pages: [&[u8]; 2]| {
        let disk = MemoryDisk::new();
        let mut writer = SegmentWriter::create(&disk, &path(), UUID, FILE_ID).unwrap();
        write_pages(&mut writer, &[(pages[0], 0), (pages[1], 3_600_000_000_000)]);
        let (bytes, rows) = writer.finish(true).unwrap();
        assert_eq!(rows, 80);
        let file = disk.open(&path()).unwrap();
        let mut all = vec![0; bytes as usize];
        crate::disk::read_exact_at(file.as_ref(), &mut all, 0).unwrap();
        all
    };
    let right = written([&first, &other]);
    open_bytes_of(&right, 80).verify().unwrap();
    let mut swapped = right.clone();
    let start = HEADER_BYTES;
    swapped[start..start + first.len()].copy_from_slice(&other);
    swapped[start + first.len()..start + 2 * first.len()].copy_from_slice(&first);
    assert_ne!(right, swapped);
    let error = open_bytes_of(&swapped, 80).verify().unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("another one than the directory says"),
        "{text}"
    );
}

fn open_bytes_of(bytes: &[u8], rows: u64) -> Segment {
    let disk = MemoryDisk::new();
    let to = disk.create(&path()).unwrap();
    write_all_at(to.as_ref(), bytes, 0).unwrap();
    opened(&disk, bytes.len() as u64, rows).unwrap()
}

fn write_pages(writer: &mut SegmentWriter, pages: &[(&[u8], i64)]) {
    let place = BlockPlace {
        table: TABLE,
        series: 20,
        columns: vec![ColumnId(1), ColumnId(2)],
    };
    let pages: Vec<KeptPage> = pages
        .iter()
        .map(|(bytes, start_ns)| KeptPage {
            bytes: (*bytes).into(),
            start_ns: *start_ns,
            blocks: vec![Some(place.clone())],
        })
        .collect();
    writer.write_device_pages(&pages).unwrap();
}

/// The clock of a device was wrong by an hour: its rows move, and no byte of its pages does.
#[test]
fn a_clock_is_set_right_without_touching_a_page() {
    let page = page_of_device("one_series");
    let read_at = |start_ns: i64| {
        let (disk, segment) = written(|writer| write_pages(writer, &[(page.as_slice(), start_ns)]));
        let mut unit = vec![0; page.len()];
        let file = disk.open(&path()).unwrap();
        crate::disk::read_exact_at(file.as_ref(), &mut unit, HEADER_BYTES as u64).unwrap();
        assert!(unit == page);
        let rows = read(&segment).unwrap();
        rows.into_iter().map(|row| row.2).collect::<Vec<i64>>()
    };
    let ticks = |at: i64| (1_700_000_000_000 + 10_000 * at) * 1_000_000;
    let hour = 3_600_000_000_000;
    assert_eq!(read_at(0), (0..40).map(ticks).collect::<Vec<_>>());
    let moved: Vec<_> = (0..40).map(|at| ticks(at) - hour).collect();
    assert_eq!(read_at(-hour), moved);
    // Two of them at one time would be read as rows of one block before another.
    let disk = MemoryDisk::new();
    let mut writer = SegmentWriter::create(&disk, &path(), UUID, FILE_ID).unwrap();
    write_pages(&mut writer, &[(page.as_slice(), 0), (page.as_slice(), 0)]);
    let (bytes, rows) = writer.finish(true).unwrap();
    let error = opened(&disk, bytes, rows).unwrap().verify().unwrap_err();
    assert!(error.to_string().contains("overlap"), "{error}");
}
