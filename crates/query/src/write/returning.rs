//! RETURNING: what a statement that writes answers of its rows.
//!
//! Does: evaluate expressions on rows as they are shown once they are written, before they are: what cannot be evaluated
//! writes nothing. Does not: choose the rows (the statement does).

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::datasource::MemTable;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{self, Ident, SelectItem};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use nilometer_service::elsewhere;

use super::rows::execution;
use super::source::select;
use super::writing::Writing;
use crate::error::Error;
use crate::planning::plan::plan;
use crate::statement::headings;
use crate::statement::name::{Name, quoted};
use crate::tables::catalogue::EXCLUDED;

/// What a statement answers of the rows that it writes.
#[derive(Debug)]
pub(crate) struct Returning {
    items: Vec<SelectItem>,
    /// The answer, of the last try.
    rows: Option<RecordBatch>,
}

impl Returning {
    /// `None` = it answers how many there are.
    pub(crate) fn of(items: Option<Vec<SelectItem>>) -> Option<Self> {
        items.map(|items| Self { items, rows: None })
    }

    pub(crate) fn into_rows(self) -> Option<RecordBatch> {
        self.rows
    }
}

impl Writing<'_> {
    /// Whether rows are to be answered.
    pub(super) fn returns(&self) -> bool {
        self.returning.is_some()
    }

    /// Evaluates what is to be answered of these rows, which the statement is about to write.
    pub(super) async fn returned(self, alias: &Ident, rows: RecordBatch) -> Result<Self, Error> {
        let Some(returning) = &self.returning else {
            return Ok(self);
        };
        let items = returning.items.clone();
        let (answer, mut writing) = evaluated(self, alias, rows, items).await?;
        if let Some(returning) = &mut writing.returning {
            returning.rows = Some(answer);
        }
        Ok(writing)
    }

    /// The same of a statement that found no rows.
    pub(super) async fn returned_nothing(
        self,
        alias: &Ident,
        schema: &SchemaRef,
    ) -> Result<Self, Error> {
        self.returned(alias, RecordBatch::new_empty(Arc::clone(schema)))
            .await
    }

    /// The columns of what is answered of rows of this schema.
    pub(crate) async fn returned_columns(
        &self,
        alias: &Ident,
        schema: &SchemaRef,
    ) -> Result<Option<SchemaRef>, Error> {
        let Some(returning) = &self.returning else {
            return Ok(None);
        };
        let (statement, headings) = question(alias, returning.items.clone())?;
        let table = MemTable::try_new(Arc::clone(schema), vec![Vec::new()])?;
        let reading = self.reading.excluding(Arc::new(table));
        let session = reading.session(&self.place);
        let plan = plan(&reading, &session, &self.place, &statement).await?;
        let schema = Arc::clone(plan.schema().inner());
        Ok(Some(match headings.of(plan.schema()) {
            None => schema,
            Some(names) => named(&schema, &names),
        }))
    }
}

/// A SELECT of expressions from the rows, which are called as the table is.
fn question(
    alias: &Ident,
    items: Vec<SelectItem>,
) -> Result<(DfStatement, headings::Headings), Error> {
    let internal = || Error::internal("a table that is none");
    let text = format!(
        "SELECT 1 FROM {EXCLUDED} AS {}",
        quoted(&Name::from(alias).text)
    );
    let parsed = Parser::parse_sql(&GenericDialect {}, &text).map_err(|_| internal())?;
    let from = match parsed.into_iter().next() {
        Some(ast::Statement::Query(query)) => match *query.body {
            ast::SetExpr::Select(select) => select.from,
            _ => return Err(internal()),
        },
        _ => return Err(internal()),
    };
    let query = select(items, from, None)?;
    let mut statement = ast::Statement::Query(Box::new(query));
    let headings = headings::take(&mut statement);
    Ok((DfStatement::Statement(Box::new(statement)), headings))
}

/// The values of expressions for rows, in their order.
pub(super) async fn evaluated<'a>(
    writing: Writing<'a>,
    alias: &Ident,
    rows: RecordBatch,
    items: Vec<SelectItem>,
) -> Result<(RecordBatch, Writing<'a>), Error> {
    let (statement, headings) = question(alias, items)?;
    let table = MemTable::try_new(rows.schema(), vec![vec![rows]])?;
    let reading = writing.reading.excluding(Arc::new(table));
    let session = reading.session(&writing.place);
    elsewhere().await;
    let plan = plan(&reading, &session, &writing.place, &statement).await?;
    let mut parts: Vec<RecordBatch> = Vec::new();
    let memory = writing.reserve();
    let writing = writing
        .run(&session, &plan, |part| {
            memory.try_grow(part.get_array_memory_size())?;
            parts.push(part);
            Ok(())
        })
        .await?;
    let schema = parts
        .first()
        .map_or_else(|| Arc::clone(plan.schema().inner()), RecordBatch::schema);
    let all = arrow::compute::concat_batches(&schema, &parts).map_err(execution)?;
    let Some(names) = headings.of(plan.schema()) else {
        return Ok((all, writing));
    };
    let options = RecordBatchOptions::new().with_row_count(Some(all.num_rows()));
    let schema = named(&schema, &names);
    let columns = all.columns().to_vec();
    let all = RecordBatch::try_new_with_options(schema, columns, &options).map_err(execution)?;
    Ok((all, writing))
}

fn named(schema: &SchemaRef, names: &headings::Names) -> SchemaRef {
    let fields = schema.fields().iter().zip(names.iter());
    let fields = fields.map(|(field, name)| field.as_ref().clone().with_name(name));
    Arc::new(Schema::new(fields.collect::<Vec<Field>>()))
}
