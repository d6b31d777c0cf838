//! Subqueries that are values and may have no row: NULL then, whatever their column says of itself.
//!
//! `DataFusion` 55.2 takes such a value for one that is never NULL where its column is not. So `(SELECT 1 WHERE false) IS NULL` was
//! false, and a NULL in an answer was an error.
//!
//! Does: put a function around them that says that its value may be NULL. Does not: touch those that always have a row, an
//! aggregate without groups above all, or those whose column may be NULL anyway.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Subquery, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use crate::walk::{ExprWalk, PlanWalk};

static MAYBE_NULL: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(MaybeNull::new())));

/// The rule. It comes before those that ask whether an expression may be NULL.
#[derive(Debug)]
pub(crate) struct NullableSubqueries;

impl AnalyzerRule for NullableSubqueries {
    fn name(&self) -> &'static str {
        "nullable_subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut is_asked = false;
        plan.walk(&mut |node| {
            node.walk_expressions(&mut |expr| {
                is_asked |= expr.has(&mut |part| Ok(is_wrong(part)))?;
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        if !is_asked {
            return Ok(plan);
        }
        let plan = plan.replace_up(&mut |node| {
            let names = NamePreserver::new(&node);
            let node = node.replace_expressions(&mut |expr| {
                let name = names.save(&expr);
                let expr = expr.replace_up(&mut |part| {
                    Ok(if is_wrong(&part) {
                        Transformed::yes(MAYBE_NULL.call(vec![part]))
                    } else {
                        Transformed::no(part)
                    })
                })?;
                Ok(expr.update_data(|expr| name.restore(expr)))
            })?;
            // What stands above takes over whether a column may be NULL.
            node.map_data(LogicalPlan::recompute_schema)
        })?;
        Ok(plan.data)
    }
}

/// Whether an expression is a subquery that may be NULL and does not say so.
fn is_wrong(expr: &Expr) -> bool {
    let Expr::ScalarSubquery(Subquery { subquery, .. }) = expr else {
        return false;
    };
    let mut columns = subquery.schema().iter();
    let says_null = columns.next().is_none_or(|(_, field)| field.is_nullable());
    !says_null && !has_one_row(subquery)
}

/// Whether a query has one row, whatever the rows are that it reads.
fn has_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => has_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_one_row(&alias.input),
        LogicalPlan::Sort(sort) => sort.fetch.is_none() && has_one_row(&sort.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        _ => false,
    }
}

/// The function: the value that it is given.
#[derive(Debug, PartialEq, Eq, Hash)]
struct MaybeNull {
    signature: Signature,
}

impl MaybeNull {
    fn new() -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for MaybeNull {
    fn name(&self) -> &'static str {
        "maybe_null"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        internal_err!("maybe_null returns what it is given")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let [field] = args.arg_fields else {
            return internal_err!("maybe_null has one argument");
        };
        Ok(Arc::new(field.as_ref().clone().with_nullable(true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let Ok([value]) = <[ColumnarValue; 1]>::try_from(args.args) {
            Ok(value)
        } else {
            internal_err!("maybe_null has one argument")
        }
    }
}
