//! Points: their tags, times and values.

use nilometer_lineproto::{TIME_NS_MAX, TIME_NS_MIN};
use rand::RngExt;

use super::{DAY_NS, Draw, STEP_NS, TABLES, pick};
use crate::plan::{Line, Tags, Value};

/// Field names with the type they are written with; `host` is also a tag.
pub(super) const FIELDS: [(&str, Kind); 7] = [
    ("busy", Kind::Float),
    ("idle", Kind::Float),
    ("ticks", Kind::Integer),
    ("bytes", Kind::Unsigned),
    ("up", Kind::Boolean),
    ("note", Kind::Text),
    ("host", Kind::Text),
];
pub(super) const TAG_VALUES: [&str; 5] = ["a b", "x,y", "p=q", "\u{fc}ber", "\"quoted\""];
const BAD_LINES: [&str; 6] = [
    "cpu,host= busy=1 5",
    "cpu,host=a busy= 5",
    "cpu,host=a",
    "cpu busy=1 notatime",
    "mem,host=a up=maybe 7",
    ",host=a busy=1 9",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Float,
    Integer,
    Unsigned,
    Boolean,
    Text,
}

pub(super) fn long_text(at: i64, text: String) -> Line {
    Line::Point {
        table: TABLES[3].to_owned(),
        tags: Tags::new(),
        fields: vec![("note".to_owned(), Value::Text(text))],
        time: Some(at * STEP_NS),
    }
}

impl Draw {
    pub(super) fn line(&mut self, table: &str) -> Line {
        if self.random.random_bool(0.02) {
            return Line::Bad((*pick(&mut self.random, &BAD_LINES)).to_owned());
        }
        let mut fields = Vec::new();
        while fields.is_empty() {
            for (name, kind) in FIELDS {
                if self.random.random_bool(0.35) {
                    fields.push((name.to_owned(), self.value(kind)));
                }
            }
        }
        if self.random.random_bool(0.01) {
            // Another type than the field usually has: refused, or the one that the field keeps.
            let value = self.value(Kind::Integer);
            if let Some(field) = fields.first_mut() {
                field.1 = value;
            }
        }
        Line::Point {
            table: table.to_owned(),
            tags: self.tags(),
            fields,
            time: self.time(),
        }
    }

    /// Enough rows of one series for blocks of its own and for rollups of hours, from few series, so that they meet.
    pub(super) fn one_series(&mut self) -> Vec<Line> {
        let host = format!("h{}", self.random.random_range(0..2));
        let tags = Tags::from([("host".to_owned(), host)]);
        let count = self.random.random_range(150..=600);
        let start = self.random.random_range(0..60) + self.day * (DAY_NS / STEP_NS);
        (0..count)
            .map(|at| Line::Point {
                table: TABLES[3].to_owned(),
                tags: tags.clone(),
                fields: vec![("ticks".to_owned(), self.value(Kind::Integer))],
                time: Some((start + at * 2) * STEP_NS),
            })
            .collect()
    }

    /// A batch that is longer than a log file usually is.
    pub(super) fn long_texts(&mut self) -> Vec<Line> {
        (0..5).map(|at| long_text(at, self.text(4_000))).collect()
    }

    /// Text that does not compress.
    pub(super) fn text(&mut self, bytes: usize) -> String {
        (0..bytes)
            .map(|_| char::from(self.random.random_range(b'!'..=b'~')))
            .collect()
    }

    pub(super) fn tags(&mut self) -> Tags {
        let mut tags = Tags::new();
        if self.random.random_bool(0.9) {
            let host = format!("h{}", self.random.random_range(0..self.hosts));
            tags.insert("host".to_owned(), host);
        }
        if self.random.random_bool(0.25) {
            let value = *pick(&mut self.random, &TAG_VALUES);
            tags.insert("dc".to_owned(), value.to_owned());
        }
        tags
    }

    pub(super) fn time(&mut self) -> Option<i64> {
        let near = self.random.random_range(0..60) * STEP_NS + self.day * DAY_NS;
        match self.random.random_range(0..100) {
            0..3 => None,
            3..10 => Some(near + DAY_NS * self.random.random_range(-2..4)),
            10 => Some(*pick(&mut self.random, &[TIME_NS_MIN, TIME_NS_MAX, -1, 0])),
            11..14 => Some(self.random.random_range(TIME_NS_MIN..=TIME_NS_MAX)),
            _ => Some(near),
        }
    }

    pub(super) fn value(&mut self, kind: Kind) -> Value {
        let random = &mut self.random;
        match kind {
            Kind::Float => Value::Float(match random.random_range(0..10) {
                0 => {
                    let odd = [-0.0, 0.0, 5e-324, f64::MAX, f64::MIN_POSITIVE, 1e-7];
                    pick(random, &odd).to_bits()
                }
                1 | 2 => random.random::<f64>().to_bits(),
                _ => (f64::from(random.random_range(0..10_000)) / 100.0).to_bits(),
            }),
            Kind::Integer => Value::Integer(match random.random_range(0..12) {
                0 => *pick(random, &[i64::MIN, i64::MAX, -1]),
                1 => random.random(),
                _ => random.random_range(0..1000),
            }),
            Kind::Unsigned => Value::Unsigned(match random.random_range(0..12) {
                0 => u64::MAX,
                1 => random.random(),
                _ => random.random_range(0..1000),
            }),
            Kind::Boolean => Value::Boolean(random.random()),
            Kind::Text => Value::Text(match random.random_range(0..10) {
                0 => String::new(),
                1 => "with \"quotes\", \\ and = signs".to_owned(),
                2 => "\u{1f41f} fish".to_owned(),
                _ => format!("state {}", random.random_range(0..6)),
            }),
        }
    }
}
