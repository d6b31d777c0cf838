//! Numbers of `SERIAL` and identity columns, put into the rows of an INSERT.
//!
//! Does: ask for as many numbers as a statement needs, before it writes, and put them in the place of `DEFAULT` or of a column
//! that is left out. Does not: keep sequences (`nilometer_service::define` does).

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::Field;
use datafusion::sql::sqlparser::ast::{
    self, Assignment, AssignmentTarget, Expr, UnaryOperator, Value,
};
use nilometer_service::Fault;
use nilometer_service::define::{self, Numbered, NumberedBy};

use super::Rules;
use crate::error::Error;
use crate::execution::blocking;
use crate::statement::name::{Path, quoted};
use crate::statement::rewrite::call_of;
use crate::statement::rewrite::overriding::Overriding;
use crate::write::rows::{batch_of, execution, fitted};
use crate::write::writing::Writing;

/// Whether a value is the word DEFAULT.
pub(in crate::write) fn is_default(value: &Expr) -> bool {
    matches!(value, Expr::Identifier(name)
        if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("default"))
}

/// A number as a statement has it.
pub(super) fn literal(number: i64) -> Expr {
    let digits = Value::Number(number.unsigned_abs().to_string(), false);
    let digits = Expr::Value(digits.with_empty_span());
    if number >= 0 {
        return digits;
    }
    Expr::UnaryOp {
        op: UnaryOperator::Minus,
        expr: Box::new(digits),
    }
}

impl Rules {
    /// What a column is numbered by; `None` = its default is none or another.
    fn numbers_of(&self, name: &str) -> Option<Numbered> {
        let at = self.schema.index_of(name).ok()?;
        Numbered::of(self.columns.get(at)?.default.as_deref()?)
    }

    /// Puts what a column says in the place of `DEFAULT` among what columns are set to, and refuses another value where a column
    /// is always generated.
    pub(in crate::write) fn assign(
        &self,
        assignments: &mut [Assignment],
        writing: &mut Writing<'_>,
    ) -> Result<(), Error> {
        for assignment in assignments {
            let AssignmentTarget::ColumnName(target) = &assignment.target else {
                continue;
            };
            let name = Path::of(target)?.last;
            let numbered = self.numbers_of(&name.text);
            let is_always = matches!(&numbered, Some(it) if it.how == NumberedBy::Always);
            if is_default(&assignment.value) {
                assignment.value = match numbered {
                    None => self.default(&name.text, writing)?,
                    Some(numbered) => {
                        writing.reading.asks_names = true;
                        self.next_number(&numbered)
                    }
                };
            } else if is_always {
                return Err(Error::Definition {
                    message: format!(
                        "column \"{}\" can only be updated to DEFAULT: it is GENERATED ALWAYS AS IDENTITY",
                        name.text
                    ),
                    fault: Fault::GeneratedAlways,
                    position: name.position,
                });
            }
        }
        Ok(())
    }

    /// The call for the next number of a sequence.
    fn next_number(&self, numbered: &Numbered) -> Expr {
        let (database, schema) = self.place.clone().unwrap_or_default();
        let names = [&database, &schema, &numbered.sequence].map(|part| quoted(part));
        let name = Value::SingleQuotedString(names.join("."));
        call_of("nextval", vec![Expr::value(name)])
    }

    /// By column, the numbers that stand in the place of DEFAULT among values.
    pub(super) async fn numbers(
        &self,
        source: &ast::Query,
        columns: &[Field],
        writing: &Writing<'_>,
    ) -> Result<Vec<std::vec::IntoIter<i64>>, Error> {
        let mut wanted = Vec::new();
        for (at, field) in columns.iter().enumerate() {
            let Some(numbered) = self.numbers_of(field.name()) else {
                wanted.push((String::new(), 0));
                continue;
            };
            let (defaults, others) = match source.body.as_ref() {
                ast::SetExpr::Values(values) => {
                    let rows = values.rows.iter();
                    let cells = rows.filter_map(|row| row.content.get(at));
                    let defaults = cells.clone().filter(|it| is_default(it)).count();
                    (defaults, cells.count() - defaults)
                }
                _ => (0, 1),
            };
            if numbered.how == NumberedBy::Always && others > 0 && self.overriding.is_none() {
                return Err(Error::Definition {
                    message: format!(
                        "cannot insert a non-DEFAULT value into column \"{}\": it is GENERATED ALWAYS AS IDENTITY; leave it out, or write OVERRIDING SYSTEM VALUE",
                        field.name()
                    ),
                    fault: Fault::GeneratedAlways,
                    position: None,
                });
            }
            wanted.push((numbered.sequence, defaults));
        }
        let mut numbers = Vec::with_capacity(wanted.len());
        for (sequence, count) in wanted {
            numbers.push(self.take(writing, sequence, count).await?.into_iter());
        }
        Ok(numbers)
    }

    /// Rows without what was written for identity columns, where they take their own numbers whatever was written.
    pub(in crate::write) fn own_numbers(&self, batch: RecordBatch) -> Result<RecordBatch, Error> {
        if self.overriding != Some(Overriding::User) {
            return Ok(batch);
        }
        let is_identity = |name: &str| {
            let numbered = self.numbers_of(name);
            matches!(numbered, Some(it) if it.how != NumberedBy::Default)
        };
        let fields = batch.schema();
        let kept = fields.fields().iter().enumerate();
        let kept = kept.filter(|(_, field)| !is_identity(field.name()));
        let kept: Vec<usize> = kept.map(|(at, _)| at).collect();
        batch.project(&kept).map_err(execution)
    }

    /// Rows with the numbers of the columns that they lack, and what else they lack.
    pub(super) async fn numbered<'f>(
        &self,
        writing: &Writing<'_>,
        batch: RecordBatch,
        missing: Vec<(&'f Field, &'f str)>,
    ) -> Result<(RecordBatch, Vec<(&'f Field, &'f str)>), Error> {
        let rows = batch.num_rows();
        let mut others = Vec::new();
        let mut made: Vec<(Field, ArrayRef)> = Vec::new();
        for (field, default) in missing {
            let Some(numbered) = Numbered::of(default) else {
                others.push((field, default));
                continue;
            };
            let numbers = self.take(writing, numbered.sequence, rows).await?;
            let array: ArrayRef = Arc::new(Int64Array::from(numbers));
            let array = fitted(&array, field, None, &writing.reading.zone)?;
            made.push((field.clone(), array));
        }
        if made.is_empty() {
            return Ok((batch, others));
        }
        let fields = batch.schema();
        let given = fields.fields().iter().map(|field| field.as_ref().clone());
        let mut columns: Vec<(Field, ArrayRef)> =
            given.zip(batch.columns().iter().cloned()).collect();
        columns.extend(made);
        Ok((batch_of(columns, rows)?, others))
    }

    pub(super) async fn take(
        &self,
        writing: &Writing<'_>,
        sequence: String,
        count: usize,
    ) -> Result<Vec<i64>, Error> {
        let Some((database, schema)) = self.place.clone().filter(|_| count > 0) else {
            return Ok(Vec::new());
        };
        let name = define::TableName {
            database,
            schema,
            table: sequence,
        };
        let sequences = Arc::clone(&writing.queries.shared.sequences);
        let engine = Arc::clone(&writing.writer.engine);
        if let Some(taken) = sequences.take_at_hand(&engine, &name, count) {
            if let Some(last) = taken.last() {
                writing.reading.numbers().given(&name, *last);
            }
            return Ok(taken);
        }
        let executor = writing.executor();
        let taken = move || {
            let taken = sequences.take(&engine, &name, count);
            let taken = taken.map_err(Error::of_service)?;
            Ok((taken, name))
        };
        let (taken, name) = blocking(&executor, taken).await?;
        if let Some(last) = taken.last() {
            writing.reading.numbers().given(&name, *last);
        }
        Ok(taken)
    }
}
