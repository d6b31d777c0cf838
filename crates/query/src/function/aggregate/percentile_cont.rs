//! `percentile_cont(share) WITHIN GROUP (ORDER BY value)`: the value at this share of the way through all values in order,
//! interpolated between two.
//!
//! `DataFusion`'s own (55.2) cuts the place between two values to six digits, takes the least of floats by group without a place
//! for NaN, and answers a `real` of `real`s. As in `PostgreSQL` the answer is a double of all digits, and NaN is greater than every
//! number.
//!
//! Does: calculate the answer. Does not: keep the values; `DataFusion`'s own does.

use std::mem::size_of_val;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Float64Array};
use arrow::datatypes::{DataType, FieldRef, Float64Type};
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use datafusion::functions_aggregate::percentile_cont::percentile_cont_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator,
    Signature, Volatility,
};

use super::series::literal;

const USAGE: &str = "percentile_cont(share) WITHIN GROUP (ORDER BY value): share is a constant from 0 to 1, and value is a number";

pub(in crate::function) fn function() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::new_from_impl(PercentileCont {
        inner: percentile_cont_udaf(),
        signature: Signature::user_defined(Volatility::Immutable),
    }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct PercentileCont {
    inner: Arc<AggregateUDF>,
    signature: Signature,
}

/// Where in which order the answer stands.
#[derive(Debug, Clone, Copy)]
struct Place {
    share: f64,
    is_descending: bool,
}

impl Place {
    fn of(args: &AccumulatorArgs) -> Result<Self> {
        let share = match args.exprs.get(1).and_then(literal) {
            Some(ScalarValue::Float64(Some(share))) if (0.0..=1.0).contains(share) => *share,
            _ => return plan_err!("{USAGE}"),
        };
        let first = args.order_bys.first();
        Ok(Self {
            share,
            is_descending: first.is_some_and(|sort| sort.options.descending),
        })
    }

    /// The answer of so many values, whose order is lost. `None` = there are none.
    fn answer(self, values: &mut [f64]) -> Option<f64> {
        let last = values.len().checked_sub(1)?;
        // All NaNs are one by now, and so are the zeros.
        let compare = |one: &f64, other: &f64| {
            let order = one.total_cmp(other);
            if self.is_descending {
                order.reverse()
            } else {
                order
            }
        };
        let place = self.share * last as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a number of rows is a number of rows"
        )]
        let row = (place.floor() as usize).min(last);
        let (_, low, above) = values.select_nth_unstable_by(row, compare);
        let low = *low;
        let rest = place - row as f64;
        if rest <= 0.0 {
            return Some(low);
        }
        let high = above.iter().copied().min_by(compare);
        Some(high.map_or(low, |high| low + rest * (high - low)))
    }

    /// The answers of lists of values.
    fn answers(self, lists: &ArrayRef) -> Float64Array {
        let lists = lists.as_list::<i32>().iter();
        let answers = lists.map(|list| {
            let list = list?;
            let mut values: Vec<f64> = list
                .as_primitive::<Float64Type>()
                .iter()
                .flatten()
                .collect();
            self.answer(&mut values)
        });
        answers.collect()
    }
}

impl AggregateUDFImpl for PercentileCont {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [value, share]
                if (value.is_numeric() || value.is_null())
                    && (share.is_numeric() || share.is_null()) =>
            {
                Ok(vec![DataType::Float64; 2])
            }
            _ => plan_err!("{USAGE}"),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.inner().state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(One {
            place: Place::of(&args)?,
            is_distinct: args.is_distinct,
            values: self.inner.inner().accumulator(args)?,
        }))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.inner.inner().groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Groups {
            place: Place::of(&args)?,
            values: self.inner.inner().create_groups_accumulator(args)?,
        }))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.inner().documentation()
    }
}

/// Of one group, or of a frame that moves.
#[derive(Debug)]
struct One {
    place: Place,
    /// Each value is kept once, with how often it is there, and is not given away with the state.
    is_distinct: bool,
    values: Box<dyn Accumulator>,
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values.update_batch(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.values.supports_retract_batch()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let state = self.values.state()?;
        let Some(ScalarValue::List(list)) = state.first() else {
            return internal_err!("the state of percentile_cont is a list");
        };
        let list: ArrayRef = Arc::clone(list) as ArrayRef;
        if !self.is_distinct {
            // A frame goes on from here.
            self.values.merge_batch(std::slice::from_ref(&list))?;
        }
        ScalarValue::try_from_array(&self.place.answers(&list), 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.values.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.values.merge_batch(states)
    }
}

/// Of each group.
struct Groups {
    place: Place,
    values: Box<dyn GroupsAccumulator>,
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.values
            .update_batch(values, group_indices, opt_filter, total_num_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let state = self.values.state(emit_to)?;
        let Some(lists) = state.first() else {
            return internal_err!("the state of percentile_cont has lists");
        };
        Ok(Arc::new(self.place.answers(lists)))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.values.state(emit_to)
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.values
            .merge_batch(values, group_indices, total_num_groups)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        // The share beside them is no value.
        self.values
            .convert_to_state(values.get(..1).unwrap_or(values), opt_filter)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.size()
    }
}
