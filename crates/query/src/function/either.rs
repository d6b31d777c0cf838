//! Functions of text that `PostgreSQL` has of `bytea` too: `substr`, `strpos`, `overlay`, `btrim` and its kin.
//!
//! Does: give bytes to functions of ours, and texts to the library's. Does not: take bytes for text.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Int32Array};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err, plan_err};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

/// The functions, by the library's names for them.
const NAMES: [&str; 6] = ["btrim", "ltrim", "overlay", "rtrim", "strpos", "substr"];

/// Puts functions of both in the places of those of text.
pub(super) fn register(session: &mut SessionState) -> Result<()> {
    for name in NAMES {
        let function = of_both(session.udf(name)?);
        session.register_udf(function)?;
    }
    Ok(())
}

fn of_both(text: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(Either {
        text,
        signature: Signature::user_defined(Volatility::Immutable),
    }))
}

/// What the standard spells as no call: `substring(b FROM 2)`, `position(a IN b)`, `overlay(a PLACING b FROM 2)`.
#[derive(Debug)]
pub(crate) struct Spelled(Vec<Arc<ScalarUDF>>);

impl Spelled {
    pub(crate) fn new() -> Self {
        let library = [
            datafusion::functions::unicode::substr(),
            datafusion::functions::unicode::strpos(),
            datafusion::functions::core::overlay(),
        ];
        Self(library.into_iter().map(of_both).collect())
    }

    fn call(&self, name: &str, args: Vec<Expr>) -> PlannerResult<Vec<Expr>> {
        match self.0.iter().find(|function| function.name() == name) {
            Some(function) => PlannerResult::Planned(Expr::ScalarFunction(
                ScalarFunction::new_udf(Arc::clone(function), args),
            )),
            None => PlannerResult::Original(args),
        }
    }
}

impl ExprPlanner for Spelled {
    fn plan_substring(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(self.call("substr", args))
    }

    fn plan_overlay(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(self.call("overlay", args))
    }

    fn plan_position(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(self.call("strpos", args))
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Either {
    text: Arc<ScalarUDF>,
    signature: Signature,
}

fn is_bytes(kind: &DataType) -> bool {
    matches!(
        kind,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView
    )
}

impl Either {
    /// What it takes of bytes, if some argument is that.
    fn of_bytes(&self, given: &[DataType]) -> Option<Vec<DataType>> {
        use DataType::{Binary, Int64};
        if !given.iter().any(is_bytes) {
            return None;
        }
        let all = match (self.text.name(), given.len()) {
            ("substr", 2) => vec![Binary, Int64],
            ("substr", 3) => vec![Binary, Int64, Int64],
            ("overlay", 3) => vec![Binary, Binary, Int64],
            ("overlay", 4) => vec![Binary, Binary, Int64, Int64],
            ("strpos" | "btrim" | "ltrim" | "rtrim", 2) => vec![Binary, Binary],
            _ => return None,
        };
        let fits = |(given, wanted): (&DataType, &DataType)| match wanted {
            _ if given.is_null() => true,
            Int64 => given.is_integer(),
            // A literal stands for bytes.
            _ => is_bytes(given) || given.is_string(),
        };
        given.iter().zip(&all).all(fits).then_some(all)
    }

    fn answers(&self) -> DataType {
        match self.text.name() {
            "strpos" => DataType::Int32,
            _ => DataType::Binary,
        }
    }
}

impl ScalarUDFImpl for Either {
    fn name(&self) -> &str {
        self.text.name()
    }

    fn aliases(&self) -> &[String] {
        self.text.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.text.documentation()
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        if let Some(bytes) = self.of_bytes(given) {
            return Ok(bytes);
        }
        if given.iter().any(is_bytes) {
            return plan_err!(
                "there is no function {} of these types; cast the arguments, as in value::bytea",
                self.name()
            );
        }
        let fields = given.iter().enumerate();
        let fields: Vec<FieldRef> = fields
            .map(|(at, kind)| Arc::new(Field::new(format!("a{at}"), kind.clone(), true)))
            .collect();
        let coerced = fields_with_udf(&fields, self.text.as_ref())?;
        Ok(coerced.iter().map(|it| it.data_type().clone()).collect())
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        if given.iter().any(is_bytes) {
            return Ok(self.answers());
        }
        self.text.return_type(given)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        if args.arg_fields.iter().any(|it| is_bytes(it.data_type())) {
            return Ok(Arc::new(Field::new(self.name(), self.answers(), true)));
        }
        self.text.return_field_from_args(args)
    }

    fn simplify(
        &self,
        args: Vec<Expr>,
        info: &datafusion::logical_expr::simplify::SimplifyContext,
    ) -> Result<datafusion::logical_expr::simplify::ExprSimplifyResult> {
        use datafusion::logical_expr::simplify::ExprSimplifyResult;
        let has_bytes = args
            .iter()
            .any(|it| info.get_data_type(it).is_ok_and(|kind| is_bytes(&kind)));
        if has_bytes {
            return Ok(ExprSimplifyResult::Original(args));
        }
        self.text.simplify(args, info)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if !args.arg_fields.iter().any(|it| is_bytes(it.data_type())) {
            return self.text.invoke_with_args(args);
        }
        let is_scalar = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
        let is_scalar = args.args.iter().all(is_scalar);
        let rows = if is_scalar { 1 } else { args.number_rows };
        let values = args.args.iter().map(|value| value.to_array(rows));
        let values = values.collect::<Result<Vec<ArrayRef>>>()?;
        let answered: ArrayRef = match (self.name(), values.as_slice()) {
            ("substr", [bytes, from]) => Arc::new(parts(bytes, from, None, rows)?),
            ("substr", [bytes, from, length]) => Arc::new(parts(bytes, from, Some(length), rows)?),
            ("overlay", [bytes, new, from]) => Arc::new(overlaid(bytes, new, from, None, rows)?),
            ("overlay", [bytes, new, from, length]) => {
                Arc::new(overlaid(bytes, new, from, Some(length), rows)?)
            }
            ("strpos", [bytes, part]) => {
                let places = (0..rows).map(|row| {
                    let (bytes, part) = (at(bytes, row)?, at(part, row)?);
                    i32::try_from(place_of(bytes, part)).ok()
                });
                Arc::new(places.collect::<Int32Array>())
            }
            (name @ ("btrim" | "ltrim" | "rtrim"), [bytes, letters]) => {
                let trimmed = (0..rows).map(|row| {
                    let (bytes, letters) = (at(bytes, row)?, at(letters, row)?);
                    Some(trimmed(bytes, letters, name))
                });
                Arc::new(trimmed.collect::<BinaryArray>())
            }
            (name, _) => return internal_err!("{name} has other arguments"),
        };
        Ok(if is_scalar {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&answered, 0)?)
        } else {
            ColumnarValue::Array(answered)
        })
    }
}

fn at(values: &ArrayRef, row: usize) -> Option<&[u8]> {
    let values = values.as_binary_opt::<i32>()?;
    values.is_valid(row).then(|| values.value(row))
}

fn number(values: &ArrayRef, row: usize) -> Option<i64> {
    let values = values.as_primitive_opt::<Int64Type>()?;
    values.is_valid(row).then(|| values.value(row))
}

/// The bytes from a place, from 1, maybe so many; places that there are not have none.
fn part(bytes: &[u8], from: i64, length: Option<i64>) -> Result<&[u8]> {
    let all = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
    let end = match length {
        Some(length) if length < 0 => return exec_err!("negative substring length not allowed"),
        Some(length) => from.saturating_add(length),
        None => all.saturating_add(1),
    };
    let place = |it: i64| usize::try_from((it - 1).clamp(0, all)).unwrap_or(0);
    let from = place(from);
    Ok(bytes.get(from..place(end).max(from)).unwrap_or_default())
}

fn parts(
    bytes: &ArrayRef,
    from: &ArrayRef,
    length: Option<&ArrayRef>,
    rows: usize,
) -> Result<BinaryArray> {
    let part_of = |row: usize| {
        let (Some(bytes), Some(from)) = (at(bytes, row), number(from, row)) else {
            return Ok(None);
        };
        match length.map(|length| number(length, row)) {
            Some(None) => Ok(None),
            Some(length) => part(bytes, from, length).map(Some),
            None => part(bytes, from, None).map(Some),
        }
    };
    (0..rows).map(part_of).collect()
}

/// Bytes with others from a place on, in the place of as many, or of so many.
fn overlaid(
    bytes: &ArrayRef,
    new: &ArrayRef,
    from: &ArrayRef,
    length: Option<&ArrayRef>,
    rows: usize,
) -> Result<BinaryArray> {
    let row_of = |row: usize| -> Result<Option<Vec<u8>>> {
        let (Some(bytes), Some(new), Some(from)) =
            (at(bytes, row), at(new, row), number(from, row))
        else {
            return Ok(None);
        };
        let length = match length {
            Some(length) => number(length, row),
            None => i64::try_from(new.len()).ok(),
        };
        let Some(length) = length else {
            return Ok(None);
        };
        if from <= 0 {
            return exec_err!("negative substring length not allowed");
        }
        let before = part(bytes, 1, Some(from - 1))?;
        let after = part(bytes, from.saturating_add(length), None)?;
        Ok(Some([before, new, after].concat()))
    };
    let all: Vec<Option<Vec<u8>>> = (0..rows).map(row_of).collect::<Result<_>>()?;
    Ok(all.iter().map(Option::as_deref).collect())
}

/// Where bytes begin in others, from 1; 0 = nowhere.
fn place_of(bytes: &[u8], part: &[u8]) -> usize {
    if part.is_empty() {
        return 1;
    }
    let mut windows = bytes.windows(part.len());
    windows.position(|it| it == part).map_or(0, |at| at + 1)
}

fn trimmed<'a>(bytes: &'a [u8], letters: &[u8], name: &str) -> &'a [u8] {
    let stays = |byte: &u8| !letters.contains(byte);
    let from = match name {
        "rtrim" => 0,
        _ => bytes.iter().position(stays).unwrap_or(bytes.len()),
    };
    let end = match name {
        "ltrim" => bytes.len(),
        _ => bytes.iter().rposition(stays).map_or(0, |last| last + 1),
    };
    bytes.get(from..end.max(from)).unwrap_or_default()
}
