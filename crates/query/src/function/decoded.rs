//! Functions of a tag's texts that answer numbers, as plain numbers.
//!
//! Tags are dictionaries, and some functions of texts (`length` and its like) answer a dictionary of numbers, with one entry
//! for each value of the tag. Functions of numbers take none of those: `abs(length(host))` was refused. Does: unpack what is
//! answered. Does not: touch functions that answer texts.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};

/// The functions that do: one for each in whose place a session has it under all its names.
const PACKED: [&str; 4] = ["character_length", "octet_length", "bit_length", "ascii"];

/// Puts functions that answer plain numbers in the places of those that may not.
pub(super) fn register(session: &mut SessionState) -> Result<()> {
    for name in PACKED {
        let function = session.udf(name)?;
        session.register_udf(Arc::new(ScalarUDF::new_from_impl(Decoded(function))))?;
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
struct Decoded(Arc<ScalarUDF>);

impl ScalarUDFImpl for Decoded {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        let kind = self.0.return_type(arg_types)?;
        Ok(unpacked(&kind).cloned().unwrap_or(kind))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = self.0.return_field_from_args(args)?;
        Ok(match unpacked(field.data_type()) {
            Some(kind) => {
                let kind = kind.clone();
                Arc::new(field.as_ref().clone().with_data_type(kind))
            }
            None => field,
        })
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(arg_types)
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let wanted = args.return_field.data_type().clone();
        // What the function itself would say that it answers.
        let inner = self.0.inner().return_field_from_args(ReturnFieldArgs {
            arg_fields: &args.arg_fields,
            scalar_arguments: &vec![None; args.arg_fields.len()],
        })?;
        args.return_field = inner;
        let answered = self.0.invoke_with_args(args)?;
        if answered.data_type() == wanted {
            return Ok(answered);
        }
        answered.cast_to(&wanted, None)
    }
}
