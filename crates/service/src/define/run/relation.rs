//! ALTER TABLE of a relation: it is put in its own place with what changes, with its rows, as one record.
//!
//! Does: look at foreign keys on both sides, hand indexes, sequences and foreign keys of others over, begin again where rows were
//! written meanwhile. Does not: change rows or keys (`model.rs` does), or evaluate SQL (the language does, and says what it has seen).

use std::sync::Arc;

use nilometer_engine::{
    AggregateSource, Beside, ConstraintKind, Declarations, Engine, Error as EngineError, Lsn,
    RelationId, RelationReader, RelationSchema, Snapshot, Swapped, Transaction, Value,
};

use super::model::Model;
use super::refuse_view;
use crate::define::change::name::TableName;
use crate::define::change::{NewCheck, SeenRows, TableChange};
use crate::define::error::Part;
use crate::define::indexes::{self, Owner};
use crate::define::sequences::{self, Numbered};
use crate::define::views::kept as aggregates;
use crate::define::{columns, lookup};
use crate::error::Error;
use crate::write::references::{self, ForeignKey};

/// How often it begins again where rows were written meanwhile.
const TRIES_MAX: usize = 10;

/// Carries a change of a relation out. Blocks for a sync of the log, and for as long as its rows take.
pub(super) fn alter_relation(
    engine: &Arc<Engine>,
    name: &TableName,
    reader: &RelationReader,
    mut change: TableChange,
    seen: Option<&SeenRows>,
) -> Result<(), Error> {
    if change == TableChange::Owner {
        return Ok(());
    }
    let id = reader.schema().id;
    let made = make_sequences(engine, name, &mut change)?;
    let mut tries = 0;
    let done = loop {
        tries += 1;
        let now = engine.snapshot();
        let found = lookup::find_relation(&now, &name.database, &name.schema, &name.table);
        let found = found.filter(|it| it.schema().id == id || seen.is_none());
        let done = match found {
            Some(reader) => once(engine, name, &reader, &change, seen),
            None => Err(changed(name)),
        };
        match done {
            Err(Error::Engine(EngineError::RelationChanged { .. }))
                if seen.is_none() && tries < TRIES_MAX => {}
            done => break done,
        }
    };
    if done.is_err() {
        columns::forget_sequences(engine, name, &made)?;
    }
    let gone = done?;
    Ok(columns::forget_sequences(engine, name, &gone)?)
}

/// Makes the sequences of identities and the like that columns get. Returns their names.
fn make_sequences(
    engine: &Arc<Engine>,
    name: &TableName,
    change: &mut TableChange,
) -> Result<Vec<String>, Error> {
    let mut made = Vec::new();
    match change {
        TableChange::Several(changes) => {
            for change in changes {
                made.extend(make_sequences(engine, name, change)?);
            }
        }
        TableChange::Add { column, values, .. } => {
            let Some(default) = &mut column.declared.default else {
                return Ok(made);
            };
            // The rows that are there have the first numbers already.
            let after = i64::try_from(values.len()).unwrap_or(i64::MAX);
            number(
                engine,
                name,
                (&column.name, None),
                (default, after),
                &mut made,
            )?;
        }
        TableChange::Default {
            column,
            to: Some(default),
            sequence,
        } => {
            number(
                engine,
                name,
                (column, sequence.as_deref()),
                (default, 0),
                &mut made,
            )?;
        }
        _ => {}
    }
    Ok(made)
}

/// Makes the sequence that a default asks for, so many numbers behind its first, or finds the one that it names.
fn number(
    engine: &Arc<Engine>,
    name: &TableName,
    column: (&str, Option<&str>),
    (default, after): (&mut String, i64),
    made: &mut Vec<String>,
) -> Result<(), Error> {
    let Some(mut numbered) = Numbered::of(default) else {
        return Ok(());
    };
    let within = (name.database.as_str(), name.schema.as_str());
    if numbered.sequence.is_empty() {
        let first = numbered.start.saturating_add(after);
        numbered.sequence = sequences::make(engine, name, column, first)?;
        made.push(numbered.sequence.clone());
        *default = numbered.text();
    } else if !columns::is_sequence(&engine.snapshot(), within, &numbered.sequence) {
        return Err(sequences::unknown(&numbered.sequence).about(Part::Other));
    }
    Ok(())
}

fn changed(name: &TableName) -> Error {
    Error::Engine(EngineError::RelationChanged {
        relation: name.table.clone(),
    })
}

/// What an ALTER TABLE comes to, beside the relation itself.
struct Plan {
    /// As it will be, without its rows.
    swapped: Swapped,
    /// Where each of its columns was before; `None` = it is new.
    origin: Vec<Option<usize>>,
    /// Other relations whose foreign keys follow it, or go with what they point to.
    others: Vec<(RelationId, Declarations)>,
}

/// Returns the sequences of columns that are gone.
fn once(
    engine: &Arc<Engine>,
    name: &TableName,
    reader: &RelationReader,
    change: &TableChange,
    seen: Option<&SeenRows>,
) -> Result<Vec<String>, Error> {
    let snapshot = engine.snapshot();
    let known = reader.schema();
    let within = (name.database.as_str(), name.schema.as_str());
    let plan = planned(&snapshot, name, known, change)?;
    let swapped = &plan.swapped.schema;
    if swapped.name != name.table {
        refuse_view(&snapshot, name, &swapped.name)?;
    }
    let reads = |it: &AggregateSource| *it == AggregateSource::Relation(known.id);
    aggregates::refuse_in_use(&snapshot, name, reads)?;
    let locking = engine.begin()?;
    let held = looked_up(engine, &locking, name, (known, &plan.swapped), change)?;
    let mut lsn = held;
    if let Some(seen) = seen {
        lsn = Some(lsn.map_or(seen.lsn, |lsn| lsn.min(seen.lsn)));
    }
    let make = |now: &Arc<RelationSchema>, rows: &[Arc<[Value]>]| {
        let overtaken = || EngineError::RelationChanged {
            relation: name.table.clone(),
        };
        if now.id != known.id || seen.is_some_and(|seen| !same_rows(&seen.rows, rows)) {
            return Err(overtaken());
        }
        let mut model = Model::of(now, rows);
        let made = model.apply(change).map(|()| model.finished());
        made.map_err(|error| match error {
            Error::Engine(error) => error,
            // It was fine a moment ago.
            _ => overtaken(),
        })
    };
    let columns = renamed_columns(known, &plan);
    let beside = |from: RelationId, to: RelationId| {
        let (from, to) = (Owner::Relation(from), Owner::Relation(to));
        let now = engine.snapshot();
        let mut rows = indexes::handed_over(&now, within, from, to, &columns);
        let renamed = (name.table.as_str(), swapped.name.as_str());
        rows.extend(sequences::follow(&now, within, renamed, &columns));
        Beside {
            rows,
            declared: plan.others.clone(),
        }
    };
    let path = (within.0, within.1, name.table.as_str());
    engine.swap_relation(path, lsn, make, beside)?;
    drop(locking);
    Ok(gone_sequences(engine, within, known, &plan))
}

fn same_rows(seen: &[Arc<[Value]>], now: &[Arc<[Value]>]) -> bool {
    let mut pairs = seen.iter().zip(now);
    seen.len() == now.len() && pairs.all(|(one, other)| Arc::ptr_eq(one, other) || one == other)
}

/// What becomes of the relation, and of the foreign keys of others.
fn planned(
    snapshot: &Snapshot,
    name: &TableName,
    known: &Arc<RelationSchema>,
    change: &TableChange,
) -> Result<Plan, Error> {
    let mut model = Model::of(known, &[]);
    model.apply(change)?;
    let origin = model.origin.clone();
    let swapped = model.finished();
    let mut plan = Plan {
        swapped,
        origin,
        others: Vec::new(),
    };
    let mut said = Vec::new();
    new_values(change, &mut said);
    references::refuse_new_values(snapshot, name, known, &said)?;
    references::check_altered(snapshot, name, known, &plan.swapped)?;
    plan.others = references::followed(
        snapshot,
        name,
        known,
        (&plan.swapped, &plan.origin),
        cascades(change),
    )?;
    Ok(plan)
}

/// Columns of which a statement says what their values become.
fn new_values<'a>(change: &'a TableChange, columns: &mut Vec<&'a str>) {
    match change {
        TableChange::Several(changes) => changes.iter().for_each(|it| new_values(it, columns)),
        TableChange::Type {
            column,
            is_said: true,
            ..
        } => columns.push(column),
        _ => {}
    }
}

fn cascades(change: &TableChange) -> bool {
    match change {
        TableChange::Several(changes) => changes.iter().any(cascades),
        TableChange::DropConstraint { cascades, .. } => *cascades,
        _ => false,
    }
}

/// Looks the rows up that new foreign keys of rows that are there point to. They stay locked until the transaction ends. Returns when
/// the rows were looked at.
fn looked_up(
    engine: &Arc<Engine>,
    locking: &Arc<Transaction>,
    name: &TableName,
    (known, swapped): (&Arc<RelationSchema>, &Swapped),
    change: &TableChange,
) -> Result<Option<Lsn>, Error> {
    let mut wanted = Vec::new();
    to_look_at(change, &mut wanted);
    let had = references::foreign_keys(known);
    let checks = swapped.declared.table.checks.iter();
    let checks = checks.filter(|check| {
        let Some(key) = ForeignKey::of(check) else {
            return false;
        };
        let is_new = had.iter().all(|(name, _)| *name != check.name);
        wanted.iter().any(|it| match it {
            Wanted::New(expression) => is_new && key.expression() == *expression,
            Wanted::Named(name) => check.name == *name,
        })
    });
    let mut looked = swapped.declared.clone();
    looked.table.checks = checks.cloned().collect();
    if looked.table.checks.is_empty() {
        return Ok(None);
    }
    let now = engine.snapshot();
    let reader = lookup::find_relation(&now, &name.database, &name.schema, &name.table);
    let rows = reader.map_or_else(Vec::new, |reader| reader.rows());
    let mut model = Model::of(known, &rows);
    model.apply(change)?;
    let Swapped { schema, rows, .. } = model.finished();
    let schema = RelationSchema {
        declared: Some(Arc::new(looked)),
        ..schema
    };
    let within = (name.database.as_str(), name.schema.as_str());
    references::look_up(locking, within, &schema, rows).map_err(|error| match error {
        EngineError::Constraint {
            kind: ConstraintKind::ForeignKey,
            constraint,
            row,
            reason,
            ..
        } => EngineError::Constraint {
            kind: ConstraintKind::ForeignKey,
            table: name.table.clone(),
            column: None,
            constraint,
            row,
            reason,
        },
        other => other,
    })?;
    Ok(Some(now.lsn()))
}

/// Foreign keys whose rows are looked at.
enum Wanted<'a> {
    New(&'a str),
    Named(&'a str),
}

fn to_look_at<'a>(change: &'a TableChange, wanted: &mut Vec<Wanted<'a>>) {
    match change {
        TableChange::Several(changes) => changes.iter().for_each(|it| to_look_at(it, wanted)),
        TableChange::Add { with, .. } => with.iter().for_each(|it| to_look_at(it, wanted)),
        TableChange::AddCheck(NewCheck {
            expression,
            is_valid: true,
            ..
        }) => wanted.push(Wanted::New(expression)),
        TableChange::Validate { name } => wanted.push(Wanted::Named(name)),
        _ => {}
    }
}

/// What each column that was there is called now; `None` = it is gone.
fn renamed_columns(known: &RelationSchema, plan: &Plan) -> Vec<(String, Option<String>)> {
    let columns = known.named_columns().iter().enumerate();
    let named = columns.map(|(at, column)| {
        let place = plan.origin.iter().position(|from| *from == Some(at));
        let now = place.and_then(|place| plan.swapped.schema.columns.get(place));
        (column.name.clone(), now.map(|column| column.name.clone()))
    });
    named.collect()
}

/// The sequences that are gone with a column, or with the identity of one. What SET DEFAULT and DROP DEFAULT leave without a column
/// stays, as in PostgreSQL.
fn gone_sequences(
    engine: &Arc<Engine>,
    within: (&str, &str),
    known: &RelationSchema,
    plan: &Plan,
) -> Vec<String> {
    let said = plan.swapped.declared.columns.iter();
    let used = said.filter_map(|it| Numbered::of(it.default.as_deref()?));
    let used: Vec<String> = used.map(|it| it.sequence).collect();
    let identities = (0..known.named_columns().len()).filter_map(|at| {
        let default = known.declared_column(at)?.default.as_deref()?;
        let numbered = Numbered::of(default)?;
        (numbered.how != sequences::NumberedBy::Default).then_some(numbered.sequence)
    });
    let identities: Vec<String> = identities.collect();
    let columns = known.named_columns().iter().enumerate();
    let gone = columns.filter(|(at, _)| !plan.origin.contains(&Some(*at)));
    let gone: Vec<&str> = gone.map(|(_, column)| column.name.as_str()).collect();
    let mut own = sequences::sequences(&engine.snapshot(), within.0, within.1);
    own.retain(|it| {
        let is_gone = gone.contains(&it.of.1.as_str()) || identities.contains(&it.name);
        it.of.0 == plan.swapped.schema.name && is_gone && !used.contains(&it.name)
    });
    own.into_iter().map(|it| it.name).collect()
}
