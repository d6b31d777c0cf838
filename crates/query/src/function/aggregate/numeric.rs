//! `sum` and `avg` of integers, and `avg` of `numeric`s, as `PostgreSQL` types them: `numeric`, which no sum is too large for.
//!
//! Does: answer `numeric` for `sum(bigint)` and for `avg` of any integer, `bigint` for `sum` of an `integer` or `smallint`; 16 digits
//! behind the point for the mean of `numeric`s, the last one rounded, where `DataFusion` (55.2) has four more than they have and cuts
//! them off. All other types are left to what there is. Does not: hold for statements over HTTP, whose clients read a sum as an integer and
//! a mean as a float, or within continuous aggregates, whose answers are stored.

use std::collections::HashMap;
use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, ListArray, PrimitiveArray, UInt64Array,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Field, FieldRef, UInt64Type,
};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Coercion, Documentation, GroupsAccumulator,
    ReversedUDAF, SetMonotonicity, Signature, StatisticsArgs, TypeSignature, TypeSignatureClass,
};
use nilometer_engine::SQL_TYPE;
use nilometer_series::{MEAN_SCALE, numeric_mean};

use super::dense::{Dense, Grouped, Rows, Single};
use super::sum::{Sliding, Sums, each};

/// A sum. The digits are a formality: all of the 128 bits are used.
pub(crate) const SUM: DataType = DataType::Decimal128(38, 0);
/// A mean.
pub(crate) const MEAN: DataType = DataType::Decimal128(38, MEAN_SCALE.cast_signed());

/// Both, over what there is for other types.
pub(in crate::function) fn functions(known: [Arc<AggregateUDF>; 2]) -> [Arc<AggregateUDF>; 2] {
    known.map(|inner| {
        let known = inner.signature();
        // An integer stays what it is.
        let mut types = vec![TypeSignature::Coercible(vec![Coercion::new_exact(
            TypeSignatureClass::Integer,
        )])];
        match &known.type_signature {
            TypeSignature::OneOf(others) => types.extend(others.iter().cloned()),
            one => types.push(one.clone()),
        }
        Arc::new(AggregateUDF::new_from_impl(OfIntegers {
            signature: Signature::one_of(types, known.volatility),
            is_mean: inner.name() == "avg",
            inner,
        }))
    })
}

/// Whether an aggregate answers `numeric` for integers.
pub(crate) fn is_numeric(function: &AggregateUDF) -> bool {
    function.inner().downcast_ref::<OfIntegers>().is_some()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfIntegers {
    inner: Arc<AggregateUDF>,
    is_mean: bool,
    signature: Signature,
}

impl OfIntegers {
    /// Whether the calculation is ours, of the type that it answers.
    fn is_ours(&self, kind: &DataType, args: &[FieldRef]) -> bool {
        let of = args.first().map(|field| field.data_type());
        if let (true, Some(DataType::Decimal128(precision, scale))) = (self.is_mean, of) {
            return mean_of_numeric(*precision, *scale).as_ref() == Some(kind);
        }
        (*kind == SUM || *kind == MEAN || *kind == DataType::Int64)
            && of.is_some_and(DataType::is_integer)
    }
}

impl AggregateUDFImpl for OfIntegers {
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
            [kind] if kind.is_integer() && self.is_mean => Ok(MEAN),
            [kind @ DataType::Decimal128(precision, scale)] if self.is_mean => {
                match mean_of_numeric(*precision, *scale) {
                    Some(mean) => Ok(mean),
                    None => self.inner.inner().return_type(std::slice::from_ref(kind)),
                }
            }
            [DataType::Int64 | DataType::UInt64] => Ok(SUM),
            [kind] if kind.is_integer() => Ok(DataType::Int64),
            _ => self.inner.inner().return_type(arg_types),
        }
    }

    fn return_field(&self, arg_fields: &[FieldRef]) -> Result<FieldRef> {
        let declared = arg_fields.first().and_then(|field| {
            let name = field.metadata().get(SQL_TYPE)?;
            matches!(name.as_str(), "integer" | "smallint").then(|| field.data_type())
        });
        let kind = match declared {
            Some(kind) if kind.is_integer() && !self.is_mean => DataType::Int64,
            _ => {
                let types = arg_fields.iter().map(|field| field.data_type().clone());
                self.return_type(&types.collect::<Vec<_>>())?
            }
        };
        Ok(Arc::new(Field::new(self.name(), kind, true)))
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.inner().coerce_types(arg_types)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let kind = args.return_field.data_type();
        if !self.is_ours(kind, args.expr_fields) {
            return self.inner.inner().accumulator(args);
        }
        let digits = Digits::of(kind, args.expr_fields);
        Ok(match (args.is_distinct, self.is_mean) {
            (true, _) => Box::new(Distinct::new(kind, self.is_mean, digits)),
            (false, true) => Box::new(Single::new(Means::new(digits))?),
            (false, false) => Box::new(Single::new(Sums::new(kind))?),
        })
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if !self.is_ours(args.return_field.data_type(), args.input_fields) {
            return self.inner.inner().state_fields(args);
        }
        let field =
            |part: &str, kind| Arc::new(Field::new(format_state_name(args.name, part), kind, true));
        if args.is_distinct {
            let list = DataType::new_list(SUM, true);
            return Ok(vec![field("distinct", list)]);
        }
        let mut fields = vec![field("sum", SUM)];
        if self.is_mean {
            fields.push(field("count", DataType::UInt64));
        }
        Ok(fields)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        if self.is_ours(args.return_field.data_type(), args.expr_fields) {
            return !args.is_distinct;
        }
        self.inner.inner().groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let kind = args.return_field.data_type();
        if !self.is_ours(kind, args.expr_fields) {
            return self.inner.inner().create_groups_accumulator(args);
        }
        Ok(if self.is_mean {
            Box::new(Grouped(Means::new(Digits::of(kind, args.expr_fields))))
        } else {
            Box::new(Grouped(Sums::new(kind)))
        })
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let kind = args.return_field.data_type();
        if !self.is_ours(kind, args.expr_fields) {
            return self.inner.inner().create_sliding_accumulator(args);
        }
        let digits = Digits::of(kind, args.expr_fields);
        Ok(if args.is_distinct {
            Box::new(Distinct::new(kind, self.is_mean, digits))
        } else {
            Box::new(Sliding::new(kind, self.is_mean.then_some(digits)))
        })
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.inner().order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn value_from_stats(&self, args: &StatisticsArgs) -> Option<ScalarValue> {
        let value = self.inner.inner().value_from_stats(args)?;
        value.cast_to(args.return_type).ok()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.inner().documentation()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        match data_type {
            kind if kind.is_integer() => SetMonotonicity::NotMonotonic,
            other => self.inner.inner().set_monotonicity(other),
        }
    }
}

/// The type of the mean of `numeric`s: 16 digits behind the point, fewer where there is no room for them beside those in front of
/// it, but never fewer than `DataFusion` has. `None` = its own is as good.
fn mean_of_numeric(precision: u8, scale: i8) -> Option<DataType> {
    let known = u8::try_from(scale).ok()?;
    let room = DECIMAL128_MAX_PRECISION.saturating_sub(precision.saturating_sub(known));
    let scale = room.min(MEAN_SCALE).max(known + 4);
    (scale <= DECIMAL128_MAX_PRECISION)
        .then(|| DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale.cast_signed()))
}

/// Digits behind the points of values and of their mean.
#[derive(Debug, Clone, Copy)]
pub(super) struct Digits {
    of_values: u32,
    of_mean: u32,
}

impl Digits {
    fn of(mean: &DataType, args: &[FieldRef]) -> Self {
        let behind = |kind: &DataType| match kind {
            DataType::Decimal128(_, scale) => u32::from(scale.unsigned_abs()),
            _ => 0,
        };
        Self {
            of_values: args.first().map_or(0, |field| behind(field.data_type())),
            of_mean: behind(mean),
        }
    }

    /// The mean of so many values, rounded away from zero where it is between two; `None` = it is beyond what there are.
    fn mean(self, sum: i128, count: u64) -> Option<i128> {
        if self.of_values == 0 && self.of_mean == u32::from(MEAN_SCALE) {
            return Some(numeric_mean(sum, count));
        }
        let unit = 10_i128.checked_pow(self.of_mean.checked_sub(self.of_values)?)?;
        let count = i128::from(count.max(1));
        let rest = (sum % count).checked_mul(unit)?;
        let away = i128::from(2 * (rest % count).abs() >= count) * rest.signum();
        let whole = (sum / count).checked_mul(unit)?;
        let mean = whole.checked_add(rest / count + away)?;
        (mean.unsigned_abs() < 10_u128.pow(u32::from(DECIMAL128_MAX_PRECISION))).then_some(mean)
    }
}

/// Means as they are answered, of sums and counts; of no value there is none. No sum = it is beyond what there are.
pub(super) fn means(
    digits: Digits,
    pairs: impl Iterator<Item = (Option<i128>, u64)>,
) -> Result<ArrayRef> {
    let means = pairs.map(|(sum, count)| {
        if count == 0 {
            return Ok(None);
        }
        let Some(mean) = sum.and_then(|sum| digits.mean(sum, count)) else {
            return exec_err!(
                "overflow: the mean of numerics is beyond 38 digits; take the mean of a cast to DOUBLE PRECISION instead"
            );
        };
        Ok(Some(mean))
    });
    let means: Decimal128Array = means.collect::<Result<_>>()?;
    let kind = DataType::Decimal128(
        DECIMAL128_MAX_PRECISION,
        i8::try_from(digits.of_mean).unwrap_or(MEAN_SCALE.cast_signed()),
    );
    Ok(Arc::new(means.with_data_type(kind)))
}

/// Sums and counts by group.
#[derive(Debug)]
struct Means {
    digits: Digits,
    /// `None` = beyond 128 bits, which integers never are.
    sums: Vec<Option<i128>>,
    counts: Vec<u64>,
}

impl Means {
    fn new(digits: Digits) -> Self {
        Self {
            digits,
            sums: Vec::new(),
            counts: Vec::new(),
        }
    }

    fn add(&mut self, group: usize, sum: Option<i128>, count: u64) {
        let (sums, counts) = (self.sums.get_mut(group), self.counts.get_mut(group));
        if let (Some(known), Some(values)) = (sums, counts) {
            *known = known
                .zip(sum)
                .and_then(|(known, sum)| known.checked_add(sum));
            *values += count;
        }
    }

    fn as_state(sums: Vec<Option<i128>>, counts: Vec<u64>) -> Vec<ArrayRef> {
        let sums = sums
            .into_iter()
            .collect::<Decimal128Array>()
            .with_data_type(SUM);
        vec![Arc::new(sums), Arc::new(UInt64Array::from(counts))]
    }
}

impl Dense for Means {
    fn grow(&mut self, groups: usize) -> Result<()> {
        let groups = groups.max(self.sums.len());
        self.sums.resize(groups, Some(0));
        self.counts.resize(groups, 0);
        Ok(())
    }

    fn update(&mut self, values: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        each(values, |row, value| {
            if let Some(group) = rows.group(row) {
                self.add(group, Some(value), 1);
            }
        })
    }

    fn merge(&mut self, state: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        let [sums, counts] = state else {
            return internal_err!("the state of avg has a sum and a count");
        };
        let counts = counts.as_primitive::<UInt64Type>();
        let sums = sums.as_primitive::<Decimal128Type>();
        for (row, sum) in sums.iter().enumerate() {
            if let Some(group) = rows.group(row) {
                self.add(group, sum, counts.value(row));
            }
        }
        Ok(())
    }

    fn evaluate(&self, groups: usize) -> Result<ArrayRef> {
        let pairs = self.sums.iter().copied().zip(self.counts.iter().copied());
        means(self.digits, pairs.take(groups))
    }

    fn state(&self, groups: usize) -> Result<Vec<ArrayRef>> {
        let sums = self.sums.iter().take(groups).copied().collect();
        let counts = self.counts.iter().take(groups).copied().collect();
        Ok(Self::as_state(sums, counts))
    }

    fn convert(&self, values: &[ArrayRef], rows: Rows<'_>) -> Result<Vec<ArrayRef>> {
        let many = values.first().map_or(0, Array::len);
        let (mut sums, mut counts) = (vec![Some(0); many], vec![0; many]);
        each(values, |row, value| {
            let places = (sums.get_mut(row), counts.get_mut(row));
            if let (Some(_), (Some(sum), Some(count))) = (rows.group(row), places) {
                *sum = Some(value);
                *count = 1;
            }
        })?;
        Ok(Self::as_state(sums, counts))
    }

    fn forget(&mut self, groups: usize) {
        let groups = groups.min(self.sums.len());
        self.sums.drain(..groups);
        self.counts.drain(..groups);
    }

    fn groups(&self) -> usize {
        self.sums.len()
    }

    fn bytes(&self) -> usize {
        self.sums.capacity() * size_of::<Option<i128>>() + self.counts.capacity() * size_of::<u64>()
    }
}

/// Different values, and how often each is in a frame that moves.
#[derive(Debug)]
struct Distinct {
    kind: DataType,
    is_mean: bool,
    digits: Digits,
    values: HashMap<i128, u64>,
}

impl Distinct {
    fn new(kind: &DataType, is_mean: bool, digits: Digits) -> Self {
        Self {
            kind: kind.clone(),
            is_mean,
            digits,
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
            let count = self.values.get_mut(&value);
            let is_last = count.is_some_and(|count| {
                *count = count.saturating_sub(1);
                *count == 0
            });
            if is_last {
                self.values.remove(&value);
            }
        })
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let values = self.values.keys().copied();
        let answer = if self.is_mean {
            let mut values = values;
            let sum = values.try_fold(0_i128, i128::checked_add);
            let count = self.values.len() as u64;
            means(self.digits, std::iter::once((sum, count)))?
        } else {
            let sum = values.reduce(i128::saturating_add);
            super::sum::answer(std::iter::once(sum), &self.kind)?
        };
        ScalarValue::try_from_array(&answer, 0)
    }

    fn size(&self) -> usize {
        // A key, a count and a control byte.
        size_of::<Self>() + self.values.capacity() * (size_of::<(i128, u64)>() + 1)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = self.values.keys().copied();
        let values = PrimitiveArray::<Decimal128Type>::from_iter_values(values);
        let values: ArrayRef = Arc::new(values.with_data_type(SUM));
        let item = Arc::new(Field::new_list_field(SUM, true));
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        let list = ListArray::try_new(item, offsets, values, None)?;
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [lists] = states else {
            return internal_err!("an aggregate of different values has one list of them");
        };
        for list in lists.as_list::<i32>().iter().flatten() {
            self.update_batch(&[list])?;
        }
        Ok(())
    }
}
