//! Content of a batch: rows that follow from a seed, a writer and a number, so that every value that is read back can be
//! compared with what was sent.
//!
//! Does: make rows, print them as line protocol, read them from an answer in CSV.
//! Does not: remember what became of a batch; the ledger does.

use std::fmt::Write as _;

use crate::random::Random;

/// Tables that a batch writes to, with their kinds of duplicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Rows of one series and time merge. Deletes happen here.
    Points,
    /// Every row stays, so that a batch that was stored twice shows.
    Kept,
    /// Rows are replaced as a whole.
    Once,
}

impl Table {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Points, Self::Kept, Self::Once];

    /// Its name in the database.
    pub fn name(self) -> &'static str {
        match self {
            Self::Points => "points",
            Self::Kept => "kept",
            Self::Once => "once",
        }
    }

    /// The statement that makes it.
    pub fn create(self) -> String {
        let kind = match self {
            Self::Points => "last",
            Self::Kept => "keep",
            Self::Once => "unique",
        };
        format!(
            "CREATE TABLE IF NOT EXISTS {} (time TIMESTAMPTZ NOT NULL, writer TEXT TAG, host TEXT TAG, batch BIGINT, \
             slot BIGINT, value DOUBLE PRECISION, big BIGINT UNSIGNED, flag BOOLEAN, note TEXT) \
             WITH (duplicates = '{kind}', partition_interval = '1 day')",
            self.name()
        )
    }

    /// How many of a batch's rows it gets.
    pub fn rows_of(self, rows: u64) -> u64 {
        match self {
            Self::Points | Self::Kept => rows,
            Self::Once => rows.min(ONCE_ROWS),
        }
    }
}

/// Rows of a batch in the table [`Table::Once`].
const ONCE_ROWS: u64 = 2;
/// The table of one row for each writer, which every batch of it overwrites: the order of batches shows there.
pub const LATEST: &str = "latest";
/// 2016-01-01.
pub const FIRST_NS: i64 = 1_451_606_400_000_000_000;
/// From one batch to the next: 86 batches of a writer are a day, and a partition.
const BATCH_NS: i64 = 1_000_000_000_000;
/// No multiple of `BATCH_NS`, so that a batch that comes late meets no other.
const LATE_NS: i64 = 604_800_000_000_000;
/// One batch in so many is a week late.
const LATE_ONE_IN: u64 = 9;
/// From one row to the next. A thousand rows are less than `BATCH_NS`.
const SLOT_NS: i64 = 1_000_003;
const SLOTS_MAX: u64 = 1000;
/// Tags with everything that has to be escaped.
const HOSTS: [&str; 5] = ["a", "b c", "d,e=f", "\u{e4}\u{f6}", "g\\h"];
const NOTES: [&str; 6] = [
    "plain",
    "two words",
    "a \"quoted\" word",
    "a\\backslash",
    "comma, and = sign",
    "\u{3b1}\u{3b2}\u{1f600}",
];

/// One note in so many is so long that files have it outside of their pages.
const LARGE_ONE_IN: u64 = 500;
const LARGE_BYTES: usize = 20_000;

/// One row, in each table that gets it.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Nanoseconds since 1970.
    pub time: i64,
    /// Who wrote it.
    pub writer: usize,
    /// A tag with odd characters.
    pub host: String,
    /// The batch's number among those of its writer.
    pub batch: u64,
    /// The row's number in its batch.
    pub slot: u64,
    /// Any finite double, bit for bit.
    pub value: f64,
    /// Any 64 bits.
    pub big: u64,
    /// A bit.
    pub flag: bool,
    /// Text, some of it long.
    pub note: String,
}

/// The columns in the order of [`Row::read`].
pub const COLUMNS: &str =
    "CAST(time AS BIGINT) AS at_ns, writer, host, batch, slot, value, big, flag, note";

/// What a run writes: the rows of a batch follow from this and its number.
#[derive(Debug, Clone, Copy)]
pub struct Content {
    /// Of the run.
    pub seed: u64,
    /// About so many rows a batch.
    pub rows_mean: u64,
}

impl Content {
    /// How many rows a batch has.
    pub fn rows(self, writer: usize, batch: u64) -> u64 {
        let mut random = Random::of(&[self.seed, writer as u64, batch]);
        (1 + random.below(2 * self.rows_mean)).min(SLOTS_MAX)
    }

    /// A row of a batch; `None` above its last.
    pub fn row(self, writer: usize, batch: u64, slot: u64) -> Option<Row> {
        if slot >= self.rows(writer, batch) {
            return None;
        }
        let late = Random::of(&[self.seed, batch]).one_in(LATE_ONE_IN);
        let begin = FIRST_NS + batch as i64 * BATCH_NS - if late { LATE_NS } else { 0 };
        let mut random = Random::of(&[self.seed, writer as u64, batch, slot]);
        let value = match random.below(8) {
            0 => -0.0,
            1 => random.below(1000) as f64 / 10.0,
            2 => random.below(1 << 40) as f64,
            _ => finite(random.draw()),
        };
        let mut note = (*random.pick(&NOTES)).to_owned();
        if random.one_in(20) {
            note = note.repeat(30);
        }
        if random.one_in(LARGE_ONE_IN) {
            note = note.repeat(LARGE_BYTES / note.len() + 1);
        }
        Some(Row {
            time: begin + slot as i64 * SLOT_NS,
            writer,
            host: (*random.pick(&HOSTS)).to_owned(),
            batch,
            slot,
            value,
            big: random.draw(),
            flag: random.one_in(2),
            note,
        })
    }

    /// The times of a batch's first and last row, between which its writer has no other row.
    pub fn span(self, writer: usize, batch: u64) -> Option<(i64, i64)> {
        let last = self.rows(writer, batch).checked_sub(1)?;
        let time = |slot| Some(self.row(writer, batch, slot)?.time);
        Some((time(0)?, time(last)?))
    }

    /// Whether a batch is sent, and deleted, through the addresses of InfluxDB.
    pub fn is_influx(self, writer: usize, batch: u64) -> bool {
        Random::of(&[self.seed, writer as u64, batch, 0x1f]).one_in(3)
    }

    /// The key that a batch is sent with; one in four has none.
    pub fn key(self, writer: usize, batch: u64) -> Option<String> {
        let has_none = Random::of(&[self.seed, writer as u64, batch, u64::MAX]).one_in(4);
        (!has_none).then(|| format!("{:x}-{writer}-{batch}", self.seed))
    }

    /// The body of a batch: its rows in every table, and the row that says it is the newest.
    pub fn lines(self, writer: usize, batch: u64) -> String {
        let rows = self.rows(writer, batch);
        let mut lines = String::new();
        for table in Table::ALL {
            for slot in 0..table.rows_of(rows) {
                if let Some(row) = self.row(writer, batch, slot) {
                    row.print(table, &mut lines);
                }
            }
        }
        writeln!(lines, "{LATEST},writer=w{writer} batch={batch}i {FIRST_NS}")
            .expect("a string takes all");
        lines
    }
}

/// A finite double of these bits.
fn finite(bits: u64) -> f64 {
    let value = f64::from_bits(bits);
    if value.is_finite() {
        value
    } else {
        f64::from_bits(bits & !(1 << 62))
    }
}

impl Row {
    fn print(&self, table: Table, lines: &mut String) {
        let (name, writer, batch, slot) = (table.name(), self.writer, self.batch, self.slot);
        // A backslash before anything else stands for itself in a tag.
        let host = escape(&self.host, &[',', '=', ' ']);
        let note = escape(&self.note, &['"', '\\']);
        let (value, big, flag, time) = (self.value, self.big, self.flag, self.time);
        writeln!(
            lines,
            "{name},writer=w{writer},host={host} batch={batch}i,slot={slot}i,value={value:e},big={big}u,\
             flag={flag},note=\"{note}\" {time}"
        )
        .expect("a string takes all");
    }

    /// Reads a row of an answer of [`COLUMNS`] in CSV; `None` if it is no row of ours.
    pub fn read(cells: &[String]) -> Option<Self> {
        let [time, writer, host, batch, slot, value, big, flag, note] = cells else {
            return None;
        };
        Some(Self {
            time: time.parse().ok()?,
            writer: writer.strip_prefix('w')?.parse().ok()?,
            host: host.clone(),
            batch: batch.parse().ok()?,
            slot: slot.parse().ok()?,
            value: value.parse().ok()?,
            big: big.parse().ok()?,
            flag: flag.parse().ok()?,
            note: note.clone(),
        })
    }

    /// Whether everything is the same, floats bit for bit.
    pub fn is_same(&self, other: &Self) -> bool {
        self == other && self.value.to_bits() == other.value.to_bits()
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

/// The records of a text in CSV (RFC 4180), header line included.
pub fn read_csv(text: &str) -> Vec<Vec<String>> {
    let mut records = Vec::new();
    let mut record = Vec::new();
    let mut cell = String::new();
    let mut is_quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if is_quoted && chars.peek() == Some(&'"') => {
                chars.next();
                cell.push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => record.push(std::mem::take(&mut cell)),
            '\r' if !is_quoted => {}
            '\n' if !is_quoted => {
                record.push(std::mem::take(&mut cell));
                records.push(std::mem::take(&mut record));
            }
            c => cell.push(c),
        }
    }
    if !cell.is_empty() || !record.is_empty() {
        record.push(cell);
        records.push(record);
    }
    records
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const CONTENT: Content = Content {
        seed: 5,
        rows_mean: 40,
    };

    #[test]
    fn rows_of_one_series_never_share_a_time() {
        for writer in 0..2 {
            let mut keys = BTreeSet::new();
            let mut rows = 0;
            for batch in 0..2000 {
                for slot in 0..CONTENT.rows(writer, batch) {
                    let row = CONTENT.row(writer, batch, slot).unwrap();
                    keys.insert((row.host, row.time));
                    rows += 1;
                }
            }
            assert_eq!(keys.len(), rows);
        }
    }

    #[test]
    fn a_line_has_every_character_escaped_that_line_protocol_wants_escaped() {
        let row = Row {
            time: 7,
            writer: 1,
            host: "d,e=f g\\h".to_owned(),
            batch: 2,
            slot: 3,
            value: -0.0,
            big: 9,
            flag: true,
            note: "a \"b\" \\".to_owned(),
        };
        let mut lines = String::new();
        row.print(Table::Kept, &mut lines);
        assert_eq!(
            lines,
            "kept,writer=w1,host=d\\,e\\=f\\ g\\h batch=2i,slot=3i,value=-0e0,big=9u,flag=true,\
             note=\"a \\\"b\\\" \\\\\" 7\n"
        );
    }

    #[test]
    fn csv_is_read_with_quotes_commas_and_line_ends_inside() {
        let records = read_csv("a,b\n1,\"x, \"\"y\"\"\nz\"\n,\n");
        assert_eq!(
            records,
            [vec!["a", "b"], vec!["1", "x, \"y\"\nz"], vec!["", ""]]
        );
    }

    #[test]
    fn a_row_differs_when_one_bit_of_it_does() {
        let row = CONTENT.row(0, 1, 0).unwrap();
        assert!(row.is_same(&row.clone()));
        let mut other = row.clone();
        other.value = f64::from_bits(row.value.to_bits() ^ 1);
        assert!(!row.is_same(&other));
        let zero = Row { value: 0.0, ..row };
        let negative = Row {
            value: -0.0,
            ..zero.clone()
        };
        assert!(!zero.is_same(&negative));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_reader_of_csv_or_rows_panic(text: String) {
            for record in read_csv(&text) {
                let _ = Row::read(&record);
            }
        }
    }
}
