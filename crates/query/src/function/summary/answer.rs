//! Answers of summaries, and the columns of these.

use std::sync::Arc;

use arrow::array::{
    ArrayBuilder, ArrayRef, BooleanBuilder, Float64Builder, Int64Builder,
    IntervalMonthDayNanoBuilder, ListArray, StringBuilder, StructArray, TimestampNanosecondBuilder,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, FieldRef, IntervalMonthDayNano};
use datafusion::common::{Result, exec_err, internal_err};
use nilometer_summaries::{
    Basis, Candlestick, Counter, Error, Frequencies, Heartbeats, Moments, Sample, Scalar,
    ScalarKind, States, Summary, TimeWeight,
};

use super::argument::{self, later, type_of};
use super::error::wrong_in;

/// One value of an answer.
#[derive(Debug)]
pub(super) enum Cell {
    Scalar(Scalar),
    /// Nanoseconds.
    Interval(i64),
}

/// An answer.
#[derive(Debug)]
pub(super) enum Answer {
    One(Cell),
    Summary(Summary),
    /// Rows of so many columns.
    Rows(Vec<Vec<Option<Cell>>>),
}

fn number(value: Option<f64>) -> Option<Answer> {
    Some(Answer::One(Cell::Scalar(Scalar::Float(value?))))
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "it stands beside answers that may be none"
)]
fn whole(value: u64) -> Option<Answer> {
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    Some(Answer::One(Cell::Scalar(Scalar::Int(value))))
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "it stands beside answers that may be none"
)]
fn time(value: i64) -> Option<Answer> {
    Some(Answer::One(Cell::Scalar(Scalar::Time(value))))
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "it stands beside answers that may be none"
)]
fn interval(value: i64) -> Option<Answer> {
    Some(Answer::One(Cell::Interval(value)))
}

/// The type with a name of [`ScalarKind`].
pub(super) fn type_named(name: Option<&str>) -> Option<DataType> {
    let kinds = [
        ScalarKind::Bool,
        ScalarKind::Int,
        ScalarKind::Float,
        ScalarKind::Time,
        ScalarKind::Text,
    ];
    let kind = kinds.into_iter().find(|kind| Some(kind.name()) == name);
    kind.map(type_of)
}

/// The arguments of a call, in a row.
struct Row<'a> {
    name: &'a str,
    columns: &'a [ArrayRef],
    at: usize,
}

impl Row<'_> {
    fn column(&self, place: usize) -> Option<&ArrayRef> {
        self.columns.get(place)
    }

    fn number(&self, place: usize) -> Option<f64> {
        argument::number(self.column(place)?, self.at)
    }

    fn time(&self, place: usize) -> Option<i64> {
        argument::time(self.column(place)?, self.at)
    }

    fn text(&self, place: usize) -> Option<&str> {
        argument::text(self.column(place)?, self.at)
    }

    fn value(&self, place: usize) -> Result<Option<Scalar>> {
        match self.column(place) {
            Some(column) => argument::scalar(column, self.at),
            None => Ok(None),
        }
    }

    /// A start and what is an interval later.
    fn range(&self, place: usize) -> Result<Option<(i64, i64)>> {
        let Some(start) = self.time(place) else {
            return Ok(None);
        };
        let by = self.column(place + 1);
        let Some(by) = by.and_then(|column| argument::interval(column, self.at)) else {
            return Ok(Some((start, i64::MAX)));
        };
        let end = later(start, by)?;
        if end < start {
            return exec_err!("{}: the interval is negative", self.name);
        }
        Ok(Some((start, end)))
    }

    fn summary(&self, place: usize) -> Result<Option<Summary>> {
        let column = self.column(place);
        let bytes = column.and_then(|column| argument::bytes(column, self.at));
        let read = bytes.map(Summary::decode).transpose();
        read.map_err(|error| wrong_in(self.name, error))
    }

    fn basis(&self, place: usize) -> Result<Basis> {
        let named = self.text(place).map(Basis::named).transpose();
        let basis = named.map_err(|error| wrong_in(self.name, error))?;
        Ok(basis.unwrap_or(Basis::Sample))
    }

    fn done<T>(&self, result: Result<T, Error>) -> Result<T> {
        result.map_err(|error| wrong_in(self.name, error))
    }

    fn refused<T>(&self, summary: &Summary) -> Result<T> {
        exec_err!(
            "{} asks nothing that a summary of {} knows",
            self.name,
            summary.name()
        )
    }
}

/// Asks a summary.
pub(super) fn of(
    name: &str,
    summary: Summary,
    columns: &[ArrayRef],
    row: usize,
) -> Result<Option<Answer>> {
    let row = Row {
        name,
        columns,
        at: row,
    };
    match summary {
        Summary::Moments(it) => moments(&row, &it, name),
        Summary::Pairs(it) => pairs(&row, it),
        Summary::Counter(it) => counter(&row, &it),
        Summary::TimeWeight(it) => time_weight(&row, &it),
        Summary::States(it) => states(&row, &it),
        Summary::Heartbeats(it) => heartbeats(&row, it),
        other => sketch(&row, other),
    }
}

fn moments(row: &Row<'_>, it: &Moments, name: &str) -> Result<Option<Answer>> {
    Ok(match name {
        "average" => number(it.mean()),
        "sum" => number(it.sum()),
        "num_vals" => whole(it.count()),
        "stddev" => number(it.deviation(row.basis(1)?)),
        "variance" => number(it.variance(row.basis(1)?)),
        "skewness" => number(it.skewness(row.basis(1)?)),
        "kurtosis" => number(it.kurtosis(row.basis(1)?)),
        _ => return row.refused(&Summary::Moments(*it)),
    })
}

fn pairs(row: &Row<'_>, it: Box<nilometer_summaries::Pairs>) -> Result<Option<Answer>> {
    Ok(match row.name {
        "num_vals" => whole(it.x().count()),
        "slope" => number(it.slope()),
        "intercept" => number(it.intercept()),
        "x_intercept" => number(it.x_intercept()),
        "corr" => number(it.correlation()),
        "determination_coeff" => number(it.determination()),
        "covariance" => number(it.covariance(row.basis(1)?)),
        name => match (name.strip_suffix("_x"), name.strip_suffix("_y")) {
            (Some(name), _) => moments(row, it.x(), name)?,
            (_, Some(name)) => moments(row, it.y(), name)?,
            _ => return row.refused(&Summary::Pairs(it)),
        },
    })
}

const ENDS: [&str; 4] = ["first_val", "last_val", "first_time", "last_time"];

/// One of [`ENDS`].
fn ends(row: &Row<'_>, first: Sample, last: Sample) -> Option<Answer> {
    match row.name {
        "first_val" => number(Some(first.value)),
        "last_val" => number(Some(last.value)),
        "first_time" => time(first.time),
        _ => time(last.time),
    }
}

fn prometheus(row: &Row<'_>) -> Result<()> {
    match row.text(1) {
        Some(name) if !name.eq_ignore_ascii_case("prometheus") => {
            exec_err!("{}: the method is 'prometheus', not {name:?}", row.name)
        }
        _ => Ok(()),
    }
}

fn counter(row: &Row<'_>, it: &Counter) -> Result<Option<Answer>> {
    if ENDS.contains(&row.name) {
        return Ok(ends(row, it.first(), it.last()));
    }
    Ok(match row.name {
        "rate" => number(it.rate()),
        "delta" => number(Some(it.delta())),
        "time_delta" => number(Some(it.duration())),
        "idelta_left" => number(Some(it.growth_left())),
        "idelta_right" => number(Some(it.growth_right())),
        "irate_left" => number(it.rate_left()),
        "irate_right" => number(it.rate_right()),
        "num_elements" => whole(it.line().x().count()),
        "num_changes" => whole(it.changes()),
        "num_resets" => whole(it.resets()),
        "slope" => number(it.line().slope()),
        "intercept" => number(it.line().intercept()),
        "corr" => number(it.line().correlation()),
        "counter_zero_time" => it.zero_time().and_then(time),
        "extrapolated_delta" => {
            prometheus(row)?;
            number(row.done(it.extrapolated_delta())?)
        }
        "extrapolated_rate" => {
            prometheus(row)?;
            number(row.done(it.extrapolated_rate())?)
        }
        "with_bounds" => match (row.time(1), row.time(2)) {
            (Some(from), Some(to)) => {
                let bounded = row.done(it.with_bounds(from, to))?;
                Some(Answer::Summary(Summary::Counter(Box::new(bounded))))
            }
            _ => None,
        },
        "interpolated_delta" | "interpolated_rate" => {
            let Some((from, to)) = row.range(1)? else {
                return Ok(None);
            };
            let around = [row.summary(3)?, row.summary(4)?];
            let around = around.map(|it| match it {
                Some(Summary::Counter(it)) => Some(it),
                _ => None,
            });
            let [before, after] = &around;
            let grown = it.interpolated(from, to, before.as_deref(), after.as_deref());
            let (delta, seconds) = row.done(grown)?;
            if row.name == "interpolated_delta" {
                number(Some(delta))
            } else {
                number((seconds > 0.0).then(|| delta / seconds))
            }
        }
        _ => return row.refused(&Summary::Counter(Box::new(*it))),
    })
}

/// Nanoseconds in a unit of an integral.
fn unit(row: &Row<'_>, place: usize) -> Result<f64> {
    let Some(name) = row.text(place) else {
        return Ok(1e9);
    };
    Ok(match name.to_lowercase().as_str() {
        "microsecond" | "microseconds" | "usecond" | "useconds" | "us" => 1e3,
        "millisecond" | "milliseconds" | "msecond" | "mseconds" | "ms" => 1e6,
        "second" | "seconds" | "sec" | "secs" | "s" => 1e9,
        "minute" | "minutes" | "min" | "mins" | "m" => 60e9,
        "hour" | "hours" | "hr" | "hrs" | "h" => 3600e9,
        "day" | "days" | "d" => 86_400e9,
        _ => {
            return exec_err!(
                "{}: the unit is 'microsecond', 'millisecond', 'second', 'minute', 'hour' or 'day', not {name:?}",
                row.name
            );
        }
    })
}

fn time_weight(row: &Row<'_>, it: &TimeWeight) -> Result<Option<Answer>> {
    if ENDS.contains(&row.name) {
        return Ok(ends(row, it.first(), it.last()));
    }
    Ok(match row.name {
        "average" => number(it.average()),
        "integral" => number(Some(it.integral() / unit(row, 1)?)),
        "interpolated_average" | "interpolated_integral" => {
            let Some((from, to)) = row.range(1)? else {
                return Ok(None);
            };
            let around = [row.summary(3)?, row.summary(4)?];
            let around = around.map(|it| match it {
                Some(Summary::TimeWeight(it)) => Some(it),
                _ => None,
            });
            let [before, after] = &around;
            let whole = it.interpolated(from, to, before.as_ref(), after.as_ref());
            let whole = row.done(whole)?;
            if row.name == "interpolated_average" {
                number(whole.average())
            } else {
                number(Some(whole.integral() / unit(row, 5)?))
            }
        }
        _ => return row.refused(&Summary::TimeWeight(*it)),
    })
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "it stands beside answers that may be none"
)]
fn scalar(value: &Scalar) -> Option<Cell> {
    Some(Cell::Scalar(value.clone()))
}

fn states(row: &Row<'_>, it: &States) -> Result<Option<Answer>> {
    let at = |time: i64| Some(Cell::Scalar(Scalar::Time(time)));
    Ok(match row.name {
        "into_values" => {
            let rows = it.durations();
            let rows =
                rows.map(|(state, lasted)| vec![scalar(state), Some(Cell::Interval(lasted))]);
            Some(Answer::Rows(rows.collect()))
        }
        "duration_in" => {
            let Some(state) = row.value(1)? else {
                return Ok(None);
            };
            match row.range(2)? {
                Some((from, to)) => interval(row.done(it.duration_between(&state, from, to))?),
                None => interval(it.duration_in(&state)),
            }
        }
        "interpolated_duration_in" => {
            let (Some(state), Some((from, to))) = (row.value(1)?, row.range(2)?) else {
                return Ok(None);
            };
            let before = match row.summary(4)? {
                Some(Summary::States(before)) => Some(before),
                _ => None,
            };
            let lasted = it.interpolated_duration(&state, from, to, before.as_deref());
            interval(row.done(lasted)?)
        }
        "state_at" => {
            let state = match row.time(1) {
                Some(time) => row.done(it.state_at(time))?,
                None => None,
            };
            state.and_then(scalar).map(Answer::One)
        }
        "state_timeline" => {
            let periods = row.done(it.periods())?.iter().map(|period| {
                vec![
                    it.state(period.state).and_then(scalar),
                    at(period.start),
                    at(period.end),
                ]
            });
            Some(Answer::Rows(periods.collect()))
        }
        "state_periods" => {
            let state = row.value(1)?;
            let periods = row.done(it.periods())?.iter();
            let periods = periods
                .filter(|period| it.state(period.state) == state.as_ref())
                .map(|period| vec![at(period.start), at(period.end)]);
            Some(Answer::Rows(periods.collect()))
        }
        _ => return row.refused(&Summary::States(Box::new(it.clone()))),
    })
}

fn heartbeats(row: &Row<'_>, it: Heartbeats) -> Result<Option<Answer>> {
    let ranges = |ranges: &mut dyn Iterator<Item = (i64, i64)>| {
        let at = |time: i64| Some(Cell::Scalar(Scalar::Time(time)));
        let rows = ranges.map(|(start, end)| vec![at(start), at(end)]);
        Some(Answer::Rows(rows.collect()))
    };
    Ok(match row.name {
        "uptime" => interval(it.uptime()),
        "downtime" => interval(it.downtime()),
        "live_at" => match row.time(1) {
            Some(time) => {
                let lives = row.done(it.live_at(time))?;
                Some(Answer::One(Cell::Scalar(Scalar::Bool(lives))))
            }
            None => None,
        },
        "live_ranges" => ranges(&mut it.live_ranges()),
        "dead_ranges" => ranges(&mut it.dead_ranges().into_iter()),
        "num_live_ranges" => whole(it.live_ranges().count() as u64),
        "num_gaps" => whole(it.dead_ranges().len() as u64),
        "interpolated_uptime" | "interpolated_downtime" => {
            let before = match row.summary(1)? {
                Some(Summary::Heartbeats(before)) => Some(before),
                _ => None,
            };
            let whole = row.done(it.after(before.as_ref()))?;
            if row.name == "interpolated_uptime" {
                interval(whole.uptime())
            } else {
                interval(whole.downtime())
            }
        }
        _ => return row.refused(&Summary::Heartbeats(it)),
    })
}

fn share(row: &Row<'_>) -> Result<f64> {
    match row.number(0) {
        Some(share) if (0.0..=1.0).contains(&share) => Ok(share),
        other => exec_err!(
            "{}: the percentile is a share from 0 to 1, not {}",
            row.name,
            other.unwrap_or(f64::NAN)
        ),
    }
}

fn candlestick(row: &Row<'_>, it: &Candlestick) -> Result<Option<Answer>> {
    Ok(match row.name {
        "open" => number(Some(it.open().value)),
        "high" => number(Some(it.high().value)),
        "low" => number(Some(it.low().value)),
        "close" => number(Some(it.close().value)),
        "open_time" => time(it.open().time),
        "high_time" => time(it.high().time),
        "low_time" => time(it.low().time),
        "close_time" => time(it.close().time),
        "volume" => number(it.volume()),
        "vwap" => number(it.vwap()),
        _ => return row.refused(&Summary::Candlestick(Box::new(*it))),
    })
}

fn frequencies(row: &Row<'_>, it: Box<Frequencies>) -> Result<Option<Answer>> {
    Ok(match row.name {
        "into_values" => {
            let rows = it.values().into_iter().map(|one| {
                vec![
                    Some(Cell::Scalar(one.value)),
                    Some(Cell::Scalar(Scalar::Float(one.min))),
                    Some(Cell::Scalar(Scalar::Float(one.max))),
                ]
            });
            Some(Answer::Rows(rows.collect()))
        }
        "topn" => {
            let count = row
                .column(1)
                .and_then(|column| argument::whole(column, row.at));
            let values = row.done(it.most(count))?.into_iter();
            let rows = values.map(|value| vec![Some(Cell::Scalar(value))]);
            Some(Answer::Rows(rows.collect()))
        }
        "min_frequency" => number(row.value(1)?.map(|value| it.frequency(&value).0)),
        "max_frequency" => number(row.value(1)?.map(|value| it.frequency(&value).1)),
        _ => return row.refused(&Summary::Frequencies(it)),
    })
}

fn sketch(row: &Row<'_>, summary: Summary) -> Result<Option<Answer>> {
    Ok(match (row.name, summary) {
        ("approx_percentile", Summary::UddSketch(it)) => number(it.quantile(share(row)?)),
        ("approx_percentile", Summary::TDigest(mut it)) => number(it.quantile(share(row)?)),
        ("approx_percentile_rank", Summary::UddSketch(it)) => {
            number(row.number(0).and_then(|value| it.rank(value)))
        }
        ("approx_percentile_rank", Summary::TDigest(mut it)) => {
            number(row.number(0).and_then(|value| it.rank(value)))
        }
        ("mean", Summary::UddSketch(it)) => number(it.mean()),
        ("mean", Summary::TDigest(it)) => number(it.mean()),
        ("num_vals", Summary::UddSketch(it)) => whole(it.count()),
        ("num_vals", Summary::TDigest(it)) => whole(it.count()),
        ("error", Summary::UddSketch(it)) => number(Some(it.error())),
        ("min_val", Summary::TDigest(it)) => number(it.min()),
        ("max_val", Summary::TDigest(it)) => number(it.max()),
        ("distinct_count", Summary::HyperLogLog(it)) => {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a count of at most 2^64 values, which saturates"
            )]
            let count = it.count().round() as u64;
            whole(count)
        }
        ("stderror", Summary::HyperLogLog(it)) => number(Some(it.error())),
        (_, Summary::Candlestick(it)) => return candlestick(row, &it),
        ("into_array" | "into_values", Summary::Extremes(it)) => {
            let rows = it.sorted().into_iter().map(|(value, beside)| {
                let mut cells = vec![Some(Cell::Scalar(value))];
                if row.name == "into_values" {
                    cells.push(beside.map(Cell::Scalar));
                }
                cells
            });
            Some(Answer::Rows(rows.collect()))
        }
        (_, Summary::Frequencies(it)) => return frequencies(row, it),
        (_, other) => return row.refused(&other),
    })
}

/// A column of single values.
#[derive(Debug)]
enum Column {
    Number(Float64Builder),
    Whole(Int64Builder),
    Time(TimestampNanosecondBuilder),
    Interval(IntervalMonthDayNanoBuilder),
    Truth(BooleanBuilder),
    Text(StringBuilder),
}

impl Column {
    fn new(kind: &DataType) -> Result<Self> {
        Ok(match kind {
            DataType::Float64 => Self::Number(Float64Builder::new()),
            DataType::Int64 => Self::Whole(Int64Builder::new()),
            DataType::Timestamp(_, zone) => {
                let times = TimestampNanosecondBuilder::new();
                Self::Time(times.with_timezone_opt(zone.clone()))
            }
            DataType::Interval(_) => Self::Interval(IntervalMonthDayNanoBuilder::new()),
            DataType::Boolean => Self::Truth(BooleanBuilder::new()),
            DataType::Utf8 => Self::Text(StringBuilder::new()),
            other => return internal_err!("{other} is no answer of a summary"),
        })
    }

    fn push(&mut self, name: &str, cell: Option<Cell>) -> Result<()> {
        match (self, cell) {
            (Self::Number(it), None) => it.append_null(),
            (Self::Whole(it), None) => it.append_null(),
            (Self::Time(it), None) => it.append_null(),
            (Self::Interval(it), None) => it.append_null(),
            (Self::Truth(it), None) => it.append_null(),
            (Self::Text(it), None) => it.append_null(),
            (Self::Number(it), Some(Cell::Scalar(Scalar::Float(value)))) => it.append_value(value),
            (Self::Whole(it), Some(Cell::Scalar(Scalar::Int(value)))) => it.append_value(value),
            (Self::Time(it), Some(Cell::Scalar(Scalar::Time(value)))) => it.append_value(value),
            (Self::Truth(it), Some(Cell::Scalar(Scalar::Bool(value)))) => it.append_value(value),
            (Self::Text(it), Some(Cell::Scalar(Scalar::Text(value)))) => it.append_value(value),
            (Self::Interval(it), Some(Cell::Interval(ns))) => {
                it.append_value(IntervalMonthDayNano::new(0, 0, ns));
            }
            (_, Some(Cell::Scalar(value))) => {
                let kind = value.kind().name();
                return exec_err!(
                    "{name}: the values in the summary are of type {kind}, which is not known before they are read; say so with one more argument, NULL::{kind}"
                );
            }
            (_, Some(Cell::Interval(_))) => return internal_err!("an interval of another type"),
        }
        Ok(())
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Number(it) => ArrayBuilder::finish(it),
            Self::Whole(it) => ArrayBuilder::finish(it),
            Self::Time(it) => ArrayBuilder::finish(it),
            Self::Interval(it) => ArrayBuilder::finish(it),
            Self::Truth(it) => ArrayBuilder::finish(it),
            Self::Text(it) => ArrayBuilder::finish(it),
        }
    }
}

/// A column of answers.
#[derive(Debug)]
pub(super) struct Answers<'a> {
    name: &'a str,
    /// The field of the items, where an answer is a list.
    item: Option<FieldRef>,
    columns: Vec<Column>,
    lengths: Vec<usize>,
    known: Vec<bool>,
}

impl<'a> Answers<'a> {
    pub(super) fn new(name: &'a str, kind: &DataType) -> Result<Self> {
        let (item, columns) = match kind {
            DataType::List(item) => {
                let columns = match item.data_type() {
                    DataType::Struct(fields) => fields
                        .iter()
                        .map(|field| Column::new(field.data_type()))
                        .collect::<Result<Vec<_>>>()?,
                    kind => vec![Column::new(kind)?],
                };
                (Some(Arc::clone(item)), columns)
            }
            kind => (None, vec![Column::new(kind)?]),
        };
        Ok(Self {
            name,
            item,
            columns,
            lengths: Vec::new(),
            known: Vec::new(),
        })
    }

    pub(super) fn push(&mut self, answer: Option<Answer>) -> Result<()> {
        self.known.push(answer.is_some());
        match answer {
            Some(Answer::Rows(rows)) => {
                self.lengths.push(rows.len());
                for row in rows {
                    let mut cells = row.into_iter();
                    for column in &mut self.columns {
                        column.push(self.name, cells.next().flatten())?;
                    }
                }
            }
            None if self.item.is_some() => self.lengths.push(0),
            answer => {
                let cell = match answer {
                    Some(Answer::One(cell)) => Some(cell),
                    _ => None,
                };
                if let Some(column) = self.columns.first_mut() {
                    column.push(self.name, cell)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> ArrayRef {
        let mut columns: Vec<ArrayRef> = self.columns.iter_mut().map(Column::finish).collect();
        let Some(item) = self.item else {
            return columns.swap_remove(0);
        };
        let values: ArrayRef = match item.data_type() {
            DataType::Struct(fields) => Arc::new(StructArray::new(fields.clone(), columns, None)),
            _ => columns.swap_remove(0),
        };
        let offsets = OffsetBuffer::from_lengths(self.lengths);
        let known: NullBuffer = self.known.into();
        Arc::new(ListArray::new(item, offsets, values, Some(known)))
    }
}
