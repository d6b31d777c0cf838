//! Stores with rows in every state, and the same rows in the model.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt64Array,
};
use arrow_schema::{Field, Schema};
use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::ingest::{OnConflict, Session, Target};
use nilometer_engine::{
    ColumnKind, CompactionOptions, DeleteRequest, Duplicates, Engine, Maintained, NewColumn,
    Options, PhysicalType, SystemClock, TableSettings, TagPredicate,
};

use crate::dice::Dice;
use crate::model::{Row, Tables, Val};

pub(crate) const SECOND: i64 = 1_000_000_000;
pub(crate) const HOUR: i64 = 3600 * SECOND;
/// The start of a day.
pub(crate) const START: i64 = 20_000 * 24 * HOUR;

pub(crate) const TAGS: [&str; 2] = ["host", "rack"];
pub(crate) const HOSTS: [&str; 4] = ["a", "b", "ab", "host c"];
pub(crate) const RACKS: [&str; 4] = ["-3", "7", "12", "x"];

/// Tables with what two rows of one key are, and the fields that they have.
const TABLES: [(&str, Duplicates, &[&str]); 3] = [
    ("merged", Duplicates::Last, &["f", "n", "u", "t", "b"]),
    ("kept", Duplicates::Keep, &["f", "n", "u", "t", "b"]),
    ("replaced", Duplicates::Unique, &["f", "n"]),
];

/// What has happened to a store, or is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// Rows that no file has.
    Head,
    /// Files that were not compacted since they were written.
    Fresh,
    Compacted,
    /// Rows before rows that were there.
    Late,
    /// A second row of a key, in each of the three kinds of tables.
    Merged,
    Kept,
    Replaced,
    Deleted,
    NotANumber,
    Infinite,
    Absent,
    /// Fields that came when there were rows.
    Grown,
    Renamed,
}

impl State {
    pub(crate) const ALL: [Self; 13] = [
        Self::Head,
        Self::Fresh,
        Self::Compacted,
        Self::Late,
        Self::Merged,
        Self::Kept,
        Self::Replaced,
        Self::Deleted,
        Self::NotANumber,
        Self::Infinite,
        Self::Absent,
        Self::Grown,
        Self::Renamed,
    ];
}

/// A store and what is in it.
pub(crate) struct World {
    states: BTreeSet<State>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) tables: Tables,
    written: usize,
    /// Whether the tables have all of their fields.
    is_whole: bool,
}

fn physical(field: &str) -> PhysicalType {
    match field {
        "f" => PhysicalType::F64,
        "n" => PhysicalType::I64,
        "u" => PhysicalType::U64,
        "t" => PhysicalType::Text,
        _ => PhysicalType::Bool,
    }
}

impl World {
    /// A store after some writes, deletes, flushes and compactions.
    pub(crate) fn new(dice: &mut Dice) -> Self {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let options = Options {
            compaction: CompactionOptions {
                fan_in: 2,
                partition_rows_min: 100,
                widen_rows_max: 100,
                ..CompactionOptions::default()
            },
            ..Options::default()
        };
        let engine = Engine::open(disk, Arc::new(SystemClock), Path::new("/d"), options);
        let engine = Arc::new(engine.unwrap());
        engine.create_database("d").unwrap();
        let mut tables = Tables::default();
        let grows = dice.one_in(3);
        for (name, duplicates, fields) in TABLES {
            let fields = if grows { &fields[..2] } else { fields };
            let tags = TAGS.iter().map(|name| NewColumn {
                name,
                kind: ColumnKind::Tag,
            });
            let fields = fields.iter().map(|name| NewColumn {
                name,
                kind: ColumnKind::Field(physical(name)),
            });
            let columns: Vec<NewColumn<'_>> = tags.chain(fields).collect();
            let settings = TableSettings {
                duplicates,
                ..TableSettings::default()
            };
            engine
                .create_table("d", "public", name, &columns, settings)
                .unwrap();
            let tags = TAGS.iter().map(|tag| (*tag).to_owned()).collect();
            tables.tables.insert(name.to_owned(), (tags, Vec::new()));
        }
        let mut world = Self {
            states: BTreeSet::new(),
            engine,
            tables,
            written: 0,
            is_whole: true,
        };
        world.is_whole = !grows;
        if grows {
            // The other fields come when there are rows already.
            for _ in 0..=dice.below(3) {
                world.change(dice);
            }
            world.add_fields();
        }
        for _ in 0..=dice.below(7) {
            world.change(dice);
        }
        world
    }

    /// What has happened to it, and where its rows are.
    pub(crate) fn states(&self) -> BTreeSet<State> {
        self.states.clone()
    }

    fn flush(&mut self) {
        self.engine.flush().unwrap();
        if self.states.remove(&State::Head) {
            self.states.insert(State::Fresh);
        }
    }

    /// Adds the fields that tables begin without.
    fn add_fields(&mut self) {
        for (table, _, fields) in TABLES {
            for name in fields.iter().skip(2) {
                let column = NewColumn {
                    name,
                    kind: ColumnKind::Field(physical(name)),
                };
                let is_new = self.engine.add_column("d", "public", table, column);
                assert!(is_new.unwrap());
            }
        }
        self.is_whole = true;
        if self.written > 0 {
            self.states.insert(State::Grown);
        }
    }

    /// Renames a field, and gives it the old name back when a flush may have written the new one.
    fn rename(&mut self, dice: &mut Dice) {
        let (table, _, fields) = TABLES[dice.below(TABLES.len())];
        let field = dice.one(&fields[..2]);
        let engine = Arc::clone(&self.engine);
        let rename = |from: &str, to: &str| {
            let renamed = engine.rename_column("d", "public", table, from, to);
            renamed.unwrap();
        };
        rename(field, "other");
        if dice.one_in(2) {
            self.flush();
        }
        rename("other", field);
        self.states.insert(State::Renamed);
    }

    /// One of the things that happen to a store.
    pub(crate) fn change(&mut self, dice: &mut Dice) {
        match dice.below(15) {
            10 | 11 => self.write_again(dice),
            12 | 13 => self.settle(dice),
            0..5 => self.write_some(dice),
            5 | 6 => self.write_dense(dice),
            7 if dice.one_in(4) => self.rename(dice),
            7 | 14 => self.delete(dice),
            8 => self.flush(),
            _ => while self.engine.maintain().unwrap() != Maintained::Idle {},
        }
    }

    /// Compacts what there is, once there is enough for a file of its own. While somebody writes, files of one size are waited for:
    /// `maintain` alone compacted none of these stores.
    fn settle(&mut self, dice: &mut Dice) {
        if dice.one_in(2) {
            self.write_dense(dice);
        }
        self.engine.settle().unwrap();
        self.states.remove(&State::Head);
        if self.engine.metrics().partitions > 0 {
            self.states.insert(State::Compacted);
        }
    }

    /// A table and the fields that it has now.
    fn one_table(&self, dice: &mut Dice) -> (&'static str, &'static [&'static str]) {
        let (table, _, fields) = TABLES[dice.below(TABLES.len())];
        (table, if self.is_whole { fields } else { &fields[..2] })
    }

    /// Rows here and there, late ones and repeated ones among them.
    fn write_some(&mut self, dice: &mut Dice) {
        let (table, fields) = self.one_table(dice);
        let mut rows = Vec::new();
        for _ in 0..=dice.below(30) {
            let minutes = [
                dice.below(300) as i64,
                dice.below(20) as i64 * 60,
                -(dice.below(90) as i64),
            ];
            let time = START + dice.one(&minutes) * 60 * SECOND + dice.one(&[0, 0, 1, 999]);
            let mut row = Row {
                time,
                tags: tags(dice),
                fields: BTreeMap::new(),
                source: 0,
                written: 0,
            };
            for field in fields {
                if dice.one_in(3) {
                    continue;
                }
                row.fields.insert((*field).to_owned(), value(field, dice));
            }
            if row.fields.is_empty() {
                row.fields.insert("n".to_owned(), Val::Int(1));
            }
            rows.push(row);
        }
        self.write(table, fields, rows);
    }

    /// Rows of keys that are there, wherever their rows are now.
    fn write_again(&mut self, dice: &mut Dice) {
        let (table, fields) = self.one_table(dice);
        let known = self.tables.tables.get(table).map(|(_, rows)| rows);
        let known = known.filter(|rows| !rows.is_empty());
        let Some(known) = known else {
            return self.write_some(dice);
        };
        let rows = (0..=dice.below(20)).map(|_| {
            let mut row = known[dice.below(known.len())].clone();
            row.fields.clear();
            for field in fields {
                if !dice.one_in(3) {
                    row.fields.insert((*field).to_owned(), value(field, dice));
                }
            }
            row.fields.entry("n".to_owned()).or_insert(Val::Int(2));
            row
        });
        let rows = rows.collect();
        self.write(table, fields, rows);
    }

    /// A series every few seconds for hours, so that blocks and hours have statistics.
    fn write_dense(&mut self, dice: &mut Dice) {
        let (table, fields) = self.one_table(dice);
        let tags = tags(dice);
        let step = dice.one(&[10, 20, 50]) * SECOND;
        let first = START + dice.below(4) as i64 * HOUR + dice.below(100) as i64 * SECOND;
        let has_odd = dice.one_in(4);
        let rows = (0..150 + dice.below(600) as i64).map(|at| {
            let mut row = Row {
                time: first + at * step,
                tags: tags.clone(),
                fields: BTreeMap::new(),
                source: 0,
                written: 0,
            };
            for field in fields {
                let odd = has_odd && dice.one_in(50);
                let value = match *field {
                    _ if odd => value(field, dice),
                    "f" => Val::Float(dice.below(1000) as f64 / 8.0),
                    "n" => Val::Int(dice.below(100) as i64),
                    _ => value(field, dice),
                };
                row.fields.insert((*field).to_owned(), value);
            }
            row
        });
        let rows = rows.collect();
        self.write(table, fields, rows);
    }

    fn write(&mut self, table: &str, fields: &[&str], rows: Vec<Row>) {
        let times: Int64Array = rows.iter().map(|row| Some(row.time)).collect();
        let mut columns: Vec<(String, ArrayRef)> = vec![("time".to_owned(), Arc::new(times))];
        for tag in TAGS {
            let values = rows.iter().map(|row| row.tags.get(tag));
            let values: StringArray = values.collect();
            columns.push((tag.to_owned(), Arc::new(values)));
        }
        for field in fields {
            let values: Vec<&Val> = rows
                .iter()
                .map(|row| row.fields.get(*field).unwrap_or(&Val::Null))
                .collect();
            columns.push(((*field).to_owned(), array(field, &values)));
        }
        let kinds = columns
            .iter()
            .map(|(name, array)| Field::new(name, array.data_type().clone(), true));
        let schema = Arc::new(Schema::new(kinds.collect::<Vec<_>>()));
        let arrays = columns.into_iter().map(|(_, array)| array).collect();
        let batch = RecordBatch::try_new(schema, arrays).unwrap();
        let mut session = Session::new(Arc::clone(&self.engine), "d").unwrap();
        session
            .write_arrow(Target::table(table), &batch, OnConflict::Replace)
            .unwrap();
        self.states.insert(State::Head);
        let (_, known) = self.tables.tables.get_mut(table).unwrap();
        let newest = known.iter().map(|row| row.time).max();
        for mut row in rows {
            if newest.is_some_and(|newest| row.time < newest) {
                self.states.insert(State::Late);
            }
            if row.fields.len() < fields.len() {
                self.states.insert(State::Absent);
            }
            if let Some(Val::Float(value)) = row.fields.get("f") {
                if value.is_nan() {
                    self.states.insert(State::NotANumber);
                } else if value.is_infinite() {
                    self.states.insert(State::Infinite);
                }
            }
            self.written += 1;
            row.written = self.written;
            let same = known
                .iter_mut()
                .find(|old| old.time == row.time && old.tags == row.tags);
            if same.is_some() {
                self.states.insert(match table {
                    "merged" => State::Merged,
                    "kept" => State::Kept,
                    _ => State::Replaced,
                });
            }
            match (table, same) {
                ("merged", Some(old)) => old.fields.extend(row.fields),
                ("replaced", Some(old)) => *old = row,
                _ => known.push(row),
            }
        }
    }

    fn delete(&mut self, dice: &mut Dice) {
        let (table, ..) = TABLES[dice.below(TABLES.len())];
        let (_, known) = &self.tables.tables[table];
        let first = if known.is_empty() || dice.one_in(3) {
            START + (dice.below(400) as i64 - 100) * 60 * SECOND
        } else {
            // From a row on.
            known[dice.below(known.len())].time
        };
        let time = first..=first + dice.one(&[0, 600, 7200, 100_000]) * SECOND;
        let host = dice.one_in(2).then(|| dice.one(&HOSTS));
        let schema = self.engine.snapshot().table("d", "public", table).unwrap();
        let tags = host.map(|host| TagPredicate::one_of(1, vec![Some(host.to_owned())]));
        self.engine
            .delete(&DeleteRequest {
                table: schema,
                time: time.clone(),
                tags: tags.into_iter().collect(),
            })
            .unwrap();
        let (_, rows) = self.tables.tables.get_mut(table).unwrap();
        let before = rows.len();
        rows.retain(|row| {
            let is_host = host.is_none_or(|host| row.tags.get("host").is_some_and(|it| it == host));
            !(time.contains(&row.time) && is_host)
        });
        if rows.len() < before {
            self.states.insert(State::Deleted);
        }
    }
}

fn tags(dice: &mut Dice) -> BTreeMap<String, String> {
    let mut tags = BTreeMap::new();
    if !dice.one_in(6) {
        tags.insert("host".to_owned(), dice.one(&HOSTS).to_owned());
    }
    if !dice.one_in(3) {
        tags.insert("rack".to_owned(), dice.one(&RACKS).to_owned());
    }
    tags
}

fn value(field: &str, dice: &mut Dice) -> Val {
    match field {
        "f" => {
            let odd = [
                f64::NAN,
                -0.0,
                0.0,
                f64::INFINITY,
                f64::NEG_INFINITY,
                1e-310,
            ];
            if dice.one_in(4) {
                Val::Float(dice.one(&odd))
            } else {
                Val::Float(dice.below(2000) as f64 / 16.0 - 40.0)
            }
        }
        "n" => {
            if dice.one_in(12) {
                Val::Int(dice.one(&[i64::MIN, i64::MAX, i64::MAX - 1]))
            } else {
                Val::Int(dice.below(20) as i64 - 5)
            }
        }
        "u" => {
            if dice.one_in(12) {
                Val::Uint(u64::MAX)
            } else {
                Val::Uint(dice.below(9) as u64)
            }
        }
        "t" => Val::Text(
            dice.one(&["", "low", "high", "a longer text than others"])
                .to_owned(),
        ),
        _ => Val::Bool(dice.one_in(2)),
    }
}

fn array(field: &str, values: &[&Val]) -> ArrayRef {
    let values = values.iter();
    match field {
        "f" => Arc::new(
            values
                .map(|it| {
                    if let Val::Float(it) = it {
                        Some(*it)
                    } else {
                        None
                    }
                })
                .collect::<Float64Array>(),
        ),
        "n" => Arc::new(
            values
                .map(|it| {
                    if let Val::Int(it) = it {
                        Some(*it)
                    } else {
                        None
                    }
                })
                .collect::<Int64Array>(),
        ),
        "u" => Arc::new(
            values
                .map(|it| {
                    if let Val::Uint(it) = it {
                        Some(*it)
                    } else {
                        None
                    }
                })
                .collect::<UInt64Array>(),
        ),
        "t" => Arc::new(
            values
                .map(|it| {
                    if let Val::Text(it) = it {
                        Some(it)
                    } else {
                        None
                    }
                })
                .collect::<StringArray>(),
        ),
        _ => Arc::new(
            values
                .map(|it| {
                    if let Val::Bool(it) = it {
                        Some(*it)
                    } else {
                        None
                    }
                })
                .collect::<BooleanArray>(),
        ),
    }
}
