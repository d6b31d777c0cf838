//! `histogram(value, min, max, nbuckets)`: how many values fall into each of equally wide buckets, with one more
//! below and one above.
//!
//! As in `TimescaleDB`: the minimum belongs to the first bucket, the maximum to the one above all. NULL is not counted.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Int64Type};
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_err, internal_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility,
};

use super::dense::{Dense, Grouped, Rows, Single};
use super::series::literal;
use crate::error::OverMemory;
use crate::limits::scope;

const USAGE: &str = "histogram(value, min, max, nbuckets): min, max and nbuckets are constants";

/// Buckets of one histogram; more than a screen has dots, and few enough that a group of them is 512 KiB.
const BUCKETS_MAX: i64 = 65_536;

#[derive(Debug, PartialEq, Eq, Hash)]
pub(in crate::function) struct Histogram {
    signature: Signature,
}

impl Histogram {
    pub(in crate::function) fn new() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

impl AggregateUDFImpl for Histogram {
    fn name(&self) -> &'static str {
        "histogram"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let is_number = |kind: &DataType| kind.is_numeric() || kind.is_null();
        match arg_types {
            [value, min, max, buckets]
                if [value, min, max].into_iter().all(is_number)
                    && (buckets.is_integer() || buckets.is_null()) =>
            {
                let float = DataType::Float64;
                Ok(vec![float.clone(), float.clone(), float, DataType::Int64])
            }
            _ => plan_err!("{USAGE}"),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(list_type())
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let name = format_state_name(args.name, "counts");
        Ok(vec![Arc::new(Field::new(name, list_type(), true))])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Single::new(Counts::of(&args)?)?))
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Grouped(Counts::of(&args)?)))
    }
}

fn list_type() -> DataType {
    DataType::List(item())
}

fn item() -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Int64, true))
}

/// Counts of all groups, one group after the other.
struct Counts {
    min: f64,
    max: f64,
    /// Without the two at the ends.
    buckets: usize,
    values: Vec<i64>,
    /// Whether a group has a value; without one its histogram is NULL.
    has_value: Vec<bool>,
}

impl Counts {
    fn of(args: &AccumulatorArgs) -> Result<Self> {
        let [_, min, max, buckets] = args.exprs else {
            return plan_err!("{USAGE}");
        };
        let (Some(min), Some(max), Some(buckets)) = (literal(min), literal(max), literal(buckets))
        else {
            return plan_err!("{USAGE}");
        };
        let (
            ScalarValue::Float64(Some(min)),
            ScalarValue::Float64(Some(max)),
            ScalarValue::Int64(Some(buckets)),
        ) = (min, max, buckets)
        else {
            return plan_err!("{USAGE}, not NULL");
        };
        if !(1..=BUCKETS_MAX).contains(buckets) {
            return plan_err!("histogram: nbuckets must be from 1 to {BUCKETS_MAX}, not {buckets}");
        }
        // Also if one is not a number.
        if !(min < max && (max - min).is_finite()) {
            return plan_err!(
                "histogram: min must be less than max and both finite, not {min} and {max}"
            );
        }
        Ok(Self {
            min: *min,
            max: *max,
            buckets: usize::try_from(*buckets).unwrap_or(1),
            values: Vec::new(),
            has_value: Vec::new(),
        })
    }

    fn width(&self) -> usize {
        self.buckets + 2
    }

    fn bucket(&self, value: f64) -> Result<usize> {
        if value.is_nan() {
            return exec_err!(
                "histogram: NaN belongs to no bucket; leave it out with FILTER (WHERE value <> 'NaN')"
            );
        }
        if value < self.min {
            return Ok(0);
        }
        if value >= self.max {
            return Ok(self.buckets + 1);
        }
        // The quotient is below 1, but may round to it.
        let place = self.buckets as f64 * ((value - self.min) / (self.max - self.min));
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the whole part is what is asked for"
        )]
        let place = place as usize;
        Ok(place.min(self.buckets - 1) + 1)
    }

    fn count(&mut self, group: usize, bucket: usize, times: i64) {
        let place = group * self.width() + bucket;
        if let Some(count) = self.values.get_mut(place) {
            *count += times;
        }
        if let Some(has_value) = self.has_value.get_mut(group) {
            *has_value = true;
        }
    }

    fn lists(&self, groups: usize) -> Result<ArrayRef> {
        let width = self.width();
        let bytes = groups
            .saturating_mul(width)
            .saturating_mul(size_of::<i64>());
        let _taken = scope::reserve(bytes).map_err(external)?;
        let counts: Vec<i64> = self.values.iter().take(groups * width).copied().collect();
        let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(width, groups));
        let nulls = self.has_value.iter().take(groups).copied().collect();
        let values = Arc::new(Int64Array::from(counts));
        Ok(Arc::new(ListArray::try_new(
            item(),
            offsets,
            values,
            Some(nulls),
        )?))
    }
}

fn external(over: OverMemory) -> DataFusionError {
    DataFusionError::External(Box::new(over))
}

impl Dense for Counts {
    /// Groups of one batch alone may be more than there is memory for, so it is asked for before they are made: the new
    /// ones and, where the table moves, the old ones beside them.
    fn grow(&mut self, groups: usize) -> Result<()> {
        let groups = groups.max(self.has_value.len());
        let counts = groups.saturating_mul(self.width());
        if counts > self.values.capacity() {
            let capacity = self.values.capacity();
            let roomy = counts.max(capacity + capacity / 2);
            let is_room = |counts: usize| {
                let taken = scope::reserve(counts.saturating_mul(size_of::<i64>()));
                taken.map(drop)
            };
            let counts = match is_room(roomy) {
                Ok(()) => roomy,
                Err(_) => is_room(counts).map(|()| counts).map_err(external)?,
            };
            self.values.reserve_exact(counts - self.values.len());
        }
        self.values.resize(counts, 0);
        self.has_value.resize(groups, false);
        Ok(())
    }

    fn update(&mut self, values: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        let Some(values) = values.first() else {
            return internal_err!("a histogram has a value");
        };
        let values = values.as_primitive::<Float64Type>();
        for (row, value) in values.values().iter().enumerate() {
            if values.is_valid(row)
                && let Some(group) = rows.group(row)
            {
                let bucket = self.bucket(*value)?;
                self.count(group, bucket, 1);
            }
        }
        Ok(())
    }

    fn merge(&mut self, state: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        let Some(lists) = state.first() else {
            return internal_err!("the state of a histogram has one column");
        };
        let lists = lists.as_list::<i32>();
        for row in 0..lists.len() {
            if let (true, Some(group)) = (lists.is_valid(row), rows.group(row)) {
                let counts = lists.value(row);
                for (bucket, count) in counts
                    .as_primitive::<Int64Type>()
                    .values()
                    .iter()
                    .enumerate()
                {
                    self.count(group, bucket, *count);
                }
            }
        }
        Ok(())
    }

    fn evaluate(&self, groups: usize) -> Result<ArrayRef> {
        self.lists(groups)
    }

    fn state(&self, groups: usize) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.lists(groups)?])
    }

    fn convert(&self, values: &[ArrayRef], rows: Rows<'_>) -> Result<Vec<ArrayRef>> {
        let groups = values.first().map_or(0, Array::len);
        let mut each = Self {
            values: Vec::new(),
            has_value: Vec::new(),
            ..*self
        };
        each.grow(groups)?;
        let own: Vec<usize> = (0..groups).collect();
        each.update(values, rows.by(&own))?;
        each.state(groups)
    }

    fn forget(&mut self, groups: usize) {
        let groups = groups.min(self.has_value.len());
        self.values.drain(..groups * self.width());
        self.has_value.drain(..groups);
    }

    fn groups(&self) -> usize {
        self.has_value.len()
    }

    fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<i64>() + self.has_value.capacity()
    }
}
