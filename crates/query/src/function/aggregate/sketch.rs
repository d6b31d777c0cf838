//! Percentiles from sketches, with a sketch that a query may have.
//!
//! `approx_percentile_cont(..., centroids)` and its weighted twin take the room for as many centroids as they are told, at
//! once and from nobody's budget. Does: refuse more than are of any use. Does not: change what the functions say.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::{Result, plan_err};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Documentation, Signature,
};
use datafusion::physical_expr::PhysicalExpr;

/// Functions and how many arguments they have before the number of centroids.
const SKETCHES: [(&str, usize); 2] = [
    ("approx_percentile_cont", 2),
    ("approx_percentile_cont_with_weight", 3),
];

/// A hundred are the default; with so many the error is below a millionth of the rows, in 160 KB a group.
const CENTROIDS_MAX: i64 = 10_000;

/// Puts the bounded functions in the places of the others.
pub(in crate::function) fn register(session: &mut SessionState) -> Result<()> {
    for (name, before) in SKETCHES {
        let inner = session.udaf(name)?;
        let bounded = Sketch { inner, before };
        session.register_udaf(Arc::new(AggregateUDF::new_from_impl(bounded)))?;
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Sketch {
    inner: Arc<AggregateUDF>,
    before: usize,
}

/// The value of an expression without columns, if it is a number.
fn constant(expr: &Arc<dyn PhysicalExpr>) -> Option<i64> {
    let batch = RecordBatch::new_empty(Arc::new(Schema::empty()));
    match expr.evaluate(&batch).ok()? {
        ColumnarValue::Scalar(value) => i64::try_from(value.cast_to(&DataType::Int64).ok()?).ok(),
        ColumnarValue::Array(_) => None,
    }
}

impl AggregateUDFImpl for Sketch {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn supports_within_group_clause(&self) -> bool {
        self.inner.supports_within_group_clause()
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        // What is no constant the function refuses by itself.
        let centroids = args.exprs.get(self.before).map(constant);
        if centroids.is_some_and(|number| number.is_none_or(|it| it > CENTROIDS_MAX)) {
            return plan_err!(
                "{} takes a constant number of centroids, at most {CENTROIDS_MAX}",
                self.name()
            );
        }
        self.inner.accumulator(args)
    }
}
