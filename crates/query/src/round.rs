//! A float that is cast to an integer is rounded, as in `PostgreSQL`, and not cut off.
//!
//! The rule comes before types are settled, so that it sees what the statement says and no cast of the planner's own.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

/// The rule.
#[derive(Debug)]
pub(crate) struct RoundCasts {
    round: Arc<ScalarUDF>,
}

impl RoundCasts {
    pub(crate) fn new() -> Self {
        let signature = Signature::exact(vec![DataType::Float64], Volatility::Immutable);
        Self {
            round: Arc::new(ScalarUDF::new_from_impl(RoundTiesEven { signature })),
        }
    }

    fn rounded(&self, expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
        match expr {
            Expr::Cast(Cast { expr, field })
                if field.data_type().is_integer()
                    // What has no type yet is text or NULL.
                    && expr.get_type(schema).is_ok_and(|kind| kind.is_floating()) =>
            {
                let round = ScalarFunction::new_udf(Arc::clone(&self.round), vec![*expr]);
                let expr = Box::new(Expr::ScalarFunction(round));
                Transformed::yes(Expr::Cast(Cast { expr, field }))
            }
            other => Transformed::no(other),
        }
    }
}

impl AnalyzerRule for RoundCasts {
    fn name(&self) -> &'static str {
        "round_casts"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        // Most statements have no such cast, and looking is cheaper than taking them apart.
        if !casts_to_integer(&plan)? {
            return Ok(plan);
        }
        let rounded = plan.transform_up_with_subqueries(|node| {
            let schema = merge_schema(&node.inputs());
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let rounded = expr.transform_up(|inner| Ok(self.rounded(inner, &schema)))?;
                Ok(rounded.update_data(|expr| name.restore(expr)))
            })
        })?;
        Ok(rounded.data)
    }
}

fn casts_to_integer(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= expr.exists(|inner| {
                Ok(matches!(inner, Expr::Cast(cast) if cast.field.data_type().is_integer()))
            })?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct RoundTiesEven {
    signature: Signature,
}

impl ScalarUDFImpl for RoundTiesEven {
    fn name(&self) -> &'static str {
        "round_ties_even"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else {
            return internal_err!("round_ties_even has one argument");
        };
        let rounded = value.to_array(args.number_rows)?;
        let rounded = rounded
            .as_primitive::<Float64Type>()
            .unary::<_, Float64Type>(f64::round_ties_even);
        match value {
            ColumnarValue::Array(_) => Ok(ColumnarValue::Array(Arc::new(rounded))),
            ColumnarValue::Scalar(_) => Ok(ColumnarValue::Scalar(
                datafusion::common::ScalarValue::try_from_array(&rounded, 0)?,
            )),
        }
    }
}
