//! Small charts of numbers over time, for a terminal.
//!
//! Does: find the time column, the columns that tell series apart and the numbers; draw each series in braille dots,
//! many as one line each. Does not: query.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, bail};
use arrow::array::timezone::Tz;
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Schema, TimeUnit, TimestampNanosecondType};
use chrono::DateTime;

/// Characters across.
const WIDTH: usize = 60;

/// Lines of a chart that has room.
const HEIGHT: usize = 5;

/// Series up to which each has a chart with room; more get a line each.
const TALL_MAX: usize = 3;

/// Series that are drawn.
const SERIES_MAX: usize = 24;

/// Dots in a character of braille.
const DOTS_ACROSS: usize = 2;
const DOTS_DOWN: usize = 4;

/// The empty character of braille, to which dots are added.
const BRAILLE: u32 = 0x2800;

/// Bits of the dots of a character, by column and row.
const DOTS: [[u32; DOTS_DOWN]; DOTS_ACROSS] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];

/// Numbers of one series over time.
type Points = Vec<(i64, f64)>;

/// Draws the numbers of an answer.
pub(crate) fn chart(
    schema: &Schema,
    batches: &[RecordBatch],
    zone: Option<&str>,
) -> anyhow::Result<String> {
    let (mut series, time_name) = series(schema, batches)?;
    series.retain(|_, points| !points.is_empty());
    for points in series.values_mut() {
        points.sort_by_key(|(time, _)| *time);
    }
    let times = || series.values().flatten().map(|(time, _)| *time);
    let (Some(first), Some(last)) = (times().min(), times().max()) else {
        return Ok("no numbers to draw\n".to_owned());
    };
    let mut out = String::new();
    let is_tall = series.len() <= TALL_MAX;
    let label_width = series
        .keys()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0);
    for (name, points) in series.iter().take(SERIES_MAX) {
        let drawing = Drawing::new(points, first, last, if is_tall { HEIGHT } else { 1 });
        if is_tall {
            drawing.tall(name, &mut out);
        } else {
            drawing.line(name, label_width, &mut out);
        }
    }
    let left_out = series.len().saturating_sub(SERIES_MAX);
    if left_out > 0 {
        let _ = writeln!(
            out,
            "and {left_out} more series; narrow the statement to see them"
        );
    }
    let _ = writeln!(
        out,
        "{time_name}: {} to {}",
        shown_time(first, zone)?,
        shown_time(last, zone)?
    );
    Ok(out)
}

/// The numbers by what tells them apart, and the name of the time column.
fn series(
    schema: &Schema,
    batches: &[RecordBatch],
) -> anyhow::Result<(BTreeMap<String, Points>, String)> {
    let fields = schema.fields();
    let is_time = |kind: &DataType| {
        matches!(
            kind,
            DataType::Timestamp(..) | DataType::Date32 | DataType::Date64
        )
    };
    let is_label = |kind: &DataType| {
        matches!(
            kind,
            DataType::Dictionary(..) | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
        )
    };
    let time = fields.iter().position(|field| is_time(field.data_type()));
    let time = time.context(
        "the answer has no time column to draw along; select one, as in SELECT time, ... or time_bucket('1 hour', time)",
    )?;
    let of = |fits: &dyn Fn(&DataType) -> bool| -> Vec<usize> {
        let fitting = fields
            .iter()
            .enumerate()
            .filter(|(_, field)| fits(field.data_type()));
        fitting.map(|(at, _)| at).collect()
    };
    let numbers = of(&|kind| kind.is_numeric());
    let labels = of(&is_label);
    if numbers.is_empty() {
        bail!("the answer has no column of numbers to draw; select one");
    }
    let mut series: BTreeMap<String, Points> = BTreeMap::new();
    for batch in batches {
        let nanoseconds = DataType::Timestamp(TimeUnit::Nanosecond, None);
        let times = match batch.column(time).data_type() {
            DataType::Timestamp(unit, Some(_)) => {
                cast(batch.column(time), &DataType::Timestamp(*unit, None))?
            }
            _ => batch.column(time).clone(),
        };
        let times = cast(&times, &nanoseconds)?;
        let times = times.as_primitive::<TimestampNanosecondType>();
        let texts = labels
            .iter()
            .map(|at| Ok((*at, cast(batch.column(*at), &DataType::Utf8)?)));
        let texts = texts.collect::<anyhow::Result<Vec<_>>>()?;
        for at in &numbers {
            let values = cast(batch.column(*at), &DataType::Float64)?;
            let values = values.as_primitive::<Float64Type>();
            for row in 0..batch.num_rows() {
                if times.is_null(row) || values.is_null(row) || !values.value(row).is_finite() {
                    continue;
                }
                let mut name = schema.field(*at).name().clone();
                for (label, texts) in &texts {
                    let texts = texts.as_string::<i32>();
                    if texts.is_valid(row) {
                        let text: String = texts
                            .value(row)
                            .chars()
                            .filter(|c| !c.is_control())
                            .collect();
                        let _ = write!(name, " {}={text}", schema.field(*label).name());
                    }
                }
                let points = series.entry(name).or_default();
                points.push((times.value(row), values.value(row)));
            }
        }
    }
    Ok((series, schema.field(time).name().clone()))
}

/// The values of a column of dots, in the order of their times.
#[derive(Debug, Clone, Copy)]
struct Column {
    first: f64,
    last: f64,
    min: f64,
    max: f64,
}

impl Column {
    fn with(column: Option<Self>, value: f64) -> Self {
        match column {
            None => Self {
                first: value,
                last: value,
                min: value,
                max: value,
            },
            Some(column) => Self {
                last: value,
                min: column.min.min(value),
                max: column.max.max(value),
                ..column
            },
        }
    }
}

/// One series in a raster of dots. A column of dots reaches from the least to the greatest of its values, so that a
/// single value that stands out is seen however many there are.
struct Drawing {
    /// `None` = there is no value.
    columns: Vec<Option<Column>>,
    height: usize,
    min: f64,
    max: f64,
    last: f64,
}

impl Drawing {
    fn new(points: &Points, first: i64, last: i64, height: usize) -> Self {
        let dots = WIDTH * DOTS_ACROSS;
        let span = (i128::from(last) - i128::from(first)).max(1);
        let mut columns: Vec<Option<Column>> = vec![None; dots];
        for (time, value) in points {
            let at = (i128::from(*time) - i128::from(first)) * (dots as i128 - 1) / span;
            let at = usize::try_from(at).unwrap_or(0);
            if let Some(column) = columns.get_mut(at) {
                *column = Some(Column::with(*column, *value));
            }
        }
        let values = || points.iter().map(|(_, value)| *value);
        Self {
            columns,
            height,
            min: values().fold(f64::INFINITY, f64::min),
            max: values().fold(f64::NEG_INFINITY, f64::max),
            last: values().next_back().unwrap_or(0.0),
        }
    }

    /// The row of dots of a value, counted from the top.
    fn row(&self, value: f64) -> usize {
        let rows = self.height * DOTS_DOWN - 1;
        let span = self.max - self.min;
        let share = if span > 0.0 {
            (self.max - value) / span
        } else {
            0.5
        };
        #[expect(
            clippy::cast_possible_truncation,
            reason = "between 0 and the number of rows"
        )]
        let row = (share.clamp(0.0, 1.0) * rows as f64).round() as usize;
        row.min(rows)
    }

    /// Characters of the drawing, line by line.
    fn lines(&self) -> Vec<String> {
        let mut raster = vec![vec![0u32; WIDTH]; self.height];
        let mut dot = |x: usize, y: usize| {
            let bit = DOTS
                .get(x % DOTS_ACROSS)
                .and_then(|column| column.get(y % DOTS_DOWN));
            let cell = raster
                .get_mut(y / DOTS_DOWN)
                .and_then(|line| line.get_mut(x / DOTS_ACROSS));
            if let (Some(cell), Some(bit)) = (cell, bit) {
                *cell |= bit;
            }
        };
        let mut before: Option<(usize, usize)> = None;
        for (x, column) in self.columns.iter().enumerate() {
            let Some(column) = column else { continue };
            let y = self.row(column.first);
            // From the point before, so that a few points are a line too.
            let (from_x, from_y) = before.unwrap_or((x, y));
            for step in from_x..=x {
                let share = if x == from_x {
                    1.0
                } else {
                    (step - from_x) as f64 / (x - from_x) as f64
                };
                let height = from_y as f64 + (y as f64 - from_y as f64) * share;
                #[expect(clippy::cast_possible_truncation, reason = "between two rows")]
                let height = height.round() as usize;
                dot(step, height);
            }
            if x == from_x + 1 {
                for between in from_y.min(y)..=from_y.max(y) {
                    dot(x, between);
                }
            }
            for between in self.row(column.max)..=self.row(column.min) {
                dot(x, between);
            }
            before = Some((x, self.row(column.last)));
        }
        let text = |line: Vec<u32>| {
            line.into_iter()
                .filter_map(|bits| char::from_u32(BRAILLE + bits))
                .collect()
        };
        raster.into_iter().map(text).collect()
    }

    fn tall(&self, name: &str, out: &mut String) {
        let (top, bottom) = (number(self.max), number(self.min));
        let width = top.len().max(bottom.len());
        let _ = writeln!(out, "{name}");
        let lines = self.lines();
        let count = lines.len();
        for (at, line) in lines.into_iter().enumerate() {
            let label = match at {
                0 => top.as_str(),
                at if at + 1 == count => bottom.as_str(),
                _ => "",
            };
            let _ = writeln!(out, "{label:>width$} |{line}|");
        }
    }

    fn line(&self, name: &str, width: usize, out: &mut String) {
        let line = self.lines().concat();
        let (min, max, last) = (number(self.min), number(self.max), number(self.last));
        let _ = writeln!(out, "{name:width$} |{line}| {min} to {max}, last {last}");
    }
}

/// A number with about four digits that count.
fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        0.0 => "0".to_owned(),
        1e-3..1e6 => {
            let places = if size >= 1000.0 || value.fract() == 0.0 {
                0
            } else if size >= 10.0 {
                1
            } else {
                3
            };
            format!("{value:.places$}")
        }
        _ => format!("{value:.3e}"),
    }
}

/// A time as the clock of a zone shows it; `None` = UTC.
fn shown_time(time: i64, zone: Option<&str>) -> anyhow::Result<String> {
    let zone: Tz = zone.unwrap_or("+00:00").parse()?;
    let time = DateTime::from_timestamp_nanos(time).with_timezone(&zone);
    Ok(time.format("%Y-%m-%d %H:%M:%S").to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Float64Array, StringArray, TimestampNanosecondArray};

    use super::*;

    fn rows(values: &[(i64, &str, f64)]) -> RecordBatch {
        let times: TimestampNanosecondArray = values
            .iter()
            .map(|row| Some(row.0 * 1_000_000_000))
            .collect();
        let hosts: StringArray = values.iter().map(|row| Some(row.1)).collect();
        let numbers: Float64Array = values.iter().map(|row| Some(row.2)).collect();
        RecordBatch::try_from_iter([
            ("time", Arc::new(times.with_timezone("UTC")) as ArrayRef),
            ("host", Arc::new(hosts) as ArrayRef),
            ("v", Arc::new(numbers) as ArrayRef),
        ])
        .unwrap()
    }

    fn drawn(values: &[(i64, &str, f64)]) -> String {
        let rows = rows(values);
        chart(&rows.schema(), &[rows], None).unwrap()
    }

    #[test]
    fn a_rising_line_begins_below_and_ends_above() {
        let text = drawn(&[(0, "a", 1.0), (60, "a", 2.5)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "v host=a");
        assert!(
            lines[1].starts_with("2.500 |") && lines[5].starts_with("    1 |"),
            "{text}"
        );
        let empty = char::from_u32(BRAILLE).unwrap();
        let cells = |line: &str| line.chars().skip(7).take(WIDTH).collect::<Vec<char>>();
        let (top, bottom) = (cells(lines[1]), cells(lines[5]));
        assert!(top[0] == empty && top[WIDTH - 1] != empty, "{text}");
        assert!(bottom[0] != empty && bottom[WIDTH - 1] == empty, "{text}");
        assert_eq!(lines[6], "time: 1970-01-01 00:00:00 to 1970-01-01 00:01:00");
    }

    // Values that share a column of dots were averaged: of 2,000 points, 17 to a column, a spike of 100 in zeros was
    // drawn as 6.
    #[test]
    fn one_spike_in_two_thousand_points_reaches_the_top() {
        for spike in [0, 1, 1_003, 1_999] {
            let values: Vec<(i64, &str, f64)> = (0..2_000)
                .map(|n| (n, "a", if n == spike { 100.0 } else { 0.0 }))
                .collect();
            let text = drawn(&values);
            let lines: Vec<&str> = text.lines().collect();
            let empty = char::from_u32(BRAILLE).unwrap();
            let cells = |line: &str| -> Vec<char> {
                let drawing = line.split('|').nth(1).unwrap();
                drawing.chars().collect()
            };
            let column = usize::try_from(spike).unwrap() * (WIDTH * DOTS_ACROSS - 1) / 1_999;
            for line in &lines[1..=HEIGHT] {
                let cell = cells(line)[column / DOTS_ACROSS];
                assert_ne!(cell, empty, "spike at {spike}:\n{text}");
            }
            let top = cells(lines[1]);
            let drawn = top.iter().filter(|cell| **cell != empty).count();
            assert!((1..=2).contains(&drawn), "spike at {spike}:\n{text}");
        }
    }

    #[test]
    fn many_series_have_a_line_each() {
        let names: Vec<String> = (0..30).map(|n| format!("h{n:02}")).collect();
        let values: Vec<(i64, &str, f64)> = names
            .iter()
            .flat_map(|name| [(0, name.as_str(), 1.0), (9, name.as_str(), 3.0)])
            .collect();
        let text = drawn(&values);
        assert_eq!(text.lines().count(), SERIES_MAX + 2);
        assert!(text.starts_with("v host=h00 |"), "{text}");
        assert!(text.contains("| 1 to 3, last 3"), "{text}");
        assert!(text.contains("and 6 more series"), "{text}");
    }

    #[test]
    fn what_cannot_be_drawn_says_what_to_select() {
        let rows = rows(&[(0, "a", 1.0)]);
        let without = |columns: &[usize]| {
            let rows = rows.project(columns).unwrap();
            chart(&rows.schema(), &[rows], None)
                .unwrap_err()
                .to_string()
        };
        assert!(without(&[1, 2]).contains("time_bucket"));
        assert!(without(&[0, 1]).contains("numbers"));
        assert_eq!(drawn(&[(0, "a", f64::NAN)]), "no numbers to draw\n");
    }

    #[test]
    fn odd_values_are_drawn_without_a_panic() {
        for values in [[0.0, 0.0], [f64::MAX, f64::MIN], [1e-300, 1e300]] {
            let text = drawn(&[
                (i64::MIN / 1_000_000_000, "a", values[0]),
                (i64::MAX / 1_000_000_000, "a", values[1]),
            ]);
            assert!(text.lines().count() >= HEIGHT, "{text}");
        }
    }
}
