//! Hostile SQL: nesting, length, and statements that ask for more memory or time than there is.

use super::case::{Case, Stage};

pub(super) const MIB: usize = 1 << 20;
/// An error, or the limit that was met.
const REFUSED: &[u16] = &[400, 413, 503, 504];

/// All of them. `rows` is what the large table has; its `n` counts from 0.
pub(super) fn cases(rows: u64) -> Vec<Case> {
    let mut cases = Vec::new();
    nesting(&mut cases);
    length(&mut cases, rows);
    heavy(&mut cases, rows);
    bombs(&mut cases, rows);
    cases
}

pub(super) fn sql(
    family: &'static str,
    name: impl Into<String>,
    statuses: &[u16],
    make: impl Fn() -> String + 'static,
) -> Case {
    Case::new(family, name, statuses, move |stage: &Stage| {
        stage.sql(&make())
    })
}

/// `before` so many times, `core`, and `after` as often.
pub(super) fn nested(before: &str, core: &str, after: &str, depth: usize) -> String {
    [&before.repeat(depth), core, &after.repeat(depth)].concat()
}

#[expect(clippy::too_many_lines, reason = "a flat list of cases")]
fn nesting(cases: &mut Vec<Case>) {
    // Before, core, after, and what it is if it is taken.
    let shapes: [(&str, &str, &str, &str, &str); 14] = [
        ("parentheses", "(", "SELECT @ AS n", ")", "1"),
        ("NOT", "NOT ", "SELECT @ AS n", "", ""),
        ("minus", "- ", "SELECT @ AS n", "", "1"),
        ("subqueries", "(SELECT ", "SELECT @ AS n", ")", "1"),
        (
            "subqueries in FROM",
            "(SELECT * FROM ",
            "SELECT * FROM @",
            ") AS t",
            "",
        ),
        (
            "CASE",
            "CASE WHEN true THEN ",
            "SELECT @ AS n",
            " ELSE 0 END",
            "1",
        ),
        ("functions", "abs(", "SELECT @ AS n", ")", "1"),
        ("arrays", "[", "SELECT @ AS n", "]", ""),
        ("casts", "CAST(", "SELECT @ AS n", " AS BIGINT)", "1"),
        ("EXISTS", "EXISTS(SELECT 1 WHERE ", "SELECT @ AS n", ")", ""),
        ("EXPLAIN", "EXPLAIN ", "@ SELECT 1", "", ""),
        ("comments", "/*", "SELECT 1 AS n @", "*/", "1"),
        ("IN", "1 IN (SELECT ", "SELECT @ AS n", ")", ""),
        (
            "LATERAL",
            "(SELECT * FROM LATERAL ",
            "SELECT * FROM @",
            ") AS t",
            "",
        ),
    ];
    for (name, before, frame, after, right) in shapes {
        for depth in [30, 300, 3000, 100_000] {
            let core = match name {
                "NOT" | "EXISTS" => "true",
                "subqueries in FROM" | "LATERAL" => "(SELECT 1 AS n) AS t",
                "EXPLAIN" | "comments" => "",
                _ => "1",
            };
            let case = sql(
                "nesting",
                format!("{depth} {name}"),
                &[200, 400, 413, 504],
                move || frame.replace('@', &nested(before, core, after, depth)),
            );
            cases.push(case.right(right));
        }
    }
    for depth in [100, 3000, 100_000] {
        for (name, unit, first) in [
            ("unions", " UNION ALL SELECT 1", "SELECT 1 AS n"),
            ("ANDs", " AND true", "SELECT true"),
            ("sums", "+1", "SELECT 1"),
            ("concatenations", "||'a'", "SELECT 'a'"),
            ("casts with colons", "::bigint", "SELECT 1"),
            (
                "ORs over a table",
                " OR n = 1",
                "SELECT count(*) FROM big WHERE n = 0",
            ),
            (
                "JOINs",
                " JOIN big AS b USING (n)",
                "SELECT 1 FROM big AS a",
            ),
            ("commas in FROM", ", big", "SELECT 1 FROM big"),
            ("statements", "; SELECT 1", "SELECT 1"),
            ("semicolons", ";", "SELECT 1"),
        ] {
            cases.push(sql(
                "chains",
                format!("{depth} {name}"),
                &[200, 400, 413, 503, 504],
                move || [first, &unit.repeat(depth)].concat(),
            ));
        }
        cases.push(sql(
            "chains",
            format!("{depth} JOINs with names"),
            &[200, 400, 413, 503, 504],
            move || {
                let joins: Vec<String> = (0..depth)
                    .map(|n| format!(" JOIN big b{n} ON b{n}.n=a.n"))
                    .collect();
                format!("SELECT count(*) FROM big a{} WHERE a.n = 1", joins.concat())
            },
        ));
        cases.push(sql(
            "chains",
            format!("{depth} WITH"),
            &[200, 400, 413, 503, 504],
            move || {
                let with: Vec<String> = (1..depth)
                    .map(|n| format!(", t{n} AS (SELECT * FROM t{})", n - 1))
                    .collect();
                format!(
                    "WITH t0 AS (SELECT 1 AS n){} SELECT * FROM t{}",
                    with.concat(),
                    depth - 1
                )
            },
        ));
        cases.push(sql(
            "chains",
            format!("{depth} doublings by WITH"),
            REFUSED_OR_RIGHT,
            move || {
                let with: Vec<String> = (1..depth)
                    .map(|n| format!(", t{n} AS (SELECT a.n FROM t{0} a, t{0} b)", n - 1))
                    .collect();
                format!(
                    "WITH t0 AS (SELECT 1 AS n UNION ALL SELECT 2){} SELECT count(*) FROM t{}",
                    with.concat(),
                    depth - 1
                )
            },
        ));
    }
}

pub(super) const REFUSED_OR_RIGHT: &[u16] = &[200, 400, 413, 503, 504];

fn length(cases: &mut Vec<Case>, rows: u64) {
    const FAMILY: &str = "long statements";
    for mib in [2, 16, 200] {
        let case = sql(
            FAMILY,
            format!("{mib} MiB of spaces"),
            &[413, 503],
            move || format!("SELECT 1{}", " ".repeat(mib * MIB)),
        );
        cases.push(case);
    }
    for items in [1000, 100_000, 1_000_000] {
        cases.push(
            sql(
                FAMILY,
                format!("IN a list of {items}"),
                REFUSED_OR_RIGHT,
                move || {
                    let list: Vec<String> = (0..items).map(|n| n.to_string()).collect();
                    format!(
                        "SELECT count(*) AS n FROM big WHERE n IN ({})",
                        list.join(",")
                    )
                },
            )
            .right(rows.min(items).to_string()),
        );
        cases.push(sql(
            FAMILY,
            format!("{items} columns"),
            REFUSED_OR_RIGHT,
            move || {
                let list: Vec<String> = (0..items).map(|n| format!("n+{n}")).collect();
                format!("SELECT {} FROM big LIMIT 1", list.join(","))
            },
        ));
        cases.push(sql(
            FAMILY,
            format!("{items} rows of VALUES"),
            REFUSED_OR_RIGHT,
            move || {
                let list: Vec<String> = (0..items).map(|n| format!("({n})")).collect();
                format!("SELECT count(*) FROM (VALUES {}) AS t", list.join(","))
            },
        ));
        cases.push(sql(
            FAMILY,
            format!("GROUP BY {items} columns"),
            REFUSED_OR_RIGHT,
            move || {
                let list: Vec<String> = (0..items).map(|n| format!("n % {}", n + 2)).collect();
                format!("SELECT count(*) FROM big GROUP BY {}", list.join(","))
            },
        ));
        cases.push(sql(
            FAMILY,
            format!("ORDER BY {items} columns"),
            REFUSED_OR_RIGHT,
            move || {
                let list: Vec<String> = (0..items).map(|n| format!("n % {}", n + 2)).collect();
                format!("SELECT n FROM big ORDER BY {} LIMIT 1", list.join(","))
            },
        ));
    }
    for (name, before, after) in [
        ("a name", "SELECT \"", "\" FROM big"),
        ("a name without its end", "SELECT \"", ""),
        ("a text without its end", "SELECT '", ""),
        ("a comment without its end", "SELECT 1 /*", ""),
        ("a number", "SELECT 1", ""),
        ("a text between dollars without its end", "SELECT $a$", ""),
    ] {
        let unit = if name == "a number" { "7" } else { "x" };
        cases.push(sql(
            FAMILY,
            format!("{name} of 1,000,000 bytes"),
            REFUSED_OR_RIGHT,
            move || format!("{before}{}{after}", unit.repeat(1_000_000)),
        ));
    }
    cases.push(sql(FAMILY, "CUBE of 40 columns", REFUSED, || {
        let list: Vec<String> = (2..42).map(|n| format!("n % {n}")).collect();
        format!(
            "SELECT count(*) FROM big GROUP BY CUBE ({})",
            list.join(",")
        )
    }));
    cases.push(sql(FAMILY, "a NUL", &[200, 400], || {
        "SELECT '\0' AS n, \0".to_owned()
    }));
}

/// More rows than there is time for, or than memory.
#[expect(clippy::too_many_lines, reason = "a flat list of cases")]
fn heavy(cases: &mut Vec<Case>, rows: u64) {
    const FAMILY: &str = "heavy queries";
    let last = rows - 1;
    let mut case = |name: &str, statuses: &[u16], right: String, statement: String| {
        cases.push(sql(FAMILY, name, statuses, move || statement.clone()).right(right));
    };
    let half = rows.min(200_000);
    case(
        "a cross join that is counted",
        REFUSED_OR_RIGHT,
        (rows * rows).to_string(),
        "SELECT count(*) FROM big a, big b".to_owned(),
    );
    case(
        "a cross join that is summed",
        REFUSED,
        String::new(),
        "SELECT sum(a.v * b.v) FROM big a, big b".to_owned(),
    );
    case(
        "a cross join that is sorted",
        REFUSED,
        String::new(),
        "SELECT a.n FROM big a, big b ORDER BY a.v * b.v LIMIT 1".to_owned(),
    );
    case(
        "a cross join of three",
        REFUSED,
        String::new(),
        "SELECT sum(a.n + b.n + c.n) FROM big a, big b, big c".to_owned(),
    );
    case(
        "a join whose condition nothing meets",
        REFUSED_OR_RIGHT,
        "\n0".to_owned(),
        format!(
            "SELECT count(*) AS n FROM (SELECT n FROM big WHERE n < {half}) a JOIN (SELECT n FROM big WHERE n < {half}) b ON a.n + b.n < -1"
        ),
    );
    case(
        "a join by an inequality",
        REFUSED,
        String::new(),
        "SELECT sum(a.n) FROM big a JOIN big b ON a.v < b.v".to_owned(),
    );
    case(
        "a join with itself on one value",
        REFUSED,
        String::new(),
        "SELECT sum(a.n + b.n) FROM big a JOIN big b ON a.n % 2 = b.n % 2".to_owned(),
    );
    case(
        "all rows sorted",
        REFUSED_OR_RIGHT,
        last.to_string(),
        format!("SELECT n FROM big ORDER BY v * -1.0 DESC, host OFFSET {last}"),
    );
    case(
        "all rows sorted by a long text",
        REFUSED,
        String::new(),
        format!("SELECT n FROM big ORDER BY repeat(host || n::text, 500) OFFSET {last}"),
    );
    case(
        "a group for every row",
        REFUSED_OR_RIGHT,
        rows.to_string(),
        "SELECT count(*) FROM (SELECT n, max(v) FROM big GROUP BY n) AS t".to_owned(),
    );
    case(
        "a group of text for every row",
        REFUSED,
        String::new(),
        "SELECT count(*) FROM (SELECT repeat(n::text, 300) AS k, max(v) FROM big GROUP BY k) AS t"
            .to_owned(),
    );
    case(
        "distinct rows",
        REFUSED_OR_RIGHT,
        // Three rows have each value.
        rows.div_ceil(3).to_string(),
        "SELECT count(DISTINCT v) FROM big".to_owned(),
    );
    case(
        "an array of everything",
        REFUSED_OR_RIGHT,
        rows.to_string(),
        "SELECT array_length(array_agg(n)) FROM big".to_owned(),
    );
    case(
        "a text of everything",
        REFUSED_OR_RIGHT,
        String::new(),
        "SELECT length(string_agg(repeat(host, 100), ',')) FROM big".to_owned(),
    );
    case(
        "a median of everything",
        REFUSED_OR_RIGHT,
        String::new(),
        "SELECT median(v) FROM big".to_owned(),
    );
    case(
        "a window over everything",
        REFUSED_OR_RIGHT,
        String::new(),
        "SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY v * -1.0) AS r FROM big) AS t"
            .to_owned(),
    );
    case("a window of all rows for each row", REFUSED, String::new(), "SELECT sum(r) FROM (SELECT array_agg(n) OVER (ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS a, n AS r FROM big) AS t WHERE array_length(a) < 0".to_owned());
    case(
        "a window of all rows, written at each",
        REFUSED,
        String::new(),
        "SELECT count(*) FROM (SELECT array_agg(n) OVER () AS a FROM big) AS t WHERE array_length(a) < 0".to_owned(),
    );
    case(
        "a union of twenty sorts",
        REFUSED_OR_RIGHT,
        String::new(),
        {
            let parts = vec!["(SELECT n, v, host FROM big)"; 20].join(" UNION ");
            format!("SELECT count(*) FROM ({parts}) AS t")
        },
    );
    case(
        "a recursion without end",
        REFUSED,
        String::new(),
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"
            .to_owned(),
    );
    case(
        "a recursion that doubles",
        REFUSED,
        String::new(),
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT r.n FROM r, (VALUES (1), (2)) AS two) SELECT count(*) FROM r".to_owned(),
    );
    case(
        "a subquery for each row",
        REFUSED_OR_RIGHT,
        String::new(),
        "SELECT count(*) FROM big a WHERE v < (SELECT avg(v) FROM big b WHERE b.n > a.n)"
            .to_owned(),
    );
}

/// Short texts that ask one function for very much.
#[expect(clippy::too_many_lines, reason = "a flat list of cases")]
fn bombs(cases: &mut Vec<Case>, rows: u64) {
    let mut case = |family, statement: &str, statuses: &[u16], right: &str| {
        let text = statement.to_owned();
        cases.push(sql(family, statement, statuses, move || text.clone()).right(right));
    };
    let (ranges, texts, patterns) = ("endless ranges", "texts of gigabytes", "hostile patterns");
    for to in ["1000000000000", "9223372036854775807"] {
        case(
            ranges,
            &format!("SELECT count(*) FROM generate_series(1, {to})"),
            REFUSED,
            "",
        );
        case(
            ranges,
            &format!("SELECT array_length(generate_series(1, {to}))"),
            REFUSED,
            "",
        );
        case(
            ranges,
            &format!("SELECT array_length(range(1, {to}))"),
            REFUSED,
            "",
        );
        case(
            ranges,
            &format!("SELECT array_length(array_repeat(1, {to}))"),
            REFUSED,
            "",
        );
        case(
            ranges,
            &format!("SELECT array_length(array_resize([1], {to}))"),
            REFUSED,
            "",
        );
        case(
            ranges,
            &format!("SELECT count(*) FROM (SELECT unnest(range(1, {to}))) AS t"),
            REFUSED,
            "",
        );
        case(
            ranges,
            &format!("SELECT length(repeat('x', {to}))"),
            REFUSED,
            "",
        );
        case(
            ranges,
            &format!("SELECT length(lpad('x', {to}, 'y'))"),
            REFUSED,
            "",
        );
    }
    case(
        ranges,
        "SELECT * FROM generate_series(1, 9, 0)",
        REFUSED_OR_RIGHT,
        "",
    );
    case(
        ranges,
        "SELECT count(*) FROM generate_series(TIMESTAMP '1700-01-01', TIMESTAMP '2200-01-01', INTERVAL '1' MICROSECOND)",
        REFUSED,
        "",
    );
    for statement in [
        "SELECT length(repeat('x', 1000000000))",
        "SELECT length(repeat(repeat('x', 100000), 100000))",
        "SELECT length(lpad('x', 2000000000))",
        "SELECT length(rpad('x', 2000000000, 'yz'))",
        "SELECT length(replace(repeat('x', 1000000), 'x', repeat('y', 100000)))",
        "SELECT length(regexp_replace(repeat('x', 1000000), 'x', repeat('y', 100000), 'g'))",
        "SELECT length(translate(repeat('x', 100000000), 'x', 'y'))",
        "SELECT length(concat(repeat('x', 500000000), repeat('y', 500000000)))",
        "SELECT length(array_to_string(array_repeat(repeat('x', 1000000), 100000), ','))",
        "SELECT length(to_hex(1) || repeat('0', 1500000000))",
        "SELECT levenshtein(repeat('a', 200000), repeat('b', 200000))",
        "SELECT sum(length(repeat('x', 1000000))) FROM big",
        "SELECT max(repeat(host, 100000)) FROM big",
        "SELECT array_length(string_to_array(repeat('a,', 50000000), ','))",
        "SELECT repeat('x', 1000000) AS t FROM big WHERE n < 5",
        "SELECT length(string_agg(host, repeat('x', 1000000))) FROM big",
        "SELECT length(array_to_string(range(1000), repeat('x', 3000000)))",
        "SELECT array_length(array_replace_all(array_repeat('a', 1000), 'a', repeat('x', 3000000)))",
        "SELECT array_length(string_to_array(repeat(',', 33000000), ','))",
        "SELECT length(to_char(timestamp '2026-01-01', repeat('%c', 15000000)))",
        "SELECT length(regexp_replace(repeat('x', 1000000), '(.*)', repeat('\\1', 1000)))",
        "SELECT array_has_all(range(1000000), range(1000000))",
        "SELECT array_length(array_except(range(4000000), range(4000000)))",
    ] {
        case(texts, statement, REFUSED_OR_RIGHT, "");
    }
    for pattern in [
        "(a+)+$",
        "(a|a)*$",
        "(a*)*b",
        "(.*)*x(.*)*y(.*)*z",
        "((((a{100}){100}){100}){100})",
        "a{1000000000}",
        "(.{1000}){1000}",
        "(?:a?){1000}a{1000}",
        r"\\p{L}{5000}",
        r"[\\w--\\d&&[^a-z]]{9999}",
        "(((((((((((((((((((((((((((((((((x",
        "(?i)(?s)(?x)(?u)(?-u)",
    ] {
        case(
            patterns,
            &format!("SELECT count(*) AS n FROM big WHERE host ~ '{pattern}'"),
            REFUSED_OR_RIGHT,
            "",
        );
        case(
            patterns,
            &format!("SELECT regexp_replace(repeat('a', 30000), '{pattern}', 'b', 'g') IS NULL"),
            REFUSED_OR_RIGHT,
            "",
        );
    }
    let deep = "(".repeat(10_000) + &")".repeat(10_000);
    case(
        patterns,
        &format!("SELECT 'a' ~ '{deep}'"),
        REFUSED_OR_RIGHT,
        "",
    );
    let percents = "%a".repeat(3000);
    case(
        patterns,
        &format!("SELECT repeat('a', 100000) LIKE '{percents}b'"),
        REFUSED_OR_RIGHT,
        "",
    );
    case(
        patterns,
        &format!("SELECT count(*) AS n FROM big WHERE host LIKE '{percents}b'"),
        REFUSED_OR_RIGHT,
        "\n0",
    );
    let many = (0..5000)
        .map(|n| format!("x{n}"))
        .collect::<Vec<_>>()
        .join("|");
    case(
        patterns,
        &format!("SELECT count(*) AS n FROM big WHERE host ~ '^({many})$'"),
        REFUSED_OR_RIGHT,
        "\n0",
    );
    case(
        patterns,
        "SELECT count(*) AS n FROM big WHERE host ~ ''",
        REFUSED_OR_RIGHT,
        &rows.to_string(),
    );
    for (name, before, part, between, after) in [
        (
            "texts side by side",
            "length(",
            "repeat('x', 30000000)",
            " || ",
            ")",
        ),
        (
            "texts in a call",
            "length(concat(",
            "repeat('x', 30000000)",
            ", ",
            "))",
        ),
        (
            "arrays in an array",
            "array_length([",
            "range(4000000)",
            ", ",
            "])",
        ),
        (
            "arrays side by side",
            "array_length(",
            "range(4000000)",
            " || ",
            ")",
        ),
    ] {
        let all = vec![part; 40].join(between);
        cases.push(sql(texts, format!("40 {name}"), REFUSED, move || {
            format!("SELECT {before}{all}{after}")
        }));
    }
    cases.push(sql(texts, "a text doubled sixteen times", REFUSED, || {
        let doubled = nested(
            "SELECT a || a AS a FROM (",
            "SELECT host AS a FROM big",
            ") q",
            16,
        );
        format!("SELECT max(length(a)) FROM ({doubled}) q")
    }));
}
