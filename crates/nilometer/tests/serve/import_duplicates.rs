//! Rows of one time and the same tags: an import keeps them, or says that it merges them, or is refused.
//!
//! What was seen: files of rows with a text column, with integer ids, and of trades that share timestamps, were imported
//! as a tenth of their rows and less, and reported as imported.

use arrow::array::{Float64Array, Int64Array, StringArray, TimestampMicrosecondArray};
use serde_json::json;

use crate::import_typed::column;
use crate::support::{Scratch, nilometer_with};

/// 100 times 20 rows: the n-th of a time is that of the n-th station.
fn stations() -> String {
    let rows = (0..2000).map(|n| format!("{},{},{}.5\n", 1_700_000_000 + n / 20, n % 20, n % 17));
    "time,station_id,temperature\n".to_owned() + &rows.collect::<String>()
}

/// 10 times 100 trades.
fn trades() -> String {
    let rows = (0..1000).map(|n| format!("{},{}.25,{n}\n", 1_700_000_000 + n / 100, 100 + n % 3));
    "time,price,size\n".to_owned() + &rows.collect::<String>()
}

impl Scratch {
    fn counted(&self, table: &str) -> u64 {
        let rows = self.rows(&format!("SELECT count(*) AS n FROM {table}"));
        rows[0]["n"].as_u64().expect("a count")
    }

    fn kind_of(&self, table: &str) -> serde_json::Value {
        let statement =
            format!("SELECT duplicates FROM system.tables WHERE table_name = '{table}'");
        self.rows(&statement)[0]["duplicates"].clone()
    }
}

#[test]
fn integer_ids_lose_no_row_and_are_offered_as_tags() {
    let scratch = Scratch::new();
    scratch.file("air.csv", stations().as_bytes());
    let said = scratch.import(&["air.csv"]);
    for words in [
        "1,900 of the first 2,000 rows have the time and the tags of an earlier one; --tags station_id tells them apart",
        "imported 2,000 rows",
        "1,900 rows have the time and the tags of an earlier one: all are kept (table air has duplicates = 'keep')",
    ] {
        assert!(said.contains(words), "no {words:?} in {said}");
    }
    assert_eq!(
        (scratch.counted("air"), scratch.kind_of("air")),
        (2000, json!("keep"))
    );
    // With the tag all rows differ, and a repeated import changes nothing.
    for _ in 0..2 {
        let said = scratch.import(&["--table", "tagged", "--tags", "station_id", "air.csv"]);
        assert!(!said.contains("earlier one"), "{said}");
        assert_eq!(scratch.counted("tagged"), 2000);
        assert_eq!(scratch.kind_of("tagged"), json!("last"));
    }
}

#[test]
fn trades_of_one_time_stay_beside_each_other() {
    let scratch = Scratch::new();
    scratch.file("trades.csv", trades().as_bytes());
    let said = scratch.import(&["trades.csv"]);
    assert!(
        said.contains("990 rows have the time and the tags of an earlier one: all are kept"),
        "{said}"
    );
    assert_eq!(scratch.counted("trades"), 1000);
    let sums = scratch.rows("SELECT sum(size) AS s FROM trades");
    assert_eq!(sums, json!([{"s": 999 * 1000 / 2}]));
}

#[test]
fn text_columns_of_parquet_become_tags_by_their_values() {
    let scratch = Scratch::new();
    // 50 hours of 20 stations, as pandas and DuckDB write them: plain text, no dictionary.
    let times = (0..1000).map(|n| 1_700_000_000_000_000 + n / 20 * 3_600_000_000);
    let stations = (0..1000).map(|n| format!("station {}", n % 20));
    let notes = (0..1000).map(|n| format!("reading {n} of the day was taken by hand"));
    scratch.parquet(
        "weather.parquet",
        vec![
            (
                "time",
                column(TimestampMicrosecondArray::from_iter_values(times)),
            ),
            ("station", column(StringArray::from_iter_values(stations))),
            ("note", column(StringArray::from_iter_values(notes))),
            (
                "v",
                column(Float64Array::from_iter_values((0..1000).map(f64::from))),
            ),
        ],
    );
    let said = scratch.import(&["weather.parquet"]);
    assert!(said.contains("station  tag"), "{said}");
    assert!(said.contains("note     field"), "{said}");
    assert_eq!(scratch.counted("weather"), 1000);
    let series = scratch.rows("SELECT count(DISTINCT station) AS s, sum(v) AS v FROM weather");
    assert_eq!(series, json!([{"s": 20, "v": 999.0 * 500.0}]));
    // What the user says counts before the values.
    scratch.import(&["--table", "none", "--tags", "", "weather.parquet"]);
    assert_eq!(
        (scratch.counted("none"), scratch.kind_of("none")),
        (1000, json!("keep"))
    );
}

#[test]
fn a_table_that_merges_is_written_only_when_somebody_says_so() {
    let scratch = Scratch::with("air temperature=1 1");
    scratch.file("air.csv", stations().as_bytes());
    let stderr = scratch.refused(&["air.csv"]);
    for words in [
        "1,900 of 2,000 rows",
        "nothing was imported",
        "--tags",
        "another --table",
        "--duplicates last",
    ] {
        assert!(stderr.contains(words), "no {words:?} in {stderr}");
    }
    assert_eq!(scratch.counted("air"), 1);
    let stderr = scratch.refused(&["--duplicates", "keep", "air.csv"]);
    assert!(stderr.contains("ALTER TABLE \"air\""), "{stderr}");
    let said = scratch.import(&["--duplicates", "last", "air.csv"]);
    assert!(
        said.contains("1,900 rows have the time and the tags of an earlier one: merged with it"),
        "{said}"
    );
    assert_eq!(scratch.counted("air"), 101);
    // From a pipe, which cannot be read twice, nothing of the batch that is too much is sent.
    let arguments = scratch.arguments(&["--format", "csv", "--table", "air", "-"]);
    let later = stations().replace("17000000", "18000000");
    let stderr = nilometer_with(scratch.path(), &arguments, later.as_bytes()).failed();
    assert!(stderr.contains("1,900 of 2,000 rows"), "{stderr}");
    assert_eq!(scratch.counted("air"), 101);
}

#[test]
fn a_new_table_is_of_the_kind_that_is_asked_for() {
    let scratch = Scratch::new();
    scratch.file("air.csv", stations().as_bytes());
    for (kind, rows) in [("last", 100), ("unique", 100), ("keep", 2000)] {
        scratch.import(&["--table", kind, "--duplicates", kind, "air.csv"]);
        assert_eq!(scratch.counted(&format!("\"{kind}\"")), rows, "{kind}");
        assert_eq!(scratch.kind_of(kind), json!(kind));
    }
    scratch.file("m.lp", b"m v=1 1\n");
    let stderr = scratch.refused(&["--duplicates", "keep", "m.lp"]);
    assert!(stderr.contains("CREATE TABLE"), "{stderr}");
}

#[test]
fn points_of_line_protocol_that_come_again_are_counted() {
    let scratch = Scratch::new();
    let points = (0..3000).map(|n| format!("m,h=a v={n} {}\n", 1 + n / 3));
    scratch.file("m.lp", points.collect::<String>().as_bytes());
    let said = scratch.import(&["--precision", "s", "m.lp"]);
    let want = "2,000 lines have the series, the time and the first field of an earlier one: merged with it";
    assert!(said.contains(want), "{said}");
    assert_eq!(scratch.counted("m"), 1000);
}

#[test]
fn two_files_of_one_import_are_counted_together() {
    let scratch = Scratch::new();
    let rows = |first: i64| {
        let times = TimestampMicrosecondArray::from_iter_values(first..first + 50);
        let values = Int64Array::from_iter_values(0..50);
        vec![("time", column(times)), ("v", column(values))]
    };
    scratch.parquet("a.parquet", rows(1_000_000));
    scratch.parquet("b.parquet", rows(1_000_040));
    let said = scratch.import(&["--table", "t", "a.parquet", "b.parquet"]);
    assert!(
        said.contains("10 rows have the time and the tags of an earlier one: all are kept"),
        "{said}"
    );
    assert_eq!(scratch.counted("t"), 100);
}

/// Rows of a file whose times were integers got the time of their arrival, all of them the same.
#[test]
fn times_of_parquet_may_be_integers_and_are_never_left_out() {
    let scratch = Scratch::new();
    let values = || column(Int64Array::from_iter_values(0..50));
    let times = column(Int64Array::from_iter_values(
        (0..50).map(|n| 1_700_000_000 + n),
    ));
    scratch.parquet("a.parquet", vec![("ts", times), ("v", values())]);
    scratch.import(&["a.parquet"]);
    let rows = scratch.rows("SELECT count(*) AS n, min(time) AS t FROM a");
    assert_eq!(rows, json!([{"n": 50, "t": "2023-11-14T22:13:20Z"}]));
    scratch.parquet("b.parquet", vec![("v", values()), ("w", values())]);
    let stderr = scratch.refused(&["b.parquet"]);
    assert!(
        stderr.contains("--time COLUMN") && stderr.contains("v, w"),
        "{stderr}"
    );
}
