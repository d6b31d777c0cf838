//! Casts of text to bytes, as in `PostgreSQL` (`\x` and hexadecimal digits, or characters with `\\` and `\ooo` among them), of bytes
//! to text, and of JSON to text.
//!
//! Does: read such text wherever the planner casts text to bytes, written by the statement or put in by itself; let the text of
//! JSON be text and no JSON any more. Does not: show bytes (surfaces do).

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryBuilder, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, exec_datafusion_err, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use nilometer_service::bytes_of_text;

use crate::function::{bytes, is_json};
use crate::semantics::with_names_kept;
use crate::walk::{ExprWalk, PlanWalk};

/// The bytes that texts stand for.
pub(crate) fn bytes_of_texts(texts: &ArrayRef) -> std::result::Result<ArrayRef, String> {
    let texts = cast(texts, &DataType::Utf8).map_err(|error| error.to_string())?;
    let texts = texts.as_string::<i32>();
    let mut bytes = BinaryBuilder::with_capacity(texts.len(), texts.value_data().len());
    for text in texts {
        match text {
            Some(text) => bytes.append_value(bytes_of_text(text)?),
            None => bytes.append_null(),
        }
    }
    Ok(Arc::new(bytes.finish()))
}

/// Bytes as texts: `\x` and hexadecimal digits.
fn digits_of(bytes: &ArrayRef) -> ArrayRef {
    let bytes = bytes.as_binary::<i32>();
    let mut texts = StringBuilder::with_capacity(bytes.len(), 2 * bytes.value_data().len());
    for value in bytes {
        let Some(value) = value else {
            texts.append_null();
            continue;
        };
        let mut text = String::with_capacity(2 + 2 * value.len());
        text.push_str("\\x");
        for byte in value {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        texts.append_value(text);
    }
    Arc::new(texts.finish())
}

/// Plans `||` of bytes.
#[derive(Debug)]
pub(crate) struct JoinBytes(Option<Arc<ScalarUDF>>);

impl JoinBytes {
    pub(crate) fn new() -> Self {
        Self(bytes::function_named(bytes::CONCAT))
    }
}

impl ExprPlanner for JoinBytes {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        // The left side of a chain is one that was planned here.
        let is_bytes = |expr: &Expr| match expr {
            Expr::BinaryExpr(_) | Expr::Literal(ScalarValue::Utf8(_), _) => false,
            other => matches!(other.get_type(schema), Ok(DataType::Binary)),
        };
        match &self.0 {
            Some(join)
                if expr.op == BinaryOperator::StringConcat
                    && (is_bytes(&expr.left) || is_bytes(&expr.right)) =>
            {
                let sides = vec![expr.left, expr.right];
                let call = ScalarFunction::new_udf(Arc::clone(join), sides);
                Ok(PlannerResult::Planned(Expr::ScalarFunction(call)))
            }
            _ => Ok(PlannerResult::Original(expr)),
        }
    }
}

/// The rule, for when types are settled.
#[derive(Debug)]
pub(crate) struct TextAsBytes {
    bytes: Arc<ScalarUDF>,
    text: Arc<ScalarUDF>,
    digits: Arc<ScalarUDF>,
}

impl TextAsBytes {
    pub(crate) fn new() -> Self {
        let function = |from, to| {
            let signature = Signature::exact(vec![from], Volatility::Immutable);
            Arc::new(ScalarUDF::new_from_impl(Read { to, signature }))
        };
        Self {
            bytes: function(DataType::Utf8, DataType::Binary),
            text: function(DataType::Utf8, DataType::Utf8),
            digits: function(DataType::Binary, DataType::Utf8),
        }
    }

    fn read(&self, expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
        let (expr, field) = match expr {
            Expr::Cast(Cast { expr, field }) if *field.data_type() == DataType::Binary => {
                (expr, field)
            }
            Expr::Cast(Cast { expr, field }) if *field.data_type() == DataType::Utf8 => {
                let function = match expr.to_field(schema) {
                    Ok((_, of)) if is_json(&of) => &self.text,
                    Ok((_, of)) if *of.data_type() == DataType::Binary => &self.digits,
                    _ => return Transformed::no(Expr::Cast(Cast { expr, field })),
                };
                let text = ScalarFunction::new_udf(Arc::clone(function), vec![*expr]);
                return Transformed::yes(Expr::ScalarFunction(text));
            }
            other => return Transformed::no(other),
        };
        let is_text = match expr.get_type(schema) {
            Ok(DataType::Dictionary(_, value)) => value.is_string(),
            Ok(kind) => kind.is_string(),
            Err(_) => false,
        };
        if !is_text {
            return Transformed::no(Expr::Cast(Cast { expr, field }));
        }
        let text = datafusion::logical_expr::cast(*expr, DataType::Utf8);
        let bytes = ScalarFunction::new_udf(Arc::clone(&self.bytes), vec![text]);
        Transformed::yes(Expr::ScalarFunction(bytes))
    }
}

impl AnalyzerRule for TextAsBytes {
    fn name(&self) -> &'static str {
        "text_as_bytes"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        // Most statements have no such cast, and looking is cheaper than taking them apart.
        if !has_such_casts(&plan)? {
            return Ok(plan);
        }
        let read = plan.replace_up(&mut |node| {
            let schema = merge_schema(&node.inputs());
            let names = NamePreserver::new(&node);
            node.replace_expressions(&mut |expr| {
                with_names_kept(&names, expr, |expr| {
                    expr.replace_up(&mut |inner| Ok(self.read(inner, &schema)))
                })
            })
        })?;
        Ok(read.data)
    }
}

fn has_such_casts(plan: &LogicalPlan) -> Result<bool> {
    plan.has_expr(&mut |inner| {
        matches!(inner, Expr::Cast(cast)
            if matches!(cast.field.data_type(), DataType::Binary | DataType::Utf8))
    })
}

/// A text as bytes, or as text of no other type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Read {
    to: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for Read {
    fn name(&self) -> &'static str {
        match self.to {
            DataType::Binary => "bytea",
            _ => "text",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else {
            return internal_err!("{} has one argument", self.name());
        };
        let read = match (value.data_type(), &self.to) {
            (DataType::Binary, DataType::Utf8) => digits_of(&value.to_array(args.number_rows)?),
            (_, DataType::Utf8) => return Ok(value.clone()),
            _ => {
                let bytes = bytes_of_texts(&value.to_array(args.number_rows)?);
                bytes.map_err(|message| exec_datafusion_err!("{message}"))?
            }
        };
        Ok(match value {
            ColumnarValue::Array(_) => ColumnarValue::Array(read),
            ColumnarValue::Scalar(_) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&read, 0)?)
            }
        })
    }
}
