//! Exact `sum` of integers: an error if and only if the result exceeds 64 bits.
//!
//! `DataFusion` 55.2 adds up in 64 bits and wraps around; so it also makes a sum with a constant in it into two, either of
//! which may be too large. Here 128 bits are added up, which no table fills. The rollups' sums are made so too. All other
//! types are left to `DataFusion`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Int64Array, ListArray, UInt64Array};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, Field, FieldRef, Int8Type, Int16Type, Int32Type,
    Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature, StatisticsArgs,
};

use super::dense::{Dense, Grouped, Rows, Single};
use super::numeric::{Digits, means};

/// What a sum is while it is added up. The digits are a formality: all of the 128 bits are used.
const STATE: DataType = DataType::Decimal128(38, 0);

pub(in crate::function) fn function() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::new_from_impl(Sum { inner: sum_udaf() }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Sum {
    inner: Arc<AggregateUDF>,
}

fn is_ours(kind: &DataType) -> bool {
    matches!(kind, DataType::Int64 | DataType::UInt64)
}

impl AggregateUDFImpl for Sum {
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
        Ok(match (is_ours(kind), args.is_distinct) {
            (false, _) => return self.inner.inner().accumulator(args),
            (true, false) => Box::new(Single::new(Sums::new(kind))?),
            (true, true) => Box::new(Distinct::new(kind)),
        })
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if !is_ours(args.return_type()) || args.is_distinct {
            return self.inner.inner().state_fields(args);
        }
        let name = format_state_name(args.name, "sum");
        Ok(vec![Arc::new(Field::new(name, STATE, true))])
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
        Ok(Box::new(Grouped(Sums::new(kind))))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let kind = args.return_field.data_type();
        Ok(match (is_ours(kind), args.is_distinct) {
            (false, _) => return self.inner.inner().create_sliding_accumulator(args),
            (true, false) => Box::new(Sliding::new(kind, None)),
            (true, true) => Box::new(Distinct::new(kind)),
        })
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.inner().coerce_types(arg_types)
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
        self.inner.inner().set_monotonicity(data_type)
    }
}

/// Calls with the row and the value of each integer that is there.
pub(super) fn each(values: &[ArrayRef], mut take: impl FnMut(usize, i128)) -> Result<()> {
    fn run<T: ArrowPrimitiveType>(values: &ArrayRef, mut take: impl FnMut(usize, i128))
    where
        i128: From<T::Native>,
    {
        let values = values.as_primitive::<T>();
        for (row, &value) in values.values().iter().enumerate() {
            if values.is_valid(row) {
                take(row, i128::from(value));
            }
        }
    }
    let [values] = values else {
        return internal_err!("sum has one argument");
    };
    match values.data_type() {
        DataType::Int64 => run::<Int64Type>(values, &mut take),
        DataType::Int32 => run::<Int32Type>(values, &mut take),
        DataType::Int16 => run::<Int16Type>(values, &mut take),
        DataType::Int8 => run::<Int8Type>(values, &mut take),
        DataType::UInt32 => run::<UInt32Type>(values, &mut take),
        DataType::UInt16 => run::<UInt16Type>(values, &mut take),
        DataType::UInt8 => run::<UInt8Type>(values, &mut take),
        DataType::UInt64 => run::<UInt64Type>(values, &mut take),
        // Units of the last digit.
        DataType::Decimal128(..) => run::<Decimal128Type>(values, &mut take),
        kind => return internal_err!("a sum of integers was given {kind}"),
    }
    Ok(())
}

/// Sums as they are answered.
pub(super) fn answer(
    sums: impl Iterator<Item = Option<i128>>,
    kind: &DataType,
) -> Result<ArrayRef> {
    fn fitting<T: TryFrom<i128>>(
        sums: impl Iterator<Item = Option<i128>>,
    ) -> Result<Vec<Option<T>>> {
        sums.map(|sum| match sum.map(T::try_from) {
            None => Ok(None),
            Some(Ok(sum)) => Ok(Some(sum)),
            Some(Err(_)) => exec_err!(
                "a sum is beyond 64 bits; sum a cast to DOUBLE or to DECIMAL(38,0) instead"
            ),
        })
        .collect()
    }
    Ok(match kind {
        DataType::Decimal128(38, 0) => {
            let sums = sums.collect::<Decimal128Array>();
            Arc::new(sums.with_data_type(STATE))
        }
        DataType::UInt64 => Arc::new(UInt64Array::from(fitting::<u64>(sums)?)),
        _ => Arc::new(Int64Array::from(fitting::<i64>(sums)?)),
    })
}

pub(super) struct Sums {
    kind: DataType,
    /// `None` = no value yet.
    sums: Vec<Option<i128>>,
}

impl Sums {
    pub(super) fn new(kind: &DataType) -> Self {
        Self {
            kind: kind.clone(),
            sums: Vec::new(),
        }
    }

    fn first(&self, groups: usize) -> impl Iterator<Item = Option<i128>> {
        self.sums.iter().take(groups).copied()
    }
}

fn as_state(sums: impl Iterator<Item = Option<i128>>) -> Vec<ArrayRef> {
    let sums = sums.collect::<Decimal128Array>().with_data_type(STATE);
    vec![Arc::new(sums)]
}

impl Dense for Sums {
    fn grow(&mut self, groups: usize) -> Result<()> {
        self.sums.resize(groups.max(self.sums.len()), None);
        Ok(())
    }

    fn update(&mut self, values: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        let sums = &mut self.sums;
        each(values, |row, value| {
            if let Some(sum) = rows.group(row).and_then(|group| sums.get_mut(group)) {
                // 2^64 rows would fill it.
                *sum = Some(sum.unwrap_or(0).saturating_add(value));
            }
        })
    }

    fn merge(&mut self, state: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        self.update(state, rows)
    }

    fn evaluate(&self, groups: usize) -> Result<ArrayRef> {
        answer(self.first(groups), &self.kind)
    }

    fn state(&self, groups: usize) -> Result<Vec<ArrayRef>> {
        Ok(as_state(self.first(groups)))
    }

    fn convert(&self, values: &[ArrayRef], rows: Rows<'_>) -> Result<Vec<ArrayRef>> {
        let mut states = vec![None; values.first().map_or(0, Array::len)];
        each(values, |row, value| {
            if let (Some(_), Some(state)) = (rows.group(row), states.get_mut(row)) {
                *state = Some(value);
            }
        })?;
        Ok(as_state(states.into_iter()))
    }

    fn forget(&mut self, groups: usize) {
        self.sums.drain(..groups.min(self.sums.len()));
    }

    fn groups(&self) -> usize {
        self.sums.len()
    }

    fn bytes(&self) -> usize {
        self.sums.capacity() * size_of::<Option<i128>>()
    }
}

/// The sum, or mean, of a frame that moves over rows.
#[derive(Debug)]
pub(super) struct Sliding {
    kind: DataType,
    /// Of a mean.
    digits: Option<Digits>,
    sum: i128,
    /// A sum was beyond 128 bits, which those of integers never are.
    is_over: bool,
    values: u64,
}

impl Sliding {
    pub(super) fn new(kind: &DataType, digits: Option<Digits>) -> Self {
        Self {
            kind: kind.clone(),
            digits,
            sum: 0,
            is_over: false,
            values: 0,
        }
    }

    fn known(&self) -> Option<i128> {
        (self.values > 0).then_some(self.sum)
    }

    fn keep(&mut self, sum: Option<i128>) {
        match sum {
            Some(sum) => self.sum = sum,
            None => self.is_over = true,
        }
    }
}

impl Accumulator for Sliding {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        each(values, |_, value| {
            self.keep(self.sum.checked_add(value));
            self.values += 1;
        })
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        each(values, |_, value| {
            self.keep(self.sum.checked_sub(value));
            self.values = self.values.saturating_sub(1);
        })
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let answered = if let Some(digits) = self.digits {
            means(
                digits,
                std::iter::once(((!self.is_over).then_some(self.sum), self.values)),
            )?
        } else {
            answer(std::iter::once(self.known()), &self.kind)?
        };
        ScalarValue::try_from_array(&answered, 0)
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("a frame has no state to give away")
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        internal_err!("a frame takes in rows only")
    }
}

/// The sum of different values. For a frame that moves it counts how often each is in it.
#[derive(Debug)]
struct Distinct {
    kind: DataType,
    values: HashMap<i128, u64>,
}

impl Distinct {
    fn new(kind: &DataType) -> Self {
        Self {
            kind: kind.clone(),
            values: HashMap::new(),
        }
    }
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        each(values, |_, value| {
            *self.values.entry(value).or_default() += 1;
        })
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        each(values, |_, value| {
            if let Entry::Occupied(mut known) = self.values.entry(value) {
                *known.get_mut() -= 1;
                if *known.get() == 0 {
                    known.remove();
                }
            }
        })
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = self.values.keys().copied().reduce(i128::saturating_add);
        ScalarValue::try_from_array(&answer(std::iter::once(sum), &self.kind)?, 0)
    }

    fn size(&self) -> usize {
        // A key, a count and a control byte.
        size_of::<Self>() + self.values.capacity() * (size_of::<(i128, u64)>() + 1)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = answer(self.values.keys().copied().map(Some), &self.kind)?;
        let item = Arc::new(Field::new_list_field(self.kind.clone(), true));
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        let list = ListArray::try_new(item, offsets, values, None)?;
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [lists] = states else {
            return internal_err!("sum has one list of values");
        };
        for list in lists.as_list::<i32>().iter().flatten() {
            self.update_batch(&[list])?;
        }
        Ok(())
    }
}
