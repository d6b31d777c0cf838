//! Comparisons of a statement's values, wherever in its plan they stand.
//!
//! `slots.rs` knows the statements of one table, whose values stand in the filters of one scan. Here they may stand in joins and
//! sub-selects. Two statements of one shape have one plan with other values in it if nothing but the conditions that the values
//! stand in has been made of them. Does: tell that from the plan before the rules and after. A value has to be unlike all others
//! and unlike every literal that is part of the shape, so that wherever it turns up it is known whose it is; nothing else may be
//! said of the column that it is compared with; and after the rules it may stand in conditions of scans alone, each of the form
//! that it was written in. Does not: look into what is made of scans (`whole.rs`).

use std::collections::HashMap;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    BinaryExpr, Expr, LogicalPlan, Operator, TableScan, WindowFunctionDefinition,
};
use nilometer_engine::{ColumnSource, TimeKind};

use super::shape::{NOW, Shape};
use super::slots::{Asked, Reading, Slot, add_slots, fill, moments_of};
use crate::semantics::zone::{Instant, Zone};
use crate::tables::relation::{Condition, RelationTable};
use crate::tables::table::Table;
use crate::walk::PlanWalk;

const DAY_NS: i64 = 86_400_000_000_000;

/// A value of a shape: texts that a column is one of, or a bound of the time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Compared {
    pub(super) op: Operator,
    pub(super) reading: Reading,
    /// What the values of the first statement were.
    pub(super) texts: Vec<String>,
    /// The time that the text is, of a bound.
    pub(super) time: Option<i64>,
}

impl Compared {
    /// Whether a literal is a value of this one, in whichever type.
    pub(super) fn is(&self, literal: &ScalarValue) -> bool {
        if let Some(text) = literal.try_as_str() {
            return text.is_some_and(|text| self.texts.iter().any(|it| it == text));
        }
        if self.reading == Reading::Number {
            return self.texts.iter().any(|text| is_number(literal, text));
        }
        let Some(time) = self.time else { return false };
        instant_of(literal).is_some_and(|at| at == time)
    }
}

/// Whether a literal of numbers is a whole number, in whichever type.
fn is_number(literal: &ScalarValue, text: &str) -> bool {
    let Ok(number) = text.parse::<i64>() else {
        return false;
    };
    let same = ScalarValue::Int64(Some(number)).cast_to(&literal.data_type());
    literal.data_type().is_numeric() && same.is_ok_and(|same| same == *literal)
}

/// The nanoseconds of a literal that is a time or a day.
fn instant_of(literal: &ScalarValue) -> Option<i64> {
    match literal {
        ScalarValue::TimestampNanosecond(at, _) => *at,
        ScalarValue::TimestampMicrosecond(at, _) => at.and_then(|at| at.checked_mul(1_000)),
        ScalarValue::TimestampMillisecond(at, _) => at.and_then(|at| at.checked_mul(1_000_000)),
        ScalarValue::TimestampSecond(at, _) => at.and_then(|at| at.checked_mul(1_000_000_000)),
        ScalarValue::Date32(day) => day.and_then(|day| i64::from(day).checked_mul(DAY_NS)),
        ScalarValue::Date64(at) => at.and_then(|at| at.checked_mul(1_000_000)),
        ScalarValue::Dictionary(_, value) => instant_of(value),
        _ => None,
    }
}

/// What the values of a shape are compared with, in their order; `None` = the plan may depend on them.
pub(super) fn compared(
    shape: &Shape,
    (asked, optimized): (&LogicalPlan, &LogicalPlan),
    moment: &Asked<'_>,
) -> Result<Option<Vec<Compared>>> {
    let Some(moments) = moments_of(asked)? else {
        return Ok(None);
    };
    let values = shape.values();
    let Some(written) = Written::of(asked, moment, shape.has_numbers())? else {
        return Ok(None);
    };
    let of_now = written.slots.iter().filter(|slot| slot.texts == [NOW]);
    if of_now.count() != moments || written.slots.len() != values.len() {
        return Ok(None);
    }
    if !written.are_distinct(moment) {
        return Ok(None);
    }
    // Which is which is known by what they are, but for moments, whose text says nothing.
    let mut left = written.slots;
    let mut found = Vec::with_capacity(values.len());
    for value in values {
        let Some(at) = left.iter().position(|slot| slot.texts == *value) else {
            return Ok(None);
        };
        found.push(left.remove(at));
    }
    let is_where_it_may_be = stands_in_scans(optimized, &found, moment)?;
    Ok(is_where_it_may_be.then_some(found))
}

/// What a plan compares with, and the other literals that it has.
#[derive(Default)]
struct Written {
    slots: Vec<Compared>,
    others: Vec<ScalarValue>,
    /// How many conditions speak of a column, by its name.
    spoken_of: HashMap<String, usize>,
    /// By slot: its column.
    columns: Vec<String>,
    takes_numbers: bool,
}

impl Written {
    /// `None` = something in it may be other than it was written.
    fn of(asked: &LogicalPlan, moment: &Asked<'_>, takes_numbers: bool) -> Result<Option<Self>> {
        let mut written = Self {
            takes_numbers,
            ..Self::default()
        };
        let mut is_known = true;
        asked.walk(&mut |node| {
            if let LogicalPlan::Filter(filter) = node {
                for condition in split_conjunction(&filter.predicate) {
                    is_known &= written.condition(condition, moment)?;
                }
            } else {
                node.walk_expressions(&mut |expr| {
                    is_known &= written.other(expr)?;
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok((is_known && written.speaks_once()).then_some(written))
    }

    fn condition(&mut self, condition: &Expr, moment: &Asked<'_>) -> Result<bool> {
        let mut slots: Vec<Slot<'_>> = Vec::new();
        let number = if self.takes_numbers {
            number_of(condition)
        } else {
            None
        };
        if number.is_none() {
            add_slots(condition, &mut slots, moment.zone);
        }
        let is_slot = number.is_some() || !slots.is_empty();
        for column in condition.column_refs() {
            let count = self.spoken_of.entry(column.name.clone()).or_default();
            *count = count.saturating_add(if is_slot { 1 } else { usize::MAX });
        }
        if !is_slot {
            return self.other(condition);
        }
        if let Some((column, number)) = number {
            self.columns.push(column.name.clone());
            self.slots.push(Compared {
                op: Operator::Eq,
                reading: Reading::Number,
                texts: vec![number.to_string()],
                time: None,
            });
        }
        for slot in slots {
            let time = match slot.op {
                Operator::Eq => None,
                _ => match slot.values.as_slice() {
                    [text] => slot.reading.time(text, moment),
                    _ => None,
                },
            };
            if slot.op != Operator::Eq && time.is_none() {
                return Ok(false);
            }
            self.columns.push(slot.column.name.clone());
            self.slots.push(Compared {
                op: slot.op,
                reading: slot.reading,
                texts: slot.values.iter().map(ToString::to_string).collect(),
                time,
            });
        }
        Ok(true)
    }

    /// Adds the literals of an expression; false = it calculates with nothing but literals, and who knows what, or is of one
    /// statement.
    fn other(&mut self, expr: &Expr) -> Result<bool> {
        let mut is_known = true;
        expr.apply(|expr| {
            match expr {
                Expr::Literal(literal, _) => self.others.push(literal.clone()),
                Expr::ScalarFunction(call) => {
                    is_known &= call.args.iter().any(Expr::any_column_refs);
                }
                // What it holds is charged to the statement that it was planned for.
                Expr::WindowFunction(call) => {
                    let fun = &call.fun;
                    is_known &= matches!(fun, WindowFunctionDefinition::WindowUDF(_));
                }
                _ => {}
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(is_known)
    }

    /// Whether nothing else is said of a column that values are compared with: one choice, or a bound of each side.
    fn speaks_once(&self) -> bool {
        let slots = || self.slots.iter().zip(&self.columns);
        slots().all(|(slot, name)| {
            let count = self.spoken_of.get(name).copied().unwrap_or_default();
            let is_lower = |op: Operator| matches!(op, Operator::Gt | Operator::GtEq);
            match slot.op {
                Operator::Eq => count == 1,
                op => {
                    let same = slots()
                        .filter(|(other, of)| *of == name && is_lower(other.op) == is_lower(op));
                    count <= 2 && same.count() == 1
                }
            }
        })
    }

    /// Whether each value is unlike all others, and unlike all that is part of the shape.
    fn are_distinct(&self, moment: &Asked<'_>) -> bool {
        let may_be = |literal: &ScalarValue, slot: &Compared| {
            // A text of the shape may be read as a time, in whichever way.
            let read = |text: &str| {
                let ways = [moment.zone.read(text), Zone::read_clock(text)];
                let mut ways = ways.into_iter();
                ways.any(|at| matches!(at, Ok(Instant::At(at)) if Some(at) == slot.time))
            };
            let text = literal.try_as_str().flatten();
            slot.is(literal) || (slot.time.is_some() && text.is_some_and(read))
        };
        let others = self.others.iter();
        let mut pairs = others.flat_map(|other| self.slots.iter().map(move |slot| (other, slot)));
        if pairs.any(|(other, slot)| may_be(other, slot)) {
            return false;
        }
        let mut texts: Vec<&String> = self.slots.iter().flat_map(|slot| &slot.texts).collect();
        texts.retain(|text| *text != NOW);
        let mut times: Vec<i64> = self.slots.iter().filter_map(|slot| slot.time).collect();
        texts.sort_unstable();
        times.sort_unstable();
        texts.array_windows().all(|[one, next]| one != next)
            && times.array_windows().all(|[one, next]| one != next)
    }
}

/// The column and the whole number that a condition compares with it.
fn number_of(condition: &Expr) -> Option<(&Column, i64)> {
    let Expr::BinaryExpr(BinaryExpr {
        left,
        op: Operator::Eq,
        right,
    }) = condition
    else {
        return None;
    };
    match (left.as_ref(), right.as_ref()) {
        (Expr::Column(column), Expr::Literal(ScalarValue::Int64(Some(number @ 0..)), None)) => {
            Some((column, *number))
        }
        _ => None,
    }
}

/// Whether each value stands in conditions of scans alone, and in one at least.
fn stands_in_scans(
    optimized: &LogicalPlan,
    slots: &[Compared],
    moment: &Asked<'_>,
) -> Result<bool> {
    let mut found = vec![false; slots.len()];
    let mut is_known = true;
    optimized.walk(&mut |node| {
        if let LogicalPlan::TableScan(scan) = node {
            for filter in &scan.filters {
                let mut named = slots.iter().enumerate();
                let mut own = None;
                for (at, slot) in named.by_ref() {
                    if has_value(filter, slot)? {
                        is_known &= own.is_none() && is_own(slot, filter, scan, moment);
                        own = Some(at);
                    }
                }
                if let Some(found) = own.and_then(|at| found.get_mut(at)) {
                    *found = true;
                }
            }
        } else {
            node.walk_expressions(&mut |expr| {
                for slot in slots {
                    is_known &= !has_value(expr, slot)?;
                }
                expr.apply(|expr| {
                    is_known &= !matches!(
                        expr,
                        Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_)
                    );
                    Ok(TreeNodeRecursion::Continue)
                })
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(is_known && found.iter().all(|found| *found))
}

/// Whether a value stands in an expression.
pub(super) fn has_value(expr: &Expr, slot: &Compared) -> Result<bool> {
    expr.exists(|expr| Ok(matches!(expr, Expr::Literal(literal, _) if slot.is(literal))))
}

/// Whether a condition of a scan is the one that a value was written in, on a column where that is all that it says.
fn is_own(slot: &Compared, filter: &Expr, scan: &TableScan, moment: &Asked<'_>) -> bool {
    if slot.op != Operator::Eq
        && !matches!(filter, Expr::BinaryExpr(BinaryExpr { op, .. }) if *op == slot.op)
    {
        return false;
    }
    if !is_made_of(filter, slot, moment) {
        return false;
    }
    let columns = filter.column_refs();
    let mut columns = columns.iter();
    let (Some(column), None) = (columns.next(), columns.next()) else {
        return false;
    };
    is_plain_column(scan, &column.name, filter, slot.op == Operator::Eq).unwrap_or(false)
}

/// Whether a condition is what the values of a slot make of it.
pub(super) fn is_made_of(filter: &Expr, slot: &Compared, moment: &Asked<'_>) -> bool {
    let mut again = filter.clone();
    let mut texts = slot.texts.iter().map(String::as_str);
    let filled = fill(&mut again, &mut texts, (slot.reading, moment));
    filled.is_some() && texts.next().is_none() && again == *filter
}

/// Whether a column is a tag of text, the time, or a relation's text.
fn is_plain_column(scan: &TableScan, name: &str, filter: &Expr, is_choice: bool) -> Option<bool> {
    let provider = source_as_provider(&scan.source).ok()?;
    if let Some(table) = provider.downcast_ref::<Table>() {
        let schema = table.table_schema();
        let position = schema.shown_columns().named(name)?;
        return Some(match schema.source(position)? {
            ColumnSource::Tag(tag) => is_choice && schema.tags.get(tag)?.of().is_none(),
            ColumnSource::Time => !is_choice && schema.time().1 == TimeKind::TimestampTz,
            ColumnSource::Field(_) => false,
        });
    }
    let relation = provider.downcast_ref::<RelationTable>()?.relation();
    let is_text = matches!(Condition::of(relation, filter), Some(Condition::OneOf(..)));
    Some(is_choice && is_text)
}
