//! Declarations of a table, carried out by a statement that writes: defaults and CHECKs.
//!
//! Does: fill in what an INSERT leaves out, and evaluate conditions on the rows that are about to be written. Does not: check
//! types or NOT NULL (the engine does, whoever writes).

mod altered;
mod casts;
mod new;
mod numbers;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{Field, SchemaRef};
use datafusion::datasource::MemTable;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast;
use nilometer_engine::{
    Check, ColumnDef, ColumnSource, ConstraintKind, DeclaredTable, Error as EngineError,
    LogicalType, RelationSchema, TableSchema, TimeKind, enum_of_check,
};

pub(crate) use altered::look_at_rows;
pub(crate) use new::check_new;
use nilometer_service::ForeignKey;
use nilometer_service::define::Numbered;
pub(super) use numbers::is_default;

use super::rows::execution;
use super::writing::Writing;
use crate::Params;
use crate::error::Error;
use crate::semantics::zone::Zone;
use crate::statement::name::{TableName, quoted};
use crate::statement::rewrite::overriding::Overriding;
use crate::statement::types::null;
use crate::statement::{Bounds, Statement, parse};
use crate::tables::catalogue::EXCLUDED;
use crate::tables::describe::default_of;
use crate::tables::relation;

/// What statements that write a table or a relation have to do.
pub(super) struct Rules {
    name: String,
    schema: SchemaRef,
    /// By column, as it is shown.
    columns: Vec<ColumnRule>,
    checks: Vec<Check>,
    /// Where its sequences are: its database and schema.
    place: Option<(String, String)>,
    /// Whose numbers identity columns take.
    overriding: Option<Overriding>,
}

struct ColumnRule {
    of: Option<LogicalType>,
    default: Option<String>,
}

impl Rules {
    pub(super) fn of_table(table: &TableSchema) -> Self {
        let shown = table.shown_columns();
        let rule = |at| {
            let position = shown.position(at).unwrap_or(at);
            let of = match table.source(position) {
                Some(ColumnSource::Time) => match table.time().1 {
                    TimeKind::Timestamp => Some(LogicalType::Timestamp),
                    TimeKind::Date => Some(LogicalType::Date),
                    TimeKind::TimestampTz | TimeKind::Integer { .. } => None,
                },
                Some(ColumnSource::Tag(at)) => table.tags.get(at).and_then(ColumnDef::of),
                Some(ColumnSource::Field(at)) => table.fields.get(at).and_then(ColumnDef::of),
                None => None,
            };
            ColumnRule {
                of,
                default: default_of(table, position).map(str::to_owned),
            }
        };
        Self {
            name: table.name.clone(),
            schema: Arc::clone(&shown.schema),
            columns: (0..shown.len()).map(rule).collect(),
            checks: checks_of(table.declared.as_deref()),
            place: None,
            overriding: None,
        }
    }

    pub(super) fn of_relation(relation: &RelationSchema) -> Self {
        let rule = |at| ColumnRule {
            of: relation.of(at),
            default: relation
                .declared_column(at)
                .and_then(|declared| declared.default.clone()),
        };
        Self {
            name: relation.name.clone(),
            schema: relation.shown_columns().schema,
            columns: (0..relation.named_columns().len()).map(rule).collect(),
            checks: checks_of(relation.declared.as_ref().map(|it| &it.table)),
            place: None,
            overriding: None,
        }
    }

    /// The same of what has this name: its rows may get numbers.
    pub(super) fn at(mut self, name: &TableName) -> Self {
        self.place = Some((name.database.clone(), name.schema.clone()));
        self
    }

    /// The same for an INSERT that says whose numbers identity columns take.
    pub(super) fn overriding(mut self, whose: Option<Overriding>) -> Self {
        self.overriding = whose;
        self
    }

    /// Whether a column has a default, so that an INSERT may leave it out.
    pub(super) fn has_default(&self, name: &str) -> bool {
        let at = self.schema.index_of(name).ok();
        let column = at.and_then(|at| self.columns.get(at));
        column.is_some_and(|column| column.default.is_some())
    }

    /// The rows of an INSERT with the defaults of the columns that it leaves out, which meet every CHECK.
    pub(super) async fn inserted<'a>(
        &self,
        writing: Writing<'a>,
        batch: RecordBatch,
    ) -> Result<(RecordBatch, Writing<'a>), Error> {
        let (batch, writing) = self.filled(writing, batch).await?;
        let writing = self.checked(writing, &batch).await?;
        Ok((batch, writing))
    }

    /// Puts what a column says in the place of `DEFAULT` among values.
    pub(super) async fn defaults(
        &self,
        source: &mut ast::Query,
        columns: &[Field],
        writing: &Writing<'_>,
    ) -> Result<(), Error> {
        let mut numbers = self.numbers(source, columns, writing).await?;
        let ast::SetExpr::Values(values) = source.body.as_mut() else {
            return Ok(());
        };
        for row in &mut values.rows {
            for (at, (value, field)) in row.content.iter_mut().zip(columns).enumerate() {
                if numbers::is_default(value) {
                    *value = match numbers.get_mut(at).and_then(Iterator::next) {
                        Some(number) => numbers::literal(number),
                        None => self.default(field.name(), writing)?,
                    };
                }
            }
        }
        Ok(())
    }

    /// Whether a default calls what only statements have that ask for it.
    pub(super) fn asks_names(&self) -> bool {
        let defaults = self.columns.iter().filter_map(|it| it.default.as_deref());
        let mut others = defaults.filter(|default| Numbered::of(default).is_none());
        // A label of an enumeration may be cast to it, which asks for the type.
        let has_labels = self.checks.iter().any(|it| enum_of_check(it).is_some());
        others.any(|default| has_labels || default.contains("nextval"))
    }

    fn default(&self, name: &str, writing: &Writing<'_>) -> Result<ast::Expr, Error> {
        let at = self.schema.index_of(name).ok();
        let column = at.and_then(|at| self.columns.get(at));
        let Some(text) = column.and_then(|column| column.default.as_ref()) else {
            return Ok(null());
        };
        let query = query_of(&format!("SELECT {text}"), writing)?;
        let found = match *query.body {
            ast::SetExpr::Select(select) => select.projection.into_iter().next(),
            _ => None,
        };
        match found {
            Some(
                ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. },
            ) => Ok(expr),
            _ => Err(Error::internal("a default that is no expression")),
        }
    }

    async fn filled<'a>(
        &self,
        mut writing: Writing<'a>,
        batch: RecordBatch,
    ) -> Result<(RecordBatch, Writing<'a>), Error> {
        let given = batch.schema();
        let fields = self.schema.fields().iter().zip(&self.columns);
        let missing: Vec<(&Field, &str)> = fields
            .filter(|(field, _)| given.index_of(field.name()).is_err())
            .filter_map(|(field, rule)| Some((field.as_ref(), rule.default.as_deref()?)))
            .collect();
        if missing.is_empty() || batch.num_rows() == 0 {
            return Ok((batch, writing));
        }
        let (batch, missing) = self.numbered(&writing, batch, missing).await?;
        if missing.is_empty() {
            return Ok((batch, writing));
        }
        if let Some(made) = self.literals(&missing, &writing, batch.num_rows())? {
            let whole = with_columns(&batch, &missing, &made, &writing.reading.zone)?;
            return Ok((whole, writing));
        }
        let values: Vec<&str> = missing.iter().map(|(_, default)| *default).collect();
        // Once for each row: a default may be another value each time.
        let text = format!(
            "SELECT {} FROM generate_series(1, {})",
            values.join(", "),
            batch.num_rows()
        );
        let query = query_of(&text, &writing)?;
        let reading = writing.reading.clone();
        let (session, plan) = writing.plan(&reading, query).await?;
        let mut parts: Vec<RecordBatch> = Vec::new();
        writing = writing
            .run(&session, &plan, |part| {
                parts.push(part);
                Ok(())
            })
            .await?;
        let schema = Arc::clone(plan.schema().inner());
        let made = arrow::compute::concat_batches(&schema, &parts).map_err(execution)?;
        let whole = with_columns(&batch, &missing, made.columns(), &writing.reading.zone)?;
        Ok((whole, writing))
    }

    /// The values of defaults for so many rows, where all are literals, or the time; `None` = the planner makes them.
    fn literals(
        &self,
        missing: &[(&Field, &str)],
        writing: &Writing<'_>,
        rows: usize,
    ) -> Result<Option<Vec<ArrayRef>>, Error> {
        let exprs = missing
            .iter()
            .map(|(field, _)| self.default(field.name(), writing));
        let fields: Vec<Field> = missing.iter().map(|(field, _)| (*field).clone()).collect();
        let exprs = exprs.collect::<Result<_, _>>()?;
        super::values::repeated(exprs, &fields, &writing.reading.zone, rows)
    }

    /// Refuses rows of which one does not meet a CHECK. What a batch lacks is null.
    pub(super) async fn checked<'a>(
        &self,
        mut writing: Writing<'a>,
        batch: &RecordBatch,
    ) -> Result<Writing<'a>, Error> {
        if self.checks.is_empty() || batch.num_rows() == 0 {
            return Ok(writing);
        }
        let rows = self.shown(batch)?;
        let table = MemTable::try_new(rows.schema(), vec![vec![rows]])?;
        let conditions: Vec<String> = self
            .checks
            .iter()
            .map(|check| format!("({}) IS FALSE", check.expression))
            .collect();
        let text = format!(
            "SELECT {} FROM {EXCLUDED} AS {}",
            conditions.join(", "),
            quoted(&self.name)
        );
        let query = query_of(&text, &writing)?;
        let mut reading = writing.reading.excluding(Arc::new(table));
        let mut enums = self.checks.iter().filter_map(enum_of_check);
        reading.asks_names |= enums.next().is_some();
        let (session, plan) = writing.plan(&reading, query).await?;
        let mut offended: Option<(usize, usize)> = None;
        let mut before = 0;
        writing = writing
            .run(&session, &plan, |part| {
                for (nth, column) in part.columns().iter().enumerate() {
                    let Some(is_false) = column.as_boolean_opt() else {
                        continue;
                    };
                    let mut all = is_false.iter();
                    if let Some(row) = all.position(|it| it == Some(true)) {
                        let row = before + row;
                        if offended.is_none_or(|(_, first)| row < first) {
                            offended = Some((nth, row));
                        }
                    }
                }
                before += part.num_rows();
                Ok(())
            })
            .await?;
        let offended = offended.and_then(|(nth, row)| Some((self.checks.get(nth)?, row)));
        match offended {
            None => Ok(writing),
            Some((check, row)) => Err(Error::Engine(EngineError::Constraint {
                kind: ConstraintKind::Check,
                table: self.name.clone(),
                column: None,
                constraint: Some(check.name.clone()),
                row: row + 1,
                reason: format!("the CHECK ({}) is false", check.expression),
            })),
        }
    }

    /// Rows as they will be shown.
    pub(super) fn shown(&self, batch: &RecordBatch) -> Result<RecordBatch, Error> {
        let options = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        let mut arrays = Vec::with_capacity(self.columns.len());
        for (field, rule) in self.schema.fields().iter().zip(&self.columns) {
            let array = batch.column_by_name(field.name());
            arrays.push(match (array, rule.of) {
                (None, _) => new_null_array(field.data_type(), batch.num_rows()),
                // Also where the types are equal: a text may get another form.
                (Some(array), Some(of)) => of
                    .taken(&self.name, field.name(), array)
                    .map_err(Error::Engine)?,
                (Some(array), None) if array.data_type() == field.data_type() => Arc::clone(array),
                (Some(array), None) => {
                    cast_with_options(array, field.data_type(), &options).map_err(execution)?
                }
            });
        }
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let fields = self.schema.fields().iter();
        // What is missing is null, also the time, which the engine refuses.
        let nullable: Vec<Field> = fields
            .map(|field| field.as_ref().clone().with_nullable(true))
            .collect();
        let schema = Arc::new(arrow::datatypes::Schema::new(nullable));
        let shown = RecordBatch::try_new_with_options(schema, arrays, &rows);
        shown.map_err(|error| Error::internal(error.to_string()))
    }
}

/// Rows that are about to be written to a table, with what its definition adds to them.
pub(crate) async fn completed(
    writing: Writing<'_>,
    name: &TableName,
    rows: RecordBatch,
) -> Result<RecordBatch, Error> {
    writing.allow(name)?;
    let relation = relation::find(&writing.reading.snapshot, name);
    let rules = match relation {
        Some(reader) => Rules::of_relation(reader.schema()),
        None => Rules::of_table(&*writing.table(name)?),
    }
    .at(name);
    let mut writing = writing;
    writing.reading.asks_names |= rules.asks_names();
    let (rows, _writing) = rules.inserted(writing, rows).await?;
    Ok(rows)
}

/// The conditions on a row; foreign keys are looked at when all of them are written.
fn checks_of(declared: Option<&DeclaredTable>) -> Vec<Check> {
    let checks = declared.into_iter().flat_map(|declared| &declared.checks);
    let conditions = checks.filter(|check| ForeignKey::of(check).is_none());
    conditions.cloned().collect()
}

/// Rows with columns behind those that they have.
fn with_columns(
    batch: &RecordBatch,
    missing: &[(&Field, &str)],
    made: &[ArrayRef],
    zone: &Zone,
) -> Result<RecordBatch, Error> {
    let given = batch.schema();
    let fields = given.fields().iter().map(|field| field.as_ref().clone());
    let mut columns: Vec<(Field, ArrayRef)> = fields.zip(batch.columns().iter().cloned()).collect();
    for ((field, _), array) in missing.iter().zip(made) {
        let array = super::rows::fitted(array, field, None, zone)?;
        columns.push(((*field).clone(), array));
    }
    super::rows::batch_of(columns, batch.num_rows())
}

/// A query of our own, with the syntax that statements may have.
fn query_of(text: &str, writing: &Writing<'_>) -> Result<ast::Query, Error> {
    let bounds = Bounds::of(&writing.reading.shared.options);
    if let Statement::Query(question) = parse(text, bounds, &Params::new())?
        && let DfStatement::Statement(statement) = question.statement
        && let ast::Statement::Query(query) = *statement
    {
        return Ok(*query);
    }
    Err(Error::internal("a query of a declaration that is none"))
}
