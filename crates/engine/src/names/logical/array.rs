//! Arrays of values: what elements there are, and the one text that an array is stored as, `{1,NULL,"a b"}`.
//!
//! Does: read texts as `PostgreSQL` does, write them in one form, show them as Arrow's lists and take such lists. Does not: keep
//! arrays of arrays, or bounds other than 1. Bytes: `docs/format/definitions.md`.

use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Float64Array, Int64Array, ListArray,
    PrimitiveArray, StringArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field};
use nilometer_codec::PhysicalType;

use super::{LogicalType, Stored, Violation, text};
use crate::error::{ConstraintKind, Malformed};
use crate::parts::take_byte;
use crate::schema::field_type;

/// Values of one array.
const VALUES_MAX: usize = 1 << 20;

// Numbers of elements that have no logical type; the others have those of their types.
const BOOLEAN: u8 = 64;
const DOUBLE: u8 = 65;
const TEXT: u8 = 66;

/// What an array is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Element {
    /// Truth.
    Boolean,
    /// Floats of 64 bits.
    Double,
    /// Text of any length.
    Text,
    /// Integers of 16 bits.
    SmallInt,
    /// Integers of 32 bits.
    Integer,
    /// Integers of 64 bits.
    BigInt,
    /// Floats of 32 bits.
    Real,
    /// Exact numbers.
    Numeric {
        /// 1 to 38.
        precision: u8,
        /// 0 to `precision`.
        scale: u8,
    },
    /// Text of at most so many letters.
    Varchar(u32),
    /// 128 bits.
    Uuid,
    /// A day.
    Date,
    /// What a clock on the wall shows.
    Timestamp,
    /// A moment.
    TimestampTz,
}

impl Element {
    /// Of a type, logical or stored; `None` = there are no arrays of it.
    pub fn of(kind: PhysicalType, logical: Option<LogicalType>) -> Option<Self> {
        use LogicalType as L;
        Some(match (logical, kind) {
            (None, PhysicalType::Bool) => Self::Boolean,
            (None, PhysicalType::F64) => Self::Double,
            (None, PhysicalType::Text) => Self::Text,
            (None, PhysicalType::I64) | (Some(L::BigInt), _) => Self::BigInt,
            (Some(L::SmallInt), _) => Self::SmallInt,
            (Some(L::Integer), _) => Self::Integer,
            (Some(L::Real), _) => Self::Real,
            (Some(L::Numeric { precision, scale }), _) => Self::Numeric { precision, scale },
            (Some(L::Varchar(n)), _) => Self::Varchar(n),
            (Some(L::Uuid), _) => Self::Uuid,
            (Some(L::Date), _) => Self::Date,
            (Some(L::Timestamp), _) => Self::Timestamp,
            (Some(L::TimestampTz), _) => Self::TimestampTz,
            _ => return None,
        })
    }

    /// Its logical type, if it has one.
    pub fn logical(self) -> Option<LogicalType> {
        use LogicalType as L;
        Some(match self {
            Self::Boolean | Self::Double | Self::Text => return None,
            Self::SmallInt => L::SmallInt,
            Self::Integer => L::Integer,
            Self::BigInt => L::BigInt,
            Self::Real => L::Real,
            Self::Numeric { precision, scale } => L::Numeric { precision, scale },
            Self::Varchar(n) => L::Varchar(n),
            Self::Uuid => L::Uuid,
            Self::Date => L::Date,
            Self::Timestamp => L::Timestamp,
            Self::TimestampTz => L::TimestampTz,
        })
    }

    pub(crate) fn physical(self) -> PhysicalType {
        match self {
            Self::Boolean => PhysicalType::Bool,
            Self::Double => PhysicalType::F64,
            Self::Text => PhysicalType::Text,
            other => other
                .logical()
                .map_or(PhysicalType::Text, LogicalType::physical),
        }
    }

    /// Arrow's type of an element. Integers have their own widths: nothing else says them of an element.
    pub fn shown_type(self) -> DataType {
        match (self, self.logical()) {
            (Self::SmallInt, _) => DataType::Int16,
            (Self::Integer, _) => DataType::Int32,
            (_, Some(of)) => of.shown_type(),
            (_, None) => field_type(self.physical()),
        }
    }

    pub(super) fn encode(self, out: &mut Vec<u8>) {
        match (self, self.logical()) {
            (_, Some(of)) => of.encode(out),
            (Self::Boolean, _) => out.push(BOOLEAN),
            (Self::Double, _) => out.push(DOUBLE),
            _ => out.push(TEXT),
        }
    }

    pub(super) fn decode(input: &mut &[u8]) -> Result<Self, Malformed> {
        let stored = match input.first() {
            Some(&BOOLEAN) => Some(Self::Boolean),
            Some(&DOUBLE) => Some(Self::Double),
            Some(&TEXT) => Some(Self::Text),
            // An array of arrays would be read as deep as bytes say.
            Some(&super::ARRAY) => return Err(Malformed::new("an array of arrays")),
            _ => None,
        };
        if let Some(stored) = stored {
            take_byte(input)?;
            return Ok(stored);
        }
        let of = LogicalType::decode(input)?;
        Self::of(of.physical(), Some(of))
            .ok_or_else(|| Malformed::new(format!("an array of {of}, of which there are none")))
    }

    /// A value from its text.
    fn read(self, text: &str) -> Result<Stored, Violation> {
        if let Some(of) = self.logical() {
            return of.read(text);
        }
        let wrong = || violation(self, text);
        Ok(match self {
            Self::Boolean => Stored::Bool(truth(text.trim()).ok_or_else(wrong)?),
            Self::Double => Stored::F64(text::float(text.trim()).ok_or_else(wrong)?),
            _ => Stored::Text(text.to_owned()),
        })
    }

    /// A value as text, which `read` reads again.
    fn print(self, value: &Stored) -> Option<String> {
        Some(match value {
            Stored::Bool(true) => "t".to_owned(),
            Stored::Bool(false) => "f".to_owned(),
            Stored::F64(value) if value.is_nan() => "NaN".to_owned(),
            Stored::F64(value) if value.is_infinite() => {
                let sign = if *value < 0.0 { "-" } else { "" };
                format!("{sign}Infinity")
            }
            Stored::F64(value) => format!("{value:?}"),
            Stored::Text(text) => text.clone(),
            Stored::I64(value) => self.logical()?.print(Some(*value), None)?,
            Stored::Bytes(bytes) => self.logical()?.print(None, Some(bytes))?,
        })
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.logical()) {
            (_, Some(of)) => of.fmt(f),
            (Self::Boolean, _) => f.write_str("boolean"),
            (Self::Double, _) => f.write_str("double precision"),
            _ => f.write_str("text"),
        }
    }
}

fn violation(of: Element, text: &str) -> Violation {
    Violation {
        kind: ConstraintKind::InvalidText,
        reason: format!("{} is no value of type {of}", super::shown(text)),
    }
}

/// The words that `PostgreSQL` has for true and false, or their beginnings.
fn truth(text: &str) -> Option<bool> {
    let text = text.to_ascii_lowercase();
    let starts = |word: &str| !text.is_empty() && word.starts_with(&text);
    match text.as_str() {
        "1" | "on" => Some(true),
        "0" => Some(false),
        "o" => None,
        _ if starts("true") || starts("yes") => Some(true),
        _ if starts("false") || starts("no") || starts("off") => Some(false),
        _ => None,
    }
}

/// The elements of an array's text, `None` = NULL; an error says what is wrong with it.
pub fn elements(text: &str) -> Result<Vec<Option<String>>, String> {
    let malformed = || format!("malformed array literal: {}", super::shown(text));
    let inner = text.trim().strip_prefix('{');
    let inner = inner.and_then(|rest| rest.strip_suffix('}'));
    let mut letters = inner.ok_or_else(malformed)?.chars().peekable();
    let mut values = Vec::new();
    loop {
        while letters.next_if(|it| it.is_whitespace()).is_some() {}
        let mut value = String::new();
        let mut is_quoted = false;
        match letters.peek() {
            None if values.is_empty() => return Ok(values),
            Some('{') => {
                return Err(format!(
                    "arrays of arrays are not kept: {}",
                    super::shown(text)
                ));
            }
            Some('"') => {
                is_quoted = true;
                letters.next();
                loop {
                    match letters.next().ok_or_else(malformed)? {
                        '"' => break,
                        '\\' => value.push(letters.next().ok_or_else(malformed)?),
                        letter => value.push(letter),
                    }
                }
                while letters.next_if(|it| it.is_whitespace()).is_some() {}
            }
            _ => {
                while let Some(letter) = letters.next_if(|letter| *letter != ',') {
                    match letter {
                        '"' | '{' | '}' => return Err(malformed()),
                        '\\' => {
                            is_quoted = true;
                            value.push(letters.next().ok_or_else(malformed)?);
                        }
                        letter => value.push(letter),
                    }
                }
                value.truncate(value.trim_end().len());
                if value.is_empty() {
                    return Err(malformed());
                }
            }
        }
        if values.len() == VALUES_MAX {
            return Err(format!("an array has at most {VALUES_MAX} values"));
        }
        let is_null = !is_quoted && value.eq_ignore_ascii_case("null");
        values.push((!is_null).then_some(value));
        match letters.next() {
            None => return Ok(values),
            Some(',') => {}
            Some(_) => return Err(malformed()),
        }
    }
}

/// Adds an element to an array's text, in quotes where it would be read as something else.
fn push_element(out: &mut String, text: &str) {
    let is_plain = !text.is_empty()
        && !text.eq_ignore_ascii_case("null")
        && !text
            .contains(|it: char| matches!(it, '"' | '\\' | '{' | '}' | ',') || it.is_whitespace());
    if is_plain {
        out.push_str(text);
        return;
    }
    out.push('"');
    for letter in text.chars() {
        if matches!(letter, '"' | '\\') {
            out.push('\\');
        }
        out.push(letter);
    }
    out.push('"');
}

/// The text of an array.
pub fn joined<'a>(elements: impl Iterator<Item = Option<&'a str>>) -> String {
    let mut out = String::from("{");
    for (nth, element) in elements.enumerate() {
        if nth > 0 {
            out.push(',');
        }
        match element {
            Some(text) => push_element(&mut out, text),
            None => out.push_str("NULL"),
        }
    }
    out.push('}');
    out
}

/// An array's text in its one form.
pub(super) fn read(of: Element, text: &str) -> Result<String, Violation> {
    let elements = elements(text).map_err(|reason| Violation {
        kind: ConstraintKind::InvalidText,
        reason,
    })?;
    let mut texts = Vec::with_capacity(elements.len());
    for element in &elements {
        texts.push(match element {
            None => None,
            Some(text) => of.print(&of.read(text)?),
        });
    }
    Ok(joined(texts.iter().map(Option::as_deref)))
}

/// Arrow's type of arrays.
pub(super) fn shown_type(of: Element) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(of.shown_type(), true)))
}

/// Stored arrays as lists; what is no array's text is null.
pub(super) fn show(of: Element, stored: &ArrayRef) -> Option<ArrayRef> {
    let texts = stored.as_string_opt::<i32>()?;
    let mut values: Vec<Option<Stored>> = Vec::new();
    let mut offsets = vec![0];
    let mut there = Vec::with_capacity(texts.len());
    for text in texts {
        let all = text.and_then(|text| elements(text).ok());
        there.push(all.is_some());
        let all = all.into_iter().flatten();
        values.extend(all.map(|element| of.read(&element?).ok()));
        offsets.push(i32::try_from(values.len()).ok()?);
    }
    let values = shown_elements(of, &stored_elements(of.physical(), &values));
    let field = Arc::new(Field::new_list_field(of.shown_type(), true));
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    let list = ListArray::try_new(field, offsets, values, Some(NullBuffer::from(there)));
    Some(Arc::new(list.ok()?))
}

/// Elements as an array of what they are stored as.
fn stored_elements(kind: PhysicalType, values: &[Option<Stored>]) -> ArrayRef {
    let all = values.iter().map(Option::as_ref);
    match kind {
        PhysicalType::Bool => Arc::new(
            all.map(|it| match it? {
                Stored::Bool(value) => Some(*value),
                _ => None,
            })
            .collect::<BooleanArray>(),
        ),
        PhysicalType::F64 => Arc::new(
            all.map(|it| match it? {
                Stored::F64(value) => Some(*value),
                _ => None,
            })
            .collect::<Float64Array>(),
        ),
        PhysicalType::Bytes => Arc::new(
            all.map(|it| match it? {
                Stored::Bytes(value) => Some(value.as_slice()),
                _ => None,
            })
            .collect::<BinaryArray>(),
        ),
        PhysicalType::Text => Arc::new(
            all.map(|it| match it? {
                Stored::Text(value) => Some(value.as_str()),
                _ => None,
            })
            .collect::<StringArray>(),
        ),
        PhysicalType::I64 | PhysicalType::U64 => Arc::new(
            all.map(|it| match it? {
                Stored::I64(value) => Some(*value),
                _ => None,
            })
            .collect::<Int64Array>(),
        ),
    }
}

fn shown_elements(of: Element, stored: &ArrayRef) -> ArrayRef {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "what is stored was checked to fit"
    )]
    let narrow: Option<ArrayRef> = match (of, stored.as_primitive_opt::<Int64Type>()) {
        (Element::SmallInt, Some(values)) => {
            let values: PrimitiveArray<Int16Type> = values.unary(|it| it as i16);
            Some(Arc::new(values))
        }
        (Element::Integer, Some(values)) => {
            let values: PrimitiveArray<Int32Type> = values.unary(|it| it as i32);
            Some(Arc::new(values))
        }
        _ => None,
    };
    match (narrow, of.logical()) {
        (Some(narrow), _) => narrow,
        (None, Some(logical)) => logical.show(stored),
        (None, None) => Arc::clone(stored),
    }
}

/// Texts of lists, whose elements are given as they are stored; `None` = an element has no text.
pub(crate) fn texts_of(of: Element, list: &ListArray, stored: &ArrayRef) -> Option<StringArray> {
    let bytes_of = |at: usize| match (stored.as_string_opt::<i32>(), stored.as_binary_opt::<i32>())
    {
        (Some(texts), _) => Some(Stored::Text(texts.value(at).to_owned())),
        (_, Some(bytes)) => Some(Stored::Bytes(bytes.value(at).try_into().ok()?)),
        _ => None,
    };
    let text_at = |at: usize| -> Option<Option<String>> {
        if stored.is_null(at) {
            return Some(None);
        }
        let value = if let Some(all) = stored.as_boolean_opt() {
            Stored::Bool(all.value(at))
        } else if let Some(all) = stored.as_primitive_opt::<Int64Type>() {
            Stored::I64(all.value(at))
        } else if let Some(all) = stored.as_primitive_opt::<Float64Type>() {
            Stored::F64(all.value(at))
        } else {
            bytes_of(at)?
        };
        Some(Some(of.print(&value)?))
    };
    let mut texts = Vec::with_capacity(list.len());
    for row in 0..list.len() {
        if list.is_null(row) {
            texts.push(None);
            continue;
        }
        let ends = list.value_offsets();
        let from = usize::try_from(*ends.get(row)?).ok()?;
        let to = usize::try_from(*ends.get(row + 1)?).ok()?;
        let elements: Option<Vec<Option<String>>> = (from..to).map(text_at).collect();
        texts.push(Some(joined(elements?.iter().map(Option::as_deref))));
    }
    Some(texts.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `SELECT '...'::text[]` answers in `PostgreSQL` 15, or that it is malformed (22P02).
    #[test]
    fn texts_are_read_as_postgresql_reads_them() {
        for (text, expected) in [
            ("{}", Some("{}")),
            (" { } ", Some("{}")),
            ("{a,b}", Some("{a,b}")),
            ("{ a , b c }", Some("{a,\"b c\"}")),
            ("{NULL,null,\"NULL\"}", Some("{NULL,NULL,\"NULL\"}")),
            (
                "{\"a,b\",\"c\\\"d\",\"\\\\\"}",
                Some("{\"a,b\",\"c\\\"d\",\"\\\\\"}"),
            ),
            ("{\"\"}", Some("{\"\"}")),
            ("{a\\,b}", Some("{\"a,b\"}")),
            ("", None),
            ("a", None),
            ("{a", None),
            ("{a,}", None),
            ("{,a}", None),
            ("{a}b", None),
            ("{\"a\"b}", None),
            ("{a\"b\"}", None),
        ] {
            let read = read(Element::Text, text).ok();
            assert_eq!(read.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn elements_have_the_form_of_their_type() {
        let numeric = Element::Numeric {
            precision: 10,
            scale: 2,
        };
        for (of, text, expected) in [
            (Element::Integer, "{ 1,-07 ,NULL}", Some("{1,-7,NULL}")),
            (Element::SmallInt, "{32768}", None),
            (Element::Boolean, "{yes,0,off}", Some("{t,f,f}")),
            (Element::Double, "{1,1e300,nan}", Some("{1.0,1e300,NaN}")),
            (numeric, "{1,2.345}", Some("{1.00,2.35}")),
            (Element::Date, "{2024-02-29}", Some("{2024-02-29}")),
            (Element::Integer, "{{1},{2}}", None),
        ] {
            let read = read(of, text).ok();
            assert_eq!(read.as_deref(), expected, "{text}");
        }
    }
}
