//! Promise: the rows of a device's pages are those that its writer put in, whatever their names, types and values are.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Float64Type, Int32Type, Int64Type, TimestampNanosecondType, UInt64Type,
};

use nilometer_engine::{Engine, ScanRequest};

use crate::support::{Flash, Server, all, golden, image_rows, large, small, stored};

/// Series, field and time in nanoseconds, and the value in the form of the golden lists.
type Values = BTreeMap<(String, String, i64), String>;

/// What a list beside golden pages says. Of several values of one series, field and time the last counts.
fn listed(names: &[&str], shift: i64, tick_ns: i64) -> Values {
    let mut values = Values::new();
    for name in names {
        let text = String::from_utf8(golden(&format!("{name}.rows"))).unwrap();
        for line in text.lines() {
            let parts: Vec<&str> = line.split('\t').collect();
            let [key, field, ticks, value] = parts[..] else {
                panic!("{line}");
            };
            let ticks: i64 = ticks.parse().unwrap();
            let time = (ticks + shift) * tick_ns;
            values.insert((key.into(), field.into(), time), value.into());
        }
    }
    values
}

/// All values of the database `edge`, without the tag `device`, which must have the value `device`.
fn found(engine: &Arc<Engine>, device: &str) -> Values {
    let mut values = Values::new();
    let snapshot = engine.snapshot();
    for name in snapshot.tables("edge", "public").unwrap() {
        let table = snapshot.table("edge", "public", &name).unwrap();
        let columns = table.arrow_schema().fields().len();
        let request = ScanRequest {
            table,
            projection: (0..columns).collect(),
            time: i64::MIN..=i64::MAX,
            tags: Vec::new(),
            limit: None,
        };
        let scan = snapshot.scan(&request).unwrap();
        for batch in scan.read(0) {
            add(&mut values, &name, &batch.unwrap(), device);
        }
    }
    values
}

fn add(values: &mut Values, table: &str, batch: &RecordBatch, device: &str) {
    let columns = || {
        batch
            .schema_ref()
            .fields()
            .iter()
            .zip(batch.columns())
            .skip(1)
    };
    let times = batch.column(0).as_primitive::<TimestampNanosecondType>();
    for row in 0..batch.num_rows() {
        let mut tags = BTreeMap::new();
        let mut fields = Vec::new();
        for (column, array) in columns().filter(|(_, array)| array.is_valid(row)) {
            match array.as_dictionary_opt::<Int32Type>() {
                Some(codes) => {
                    let texts = codes.values().as_string::<i32>();
                    let text = texts.value(codes.keys().value(row).try_into().unwrap());
                    tags.insert(column.name().clone(), text.to_owned());
                }
                None => fields.push((column.name().clone(), shown(array, row))),
            }
        }
        assert_eq!(tags.remove("device").as_deref(), Some(device));
        let mut key = escaped(table);
        for (name, value) in &tags {
            write!(key, ",{}={}", escaped(name), escaped(value)).unwrap();
        }
        for (field, value) in fields {
            values.insert((key.clone(), field, times.value(row)), value);
        }
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        if [',', '=', ' ', '\\'].contains(&letter) {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

fn shown(array: &dyn Array, row: usize) -> String {
    let hex = |bytes: &[u8]| {
        bytes.iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").unwrap();
            text
        })
    };
    match array.data_type() {
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).to_string(),
        DataType::Float64 => {
            let value = array.as_primitive::<Float64Type>().value(row);
            format!("{:016x}", value.to_bits())
        }
        DataType::Boolean => u8::from(array.as_boolean().value(row)).to_string(),
        DataType::Utf8View => hex(array.as_string_view().value(row).as_bytes()),
        DataType::Utf8 => hex(array.as_string::<i32>().value(row).as_bytes()),
        DataType::BinaryView => hex(array.as_binary_view().value(row)),
        DataType::Binary => hex(array.as_binary::<i32>().value(row)),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn golden_pages_become_the_rows_that_are_listed_beside_them() {
    let mut flashes: Vec<(&[&str], &str, i64, i64)> = vec![
        (&["ticks_of_a_boot"], "3:-7", -7, 1000),
        (&["floats_of_all_kinds"], "", 0, 1),
        // Three pages of two seals.
        (&["written_0", "written_1", "written_2"], "", 0, 1_000_000),
    ];
    let others: [&[&str]; 6] = [
        &["blocked"],
        &["escaped_names"],
        &["one_series"],
        &["part_of_a_seal"],
        &["several_series_and_types"],
        &["unsigned"],
    ];
    flashes.extend(others.map(|names| (names, "", 0, 1_000_000)));
    for (names, clock, shift, tick_ns) in flashes {
        let server = Server::new();
        let flash = Flash {
            clock,
            ..Flash::new("dev", 1)
        };
        let pages: Vec<Vec<u8>> = names
            .iter()
            .map(|it| golden(&format!("{it}.bin")))
            .collect();
        let answer = server.push(&flash, 0, &all(&pages)).await;
        assert_eq!(answer.status, 200, "{names:?}: {}", answer.text);
        let listed = listed(names, shift, tick_ns);
        assert!(!listed.is_empty(), "{names:?}");
        assert_eq!(found(&server.engine, "dev"), listed, "{names:?}");
        // As pages in a file, and then as rows.
        server.engine.flush().unwrap();
        assert_eq!(found(&server.engine, "dev"), listed, "{names:?}, flushed");
        server.engine.settle().unwrap();
        assert_eq!(found(&server.engine, "dev"), listed, "{names:?}, settled");
    }
}

#[tokio::test]
async fn pages_that_break_the_format_are_refused_and_leave_nothing() {
    let server = Server::new();
    let flash = Flash::new("dev", 1);
    let folder = crate::support::golden_path("");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_page = name.strip_suffix(".bin").is_some();
        if !name.starts_with("refused_") || !is_page {
            continue;
        }
        count += 1;
        if name == "refused_behind.bin" {
            // A body goes on with the next page: this one is good, and what is behind it is none.
            let (server, page) = (Server::new(), golden(&name));
            let answer = server.push(&flash, 0, &[&page]).await;
            assert_eq!(answer.progress(), (422, 1), "{}", answer.text);
            assert_eq!(answer.number("page"), 2, "{}", answer.text);
            continue;
        }
        let page = golden(&name);
        let answer = server.push(&flash, 0, &[&page]).await;
        assert_eq!(answer.progress(), (422, 0), "{name}: {}", answer.text);
        assert_eq!(answer.number("offset"), 0, "{name}");
    }
    // As many as there are files.
    assert!(count >= 23, "{count}");
    // Ticks that no time in nanoseconds has.
    let answer = server.push(&flash, 0, &[&golden("latest_times.bin")]).await;
    assert_eq!(answer.progress(), (422, 0), "{}", answer.text);
    assert!(answer.text.contains("clock"), "{}", answer.text);
    assert_eq!(found(&server.engine, "dev"), Values::new());
    let snapshot = server.engine.snapshot();
    assert_eq!(snapshot.tables("edge", "public").unwrap().len(), 0);
}

#[tokio::test]
async fn pages_of_an_image_are_rows_of_the_series_that_the_device_named() {
    let server = Server::new();
    let images = [("unit-1", small(), 3), ("unit-32", large(), 6)];
    for (device, pages, last) in &images {
        let answer = server
            .push(&Flash::of_image(device, 1), 0, &all(pages))
            .await;
        assert_eq!(answer.progress(), (200, *last), "{}", answer.text);
        assert_eq!(answer.number("pages"), *last);
        assert_eq!((answer.number("rows"), answer.number("repeated")), (140, 0));
    }
    for (device, ..) in &images {
        assert_eq!(stored(&server, device).await, image_rows(), "{device}");
    }
    assert_eq!(server.metric("nilometer_device_pages_total").await, 9);
    assert_eq!(server.metric("nilometer_device_rows_total").await, 280);
}
