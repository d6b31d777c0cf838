//! Columns of a batch as values on the wire.
//!
//! Does: find out once a batch what a column is, and write its values, one row after the other, as text or binary. Does not:
//! frame rows (`rows.rs` does), or choose formats.

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Decimal128Array, Int16Array, Int32Array,
    Int64Array, IntervalMonthDayNanoArray, PrimitiveArray, StringArray, UInt64Array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, DecimalType, Float32Type, Float64Type,
    Int32Type, IntervalUnit, Time64NanosecondType, TimeUnit,
};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use bytes::{BufMut, BytesMut};

use super::binary::put_numeric;
use super::kind::{Format, Kind, Scalar};
use super::moment::{self, EPOCH_DAYS, EPOCH_US, Zone};
use super::text;

/// The longest value: a frame's length has 31 bits, and a row is a frame.
const VALUE_BYTES_MAX: usize = 0x3fff_ffff;

/// A column of a batch.
#[derive(Debug)]
pub(crate) struct Column {
    values: Values,
    kind: Kind,
    format: Format,
    zone: Zone,
    /// Letters that a text is filled up to with spaces.
    letters: usize,
}

/// A value with its length before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fixed {
    /// The first of them are the value's.
    pub(crate) bytes: [u8; Fixed::BYTES_MAX],
    pub(crate) length: usize,
}

impl Fixed {
    /// Of the longest, eight bytes behind four of their number.
    pub(crate) const BYTES_MAX: usize = 12;

    const NULL: Self = Self {
        bytes: [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0],
        length: 4,
    };

    #[inline]
    fn of<const N: usize>(value: [u8; N]) -> Self {
        let mut bytes = [0; Self::BYTES_MAX];
        let length = u32::try_from(N).unwrap_or(0).to_be_bytes();
        for (to, from) in bytes.iter_mut().zip(length.into_iter().chain(value)) {
            *to = from;
        }
        Self {
            bytes,
            length: 4 + N,
        }
    }
}

#[derive(Debug)]
enum Values {
    Null,
    Bool(BooleanArray),
    Int2(Int16Array),
    Int4(Int32Array),
    Int8(Int64Array),
    Unsigned(UInt64Array),
    Float4(PrimitiveArray<Float32Type>),
    Float8(PrimitiveArray<Float64Type>),
    Decimal(Decimal128Array),
    Text(StringArray),
    /// Texts by number, as tags are.
    Coded(PrimitiveArray<Int32Type>, StringArray),
    Bytes(BinaryArray),
    /// Seconds or parts of them since 1970: how many make a second.
    Time(Int64Array, i64),
    Date(PrimitiveArray<Date32Type>),
    Clock(PrimitiveArray<Time64NanosecondType>),
    Interval(IntervalMonthDayNanoArray),
    /// Nanoseconds.
    Length(Int64Array),
    List(
        OffsetBuffer<i32>,
        Option<arrow::buffer::NullBuffer>,
        Box<Column>,
    ),
    /// What has a text in Arrow only.
    Other(ArrayRef),
}

impl Column {
    /// Of an array that is sent as this type.
    pub(crate) fn new(
        array: &ArrayRef,
        kind: Kind,
        format: Format,
        zone: Zone,
    ) -> Result<Self, ArrowError> {
        Ok(Self {
            values: values_of(array, kind, format, zone)?,
            kind,
            format,
            zone,
            letters: 0,
        })
    }

    /// The same, with texts filled up to so many letters.
    pub(crate) fn padded(mut self, letters: usize) -> Self {
        self.letters = letters;
        self
    }

    /// The type of a vector's elements.
    fn vector(&self) -> Option<Scalar> {
        match self.kind {
            Kind::One(Scalar::Int2Vector) => Some(Scalar::Int2),
            Kind::One(Scalar::OidVector) => Some(Scalar::Oid),
            _ => None,
        }
    }

    fn is_null(&self, row: usize) -> bool {
        match &self.values {
            Values::Null => true,
            Values::Bool(of) => of.is_null(row),
            Values::Int2(of) => of.is_null(row),
            Values::Int4(of) => of.is_null(row),
            Values::Int8(of) | Values::Time(of, _) | Values::Length(of) => of.is_null(row),
            Values::Unsigned(of) => of.is_null(row),
            Values::Float4(of) => of.is_null(row),
            Values::Float8(of) => of.is_null(row),
            Values::Decimal(of) => of.is_null(row),
            Values::Text(of) => of.is_null(row),
            Values::Coded(codes, texts) => {
                codes.is_null(row)
                    || usize::try_from(codes.value(row)).map_or(true, |at| texts.is_null(at))
            }
            Values::Bytes(of) => of.is_null(row),
            Values::Date(of) => of.is_null(row),
            Values::Clock(of) => of.is_null(row),
            Values::Interval(of) => of.is_null(row),
            Values::List(_, nulls, _) => nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)),
            Values::Other(of) => of.is_null(row),
        }
    }

    /// Adds a value with its length before it; -1 = NULL.
    pub(crate) fn put(&self, row: usize, out: &mut BytesMut) -> Result<(), ArrowError> {
        if self.is_null(row) {
            out.put_i32(-1);
            return Ok(());
        }
        let at = out.len();
        out.put_i32(0);
        self.put_bare(row, out)?;
        let length = out.len() - at - 4;
        if length > VALUE_BYTES_MAX {
            return Err(ArrowError::InvalidArgumentError(
                "a value is longer than a message of the protocol".to_owned(),
            ));
        }
        let length = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
        if let Some(place) = out.get_mut(at..at + 4) {
            place.copy_from_slice(&length);
        }
        Ok(())
    }

    /// A value of few bytes with its length before it, if it is sent as one of those types that always have as many; and NULL.
    #[inline]
    pub(crate) fn fixed(&self, row: usize) -> Option<Fixed> {
        if self.is_null(row) {
            return Some(Fixed::NULL);
        }
        if self.format != Format::Binary {
            return None;
        }
        Some(match &self.values {
            Values::Bool(of) => Fixed::of([u8::from(of.value(row))]),
            Values::Int2(of) => Fixed::of(of.value(row).to_be_bytes()),
            Values::Int4(of) => Fixed::of(of.value(row).to_be_bytes()),
            Values::Int8(of) => Fixed::of(of.value(row).to_be_bytes()),
            Values::Float4(of) => Fixed::of(of.value(row).to_be_bytes()),
            Values::Float8(of) => Fixed::of(of.value(row).to_be_bytes()),
            Values::Time(of, moment::NS_PER_S) => {
                Fixed::of((of.value(row).div_euclid(1000) - EPOCH_US).to_be_bytes())
            }
            _ => return None,
        })
    }

    /// Adds a value that is there, as it is; `false` = it is NULL, and nothing was added.
    pub(crate) fn put_value(&self, row: usize, out: &mut BytesMut) -> Result<bool, ArrowError> {
        if self.is_null(row) {
            return Ok(false);
        }
        self.put_bare(row, out)?;
        Ok(true)
    }

    fn put_bare(&self, row: usize, out: &mut BytesMut) -> Result<(), ArrowError> {
        match self.format {
            Format::Text => self.put_text(row, out),
            Format::Binary => self.put_binary(row, out),
        }
    }

    fn put_text(&self, row: usize, out: &mut BytesMut) -> Result<(), ArrowError> {
        match &self.values {
            Values::Null => {}
            Values::Bool(of) => out.put_u8(if of.value(row) { b't' } else { b'f' }),
            Values::Int2(of) => text::put_integer(out, of.value(row)),
            Values::Int4(of) => text::put_integer(out, of.value(row)),
            Values::Int8(of) => text::put_integer(out, of.value(row)),
            Values::Unsigned(of) => text::put_integer(out, of.value(row)),
            Values::Float4(of) => text::put_float4(out, of.value(row)),
            Values::Float8(of) => text::put_float8(out, of.value(row)),
            Values::Decimal(of) => out.extend_from_slice(of.value_as_string(row).as_bytes()),
            Values::Text(of) => {
                let text = of.value(row);
                out.extend_from_slice(text.as_bytes());
                if self.letters > 0 {
                    let letters = text.chars().count();
                    out.put_bytes(b' ', self.letters.saturating_sub(letters));
                }
            }
            Values::Coded(codes, texts) => {
                let at = usize::try_from(codes.value(row)).unwrap_or(0);
                out.extend_from_slice(texts.value(at).as_bytes());
            }
            Values::Bytes(of) => text::put_bytes(out, of.value(row)),
            Values::Time(of, per_second) => {
                let (seconds, ns) = seconds_and_ns(of.value(row), *per_second);
                let is_zoned = self.kind == Kind::One(Scalar::Timestamptz);
                moment::put_timestamp(out, seconds, ns, is_zoned.then_some(self.zone));
            }
            Values::Date(of) => moment::put_date(out, i64::from(of.value(row))),
            Values::Clock(of) => moment::put_time(out, of.value(row)),
            Values::Interval(of) => {
                let value = of.value(row);
                text::put_interval(out, value.months, value.days, value.nanoseconds);
            }
            Values::Length(of) => {
                let (days, ns) = text::days_and_rest(of.value(row));
                text::put_interval(out, 0, days, ns);
            }
            Values::List(offsets, _, elements) if self.vector().is_some() => {
                for (nth, at) in range(offsets, row).enumerate() {
                    if nth > 0 {
                        out.put_u8(b' ');
                    }
                    elements.put_value(at, out)?;
                }
            }
            Values::List(offsets, _, elements) => {
                out.put_u8(b'{');
                let mut one = BytesMut::new();
                for (nth, at) in range(offsets, row).enumerate() {
                    if nth > 0 {
                        out.put_u8(b',');
                    }
                    one.clear();
                    if !elements.put_value(at, &mut one)? {
                        out.extend_from_slice(b"NULL");
                    } else if matches!(elements.values, Values::List(..)) {
                        out.extend_from_slice(&one);
                    } else {
                        text::put_element(out, &one);
                    }
                }
                out.put_u8(b'}');
            }
            Values::Other(of) => {
                let options = FormatOptions::default();
                let formatter = ArrayFormatter::try_new(of.as_ref(), &options)?;
                out.extend_from_slice(formatter.value(row).to_string().as_bytes());
            }
        }
        Ok(())
    }

    fn put_binary(&self, row: usize, out: &mut BytesMut) -> Result<(), ArrowError> {
        match &self.values {
            Values::Bool(of) => out.put_u8(u8::from(of.value(row))),
            Values::Int2(of) => out.put_i16(of.value(row)),
            Values::Int4(of) => out.put_i32(of.value(row)),
            // A number that goes as another type does not end here: see `values_of`.
            Values::Int8(of) => out.put_i64(of.value(row)),
            Values::Unsigned(of) => put_numeric(out, &of.value(row).to_string()),
            Values::Float4(of) => out.put_f32(of.value(row)),
            Values::Float8(of) => out.put_f64(of.value(row)),
            Values::Decimal(of) => put_numeric(out, &of.value_as_string(row)),
            Values::Bytes(of) => out.extend_from_slice(of.value(row)),
            Values::Time(of, per_second) => {
                let (seconds, ns) = seconds_and_ns(of.value(row), *per_second);
                let us = seconds
                    .checked_mul(1_000_000)
                    .and_then(|us| us.checked_add(ns / 1000))
                    .and_then(|us| us.checked_sub(EPOCH_US));
                let us = us.ok_or_else(|| beyond("a time"))?;
                out.put_i64(us);
            }
            Values::Date(of) => {
                let days = of.value(row).checked_sub(EPOCH_DAYS);
                out.put_i32(days.ok_or_else(|| beyond("a date"))?);
            }
            Values::Clock(of) => out.put_i64(of.value(row).div_euclid(1000)),
            Values::Interval(of) => {
                let value = of.value(row);
                out.put_i64(value.nanoseconds.div_euclid(1000));
                out.put_i32(value.days);
                out.put_i32(value.months);
            }
            Values::Length(of) => {
                let (days, ns) = text::days_and_rest(of.value(row));
                out.put_i64(ns.div_euclid(1000));
                out.put_i32(days);
                out.put_i32(0);
            }
            Values::List(offsets, _, elements) => {
                let range = range(offsets, row);
                let vector = self.vector();
                let Some(of) = vector.or(self.kind.element()) else {
                    return Err(ArrowError::InvalidArgumentError(
                        "a list is sent as something else".to_owned(),
                    ));
                };
                let has_null = range.clone().any(|at| elements.is_null(at));
                out.put_i32(i32::from(!range.is_empty()));
                out.put_i32(i32::from(has_null));
                out.put_u32(of.oid());
                if !range.is_empty() {
                    out.put_i32(i32::try_from(range.len()).unwrap_or(i32::MAX));
                    // Vectors count from 0.
                    out.put_i32(i32::from(vector.is_none()));
                }
                for at in range {
                    elements.put(at, out)?;
                }
            }
            Values::Text(of) if self.kind == Kind::One(Scalar::Uuid) => {
                put_uuid(of.value(row), out)?;
            }
            Values::Null | Values::Text(_) | Values::Coded(..) | Values::Other(_) => {
                if self.kind == Kind::One(Scalar::Jsonb) {
                    out.put_u8(1);
                }
                self.put_text(row, out)?;
            }
        }
        Ok(())
    }
}

fn beyond(what: &str) -> ArrowError {
    ArrowError::ComputeError(format!(
        "{what} is beyond what the binary form can say; ask for text"
    ))
}

fn put_uuid(text: &str, out: &mut BytesMut) -> Result<(), ArrowError> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .filter(|letter| *letter != '-')
        .map(|letter| letter.to_digit(16).and_then(|it| u8::try_from(it).ok()))
        .collect();
    let digits = digits.unwrap_or_default();
    let (pairs, rest) = digits.as_chunks::<2>();
    if pairs.len() != 16 || !rest.is_empty() {
        return Err(ArrowError::InvalidArgumentError(format!(
            "{text:?} is no uuid"
        )));
    }
    for [high, low] in pairs {
        out.put_u8(high << 4 | low);
    }
    Ok(())
}

fn range(offsets: &OffsetBuffer<i32>, row: usize) -> std::ops::Range<usize> {
    let at = |row: usize| {
        let offset = offsets.get(row).copied().unwrap_or(0);
        usize::try_from(offset).unwrap_or(0)
    };
    at(row)..at(row + 1)
}

fn seconds_and_ns(value: i64, per_second: i64) -> (i64, i64) {
    let ns = value.rem_euclid(per_second) * (moment::NS_PER_S / per_second);
    (value.div_euclid(per_second), ns)
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => moment::NS_PER_S,
    }
}

/// The array as one of a few kinds.
fn values_of(
    array: &ArrayRef,
    kind: Kind,
    format: Format,
    zone: Zone,
) -> Result<Values, ArrowError> {
    use DataType as T;
    let to = |kind: DataType| cast(array, &kind);
    // A column that is stored as another type: integers of their width, texts as what they say.
    if let Kind::One(Scalar::Int2 | Scalar::Int4 | Scalar::Oid | Scalar::Regclass) = kind
        && matches!(array.data_type(), T::Int64)
    {
        return Ok(match kind {
            Kind::One(Scalar::Int2) => Values::Int2(to(T::Int16)?.as_primitive().clone()),
            _ => Values::Int4(to(T::Int32)?.as_primitive().clone()),
        });
    }
    if kind == Kind::One(Scalar::Float4) && matches!(array.data_type(), T::Float64) {
        return Ok(Values::Float4(to(T::Float32)?.as_primitive().clone()));
    }
    Ok(match array.data_type() {
        T::Null => Values::Null,
        T::Boolean => Values::Bool(array.as_boolean().clone()),
        T::Int8 | T::UInt8 | T::Int16 => Values::Int2(to(T::Int16)?.as_primitive().clone()),
        T::UInt16 | T::Int32 => Values::Int4(to(T::Int32)?.as_primitive().clone()),
        T::UInt32 | T::Int64 => Values::Int8(to(T::Int64)?.as_primitive().clone()),
        T::UInt64 => Values::Unsigned(array.as_primitive().clone()),
        T::Float16 | T::Float32 => Values::Float4(to(T::Float32)?.as_primitive().clone()),
        T::Float64 => Values::Float8(array.as_primitive().clone()),
        T::Decimal128(..) => Values::Decimal(array.as_primitive::<Decimal128Type>().clone()),
        T::Decimal32(_, scale) | T::Decimal64(_, scale) => {
            let wide = to(T::Decimal128(Decimal128Type::MAX_PRECISION, *scale))?;
            Values::Decimal(wide.as_primitive::<Decimal128Type>().clone())
        }
        T::Decimal256(_, scale) => {
            let wide = array.as_primitive::<Decimal256Type>();
            match cast(wide, &T::Decimal128(Decimal128Type::MAX_PRECISION, *scale)) {
                Ok(narrow) => Values::Decimal(narrow.as_primitive::<Decimal128Type>().clone()),
                Err(_) => Values::Other(array.clone()),
            }
        }
        T::Utf8 => Values::Text(array.as_string().clone()),
        T::LargeUtf8 | T::Utf8View => Values::Text(to(T::Utf8)?.as_string().clone()),
        T::Dictionary(key, value) if value.as_ref() == &T::Utf8 && key.as_ref() == &T::Int32 => {
            let of = array.as_dictionary::<Int32Type>();
            let texts = of.values().as_string::<i32>().clone();
            Values::Coded(of.keys().clone(), texts)
        }
        T::Dictionary(_, value) => {
            return values_of(&to(value.as_ref().clone())?, kind, format, zone);
        }
        T::Binary => Values::Bytes(array.as_binary().clone()),
        T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => {
            Values::Bytes(to(T::Binary)?.as_binary().clone())
        }
        T::Timestamp(unit, _) => {
            let of: Int64Array = to(T::Int64)?.as_primitive().clone();
            Values::Time(of, per_second(*unit))
        }
        T::Date32 | T::Date64 => Values::Date(to(T::Date32)?.as_primitive().clone()),
        T::Time32(_) | T::Time64(_) => {
            Values::Clock(to(T::Time64(TimeUnit::Nanosecond))?.as_primitive().clone())
        }
        T::Interval(IntervalUnit::MonthDayNano) => Values::Interval(array.as_primitive().clone()),
        T::Interval(_) => {
            let wide = to(T::Interval(IntervalUnit::MonthDayNano))?;
            Values::Interval(wide.as_primitive().clone())
        }
        T::Duration(_) => {
            let ns = to(T::Duration(TimeUnit::Nanosecond))?;
            Values::Length(cast(&ns, &T::Int64)?.as_primitive().clone())
        }
        T::List(of) => {
            let list = array.as_list::<i32>();
            let kind = match kind {
                Kind::Array(of) => Kind::One(of),
                Kind::One(Scalar::OidVector) => Kind::One(Scalar::Oid),
                Kind::One(_) => Kind::of_field(of),
            };
            // What is nested deeper is an array of texts.
            let format = match of.data_type() {
                T::List(_) | T::LargeList(_) | T::FixedSizeList(..) => Format::Text,
                _ => format,
            };
            let elements = Column::new(list.values(), kind, format, zone)?;
            Values::List(
                list.offsets().clone(),
                list.nulls().cloned(),
                Box::new(elements),
            )
        }
        T::LargeList(of) | T::FixedSizeList(of, _) | T::ListView(of) | T::LargeListView(of) => {
            return values_of(&to(T::List(of.clone()))?, kind, format, zone);
        }
        _ => Values::Other(array.clone()),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        DictionaryArray, Float64Array, ListArray, TimestampMicrosecondArray,
        TimestampNanosecondArray,
    };
    use arrow::datatypes::{Field, Int64Type};

    use super::*;

    #[expect(
        clippy::needless_pass_by_value,
        reason = "tests make an array where they look at it"
    )]
    fn put(array: ArrayRef, format: Format) -> Vec<Option<Vec<u8>>> {
        let field = Field::new("c", array.data_type().clone(), true);
        let column = Column::new(&array, Kind::of_field(&field), format, Zone::Utc).unwrap();
        let rows = (0..array.len()).map(|row| {
            let mut out = BytesMut::new();
            let is_there = column.put_value(row, &mut out).unwrap();
            is_there.then(|| out.to_vec())
        });
        rows.collect()
    }

    fn texts(array: ArrayRef) -> Vec<Option<String>> {
        let all = put(array, Format::Text).into_iter();
        all.map(|it| it.map(|it| String::from_utf8(it).unwrap()))
            .collect()
    }

    fn some(texts: &[&str]) -> Vec<Option<String>> {
        texts.iter().map(|text| Some((*text).to_owned())).collect()
    }

    #[test]
    fn values_are_texts_as_postgresql_has_them() {
        let floats = Float64Array::from(vec![Some(1.0), None, Some(1e20)]);
        let shown = texts(Arc::new(floats));
        assert_eq!(
            shown,
            [Some("1".to_owned()), None, Some("1e+20".to_owned())]
        );
        let unsigned = UInt64Array::from(vec![u64::MAX]);
        assert_eq!(texts(Arc::new(unsigned)), some(&["18446744073709551615"]));
        let times = TimestampNanosecondArray::from(vec![1]).with_timezone("UTC");
        assert_eq!(
            texts(Arc::new(times)),
            some(&["1970-01-01 00:00:00.000000001+00"])
        );
        let times = TimestampMicrosecondArray::from(vec![-62_135_596_800_000_001]);
        assert_eq!(
            texts(Arc::new(times)),
            some(&["0001-12-31 23:59:59.999999 BC"])
        );
        let tags: DictionaryArray<Int32Type> =
            vec![Some("a"), None, Some("a")].into_iter().collect();
        let shown = texts(Arc::new(tags));
        assert_eq!(shown, [Some("a".to_owned()), None, Some("a".to_owned())]);
        let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), None])]);
        assert_eq!(texts(Arc::new(list)), some(&["{1,NULL}"]));
    }

    #[test]
    fn values_of_few_bytes_come_with_their_length() {
        let fixed = |array: ArrayRef, row: usize, format: Format| {
            let field = Field::new("c", array.data_type().clone(), true);
            let column = Column::new(&array, Kind::of_field(&field), format, Zone::Utc).unwrap();
            let mut slow = BytesMut::new();
            column.put(row, &mut slow).unwrap();
            let found = column.fixed(row);
            let found = found.map(|it| it.bytes[..it.length].to_vec());
            if let Some(found) = &found {
                assert_eq!(found, &slow.to_vec());
            }
            found
        };
        let eight = |bytes: [u8; 8]| Some([&[0, 0, 0, 8][..], &bytes].concat());
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.5), None]));
        assert_eq!(
            fixed(Arc::clone(&floats), 0, Format::Binary),
            eight([0x3f, 0xf8, 0, 0, 0, 0, 0, 0])
        );
        assert_eq!(fixed(Arc::clone(&floats), 0, Format::Text), None);
        for format in [Format::Binary, Format::Text] {
            assert_eq!(fixed(Arc::clone(&floats), 1, format), Some(vec![0xff; 4]));
        }
        let integers = Int64Array::from(vec![-2]);
        assert_eq!(
            fixed(Arc::new(integers), 0, Format::Binary),
            eight([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe])
        );
        let truth = BooleanArray::from(vec![true]);
        assert_eq!(
            fixed(Arc::new(truth), 0, Format::Binary),
            Some(vec![0, 0, 0, 1, 1])
        );
        // Microseconds since 2000, rounded down, to the ends of time.
        let times =
            TimestampNanosecondArray::from(vec![946_684_800_000_001_999, i64::MIN, i64::MAX]);
        let times: ArrayRef = Arc::new(times);
        let first = fixed(Arc::clone(&times), 0, Format::Binary);
        assert_eq!(first, eight([0, 0, 0, 0, 0, 0, 0, 1]));
        for row in [1, 2] {
            assert!(fixed(Arc::clone(&times), row, Format::Binary).is_some());
        }
        let texts = StringArray::from(vec!["a"]);
        assert_eq!(fixed(Arc::new(texts), 0, Format::Binary), None);
    }

    #[test]
    fn binary_values_are_in_network_order() {
        let binary = |array: ArrayRef| put(array, Format::Binary).remove(0).unwrap();
        assert_eq!(
            binary(Arc::new(Int64Array::from(vec![1]))),
            1i64.to_be_bytes()
        );
        assert_eq!(binary(Arc::new(BooleanArray::from(vec![true]))), [1]);
        // Microseconds since 2000, rounded down.
        let time = TimestampNanosecondArray::from(vec![946_684_800_000_001_999]);
        assert_eq!(binary(Arc::new(time)), 1i64.to_be_bytes());
        let time = TimestampNanosecondArray::from(vec![-1]);
        assert_eq!(binary(Arc::new(time)), (-EPOCH_US - 1).to_be_bytes());
        let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(7)])]);
        let mut expected = Vec::new();
        for number in [1, 0, 20, 1, 1, 8] {
            expected.extend(i32::to_be_bytes(number));
        }
        expected.extend(7i64.to_be_bytes());
        assert_eq!(binary(Arc::new(list)), expected);
    }
}
