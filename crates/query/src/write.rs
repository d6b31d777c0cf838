//! INSERT, UPDATE and DELETE: rows that the planner finds, written by the engine. Changes of names are in `change.rs`.
//!
//! Does: plan the part of a statement that reads, hold what it gives in the memory of the statement, and hand it to the
//! engine as one batch: all of it becomes durable, or nothing. Does not: decide about conflicts or convert values of
//! columns (the engine does), or write in parts: what is more than one batch takes is an error that names the limit.

pub(crate) mod change;
mod delete;
mod insert;
mod relation;
mod update;
mod values;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options, concat_batches};
use arrow::datatypes::{
    DataType, Field, Schema, SchemaRef, TimeUnit, TimestampNanosecondType, UInt32Type,
};
use arrow::util::display::FormatOptions;
use datafusion::execution::context::SessionState;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast;
use futures::StreamExt;
use nilometer_engine::{Error as EngineError, RowKey, SeriesId, TIME_COLUMN, TableSchema};
use nilometer_service::Running;
use nilometer_service::define::is_reserved;

use crate::answer::Answer;
use crate::error::{Error, Position};
use crate::limits::memory::pool;
use crate::planning::plan::plan;
use crate::semantics::times;
use crate::semantics::zone::Zone;
use crate::sql::Sql;
use crate::statement::name::{NameScope, TableName};
use crate::tables::catalogue::ReadContext;
use crate::tables::names;

pub(crate) use delete::delete;
pub(crate) use insert::insert;
pub(crate) use update::update;

/// How often an UPDATE or DELETE starts again when somebody else changed one of its rows meanwhile.
const TRIES_MAX: usize = 10;

/// One statement that writes, on its way.
pub(crate) struct Writing<'a> {
    pub(crate) sql: &'a Sql,
    pub(crate) reading: ReadContext,
    pub(crate) place: NameScope,
    pub(crate) running: Running,
}

impl Writing<'_> {
    /// The table that is written to.
    fn table(&self, name: &TableName) -> Result<Arc<TableSchema>, Error> {
        if is_reserved(&name.schema) {
            return Err(Error::Plan {
                message: format!(
                    "the schema \"{}\" is what the store says of itself and cannot be written to",
                    name.schema
                ),
                position: name.position,
            });
        }
        names::find_table(&self.reading.snapshot, name)
    }

    /// Plans a query in the place of the statement.
    async fn plan(
        &self,
        reading: &ReadContext,
        query: ast::Query,
    ) -> Result<(SessionState, LogicalPlan), Error> {
        let session = reading.session(&self.place);
        let statement = DfStatement::Statement(Box::new(ast::Statement::Query(Box::new(query))));
        let plan = plan(reading, &session, &self.place, &statement).await?;
        Ok((session, plan))
    }

    /// Runs a plan, and gives each batch to `take`. The limits of the statement hold.
    async fn run(
        self,
        session: &SessionState,
        plan: &LogicalPlan,
        mut take: impl FnMut(RecordBatch) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let batches = self.sql.run(session, plan, &self.running).await?;
        let Self {
            sql,
            reading,
            place,
            running,
        } = self;
        let mut answer = Answer::new(batches, running, sql.options());
        while let Some(batch) = answer.next().await {
            take(batch?)?;
        }
        Ok(Self {
            sql,
            reading,
            place,
            running: answer.into_running(),
        })
    }

    /// The same statement, on the newest snapshot.
    fn again(self) -> Self {
        let reading = self.sql.reading();
        Self { reading, ..self }
    }

    /// A reservation in the memory of the statement.
    fn reserve(&self) -> MemoryReservation {
        let pool = pool(&self.running);
        MemoryConsumer::new("rows to write").register(&pool)
    }
}

/// Batches that are kept until all of them are there.
struct Kept {
    batches: Vec<RecordBatch>,
    memory: MemoryReservation,
}

impl Kept {
    fn new(memory: MemoryReservation) -> Self {
        Self {
            batches: Vec::new(),
            memory,
        }
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let batch = plain(batch)?;
        // Twice: they are put together before they are written.
        self.memory.try_grow(batch.get_array_memory_size() * 2)?;
        self.batches.push(batch);
        Ok(())
    }

    /// All of them as one, with the memory that they are held in; `empty` = the columns, if there is none.
    fn together(self, empty: &SchemaRef) -> Result<(RecordBatch, MemoryReservation), Error> {
        let schema = self
            .batches
            .first()
            .map_or_else(|| Arc::clone(empty), RecordBatch::schema);
        let all = concat_batches(&schema, &self.batches).map_err(execution)?;
        Ok((all, self.memory))
    }
}

/// A batch with the texts of its tags in the place of their codes: every batch has the whole dictionary, and each of them
/// would be counted with it.
fn plain(batch: &RecordBatch) -> Result<RecordBatch, Error> {
    let schema = batch.schema();
    let mut fields = Vec::with_capacity(batch.num_columns());
    let mut arrays = Vec::with_capacity(batch.num_columns());
    for (field, array) in schema.fields().iter().zip(batch.columns()) {
        let array = match array.data_type() {
            DataType::Dictionary(_, value) => {
                cast_with_options(array, value, &CastOptions::default()).map_err(execution)?
            }
            _ => Arc::clone(array),
        };
        fields.push(Field::new(field.name(), array.data_type().clone(), true));
        arrays.push(array);
    }
    let rows = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &rows)
        .map_err(|error| Error::internal(error.to_string()))
}

fn execution(error: impl std::fmt::Display) -> Error {
    Error::Execution {
        message: error.to_string(),
    }
}

/// A column as its table takes it: text becomes what the column holds, as a literal in quotes would, everything else is
/// the engine's to take or to refuse.
fn fitted(
    array: &ArrayRef,
    field: &Field,
    position: Option<Position>,
    zone: &Zone,
) -> Result<ArrayRef, Error> {
    let wrong = |message: String| Error::Plan { message, position };
    let wanted = field.data_type();
    let is_time = field.name() == TIME_COLUMN;
    let is_text = array.data_type().is_string();
    if is_time && array.data_type().is_integer() {
        return Err(wrong(
            "a number is no time: write it as text, such as '2026-01-31T12:00:00Z', or to_timestamp_nanos(...)"
                .to_owned(),
        ));
    }
    if is_text && matches!(wanted, DataType::Timestamp(..)) {
        let times = times::of_texts(array, zone)
            .map_err(|message| wrong(format!("column \"{}\": {message}", field.name())))?;
        return Ok(Arc::new(times));
    }
    let is_date = matches!(array.data_type(), DataType::Date32 | DataType::Date64);
    let is_of_clock = is_date || matches!(array.data_type(), DataType::Timestamp(_, None));
    if is_of_clock && !zone.is_utc() && matches!(wanted, DataType::Timestamp(..)) {
        let times = times::of_clocks(array, zone)
            .map_err(|message| wrong(format!("column \"{}\": {message}", field.name())))?;
        return Ok(Arc::new(times));
    }
    let target = match wanted {
        DataType::Timestamp(..) if is_date => {
            DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
        }
        DataType::Int64 | DataType::UInt64 | DataType::Float64 | DataType::Boolean if is_text => {
            wanted.clone()
        }
        _ => return Ok(Arc::clone(array)),
    };
    let options = CastOptions {
        safe: false,
        format_options: FormatOptions::default(),
    };
    cast_with_options(array, &target, &options)
        .map_err(|error| wrong(format!("column \"{}\": {error}", field.name())))
}

/// Columns with their names in a table, as a batch for the engine.
fn batch_of(columns: Vec<(Field, ArrayRef)>, rows: usize) -> Result<RecordBatch, Error> {
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns
        .into_iter()
        .map(|(field, array)| {
            let kind = array.data_type().clone();
            (Field::new(field.name(), kind, true), array)
        })
        .unzip();
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|error| Error::internal(error.to_string()))
}

/// Which rows a batch names: the columns of the series, the time and the place among equals, in this order.
fn row_keys(batch: &RecordBatch, keys: &mut Vec<RowKey>) -> Result<(), Error> {
    let wrong =
        || Error::internal("a scan for changing rows has other columns than it was asked for");
    let [series, time, nth] = [0, 1, 2].map(|at| batch.columns().get(at));
    let series = series.and_then(|it| it.as_primitive_opt::<UInt32Type>());
    let time = time.and_then(|it| it.as_primitive_opt::<TimestampNanosecondType>());
    let nth = nth.and_then(|it| it.as_primitive_opt::<UInt32Type>());
    let (Some(series), Some(time), Some(nth)) = (series, time, nth) else {
        return Err(wrong());
    };
    let rows = series.values().iter().zip(time.values()).zip(nth.values());
    keys.extend(rows.map(|((series, time), nth)| RowKey {
        series: SeriesId(*series),
        time: *time,
        nth: *nth,
    }));
    Ok(())
}

/// Whether a statement that changes rows may start again: somebody else was faster.
fn is_overtaken(error: &Error) -> bool {
    matches!(
        error,
        Error::Engine(EngineError::ChangedMeanwhile { .. } | EngineError::RelationChanged { .. })
    )
}

/// The one table of a statement, by its name and as the statement has it.
fn only_table(
    tables: &[ast::TableWithJoins],
    statement: &str,
    place: &NameScope,
) -> Result<(TableName, ast::TableWithJoins), Error> {
    let refused = || Error::Unsupported {
        statement: format!("{statement} of more than one table"),
        instead: "name one table, and find its rows with WHERE and sub-selects",
    };
    let [table] = tables else {
        return Err(refused());
    };
    let ast::TableFactor::Table { name, .. } = &table.relation else {
        return Err(refused());
    };
    if !table.joins.is_empty() {
        return Err(refused());
    }
    let name = crate::statement::name::Path::of(name)?.table(place)?;
    Ok((name, table.clone()))
}

/// `SELECT columns FROM table WHERE condition`, with the places that its parts have in the statement.
fn select(
    columns: Vec<ast::SelectItem>,
    table: ast::TableWithJoins,
    condition: Option<ast::Expr>,
) -> Result<ast::Query, Error> {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;
    let parsed = Parser::parse_sql(&GenericDialect {}, "SELECT 1 FROM t");
    let parsed = parsed.map_err(|error| Error::internal(error.to_string()))?;
    if let Some(ast::Statement::Query(mut query)) = parsed.into_iter().next()
        && let ast::SetExpr::Select(select) = query.body.as_mut()
    {
        select.projection = columns;
        select.from = vec![table];
        select.selection = condition;
        return Ok(*query);
    }
    Err(Error::internal("a SELECT that is none"))
}

/// A column of a table by its name as it is.
fn column(name: &str) -> ast::Expr {
    ast::Expr::Identifier(ast::Ident::with_quote('"', name))
}

fn item(expr: ast::Expr, name: &str) -> ast::SelectItem {
    ast::SelectItem::ExprWithAlias {
        expr,
        alias: ast::Ident::with_quote('"', name),
    }
}
