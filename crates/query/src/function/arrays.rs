//! Arrays as `PostgreSQL` has them, where the library's functions differ: texts of arrays, slices, `@>` and `&&`, `array_dims`.
//!
//! Does: read `'{1,NULL}'` as a list and write lists so; compare elements as values, of which NULL is equal to none. Does not: know
//! operators or casts (`semantics::values::arrays` plans them), or keep arrays (the engine does).

use std::collections::HashSet;
use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, ListArray, StringArray};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, TimeUnit};
use arrow::row::{RowConverter, SortField};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::utils::list_ndims;
use datafusion::common::{
    Result, ScalarValue, exec_datafusion_err, exec_err, internal_err, plan_err,
};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use nilometer_engine::{Element, LogicalType, PhysicalType, array_elements, array_text};

use crate::semantics::times;
use crate::semantics::zone::Zone;

/// Whether all elements of the second are elements of the first.
const CONTAINS: &str = "__array_contains";
/// Whether two share an element.
const OVERLAPS: &str = "__array_overlaps";
/// The elements between two places.
const SLICE: &str = "__array_slice";
/// What was gathered, where nothing is an array without elements.
pub(crate) const GIVEN: &str = "__array_given";

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Call {
    /// A text as a list of this type, where a time that names no zone is of this one.
    OfText(DataType, Option<String>),
    /// A list as text.
    Text,
    Contains,
    Overlaps,
    Slice,
    Dims,
    /// The list, or an empty one.
    Given,
}

/// Functions that statements are rewritten to, or call.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let all = [
        (CONTAINS, Call::Contains),
        (OVERLAPS, Call::Overlaps),
        (SLICE, Call::Slice),
        ("array_dims", Call::Dims),
        (GIVEN, Call::Given),
    ];
    all.into_iter()
        .map(|(name, call)| function(name, call))
        .collect()
}

/// `@>`.
pub(crate) fn contains() -> Arc<ScalarUDF> {
    function(CONTAINS, Call::Contains)
}

/// `&&`.
pub(crate) fn overlaps() -> Arc<ScalarUDF> {
    function(OVERLAPS, Call::Overlaps)
}

/// `a[2:3]`.
pub(crate) fn slice() -> Arc<ScalarUDF> {
    function(SLICE, Call::Slice)
}

fn function(name: &'static str, call: Call) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(OfArrays {
        name,
        call,
        signature: Signature::user_defined(Volatility::Immutable),
    }))
}

/// Reads texts as lists of a type, in the session's zone where they have times.
pub(crate) fn of_text(to: DataType, zone: Option<&Zone>) -> Arc<ScalarUDF> {
    let zone = zone.map(|zone| zone.name().to_string());
    function("array", Call::OfText(to, zone))
}

/// Writes lists as texts.
pub(crate) fn text() -> Arc<ScalarUDF> {
    function("text", Call::Text)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfArrays {
    name: &'static str,
    call: Call,
    signature: Signature,
}

impl ScalarUDFImpl for OfArrays {
    fn name(&self) -> &'static str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let coerced = match (&self.call, given) {
            (Call::OfText(..), [_]) => Some(vec![DataType::Utf8]),
            (Call::Text | Call::Dims | Call::Given, [list]) => Some(vec![list.clone()]),
            (Call::Slice, [list, _, _]) => {
                Some(vec![list.clone(), DataType::Int64, DataType::Int64])
            }
            (Call::Contains | Call::Overlaps, [one, other]) => common(one, other),
            _ => None,
        };
        if let Some(coerced) = coerced {
            return Ok(coerced);
        }
        plan_err!("there is no such operator of {given:?}; cast one side to the type of the other")
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(match (&self.call, given) {
            (Call::OfText(to, _), _) => to.clone(),
            (Call::Text | Call::Dims, _) => DataType::Utf8,
            (Call::Slice | Call::Given, [list, ..]) => list.clone(),
            _ => DataType::Boolean,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
        let is_scalar = args.args.iter().all(is_scalar);
        let rows = if is_scalar { 1 } else { args.number_rows };
        let values = args.args.iter().map(|value| value.to_array(rows));
        let values = values.collect::<Result<Vec<ArrayRef>>>()?;
        let array: ArrayRef = match (&self.call, values.as_slice()) {
            (Call::OfText(to, zone), [texts]) => read(texts, to, zone.as_deref())?,
            (Call::Text, [lists]) => Arc::new(written(lists)?),
            (Call::Contains, [one, other]) => Arc::new(shared(one, other, &Call::Contains)?),
            (Call::Overlaps, [one, other]) => Arc::new(shared(one, other, &Call::Overlaps)?),
            (Call::Slice, [lists, from, to]) => sliced(lists, from, to)?,
            (Call::Dims, [lists]) => Arc::new(dimensions(lists)),
            (Call::Given, [lists]) => given(lists)?,
            _ => return internal_err!("{} has other arguments", self.name),
        };
        Ok(if is_scalar {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?)
        } else {
            ColumnarValue::Array(array)
        })
    }
}

/// The type of a list's elements.
pub(crate) fn element_of(kind: &DataType) -> Option<&DataType> {
    match kind {
        DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _) => {
            Some(of.data_type())
        }
        _ => None,
    }
}

fn list_of(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(element, true)))
}

/// The types that two sides are compared as.
fn common(one: &DataType, other: &DataType) -> Option<Vec<DataType>> {
    let element = match (element_of(one), element_of(other)) {
        (Some(one), Some(other)) if one.is_null() => other.clone(),
        (Some(one), Some(other)) if other.is_null() => one.clone(),
        (Some(one), Some(other)) => comparison_coercion(one, other)?,
        (Some(of), None) if other.is_null() => of.clone(),
        (None, Some(of)) if one.is_null() => of.clone(),
        _ => return None,
    };
    Some(vec![list_of(element.clone()), list_of(element)])
}

/// What the engine calls elements of an Arrow type.
fn element(kind: &DataType) -> Option<Element> {
    use LogicalType as L;
    let logical = match kind {
        DataType::Int8 | DataType::Int16 => Some(L::SmallInt),
        DataType::Int32 => Some(L::Integer),
        DataType::Int64 => Some(L::BigInt),
        DataType::Float32 => Some(L::Real),
        DataType::Date32 => Some(L::Date),
        DataType::Timestamp(TimeUnit::Nanosecond, None) => Some(L::Timestamp),
        DataType::Timestamp(TimeUnit::Nanosecond, Some(_)) => Some(L::TimestampTz),
        DataType::Decimal128(precision, scale) => Some(L::Numeric {
            precision: *precision,
            scale: u8::try_from(*scale).ok()?,
        }),
        _ => None,
    };
    let stored = match kind {
        DataType::Boolean => PhysicalType::Bool,
        DataType::Float64 => PhysicalType::F64,
        kind if kind.is_string() => PhysicalType::Text,
        _ => logical?.physical(),
    };
    Element::of(stored, logical)
}

/// Texts as lists.
fn read(texts: &ArrayRef, to: &DataType, zone: Option<&str>) -> Result<ArrayRef> {
    let Some(kind) = element_of(to) else {
        return internal_err!("{to} is no list");
    };
    if matches!(kind, DataType::Timestamp(_, Some(_))) {
        let zone = zone.map_or_else(|| Ok(Zone::default()), Zone::of);
        let zone = zone.map_err(|error| exec_datafusion_err!("{error}"))?;
        return Ok(cast(&moments(texts, &zone)?, to)?);
    }
    let Some(of) = element(kind) else {
        return exec_err!(
            "text cannot be read as an array of {kind}; write its elements as ARRAY[...]"
        );
    };
    let taken = LogicalType::Array(of).taken("", "", texts);
    let taken = taken.map_err(|error| match error {
        nilometer_engine::Error::Constraint { reason, .. } => {
            if let Some((value, of)) = reason.split_once(" is no value of type ") {
                exec_datafusion_err!("invalid input syntax for type {of}: {value}")
            } else {
                exec_datafusion_err!("{reason}")
            }
        }
        other => exec_datafusion_err!("{other}"),
    })?;
    Ok(cast(&taken, to)?)
}

/// Texts as lists of moments, which a text says in the session's zone if it names none.
pub(crate) fn moments(texts: &ArrayRef, zone: &Zone) -> Result<ArrayRef> {
    let texts = cast(texts, &DataType::Utf8)?;
    let (mut all, mut lengths, mut there) = (Vec::new(), Vec::new(), Vec::new());
    for text in texts.as_string::<i32>() {
        there.push(text.is_some());
        let elements = text.map_or(Ok(Vec::new()), array_elements);
        let elements = elements.map_err(|reason| exec_datafusion_err!("{reason}"))?;
        lengths.push(elements.len());
        all.extend(elements);
    }
    let elements: ArrayRef = Arc::new(StringArray::from(all));
    let times = times::of_texts(&elements, zone);
    let times = times.map_err(|reason| exec_datafusion_err!("{reason}"))?;
    let field = Field::new_list_field(times.data_type().clone(), true);
    let offsets = arrow::buffer::OffsetBuffer::from_lengths(lengths);
    let nulls = Some(there.into());
    Ok(Arc::new(ListArray::try_new(
        Arc::new(field),
        offsets,
        Arc::new(times),
        nulls,
    )?))
}

/// Lists as texts.
pub(super) fn written(lists: &ArrayRef) -> Result<StringArray> {
    let lists = plain(lists)?;
    let lists = lists.as_list::<i32>();
    let is_nested = list_ndims(lists.data_type()) > 1;
    let elements = texts_of(lists.values())?;
    let ends = lists.value_offsets();
    let text = |row: usize| -> Option<String> {
        if lists.is_null(row) {
            return None;
        }
        let from = usize::try_from(*ends.get(row)?).ok()?;
        let to = usize::try_from(*ends.get(row + 1)?).ok()?;
        let elements = (from..to).map(|at| elements.is_valid(at).then(|| elements.value(at)));
        if is_nested {
            // What is in an inner array is in quotes already.
            let inner: Vec<&str> = elements.map(|it| it.unwrap_or("NULL")).collect();
            return Some(format!("{{{}}}", inner.join(",")));
        }
        Some(array_text(elements))
    };
    Ok((0..lists.len()).map(text).collect())
}

/// Elements as texts.
fn texts_of(values: &ArrayRef) -> Result<StringArray> {
    if element_of(values.data_type()).is_some() {
        return written(values);
    }
    if let Some(truths) = values.as_boolean_opt() {
        let letter = |it: Option<bool>| it.map(|it| if it { "t" } else { "f" });
        return Ok(truths.iter().map(letter).collect());
    }
    if values.data_type().is_floating() {
        let floats = cast(values, &DataType::Float64)?;
        let floats: &Float64Array = floats.as_primitive::<Float64Type>();
        let is_short = *values.data_type() == DataType::Float32;
        let shown = floats.iter().map(|it| {
            let value = it?;
            Some(match value {
                value if value.is_nan() => "NaN".to_owned(),
                value if value.is_infinite() && value > 0.0 => "Infinity".to_owned(),
                value if value.is_infinite() => "-Infinity".to_owned(),
                #[expect(clippy::cast_possible_truncation, reason = "it was one of 32 bits")]
                value if is_short => (value as f32).to_string(),
                value => value.to_string(),
            })
        });
        return Ok(shown.collect());
    }
    let zoned = matches!(values.data_type(), DataType::Timestamp(_, Some(_)));
    let format = if zoned {
        "%Y-%m-%d %H:%M:%S%.f+00"
    } else {
        "%Y-%m-%d %H:%M:%S%.f"
    };
    let options = FormatOptions::default()
        .with_timestamp_format(Some(format))
        .with_timestamp_tz_format(Some(format));
    let shown = ArrayFormatter::try_new(values, &options)?;
    let shown = (0..values.len()).map(|row| -> Result<Option<String>> {
        if values.is_null(row) {
            return Ok(None);
        }
        Ok(Some(shown.value(row).try_to_string()?))
    });
    shown.collect()
}

/// Lists with offsets of 32 bits.
fn plain(lists: &ArrayRef) -> Result<ArrayRef> {
    match lists.data_type() {
        DataType::List(_) => Ok(Arc::clone(lists)),
        other => match element_of(other) {
            Some(element) => Ok(cast(lists, &list_of(element.clone()))?),
            None => Ok(arrow::array::new_null_array(
                &list_of(DataType::Null),
                lists.len(),
            )),
        },
    }
}

/// For each row whether the second's elements are all in the first, or some are. NULL is equal to nothing.
fn shared(one: &ArrayRef, other: &ArrayRef, call: &Call) -> Result<BooleanArray> {
    let (one, other) = (plain(one)?, plain(other)?);
    let (one, other) = (one.as_list::<i32>(), other.as_list::<i32>());
    let is_float = one.value_type().is_floating();
    let kind = if is_float {
        DataType::Float64
    } else {
        one.value_type()
    };
    let converter = RowConverter::new(vec![SortField::new(kind)])?;
    let comparable = |values: &ArrayRef| -> Result<_> {
        if !is_float {
            return Ok(converter.convert_columns(&[Arc::clone(values)])?);
        }
        let floats = cast(values, &DataType::Float64)?;
        // -0 is 0, and there is one NaN.
        let floats = floats
            .as_primitive::<Float64Type>()
            .unary::<_, Float64Type>(|it| if it.is_nan() { f64::NAN } else { it + 0.0 });
        Ok(converter.convert_columns(&[Arc::new(floats) as ArrayRef])?)
    };
    let (mine, theirs) = (comparable(one.values())?, comparable(other.values())?);
    let range = |list: &ListArray, row: usize| {
        let end = |at: usize| list.value_offsets().get(at).copied().unwrap_or(0);
        let end = |at: usize| usize::try_from(end(at)).unwrap_or(0);
        end(row)..end(row + 1)
    };
    let row_of = |row: usize| {
        if one.is_null(row) || other.is_null(row) {
            return None;
        }
        let known = range(one, row).filter(|at| one.values().is_valid(*at));
        let known: HashSet<&[u8]> = known.map(|at| mine.row(at).data()).collect();
        let has = |at: usize| other.values().is_valid(at) && known.contains(theirs.row(at).data());
        let mut asked = range(other, row);
        Some(match call {
            Call::Contains => asked.all(has),
            _ => asked.any(has),
        })
    };
    Ok((0..one.len()).map(row_of).collect())
}

/// The elements from a place to another, from 1; places that there are not have none.
fn sliced(lists: &ArrayRef, from: &ArrayRef, to: &ArrayRef) -> Result<ArrayRef> {
    let lists = plain(lists)?;
    let lists = lists.as_list::<i32>();
    let (from, to) = (
        from.as_primitive::<Int64Type>(),
        to.as_primitive::<Int64Type>(),
    );
    let (mut places, mut lengths, mut there) = (Vec::<u64>::new(), Vec::new(), Vec::new());
    for row in 0..lists.len() {
        let is_there = lists.is_valid(row) && from.is_valid(row) && to.is_valid(row);
        there.push(is_there);
        let before = places.len();
        if is_there {
            let end = |at: usize| lists.value_offsets().get(at).copied().unwrap_or(0);
            let (first, last) = (i64::from(end(row)), i64::from(end(row + 1)));
            let low = from.value(row).max(1) - 1;
            let high = to.value(row).clamp(0, last - first);
            let places_of = low.min(last - first) + first..high + first;
            places.extend(places_of.filter_map(|at| u64::try_from(at).ok()));
        }
        lengths.push(places.len() - before);
    }
    let places = arrow::array::UInt64Array::from(places);
    let values = take(lists.values(), &places, None)?;
    let DataType::List(field) = lists.data_type() else {
        return internal_err!("a list that is none");
    };
    let offsets = arrow::buffer::OffsetBuffer::from_lengths(lengths);
    let list = ListArray::try_new(Arc::clone(field), offsets, values, Some(there.into()))?;
    Ok(Arc::new(list))
}

/// Lists, and empty ones in the place of NULL.
fn given(lists: &ArrayRef) -> Result<ArrayRef> {
    let Some(list) = lists.as_list_opt::<i32>() else {
        return Ok(Arc::clone(lists));
    };
    if list.null_count() == 0 {
        return Ok(Arc::clone(lists));
    }
    let (mut places, mut lengths) = (Vec::<u64>::new(), Vec::new());
    for row in 0..list.len() {
        let before = places.len();
        if list.is_valid(row) {
            let end = |at: usize| list.value_offsets().get(at).copied().unwrap_or(0);
            let all = end(row)..end(row + 1);
            places.extend(all.filter_map(|at| u64::try_from(at).ok()));
        }
        lengths.push(places.len() - before);
    }
    let values = take(
        list.values(),
        &arrow::array::UInt64Array::from(places),
        None,
    )?;
    let DataType::List(field) = list.data_type() else {
        return internal_err!("a list that is none");
    };
    let offsets = arrow::buffer::OffsetBuffer::from_lengths(lengths);
    let list = ListArray::try_new(Arc::clone(field), offsets, values, None)?;
    Ok(Arc::new(list))
}

/// `[1:2][1:3]`; an array without elements has none.
fn dimensions(lists: &ArrayRef) -> StringArray {
    let row_of = |row: usize| {
        let mut text = String::new();
        let mut within = lists.slice(row, 1);
        while let Some(list) = within.as_list_opt::<i32>() {
            let values = (!list.is_empty() && list.is_valid(0)).then(|| list.value(0))?;
            if values.is_empty() {
                break;
            }
            // Writing to a string cannot fail.
            let _ = write!(text, "[1:{}]", values.len());
            within = values;
        }
        (!text.is_empty()).then_some(text)
    };
    (0..lists.len()).map(row_of).collect()
}
