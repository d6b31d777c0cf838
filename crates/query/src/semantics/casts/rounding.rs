//! A number that is cast to an integer is rounded, as in `PostgreSQL`, and not cut off: a float in the middle to the even one, a
//! `numeric` away from zero. `2.5` by itself is `numeric`.
//!
//! The rule comes before types are settled, so that it sees what the statement says and no cast of the planner's own.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Float64Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, cast,
};
use datafusion::optimizer::AnalyzerRule;

use crate::semantics::numbers::is_numeric;
use crate::semantics::with_names_kept;
use crate::walk::{ExprWalk, PlanWalk};

/// The rule.
#[derive(Debug)]
pub(crate) struct RoundCasts {
    floats: Arc<ScalarUDF>,
    numerics: Arc<ScalarUDF>,
}

impl RoundCasts {
    pub(crate) fn new() -> Self {
        let round = |is_even| {
            let signature = Signature::exact(vec![DataType::Float64], Volatility::Immutable);
            Arc::new(ScalarUDF::new_from_impl(Round { is_even, signature }))
        };
        Self {
            floats: round(true),
            numerics: round(false),
        }
    }

    fn rounded(&self, expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
        let (expr, field) = match expr {
            Expr::Cast(Cast { expr, field }) if field.data_type().is_integer() => (expr, field),
            other => return Transformed::no(other),
        };
        // What has no type yet is text or NULL.
        let rounded = match expr.get_type(schema) {
            Ok(kind) if kind.is_floating() => {
                let round = if is_numeric(&expr, schema) {
                    &self.numerics
                } else {
                    &self.floats
                };
                Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(round), vec![*expr]))
            }
            // Without digits after the point a decimal is rounded, away from zero in the middle.
            Ok(DataType::Decimal128(..)) => {
                cast(*expr, DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0))
            }
            Ok(DataType::Decimal256(..)) => {
                cast(*expr, DataType::Decimal256(DECIMAL256_MAX_PRECISION, 0))
            }
            _ => return Transformed::no(Expr::Cast(Cast { expr, field })),
        };
        let expr = Box::new(rounded);
        Transformed::yes(Expr::Cast(Cast { expr, field }))
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
        let rounded = plan.replace_up(&mut |node| {
            let schema = merge_schema(&node.inputs());
            let names = NamePreserver::new(&node);
            node.replace_expressions(&mut |expr| {
                with_names_kept(&names, expr, |expr| {
                    expr.replace_up(&mut |inner| Ok(self.rounded(inner, &schema)))
                })
            })
        })?;
        Ok(rounded.data)
    }
}

fn casts_to_integer(plan: &LogicalPlan) -> Result<bool> {
    plan.has_expr(
        &mut |inner| matches!(inner, Expr::Cast(cast) if cast.field.data_type().is_integer()),
    )
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Round {
    /// In the middle, to the even one; else away from zero.
    is_even: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Round {
    fn name(&self) -> &'static str {
        if self.is_even {
            "round_ties_even"
        } else {
            "round_ties_away"
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else {
            return internal_err!("{} has one argument", self.name());
        };
        let rounded = value.to_array(args.number_rows)?;
        let round = if self.is_even {
            f64::round_ties_even
        } else {
            f64::round
        };
        let rounded = rounded
            .as_primitive::<Float64Type>()
            .unary::<_, Float64Type>(round);
        match value {
            ColumnarValue::Array(_) => Ok(ColumnarValue::Array(Arc::new(rounded))),
            ColumnarValue::Scalar(_) => Ok(ColumnarValue::Scalar(
                datafusion::common::ScalarValue::try_from_array(&rounded, 0)?,
            )),
        }
    }
}
