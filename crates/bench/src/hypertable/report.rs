//! The figures of the suite, and tables of them beside what the reference publishes.
//!
//! Does: reduce times to high peak, average and low peak as the reference does, write Markdown. Does not: measure.

use std::fmt::Write as _;

use serde::Serialize;

use super::servers::Peer;
use super::tables::{Days, Kind};
use crate::load::grouped;

/// Of all requests, so many hundredths are the slowest, and so many the fastest.
const PEAK_PERCENT: usize = 20;

/// A test of a kind of table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Test {
    /// One row by INSERT, durable when it is answered.
    Insert(Days),
    /// All columns of one minute.
    Query(Days),
    /// `SELECT 1`: what a round trip costs.
    One,
}

impl Test {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Insert(Days::Random) => "random insert",
            Self::Insert(Days::Cold) => "insert, cold",
            Self::Insert(Days::Recent) => "insert, recent",
            Self::Query(Days::Random) => "random query",
            Self::Query(Days::Cold) => "query, cold",
            Self::Query(Days::Recent) => "query, recent",
            Self::One => "SELECT 1",
        }
    }
}

/// Milliseconds of a test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Peaks {
    /// Mean of the slowest fifth.
    pub high_ms: f64,
    /// Mean of all.
    pub average_ms: f64,
    /// Mean of the fastest fifth.
    pub low_ms: f64,
}

impl Peaks {
    pub(super) fn of(mut millis: Vec<f64>) -> Self {
        millis.sort_by(f64::total_cmp);
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len().max(1) as f64;
        let fifth = (millis.len() * PEAK_PERCENT / 100).max(1).min(millis.len());
        let (low, _) = millis.split_at(fifth);
        let (_, high) = millis.split_at(millis.len() - fifth);
        Self {
            high_ms: mean(high),
            average_ms: mean(&millis),
            low_ms: mean(low),
        }
    }

    fn text(self) -> String {
        let shown = |ms: f64| match ms {
            ms if ms < 10.0 => format!("{ms:.3}"),
            ms => format!("{ms:.1}"),
        };
        let parts = [self.high_ms, self.average_ms, self.low_ms].map(shown);
        parts.join(" / ")
    }
}

/// The times of a test at a database.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Timed {
    /// The database.
    pub peer: Peer,
    /// The kind of table; none of `SELECT 1`.
    pub kind: Option<Kind>,
    /// What was asked.
    pub test: Test,
    /// How often.
    pub requests: usize,
    /// How long it took.
    pub peaks: Peaks,
}

/// A table at a database.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Loaded {
    /// The database.
    pub peer: Peer,
    /// The kind of table.
    pub kind: Kind,
    /// How long its rows took by COPY.
    pub load_seconds: f64,
    /// How long it took to be compressed, if it was.
    pub compress_seconds: Option<f64>,
    /// Its bytes with all indexes, before the tests.
    pub bytes: u64,
}

/// A database that was asked.
#[derive(Debug, Clone, Serialize)]
pub struct Asked {
    /// Which it is.
    pub peer: Peer,
    /// What it says of its version.
    pub version: String,
    /// Its settings that decide how durable a row is, and others that matter.
    pub settings: String,
}

/// What the suite found.
#[derive(Debug, Clone, Serialize)]
pub struct HypertableReport {
    /// Rows of each table before the tests.
    pub rows: u64,
    /// The databases.
    pub asked: Vec<Asked>,
    /// Their tables.
    pub loaded: Vec<Loaded>,
    /// Their times.
    pub timed: Vec<Timed>,
    /// Databases that were not asked, and why.
    pub left_out: Vec<String>,
}

/// What the reference publishes, in ms (high peak, average, low peak): PostgreSQL 16 with TimescaleDB, 10,000 requests each.
const PUBLISHED: [(Test, Kind, &str); 14] = [
    (
        Test::Insert(Days::Random),
        Kind::Plain,
        "22.0 / 13.26 / 7.45",
    ),
    (
        Test::Insert(Days::Random),
        Kind::Hypertable,
        "33.24 / 16.15 / 8.15",
    ),
    (
        Test::Insert(Days::Random),
        Kind::Compressed,
        "22.38 / 13.57 / 7.9",
    ),
    (
        Test::Query(Days::Random),
        Kind::Plain,
        "46.76 / 23.17 / 9.74",
    ),
    (
        Test::Query(Days::Random),
        Kind::Hypertable,
        "43.66 / 24.49 / 13.0",
    ),
    (
        Test::Query(Days::Random),
        Kind::Compressed,
        "36.65 / 21.18 / 12.24",
    ),
    (
        Test::Insert(Days::Cold),
        Kind::Hypertable,
        "27.91 / 14.88 / 8.1",
    ),
    (
        Test::Insert(Days::Cold),
        Kind::Compressed,
        "26.04 / 14.69 / 7.89",
    ),
    (
        Test::Insert(Days::Recent),
        Kind::Hypertable,
        "30.71 / 15.8 / 8.36",
    ),
    (
        Test::Insert(Days::Recent),
        Kind::Compressed,
        "20.07 / 12.09 / 6.93",
    ),
    (
        Test::Query(Days::Cold),
        Kind::Hypertable,
        "31.16 / 19.0 / 10.26",
    ),
    (
        Test::Query(Days::Cold),
        Kind::Compressed,
        "31.6 / 18.2 / 9.9",
    ),
    (
        Test::Query(Days::Recent),
        Kind::Hypertable,
        "39.21 / 21.21 / 10.49",
    ),
    (
        Test::Query(Days::Recent),
        Kind::Compressed,
        "25.17 / 15.56 / 7.78",
    ),
];

/// What the reference publishes of sizes.
const PUBLISHED_BYTES: [(Kind, &str); 2] = [
    (Kind::Hypertable, "208.42 MB (table 146.76, index 61.66)"),
    (Kind::Compressed, "14.69 MB (7.05 %)"),
];

/// The tests of a kind, in the order of the reference.
pub(super) fn tests_of(kind: Kind) -> Vec<Test> {
    let days: &[Days] = match kind {
        Kind::Plain => &[Days::Random],
        _ => &[Days::Random, Days::Cold, Days::Recent],
    };
    // Reads before the writes, whose rows they would find too.
    let queries = days.iter().map(|days| Test::Query(*days));
    let inserts = days.iter().map(|days| Test::Insert(*days));
    queries.chain(inserts).collect()
}

impl HypertableReport {
    fn peers(&self) -> Vec<Peer> {
        self.asked.iter().map(|asked| asked.peer).collect()
    }

    fn timed(&self, peer: Peer, kind: Option<Kind>, test: Test) -> Option<&Timed> {
        let mut timed = self.timed.iter();
        timed.find(|it| it.peer == peer && it.kind == kind && it.test == test)
    }

    fn loaded(&self, peer: Peer, kind: Kind) -> Option<&Loaded> {
        let mut loaded = self.loaded.iter();
        loaded.find(|it| it.peer == peer && it.kind == kind)
    }

    /// Tables in Markdown, with what was asked.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        for asked in &self.asked {
            let _ = writeln!(
                text,
                "{} {}: {}",
                asked.peer.name(),
                asked.version,
                asked.settings
            );
        }
        for left_out in &self.left_out {
            let _ = writeln!(text, "{left_out}");
        }
        let names: Vec<&str> = self.peers().into_iter().map(Peer::name).collect();
        let _ = writeln!(
            text,
            "\n{} rows in 30 partitions. Milliseconds: mean of the slowest fifth / of all / of the fastest fifth.\n\n\
             | test | table | requests | {} | of the others' least | published |\n|---|---|---|{}---|---|",
            grouped(self.rows),
            names.join(" | "),
            "---|".repeat(names.len())
        );
        self.one_line(&mut text);
        for kind in Kind::ALL {
            for test in tests_of(kind) {
                self.line(&mut text, kind, test);
            }
        }
        self.sizes(&mut text, &names);
        text
    }

    fn one_line(&self, text: &mut String) {
        let cells: Vec<String> = self
            .peers()
            .into_iter()
            .map(|peer| {
                let timed = self.timed(peer, None, Test::One);
                timed.map_or("-".to_owned(), |it| it.peaks.text())
            })
            .collect();
        let requests = self.timed.iter().find(|it| it.test == Test::One);
        let requests = requests.map_or(0, |it| it.requests);
        let _ = writeln!(
            text,
            "| {} | - | {requests} | {} | - | - |",
            Test::One.name(),
            cells.join(" | ")
        );
    }

    fn line(&self, out: &mut String, kind: Kind, test: Test) {
        let mut requests = usize::MAX;
        let mut cells = Vec::new();
        let (mut own, mut least): (Option<Peaks>, Option<Peaks>) = (None, None);
        for peer in self.peers() {
            let timed = self.timed(peer, Some(kind), test);
            cells.push(timed.map_or("-".to_owned(), |it| it.peaks.text()));
            let Some(timed) = timed else {
                continue;
            };
            requests = requests.min(timed.requests);
            let peaks = timed.peaks;
            if peer == Peer::Nilometer {
                own = Some(peaks);
            } else {
                let other = least.unwrap_or(peaks);
                least = Some(Peaks {
                    high_ms: peaks.high_ms.min(other.high_ms),
                    average_ms: peaks.average_ms.min(other.average_ms),
                    low_ms: peaks.low_ms.min(other.low_ms),
                });
            }
        }
        if own.is_none() && least.is_none() {
            return;
        }
        let ratio = own.zip(least).map_or("-".to_owned(), |(own, least)| {
            format!(
                "{:.2} / {:.2} / {:.2}",
                own.high_ms / least.high_ms,
                own.average_ms / least.average_ms,
                own.low_ms / least.low_ms
            )
        });
        let mut published = PUBLISHED.iter();
        let published = published.find(|(it, of, _)| *it == test && *of == kind);
        let _ = writeln!(
            out,
            "| {} | {} | {requests} | {} | {ratio} | {} |",
            test.name(),
            kind.name(),
            cells.join(" | "),
            published.map_or("-", |(_, _, text)| text)
        );
    }

    fn sizes(&self, text: &mut String, names: &[&str]) {
        let _ = writeln!(
            text,
            "\n| bytes with indexes (seconds of COPY, of compression) | {} | published |\n|---|{}---|",
            names.join(" | "),
            "---|".repeat(names.len())
        );
        for kind in Kind::ALL {
            let cells: Vec<String> = self
                .peers()
                .into_iter()
                .map(|peer| match self.loaded(peer, kind) {
                    None => "-".to_owned(),
                    Some(it) => {
                        let compressed = it.compress_seconds;
                        let compressed =
                            compressed.map_or(String::new(), |it| format!(", {it:.1}"));
                        format!("{} ({:.1}{compressed})", grouped(it.bytes), it.load_seconds)
                    }
                })
                .collect();
            let published = PUBLISHED_BYTES.iter().find(|(of, _)| *of == kind);
            let _ = writeln!(
                text,
                "| {} | {} | {} |",
                kind.name(),
                cells.join(" | "),
                published.map_or("-", |(_, text)| text)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: of ten times the two fastest, all, and the two slowest.
    #[test]
    fn peaks_are_means_of_the_outer_fifths() {
        let peaks = Peaks::of((1..=10).rev().map(f64::from).collect());
        assert_eq!(
            (peaks.low_ms, peaks.average_ms, peaks.high_ms),
            (1.5, 5.5, 9.5)
        );
        let one = Peaks::of(vec![3.0]);
        assert_eq!((one.low_ms, one.average_ms, one.high_ms), (3.0, 3.0, 3.0));
        assert!(Peaks::of(Vec::new()).average_ms.abs() < 1e-9);
    }

    #[test]
    fn the_table_sets_ratios_beside_what_is_published() {
        let timed = |peer, ms| Timed {
            peer,
            kind: Some(Kind::Hypertable),
            test: Test::Insert(Days::Cold),
            requests: 10,
            peaks: Peaks::of(vec![ms]),
        };
        let asked = |peer| Asked {
            peer,
            version: "1".to_owned(),
            settings: "defaults".to_owned(),
        };
        let peers = [Peer::Nilometer, Peer::Postgresql, Peer::Timescaledb];
        let report = HypertableReport {
            rows: 1_010_000,
            asked: peers.map(asked).to_vec(),
            loaded: vec![Loaded {
                peer: Peer::Nilometer,
                kind: Kind::Compressed,
                load_seconds: 2.0,
                compress_seconds: Some(0.5),
                bytes: 12_345_678,
            }],
            timed: vec![
                timed(Peer::Nilometer, 0.5),
                timed(Peer::Postgresql, 2.0),
                timed(Peer::Timescaledb, 1.0),
            ],
            left_out: Vec::new(),
        };
        let text = report.markdown();
        let line = "| insert, cold | hypertable | 10 | 0.500 / 0.500 / 0.500 | 2.000 / 2.000 / 2.000 | 1.000 / 1.000 / 1.000 | 0.50 / 0.50 / 0.50 | 27.91 / 14.88 / 8.1 |";
        assert!(text.contains(line), "{text}");
        assert!(
            text.contains("| compressed | 12,345,678 (2.0, 0.5) | - | - | 14.69 MB"),
            "{text}"
        );
        // What was not measured has no line.
        assert!(!text.contains("random query"), "{text}");
    }
}
