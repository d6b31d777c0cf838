//! Promise: what a device writes is read as it was put in, and bytes that no device writes are refused.
//!
//! The pages are made by `golden/device-1/{make,vectors}.py`, which pack bytes from `docs/format/device-page.md`, and by the C library
//! (`written_*`, with the rows that its test put in). `NILOMETER_EDGE_LISTS` names a file of random column pages and their values
//! that the C library has just written (`edge/tests/test_pages.c`).

#![expect(
    clippy::unwrap_used,
    reason = "the files are small, and a failed unwrap is the report"
)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use nilometer_codec::device::{DevicePage, split_key};
use nilometer_codec::{ColumnBuf, Error, PhysicalType, decode_page};
use proptest::prelude::*;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/device-1")
}

/// The names of the pages that have a file with this ending, and their bytes.
fn pages(ending: &str) -> Vec<(String, Vec<u8>)> {
    let files = std::fs::read_dir(folder()).unwrap();
    let names = files.filter_map(|entry| {
        let name = entry.unwrap().file_name();
        Some(name.to_str()?.strip_suffix(ending)?.to_owned())
    });
    let mut pages: Vec<_> = names
        .map(|name| {
            let bytes = std::fs::read(folder().join(format!("{name}.bin"))).unwrap();
            (name, bytes)
        })
        .collect();
    pages.sort();
    pages
}

fn open_and_verify<'a>(bytes: &'a [u8], column: &mut ColumnBuf) -> Result<DevicePage<'a>, Error> {
    let page = DevicePage::open(bytes)?;
    page.verify(bytes, column)?;
    Ok(page)
}

fn shown(column: &ColumnBuf, row: usize) -> String {
    let (offsets, bytes) = column.text();
    match column.physical_type() {
        PhysicalType::I64 => column.i64s()[row].to_string(),
        PhysicalType::U64 => column.u64s()[row].to_string(),
        PhysicalType::F64 => format!("{:016x}", column.f64s()[row].to_bits()),
        PhysicalType::Bool => u8::from(column.bools()[row]).to_string(),
        PhysicalType::Text | PhysicalType::Bytes => {
            let text = &bytes[offsets[row] as usize..offsets[row + 1] as usize];
            text.iter().fold(String::new(), |mut hex, byte| {
                write!(hex, "{byte:02x}").unwrap();
                hex
            })
        }
    }
}

#[test]
fn golden_pages_have_the_rows_that_they_were_made_of() {
    let pages = pages(".rows");
    assert!(pages.len() >= 120, "only {} pages found", pages.len());
    let (mut times, mut column) = (ColumnBuf::default(), ColumnBuf::default());
    for (name, bytes) in pages {
        let page =
            open_and_verify(&bytes, &mut column).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut lines = String::new();
        for block in &page.blocks {
            decode_page(&bytes[block.time_page.clone()], &mut times).unwrap();
            for field in &block.fields {
                decode_page(&bytes[field.page.clone()], &mut column).unwrap();
                assert_eq!(column.physical_type(), field.physical_type);
                for row in 0..block.rows {
                    let time = block.base + times.i64s()[row];
                    let value = shown(&column, row);
                    writeln!(lines, "{}\t{}\t{time}\t{value}", block.key, field.name).unwrap();
                }
            }
        }
        let expected = std::fs::read_to_string(folder().join(format!("{name}.rows"))).unwrap();
        assert_eq!(lines, expected, "{name}");
    }
}

#[test]
fn hostile_pages_are_refused() {
    let pages = pages(".refused");
    assert!(pages.len() >= 160, "only {} pages found", pages.len());
    for (name, bytes) in pages {
        let answer = open_and_verify(&bytes, &mut ColumnBuf::default());
        assert!(answer.is_err(), "{name} is accepted");
    }
}

#[test]
fn a_newer_version_is_refused_by_its_number() {
    let bytes = std::fs::read(folder().join("refused_version.bin")).unwrap();
    assert_eq!(DevicePage::open(&bytes), Err(Error::UnknownDevicePage(2)));
}

#[test]
fn every_flip_and_truncation_is_noticed() {
    // The numbered ones are as many as all shapes take, and long.
    let pages = pages(".rows").into_iter();
    for (name, bytes) in pages.filter(|(name, _)| !name.starts_with("v_")) {
        for end in 0..bytes.len() {
            assert!(
                DevicePage::open(&bytes[..end]).is_err(),
                "{name}: {end} bytes"
            );
        }
        let mut flipped = bytes.clone();
        for bit in 0..8 * bytes.len() {
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(DevicePage::open(&flipped).is_err(), "{name}: bit {bit}");
            flipped[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn a_page_may_be_filled_up_as_erased_flash_is() {
    for (_, bytes) in pages(".rows") {
        let padded = [bytes.as_slice(), &[0xff; 31]].concat();
        assert_eq!(DevicePage::open(&padded), DevicePage::open(&bytes));
    }
}

#[test]
fn names_of_a_key_are_those_before_they_were_escaped() {
    let (table, tags) = split_key(r"a\,b\ c,d\=e=f\\,g=h").unwrap();
    let expected =
        [("d=e", r"f\"), ("g", "h")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(
        (table.as_str(), tags.as_slice()),
        ("a,b c", expected.as_slice())
    );
    assert_eq!(split_key("door").unwrap(), ("door".to_owned(), Vec::new()));
}

/// What the C library wrote a moment ago: length, number of values, page, values; again and again.
#[test]
fn column_pages_of_the_c_library_decode_to_their_values() {
    let Some(path) = std::env::var_os("NILOMETER_EDGE_LISTS") else {
        return;
    };
    let bytes = std::fs::read(path).unwrap();
    let mut input = bytes.as_slice();
    let mut out = ColumnBuf::default();
    let mut lists = 0;
    while let Some((head, rest)) = input.split_at_checked(8) {
        let number = |at: usize| u32::from_le_bytes(*head[at..].first_chunk().unwrap()) as usize;
        let (page, rest) = rest.split_at(number(0));
        let (values, rest) = rest.split_at(8 * number(4));
        let values: Vec<u64> = values
            .as_chunks()
            .0
            .iter()
            .map(|it| u64::from_le_bytes(*it))
            .collect();
        decode_page(page, &mut out).unwrap();
        let decoded: Vec<u64> = match out.physical_type() {
            PhysicalType::I64 => out.i64s().iter().map(|value| *value as u64).collect(),
            PhysicalType::U64 => out.u64s().to_vec(),
            PhysicalType::F64 => out.f64s().iter().map(|value| value.to_bits()).collect(),
            _ => out.bools().iter().map(|value| u64::from(*value)).collect(),
        };
        assert_eq!(decoded, values, "list {lists}");
        lists += 1;
        input = rest;
    }
    assert!(lists >= 1000, "only {lists} lists");
}

proptest! {
    /// Behind a checksum that holds, whatever it covers.
    #[test]
    fn pages_with_any_bytes_never_panic(
        which: prop::sample::Index,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let pages = pages(".rows");
        let mut bytes = which.get(&pages).1.clone();
        let end = bytes.len() - 4;
        for (at, byte) in damage {
            let at = at.index(end);
            bytes[at] = byte;
        }
        let crc = nilometer_codec::crc32c(0, &bytes[..end]);
        bytes[end..].copy_from_slice(&crc.to_le_bytes());
        let _ = open_and_verify(&bytes, &mut ColumnBuf::default());
    }
}
