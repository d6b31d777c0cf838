//! A machine that can die: the store on a faulty disk, with a clock that only the plan moves.
//!
//! Does: open, kill, cut the power, keep a session for each database as a server does, read everything into plain
//! maps. Does not: know what the answers should be.

mod relation;
mod series;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use nilometer_codec::PhysicalType;
use nilometer_engine::disk::{CrashPlan, Disk, FaultyDisk};
use nilometer_engine::ingest::{Session, WriteReport};
use nilometer_engine::{
    AggregateRequest, Clock, ColumnKind, DEFAULT_SCHEMA, DeleteRequest, Engine, Error, OnDamage,
    Options, ScanRequest, Snapshot, TableSchema, TagPredicate,
};
use nilometer_lineproto::Precision;

use crate::aggregate::{self, Question};
use crate::model::{Found, FoundTable, Name, Schema, Table, Types};
use crate::plan::places::{place_of, split};
use crate::plan::{Column, Delete, Probe, Restart, TagFilter, Wanted, all_keep};
use crate::read::{Selection, SlowReader, read_rows};
use crate::visitor::{VisitedClock, VisitedDisk, Visitor};

pub(crate) use relation::change_of;

/// Where the store lives on the simulated disk.
pub const DIR: &str = "/data";

/// Where backups go.
pub const BACKUP_DIR: &str = "/backup";
/// Where they are restored.
const RESTORED_DIR: &str = "/restored";
/// Rows that somebody wants who does not want all.
const FEW_ROWS: usize = 3;
/// More than any plan writes.
const HUGE_BYTES: u64 = 1 << 40;

/// Time that stands still until it is told to move.
#[derive(Debug)]
pub(crate) struct PlannedClock {
    wall_ns: AtomicI64,
    monotonic_ms: AtomicU64,
}

impl Clock for PlannedClock {
    fn now_ns(&self) -> i64 {
        self.wall_ns.load(Ordering::Relaxed)
    }

    fn monotonic_ms(&self) -> u64 {
        self.monotonic_ms.load(Ordering::Relaxed)
    }
}

/// The machine.
#[derive(Debug)]
pub struct World {
    disk: FaultyDisk,
    clock: Arc<PlannedClock>,
    options: Options,
    engine: Option<Arc<Engine>>,
    sessions: BTreeMap<String, Session>,
    visitor: Visitor,
    /// The disk may be full.
    tight: bool,
    /// Formats that the lives from now on write, the next one first; after them it is the newest.
    earlier_formats: VecDeque<u16>,
}

impl World {
    /// A machine with an empty disk; the store is closed.
    pub fn new(seed: u64, options: Options) -> Self {
        Self::on(FaultyDisk::new(seed, CrashPlan::default()), options)
    }

    /// A machine with this disk; the store is closed.
    pub fn on(disk: FaultyDisk, options: Options) -> Self {
        Self {
            disk,
            clock: Arc::new(PlannedClock {
                wall_ns: AtomicI64::new(300_000_000_000),
                monotonic_ms: AtomicU64::new(0),
            }),
            options,
            engine: None,
            sessions: BTreeMap::new(),
            visitor: Visitor::default(),
            tight: false,
            earlier_formats: VecDeque::new(),
        }
    }

    /// The first lives write segments of these formats, one each.
    #[must_use]
    pub fn with_earlier_formats(mut self, formats: &[u16]) -> Self {
        self.earlier_formats = formats.iter().copied().collect();
        self
    }

    /// Format of the segments of this life.
    pub fn segment_format(&self) -> u16 {
        self.options.segment_format
    }

    /// The disk of this life.
    pub fn disk(&self) -> &FaultyDisk {
        &self.disk
    }

    /// The open store.
    pub fn engine(&self) -> Option<&Arc<Engine>> {
        self.engine.as_ref().filter(|_| !self.disk.crashed())
    }

    /// Why the store refuses writes, if it does.
    pub fn poisoned(&self) -> bool {
        self.engine()
            .is_some_and(|engine| engine.metrics().poisoned.is_some())
    }

    /// Who may come in while a segment is written.
    pub(crate) fn visitor(&self) -> &Visitor {
        &self.visitor
    }

    /// Leaves so many bytes free on the disk, from now on.
    pub fn leave_room(&mut self, bytes: Option<u64>) {
        self.disk.set_capacity(HUGE_BYTES);
        self.tight = bytes.is_some();
        if let Some(bytes) = bytes {
            let free = self.disk.free_bytes(Path::new(DIR)).unwrap_or(HUGE_BYTES);
            self.disk.set_capacity(HUGE_BYTES - free + bytes);
        }
    }

    /// Whether the disk may be full.
    pub fn is_tight(&self) -> bool {
        self.tight
    }

    /// Restores the backup beside the store and reads what it has.
    pub fn restore(&self) -> Result<Result<Found, String>, Error> {
        let (from, to) = (Path::new(BACKUP_DIR), Path::new(RESTORED_DIR));
        for dir in ["log", "segments", ""] {
            let dir = if dir.is_empty() {
                to.to_owned()
            } else {
                to.join(dir)
            };
            for name in self.disk.list(&dir).unwrap_or_default() {
                drop(self.disk.remove(&dir.join(name)));
            }
        }
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        Engine::restore(&disk, from, to)?;
        let clock: Arc<dyn Clock> = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let engine = Engine::open(disk, clock, to, self.options.clone())?;
        Ok(read_all(&Arc::new(engine).snapshot()))
    }

    /// Lets time pass.
    pub fn advance(&self, ms: u64, jump_ns: i64) {
        let passed_ns = i64::try_from(ms).unwrap_or(0).saturating_mul(1_000_000);
        let wall = self.now_ns().saturating_add(passed_ns);
        self.clock
            .wall_ns
            .store(wall.saturating_add(jump_ns), Ordering::Relaxed);
        self.clock.monotonic_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// The clock that never jumps, in milliseconds.
    pub fn monotonic_ms(&self) -> u64 {
        self.clock.monotonic_ms()
    }

    /// The wall clock.
    pub fn now_ns(&self) -> i64 {
        self.clock.now_ns()
    }

    /// What becomes of damage that the next openings find.
    pub fn on_damage(&mut self, on_damage: OnDamage) {
        self.options.on_damage = on_damage;
    }

    /// Flips a byte of a segment, durably, so that the segment does not open any more; `None` = there is none. The store
    /// is closed.
    pub fn damage(&self, number: u64) -> std::io::Result<Option<PathBuf>> {
        let dir = Path::new(DIR).join("segments");
        let names = self.disk.list(&dir)?;
        let is_segment = |name: &&String| Path::new(name).extension().is_some_and(|it| it == "seg");
        let names: Vec<&String> = names.iter().filter(is_segment).collect();
        let at = usize::try_from(number % (names.len() as u64).max(1)).unwrap_or(0);
        let Some(path) = names.get(at).map(|name| dir.join(name)) else {
            return Ok(None);
        };
        let file = self.disk.open(&path)?;
        // The owner that the header names, or the tail that says where the list of tables is.
        let at = match number >> 32 & 3 {
            0 => file.size()?.saturating_sub(2),
            _ => 16 + (number >> 40 & 7),
        };
        let mut byte = [0];
        file.read_at(&mut byte, at)?;
        file.write_at(&byte.map(|byte| !byte), at)?;
        file.sync()?;
        Ok(Some(path))
    }

    /// Whether a store that somebody still has lets nobody else in.
    pub fn is_locked(&self) -> bool {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let clock: Arc<dyn Clock> = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let opened = Engine::open(disk, clock, Path::new(DIR), self.options.clone());
        matches!(opened, Err(Error::Locked { .. }))
    }

    /// Ends the life in this way and opens the store under the faults of the next.
    pub fn restart(&mut self, how: Restart, faults: CrashPlan) -> Result<(), Error> {
        self.sessions.clear();
        let old = self.engine.take();
        let earlier = self.earlier_formats.pop_front();
        self.options.segment_format = earlier.unwrap_or(Options::default().segment_format);
        match how {
            Restart::PowerCut(seed) => self.disk = self.disk.after_power_cut(seed, faults),
            Restart::Clean | Restart::Stop if !self.disk.crashed() => {
                // The same disk: a store that is dropped must have let go of its lock.
                drop(old);
                self.disk.set_plan(faults);
            }
            Restart::Clean | Restart::Stop | Restart::Kill => {
                self.disk = self.disk.after_kill(faults);
            }
        }
        let disk: Arc<dyn Disk> = Arc::new(VisitedDisk {
            disk: self.disk.clone(),
            visitor: self.visitor.clone(),
        });
        let clock: Arc<dyn Clock> = Arc::new(VisitedClock {
            clock: Arc::clone(&self.clock),
            visitor: self.visitor.clone(),
        });
        let engine = Engine::open(disk, clock, Path::new(DIR), self.options.clone())?;
        self.engine = Some(Arc::new(engine));
        Ok(())
    }

    /// Closes the store without opening it again.
    pub fn close(&mut self) {
        self.sessions.clear();
        self.engine = None;
    }

    /// Writes a body through the database's session, under a key if there is one.
    pub fn write(
        &mut self,
        database: &str,
        body: &str,
        key: Option<u8>,
    ) -> Result<WriteReport, Error> {
        let engine = self.engine.as_ref().expect("the caller looked");
        if !self.sessions.contains_key(database) {
            let session = session_in(engine, database)?;
            self.sessions.insert(database.to_owned(), session);
        }
        let session = self.sessions.get_mut(database).expect("inserted above");
        let body = body.as_bytes();
        match key {
            Some(key) => session.write_lines_once([key; 16], body, Precision::Nanosecond),
            None => session.write_lines(body, Precision::Nanosecond),
        }
    }

    /// The tables of a database as they are now, by name.
    pub fn schemas(&self, database: &str) -> BTreeMap<String, Schema> {
        let Some(engine) = self.engine() else {
            return BTreeMap::new();
        };
        let tables = tables(&engine.snapshot(), database);
        let named = tables
            .iter()
            .map(|table| (table.name.clone(), schema_of(table)));
        named.collect()
    }

    /// The types of a database's fields.
    pub fn types(&self, database: &str) -> Types {
        let mut types = Types::new();
        let Some(engine) = self.engine() else {
            return types;
        };
        let snapshot = engine.snapshot();
        for table in tables(&snapshot, database) {
            for field in &table.fields {
                if let ColumnKind::Field(kind) = field.kind {
                    types.insert((table.name.clone(), field.name.clone()), kind);
                }
            }
        }
        types
    }
}

/// A writer of a place.
pub(crate) fn session_in(engine: &Arc<Engine>, place: &str) -> Result<Session, Error> {
    let (database, schema) = split(place);
    let named = (schema != DEFAULT_SCHEMA).then_some(schema);
    Session::in_schema(Arc::clone(engine), database, named)
}

/// A table of a place.
pub(crate) fn table_of(snapshot: &Snapshot, place: &str, name: &str) -> Option<Arc<TableSchema>> {
    let (database, schema) = split(place);
    snapshot.table(database, schema, name)
}

/// Whether there is such a database or schema.
pub(crate) fn has_place(snapshot: &Snapshot, place: &str) -> bool {
    let (database, schema) = split(place);
    let schemas = snapshot.schemas(database).unwrap_or_default();
    schemas.iter().any(|name| name == schema)
}

fn tables(snapshot: &Snapshot, place: &str) -> Vec<Arc<TableSchema>> {
    let (database, schema) = split(place);
    let names = snapshot.tables(database, schema).unwrap_or_default();
    names
        .iter()
        .filter_map(|name| table_of(snapshot, place, name))
        .collect()
}

fn schema_of(table: &TableSchema) -> Schema {
    let fields = table.fields.iter().filter_map(|field| match field.kind {
        ColumnKind::Field(kind) => Some((field.name.clone(), kind)),
        ColumnKind::Tag => None,
    });
    Schema {
        duplicates: table.settings.duplicates,
        interval_ns: table.settings.partition_interval_ns,
        retention_ns: table.settings.retention_ns,
        tags: table.tags.iter().map(|tag| tag.name.clone()).collect(),
        fields: fields.collect(),
    }
}

/// The name under which a table shows a column; for one that it does not have, a name that no column has.
pub fn shown_name(table: &TableSchema, column: &Column) -> String {
    let columns = if column.is_tag {
        &table.tags
    } else {
        &table.fields
    };
    let before = if column.is_tag {
        1
    } else {
        1 + table.tags.len()
    };
    let at = columns.iter().position(|known| known.name == column.name);
    let schema = table.arrow_schema();
    let shown = at.and_then(|at| schema.fields().get(before + at));
    shown.map_or_else(|| "absent".to_owned(), |field| field.name().clone())
}

/// What a delete asks of the store; `None` = its table or its tag does not exist.
pub fn delete_request(
    snapshot: &Snapshot,
    database: &str,
    delete: &Delete,
) -> Option<DeleteRequest> {
    let table = table_of(snapshot, database, &delete.table)?;
    let tag = delete.tag.as_ref();
    let tags = match tag.map(|tag| predicate(&table, tag)) {
        Some(predicate) => vec![predicate?],
        None => Vec::new(),
    };
    Some(DeleteRequest {
        table,
        time: delete.time.0..=delete.time.1,
        tags,
    })
}

fn predicate(table: &TableSchema, tag: &TagFilter) -> Option<TagPredicate> {
    let at = table.tags.iter().position(|known| known.name == tag.name)?;
    Some(match &tag.wanted {
        Wanted::OneOf(values) => TagPredicate {
            negated: tag.negated,
            ..TagPredicate::one_of(1 + at, values.clone())
        },
        Wanted::Pattern(pattern) => TagPredicate::pattern(1 + at, &pattern.text(), tag.negated)
            .expect("the patterns of plans are regular expressions"),
    })
}

/// What a probe asks of tags; `None` = the table has no such tag.
fn predicates(table: &TableSchema, tags: &[TagFilter]) -> Option<Vec<TagPredicate>> {
    tags.iter().map(|tag| predicate(table, tag)).collect()
}

/// Scans of every table, that nobody has begun to read.
pub(crate) fn slow_readers(snapshot: &Snapshot) -> Result<Vec<(Name, SlowReader)>, String> {
    let mut readers = Vec::new();
    for database in snapshot.databases() {
        for schema in snapshot.schemas(&database).unwrap_or_default() {
            let place = place_of(&database, &schema);
            for table in tables(snapshot, &place) {
                let name = (place.clone(), table.name.clone());
                readers.push((name, SlowReader::plan(snapshot, &table)?));
            }
        }
    }
    Ok(readers)
}

/// Everything that a snapshot shows. Besides reading each table whole, it counts its rows.
pub fn read_all(snapshot: &Snapshot) -> Result<Found, String> {
    let mut found = Found::default();
    for database in snapshot.databases() {
        for schema in snapshot.schemas(&database).unwrap_or_default() {
            let place = place_of(&database, &schema);
            read_place(snapshot, &place, &mut found)?;
            found.places.insert(place);
        }
    }
    Ok(found)
}

fn read_place(snapshot: &Snapshot, place: &str, found: &mut Found) -> Result<(), String> {
    for (name, relation) in relation::read_relations(snapshot, place)? {
        found.relations.insert((place.to_owned(), name), relation);
    }
    for schema in tables(snapshot, place) {
        let name = schema.name.clone();
        let whole = |projection| ScanRequest {
            table: Arc::clone(&schema),
            projection,
            time: i64::MIN..=i64::MAX,
            tags: Vec::new(),
            limit: None,
        };
        let selection = Selection::whole(&schema);
        let (rows, disorder) = read_rows(snapshot, &whole(selection.projection()), &selection)
            .map_err(|what| format!("reading {place}.{name}: {what}"))?;
        let counted = count(snapshot, &whole(Vec::new()))?;
        let total: usize = rows.values().map(Vec::len).sum();
        if counted != total {
            return Err(format!(
                "{place}.{name} has {total} rows, but an empty projection counts {counted}",
            ));
        }
        let table = FoundTable {
            schema: schema_of(&schema),
            rows,
            disorder,
        };
        found.tables.insert((place.to_owned(), name), table);
    }
    Ok(())
}

fn count(snapshot: &Snapshot, request: &ScanRequest) -> Result<usize, String> {
    let scan = snapshot.scan(request).map_err(|error| error.to_string())?;
    let mut rows = 0;
    for morsel in 0..scan.morsels() {
        for batch in scan.read(morsel) {
            rows += batch.map_err(|error| error.to_string())?.num_rows();
        }
    }
    Ok(rows)
}

/// Compares aggregates of a table with its rows as they must be: of all its fields and rows, and of what a probe asks
/// for. Says how many hours and blocks did not have to be read.
pub fn compare_aggregates(
    snapshot: &Snapshot,
    name: &Name,
    rows: &Table,
    probe: &Probe,
) -> Result<u64, String> {
    let Some(schema) = table_of(snapshot, &name.0, &name.1) else {
        return Ok(0);
    };
    let kept = rows.iter().filter(|((tags, time), _)| {
        (probe.time.0..=probe.time.1).contains(time) && all_keep(&probe.tags, tags)
    });
    let kept: Table = kept
        .map(|(key, rows)| (key.clone(), rows.clone()))
        .collect();
    let mut spared = 0;
    // Texts must be read; what is asked together with one is read too.
    for with_texts in [false, true] {
        let wanted =
            schema.fields.iter().enumerate().filter(|(_, field)| {
                with_texts || field.kind != ColumnKind::Field(PhysicalType::Text)
            });
        let (fields, names): (Vec<usize>, Vec<String>) = wanted
            .map(|(at, field)| (1 + schema.tags.len() + at, field.name.clone()))
            .unzip();
        let whole = AggregateRequest {
            table: Arc::clone(&schema),
            fields,
            time: i64::MIN..=i64::MAX,
            tags: Vec::new(),
            bucket_ns: probe.bucket_ns,
        };
        let part = predicates(&schema, &probe.tags).map(|tags| AggregateRequest {
            time: probe.time.0..=probe.time.1,
            tags,
            ..whole.clone()
        });
        let asked = std::iter::once((&whole, rows)).chain(part.iter().map(|part| (part, &kept)));
        for (request, rows) in asked {
            let question = Question {
                schema: &schema,
                request,
                fields: &names,
                rows,
            };
            spared += aggregate::compare(snapshot, &question)?;
        }
    }
    Ok(spared)
}

/// What a probe finds in a table of a place, whose rows are known; `None` = there is no such table, tag or field to ask for.
pub fn read_probe(
    snapshot: &Snapshot,
    place: &str,
    probe: &Probe,
    rows: &Table,
) -> Result<Option<Table>, String> {
    let Some(schema) = table_of(snapshot, place, &probe.table) else {
        return Ok(None);
    };
    let Some(tags) = predicates(&schema, &probe.tags) else {
        return Ok(None);
    };
    let told = |what: String| format!("probing {place}.{}: {what}", probe.table);
    series::compare(snapshot, &schema, &tags, probe, rows).map_err(told)?;
    let field_at = schema.fields.iter().position(|f| f.name == probe.field);
    let Some(field_at) = field_at else {
        return Ok(None);
    };
    let selection = Selection::one_field(&schema, field_at);
    let request = ScanRequest {
        table: Arc::clone(&schema),
        projection: selection.projection(),
        time: probe.time.0..=probe.time.1,
        tags,
        limit: None,
    };
    let (rows, _) = read_rows(snapshot, &request, &selection).map_err(told)?;
    let few = ScanRequest {
        limit: Some(FEW_ROWS),
        ..request
    };
    let (first, _) = read_rows(snapshot, &few, &selection).map_err(told)?;
    check_few(&rows, &first).map_err(told)?;
    Ok(Some(rows))
}

/// Whether some rows are enough of all of them for who wants few.
fn check_few(all: &Table, few: &Table) -> Result<(), String> {
    let count = |table: &Table| table.values().map(Vec::len).sum::<usize>();
    let is_there = |(key, rows): (&_, &Vec<_>)| {
        all.get(key)
            .is_some_and(|all| rows.iter().all(|row| all.contains(row)))
    };
    if !few.iter().all(is_there) {
        return Err("a limit brings rows that are not there without it".to_owned());
    }
    if count(few) < count(all).min(FEW_ROWS) {
        let (few, all) = (count(few), count(all));
        return Err(format!("{few} rows of {all}, where {FEW_ROWS} were wanted"));
    }
    Ok(())
}
