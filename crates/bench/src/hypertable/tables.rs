//! The three kinds of table of the suite, their rows and their statements.
//!
//! Does: say what makes each kind at each database, write the rows as text. Does not: send anything.

use std::io::Write as _;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::servers::Peer;
use crate::calendar::format_rfc3339;

/// Days, and so partitions.
pub(super) const DAYS: i64 = 30;
/// The newest partitions: the "recent" ones.
pub(super) const RECENT_DAYS: i64 = 3;
const DAY_US: i64 = 86_400_000_000;
/// 2024-01-01.
pub(super) const START_US: i64 = 1_704_067_200_000_000;
const DEVICES: u64 = 100;
const METRICS: usize = 10;
/// Values are hundredths between 0 and 100.
const HUNDREDTHS_MAX: i32 = 10_000;

/// A kind of table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A table as `CREATE TABLE` makes it, without an index on the time.
    Plain,
    /// A hypertable of 30 chunks; at PostgreSQL a table of 30 partitions, with the same indexes.
    Hypertable,
    /// A hypertable whose chunks are all compressed.
    Compressed,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Plain, Self::Hypertable, Self::Compressed];

    /// As the reference calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Hypertable => "hypertable",
            Self::Compressed => "compressed",
        }
    }

    /// Its table.
    pub(super) fn table(self) -> &'static str {
        match self {
            Self::Plain => "bench_plain",
            Self::Hypertable => "bench_hypertable",
            Self::Compressed => "bench_compressed",
        }
    }

    /// Those that a database has.
    pub(super) fn of(peer: Peer) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |it| it.is_of(peer))
    }

    /// Whether a database has such tables.
    pub(super) fn is_of(self, peer: Peer) -> bool {
        peer != Peer::Postgresql || self != Self::Compressed
    }

    /// The statements that make the table, in place of one that is there.
    pub(super) fn create(self, peer: Peer) -> Vec<String> {
        let table = self.table();
        let by_range = match (self, peer) {
            (Self::Hypertable, Peer::Postgresql) => " PARTITION BY RANGE (time)",
            _ => "",
        };
        let metrics: Vec<String> = (0..METRICS)
            .map(|metric| format!("m{metric} double precision"))
            .collect();
        let mut statements = vec![
            format!("DROP TABLE IF EXISTS {table}"),
            format!(
                "CREATE TABLE {table} (time timestamptz NOT NULL, device_id integer, place text, {}){by_range}",
                metrics.join(", ")
            ),
        ];
        if self == Self::Plain {
            return statements;
        }
        statements.push(format!("CREATE INDEX ON {table} (device_id, time DESC)"));
        if peer == Peer::Postgresql {
            statements.push(format!("CREATE INDEX ON {table} (time DESC)"));
            for day in 0..DAYS {
                let at = |day: i64| format_rfc3339((START_US + day * DAY_US) * 1000);
                statements.push(format!(
                    "CREATE TABLE {table}_{day} PARTITION OF {table} FOR VALUES FROM ('{}') TO ('{}')",
                    at(day),
                    at(day + 1)
                ));
            }
        } else {
            statements.push(format!(
                "SELECT create_hypertable('{table}', 'time', chunk_time_interval => INTERVAL '1 day')"
            ));
        }
        if self == Self::Compressed {
            statements.push(format!(
                "ALTER TABLE {table} SET (timescaledb.compress, timescaledb.compress_segmentby = 'device_id', timescaledb.compress_orderby = 'time DESC')"
            ));
        }
        statements
    }

    /// The statement that compresses it once its rows are there.
    pub(super) fn compress(self) -> Option<String> {
        let table = self.table();
        (self == Self::Compressed)
            .then(|| format!("SELECT compress_chunk(c) FROM show_chunks('{table}') AS c"))
    }

    /// The statement that asks for its bytes with all its indexes.
    pub(super) fn size(self, peer: Peer) -> String {
        let table = self.table();
        match (self, peer) {
            (Self::Plain, _) => format!("SELECT pg_total_relation_size('{table}')"),
            (_, Peer::Postgresql) => format!(
                "SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree('{table}')"
            ),
            _ => format!("SELECT hypertable_size('{table}')"),
        }
    }

    pub(super) fn copy(self) -> String {
        format!("COPY {} FROM STDIN", self.table())
    }

    pub(super) fn insert(self) -> String {
        let values: Vec<String> = (1..=METRICS + 3).map(|it| format!("${it}")).collect();
        format!(
            "INSERT INTO {} VALUES ({})",
            self.table(),
            values.join(", ")
        )
    }

    pub(super) fn select(self) -> String {
        format!(
            "SELECT * FROM {} WHERE time >= $1 AND time < $2",
            self.table()
        )
    }
}

/// The rows that are there before the tests: evenly spread over all days, devices in turn, values that walk.
#[derive(Debug)]
pub(super) struct Rows {
    count: u64,
    next: u64,
    values: Vec<[i32; METRICS]>,
    random: Xoshiro256PlusPlus,
}

impl Rows {
    pub(super) fn new(rows: u64, seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let device = |_| std::array::from_fn(|_| random.random_range(0..=HUNDREDTHS_MAX));
        Self {
            count: rows,
            next: 0,
            values: (0..DEVICES).map(device).collect(),
            random,
        }
    }

    /// Adds lines for COPY until there are so many bytes, or no more rows.
    pub(super) fn fill(&mut self, to: &mut Vec<u8>, bytes: usize) {
        while self.next < self.count && to.len() < bytes {
            let time_us = START_US + time_of(self.next, self.count);
            let device = self.next % DEVICES;
            let slot = usize::try_from(device).unwrap_or(0);
            let Some(values) = self.values.get_mut(slot) else {
                return;
            };
            let time = format_rfc3339(time_us * 1000);
            write!(to, "{time}\t{device}\t{}", place(device)).expect("memory takes all");
            for value in values {
                let step = self.random.random_range(-100..=100);
                *value = (*value + step).clamp(0, HUNDREDTHS_MAX);
                write!(to, "\t{}.{:02}", *value / 100, *value % 100).expect("memory takes all");
            }
            to.push(b'\n');
            self.next += 1;
        }
    }
}

/// The time of a row within the days, in microseconds.
fn time_of(row: u64, rows: u64) -> i64 {
    let span = u128::from((DAYS * DAY_US).unsigned_abs());
    let at = u128::from(row) * span / u128::from(rows.max(1));
    i64::try_from(at).unwrap_or(0)
}

/// How many rows lie in a span of time.
pub(super) fn rows_in(rows: u64, from_us: i64, until_us: i64) -> usize {
    // Times grow with the rows, so the rows of a span are those between two bounds.
    let before = |at_us: i64| {
        let (mut low, mut high) = (0, rows);
        while low < high {
            let middle = u64::midpoint(low, high);
            if START_US + time_of(middle, rows) < at_us {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    };
    usize::try_from(before(until_us) - before(from_us)).unwrap_or(usize::MAX)
}

/// Twelve letters of where a device is.
fn place(device: u64) -> String {
    format!("hall-{:02}-{:04}", device % 7, device)
}

/// Which days a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Days {
    /// Any.
    Random,
    /// All but the newest three chunks.
    Cold,
    /// The newest three chunks.
    Recent,
}

impl Days {
    /// A random microsecond of these days, with `room_us` behind it.
    pub(super) fn draw(self, random: &mut Xoshiro256PlusPlus, room_us: i64) -> i64 {
        let recent = DAYS - RECENT_DAYS;
        let (from, until) = match self {
            Self::Random => (0, DAYS),
            Self::Cold => (0, recent),
            Self::Recent => (recent, DAYS),
        };
        START_US + random.random_range(from * DAY_US..until * DAY_US - room_us)
    }
}

/// The parameters of an INSERT.
pub(super) fn draw_row(days: Days, random: &mut Xoshiro256PlusPlus) -> Vec<String> {
    let time = format_rfc3339(days.draw(random, 1) * 1000);
    let device = random.random_range(0..DEVICES);
    let mut row = vec![time, device.to_string(), place(device)];
    row.extend((0..METRICS).map(|_| {
        let value = random.random_range(0..=HUNDREDTHS_MAX);
        format!("{}.{:02}", value / 100, value % 100)
    }));
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_lie_evenly_in_thirty_days_and_are_counted_by_their_times() {
        let mut text = Vec::new();
        let mut rows = Rows::new(3000, 1);
        rows.fill(&mut text, usize::MAX);
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<Vec<&str>> = text.lines().map(|it| it.split('\t').collect()).collect();
        assert_eq!(lines.len(), 3000);
        // A hundred rows a day, one every 864 seconds.
        assert_eq!(lines[0][0], "2024-01-01T00:00:00Z");
        assert_eq!(lines[1][0], "2024-01-01T00:14:24Z");
        assert_eq!(lines[2999][0], "2024-01-30T23:45:36Z");
        assert_eq!(lines[101][1..3], ["1", "hall-01-0001"]);
        for line in &lines {
            assert_eq!(line.len(), 13);
            for value in &line[3..] {
                let value: f64 = value.parse().unwrap();
                assert!((0.0..=100.0).contains(&value), "{value}");
            }
        }
        let at = |seconds: i64| START_US + seconds * 1_000_000;
        for (from, until, expected) in [(0, 864, 1), (0, 865, 2), (1, 864, 0), (0, 86_400, 100)] {
            assert_eq!(rows_in(3000, at(from), at(until)), expected);
        }
        assert_eq!(rows_in(3000, at(0), at(30 * 86_400)), 3000);
    }

    #[test]
    fn recent_days_are_the_last_three() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
        let border = START_US + 27 * DAY_US;
        for _ in 0..1000 {
            assert!(Days::Recent.draw(&mut random, 60_000_000) >= border);
            assert!(Days::Cold.draw(&mut random, 60_000_000) < border - 60_000_000);
        }
    }
}
