//! `jsonb` as `PostgreSQL` orders, compares and tells it apart, and as what is chosen among such values.
//!
//! Does: put keys in the place of `jsonb` that is compared or sorted, and the one form of equal values in the place of what is
//! grouped or told apart; let `CASE`, `coalesce` and `nullif` of `jsonb` be `jsonb`. Does not: make keys (`function::json` does).

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprSchemable, LogicalPlan, Projection, ScalarUDF,
};
use datafusion::optimizer::AnalyzerRule;

use crate::function::{is_jsonb, json_named};
use crate::semantics::float_key::compares;
use crate::semantics::with_names_kept;
use crate::walk::{ExprWalk, PlanWalk};

/// Bytes that sort as values do.
const KEY: &str = "__jsonb_order_key";
/// The form of all values that are equal.
const EVEN: &str = "__jsonb_even";
/// A text as `jsonb`.
const READ: &str = "__jsonb";

/// Whether an expression is seen to be `jsonb`.
fn is_of(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        // No operator answers it, and a chain of them is not looked through.
        Expr::BinaryExpr(_) | Expr::Literal(..) => false,
        other => matches!(other.to_field(schema), Ok((_, field)) if is_jsonb(&field)),
    }
}

/// Whether a plan has such values at all; most have none, and looking is cheaper than taking them apart.
fn has_some(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.walk(&mut |node| {
        found |= node.schema().fields().iter().any(|field| is_jsonb(field));
        Ok(if found {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    let is_of_json =
        |part: &Expr| matches!(part, Expr::ScalarFunction(call) if call.name().contains("jsonb"));
    Ok(found || plan.has_expr(&mut |part| is_of_json(part))?)
}

fn call(function: &Arc<ScalarUDF>, value: Expr) -> Expr {
    let call = ScalarFunction::new_udf(Arc::clone(function), vec![value]);
    Expr::ScalarFunction(call)
}

/// What is chosen among values of `jsonb`, before types are settled.
#[derive(Debug)]
pub(crate) struct JsonChoices;

impl AnalyzerRule for JsonChoices {
    fn name(&self) -> &'static str {
        "json_choices"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let Some(read) = json_named(READ).filter(|_| matches!(has_choices(&plan), Ok(true))) else {
            return Ok(plan);
        };
        if !has_some(&plan)? {
            return Ok(plan);
        }
        let chosen = plan.replace_up(&mut |node| {
            let schema = merge_schema(&node.inputs());
            let names = NamePreserver::new(&node);
            let node = node.replace_expressions(&mut |expr| {
                with_names_kept(&names, expr, |expr| {
                    expr.replace_up(&mut |part| Ok(chosen(part, &schema, &read)))
                })
            })?;
            // What stands above has to know what has become of a column.
            let is_changed = node.transformed;
            let node = node.data.recompute_schema()?;
            Ok(Transformed::new_transformed(node, is_changed))
        })?;
        Ok(chosen.data)
    }
}

fn has_choices(plan: &LogicalPlan) -> Result<bool> {
    plan.has_expr(&mut |part| match part {
        Expr::Case(_) => true,
        Expr::ScalarFunction(call) => is_choice(call.name()),
        _ => false,
    })
}

fn is_choice(name: &str) -> bool {
    matches!(name, "coalesce" | "nullif")
}

fn chosen(part: Expr, schema: &DFSchema, read: &Arc<ScalarUDF>) -> Transformed<Expr> {
    let values: Vec<&Expr> = match &part {
        Expr::Case(case) => {
            let results = case.when_then_expr.iter().map(|(_, then)| then.as_ref());
            results.chain(case.else_expr.as_deref()).collect()
        }
        Expr::ScalarFunction(call) if call.name() == "nullif" => call.args.iter().take(1).collect(),
        Expr::ScalarFunction(call) if is_choice(call.name()) => call.args.iter().collect(),
        _ => return Transformed::no(part),
    };
    // A literal has no type of its own.
    let is_open = |expr: &Expr| match expr {
        Expr::Literal(ScalarValue::Utf8(_), _) => true,
        Expr::Literal(value, _) => value.is_null(),
        _ => false,
    };
    let is_json = |expr: &&Expr| is_of(expr, schema);
    if values.iter().any(is_json) && values.iter().all(|it| is_open(it) || is_json(it)) {
        Transformed::yes(call(read, part))
    } else {
        Transformed::no(part)
    }
}

/// Order, equality and groups of `jsonb`, when types are settled.
#[derive(Debug)]
pub(crate) struct JsonKeys;

struct Functions {
    key: Arc<ScalarUDF>,
    even: Arc<ScalarUDF>,
}

impl AnalyzerRule for JsonKeys {
    fn name(&self) -> &'static str {
        "json_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_some(&plan)? {
            return Ok(plan);
        }
        let (Some(key), Some(even)) = (json_named(KEY), json_named(EVEN)) else {
            return Ok(plan);
        };
        let functions = Functions { key, even };
        let keyed = plan.replace_up(&mut |node| {
            if matches!(node, LogicalPlan::TableScan(_)) {
                return Ok(Transformed::no(node));
            }
            let schema = merge_schema(&node.inputs());
            let names = NamePreserver::new(&node);
            let node = node.replace_expressions(&mut |expr| {
                with_names_kept(&names, expr, |expr| {
                    expr.replace_up(&mut |part| Ok(functions.compared(part, &schema)))
                })
            })?;
            node.transform_data(|node| functions.node(node, &schema))
        })?;
        Ok(keyed.data)
    }
}

impl Functions {
    fn key_of(&self, expr: &mut Expr) {
        *expr = call(&self.key, std::mem::take(expr));
    }

    fn compared(&self, part: Expr, schema: &DFSchema) -> Transformed<Expr> {
        let mut part = part;
        let is_changed = match &mut part {
            Expr::BinaryExpr(binary)
                if compares(binary.op)
                    && (is_of(&binary.left, schema) || is_of(&binary.right, schema)) =>
            {
                self.key_of(&mut binary.left);
                self.key_of(&mut binary.right);
                true
            }
            Expr::Between(between) if is_of(&between.expr, schema) => {
                self.key_of(&mut between.expr);
                self.key_of(&mut between.low);
                self.key_of(&mut between.high);
                true
            }
            Expr::InList(list) if is_of(&list.expr, schema) => {
                self.key_of(&mut list.expr);
                list.list.iter_mut().for_each(|item| self.key_of(item));
                true
            }
            Expr::AggregateFunction(aggregate) => {
                let mut is_changed = false;
                for sort in &mut aggregate.params.order_by {
                    if is_of(&sort.expr, schema) {
                        self.key_of(&mut sort.expr);
                        is_changed = true;
                    }
                }
                if aggregate.params.distinct {
                    for value in &mut aggregate.params.args {
                        if is_of(value, schema) {
                            *value = call(&self.even, std::mem::take(value));
                            is_changed = true;
                        }
                    }
                }
                is_changed
            }
            Expr::WindowFunction(window) => {
                let mut is_changed = false;
                let sorts = window.params.order_by.iter_mut().map(|sort| &mut sort.expr);
                for expr in sorts.chain(&mut window.params.partition_by) {
                    if is_of(expr, schema) {
                        self.key_of(expr);
                        is_changed = true;
                    }
                }
                is_changed
            }
            _ => false,
        };
        Transformed::new_transformed(part, is_changed)
    }

    /// A node that sorts, groups, joins or tells rows apart.
    fn node(&self, node: LogicalPlan, schema: &DFSchema) -> Result<Transformed<LogicalPlan>> {
        Ok(match node {
            LogicalPlan::Sort(mut sort) => {
                let mut is_changed = false;
                for key in &mut sort.expr {
                    if is_of(&key.expr, schema) {
                        self.key_of(&mut key.expr);
                        is_changed = true;
                    }
                }
                Transformed::new_transformed(LogicalPlan::Sort(sort), is_changed)
            }
            LogicalPlan::Join(mut join) => {
                let (left, right) = (
                    Arc::clone(join.left.schema()),
                    Arc::clone(join.right.schema()),
                );
                let mut is_changed = false;
                for (one, other) in &mut join.on {
                    if is_of(one, &left) || is_of(other, &right) {
                        self.key_of(one);
                        self.key_of(other);
                        is_changed = true;
                    }
                }
                Transformed::new_transformed(LogicalPlan::Join(join), is_changed)
            }
            LogicalPlan::Aggregate(aggregate) => {
                let mut is_changed = false;
                let mut even = |expr: Expr| {
                    if !is_of(&expr, schema) {
                        return expr;
                    }
                    is_changed = true;
                    let (relation, name) = expr.qualified_name();
                    call(&self.even, expr.unalias()).alias_qualified(relation, name)
                };
                let mut groups = Vec::with_capacity(aggregate.group_expr.len());
                for expr in aggregate.group_expr {
                    groups.push(if let Expr::GroupingSet(_) = expr {
                        expr.map_children(|expr| Ok(Transformed::yes(even(expr))))?
                            .data
                    } else {
                        even(expr)
                    });
                }
                let aggregate = Aggregate::try_new_with_schema(
                    aggregate.input,
                    groups,
                    aggregate.aggr_expr,
                    aggregate.schema,
                )?;
                Transformed::new_transformed(LogicalPlan::Aggregate(aggregate), is_changed)
            }
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let columns = input.schema().columns();
                let mut is_changed = false;
                let columns: Vec<Expr> = columns
                    .into_iter()
                    .map(|column| {
                        let expr = Expr::Column(column);
                        if !is_of(&expr, schema) {
                            return expr;
                        }
                        is_changed = true;
                        let (relation, name) = expr.qualified_name();
                        call(&self.even, expr).alias_qualified(relation, name)
                    })
                    .collect();
                let input = if is_changed {
                    let even = Projection::try_new(columns, input)?;
                    Arc::new(LogicalPlan::Projection(even))
                } else {
                    input
                };
                let distinct = LogicalPlan::Distinct(Distinct::All(input));
                Transformed::new_transformed(distinct, is_changed)
            }
            other => Transformed::no(other),
        })
    }
}
