//! A query inside that only calculates: its columns as expressions over the fields of its measurement.
//!
//! Does: say whether each row of such a query is made of one row of one measurement, and translate its columns, so that
//! aggregates of them are one series query and no row of it is made. Does not: aggregate (`stored` does), or translate
//! conditions (`planned::pushed` does).

use nilometer_influxql_syntax::ast::{Expr, Fill, Operator, Reference};
use nilometer_series::{self as series, Binary, Function};

use crate::select::checked::fold::literal;
use crate::select::planned::names::field_kind;
use crate::select::planned::plan::{Input, Plan, Table};
use crate::select::planned::pushed::is_tag;
use crate::select::planned::types::kind_of_cast;
use crate::select::steps::frame::Frame;
use crate::select::steps::read::{Wanted, stored};
use crate::select::steps::symbols::Symbols;
use crate::select::values::value::{Kind, Value};

/// A query inside whose rows are those of a measurement, calculated each by itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inside<'a> {
    pub(crate) table: &'a Table,
    plan: &'a Plan,
}

impl<'a> Inside<'a> {
    /// `None` = its rows have to be made, because some are left out, filled, put in another order, or are of other rows.
    pub(crate) fn of(around: &'a Plan, frame: &Frame, now_ns: i64) -> Option<Self> {
        let [Input::Nested(plan)] = around.inputs.as_slice() else {
            return None;
        };
        let [Input::Table(table)] = plan.inputs.as_slice() else {
            return None;
        };
        let inner = frame.inner(plan, now_ns);
        let is_whole = plan.limit == 0 && plan.offset == 0 && inner.series == (0, 0);
        let is_plain = matches!(plan.fill, Fill::Null | Fill::None) && plan.window.is_none();
        let has_order = plan.ascending == around.ascending;
        // Rows of several groups inside come one group after the other, so that each of them opens buckets of its own.
        let is_bucketed = frame.window.is_none() || inner.group == frame.group;
        let is_raw = plan.is_raw && Symbols::of(plan).calls.is_empty();
        let is_such = is_whole && is_plain && has_order && is_bucketed && is_raw;
        (is_such && around.condition.is_none()).then_some(Self { table, plan })
    }

    /// Its range of time, in that of the query around it, and its condition.
    pub(crate) fn narrowed<'w>(self, wanted: Wanted<'w>) -> Wanted<'w>
    where
        'a: 'w,
    {
        Wanted {
            condition: self.plan.condition.as_ref(),
            first_ns: wanted.first_ns.max(self.plan.first_ns),
            last_ns: wanted.last_ns.min(self.plan.last_ns),
            ..wanted
        }
    }

    /// A column of it, and its type; `None` = it is no calculation with numbers, or is read as another type.
    pub(crate) fn column(self, name: &Reference) -> Option<(series::Expr, Kind)> {
        let mut outputs = self.plan.outputs.iter();
        let output = outputs.find(|output| *output.name == *name.name)?;
        let (expr, kind) = number(&output.expr, self.table)?;
        // Of constants alone there is a value only in rows that have another one.
        let mut has_field = false;
        let mut look = |expr: &Expr| has_field |= matches!(expr, Expr::Reference(_));
        output.expr.walk(&mut look);
        if !has_field || kind_of_cast(name.cast) != Some(kind) {
            return None;
        }
        Some(match kind {
            // What is no number is no value.
            Kind::Float => (series::Expr::Call(Function::NullIfNan, vec![expr]), kind),
            _ => (expr, kind),
        })
    }
}

/// A calculation with floats and integers as the series' engine has it, with its type. It is null where one of its operands is.
fn number(expr: &Expr, table: &Table) -> Option<(series::Expr, Kind)> {
    match expr {
        Expr::Paren(inner) => number(inner, table),
        Expr::Reference(reference) => field(reference, table),
        Expr::Binary(operator, left, right) => {
            let (left, one) = number(left, table)?;
            let (right, two) = number(right, table)?;
            let operator = match operator {
                Operator::Add => Binary::Add,
                Operator::Sub => Binary::Subtract,
                Operator::Mul => Binary::Multiply,
                Operator::Div => Binary::Divide,
                // The rest of a division by zero is NaN among fields there, and zero in a series query.
                _ => return None,
            };
            // Integers divide to floats.
            let kind = if operator == Binary::Divide {
                Kind::Float
            } else {
                one.min(two)
            };
            Some((series::Expr::binary(operator, left, right), kind))
        }
        Expr::Call(call) => {
            let [argument] = call.arguments.as_slice() else {
                return None;
            };
            let (of, own) = number(argument, table)?;
            let (function, kind) = match call.name.as_str() {
                "floor" => (Function::Floor, own),
                "ceil" => (Function::Ceil, own),
                "abs" => (Function::Abs, own),
                "sqrt" => (Function::Sqrt, Kind::Float),
                _ => return None,
            };
            Some((series::Expr::Call(function, vec![of]), kind))
        }
        other => match literal(other)? {
            Value::Float(value) => Some((series::Expr::literal(value), Kind::Float)),
            Value::Integer(value) => Some((series::Expr::literal(value), Kind::Integer)),
            _ => None,
        },
    }
}

/// A field that is of one type in all tables of the measurement.
fn field(reference: &Reference, table: &Table) -> Option<(series::Expr, Kind)> {
    let is_number = |kind: Kind| matches!(kind, Kind::Float | Kind::Integer);
    let kind = kind_of_cast(reference.cast).filter(|kind| is_number(*kind))?;
    if is_tag(reference, table) {
        return None;
    }
    let kinds = table
        .schemas
        .iter()
        .map(|schema| field_kind(schema, &reference.name));
    let mut kinds = kinds.collect::<Option<Vec<Kind>>>()?;
    kinds.dedup();
    match kinds.as_slice() {
        [own] if is_number(*own) => Some((stored(reference, table)?, kind)),
        _ => None,
    }
}
