//! All values of each group in time order, for `rate` and `lttb`.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Float64Builder, Int64Array, Int64Builder, ListArray,
    ListBuilder, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields, Float64Type, Int64Type};
use datafusion::common::{Result, internal_err};

use super::dense::{Dense, Rows};
use super::series::raw_times;

/// What is made of the samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::function) enum Of {
    /// How much a counter has grown per second, or per unit of an integer time.
    Rate {
        /// Units of the time in a second.
        per_second: u32,
    },
    /// The samples that keep the picture.
    Picture {
        /// How many.
        points: usize,
        /// The type of the time.
        time: DataType,
    },
}

/// A time and the value at it.
type Sample = (i64, f64);

pub(in crate::function) struct Samples {
    of: Of,
    groups: Vec<Vec<Sample>>,
    /// Bytes of the inner vectors.
    bytes: usize,
}

/// The fields of a point of a picture.
pub(in crate::function) fn point_fields(time: &DataType) -> Fields {
    Fields::from(vec![
        Field::new("time", time.clone(), false),
        Field::new("value", DataType::Float64, false),
    ])
}

impl Samples {
    pub(in crate::function) fn new(of: Of) -> Self {
        Self {
            of,
            groups: Vec::new(),
            bytes: 0,
        }
    }

    fn take(&mut self, group: usize, sample: Sample) {
        if let Some(samples) = self.groups.get_mut(group) {
            let before = samples.capacity();
            samples.push(sample);
            self.bytes += (samples.capacity() - before) * size_of::<Sample>();
        }
    }

    fn pictures(&self, groups: usize, points: usize, time: &DataType) -> Result<ArrayRef> {
        let (mut times, mut values) = (Vec::new(), Vec::new());
        let mut lengths = Vec::with_capacity(groups);
        for samples in self.groups.iter().take(groups) {
            let picture = picture(&in_order(samples), points);
            lengths.push(picture.len());
            times.extend(picture.iter().map(|(time, _)| *time));
            values.extend(picture.iter().map(|(_, value)| *value));
        }
        let nulls = lengths
            .iter()
            .map(|length| *length > 0)
            .collect::<NullBuffer>();
        let fields = point_fields(time);
        let times = cast(&Int64Array::from(times), time)?;
        let columns: Vec<ArrayRef> = vec![times, Arc::new(Float64Array::from(values))];
        let points = StructArray::try_new(fields.clone(), columns, None)?;
        let field = Arc::new(Field::new_list_field(DataType::Struct(fields), true));
        let offsets = OffsetBuffer::from_lengths(lengths);
        Ok(Arc::new(ListArray::try_new(
            field,
            offsets,
            Arc::new(points),
            Some(nulls),
        )?))
    }
}

/// By time; of samples at one time the last that came.
fn in_order(samples: &[Sample]) -> Vec<Sample> {
    let mut sorted = samples.to_vec();
    if !sorted.is_sorted_by(|one, other| one.0 < other.0) {
        sorted.reverse();
        sorted.sort_by_key(|(time, _)| *time);
        sorted.dedup_by_key(|(time, _)| *time);
    }
    sorted
}

/// What a counter grew by: a value below the one before means that it began again from 0.
fn rate(samples: &[Sample], per_second: u32) -> Option<f64> {
    let ((start, _), (end, _)) = (samples.first()?, samples.last()?);
    let seconds = (i128::from(*end) - i128::from(*start)) as f64 / f64::from(per_second);
    let pairs = samples.iter().zip(samples.iter().skip(1));
    let grown: f64 = pairs
        .map(|((_, before), (_, value))| {
            if value < before {
                *value
            } else {
                value - before
            }
        })
        .sum();
    (end > start).then(|| grown / seconds)
}

/// The largest triangles: the first and the last sample, and between them, of each of equally many samples, the one
/// that makes the largest triangle with the one chosen before and the mean of the next ones.
fn picture(samples: &[Sample], points: usize) -> Vec<Sample> {
    let (Some(&first), Some(&last)) = (samples.first(), samples.last()) else {
        return Vec::new();
    };
    if samples.len() <= points {
        return samples.to_vec();
    }
    match points {
        0 => return Vec::new(),
        1 => return vec![first],
        2 => return vec![first, last],
        _ => {}
    }
    // Relative to the first, so that the differences keep their digits as floats.
    let x = |time: i64| (i128::from(time) - i128::from(first.0)) as f64;
    let every = (samples.len() - 2) as f64 / (points - 2) as f64;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the whole part, of what is not beyond the number of samples, is what is asked for"
    )]
    let edge = |place: usize| ((place as f64 * every).floor() as usize + 1).min(samples.len());
    let mut chosen = Vec::with_capacity(points);
    let mut before = first;
    chosen.push(first);
    for place in 0..points - 2 {
        let next = samples
            .get(edge(place + 1)..edge(place + 2))
            .unwrap_or_default();
        let count = next.len().max(1) as f64;
        let mean_x = next.iter().map(|(time, _)| x(*time)).sum::<f64>() / count;
        let mean_y = next.iter().map(|(_, value)| *value).sum::<f64>() / count;
        let mut largest = -1.0;
        let mut best = None;
        for sample in samples
            .get(edge(place)..edge(place + 1))
            .unwrap_or_default()
        {
            let area = ((x(before.0) - mean_x) * (sample.1 - before.1)
                - (x(before.0) - x(sample.0)) * (mean_y - before.1))
                .abs();
            if area > largest || best.is_none() {
                largest = area;
                best = Some(*sample);
            }
        }
        if let Some(best) = best {
            chosen.push(best);
            before = best;
        }
    }
    chosen.push(last);
    chosen
}

impl Dense for Samples {
    fn grow(&mut self, groups: usize) -> Result<()> {
        self.groups
            .resize(groups.max(self.groups.len()), Vec::new());
        Ok(())
    }

    fn update(&mut self, values: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        let [values, times, ..] = values else {
            return internal_err!("a value and a time are missing");
        };
        let (values, times) = (values.as_primitive::<Float64Type>(), raw_times(times)?);
        for (row, (value, time)) in values.values().iter().zip(times.values()).enumerate() {
            if values.is_valid(row)
                && times.is_valid(row)
                && let Some(group) = rows.group(row)
            {
                self.take(group, (*time, *value));
            }
        }
        Ok(())
    }

    fn merge(&mut self, state: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        let [times, values] = state else {
            return internal_err!("the state of samples has two columns");
        };
        let (times, values) = (times.as_list::<i32>(), values.as_list::<i32>());
        for row in 0..times.len() {
            let Some(group) = rows.group(row) else {
                continue;
            };
            let (times, values) = (times.value(row), values.value(row));
            let times = times.as_primitive::<Int64Type>().values();
            let values = values.as_primitive::<Float64Type>().values();
            for (time, value) in times.iter().zip(values) {
                self.take(group, (*time, *value));
            }
        }
        Ok(())
    }

    fn evaluate(&self, groups: usize) -> Result<ArrayRef> {
        match &self.of {
            Of::Rate { per_second } => {
                let groups = self.groups.iter().take(groups);
                let rates: Float64Array = groups
                    .map(|samples| rate(&in_order(samples), *per_second))
                    .collect();
                Ok(Arc::new(rates))
            }
            Of::Picture { points, time } => self.pictures(groups, *points, time),
        }
    }

    fn state(&self, groups: usize) -> Result<Vec<ArrayRef>> {
        let mut times = ListBuilder::new(Int64Builder::new());
        let mut values = ListBuilder::new(Float64Builder::new());
        for samples in self.groups.iter().take(groups) {
            for (time, value) in samples {
                times.values().append_value(*time);
                values.values().append_value(*value);
            }
            times.append(true);
            values.append(true);
        }
        Ok(vec![Arc::new(times.finish()), Arc::new(values.finish())])
    }

    fn convert(&self, values: &[ArrayRef], rows: Rows<'_>) -> Result<Vec<ArrayRef>> {
        let [values, times, ..] = values else {
            return internal_err!("a value and a time are missing");
        };
        let mut each = Self::new(self.of.clone());
        each.grow(values.len())?;
        let own: Vec<usize> = (0..values.len()).collect();
        each.update(&[Arc::clone(values), Arc::clone(times)], rows.by(&own))?;
        each.state(values.len())
    }

    fn forget(&mut self, groups: usize) {
        for samples in self.groups.drain(..groups.min(self.groups.len())) {
            self.bytes -= samples.capacity() * size_of::<Sample>();
        }
    }

    fn groups(&self) -> usize {
        self.groups.len()
    }

    fn bytes(&self) -> usize {
        self.bytes + self.groups.capacity() * size_of::<Vec<Sample>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_began_again_has_grown_by_what_it_shows_since() {
        // 10 -> 14 is 4, then it began again and shows 3, then 3 -> 8 is 5: 12 in 30 s.
        let samples = [(0, 10.0), (10, 14.0), (20, 3.0), (30, 8.0)];
        assert_eq!(rate(&samples, 1), Some(0.4));
        assert_eq!(rate(&samples[..1], 1), None);
        assert_eq!(rate(&[], 1), None);
    }

    #[test]
    fn the_picture_keeps_the_ends_and_the_spike() {
        let mut samples: Vec<Sample> = (0..100).map(|time| (time, 0.0)).collect();
        samples[50].1 = 100.0;
        let picture = picture(&samples, 7);
        assert_eq!(picture.len(), 7);
        assert_eq!(picture[0], (0, 0.0));
        assert_eq!(picture[6], (99, 0.0));
        assert!(picture.contains(&(50, 100.0)), "{picture:?}");
        assert!(picture.is_sorted_by(|one, other| one.0 < other.0));
    }
}
