//! Functions of `bytea` that the library lacks: bytes and bits, `||`, escapes, `sha256` and its kin, `convert_from`, `convert_to`.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryArray, Int32Array, StringArray};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{
    Result, ScalarValue, exec_datafusion_err, exec_err, internal_err, plan_err,
};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use ring::digest::{Algorithm, SHA256, SHA384, SHA512, digest};

/// `||`.
pub(crate) const CONCAT: &str = "__bytea_concat";
/// `decode(text, 'escape')`, `encode(bytes, 'escape')`.
pub(crate) const DECODE_ESCAPE: &str = "__decode_escape";
pub(crate) const ENCODE_ESCAPE: &str = "__encode_escape";

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Call {
    Concat,
    ConvertFrom,
    ConvertTo,
    DecodeEscape,
    EncodeEscape,
    GetBit,
    GetByte,
    SetBit,
    SetByte,
    Sha256,
    Sha384,
    Sha512,
}

/// All of them.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    use DataType::{Binary, Int64, Utf8};
    let all = [
        (CONCAT, Call::Concat, vec![Binary, Binary]),
        (DECODE_ESCAPE, Call::DecodeEscape, vec![Utf8]),
        (ENCODE_ESCAPE, Call::EncodeEscape, vec![Binary]),
        ("convert_from", Call::ConvertFrom, vec![Binary, Utf8]),
        ("convert_to", Call::ConvertTo, vec![Utf8, Utf8]),
        ("get_bit", Call::GetBit, vec![Binary, Int64]),
        ("get_byte", Call::GetByte, vec![Binary, Int64]),
        ("set_bit", Call::SetBit, vec![Binary, Int64, Int64]),
        ("set_byte", Call::SetByte, vec![Binary, Int64, Int64]),
        ("sha256", Call::Sha256, vec![Binary]),
        ("sha384", Call::Sha384, vec![Binary]),
        ("sha512", Call::Sha512, vec![Binary]),
    ];
    let all = all.into_iter().map(|(name, call, kinds)| {
        Arc::new(ScalarUDF::new_from_impl(OfBytes {
            name,
            call,
            kinds,
            signature: Signature::user_defined(Volatility::Immutable),
        }))
    });
    all.collect()
}

/// The function of this name.
pub(crate) fn function_named(name: &str) -> Option<Arc<ScalarUDF>> {
    functions().into_iter().find(|it| it.name() == name)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfBytes {
    name: &'static str,
    call: Call,
    kinds: Vec<DataType>,
    signature: Signature,
}

impl ScalarUDFImpl for OfBytes {
    fn name(&self) -> &'static str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// A text stands for bytes, as a literal does in `PostgreSQL`.
    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let fits = |(given, wanted): (&DataType, &DataType)| match wanted {
            _ if given.is_null() => true,
            DataType::Int64 => given.is_integer(),
            DataType::Utf8 => is_text(given),
            wanted => given == wanted || is_text(given),
        };
        let is_fit =
            arg_types.len() == self.kinds.len() && arg_types.iter().zip(&self.kinds).all(fits);
        if !is_fit {
            return plan_err!(
                "there is no function {} of these types; cast the arguments, as in value::bytea",
                self.name
            );
        }
        Ok(self.kinds.clone())
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(match self.call {
            Call::ConvertFrom | Call::EncodeEscape => DataType::Utf8,
            Call::GetBit | Call::GetByte => DataType::Int32,
            _ => DataType::Binary,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let mut values = args.args.iter();
        let is_scalar = values.all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let values = args.args.iter().map(|value| value.to_array(rows));
        let values = values.collect::<Result<Vec<ArrayRef>>>()?;
        let array = match (self.call, values.as_slice()) {
            (Call::ConvertFrom, [bytes, names]) => converted_from(bytes, names)?,
            (Call::ConvertTo, [texts, names]) => converted_to(texts, names)?,
            (Call::GetBit | Call::GetByte, [bytes, places]) => {
                parts_at(bytes, places, self.call == Call::GetBit)?
            }
            (Call::SetBit | Call::SetByte, [bytes, places, values]) => {
                with_parts(bytes, places, values, self.call == Call::SetBit)?
            }
            (Call::Concat, [one, other]) => joined(one, other),
            (Call::EncodeEscape, [bytes]) => escaped(bytes),
            (Call::DecodeEscape, [texts]) => unescaped(texts)?,
            (Call::Sha256, [bytes]) => hashed(bytes, &SHA256),
            (Call::Sha384, [bytes]) => hashed(bytes, &SHA384),
            (Call::Sha512, [bytes]) => hashed(bytes, &SHA512),
            _ => return internal_err!("{} has other arguments", self.name),
        };
        Ok(if is_scalar {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?)
        } else {
            ColumnarValue::Array(array)
        })
    }
}

fn is_text(kind: &DataType) -> bool {
    match kind {
        DataType::Dictionary(_, value) => value.is_string(),
        kind => kind.is_string(),
    }
}

fn hashed(bytes: &ArrayRef, by: &'static Algorithm) -> ArrayRef {
    let bytes = bytes.as_binary::<i32>().iter();
    let sums = bytes.map(|value| value.map(|value| digest(by, value)));
    Arc::new(sums.collect::<BinaryArray>())
}

/// Bytes or bits by their places, from 0; bits count from the lowest of the first byte.
fn parts_at(bytes: &ArrayRef, places: &ArrayRef, is_bit: bool) -> Result<ArrayRef> {
    let places = places.as_primitive::<Int64Type>().iter();
    let pairs = bytes.as_binary::<i32>().iter().zip(places);
    let found = pairs.map(|pair| {
        let (Some(value), Some(place)) = pair else {
            return Ok(None);
        };
        let (byte, bit) = place_in(value, place, is_bit)?;
        let byte = value.get(byte).copied().unwrap_or_default();
        Ok(Some(i32::from(if is_bit { byte >> bit & 1 } else { byte })))
    });
    Ok(Arc::new(found.collect::<Result<Int32Array>>()?))
}

/// The byte of a place, and the bit in it.
fn place_in(value: &[u8], place: i64, is_bit: bool) -> Result<(usize, u32)> {
    let unit = if is_bit { 8 } else { 1 };
    let count = i64::try_from(value.len())
        .unwrap_or(i64::MAX)
        .saturating_mul(unit);
    if !(0..count).contains(&place) {
        let last = count - 1;
        return exec_err!("index {place} out of valid range, 0..{last}");
    }
    let byte = usize::try_from(place / unit).unwrap_or(usize::MAX);
    Ok((byte, u32::try_from(place % unit).unwrap_or(0)))
}

fn with_parts(
    bytes: &ArrayRef,
    places: &ArrayRef,
    values: &ArrayRef,
    is_bit: bool,
) -> Result<ArrayRef> {
    let (places, values) = (
        places.as_primitive::<Int64Type>().iter(),
        values.as_primitive::<Int64Type>().iter(),
    );
    let rows = bytes.as_binary::<i32>().iter().zip(places.zip(values));
    let made = rows.map(|row| -> Result<Option<Vec<u8>>> {
        let (Some(value), (Some(place), Some(new))) = row else {
            return Ok(None);
        };
        let (at, bit) = place_in(value, place, is_bit)?;
        if is_bit && !(0..=1).contains(&new) {
            return exec_err!("new bit must be 0 or 1");
        }
        let mut value = value.to_vec();
        if let Some(byte) = value.get_mut(at) {
            // The lowest eight bits of the number.
            let new = u8::try_from(new.rem_euclid(256)).unwrap_or_default();
            *byte = if is_bit {
                *byte & !(1 << bit) | new << bit
            } else {
                new
            };
        }
        Ok(Some(value))
    });
    let made: Vec<Option<Vec<u8>>> = made.collect::<Result<_>>()?;
    Ok(Arc::new(
        made.iter().map(Option::as_deref).collect::<BinaryArray>(),
    ))
}

fn joined(one: &ArrayRef, other: &ArrayRef) -> ArrayRef {
    let pairs = one.as_binary::<i32>().iter().zip(other.as_binary::<i32>());
    let joined: Vec<Option<Vec<u8>>> = pairs
        .map(|(one, other)| Some([one?, other?].concat()))
        .collect();
    Arc::new(joined.iter().map(Option::as_deref).collect::<BinaryArray>())
}

/// Bytes as characters: zero and those beyond ASCII as `\\ooo`, a backslash twice.
fn escaped(bytes: &ArrayRef) -> ArrayRef {
    let texts = bytes.as_binary::<i32>().iter().map(|value| {
        let mut text = String::new();
        for byte in value? {
            match byte {
                b'\\' => text.push_str("\\\\"),
                0 | 128.. => {
                    // Writing to a string cannot fail.
                    let _ = write!(text, "\\{byte:03o}");
                }
                byte => text.push(char::from(*byte)),
            }
        }
        Some(text)
    });
    Arc::new(texts.collect::<StringArray>())
}

fn unescaped(texts: &ArrayRef) -> Result<ArrayRef> {
    let bytes = texts.as_string::<i32>().iter().map(|text| match text {
        // What begins so would be read as hexadecimal digits.
        Some(text) if text.starts_with("\\x") => {
            exec_err!("invalid input syntax for type bytea")
        }
        Some(text) => {
            let bytes = nilometer_service::bytes_of_text(text);
            bytes
                .map(Some)
                .map_err(|reason| exec_datafusion_err!("{reason}"))
        }
        None => Ok(None),
    });
    let bytes: Vec<Option<Vec<u8>>> = bytes.collect::<Result<_>>()?;
    Ok(Arc::new(
        bytes.iter().map(Option::as_deref).collect::<BinaryArray>(),
    ))
}

/// Texts are UTF-8, in the store and everywhere.
fn check_encoding(name: &str) -> Result<()> {
    if ["utf8", "utf-8", "unicode"].contains(&name.to_lowercase().as_str()) {
        return Ok(());
    }
    exec_err!("the encoding \"{name}\" is not supported: texts are UTF8")
}

fn converted_from(bytes: &ArrayRef, names: &ArrayRef) -> Result<ArrayRef> {
    let names = names.as_string::<i32>().iter();
    let pairs = bytes.as_binary::<i32>().iter().zip(names);
    let texts = pairs.map(|pair| {
        let (Some(value), Some(name)) = pair else {
            return Ok(None);
        };
        check_encoding(name)?;
        match std::str::from_utf8(value) {
            Ok(text) => Ok(Some(text)),
            Err(error) => {
                let at = error.valid_up_to();
                let byte = value.get(at).copied().unwrap_or_default();
                exec_err!("invalid byte sequence for encoding \"UTF8\": 0x{byte:02x}")
            }
        }
    });
    Ok(Arc::new(texts.collect::<Result<StringArray>>()?))
}

fn converted_to(texts: &ArrayRef, names: &ArrayRef) -> Result<ArrayRef> {
    let names = names.as_string::<i32>().iter();
    let pairs = texts.as_string::<i32>().iter().zip(names);
    let bytes = pairs.map(|pair| {
        let (Some(text), Some(name)) = pair else {
            return Ok(None);
        };
        check_encoding(name)?;
        Ok(Some(text.as_bytes()))
    });
    Ok(Arc::new(bytes.collect::<Result<BinaryArray>>()?))
}
