//! Promise: every statement of `sqltests/influxql` answers what InfluxDB 1.6.7 answered, wherever its rows are: in memory, in
//! segments, in what compaction made of them, and after another start.
//!
//! A file has lines of line protocol behind `+`, statements behind `>`, and after each statement what it answers: a result
//! as JSON, or `error:` and a text. Statements on which version 1.12 differs from 1.6.7 are not there.

use std::path::Path;

use crate::store::{PLACES, Place, Store, difference};

fn failures(text: &str, place: Place) -> (usize, Vec<String>) {
    let points: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("+ "))
        .collect();
    let store = Store::at(&points, place);
    let mut lines = text
        .lines()
        .filter(|line| !line.starts_with(['+', '#']) && !line.is_empty());
    let mut failures = Vec::new();
    let mut count = 0;
    while let Some(statement) = lines.next() {
        let statement = statement.strip_prefix("> ").expect("a statement");
        let expected = lines.next().unwrap();
        count += 1;
        let ours = store.query(statement);
        let differs = match (ours, expected.strip_prefix("error: ")) {
            (Err(ours), Some(error)) if ours == error => None,
            (Err(ours), _) => Some(format!("{ours}\n    and not {expected}")),
            (Ok(ours), Some(_)) => Some(format!("{}\n    and not {expected}", ours[0])),
            (Ok(ours), None) => {
                let theirs = serde_json::from_str(expected).unwrap();
                difference(&ours[0], &theirs, "")
                    .map(|first| format!("{first}\n    {}\n    {expected}", ours[0]))
            }
        };
        failures.extend(differs.map(|differs| format!("{statement}\n    {differs}")));
    }
    (count, failures)
}

/// Expressions of 500 operators need more than the stack of a test's thread where nothing is optimized; the server's threads
/// have more, too.
#[test]
fn every_iql_file_holds() {
    let held = std::thread::Builder::new().stack_size(32 << 20);
    let held = held.spawn(hold_every_file).unwrap().join();
    held.unwrap();
}

fn hold_every_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sqltests/influxql");
    let mut report = Vec::new();
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "iql") {
            continue;
        }
        files += 1;
        let text = std::fs::read_to_string(&path).unwrap();
        for place in PLACES {
            let (count, failures) = failures(&text, place);
            assert!(count > 0, "{}", path.display());
            if !failures.is_empty() {
                let (name, differ) = (path.display(), failures.len());
                report.push(format!(
                    "{name}, rows in {place:?}: {differ} of {count} differ:\n{}",
                    failures.join("\n")
                ));
            }
        }
    }
    assert!(files > 0);
    assert!(report.is_empty(), "{}", report.join("\n"));
}
