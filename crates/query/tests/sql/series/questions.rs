//! Statements of the forms that are recognised, and some that nearly are.

use std::fmt::Write;

use super::data::{Dice, NUMBERED_RACKS, SECOND, START, World};

/// A statement, twice with other values.
pub(super) struct Question {
    pub(super) statements: [String; 2],
    /// The order of the rows is said in full.
    pub(super) is_ordered: bool,
    /// Its floats may be sums.
    pub(super) is_grouped: bool,
    /// How much they may be off.
    pub(super) off: f64,
}

/// A statement with places for values.
struct Form {
    text: String,
    is_ordered: bool,
    is_grouped: bool,
}

pub(super) fn question(dice: &mut Dice, world: &World) -> Question {
    let table = match dice.below(12) {
        0..6 => "merged",
        6..8 => "kept",
        8..11 => "replaced",
        _ => "bare",
    };
    let form = match dice.below(18) {
        13 | 14 if world.is_declared => declared(dice, table),
        15..18 => calculated(dice, if table == "kept" { "merged" } else { table }),
        0..5 => groups(dice, table),
        5..8 => rows(dice, table),
        8 | 9 => ends(dice, if table == "kept" { "merged" } else { table }),
        10 | 11 => nested(dice, if table == "kept" { "merged" } else { table }),
        _ => around(dice, table, world),
    };
    let statements = [
        filled(&form.text, dice, world),
        filled(&form.text, dice, world),
    ];
    // 1e-12 of the largest sums of magnitudes that there can be.
    let off = if world.has_extremes { 1e8 } else { 1e-7 };
    Question {
        statements,
        is_ordered: form.is_ordered,
        is_grouped: form.is_grouped,
        off,
    }
}

/// Values in the places: of times, hosts, racks.
fn filled(form: &str, dice: &mut Dice, world: &World) -> String {
    let mut text = String::new();
    for part in form.split_inclusive(['\u{1}', '\u{2}', '\u{3}']) {
        let Some(place) = part.chars().last().filter(char::is_ascii_control) else {
            text.push_str(part);
            continue;
        };
        text.push_str(&part[..part.len() - 1]);
        match place {
            '\u{1}' => text.push_str(&time(dice)),
            '\u{2}' => text.push_str(dice.one(&["a", "b", "ab", "host c", "nobody"])),
            _ if world.is_declared => text.push_str(dice.one(&NUMBERED_RACKS)),
            _ => text.push_str(dice.one(&["-3", "7", "x''y"])),
        }
    }
    text
}

fn time(dice: &mut Dice) -> String {
    let minutes = dice.below(500) as i64 - 100;
    let time = START + minutes * 60 * SECOND + dice.one(&[0, 0, 1, 500_000_000]);
    let (seconds, rest) = (time.div_euclid(SECOND), time.rem_euclid(SECOND));
    let day = seconds.div_euclid(86_400);
    let of_day = seconds.rem_euclid(86_400);
    // 20,000 days after 1970 is 2024-10-04, and a day before and after it are of the same month.
    let date = format!("2024-10-{:02}", 4 + day - 20_000);
    let clock = format!(
        "{:02}:{:02}:{:02}.{rest:09}",
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60
    );
    match dice.below(4) {
        0 => format!("{date}T{clock}Z"),
        1 => format!("{date} {clock}"),
        2 => format!("{date} {clock} +0000"),
        _ => format!("{date}T{clock}+00:00"),
    }
}

/// A condition, with WHERE before it if there is one.
fn condition(dice: &mut Dice) -> String {
    let mut all: Vec<String> = Vec::new();
    if dice.one_in(2) {
        all.push(
            dice.one(&["time >= '\u{1}'", "time > timestamp '\u{1}'"])
                .to_owned(),
        );
    }
    if dice.one_in(2) {
        all.push(dice.one(&["time < '\u{1}'", "time <= '\u{1}'"]).to_owned());
    }
    if dice.one_in(3) {
        all.push(
            dice.one(&[
                "host = '\u{2}'",
                "host IN ('a', '\u{2}x', 'host c')",
                "host IN ('\u{2}', 'q1', 'q2', 'q3', 'q4')",
                "host <> '\u{2}'",
                "host NOT IN ('\u{2}', 'ab1')",
                "rack = '\u{3}'",
                "rack IS NULL",
                "host IS NOT NULL AND rack = '7'",
                "(host = '\u{2}' OR rack = '\u{3}')",
                "NOT (host = '\u{2}' AND rack IS NULL)",
                "host LIKE 'a%'",
                "(host = '\u{2}' OR rack IS NULL)",
            ])
            .to_owned(),
        );
    }
    if dice.one_in(3) {
        all.push(
            dice.one(&[
                "f > 50.5",
                "f <= 0",
                "f <> 0",
                "f = 'NaN'::double",
                "f >= -0.0",
                "n > 90.0",
                "n < 3",
                "n BETWEEN 5 AND 60",
                "n IN (1, 2, 70)",
                "n NOT IN (1, 2)",
                "u = 3",
                "u > 4",
                "t = 'low'",
                "t >= 'i'",
                "b",
                "NOT b",
                "t IS NULL",
                "f IS NOT NULL AND n >= 0",
                "(f > 60 OR n < 10)",
                "NOT (f > 60 AND n < 10)",
                "(f > 60 OR host = 'a')",
                "f > n",
                "f + 1 > 20",
                "n % 2 = 0",
                "u < 2.5",
            ])
            .to_owned(),
        );
    }
    if all.is_empty() {
        return String::new();
    }
    format!(" WHERE {}", all.join(" AND "))
}

fn bucket(dice: &mut Dice) -> &'static str {
    dice.one(&[
        "time_bucket('1 minute', time)",
        "time_bucket('1 hour', time)",
        "time_bucket('1 hour', time)",
        "time_bucket('90 minutes', time)",
        "time_bucket('1 day', time)",
        "time_bucket('7 days', time)",
        "time_bucket('1 month', time)",
        "time_bucket('1 hour', time, INTERVAL '10 minutes')",
        "time_bucket('2 hours', time, 'Europe/Berlin')",
        "time_bucket('1 day', time, 'Asia/Kolkata')",
        "date_trunc('minute', time)",
        "date_trunc('hour', time)",
        "date_trunc('week', time)",
        "date_trunc('month', time)",
    ])
}

fn aggregate(dice: &mut Dice) -> &'static str {
    dice.one(&[
        "count(*)",
        "count(f)",
        "count(n)",
        "count(t)",
        "count(n = 3)",
        "count(1.5 < f)",
        "sum(f)",
        "sum(u)",
        "sum(n)",
        "avg(f)",
        "avg(n)",
        "avg(u)",
        "min(f)",
        "max(f)",
        "min(n)",
        "max(n)",
        "min(u)",
        "max(u)",
        "min(t)",
        "max(t)",
        "max(b)",
        "min(b)",
        "min(time)",
        "max(time)",
    ])
}

fn near_miss(dice: &mut Dice) -> &'static str {
    dice.one(&[
        "max(f + 1)",
        "count(DISTINCT n)",
        "count(DISTINCT host)",
        "sum(n) FILTER (WHERE n > 0)",
        "max(f) - min(f)",
        "count(host)",
        "median(n)",
        "round(avg(u), 2)",
    ])
}

fn limit(dice: &mut Dice) -> String {
    let rows = dice.below(6);
    match dice.below(4) {
        0 => format!(" LIMIT {rows} OFFSET {}", dice.below(4)),
        1 => format!(" LIMIT {rows}"),
        _ => String::new(),
    }
}

fn groups(dice: &mut Dice, table: &str) -> Form {
    let mut keys: Vec<&str> = Vec::new();
    let mut shown: Vec<String> = Vec::new();
    let has_bucket = dice.one_in(2);
    if has_bucket {
        keys.push("bucket");
        shown.push(format!("{} AS bucket", bucket(dice)));
    }
    for tag in ["host", "rack"] {
        if dice.one_in(2) {
            keys.push(tag);
            shown.push(tag.to_owned());
        }
    }
    let is_near = dice.one_in(8);
    for _ in 0..=dice.below(3) {
        shown.push(aggregate(dice).to_owned());
    }
    if is_near {
        shown.push(near_miss(dice).to_owned());
    }
    let mut named: Vec<String> = Vec::new();
    for (number, column) in shown.into_iter().enumerate() {
        let is_named = column.contains(" AS ") || keys.contains(&column.as_str());
        named.push(if is_named || dice.one_in(2) {
            column
        } else {
            format!("{column} AS c{number}")
        });
    }
    let mut text = format!(
        "SELECT {} FROM {table}{}",
        named.join(", "),
        condition(dice)
    );
    if !keys.is_empty() {
        write!(text, " GROUP BY {}", keys.join(", ")).unwrap();
    }
    if dice.one_in(12) {
        text.push_str(" HAVING count(*) > 3");
    }
    let mut is_ordered = false;
    if !keys.is_empty() && dice.one_in(2) {
        let turn = dice.below(keys.len());
        keys.rotate_left(turn);
        let keys: Vec<String> = keys
            .iter()
            .map(|key| {
                let is_turned = if *key == "bucket" {
                    dice.one_in(2)
                } else {
                    dice.one_in(10)
                };
                format!("{key}{}", if is_turned { " DESC" } else { "" })
            })
            .collect();
        write!(text, " ORDER BY {}{}", keys.join(", "), limit(dice)).unwrap();
        is_ordered = true;
    }
    Form {
        text,
        is_ordered,
        is_grouped: true,
    }
}

fn rows(dice: &mut Dice, table: &str) -> Form {
    let columns = dice.one(&[
        "*",
        "*",
        "time, f",
        "host, time, n, u",
        "t, b AS truth, rack, time",
        "n, n AS again, time",
        "f",
    ]);
    let mut text = format!("SELECT {columns} FROM {table}{}", condition(dice));
    let mut is_ordered = false;
    // Two rows of one key are in no order that is said.
    if table != "kept" && dice.one_in(2) {
        let keys = dice.one(&[
            "time",
            "time DESC",
            "time, host",
            "time DESC, rack, host",
            "host, rack, time",
            "host, rack, time DESC",
            "host DESC, rack, time",
            "rack, time, host",
        ]);
        write!(text, " ORDER BY {keys}{}", limit(dice)).unwrap();
        is_ordered = true;
    }
    Form {
        text,
        is_ordered,
        is_grouped: false,
    }
}

/// The first or last rows of groups.
fn ends(dice: &mut Dice, table: &str) -> Form {
    let group = dice.one(&["host", "rack", "host, rack", "rack, host"]);
    let way = dice.one(&["", " DESC"]);
    let condition = condition(dice);
    let (text, is_ordered) = match dice.below(6) {
        0 | 1 => (
            format!(
                "SELECT DISTINCT ON ({group}) * FROM {table}{condition} ORDER BY {group}, time{way}"
            ),
            true,
        ),
        2 => (
            format!(
                "SELECT {group}, last(f, time) AS f, last(n, time) AS n FROM {table}{condition} GROUP BY {group} ORDER BY {group}"
            ),
            true,
        ),
        3 => (
            format!(
                "SELECT {group}, first(t, time), last(u, time), max(time) FROM {table}{condition} GROUP BY {group}"
            ),
            false,
        ),
        4 => (
            format!(
                "SELECT host, rack, time, f FROM (SELECT *, row_number() OVER (PARTITION BY {group} ORDER BY time{way}) AS place FROM {table}{condition}) q WHERE place <= 2"
            ),
            false,
        ),
        _ => (
            format!("SELECT last(f, time), first(b, time), min(time) FROM {table}{condition}"),
            true,
        ),
    };
    Form {
        text,
        is_ordered,
        is_grouped: false,
    }
}

/// What is calculated of rows that are a series query, and what chooses among them further than it can.
fn calculated(dice: &mut Dice, table: &str) -> Form {
    let group = dice.one(&["host", "rack", "host, rack", "rack, host"]);
    let way = dice.one(&["", " DESC"]);
    let condition = condition(dice);
    let (text, is_ordered) = match dice.below(7) {
        0 | 1 => (
            format!(
                "SELECT {} FROM {table}{condition} ORDER BY {} LIMIT {} OFFSET {}",
                dice.one(&[
                    "f + 1, time",
                    "time, host, n * 2 AS twice",
                    "time, f / 2 AS half, t, f",
                    "CASE WHEN b THEN 'yes' ELSE t END AS said, time",
                    "upper(host) AS host_, coalesce(n, -1), time",
                    "*",
                    "round(f) AS f, time, f IS NULL",
                ]),
                dice.one(&[
                    "time",
                    "time DESC",
                    "time DESC, host, rack",
                    "time DESC, f, host, rack",
                    "time, host DESC, rack",
                    "time DESC, n + 1, host, rack",
                    "host, rack, time",
                ]),
                dice.below(6),
                dice.below(3)
            ),
            true,
        ),
        2 => (
            format!(
                "SELECT upper(t) AS t, d, host FROM (SELECT t, f * 2 AS d, host, time FROM {table}{condition}) q ORDER BY time{way}, d LIMIT {}",
                dice.below(6)
            ),
            true,
        ),
        3 => (
            format!(
                "SELECT {group}, last(f + 1, time), {} FROM {table}{condition} GROUP BY {group}",
                dice.one(&[
                    "max(time)",
                    "first(coalesce(n, 0), time)",
                    "last(t || 'x', time), min(time)",
                    "last(host, time), first(t, time)",
                    "count(DISTINCT n), last(f, time)",
                    "sum(u) FILTER (WHERE u > 2), max(n)",
                ])
            ),
            false,
        ),
        4 => (
            format!(
                "SELECT last(coalesce(n, 5), time), {} FROM {table}{condition}",
                dice.one(&["max(time)", "first(t || '!', time)", "count(DISTINCT t)"])
            ),
            true,
        ),
        5 => (
            format!(
                "SELECT host, rack, time, place, f FROM (SELECT *, row_number() OVER (PARTITION BY {group} ORDER BY time{way}) AS place FROM {table}{condition}) q WHERE place <= 3{}",
                dice.one(&["", " AND place <> 2", " AND n > 5", " AND n + place > 7"])
            ),
            false,
        ),
        _ => (
            format!(
                "SELECT host, place, d FROM (SELECT host, d, row_number() OVER (PARTITION BY {group} ORDER BY time{way}, d) AS place FROM (SELECT f + 1 AS d, host, rack, time FROM {table}{condition}) p) q WHERE place = {}",
                1 + dice.below(2)
            ),
            false,
        ),
    };
    Form {
        text,
        is_ordered,
        is_grouped: false,
    }
}

/// Questions around questions.
fn nested(dice: &mut Dice, table: &str) -> Form {
    let condition = condition(dice);
    let bucket = bucket(dice);
    // Sums of floats are a little off, and may be on either side of a bound.
    let having = dice.one(&[
        "avg(u) > 3.5",
        "count(*) > 3",
        "max(f) > 50 AND count(n) > 1",
        "min(n) < 20 OR max(time) > '2024-10-04 02:00:00+00'",
        "max(t) = 'low'",
        "NOT (max(f) > 90)",
        "max(n) BETWEEN 50 AND 100",
        "count(t) IN (1, 2, 5)",
        "min(u) IS NOT NULL",
    ]);
    let (text, is_ordered) = match dice.below(7) {
        0 => (
            format!(
                "SELECT host, rack FROM {table}{condition} GROUP BY host, rack HAVING {having}"
            ),
            false,
        ),
        1 => (
            format!(
                "SELECT {bucket} AS bucket, host, max(n) FROM {table}{condition} GROUP BY bucket, host HAVING {having} ORDER BY bucket, host{}",
                limit(dice)
            ),
            true,
        ),
        2 => (
            format!(
                "SELECT host, count(bucket), max(readings), min(bucket) FROM (SELECT host, rack, {bucket} AS bucket, count(*) AS readings FROM {table}{condition} GROUP BY host, rack, bucket HAVING {having}) q GROUP BY host HAVING count(bucket) > 1 ORDER BY host"
            ),
            true,
        ),
        3 => (
            format!(
                "WITH q AS (SELECT host, {bucket} AS bucket, count(*) / 6 AS sixths FROM {table}{condition} GROUP BY host, bucket) SELECT host, time_bucket('2 days', bucket) AS days, avg(sixths), sum(sixths), count(*) FROM q GROUP BY host, days"
            ),
            false,
        ),
        4 => (
            format!(
                "SELECT day, sum(readings), count(*) FROM (SELECT time_bucket('1 day', time) AS day, time_bucket('{}', time) AS part, rack, count(*) AS readings FROM {table}{condition} GROUP BY day, part, rack HAVING {having}) q GROUP BY day ORDER BY day",
                dice.one(&["10 minutes", "1 hour", "7 hours", "1 day"])
            ),
            true,
        ),
        5 => (
            format!(
                "SELECT host, rack, f, n FROM (SELECT DISTINCT ON (host, rack) * FROM {table}{condition} ORDER BY host, rack, time DESC) q WHERE {}",
                dice.one(&[
                    "f < 50",
                    "n >= 10 AND host = '\u{2}'",
                    "t IS NULL",
                    "time > '\u{1}'",
                    "b OR f > 10",
                ])
            ),
            false,
        ),
        _ => (
            format!("SELECT count(DISTINCT host), count(DISTINCT rack) FROM {table}{condition}"),
            true,
        ),
    };
    Form {
        text,
        is_ordered,
        is_grouped: true,
    }
}

/// What only declared tables can be asked: tags that are integers, and values that are shown as others than are stored.
fn declared(dice: &mut Dice, table: &str) -> Form {
    let condition = condition(dice);
    let joined = if condition.is_empty() { "WHERE" } else { "AND" };
    let of_rack = dice.one(&[
        "rack > 5",
        "rack <= 7",
        "rack BETWEEN -10 AND 7",
        "rack IN (7, 12)",
        "rack NOT IN (7, 13)",
        "rack <> -3",
        "rack = n",
        "rack IN (SELECT n FROM bare)",
        "rack IN (SELECT -3 UNION ALL SELECT 12)",
        "(rack = 7 OR host = '\u{2}')",
        "rack IS NOT NULL",
        "rack + 0 = 7",
        "c > 3.5",
        "r < 20",
        "s >= 0",
        "j = '{\"a\": 1}'",
    ]);
    let condition = format!("{condition} {joined} {of_rack}");
    let (text, is_ordered, is_grouped) = match dice.below(6) {
        0 | 1 => (
            format!(
                "SELECT {} AS bucket, rack, {}, {} FROM {table}{condition} GROUP BY bucket, rack",
                bucket(dice),
                aggregate(dice),
                dice.one(&[
                    "max(s)",
                    "sum(s)",
                    "avg(s)",
                    "max(c)",
                    "sum(c)",
                    "min(r)",
                    "count(r)",
                    "count(j)",
                    "count(c)",
                    "max(rack)"
                ]),
            ),
            false,
            true,
        ),
        2 => (format!("SELECT * FROM {table}{condition}"), false, false),
        3 if table != "kept" => (
            format!(
                "SELECT {} FROM {table}{condition} ORDER BY {}{}",
                dice.one(&["*", "c, r, time, host, rack", "j, s, rack"]),
                dice.one(&[
                    "time DESC, host, rack",
                    "time, rack, host",
                    "rack, host, time",
                    "rack DESC, host, time DESC",
                    "host, rack, time"
                ]),
                limit(dice)
            ),
            true,
            false,
        ),
        4 if table != "kept" => (
            format!(
                "SELECT rack, host, last(c, time), last(r, time), last(j, time), first(s, time) FROM {table}{condition} GROUP BY rack, host"
            ),
            false,
            false,
        ),
        _ => (
            format!(
                "SELECT rack, readings FROM (SELECT host, rack, count(*) AS readings FROM {table}{condition} GROUP BY host, rack) q WHERE {}",
                dice.one(&[
                    "rack = 7",
                    "rack < 12",
                    "rack IS NULL",
                    "readings > 3 AND rack IN (12, 7)"
                ])
            ),
            false,
            true,
        ),
    };
    Form {
        text,
        is_ordered,
        is_grouped,
    }
}

/// A series query in a larger one.
fn around(dice: &mut Dice, table: &str, world: &World) -> Form {
    let inner = format!(
        "SELECT host, {} AS bucket, avg(u) AS mean, count(*) AS readings FROM {table}{} GROUP BY host, bucket",
        bucket(dice),
        condition(dice)
    );
    let text = match dice.below(6) {
        4 => format!(
            "SELECT rack, count(*), max(n) FROM {table} WHERE host IN (SELECT host FROM kept WHERE u > 5) AND time >= '\u{1}' GROUP BY rack"
        ),
        // A text that is no integer is compared with none: whether that is found out depends on how rows are joined.
        5 => format!(
            "SELECT time, host, rack, f FROM {table} WHERE rack IN (SELECT {} FROM merged) AND host = '\u{2}'",
            if world.is_declared {
                "n FROM replaced UNION ALL SELECT 7"
            } else {
                "host FROM replaced UNION ALL SELECT '7'"
            }
        ),
        0 => format!(
            "SELECT host, count(*), max(mean) FROM ({inner}) q WHERE readings > 2 GROUP BY host"
        ),
        1 => format!(
            "SELECT q.host, q.bucket, r.readings FROM ({inner}) q JOIN (SELECT host, count(*) AS readings FROM {table} GROUP BY host) r ON q.host = r.host"
        ),
        2 => format!(
            "SELECT host, readings FROM ({inner}) q UNION ALL SELECT rack, count(*) FROM {table} GROUP BY rack"
        ),
        _ => format!(
            "SELECT host, bucket, readings - lag(readings) OVER (PARTITION BY host ORDER BY bucket) FROM ({inner}) q"
        ),
    };
    Form {
        text,
        is_ordered: false,
        is_grouped: true,
    }
}
