//! MERGE into a relation: rows of a source are compared with those of the relation, and each pair, or each row without one, is
//! treated as the first clause says whose condition holds.
//!
//! Does: find the rows of each clause by a query of its own, all on one snapshot, and write what becomes of them as one batch.
//! Does not: write tables over time.

use datafusion::sql::sqlparser::ast::{
    self, Expr, Merge, MergeAction, MergeClause, MergeClauseKind, MergeInsertExpr, MergeInsertKind,
};
use nilometer_engine::{RelationChange, RelationSchema};
use nilometer_service::Fault;

use super::super::declared::Rules;
use super::super::insert::{rows, unsupported};
use super::super::rows::first_of_each;
use super::super::source::{Sources, item, only_table, select};
use super::super::update::assigned;
use super::super::writing::{Kept, TRIES_MAX, Writing, is_overtaken};
use super::{
    Tried, changed_columns, key_columns, key_texts, keys, moves, old_name, schema_of, shall_be,
    with_numbers, write,
};
use crate::error::Error;
use crate::statement::name::{Path, TableName};
use crate::statement::rewrite::merge::does_nothing;
use crate::tables::{names, relation};

/// Carries out a MERGE. Returns how many rows it changed.
pub(crate) async fn merge(
    mut writing: Writing<'_>,
    merge: Merge,
) -> Result<(u64, Writing<'_>), Error> {
    let target = ast::TableWithJoins {
        relation: merge.table.clone(),
        joins: Vec::new(),
    };
    let (name, target) = only_table(&[target], "MERGE", &writing.place)?;
    writing.allow(&name)?;
    if relation::find(&writing.reading.snapshot, &name).is_none() {
        writing.table(&name)?;
        return Err(unsupported(
            "MERGE into a table with a time",
            "write INSERT ... ON CONFLICT, UPDATE ... FROM or DELETE ... USING",
        ));
    }
    if merge.output.is_some() {
        return Err(unsupported("MERGE ... RETURNING", "leave it out"));
    }
    let source = ast::TableWithJoins {
        relation: merge.source,
        joins: Vec::new(),
    };
    let merging = Merging {
        name,
        target,
        source,
        on: *merge.on,
        clauses: merge.clauses,
    };
    let mut tries = 0;
    loop {
        tries += 1;
        let (done, back) = merging.once(writing).await?;
        match done {
            Err(error) if is_overtaken(&error) && tries < TRIES_MAX => writing = back.again(),
            done => return Ok((done?, back)),
        }
    }
}

struct Merging {
    name: TableName,
    target: ast::TableWithJoins,
    source: ast::TableWithJoins,
    on: Expr,
    clauses: Vec<MergeClause>,
}

/// What becomes of the relation.
#[derive(Default)]
struct Changes {
    /// Keys of rows that are changed or go.
    touched: Vec<String>,
    gone: Vec<Vec<nilometer_engine::Value>>,
    replaced: Vec<Vec<nilometer_engine::Value>>,
    new: Vec<Vec<nilometer_engine::Value>>,
    rows: usize,
}

impl Merging {
    async fn once<'a>(&self, writing: Writing<'a>) -> Result<Tried<'a>, Error> {
        let schema = schema_of(&writing, &self.name)?;
        let snapshot = std::sync::Arc::clone(&writing.reading.snapshot);
        let mut changes = Changes::default();
        let mut writing = writing;
        let mut before: Vec<&MergeClause> = Vec::new();
        for clause in &self.clauses {
            let of_kind = before
                .iter()
                .filter(|it| it.clause_kind == clause.clause_kind);
            let mut conditions: Vec<Expr> = of_kind.map(|it| is_not_true(it)).collect();
            conditions.extend(clause.predicate.clone().map(nested));
            before.push(clause);
            if does_nothing(&clause.action) {
                continue;
            }
            writing = match &clause.action {
                MergeAction::Insert(insert) => {
                    self.insert(writing, &schema, insert, conditions, &mut changes)
                        .await?
                }
                MergeAction::Update(update) => {
                    let assignments = Some(update.assignments.clone());
                    self.change(writing, &schema, assignments, conditions, &mut changes)
                        .await?
                }
                MergeAction::Delete { .. } => {
                    self.change(writing, &schema, None, conditions, &mut changes)
                        .await?
                }
            };
        }
        if first_of_each(&changes.touched).is_some() {
            return Err(Error::Definition {
                message: "MERGE command cannot affect row a second time; more than one row of the source matches it: make the rows of the source distinct".to_owned(),
                position: None,
                fault: Fault::ManyRows,
            });
        }
        let memory = writing.reserve();
        let rows = changes.rows;
        let changes = changes.in_order(&schema);
        Ok(write(writing, &self.name, &snapshot, changes, rows, memory).await)
    }

    /// Adds what becomes of pairs: a DELETE, or an UPDATE if something is assigned.
    async fn change<'a>(
        &self,
        mut writing: Writing<'a>,
        schema: &std::sync::Arc<RelationSchema>,
        assignments: Option<Vec<ast::Assignment>>,
        mut conditions: Vec<Expr>,
        changes: &mut Changes,
    ) -> Result<Writing<'a>, Error> {
        let sources = Sources::new(self.target.clone(), [self.source.clone()]);
        let rules = Rules::of_relation(schema).at(&self.name);
        conditions.insert(0, nested(self.on.clone()));
        let deletes = assignments.is_none();
        let mut assignments = assignments.unwrap_or_default();
        rules.assign(&mut assignments, &mut writing)?;
        let (values, position) = assigned(&schema.shown_columns().schema, &assignments)?;
        let columns = if deletes {
            let keys = key_columns(schema);
            keys.map(|name| item(sources.column(name), &old_name(name)))
                .collect()
        } else {
            changed_columns(schema, &values, |name| sources.column(name))
        };
        let query = sources.select(columns, all_of(conditions))?;
        let reading = writing.reading.changing(self.name.clone());
        let (session, plan) = writing.plan(&reading, query).await?;
        let arrow = std::sync::Arc::clone(plan.schema().inner());
        let mut kept = Kept::new(writing.reserve());
        let writing = writing
            .run(&session, &plan, |batch| kept.add(&batch))
            .await?;
        let (batch, _memory) = kept.together(&arrow)?;
        changes.touched.extend(key_texts(schema, &batch)?);
        changes.rows += batch.num_rows();
        if deletes {
            changes.gone.extend(keys(schema, &batch)?);
            return Ok(writing);
        }
        let new = shall_be(schema, &batch, position, &reading.zone)?;
        let writing = Rules::of_relation(schema).checked(writing, &new).await?;
        let keys = keys(schema, &batch)?;
        let rows = with_numbers(schema, schema.rows_of(&new)?, &keys);
        if moves(schema, &values) {
            changes.gone.extend(keys);
            changes.new.extend(rows);
        } else {
            changes.replaced.extend(rows);
        }
        Ok(writing)
    }

    /// Adds new rows, of rows of the source that match none.
    async fn insert<'a>(
        &self,
        mut writing: Writing<'a>,
        schema: &std::sync::Arc<RelationSchema>,
        insert: &MergeInsertExpr,
        mut conditions: Vec<Expr>,
        changes: &mut Changes,
    ) -> Result<Writing<'a>, Error> {
        let rules = Rules::of_relation(schema).at(&self.name);
        writing.reading.asks_names |= rules.asks_names();
        let MergeInsertKind::Values(values) = &insert.kind else {
            return Err(unsupported(
                "INSERT ROW in MERGE",
                "write INSERT VALUES (...)",
            ));
        };
        let [values] = values.rows.as_slice() else {
            return Err(unsupported(
                "INSERT of several rows in MERGE",
                "write VALUES (...) of one row",
            ));
        };
        let arrow = schema.shown_columns().schema;
        let mut fields = Vec::new();
        for path in &insert.columns {
            let name = Path::of(path)?.last;
            let Ok(field) = arrow.field_with_name(&name.text) else {
                return Err(names::unknown_column_of(&arrow, &name));
            };
            fields.push(field.clone());
        }
        if insert.columns.is_empty() {
            let first = arrow.fields().iter().take(values.content.len());
            fields.extend(first.map(|field| field.as_ref().clone()));
        }
        if fields.len() != values.content.len() {
            return Err(Error::Syntax {
                message: format!(
                    "INSERT of MERGE names {} columns and has {} values; give each column its value",
                    fields.len(),
                    values.content.len()
                ),
                position: self.name.position,
            });
        }
        // What says DEFAULT is left out, and gets it with the others.
        let given = fields.into_iter().zip(&values.content);
        let given = given.filter(|(_, value)| !super::super::declared::is_default(value));
        let (fields, items): (Vec<_>, Vec<_>) = given
            .map(|(field, value)| {
                let value = item(value.clone(), field.name());
                (field, value)
            })
            .unzip();
        if fields.is_empty() {
            return Err(unsupported(
                "INSERT of nothing but defaults in MERGE",
                "name a column and its value",
            ));
        }
        conditions.insert(0, self.is_without_match()?);
        let query = select(items, vec![self.source.clone()], all_of(conditions))?;
        let selected = rows(writing, query, fields, self.name.position).await;
        let (batch, _memory, writing) = selected.map_err(|error| self.of_target(schema, error))?;
        let (batch, writing) = rules.inserted(writing, batch).await?;
        changes.rows += batch.num_rows();
        changes.new.extend(schema.rows_of(&batch)?);
        Ok(writing)
    }

    /// The error of a column that is not among those of the source, where it is one of the relation.
    fn of_target(&self, schema: &RelationSchema, error: Error) -> Error {
        let (name, position) = match &error {
            Error::UnknownColumn { name, position, .. } => (name, *position),
            _ => return error,
        };
        if schema.columns.iter().all(|column| column.name != *name) {
            return error;
        }
        Error::Definition {
            message: format!(
                "WHEN NOT MATCHED has no row of \"{}\", so its column \"{name}\" has no value there; use the columns of the source",
                self.name.table
            ),
            fault: Fault::UnknownTable,
            position,
        }
    }

    /// That a row of the source has no row of the relation.
    fn is_without_match(&self) -> Result<Expr, Error> {
        let one = item(
            Expr::value(ast::Value::Number("1".to_owned(), false)),
            "one",
        );
        let matching = select(vec![one], vec![self.target.clone()], Some(self.on.clone()))?;
        Ok(Expr::Exists {
            subquery: Box::new(matching),
            negated: true,
        })
    }
}

impl Changes {
    /// Rows that go before those that come, which may have their keys.
    fn in_order(self, schema: &std::sync::Arc<RelationSchema>) -> Vec<RelationChange> {
        let of = || std::sync::Arc::clone(schema);
        let mut all = Vec::new();
        if !self.gone.is_empty() {
            all.push(RelationChange::Delete(of(), self.gone));
        }
        if !self.replaced.is_empty() {
            all.push(RelationChange::Replace(of(), self.replaced));
        }
        if !self.new.is_empty() {
            all.push(RelationChange::Insert(of(), self.new));
        }
        all
    }
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

/// That a clause before did not take the pair.
fn is_not_true(clause: &MergeClause) -> Expr {
    match &clause.predicate {
        Some(condition) => Expr::IsNotTrue(Box::new(nested(condition.clone()))),
        None => Expr::value(ast::Value::Boolean(false)),
    }
}

fn all_of(conditions: Vec<Expr>) -> Option<Expr> {
    conditions.into_iter().reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: ast::BinaryOperator::And,
        right: Box::new(right),
    })
}

/// Refuses a clause of another dialect.
pub(crate) fn check(merge: &Merge) -> Result<(), Error> {
    let is_other = |clause: &MergeClause| {
        let is_other_kind = !matches!(
            clause.clause_kind,
            MergeClauseKind::Matched | MergeClauseKind::NotMatched
        );
        is_other_kind
            || match &clause.action {
                MergeAction::Insert(insert) => insert.insert_predicate.is_some(),
                MergeAction::Update(update) => {
                    update.update_predicate.is_some() || update.delete_predicate.is_some()
                }
                MergeAction::Delete { .. } => false,
            }
    };
    if merge.clauses.is_empty() || merge.clauses.iter().any(is_other) {
        return Err(unsupported(
            "this form of MERGE",
            "write WHEN [NOT] MATCHED [AND condition] THEN UPDATE SET ..., DELETE, INSERT ... VALUES (...) or DO NOTHING",
        ));
    }
    Ok(())
}
