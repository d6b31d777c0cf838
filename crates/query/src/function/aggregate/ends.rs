//! The first and the last value of each group by time, for `delta` and `derivative`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Float64Array, PrimitiveArray};
use arrow::datatypes::{Float64Type, Int64Type};
use datafusion::common::{Result, exec_err, internal_err};

use super::dense::{Dense, Rows};
use super::series::raw_times;

/// What is made of the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::function) enum Of {
    /// The last value minus the first.
    Delta,
    /// The same per second, or per unit of an integer time.
    Derivative {
        /// Units of the time in a second.
        per_second: u32,
    },
}

/// A number that can be subtracted without losing digits.
pub(in crate::function) trait Number: ArrowPrimitiveType {
    fn minus(last: Self::Native, first: Self::Native) -> Option<Self::Native>;
    fn float(value: Self::Native) -> f64;
}

impl Number for Float64Type {
    fn minus(last: f64, first: f64) -> Option<f64> {
        Some(last - first)
    }

    fn float(value: f64) -> f64 {
        value
    }
}

impl Number for Int64Type {
    fn minus(last: i64, first: i64) -> Option<i64> {
        last.checked_sub(first)
    }

    fn float(value: i64) -> f64 {
        value as f64
    }
}

/// A time and the value at it.
type Sample<T> = (i64, <T as ArrowPrimitiveType>::Native);

pub(in crate::function) struct Ends<T: Number> {
    of: Of,
    first: Vec<Option<Sample<T>>>,
    last: Vec<Option<Sample<T>>>,
}

impl<T: Number> Ends<T> {
    pub(in crate::function) fn new(of: Of) -> Self {
        Self {
            of,
            first: Vec::new(),
            last: Vec::new(),
        }
    }

    /// Of samples at one time, the first that came is the first and the last that came is the last.
    fn take(&mut self, group: usize, first: Sample<T>, last: Sample<T>) {
        if let Some(known) = self.first.get_mut(group)
            && known.is_none_or(|(time, _)| first.0 < time)
        {
            *known = Some(first);
        }
        if let Some(known) = self.last.get_mut(group)
            && known.is_none_or(|(time, _)| last.0 >= time)
        {
            *known = Some(last);
        }
    }
}

impl<T: Number> Dense for Ends<T> {
    fn grow(&mut self, groups: usize) -> Result<()> {
        self.first.resize(groups.max(self.first.len()), None);
        self.last.resize(groups.max(self.last.len()), None);
        Ok(())
    }

    fn update(&mut self, values: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        let [values, times, ..] = values else {
            return internal_err!("a value and a time are missing");
        };
        let (values, times) = (values.as_primitive::<T>(), raw_times(times)?);
        let has_nulls = values.null_count() + times.null_count() > 0;
        for (row, (value, time)) in values.values().iter().zip(times.values()).enumerate() {
            if has_nulls && (values.is_null(row) || times.is_null(row)) {
                continue;
            }
            if let Some(group) = rows.group(row) {
                self.take(group, (*time, *value), (*time, *value));
            }
        }
        Ok(())
    }

    fn merge(&mut self, state: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        let [first_times, first, last_times, last] = state else {
            return internal_err!("the state of two ends has four columns");
        };
        let (first_times, last_times) = (raw_times(first_times)?, raw_times(last_times)?);
        let (first, last) = (first.as_primitive::<T>(), last.as_primitive::<T>());
        for row in 0..first.len() {
            if let (true, Some(group)) = (first_times.is_valid(row), rows.group(row)) {
                self.take(
                    group,
                    (first_times.value(row), first.value(row)),
                    (last_times.value(row), last.value(row)),
                );
            }
        }
        Ok(())
    }

    fn evaluate(&self, groups: usize) -> Result<ArrayRef> {
        let ends = self.first.iter().zip(&self.last).take(groups);
        let ends = ends.map(|(first, last)| first.zip(*last));
        match self.of {
            Of::Delta => {
                let deltas = ends.map(|ends| match ends {
                    None => Ok(None),
                    Some(((_, first), (_, last))) => {
                        let delta = T::minus(last, first);
                        if delta.is_none() {
                            return exec_err!(
                                "delta: the difference is beyond what a bigint holds"
                            );
                        }
                        Ok(delta)
                    }
                });
                Ok(Arc::new(deltas.collect::<Result<PrimitiveArray<T>>>()?))
            }
            Of::Derivative { per_second } => {
                let slopes: Float64Array = ends
                    .map(|ends| {
                        let ((start, first), (end, last)) = ends?;
                        let units = i128::from(end) - i128::from(start);
                        let rise = T::float(last) - T::float(first);
                        (units > 0).then(|| rise / (units as f64 / f64::from(per_second)))
                    })
                    .collect();
                Ok(Arc::new(slopes))
            }
        }
    }

    fn state(&self, groups: usize) -> Result<Vec<ArrayRef>> {
        let columns = |ends: &[Option<Sample<T>>]| -> [ArrayRef; 2] {
            let ends = || ends.iter().take(groups);
            let times: PrimitiveArray<Int64Type> =
                ends().map(|end| end.map(|(time, _)| time)).collect();
            let values: PrimitiveArray<T> = ends().map(|end| end.map(|(_, value)| value)).collect();
            [Arc::new(times), Arc::new(values)]
        };
        Ok([columns(&self.first), columns(&self.last)]
            .into_iter()
            .flatten()
            .collect())
    }

    fn convert(&self, values: &[ArrayRef], rows: Rows<'_>) -> Result<Vec<ArrayRef>> {
        let [values, times, ..] = values else {
            return internal_err!("a value and a time are missing");
        };
        let (values, times) = (values.as_primitive::<T>(), raw_times(times)?);
        let sample = |row: usize| {
            let is_known = values.is_valid(row) && times.is_valid(row) && rows.group(row).is_some();
            is_known.then(|| (times.value(row), values.value(row)))
        };
        let times: PrimitiveArray<Int64Type> = (0..values.len())
            .map(|row| sample(row).map(|(time, _)| time))
            .collect();
        let values: PrimitiveArray<T> = (0..values.len())
            .map(|row| sample(row).map(|(_, value)| value))
            .collect();
        let (times, values): (ArrayRef, ArrayRef) = (Arc::new(times), Arc::new(values));
        Ok(vec![Arc::clone(&times), Arc::clone(&values), times, values])
    }

    fn forget(&mut self, groups: usize) {
        self.first.drain(..groups.min(self.first.len()));
        self.last.drain(..groups.min(self.last.len()));
    }

    fn groups(&self) -> usize {
        self.first.len()
    }

    fn bytes(&self) -> usize {
        (self.first.capacity() + self.last.capacity()) * size_of::<Option<Sample<T>>>()
    }
}
