//! Operators of JSON, planned as calls.
//!
//! Does: know them by their signs, and `||`, `-` and comparisons by a side that is JSON. Does not: look into calls and sums for
//! types, so that a chain of operators is not looked through for each of them.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ScalarUDF};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::{answers_json, functions, is_json};

/// Plans the operators.
#[derive(Debug)]
pub(crate) struct JsonOperators(HashMap<String, Arc<ScalarUDF>>);

impl JsonOperators {
    pub(crate) fn new() -> Self {
        let functions = functions().into_iter();
        Self(functions.map(|it| (it.name().to_owned(), it)).collect())
    }

    fn call(&self, name: &str, values: Vec<Expr>) -> Option<Expr> {
        let function = Arc::clone(self.0.get(name)?);
        Some(Expr::ScalarFunction(ScalarFunction::new_udf(
            function, values,
        )))
    }
}

impl ExprPlanner for JsonOperators {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator as B;
        let is_json = |expr: &Expr| kind_of(expr, schema);
        let sides = || vec![expr.left.clone(), expr.right.clone()];
        let of = match kind_of(&expr.left, schema) {
            Some("json") => "json",
            _ => "jsonb",
        };
        let planned = match expr.op {
            B::Arrow => self.call(&format!("__{of}_part"), sides()),
            B::LongArrow => self.call(&format!("__{of}_part_text"), sides()),
            B::HashArrow => self.call(&format!("__{of}_path"), sides()),
            B::HashLongArrow => self.call(&format!("__{of}_path_text"), sides()),
            // Arrays have them too.
            B::AtArrow if is_json(&expr.left).or(is_json(&expr.right)).is_some() => {
                self.call("jsonb_contains", sides())
            }
            B::ArrowAt if is_json(&expr.left).or(is_json(&expr.right)).is_some() => {
                let sides = vec![expr.right.clone(), expr.left.clone()];
                self.call("jsonb_contains", sides)
            }
            B::StringConcat
                if is_json(&expr.left) == Some("jsonb")
                    || is_json(&expr.right) == Some("jsonb") =>
            {
                self.call("jsonb_concat", sides())
            }
            B::Question => self.call("jsonb_exists", sides()),
            B::QuestionPipe => self.call("jsonb_exists_any", sides()),
            B::QuestionAnd => self.call("jsonb_exists_all", sides()),
            B::Minus if is_json(&expr.left) == Some("jsonb") => self.call("jsonb_delete", sides()),
            B::Eq | B::NotEq | B::Lt | B::LtEq | B::Gt | B::GtEq => {
                return Ok(PlannerResult::Original(self.compared(expr, schema)));
            }
            _ => None,
        };
        Ok(match planned {
            Some(planned) => PlannerResult::Planned(planned),
            None => PlannerResult::Original(expr),
        })
    }
}

impl JsonOperators {
    /// A text that is compared with `jsonb` in the form that this is kept in.
    fn compared(&self, expr: RawBinaryExpr, schema: &DFSchema) -> RawBinaryExpr {
        let is_jsonb = |expr: &Expr| kind_of(expr, schema) == Some("jsonb");
        let canonical = |text: Expr, other: &Expr| {
            let is_text = matches!(&text, Expr::Literal(ScalarValue::Utf8(Some(_)), _));
            if is_text && is_jsonb(other) {
                self.call("__jsonb", vec![text.clone()]).unwrap_or(text)
            } else {
                text
            }
        };
        let RawBinaryExpr { op, left, right } = expr;
        let left = canonical(left, &right);
        let right = canonical(right, &left);
        RawBinaryExpr { op, left, right }
    }
}

/// `json` or `jsonb`, if a value is seen to be that.
fn kind_of(expr: &Expr, schema: &DFSchema) -> Option<&'static str> {
    let of_field = |field: &datafusion::arrow::datatypes::Field| match is_json(field) {
        true if field.metadata().values().any(|it| it == "json") => Some("json"),
        true => Some("jsonb"),
        false => None,
    };
    match expr {
        Expr::Column(column) => {
            let (_, field) = schema.qualified_field_from_column(column).ok()?;
            of_field(field)
        }
        Expr::Alias(alias) => kind_of(&alias.expr, schema),
        Expr::ScalarFunction(call) if matches!(call.name(), "coalesce" | "nullif") => {
            kind_of(call.args.first()?, schema)
        }
        Expr::ScalarFunction(call) if answers_json(call.name()) => {
            if call.name().contains("jsonb") {
                Some("jsonb")
            } else {
                Some("json")
            }
        }
        _ => None,
    }
}
