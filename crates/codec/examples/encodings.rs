//! Prints a table of what columns take by each writer: bytes a value, nanoseconds to write one, and how fast they are read.
//!
//! `cargo run --release -p nilometer-codec --features zstd,pco --example encodings -- [FILE.influx...]`
//!
//! Each file is line protocol as TSBS writes it; its columns are those of a table, series after series, in blocks of 1024
//! rows, as a segment has them. Without a file there are only the columns that are made here. Times are the best of
//! several rounds over all pages of a column, on one core.

#![expect(
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    reason = "the table is the output, and rounding to integers is how its values are made"
)]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use nilometer_codec::{
    BLOCK_ROWS_MAX, ColdColumn, ColumnBuf, ColumnRef, Encoding, PageSet, SharedHeader, ValuesRef,
    decode_page_with, encode_cold_column, encode_page_of, page_header,
};

/// Blocks of a column that share a header.
const GROUP_BLOCKS: usize = 256;

const ROUNDS: usize = 7;
/// Reading is quick: of many rounds one meets a core that nobody else wants.
const READ_ROUNDS: usize = 151;

/// The values of one column.
#[derive(Clone)]
enum Values {
    I64(Vec<i64>),
    F64(Vec<f64>),
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Self::I64(values) => values.len(),
            Self::F64(values) => values.len(),
        }
    }

    fn blocks(&self) -> Vec<ColumnRef<'_>> {
        let column = |values| ColumnRef {
            values,
            validity: None,
        };
        match self {
            Self::I64(values) => {
                let blocks = values.chunks(BLOCK_ROWS_MAX);
                blocks.map(|it| column(ValuesRef::I64(it))).collect()
            }
            Self::F64(values) => {
                let blocks = values.chunks(BLOCK_ROWS_MAX);
                blocks.map(|it| column(ValuesRef::F64(it))).collect()
            }
        }
    }
}

/// Pages and the headers that they share.
#[derive(Default)]
struct Written {
    groups: Vec<ColdColumn>,
}

impl Written {
    fn of(blocks: &[ColumnRef<'_>], writer: Writer) -> Self {
        let group = |blocks: &[ColumnRef<'_>]| {
            let mut out = ColdColumn::default();
            match writer {
                Writer::Cold => {
                    encode_cold_column(blocks, PageSet::Third, &mut out)
                        .expect("the columns are valid");
                }
                Writer::Hot(set) => {
                    for block in blocks {
                        encode_page_of(*block, set, &mut out.pages).expect("the column is valid");
                        out.ends.push(out.pages.len());
                    }
                }
            }
            out
        };
        Self {
            groups: blocks.chunks(GROUP_BLOCKS).map(group).collect(),
        }
    }

    fn bytes(&self) -> usize {
        let bytes = |group: &ColdColumn| group.header.len() + group.pages.len();
        self.groups.iter().map(bytes).sum()
    }

    /// The encodings of the pages, the most frequent one first.
    fn encodings(&self) -> String {
        let mut counts: BTreeMap<u8, (usize, Encoding)> = BTreeMap::new();
        for group in &self.groups {
            for index in 0..group.ends.len() {
                let header = page_header(group.page(index)).expect("the page is ours");
                let entry = counts.entry(header.encoding as u8);
                entry.or_insert((0, header.encoding)).0 += 1;
            }
        }
        let mut counts: Vec<_> = counts.into_values().collect();
        counts.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        let names = counts.iter().map(|(_, encoding)| format!("{encoding:?}"));
        names.take(2).collect::<Vec<_>>().join(", ")
    }

    fn read(&self, blocks: &[ColumnRef<'_>], out: &mut ColumnBuf) {
        let mut left = blocks;
        for group in &self.groups {
            let kind = left.first().map(ColumnRef::physical_type);
            let shared = kind
                .filter(|_| !group.header.is_empty())
                .map(|kind| SharedHeader::parse(kind, &group.header).expect("the header is ours"));
            for index in 0..group.ends.len() {
                decode_page_with(black_box(group.page(index)), shared.as_ref(), out)
                    .expect("the page is ours");
                black_box(&out);
            }
            left = left.get(group.ends.len()..).unwrap_or_default();
        }
    }
}

#[derive(Clone, Copy)]
enum Writer {
    Hot(PageSet),
    Cold,
}

fn best_of(rounds: usize, mut call: impl FnMut()) -> Duration {
    let round = |_| {
        let start = Instant::now();
        call();
        start.elapsed()
    };
    (0..rounds).map(round).min().unwrap_or_default()
}

/// Totals of a data set.
#[derive(Default, Clone, Copy)]
struct Total {
    values: usize,
    bytes: usize,
    write: Duration,
    read: Duration,
}

fn measure(name: &str, values: &Values, totals: &mut [Total; 3], print: bool) {
    let blocks = values.blocks();
    let writers = [
        Writer::Hot(PageSet::First),
        Writer::Hot(PageSet::Second),
        Writer::Cold,
    ];
    let mut line = format!("| {name} | {} ", values.len());
    for (writer, total) in writers.into_iter().zip(totals) {
        let written = Written::of(&blocks, writer);
        let write = best_of(ROUNDS, || {
            black_box(Written::of(black_box(&blocks), writer));
        });
        let mut out = ColumnBuf::default();
        let read = best_of(READ_ROUNDS, || written.read(&blocks, &mut out));
        line += &cells(values.len(), written.bytes(), write, read);
        line += &written.encodings();
        line += " ";
        total.values += values.len();
        total.bytes += written.bytes();
        total.write += write;
        total.read += read;
    }
    if print {
        println!("{line}|");
    }
}

fn cells(values: usize, bytes: usize, write: Duration, read: Duration) -> String {
    let n = values as f64;
    format!(
        "| {:.3} | {:.1} | {:.2} | ",
        bytes as f64 / n,
        write.as_secs_f64() * 1e9 / n,
        n / read.as_secs_f64() / 1e9
    )
}

fn head() {
    println!(
        "| column | values | hot, first set: B/value | write ns | read G/s | pages | hot, second set: B/value | write ns | read G/s | pages | cold: B/value | write ns | read G/s | pages |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
}

fn report_total(name: &str, totals: &[Total; 3]) {
    let mut line = format!("| **{name}, all** | {} ", totals[0].values);
    for total in totals {
        line += &cells(total.values, total.bytes, total.write, total.read);
    }
    println!("{line}|");
}

/// The numbers of line protocol without quoted text and escapes, by table and field, series after series.
fn columns_of(text: &str) -> BTreeMap<String, Values> {
    let mut series: BTreeMap<(String, String, String), Values> = BTreeMap::new();
    for line in text.lines() {
        let mut parts = line.split(' ');
        let (Some(key), Some(fields), Some(time)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let table = key.split(',').next().unwrap_or_default();
        let times = time
            .parse::<i64>()
            .map(|time| ("time", Values::I64(vec![time])));
        let pairs = fields.split(',').filter_map(|field| {
            let (name, value) = field.split_once('=')?;
            let value = match value.strip_suffix('i') {
                Some(value) => Values::I64(vec![value.parse().ok()?]),
                None => Values::F64(vec![value.parse().ok()?]),
            };
            Some((name, value))
        });
        for (name, value) in pairs.chain(times) {
            let place = (table.to_owned(), name.to_owned(), key.to_owned());
            append(&mut series, place, value);
        }
    }
    let mut columns = BTreeMap::new();
    for ((table, field, _), values) in series {
        append(&mut columns, format!("{table}.{field}"), values);
    }
    columns
}

fn append<K: Ord>(to: &mut BTreeMap<K, Values>, place: K, values: Values) {
    match (to.get_mut(&place), values) {
        (Some(Values::I64(all)), Values::I64(values)) => all.extend(values),
        (Some(Values::F64(all)), Values::F64(values)) => all.extend(values),
        (None, values) => {
            to.insert(place, values);
        }
        _ => {}
    }
}

/// A small generator, so that the figures repeat.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Uniform between 0 and 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// About normal, mean 0, deviation 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

fn made() -> Vec<(&'static str, Values)> {
    const N: usize = 256 * 1024;
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let mut walk = |start: f64, step: f64| {
        let mut at = start;
        let next = |_| {
            at += step * noise.normal();
            at
        };
        (0..N).map(next).collect::<Vec<f64>>()
    };
    let steps = |walk: &[f64], unit: f64| {
        let round = |value: &f64| (value / unit).round() * unit;
        Values::F64(walk.iter().map(round).collect())
    };
    let hundredths = |walk: &[f64]| {
        let round = |value: &f64| (value * 100.0).round() / 100.0;
        Values::F64(walk.iter().map(round).collect())
    };
    let warm = walk(20.0, 0.1);
    let volts = walk(1.5, 0.002);
    let quiet = walk(230.0, 1.0);
    let singles = Values::F64(warm.iter().map(|value| f64::from(*value as f32)).collect());
    let mut noise = Noise(42);
    let mut at = 0;
    let counter = (0..N).map(|_| {
        at += 40 + (noise.next() % 21) as i64;
        at
    });
    let counter = Values::I64(counter.collect());
    let mut at = 0;
    let bursts = (0..N).map(|row| {
        let calm = row / 96 % 4 != 0;
        at += (noise.next() % if calm { 4 } else { 100_000 }) as i64;
        at
    });
    let bursts = Values::I64(bursts.collect());
    let times = (0..N as i64).map(|row| 1_700_000_000_000 + row * 1000 + (noise.next() % 7) as i64);
    let times = Values::I64(times.collect());
    vec![
        ("temperature in 1/16", steps(&warm, 1.0 / 16.0)),
        ("voltage in 1/4096", steps(&volts, 1.0 / 4096.0)),
        ("temperature in 0.01", hundredths(&warm)),
        ("mains voltage in 0.01", hundredths(&quiet)),
        ("temperature as binary32", singles),
        ("counter, steps 40 to 60", counter),
        ("counter with bursts", bursts),
        ("times in ms, 0 to 6 late", times),
        (
            "random doubles, 0 to 1",
            Values::F64((0..N).map(|_| noise.unit()).collect()),
        ),
        (
            "random doubles, any bits",
            Values::F64((0..N).map(|_| f64::from_bits(noise.next())).collect()),
        ),
    ]
}

fn main() {
    head();
    for (name, values) in made() {
        measure(name, &values, &mut [Total::default(); 3], true);
    }
    for path in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
        let mut totals = [Total::default(); 3];
        for (column, values) in columns_of(&text) {
            measure(&column, &values, &mut totals, false);
        }
        report_total(&name, &totals);
    }
}
