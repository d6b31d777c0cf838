//! Stores with rows in every state.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray,
    UInt64Array,
};
use nilometer_engine::disk::MemoryDisk;
use nilometer_engine::ingest::{OnConflict, Session, Target};
use nilometer_engine::{
    ColumnKind, CompactionOptions, DeleteRequest, Duplicates, Engine, Maintained, NewColumn,
    Options, PhysicalType, SystemClock, TableSettings, TagPredicate,
};
use nilometer_query::{Sql, SqlOptions};

pub(super) const SECOND: i64 = 1_000_000_000;
/// The start of a day.
pub(super) const START: i64 = 20_000 * 86_400 * SECOND;
pub(super) const HOSTS: [&str; 4] = ["a", "b", "ab", "host c"];
pub(super) const RACKS: [&str; 3] = ["-3", "7", "x'y"];
/// The same where racks are integers. By size they stand in another order than by text.
pub(super) const NUMBERED_RACKS: [&str; 3] = ["-3", "7", "12"];

/// Columns of tables that SQL makes: the first all there are, and after `b` those that [`World::new`] gives no other table.
const DECLARED: &str = "n BIGINT, rack INTEGER TAG, t VARCHAR(40), f DOUBLE PRECISION, time ZONED NOT NULL, \
    u BIGINT UNSIGNED, host TEXT TAG, b BOOLEAN, s SMALLINT, r REAL, c NUMERIC(9, 2), j JSONB";

/// Tables, and what two rows of one key are in them.
pub(super) const TABLES: [(&str, Duplicates); 4] = [
    ("merged", Duplicates::Last),
    ("kept", Duplicates::Keep),
    ("replaced", Duplicates::Unique),
    ("bare", Duplicates::Last),
];

/// Choices that one number repeats.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x2545_F491_4F6C_DD1D))
    }

    /// The generator of Steele, Lea and Flood (splitmix64).
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(super) fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    pub(super) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// A store and how it came to be.
pub(super) struct World {
    pub(super) engine: Arc<Engine>,
    pub(super) history: String,
    /// Integers go to the ends of what they can be.
    pub(super) has_extremes: bool,
    /// It has files of partitions.
    pub(super) is_compacted: bool,
    /// Its tables were made by SQL: columns in another order, tags of integers, types that show other values than are stored.
    pub(super) is_declared: bool,
    /// By table: keys that were written.
    known: RefCell<BTreeMap<String, Vec<RowKey>>>,
}

/// Time, host and rack of a row.
type RowKey = (i64, Option<&'static str>, Option<&'static str>);

impl World {
    /// A store after some writes, deletes, flushes and compactions.
    pub(super) async fn new(dice: &mut Dice) -> Self {
        let options = Options {
            compaction: CompactionOptions {
                fan_in: 2,
                partition_rows_min: 100,
                widen_rows_max: 100,
                ..CompactionOptions::default()
            },
            ..Options::default()
        };
        let disk = Arc::new(MemoryDisk::default());
        let engine = Engine::open(disk, Arc::new(SystemClock), Path::new("/d"), options);
        let engine = Arc::new(engine.unwrap());
        engine.create_database("d").unwrap();
        let is_declared = dice.one_in(2);
        if is_declared {
            let time = dice.one(&["TIMESTAMPTZ", "TIMESTAMPTZ", "TIMESTAMP"]);
            declare_tables(&engine, time).await;
        } else {
            create_tables(&engine);
        }
        let mut world = Self {
            engine,
            history: String::new(),
            has_extremes: dice.one_in(3),
            is_compacted: false,
            is_declared,
            known: RefCell::default(),
        };
        if is_declared {
            world.history.push_str("declared; ");
        }
        for _ in 0..=dice.below(8) {
            let (table, _) = TABLES[dice.below(TABLES.len() - 1)];
            let deed = dice.below(15);
            write!(world.history, "{table} {deed}; ").unwrap();
            match deed {
                10 | 11 => world.write_again(table, dice),
                0..4 => world.write_some(table, dice),
                4..6 => world.write_dense(table, dice),
                6 | 14 => world.delete(table, dice),
                7 | 8 => world.engine.flush().unwrap(),
                9 => while world.engine.maintain().unwrap() != Maintained::Idle {},
                // While somebody writes, files of one size are waited for: `maintain` alone compacted no store.
                _ => {
                    if dice.one_in(2) {
                        world.write_dense(table, dice);
                    }
                    world.engine.settle().unwrap();
                    world.is_compacted |= world.engine.metrics().partitions > 0;
                }
            }
        }
        world
    }

    /// Rows here and there, late ones and repeated ones among them.
    fn write_some(&self, table: &str, dice: &mut Dice) {
        let rows = (0..=dice.below(40)).map(|_| {
            let (host, rack, series) = self.tags(dice);
            let minutes = [
                dice.below(300) as i64,
                dice.below(20) as i64 * 60,
                -(dice.below(90) as i64),
            ];
            // No two series have a row at one time: which of them is the last is nobody's promise.
            let time = START + dice.one(&minutes) * 60 * SECOND + dice.one(&[0, 0, 1000]) + series;
            (time, host, rack)
        });
        let rows: Vec<_> = rows.collect();
        self.write(table, &rows, true, dice);
    }

    /// Rows of keys that were written, wherever their rows are now.
    fn write_again(&self, table: &str, dice: &mut Dice) {
        let known = self.known.borrow().get(table).cloned().unwrap_or_default();
        if known.is_empty() {
            return self.write_some(table, dice);
        }
        let rows: Vec<_> = (0..=dice.below(30))
            .map(|_| known[dice.below(known.len())])
            .collect();
        self.write(table, &rows, true, dice);
    }

    /// A series every few seconds for hours, so that blocks and hours have statistics.
    fn write_dense(&self, table: &str, dice: &mut Dice) {
        let (host, rack, series) = self.tags(dice);
        let step = dice.one(&[10, 20, 50]) * SECOND;
        let first = START + dice.below(4) as i64 * 3600 * SECOND + dice.below(100) as i64 * SECOND;
        let rows: Vec<_> = (0..150 + dice.below(900) as i64)
            .map(|at| (first + at * step + series, host, rack))
            .collect();
        let has_odd = dice.one_in(3);
        self.write(table, &rows, has_odd, dice);
    }

    fn write(&self, table: &str, rows: &[RowKey], has_odd: bool, dice: &mut Dice) {
        let mut known = self.known.borrow_mut();
        known.entry(table.to_owned()).or_default().extend(rows);
        drop(known);
        let odd_floats = [
            f64::NAN,
            -0.0,
            0.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            1e-310,
        ];
        let absent = |dice: &mut Dice| has_odd && dice.one_in(4);
        let floats: Float64Array = rows
            .iter()
            .map(|_| {
                let odd = has_odd && dice.one_in(20);
                let plain = dice.below(2000) as f64 / 16.0 - 20.0;
                (!absent(dice)).then(|| if odd { dice.one(&odd_floats) } else { plain })
            })
            .collect();
        let integers: Int64Array = rows
            .iter()
            .map(|_| {
                let odd = self.has_extremes && dice.one_in(40);
                let plain = dice.below(120) as i64 - 10;
                let ends = [i64::MIN, i64::MAX, i64::MAX - 1];
                (!absent(dice)).then(|| if odd { dice.one(&ends) } else { plain })
            })
            .collect();
        let unsigned: UInt64Array = rows
            .iter()
            .map(|_| {
                let odd = self.has_extremes && dice.one_in(40);
                let plain = dice.below(9) as u64;
                (!absent(dice)).then_some(if odd { u64::MAX } else { plain })
            })
            .collect();
        let texts: StringArray = rows
            .iter()
            .map(|_| (!absent(dice)).then(|| dice.one(&["", "low", "high", "longer than others"])))
            .collect();
        // One field is there in every row: a row without any is none.
        let truths: BooleanArray = rows.iter().map(|_| Some(dice.one_in(2))).collect();
        let mut columns: Vec<(&str, ArrayRef)> = vec![
            (
                "time",
                Arc::new(rows.iter().map(|row| Some(row.0)).collect::<Int64Array>()),
            ),
            (
                "host",
                Arc::new(rows.iter().map(|row| row.1).collect::<StringArray>()),
            ),
            (
                "rack",
                Arc::new(rows.iter().map(|row| row.2).collect::<StringArray>()),
            ),
            ("f", Arc::new(floats)),
            ("n", Arc::new(integers)),
            ("u", Arc::new(unsigned)),
            ("t", Arc::new(texts)),
            ("b", Arc::new(truths)),
        ];
        if self.is_declared {
            columns.extend(declared_columns(rows.len(), has_odd, dice));
        }
        let batch = RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, array)| (name, array, true)),
        );
        let mut session = Session::new(Arc::clone(&self.engine), "d").unwrap();
        session
            .write_arrow(Target::table(table), &batch.unwrap(), OnConflict::Replace)
            .unwrap();
    }

    /// Tags, and a number that no other series has.
    fn tags(&self, dice: &mut Dice) -> (Option<&'static str>, Option<&'static str>, i64) {
        let racks = if self.is_declared {
            NUMBERED_RACKS
        } else {
            RACKS
        };
        let host = dice.below(HOSTS.len() + 1);
        let rack = dice.below(racks.len() + 1);
        let series = (host * 10 + rack) as i64;
        (HOSTS.get(host).copied(), racks.get(rack).copied(), series)
    }

    fn delete(&self, table: &str, dice: &mut Dice) {
        let known = self.known.borrow().get(table).cloned().unwrap_or_default();
        let first = if known.is_empty() || dice.one_in(3) {
            START + (dice.below(400) as i64 - 100) * 60 * SECOND
        } else {
            // From a row on.
            known[dice.below(known.len())].0
        };
        let time = first..=first + dice.one(&[0, 600, 7200, 100_000]) * SECOND;
        let host = dice.one_in(2).then(|| dice.one(&HOSTS));
        let schema = self.engine.snapshot().table("d", "public", table).unwrap();
        let place = schema.tags.iter().position(|tag| tag.name == "host");
        let column = 1 + place.unwrap();
        let tags = host.map(|host| TagPredicate::one_of(column, vec![Some(host.to_owned())]));
        self.engine
            .delete(&DeleteRequest {
                table: schema,
                time,
                tags: tags.into_iter().collect(),
            })
            .unwrap();
    }
}

fn create_tables(engine: &Engine) {
    let fields = [
        ("f", PhysicalType::F64),
        ("n", PhysicalType::I64),
        ("u", PhysicalType::U64),
        ("t", PhysicalType::Text),
        ("b", PhysicalType::Bool),
    ];
    for (name, duplicates) in TABLES {
        let tags = ["host", "rack"].map(|name| NewColumn {
            name,
            kind: ColumnKind::Tag,
        });
        let fields = fields.map(|(name, kind)| NewColumn {
            name,
            kind: ColumnKind::Field(kind),
        });
        let columns: Vec<NewColumn<'_>> = tags.into_iter().chain(fields).collect();
        let settings = TableSettings {
            duplicates,
            ..TableSettings::default()
        };
        let created = engine.create_table("d", "public", name, &columns, settings);
        created.unwrap();
    }
}

/// The same names by SQL, with a time of this type.
async fn declare_tables(engine: &Arc<Engine>, time: &str) {
    let columns = DECLARED.replace("ZONED", time);
    let sql = Sql::new(Arc::clone(engine), SqlOptions::default()).unwrap();
    for (name, duplicates) in TABLES {
        let kept = match duplicates {
            Duplicates::Last => "last",
            Duplicates::Keep => "keep",
            Duplicates::Unique => "unique",
        };
        let statement = format!("CREATE TABLE {name} ({columns}) WITH (duplicates = '{kept}')");
        let done = sql.query("d", &statement).await;
        done.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

/// Values of the columns that only declared tables have.
fn declared_columns(rows: usize, has_odd: bool, dice: &mut Dice) -> [(&'static str, ArrayRef); 4] {
    let mut absent = || has_odd && dice.one_in(4);
    let present: Vec<[bool; 4]> = (0..rows)
        .map(|_| [!absent(), !absent(), !absent(), !absent()])
        .collect();
    let mut number = |below: usize| dice.below(below) as i64;
    let numbers: Vec<[i64; 3]> = (0..rows)
        .map(|_| [number(200) - 100, number(500), number(4000) - 1000])
        .collect();
    let both = || numbers.iter().zip(&present);
    let small: Int64Array = both().map(|(it, is)| is[0].then_some(it[0])).collect();
    // Sums of quarters are exact, whatever their order.
    let real: Float64Array = both()
        .map(|(it, is)| is[1].then_some(it[1] as f64 / 4.0))
        .collect();
    let exact: Decimal128Array = both()
        .map(|(it, is)| is[2].then_some(i128::from(it[2])))
        .collect();
    let json: StringArray = both()
        .map(|(it, is)| is[3].then(|| format!("{{\"a\": {}}}", it[0] % 5)))
        .collect();
    let exact = exact.with_precision_and_scale(9, 2).unwrap();
    [
        ("s", Arc::new(small)),
        ("r", Arc::new(real)),
        ("c", Arc::new(exact)),
        ("j", Arc::new(json)),
    ]
}
