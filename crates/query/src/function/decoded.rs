//! Functions of a tag's texts that answer numbers, as plain numbers; of bytes, the lengths.
//!
//! Tags are dictionaries, and some functions of texts (`length` and its like) answer a dictionary of numbers, with one entry
//! for each value of the tag. Functions of numbers take none of those: `abs(length(host))` was refused. Does: unpack what is
//! answered, and count the bytes of `bytea`, which the library's functions do not take. Does not: touch functions that answer texts.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, TypeSignature,
};

/// The functions that do: one for each in whose place a session has it under all its names.
const PACKED: [&str; 4] = ["character_length", "octet_length", "bit_length", "ascii"];

/// Puts functions that answer plain numbers in the places of those that may not.
pub(super) fn register(session: &mut SessionState) -> Result<()> {
    for name in PACKED {
        let function = session.udf(name)?;
        let mut signature = function.signature().clone();
        let unit = match name {
            "character_length" | "octet_length" => Some(1),
            "bit_length" => Some(8),
            _ => None,
        };
        if unit.is_some() {
            let of_bytes = TypeSignature::Exact(vec![DataType::Binary]);
            signature.type_signature =
                TypeSignature::OneOf(vec![signature.type_signature, of_bytes]);
        }
        session.register_udf(Arc::new(ScalarUDF::new_from_impl(Decoded {
            function,
            signature,
            unit,
        })))?;
    }
    Ok(())
}

/// The type of the values of a dictionary that has no texts.
fn unpacked(kind: &DataType) -> Option<&DataType> {
    match kind {
        DataType::Dictionary(_, value) if !value.is_string() => Some(value),
        _ => None,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Decoded {
    function: Arc<ScalarUDF>,
    signature: Signature,
    /// What a byte counts; `None` = bytes are not taken.
    unit: Option<usize>,
}

impl Decoded {
    fn is_of_bytes<'a>(&self, kinds: impl IntoIterator<Item = &'a DataType>) -> bool {
        self.unit.is_some() && kinds.into_iter().eq([&DataType::Binary])
    }
}

/// The length of each value in units of which a byte has so many.
fn lengths_of_bytes(values: &ArrayRef, unit: usize) -> Result<ArrayRef> {
    let lengths = values.as_binary::<i32>().iter().map(|value| {
        let length = value.map(|value| value.len().checked_mul(unit));
        let length = length.map(|length| length.and_then(|it| i32::try_from(it).ok()));
        match length {
            Some(None) => Err(exec_datafusion_err!("integer out of range")),
            Some(length) => Ok(length),
            None => Ok(None),
        }
    });
    Ok(Arc::new(lengths.collect::<Result<Int32Array>>()?))
}

impl ScalarUDFImpl for Decoded {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.documentation()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        if self.is_of_bytes(arg_types) {
            return Ok(DataType::Int32);
        }
        let kind = self.function.return_type(arg_types)?;
        Ok(unpacked(&kind).cloned().unwrap_or(kind))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        if self.is_of_bytes(args.arg_fields.iter().map(|field| field.data_type())) {
            return Ok(Arc::new(Field::new(self.name(), DataType::Int32, true)));
        }
        let field = self.function.return_field_from_args(args)?;
        Ok(match unpacked(field.data_type()) {
            Some(kind) => {
                let kind = kind.clone();
                Arc::new(field.as_ref().clone().with_data_type(kind))
            }
            None => field,
        })
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.function.coerce_types(arg_types)
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let (Some(unit), [value]) = (self.unit, args.args.as_slice())
            && value.data_type() == DataType::Binary
        {
            let lengths = lengths_of_bytes(&value.to_array(args.number_rows)?, unit)?;
            return Ok(match value {
                ColumnarValue::Array(_) => ColumnarValue::Array(lengths),
                ColumnarValue::Scalar(_) => {
                    ColumnarValue::Scalar(ScalarValue::try_from_array(&lengths, 0)?)
                }
            });
        }
        let wanted = args.return_field.data_type().clone();
        // What the function itself would say that it answers.
        let inner = self
            .function
            .inner()
            .return_field_from_args(ReturnFieldArgs {
                arg_fields: &args.arg_fields,
                scalar_arguments: &vec![None; args.arg_fields.len()],
            })?;
        args.return_field = inner;
        let answered = self.function.invoke_with_args(args)?;
        if answered.data_type() == wanted {
            return Ok(answered);
        }
        answered.cast_to(&wanted, None)
    }
}
