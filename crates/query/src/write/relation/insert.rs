//! INSERT into relations, with what becomes of rows whose keys are there.
//!
//! Does: tell new rows from those in the way, and evaluate what DO UPDATE sets. Does not: find out whether somebody else
//! was faster (the engine does; then it starts again).

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::sql::sqlparser::ast::{
    self, ConflictTarget, DoUpdate, Expr, Ident, Insert, OnConflictAction, OnInsert,
};
use nilometer_engine::{
    Error as EngineError, RelationChange, RelationReader, RelationSchema, Value,
};

use super::super::declared::Rules;
use super::super::insert::{named_columns, rows, source_of, unsupported, write_out_defaults};
use super::super::rows::{execution, named_as};
use super::super::source::select;
use super::super::update::assigned;
use super::super::writing::{Kept, TRIES_MAX, Writing, is_overtaken};
use super::{RelationRows, Tried, changed, changed_columns, moves, reader_of, shall_be, write};
use crate::error::{Error, Position};
use crate::statement::name::{Name, TableName, quoted};
use crate::statement::rewrite::overriding;
use crate::tables::catalogue::EXCLUDED;
use crate::walk;

/// What becomes of rows that are there.
enum OnConflict {
    Error,
    /// They stay; the keys that count are numbered, the primary key first.
    Skip(Vec<usize>),
    Update(Box<Set>),
}

/// What DO UPDATE says.
struct Set {
    /// The number of the key that rows are found by.
    key: usize,
    /// What the relation is called in it.
    alias: Ident,
    values: Vec<Option<Expr>>,
    condition: Option<Expr>,
    position: Option<Position>,
}

/// Carries out an INSERT. Returns how many rows are new or changed.
pub(crate) async fn insert<'a>(
    mut writing: Writing<'a>,
    mut insert: Insert,
    (name, called): (&TableName, &Ident),
    schema: Arc<RelationSchema>,
) -> Result<(u64, Writing<'a>), Error> {
    let shown = schema.shown_columns().schema;
    write_out_defaults(&mut insert, &shown)?;
    let columns = named_columns(&insert, &shown)?;
    let whose = overriding::of(&mut insert);
    let rules = Rules::of_relation(&schema).at(name).overriding(whose);
    writing.reading.asks_names |= rules.asks_names();
    if let Some(OnInsert::OnConflict(on)) = &mut insert.on
        && let OnConflictAction::DoUpdate(update) = &mut on.action
    {
        rules.assign(&mut update.assignments, &mut writing)?;
    }
    let on_conflict = on_conflict(&mut insert, &schema, (name, called))?;
    let mut source = source_of(&mut insert)?;
    rules.defaults(&mut source, &columns, &writing).await?;
    let (batch, memory, writing) = rows(writing, source, columns, name.position).await?;
    let batch = rules.own_numbers(batch)?;
    let (batch, mut writing) = rules.inserted(writing, batch).await?;
    let rows = schema.rows_of(&batch)?;
    memory.try_grow(rows.len() * schema.columns.len() * size_of::<Value>())?;
    if rows.is_empty() {
        let shown = schema.shown_columns().schema;
        let writing = writing.returned_nothing(called, &shown).await?;
        return Ok((0, writing));
    }
    if matches!(on_conflict, OnConflict::Error) {
        if writing.returns() {
            writing = writing.returned(called, rules.shown(&batch)?).await?;
        }
        writing.release();
        let stored = RelationRows {
            writer: writing.writer(),
            name: name.clone(),
            snapshot: None,
            rows: rows.len(),
            changes: vec![RelationChange::Insert(schema, rows)],
            _memory: memory,
        };
        return Ok((writing.store(stored).await?, writing));
    }
    // A row that is in the way of another is none that may be wrong.
    let engine = writing.writer().engine;
    engine.check_relation_rows(&schema, &rows)?;
    let mut tries = 0;
    loop {
        tries += 1;
        let reader = reader_of(&writing, name)?;
        let sorted = Sorted::new(&reader, &rows, &on_conflict)?;
        let (done, back) = once(writing, (name, called), &schema, sorted, &on_conflict).await?;
        match done {
            Err(error) if may_be_tried_again(&error) && tries < TRIES_MAX => {
                writing = back.again();
            }
            done => return Ok((done?, back)),
        }
    }
}

/// A key that was free may have been taken by somebody else meanwhile.
fn may_be_tried_again(error: &Error) -> bool {
    is_overtaken(error) || matches!(error, Error::Engine(EngineError::RelationKey { .. }))
}

fn on_conflict(
    insert: &mut Insert,
    schema: &RelationSchema,
    (name, called): (&TableName, &Ident),
) -> Result<OnConflict, Error> {
    let Some(on) = insert.on.take() else {
        return Ok(OnConflict::Error);
    };
    let OnInsert::OnConflict(on) = on else {
        return Err(unsupported(
            "ON DUPLICATE KEY",
            "write ON CONFLICT (key) DO UPDATE",
        ));
    };
    let key = match &on.conflict_target {
        Some(ConflictTarget::Columns(columns)) => Some(key_of(columns, schema)?),
        Some(ConflictTarget::OnConstraint(_)) => {
            return Err(unsupported(
                "ON CONFLICT ON CONSTRAINT",
                "name the columns of the key: ON CONFLICT (a, b)",
            ));
        }
        None => None,
    };
    match on.action {
        OnConflictAction::DoNothing => Ok(OnConflict::Skip(match key {
            Some(key) => vec![key],
            None => schema.keys().map(|(number, _)| number).collect(),
        })),
        OnConflictAction::DoUpdate(update) => {
            if key.is_none() && schema.keys().count() != 1 {
                let message = match schema.keys().count() {
                    0 => {
                        "the relation has no key that rows could be in the way of; make one: CREATE UNIQUE INDEX, and name it: ON CONFLICT (a, b) DO UPDATE"
                    }
                    _ => {
                        "the relation has more than one key; name the one that is meant: ON CONFLICT (a, b) DO UPDATE"
                    }
                };
                return Err(Error::Plan {
                    message: message.to_owned(),
                    position: name.position,
                });
            }
            let alias = Ident::with_quote('"', Name::from(called).text);
            let only = schema.keys().map(|(number, _)| number).next();
            let key = key.or(only).unwrap_or(0);
            set(update, schema, alias, key).map(OnConflict::Update)
        }
    }
}

fn set(
    update: DoUpdate,
    schema: &RelationSchema,
    alias: Ident,
    key: usize,
) -> Result<Box<Set>, Error> {
    if Name::from(&alias).text == EXCLUDED {
        return Err(unsupported(
            "ON CONFLICT DO UPDATE of a table called excluded",
            "write DO NOTHING and then UPDATE; excluded is what the new rows are called here",
        ));
    }
    let (mut values, position) = assigned(&schema.shown_columns().schema, &update.assignments)?;
    let mut condition = update.selection;
    for expr in values.iter_mut().flatten().chain(&mut condition) {
        of_relation(expr, &alias)?;
    }
    Ok(Box::new(Set {
        key,
        alias,
        values,
        condition,
        position,
    }))
}

/// Says of each column without a table that it is the relation's: beside it there are those of `excluded`.
fn of_relation(expr: &mut Expr, alias: &Ident) -> Result<(), Error> {
    let found = walk::expressions_mut(expr, &mut |expr| {
        match expr {
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => {
                return ControlFlow::Break(());
            }
            Expr::Identifier(column) => {
                *expr = Expr::CompoundIdentifier(vec![alias.clone(), column.clone()]);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    });
    if found.is_break() {
        return Err(unsupported(
            "a sub-select in ON CONFLICT DO UPDATE",
            "use columns of the row that is there, and of the new one as excluded.column",
        ));
    }
    Ok(())
}

/// The number of the key that has these columns.
fn key_of(columns: &[Ident], schema: &RelationSchema) -> Result<usize, Error> {
    let mut given: Vec<String> = columns.iter().map(|name| Name::from(name).text).collect();
    given.sort();
    let names = |key: &Vec<u32>| {
        let mut names: Vec<String> = key
            .iter()
            .filter_map(|&at| Some(schema.columns.get(at as usize)?.name.clone()))
            .collect();
        names.sort();
        names
    };
    let keys: Vec<(usize, Vec<String>)> = schema
        .keys()
        .map(|(number, key)| (number, names(key)))
        .collect();
    if let Some((found, _)) = keys.iter().find(|(_, key)| *key == given) {
        return Ok(*found);
    }
    let mut known: Vec<String> = keys
        .iter()
        .map(|(_, key)| format!("({})", key.join(", ")))
        .collect();
    if known.is_empty() {
        known.push("none; leave ON CONFLICT out, or make a UNIQUE INDEX".to_owned());
    }
    Err(Error::Plan {
        message: format!(
            "({}) is no key of the relation; it has {}",
            given.join(", "),
            known.join(" and ")
        ),
        position: columns.first().and_then(|name| Name::from(name).position),
    })
}

/// The primary key, then the others.
fn keys_of(schema: &RelationSchema) -> impl Iterator<Item = &Vec<u32>> {
    std::iter::once(&schema.primary_key).chain(&schema.unique)
}

/// Rows by whether their keys are there.
struct Sorted {
    new: Vec<Vec<Value>>,
    in_the_way: Vec<Vec<Value>>,
}

impl Sorted {
    fn new(
        reader: &RelationReader,
        rows: &[Vec<Value>],
        on_conflict: &OnConflict,
    ) -> Result<Self, Error> {
        let schema = reader.schema();
        let wanted: Vec<usize> = match on_conflict {
            OnConflict::Error => Vec::new(),
            OnConflict::Skip(keys) => keys.clone(),
            OnConflict::Update(set) => vec![set.key],
        };
        let keys: Vec<(usize, &Vec<u32>)> = keys_of(schema)
            .enumerate()
            .filter(|(at, _)| wanted.contains(at))
            .collect();
        let mut sorted = Self {
            new: Vec::new(),
            in_the_way: Vec::new(),
        };
        let updates = matches!(on_conflict, OnConflict::Update(_));
        let mut seen: HashSet<(usize, String)> = HashSet::new();
        for (nth, row) in rows.iter().enumerate() {
            let mut is_there = false;
            let mut is_second = false;
            let mut texts = Vec::new();
            for (at, positions) in &keys {
                let values: Vec<Value> = positions
                    .iter()
                    .filter_map(|&position| row.get(position as usize).cloned())
                    .collect();
                if values.contains(&Value::Null) {
                    continue;
                }
                let text = (*at, key_text(&values));
                is_second |= seen.contains(&text);
                texts.push(text);
                is_there |= match at.checked_sub(1) {
                    None => reader.get(&values),
                    Some(unique) => reader.get_unique(unique, &values),
                }
                .is_some();
            }
            if is_second && updates {
                return Err(Error::Execution {
                    message: format!(
                        "row {} has the key of an earlier row of the same INSERT, and DO UPDATE changes each row once; leave one of them out",
                        nth + 1
                    ),
                });
            }
            if is_there {
                sorted.in_the_way.push(row.clone());
            } else if !is_second {
                sorted.new.push(row.clone());
            }
            // A row that is left out takes no key.
            if !is_second && (updates || !is_there) {
                seen.extend(texts);
            }
        }
        Ok(sorted)
    }
}

/// Equal for keys that are equal: floats as numbers, every NaN as one.
pub(super) fn key_text(values: &[Value]) -> String {
    let texts = values.iter().map(|value| match value {
        // Turns -0.0 into 0.0.
        Value::F64(value) => (value + 0.0).to_string(),
        other => other.to_string(),
    });
    texts.collect::<Vec<_>>().join(",")
}

/// Rows of values as they are shown.
fn shown_rows(schema: &RelationSchema, rows: Vec<Vec<Value>>) -> Result<RecordBatch, Error> {
    let shown = schema.shown_columns();
    let all: Vec<usize> = (0..shown.len()).collect();
    let show = |batch: RecordBatch| {
        let arrays = batch.columns().iter().enumerate();
        let arrays = arrays.map(|(at, array)| shown.show(at, array)).collect();
        RecordBatch::try_new(Arc::clone(&shown.schema), arrays)
    };
    let rows = rows.into_iter().map(Into::into).collect();
    let batches: Result<Vec<RecordBatch>, _> = schema.batches(rows, &all).map(show).collect();
    let batches = batches.map_err(|error| Error::internal(error.to_string()))?;
    arrow::compute::concat_batches(&shown.schema, &batches).map_err(execution)
}

/// Adds what is new and changes what is in the way.
async fn once<'a>(
    mut writing: Writing<'a>,
    (name, called): (&TableName, &Ident),
    schema: &Arc<RelationSchema>,
    sorted: Sorted,
    on_conflict: &OnConflict,
) -> Result<Tried<'a>, Error> {
    let Sorted { new, in_the_way } = sorted;
    let snapshot = Arc::clone(&writing.reading.snapshot);
    let mut memory = writing.reserve();
    let mut changes = Vec::new();
    let mut count = new.len();
    let mut written: Vec<RecordBatch> = Vec::new();
    if writing.returns() {
        let rows = shown_rows(schema, new.clone())?;
        written.push(named_as(&rows, &schema.shown_columns().schema)?);
    }
    if let OnConflict::Update(set) = on_conflict
        && !in_the_way.is_empty()
    {
        let shown = schema.shown_columns().schema;
        let excluded = vec![shown_rows(schema, in_the_way)?];
        let excluded = MemTable::try_new(shown, vec![excluded])?;
        let reading = writing.reading.excluding(Arc::new(excluded));
        let reading = reading.changing(name.clone());
        let query = joined(set, schema, name)?;
        let (session, plan) = writing.plan(&reading, query).await?;
        let arrow = Arc::clone(plan.schema().inner());
        let mut kept = Kept::new(writing.reserve());
        writing = writing
            .run(&session, &plan, |batch| kept.add(&batch))
            .await?;
        let (batch, held) = kept.together(&arrow)?;
        memory = held;
        count += batch.num_rows();
        if batch.num_rows() > 0 {
            let new = shall_be(schema, &batch, set.position, &writing.reading.zone)?;
            let rules = Rules::of_relation(schema);
            writing = rules.checked(writing, &new).await?;
            if writing.returns() {
                written.push(rules.shown(&new)?);
            }
            changes = changed(
                schema,
                &batch,
                set.position,
                moves(schema, &set.values),
                &writing.reading.zone,
            )?;
        }
    }
    if let Some(first) = written.first() {
        let all = arrow::compute::concat_batches(&first.schema(), &written).map_err(execution)?;
        writing = writing.returned(called, all).await?;
    }
    if !new.is_empty() {
        changes.push(RelationChange::Insert(Arc::clone(schema), new));
    }
    Ok(write(writing, name, &snapshot, changes, count, memory).await)
}

/// The query for the rows that are there, as they shall be.
fn joined(set: &Set, schema: &RelationSchema, name: &TableName) -> Result<ast::Query, Error> {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;
    let alias = quoted(&Name::from(&set.alias).text);
    let key = keys_of(schema).nth(set.key).into_iter().flatten();
    let equal: Vec<String> = key
        .filter_map(|&at| schema.columns.get(at as usize))
        .map(|column| {
            let column = quoted(&column.name);
            format!("{alias}.{column} = {EXCLUDED}.{column}")
        })
        .collect();
    let path = [&name.database, &name.schema, &name.table].map(|part| quoted(part));
    let text = format!(
        "SELECT 1 FROM {} AS {alias} JOIN {EXCLUDED} ON {}",
        path.join("."),
        equal.join(" AND ")
    );
    let internal = || Error::internal("a join that is none");
    let parsed = Parser::parse_sql(&GenericDialect {}, &text).map_err(|_| internal())?;
    let from = match parsed.into_iter().next() {
        Some(ast::Statement::Query(query)) => match *query.body {
            ast::SetExpr::Select(select) => select.from.into_iter().next(),
            _ => None,
        },
        _ => None,
    };
    let of = |column: &str| {
        let column = Ident::with_quote('"', column);
        Expr::CompoundIdentifier(vec![set.alias.clone(), column])
    };
    let columns = changed_columns(schema, &set.values, of);
    select(
        columns,
        vec![from.ok_or_else(internal)?],
        set.condition.clone(),
    )
}
