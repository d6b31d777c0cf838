//! `avg` and `sum` of intervals, which `DataFusion` 55.2 does not have. All other types are left to what there is.
//!
//! As `PostgreSQL` has it: months, days and time are added up each by itself; what is left of the months of an average goes on as
//! days of 30, what is left of its days as time.

use std::mem::size_of_val;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Decimal128Type, Field, FieldRef, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err};
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Coercion, Documentation, GroupsAccumulator,
    ReversedUDAF, SetMonotonicity, Signature, StatisticsArgs, TypeSignature, TypeSignatureClass,
};

use crate::semantics::intervals::scale;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
/// Sums of nanoseconds, which no table fills.
const WIDE: DataType = DataType::Decimal128(38, 0);

/// Both, over what there is for other types.
pub(in crate::function) fn functions(sum: Arc<AggregateUDF>) -> [Arc<AggregateUDF>; 2] {
    [(avg_udaf(), true), (sum, false)].map(|(inner, is_average)| {
        let known = inner.signature();
        let mut types = match &known.type_signature {
            TypeSignature::OneOf(types) => types.clone(),
            one => vec![one.clone()],
        };
        // No text becomes an interval: the sum of texts is no function.
        types.push(TypeSignature::Coercible(vec![Coercion::new_exact(
            TypeSignatureClass::Interval,
        )]));
        Arc::new(AggregateUDF::new_from_impl(OfIntervals {
            signature: Signature::one_of(types, known.volatility),
            inner,
            is_average,
        }))
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfIntervals {
    inner: Arc<AggregateUDF>,
    is_average: bool,
    signature: Signature,
}

impl AggregateUDFImpl for OfIntervals {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [DataType::Interval(_)] => Ok(INTERVAL),
            _ => self.inner.inner().return_type(arg_types),
        }
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [DataType::Interval(_)] => Ok(vec![INTERVAL]),
            _ => self.inner.inner().coerce_types(arg_types),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.return_field.data_type() != &INTERVAL {
            return self.inner.inner().accumulator(args);
        }
        if args.is_distinct {
            return exec_err!(
                "{}(DISTINCT interval) is not supported; take the intervals once in a subquery",
                self.name()
            );
        }
        Ok(Box::new(Intervals {
            is_average: self.is_average,
            ..Intervals::default()
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if args.return_type() != &INTERVAL {
            return self.inner.inner().state_fields(args);
        }
        let parts = [
            ("count", DataType::Int64),
            ("months", DataType::Int64),
            ("days", DataType::Int64),
            ("ns", WIDE),
        ];
        let field =
            |(part, kind)| Arc::new(Field::new(format_state_name(args.name, part), kind, true));
        Ok(parts.into_iter().map(field).collect())
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        args.return_field.data_type() != &INTERVAL
            && self.inner.inner().groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.inner().create_groups_accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.return_field.data_type() == &INTERVAL {
            return self.accumulator(args);
        }
        self.inner.inner().create_sliding_accumulator(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.inner().order_sensitivity()
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
        match data_type {
            DataType::Interval(_) => SetMonotonicity::NotMonotonic,
            other => self.inner.inner().set_monotonicity(other),
        }
    }
}

/// What was added up of intervals.
#[derive(Debug, Default)]
struct Intervals {
    is_average: bool,
    count: i64,
    months: i64,
    days: i64,
    ns: i128,
}

impl Intervals {
    fn add(&mut self, values: &[ArrayRef], sign: i64) -> Result<()> {
        let [values] = values else {
            return internal_err!("an aggregate of intervals has one argument");
        };
        let values = cast(values, &INTERVAL)?;
        for value in values
            .as_primitive::<IntervalMonthDayNanoType>()
            .iter()
            .flatten()
        {
            self.count += sign;
            self.months += sign * i64::from(value.months);
            self.days += sign * i64::from(value.days);
            self.ns += i128::from(sign) * i128::from(value.nanoseconds);
        }
        Ok(())
    }

    /// The sum; `None` = it is too long.
    fn sum(&self) -> Option<IntervalMonthDayNano> {
        Some(IntervalMonthDayNano {
            months: i32::try_from(self.months).ok()?,
            days: i32::try_from(self.days).ok()?,
            nanoseconds: i64::try_from(self.ns).ok()?,
        })
    }
}

/// A time rounded to microseconds, which `PostgreSQL`'s intervals have.
fn to_microseconds(ns: i64) -> i64 {
    let rest = ns % 1000;
    let whole = ns - rest;
    match rest {
        500.. => whole.saturating_add(1000),
        ..=-500 => whole.saturating_sub(1000),
        _ => whole,
    }
}

impl Accumulator for Intervals {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(values, 1)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(values, -1)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.count == 0 {
            return Ok(ScalarValue::IntervalMonthDayNano(None));
        }
        let sum = self.sum();
        let answer = if self.is_average {
            let mean = sum.and_then(|sum| scale(sum, self.count as f64, true));
            mean.map(|mean| IntervalMonthDayNano {
                nanoseconds: to_microseconds(mean.nanoseconds),
                ..mean
            })
        } else {
            sum
        };
        let Some(answer) = answer else {
            return exec_err!("an interval is out of range");
        };
        Ok(ScalarValue::IntervalMonthDayNano(Some(answer)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![
            ScalarValue::Int64(Some(self.count)),
            ScalarValue::Int64(Some(self.months)),
            ScalarValue::Int64(Some(self.days)),
            ScalarValue::Decimal128(Some(self.ns), 38, 0),
        ])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [counts, months, days, ns] = states else {
            return internal_err!("the state of an aggregate of intervals has four parts");
        };
        let whole = |array: &ArrayRef, row: usize| array.as_primitive::<Int64Type>().value(row);
        for row in 0..counts.len() {
            self.count += whole(counts, row);
            self.months += whole(months, row);
            self.days += whole(days, row);
            self.ns += ns.as_primitive::<Decimal128Type>().value(row);
        }
        Ok(())
    }
}
