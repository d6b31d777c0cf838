//! Functions that ask for the names of a database, for the session, or for the server: `format_type`, `pg_table_is_visible`,
//! `current_user`, `version`, `nextval`.
//!
//! Does: say for each its arguments, its type and what it answers, one row at a time. Does not: read a table; most answer from
//! [`Catalogue`], which is made when the first of them needs it.

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
use super::objects::Catalogue;
use super::reading::Reading;
use super::values::{Argument, Returns, scalar};
use crate::error::Error;
pub(crate) use sequence::OF_SEQUENCES;

/// Who asks, in which database.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) reading: Arc<dyn Reading>,
    pub(super) database: String,
}

impl Asked {
    pub(super) fn catalogue(&self) -> Arc<Catalogue> {
        self.reading.names_of_database(&self.database)
    }
}

/// What a call answers in a row.
pub(super) type Answer = std::result::Result<Cell, Error>;

/// A function.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) name: &'static str,
    /// Least and most arguments.
    pub(super) takes: (usize, usize),
    pub(super) returns: Returns,
    pub(super) run: fn(&Asked, &[Cell]) -> Answer,
    /// A NULL among the arguments is one as the answer.
    pub(super) is_strict: bool,
    /// Each row asks anew.
    pub(super) is_volatile: bool,
}

impl Call {
    pub(super) const fn new(
        name: &'static str,
        takes: (usize, usize),
        returns: Returns,
        run: fn(&Asked, &[Cell]) -> Answer,
    ) -> Self {
        Self {
            name,
            takes,
            returns,
            run,
            is_strict: true,
            is_volatile: false,
        }
    }

    pub(super) const fn volatile(mut self) -> Self {
        self.is_volatile = true;
        self
    }

    pub(super) const fn lenient(mut self) -> Self {
        self.is_strict = false;
        self
    }
}

/// All of them, for a statement in a database.
pub(crate) fn functions(reading: &Arc<dyn Reading>, database: &str) -> Vec<Arc<ScalarUDF>> {
    let asked = Arc::new(Asked {
        reading: Arc::clone(reading),
        database: database.to_owned(),
    });
    let parts: [&[Call]; 5] = [
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

/// A number among the arguments, or as text.
pub(super) fn number(cells: &[Cell], at: usize) -> Option<i64> {
    match cells.get(at)? {
        Cell::Int(number) => Some(*number),
        Cell::Text(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// A text among the arguments.
pub(super) fn text(cells: &[Cell], at: usize) -> Option<&str> {
    match cells.get(at)? {
        Cell::Text(text) => Some(text),
        _ => None,
    }
}
