//! Invalidations: the times at which rows of a table changed after an aggregate of them was computed.
//!
//! Does: keep for each aggregate which tables it reads, and the set of ranges in which its stored answers may be wrong, as rows
//! of relations; add to every batch the ranges that it touches, so that they are durable and visible with it. Does not: know
//! what is computed, or compute it.
//!
//! Next: docs/decisions/0026-continuous-aggregates.md for why nothing is lost between a refresh and a write.

pub(in crate::engine) mod noted;
mod source;
pub(in crate::engine) mod spans;

use std::collections::BTreeSet;
use std::sync::Arc;

use nilometer_codec::PhysicalType;

use crate::engine::{Engine, NewRelation, RelationChange, find_schema};
use crate::error::Error;
use crate::relation::{RelationColumn, RelationSchema, Value};
use crate::snapshot::Snapshot;

use noted::Watch;
pub use source::AggregateSource;
use source::range_row;
use spans::{join, spans};

/// The relation that says which tables an aggregate reads.
pub const AGGREGATE_SOURCES: &str = "system aggregate sources";
/// The relation with the ranges in which stored answers may be wrong.
pub const INVALIDATIONS: &str = "system aggregate invalidations";

/// Rows of one aggregate from which on they are joined where they overlap.
const ROWS_MAX: usize = 1_000;

/// A range of time in which stored answers may be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Invalidation {
    /// What tells it from the others of its aggregate.
    pub number: i64,
    /// First time, in nanoseconds.
    pub first_ns: i64,
    /// Last time.
    pub last_ns: i64,
    /// Nothing was ever computed there; else something was, and rows have changed since.
    pub is_new: bool,
}

/// Where an aggregate is, and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AggregateKey<'a> {
    /// Its database.
    pub database: &'a str,
    /// Its schema.
    pub schema: &'a str,
    /// Its number, which no other one has: the id of the table of its stored answers, which line protocol does not write.
    pub number: i64,
}

/// A refresh that is under way: there is one at a time, and every change is noted until it is dropped.
#[derive(Debug)]
pub struct Refreshing {
    engine: Arc<Engine>,
    number: i64,
}

impl Drop for Refreshing {
    fn drop(&mut self) {
        let engine = &self.engine;
        let noted = engine.sequencer.noted();
        // Read first: what is noted from here on is noted whole until the lock is taken.
        let open_from = noted.relation_of(self.number).and_then(|relation| {
            let relations = engine.sequencer.relations();
            let all = relations.rows(relation, engine.sequencer.log().durable());
            open_from(&invalidations(all.iter().map(AsRef::as_ref), self.number))
        });
        noted.refreshed(self.number, open_from);
    }
}

impl Engine {
    /// Keeps which tables an aggregate reads, in place of those before, and that nothing of it is computed. Times of a
    /// batch are told apart where more than `width_ns` lies between them. Durable on return.
    pub fn watch_aggregate(
        &self,
        key: AggregateKey<'_>,
        width_ns: i64,
        sources: &[AggregateSource],
    ) -> Result<(), Error> {
        let (of_sources, of_ranges) = self.invalidation_relations(key)?;
        let mut changes = self.forgetting(&of_sources, &of_ranges, key)?;
        let row = |source: &AggregateSource| {
            let [kind, id] = source.row();
            [key.number, kind, id, width_ns].map(Value::from).to_vec()
        };
        let rows = sources.iter().map(row).collect();
        changes.push(RelationChange::Insert(of_sources, rows));
        let number = self.sequencer.noted().next_number();
        let all = range_row(key.number, number, (i64::MIN, i64::MAX, true));
        changes.push(RelationChange::Insert(Arc::clone(&of_ranges), vec![all]));
        self.write_relations(&changes)?;
        let watch = Watch {
            number: key.number,
            relation: of_ranges.id,
            width_ns,
            sources: sources.iter().copied().collect(),
            open_from: Some(i64::MIN),
            is_refreshing: false,
            rows: 1,
        };
        // A batch that was built before and comes after lies in the range of all times.
        let _order = self.sequencer.lock();
        self.sequencer.noted().watch(watch);
        Ok(())
    }

    /// Forgets an aggregate. Durable on return.
    pub fn forget_aggregate(&self, key: AggregateKey<'_>) -> Result<(), Error> {
        self.sequencer.noted().forget(key.number);
        let (of_sources, of_ranges) = self.invalidation_relations(key)?;
        let changes = self.forgetting(&of_sources, &of_ranges, key)?;
        self.write_relations(&changes).map(drop)
    }

    /// Begins a refresh: from here on every change is noted, and everything that was not is in the next snapshot.
    pub fn begin_refresh(self: &Arc<Self>, number: i64) -> Result<Refreshing, Error> {
        let lsn = {
            let order = self.sequencer.lock();
            self.sequencer.noted().begin_refresh(number)?;
            order.next_lsn - 1
        };
        let refreshing = Refreshing {
            engine: Arc::clone(self),
            number,
        };
        self.sequencer.log().sync(lsn)?;
        Ok(refreshing)
    }

    /// Joins ranges that overlap, of an aggregate that has very many. Whoever is computed meanwhile keeps its own.
    pub(in crate::engine) fn join_invalidations(&self) -> Result<bool, Error> {
        let Some((number, relation)) = self.sequencer.noted().crowded(ROWS_MAX) else {
            return Ok(false);
        };
        let (schema, known) = {
            let relations = self.sequencer.relations();
            let Some(schema) = relations.schema(relation).cloned() else {
                return Ok(false);
            };
            let all = relations.rows(relation, self.sequencer.log().durable());
            let known = invalidations(all.iter().map(AsRef::as_ref), number);
            (schema, known)
        };
        let mut ranges = Vec::new();
        for is_new in [true, false] {
            let of_kind = known.iter().filter(|it| it.is_new == is_new);
            let pairs = of_kind.map(|it| (it.first_ns, it.last_ns)).collect();
            let joined = join(pairs, ROWS_MAX / 4);
            ranges.extend(
                joined
                    .into_iter()
                    .map(|(first, last)| (first, last, is_new)),
            );
        }
        let changes = self.replacing(&schema, number, &known, &ranges);
        self.write_relations(&changes)?;
        self.sequencer.noted().joined(number, ranges.len());
        Ok(true)
    }

    /// What replaces some ranges of an aggregate by others: (first, last, whether nothing was ever computed there).
    fn replacing(
        &self,
        schema: &Arc<RelationSchema>,
        number: i64,
        gone: &[Invalidation],
        new: &[(i64, i64, bool)],
    ) -> Vec<RelationChange> {
        let keys = gone
            .iter()
            .map(|it| vec![Value::from(number), Value::from(it.number)])
            .collect();
        let noted = self.sequencer.noted();
        let rows = new
            .iter()
            .map(|range| range_row(number, noted.next_number(), *range))
            .collect();
        vec![
            RelationChange::Delete(Arc::clone(schema), keys),
            RelationChange::Insert(Arc::clone(schema), rows),
        ]
    }

    /// The same for the transaction of a refresh.
    pub fn replace_invalidations(
        &self,
        key: AggregateKey<'_>,
        gone: &[Invalidation],
        new: &[(i64, i64, bool)],
    ) -> Result<Vec<RelationChange>, Error> {
        // Ranges of rows that are being published are noted before the rows are there, and again behind them. Nobody forgets the
        // first ones before the second ones are there: a snapshot between the two has not seen the rows.
        drop(self.jobs.flushing());
        let (_, of_ranges) = self.invalidation_relations(key)?;
        Ok(self.replacing(&of_ranges, key.number, gone, new))
    }

    fn invalidation_relations(
        &self,
        key: AggregateKey<'_>,
    ) -> Result<(Arc<RelationSchema>, Arc<RelationSchema>), Error> {
        let column = |name: &str| RelationColumn {
            name: name.to_owned(),
            kind: PhysicalType::I64,
            nullable: false,
        };
        let make = |name: &str, columns: &[&str], primary_key: usize| {
            let new = NewRelation {
                columns: columns.iter().map(|name| column(name)).collect(),
                primary_key: columns
                    .iter()
                    .take(primary_key)
                    .map(|name| (*name).to_owned())
                    .collect(),
                unique: Vec::new(),
            };
            self.create_relation(key.database, key.schema, name, &new)?;
            let (_, owner) = find_schema(&self.sequencer.catalogue(), key.database, key.schema)?;
            let found = self.sequencer.relations().named(owner, name).cloned();
            found.ok_or_else(|| Error::NotFound {
                what: "schema",
                name: key.schema.to_owned(),
                place: format!("database \"{}\"", key.database),
                hint: "it was dropped meanwhile".to_owned(),
            })
        };
        let sources = make(
            AGGREGATE_SOURCES,
            &["aggregate", "kind", "source", "width_ns"],
            3,
        )?;
        let ranges = make(
            INVALIDATIONS,
            &["aggregate", "number", "first_ns", "last_ns", "is_new"],
            2,
        )?;
        Ok((sources, ranges))
    }

    /// What takes away all that is kept of an aggregate.
    fn forgetting(
        &self,
        of_sources: &Arc<RelationSchema>,
        of_ranges: &Arc<RelationSchema>,
        key: AggregateKey<'_>,
    ) -> Result<Vec<RelationChange>, Error> {
        // Whatever has an LSN counts, so that nothing comes back.
        let lsn = self.sequencer.lock().next_lsn - 1;
        self.sequencer.log().sync(lsn)?;
        let relations = self.sequencer.relations();
        let forget = |schema: &Arc<RelationSchema>| {
            let keys = relations
                .rows(schema.id, lsn)
                .iter()
                .filter(|row| integer(row, 0) == Some(key.number))
                .map(|row| row.iter().take(schema.primary_key.len()).cloned().collect())
                .collect();
            RelationChange::Delete(Arc::clone(schema), keys)
        };
        Ok(vec![forget(of_sources), forget(of_ranges)])
    }

    /// What the store keeps of aggregates, once it is open.
    pub(in crate::engine) fn load_aggregates(&self) {
        let relations = self.sequencer.relations();
        let now = self.sequencer.log().durable();
        let mut last = 0;
        let mut watches = Vec::new();
        for sources in relations.everywhere(AGGREGATE_SOURCES) {
            let Some(ranges) = relations.named(sources.schema, INVALIDATIONS) else {
                continue;
            };
            let known = relations.rows(ranges.id, now);
            last = known
                .iter()
                .filter_map(|row| integer(row, 1))
                .fold(last, i64::max);
            let rows = relations.rows(sources.id, now);
            let numbers: BTreeSet<i64> = rows.iter().filter_map(|row| integer(row, 0)).collect();
            for number in numbers {
                let own = rows.iter().filter(|row| integer(row, 0) == Some(number));
                let width = own.clone().find_map(|row| integer(row, 3));
                let known = invalidations(known.iter().map(AsRef::as_ref), number);
                watches.push(Watch {
                    number,
                    relation: ranges.id,
                    width_ns: width.unwrap_or(1),
                    sources: own.filter_map(|row| source(row)).collect(),
                    open_from: open_from(&known),
                    is_refreshing: false,
                    rows: known.len(),
                });
            }
        }
        drop(relations);
        let noted = self.sequencer.noted();
        noted.count_from(last);
        for watch in watches {
            noted.watch(watch);
        }
    }
}

impl Snapshot {
    /// The ranges in which stored answers of an aggregate may be wrong.
    pub fn invalidations(&self, key: AggregateKey<'_>) -> Vec<Invalidation> {
        let reader = self.relation(key.database, key.schema, INVALIDATIONS);
        let rows = reader.map_or_else(Vec::new, |reader| reader.rows());
        invalidations(rows.iter().map(AsRef::as_ref), key.number)
    }

    /// The tables that an aggregate reads, as they were kept.
    pub fn aggregate_sources(&self, key: AggregateKey<'_>) -> BTreeSet<AggregateSource> {
        let reader = self.relation(key.database, key.schema, AGGREGATE_SOURCES);
        let rows = reader.map_or_else(Vec::new, |reader| reader.rows());
        let own = rows
            .iter()
            .filter(|row| integer(row, 0) == Some(key.number));
        own.filter_map(|row| source(row)).collect()
    }

    /// The ranges that the transaction that reads has touched itself, of an aggregate that reads these tables.
    pub fn own_invalidations(
        &self,
        sources: &BTreeSet<AggregateSource>,
        width_ns: i64,
    ) -> Vec<(i64, i64)> {
        let mut found = Vec::new();
        let own = self.moment().state.own.as_ref();
        for source in sources {
            match *source {
                AggregateSource::Relation(id) => {
                    if self.has_own_rows(id) {
                        return vec![(i64::MIN, i64::MAX)];
                    }
                }
                AggregateSource::Times(id) | AggregateSource::Table(id) => {
                    let Some(own) = own else { continue };
                    let now = self.moment().names.kept_as(id);
                    let id = now.map_or(id, |it| it.id);
                    let whole = matches!(source, AggregateSource::Table(_));
                    let mut ranges = Vec::new();
                    for (run, rows) in own.head.runs(id, own.lsn) {
                        let times = run.rows.times.get(..rows).unwrap_or_default();
                        ranges.extend(spans(times, width_ns, i64::MAX));
                    }
                    let groups = own.staged.iter().flat_map(|it| it.groups(id));
                    ranges.extend(groups.map(|(_, group)| (group.min_time, group.max_time)));
                    for tombstone in own.head.tombstones(own.lsn) {
                        if tombstone.table == id {
                            ranges.extend(noted::of_tombstone(&tombstone, width_ns));
                        }
                    }
                    if whole && !ranges.is_empty() {
                        return vec![(i64::MIN, i64::MAX)];
                    }
                    found.extend(ranges);
                }
            }
        }
        found
    }
}

fn integer(row: &[Value], at: usize) -> Option<i64> {
    match row.get(at) {
        Some(Value::I64(number)) => Some(*number),
        _ => None,
    }
}

fn source(row: &[Value]) -> Option<AggregateSource> {
    AggregateSource::of(integer(row, 1)?, integer(row, 2)?)
}

fn invalidations<'a>(rows: impl Iterator<Item = &'a [Value]>, number: i64) -> Vec<Invalidation> {
    let own = rows.filter(|row| integer(row, 0) == Some(number));
    let of = |row: &[Value]| {
        Some(Invalidation {
            number: integer(row, 1)?,
            first_ns: integer(row, 2)?,
            last_ns: integer(row, 3)?,
            is_new: integer(row, 4)? != 0,
        })
    };
    let mut all: Vec<Invalidation> = own.filter_map(of).collect();
    all.sort_by_key(|it| (it.first_ns, it.number));
    all
}

/// From when on no answer is stored: the start of the range that reaches to the end of time.
fn open_from(known: &[Invalidation]) -> Option<i64> {
    let open = known.iter().filter(|it| it.last_ns == i64::MAX);
    open.map(|it| it.first_ns).min()
}
