//! Lives in which partitions change: narrow ones become one, intervals of tables change midway, and values are written
//! again and again over all of it, so that many files have rows of one flush.
//!
//! What is drawn here comes from numbers of its own, so the rest of a plan is what it is without them.

use std::ops::Range;

use rand::{RngExt, SeedableRng};

use super::{DATABASES, DAY_NS, Draw, HOUR_NS, Random, STEP_NS, TABLES, Weather, pick};
use crate::plan::{Act, Change, Delete, Limits, Line, Restart, Tags, Value};

/// What of a plan is about partitions that change.
#[derive(Debug)]
pub(super) struct Shifts {
    random: Random,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Intervals stay what they are.
    None,
    /// They change now and then.
    Some,
    /// Everything is about it.
    All,
}

/// Hosts that such writes are about: few, so that rows meet.
const HOSTS: u32 = 3;

impl Shifts {
    pub(super) fn new(seed: u64, weather: Weather) -> Self {
        let mut random = Random::seed_from_u64(seed ^ 0x5417_F7ED);
        let kind = match random.random_range(0..100) {
            // A calm plan is run once for every call that it makes, and has to be short.
            0..12 if weather == Weather::Stormy => Kind::All,
            12..40 => Kind::Some,
            _ => Kind::None,
        };
        Self { random, kind }
    }

    /// Sizes at which a few batches make many files of one flush.
    pub(super) fn fit(&mut self, limits: &mut Limits) {
        if self.kind == Kind::All {
            limits.flush_rows = *pick(&mut self.random, &[50, 100, 300]);
            limits.fan_in = 2;
            limits.partition_rows_min = *pick(&mut self.random, &[1, 5, 5]);
            limits.widen_rows_max = *pick(&mut self.random, &[50, 500, 500]);
            limits.settle_ms = *pick(&mut self.random, &[0, 1, 1_000]);
        }
    }

    /// So many steps more than plans have.
    pub(super) fn more_steps(&self) -> usize {
        if self.kind == Kind::All { 25 } else { 0 }
    }
}

impl Draw {
    /// What comes next, if it is about partitions that change.
    pub(super) fn shift(&mut self) -> Option<Act> {
        let random = &mut self.shifts.random;
        let chance = match self.shifts.kind {
            Kind::None => return None,
            Kind::Some => 0.05,
            Kind::All => 0.9,
        };
        if !random.random_bool(chance) {
            return None;
        }
        if self.shifts.kind == Kind::Some {
            return Some(self.set_interval());
        }
        Some(match random.random_range(0..100) {
            0..46 => self.write_spread(),
            46..54 => Act::Flush,
            54..70 => Act::MaintainAll,
            70..80 => Act::Settle,
            80..88 => self.set_interval(),
            88..93 => self.delete_spread(),
            93..97 => Act::Restart(Restart::Stop),
            _ => Act::Restart(Restart::Clean),
        })
    }

    fn set_interval(&mut self) -> Act {
        let intervals = [
            1,
            STEP_NS,
            10 * STEP_NS,
            HOUR_NS,
            DAY_NS,
            DAY_NS,
            30 * DAY_NS,
        ];
        let change = Change::SetInterval {
            table: self.shifting_table(),
            interval_ns: *pick(&mut self.shifts.random, &intervals),
        };
        let database = DATABASES[0].to_owned();
        Act::Change { database, change }
    }

    fn shifting_table(&mut self) -> String {
        (*pick(&mut self.shifts.random, &TABLES[..2])).to_owned()
    }

    fn shifting_days(&mut self) -> Range<i64> {
        let random = &mut self.shifts.random;
        if random.random_bool(0.35) {
            let day = random.random_range(0..8);
            return day..day + 1;
        }
        let first = random.random_range(0..3);
        first..random.random_range(first + 1..=8)
    }

    /// The same few times of each of some days, of the same few series, with values that are new.
    fn write_spread(&mut self) -> Act {
        let days = self.shifting_days();
        let two_tables = self.shifts.random.random_bool(0.4);
        let table = self.shifting_table();
        let every = self.shifts.random.random_range(1..=3);
        let mut lines = Vec::new();
        for day in days {
            for at in (0..12).step_by(every) {
                let value = self.shifts.random.random_range(0..1_000_000);
                let host = self.shifts.random.random_range(0..HOSTS);
                let point = |table: &str| Line::Point {
                    table: table.to_owned(),
                    tags: Tags::from([("host".to_owned(), format!("h{host}"))]),
                    fields: vec![("ticks".to_owned(), Value::Integer(value))],
                    time: Some(day * DAY_NS + at * 100 * STEP_NS),
                };
                lines.push(point(&table));
                if two_tables {
                    let others = TABLES.iter().take(2).filter(|other| **other != table);
                    lines.extend(others.map(|other| point(other)));
                }
            }
        }
        Act::Write {
            database: DATABASES[0].to_owned(),
            lines,
            key: None,
        }
    }

    fn delete_spread(&mut self) -> Act {
        let days = self.shifting_days();
        let tag = self.shifts.random.random_bool(0.6);
        let delete = Delete {
            table: self.shifting_table(),
            time: (days.start * DAY_NS, days.start * DAY_NS + DAY_NS / 2),
            tag: tag.then(|| self.tag_filter()),
        };
        Act::Delete {
            database: DATABASES[0].to_owned(),
            delete,
        }
    }
}
