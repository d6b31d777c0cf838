//! The plan of a run: its joins, with their merged columns in front.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::{Column, DFSchema, JoinType, Result, TableReference, plan_err};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    Join, JoinConstraint, JoinOperator, TableFactor, TableWithJoins,
};

use super::runs::Mark;
use super::{Learnt, Output, hidden, shown, tag};

/// Plans what is marked, and keeps what it puts out.
#[derive(Debug)]
pub(super) struct MergedColumns {
    learnt: Arc<Learnt>,
}

impl MergedColumns {
    pub(super) fn new(learnt: Arc<Learnt>) -> Self {
        Self { learnt }
    }

    fn run(
        &self,
        number: usize,
        tables: TableWithJoins,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<LogicalPlan> {
        let mut run = Merging {
            plan: context.plan(tables.relation)?,
            merged: Vec::new(),
            used: HashSet::new(),
        };
        for join in tables.joins {
            run = run.join(join, context)?;
        }
        let (plan, outputs) = run.finish(number)?;
        self.learnt.runs().insert(number, outputs);
        Ok(plan)
    }
}

impl RelationPlanner for MergedColumns {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let mark = match &relation {
            TableFactor::NestedJoin {
                alias: Some(alias), ..
            } => Mark::of(alias),
            _ => None,
        };
        let (
            Some(mark),
            TableFactor::NestedJoin {
                table_with_joins, ..
            },
        ) = (mark, relation.clone())
        else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let plan = match mark {
            Mark::Run(number) => self.run(number, *table_with_joins, context)?,
            Mark::Whole => {
                let whole = TableFactor::NestedJoin {
                    table_with_joins,
                    alias: None,
                };
                visible(context.plan(whole)?)?
            }
        };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(
            plan, None,
        ))))
    }
}

/// A plan without its hidden columns.
fn visible(plan: LogicalPlan) -> Result<LogicalPlan> {
    let columns = plan.schema().columns().into_iter();
    let kept: Vec<Expr> = columns
        .filter(|column| shown(&column.name) == column.name)
        .map(Expr::Column)
        .collect();
    LogicalPlanBuilder::from(plan).project(kept)?.build()
}

/// The joins of a run so far.
struct Merging {
    plan: LogicalPlan,
    /// Names of the merged columns, those of the last join first, and the columns of which each is the first that is not NULL.
    /// A list, because calls of `coalesce` in each other are doubled by the planner at each level.
    merged: Vec<(String, Vec<Expr>)>,
    /// Places of the columns that they are made of.
    used: HashSet<usize>,
}

impl Merging {
    fn join(mut self, join: Join, context: &mut dyn RelationPlannerContext) -> Result<Self> {
        use JoinOperator as Op;
        let right = context.plan(join.relation)?;
        let (kind, constraint) = match join.join_operator {
            Op::Join(constraint) | Op::Inner(constraint) => (JoinType::Inner, constraint),
            Op::Left(constraint) | Op::LeftOuter(constraint) => (JoinType::Left, constraint),
            Op::Right(constraint) | Op::RightOuter(constraint) => (JoinType::Right, constraint),
            Op::FullOuter(constraint) => (JoinType::Full, constraint),
            other => return plan_err!("{other:?} merges no columns"),
        };
        let names = match constraint {
            JoinConstraint::Using(names) => {
                let mut keys = Vec::with_capacity(names.len());
                for name in names {
                    match name.0.as_slice() {
                        [part] if part.as_ident().is_some() => {
                            keys.extend(
                                part.as_ident()
                                    .cloned()
                                    .map(|it| context.normalize_ident(it)),
                            );
                        }
                        _ => {
                            return plan_err!("USING takes names of columns alone, and not {name}");
                        }
                    }
                }
                keys
            }
            _ => self.in_common(right.schema()),
        };
        let width = self.plan.schema().fields().len();
        let mut on = Vec::with_capacity(names.len());
        let mut merged: Vec<(String, Vec<Expr>)> = Vec::with_capacity(names.len());
        for name in names {
            if merged.iter().any(|(other, _)| *other == name) {
                return plan_err!("USING names the column \"{name}\" twice");
            }
            let mut values = self.left(&name)?;
            let place = the_one(&name, "right", &places(right.schema(), &name))?;
            let right = Expr::Column(column(right.schema(), place));
            self.used.insert(width + place);
            on.push(first(values.clone()).eq(right.clone()));
            match kind {
                JoinType::Right => values = vec![right],
                JoinType::Full => values.push(right),
                _ => {}
            }
            merged.push((name, values));
        }
        self.merged
            .retain(|(name, _)| !merged.iter().any(|(other, _)| other == name));
        merged.append(&mut self.merged);
        let left = LogicalPlanBuilder::from(self.plan);
        let joined = if on.is_empty() && kind == JoinType::Inner {
            left.cross_join(right)?
        } else {
            left.join_on(right, kind, on)?
        };
        Ok(Self {
            plan: joined.build()?,
            merged,
            used: self.used,
        })
    }

    /// The columns of the left side that the right side has as well, in their order.
    fn in_common(&self, right: &DFSchema) -> Vec<String> {
        let merged = self.merged.iter().map(|(name, _)| name);
        let fields = self.plan.schema().fields().iter().enumerate();
        let others = fields
            .filter(|(place, _)| !self.used.contains(place))
            .map(|(_, field)| field.name());
        let mut seen = HashSet::new();
        merged
            .chain(others)
            .filter(|&name| right.has_column_with_unqualified_name(name) && seen.insert(name))
            .cloned()
            .collect()
    }

    /// The column of a name on the left side.
    fn left(&mut self, name: &str) -> Result<Vec<Expr>> {
        let mut found = places(self.plan.schema(), name);
        found.retain(|place| !self.used.contains(place));
        let merged = self.merged.iter().find(|(other, _)| other == name);
        match (merged, found.as_slice()) {
            (Some((_, values)), []) => Ok(values.clone()),
            (Some(_), _) => several(name, "left"),
            (None, found) => {
                let place = the_one(name, "left", found)?;
                self.used.insert(place);
                Ok(vec![Expr::Column(column(self.plan.schema(), place))])
            }
        }
    }

    fn finish(self, number: usize) -> Result<(LogicalPlan, Vec<Output>)> {
        let table = TableReference::bare(tag(number));
        let merged = self.merged.into_iter();
        let mut exprs: Vec<Expr> = merged
            .map(|(name, values)| first(values).alias_qualified(Some(table.clone()), name))
            .collect();
        let mut outputs = Vec::new();
        for (place, column) in self.plan.schema().columns().into_iter().enumerate() {
            let is_used = self.used.contains(&place);
            let name = is_used.then(|| hidden(&column.name, number, place));
            if let Some(table) = &column.relation {
                let before = shown(&column.name);
                let is_hidden = before != column.name;
                outputs.push(Output {
                    table: table.clone(),
                    name: before.to_owned(),
                    hidden: name
                        .clone()
                        .or_else(|| is_hidden.then(|| column.name.clone())),
                });
            }
            exprs.push(match name {
                Some(name) => {
                    let table = column.relation.clone();
                    Expr::Column(column).alias_qualified(table, name)
                }
                None => Expr::Column(column),
            });
        }
        let plan = LogicalPlanBuilder::from(self.plan)
            .project(exprs)?
            .build()?;
        Ok((plan, outputs))
    }
}

/// The first value that is not NULL.
fn first(mut values: Vec<Expr>) -> Expr {
    match values.pop() {
        Some(only) if values.is_empty() => only,
        Some(last) => {
            values.push(last);
            coalesce(values)
        }
        None => coalesce(values),
    }
}

/// Where the columns of a name are.
fn places(schema: &DFSchema, name: &str) -> Vec<usize> {
    let fields = schema.fields().iter().enumerate();
    fields
        .filter(|(_, field)| field.name() == name)
        .map(|(place, _)| place)
        .collect()
}

fn column(schema: &DFSchema, place: usize) -> Column {
    Column::from(schema.qualified_field(place))
}

fn the_one(name: &str, side: &str, found: &[usize]) -> Result<usize> {
    match found {
        [place] => Ok(*place),
        [] => plan_err!("the column \"{name}\" of USING is not on the {side} side of the join"),
        _ => several(name, side),
    }
}

fn several<T>(name: &str, side: &str) -> Result<T> {
    plan_err!(
        "the {side} side of the join has more than one column \"{name}\"; join with ON, and name the table"
    )
}
