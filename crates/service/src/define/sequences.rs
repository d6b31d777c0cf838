//! Sequences: the numbers that `SERIAL` and identity columns give to rows.
//!
//! Does: keep each counter as a row in the schema it is in, durable before a number of it is handed out; hand numbers out in
//! blocks, so that not every row waits for the disk; keep beside that how those count that do not count from one by ones. Does not:
//! put numbers into rows, or know what a session was given last (the language does).
//!
//! A number is given once, whatever becomes of the row: a rollback, an error or a crash leaves a gap, as in PostgreSQL. A start
//! of the server leaves one of less than [`BLOCK`], or of less than [`BLOCK_MAX`] where numbers went fast.

mod altered;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use nilometer_engine::{
    Engine, Error as EngineError, PhysicalType, RelationChange, Snapshot, Value,
};

use super::change::name::TableName;
use super::error::{DefineError, Object};
use super::kept::{Kept, Within, integer, text};
use super::own_relations::{SEQUENCE_OPTIONS, SEQUENCES};
use crate::error::Error;
pub use altered::SequenceChange;
pub(super) use altered::alter;

/// Numbers that are made durable at a time.
const BLOCK: i64 = 32;

/// The most of them, where the last ones were used up within [`FAST_NS`]: thirty writers wait for a sync of 32 numbers at each of
/// their own.
const BLOCK_MAX: i64 = 1024;
const FAST_NS: i64 = 1_000_000_000;

/// Names that are tried for the sequence of a column.
const NAMES_MAX: usize = 1000;

/// When the row was made tells a sequence from an earlier one of its name.
const KEPT: Kept = Kept {
    relation: SEQUENCES,
    columns: &[
        ("name", PhysicalType::Text),
        ("made", PhysicalType::I64),
        ("next", PhysicalType::I64),
        ("of_table", PhysicalType::Text),
        ("of_column", PhysicalType::Text),
    ],
};

/// How sequences count that were made by themselves. The others count from where they start by ones.
const COUNTED: Kept = Kept {
    relation: SEQUENCE_OPTIONS,
    columns: &[
        ("name", PhysicalType::Text),
        ("increment", PhysicalType::I64),
        ("min", PhysicalType::I64),
        ("max", PhysicalType::I64),
        ("start", PhysicalType::I64),
        ("cycles", PhysicalType::I64),
    ],
};

/// How a sequence counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counting {
    /// Its first number.
    pub start: i64,
    /// From one number to the next.
    pub increment: i64,
    /// Its least number.
    pub min: i64,
    /// Its greatest.
    pub max: i64,
    /// Whether it begins again after its last one.
    pub cycles: bool,
}

impl Default for Counting {
    fn default() -> Self {
        Self {
            start: 1,
            increment: 1,
            min: 1,
            max: i64::MAX,
            cycles: false,
        }
    }
}

impl Counting {
    /// Whether it can be, in PostgreSQL's words.
    fn check(&self) -> Result<(), DefineError> {
        let Self {
            start,
            increment,
            min,
            max,
            ..
        } = self;
        let reason = if *increment == 0 {
            "INCREMENT must not be zero".to_owned()
        } else if min >= max {
            format!("MINVALUE ({min}) must be less than MAXVALUE ({max})")
        } else if start < min {
            format!("START value ({start}) cannot be less than MINVALUE ({min})")
        } else if start > max {
            format!("START value ({start}) cannot be greater than MAXVALUE ({max})")
        } else {
            return Ok(());
        };
        Err(DefineError::SequenceOption { reason })
    }

    fn of(snapshot: &Snapshot, within: Within<'_>, name: &str) -> Self {
        let Some(row) = COUNTED.row(snapshot, within, name) else {
            return Self::default();
        };
        Self {
            increment: integer(&row, 1),
            min: integer(&row, 2),
            max: integer(&row, 3),
            start: integer(&row, 4),
            cycles: integer(&row, 5) != 0,
        }
    }

    fn row(&self, name: &str) -> Vec<Value> {
        let Self {
            start,
            increment,
            min,
            max,
            cycles,
        } = *self;
        let numbers = [increment, min, max, start, i64::from(cycles)].map(Value::from);
        std::iter::once(Value::from(name)).chain(numbers).collect()
    }

    /// The numbers that can be given from `next` on, as many as are wanted at most, and what comes after them: `None` of the
    /// numbers = it has given its last one.
    fn block(&self, next: i64, wanted: i64) -> (Option<Block>, i64) {
        let next = if self.is_within(next) {
            next
        } else if self.cycles {
            if self.increment > 0 {
                self.min
            } else {
                self.max
            }
        } else {
            return (None, next);
        };
        let end = if self.increment > 0 {
            self.max
        } else {
            self.min
        };
        let left = (i128::from(end) - i128::from(next)) / i128::from(self.increment) + 1;
        let count = i128::from(wanted).min(left);
        let after = i128::from(next) + count * i128::from(self.increment);
        // Beyond all numbers there is none that could be kept: that the last one was given shows in one that is out of bounds.
        let out = if self.increment > 0 {
            i64::MIN
        } else {
            i64::MAX
        };
        let after = i64::try_from(after).unwrap_or(out);
        let block = Block {
            next,
            increment: self.increment,
            left: i64::try_from(count).unwrap_or(0),
            ..Block::EMPTY
        };
        (Some(block), after)
    }

    fn is_within(&self, number: i64) -> bool {
        (self.min..=self.max).contains(&number)
    }

    fn exhausted(&self, sequence: &TableName) -> Error {
        let (end, last) = if self.increment > 0 {
            ("maximum", self.max)
        } else {
            ("minimum", self.min)
        };
        let sequence = sequence.table.clone();
        defined(DefineError::Exhausted {
            sequence,
            end,
            last,
        })
    }
}

fn defined(source: DefineError) -> Error {
    source.about(super::error::Part::Start)
}

/// What a default says that is the next number of a sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbered {
    /// The sequence, in the schema of its table; empty = one that is to be made with it.
    pub sequence: String,
    /// How it was written.
    pub how: NumberedBy,
    /// The first number, of one that is to be made.
    pub start: i64,
}

/// How a column with numbers was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberedBy {
    /// `SERIAL`, or `DEFAULT nextval('...')`.
    Default,
    /// `GENERATED BY DEFAULT AS IDENTITY`.
    Identity,
    /// `GENERATED ALWAYS AS IDENTITY`.
    Always,
}

const IDENTITY: &str = "GENERATED BY DEFAULT AS IDENTITY";
const ALWAYS: &str = "GENERATED ALWAYS AS IDENTITY";

impl Numbered {
    /// One that is to be made with its table.
    pub fn new(how: NumberedBy, start: i64) -> Self {
        Self {
            sequence: String::new(),
            how,
            start,
        }
    }

    /// Reads a default as it is kept; `None` = it is an expression.
    pub fn of(default: &str) -> Option<Self> {
        for (prefix, how) in [
            (IDENTITY, NumberedBy::Identity),
            (ALWAYS, NumberedBy::Always),
        ] {
            if let Some(rest) = default.strip_prefix(prefix) {
                let rest = rest.strip_prefix(" (SEQUENCE NAME ")?;
                let (quoted, rest) = rest.strip_prefix('"')?.rsplit_once("\" START ")?;
                return Some(Self {
                    sequence: quoted.replace("\"\"", "\""),
                    how,
                    start: rest.strip_suffix(')')?.parse().ok()?,
                });
            }
        }
        let name = default
            .strip_prefix("nextval('")?
            .strip_suffix("'::regclass)")?
            .replace("''", "'");
        let bare = name
            .strip_prefix('"')
            .and_then(|name| name.strip_suffix('"'));
        Some(Self {
            sequence: bare.map_or(name.clone(), |bare| bare.replace("\"\"", "\"")),
            how: NumberedBy::Default,
            start: 1,
        })
    }

    /// As it is kept: `DEFAULT` of a column as SQL writes it, or its identity.
    pub fn text(&self) -> String {
        let name = format!("\"{}\"", self.sequence.replace('"', "\"\""));
        let prefix = match self.how {
            NumberedBy::Default => {
                let shown = if is_plain(&self.sequence) {
                    &self.sequence
                } else {
                    &name
                };
                return format!("nextval('{}'::regclass)", shown.replace('\'', "''"));
            }
            NumberedBy::Identity => IDENTITY,
            NumberedBy::Always => ALWAYS,
        };
        format!("{prefix} (SEQUENCE NAME {name} START {})", self.start)
    }
}

/// Whether SQL reads a name without quotes as it is.
fn is_plain(name: &str) -> bool {
    let mut letters = name.chars();
    letters
        .next()
        .is_some_and(|it| it.is_ascii_lowercase() || it == '_')
        && letters.all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_')
}

/// A sequence as a snapshot has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequence {
    /// Its name.
    pub name: String,
    /// The first number that is not in anybody's hands yet.
    pub next: i64,
    /// The table and the column that it is of.
    pub of: (String, String),
}

impl Sequence {
    /// How it counts.
    pub fn counting(&self, snapshot: &Snapshot, within: (&str, &str)) -> Counting {
        Counting::of(snapshot, within, &self.name)
    }

    /// The number that may have been given last and whether one was, as far as the disk knows: numbers that are in somebody's hands
    /// count as given.
    pub fn last(&self, counting: &Counting) -> (i64, bool) {
        if !counting.is_within(self.next) {
            let end = if counting.increment > 0 {
                counting.max
            } else {
                counting.min
            };
            return (end, true);
        }
        match self.next.checked_sub(counting.increment) {
            Some(last) if self.next != counting.start && counting.is_within(last) => (last, true),
            _ => (self.next, false),
        }
    }
}

/// The sequences of a schema, by name.
pub fn sequences(snapshot: &Snapshot, database: &str, schema: &str) -> Vec<Sequence> {
    let rows = KEPT.rows(snapshot, (database, schema));
    let read = rows.iter().map(|row| Sequence {
        name: text(row, 0).to_owned(),
        next: integer(row, 2),
        of: (text(row, 3).to_owned(), text(row, 4).to_owned()),
    });
    let mut all: Vec<Sequence> = read.collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

/// Makes the sequence of a column under the name that is wanted, or the first that is free. Its name is answered.
pub(super) fn make(
    engine: &Arc<Engine>,
    table: &TableName,
    (column, wanted): (&str, Option<&str>),
    start: i64,
) -> Result<String, EngineError> {
    let within = (table.database.as_str(), table.schema.as_str());
    let usual = || format!("{}_{column}_seq", table.table);
    let first = wanted.map_or_else(usual, str::to_owned);
    for nth in 0..NAMES_MAX {
        let name = match nth {
            0 => first.clone(),
            nth => format!("{first}{nth}"),
        };
        let made = i64::try_from(engine.snapshot().lsn()).unwrap_or(i64::MAX);
        let row = vec![
            Value::from(name.as_str()),
            Value::from(made),
            Value::from(start),
            Value::from(table.table.as_str()),
            Value::from(column),
        ];
        match KEPT.add(engine, within, row) {
            Ok(()) => return Ok(name),
            Err(EngineError::RelationKey { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(EngineError::ExistsAlready {
        what: "relation",
        name: first,
        place: format!("\"{}\".\"{}\"", table.database, table.schema),
    })
}

/// Makes a sequence by itself; nothing has its name.
pub(super) fn create(
    engine: &Arc<Engine>,
    name: &TableName,
    counting: Counting,
) -> Result<(), Error> {
    counting.check().map_err(defined)?;
    let within = (name.database.as_str(), name.schema.as_str());
    let made = i64::try_from(engine.snapshot().lsn()).unwrap_or(i64::MAX);
    let row = vec![
        Value::from(name.table.as_str()),
        Value::from(made),
        Value::from(counting.start),
        Value::from(""),
        Value::from(""),
    ];
    let mut changes = vec![KEPT.insertion(engine, within, row)?];
    let usual = Counting {
        start: counting.start,
        ..Counting::default()
    };
    if counting != usual {
        changes.push(COUNTED.insertion(engine, within, counting.row(&name.table))?);
    }
    engine.write_relations(&changes)?;
    Ok(())
}

/// What has the sequences of a table follow it and its columns to other names.
pub(super) fn follow(
    snapshot: &Snapshot,
    within: Within<'_>,
    (from, to): (&str, &str),
    columns: &[(String, Option<String>)],
) -> Vec<RelationChange> {
    let Some(reader) = KEPT.reader(snapshot, within) else {
        return Vec::new();
    };
    let mut rows = Vec::new();
    for row in reader.rows().iter().filter(|row| text(row, 3) == from) {
        let column = text(row, 4);
        let mut known = columns.iter();
        let now = known.find(|(name, _)| name == column);
        let now = now.and_then(|(_, now)| now.as_deref()).unwrap_or(column);
        if now == column && from == to {
            continue;
        }
        let mut row = row.to_vec();
        for (at, value) in [(3, to), (4, now)] {
            if let Some(cell) = row.get_mut(at) {
                *cell = Value::from(value);
            }
        }
        rows.push(row);
    }
    if rows.is_empty() {
        return Vec::new();
    }
    vec![RelationChange::Replace(Arc::clone(reader.schema()), rows)]
}

/// Forgets sequences of a schema.
pub(super) fn forget(
    engine: &Arc<Engine>,
    within: Within<'_>,
    names: &[String],
) -> Result<(), EngineError> {
    // As one record: another sequence of the name would count as one of which half was left.
    let snapshot = engine.snapshot();
    let deletions = [KEPT, COUNTED].map(|kept| {
        let keys = names.iter().map(|name| Value::from(name.as_str()));
        kept.deletion(&snapshot, within, keys.collect())
    });
    let deletions: Vec<RelationChange> = deletions.into_iter().flatten().collect();
    if !deletions.is_empty() {
        engine.write_relations(&deletions)?;
    }
    Ok(())
}

/// Numbers that are durable as given and in nobody's hands yet, of the sequences that were asked.
#[derive(Debug, Default)]
pub struct Sequences {
    blocks: Mutex<HashMap<Key, Block>>,
}

/// Database, schema, name and when it was made.
type Key = (String, String, String, i64);

/// Numbers of one sequence.
#[derive(Debug)]
struct Block {
    next: i64,
    increment: i64,
    left: i64,
    /// How many were made durable together, and when; 0 = none were.
    size: i64,
    taken_ns: i64,
}

impl Block {
    const EMPTY: Self = Self {
        next: 0,
        increment: 1,
        left: 0,
        size: 0,
        taken_ns: 0,
    };

    /// How many are made durable next.
    fn next_size(&self, now_ns: i64) -> i64 {
        let is_fast = (0..FAST_NS).contains(&now_ns.saturating_sub(self.taken_ns));
        if is_fast {
            self.size.saturating_mul(2).clamp(BLOCK, BLOCK_MAX)
        } else {
            BLOCK
        }
    }
}

impl Iterator for Block {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        self.left = self.left.checked_sub(1).filter(|left| *left >= 0)?;
        let number = self.next;
        // After the last one nobody asks.
        self.next = number.saturating_add(self.increment);
        Some(number)
    }
}

/// Where a sequence is kept, and as what.
struct Place<'a> {
    sequence: &'a TableName,
    within: Within<'a>,
}

impl<'a> Place<'a> {
    fn of(sequence: &'a TableName) -> Self {
        Self {
            sequence,
            within: (sequence.database.as_str(), sequence.schema.as_str()),
        }
    }

    fn unknown(&self) -> Error {
        Error::Engine(EngineError::NotFound {
            what: "sequence",
            name: self.sequence.table.clone(),
            place: format!("\"{}\".\"{}\"", self.within.0, self.within.1),
            hint: "it was dropped, or its table was".to_owned(),
        })
    }

    fn row(&self, snapshot: &Snapshot) -> Result<Arc<[Value]>, Error> {
        let row = KEPT.row(snapshot, self.within, self.sequence.table.as_str());
        row.ok_or_else(|| self.unknown())
    }

    fn key(&self, made: i64) -> Key {
        let (database, schema) = self.within;
        let name = self.sequence.table.clone();
        (database.to_owned(), schema.to_owned(), name, made)
    }

    /// Makes `next` the number that is in nobody's hands; `false` = somebody else was faster.
    fn keep(
        &self,
        engine: &Arc<Engine>,
        snapshot: &Snapshot,
        row: &[Value],
        next: i64,
    ) -> Result<bool, Error> {
        let mut row = row.to_vec();
        if let Some(place) = row.get_mut(2) {
            *place = Value::from(next);
        }
        let reader = KEPT.reader(snapshot, self.within);
        let reader = reader.ok_or_else(|| self.unknown())?;
        let change = RelationChange::Replace(Arc::clone(reader.schema()), vec![row]);
        match engine.write_relations_as_seen(snapshot, &[change]) {
            Ok(_) => Ok(true),
            Err(EngineError::RelationChanged { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Sequences {
    /// The next numbers of a sequence. Blocks for a sync of the log.
    pub fn take(
        &self,
        engine: &Arc<Engine>,
        sequence: &TableName,
        count: usize,
    ) -> Result<Vec<i64>, Error> {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = i64::try_from(count).unwrap_or(i64::MAX);
        let place = Place::of(sequence);
        let made = integer(&place.row(&engine.snapshot())?, 1);
        let block = blocks.entry(place.key(made)).or_insert(Block::EMPTY);
        let mut taken: Vec<i64> = block.by_ref().take(count).collect();
        loop {
            let missing = wanted - i64::try_from(taken.len()).unwrap_or(i64::MAX);
            if missing <= 0 {
                return Ok(taken);
            }
            let snapshot = engine.snapshot();
            let row = place.row(&snapshot)?;
            if integer(&row, 1) != made {
                return Err(place.unknown());
            }
            let counting = Counting::of(&snapshot, place.within, &sequence.table);
            let now_ns = engine.wall_ns();
            let size = block.next_size(now_ns);
            let (found, next) = counting.block(integer(&row, 2), missing.max(size));
            let found = found.ok_or_else(|| counting.exhausted(sequence))?;
            if place.keep(engine, &snapshot, &row, next)? {
                // Another program's numbers may lie between; what is left of the old block is used up by now.
                *block = Block {
                    size,
                    taken_ns: now_ns,
                    ..found
                };
                let missing = usize::try_from(missing).unwrap_or(usize::MAX);
                taken.extend(block.by_ref().take(missing));
            }
        }
    }

    /// As [`Self::take`], if the numbers are at hand: it does not wait for the disk, nor for others.
    pub fn take_at_hand(
        &self,
        engine: &Arc<Engine>,
        sequence: &TableName,
        count: usize,
    ) -> Option<Vec<i64>> {
        let mut blocks = self.blocks.try_lock().ok()?;
        let place = Place::of(sequence);
        let made = integer(&place.row(&engine.snapshot()).ok()?, 1);
        let block = blocks.get_mut(&place.key(made))?;
        let wanted = i64::try_from(count).ok()?;
        (block.left >= wanted).then(|| block.by_ref().take(count).collect())
    }

    /// Gives back the numbers of a sequence that are in nobody's hands, so that the disk knows which comes next.
    pub fn give_back(&self, engine: &Arc<Engine>, sequence: &TableName) -> Result<(), Error> {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let place = Place::of(sequence);
        let snapshot = engine.snapshot();
        // One that is not there is said by who looks for it.
        let Ok(row) = place.row(&snapshot) else {
            return Ok(());
        };
        let key = place.key(integer(&row, 1));
        let Some(block) = blocks.remove(&key).filter(|block| block.left > 0) else {
            return Ok(());
        };
        let counting = Counting::of(&snapshot, place.within, &sequence.table);
        // Where another program has taken numbers since, these are lost.
        if counting.block(block.next, block.left).1 == integer(&row, 2) {
            place.keep(engine, &snapshot, &row, block.next)?;
        }
        Ok(())
    }

    /// Sets the number that a sequence gave last; not `is_called` = that it gives next. Blocks for a sync of the log.
    pub fn set(
        &self,
        engine: &Arc<Engine>,
        sequence: &TableName,
        (value, is_called): (i64, bool),
    ) -> Result<(), Error> {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let place = Place::of(sequence);
        loop {
            let snapshot = engine.snapshot();
            let row = place.row(&snapshot)?;
            let counting = Counting::of(&snapshot, place.within, &sequence.table);
            let Counting { min, max, .. } = counting;
            if !counting.is_within(value) {
                return Err(defined(DefineError::BeyondSequence {
                    sequence: sequence.table.clone(),
                    value,
                    min,
                    max,
                }));
            }
            let next = if is_called {
                counting.block(value, 1).1
            } else {
                value
            };
            if place.keep(engine, &snapshot, &row, next)? {
                blocks.remove(&place.key(integer(&row, 1)));
                return Ok(());
            }
        }
    }
}

/// What a name means that nothing has; for an error.
pub(super) fn unknown(name: &str) -> DefineError {
    DefineError::Unknown {
        what: Object::Sequence,
        name: name.to_owned(),
        nearest: None,
    }
}
