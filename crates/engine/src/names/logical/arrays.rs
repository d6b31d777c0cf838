//! Stored values as SQL shows them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, Time64NanosecondType, TimestampNanosecondType,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray, StringArray};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use super::{LogicalType, array, interval_parts, unsortable};
use crate::schema::{field_type, time_type};

impl LogicalType {
    /// Arrow's type of the values that SQL shows.
    pub fn shown_type(self) -> DataType {
        match self {
            Self::Real => DataType::Float32,
            // Both are at most 38.
            Self::Numeric { precision, scale } => {
                DataType::Decimal128(precision, i8::try_from(scale).unwrap_or(i8::MAX))
            }
            Self::Uuid => DataType::Utf8,
            Self::Date => DataType::Date32,
            Self::Timestamp => DataType::Timestamp(TimeUnit::Nanosecond, None),
            Self::TimestampTz => time_type(),
            Self::Time => DataType::Time64(TimeUnit::Nanosecond),
            Self::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            Self::Array(of) => array::shown_type(of),
            _ => field_type(self.physical()),
        }
    }

    /// Stored values as SQL shows them. What was stored as no value of the type (before it was declared) is null.
    pub fn show(self, stored: &ArrayRef) -> ArrayRef {
        if self.is_shown_as_stored() {
            return Arc::clone(stored);
        }
        let integers = stored.as_primitive_opt::<Int64Type>();
        let bytes = stored.as_binary_opt::<i32>();
        let shown: Option<ArrayRef> = match (self, integers, bytes) {
            (Self::Numeric { .. }, Some(values), _) => {
                let values: PrimitiveArray<Decimal128Type> = values.unary(i128::from);
                Some(Arc::new(values.with_data_type(self.shown_type())))
            }
            (Self::Numeric { .. }, _, Some(values)) => {
                let values = values
                    .iter()
                    .map(|it| Some(unsortable(it?.try_into().ok()?)));
                let values: PrimitiveArray<Decimal128Type> = values.collect();
                Some(Arc::new(values.with_data_type(self.shown_type())))
            }
            (Self::Date, Some(values), _) => {
                let days = values.iter().map(|it| i32::try_from(it?).ok());
                Some(Arc::new(days.collect::<PrimitiveArray<Date32Type>>()))
            }
            (Self::Timestamp | Self::TimestampTz, Some(values), _) => {
                let times = values.reinterpret_cast::<TimestampNanosecondType>();
                Some(Arc::new(times.with_data_type(self.shown_type())))
            }
            (Self::Time, Some(values), _) => {
                Some(Arc::new(values.reinterpret_cast::<Time64NanosecondType>()))
            }
            (Self::Uuid, _, Some(values)) => {
                let texts = values.iter().map(|it| self.print(None, it));
                Some(Arc::new(texts.collect::<StringArray>()))
            }
            (Self::Interval, _, Some(values)) => {
                let parts = values.iter().map(|it| {
                    let (months, days, ns) = interval_parts(it?)?;
                    Some(IntervalMonthDayNano::new(months, days, ns))
                });
                let parts: PrimitiveArray<IntervalMonthDayNanoType> = parts.collect();
                Some(Arc::new(parts))
            }
            (Self::Array(of), ..) => array::show(of, stored),
            (Self::Real, ..) => stored.as_primitive_opt::<Float64Type>().map(|values| {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "what is stored was rounded to 32 bits"
                )]
                let values: PrimitiveArray<Float32Type> = values.unary(|it| it as f32);
                let values: ArrayRef = Arc::new(values);
                values
            }),
            _ => None,
        };
        shown.unwrap_or_else(|| arrow_array::new_null_array(&self.shown_type(), stored.len()))
    }
}
