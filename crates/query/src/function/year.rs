//! `date_part` and `extract`, without a shortcut of `DataFusion`'s that is wrong at the ends of time.
//!
//! It turns `extract(year FROM time) > 0` into `time >= ...`, where the year 0 is no 64-bit nanoseconds, and so nothing
//! is. What is inside stays a range, which a scan can use.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::functions::datetime::date_part;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult};
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};

/// The function.
pub(super) fn function() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(DatePart { inner: date_part() }))
}

/// Plans `extract` as this function; the planner has another in mind, whatever is registered.
#[derive(Debug)]
pub(crate) struct Extract;

impl ExprPlanner for Extract {
    fn plan_extract(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        let call = ScalarFunction::new_udf(function(), args);
        Ok(PlannerResult::Planned(Expr::ScalarFunction(call)))
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DatePart {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for DatePart {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.inner.invoke_with_args(args)
    }

    fn preimage(
        &self,
        args: &[Expr],
        literal: &Expr,
        info: &SimplifyContext,
    ) -> Result<PreimageResult> {
        Ok(match self.inner.preimage(args, literal, info)? {
            PreimageResult::Range { interval, .. }
                if interval.lower().is_null() || interval.upper().is_null() =>
            {
                PreimageResult::None
            }
            found => found,
        })
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}
