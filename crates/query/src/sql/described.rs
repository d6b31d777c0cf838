//! Parameters and columns of a statement, for who asks before it runs.
//!
//! Does: plan a statement with stand-ins for the values of its parameters, and say the types of those and of its columns. Does not:
//! run anything but what shows the store.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;
use nilometer_engine::DEFAULT_SCHEMA;
use nilometer_service::Description;

use super::{Sql, explained};
use crate::Params;
use crate::error::Error;
use crate::limits::memory::pool;
use crate::limits::plan_time;
use crate::statement::headings::Names;
use crate::statement::name::{NameScope, Path};
use crate::statement::params::types as parameter_types;
use crate::statement::rewrite::acquisition::asks_acquisition;
use crate::statement::{self, Bounds, Statement};
use crate::tables::catalogue::ReadContext;
use crate::tables::names;
use crate::write::{self, Returning};

impl Sql {
    /// What a statement takes and answers, without running it. `known` = the types that its sender has said of parameters.
    pub(crate) async fn described(
        &self,
        database: &str,
        sql: &str,
        known: &[Option<DataType>],
    ) -> Result<Description, Error> {
        let bounds = Bounds::of(self.options());
        let (tokens, _) = self.expanded(database, statement::tokens(sql, bounds)?)?;
        let count = parameter_types::numbers(&tokens).max(known.len());
        if count == 0
            && let Some(shape) = self.shape_of(&tokens, &Params::new())
            && let Some(found) = self.template(&self.reading(), database, &shape)
        {
            return Ok(Description {
                parameters: Vec::new(),
                columns: Some(headed(&found.bound.schema(), found.headings.as_ref())),
            });
        }
        let Some(unfilled) = statement::parse_unfilled(tokens.clone(), sql)? else {
            return self.described_own(database, sql, tokens).await;
        };
        if asks_acquisition(&tokens) {
            self.complete_acquisitions().await?;
        }
        let mut reading = self.reading().of_tokens(&tokens);
        reading.is_described = true;
        let columns = self.columns_named(&reading, database, &unfilled);
        let parameters = parameter_types::types(&unfilled, count, known, &columns);
        let params = parameter_types::stand_ins(&parameters);
        let statement = statement::parse_tokens(tokens, sql, bounds, &params)?;
        let place = self.place_of(&reading, database, &statement)?;
        let question = match statement {
            Statement::Query(question) => question,
            Statement::Call(_) | Statement::CallOfRows(_) => {
                return Ok(Description {
                    parameters,
                    columns: Self::called_columns(&statement)?,
                });
            }
            other => {
                let columns = self
                    .returned_by(reading, place, other, database, sql)
                    .await?;
                return Ok(Description {
                    parameters,
                    columns,
                });
            }
        };
        if explained::is_asked(&question.statement) {
            return Ok(Description {
                parameters,
                columns: Some(explained::columns()),
            });
        }
        let session = reading.session(&place);
        let running = self.start(database, sql);
        let memory = pool(&running);
        let planner = &self.queries.planner;
        let planning = planner.plan(&reading, &session, &place, *question, None, &memory);
        let query = plan_time::within(&running, planning).await?;
        let schema = query.plan.schema();
        Ok(Description {
            parameters,
            columns: Some(headed(&schema, query.headings.as_ref())),
        })
    }

    /// The columns of what a statement answers of the rows that it writes; `None` = it answers how many there are.
    async fn returned_by(
        &self,
        reading: ReadContext,
        place: NameScope,
        statement: Statement,
        database: &str,
        sql: &str,
    ) -> Result<Option<SchemaRef>, Error> {
        let (items, table) = match statement {
            Statement::Insert(insert) => {
                (insert.returning.clone(), write::table_of_insert(&insert))
            }
            Statement::Update(update) => (
                update.returning.clone(),
                write::table_of(std::slice::from_ref(&update.table)),
            ),
            Statement::Delete(delete) => {
                (delete.returning.clone(), write::table_of_delete(&delete))
            }
            _ => return Ok(None),
        };
        let (Some(returning), Some((path, alias))) = (Returning::of(items), table) else {
            return Ok(None);
        };
        let name = Path::of(&path)?.table(&place)?;
        let schema = names::shown_schema(&reading.snapshot, &name)?;
        let running = self.start(database, sql);
        let writing = self.writing(reading, place, running, Some(returning));
        writing.returned_columns(&alias, &schema).await
    }

    /// The same of a statement that takes no parameters: what is shown is cheap to ask for.
    async fn described_own(
        &self,
        database: &str,
        sql: &str,
        tokens: Vec<TokenWithSpan>,
    ) -> Result<Description, Error> {
        let bounds = Bounds::of(self.options());
        let statement = statement::parse_tokens(tokens, sql, bounds, &Params::new())?;
        let columns = match statement {
            Statement::Show(_) => {
                let answer = Box::pin(self.carry_out(database, sql, &Params::new())).await?;
                Some(answer.schema())
            }
            _ => None,
        };
        Ok(Description {
            parameters: Vec::new(),
            columns,
        })
    }

    /// The columns of the tables that a statement names, by name, and those of an INSERT by their place too. One that two
    /// tables have with two types says nothing.
    fn columns_named(
        &self,
        reading: &ReadContext,
        database: &str,
        statement: &DfStatement,
    ) -> HashMap<String, DataType> {
        let snapshot = &reading.snapshot;
        let schema = self
            .schema
            .clone()
            .or_else(|| snapshot.default_schema(database));
        let place = NameScope {
            database: database.to_owned(),
            schema: schema.unwrap_or_else(|| DEFAULT_SCHEMA.to_owned()),
        };
        let mut columns: HashMap<String, DataType> = HashMap::new();
        let mut unclear = Vec::new();
        for path in parameter_types::tables(statement) {
            let Ok(name) = Path::of(&path).and_then(|path| path.table(&place)) else {
                continue;
            };
            let (database, schema, table) = (&name.database, &name.schema, &name.table);
            let fields = match snapshot.table(database, schema, table) {
                Some(table) => Arc::clone(&table.shown_columns().schema),
                None => match snapshot.relation(database, schema, table) {
                    Some(relation) => relation.schema().shown_columns().schema,
                    None => continue,
                },
            };
            for (at, field) in fields.fields().iter().enumerate() {
                let kind = parameter_types::of_column(field);
                columns.insert(format!("\u{0}{at}"), kind.clone());
                match columns.get(field.name()) {
                    Some(known) if *known != kind => unclear.push(field.name().clone()),
                    _ => {
                        columns.insert(field.name().clone(), kind);
                    }
                }
            }
        }
        for name in unclear {
            columns.remove(&name);
        }
        columns
    }
}

/// Columns under the names of the answer.
fn headed(schema: &SchemaRef, headings: Option<&Names>) -> SchemaRef {
    match headings {
        Some(names) if names.len() == schema.fields().len() => {
            let fields = schema.fields().iter().zip(names.iter());
            let fields = fields.map(|(field, name)| field.as_ref().clone().with_name(name));
            Arc::new(Schema::new(fields.collect::<Vec<_>>()))
        }
        _ => Arc::clone(schema),
    }
}
