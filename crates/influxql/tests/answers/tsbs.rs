//! Promise: the 28 types of questions of TSBS answer what InfluxDB answered over the same points.

use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use serde_json::Value;

use crate::store::{Store, difference};

fn read(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/tsbs")
        .join(name);
    let mut text = Vec::new();
    GzDecoder::new(std::fs::File::open(path).unwrap())
        .read_to_end(&mut text)
        .unwrap();
    text
}

fn check(use_case: &str) {
    let store = Store::new(&read(&format!("{use_case}.influx.gz")));
    let answers = String::from_utf8(read("answers.influxdb.jsonl.gz")).unwrap();
    let mut failures = Vec::new();
    let mut count = 0;
    for line in answers.lines() {
        let question: Value = serde_json::from_str(line).unwrap();
        if question["use_case"] != use_case {
            continue;
        }
        count += 1;
        let text = question["q"].as_str().unwrap();
        let mut theirs = question["answer"]["results"].clone();
        for result in theirs.as_array_mut().unwrap() {
            result.as_object_mut().unwrap().remove("statement_id");
        }
        let differs = match store.query(text) {
            Ok(ours) => difference(&Value::Array(ours), &theirs, ""),
            Err(error) => Some(error),
        };
        let kind = &question["type"];
        failures.extend(differs.map(|differs| {
            let differs: String = differs.chars().take(600).collect();
            format!("{kind} {text}\n    {differs}")
        }));
    }
    assert!(count > 0);
    assert!(
        failures.is_empty(),
        "{} of {count} differ:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn cpu_only() {
    check("cpu-only");
}

#[test]
fn iot() {
    check("iot");
}
