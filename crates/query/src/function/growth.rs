//! Bounds of function results: every function, and the most that it makes of its arguments.
//!
//! A function that is not in the list is not there: what it may take nobody has looked at. Does: find out from the
//! arguments what one call would make. Does not: refuse; that is [`super::bounded`]'s.

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::kernels::length::length;
use arrow::compute::{cast, max};
use arrow::datatypes::{DataType, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit};
use datafusion::common::Result;
use datafusion::functions::regex::regexpcount::regexp_count_func;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF};

use super::json::is_of_json;
use super::summary::is_of_summary;
use crate::limits::sizes::lengths_each;

/// What a pattern's letter can stand for, in letters.
const PATTERN_TIMES: u128 = 16;

/// What a table of hashes takes for each byte of numbers that it is made of.
const HASH_TIMES: u128 = 4;

/// Matches of a regular expression are worth counting from this on.
const COUNTED_FROM: u128 = 8 << 20;

const DAY_NS: i64 = 86_400_000_000_000;

/// What makes much of little, and of which arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Growth {
    /// Of a size that its type says, whatever it is given.
    Fixed,
    /// A part of what it is given, or a few times that.
    Linear,
    /// The first argument so often as the second says.
    Times,
    /// As long as the second argument says.
    UpTo,
    /// From the first argument to the second, by the third.
    Range,
    /// The third argument for each of the second in the first.
    Replace,
    /// Each character of the first with each of the second, or each element.
    Pairs,
    /// All arguments one after the other.
    Sum,
    /// The same with the first between the others.
    SumWith,
    /// Twice the first.
    Twice,
    /// The first argument's elements as text, with the second between them.
    Text,
    /// The first argument's text in pieces.
    Pieces,
    /// A text by a pattern, each part of which may stand for a longer one.
    Pattern,
    /// The first argument with the third for some of its elements.
    Elements,
    /// Tables of hashes of both arguments.
    Hashes,
    /// A text by what a regular expression finds.
    Regexp,
    /// A piece of the text for each group of a regular expression.
    Groups,
}

/// All functions of single values, by their first names.
pub(super) const FUNCTIONS: [(&str, Growth); 207] = [
    ("__array_contains", Growth::Fixed),
    ("__array_given", Growth::Linear),
    ("__array_overlaps", Growth::Fixed),
    ("__array_slice", Growth::Linear),
    ("__asof_match", Growth::Fixed),
    ("__bytea_concat", Growth::Sum),
    ("__decode_escape", Growth::Linear),
    ("__encode_escape", Growth::Linear),
    ("__time_by_pattern", Growth::Fixed),
    ("abs", Growth::Fixed),
    ("acos", Growth::Fixed),
    ("acosh", Growth::Fixed),
    ("age", Growth::Fixed),
    ("array_add", Growth::Linear),
    ("array_any_value", Growth::Linear),
    ("array_append", Growth::Sum),
    ("array_avg", Growth::Fixed),
    ("array_compact", Growth::Linear),
    ("array_concat", Growth::Sum),
    ("array_dims", Growth::Fixed),
    ("array_distance", Growth::Fixed),
    ("array_distinct", Growth::Hashes),
    ("array_element", Growth::Linear),
    ("array_except", Growth::Hashes),
    ("array_has", Growth::Fixed),
    ("array_has_all", Growth::Pairs),
    ("array_has_any", Growth::Pairs),
    ("array_intersect", Growth::Hashes),
    ("array_length", Growth::Fixed),
    ("array_max", Growth::Linear),
    ("array_min", Growth::Linear),
    ("array_ndims", Growth::Fixed),
    ("array_normalize", Growth::Linear),
    ("array_pop_back", Growth::Linear),
    ("array_pop_front", Growth::Linear),
    ("array_position", Growth::Fixed),
    ("array_positions", Growth::Linear),
    ("array_prepend", Growth::Sum),
    ("array_product", Growth::Fixed),
    ("array_remove", Growth::Linear),
    ("array_remove_all", Growth::Linear),
    ("array_remove_n", Growth::Linear),
    ("array_repeat", Growth::Times),
    ("array_replace", Growth::Elements),
    ("array_replace_all", Growth::Elements),
    ("array_replace_n", Growth::Elements),
    ("array_resize", Growth::UpTo),
    ("array_reverse", Growth::Linear),
    ("array_scale", Growth::Linear),
    ("array_slice", Growth::Linear),
    ("array_sort", Growth::Linear),
    ("array_subtract", Growth::Linear),
    ("array_sum", Growth::Fixed),
    ("array_to_string", Growth::Text),
    ("array_union", Growth::Hashes),
    ("arrays_zip", Growth::Sum),
    ("arrow_cast", Growth::Linear),
    ("arrow_field", Growth::Fixed),
    ("arrow_metadata", Growth::Fixed),
    ("arrow_try_cast", Growth::Linear),
    ("arrow_typeof", Growth::Fixed),
    ("ascii", Growth::Fixed),
    ("asin", Growth::Fixed),
    ("asinh", Growth::Fixed),
    ("atan", Growth::Fixed),
    ("atan2", Growth::Fixed),
    ("atanh", Growth::Fixed),
    ("bit_length", Growth::Fixed),
    ("btrim", Growth::Linear),
    ("cardinality", Growth::Fixed),
    ("cast", Growth::Text),
    ("cast_to_type", Growth::Linear),
    ("cbrt", Growth::Fixed),
    ("ceil", Growth::Fixed),
    ("character_length", Growth::Fixed),
    ("chr", Growth::Fixed),
    ("clock_timestamp", Growth::Fixed),
    ("coalesce", Growth::Linear),
    ("concat", Growth::Sum),
    ("concat_ws", Growth::SumWith),
    ("contains", Growth::Fixed),
    ("convert_from", Growth::Linear),
    ("convert_to", Growth::Linear),
    ("cos", Growth::Fixed),
    ("cosh", Growth::Fixed),
    ("cosine_distance", Growth::Fixed),
    ("cot", Growth::Fixed),
    ("current_date", Growth::Fixed),
    ("current_time", Growth::Fixed),
    ("date_bin", Growth::Fixed),
    ("date_format", Growth::Pattern),
    ("date_part", Growth::Fixed),
    ("date_trunc", Growth::Fixed),
    ("decode", Growth::Linear),
    ("degrees", Growth::Fixed),
    ("empty", Growth::Fixed),
    ("encode", Growth::Twice),
    ("ends_with", Growth::Fixed),
    ("exp", Growth::Fixed),
    ("factorial", Growth::Fixed),
    ("find_in_set", Growth::Fixed),
    ("flatten", Growth::Linear),
    ("floor", Growth::Fixed),
    ("format", Growth::Sum),
    ("from_unixtime", Growth::Fixed),
    ("gcd", Growth::Fixed),
    ("generate_series", Growth::Range),
    ("get_bit", Growth::Fixed),
    ("get_byte", Growth::Fixed),
    ("get_field", Growth::Linear),
    ("greatest", Growth::Linear),
    ("initcap", Growth::Linear),
    ("inner_product", Growth::Fixed),
    ("interpolate", Growth::Fixed),
    ("isfinite", Growth::Fixed),
    ("isnan", Growth::Fixed),
    ("iszero", Growth::Fixed),
    ("lcm", Growth::Fixed),
    ("least", Growth::Linear),
    ("left", Growth::Linear),
    ("levenshtein", Growth::Pairs),
    ("ln", Growth::Fixed),
    ("locf", Growth::Fixed),
    ("log", Growth::Fixed),
    ("log10", Growth::Fixed),
    ("log2", Growth::Fixed),
    ("lower", Growth::Linear),
    ("lpad", Growth::UpTo),
    ("ltrim", Growth::Linear),
    ("make_array", Growth::Sum),
    ("make_date", Growth::Fixed),
    ("make_time", Growth::Fixed),
    ("map", Growth::Hashes),
    ("map_entries", Growth::Linear),
    ("map_extract", Growth::Linear),
    ("map_keys", Growth::Linear),
    ("map_values", Growth::Linear),
    ("md5", Growth::Fixed),
    ("named_struct", Growth::Sum),
    ("nanvl", Growth::Fixed),
    ("now", Growth::Fixed),
    ("nullif", Growth::Linear),
    ("num_nonnulls", Growth::Fixed),
    ("num_nulls", Growth::Fixed),
    ("nvl", Growth::Linear),
    ("nvl2", Growth::Linear),
    ("octet_length", Growth::Fixed),
    ("overlay", Growth::Sum),
    ("pg_typeof", Growth::Fixed),
    ("pi", Growth::Fixed),
    ("power", Growth::Fixed),
    ("radians", Growth::Fixed),
    ("random", Growth::Fixed),
    ("range", Growth::Range),
    ("regexp_count", Growth::Fixed),
    ("regexp_instr", Growth::Fixed),
    ("regexp_like", Growth::Fixed),
    ("regexp_match", Growth::Groups),
    ("regexp_replace", Growth::Regexp),
    ("repeat", Growth::Times),
    ("replace", Growth::Replace),
    ("reverse", Growth::Linear),
    ("right", Growth::Linear),
    ("round", Growth::Fixed),
    ("rpad", Growth::UpTo),
    ("rtrim", Growth::Linear),
    ("set_bit", Growth::Linear),
    ("set_byte", Growth::Linear),
    ("sha256", Growth::Fixed),
    ("sha384", Growth::Fixed),
    ("sha512", Growth::Fixed),
    ("signum", Growth::Fixed),
    ("sin", Growth::Fixed),
    ("sinh", Growth::Fixed),
    ("split_part", Growth::Linear),
    ("sqrt", Growth::Fixed),
    ("starts_with", Growth::Fixed),
    ("string_to_array", Growth::Pieces),
    ("strpos", Growth::Fixed),
    ("struct", Growth::Sum),
    ("substr", Growth::Linear),
    ("substr_index", Growth::Linear),
    ("tan", Growth::Fixed),
    ("tanh", Growth::Fixed),
    ("time_bucket", Growth::Fixed),
    ("time_bucket_gapfill", Growth::Fixed),
    ("timezone", Growth::Fixed),
    ("to_char", Growth::Pattern),
    ("to_date", Growth::Fixed),
    ("to_hex", Growth::Fixed),
    ("to_local_time", Growth::Fixed),
    ("to_time", Growth::Fixed),
    ("to_timestamp", Growth::Fixed),
    ("to_timestamp_micros", Growth::Fixed),
    ("to_timestamp_millis", Growth::Fixed),
    ("to_timestamp_nanos", Growth::Fixed),
    ("to_timestamp_seconds", Growth::Fixed),
    ("to_unixtime", Growth::Fixed),
    ("translate", Growth::Linear),
    ("trunc", Growth::Fixed),
    ("try_cast_to_type", Growth::Linear),
    ("upper", Growth::Linear),
    ("uuid", Growth::Fixed),
    ("version", Growth::Fixed),
    ("width_bucket", Growth::Fixed),
    ("with_metadata", Growth::Linear),
    ("||", Growth::Sum),
];

/// How a function grows; `None` = nobody has looked at it.
pub(super) fn growth_of(function: &ScalarUDF) -> Option<Growth> {
    let name = function.name();
    FUNCTIONS
        .binary_search_by_key(&name, |(known, _)| *known)
        .ok()
        .and_then(|at| FUNCTIONS.get(at))
        .map(|(_, growth)| *growth)
        .or_else(|| is_of_json(name).then_some(Growth::Sum))
        .or_else(|| is_of_summary(name).then_some(Growth::Linear))
}

impl Growth {
    /// Whether it makes no more than a few times what it is given.
    pub(super) fn is_bounded(self) -> bool {
        matches!(self, Self::Fixed | Self::Linear)
    }

    /// Whether how much it makes depends on values, and not on how long they are.
    pub(super) fn is_by_value(self) -> bool {
        !matches!(
            self,
            Self::Fixed | Self::Linear | Self::Sum | Self::SumWith | Self::Twice | Self::Pairs
        )
    }

    /// Bytes, or steps, of all rows; `None` = arguments of other types than those that grow.
    pub(super) fn of_values(self, args: &[ColumnarValue], rows: usize) -> Result<Option<u128>> {
        // What can be told without a copy of each constant for each row.
        let bytes = |at: usize| args.get(at).map_or(Ok(0), |arg| bytes_of(arg, rows));
        let sum = || (0..args.len()).map(bytes).sum::<Result<u128>>();
        match self {
            Self::Sum => return sum().map(Some),
            Self::SumWith => return Ok(Some(sum()? + bytes(0)? * args.len() as u128)),
            Self::Twice => return Ok(Some(bytes(0)? * 2)),
            Self::Pattern => return Ok(Some(bytes(1)? * PATTERN_TIMES)),
            Self::Hashes => return Ok(Some(sum()? * HASH_TIMES)),
            _ => {}
        }
        let arrays: Result<Vec<ArrayRef>> = args.iter().map(|arg| arg.to_array(rows)).collect();
        let arrays = arrays?;
        Ok(match self {
            Self::Regexp => regexp(&arrays)?,
            _ => self.made(&arrays),
        })
    }

    fn made(self, args: &[ArrayRef]) -> Option<u128> {
        let of = |at: usize| args.get(at);
        match self {
            Self::Times => sum([&bytes(of(0)?), &numbers(of(1)?)?], |[bytes, times]| {
                bytes * times
            }),
            Self::UpTo => {
                let longest = of(2).map(bytes).and_then(|it| max(&it));
                let unit = longest.and_then(|it| u128::try_from(it).ok()).unwrap_or(0);
                sum([&numbers(of(1)?)?], |[length]| length * unit.max(8))
            }
            Self::Range => range(args),
            Self::Replace => {
                let (text, old, new) = (of(0)?, of(1)?, of(2)?);
                let found = found(text, old)?;
                sum(
                    [&lengths(text)?, &found, &lengths(new)?],
                    |[text, found, new]| text + found * new,
                )
            }
            Self::Pieces => {
                let found = found(of(0)?, of(1)?)?;
                sum([&lengths(of(0)?)?, &found], |[text, found]| {
                    text + found * 8
                })
            }
            Self::Pairs => sum([&lengths(of(0)?)?, &lengths(of(1)?)?], |[one, other]| {
                one * other
            }),
            Self::Text => {
                let text = of(0)?.to_data().get_slice_memory_size().ok()? as u128;
                let between = match of(1) {
                    Some(between) => sum(
                        [&lengths(of(0)?)?, &lengths(between)?],
                        |[count, between]| count * between,
                    )?,
                    None => 0,
                };
                Some(text * 3 + between)
            }
            Self::Elements => {
                let [list, count, new] = [&bytes(of(0)?), &lengths(of(0)?)?, &bytes(of(2)?)];
                sum([list, count, new], |[list, count, new]| {
                    list + count * new.max(8)
                })
            }
            Self::Groups => {
                let groups = cast(of(1)?, &DataType::Utf8).ok()?;
                let groups = groups.as_string::<i32>().iter().map(|pattern| {
                    let open = pattern?.bytes().filter(|byte| *byte == b'(').count();
                    i64::try_from(open + 1).ok()
                });
                sum([&bytes(of(0)?), &groups.collect()], |[text, groups]| {
                    text * groups
                })
            }
            _ => None,
        }
    }
}

/// Bytes of an argument's values in all rows.
fn bytes_of(arg: &ColumnarValue, rows: usize) -> Result<u128> {
    let (array, times) = match arg {
        ColumnarValue::Scalar(_) => (arg.to_array(1)?, rows),
        ColumnarValue::Array(array) => (ArrayRef::clone(array), 1),
    };
    // A dictionary's values are few, and each row will have one of them.
    let array = match array.data_type() {
        DataType::Dictionary(_, values) => cast(&array, values)?,
        _ => array,
    };
    let bytes = match array.data_type() {
        // What a view points to is counted for nobody else.
        DataType::Utf8View => array.as_string_view().iter().flatten().map(str::len).sum(),
        DataType::BinaryView => array
            .as_binary_view()
            .iter()
            .flatten()
            .map(<[u8]>::len)
            .sum(),
        DataType::List(field) | DataType::LargeList(field)
            if matches!(field.data_type(), DataType::Utf8View | DataType::BinaryView) =>
        {
            array.get_array_memory_size()
        }
        _ => array.to_data().get_slice_memory_size()?,
    };
    Ok(bytes as u128 * times as u128)
}

/// How often each text has the other in it. Looked for only where it could be too often.
fn found(texts: &ArrayRef, parts: &ArrayRef) -> Option<Int64Array> {
    let texts = cast(texts, &DataType::Utf8).ok()?;
    let parts = cast(parts, &DataType::Utf8).ok()?;
    let pairs = texts
        .as_string::<i32>()
        .iter()
        .zip(parts.as_string::<i32>());
    let counts = pairs.map(|(text, part)| {
        let (text, part) = text.zip(part)?;
        let count = if part.is_empty() {
            text.len() + 1
        } else {
            text.matches(part).count()
        };
        i64::try_from(count).ok()
    });
    Some(counts.collect())
}

/// The text, and what stands for each place where the pattern is found. What the replacement takes from there is in it once
/// for each time that it says so.
fn regexp(args: &[ArrayRef]) -> Result<Option<u128>> {
    let [texts, patterns, news, rest @ ..] = args else {
        return Ok(None);
    };
    let as_text = |array: &ArrayRef| cast(array, &DataType::Utf8);
    let (texts, patterns, news) = (as_text(texts)?, as_text(patterns)?, as_text(news)?);
    let flags = rest.first().map(as_text).transpose()?;
    let references = |new: &str| new.bytes().filter(|byte| b"\\$".contains(byte)).count();
    let mut most = 0u128;
    let mut counted = Vec::with_capacity(texts.len());
    let columns = texts.as_string::<i32>().iter().zip(news.as_string::<i32>());
    for (row, (text, new)) in columns.enumerate() {
        let flags = flags.as_ref().map(AsArray::as_string::<i32>);
        let is_global = flags.is_some_and(|it| it.is_valid(row) && it.value(row).contains('g'));
        let (text, new) = (text.unwrap_or_default(), new.unwrap_or_default());
        let taken = text.len() as u128 * (1 + references(new)) as u128;
        let times = if is_global { text.len() + 1 } else { 1 };
        most += taken + times as u128 * new.len() as u128;
        counted.push((taken, is_global, new.len() as u128));
    }
    let is_any_global = counted.iter().any(|(_, is_global, _)| *is_global);
    if most <= COUNTED_FROM || !is_any_global {
        return Ok(Some(most));
    }
    // It is worth to look how often.
    let places = regexp_count_func(&[texts, patterns])?;
    let places = places.as_primitive::<Int64Type>();
    let made = counted
        .into_iter()
        .enumerate()
        .map(|(row, (taken, is_global, new))| {
            let found = if places.is_valid(row) {
                places.value(row)
            } else {
                0
            };
            let found = u128::try_from(found).unwrap_or(0);
            taken + new * if is_global { found } else { found.min(1) }
        });
    Ok(Some(made.fold(0, u128::saturating_add)))
}

/// The sum over all rows in which nothing is NULL or negative.
fn sum<const N: usize>(
    columns: [&Int64Array; N],
    of_row: impl Fn([u128; N]) -> u128,
) -> Option<u128> {
    let rows = columns.first()?.len();
    let of_rows = (0..rows).filter_map(|row| {
        let values = columns.map(|column| {
            let value = column.is_valid(row).then(|| column.value(row))?;
            u128::try_from(value).ok()
        });
        values
            .iter()
            .all(Option::is_some)
            .then(|| of_row(values.map(Option::unwrap_or_default)))
    });
    Some(of_rows.fold(0, u128::saturating_add))
}

fn numbers(array: &ArrayRef) -> Option<Int64Array> {
    let is_number = array.data_type().is_integer();
    let numbers = is_number.then(|| cast(array, &DataType::Int64).ok())??;
    Some(numbers.as_primitive::<Int64Type>().clone())
}

/// Bytes of each value.
fn bytes(array: &ArrayRef) -> Int64Array {
    let bytes = match array.data_type() {
        DataType::Dictionary(_, values) => match cast(array, values) {
            Ok(values) => lengths_each(&values),
            Err(_) => lengths_each(array),
        },
        _ => lengths_each(array),
    };
    bytes
        .into_iter()
        .map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX))
        .collect()
}

/// Bytes of each text, elements of each list; eight for what has no length.
fn lengths(array: &ArrayRef) -> Option<Int64Array> {
    let of_bytes = |bytes: usize| i64::try_from(bytes).ok();
    match array.data_type() {
        DataType::Utf8View => {
            let texts = array.as_string_view().iter();
            Some(texts.map(|text| of_bytes(text?.len())).collect())
        }
        DataType::BinaryView => {
            let values = array.as_binary_view().iter();
            Some(values.map(|bytes| of_bytes(bytes?.len())).collect())
        }
        DataType::Dictionary(_, values) => lengths(&cast(array, values).ok()?),
        _ => match length(array) {
            Ok(lengths) => Some(
                cast(&lengths, &DataType::Int64)
                    .ok()?
                    .as_primitive::<Int64Type>()
                    .clone(),
            ),
            Err(_) => Some(Int64Array::from(vec![8; array.len()])),
        },
    }
}

/// Eight bytes for each number or time from the first to the last.
fn range(args: &[ArrayRef]) -> Option<u128> {
    let (from, to) = match args {
        [to] => (None, to),
        [from, to, ..] => (Some(from), to),
        [] => return None,
    };
    let to = points(to)?;
    let from = match from {
        Some(from) => points(from)?,
        None => Int64Array::from(vec![0; to.len()]),
    };
    let steps = match args.get(2) {
        Some(steps) => widths(steps)?,
        None => Int64Array::from(vec![1; to.len()]),
    };
    let of_rows = (0..to.len()).filter_map(|row| {
        let value = |column: &Int64Array| column.is_valid(row).then(|| column.value(row));
        let (from, to, step) = (value(&from)?, value(&to)?, value(&steps)?);
        let count = u128::from(from.abs_diff(to)) / u128::from(step.unsigned_abs().max(1)) + 1;
        // Against its direction there is nothing between them.
        let is_empty = (from < to) != (step > 0);
        Some(if is_empty { 0 } else { count * 8 })
    });
    Some(of_rows.fold(0, u128::saturating_add))
}

/// Numbers as they are, times in nanoseconds.
fn points(array: &ArrayRef) -> Option<Int64Array> {
    match array.data_type() {
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => {
            let in_ns = DataType::Timestamp(TimeUnit::Nanosecond, None);
            let times = cast(array, &in_ns).ok()?;
            let numbers = cast(&times, &DataType::Int64).ok()?;
            Some(numbers.as_primitive::<Int64Type>().clone())
        }
        _ => numbers(array),
    }
}

/// Numbers as they are, intervals in nanoseconds with the shortest months.
fn widths(array: &ArrayRef) -> Option<Int64Array> {
    if *array.data_type() != DataType::Interval(IntervalUnit::MonthDayNano) {
        return numbers(array);
    }
    let widths = array.as_primitive::<IntervalMonthDayNanoType>().iter();
    let in_ns = widths.map(|width| {
        let width = width?;
        let days = i64::from(width.months) * 28 + i64::from(width.days);
        Some(
            days.saturating_mul(DAY_NS)
                .saturating_add(width.nanoseconds),
        )
    });
    Some(in_ns.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is no function of its own: our operators, and what the guide has a section for.
    const ELSEWHERE: [&str; 15] = [
        "__array_contains",
        "__array_given",
        "__array_overlaps",
        "__array_slice",
        "__asof_match",
        "__bytea_concat",
        "__decode_escape",
        "__encode_escape",
        "__time_by_pattern",
        "cast",
        "interpolate",
        "locf",
        "time_bucket",
        "time_bucket_gapfill",
        "||",
    ];

    /// The story: functions were bounded one by one, and those that nobody had thought of ended the server. Now a function is
    /// there because it is in the list, and the guide has the list.
    #[test]
    fn the_guide_has_every_function_and_no_other() {
        let page = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/guide/sql-functions.md"
        );
        let page = std::fs::read_to_string(page).unwrap();
        let section = page.split("## Functions and their bounds").nth(1).unwrap();
        let table = section.split("Other names of the same").next().unwrap();
        let rows = table.lines().filter(|line| line.starts_with("| "));
        let mut shown: Vec<&str> = rows
            .filter_map(|row| row.split('|').nth(2))
            .flat_map(|names| names.split('`').skip(1).step_by(2))
            .filter(|name| !name.contains([' ', ':']))
            .collect();
        shown.sort_unstable();
        let known = FUNCTIONS.iter().map(|(name, _)| *name);
        let known: Vec<&str> = known.filter(|name| !ELSEWHERE.contains(name)).collect();
        assert_eq!(shown, known);
        assert!(FUNCTIONS.is_sorted_by_key(|(name, _)| *name));
    }
}
