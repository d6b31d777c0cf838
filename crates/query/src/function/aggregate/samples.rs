//! All values of each group in time order, for `rate`, `lttb`, `asap_smooth` and `timevector`.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Float64Builder, Int64Array, Int64Builder, ListArray,
    ListBuilder, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields, Float64Type, Int64Type};
use datafusion::common::{Result, internal_err};
use nilometer_series::sort_asking;
use nilometer_summaries as summaries;

use super::dense::{Dense, Rows};
use super::series::raw_times;
use crate::limits::scope::{self, Looks};

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
        /// Which, and how many.
        drawn: Drawn,
        /// The type of the time.
        time: DataType,
    },
}

/// The samples that a picture shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::function) enum Drawn {
    /// So many that keep the shape.
    Triangles(usize),
    /// A smooth curve of about so many.
    Smooth(usize),
    /// All of them.
    All,
}

impl Drawn {
    fn of(self, samples: Vec<Sample>) -> Result<Vec<Sample>> {
        let resolution = match self {
            Self::Triangles(points) => return picture(&samples, points),
            Self::All => return Ok(samples),
            Self::Smooth(resolution) => resolution,
        };
        let samples = samples.into_iter();
        let samples = samples.map(|(time, value)| summaries::Sample { time, value });
        let smooth = summaries::asap(&samples.collect::<Vec<_>>(), resolution);
        Ok(smooth.into_iter().map(|it| (it.time, it.value)).collect())
    }
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

    fn pictures(&self, groups: usize, drawn: Drawn, time: &DataType) -> Result<ArrayRef> {
        let (mut times, mut values) = (Vec::new(), Vec::new());
        let mut lengths = Vec::with_capacity(groups);
        for samples in self.groups.iter().take(groups) {
            let picture = drawn.of(in_order(samples)?)?;
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
fn in_order(samples: &[Sample]) -> Result<Vec<Sample>> {
    let mut looks = Looks::default();
    let mut is_sorted = true;
    for (one, other) in samples.iter().zip(samples.iter().skip(1)) {
        looks.rows(1)?;
        is_sorted &= one.0 < other.0;
    }
    if is_sorted {
        return Ok(samples.to_vec());
    }
    let sorted = samples.iter().rev().copied().collect();
    let sorted = sort_asking(sorted, &scope::check, |one: &Sample, other| {
        one.0.cmp(&other.0)
    })?;
    let mut once: Vec<Sample> = Vec::with_capacity(sorted.len());
    for sample in sorted {
        looks.rows(1)?;
        if once.last().is_none_or(|last| last.0 != sample.0) {
            once.push(sample);
        }
    }
    Ok(once)
}

/// What a counter grew by: a value below the one before means that it began again from 0.
fn rate(samples: &[Sample], per_second: u32) -> Result<Option<f64>> {
    let (Some((start, _)), Some((end, _))) = (samples.first(), samples.last()) else {
        return Ok(None);
    };
    let seconds = (i128::from(*end) - i128::from(*start)) as f64 / f64::from(per_second);
    let mut looks = Looks::default();
    let mut grown = 0.0;
    for ((_, before), (_, value)) in samples.iter().zip(samples.iter().skip(1)) {
        looks.rows(1)?;
        grown += if value < before {
            *value
        } else {
            value - before
        };
    }
    Ok((end > start).then(|| grown / seconds))
}

/// The largest triangles: the first and the last sample, and between them, of each of equally many samples, the one
/// that makes the largest triangle with the one chosen before and the mean of the next ones.
fn picture(samples: &[Sample], points: usize) -> Result<Vec<Sample>> {
    let (Some(&first), Some(&last)) = (samples.first(), samples.last()) else {
        return Ok(Vec::new());
    };
    if samples.len() <= points {
        return Ok(samples.to_vec());
    }
    match points {
        0 => return Ok(Vec::new()),
        1 => return Ok(vec![first]),
        2 => return Ok(vec![first, last]),
        _ => {}
    }
    let mut looks = Looks::default();
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
        let (mut sum_x, mut sum_y) = (0.0, 0.0);
        for (time, value) in next {
            looks.rows(1)?;
            sum_x += x(*time);
            sum_y += *value;
        }
        let (mean_x, mean_y) = (sum_x / count, sum_y / count);
        let mut largest = -1.0;
        let mut best = None;
        for sample in samples
            .get(edge(place)..edge(place + 1))
            .unwrap_or_default()
        {
            looks.rows(1)?;
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
    Ok(chosen)
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
        let mut looks = Looks::default();
        for row in 0..times.len() {
            let Some(group) = rows.group(row) else {
                continue;
            };
            let (times, values) = (times.value(row), values.value(row));
            let times = times.as_primitive::<Int64Type>().values();
            let values = values.as_primitive::<Float64Type>().values();
            for (time, value) in times.iter().zip(values) {
                looks.rows(1)?;
                self.take(group, (*time, *value));
            }
        }
        Ok(())
    }

    fn evaluate(&self, groups: usize) -> Result<ArrayRef> {
        match &self.of {
            Of::Rate { per_second } => {
                let groups = self.groups.iter().take(groups);
                let rates = groups.map(|samples| rate(&in_order(samples)?, *per_second));
                Ok(Arc::new(rates.collect::<Result<Float64Array>>()?))
            }
            Of::Picture { drawn, time } => self.pictures(groups, *drawn, time),
        }
    }

    fn state(&self, groups: usize) -> Result<Vec<ArrayRef>> {
        let mut times = ListBuilder::new(Int64Builder::new());
        let mut values = ListBuilder::new(Float64Builder::new());
        let mut looks = Looks::default();
        for samples in self.groups.iter().take(groups) {
            for (time, value) in samples {
                looks.rows(1)?;
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
    use crate::limits::scope::tests::ended_scope;

    #[test]
    fn a_counter_that_began_again_has_grown_by_what_it_shows_since() {
        // 10 -> 14 is 4, then it began again and shows 3, then 3 -> 8 is 5: 12 in 30 s.
        let samples = [(0, 10.0), (10, 14.0), (20, 3.0), (30, 8.0)];
        assert_eq!(rate(&samples, 1).unwrap(), Some(0.4));
        assert_eq!(rate(&samples[..1], 1).unwrap(), None);
        assert_eq!(rate(&[], 1).unwrap(), None);
    }

    #[test]
    fn the_picture_keeps_the_ends_and_the_spike() {
        let mut samples: Vec<Sample> = (0..100).map(|time| (time, 0.0)).collect();
        samples[50].1 = 100.0;
        let picture = picture(&samples, 7).unwrap();
        assert_eq!(picture.len(), 7);
        assert_eq!(picture[0], (0, 0.0));
        assert_eq!(picture[6], (99, 0.0));
        assert!(picture.contains(&(50, 100.0)), "{picture:?}");
        assert!(picture.is_sorted_by(|one, other| one.0 < other.0));
    }

    /// A group of millions of samples was sorted and gone through in calls that nobody could end.
    #[test]
    fn what_is_made_of_many_samples_ends_with_its_statement() {
        let many: Vec<Sample> = (0..70_000).map(|time| (time, 1.0)).collect();
        let turned: Vec<Sample> = many.iter().rev().copied().collect();
        let scope = ended_scope();
        // Too few to look.
        scope.run(|| in_order(&many[..1000])).unwrap();
        scope.run(|| in_order(&many)).unwrap_err();
        scope.run(|| in_order(&turned)).unwrap_err();
        scope.run(|| rate(&many, 1)).unwrap_err();
        scope.run(|| picture(&many, 100)).unwrap_err();
        let mut samples = Samples::new(Of::Rate { per_second: 1 });
        samples.grow(1).unwrap();
        for sample in many {
            samples.take(0, sample);
        }
        scope.run(|| samples.state(1)).unwrap_err();
        scope.run(|| samples.evaluate(1)).unwrap_err();
        // As far as nobody ends it: 69,999 pairs that do not grow, in 69,999 seconds.
        let rates = samples.evaluate(1).unwrap();
        assert_eq!(
            rates.as_primitive::<Float64Type>().value(0).to_bits(),
            0.0_f64.to_bits()
        );
    }
}
