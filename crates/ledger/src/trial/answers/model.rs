//! Model of tables: plain maps from the identity of a row to its fields.
//!
//! Does: write, delete and update as the guide says each kind of table does it, and add up what an aggregate must answer.
//! Does not: know of segments, logs or settings: none of them may change an answer.

use std::collections::{BTreeMap, BTreeSet};

/// What becomes of a second row of one series and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// They merge: per field the newest value that is not NULL.
    Last,
    /// Both stay.
    Keep,
    /// The newer takes the other's place as a whole.
    Unique,
}

/// Time in nanoseconds and tags.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) time: i64,
    pub(super) h: Option<String>,
    pub(super) g: Option<String>,
}

/// The fields of a row. A float is its bits, so that -0.0 is not 0.0; every NaN has the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Fields {
    /// Small, so that sums of it fit.
    pub(super) c: Option<i64>,
    pub(super) n: Option<i64>,
    pub(super) v: Option<u64>,
    pub(super) s: Option<String>,
    pub(super) b: Option<bool>,
}

pub(super) type Row = (Key, Fields);

/// Bits by which floats are the same.
pub(super) fn bits(value: f64) -> u64 {
    if value.is_nan() {
        f64::NAN.to_bits()
    } else {
        value.to_bits()
    }
}

impl Fields {
    fn merge(&mut self, newer: Self) {
        self.c = newer.c.or(self.c);
        self.n = newer.n.or(self.n);
        self.v = newer.v.or(self.v);
        self.s = newer.s.or_else(|| self.s.take());
        self.b = newer.b.or(self.b);
    }
}

/// Rows that a statement is about: those of some times, with one value of a tag, and more of one field.
#[derive(Debug, Clone)]
pub(super) struct Where {
    pub(super) from: i64,
    pub(super) until: i64,
    /// `Some(None)`: without that tag.
    #[expect(
        clippy::option_option,
        reason = "no condition, a missing tag and a value are three cases, as in the SQL that is made of them"
    )]
    pub(super) h: Option<Option<String>>,
    /// Those whose tag is not below this.
    pub(super) h_from: Option<String>,
    pub(super) field: Option<Test>,
}

/// A condition on a field. NULL meets none of the comparisons.
#[derive(Debug, Clone)]
pub(super) enum Test {
    CBelow(i64),
    NIs(i64),
    NIsNot(i64),
    NNull,
    SIs(String),
    SNull,
    BIs(bool),
}

impl Test {
    fn holds(&self, fields: &Fields) -> bool {
        match self {
            Self::CBelow(bound) => fields.c.is_some_and(|c| c < *bound),
            Self::NIs(value) => fields.n == Some(*value),
            Self::NIsNot(value) => fields.n.is_some_and(|n| n != *value),
            Self::NNull => fields.n.is_none(),
            Self::SIs(value) => fields.s.as_ref() == Some(value),
            Self::SNull => fields.s.is_none(),
            Self::BIs(value) => fields.b == Some(*value),
        }
    }
}

impl Where {
    pub(super) fn holds(&self, key: &Key, fields: &Fields) -> bool {
        (self.from..self.until).contains(&key.time)
            && self.h.as_ref().is_none_or(|h| *h == key.h)
            && self
                .h_from
                .as_ref()
                .is_none_or(|from| key.h.as_ref() >= Some(from))
            && self.field.as_ref().is_none_or(|test| test.holds(fields))
    }
}

/// What an update sets.
#[derive(Debug, Clone)]
pub(super) enum Set {
    N(i64),
    V(f64),
    S(String),
    B(bool),
}

/// What aggregates over some rows must answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) rows: u64,
    pub(super) c: i64,
    pub(super) n_count: u64,
    pub(super) n_min: Option<i64>,
    pub(super) n_max: Option<i64>,
    pub(super) s_count: u64,
    pub(super) first: Option<i64>,
    pub(super) last: Option<i64>,
}

/// One table.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    rows: BTreeMap<Key, Vec<Fields>>,
    /// The latest time that any row ever had: what is deleted may still lie in a partition.
    latest: Option<i64>,
    /// Widths that partitions ever had, in nanoseconds.
    widths: BTreeSet<i64>,
}

impl Table {
    pub(super) fn new(name: &'static str, kind: Kind) -> Self {
        Self {
            name,
            kind,
            rows: BTreeMap::new(),
            latest: None,
            widths: BTreeSet::new(),
        }
    }

    /// From now on new partitions are so wide.
    pub(super) fn partitions_are(&mut self, width_ns: i64) {
        self.widths.insert(width_ns);
    }

    /// Whether every row ever written is in a partition that ends before this time, however wide it is of those that there
    /// may be. A partition begins at a multiple of its width; sparse ones are joined to 8, 64 and 512 widths.
    pub(super) fn is_older_than(&self, time: i64) -> bool {
        let Some(latest) = self.latest else {
            return false;
        };
        let joined = |width: &i64| [1, 8, 64, 512].map(|factor| width.saturating_mul(factor));
        let mut widths = self.widths.iter().flat_map(joined);
        widths.all(|width| (latest.div_euclid(width) + 1).saturating_mul(width) <= time)
    }

    pub(super) fn write(&mut self, (key, fields): Row) {
        self.latest = self.latest.max(Some(key.time));
        let rows = self.rows.entry(key).or_default();
        match (self.kind, rows.first_mut()) {
            (Kind::Last, Some(row)) => row.merge(fields),
            (Kind::Unique, Some(row)) => *row = fields,
            (Kind::Keep, _) | (_, None) => rows.push(fields),
        }
    }

    pub(super) fn delete(&mut self, which: &Where) -> u64 {
        let before = self.len();
        for (key, rows) in &mut self.rows {
            rows.retain(|fields| !which.holds(key, fields));
        }
        self.rows.retain(|_, rows| !rows.is_empty());
        before - self.len()
    }

    pub(super) fn update(&mut self, which: &Where, set: &Set) -> u64 {
        let mut updated = 0;
        for (key, rows) in &mut self.rows {
            for fields in rows.iter_mut().filter(|fields| which.holds(key, fields)) {
                updated += 1;
                match set {
                    Set::N(n) => fields.n = Some(*n),
                    Set::V(v) => fields.v = Some(bits(*v)),
                    Set::S(s) => fields.s = Some(s.clone()),
                    Set::B(b) => fields.b = Some(*b),
                }
            }
        }
        updated
    }

    pub(super) fn len(&self) -> u64 {
        self.rows.values().map(|rows| rows.len() as u64).sum()
    }

    /// Identities, by time.
    pub(super) fn keys(&self) -> Vec<&Key> {
        self.rows.keys().collect()
    }

    /// All rows, in their order.
    pub(super) fn rows(&self) -> Vec<Row> {
        let mut all: Vec<Row> = self
            .rows
            .iter()
            .flat_map(|(key, rows)| rows.iter().map(|fields| (key.clone(), fields.clone())))
            .collect();
        all.sort();
        all
    }

    pub(super) fn sums(&self, which: &Where) -> Sums {
        let mut sums = Sums::default();
        for (key, rows) in &self.rows {
            for fields in rows.iter().filter(|fields| which.holds(key, fields)) {
                sums.rows += 1;
                sums.c += fields.c.unwrap_or(0);
                sums.n_count += u64::from(fields.n.is_some());
                sums.n_min = [sums.n_min, fields.n].into_iter().flatten().min();
                sums.n_max = [sums.n_max, fields.n].into_iter().flatten().max();
                sums.s_count += u64::from(fields.s.is_some());
                sums.first = sums.first.or(Some(key.time));
                sums.last = Some(key.time);
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(time: i64, c: i64, n: Option<i64>) -> Row {
        let key = Key {
            time,
            h: None,
            g: None,
        };
        let fields = Fields {
            c: Some(c),
            n,
            ..Fields::default()
        };
        (key, fields)
    }

    const ALL: Where = Where {
        from: i64::MIN,
        until: i64::MAX,
        h: None,
        h_from: None,
        field: None,
    };

    /// The three rules of docs/guide/data-model.md, by hand.
    #[test]
    fn a_second_row_merges_stays_or_takes_the_place_of_the_first() {
        let after = |kind| {
            let mut table = Table::new("t", kind);
            table.write(row(1, 5, Some(7)));
            table.write(row(1, 6, None));
            table.rows()
        };
        assert_eq!(after(Kind::Last), [row(1, 6, Some(7))]);
        assert_eq!(after(Kind::Keep), [row(1, 5, Some(7)), row(1, 6, None)]);
        assert_eq!(after(Kind::Unique), [row(1, 6, None)]);
    }

    #[test]
    fn null_meets_no_comparison_and_ranges_end_before_their_end() {
        let mut table = Table::new("t", Kind::Keep);
        for (time, n) in [(1, Some(7)), (2, None), (3, Some(8))] {
            table.write(row(time, time, n));
        }
        let test = |field| Where {
            field: Some(field),
            ..ALL
        };
        assert_eq!(table.sums(&test(Test::NIsNot(7))).rows, 1);
        assert_eq!(table.sums(&test(Test::NNull)).rows, 1);
        assert_eq!(table.sums(&ALL).c, 6);
        let range = Where {
            from: 1,
            until: 3,
            ..ALL
        };
        assert_eq!(table.delete(&range), 2);
        assert_eq!(table.update(&ALL, &Set::N(1)), 1);
        assert_eq!(table.rows(), [row(3, 3, Some(1))]);
    }
}
