//! Functions of `PostgreSQL` that the library lacks: `format`, `md5`, `num_nulls`, `width_bucket`, `isfinite`, `clock_timestamp`.

use std::fmt::Write;
use std::sync::Arc;
use std::time::SystemTime;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use md5::{Digest, Md5};

use crate::statement::name::{literal, quoted};

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Call {
    ClockTimestamp,
    Format,
    IsFinite,
    Md5,
    NumNonnulls,
    NumNulls,
    WidthBucket,
}

/// All of them.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    use Volatility::{Immutable, Volatile};
    let texts = Signature::exact(vec![DataType::Utf8], Immutable);
    let times = Signature::user_defined(Immutable);
    let bucket = {
        let mut kinds = vec![DataType::Float64; 3];
        kinds.push(DataType::Int64);
        Signature::exact(kinds, Immutable)
    };
    let any = || Signature::variadic_any(Immutable);
    let all = [
        (
            "clock_timestamp",
            Call::ClockTimestamp,
            Signature::new(TypeSignature::Nullary, Volatile),
        ),
        ("format", Call::Format, any()),
        ("isfinite", Call::IsFinite, times),
        ("md5", Call::Md5, texts),
        ("num_nonnulls", Call::NumNonnulls, any()),
        ("num_nulls", Call::NumNulls, any()),
        ("width_bucket", Call::WidthBucket, bucket),
    ];
    let all = all.into_iter().map(|(name, call, signature)| {
        Arc::new(ScalarUDF::new_from_impl(Common {
            name,
            call,
            signature,
        }))
    });
    all.collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Common {
    name: &'static str,
    call: Call,
    signature: Signature,
}

impl ScalarUDFImpl for Common {
    fn name(&self) -> &'static str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let is_time = |kind: &DataType| {
            kind.is_temporal() && !matches!(kind, DataType::Time32(_) | DataType::Time64(_))
        };
        if !matches!(arg_types, [kind] if is_time(kind) || *kind == DataType::Null) {
            return plan_err!("{} takes a timestamp, a date or an interval", self.name);
        }
        Ok(arg_types.to_vec())
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(match self.call {
            Call::ClockTimestamp => {
                DataType::Timestamp(TimeUnit::Nanosecond, Some(Arc::from("UTC")))
            }
            Call::Format | Call::Md5 => DataType::Utf8,
            Call::IsFinite => DataType::Boolean,
            Call::NumNonnulls | Call::NumNulls | Call::WidthBucket => DataType::Int32,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.call == Call::ClockTimestamp {
            let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
            let ns = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
            let zone = Some(Arc::from("UTC"));
            let now = ScalarValue::TimestampNanosecond(Some(ns), zone);
            return Ok(ColumnarValue::Scalar(now));
        }
        let is_scalar = args
            .args
            .iter()
            .all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let values: Vec<ArrayRef> = args
            .args
            .iter()
            .map(|value| value.to_array(rows))
            .collect::<Result<_>>()?;
        let array: ArrayRef = match self.call {
            Call::ClockTimestamp => return internal_err!("clock_timestamp has no rows"),
            Call::Format => Arc::new(formatted(&values, rows)?),
            Call::Md5 => Arc::new(md5_of(&values)?),
            Call::IsFinite => {
                // Times without an end are kept as none.
                let known = (0..rows).map(|row| {
                    let value = values.first()?;
                    (!value.is_null(row)).then_some(true)
                });
                Arc::new(known.collect::<BooleanArray>())
            }
            Call::NumNulls => Arc::new(nulls(&values, rows, true)),
            Call::NumNonnulls => Arc::new(nulls(&values, rows, false)),
            Call::WidthBucket => Arc::new(width_buckets(&values, rows)?),
        };
        Ok(if is_scalar {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?)
        } else {
            ColumnarValue::Array(array)
        })
    }
}

fn nulls(values: &[ArrayRef], rows: usize, is_null: bool) -> Int32Array {
    let counts = (0..rows).map(|row| {
        let counted = values
            .iter()
            .filter(|value| value.logical_nulls().is_some_and(|it| it.is_null(row)) == is_null);
        i32::try_from(counted.count()).ok()
    });
    counts.collect()
}

fn md5_of(values: &[ArrayRef]) -> Result<StringArray> {
    let Some(texts) = values.first() else {
        return internal_err!("md5 takes a text");
    };
    let sums = texts.as_string::<i32>().iter().map(|text| {
        let sum = Md5::digest(text?.as_bytes());
        Some(sum.iter().fold(String::new(), |mut all, byte| {
            // Writing to a string cannot fail.
            let _ = write!(all, "{byte:02x}");
            all
        }))
    });
    Ok(sums.collect())
}

/// The number of the bucket, of so many between two ends, that a value lies in; 0 below them, one more than there are above.
fn width_buckets(values: &[ArrayRef], rows: usize) -> Result<Int32Array> {
    let [value, low, high, count] = values else {
        return internal_err!("width_bucket takes a value, two ends and a count");
    };
    let [value, low, high] = [value, low, high].map(AsArray::as_primitive::<Float64Type>);
    let count = count.as_primitive::<Int64Type>();
    let bucket = |row: usize| -> Result<Option<i32>> {
        if [value, low, high].iter().any(|it| it.is_null(row)) || count.is_null(row) {
            return Ok(None);
        }
        let (value, low, high) = (value.value(row), low.value(row), high.value(row));
        let Ok(count) = i32::try_from(count.value(row)) else {
            return exec_err!("integer out of range");
        };
        if count <= 0 {
            return exec_err!("count must be greater than zero");
        }
        if value.is_nan() || low.is_nan() || high.is_nan() {
            return exec_err!("operand, lower bound, and upper bound cannot be NaN");
        }
        if !low.is_finite() || !high.is_finite() {
            return exec_err!("lower and upper bounds must be finite");
        }
        let beyond = count.checked_add(1);
        let place = match (low < high, low > high) {
            (true, _) if value < low => Some(0),
            (true, _) if value >= high => beyond,
            (true, _) => Some(place_of(value - low, high - low, count)),
            (_, true) if value > low => Some(0),
            (_, true) if value <= high => beyond,
            (_, true) => Some(place_of(low - value, low - high, count)),
            _ => return exec_err!("lower bound cannot equal upper bound"),
        };
        let Some(place) = place else {
            return exec_err!("integer out of range");
        };
        Ok(Some(place))
    };
    (0..rows).map(bucket).collect()
}

fn place_of(from_start: f64, width: f64, count: i32) -> i32 {
    // Within the ends, so within the count.
    let share = f64::from(count) * (from_start / width);
    let mut place = 1;
    let (mut least, mut most) = (0, count - 1);
    while least <= most {
        let middle = least + (most - least) / 2;
        if f64::from(middle) <= share {
            place = middle + 1;
            least = middle + 1;
        } else {
            most = middle - 1;
        }
    }
    place
}

/// `format('%s %I %L', ...)`.
fn formatted(values: &[ArrayRef], rows: usize) -> Result<StringArray> {
    let [pattern, values @ ..] = values else {
        return plan_err!("format takes a pattern and values");
    };
    let pattern = cast(pattern, &DataType::Utf8)?;
    let pattern = pattern.as_string::<i32>();
    let texts = values.iter().map(Texts::of).collect::<Result<Vec<_>>>()?;
    let mut made = 0;
    let mut row_of = |row: usize| -> Result<Option<String>> {
        if pattern.is_null(row) {
            return Ok(None);
        }
        let text = format_one(pattern.value(row), row, &texts, FORMATTED_MAX - made)?;
        made += text.len();
        Ok(Some(text))
    };
    (0..rows).map(&mut row_of).collect()
}

/// A column as texts.
struct Texts(ArrayRef);

impl Texts {
    fn of(array: &ArrayRef) -> Result<Self> {
        Ok(Self(match array.data_type() {
            DataType::Dictionary(_, kind) => cast(array, kind)?,
            DataType::Null => cast(array, &DataType::Utf8)?,
            _ => Arc::clone(array),
        }))
    }

    fn text(&self, row: usize) -> Result<Option<String>> {
        if self.0.is_null(row) {
            return Ok(None);
        }
        if *self.0.data_type() == DataType::Boolean {
            let letter = if self.0.as_boolean().value(row) {
                "t"
            } else {
                "f"
            };
            return Ok(Some(letter.to_owned()));
        }
        let options = FormatOptions::default();
        let shown = ArrayFormatter::try_new(&self.0, &options)?;
        Ok(Some(shown.value(row).try_to_string()?))
    }
}

fn format_one(pattern: &str, row: usize, values: &[Texts], bytes_max: usize) -> Result<String> {
    let mut out = String::new();
    let mut next = 0;
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        if letters.next_if_eq(&'%').is_some() {
            out.push('%');
            continue;
        }
        let number = |letters: &mut std::iter::Peekable<std::str::Chars<'_>>| {
            let mut found: Option<usize> = None;
            while let Some(digit) = letters.peek().and_then(|it| it.to_digit(10)) {
                letters.next();
                let digit = usize::try_from(digit).unwrap_or(0);
                found = Some(found.unwrap_or(0).saturating_mul(10).saturating_add(digit));
            }
            found
        };
        let mut place = None;
        let mut width = number(&mut letters);
        if letters.next_if_eq(&'$').is_some() {
            place = width.take();
            if place == Some(0) {
                return exec_err!("format specifies argument 0, but arguments are numbered from 1");
            }
        }
        let is_left = letters.next_if_eq(&'-').is_some();
        if width.is_none() {
            width = number(&mut letters);
        }
        let at = place.map_or(next, |place| place - 1);
        let Some(kind) = letters.next() else {
            return exec_err!("unterminated format() type specifier");
        };
        if !matches!(kind, 's' | 'I' | 'L') {
            return exec_err!("unrecognized format() type specifier \"{kind}\"");
        }
        let Some(value) = values.get(at) else {
            return exec_err!("too few arguments for format()");
        };
        next = at + 1;
        let text = match (kind, value.text(row)?) {
            ('s', text) => text.unwrap_or_default(),
            ('I', Some(text)) => quoted(&text),
            ('I', None) => {
                return exec_err!("null values cannot be formatted as an SQL identifier");
            }
            (_, Some(text)) => literal(&text),
            (_, None) => "NULL".to_owned(),
        };
        let width = width.unwrap_or(0).min(FORMATTED_MAX);
        let blanks = width.saturating_sub(text.chars().count());
        let blanks = " ".repeat(blanks);
        if out.len() + text.len() + blanks.len() > bytes_max {
            return exec_err!(
                "format would make more than {FORMATTED_MAX} bytes for the rows that are worked at together; make less of it"
            );
        }
        if is_left {
            out.extend([text, blanks]);
        } else {
            out.extend([blanks, text]);
        }
    }
    Ok(out)
}

/// What `format` makes of a batch of rows at most: a short pattern can ask for much.
const FORMATTED_MAX: usize = 64 << 20;
