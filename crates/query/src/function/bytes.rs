//! Functions of `bytea` that the library lacks: `get_byte`, `sha256` and its kin, `convert_from`, `convert_to`.

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

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Call {
    ConvertFrom,
    ConvertTo,
    GetByte,
    Sha256,
    Sha384,
    Sha512,
}

/// All of them.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    use DataType::{Binary, Int64, Utf8};
    let all = [
        ("convert_from", Call::ConvertFrom, vec![Binary, Utf8]),
        ("convert_to", Call::ConvertTo, vec![Utf8, Utf8]),
        ("get_byte", Call::GetByte, vec![Binary, Int64]),
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
            Call::ConvertFrom => DataType::Utf8,
            Call::GetByte => DataType::Int32,
            Call::ConvertTo | Call::Sha256 | Call::Sha384 | Call::Sha512 => DataType::Binary,
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
            (Call::GetByte, [bytes, places]) => bytes_at(bytes, places)?,
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

fn bytes_at(bytes: &ArrayRef, places: &ArrayRef) -> Result<ArrayRef> {
    let places = places.as_primitive::<Int64Type>().iter();
    let pairs = bytes.as_binary::<i32>().iter().zip(places);
    let found = pairs.map(|pair| {
        let (Some(value), Some(place)) = pair else {
            return Ok(None);
        };
        let byte = usize::try_from(place).ok().and_then(|at| value.get(at));
        let byte = byte.ok_or_else(|| {
            let last = i64::try_from(value.len()).unwrap_or(i64::MAX) - 1;
            exec_datafusion_err!("index {place} out of valid range, 0..{last}")
        })?;
        Ok(Some(i32::from(*byte)))
    });
    Ok(Arc::new(found.collect::<Result<Int32Array>>()?))
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
