//! Exports of `influx_inspect export`: every row arrives in the database and the retention policy that it had.
//!
//! Does not: run `influx_inspect`, which no package of Debian has. The files are written as `cmd/influx_inspect/export` of its
//! source writes them.

use serde_json::{Value, json};

use crate::support::{Scratch, gzip, nilometer, nilometer_with};

/// As 1.9 and later write it: two databases, and two retention policies in one of them. The same series and times are in
/// all of them.
const EXPORT: &str = "\
# INFLUXDB EXPORT: 1677-09-21T00:12:43Z - 2262-04-11T23:47:16Z
# DDL
CREATE DATABASE weather WITH NAME autogen
CREATE RETENTION POLICY two_years ON weather DURATION 0s REPLICATION 1
CREATE DATABASE \"house 2\" WITH NAME \"by-hand\"
# DML
# CONTEXT-DATABASE:weather
# CONTEXT-RETENTION-POLICY:autogen
# writing tsm data
air,city=Cairo temperature=31.5 1
air,city=Cairo temperature=32 2
air,city=Cairo note=\"two
# lines\" 2
# writing wal data
air,city=Cairo temperature=33 3
# CONTEXT-DATABASE:weather
# CONTEXT-RETENTION-POLICY:two_years
# writing tsm data
air,city=Cairo temperature=20 1
# CONTEXT-DATABASE:house 2
# CONTEXT-RETENTION-POLICY:by-hand
# writing tsm data
air,city=Cairo temperature=10 1
air,city=Cairo temperature=11 2
";

impl Scratch {
    /// The series of the first answer of InfluxQL.
    fn influxql(&self, statement: &str) -> Value {
        let parameters = [("q", statement), ("epoch", "ns")];
        let response = self.server.get("/query", &parameters).expect("an answer");
        assert_eq!(response.status, 200, "{statement}: {}", response.text());
        let answer = response.json();
        let series = answer.pointer("/results/0/series");
        series
            .cloned()
            .unwrap_or_else(|| answer["results"][0].clone())
    }

    /// Runs a statement that changes something.
    fn influxql_post(&self, statement: &str) {
        let response = self.server.post("/query", &[("q", statement)], None, &[]);
        let response = response.expect("an answer");
        assert_eq!(
            response.text().trim(),
            r#"{"results":[{"statement_id":0}]}"#
        );
    }

    /// What a measurement has in a policy.
    fn temperatures(&self, from: &str) -> Value {
        let series = self.influxql(&format!("SELECT temperature FROM {from}"));
        series.pointer("/0/values").cloned().unwrap_or_default()
    }

    fn run_import(&self, arguments: &[&str]) -> crate::support::Run {
        let base = ["import", "--url", self.server.url()];
        nilometer(self.path(), &[&base[..], arguments].concat())
    }

    fn check_all(&self) {
        let want = json!([[1, 31.5], [2, 32], [3, 33]]);
        assert_eq!(self.temperatures("weather.autogen.air"), want);
        assert_eq!(self.temperatures("weather.two_years.air"), json!([[1, 20]]));
        let want = json!([[1, 10], [2, 11]]);
        assert_eq!(self.temperatures("\"house 2\".\"by-hand\".air"), want);
        let note = self.influxql("SELECT note FROM weather.autogen.air");
        assert_eq!(note[0]["values"], json!([[2, "two\n# lines"]]));
        let default = self.influxql("SHOW RETENTION POLICIES ON \"house 2\"");
        let values = default[0]["values"].as_array().expect("rows");
        assert_eq!((values.len(), &values[0][0]), (1, &json!("by-hand")));
    }
}

/// The statement of the first lines was rejected as a bad line, and the rows of all databases and policies were written into
/// one, each over the others.
#[test]
fn rows_go_to_the_databases_and_policies_that_an_export_names() {
    let scratch = Scratch::new();
    scratch.file("out.lp", EXPORT.as_bytes());
    let run = scratch.run_import(&["out.lp"]);
    assert!(run.stdout.contains("imported 7 rows"), "{}", run.stdout);
    assert!(
        run.stderr.contains("CREATE RETENTION POLICY two_years"),
        "{}",
        run.stderr
    );
    run.succeeded();
    scratch.check_all();
    // Once more: what is there is there.
    let run = scratch.run_import(&["out.lp"]);
    assert!(!run.stderr.contains("stays as it is"), "{}", run.stderr);
    run.succeeded();
    scratch.check_all();
}

#[test]
fn an_export_is_known_by_its_content_packed_and_from_a_pipe() {
    // `-compress` does not change the name that `-out` says.
    let scratch = Scratch::new();
    scratch.file("export", &gzip(EXPORT.as_bytes()));
    scratch.run_import(&["export"]).succeeded();
    scratch.check_all();
    let scratch = Scratch::new();
    let arguments = ["import", "--url", scratch.server.url(), "-"];
    nilometer_with(scratch.path(), &arguments, EXPORT.as_bytes()).succeeded();
    scratch.check_all();
}

#[test]
fn a_directory_takes_an_export_without_a_server() {
    let dir = tempfile::TempDir::new().expect("a scratch folder");
    std::fs::write(dir.path().join("out.lp"), EXPORT).expect("a file");
    nilometer(dir.path(), &["import", "--data", "data", "out.lp"]).succeeded();
    let count = |schema: &str| {
        let sql = format!("SELECT count(*) AS n FROM weather.{schema}.air");
        let arguments = [
            "sql", "--data", "data", "-d", "weather", "--format", "csv", &sql,
        ];
        nilometer(dir.path(), &arguments).succeeded()
    };
    assert_eq!(
        (count("public"), count("two_years")),
        ("n\n3\n".to_owned(), "n\n1\n".to_owned())
    );
}

/// Until 1.8 each policy is in a CREATE DATABASE of its own, and the second of them is refused there and here.
#[test]
fn an_export_of_version_1_8_with_two_policies_has_both() {
    let scratch = Scratch::new();
    let old = EXPORT.replace(
        "CREATE RETENTION POLICY two_years ON weather DURATION 0s REPLICATION 1",
        "CREATE DATABASE weather WITH NAME two_years",
    );
    scratch.file("out.lp", old.as_bytes());
    scratch.run_import(&["out.lp"]).succeeded();
    scratch.check_all();
}

#[test]
fn a_policy_that_is_there_stays_as_it_is() {
    let scratch = Scratch::new();
    scratch.influxql_post("CREATE DATABASE weather");
    // Ten thousand weeks: the rows are of 1970.
    scratch.influxql_post(
        "CREATE RETENTION POLICY two_years ON weather DURATION 10000w REPLICATION 1",
    );
    scratch.file("out.lp", EXPORT.as_bytes());
    let run = scratch.run_import(&["out.lp"]);
    assert!(
        run.stderr.contains("line 4: ") && run.stderr.contains("stays as it is"),
        "{}",
        run.stderr
    );
    run.succeeded();
    scratch.check_all();
    let policies = scratch.influxql("SHOW RETENTION POLICIES ON weather");
    assert_eq!(policies[0]["values"][1][1], json!("1680000h0m0s"));
}

#[test]
fn a_wrong_definition_is_named_with_its_line_and_nothing_is_imported() {
    let scratch = Scratch::new();
    for (wrong, words) in [
        ("CREATE DATABSE weather", "found DATABSE, expected"),
        ("DROP DATABASE weather", "take this line out"),
    ] {
        let text = EXPORT.replace(
            "CREATE RETENTION POLICY two_years ON weather DURATION 0s REPLICATION 1",
            wrong,
        );
        scratch.file("out.lp", text.as_bytes());
        let stderr = scratch.run_import(&["out.lp"]).failed();
        assert!(
            stderr.contains("line 4: ") && stderr.contains(words),
            "{stderr}"
        );
        let stderr = {
            let arguments = ["import", "--url", scratch.server.url(), "-"];
            nilometer_with(scratch.path(), &arguments, text.as_bytes()).failed()
        };
        assert!(stderr.contains("line 4: "), "{stderr}");
    }
    // What the server refuses is named with its line too.
    let text = EXPORT.replace("DURATION 0s", "DURATION 1s");
    scratch.file("out.lp", text.as_bytes());
    let stderr = scratch.run_import(&["out.lp"]).failed();
    assert!(
        stderr.contains("line 4: ")
            && stderr.contains("retention policy duration must be at least 1h0m0s"),
        "{stderr}"
    );
    assert_eq!(scratch.temperatures("weather.autogen.air"), Value::Null);
}

#[test]
fn with_a_database_the_one_of_the_export_is_called_otherwise_and_two_are_refused() {
    let scratch = Scratch::new();
    let one = &EXPORT[..EXPORT.find("# CONTEXT-DATABASE:house").expect("a place")];
    let one = one.replace("CREATE DATABASE \"house 2\" WITH NAME \"by-hand\"\n", "");
    scratch.file("one.lp", one.as_bytes());
    scratch.run_import(&["-d", "copy", "one.lp"]).succeeded();
    assert_eq!(scratch.temperatures("copy.two_years.air"), json!([[1, 20]]));
    let databases = scratch.influxql("SHOW DATABASES");
    assert!(!databases.to_string().contains("weather"), "{databases}");
    scratch.file("two.lp", EXPORT.as_bytes());
    let stderr = scratch.run_import(&["-d", "both", "two.lp"]).failed();
    assert!(
        stderr.contains("line 5: ") && stderr.contains("leave it out"),
        "{stderr}"
    );
    scratch.file("m.lp", b"m v=1 1\n");
    let stderr = scratch.run_import(&["m.lp"]).failed();
    assert!(stderr.contains("--database NAME"), "{stderr}");
}

/// What is refused of an export can be mended and imported again, to the place that it was for.
#[test]
fn rejected_rows_keep_their_place() {
    let scratch = Scratch::new();
    let text = EXPORT.replace("temperature=20 1", "temperature=oops 1");
    scratch.file("out.lp", text.as_bytes());
    let stderr = scratch
        .run_import(&["--rejects", "bad.lp", "out.lp"])
        .failed();
    assert!(stderr.contains("out.lp:19: "), "{stderr}");
    let bad = std::fs::read_to_string(scratch.path().join("bad.lp")).expect("the rejects");
    scratch.file("bad.lp", bad.replace("oops", "20").as_bytes());
    scratch.run_import(&["bad.lp"]).succeeded();
    scratch.check_all();
}
