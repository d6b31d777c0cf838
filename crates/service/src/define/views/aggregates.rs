//! Continuous aggregates: views whose answers are stored, kept as rows of a relation in the schema of the view.
//!
//! Does: make the view and the table of its stored answers together, say which tables they depend on, drop them. Does not:
//! understand the query, or compute anything: the language that wrote it does.

use std::sync::Arc;

use nilometer_engine::{
    AggregateSource, ColumnKind, DeclaredTable, Duplicates, Engine, Error as EngineError,
    PhysicalType, RelationChange, Snapshot, TableSettings, Value, nearest,
};

use super::kept::{Aggregate, KEPT, aggregate, aggregates, all, stored_name};
use super::{remove, store, view};
use crate::access::{Followed, Principal, Privilege};
use crate::define::change::name::{Path, TableName};
use crate::define::change::{Change, Column};
use crate::define::error::{DefineError, Object, Part};
use crate::define::hypertables::integer_now::is_integer;
use crate::define::lookup;
use crate::define::place::{Place, check_table, must_be_new, refuse_reserved};
use crate::define::run::run;
use crate::error::Error;
use crate::jobs::background::{BackgroundJobs, jobs as all_jobs};
use crate::write::sessions::Scope;

/// A continuous aggregate to be made. The language has checked its query.
#[derive(Debug, Clone, PartialEq)]
pub struct NewAggregate {
    /// The view.
    pub path: Path,
    /// Its query as it was written.
    pub query: String,
    /// See [`Aggregate::is_stored_only`].
    pub is_stored_only: bool,
    /// See [`Aggregate::source`].
    pub source: TableName,
    /// See [`Aggregate::bucket`].
    pub bucket: String,
    /// About how wide a bucket is, in nanoseconds.
    pub width_ns: i64,
    /// What its query reads.
    pub reads: Vec<AggregateSource>,
    /// The columns of its answers, without the bucket.
    pub columns: Vec<Column>,
    /// The bucket as the time of the table of its answers.
    pub declared: DeclaredTable,
}

/// Makes a continuous aggregate, of which nothing is computed. `None` = a view of the name is there, and stays.
pub fn create_aggregate(
    engine: &Arc<Engine>,
    principal: &Principal,
    scope: &Scope,
    new: NewAggregate,
    if_not_exists: bool,
) -> Result<Option<Aggregate>, Error> {
    let place = &Place::of(engine, scope);
    check_table(principal, place, &new.path)?;
    let name = place.table(new.path)?;
    refuse_reserved(&name.schema).map_err(|reserved| reserved.about(Part::Name))?;
    let (database, schema) = (&name.database, &name.schema);
    let snapshot = engine.snapshot();
    lookup::find_schema(&snapshot, database, schema)
        .map_err(|missing| missing.about(Part::Start))?;
    let shown = format!("\"{database}\".\"{schema}\"");
    let is_view = view(&snapshot, database, schema, &name.table).is_some();
    if is_view && if_not_exists {
        return Ok(None);
    }
    must_be_new(!is_view, "view", &name.table, &shown)?;
    let is_table = snapshot.table(database, schema, &name.table).is_some();
    let is_relation = lookup::find_relation(&snapshot, database, schema, &name.table).is_some();
    must_be_new(!is_table && !is_relation, "table", &name.table, &shown)?;
    let stored = stored_name(&name.table);
    // Left by one whose making a crash ended.
    if KEPT
        .row(&snapshot, (database, schema), name.table.as_str())
        .is_some()
    {
        engine.drop_table(database, schema, &stored)?;
        KEPT.forget(
            engine,
            (database, schema),
            vec![Value::from(name.table.as_str())],
        )?;
    }
    let usual = TableSettings::default();
    let settings = TableSettings {
        duplicates: Duplicates::Keep,
        partition_interval_ns: integer_width(&snapshot, &new.source)
            .unwrap_or(usual.partition_interval_ns),
        ..usual
    };
    let table = Change::CreateTable {
        path: Path {
            before: vec![database.clone(), schema.clone()],
            last: stored.clone(),
        },
        if_not_exists: false,
        columns: new.columns,
        settings,
        declared: new.declared,
        is_hypertable: true,
        payload: None,
    };
    run(engine, &Principal::anyone(), scope, table)?;
    let made = engine.snapshot().table(database, schema, &stored);
    let made = made.ok_or_else(|| EngineError::TableDropped {
        table: stored.clone(),
    })?;
    let aggregate = Aggregate {
        number: i64::from(made.id.0),
        stored,
        is_stored_only: new.is_stored_only,
        source: new.source,
        bucket: new.bucket,
        name,
    };
    engine.watch_aggregate(aggregate.key(), new.width_ns, &new.reads)?;
    let within = (
        aggregate.name.database.as_str(),
        aggregate.name.schema.as_str(),
    );
    KEPT.put(engine, within, aggregate.row())?;
    store(engine, &aggregate.name, &new.query)?;
    Ok(Some(aggregate))
}

/// How wide chunks of stored answers are, where the time is an integer: ten times as wide as those of the rows, as in `TimescaleDB`;
/// `None` = it is no integer.
fn integer_width(snapshot: &Snapshot, source: &TableName) -> Option<i64> {
    let (database, schema) = (&source.database, &source.schema);
    let inner = aggregate(snapshot, database, schema, &source.table);
    let (name, factor) = match &inner {
        Some(inner) => (&inner.stored, 1),
        None => (&source.table, 10),
    };
    let table = snapshot.table(database, schema, name)?;
    is_integer(&table).then(|| {
        let width = table.settings.partition_interval_ns;
        width.saturating_mul(factor)
    })
}

/// A continuous aggregate that somebody wants to change; the error says that it is none.
pub fn aggregate_to_change(
    engine: &Arc<Engine>,
    principal: &Principal,
    scope: &Scope,
    path: Path,
) -> Result<Aggregate, Error> {
    let place = &Place::of(engine, scope);
    check_table(principal, place, &path)?;
    let name = place.table(path)?;
    let snapshot = engine.snapshot();
    let (database, schema) = (&name.database, &name.schema);
    if let Some(found) = aggregate(&snapshot, database, schema, &name.table) {
        return Ok(found);
    }
    lookup::find_schema(&snapshot, database, schema)
        .map_err(|missing| missing.about(Part::Start))?;
    let known = aggregates(&snapshot, database, schema);
    let unknown = DefineError::Unknown {
        what: Object::Aggregate,
        nearest: nearest(&name.table, known.into_iter().map(|it| it.name.table)),
        name: name.shown(),
    };
    Err(unknown.about(Part::Start))
}

/// Sets whether a continuous aggregate answers what is stored and nothing else.
pub fn set_stored_only(
    engine: &Arc<Engine>,
    aggregate: &Aggregate,
    is_stored_only: bool,
) -> Result<(), Error> {
    let within = (
        aggregate.name.database.as_str(),
        aggregate.name.schema.as_str(),
    );
    let row = Aggregate {
        is_stored_only,
        ..aggregate.clone()
    }
    .row();
    Ok(KEPT.put(engine, within, row)?)
}

/// Drops a continuous aggregate with its stored answers and its policies.
pub fn drop_aggregate(
    engine: &Arc<Engine>,
    jobs: &BackgroundJobs,
    aggregate: &Aggregate,
) -> Result<(), Error> {
    let snapshot = engine.snapshot();
    let name = &aggregate.name;
    let above = all(&snapshot, &name.database);
    let above = above.iter().find(|it| it.source == *name);
    if let Some(above) = above {
        let in_use = DefineError::Aggregated {
            table: name.table.clone(),
            view: above.name.table.clone(),
        };
        return Err(in_use.about(Part::Name));
    }
    // The view first: what a crash leaves of the rest is nobody's, and goes when one of the name is made.
    remove(engine, name)?;
    Followed::Gone(name.clone()).end(engine)?;
    engine.forget_aggregate(aggregate.key())?;
    engine.drop_table(&name.database, &name.schema, &aggregate.stored)?;
    let within = (name.database.as_str(), name.schema.as_str());
    KEPT.forget(engine, within, vec![Value::from(name.table.as_str())])?;
    // Those that a crash leaves end with their next run.
    for job in all_jobs(&engine.snapshot()) {
        if job.database == name.database && job.target == aggregate.number {
            jobs.delete(job.id)?;
        }
    }
    Ok(())
}

/// What takes the ranges that a refresh has computed out of those that may be wrong; see [`Engine::replace_invalidations`].
pub fn refreshed(
    engine: &Arc<Engine>,
    aggregate: &Aggregate,
    gone: &[nilometer_engine::Invalidation],
    left: &[(i64, i64, bool)],
) -> Result<Vec<RelationChange>, Error> {
    Ok(engine.replace_invalidations(aggregate.key(), gone, left)?)
}

/// A column of stored answers.
pub fn stored_column(name: &str, kind: PhysicalType) -> Column {
    Column {
        name: name.to_owned(),
        kind: ColumnKind::Field(kind),
        declared: nilometer_engine::Declared::default(),
    }
}

/// Whether somebody may refresh it: who may define it.
pub fn check_refresh(principal: &Principal, aggregate: &Aggregate) -> Result<(), Error> {
    let name = &aggregate.name;
    let about = crate::access::Place::table(&name.database, &name.schema, &name.table);
    principal.check(Privilege::Define, about)
}
