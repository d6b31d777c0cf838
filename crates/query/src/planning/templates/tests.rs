use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::Tokenizer;

use nilometer_service::Params;

use super::*;

fn shape(sql: &str) -> Option<Shape> {
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location();
    Shape::of(&tokens.unwrap(), &Params::new())
}

fn values(sql: &str) -> Vec<Vec<String>> {
    shape(sql).map_or(Vec::new(), |shape| shape.values().to_vec())
}

#[test]
fn what_a_where_compares_with_is_taken_out() {
    let found = values(
        "SELECT time_bucket('1 hour', time) FROM cpu WHERE host IN ('a', 'b''c') AND region = 'eu' AND usage > 90.5 \
         AND time >= TIMESTAMP '2016-01-01T00:00:00Z' AND time < '2016-01-02' GROUP BY 1 HAVING max(x) = 'y'",
    );
    assert_eq!(
        found,
        [
            vec!["a", "b'c"],
            vec!["eu"],
            vec!["2016-01-01T00:00:00Z"],
            vec!["2016-01-02"]
        ]
    );
    let between = values("select 1 from t where time between '1' and '2' and host = '3'");
    assert_eq!(between, [["1"], ["2"], ["3"]]);
}

#[test]
fn wheres_of_questions_within_and_this_moment_are_taken_out() {
    let found = values(
        "WITH q AS (SELECT host, max(v) AS v FROM t WHERE time >= '1' AND region = 'eu' GROUP BY host HAVING max(x) = 'y') \
         SELECT * FROM q WHERE host IN ('a', 'b')",
    );
    assert_eq!(found, [vec!["1"], vec!["eu"], vec!["a", "b"]]);
    let found = values("SELECT * FROM (SELECT * FROM t WHERE host = 'a') q ORDER BY x = 'b'");
    assert_eq!(found, [["a"]]);
    let found = values("SELECT * FROM t WHERE time > NOW() - interval '1 hour' AND time < now()");
    assert_eq!(found, [["now()"], ["now()"]]);
    // An hour is another shape than two.
    let of = |hours| format!("SELECT * FROM t WHERE time > now() - interval '{hours} hours'");
    assert_ne!(shape(&of(1)).unwrap().text(), shape(&of(2)).unwrap().text());
    // What an aggregate leaves out is no condition on rows that are read.
    let found = values("SELECT sum(v) FILTER (WHERE host = 'a') FROM t WHERE host = 'b'");
    assert_eq!(found, [["b"]]);
}

#[test]
fn other_texts_are_part_of_the_shape() {
    for sql in [
        "SELECT 'a' FROM t",
        "SELECT * FROM t WHERE host LIKE 'a%'",
        "SELECT * FROM t WHERE host <> 'a'",
        "SELECT * FROM t WHERE time > timestamptz '2016-01-01'",
        "SELECT * FROM t WHERE host IN (SELECT host FROM u)",
        "SELECT * FROM t WHERE host IN ('a', b)",
        "SELECT * FROM t WHERE host IN ('a', 'b', 'a')",
        "INSERT INTO t SELECT * FROM u WHERE host = 'a'",
        "EXPLAIN SELECT * FROM t WHERE host = 'a'",
    ] {
        assert_eq!(values(sql), Vec::<Vec<String>>::new(), "{sql}");
    }
}

/// A point query by an integer key was planned each time, and each key became a template of its own.
#[test]
fn whole_numbers_behind_equals_are_taken_out_and_kept_as_they_are_beside() {
    let found = |sql: &str| {
        let shape = shape(sql).unwrap();
        let written = shape.as_written().map(|shape| shape.values().to_vec());
        (shape.values().to_vec(), written)
    };
    let values = |values: &[&str]| {
        values
            .iter()
            .map(|it| vec![(*it).to_owned()])
            .collect::<Vec<_>>()
    };
    assert_eq!(
        found("SELECT v FROM p WHERE id = 5 AND s = 'x' LIMIT 7"),
        (values(&["5", "x"]), Some(values(&["x"])))
    );
    for sql in [
        "SELECT v FROM p WHERE id > 5",
        "SELECT v FROM p WHERE id = -5",
        "SELECT v FROM p WHERE id = 5.5",
        "SELECT v FROM p WHERE id = 99999999999999999999",
        "SELECT v = 5 FROM p",
    ] {
        assert_eq!(found(sql), (Vec::new(), None), "{sql}");
    }
    let text = |sql: &str| shape(sql).unwrap().text().to_owned();
    assert_eq!(
        text("SELECT v FROM p WHERE id = 5"),
        text("SELECT v FROM p WHERE id = 17")
    );
    assert_ne!(
        text("SELECT v FROM p WHERE id = 5"),
        text("SELECT v FROM p WHERE id = '5'")
    );
    assert_ne!(
        text("SELECT v FROM p WHERE id = 5"),
        text("SELECT v FROM p WHERE id = 5 + 1")
    );
}

#[test]
fn two_statements_have_one_shape_only_if_they_differ_in_values() {
    let base = "SELECT a, 'x' FROM t WHERE host IN ('a', 'b') AND time < '2016'";
    let same = [
        "SELECT a, 'x' FROM t WHERE host IN ('c', 'd') AND time < '2017'",
        "SELECT a,'x'\nFROM t /* why */ WHERE host IN ('','?2 ') AND time<'s4:2016'",
    ];
    for sql in same {
        assert_eq!(
            shape(sql).unwrap().text(),
            shape(base).unwrap().text(),
            "{sql}"
        );
    }
    let other = [
        "SELECT a, 'y' FROM t WHERE host IN ('a', 'b') AND time < '2016'",
        "SELECT b, 'x' FROM t WHERE host IN ('a', 'b') AND time < '2016'",
        "SELECT \"a\", 'x' FROM t WHERE host IN ('a', 'b') AND time < '2016'",
        "SELECT a, 'x' FROM t WHERE host IN ('a', 'b') AND time <= '2016'",
        "SELECT a, 'x' FROM t WHERE host IN ('a', 'b', 'c') AND time < '2016'",
        "SELECT a, 'x' FROM t WHERE host IN ('a') AND time < '2016'",
        "SELECT a, 'x' FROM t WHERE host = 'a' AND time < '2016'",
        "SELECT a, 'x' FROM t WHERE host IN ('a', 'b') AND time < timestamp '2016'",
        "SELECT a, 'x' FROM t WHERE host IN ('a', 'b') AND time < '2016' LIMIT 1",
        "SELECT a, 'x' FROM t WHERE host IN ('a', 'b') AND time < '2016' LIMIT 2",
    ];
    let mut shapes: Vec<String> = vec![shape(base).unwrap().text().to_owned()];
    shapes.extend(other.map(|sql| shape(sql).unwrap().text().to_owned()));
    let all = shapes.len();
    shapes.sort();
    shapes.dedup();
    assert_eq!(shapes.len(), all, "{shapes:#?}");
    // From four on the number of values does not matter.
    let long = |values| shape(&format!("SELECT 1 FROM t WHERE host IN ({values})")).unwrap();
    assert_eq!(
        long("'1','2','3','4'").text(),
        long("'1','2','3','4','5'").text()
    );
}
