//! CSV and Parquet come in with the types that they have, and what a table has already counts before them.

use std::fs::File;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
    Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
    UInt64Array,
};
use arrow::datatypes::Int32Type;
use parquet::arrow::ArrowWriter;
use serde_json::json;
use tempfile::TempDir;

use crate::fake_server::FakeServer;
use crate::support::{Scratch, gzip, nilometer, nilometer_with};

impl Scratch {
    pub(crate) fn parquet(&self, name: &str, columns: Vec<(&str, ArrayRef)>) {
        let columns = columns
            .into_iter()
            .map(|(name, values)| (name, values, true));
        let rows = RecordBatch::try_from_iter_with_nullable(columns).expect("a batch");
        let file = File::create(self.path().join(name)).expect("a file to import");
        let mut writer = ArrowWriter::try_new(file, rows.schema(), None).expect("a writer");
        writer.write(&rows).expect("rows are written");
        writer.close().expect("a footer is written");
    }

    pub(crate) fn arguments<'a>(&'a self, arguments: &[&'a str]) -> Vec<&'a str> {
        let base = ["import", "--url", self.server.url(), "-d", "d"];
        [&base[..], arguments].concat()
    }

    /// What `import` printed and said.
    pub(crate) fn import(&self, arguments: &[&str]) -> String {
        let run = nilometer(self.path(), &self.arguments(arguments));
        let said = run.stderr.clone();
        run.succeeded() + &said
    }

    pub(crate) fn refused(&self, arguments: &[&str]) -> String {
        nilometer(self.path(), &self.arguments(arguments)).failed()
    }

    pub(crate) fn rows(&self, statement: &str) -> serde_json::Value {
        json!(self.server.query("d", statement))
    }
}

pub(crate) fn column(values: impl arrow::array::Array + 'static) -> ArrayRef {
    Arc::new(values)
}

#[test]
fn parquet_keeps_every_type_and_value() {
    let scratch = Scratch::new();
    let hosts: DictionaryArray<Int32Type> = vec![Some("a"), None, Some("b")].into_iter().collect();
    let decimals = Decimal128Array::from(vec![150, 225, -1]).with_precision_and_scale(10, 2);
    scratch.parquet(
        "all.parquet",
        vec![
            (
                "when",
                column(
                    TimestampMicrosecondArray::from(vec![1_000_000, 2_000_000, 3_000_001])
                        .with_timezone("+05:00"),
                ),
            ),
            ("host", column(hosts)),
            ("i", column(Int32Array::from(vec![Some(-3), None, Some(7)]))),
            ("u", column(UInt64Array::from(vec![u64::MAX, 0, 1]))),
            (
                "f",
                column(Float64Array::from(vec![f64::NAN, f64::INFINITY, -0.5])),
            ),
            (
                "b",
                column(BooleanArray::from(vec![Some(true), None, Some(false)])),
            ),
            (
                "s",
                column(StringArray::from(vec![Some("x\"y\nz"), Some(""), None])),
            ),
            (
                "raw",
                column(BinaryArray::from(vec![&b"\x00\xff"[..], b"", b"a"])),
            ),
            ("d", column(decimals.expect("a decimal"))),
            (
                "day",
                column(Date32Array::from(vec![Some(19_844), None, None])),
            ),
        ],
    );
    let said = scratch.import(&["all.parquet"]);
    for words in ["when", "unsigned", "boolean", "bytes", "imported 3 rows"] {
        assert!(said.contains(words), "no {words:?} in {said}");
    }
    let rows = scratch.rows("SELECT time, host, i, u, b, s, d, day FROM \"all\" ORDER BY time");
    let want = json!([
        {"time": "1970-01-01T00:00:01Z", "host": "a", "i": -3, "u": u64::MAX, "b": true, "s": "x\"y\nz", "d": 1.5, "day": "2024-05-01"},
        {"time": "1970-01-01T00:00:02Z", "host": null, "i": null, "u": 0, "b": null, "s": "", "d": 2.25, "day": null},
        {"time": "1970-01-01T00:00:03.000001Z", "host": "b", "i": 7, "u": 1, "b": false, "s": null, "d": -0.01, "day": null},
    ]);
    assert_eq!(rows, want);
    let odd = "SELECT count(*) FILTER (WHERE isnan(f)) AS nan, max(encode(raw, 'hex')) AS raw, sum(i + 1) AS i FROM \"all\"";
    assert_eq!(scratch.rows(odd), json!([{"nan": 1, "raw": "61", "i": 6}]));
    // What comes out goes in again, into another table, as the same.
    let arguments = [
        "export",
        "--url",
        scratch.server.url(),
        "-d",
        "d",
        "all",
        "--output",
        "again.parquet",
    ];
    nilometer(scratch.path(), &arguments).succeeded();
    scratch.import(&["again.parquet"]);
    assert_eq!(
        scratch.rows("SELECT time, host, i, u, b, s, d, day FROM again ORDER BY time"),
        want
    );
}

#[test]
fn what_a_table_has_already_counts_before_the_file() {
    let scratch = Scratch::new();
    let response = scratch.server.write("d", "air,city=Cairo temp=21.5,n=1i 1");
    assert_eq!(response.status, 204);
    // By itself temp would be an integer, city a tag all the same, and n a float.
    scratch.file(
        "air.csv",
        b"time,city,temp,n,new\n2024-05-01,Cairo,20,2,x\n2024-05-02,Aswan,30,2.5,y\n2024-05-03,Cairo,25,3,z\n",
    );
    let stderr = scratch.refused(&["air.csv"]);
    for words in [
        "table air has \"temp\" as a field of type float already",
        "table air has \"n\" as a field of type integer already",
        "air.csv:3: column \"n\" has \"2.5\"",
        "1 line was rejected, the rest is imported",
    ] {
        assert!(stderr.contains(words), "no {words:?} in {stderr}");
    }
    let rows =
        scratch.rows("SELECT city, temp, n, new FROM air WHERE time > '2000-01-01' ORDER BY time");
    let want = json!([
        {"city": "Cairo", "temp": 20.0, "n": 2, "new": "x"},
        {"city": "Cairo", "temp": 25.0, "n": 3, "new": "z"},
    ]);
    assert_eq!(rows, want);
    // So does what the user says, unless it cannot be.
    let stderr = scratch.refused(&["--type", "temp=text", "air.csv"]);
    assert!(stderr.contains("another --table"), "{stderr}");
    // The same from a pipe, which cannot be looked at before.
    let arguments = scratch.arguments(&["--format", "csv", "--table", "air", "-"]);
    let csv = b"time,city,temp,n\n2024-05-04,Cairo,7,4\n";
    nilometer_with(scratch.path(), &arguments, csv).succeeded();
    let newest = scratch.rows("SELECT temp, n FROM air ORDER BY time DESC LIMIT 1");
    assert_eq!(newest, json!([{"temp": 7.0, "n": 4}]));
    // Parquet too, with the rows that do not fit.
    scratch.parquet(
        "air.parquet",
        vec![
            (
                "time",
                column(TimestampMicrosecondArray::from(vec![1, 2, 3])),
            ),
            ("temp", column(Int64Array::from(vec![1, 2, (1 << 53) + 1]))),
            (
                "n",
                column(Float64Array::from(vec![Some(5.0), Some(5.5), None])),
            ),
        ],
    );
    let stderr = scratch.refused(&["air.parquet"]);
    assert!(
        stderr.contains("air.parquet:2: column \"n\" has \"5.5\"")
            && stderr.contains("air.parquet:3: column \"temp\""),
        "{stderr}"
    );
}

#[test]
fn files_of_one_table_agree_on_its_columns_before_the_first_row() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path().join("in")).expect("a folder");
    let rows = |value: &str| {
        let rows = (1..=3).map(|n| format!("2024-05-0{n},h{n},{value}\n"));
        format!("time,host,v\n{}", rows.collect::<Vec<_>>().concat())
    };
    scratch.file("in/a.csv", rows("1").as_bytes());
    scratch.file(
        "in/b.csv.gz",
        &gzip(rows("1.5").replace("2024", "2025").as_bytes()),
    );
    let packed = zstd::encode_all(rows("2").replace("2024", "2026").as_bytes(), 1);
    scratch.file("in/c.csv.zst", &packed.expect("zstd packs"));
    let said = scratch.import(&["--table", "t", "in"]);
    assert!(said.contains("imported 9 rows"), "{said}");
    assert!(!said.contains("integer"), "{said}");
    let sums = scratch.rows("SELECT sum(v) AS s, count(DISTINCT host) AS hosts FROM t");
    assert_eq!(sums, json!([{"s": 13.5, "hosts": 3}]));
}

#[test]
fn an_import_of_csv_goes_on_with_the_same_keys() {
    let dir = TempDir::new().expect("a scratch folder");
    let text = (0..60_000)
        .map(|n| format!("{n},{n}\n"))
        .collect::<Vec<_>>()
        .concat();
    std::fs::write(dir.path().join("m.csv"), format!("time,v\n{text}")).expect("a file");
    let fake = FakeServer::start();
    let url = fake.url();
    let arguments = [
        "import",
        "--url",
        &url,
        "-d",
        "d",
        "--time-format",
        "s",
        "m.csv",
    ];
    fake.refuse_after(3);
    let stderr = nilometer(dir.path(), &arguments).failed();
    assert!(stderr.contains("--resume"), "{stderr}");
    let first = fake.take();
    fake.refuse_after(usize::MAX);
    nilometer(dir.path(), &[&arguments[..], &["--resume"]].concat()).succeeded();
    let second = fake.take();
    let mut by_key = std::collections::BTreeMap::new();
    for (key, body) in first.iter().chain(&second) {
        let known = by_key.entry(key).or_insert(body);
        assert!(*known == body, "{key} names two batches");
    }
    assert_eq!(by_key.len(), 6, "six batches of ten thousand rows");
    assert!(second.len() < 6, "{} batches were sent again", second.len());
}

#[test]
fn files_from_other_programs_come_in_as_they_are() {
    let scratch = Scratch::new();
    scratch.file(
        "german.csv",
        b"sep=;\nDatum;Temperatur\n01.05.2024 12:00;21,5\n01.05.2024 13:00;kalt\n01.05.2024 14:00;-3\n",
    );
    let stderr = scratch.refused(&["--type", "Temperatur=float", "german.csv"]);
    assert!(stderr.contains("german.csv:4: "), "{stderr}");
    scratch.file(
        "apart.csv",
        b"# by a logger, v2\nDate,Time,,v\n2024-05-01,12:00,0,1\n2024-05-01,13:00,1,2\n",
    );
    let said = scratch.import(&["apart.csv"]);
    assert!(said.contains("Date+Time  time"), "{said}");
    let rows = scratch.rows("SELECT time, column_3, v FROM apart ORDER BY time");
    let want = json!([
        {"time": "2024-05-01T12:00:00Z", "column_3": 0, "v": 1},
        {"time": "2024-05-01T13:00:00Z", "column_3": 1, "v": 2},
    ]);
    assert_eq!(rows, want);
    scratch.file("digits.csv", b"time,v\n20240501120000,1\n");
    scratch.import(&["digits.csv"]);
    let rows = scratch.rows("SELECT time FROM digits");
    assert_eq!(rows, json!([{"time": "2024-05-01T12:00:00Z"}]));
    // What may be two days is asked for, with what would be right.
    scratch.file(
        "us.csv",
        b"when,v\n05/01/2024 12:00,1\n05/02/2024 12:00,1\n",
    );
    let stderr = scratch.refused(&["us.csv"]);
    for words in [
        "--time \"when\"",
        "\"%d/%m/%Y %H:%M\"",
        "\"%m/%d/%Y %H:%M\"",
    ] {
        assert!(stderr.contains(words), "no {words} in {stderr}");
    }
    let format = [
        "--time",
        "when",
        "--time-format",
        "%m/%d/%Y %H:%M",
        "us.csv",
    ];
    scratch.import(&format);
    let rows = scratch.rows("SELECT max(time) AS t FROM us");
    assert_eq!(rows, json!([{"t": "2024-05-02T12:00:00Z"}]));
}
