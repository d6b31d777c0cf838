//! `min` and `max` of floats.
//!
//! `DataFusion`'s own begin with the largest finite float instead of infinity, and a NaN hides what comes after it. As in
//! `PostgreSQL`, NaN is greater than every number, whatever its bits. All other types are left to `DataFusion`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature, StatisticsArgs,
};

use super::dense::{Dense, Grouped, Rows, Single};

/// Both, under the names that they had.
pub(in crate::function) fn functions() -> [Arc<AggregateUDF>; 2] {
    [(min_udaf(), Side::Least), (max_udaf(), Side::Greatest)]
        .map(|(inner, side)| Arc::new(AggregateUDF::new_from_impl(Extreme { inner, side })))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Side {
    Least,
    Greatest,
}

impl Side {
    /// Whether a value takes the place of the one that was found before.
    fn is_better(self, value: f64, found: f64) -> bool {
        match self {
            Self::Least => value < found || (found.is_nan() && !value.is_nan()),
            Self::Greatest => value > found || (value.is_nan() && !found.is_nan()),
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    inner: Arc<AggregateUDF>,
    side: Side,
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.inner().return_type(arg_types)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let kind = args.return_field.data_type();
        if !is_ours(kind) {
            return self.inner.inner().accumulator(args);
        }
        Ok(Box::new(Single::new(Extremes {
            side: self.side,
            kind: kind.clone(),
            found: Vec::new(),
        })?))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.inner.inner().groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let kind = args.return_field.data_type();
        if !is_ours(kind) {
            return self.inner.inner().create_groups_accumulator(args);
        }
        Ok(Box::new(Grouped(Extremes {
            side: self.side,
            kind: kind.clone(),
            found: Vec::new(),
        })))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.inner.inner().create_sliding_accumulator(args)
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.inner().is_descending()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.inner().order_sensitivity()
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.inner().coerce_types(arg_types)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn value_from_stats(&self, args: &StatisticsArgs) -> Option<ScalarValue> {
        self.inner.inner().value_from_stats(args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.inner().documentation()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }
}

/// Whether values of a type are compared here: floats. A `real` is the same as a double.
fn is_ours(kind: &DataType) -> bool {
    matches!(kind, DataType::Float64 | DataType::Float32)
}

struct Extremes {
    side: Side,
    kind: DataType,
    /// `None` = no value yet.
    found: Vec<Option<f64>>,
}

impl Dense for Extremes {
    fn grow(&mut self, groups: usize) -> Result<()> {
        self.found.resize(groups.max(self.found.len()), None);
        Ok(())
    }

    fn update(&mut self, values: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        let [values] = values else {
            return internal_err!("min and max have one argument");
        };
        let values = cast(values, &DataType::Float64)?;
        let values = values.as_primitive::<Float64Type>();
        for (row, &value) in values.values().iter().enumerate() {
            if values.is_valid(row)
                && let Some(group) = rows.group(row)
                && let Some(found) = self.found.get_mut(group)
                && found.is_none_or(|found| self.side.is_better(value, found))
            {
                *found = Some(value);
            }
        }
        Ok(())
    }

    fn merge(&mut self, state: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        self.update(state, rows)
    }

    fn evaluate(&self, groups: usize) -> Result<ArrayRef> {
        let found: Float64Array = self.found.iter().take(groups).copied().collect();
        Ok(cast(&found, &self.kind)?)
    }

    fn state(&self, groups: usize) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(groups)?])
    }

    fn convert(&self, values: &[ArrayRef], rows: Rows<'_>) -> Result<Vec<ArrayRef>> {
        let [values] = values else {
            return internal_err!("min and max have one argument");
        };
        let values = cast(values, &DataType::Float64)?;
        let values = values.as_primitive::<Float64Type>();
        let each = values.iter().enumerate();
        let each = each.map(|(row, value)| value.filter(|_| rows.group(row).is_some()));
        Ok(vec![cast(&each.collect::<Float64Array>(), &self.kind)?])
    }

    fn forget(&mut self, groups: usize) {
        self.found.drain(..groups.min(self.found.len()));
    }

    fn groups(&self) -> usize {
        self.found.len()
    }

    fn bytes(&self) -> usize {
        self.found.capacity() * size_of::<Option<f64>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_is_greater_than_every_number_whatever_its_bits() {
        for nan in [f64::NAN, -f64::NAN] {
            assert!(Side::Greatest.is_better(nan, f64::INFINITY));
            assert!(!Side::Greatest.is_better(1.0, nan));
            assert!(Side::Least.is_better(f64::INFINITY, nan));
            assert!(!Side::Least.is_better(nan, 1.0));
        }
        assert!(Side::Least.is_better(f64::NEG_INFINITY, f64::MIN));
        assert!(!Side::Least.is_better(2.0, 1.0));
    }
}
