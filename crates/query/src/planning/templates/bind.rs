//! One template: a plan without a source, and the places of values in the scan's filters.
//!
//! Whether a plan depends on the values is decided when the template is made, from the plan before and after the rules.
//! Each value has to be a bound of the time or a choice of a tag's values, in a condition of its own that all rows must meet,
//! and no other condition may speak of the same column: then the planner has nothing to compare it with. And it has to be in the
//! filters of the scan alone afterwards. Does not: read times for other sessions than those
//! in UTC, who have no templates.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    BinaryExpr, Expr, LogicalPlan, Operator, TableScan, TableSource, Volatility,
};
use nilometer_engine::{ColumnSource, TableSchema};

use super::resolved;
use crate::semantics::zone::{Instant, Zone};
use crate::statement::name::{NameScope, TableName};
use crate::tables::table::Table;

#[derive(Debug)]
pub(super) struct Template {
    name: TableName,
    schema: Arc<TableSchema>,
    plan: LogicalPlan,
    /// By value of the shape, which filter of the scan has it.
    filters: Vec<usize>,
    bytes: usize,
}

/// A condition that compares with values of the shape.
struct Slot<'a> {
    column: &'a Column,
    op: Operator,
    values: Vec<&'a str>,
}

/// What a scan reads from that is not bound.
#[derive(Debug)]
struct Unbound(SchemaRef);

impl TableSource for Unbound {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.0)
    }
}

impl Template {
    /// A template of a plain query, before and after the rules; `None` = its plan may depend on its values.
    pub(super) fn of(
        place: &NameScope,
        values: &[Vec<String>],
        asked: &LogicalPlan,
        optimized: &LogicalPlan,
    ) -> Result<Option<Self>> {
        let (Some(conditions), Some(scan)) = (conditions(asked)?, scan_of(optimized)) else {
            return Ok(None);
        };
        let Some(name) = scan_of(asked).map(|scan| resolved(&scan.table_name, place)) else {
            return Ok(None);
        };
        let provider = source_as_provider(&scan.source)?;
        let Some(table) = provider.downcast_ref::<Table>() else {
            return Ok(None);
        };
        let schema = table.table_schema();
        let Some(slots) = slots(&conditions, schema) else {
            return Ok(None);
        };
        // What the tokens say is compared with is what the planner compares with.
        let is_same = slots.len() == values.len()
            && slots
                .iter()
                .zip(values)
                .all(|(slot, values)| slot.values.iter().eq(values.iter()));
        if !is_same {
            return Ok(None);
        }
        let mut filters = Vec::with_capacity(slots.len());
        for (slot, values) in slots.iter().zip(values) {
            let Some(filter) = filter_of(slot, values, &scan.filters) else {
                return Ok(None);
            };
            filters.push(filter);
        }
        if is_elsewhere(optimized, scan, &filters)? {
            return Ok(None);
        }
        let unbound: Arc<dyn TableSource> = Arc::new(Unbound(scan.source.schema()));
        let Some(plan) = with_scan(optimized, &|scan| {
            let source = Arc::clone(&unbound);
            LogicalPlan::TableScan(TableScan {
                source,
                ..scan.clone()
            })
        }) else {
            return Ok(None);
        };
        let bytes = size_of::<Self>() + bytes_of(&plan)?;
        Ok(Some(Self {
            name,
            schema: Arc::clone(schema),
            plan,
            filters,
            bytes,
        }))
    }

    pub(super) fn name(&self) -> &TableName {
        &self.name
    }

    pub(super) fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// Memory in use, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The plan with other values; `None` = one of them is not understood.
    pub(super) fn bind(
        &self,
        values: &[Vec<String>],
        source: &Arc<dyn TableSource>,
    ) -> Option<LogicalPlan> {
        let mut filters = scan_of(&self.plan)?.filters.clone();
        for (&at, values) in self.filters.iter().zip(values) {
            let filter = filters.get_mut(at)?;
            let mut left = values.iter().map(String::as_str);
            fill(filter, &mut left)?;
            if left.next().is_some() {
                return None;
            }
        }
        with_scan(&self.plan, &|scan| {
            LogicalPlan::TableScan(TableScan {
                source: Arc::clone(source),
                filters: filters.clone(),
                table_name: scan.table_name.clone(),
                projection: scan.projection.clone(),
                projected_schema: Arc::clone(&scan.projected_schema),
                fetch: scan.fetch,
                statistics_requests: scan.statistics_requests.clone(),
            })
        })
    }
}

/// What all rows must meet; `None` = there is something in the plan whose value is another one each time.
fn conditions(asked: &LogicalPlan) -> Result<Option<Vec<&Expr>>> {
    let mut is_constant = true;
    asked.apply(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                is_constant &= match expr {
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
    if !is_constant {
        return Ok(None);
    }
    let mut node = asked;
    loop {
        if let LogicalPlan::Filter(filter) = node {
            return Ok(Some(split_conjunction(&filter.predicate)));
        }
        let Some(input) = node.inputs().first().copied() else {
            return Ok(None);
        };
        node = input;
    }
}

/// The one scan of a plan that has nothing but what a template can have.
fn scan_of(mut plan: &LogicalPlan) -> Option<&TableScan> {
    loop {
        plan = match plan {
            LogicalPlan::TableScan(scan) => return Some(scan),
            LogicalPlan::Projection(node) => &node.input,
            LogicalPlan::Filter(node) => &node.input,
            LogicalPlan::Aggregate(node) => &node.input,
            LogicalPlan::Sort(node) => &node.input,
            LogicalPlan::Limit(node) => &node.input,
            LogicalPlan::SubqueryAlias(node) => &node.input,
            _ => return None,
        };
    }
}

/// The same plan over another scan.
fn with_scan(plan: &LogicalPlan, scan: &dyn Fn(&TableScan) -> LogicalPlan) -> Option<LogicalPlan> {
    let below = |input: &LogicalPlan| Some(Arc::new(with_scan(input, scan)?));
    Some(match plan {
        LogicalPlan::TableScan(old) => scan(old),
        LogicalPlan::Projection(node) => {
            let input = below(&node.input)?;
            let mut node = node.clone();
            node.input = input;
            LogicalPlan::Projection(node)
        }
        LogicalPlan::Filter(node) => {
            let input = below(&node.input)?;
            let mut node = node.clone();
            node.input = input;
            LogicalPlan::Filter(node)
        }
        LogicalPlan::Aggregate(node) => {
            let input = below(&node.input)?;
            let mut node = node.clone();
            node.input = input;
            LogicalPlan::Aggregate(node)
        }
        LogicalPlan::Sort(node) => {
            let input = below(&node.input)?;
            let mut node = node.clone();
            node.input = input;
            LogicalPlan::Sort(node)
        }
        LogicalPlan::Limit(node) => {
            let input = below(&node.input)?;
            let mut node = node.clone();
            node.input = input;
            LogicalPlan::Limit(node)
        }
        LogicalPlan::SubqueryAlias(node) => {
            let input = below(&node.input)?;
            let mut node = node.clone();
            node.input = input;
            LogicalPlan::SubqueryAlias(node)
        }
        _ => return None,
    })
}

/// The conditions that compare with values, if the planner can decide nothing from those.
fn slots<'a>(conditions: &[&'a Expr], schema: &TableSchema) -> Option<Vec<Slot<'a>>> {
    let mut slots: Vec<Slot<'a>> = Vec::new();
    // How many conditions speak of a column.
    let mut spoken_of: HashMap<&str, usize> = HashMap::new();
    for condition in conditions {
        let before = slots.len();
        add_slots(condition, &mut slots);
        let is_slot = slots.len() > before;
        for column in condition.column_refs() {
            // Something else said of a column that values are compared with: never a template.
            let count = spoken_of.entry(column.name.as_str()).or_default();
            *count = count.saturating_add(if is_slot { 1 } else { usize::MAX });
        }
    }
    for slot in &slots {
        let name = slot.column.name.as_str();
        let position = schema.arrow_schema().index_of(name).ok()?;
        let count = spoken_of.get(name).copied().unwrap_or_default();
        match schema.source(position)? {
            ColumnSource::Tag(_) if slot.op == Operator::Eq && count == 1 => {}
            // One bound of each side: of two the planner keeps the narrower one.
            ColumnSource::Time if count <= 2 => {
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
fn add_slots<'a>(condition: &'a Expr, slots: &mut Vec<Slot<'a>>) {
    let column = |expr: &'a Expr| match expr {
        Expr::Column(column) => Some(column),
        _ => None,
    };
    let mut add = |on: &'a Expr, op: Operator, values: Option<Vec<&'a str>>| {
        if let (Some(column), Some(values)) = (column(on), values) {
            slots.push(Slot { column, op, values });
        }
    };
    let one = |expr: &'a Expr| text(expr).map(|value| vec![value]);
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
            let values = list.list.iter().map(text).collect();
            add(&list.expr, Operator::Eq, values);
        }
        _ => {}
    }
}

/// A text as the parser has it: `'...'` or `TIMESTAMP '...'`.
fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => Some(text),
        Expr::Cast(cast)
            if *cast.field.data_type() == DataType::Timestamp(TimeUnit::Nanosecond, None) =>
        {
            match cast.expr.as_ref() {
                Expr::Literal(ScalarValue::Utf8(Some(text)), _) => Some(text),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The one filter of the scan that is made of a slot, and that its values make again.
fn filter_of(slot: &Slot<'_>, values: &[String], filters: &[Expr]) -> Option<usize> {
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
        fill(&mut again, &mut left)?;
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
fn fill<'v>(filter: &mut Expr, values: &mut impl Iterator<Item = &'v str>) -> Option<()> {
    match filter {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Or,
            right,
        }) => {
            fill(left, values)?;
            fill(right, values)
        }
        Expr::BinaryExpr(BinaryExpr { left, right, .. }) => {
            let Expr::Column(_) = left.as_ref() else {
                return None;
            };
            let Expr::Literal(literal, None) = right.as_mut() else {
                return None;
            };
            *literal = like(literal, values.next()?)?;
            Some(())
        }
        Expr::InList(list) if !list.negated => {
            let (Expr::Column(_), Some(Expr::Literal(first, None))) =
                (list.expr.as_ref(), list.list.first())
            else {
                return None;
            };
            let literal = |value| Some(Expr::Literal(like(first, value)?, None));
            list.list = values.map(literal).collect::<Option<_>>()?;
            Some(())
        }
        _ => None,
    }
}

/// A text as a literal of the same type as another one.
fn like(other: &ScalarValue, text: &str) -> Option<ScalarValue> {
    Some(match other {
        ScalarValue::Utf8(Some(_)) => ScalarValue::Utf8(Some(text.to_owned())),
        ScalarValue::Dictionary(key, value) => {
            ScalarValue::Dictionary(key.clone(), Box::new(like(value, text)?))
        }
        ScalarValue::TimestampNanosecond(Some(_), zone)
            if zone.as_deref().is_none_or(|zone| zone == "UTC") =>
        {
            ScalarValue::TimestampNanosecond(Some(instant(text)?), zone.clone())
        }
        _ => return None,
    })
}

/// The time of a text in UTC. One that is beyond all times makes another plan, and one with an offset means something else
/// after TIMESTAMP, which leaves the offset out.
fn instant(text: &str) -> Option<i64> {
    match (Zone::default().read(text), Zone::read_clock(text)) {
        (Ok(Instant::At(time)), Ok(Instant::At(clock))) if time == clock => Some(time),
        _ => None,
    }
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

/// Memory of a plan, about: its nodes, the columns that they have, and what its expressions are made of.
fn bytes_of(plan: &LogicalPlan) -> Result<usize> {
    let mut bytes = 0;
    plan.apply(|node| {
        bytes += size_of::<LogicalPlan>();
        for field in node.schema().fields() {
            bytes += field.size() + size_of::<Column>();
        }
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                bytes += size_of::<Expr>();
                bytes += match expr {
                    Expr::Column(column) => column.name.len() + size_of::<Column>(),
                    Expr::Literal(value, _) => value.size(),
                    Expr::Alias(alias) => alias.name.len(),
                    _ => 0,
                };
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(bytes)
}
