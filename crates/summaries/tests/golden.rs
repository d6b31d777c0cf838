//! Promise: summaries that were packed from docs/format/summary.md alone (golden/summary-1/make.py) are read, answer what arithmetic
//! on their rows says, and are written as they were.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use nilometer_summaries::{Basis, Scalar, Summary};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/summary-1")
}

/// What a summary answers to a question of the file.
fn answer(summary: &Summary, question: &str) -> String {
    let number = |value: f64| value.to_string();
    let maybe = |value: Option<f64>| value.map_or("none".to_owned(), number);
    let text = |value: &str| Scalar::Text(value.into());
    match (summary, question) {
        (Summary::Moments(it), "count") => it.count().to_string(),
        (Summary::Moments(it), "mean") => maybe(it.mean()),
        (Summary::Moments(it), "variance") => maybe(it.variance(Basis::Sample)),
        (Summary::Moments(it), "skewness") => maybe(it.skewness(Basis::Sample)),
        (Summary::Pairs(it), "slope") => maybe(it.slope()),
        (Summary::Pairs(it), "intercept") => maybe(it.intercept()),
        (Summary::Pairs(it), "correlation") => maybe(it.correlation()),
        (Summary::Counter(it), "delta") => number(it.delta()),
        (Summary::Counter(it), "rate") => maybe(it.rate()),
        (Summary::Counter(it), "resets") => it.resets().to_string(),
        (Summary::Counter(it), "changes") => it.changes().to_string(),
        (Summary::TimeWeight(it), "average") => maybe(it.average()),
        (Summary::Candlestick(it), "open") => number(it.open().value),
        (Summary::Candlestick(it), "high") => number(it.high().value),
        (Summary::Candlestick(it), "low") => number(it.low().value),
        (Summary::Candlestick(it), "close") => number(it.close().value),
        (Summary::Candlestick(it), "vwap") => maybe(it.vwap()),
        (Summary::Extremes(it), "first") => it.clone().sorted()[0].0.to_string(),
        (Summary::Extremes(it), "second") => it.clone().sorted()[1].0.to_string(),
        (Summary::UddSketch(it), "count") => it.count().to_string(),
        (Summary::UddSketch(it), "lowest") => maybe(it.quantile(0.0)),
        (Summary::UddSketch(it), "median") => maybe(it.quantile(0.5)),
        (Summary::UddSketch(it), "highest") => maybe(it.quantile(1.0)),
        (Summary::TDigest(it), "count") => it.count().to_string(),
        (Summary::TDigest(it), "mean") => maybe(it.mean()),
        (Summary::TDigest(it), "lowest") => maybe(it.clone().quantile(0.0)),
        (Summary::TDigest(it), "highest") => maybe(it.clone().quantile(1.0)),
        (Summary::HyperLogLog(it), "count") => number(it.count()),
        (Summary::Frequencies(it), "most") => it.most(Some(1)).unwrap()[0].to_string(),
        (Summary::Frequencies(it), "most_min") => number(it.frequency(&text("a")).0),
        (Summary::Frequencies(it), "second_min") => number(it.values()[1].min),
        (Summary::Frequencies(it), "second_max") => number(it.values()[1].max),
        (Summary::States(it), "at_6") => it.state_at(6).unwrap().unwrap().to_string(),
        (Summary::States(it), "state_1") => it.duration_in(&Scalar::Int(1)).to_string(),
        (Summary::States(it), "state_2") => it.duration_in(&Scalar::Int(2)).to_string(),
        (Summary::States(it), state) => it.duration_in(&text(state)).to_string(),
        (Summary::Heartbeats(it), "uptime") => it.uptime().to_string(),
        (Summary::Heartbeats(it), "downtime") => it.downtime().to_string(),
        (summary, other) => panic!("{} has no answer to {other}", summary.name()),
    }
}

/// The same text, or numbers that differ in the last digits only.
fn is_same(one: &str, other: &str) -> bool {
    match (one.parse::<f64>(), other.parse::<f64>()) {
        (Ok(one), Ok(other)) => (one - other).abs() <= 1e-9 * other.abs().max(1e-3),
        _ => one == other,
    }
}

#[test]
fn golden_summaries_are_read_answer_and_are_written_alike() {
    let answers = fs::read_to_string(folder().join("answers.txt")).unwrap();
    let mut asked: BTreeMap<&str, usize> = BTreeMap::new();
    for line in answers.lines() {
        let [name, question, expected] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let bytes = fs::read(folder().join(format!("{name}.bin"))).unwrap();
        let summary = Summary::decode(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(summary.encode(), bytes, "{name}");
        let found = answer(&summary, question);
        assert!(is_same(&found, expected), "{line}: {found}");
        *asked.entry(name).or_default() += 1;
    }
    // Each file is asked something, and each of the 13 kinds has one.
    let files: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| Path::new(name).extension().is_some_and(|it| it == "bin"))
        .collect();
    let mut kinds: Vec<u8> = files
        .iter()
        .map(|name| fs::read(folder().join(name)).unwrap()[3])
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds, (1..=13).collect::<Vec<u8>>());
    for name in files {
        let name = name.trim_end_matches(".bin");
        assert!(asked.contains_key(name), "{name} is not asked anything");
    }
}
