//! `percentile_disc(share) WITHIN GROUP (ORDER BY value)`: the first value in order that at least this share of the
//! values is not after; `mode() WITHIN GROUP (ORDER BY value)`: the most frequent value, the first in order of several.
//!
//! Does: sort values of any type that has an order. Does not: count NULL, or calculate between two values (`percentile_cont` does).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, make_comparator};
use arrow::compute::{SortOptions, concat, sort_to_indices};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Signature, Volatility};
use nilometer_series::sort_asking;

use super::series::literal;
use crate::limits::scope::{self, Looks};

const USAGE_OF_MODE: &str = "mode() WITHIN GROUP (ORDER BY value)";

const USAGE: &str =
    "percentile_disc(share) WITHIN GROUP (ORDER BY value): share is a constant from 0 to 1";

/// One of a group's values.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(in crate::function) struct OneOfOrdered {
    is_mode: bool,
    signature: Signature,
}

impl OneOfOrdered {
    pub(in crate::function) fn percentile_disc() -> Self {
        Self {
            is_mode: false,
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }

    pub(in crate::function) fn mode() -> Self {
        Self {
            is_mode: true,
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }

    fn usage(&self) -> &'static str {
        if self.is_mode { USAGE_OF_MODE } else { USAGE }
    }
}

impl AggregateUDFImpl for OneOfOrdered {
    fn name(&self) -> &'static str {
        if self.is_mode {
            "mode"
        } else {
            "percentile_disc"
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [value] if self.is_mode => Ok(vec![value.clone()]),
            [value, share] if !self.is_mode && share.is_numeric() => {
                Ok(vec![value.clone(), DataType::Float64])
            }
            _ => plan_err!("{}", self.usage()),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        if let Some(value) = arg_types.first() {
            Ok(value.clone())
        } else {
            plan_err!("{}", self.usage())
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let item = Arc::new(Field::new_list_field(args.return_type().clone(), true));
        let name = format_state_name(args.name, "values");
        Ok(vec![Arc::new(Field::new(name, DataType::List(item), true))])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let chosen = match args.exprs.get(1).and_then(literal) {
            _ if self.is_mode && args.order_bys.is_empty() => {
                return plan_err!("{USAGE_OF_MODE}");
            }
            _ if self.is_mode => Chosen::MostFrequent,
            Some(ScalarValue::Float64(Some(share))) if (0.0..=1.0).contains(share) => {
                Chosen::AtShare(*share)
            }
            _ => return plan_err!("{USAGE}"),
        };
        let is_descending = args
            .order_bys
            .first()
            .is_some_and(|sort| sort.options.descending);
        Ok(Box::new(Values {
            chosen,
            is_descending,
            kind: args.return_field.data_type().clone(),
            arrays: Vec::new(),
            bytes: 0,
        }))
    }
}

/// Which of the values in order.
#[derive(Debug, Clone, Copy)]
enum Chosen {
    AtShare(f64),
    MostFrequent,
}

impl Chosen {
    fn name(self) -> &'static str {
        match self {
            Self::AtShare(_) => "percentile_disc",
            Self::MostFrequent => "mode",
        }
    }
}

#[derive(Debug)]
struct Values {
    chosen: Chosen,
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

/// Values that are sorted in one call, which cannot be ended.
const SORTED_MAX: usize = 65_536;

/// The places of values in their order.
fn order_of(all: &ArrayRef, is_descending: bool) -> Result<Vec<u32>> {
    let options = SortOptions {
        descending: is_descending,
        nulls_first: false,
    };
    if all.len() <= SORTED_MAX {
        let order = sort_to_indices(all, Some(options), None)?;
        return Ok(order.values().to_vec());
    }
    let compare = make_comparator(all, all, options)?;
    let places = (0..).take(all.len()).collect();
    sort_asking(places, &scope::check, |one: &u32, other| {
        compare(*one as usize, *other as usize)
    })
}

/// The place of the value that stands most often in an order, of several the first.
fn most_frequent(all: &ArrayRef, order: &[u32]) -> Result<Option<u32>> {
    let compare = make_comparator(all, all, SortOptions::default())?;
    let mut most: Option<(u32, usize)> = None;
    let mut looks = Looks::default();
    for run in order.chunk_by(|one, other| compare(*one as usize, *other as usize).is_eq()) {
        looks.rows(run.len())?;
        if let Some(first) = run.first()
            && most.is_none_or(|(_, count)| run.len() > count)
        {
            most = Some((*first, run.len()));
        }
    }
    Ok(most.map(|(first, _)| first))
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(values) = values.first() else {
            return internal_err!("{} has a value", self.chosen.name());
        };
        let known = arrow::compute::is_not_null(values)?;
        // Even without NULLs a copy, so that a slice does not keep all of its batch.
        let known = arrow::compute::filter(values, &known)?;
        self.keep(known);
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let all = self.all()?;
        let order = order_of(&all, self.is_descending)?;
        let row = match self.chosen {
            Chosen::AtShare(share) => {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "a share of a number of rows, rounded up, is a number of rows"
                )]
                let place = (share * all.len() as f64).ceil() as usize;
                order.get(place.saturating_sub(1)).copied()
            }
            Chosen::MostFrequent => most_frequent(&all, &order)?,
        };
        match row {
            Some(row) => ScalarValue::try_from_array(&all, row as usize),
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
            return internal_err!("the state of {} has one column", self.chosen.name());
        };
        for list in lists.as_list::<i32>().iter().flatten() {
            self.keep(list);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::scope::tests::ended_scope;
    use arrow::array::{Float64Array, StringArray};

    /// A group of millions of values was sorted in one call, which nobody could end.
    #[test]
    fn many_values_are_sorted_as_few_are_and_end_with_their_statement() {
        let spread = |row: u32| f64::from(row.wrapping_mul(2_654_435_761) % 1000) - 500.0;
        let floats: Float64Array = (0..70_000).map(|row| Some(spread(row))).collect();
        let texts: StringArray = (0..70_000)
            .map(|row| Some(format!("{}", spread(row))))
            .collect();
        let arrays: [ArrayRef; 2] = [Arc::new(floats), Arc::new(texts)];
        for all in arrays {
            for is_descending in [false, true] {
                let options = SortOptions {
                    descending: is_descending,
                    nulls_first: false,
                };
                let expected = arrow::compute::sort(&all, Some(options)).unwrap();
                let order = order_of(&all, is_descending).unwrap();
                let order = arrow::array::UInt32Array::from(order);
                let found = arrow::compute::take(&all, &order, None).unwrap();
                assert_eq!(&found, &expected);
            }
            let scope = ended_scope();
            scope.run(|| order_of(&all.slice(0, 1000), false)).unwrap();
            scope.run(|| order_of(&all, false)).unwrap_err();
        }
    }
}
