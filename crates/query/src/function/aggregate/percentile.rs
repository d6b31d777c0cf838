//! `percentile_disc(share) WITHIN GROUP (ORDER BY value)`: the first value in order that at least this share of the
//! values is not after. Of any type that has an order; NULL does not count.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{SortOptions, concat, sort_to_indices};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Signature, Volatility};

use super::series::literal;

const USAGE: &str =
    "percentile_disc(share) WITHIN GROUP (ORDER BY value): share is a constant from 0 to 1";

#[derive(Debug, PartialEq, Eq, Hash)]
pub(in crate::function) struct PercentileDisc {
    signature: Signature,
}

impl PercentileDisc {
    pub(in crate::function) fn new() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

impl AggregateUDFImpl for PercentileDisc {
    fn name(&self) -> &'static str {
        "percentile_disc"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [value, share] if share.is_numeric() => Ok(vec![value.clone(), DataType::Float64]),
            _ => plan_err!("{USAGE}"),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        if let Some(value) = arg_types.first() {
            Ok(value.clone())
        } else {
            plan_err!("{USAGE}")
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let item = Arc::new(Field::new_list_field(args.return_type().clone(), true));
        let name = format_state_name(args.name, "values");
        Ok(vec![Arc::new(Field::new(name, DataType::List(item), true))])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let share = match args.exprs.get(1).and_then(literal) {
            Some(ScalarValue::Float64(Some(share))) if (0.0..=1.0).contains(share) => *share,
            _ => return plan_err!("{USAGE}"),
        };
        let is_descending = args
            .order_bys
            .first()
            .is_some_and(|sort| sort.options.descending);
        Ok(Box::new(Values {
            share,
            is_descending,
            kind: args.return_field.data_type().clone(),
            arrays: Vec::new(),
            bytes: 0,
        }))
    }
}

#[derive(Debug)]
struct Values {
    share: f64,
    is_descending: bool,
    kind: DataType,
    arrays: Vec<ArrayRef>,
    bytes: usize,
}

impl Values {
    fn keep(&mut self, array: ArrayRef) {
        if !array.is_empty() {
            self.bytes += array.get_array_memory_size();
            self.arrays.push(array);
        }
    }

    fn all(&self) -> Result<ArrayRef> {
        if self.arrays.is_empty() {
            return Ok(arrow::array::new_empty_array(&self.kind));
        }
        let arrays: Vec<&dyn Array> = self.arrays.iter().map(AsRef::as_ref).collect();
        Ok(concat(&arrays)?)
    }
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(values) = values.first() else {
            return internal_err!("percentile_disc has a value");
        };
        let known = arrow::compute::is_not_null(values)?;
        // Even without NULLs a copy, so that a slice does not keep all of its batch.
        let known = arrow::compute::filter(values, &known)?;
        self.keep(known);
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let all = self.all()?;
        let options = SortOptions {
            descending: self.is_descending,
            nulls_first: false,
        };
        let order = sort_to_indices(&all, Some(options), None)?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a share of a number of rows, rounded up, is a number of rows"
        )]
        let place = (self.share * all.len() as f64).ceil() as usize;
        match order.values().get(place.saturating_sub(1)) {
            Some(row) => ScalarValue::try_from_array(&all, *row as usize),
            None => ScalarValue::try_from(&self.kind),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bytes
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let list = SingleRowListArrayBuilder::new(self.all()?).build_list_scalar();
        Ok(vec![list])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let Some(lists) = states.first() else {
            return internal_err!("the state of percentile_disc has one column");
        };
        for list in lists.as_list::<i32>().iter().flatten() {
            self.keep(list);
        }
        Ok(())
    }
}
