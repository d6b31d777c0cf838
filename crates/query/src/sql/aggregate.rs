//! Continuous aggregates: made, refreshed, changed and dropped.
//!
//! Does: have a query analysed before it is kept; compute the buckets of a window that may be wrong, and store them as one
//! transaction. Does not: say which these are (`tables/aggregate.rs` does).
//!
//! Next: docs/decisions/0026-continuous-aggregates.md for the order of a refresh.

pub(super) mod refresh_job;

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Date32Type, Int64Type, TimeUnit, TimestampNanosecondType};
use chrono::{DateTime, SecondsFormat};
use datafusion::sql::sqlparser::ast::Expr;
use futures::StreamExt;
use nilometer_engine::{
    DeclaredTable, DeclaredTime, Engine, Error as EngineError, Invalidation, TimeKind,
};
use nilometer_service::define::{self, Aggregate, NewAggregate, Part};
use nilometer_service::{Class, Error as ServiceError, Principal, Scope};

use super::Sql;
use crate::Params;
use crate::error::{Error, Position};
use crate::execution::blocking;
use crate::planning::incremental::{incremental, stored_as};
use crate::statement::name::{NameScope, Path, TableName};
use crate::statement::{self, AggregateStatement, Bounds, Statement, WrittenAggregate};
use crate::tables::aggregate::buckets::{few, merged, without};
use crate::tables::aggregate::{Chain, Reads, invalid_of};
use crate::tables::catalogue::ReadContext;
use crate::tables::describe;
use crate::write;

const DAY_NS: i64 = 86_400_000_000_000;

/// Ranges of buckets that a refresh tells apart; more are joined.
const RANGES_MAX: usize = 1_024;
/// Ranges that it computes in one plan.
const RANGES_AT_ONCE: usize = 32;

/// How often a refresh begins again, because somebody else changed the same ranges or made a table anew.
const TRIES_MAX: usize = 3;

/// What a refresh is asked for: from a time up to, without, another one; `None` = no bound.
#[derive(Debug, Clone, Copy)]
struct Window {
    from: Option<i64>,
    until: Option<i64>,
    is_forced: bool,
}

impl Sql {
    /// Carries out a statement of a continuous aggregate.
    pub(super) async fn aggregate(
        &self,
        reading: &ReadContext,
        place: &NameScope,
        statement: AggregateStatement,
    ) -> Result<(), Error> {
        match statement {
            AggregateStatement::Create(written) => {
                self.create_aggregate(reading, place, *written).await
            }
            AggregateStatement::Refresh {
                view,
                from,
                until,
                is_forced,
            } => {
                let found = self.aggregate_named(place, &view).await?;
                let kind = kind_of(reading, &found)?;
                let window = Window {
                    from: self.instant(place, &from, kind).await?,
                    until: self.instant(place, &until, kind).await?,
                    is_forced,
                };
                if let (Some(from), Some(until)) = (window.from, window.until)
                    && from >= until
                {
                    return Err(Error::Plan {
                        message: "the window of a refresh is empty: its end comes before its start"
                            .to_owned(),
                        position: view.start(),
                    });
                }
                self.refresh(&found, window).await
            }
            AggregateStatement::SetStoredOnly(view, is_stored_only) => {
                let found = self.aggregate_named(place, &view).await?;
                self.define(view.start(), move |engine| {
                    define::set_stored_only(engine, &found, is_stored_only)
                })
                .await
            }
            AggregateStatement::Drop { view, if_exists } => {
                let found = self.aggregate_named(place, &view).await;
                let found = match found {
                    Err(Error::UnknownName { .. }) if if_exists => return Ok(()),
                    found => found?,
                };
                let jobs = Arc::clone(&self.shared().jobs);
                self.define(view.start(), move |engine| {
                    define::drop_aggregate(engine, &jobs, &found)
                })
                .await
            }
        }
    }

    /// The aggregate of a name that the asker may change.
    async fn aggregate_named(&self, place: &NameScope, view: &Path) -> Result<Aggregate, Error> {
        let (principal, scope) = (self.principal.clone(), Scope::from(place.clone()));
        let path = view.names();
        self.define(view.start(), move |engine| {
            define::aggregate_to_change(engine, &principal, &scope, path)
        })
        .await
    }

    /// Does what the service does of definitions.
    async fn define<T: Send + 'static>(
        &self,
        position: Option<Position>,
        work: impl FnOnce(&Arc<Engine>) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, Error> {
        let engine = Arc::clone(&self.shared().engine);
        let done = move || work(&engine).map_err(|error| placed(error, position));
        blocking(&self.shared().executor, done).await
    }

    async fn create_aggregate(
        &self,
        reading: &ReadContext,
        place: &NameScope,
        written: WrittenAggregate,
    ) -> Result<(), Error> {
        let position = written.view.start();
        let name = written.view.clone().table(place)?;
        let snapshot = &reading.snapshot;
        let known = define::view(snapshot, &name.database, &name.schema, &name.table);
        if known.is_some() && written.if_not_exists {
            return Ok(());
        }
        describe::check_view(reading, &name, &written.query).await?;
        let making = reading.making(name.clone());
        let analysed = making.analysed();
        let plan = analysed.plan_query(&name, &written.query).await;
        let plan = plan.map_err(|error| match analysed.view_error() {
            Some(it) => Error::Plan {
                message: format!("\"{}\": {}", it.view, it.message),
                position,
            },
            None => error,
        })?;
        let found = incremental(&plan, &analysed.session(place))?;
        let source = found.source.name();
        let reads = Reads::of(&source);
        let noting = making.noting(&reads);
        noting.plan_query(&name, &written.query).await?;
        let mut columns = Vec::new();
        let mut time = DeclaredTime {
            kind: found.kind,
            ..DeclaredTime::default()
        };
        for (at, field) in found.schema.fields().iter().enumerate() {
            let place = u32::try_from(at + 1).unwrap_or(u32::MAX);
            if at == found.bucket_at {
                time.name.clone_from(field.name());
                time.column.position = Some(place);
                continue;
            }
            let (kind, of) = stored_as(field.name(), field.data_type())?;
            let mut column = define::stored_column(field.name(), kind);
            column.declared.of = of;
            column.declared.position = Some(place);
            columns.push(column);
        }
        let new = NewAggregate {
            path: written.view.names(),
            query: written.query,
            is_stored_only: written.is_stored_only,
            source,
            bucket: found.buckets.text(),
            width_ns: found.buckets.width_ns(),
            reads: reads.found().into_iter().collect(),
            columns,
            declared: DeclaredTable {
                time: Some(time),
                ..DeclaredTable::default()
            },
        };
        let (principal, scope) = (self.principal.clone(), Scope::from(place.clone()));
        let if_not_exists = written.if_not_exists;
        let made = self
            .define(position, move |engine| {
                define::create_aggregate(engine, &principal, &scope, new, if_not_exists)
            })
            .await?;
        self.queries.planner.forget_templates();
        match made {
            Some(made) if written.with_data => {
                let all = Window {
                    from: None,
                    until: None,
                    is_forced: false,
                };
                self.refresh(&made, all).await
            }
            _ => Ok(()),
        }
    }

    /// A time that an argument says, in nanoseconds; `None` = NULL.
    async fn instant(
        &self,
        place: &NameScope,
        written: &Expr,
        kind: TimeKind,
    ) -> Result<Option<i64>, Error> {
        let of = match kind {
            TimeKind::TimestampTz => "TIMESTAMPTZ",
            TimeKind::Timestamp => "TIMESTAMP",
            TimeKind::Date => "DATE",
            TimeKind::Integer { .. } => "BIGINT",
        };
        let sql = format!("SELECT CAST({written} AS {of})");
        self.one_time(&place.database, &sql, kind).await
    }

    /// The one value of a query, a time.
    async fn one_time(
        &self,
        database: &str,
        sql: &str,
        kind: TimeKind,
    ) -> Result<Option<i64>, Error> {
        let mut answer = Box::pin(self.query(database, sql)).await?;
        let mut found = None;
        while let Some(batch) = answer.next().await {
            let batch = batch?;
            if batch.num_rows() > 0 {
                found = time_of(batch.column(0), kind);
            }
        }
        Ok(found)
    }

    /// Computes the buckets of a window that may be wrong, and stores them.
    async fn refresh(&self, aggregate: &Aggregate, window: Window) -> Result<(), Error> {
        let mut tries = 0;
        loop {
            tries += 1;
            let done = self.refresh_once(aggregate, window).await;
            let is_overtaken = matches!(
                &done,
                Ok(false)
                    | Err(Error::Engine(
                        EngineError::TransactionOvertaken { .. }
                            | EngineError::RelationChanged { .. },
                    ))
            );
            if is_overtaken && tries < TRIES_MAX {
                continue;
            }
            if done? {
                return Ok(());
            }
            return Err(Error::Plan {
                message: format!(
                    "the tables of \"{}\" are made anew again and again; refresh it later",
                    aggregate.name.table
                ),
                position: None,
            });
        }
    }

    /// False = another table has the name of one that it was made of: everything is to be computed, at the next try.
    async fn refresh_once(&self, aggregate: &Aggregate, window: Window) -> Result<bool, Error> {
        let engine = &self.shared().engine;
        let number = aggregate.number;
        let (beginning, executor) = (Arc::clone(engine), &self.shared().executor);
        let refreshing = blocking(executor, move || Ok(beginning.begin_refresh(number)?)).await?;
        let transaction = engine.begin()?;
        let inside = Self {
            zone: crate::semantics::zone::Zone::default(),
            schema: None,
            client: None,
            ..self.asked_by(&Principal::anyone()).within(&transaction)
        };
        let reading = inside.reading();
        let name = TableName::at(None, aggregate.name.clone());
        let reads = Reads::of(&aggregate.source);
        let query = define::view(
            &reading.snapshot,
            &aggregate.name.database,
            &aggregate.name.schema,
            &aggregate.name.table,
        );
        let query = query.ok_or_else(|| dropped(aggregate))?;
        reading.noting(&reads).plan_query(&name, &query).await?;
        if reads.found() != reading.snapshot.aggregate_sources(aggregate.key()) {
            drop((refreshing, transaction));
            let own = aggregate.clone();
            let width = Chain::of(&reading.snapshot, aggregate)?.own().width_ns();
            let found: Vec<_> = reads.found().into_iter().collect();
            self.define(None, move |engine| {
                Ok(engine.watch_aggregate(own.key(), width, &found)?)
            })
            .await?;
            return Ok(false);
        }
        let known = reading.snapshot.invalidations(aggregate.key());
        let newest = inside.newest(aggregate, &reading).await?;
        let ranges = to_compute(&reading, aggregate, &known, window, newest)?;
        let chain = Chain::of(&reading.snapshot, aggregate)?;
        let times = ranges
            .iter()
            .map(|&(start, end)| chain.times_of(start, end));
        let times = merged(times.collect());
        let is_concerned = |it: &&Invalidation| {
            let rest = without((it.first_ns, it.last_ns), &times);
            rest.as_slice() != [(it.first_ns, it.last_ns)]
        };
        let gone: Vec<Invalidation> = known.iter().filter(is_concerned).copied().collect();
        let left: Vec<(i64, i64, bool)> = gone
            .iter()
            .flat_map(|it| {
                let rest = without((it.first_ns, it.last_ns), &times);
                rest.into_iter()
                    .map(|(first, last)| (first, last, it.is_new))
            })
            .collect();
        for ranges in few(ranges, RANGES_MAX).chunks(RANGES_AT_ONCE) {
            inside.store(aggregate, &reading, ranges).await?;
        }
        let own = aggregate.clone();
        self.define(None, move |engine| {
            let changes = define::refreshed(engine, &own, &gone, &left)?;
            transaction.write_relations(None, &changes)?;
            transaction.commit()?;
            drop(refreshing);
            Ok(())
        })
        .await?;
        Ok(true)
    }

    /// The last time of the source; `None` = it has no rows.
    async fn newest(
        &self,
        aggregate: &Aggregate,
        reading: &ReadContext,
    ) -> Result<Option<i64>, Error> {
        let source = &aggregate.source;
        let snapshot = &reading.snapshot;
        let (database, schema) = (&source.database, &source.schema);
        let inner = define::aggregate(snapshot, database, schema, &source.table);
        let table = inner.map_or_else(|| source.table.clone(), |inner| inner.stored);
        let table = snapshot.table(database, schema, &table);
        let table = table.ok_or_else(|| dropped(aggregate))?;
        let (time, kind) = table.time();
        let sql = format!("SELECT max({}) FROM {}", quoted(time), shown(source));
        self.one_time(database, &sql, kind).await
    }

    /// Computes ranges of buckets in the transaction, in place of what was stored.
    async fn store(
        &self,
        aggregate: &Aggregate,
        reading: &ReadContext,
        ranges: &[(i64, i64)],
    ) -> Result<(), Error> {
        let name = &aggregate.name;
        let stored = define::TableName {
            table: aggregate.stored.clone(),
            ..name.clone()
        };
        let table = reading
            .snapshot
            .table(&name.database, &name.schema, &aggregate.stored);
        let table = table.ok_or_else(|| dropped(aggregate))?;
        let (time, kind) = table.time();
        let one = |range: &(i64, i64)| {
            let from = (range.0 > i64::MIN)
                .then(|| format!("{} >= {}", quoted(time), literal(range.0, kind)));
            let until = (range.1 < i64::MAX)
                .then(|| format!("{} < {}", quoted(time), literal(range.1, kind)));
            let bounds: Vec<String> = from.into_iter().chain(until).collect();
            if bounds.is_empty() {
                "true".to_owned()
            } else {
                bounds.join(" AND ")
            }
        };
        let conditions: Vec<String> = ranges.iter().map(one).collect();
        let condition = conditions.join(" OR ");
        let computing = || self.reading().computing(name.shown(), ranges.to_vec());
        let delete = format!("DELETE FROM {} WHERE {condition}", shown(&stored));
        self.write(computing(), &delete, name).await?;
        let columns = table.shown_columns();
        let columns = columns.schema.fields().iter();
        let columns: Vec<String> = columns.map(|field| quoted(field.name())).collect();
        let columns = columns.join(", ");
        let sql = format!(
            "INSERT INTO {} ({columns}) SELECT {columns} FROM {}",
            shown(&stored),
            shown(name)
        );
        self.write(computing(), &sql, name).await
    }

    async fn write(
        &self,
        reading: ReadContext,
        sql: &str,
        name: &define::TableName,
    ) -> Result<(), Error> {
        let bounds = Bounds::of(self.options());
        let statement = statement::parse(sql, bounds, &Params::new())?;
        let running = self.start(&name.database, sql);
        running.begin().await?;
        let place = NameScope {
            database: name.database.clone(),
            schema: name.schema.clone(),
        };
        let writing = self.writing(reading, place, running, None);
        match statement {
            Statement::Insert(insert) => Box::pin(write::insert(writing, *insert)).await.map(drop),
            Statement::Delete(delete) => Box::pin(write::delete(writing, *delete)).await.map(drop),
            _ => Err(Error::internal("a refresh deletes and inserts")),
        }
    }
}

/// The buckets of a window that have to be computed.
fn to_compute(
    reading: &ReadContext,
    aggregate: &Aggregate,
    known: &[Invalidation],
    window: Window,
    newest: Option<i64>,
) -> Result<Vec<(i64, i64)>, Error> {
    let snapshot = &reading.snapshot;
    let chain = Chain::of(snapshot, aggregate)?;
    let buckets = chain.own();
    let (from, until) = buckets.within(
        window.from.unwrap_or(i64::MIN),
        window.until.unwrap_or(i64::MAX),
    );
    // Behind the newest row there is nothing to store, and the next row comes there.
    let end = newest.map_or(i64::MIN, |newest| buckets.end(newest));
    let mut ranges = invalid_of(
        &chain,
        snapshot,
        known,
        reading.shared.engine.wall_ns(),
        end,
    );
    if window.is_forced {
        ranges.push((i64::MIN, end));
    }
    let clipped = ranges
        .into_iter()
        .map(|(start, last)| (start.max(from), last.min(until)));
    Ok(merged(clipped.collect()))
}

fn kind_of(reading: &ReadContext, aggregate: &Aggregate) -> Result<TimeKind, Error> {
    let name = &aggregate.name;
    let table = reading
        .snapshot
        .table(&name.database, &name.schema, &aggregate.stored);
    Ok(table.ok_or_else(|| dropped(aggregate))?.time().1)
}

fn dropped(aggregate: &Aggregate) -> Error {
    Error::Engine(EngineError::TableDropped {
        table: aggregate.name.table.clone(),
    })
}

/// A time of an answer in nanoseconds.
fn time_of(array: &Arc<dyn Array>, kind: TimeKind) -> Option<i64> {
    if array.is_empty() || array.is_null(0) {
        return None;
    }
    match kind {
        TimeKind::TimestampTz | TimeKind::Timestamp => {
            let nanoseconds = arrow::datatypes::DataType::Timestamp(TimeUnit::Nanosecond, None);
            let cast = arrow::compute::cast(array, &nanoseconds).ok()?;
            Some(cast.as_primitive_opt::<TimestampNanosecondType>()?.value(0))
        }
        TimeKind::Date => {
            let days = array.as_primitive_opt::<Date32Type>()?.value(0);
            Some(i64::from(days).saturating_mul(DAY_NS))
        }
        TimeKind::Integer { unit_ns } => {
            let units = array.as_primitive_opt::<Int64Type>()?.value(0);
            Some(units.saturating_mul(unit_ns.max(1)))
        }
    }
}

/// A time as SQL writes it.
fn literal(time_ns: i64, kind: TimeKind) -> String {
    let instant = DateTime::from_timestamp_nanos(time_ns);
    match kind {
        TimeKind::TimestampTz => {
            let shown = instant.to_rfc3339_opts(SecondsFormat::Nanos, true);
            format!("TIMESTAMPTZ '{shown}'")
        }
        TimeKind::Timestamp => format!("TIMESTAMP '{}'", instant.format("%Y-%m-%d %H:%M:%S%.9f")),
        TimeKind::Date => format!("DATE '{}'", instant.format("%Y-%m-%d")),
        TimeKind::Integer { unit_ns } => time_ns.div_euclid(unit_ns.max(1)).to_string(),
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn shown(name: &define::TableName) -> String {
    let parts = [&name.database, &name.schema, &name.table];
    parts.map(|part| quoted(part)).join(".")
}

/// An error of the service, where the name stands in the statement.
fn placed(error: ServiceError, position: Option<Position>) -> Error {
    match error {
        ServiceError::Engine(error) => error.into(),
        ServiceError::Define { part, source } => match part {
            Part::Start | Part::Name | Part::Other => Error::of_name(source, position),
        },
        denied if denied.class() == Class::Forbidden => Error::Denied(Box::new(denied)),
        other => Error::internal(other.to_string()),
    }
}
