//! Drawn content of a life: rows, conditions and their spelling as line protocol and SQL.
//!
//! Does: draw values from the edges of each type, and times that lie apart, together, or where a row is already.
//! Does not: remember anything; the model does.

use std::fmt::Write as _;

use super::model::{Fields, Key, Row, Set, Table, Test, Where, bits};
use crate::random::Random;

pub(super) const SECOND: i64 = 1_000_000_000;
pub(super) const HOUR: i64 = 3600 * SECOND;
const DAY: i64 = 24 * HOUR;
/// 2026-11-17: the newest time that is written.
pub(super) const NEWEST: i64 = 1_795_000_000 * SECOND;
const SPAN: i64 = 60 * DAY;
/// Widths of partitions, as SQL has them and in nanoseconds.
pub(super) const INTERVALS: [(&str, i64); 7] = [
    ("1 second", SECOND),
    ("1 minute", 60 * SECOND),
    ("1 hour", HOUR),
    ("1 day", DAY),
    ("7 days", 7 * DAY),
    ("30 days", 30 * DAY),
    ("400 days", 400 * DAY),
];
const TAGS: [&str; 5] = ["a", "b c", "\u{e4}\u{1f600}", "x,y=z", "A"];
const INTEGERS: [i64; 8] = [
    i64::MIN,
    i64::MAX,
    0,
    -1,
    1,
    1 << 53,
    (1 << 53) + 1,
    i64::MAX - 1,
];
const FLOATS: [f64; 11] = [
    0.0,
    -0.0,
    1.5,
    -1.0,
    0.1,
    5e-324,
    f64::MAX,
    f64::MIN,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
];
const TEXTS: [&str; 7] = [
    "",
    " ",
    "a",
    "\u{e4}\u{1f600}\u{65e5}",
    "it's \"q\" \\ x",
    "NULL",
    "comma, = and more",
];

const LARGE_ONE_IN: u64 = 500;
/// Of four bytes or more, so that there are more than 16 KiB.
const LARGE_TIMES: usize = 5000;

/// What the rows of one life are like.
#[derive(Debug, Clone)]
pub(super) struct Content {
    /// Values of the first tag.
    pub(super) series: u64,
}

impl Content {
    pub(super) fn draw(random: &mut Random) -> Self {
        Self {
            series: *random.pick(&[3, 30, 250]),
        }
    }

    fn h(&self, random: &mut Random) -> Option<String> {
        match random.below(40) {
            0 => None,
            1..=3 => Some((*random.pick(&TAGS)).to_owned()),
            _ => Some(format!("h{}", random.below(self.series))),
        }
    }

    fn key(&self, time: i64, random: &mut Random) -> Key {
        let g = random
            .one_in(4)
            .then(|| (*random.pick(&["q", "r s"])).to_owned());
        let h = self.h(random);
        Key { time, h, g }
    }

    /// Rows all over two months.
    pub(super) fn spread(&self, count: u64, random: &mut Random) -> Vec<Row> {
        let rows = (0..count).map(|_| {
            let seconds = random.below((SPAN / SECOND) as u64) as i64;
            let odd = random.below(2) as i64 * random.below(1_000_000_000) as i64;
            let key = self.key(NEWEST - seconds * SECOND - odd, random);
            (key, fields(random, false))
        });
        rows.collect()
    }

    /// Rows of a few series, one after the other, within an hour.
    pub(super) fn block(begin: i64, points: i64, series: u64, random: &mut Random) -> Vec<Row> {
        let step = HOUR / points.max(1);
        let rows = (0..points).flat_map(|point| (0..series).map(move |s| (point, s)));
        let rows = rows.map(|(point, s)| {
            let key = Key {
                time: begin + point * step,
                h: Some(format!("h{s}")),
                g: None,
            };
            (key, Fields::default())
        });
        let mut rows: Vec<Row> = rows.collect();
        for (_, of) in &mut rows {
            *of = fields(random, false);
        }
        rows
    }

    /// Other values for rows that are there: every so many of a part of them.
    pub(super) fn again(table: &Table, most: usize, random: &mut Random) -> Vec<Row> {
        let keys = table.keys();
        let begin = random.index(keys.len());
        let step = *random.pick(&[1, 3, 7, 28]);
        let keys = keys.into_iter().skip(begin).step_by(step).take(most);
        keys.map(|key| (key.clone(), fields(random, false)))
            .collect()
    }

    /// Rows that a statement is about.
    pub(super) fn some(&self, table: &Table, random: &mut Random) -> Where {
        let keys = table.keys();
        let time = |random: &mut Random| match keys.get(random.index(keys.len())) {
            Some(key) => key.time + random.below(2) as i64,
            None => NEWEST - random.below(SPAN as u64) as i64,
        };
        let (a, b) = (time(random), time(random));
        let (from, until) = match random.below(4) {
            0 => (a, a + HOUR),
            1 => (a, a + DAY),
            _ => (a.min(b), a.max(b)),
        };
        let h = random.one_in(3).then(|| self.h(random));
        Where {
            from,
            until,
            h,
            h_from: None,
            field: None,
        }
    }

    /// The same with a condition on a field.
    pub(super) fn some_by_field(&self, table: &Table, random: &mut Random) -> Where {
        let test = match random.below(7) {
            0 => Test::CBelow(random.below(1000) as i64),
            1 => Test::NIs(*random.pick(&INTEGERS)),
            2 => Test::NIsNot(*random.pick(&INTEGERS)),
            3 => Test::NNull,
            4 => Test::SIs((*random.pick(&TEXTS)).to_owned()),
            5 => Test::SNull,
            _ => Test::BIs(random.one_in(2)),
        };
        Where {
            field: Some(test),
            ..self.some(table, random)
        }
    }
}

/// Fields from the edges. NaN and infinities have no spelling in line protocol.
pub(super) fn fields(random: &mut Random, is_typed: bool) -> Fields {
    let v = loop {
        let v = *random.pick(&FLOATS);
        if is_typed || v.is_finite() {
            break v;
        }
    };
    let n = if random.one_in(2) {
        *random.pick(&INTEGERS)
    } else {
        random.below(1_000_000) as i64
    };
    Fields {
        c: Some(random.below(1000) as i64),
        n: (!random.one_in(5)).then_some(n),
        v: (!random.one_in(3)).then(|| bits(v)),
        s: random.one_in(3).then(|| text_of(random)),
        b: random.one_in(3).then(|| random.one_in(2)),
    }
}

/// A text; one in many is so long that files have it outside of their pages.
fn text_of(random: &mut Random) -> String {
    if random.one_in(LARGE_ONE_IN) {
        return format!("{}\u{e4} ", random.below(1000)).repeat(LARGE_TIMES);
    }
    (*random.pick(&TEXTS)).to_owned()
}

pub(super) fn set(random: &mut Random) -> Set {
    match random.below(4) {
        0 => Set::N(*random.pick(&INTEGERS)),
        1 => Set::V(*random.pick(&FLOATS)),
        2 => Set::S((*random.pick(&TEXTS)).to_owned()),
        _ => Set::B(random.one_in(2)),
    }
}

fn escape(text: &str, special: &[char]) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if special.contains(&c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// A line of line protocol.
pub(super) fn line(table: &str, (key, fields): &Row, lines: &mut String) {
    let mut text = table.to_owned();
    for (name, value) in [("h", &key.h), ("g", &key.g)] {
        if let Some(value) = value {
            let _ = write!(text, ",{name}={}", escape(value, &[',', '=', ' ']));
        }
    }
    let mut parts = Vec::new();
    parts.extend(fields.c.map(|c| format!("c={c}i")));
    parts.extend(fields.n.map(|n| format!("n={n}i")));
    parts.extend(fields.v.map(|v| format!("v={:e}", f64::from_bits(v))));
    let quoted = |s: &String| format!("s=\"{}\"", escape(s, &['"', '\\']));
    parts.extend(fields.s.as_ref().map(quoted));
    parts.extend(fields.b.map(|b| format!("b={b}")));
    let _ = writeln!(lines, "{text} {} {}", parts.join(","), key.time);
}

fn text(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

fn float(value: f64) -> String {
    if value.is_nan() {
        return "CAST('NaN' AS DOUBLE PRECISION)".to_owned();
    }
    match value {
        f64::INFINITY => "CAST('Infinity' AS DOUBLE PRECISION)".to_owned(),
        f64::NEG_INFINITY => "CAST('-Infinity' AS DOUBLE PRECISION)".to_owned(),
        value => format!("CAST('{value:e}' AS DOUBLE PRECISION)"),
    }
}

fn or_null(value: Option<String>) -> String {
    value.unwrap_or_else(|| "NULL".to_owned())
}

/// The rows of an INSERT.
pub(super) fn values(rows: &[Row]) -> String {
    let rows: Vec<String> = rows
        .iter()
        .map(|(key, of)| {
            format!(
                "(to_timestamp_nanos({}), {}, {}, {}, {}, {}, {}, {})",
                key.time,
                or_null(key.h.as_deref().map(text)),
                or_null(key.g.as_deref().map(text)),
                or_null(of.c.map(|c| c.to_string())),
                or_null(of.n.map(|n| n.to_string())),
                or_null(of.v.map(|v| float(f64::from_bits(v)))),
                or_null(of.s.as_deref().map(text)),
                or_null(of.b.map(|b| b.to_string())),
            )
        })
        .collect();
    rows.join(", ")
}

/// A condition as SQL.
pub(super) fn condition(which: &Where) -> String {
    let mut sql = format!(
        "time >= to_timestamp_nanos({}) AND time < to_timestamp_nanos({})",
        which.from, which.until
    );
    match &which.h {
        None => {}
        Some(None) => sql.push_str(" AND h IS NULL"),
        Some(Some(h)) => {
            let _ = write!(sql, " AND h = {}", text(h));
        }
    }
    if let Some(from) = &which.h_from {
        let _ = write!(sql, " AND h >= {}", text(from));
    }
    if let Some(test) = &which.field {
        let condition = match test {
            Test::CBelow(bound) => format!("c < {bound}"),
            Test::NIs(value) => format!("n = {value}"),
            Test::NIsNot(value) => format!("n <> {value}"),
            Test::NNull => "n IS NULL".to_owned(),
            Test::SIs(value) => format!("s = {}", text(value)),
            Test::SNull => "s IS NULL".to_owned(),
            Test::BIs(value) => format!("b = {value}"),
        };
        let _ = write!(sql, " AND {condition}");
    }
    sql
}

/// A condition as InfluxQL, if it has only what a delete there may have.
pub(super) fn influx_condition(which: &Where) -> Option<String> {
    if which.h_from.is_some() || which.field.is_some() {
        return None;
    }
    let mut text = format!("time >= {} AND time < {}", which.from, which.until);
    if let Some(h) = &which.h {
        let _ = write!(text, " AND {}", influx_tag(h.as_deref()));
    }
    Some(text)
}

/// The tag as InfluxQL compares it; an absent one is empty there.
pub(super) fn influx_tag(h: Option<&str>) -> String {
    format!("h = '{}'", escape(h.unwrap_or_default(), &['\'', '\\']))
}

/// An assignment as SQL.
pub(super) fn assignment(set: &Set) -> String {
    match set {
        Set::N(n) => format!("n = {n}"),
        Set::V(v) => format!("v = {}", float(*v)),
        Set::S(s) => format!("s = {}", text(s)),
        Set::B(b) => format!("b = {b}"),
    }
}
