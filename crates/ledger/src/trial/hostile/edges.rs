//! SQL at the edge of what there is: limits, buckets of time, arithmetic, and the values of placeholders.

use super::case::{Case, DB, Stage, json_text};
use super::statements::{MIB, REFUSED_OR_RIGHT, nested, sql};

/// All of them. `rows` is what the large table has.
pub(super) fn cases(rows: u64) -> Vec<Case> {
    let mut cases = Vec::new();
    edges(&mut cases, rows);
    parameters(&mut cases);
    cases
}

/// Numbers, times and clauses at the edge of what there is.
#[expect(clippy::too_many_lines, reason = "a flat list of cases")]
fn edges(cases: &mut Vec<Case>, rows: u64) {
    let mut case = |family, statement: &str, right: &str| {
        let text = statement.to_owned();
        cases.push(sql(family, statement, REFUSED_OR_RIGHT, move || text.clone()).right(right));
    };
    let (limits, buckets, arithmetic) = (
        "LIMIT and OFFSET",
        "buckets of time",
        "arithmetic at the edge",
    );
    let all = rows.to_string();
    for n in [
        "9223372036854775807",
        "18446744073709551615",
        "1e30",
        "-1",
        "99999999999999999999999999",
        "NULL",
        "(SELECT 1)",
        "'a'",
    ] {
        case(
            limits,
            &format!("SELECT count(*) AS n FROM (SELECT n FROM big LIMIT {n}) AS t"),
            "",
        );
        case(
            limits,
            &format!("SELECT count(*) AS n FROM (SELECT n FROM big OFFSET {n}) AS t"),
            "",
        );
        case(
            limits,
            &format!("SELECT n FROM big ORDER BY v LIMIT {n} OFFSET {n}"),
            "",
        );
    }
    case(
        limits,
        "SELECT count(*) AS n FROM (SELECT n FROM big OFFSET 0 LIMIT 9223372036854775807) AS t",
        &all,
    );
    for (step, from, to) in [
        ("1 nanosecond", "1970-01-01", "2030-01-01"),
        ("1 microsecond", "2020-01-01", "2030-01-01"),
        ("1 day", "1700-01-01", "2200-01-01"),
        ("0 seconds", "2020-01-01", "2020-01-02"),
        ("-1 hours", "2020-01-01", "2020-01-02"),
        ("292 years", "1700-01-01", "2200-01-01"),
        ("9999999999 years", "1700-01-01", "2200-01-01"),
    ] {
        case(
            buckets,
            &format!(
                "SELECT count(*) FROM (SELECT time_bucket_gapfill('{step}', time) AS t, avg(v) FROM big WHERE time >= '{from}' AND time < '{to}' GROUP BY t) AS g"
            ),
            "",
        );
        case(
            buckets,
            &format!(
                "SELECT count(*) FROM (SELECT time_bucket(INTERVAL '{step}', time) AS t FROM big) AS g"
            ),
            "",
        );
    }
    for expression in [
        "9223372036854775807 + 1",
        "-9223372036854775808 - 1",
        "-9223372036854775808 / -1",
        "-9223372036854775808 % -1",
        "9223372036854775807 * 9223372036854775807",
        "abs(-9223372036854775808)",
        "1 / 0",
        "1.0 / 0",
        "1 % 0",
        "power(10, 1000000)",
        "exp(1e308)",
        "factorial(1000000)",
        "chr(-1)",
        "chr(1114112)",
        "chr(55296)",
        "substr('abc', -9223372036854775808, 9223372036854775807)",
        "split_part('a,b', ',', -9223372036854775808)",
        "left('abc', -9223372036854775808)",
        "right('abc', -9223372036854775808)",
        "date_trunc('second', '0001-01-01'::timestamp)",
        "date_trunc('century', '9999-12-31'::timestamp)",
        "'9999-12-31'::timestamp + INTERVAL '9999 years'",
        "'262144-01-01'::timestamp",
        "now() + INTERVAL '9223372036854775807 months'",
        "to_timestamp(9223372036854775807)",
        "to_timestamp(1e300)",
        "make_date(2147483647, 12, 31)",
        "CAST(1e300 AS BIGINT)",
        "CAST('NaN'::double AS BIGINT)",
        "9223372036854775808",
        "1e999",
        "round(1.5, 2147483647)",
        "[1,2,3][9223372036854775807]",
        "array_slice([1,2,3], -9223372036854775808, 9223372036854775807)",
        "lcm(9223372036854775807, 9223372036854775806)",
        "gcd(-9223372036854775808, -9223372036854775808)",
        "1 << 64",
        "1 << -1",
        "-9223372036854775808 >> 9223372036854775807",
        "'\\xZZ'::bytea",
        "decode('zz', 'hex')",
        "arrow_cast(1, 'Decimal128(200, 100)')",
        "arrow_cast(1, 'List(List(List(List(Int8))))')",
        "arrow_cast(1, 'Nonsense(')",
        "CAST(1 AS DECIMAL(76, 76)) * CAST(1 AS DECIMAL(76, 76))",
    ] {
        case(arithmetic, &format!("SELECT {expression} AS x"), "");
        case(
            arithmetic,
            &format!("SELECT {expression} AS x FROM big LIMIT 1"),
            "",
        );
    }
}

#[expect(clippy::too_many_lines, reason = "a flat list of cases")]
fn parameters(cases: &mut Vec<Case>) {
    let mut post = |name: &str, statuses: &[u16], right: &str, make: Box<dyn Fn() -> String>| {
        let case = Case::new("parameters", name, statuses, move |stage: &Stage| {
            stage.post(
                "/api/v3/query_sql",
                "Content-Type: application/json\r\n",
                make().as_bytes(),
            )
        });
        cases.push(case.right(right));
    };
    let with = |statement: &str, params: String| {
        format!(
            "{{\"db\":\"{DB}\",\"q\":{},\"params\":{params}}}",
            json_text(statement)
        )
    };
    for depth in [100, 100_000, 5_000_000] {
        post(
            &format!("an array {depth} deep"),
            // The longest are longer than any question.
            &[400, 413],
            "",
            Box::new(move || with("SELECT $1", nested("[", "1", "]", depth))),
        );
        post(
            &format!("an object {depth} deep"),
            &[400, 413],
            "",
            Box::new(move || with("SELECT $a", nested("{\"a\":", "1", "}", depth))),
        );
        post(
            &format!("a body of {depth} brackets"),
            &[400, 413],
            "",
            Box::new(move || "[".repeat(depth)),
        );
    }
    post(
        "a number beyond every float",
        &[400],
        "",
        Box::new(move || with("SELECT $1", "[1e999]".to_owned())),
    );
    post(
        "a number of 10,000 digits",
        &[200, 400],
        "",
        Box::new(move || with("SELECT $1", format!("[{}]", "7".repeat(10_000)))),
    );
    post(
        "a lone surrogate",
        &[400],
        "",
        Box::new(move || with("SELECT $1", "[\"\\ud800\"]".to_owned())),
    );
    post(
        "a text of 32 MiB",
        &[200, 400, 413, 503],
        "33554432",
        Box::new(move || {
            with(
                "SELECT length($1) AS n",
                format!("[\"{}\"]", "x".repeat(32 * MIB)),
            )
        }),
    );
    post(
        "100,000 values",
        &[200, 400, 413],
        "",
        Box::new(move || with("SELECT $1", format!("[{}1]", "1,".repeat(100_000)))),
    );
    post(
        "a placeholder of a huge number",
        &[400],
        "",
        Box::new(move || with("SELECT $99999999999999999999", "[1]".to_owned())),
    );
    post(
        "a placeholder 0",
        &[400],
        "",
        Box::new(move || with("SELECT $0", "[1]".to_owned())),
    );
    for (name, params) in [
        ("a text", "\"a\""),
        ("a number", "1"),
        ("true", "true"),
        ("values in values", "[[1],{\"a\":2}]"),
        ("an empty name", "{\"\":1}"),
        ("too few", "[]"),
        ("another name", "{\"b\":1}"),
    ] {
        post(
            &format!("{name} for parameters"),
            &[400],
            "",
            Box::new(move || with("SELECT $1", params.to_owned())),
        );
    }
    for (name, value) in [
        ("a text for a number", "\"x\""),
        ("true for a number", "true"),
        ("a text of 1 MiB of digits", ""),
    ] {
        let value = if value.is_empty() {
            format!("\"{}\"", "7".repeat(MIB))
        } else {
            value.to_owned()
        };
        post(
            name,
            &[200, 400, 413],
            "",
            Box::new(move || {
                with(
                    "SELECT n FROM big WHERE n = $1 LIMIT 1",
                    format!("[{value}]"),
                )
            }),
        );
    }
    for (name, body) in [
        ("a body of no JSON", &b"\xff\xfe{}"[..]),
        (
            "broken UTF-8 in a statement",
            b"{\"db\":\"hostile\",\"q\":\"SELECT '\xff'\"}",
        ),
        (
            "a member twice",
            b"{\"db\":\"a\",\"db\":\"b\",\"q\":\"SELECT 1\"}",
        ),
        (
            "a statement that is a number",
            b"{\"db\":\"hostile\",\"q\":1}",
        ),
        (
            "a NUL after the end",
            b"{\"db\":\"hostile\",\"q\":\"SELECT 1\"}\0",
        ),
    ] {
        let body = body.to_vec();
        cases.push(Case::new(
            "parameters",
            name,
            &[400],
            move |stage: &Stage| {
                stage.post(
                    "/api/v3/query_sql",
                    "Content-Type: application/json\r\n",
                    &body,
                )
            },
        ));
    }
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    cases.push(Case::new(
        "parameters",
        "a form of 8 MiB of signs",
        &[400, 413],
        move |stage: &Stage| {
            stage.post(
                "/api/v3/query_sql",
                form,
                "&=%".repeat(8 * MIB / 3).as_bytes(),
            )
        },
    ));
}
