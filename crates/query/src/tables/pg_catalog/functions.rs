//! Functions that ask for the names of a database, for the session, or for the server: `format_type`, `pg_table_is_visible`,
//! `current_user`, `version`, `nextval`.
//!
//! Does: say for each its arguments, its type and what it answers, one row at a time. Does not: read a table; most answer from
//! [`Catalogue`], which is made when the first of them needs it.

mod advisory;
mod call;
mod enumerations;
mod hypertables;
mod names;
mod privileges;
mod sequence;
mod session;
mod shown;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::cells::Cell;
use super::reading::Reading;
use super::values::{Argument, scalar};
use call::{Asked, Call};
pub(crate) use hypertables::{HYPERTABLE, HYPERTABLE_BY_CLOCK};
pub(crate) use sequence::OF_SEQUENCES;

/// All of them, for a statement in a database.
pub(crate) fn functions(reading: &Arc<dyn Reading>, database: &str) -> Vec<Arc<ScalarUDF>> {
    let asked = Arc::new(Asked {
        reading: Arc::clone(reading),
        database: database.to_owned(),
    });
    let parts: [&[Call]; 8] = [
        advisory::CALLS,
        enumerations::CALLS,
        hypertables::CALLS,
        sequence::CALLS,
        session::CALLS,
        names::CALLS,
        shown::CALLS,
        privileges::CALLS,
    ];
    let calls = parts.into_iter().flatten();
    calls
        .map(|call| {
            Arc::new(ScalarUDF::new_from_impl(Function {
                call: *call,
                asked: Arc::clone(&asked),
                signature: Signature::user_defined(if call.is_volatile {
                    Volatility::Volatile
                } else {
                    Volatility::Stable
                }),
            }))
        })
        .collect()
}

struct Function {
    call: Call,
    asked: Arc<Asked>,
    signature: Signature,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Function").field(&self.call.name).finish()
    }
}

/// There is one of a name in a statement.
impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.call.name == other.call.name && Arc::ptr_eq(&self.asked, &other.asked)
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.call.name.hash(state);
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.call.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let (least, most) = self.call.takes;
        if !(least..=most).contains(&arg_types.len()) {
            return plan_err!(
                "{}() takes {} arguments, not {}",
                self.call.name,
                if least == most {
                    least.to_string()
                } else {
                    format!("{least} to {most}")
                },
                arg_types.len()
            );
        }
        Ok(arg_types.to_vec())
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(self.call.returns.arrow())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = !self.call.is_volatile
            && args
                .args
                .iter()
                .all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let arguments: Vec<Argument> = args.args.iter().map(Argument::of).collect::<Result<_>>()?;
        let mut answers = Vec::with_capacity(rows);
        let mut cells = Vec::with_capacity(arguments.len());
        for row in 0..rows {
            cells.clear();
            cells.extend(arguments.iter().map(|argument| argument.cell(row)));
            if self.call.is_strict && cells.contains(&Cell::Null) {
                answers.push(Cell::Null);
                continue;
            }
            let answer = (self.call.run)(&self.asked, &cells);
            answers.push(answer.map_err(|error| DataFusionError::External(Box::new(error)))?);
        }
        let array = self.call.returns.array(answers);
        if is_constant {
            return scalar(&array);
        }
        Ok(ColumnarValue::Array(array))
    }
}
