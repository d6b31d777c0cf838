//! What the server refuses: with which status, in which words, and that nothing else suffers from it.

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Response, Server, gzip};

/// A limit far below any default, so that a small body is over it.
const BODY_BYTES_MAX: usize = 65_536;
const SMALL_BODIES: &[&str] = &["--body-bytes-max", "65536"];

fn start(flags: &[&str]) -> (TempDir, Server) {
    let directory = TempDir::new().expect("a directory for the data");
    let server = Server::start(directory.path(), flags);
    (directory, server)
}

fn write(server: &Server, lines: &str) {
    let response = server.write("d", lines);
    assert_eq!(response.status, 204, "{}", response.text());
}

/// Count and sum of the field `v` of the table `good`.
fn good_rows(server: &Server) -> (Option<i64>, Option<i64>) {
    let rows = server.query("d", "SELECT count(*) AS n, sum(v) AS total FROM good");
    (rows[0]["n"].as_i64(), rows[0]["total"].as_i64())
}

/// Line number, line and reason of each rejected line.
fn rejected(response: &Response) -> Vec<(usize, String, String)> {
    assert_eq!(response.status, 400, "{}", response.text());
    assert!(!response.error().is_empty(), "an empty error");
    let body = response.json();
    let lines = body["data"]
        .as_array()
        .unwrap_or_else(|| panic!("no \"data\" in {body}"));
    let text = |line: &Value, key: &str| {
        line[key]
            .as_str()
            .unwrap_or_else(|| panic!("no {key:?} in {line}"))
            .to_owned()
    };
    lines
        .iter()
        .map(|line| {
            let number = line["line_number"]
                .as_u64()
                .and_then(|number| usize::try_from(number).ok());
            let number = number.unwrap_or_else(|| panic!("no line_number in {line}"));
            (
                number,
                text(line, "original_line"),
                text(line, "error_message"),
            )
        })
        .collect()
}

#[test]
fn bad_lines_are_named_with_number_and_reason_and_the_good_ones_are_kept() {
    let (_directory, server) = start(&[]);
    let body = [
        "good,host=a v=1i 1",
        "good,host=a",
        "# a comment is no line to reject",
        "good,host=a v=20i 2",
        "good,host=a v= 3",
        "good,host=a v=1x 4",
        "",
        "good,host=a v=300i 99999999999999999999",
        ",host=a v=300i 6",
        "good,host= v=300i 7",
        "good,host=a v=4000i 8",
    ];
    let response = server.write("d", &body.join("\n"));
    let rejected = rejected(&response);
    let numbers: Vec<usize> = rejected.iter().map(|(number, _, _)| *number).collect();
    assert_eq!(numbers, [2, 5, 6, 8, 9, 10], "{}", response.text());
    for (number, line, reason) in &rejected {
        assert_eq!(line, body[number - 1], "line {number}");
        assert!(!reason.is_empty(), "line {number} has no reason");
    }
    assert_eq!(good_rows(&server), (Some(3), Some(4021)));
}

#[test]
fn a_field_of_another_type_is_refused_by_line_and_the_stored_type_stays() {
    let (_directory, server) = start(&[]);
    write(&server, "good,host=a v=1i 1");
    let body = [
        "good,host=a v=20i 2",
        "good,host=a v=\"text\" 3",
        "good,host=a v=4.5 4",
        "good,host=a v=300i 5",
    ];
    let response = server.write("d", &body.join("\n"));
    let rejected = rejected(&response);
    let numbers: Vec<usize> = rejected.iter().map(|(number, _, _)| *number).collect();
    assert_eq!(numbers, [2, 3], "{}", response.text());
    for (number, line, reason) in &rejected {
        assert_eq!(line, body[number - 1], "line {number}");
        assert!(
            has_word(reason, "v"),
            "line {number}: the reason does not name the field: {reason}"
        );
    }
    assert_eq!(good_rows(&server), (Some(3), Some(321)));
}

#[test]
fn bodies_over_the_limit_are_refused_before_and_after_inflation() {
    let (_directory, server) = start(SMALL_BODIES);
    write(&server, "good,host=a v=1i 1");
    let line = "good,host=a v=1000i 2\n";
    let big = line.repeat(BODY_BYTES_MAX / line.len() + 1).into_bytes();
    let bomb = gzip(line.repeat((8 << 20) / line.len()).as_bytes());
    assert!(
        bomb.len() < BODY_BYTES_MAX,
        "the bomb must be small until it is inflated: {} bytes",
        bomb.len()
    );
    for (what, body, encoding) in [
        ("plain", &big, None),
        ("compressed", &gzip(&big), Some("gzip")),
        ("bomb", &bomb, Some("gzip")),
    ] {
        let response = server
            .try_write("d", body, encoding)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(response.status, 413, "{what}: {}", response.text());
        let error = response.error().replace('_', "-");
        assert!(
            error.contains("body-bytes-max"),
            "{what}: the limit is not named: {error}"
        );
    }
    assert_eq!(
        good_rows(&server),
        (Some(1), Some(1)),
        "a refused body was stored"
    );
    write(&server, &line.repeat(BODY_BYTES_MAX / line.len()));
    assert_eq!(
        good_rows(&server),
        (Some(2), Some(1001)),
        "the limit refuses a body that fits"
    );
}

#[test]
fn requests_that_make_no_sense_are_refused_and_store_nothing() {
    let (_directory, server) = start(&[]);
    write(&server, "good,host=a v=1i 1");
    let line = b"good,host=a v=20i 2".as_slice();
    let mut torn = gzip(line);
    torn.truncate(torn.len() - 4);
    let no_utf8 = b"good,host=\xff\xfe v=20i 2".as_slice();
    for (what, db, precision, encoding, body) in [
        ("an empty database name", "", "ns", None, line),
        ("an unknown precision", "d", "fortnight", None, line),
        (
            "a torn gzip stream",
            "d",
            "ns",
            Some("gzip"),
            torn.as_slice(),
        ),
        (
            "plain text that claims to be gzip",
            "d",
            "ns",
            Some("gzip"),
            line,
        ),
        ("bytes that are no UTF-8", "d", "ns", None, no_utf8),
    ] {
        let parameters = [("db", db), ("precision", precision)];
        let response = server
            .post("/api/v3/write_lp", &parameters, encoding, body)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(response.status, 400, "{what}: {}", response.text());
        assert!(!response.error().is_empty(), "{what}: an empty error");
    }
    assert_eq!(
        good_rows(&server),
        (Some(1), Some(1)),
        "a refused body was stored"
    );
    let response = server
        .post("/api/v3/write_lp", &[], None, line)
        .expect("an answer");
    assert_eq!(response.status, 400, "no database: {}", response.text());
    assert_eq!(
        server.get("/no/such/page", &[]).expect("an answer").status,
        404
    );
}

#[test]
fn bad_sql_is_refused_with_line_and_column() {
    let (_directory, server) = start(&[]);
    write(&server, "good,host=a v=1i 1");
    for (sql, line, column) in [
        ("SELEC 1", 1, 1),
        ("SELECT v FROM good )", 1, 20),
        ("SELECT v\nFROM good\n  WHERE )", 3, 9),
        ("SELECT 'no end", 1, 8),
    ] {
        let response = server.refused_query("d", sql);
        assert_eq!(response.status, 400, "{sql}: {}", response.text());
        let error = response.error();
        let position = (number_after(&error, "line"), number_after(&error, "column"));
        assert_eq!(position, (Some(line), Some(column)), "{sql}: {error}");
    }
    let response = server.refused_query("d", "SELECT no_such_column FROM good");
    assert_eq!(response.status, 400, "{}", response.text());
    assert!(
        response.error().contains("no_such_column"),
        "{}",
        response.error()
    );
    assert_eq!(good_rows(&server), (Some(1), Some(1)));
}

#[test]
fn unknown_databases_and_tables_are_named_with_the_nearest_known_one() {
    let (_directory, server) = start(&[]);
    write(&server, "good,host=a v=1i 1\ntemperature,host=a v=1i 1");
    let response = server.refused_query("nowhere", "SELECT 1");
    assert_eq!(response.status, 404, "{}", response.text());
    assert!(response.error().contains("nowhere"), "{}", response.error());

    let response = server.refused_query("d", "SELECT v FROM temprature");
    assert!(
        matches!(response.status, 400 | 404),
        "{}: {}",
        response.status,
        response.text()
    );
    for name in ["temprature", "temperature"] {
        assert!(
            has_word(&response.error(), name),
            "{name} is not named: {}",
            response.error()
        );
    }
}

/// Whether the text has the word, not as a part of another.
fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .any(|part| part == word)
}

/// The number that follows a word, whatever stands between them: `Line: 2` and `line 2` are both 2.
fn number_after(text: &str, word: &str) -> Option<u64> {
    let text = text.to_lowercase();
    let rest = text[text.find(word)? + word.len()..].trim_start_matches([':', ' ', '=']);
    rest.chars()
        .take_while(char::is_ascii_digit)
        .collect::<String>()
        .parse()
        .ok()
}
