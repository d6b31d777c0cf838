//! The physical plan that all statements of one shape have, without the values of one and without a snapshot.
//!
//! Of a statement that is no series query as a whole, parts are: what is left is joins, windows and orders over few rows, planned
//! for longer than they run. So is what adds up few rows of one table otherwise than a series query does. Does: keep the plan with
//! holes in the place of its leaves, and make leaves of the newest snapshot with the values of a statement. Does not: keep plans
//! that read anything but series queries, relations and the rows of one table, or that have filters that change while they run;
//! nor bind one where the rows are worth another number of threads, which makes another plan.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Expr, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, Literal as PlanLiteral};
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
    SendableRecordBatchStream, displayable,
};
use nilometer_engine::{RelationSchema, ShownColumns, Snapshot, TableSchema, Value};
use nilometer_series::{Literal, SeriesQuery, Shape, TagExpr, TimeRange, Value as SeriesValue};

use super::compared::{Compared, has_value, is_made_of};
use super::slots::{Asked, Reading, fill};
use crate::operators::scan::{SeriesScan, Wanted};
use crate::operators::series::{ChosenBy, SeriesExec};
use crate::planning::recognise::time_range;
use crate::planning::recognised::{Columns, Unpinned, limits};
use crate::statement::name::TableName;
use crate::tables::relation::{self, Condition, RelationScan};
use crate::tables::table::Table;

/// Memory of an operator, about, without its expressions.
const NODE_BYTES: usize = 1024;

/// Memory of what is written with one letter, about: expressions, and what is known of columns and orders.
const LETTER_BYTES: usize = 16;

/// One shape.
#[derive(Debug)]
pub(super) struct PlanTemplate {
    /// With holes.
    plan: Arc<dyn ExecutionPlan>,
    leaves: Vec<Leaf>,
    compared: Vec<Compared>,
    nodes: usize,
}

/// What fills a hole.
#[derive(Debug)]
enum Leaf {
    Series(Box<SeriesLeaf>),
    Relation(Box<RelationLeaf>),
    Rows(Box<RowsLeaf>),
}

/// A series query.
#[derive(Debug)]
struct SeriesLeaf {
    shape: Shape,
    columns: Columns,
    table: Unpinned,
    chosen: Option<ChosenBy>,
    /// Values of tags as they stand in the shape, and which value of the statement they are.
    tags: Vec<(Vec<Literal>, usize)>,
    /// The values that the range of time begins and ends with.
    first: Option<usize>,
    last: Option<usize>,
}

/// Rows of a table.
#[derive(Debug)]
struct RowsLeaf {
    wanted: Wanted,
    /// Filters that values of the statement stand in, by their places.
    values: Vec<(usize, usize)>,
}

/// Rows of a relation.
#[derive(Debug)]
struct RelationLeaf {
    name: TableName,
    schema: Arc<RelationSchema>,
    columns: Vec<usize>,
    shown: Arc<ShownColumns>,
    conditions: Vec<Condition>,
    arrow: SchemaRef,
    /// Conditions that values of the statement stand in, by their places.
    values: Vec<(usize, usize)>,
}

/// What a template is being made of.
struct Learning<'a> {
    compared: &'a [Compared],
    moment: &'a Asked<'a>,
    /// Leaves may be rows of a table.
    takes_rows: bool,
    /// By value: whether a leaf has it.
    found: Vec<bool>,
    leaves: Vec<Leaf>,
    nodes: usize,
    is_known: bool,
}

impl PlanTemplate {
    /// The template of a plan, which may read rows of a table if `takes_rows`; `None` = it has other leaves than templates have, or a
    /// value stands elsewhere.
    pub(super) fn of(
        plan: &Arc<dyn ExecutionPlan>,
        compared: Vec<Compared>,
        moment: &Asked<'_>,
        takes_rows: bool,
    ) -> Result<Option<Self>> {
        let mut learning = Learning {
            found: vec![false; compared.len()],
            compared: &compared,
            moment,
            takes_rows,
            leaves: Vec::new(),
            nodes: 0,
            is_known: true,
        };
        let plan = Arc::clone(plan).transform_up(|node| learning.node(node));
        let plan = plan.data()?;
        let Learning {
            found,
            leaves,
            nodes,
            is_known,
            ..
        } = learning;
        let is_whole = is_known && !leaves.is_empty() && found.iter().all(|found| *found);
        Ok(is_whole.then_some(Self {
            plan,
            leaves,
            compared,
            nodes,
        }))
    }

    /// Memory in use, about.
    pub(super) fn bytes(&self) -> usize {
        let leaves = self.leaves.iter().map(|leaf| match leaf {
            Leaf::Series(leaf) => LETTER_BYTES * leaf.shape.to_string().len(),
            Leaf::Relation(leaf) => leaf.conditions.len() * size_of::<Condition>(),
            Leaf::Rows(leaf) => leaf.wanted.filters.len() * size_of::<Expr>(),
        });
        let text = displayable(self.plan.as_ref()).indent(false).to_string();
        let plan = self.nodes * NODE_BYTES + LETTER_BYTES * text.len();
        size_of::<Self>() + plan + leaves.sum::<usize>()
    }

    /// Whether what it reads is what it was in this snapshot.
    pub(super) fn is_of(&self, snapshot: &Snapshot) -> bool {
        let is_same = |name: &TableName, schema: &Arc<TableSchema>| {
            let now = snapshot.table(&name.database, &name.schema, &name.table);
            now.is_some_and(|now| Arc::ptr_eq(&now, schema))
        };
        self.leaves.iter().all(|leaf| match leaf {
            Leaf::Series(leaf) => is_same(&leaf.table.name, &leaf.table.schema),
            Leaf::Rows(leaf) => is_same(&leaf.wanted.name, &leaf.wanted.schema),
            Leaf::Relation(leaf) => {
                let found = relation::find(snapshot, &leaf.name);
                found.is_some_and(|reader| Arc::ptr_eq(reader.schema(), &leaf.schema))
            }
        })
    }

    /// The plan of a statement with these values; `None` = one of them is not understood.
    pub(super) fn bind(
        &self,
        values: &[Vec<String>],
        asked: &Asked<'_>,
        (snapshot, threads): (&Arc<Snapshot>, usize),
    ) -> Option<Arc<dyn ExecutionPlan>> {
        let plan = Arc::clone(&self.plan).transform_up(|node| {
            let Some(hole) = node.downcast_ref::<Hole>() else {
                // What the last statement left in it.
                return Ok(Transformed::yes(node.reset_state()?));
            };
            let filled = self.leaves.get(hole.number);
            let filled = filled.and_then(|leaf| match leaf {
                Leaf::Series(leaf) => {
                    let query = leaf.query(values, (&self.compared, asked))?;
                    Some(leaf.filled(query, hole, snapshot))
                }
                Leaf::Relation(leaf) => leaf.filled((values, &self.compared), hole, snapshot),
                Leaf::Rows(leaf) => {
                    let values = (values, self.compared.as_slice(), asked);
                    leaf.filled(values, hole, (snapshot, threads))
                }
            });
            let Some(filled) = filled else {
                return internal_err!("a value that the template does not understand");
            };
            Ok(Transformed::yes(filled))
        });
        plan.data().ok()
    }
}

impl Learning<'_> {
    fn node(
        &mut self,
        node: Arc<dyn ExecutionPlan>,
    ) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        self.nodes += 1;
        let leaf = if let Some(series) = node.downcast_ref::<SeriesExec>() {
            self.series(series)
        } else if let Some(relation) = node.downcast_ref::<RelationScan>() {
            self.relation(relation)
        } else if let Some(scan) = node.downcast_ref::<SeriesScan>() {
            self.rows(scan.wanted())?
        } else {
            let is_empty = node.is::<EmptyExec>() || node.is::<PlaceholderRowExec>();
            self.is_known &= is_empty || !node.children().is_empty();
            self.expressions(&node)?;
            return Ok(Transformed::no(node));
        };
        let Some(leaf) = leaf else {
            self.is_known = false;
            return Ok(Transformed::no(node));
        };
        let hole = Hole {
            number: self.leaves.len(),
            properties: Arc::clone(node.properties()),
            inputs: node.children().into_iter().cloned().collect(),
        };
        self.leaves.push(leaf);
        Ok(Transformed::yes(Arc::new(hole)))
    }

    /// Looks for values, and for filters that change, in what an operator calculates.
    fn expressions(&mut self, node: &Arc<dyn ExecutionPlan>) -> Result<()> {
        let compared = self.compared;
        let mut is_known = true;
        // Operators make such filters for those below, and make them anew; one that has been taken in is shared.
        let makes_filters = !node.dynamic_expressions_produced().is_empty();
        node.apply_expressions(&mut |expr| {
            expr.apply(|expr: &Arc<dyn PhysicalExpr>| {
                if let Some(literal) = expr.downcast_ref::<PlanLiteral>() {
                    is_known &= !compared.iter().any(|it| it.is(literal.value()));
                }
                is_known &= makes_filters || !expr.is::<DynamicFilterPhysicalExpr>();
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        self.is_known &= is_known;
        Ok(())
    }

    fn series(&mut self, exec: &SeriesExec) -> Option<Leaf> {
        let read = exec.table();
        let mut shape = exec.query().shape().clone();
        let mut tags = Vec::new();
        choices(&shape.innermost_mut().tags, &mut |values| {
            let is_value = |of: &Compared| of.op == Operator::Eq && are_texts(values, &of.texts);
            if let Some(at) = self.compared.iter().position(is_value) {
                tags.push((values.to_vec(), at));
            }
        });
        let chosen = exec.chosen_by();
        if chosen.as_ref().is_some_and(|chosen| chosen.is_of_now) {
            return None;
        }
        let time = &read.pushdown.time;
        let bound = |is_start: bool| {
            let mut all = self.compared.iter();
            let wanted = if is_start { *time.start() } else { *time.end() };
            all.position(|of| {
                let bound = of.time.and_then(|time| bound(of.op, time));
                bound == Some((is_start, wanted))
            })
        };
        let (first, last) = (bound(true), bound(false));
        for at in tags.iter().map(|(_, at)| at).chain(&first).chain(&last) {
            *self.found.get_mut(*at)? = true;
        }
        Some(Leaf::Series(Box::new(SeriesLeaf {
            shape,
            columns: exec.columns().clone(),
            table: read.unpinned(),
            chosen,
            tags,
            first,
            last,
        })))
    }

    fn rows(&mut self, wanted: &Wanted) -> Result<Option<Leaf>> {
        if !self.takes_rows || !self.leaves.is_empty() {
            return Ok(None);
        }
        let mut values = Vec::new();
        for (place, filter) in wanted.filters.iter().enumerate() {
            for (at, (of, found)) in self.compared.iter().zip(&mut self.found).enumerate() {
                if !has_value(filter, of)? {
                    continue;
                }
                if !is_made_of(filter, of, self.moment) {
                    return Ok(None);
                }
                values.push((place, at));
                *found = true;
            }
        }
        Ok(Some(Leaf::Rows(Box::new(RowsLeaf {
            wanted: wanted.clone(),
            values,
        }))))
    }

    fn relation(&mut self, scan: &RelationScan) -> Option<Leaf> {
        let relation::Wanted {
            reader,
            columns,
            shown,
            conditions,
        } = scan.wanted();
        let mut values = Vec::new();
        for (place, condition) in conditions.iter().enumerate() {
            let Condition::OneOf(_, of) = condition else {
                continue;
            };
            let written: Option<Vec<_>> = of.iter().map(written).collect();
            let Some(written) = written else { continue };
            let is_value = |of: &Compared| {
                let mut each = of.texts.iter().zip(&written);
                of.op == Operator::Eq
                    && of.texts.len() == written.len()
                    && each.all(|(text, (is_number, written))| {
                        (of.reading == Reading::Number) == *is_number && text == written
                    })
            };
            if let Some(at) = self.compared.iter().position(is_value) {
                values.push((place, at));
                *self.found.get_mut(at)? = true;
            }
        }
        Some(Leaf::Relation(Box::new(RelationLeaf {
            name: scan.table().clone(),
            schema: Arc::clone(reader.schema()),
            columns: columns.clone(),
            shown: Arc::clone(shown),
            conditions: conditions.clone(),
            arrow: scan.schema(),
            values,
        })))
    }
}

/// Calls for each choice of a tag's values.
fn choices(tags: &TagExpr, look: &mut dyn FnMut(&[Literal])) {
    match tags {
        TagExpr::OneOf(_, values) => look(values),
        TagExpr::And(all) | TagExpr::Or(all) => all.iter().for_each(|of| choices(of, look)),
        TagExpr::Not(of) => choices(of, look),
        TagExpr::All | TagExpr::Range(..) | TagExpr::Matches(..) | TagExpr::Absent(_) => {}
    }
}

/// The same conditions with other values in the place of some.
fn replaced(tags: &TagExpr, other: &dyn Fn(&[Literal]) -> Option<Vec<Literal>>) -> TagExpr {
    let each = |all: &[TagExpr]| all.iter().map(|of| replaced(of, other)).collect();
    match tags {
        TagExpr::OneOf(tag, values) => match other(values) {
            Some(values) => TagExpr::OneOf(tag.clone(), values),
            None => tags.clone(),
        },
        TagExpr::And(all) => TagExpr::And(each(all)),
        TagExpr::Or(all) => TagExpr::Or(each(all)),
        TagExpr::Not(of) => TagExpr::Not(Box::new(replaced(of, other))),
        tags => tags.clone(),
    }
}

fn are_texts(values: &[Literal], texts: &[String]) -> bool {
    let is_text = |value: &Literal, text: &String| matches!(value, Literal::Value(SeriesValue::Text(value)) if **value == **text);
    values.len() == texts.len()
        && values
            .iter()
            .all(|value| texts.iter().any(|text| is_text(value, text)))
}

/// A value as a statement has it, and whether it is a number there.
fn written(value: &Value) -> Option<(bool, Cow<'_, str>)> {
    match value {
        Value::Text(text) => Some((false, Cow::Borrowed(text))),
        Value::I64(number) => Some((true, Cow::Owned(number.to_string()))),
        _ => None,
    }
}

/// The first or last time that a bound leaves, and whether it is the first.
fn bound(op: Operator, time: i64) -> Option<(bool, i64)> {
    Some(match op {
        // Before the first time, and after the last, there is none.
        Operator::Gt => (true, time.checked_add(1)?),
        Operator::GtEq => (true, time),
        Operator::Lt => (false, time.checked_sub(1)?),
        Operator::LtEq => (false, time),
        _ => return None,
    })
}

impl SeriesLeaf {
    fn query(
        &self,
        values: &[Vec<String>],
        (compared, asked): (&[Compared], &Asked<'_>),
    ) -> Option<SeriesQuery> {
        let time_of = |at: Option<usize>, otherwise: i64| {
            let Some(at) = at else { return Some(otherwise) };
            let (of, [text]) = (compared.get(at)?, values.get(at)?.as_slice()) else {
                return None;
            };
            Some(bound(of.op, of.reading.time(text, asked)?)?.1)
        };
        let known = &self.table.pushdown.time;
        let first = time_of(self.first, *known.start())?;
        let last = time_of(self.last, *known.end())?;
        let mut shape = self.shape.clone();
        let reads = shape.innermost_mut();
        if self.first.is_some() || self.last.is_some() {
            let (from, to) = time_range(&(first..=last));
            reads.time = TimeRange { from, to };
        }
        if !self.tags.is_empty() {
            reads.tags = replaced(&reads.tags, &|was| {
                let (_, at) = self.tags.iter().find(|(values, _)| values == was)?;
                let texts = values.get(*at)?.iter();
                Some(texts.map(|text| Literal::from(text.as_str())).collect())
            });
        }
        SeriesQuery::new(shape, limits()).ok()
    }

    fn filled(
        &self,
        query: SeriesQuery,
        hole: &Hole,
        snapshot: &Arc<Snapshot>,
    ) -> Arc<dyn ExecutionPlan> {
        let input = hole.inputs.first().cloned();
        Arc::new(SeriesExec::bound(
            Arc::new(query),
            self.columns.clone(),
            self.table.read(snapshot),
            self.chosen.clone().zip(input),
            Arc::clone(&hole.properties),
        ))
    }
}

impl RowsLeaf {
    fn filled(
        &self,
        (values, compared, asked): (&[Vec<String>], &[Compared], &Asked<'_>),
        hole: &Hole,
        (snapshot, threads): (&Arc<Snapshot>, usize),
    ) -> Option<Arc<dyn ExecutionPlan>> {
        let mut wanted = self.wanted.clone();
        for (place, at) in &self.values {
            let mut texts = values.get(*at)?.iter().map(String::as_str);
            let reading = (compared.get(*at)?.reading, asked);
            fill(wanted.filters.get_mut(*place)?, &mut texts, reading)?;
            if texts.next().is_some() {
                return None;
            }
        }
        let (schema, name) = (Arc::clone(&wanted.schema), wanted.name.clone());
        let table = Table::new(Arc::clone(snapshot), schema, name, threads);
        let scan = table.planned_scan(&wanted).ok()?;
        let partitions = |of: &Arc<PlanProperties>| of.partitioning.partition_count();
        (partitions(scan.properties()) == partitions(&hole.properties)).then_some(scan)
    }
}

impl RelationLeaf {
    fn filled(
        &self,
        (values, compared): (&[Vec<String>], &[Compared]),
        hole: &Hole,
        snapshot: &Snapshot,
    ) -> Option<Arc<dyn ExecutionPlan>> {
        let mut conditions = self.conditions.clone();
        for (place, at) in &self.values {
            let texts = values.get(*at)?.iter();
            let Condition::OneOf(_, of) = conditions.get_mut(*place)? else {
                return None;
            };
            let reading = compared.get(*at)?.reading;
            let values = texts.map(|text| match reading {
                Reading::Number => Some(Value::from(text.parse::<i64>().ok()?)),
                _ => Some(Value::from(text.as_str())),
            });
            *of = values.collect::<Option<_>>()?;
        }
        let wanted = relation::Wanted {
            reader: relation::find(snapshot, &self.name)?,
            columns: self.columns.clone(),
            shown: Arc::clone(&self.shown),
            conditions,
        };
        let scan = RelationScan::new(wanted, Arc::clone(&self.arrow), self.name.clone());
        Some(Arc::new(scan.with_properties(&hole.properties)))
    }
}

/// The place of a leaf.
#[derive(Debug)]
struct Hole {
    number: usize,
    properties: Arc<PlanProperties>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
}

impl DisplayAs for Hole {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hole: {}", self.number)
    }
}

impl ExecutionPlan for Hole {
    fn name(&self) -> &'static str {
        "Hole"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        inputs: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self {
            number: self.number,
            properties: Arc::clone(&self.properties),
            inputs,
        }))
    }

    fn with_new_children(
        self: Arc<Self>,
        inputs: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self {
            number: self.number,
            properties: Arc::clone(&self.properties),
            inputs,
        }))
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        internal_err!("a template is bound before it is run")
    }
}
