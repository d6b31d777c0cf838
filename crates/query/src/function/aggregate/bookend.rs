//! `first(value, time)` and `last(value, time)`: the value at the earliest and at the latest time of a group.
//!
//! They are other words for `first_value(value ORDER BY time)` and `last_value(value ORDER BY time)`, and become those
//! before anything runs. Rows without a time do not count, as in TimescaleDB.

use std::hash::Hash;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::{SortOptions, filter, is_not_null};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use datafusion::functions_aggregate::first_last::{first_value_udaf, last_value_udaf};
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::function::{AccumulatorArgs, AggregateFunctionSimplification};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Expr, Signature, Volatility};
use datafusion::physical_expr::PhysicalSortExpr;

#[derive(Debug, PartialEq, Eq, Hash)]
pub(in crate::function) struct Bookend {
    is_first: bool,
    signature: Signature,
}

impl Bookend {
    pub(in crate::function) fn first() -> Self {
        Self {
            is_first: true,
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }

    pub(in crate::function) fn last() -> Self {
        Self {
            is_first: false,
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

impl AggregateUDFImpl for Bookend {
    fn name(&self) -> &'static str {
        if self.is_first { "first" } else { "last" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name();
        if let [_, _] = arg_types {
            Ok(arg_types.to_vec())
        } else {
            plan_err!("{name} takes a value and a time: {name}(value, time)")
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        if let Some(value) = arg_types.first() {
            Ok(value.clone())
        } else {
            plan_err!("{} takes a value and a time", self.name())
        }
    }

    /// The column's own type goes with the value, as with what it is rewritten to: the sum of such integers is one of their type.
    fn return_field(&self, arg_fields: &[FieldRef]) -> Result<FieldRef> {
        let Some(value) = arg_fields.first() else {
            return plan_err!("{} takes a value and a time", self.name());
        };
        let field = Field::new(self.name(), value.data_type().clone(), true);
        Ok(Arc::new(field.with_metadata(value.metadata().clone())))
    }

    /// In a window it is not rewritten, and is the same aggregate with its time as the order.
    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let ([value, time], Some(field)) = (args.exprs, args.expr_fields.first()) else {
            return internal_err!("first and last have two arguments");
        };
        let options = SortOptions {
            descending: false,
            nulls_first: !self.is_first,
        };
        let by_time = [PhysicalSortExpr::new(Arc::clone(time), options)];
        let function = if self.is_first {
            first_value_udaf()
        } else {
            last_value_udaf()
        };
        let inner = function.accumulator(AccumulatorArgs {
            exprs: &[Arc::clone(value)],
            expr_fields: &[Arc::clone(field)],
            order_bys: &by_time,
            ..args
        })?;
        Ok(Box::new(WithTime(inner)))
    }

    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        let is_first = self.is_first;
        Some(Box::new(
            move |call: AggregateFunction, info: &SimplifyContext| {
                let AggregateFunctionParams {
                    mut args,
                    distinct,
                    filter,
                    null_treatment,
                    ..
                } = call.params;
                let (Some(time), Some(value)) = (args.pop(), args.pop()) else {
                    return internal_err!("first and last have two arguments");
                };
                let (function, nulls_first) = if is_first {
                    (first_value_udaf(), false)
                } else {
                    (last_value_udaf(), true)
                };
                let filter = if info.nullable(&time).unwrap_or(true) {
                    let has_time = time.clone().is_not_null();
                    Some(Box::new(match filter {
                        Some(filter) => has_time.and(*filter),
                        None => has_time,
                    }))
                } else {
                    filter
                };
                let order_by = vec![time.sort(true, nulls_first)];
                Ok(Expr::AggregateFunction(AggregateFunction::new_udf(
                    function,
                    vec![value],
                    distinct,
                    filter,
                    order_by,
                    null_treatment,
                )))
            },
        ))
    }
}

/// The values of rows that have a time; what they are ordered by comes after them.
#[derive(Debug)]
struct WithTime(Box<dyn Accumulator>);

impl Accumulator for WithTime {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(time) = values.last().filter(|time| time.null_count() > 0) else {
            return self.0.update_batch(values);
        };
        let has_time = is_not_null(time)?;
        let kept = values.iter().map(|values| filter(values, &has_time));
        let kept = kept.collect::<Result<Vec<_>, _>>()?;
        self.0.update_batch(&kept)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.0.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states)
    }
}
