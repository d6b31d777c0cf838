//! Rows of a filled group: which rows exist, and the values of the added ones.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Int64Array, PrimitiveArray, RecordBatch,
    UInt32Array,
};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    SchemaRef, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::{Result, ScalarValue, exec_err, internal_datafusion_err, internal_err};

use super::{Bound, Fill, Layout, Lookup};
use crate::function::{Buckets, DAY_NS, GAPFILL, Shift, width, zone};

/// What is the same for all groups.
#[derive(Debug)]
pub(super) struct Filler {
    schema: SchemaRef,
    layout: Layout,
    /// Starts of the buckets that every group has, in the unit of the time.
    grid: Vec<i64>,
    /// Values that are looked up once, by the place of their expression; a row each.
    once: Vec<ArrayRef>,
}

/// Whole groups, and the row that is written next.
#[derive(Debug)]
pub(super) struct Cursor {
    rows: RecordBatch,
    /// Times of the rows.
    times: Int64Array,
    /// Where groups start.
    bounds: Vec<usize>,
    group: usize,
    row: usize,
    bucket: usize,
    /// By column: what was carried so far.
    carried: Vec<Carried>,
}

/// The last value of a column, as far as it was looked for: rows are asked for in their order.
#[derive(Debug, Clone, Copy, Default)]
struct Carried {
    until: usize,
    last: Option<usize>,
}

impl Carried {
    /// The last row up to one, itself included, that has a value, in the group that starts at another.
    fn last_valid(&mut self, column: &ArrayRef, row: usize, start: usize) -> Option<usize> {
        while self.until <= row {
            if column.is_valid(self.until) {
                self.last = Some(self.until);
            }
            self.until += 1;
        }
        self.last.filter(|last| *last >= start)
    }
}

impl Cursor {
    pub(super) fn bytes(&self) -> usize {
        self.rows.get_array_memory_size() + self.times.get_array_memory_size()
    }
}

/// A row of the answer.
#[derive(Debug, Clone, Copy)]
struct FilledRow {
    time: Option<i64>,
    /// Whether it is a row of the input, and not one that was added.
    is_row: bool,
    /// The row, or for an added one the row that comes after it in the group, if one does.
    at: usize,
    /// The rows of its group.
    start: usize,
    end: usize,
}

impl FilledRow {
    /// The row of the input before an added one.
    fn before(&self) -> Option<usize> {
        (self.at > self.start).then(|| self.at - 1)
    }

    fn after(&self) -> Option<usize> {
        (self.at < self.end).then_some(self.at)
    }
}

impl Filler {
    pub(super) fn new(values: &[ScalarValue], layout: &Layout, schema: SchemaRef) -> Result<Self> {
        let time_type = schema.field(layout.bucket).data_type();
        let unit_ns = unit_ns(time_type)?;
        let value = |place: usize| {
            let lost = || internal_datafusion_err!("gap filling has lost a constant");
            values.get(place).ok_or_else(lost)
        };
        let Some((width, origin)) = width(value(layout.width)?, time_type, GAPFILL)? else {
            return exec_err!("invalid time_bucket_gapfill argument: bucket_width cannot be NULL");
        };
        let zone = match layout.zone.map(value).transpose()? {
            Some(ScalarValue::Utf8(Some(name))) => Some(zone(name, GAPFILL)?),
            _ => None,
        };
        let end = |bounds: &[Bound], name: &str, last: fn(i128, i128) -> i128| {
            let mut found = None;
            for bound in bounds {
                let Some(time) = time(value(bound.expr)?)? else {
                    return exec_err!(
                        "invalid time_bucket_gapfill argument: {name} cannot be NULL"
                    );
                };
                let time = (i128::from(time) + i128::from(bound.is_after)) * unit_ns;
                found = Some(found.map_or(time, |found| last(found, time)));
            }
            found.ok_or_else(|| internal_datafusion_err!("gap filling without a {name}"))
        };
        let start = end(&layout.starts, "start", i128::max)?;
        let finish = end(&layout.finishes, "finish", i128::min)?;
        if start >= finish {
            return exec_err!(
                "invalid time_bucket_gapfill argument: start must be before finish; a condition on the time that no row can meet has no buckets"
            );
        }
        let buckets = Buckets {
            width,
            origin,
            offset: Shift::default(),
            zone,
        };
        let buckets_max = layout.buckets_max;
        let Some(grid) = buckets.grid(start, finish, buckets_max) else {
            return exec_err!(
                "time_bucket_gapfill makes at most {buckets_max} buckets of a range, and only where the calendar goes; make the buckets wider, narrow the range from start to finish or raise gapfill-buckets-max"
            );
        };
        let grid = grid
            .into_iter()
            .map(|bucket| i64::try_from(bucket.div_euclid(unit_ns)).or_else(|_| exec_err!("time_bucket_gapfill: the first bucket begins before the earliest time there is")))
            .collect::<Result<_>>()?;
        let once = values
            .iter()
            .map(ScalarValue::to_array)
            .collect::<Result<_>>()?;
        Ok(Self {
            schema,
            layout: layout.clone(),
            grid,
            once,
        })
    }

    pub(super) fn bytes(&self) -> usize {
        self.grid.capacity() * size_of::<i64>()
    }

    pub(super) fn cursor(&self, rows: RecordBatch, bounds: Vec<usize>) -> Result<Cursor> {
        let times = times(rows.column(self.layout.bucket))?;
        Ok(Cursor {
            carried: vec![Carried::default(); rows.num_columns()],
            rows,
            times,
            bounds,
            group: 0,
            row: 0,
            bucket: 0,
        })
    }

    /// Up to `rows_max` more rows, or `None` when all are written.
    pub(super) fn write(
        &self,
        cursor: &mut Cursor,
        rows_max: usize,
    ) -> Result<Option<RecordBatch>> {
        let places = self.places(cursor, rows_max);
        if places.is_empty() {
            return Ok(None);
        }
        let rows: UInt32Array =
            indices(places.iter().map(|place| place.is_row.then_some(place.at)))?;
        let mut carried = std::mem::take(&mut cursor.carried);
        let columns = self.layout.columns.iter().zip(cursor.rows.columns());
        let columns = columns
            .zip(&mut carried)
            .map(|((fill, column), carried)| match fill {
                Fill::Bucket => buckets(&places, column.data_type()),
                Fill::Group => {
                    let starts = indices(places.iter().map(|place| Some(place.start)))?;
                    Ok(take(column, &starts, None)?)
                }
                Fill::Nothing => Ok(take(column, &rows, None)?),
                Fill::Locf {
                    prev,
                    nulls_are_missing,
                } => {
                    let carried = nulls_are_missing.then_some(carried);
                    self.carry(cursor, &places, column, *prev, carried)
                }
                Fill::Interpolate { prev, next } => {
                    self.interpolate(cursor, &places, column, *prev, *next)
                }
            })
            .collect::<Result<Vec<_>>>()?;
        cursor.carried = carried;
        Ok(Some(RecordBatch::try_new(
            Arc::clone(&self.schema),
            columns,
        )?))
    }

    fn places(&self, cursor: &mut Cursor, rows_max: usize) -> Vec<FilledRow> {
        let mut places = Vec::with_capacity(rows_max.min(1024));
        while let Some(&start) = cursor.bounds.get(cursor.group) {
            let end = cursor.bounds.get(cursor.group + 1).copied();
            let end = end.unwrap_or(cursor.rows.num_rows());
            loop {
                if places.len() == rows_max {
                    return places;
                }
                let bucket = self.grid.get(cursor.bucket).copied();
                let has_row = cursor.row < end;
                let row_time = (has_row && cursor.times.is_valid(cursor.row))
                    .then(|| cursor.times.value(cursor.row));
                // A row outside the range stays where it is, one without a time comes last.
                let is_row = match (bucket, row_time) {
                    (Some(bucket), Some(time)) => time <= bucket,
                    (Some(_), None) => false,
                    (None, _) => has_row,
                };
                let at = cursor.row;
                let time = if is_row {
                    if row_time.is_some() && row_time == bucket {
                        cursor.bucket += 1;
                    }
                    cursor.row += 1;
                    row_time
                } else if bucket.is_some() {
                    cursor.bucket += 1;
                    bucket
                } else {
                    break;
                };
                places.push(FilledRow {
                    time,
                    is_row,
                    at,
                    start,
                    end,
                });
            }
            cursor.group += 1;
            cursor.bucket = 0;
        }
        places
    }

    /// The values to look up, and how far each group's row lies behind the column's own rows when both are one array.
    fn looked_up(&self, cursor: &Cursor, lookup: Lookup) -> Result<(ArrayRef, bool)> {
        let found = match lookup {
            Lookup::Once(place) => self.once.get(place).map(|array| (Arc::clone(array), false)),
            Lookup::Column(place) => {
                let column = cursor.rows.columns().get(place);
                column.map(|column| (Arc::clone(column), true))
            }
        };
        found.ok_or_else(|| internal_datafusion_err!("gap filling has lost what it looks up"))
    }

    fn carry(
        &self,
        cursor: &Cursor,
        places: &[FilledRow],
        column: &ArrayRef,
        prev: Option<Lookup>,
        mut carried: Option<&mut Carried>,
    ) -> Result<ArrayRef> {
        let rows = column.len();
        let (all, first) = match prev {
            None => (Arc::clone(column), None),
            Some(lookup) => {
                let (array, by_row) = self.looked_up(cursor, lookup)?;
                let array = cast(&array, column.data_type())?;
                (concat(&[column.as_ref(), array.as_ref()])?, Some(by_row))
            }
        };
        let found = places.iter().map(|place| {
            let row = if place.is_row {
                Some(place.at)
            } else {
                place.before()
            };
            let row = match (&mut carried, row) {
                // NULL is passed over.
                (Some(carried), Some(row)) => carried.last_valid(column, row, place.start),
                (_, row) => row,
            };
            row.or_else(|| first.map(|by_row| rows + if by_row { place.start } else { 0 }))
        });
        Ok(take(&all, &indices(found)?, None)?)
    }

    fn interpolate(
        &self,
        cursor: &Cursor,
        places: &[FilledRow],
        column: &ArrayRef,
        prev: Option<Lookup>,
        next: Option<Lookup>,
    ) -> Result<ArrayRef> {
        let value_type = column.data_type();
        let samples = |lookup: Option<Lookup>| -> Result<Option<Samples>> {
            let Some(lookup) = lookup else {
                return Ok(None);
            };
            let (array, by_row) = self.looked_up(cursor, lookup)?;
            let Some(records) = array.as_struct_opt() else {
                return internal_err!("a record is no record");
            };
            let [time, value] = records.columns() else {
                return internal_err!("a record has no time and value");
            };
            let time_type = cursor.rows.column(self.layout.bucket).data_type();
            Ok(Some(Samples {
                records: Arc::clone(&array),
                times: times(&cast(time, time_type)?)?,
                values: cast(value, value_type)?,
                by_row,
            }))
        };
        let sources = Sources {
            times: &cursor.times,
            prev: samples(prev)?,
            next: samples(next)?,
        };
        Ok(match value_type {
            DataType::Int8 => sources.integers::<Int8Type>(places, column),
            DataType::Int16 => sources.integers::<Int16Type>(places, column),
            DataType::Int32 => sources.integers::<Int32Type>(places, column),
            DataType::Int64 => sources.integers::<Int64Type>(places, column),
            DataType::UInt8 => sources.integers::<UInt8Type>(places, column),
            DataType::UInt16 => sources.integers::<UInt16Type>(places, column),
            DataType::UInt32 => sources.integers::<UInt32Type>(places, column),
            DataType::UInt64 => sources.integers::<UInt64Type>(places, column),
            DataType::Float32 => {
                sources.line::<Float32Type>(places, column, |from, to, part, all| {
                    let sum = f64::from(from) * (all - part) as f64 + f64::from(to) * part as f64;
                    #[expect(
                        clippy::cast_possible_truncation,
                        reason = "the column's own precision"
                    )]
                    let at = (sum / all as f64) as f32;
                    at
                })
            }
            DataType::Float64 => {
                sources.line::<Float64Type>(places, column, |from, to, part, all| {
                    (from * (all - part) as f64 + to * part as f64) / all as f64
                })
            }
            other => return exec_err!("interpolate: {other} is no number"),
        })
    }
}

/// Records that are looked up.
struct Samples {
    records: ArrayRef,
    times: Int64Array,
    values: ArrayRef,
    /// Whether each row of the input has its own.
    by_row: bool,
}

impl Samples {
    fn get<T: ArrowPrimitiveType>(&self, place: &FilledRow) -> Option<(i64, T::Native)> {
        let row = if self.by_row { place.start } else { 0 };
        let values = self.values.as_primitive_opt::<T>()?;
        let is_known = row < values.len()
            && self.records.is_valid(row)
            && self.times.is_valid(row)
            && values.is_valid(row);
        is_known.then(|| (self.times.value(row), values.value(row)))
    }
}

struct Sources<'a> {
    times: &'a Int64Array,
    prev: Option<Samples>,
    next: Option<Samples>,
}

impl Sources<'_> {
    /// Integers by exact arithmetic, halves away from zero.
    fn integers<T>(&self, places: &[FilledRow], column: &ArrayRef) -> ArrayRef
    where
        T: ArrowPrimitiveType,
        T::Native: Into<i128> + TryFrom<i128>,
    {
        self.line::<T>(places, column, |from, to, part, all| {
            let sum = Into::<i128>::into(from) * (all - part) + Into::<i128>::into(to) * part;
            let rounded = (2 * sum.abs() + all) / (2 * all) * sum.signum();
            // Between two values of a type lies no other type's, so this is never the value before.
            T::Native::try_from(rounded).unwrap_or(from)
        })
    }

    /// `at(from, to, part, all)` is the value `part` of `all` on the way.
    fn line<T: ArrowPrimitiveType>(
        &self,
        places: &[FilledRow],
        column: &ArrayRef,
        at: impl Fn(T::Native, T::Native, i128, i128) -> T::Native,
    ) -> ArrayRef {
        let values = column.as_primitive::<T>();
        let sample = |row: usize| {
            (values.is_valid(row) && self.times.is_valid(row))
                .then(|| (self.times.value(row), values.value(row)))
        };
        let all: PrimitiveArray<T> = places
            .iter()
            .map(|place| {
                if place.is_row {
                    return values.is_valid(place.at).then(|| values.value(place.at));
                }
                let (from_time, from) = match place.before() {
                    Some(row) => sample(row),
                    None => self.prev.as_ref().and_then(|prev| prev.get::<T>(place)),
                }?;
                let (to_time, to) = match place.after() {
                    Some(row) => sample(row),
                    None => self.next.as_ref().and_then(|next| next.get::<T>(place)),
                }?;
                let part = i128::from(place.time?) - i128::from(from_time);
                let all = i128::from(to_time) - i128::from(from_time);
                (all > 0).then(|| at(from, to, part, all))
            })
            .collect();
        Arc::new(all)
    }
}

fn indices(rows: impl Iterator<Item = Option<usize>>) -> Result<UInt32Array> {
    rows.map(|row| {
        let row = row.map(u32::try_from).transpose();
        row.or_else(|_| exec_err!("time_bucket_gapfill: a group has more than 4294967295 rows"))
    })
    .collect()
}

fn unit_ns(kind: &DataType) -> Result<i128> {
    Ok(match kind {
        DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Timestamp(TimeUnit::Nanosecond, _) => 1,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
        DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
        DataType::Date32 => DAY_NS,
        other => return exec_err!("time_bucket_gapfill: {other} is no time"),
    })
}

fn time(value: &ScalarValue) -> Result<Option<i64>> {
    let times = times(&value.to_array()?)?;
    Ok((!times.is_empty() && times.is_valid(0)).then(|| times.value(0)))
}

/// Times as numbers of their unit.
fn times(column: &ArrayRef) -> Result<Int64Array> {
    fn widened<T: ArrowPrimitiveType>(column: &ArrayRef) -> Int64Array
    where
        T::Native: Into<i64>,
    {
        column.as_primitive::<T>().unary(Into::into)
    }
    Ok(match column.data_type() {
        DataType::Int16 => widened::<Int16Type>(column),
        DataType::Int32 => widened::<Int32Type>(column),
        DataType::Int64 => widened::<Int64Type>(column),
        DataType::Date32 => widened::<Date32Type>(column),
        DataType::Timestamp(TimeUnit::Second, _) => widened::<TimestampSecondType>(column),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            widened::<TimestampMillisecondType>(column)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            widened::<TimestampMicrosecondType>(column)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => widened::<TimestampNanosecondType>(column),
        other => return exec_err!("time_bucket_gapfill: {other} is no time"),
    })
}

fn buckets(places: &[FilledRow], kind: &DataType) -> Result<ArrayRef> {
    fn narrowed<T: ArrowPrimitiveType>(places: &[FilledRow], kind: &DataType) -> ArrayRef
    where
        T::Native: TryFrom<i64>,
    {
        let times: PrimitiveArray<T> = places
            .iter()
            .map(|place| place.time.and_then(|time| T::Native::try_from(time).ok()))
            .collect();
        Arc::new(times.with_data_type(kind.clone()))
    }
    Ok(match kind {
        DataType::Int16 => narrowed::<Int16Type>(places, kind),
        DataType::Int32 => narrowed::<Int32Type>(places, kind),
        DataType::Int64 => narrowed::<Int64Type>(places, kind),
        DataType::Date32 => narrowed::<Date32Type>(places, kind),
        DataType::Timestamp(TimeUnit::Second, _) => narrowed::<TimestampSecondType>(places, kind),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            narrowed::<TimestampMillisecondType>(places, kind)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            narrowed::<TimestampMicrosecondType>(places, kind)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            narrowed::<TimestampNanosecondType>(places, kind)
        }
        other => return exec_err!("time_bucket_gapfill: {other} is no time"),
    })
}
