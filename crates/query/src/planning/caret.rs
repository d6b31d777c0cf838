//! `^` in expressions.

use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// `^` is power, not exclusive or; `rewrite::power` has seen to what it binds.
#[derive(Debug)]
pub(crate) struct Caret;

impl ExprPlanner for Caret {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        _schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        if expr.op != BinaryOperator::BitwiseXor {
            return Ok(PlannerResult::Original(expr));
        }
        let power = datafusion::functions::math::power();
        let float =
            |expr| datafusion::logical_expr::cast(expr, arrow::datatypes::DataType::Float64);
        let args = vec![float(expr.left), float(expr.right)];
        let call = ScalarFunction::new_udf(power, args);
        Ok(PlannerResult::Planned(Expr::ScalarFunction(call)))
    }
}
