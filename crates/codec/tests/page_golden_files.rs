//! Promise: pages of a released format are read for ever, and what we write is what the format page says.
//!
//! The files are made by `golden/0/page/make.py`, which packs bytes from `docs/format/page.md` and knows nothing of
//! this crate.

#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "the files are small, and a failed unwrap is the report"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use nilometer_codec::{
    ColumnBuf, ColumnRef, Error, PageSet, PhysicalType, SharedHeader, ValuesRef, decode_page,
    decode_page_with, encode_page_of, page_header,
};
use serde_json::Value;

/// A page and what is known of it from elsewhere.
struct Golden {
    name: String,
    page: Vec<u8>,
    physical_type: PhysicalType,
    encoding: u8,
    is_canonical: bool,
    /// What the writer may choose from.
    set: PageSet,
    /// What the page shares with others of its column.
    header: Option<Vec<u8>>,
    values: Vec<Value>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/0/page")
}

fn golden_pages() -> Vec<Golden> {
    let names: BTreeSet<String> = std::fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| {
            entry
                .unwrap()
                .file_name()
                .to_str()?
                .strip_suffix(".json")
                .map(str::to_owned)
        })
        .collect();
    assert!(names.len() >= 40, "only {} golden pages found", names.len());
    names.into_iter().map(golden_page).collect()
}

fn from_hex(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}

fn golden_page(name: String) -> Golden {
    let page = std::fs::read(folder().join(&name).with_extension("bin")).unwrap();
    let json: Value = serde_json::from_slice(
        &std::fs::read(folder().join(&name).with_extension("json")).unwrap(),
    )
    .unwrap();
    let physical_type = match json["type"].as_str().unwrap() {
        "i64" => PhysicalType::I64,
        "u64" => PhysicalType::U64,
        "f64" => PhysicalType::F64,
        "bool" => PhysicalType::Bool,
        "text" => PhysicalType::Text,
        "bytes" => PhysicalType::Bytes,
        other => panic!("{name}: type {other}"),
    };
    Golden {
        page,
        physical_type,
        encoding: json["encoding"].as_u64().unwrap() as u8,
        is_canonical: json["is_canonical"].as_bool().unwrap(),
        set: match json["set"].as_u64() {
            None => PageSet::First,
            Some(2) => PageSet::Second,
            Some(4) => PageSet::Fourth,
            other => panic!("{name}: set {other:?}"),
        },
        header: json["header"].as_str().map(from_hex),
        values: json["values"].as_array().unwrap().clone(),
        name,
    }
}

/// The decoded column in the words of the JSON files.
fn shown(column: &ColumnBuf) -> Vec<Value> {
    let (offsets, bytes) = column.text();
    let text = |row: usize| &bytes[offsets[row] as usize..offsets[row + 1] as usize];
    let slot = |row: usize| match column.physical_type() {
        PhysicalType::I64 => column.i64s()[row].into(),
        PhysicalType::U64 => column.u64s()[row].into(),
        PhysicalType::F64 => format!("{:016x}", column.f64s()[row].to_bits()).into(),
        PhysicalType::Bool => column.bools()[row].into(),
        PhysicalType::Text => std::str::from_utf8(text(row)).unwrap().into(),
        PhysicalType::Bytes => {
            let digits = text(row).iter().flat_map(|byte| [byte >> 4, byte & 15]);
            digits
                .filter_map(|digit| char::from_digit(u32::from(digit), 16))
                .collect::<String>()
                .into()
        }
    };
    let is_null = |row: usize| {
        column
            .validity()
            .is_some_and(|bitmap| bitmap[row / 8] & (1 << (row % 8)) == 0)
    };
    (0..column.rows())
        .map(|row| if is_null(row) { Value::Null } else { slot(row) })
        .collect()
}

/// The page that we write of the values of a JSON file.
fn encoded(golden: &Golden) -> Vec<u8> {
    let values = &golden.values;
    let mut validity = vec![0_u8; values.len().div_ceil(8)];
    for (row, _) in values
        .iter()
        .enumerate()
        .filter(|(_, value)| !value.is_null())
    {
        validity[row / 8] |= 1 << (row % 8);
    }
    let hex = |value: &Value| {
        value
            .as_str()
            .map_or(0, |hex| u64::from_str_radix(hex, 16).unwrap())
    };
    let signed: Vec<i64> = values
        .iter()
        .map(|value| value.as_i64().unwrap_or(0))
        .collect();
    let unsigned: Vec<u64> = values
        .iter()
        .map(|value| value.as_u64().unwrap_or(0))
        .collect();
    let mut floats = Vec::new();
    let mut text = Vec::new();
    let mut offsets = vec![0];
    for value in values {
        match golden.physical_type {
            PhysicalType::F64 => floats.push(f64::from_bits(hex(value))),
            PhysicalType::Text => text.extend_from_slice(value.as_str().unwrap_or("").as_bytes()),
            PhysicalType::Bytes => {
                text.extend(from_hex(value.as_str().unwrap_or("")));
            }
            _ => {}
        }
        offsets.push(text.len() as u32);
    }
    let bools: Vec<bool> = values
        .iter()
        .map(|value| value.as_bool().unwrap_or(false))
        .collect();
    let values = match golden.physical_type {
        PhysicalType::I64 => ValuesRef::I64(&signed),
        PhysicalType::U64 => ValuesRef::U64(&unsigned),
        PhysicalType::F64 => ValuesRef::F64(&floats),
        PhysicalType::Bool => ValuesRef::Bool(&bools),
        PhysicalType::Text => ValuesRef::Text {
            offsets: &offsets,
            bytes: &text,
        },
        PhysicalType::Bytes => ValuesRef::Bytes {
            offsets: &offsets,
            bytes: &text,
        },
    };
    let mut page = Vec::new();
    encode_page_of(
        ColumnRef {
            values,
            validity: Some(&validity),
        },
        golden.set,
        &mut page,
    )
    .unwrap();
    page
}

#[test]
fn golden_pages_decode_to_their_values() {
    let mut column = ColumnBuf::default();
    for golden in golden_pages() {
        let header = page_header(&golden.page).unwrap();
        assert_eq!(
            header.physical_type, golden.physical_type,
            "{}",
            golden.name
        );
        assert_eq!(header.encoding as u8, golden.encoding, "{}", golden.name);
        assert_eq!(header.rows, golden.values.len(), "{}", golden.name);
        let answer = match &golden.header {
            None => decode_page(&golden.page, &mut column),
            Some(_) if !cfg!(feature = "pco") => continue,
            Some(header) => {
                let without = decode_page(&golden.page, &mut column);
                assert_eq!(without, Err(Error::NoSharedHeader), "{}", golden.name);
                let shared = SharedHeader::parse(golden.physical_type, header);
                let shared = shared.unwrap_or_else(|error| panic!("{}: {error}", golden.name));
                decode_page_with(&golden.page, Some(&shared), &mut column)
            }
        };
        if golden.encoding >= 18 && !cfg!(feature = "zstd") {
            assert_eq!(answer, Err(Error::UnsupportedZstd), "{}", golden.name);
            continue;
        }
        assert_eq!(answer, Ok(()), "{}", golden.name);
        assert_eq!(shown(&column), golden.values, "{}", golden.name);
    }
}

#[test]
fn golden_values_encode_to_their_bytes() {
    let mut canonical = 0;
    for golden in golden_pages().iter().filter(|golden| golden.is_canonical) {
        assert_eq!(encoded(golden), golden.page, "{}", golden.name);
        canonical += 1;
    }
    assert!(
        canonical >= 25,
        "only {canonical} of the pages say what we write"
    );
}

#[test]
fn golden_values_never_encode_larger_than_their_bytes() {
    // A page in pco has its header elsewhere.
    let pages = golden_pages().into_iter();
    for golden in pages.filter(|golden| golden.header.is_none()) {
        let page = encoded(&golden);
        assert!(
            page.len() <= golden.page.len(),
            "{}: {} bytes, possible are {}",
            golden.name,
            page.len(),
            golden.page.len()
        );
    }
}
