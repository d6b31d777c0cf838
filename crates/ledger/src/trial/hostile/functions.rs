//! Every function that the server lists, called with arguments from the edges of all types.
//!
//! Each call is answered with rows or with an error that is the caller's: no panic, no broken JSON, no end of the server.
//! What a call answers is not judged here.

use std::collections::BTreeMap;
use std::io;

use super::case::{Case, Seen, Stage, names_a_limit, question};
use crate::batch::read_csv;
use crate::http::Answer;
use crate::random::Random;

/// Cases, so that none takes long.
const PARTS: usize = 12;
/// Calls of each function. Twenty found all that 28,000 calls had found.
const CALLS: u64 = 40;
const ARGUMENTS: [&str; 50] = [
    "NULL",
    "0",
    "1",
    "-1",
    "9223372036854775807",
    "-9223372036854775808",
    "2147483648",
    "-2147483648",
    "100000000",
    "0.0",
    "-0.0",
    "1e308",
    "5e-324",
    "CAST('NaN' AS DOUBLE PRECISION)",
    "CAST('-Infinity' AS DOUBLE PRECISION)",
    "''",
    "'a'",
    "'\u{df}\u{1f600}'",
    "'%'",
    "'('",
    "'2026-01-01'",
    "'day'",
    "'NaN'",
    "'1 second'",
    "'[1,2]'",
    "true",
    "interval '1 day'",
    "interval '-1 month'",
    "interval '100000000 years'",
    "timestamptz '2026-01-01T00:00:00Z'",
    "date '0001-01-01'",
    "time",
    "h",
    "i",
    "v",
    "s",
    "b",
    "y",
    "repeat('\u{df}', 1000)",
    "repeat('a', 1000000)",
    "[1,2,NULL]",
    "[]",
    "[NULL]",
    "array[[1],[2]]",
    "map(['a'],[1])",
    "now()",
    "CAST(1 AS DECIMAL(38,10))",
    "CAST(v AS REAL)",
    "X'00ff'",
    "length(h)",
];
/// A table of five rows; writing them again changes nothing.
const TABLE: [&str; 2] = [
    "CREATE TABLE IF NOT EXISTS edges (time TIMESTAMPTZ NOT NULL, h TEXT TAG, i BIGINT, v DOUBLE PRECISION, s TEXT, b BOOLEAN, y BYTEA)",
    "INSERT INTO edges (time, h, i, v, s, b, y) VALUES \
     ('2026-01-01T00:00:00Z', 'a', 1, 1.5, 'abc', true, X'00ff'), \
     ('2026-01-01T00:00:01Z', NULL, -9223372036854775808, CAST('NaN' AS DOUBLE PRECISION), '', false, NULL), \
     ('2262-04-11T00:00:00Z', '\u{e4}', 9223372036854775807, CAST('-0' AS DOUBLE PRECISION), '\u{df}\u{1f600}', NULL, NULL), \
     ('1677-09-22T00:00:00Z', 'b', NULL, NULL, NULL, NULL, NULL), \
     ('2026-01-01T00:00:02Z', 'b', 0, CAST('-Infinity' AS DOUBLE PRECISION), '%', true, NULL)",
];

/// A function: how it is called, and with how many arguments.
#[derive(Debug, Clone, Default)]
struct Function {
    kind: String,
    arities: Vec<usize>,
}

pub(super) fn cases(seed: u64) -> Vec<Case> {
    let part = |part: usize| {
        let name = format!("{CALLS} calls of each, part {part} of {PARTS}");
        Case::new("functions", name, &[200], move |stage: &Stage| {
            call_all(stage, part, Random::of(&[seed, 0xf0c5, part as u64]))
        })
    };
    (0..PARTS).map(part).collect()
}

fn call_all(stage: &Stage, part: usize, mut random: Random) -> io::Result<Seen> {
    for statement in TABLE {
        stage.demand(statement, "csv")?;
    }
    for (at, (name, function)) in functions(stage)?.iter().enumerate() {
        if at % PARTS != part {
            continue;
        }
        for _ in 0..CALLS {
            let statement = call(name, function, &mut random);
            let head = "Content-Type: application/json\r\n";
            let seen = stage.post("/api/v3/query_sql", head, &question(&statement, "json"))?;
            let what = match &seen {
                Seen::Answer(answer) if is_fine(answer) => continue,
                Seen::Answer(answer) => format!("{}: {:.200}", answer.status, answer.text()),
                other => format!("{other:?}"),
            };
            // A status that no case allows, so that the statement is in the story.
            return Ok(Seen::Answer(Answer {
                status: 500,
                head: String::new(),
                body: format!("{statement:.200}: {what}").into_bytes(),
            }));
        }
    }
    Ok(Seen::Answer(Answer {
        status: 200,
        head: String::new(),
        body: Vec::new(),
    }))
}

fn is_fine(answer: &Answer) -> bool {
    match answer.status {
        200 => serde_json::from_slice::<serde_json::Value>(&answer.body).is_ok(),
        400..500 => true,
        503 | 504 => names_a_limit(&answer.text()),
        _ => false,
    }
}

/// What the server lists: a line for each way to call one.
fn functions(stage: &Stage) -> io::Result<BTreeMap<String, Function>> {
    let body = stage.demand("SHOW FUNCTIONS", "csv")?;
    let records = read_csv(&String::from_utf8_lossy(&body));
    let mut functions: BTreeMap<String, Function> = BTreeMap::new();
    let mut rows = records.iter();
    let head = rows.next().cloned().unwrap_or_default();
    let column = |name: &str| head.iter().position(|found| found == name);
    let (name, kind) = (column("function_name"), column("function_type"));
    let parameters = column("parameters");
    for cells in rows {
        let cell = |at: Option<usize>| at.and_then(|at| cells.get(at)).map(String::as_str);
        let function = functions
            .entry(cell(name).unwrap_or_default().to_owned())
            .or_default();
        cell(kind)
            .unwrap_or_default()
            .clone_into(&mut function.kind);
        let listed = cell(parameters).unwrap_or_default();
        // A list as text: `[start, end]`.
        let names = listed.trim_matches(['[', ']']).split(',');
        let arity = names.filter(|name| !name.trim().is_empty()).count();
        function.arities.push(arity);
    }
    if functions.len() < 50 {
        return Err(io::Error::other(format!(
            "{} functions are listed",
            functions.len()
        )));
    }
    Ok(functions)
}

/// A statement with one call.
fn call(name: &str, function: &Function, random: &mut Random) -> String {
    let arity = if random.one_in(4) {
        random.index(5)
    } else {
        *random.pick(&function.arities)
    };
    let arguments: Vec<&str> = (0..arity).map(|_| *random.pick(&ARGUMENTS)).collect();
    let arguments = arguments.join(", ");
    let call = format!("{name}({arguments})");
    let window = *random.pick(&[
        "",
        "ORDER BY time",
        "PARTITION BY h ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
        "PARTITION BY v",
    ]);
    match (function.kind.as_str(), random.below(6)) {
        ("TABLE", _) => format!("SELECT * FROM {call} LIMIT 5"),
        ("WINDOW", _) | ("AGGREGATE", 0) => format!("SELECT {call} OVER ({window}) FROM edges"),
        ("AGGREGATE", 1) => format!("SELECT h, {call} FROM edges GROUP BY h"),
        ("AGGREGATE", 2) => format!("SELECT {call} FILTER (WHERE b) FROM edges"),
        ("AGGREGATE", 3) => {
            let by = random.pick(&["v", "i", "s", "time"]);
            format!("SELECT {call} WITHIN GROUP (ORDER BY {by}) FROM edges")
        }
        ("AGGREGATE", 4) => format!("SELECT {name}(DISTINCT {arguments}) FROM edges"),
        (_, 4) => format!("SELECT i FROM edges WHERE {call} IS NOT NULL"),
        (_, 5) => format!("SELECT {call}"),
        _ => format!("SELECT {call} FROM edges"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_json_and_an_error_of_the_server_are_not_fine() {
        let answer = |status, body: &str| Answer {
            status,
            head: String::new(),
            body: body.as_bytes().to_vec(),
        };
        assert!(is_fine(&answer(200, "[{\"a\":null}]")));
        assert!(!is_fine(&answer(200, "[{\"a\":}]")));
        assert!(is_fine(&answer(400, "{\"error\":\"no\"}")));
        assert!(!is_fine(&answer(500, "{\"error\":\"no\"}")));
        assert!(!is_fine(&answer(503, "{\"error\":\"no\"}")));
        assert!(is_fine(&answer(503, "see query-memory-bytes-max")));
    }

    #[test]
    fn calls_follow_from_the_seed() {
        let function = Function {
            kind: "SCALAR".to_owned(),
            arities: vec![1, 2],
        };
        let row = |seed| {
            let mut random = Random::of(&[seed]);
            [(); 5].map(|()| call("abs", &function, &mut random))
        };
        assert_eq!(row(1), row(1));
        assert_ne!(row(1), row(2));
    }
}
