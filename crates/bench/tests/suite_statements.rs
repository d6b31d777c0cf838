//! The statements of the benchmark are those whose answers are known: `testdata/tsbs/iot.sql.jsonl.gz`.
//!
//! The tests of the server ask the statements of that file. Here every statement of the benchmark has to be one of them, but
//! for times, trucks and fleets.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;

use flate2::read::GzDecoder;
use nilometer_bench::queries::{names, statements};
use nilometer_bench::workload::{Spec, Workload};
use serde_json::Value;

/// A statement without what is drawn at random.
fn shape(sql: &str) -> String {
    let mut out = String::new();
    for (i, part) in sql.split('\'').enumerate() {
        let is_text = i % 2 == 1;
        let is_drawn = part.ends_with('Z')
            || part.starts_with("truck_")
            || ["East", "West", "North", "South"].contains(&part);
        out.push_str(if is_text && is_drawn { "?" } else { part });
        out.push('\'');
    }
    out
}

#[test]
fn every_statement_about_trucks_is_one_whose_answers_are_known() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../testdata/tsbs/iot.sql.jsonl.gz"
    );
    let mut text = String::new();
    GzDecoder::new(File::open(path).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines() {
        let statement: Value = serde_json::from_str(line).unwrap();
        let of = |member: &str| statement[member].as_str().unwrap().to_owned();
        known
            .entry(of("type"))
            .or_default()
            .insert(shape(&of("sql")));
    }
    let spec = Spec {
        workload: Workload::Iot,
        hosts: 12,
        start_ns: 1_451_606_400_000_000_000,
        end_ns: 1_451_696_400_000_000_000,
        interval_ns: 30_000_000_000,
        seed: 1,
    };
    let asked = statements(&spec, 2, 3).unwrap();
    for name in names(Workload::Iot) {
        let shapes: BTreeSet<String> = asked
            .iter()
            .filter(|q| q.name == name)
            .map(|q| shape(&q.sql))
            .collect();
        assert_eq!(shapes.len(), 1, "{name}");
        assert_eq!(Some(&shapes), known.get(name), "{name}");
    }
}
