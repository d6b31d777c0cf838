//! `sum` and `avg` of floats over windows, added up in the order of the rows.
//!
//! The library adds up several rows at a time, which rounds differently and loses what one 1e20 swallows at other rows than
//! `PostgreSQL` does. Does: add as `PostgreSQL`'s `float8pl` and `float8_accum` do. Does not: groups; their rows have no order.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF};

/// The accumulator, where this is a sum or an average of floats.
pub(super) fn of_floats(
    fun: &AggregateUDF,
    args: &AccumulatorArgs<'_>,
) -> Option<Box<dyn Accumulator>> {
    let is_float = |kind: &DataType| *kind == DataType::Float64;
    let [field] = args.expr_fields else {
        return None;
    };
    if args.is_distinct || !is_float(field.data_type()) || !is_float(args.return_type()) {
        return None;
    }
    match fun.name() {
        "sum" => Some(Box::new(Sum(None))),
        "avg" => Some(Box::new(Average::default())),
        _ => None,
    }
}

/// Calls with each float that is there.
fn each(values: &ArrayRef, mut take: impl FnMut(f64)) {
    let values = values.as_primitive::<Float64Type>();
    if values.null_count() == 0 {
        values.values().iter().for_each(|&value| take(value));
    } else {
        values.iter().flatten().for_each(take);
    }
}

/// It begins with the first value and not with zero: the sum of negative zeros is one.
#[derive(Debug)]
struct Sum(Option<f64>);

impl Accumulator for Sum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [values] = values else {
            return internal_err!("sum has one argument");
        };
        each(values, |value| {
            self.0 = Some(self.0.map_or(value, |sum| sum + value));
        });
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.0))
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Float64(self.0)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

#[derive(Debug, Default)]
struct Average {
    values: f64,
    sum: f64,
}

impl Accumulator for Average {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [values] = values else {
            return internal_err!("avg has one argument");
        };
        each(values, |value| {
            self.values += 1.0;
            self.sum += value;
        });
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let average = (self.values > 0.0).then(|| self.sum / self.values);
        Ok(ScalarValue::Float64(average))
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok([self.values, self.sum].map(ScalarValue::from).to_vec())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [values, sums] = states else {
            return internal_err!("the state of avg has two columns");
        };
        each(values, |more| self.values += more);
        each(sums, |more| self.sum += more);
        Ok(())
    }
}
