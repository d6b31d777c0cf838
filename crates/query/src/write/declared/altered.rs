//! ALTER TABLE where it concerns rows that are there: what a new column has, what a column becomes, and whether conditions hold.
//!
//! Does: evaluate defaults, USING and CHECKs over the rows of a relation as the statement changes them, and conditions over a table with
//! a time. Does not: change anything (`nilometer_service::define` does, if no row was written meanwhile).

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchOptions, new_null_array,
};
use arrow::datatypes::{Field, Schema};
use datafusion::datasource::MemTable;
use nilometer_engine::{
    Check, ColumnKind, ConstraintKind, Declarations, Declared, Error as EngineError, LogicalType,
    PhysicalType, RelationColumn, RelationId, RelationSchema, TableSchema, Value, enum_of_check,
};
use nilometer_service::ForeignKey;
use nilometer_service::define::{
    Change, DefineError, NewCheck, Numbered, Object, SeenRows, TableChange, missing_enumeration,
    names_column,
};

use super::casts::{self, Becomes};
use super::new::field;
use super::{Rules, checks_of, query_of};
use crate::error::Error;
use crate::statement::name::{TableName, always_quoted, quoted};
use crate::tables::catalogue::EXCLUDED;
use crate::tables::relation;
use crate::write::rows::{execution, fitted};
use crate::write::writing::Writing;

/// The rows of a relation on the way through an ALTER TABLE.
struct Rows {
    name: String,
    known: Arc<RelationSchema>,
    /// As they were: what USING is calculated of, whatever became of other columns in the same statement.
    before: RecordBatch,
    shown: RecordBatch,
    /// The conditions that there still are.
    checks: Vec<Check>,
    /// The defaults that there still are, by column.
    defaults: Vec<(String, String)>,
}

fn label_of(column: &str, expression: &str) -> Check {
    Check {
        name: format!("{column}_check"),
        expression: expression.to_owned(),
    }
}

/// Whether a condition makes a column one of an enumeration.
fn is_label(check: &Check, column: &str) -> bool {
    enum_of_check(check).is_some_and(|(_, of)| of == column)
}

/// Looks at the rows that an ALTER TABLE concerns, and writes into the change what it needs of them.
pub(crate) async fn look_at_rows<'a>(
    mut writing: Writing<'a>,
    name: &TableName,
    change: &mut Change,
) -> Result<Writing<'a>, Error> {
    let Change::AlterTable { change, seen, .. } = change else {
        return Ok(writing);
    };
    let snapshot = Arc::clone(&writing.reading.snapshot);
    writing.reading.asks_names = true;
    if let Some(reader) = relation::find(&snapshot, name) {
        if !concerns_rows(change) {
            return Ok(writing);
        }
        let known = Arc::clone(reader.schema());
        let lsn = snapshot.lsn();
        let stored = Arc::new(reader.rows());
        let all: Vec<usize> = (0..known.named_columns().len()).collect();
        let memory = writing.reserve();
        let mut batches = Vec::new();
        for batch in known.batches(stored.to_vec(), &all) {
            memory.try_grow(batch.get_array_memory_size() * 2)?;
            batches.push(batch);
        }
        let named = known.arrow_schema().project(&all).map_err(execution)?;
        let stored_batch = arrow::compute::concat_batches(&Arc::new(named), &batches);
        let shown = as_shown(&known, &stored_batch.map_err(execution)?)?;
        let mut rows = Rows {
            name: known.name.clone(),
            checks: checks_of(known.declared.as_ref().map(|it| &it.table)),
            defaults: defaults_of(&known),
            known,
            before: shown.clone(),
            shown,
        };
        writing = rows.follow(writing, change).await?;
        *seen = Some(SeenRows { lsn, rows: stored });
        return Ok(writing);
    }
    of_table(writing, name, change).await
}

/// Whether rows have to be looked at in the language.
fn concerns_rows(change: &TableChange) -> bool {
    match change {
        TableChange::Several(changes) => changes.iter().any(concerns_rows),
        TableChange::Add { column, with, .. } => {
            column.declared.default.is_some() || with.iter().any(concerns_rows)
        }
        TableChange::Type { .. } | TableChange::Validate { .. } => true,
        TableChange::AddCheck(check) => as_foreign_key(check).is_none(),
        _ => false,
    }
}

fn as_foreign_key(check: &NewCheck) -> Option<ForeignKey> {
    ForeignKey::of(&as_check(check))
}

fn as_check(check: &NewCheck) -> Check {
    let called = check.name.clone().unwrap_or_default();
    Check {
        name: called,
        expression: check.expression.clone(),
    }
}

impl Rows {
    /// Follows a change, step by step.
    #[expect(clippy::too_many_lines, reason = "a flat list of changes")]
    async fn follow<'a>(
        &mut self,
        mut writing: Writing<'a>,
        change: &mut TableChange,
    ) -> Result<Writing<'a>, Error> {
        match change {
            TableChange::Several(changes) => {
                for change in changes {
                    writing = Box::pin(self.follow(writing, change)).await?;
                }
            }
            TableChange::Add {
                column,
                with,
                values,
                ..
            } => {
                let ColumnKind::Field(kind) = column.kind else {
                    return Ok(writing);
                };
                if self.shown.schema().index_of(&column.name).is_ok() {
                    // The change says what becomes of that.
                    return Ok(writing);
                }
                let of = (column.name.as_str(), kind, column.declared.of);
                let default = column.declared.default.clone();
                let (given, back) = self.default(writing, of, default.as_deref()).await?;
                writing = back;
                let shown = self.put(of, given, None)?;
                *values = if default.is_some() { shown } else { Vec::new() };
                self.defaults
                    .extend(default.map(|to| (column.name.clone(), to)));
                for change in with {
                    writing = Box::pin(self.follow(writing, change)).await?;
                }
            }
            TableChange::Type {
                column,
                to,
                of,
                label,
                default,
                using,
                is_said,
                values,
            } => {
                let all = self.shown.schema();
                let Ok(at) = all.index_of(column) else {
                    return Ok(writing);
                };
                let label = label
                    .as_ref()
                    .map(|expression| label_of(column, expression));
                if let Some(label) = &label {
                    refuse_unknown_type(&writing, label)?;
                }
                let known = self.defaults.iter().find(|(of, _)| of == column);
                let becomes = Becomes::of((*to, *of), label.as_ref());
                let using_said = (!*is_said).then_some(using.as_str());
                let known = (all.field(at), known.map(|(_, default)| default.as_str()));
                *default = casts::assigned(&writing, known, &becomes, using_said).await?;
                let (given, back) = self.evaluated(writing, using, &self.before).await?;
                writing = back;
                *values = Some(self.put((column.as_str(), *to, *of), given, Some(at))?);
                self.checks.retain(|check| !is_label(check, column));
                self.checks.extend(label);
                for check in self.checks.clone() {
                    writing = self.check(writing, (check, true)).await?;
                }
            }
            TableChange::Drop { column, .. } => {
                if let Ok(at) = self.shown.schema().index_of(column) {
                    let kept: Vec<usize> = (0..self.shown.num_columns())
                        .filter(|it| *it != at)
                        .collect();
                    self.shown = self.shown.project(&kept).map_err(execution)?;
                }
                self.defaults.retain(|(of, _)| of != column);
                let conditions = std::mem::take(&mut self.checks);
                let kept = conditions
                    .into_iter()
                    .filter(|it| !names_column(&it.expression, column));
                self.checks = kept.collect();
            }
            TableChange::Default { column, to, .. } => {
                self.defaults.retain(|(of, _)| of != column);
                let set = to.iter().map(|to| (column.clone(), to.clone()));
                self.defaults.extend(set);
            }
            TableChange::RenameColumn { column, to } => {
                let fields = self.shown.schema();
                let fields = fields.fields().iter().map(|it| {
                    let field = it.as_ref().clone();
                    if it.name() == column {
                        field.with_name(to.clone())
                    } else {
                        field
                    }
                });
                let schema = Schema::new(fields.collect::<Vec<_>>());
                self.shown = batch(schema, self.shown.columns().to_vec(), self.shown.num_rows())?;
            }
            TableChange::DropIdentity { column, .. } => {
                self.defaults.retain(|(of, _)| of != column);
            }
            TableChange::AddCheck(check) => {
                let is_wanted = as_foreign_key(check).is_none();
                if is_wanted {
                    let check = (as_check(check), check.is_valid);
                    writing = self.check(writing, check).await?;
                }
            }
            TableChange::Validate { name } => {
                let declared = self.known.declared.clone();
                let checks = declared.iter().flat_map(|it| &it.table.checks);
                let mut checks = checks.filter(|it| ForeignKey::of(it).is_none());
                if let Some(check) = checks.find(|check| check.name == *name) {
                    writing = self.check(writing, (check.clone(), true)).await?;
                }
            }
            TableChange::DropConstraint { name, .. } => {
                self.checks.retain(|check| check.name != *name);
            }
            _ => {}
        }
        Ok(writing)
    }

    /// What the rows have in a new column.
    async fn default<'a>(
        &self,
        writing: Writing<'a>,
        (name, kind, of): (&str, PhysicalType, Option<LogicalType>),
        default: Option<&str>,
    ) -> Result<(ArrayRef, Writing<'a>), Error> {
        let rows = self.shown.num_rows();
        let Some(default) = default else {
            let shown = field(name, kind, of);
            return Ok((new_null_array(shown.data_type(), rows), writing));
        };
        let Some(numbered) = Numbered::of(default) else {
            return self.evaluated(writing, default, &self.shown).await;
        };
        if !numbered.sequence.is_empty() {
            let rules = Rules::of_relation(&self.known);
            let name = TableName {
                database: writing.place.database.clone(),
                schema: writing.place.schema.clone(),
                table: self.name.clone(),
                position: None,
            };
            let taken = rules
                .at(&name)
                .take(&writing, numbered.sequence, rows)
                .await?;
            return Ok((Arc::new(Int64Array::from(taken)), writing));
        }
        let last = i64::try_from(rows).unwrap_or(i64::MAX);
        let first = numbered.start;
        let numbers = (0..last).map(|nth| first.saturating_add(nth));
        Ok((Arc::new(Int64Array::from_iter_values(numbers)), writing))
    }

    /// An expression over the rows, in their order.
    async fn evaluated<'a>(
        &self,
        mut writing: Writing<'a>,
        expression: &str,
        rows: &RecordBatch,
    ) -> Result<(ArrayRef, Writing<'a>), Error> {
        let rows = rows.clone();
        let table = MemTable::try_new(rows.schema(), vec![vec![rows]])?;
        let text = format!(
            "SELECT ({expression}) AS it FROM {EXCLUDED} AS {}",
            quoted(&self.name)
        );
        let query = query_of(&text, &writing)?;
        let reading = writing.reading.excluding(Arc::new(table));
        let (session, plan) = writing.plan(&reading, query).await.map_err(without_place)?;
        let mut parts: Vec<RecordBatch> = Vec::new();
        writing = writing
            .run(&session, &plan, |part| {
                parts.push(part);
                Ok(())
            })
            .await?;
        let schema = Arc::clone(plan.schema().inner());
        let all = arrow::compute::concat_batches(&schema, &parts).map_err(execution)?;
        match all.columns().first() {
            Some(column) if column.len() == self.shown.num_rows() => {
                Ok((Arc::clone(column), writing))
            }
            _ => Err(Error::internal(
                "an expression without a value for each row",
            )),
        }
    }

    /// Puts a column among the rows, behind all or in the place of another. Returns its values as they are stored.
    fn put(
        &mut self,
        (name, kind, of): (&str, PhysicalType, Option<LogicalType>),
        given: ArrayRef,
        at: Option<usize>,
    ) -> Result<Vec<Value>, Error> {
        let shown = field(name, kind, of);
        let declared = Declarations {
            columns: vec![Declared {
                of,
                ..Declared::default()
            }],
            ..Declarations::default()
        };
        let alone = RelationSchema {
            id: RelationId(0),
            name: self.name.clone(),
            columns: vec![RelationColumn {
                name: name.to_owned(),
                kind,
                nullable: true,
            }],
            primary_key: Vec::new(),
            unique: Vec::new(),
            declared: Some(Arc::new(declared)),
            ..RelationSchema::clone(&self.known)
        };
        let zone = crate::semantics::zone::Zone::default();
        let array = fitted(&given, &shown, None, &zone)?;
        let rows = self.shown.num_rows();
        let one = batch(
            Schema::new(vec![Field::new(name, array.data_type().clone(), true)]),
            vec![array],
            rows,
        )?;
        let stored = alone.rows_of(&one)?;
        let back = alone.batches(
            stored.iter().map(|row| Arc::from(row.as_slice())).collect(),
            &[0],
        );
        let back: Vec<RecordBatch> = back.collect();
        let back =
            arrow::compute::concat_batches(&alone.arrow_schema(), &back).map_err(execution)?;
        let column = as_shown(&alone, &back)?;
        let mut fields: Vec<Field> = self.fields();
        let mut columns = self.shown.columns().to_vec();
        let array = column.columns().first().cloned().unwrap_or(given);
        let shown = column.schema().fields().first().map_or_else(
            || Field::new(name, array.data_type().clone(), true),
            |field| field.as_ref().clone(),
        );
        if let Some(at) = at {
            if let (Some(field), Some(column)) = (fields.get_mut(at), columns.get_mut(at)) {
                (*field, *column) = (shown, array);
            }
        } else {
            fields.push(shown);
            columns.push(array);
        }
        self.shown = batch(Schema::new(fields), columns, rows)?;
        Ok(stored
            .into_iter()
            .filter_map(|row| row.into_iter().next())
            .collect())
    }

    fn fields(&self) -> Vec<Field> {
        let schema = self.shown.schema();
        schema
            .fields()
            .iter()
            .map(|it| it.as_ref().clone())
            .collect()
    }

    /// Refuses rows that do not meet a condition, if they are to be looked at.
    async fn check<'a>(
        &self,
        writing: Writing<'a>,
        (check, is_valid): (Check, bool),
    ) -> Result<Writing<'a>, Error> {
        refuse_unknown_type(&writing, &check)?;
        let condition = format!("({}) IS FALSE", check.expression);
        let (found, writing) = self.evaluated(writing, &condition, &self.shown).await?;
        let offends = found.as_boolean_opt().is_some_and(|it| it.true_count() > 0);
        if !is_valid || !offends {
            return Ok(writing);
        }
        Err(violated(&self.name, check))
    }
}

fn defaults_of(known: &RelationSchema) -> Vec<(String, String)> {
    let columns = known.named_columns().iter().enumerate();
    let defaults = columns.filter_map(|(at, column)| {
        let default = known.declared_column(at)?.default.clone()?;
        Some((column.name.clone(), default))
    });
    defaults.collect()
}

/// Rows as SQL shows them, of rows as they are stored.
fn as_shown(relation: &RelationSchema, stored: &RecordBatch) -> Result<RecordBatch, Error> {
    let shown = relation.shown_columns();
    let columns = stored.columns().iter().take(shown.len()).enumerate();
    let arrays: Vec<ArrayRef> = columns.map(|(at, array)| shown.show(at, array)).collect();
    let fields = shown.schema.fields().iter().zip(&arrays);
    // A column may be NULL on the way: whether it may in the end is said by the change.
    let fields = fields.map(|(known, array)| {
        let field = Field::new(known.name(), array.data_type().clone(), true);
        field.with_metadata(known.metadata().clone())
    });
    let schema = Schema::new(fields.collect::<Vec<_>>());
    batch(schema, arrays, stored.num_rows())
}

fn batch(schema: Schema, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, Error> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let made = RecordBatch::try_new_with_options(Arc::new(schema), columns, &options);
    made.map_err(|error| Error::internal(error.to_string()))
}

fn refuse_unknown_type(writing: &Writing<'_>, check: &Check) -> Result<(), Error> {
    if enum_of_check(check).is_none() {
        return Ok(());
    }
    let within = (
        writing.place.database.as_str(),
        writing.place.schema.as_str(),
    );
    let checks = std::slice::from_ref(check);
    match missing_enumeration(&writing.reading.snapshot, within, checks) {
        None => Ok(()),
        Some(name) => {
            let unknown = DefineError::Unknown {
                what: Object::Type,
                name,
                nearest: None,
            };
            Err(Error::of_name(unknown, None))
        }
    }
}

/// Where a part of an expression stands in the statement is not known any more.
pub(super) fn without_place(error: Error) -> Error {
    match error {
        Error::UnknownColumn { name, nearest, .. } => Error::UnknownColumn {
            name,
            nearest,
            position: None,
        },
        Error::Plan { message, .. } => Error::Plan {
            message,
            position: None,
        },
        other => other,
    }
}

fn violated(table: &str, check: Check) -> Error {
    Error::Engine(EngineError::Constraint {
        kind: ConstraintKind::Check,
        table: table.to_owned(),
        column: None,
        row: 1,
        reason: format!(
            "the CHECK ({}) is false for a row that is there",
            check.expression
        ),
        constraint: Some(check.name),
    })
}

/// What becomes of the default of a column of a table over time that gets another type.
async fn retyped(
    writing: &Writing<'_>,
    table: &TableSchema,
    change: &mut TableChange,
) -> Result<(), Error> {
    let TableChange::Type {
        column,
        to,
        of,
        default,
        using,
        is_said: false,
        ..
    } = change
    else {
        return Ok(());
    };
    let rules = Rules::of_table(table);
    let Ok(at) = rules.schema.index_of(column) else {
        return Ok(());
    };
    let known = rules.columns.get(at).and_then(|it| it.default.as_deref());
    let known = (rules.schema.field(at), known);
    let becomes = Becomes::of((*to, *of), None);
    *default = casts::assigned(writing, known, &becomes, Some(using.as_str())).await?;
    Ok(())
}

/// Conditions of a table over time, over all of its rows.
async fn of_table<'a>(
    writing: Writing<'a>,
    name: &TableName,
    change: &mut TableChange,
) -> Result<Writing<'a>, Error> {
    let snapshot = Arc::clone(&writing.reading.snapshot);
    let Some(table) = snapshot.table(&name.database, &name.schema, &name.table) else {
        return Ok(writing);
    };
    if matches!(change, TableChange::Type { .. }) {
        retyped(&writing, &table, change).await?;
        return Ok(writing);
    }
    let change = &*change;
    let (condition, refused, is_valid) = match change {
        TableChange::NotNull {
            column,
            is_not_null: true,
        } if table.shown(column).is_some() => {
            let refused = Error::Engine(EngineError::Constraint {
                kind: ConstraintKind::NotNull,
                table: name.table.clone(),
                column: Some(column.clone()),
                constraint: None,
                row: 1,
                reason: format!(
                    "column \"{column}\" of relation \"{}\" contains null values",
                    name.table
                ),
            });
            (format!("{} IS NULL", always_quoted(column)), refused, true)
        }
        TableChange::AddCheck(check) if as_foreign_key(check).is_none() => {
            let (check, is_valid) = (as_check(check), check.is_valid);
            refuse_unknown_type(&writing, &check)?;
            let condition = format!("({}) IS FALSE", check.expression);
            (condition, violated(&name.table, check), is_valid)
        }
        TableChange::Validate { name: wanted } => {
            let declared = table.declared.iter();
            let mut checks = declared.flat_map(|it| &it.checks);
            let Some(check) = checks.find(|check| check.name == *wanted).cloned() else {
                return Ok(writing);
            };
            let condition = format!("({}) IS FALSE", check.expression);
            (condition, violated(&name.table, check), true)
        }
        _ => return Ok(writing),
    };
    let text = format!(
        "SELECT 1 FROM {}.{}.{} AS {} WHERE {condition} LIMIT {}",
        quoted(&name.database),
        quoted(&name.schema),
        quoted(&name.table),
        quoted(&name.table),
        u8::from(is_valid),
    );
    let query = query_of(&text, &writing)?;
    let reading = writing.reading.clone();
    let (session, plan) = writing.plan(&reading, query).await.map_err(without_place)?;
    let mut found = 0;
    let writing = writing
        .run(&session, &plan, |part| {
            found += part.num_rows();
            Ok(())
        })
        .await?;
    if found > 0 {
        return Err(refused);
    }
    Ok(writing)
}
