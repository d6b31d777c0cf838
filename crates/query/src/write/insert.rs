//! INSERT: rows from VALUES or a query.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Field, Schema};
use datafusion::sql::sqlparser::ast::{
    self, Assignment, AssignmentTarget, ConflictTarget, Expr, Insert, OnConflictAction, OnInsert,
    SetExpr, TableObject,
};
use nilometer_engine::ingest::Target;
use nilometer_engine::{Duplicates, Sequenced, TableSchema};

use super::declared::Rules;
use super::rows::{batch_of, fitted};
use super::source::{row_of_defaults, table_of_insert};
use super::stored::Stored;
use super::values;
use super::writer::Writer;
use super::writing::{Kept, Writing};
use crate::error::{Error, Position};
use crate::statement::name::{Name, Path, TableName};
use crate::statement::rewrite::overriding;
use crate::tables::names;
use crate::tables::relation;
use nilometer_engine::ingest::OnConflict;

/// Carries out an INSERT. Returns how many rows are there now because of it.
pub(crate) async fn insert(
    mut writing: Writing<'_>,
    mut insert: Insert,
) -> Result<(u64, Writing<'_>), Error> {
    refuse_extras(&insert)?;
    let Some((_, alias)) = table_of_insert(&insert) else {
        return Err(unsupported("INSERT INTO a function", "name a table"));
    };
    let TableObject::TableName(name) = &insert.table else {
        return Err(unsupported("INSERT INTO a function", "name a table"));
    };
    let name = Path::of(name)?.table(&writing.place)?;
    writing.allow(&name)?;
    let found = relation::find(&writing.reading.snapshot, &name);
    if let Some(schema) = found.map(|reader| Arc::clone(reader.schema())) {
        let names = (&name, &alias);
        return Box::pin(super::relation::insert(writing, insert, names, schema)).await;
    }
    let table = writing.table(&name)?;
    write_out_defaults(&mut insert, &table.shown_columns().schema)?;
    let whose = overriding::of(&mut insert);
    let rules = Rules::of_table(&table).at(&name).overriding(whose);
    writing.reading.asks_names |= rules.asks_names();
    let columns = columns(&insert, &table, &rules, name.position)?;
    let on_conflict = on_conflict(insert.on.take(), &table, &columns)?;
    let mut source = source_of(&mut insert)?;
    rules.defaults(&mut source, &columns, &writing).await?;
    let (batch, memory, writing) = rows(writing, source, columns, name.position).await?;
    let batch = rules.own_numbers(batch)?;
    let (batch, mut writing) = rules.inserted(writing, batch).await?;
    if writing.returns() {
        if on_conflict == OnConflict::Skip {
            return Err(unsupported(
                "RETURNING with ON CONFLICT DO NOTHING on a table with a time",
                "leave one of them out",
            ));
        }
        writing = writing.returned(&alias, rules.shown(&batch)?).await?;
    }
    writing.release();
    let rows = TableRows {
        writer: writing.writer(),
        name,
        batch,
        on_conflict,
        _memory: memory,
    };
    let written = writing.store(rows).await?;
    Ok((written, writing))
}

/// Writes out `DEFAULT VALUES` of a table with these columns: DEFAULT for each of them.
pub(super) fn write_out_defaults(insert: &mut Insert, columns: &Schema) -> Result<(), Error> {
    if insert.source.is_none() && !columns.fields().is_empty() {
        insert.source = Some(Box::new(row_of_defaults(columns.fields().len())?));
    }
    Ok(())
}

/// What is to be inserted.
pub(super) fn source_of(insert: &mut Insert) -> Result<ast::Query, Error> {
    let source = insert.source.take();
    let source = source
        .ok_or_else(|| unsupported("INSERT without rows", "write VALUES (...) or a SELECT"))?;
    Ok(*source)
}

/// Rows for these columns: literals as they stand, anything else by the planner.
pub(super) async fn rows(
    writing: Writing<'_>,
    mut source: ast::Query,
    columns: Vec<Field>,
    position: Option<Position>,
) -> Result<Selected<'_>, Error> {
    let is_bare = source.order_by.is_none() && source.limit_clause.is_none();
    let literal = match source.body.as_mut() {
        SetExpr::Values(rows) if is_bare => {
            values::put_now(&mut rows.rows, &columns);
            let literal = values::read(rows, &columns, &writing.reading.zone)?;
            if literal.is_none() {
                values::typed(rows, &columns);
            }
            literal
        }
        _ => None,
    };
    let Some(arrays) = literal else {
        return selected(writing, source, columns, position).await;
    };
    let rows = arrays.first().map_or(0, |array| array.len());
    let memory = writing.reserve();
    memory.try_grow(arrays.iter().map(|it| it.get_array_memory_size()).sum())?;
    let columns = columns.into_iter().zip(arrays).collect();
    Ok((batch_of(columns, rows)?, memory, writing))
}

pub(super) fn unsupported(statement: &str, instead: &'static str) -> Error {
    Error::Unsupported {
        statement: statement.to_owned(),
        instead,
    }
}

fn refuse_extras(insert: &Insert) -> Result<(), Error> {
    let is_other = insert.output.is_some()
        || insert.or.is_some()
        || insert.ignore
        || insert.overwrite
        || insert.replace_into
        || insert.partitioned.is_some()
        || !insert.assignments.is_empty()
        || !insert.after_columns.is_empty();
    if is_other {
        return Err(unsupported(
            "this form of INSERT",
            "write INSERT INTO t (columns) VALUES (...), with ON CONFLICT for rows that are there",
        ));
    }
    Ok(())
}

/// The columns that are written, as the table has them.
fn columns(
    insert: &Insert,
    table: &TableSchema,
    rules: &Rules,
    position: Option<Position>,
) -> Result<Vec<Field>, Error> {
    let fields = named_columns(insert, &table.shown_columns().schema)?;
    let time = table.time().0;
    if fields.iter().all(|field| field.name() != time) && !rules.has_default(time) {
        return Err(Error::Plan {
            message: format!(
                "a row needs its time: add {time} to the columns, with now() for this moment"
            ),
            position,
        });
    }
    Ok(fields)
}

/// The columns that an INSERT names, of these; if it names none the first ones, as many as it has values for.
pub(super) fn named_columns(insert: &Insert, arrow: &Schema) -> Result<Vec<Field>, Error> {
    if insert.columns.is_empty() {
        let body = insert.source.as_ref().map(|source| source.body.as_ref());
        let given = match body {
            Some(SetExpr::Values(values)) => values.rows.first().map(|row| row.content.len()),
            _ => None,
        };
        let fields = arrow.fields().iter().take(given.unwrap_or(usize::MAX));
        return Ok(fields.map(|field| field.as_ref().clone()).collect());
    }
    let mut fields: Vec<Field> = Vec::new();
    for path in &insert.columns {
        let name = Path::of(path)?.last;
        let Ok(field) = arrow.field_with_name(&name.text) else {
            return Err(names::unknown_column_of(arrow, &name));
        };
        if fields.iter().any(|known| known.name() == field.name()) {
            return Err(Error::Plan {
                message: format!("the column \"{}\" is named twice", name.text),
                position: name.position,
            });
        }
        fields.push(field.clone());
    }
    Ok(fields)
}

/// What becomes of rows that are there.
fn on_conflict(
    on: Option<OnInsert>,
    table: &TableSchema,
    columns: &[Field],
) -> Result<OnConflict, Error> {
    let Some(on) = on else {
        return Ok(match table.settings.duplicates {
            Duplicates::Unique => OnConflict::Error,
            Duplicates::Last | Duplicates::Keep => OnConflict::Replace,
        });
    };
    let OnInsert::OnConflict(on) = on else {
        return Err(unsupported(
            "ON DUPLICATE KEY",
            "write ON CONFLICT DO UPDATE",
        ));
    };
    match &on.conflict_target {
        Some(ConflictTarget::Columns(named)) => check_target(named, table)?,
        Some(ConflictTarget::OnConstraint(_)) => {
            return Err(unsupported(
                "ON CONFLICT ON CONSTRAINT",
                "write ON CONFLICT alone; what tells rows apart is the time and all tags",
            ));
        }
        None => {}
    }
    match on.action {
        OnConflictAction::DoNothing => Ok(OnConflict::Skip),
        OnConflictAction::DoUpdate(update) => {
            if update.selection.is_some() {
                return Err(unsupported(
                    "ON CONFLICT DO UPDATE ... WHERE",
                    "leave WHERE out; a row is replaced as a whole",
                ));
            }
            check_assignments(&update.assignments, table, columns)?;
            Ok(OnConflict::Replace)
        }
    }
}

fn check_target(target: &[ast::Ident], table: &TableSchema) -> Result<(), Error> {
    let columns: Vec<Name> = target.iter().map(Name::from).collect();
    let shown = table.shown_columns();
    let fields = shown.schema.fields().iter().enumerate();
    let is_key = |at: usize| {
        let position = shown.position(at);
        position.is_some_and(|position| position == 0 || table.is_tag(position))
    };
    let mut wanted: Vec<&str> = fields
        .filter(|(at, _)| is_key(*at))
        .map(|(_, field)| field.name().as_str())
        .collect();
    let mut given: Vec<&str> = columns.iter().map(|name| name.text.as_str()).collect();
    wanted.sort_unstable();
    given.sort_unstable();
    if wanted == given {
        return Ok(());
    }
    Err(Error::Plan {
        message: format!(
            "what tells rows of this table apart is ({}); name these or leave the list out",
            wanted.join(", ")
        ),
        position: columns.first().and_then(|name| name.position),
    })
}

/// DO UPDATE replaces a row by the one that came, so it must say that of every field.
fn check_assignments(
    assignments: &[Assignment],
    table: &TableSchema,
    columns: &[Field],
) -> Result<(), Error> {
    let mut set: Vec<String> = Vec::new();
    for assignment in assignments {
        let (AssignmentTarget::ColumnName(target), Expr::CompoundIdentifier(value)) =
            (&assignment.target, &assignment.value)
        else {
            return Err(not_whole(place_of(assignments)));
        };
        let target = Path::of(target)?.last;
        let value: Vec<Name> = value.iter().map(Name::from).collect();
        let is_excluded = matches!(
            value.as_slice(),
            [table, column] if table.text == "excluded" && column.text == target.text
        );
        if !is_excluded {
            return Err(not_whole(target.position));
        }
        set.push(target.text);
    }
    let shown = table.shown_columns();
    let fields = shown.schema.fields().iter().enumerate();
    let is_field = |at: usize| {
        let position = shown.position(at);
        position.is_some_and(|position| position > 0 && !table.is_tag(position))
    };
    let mut fields = fields
        .filter(|(at, _)| is_field(*at))
        .map(|(_, field)| field.name());
    let is_written = |name: &String| columns.iter().any(|column| column.name() == name);
    let merges = table.settings.duplicates == Duplicates::Last;
    // Where rows merge, what is not written stays as it is, and there is nothing to say about it.
    let left_out = fields.find(|name| {
        let needed = !merges || is_written(name);
        needed && !(set.contains(name) && is_written(name))
    });
    match left_out {
        None => Ok(()),
        Some(name) => Err(Error::Plan {
            message: format!(
                "a row is replaced as a whole, and \"{name}\" is left out: insert every field and write DO UPDATE SET \"{name}\" = excluded.\"{name}\" and so on, or UPDATE the row"
            ),
            position: place_of(assignments),
        }),
    }
}

fn place_of(assignments: &[Assignment]) -> Option<Position> {
    match &assignments.first()?.target {
        AssignmentTarget::ColumnName(target) => Path::of(target).ok()?.last.position,
        AssignmentTarget::Tuple(_) => None,
    }
}

fn not_whole(position: Option<Position>) -> Error {
    Error::Plan {
        message: "a row is replaced as a whole: write DO UPDATE SET a = excluded.a, b = excluded.b and so on for every field"
            .to_owned(),
        position,
    }
}

/// Rows, the memory that they are held in, and the statement that goes on.
pub(super) type Selected<'a> = (
    RecordBatch,
    datafusion::execution::memory_pool::MemoryReservation,
    Writing<'a>,
);

/// Rows that the planner makes.
async fn selected(
    writing: Writing<'_>,
    source: ast::Query,
    columns: Vec<Field>,
    position: Option<Position>,
) -> Result<Selected<'_>, Error> {
    let (session, plan) = writing.plan(&writing.reading, source).await?;
    let schema = Arc::clone(plan.schema().inner());
    if schema.fields().len() != columns.len() {
        return Err(Error::Plan {
            message: format!(
                "{} columns are to be written, and each row has {} values",
                columns.len(),
                schema.fields().len()
            ),
            position,
        });
    }
    let mut kept = Kept::new(writing.reserve());
    let zone = writing.reading.zone.clone();
    let writing = writing
        .run(&session, &plan, |batch| kept.add(&batch))
        .await?;
    let (batch, memory) = kept.together(&schema)?;
    let rows = batch.num_rows();
    let fitted: Result<Vec<(Field, ArrayRef)>, Error> = columns
        .into_iter()
        .zip(batch.columns())
        .map(|(field, array)| {
            let array = fitted(array, &field, position, &zone)?;
            Ok((field, array))
        })
        .collect();
    Ok((batch_of(fitted?, rows)?, memory, writing))
}

/// Rows of a table, and the memory that they are held in.
struct TableRows {
    writer: Writer,
    name: TableName,
    batch: RecordBatch,
    on_conflict: OnConflict,
    _memory: datafusion::execution::memory_pool::MemoryReservation,
}

impl TableRows {
    fn target(&self) -> Target<'_> {
        Target {
            schema: Some(&self.name.schema),
            table: &self.name.table,
        }
    }
}

impl Stored for TableRows {
    fn rows(&self) -> usize {
        self.batch.num_rows()
    }

    fn put(&self) -> Result<Option<Sequenced>, Error> {
        if self.on_conflict != OnConflict::Replace || self.batch.num_rows() == 0 {
            return Ok(None);
        }
        let mut session = self.writer.session(&self.name.database)?;
        session.have_checked(true);
        Ok(session.sequence_arrow(self.target(), &self.batch)?)
    }

    fn write(&self) -> Result<u64, Error> {
        if self.batch.num_rows() == 0 {
            return Ok(0);
        }
        let mut session = self.writer.session(&self.name.database)?;
        session.have_checked(true);
        let report = session.write_arrow(self.target(), &self.batch, self.on_conflict)?;
        Ok(report.written)
    }

    fn written(&self, put: Sequenced) -> u64 {
        put.rows
    }
}
