//! The places of values in a plan.
//!
//! Whether a plan depends on the values of a statement is decided when it is kept, from the plan before and after the rules.
//! Each value has to be a bound of the time or a choice of a tag's values, in a condition of its own that all rows must meet,
//! and no other condition may speak of the same column: then the planner has nothing to compare it with. And it has to be in the
//! filters of the scan alone afterwards. `now()`, and an interval before or after it, is such a value too.
//! Does not: read intervals of months, or of days where clocks are set.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, ScalarValue, TableReference};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, TableScan, Volatility};
use nilometer_engine::{ColumnSource, TableSchema, TimeKind};

use super::shape::NOW;
use crate::semantics::zone::{Instant, Zone};
use crate::statement::name::{NameScope, TableName};
use crate::tables::table::Table;
use crate::walk::PlanWalk;

const DAY_NS: i64 = 86_400_000_000_000;

/// Where and when a statement is asked.
#[derive(Debug, Clone)]
pub(crate) struct Asked<'a> {
    pub(crate) zone: &'a Zone,
    /// What `now()` says.
    pub(crate) now_ns: i64,
    /// Sums of integers are `numeric`.
    pub(crate) sums_numeric: bool,
}

/// How a text is read as a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// With the offset that it has.
    Text,
    /// As what a clock shows, after TIMESTAMP: its offset is left out.
    Clock,
    /// It is `now()`, and so many nanoseconds.
    Now(i64),
    /// It is a whole number, and no time.
    Number,
}

impl Reading {
    /// The time of a text. One that is beyond all times makes another plan.
    pub(super) fn time(self, text: &str, asked: &Asked<'_>) -> Option<i64> {
        let at = |instant: Result<Instant, String>| match instant {
            Ok(Instant::At(time)) => Some(time),
            _ => None,
        };
        match self {
            Self::Text => at(asked.zone.read(text)),
            Self::Clock => {
                let clock = at(Zone::read_clock(text))?;
                if asked.zone.is_utc() {
                    return Some(clock);
                }
                at(Ok(asked.zone.instant(clock)))
            }
            Self::Now(offset) => asked.now_ns.checked_add(offset),
            Self::Number => None,
        }
    }
}

/// A condition that compares with values of the shape.
pub(super) struct Slot<'a> {
    pub(super) column: &'a Column,
    pub(super) op: Operator,
    pub(super) values: Vec<&'a str>,
    pub(super) reading: Reading,
}

/// What a value stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// The choice of a tag.
    Tag(String),
    /// A bound of the time.
    Time(Operator),
}

/// Where the values of a shape are.
#[derive(Debug, Clone)]
pub(super) struct Slots {
    pub(super) name: TableName,
    pub(super) schema: Arc<TableSchema>,
    /// By value of the shape: which filter of the scan has it, and what it is.
    pub(super) filters: Vec<usize>,
    pub(super) places: Vec<(Place, Reading)>,
}

impl Slots {
    /// The places of a statement's values, before and after the rules; `None` = its plan may depend on them.
    pub(super) fn find(
        place: &NameScope,
        values: &[Vec<String>],
        (asked, optimized): (&LogicalPlan, &LogicalPlan),
        moment: &Asked<'_>,
    ) -> Result<Option<Self>> {
        let Some(moments) = moments_of(asked)? else {
            return Ok(None);
        };
        let (Some(own), Some(scan)) = (scan_of(asked), scan_of(optimized)) else {
            return Ok(None);
        };
        let name = resolved(&own.table_name, place);
        let provider = source_as_provider(&scan.source)?;
        let Some(table) = provider.downcast_ref::<Table>() else {
            return Ok(None);
        };
        let mut found = Self {
            name,
            schema: Arc::clone(table.table_schema()),
            filters: Vec::with_capacity(values.len()),
            places: Vec::with_capacity(values.len()),
        };
        if values.is_empty() {
            return Ok((moments == 0).then_some(found));
        }
        let conditions = conditions(asked);
        let Some(slots) = slots(&conditions, &found.schema, moment.zone) else {
            return Ok(None);
        };
        let of_now = |slot: &&Slot<'_>| matches!(slot.reading, Reading::Now(_));
        if slots.iter().filter(of_now).count() != moments {
            return Ok(None);
        }
        // What the tokens say is compared with is what the planner compares with.
        let is_same = slots.len() == values.len()
            && slots
                .iter()
                .zip(values)
                .all(|(slot, values)| slot.values.iter().eq(values.iter()));
        if !is_same {
            return Ok(None);
        }
        for (slot, values) in slots.iter().zip(values) {
            let Some(filter) = filter_of(slot, values, &scan.filters, moment) else {
                return Ok(None);
            };
            found.filters.push(filter);
            let place = match slot.op {
                Operator::Eq => found.tag(&slot.column.name).map(Place::Tag),
                op => Some(Place::Time(op)),
            };
            let Some(place) = place else {
                return Ok(None);
            };
            found.places.push((place, slot.reading));
        }
        if is_elsewhere(optimized, scan, &found.filters)? {
            return Ok(None);
        }
        Ok(Some(found))
    }

    /// The tag that SQL shows under a name.
    fn tag(&self, shown: &str) -> Option<String> {
        let position = self.schema.shown_columns().named(shown)?;
        match self.schema.source(position)? {
            ColumnSource::Tag(tag) => Some(self.schema.tags.get(tag)?.name.clone()),
            ColumnSource::Time | ColumnSource::Field(_) => None,
        }
    }
}

/// How often a plan has `now()`; `None` = something else in it has another value each time.
pub(super) fn moments_of(asked: &LogicalPlan) -> Result<Option<usize>> {
    let mut moments = 0;
    let mut is_constant = true;
    asked.walk(&mut |node| {
        node.walk_expressions(&mut |expr| {
            expr.apply(|expr| {
                is_constant &= match expr {
                    Expr::ScalarFunction(call) if is_now(call) => {
                        moments += 1;
                        true
                    }
                    Expr::ScalarFunction(function) => {
                        function.func.signature().volatility == Volatility::Immutable
                    }
                    Expr::ScalarVariable(..) | Expr::Placeholder(_) => false,
                    _ => true,
                };
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(is_constant.then_some(moments))
}

fn is_now(call: &ScalarFunction) -> bool {
    call.func.name() == "now" && call.args.is_empty()
}

/// What all rows must meet, and then what rows of questions around them must: the conditions of all filters, from the scan
/// upwards.
fn conditions(asked: &LogicalPlan) -> Vec<&Expr> {
    let mut filters = Vec::new();
    let mut node = asked;
    loop {
        if let LogicalPlan::Filter(filter) = node {
            filters.push(split_conjunction(&filter.predicate));
        }
        let Some(input) = node.inputs().first().copied() else {
            break;
        };
        node = input;
    }
    filters.into_iter().rev().flatten().collect()
}

/// The one scan of a plan that has nothing but what a template can have.
pub(super) fn scan_of(mut plan: &LogicalPlan) -> Option<&TableScan> {
    loop {
        plan = match plan {
            LogicalPlan::TableScan(scan) => return Some(scan),
            LogicalPlan::Projection(node) => &node.input,
            LogicalPlan::Filter(node) => &node.input,
            LogicalPlan::Aggregate(node) => &node.input,
            LogicalPlan::Sort(node) => &node.input,
            LogicalPlan::Limit(node) => &node.input,
            LogicalPlan::SubqueryAlias(node) => &node.input,
            LogicalPlan::Distinct(node) => node.input(),
            _ => return None,
        };
    }
}

/// The conditions that compare with values, if the planner can decide nothing from those.
fn slots<'a>(conditions: &[&'a Expr], schema: &TableSchema, zone: &Zone) -> Option<Vec<Slot<'a>>> {
    let mut slots: Vec<Slot<'a>> = Vec::new();
    // How many conditions speak of a column.
    let mut spoken_of: HashMap<&str, usize> = HashMap::new();
    for condition in conditions {
        let before = slots.len();
        add_slots(condition, &mut slots, zone);
        let is_slot = slots.len() > before;
        for column in condition.column_refs() {
            // Something else said of a column that values are compared with: never a template.
            let count = spoken_of.entry(column.name.as_str()).or_default();
            *count = count.saturating_add(if is_slot { 1 } else { usize::MAX });
        }
    }
    for slot in &slots {
        let name = slot.column.name.as_str();
        let position = schema.shown_columns().named(name)?;
        let count = spoken_of.get(name).copied().unwrap_or_default();
        match schema.source(position)? {
            // A text that is compared with an integer is read first.
            ColumnSource::Tag(tag)
                if slot.op == Operator::Eq
                    && count == 1
                    && schema.tags.get(tag).is_some_and(|tag| tag.of().is_none()) => {}
            // One bound of each side: of two the planner keeps the narrower one.
            ColumnSource::Time if count <= 2 && schema.time().1 == TimeKind::TimestampTz => {
                let is_lower = |op: Operator| matches!(op, Operator::Gt | Operator::GtEq);
                let others = slots.iter().filter(|other| other.column.name == name);
                let same = others.filter(|other| is_lower(other.op) == is_lower(slot.op));
                if slot.op == Operator::Eq || slot.values.len() != 1 || same.count() > 1 {
                    return None;
                }
            }
            _ => return None,
        }
    }
    Some(slots)
}

/// Adds what a condition compares a column with.
pub(super) fn add_slots<'a>(condition: &'a Expr, slots: &mut Vec<Slot<'a>>, zone: &Zone) {
    let column = |expr: &'a Expr| match expr {
        Expr::Column(column) => Some(column),
        _ => None,
    };
    let mut add = |on: &'a Expr, op: Operator, values: Option<(Vec<&'a str>, Reading)>| {
        if let (Some(column), Some((values, reading))) = (column(on), values) {
            slots.push(Slot {
                column,
                op,
                values,
                reading,
            });
        }
    };
    let one = |expr: &'a Expr| {
        let found = text(expr).or_else(|| Some((NOW, Reading::Now(since_now(expr, zone)?))));
        found.map(|(value, reading)| (vec![value], reading))
    };
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if matches!(
                op,
                Operator::Eq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
            ) =>
        {
            add(left, *op, one(right));
        }
        Expr::Between(between) if !between.negated => {
            if let (Some(low), Some(high)) = (one(&between.low), one(&between.high)) {
                add(&between.expr, Operator::GtEq, Some(low));
                add(&between.expr, Operator::LtEq, Some(high));
            }
        }
        Expr::InList(list) if !list.negated => {
            let values = list.list.iter().map(|value| Some(text(value)?.0));
            let values: Option<Vec<&str>> = values.collect();
            let values = values.map(|values| (values, Reading::Text));
            add(&list.expr, Operator::Eq, values);
        }
        _ => {}
    }
}

/// How long after `now()` a time is.
fn since_now(expr: &Expr, zone: &Zone) -> Option<i64> {
    match expr {
        Expr::ScalarFunction(call) if is_now(call) => Some(0),
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: op @ (Operator::Plus | Operator::Minus),
            right,
        }) => {
            let Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(interval)), _) =
                right.as_ref()
            else {
                return None;
            };
            // A day has 24 hours where clocks are not set.
            let is_fixed = interval.months == 0 && (interval.days == 0 || zone.is_utc());
            let days = i64::from(interval.days).checked_mul(DAY_NS)?;
            let length = days
                .checked_add(interval.nanoseconds)
                .filter(|_| is_fixed)?;
            let length = if *op == Operator::Minus {
                length.checked_neg()?
            } else {
                length
            };
            since_now(left, zone)?.checked_add(length)
        }
        _ => None,
    }
}

/// A text as the parser has it: `'...'` or `TIMESTAMP '...'`.
fn text(expr: &Expr) -> Option<(&str, Reading)> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => Some((text, Reading::Text)),
        Expr::Cast(cast) => {
            let reading = match cast.field.data_type() {
                DataType::Timestamp(TimeUnit::Nanosecond, None) => Reading::Clock,
                // What a time becomes that came beside the statement.
                DataType::Timestamp(TimeUnit::Nanosecond, Some(_)) => Reading::Text,
                _ => return None,
            };
            match cast.expr.as_ref() {
                Expr::Literal(ScalarValue::Utf8(Some(text)), _) => Some((text, reading)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The one filter of the scan that is made of a slot, and that its values make again.
fn filter_of(
    slot: &Slot<'_>,
    values: &[String],
    filters: &[Expr],
    asked: &Asked<'_>,
) -> Option<usize> {
    let mut found = None;
    for (at, filter) in filters.iter().enumerate() {
        let columns = filter.column_refs();
        if !columns.iter().any(|column| column.name == slot.column.name) {
            continue;
        }
        let is_time_bound = matches!(
            filter,
            Expr::BinaryExpr(BinaryExpr { op, .. })
                if *op == slot.op && !matches!(op, Operator::Eq | Operator::Or)
        );
        if slot.op != Operator::Eq && !is_time_bound {
            continue;
        }
        let mut left = values.iter().map(String::as_str);
        let mut again = filter.clone();
        fill(&mut again, &mut left, (slot.reading, asked))?;
        if columns.len() != 1 || left.next().is_some() || again != *filter {
            return None;
        }
        if found.replace(at).is_some() {
            return None;
        }
    }
    found
}

/// Puts values into a filter in the place of others, in their order; `None` = it is of another form than those that are known.
pub(super) fn fill<'v>(
    filter: &mut Expr,
    values: &mut impl Iterator<Item = &'v str>,
    reading: (Reading, &Asked<'_>),
) -> Option<()> {
    match filter {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Or,
            right,
        }) => {
            fill(left, values, reading)?;
            fill(right, values, reading)
        }
        Expr::BinaryExpr(BinaryExpr { left, right, .. }) => {
            let Expr::Column(_) = left.as_ref() else {
                return None;
            };
            let Expr::Literal(literal, None) = right.as_mut() else {
                return None;
            };
            *literal = like(literal, values.next()?, reading)?;
            Some(())
        }
        Expr::InList(list) if !list.negated => {
            let (Expr::Column(_), Some(Expr::Literal(first, None))) =
                (list.expr.as_ref(), list.list.first())
            else {
                return None;
            };
            let literal = |value| Some(Expr::Literal(like(first, value, reading)?, None));
            list.list = values.map(literal).collect::<Option<_>>()?;
            Some(())
        }
        _ => None,
    }
}

/// A text as a literal of the same type as another one.
fn like(other: &ScalarValue, text: &str, reading: (Reading, &Asked<'_>)) -> Option<ScalarValue> {
    if reading.0 == Reading::Number {
        return match other {
            ScalarValue::Int64(Some(_)) => Some(ScalarValue::Int64(Some(text.parse().ok()?))),
            _ => None,
        };
    }
    Some(match other {
        ScalarValue::Utf8(Some(_)) => ScalarValue::Utf8(Some(text.to_owned())),
        ScalarValue::Dictionary(key, value) => {
            ScalarValue::Dictionary(key.clone(), Box::new(like(value, text, reading)?))
        }
        ScalarValue::TimestampNanosecond(Some(_), zone)
            if zone.as_deref().is_none_or(|zone| zone == "UTC") =>
        {
            let (reading, asked) = reading;
            ScalarValue::TimestampNanosecond(Some(reading.time(text, asked)?), zone.clone())
        }
        _ => return None,
    })
}

/// Whether a value is anywhere but in its filter, such as in the place of a column that it is equal to.
fn is_elsewhere(optimized: &LogicalPlan, scan: &TableScan, filters: &[usize]) -> Result<bool> {
    let mut values: Vec<ScalarValue> = Vec::new();
    for filter in filters.iter().filter_map(|&at| scan.filters.get(at)) {
        filter.apply(|expr| {
            if let Expr::Literal(value, _) = expr {
                values.push(bare(value).clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    let mut found = false;
    let mut look = |expr: &Expr| {
        expr.apply(|expr| {
            found |= matches!(expr, Expr::Literal(value, _) if values.contains(bare(value)));
            Ok(TreeNodeRecursion::Continue)
        })
    };
    optimized.apply(|node| {
        if !matches!(node, LogicalPlan::TableScan(_)) {
            node.apply_expressions(&mut look)?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    for (at, filter) in scan.filters.iter().enumerate() {
        if !filters.contains(&at) {
            look(filter)?;
        }
    }
    Ok(found)
}

/// A value without the dictionary that it is in.
fn bare(value: &ScalarValue) -> &ScalarValue {
    match value {
        ScalarValue::Dictionary(_, value) => bare(value),
        value => value,
    }
}

/// The name of a table as the planner resolves it.
pub(crate) fn resolved(name: &TableReference, place: &NameScope) -> TableName {
    let resolved = name.clone().resolve(&place.database, &place.schema);
    TableName {
        database: resolved.catalog.to_string(),
        schema: resolved.schema.to_string(),
        table: resolved.table.to_string(),
        position: None,
    }
}
