//! Numbers as `PostgreSQL` takes them: one with a point is `numeric`, which is exact, and not a float.
//!
//! To the planner it is a float, because most of what it meets are floats. Does: compare numbers that are too long for a float
//! exactly with integers and decimals (`rewrite::exact` has kept their digits); end with an error where such a number is divided
//! by zero; divide decimals (`quotient.rs`); say which values would be `numeric`. Does not: change the type of a value that is returned.
//!
//! The rule comes before types are settled, so that it sees what the statement says and no cast of the planner's own.

mod quotient;

use std::sync::{Arc, LazyLock};

use arrow::array::AsArray;
use arrow::compute::kernels::numeric;
use arrow::datatypes::{DataType, Float64Type};
use arrow::error::ArrowError;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Between, BinaryExpr, Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};
use datafusion::optimizer::AnalyzerRule;

use super::with_names_kept;
use crate::walk::{ExprWalk, PlanWalk};

/// The rule.
#[derive(Debug)]
pub(crate) struct ExactNumbers;

impl AnalyzerRule for ExactNumbers {
    fn name(&self) -> &'static str {
        "exact_numbers"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        // Most statements have neither, and looking is cheaper than taking them apart.
        if !has_something(&plan)? {
            return Ok(plan);
        }
        let exact = plan.replace_up(&mut |node| {
            let schema = merge_schema(&node.inputs());
            let names = NamePreserver::new(&node);
            node.replace_expressions(&mut |expr| {
                with_names_kept(&names, expr, |expr| {
                    expr.replace_up(&mut |part| Ok(exact(part, &schema)))
                })
            })
        })?;
        Ok(exact.data)
    }
}

fn has_something(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.walk(&mut |node| {
        node.walk_expressions(&mut |expr| {
            found = found
                || expr.has(&mut |part| {
                    Ok(match part {
                        Expr::BinaryExpr(binary) => divides(binary.op),
                        part => long(part).is_some(),
                    })
                })?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}

fn divides(op: Operator) -> bool {
    matches!(op, Operator::Divide | Operator::Modulo)
}

/// The digits of a number that was too long for a float, and the type that has them all.
fn long(expr: &Expr) -> Option<(&str, &Expr)> {
    let Expr::Cast(outer) = expr else {
        return None;
    };
    let Expr::Cast(inner) = outer.expr.as_ref() else {
        return None;
    };
    let is_spelled =
        *outer.field.data_type() == DataType::Float64 && inner.field.data_type().is_decimal();
    match inner.expr.as_ref() {
        Expr::Literal(text, _) if is_spelled => {
            let text = text.try_as_str().flatten()?;
            Some((text, outer.expr.as_ref()))
        }
        _ => None,
    }
}

fn exact(part: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match part {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if divides(op) => {
            divided(left, op, right, schema)
        }
        Expr::BinaryExpr(BinaryExpr {
            mut left,
            op,
            mut right,
        }) => {
            let is_changed = compared([left.as_mut(), right.as_mut()], schema);
            let whole = Expr::BinaryExpr(BinaryExpr { left, op, right });
            Transformed::new_transformed(whole, is_changed)
        }
        Expr::Between(mut between) => {
            let Between {
                expr, low, high, ..
            } = &mut between;
            let is_changed = compared([expr.as_mut(), low.as_mut(), high.as_mut()], schema);
            Transformed::new_transformed(Expr::Between(between), is_changed)
        }
        Expr::InList(mut list) => {
            let InList { expr, list: of, .. } = &mut list;
            let is_changed = compared(std::iter::once(expr.as_mut()).chain(of), schema);
            Transformed::new_transformed(Expr::InList(list), is_changed)
        }
        part => Transformed::no(part),
    }
}

/// Makes decimals of long numbers that are compared with integers and decimals, and floats of the others.
fn compared<'e>(exprs: impl IntoIterator<Item = &'e mut Expr>, schema: &DFSchema) -> bool {
    let exprs: Vec<&mut Expr> = exprs.into_iter().collect();
    if !exprs.iter().any(|expr| long(expr).is_some()) {
        return false;
    }
    let is_exact = exprs
        .iter()
        .all(|expr| long(expr).is_some() || is_numeric(expr, schema));
    for expr in exprs {
        let Some((text, decimal)) = long(expr) else {
            continue;
        };
        if is_exact {
            *expr = decimal.clone();
        } else if let Ok(float) = text.parse::<f64>() {
            *expr = lit(float);
        }
    }
    true
}

/// Whether a value is of a type that is exact, or would be one in `PostgreSQL`: a number with a point by itself, and what is
/// calculated of such numbers and integers.
pub(crate) fn is_numeric(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(value)), _) => value.is_finite(),
        Expr::Negative(inner) => is_numeric(inner, schema),
        Expr::Alias(alias) => is_numeric(&alias.expr, schema),
        Expr::BinaryExpr(BinaryExpr {
            left,
            op:
                Operator::Plus
                | Operator::Minus
                | Operator::Multiply
                | Operator::Divide
                | Operator::Modulo,
            right,
        }) => is_numeric(left, schema) && is_numeric(right, schema),
        Expr::ScalarFunction(call) if is_division(&call.func) => true,
        Expr::ScalarFunction(call) if call.func.name() == "abs" => {
            call.args.iter().all(|arg| is_numeric(arg, schema))
        }
        expr => expr
            .get_type(schema)
            .is_ok_and(|kind| kind.is_integer() || kind.is_decimal()),
    }
}

fn is_float(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|kind| kind.is_floating())
}

/// A division of floats that would be `numeric`, which fails where the divisor is zero.
fn divided(
    left: Box<Expr>,
    op: Operator,
    right: Box<Expr>,
    schema: &DFSchema,
) -> Transformed<Expr> {
    let is_sure = matches!(
        right.as_ref(),
        Expr::Literal(ScalarValue::Float64(Some(divisor)), _) if *divisor != 0.0
    ) || matches!(
        right.as_ref(),
        Expr::Literal(ScalarValue::Int64(Some(divisor)), _) if *divisor != 0
    );
    let is_decimal = |expr: &Expr| expr.get_type(schema).is_ok_and(|kind| kind.is_decimal());
    let is_whole = |expr: &Expr| expr.get_type(schema).is_ok_and(|kind| kind.is_integer());
    let is_exact = |expr: &Expr| is_decimal(expr) || is_whole(expr);
    if op == Operator::Divide
        && (is_decimal(&left) || is_decimal(&right))
        && (is_exact(&left) && is_exact(&right))
    {
        let function = Arc::clone(&quotient::QUOTIENT);
        let call = ScalarFunction::new_udf(function, vec![*left, *right]);
        return Transformed::yes(Expr::ScalarFunction(call));
    }
    let is_ours = !is_sure
        && (is_float(&left, schema) || is_float(&right, schema))
        && is_numeric(&left, schema)
        && is_numeric(&right, schema);
    if !is_ours {
        let same = Expr::BinaryExpr(BinaryExpr { left, op, right });
        return Transformed::no(same);
    }
    let [divide, modulo] = &*DIVISIONS;
    let function = if op == Operator::Divide {
        divide
    } else {
        modulo
    };
    let float = |expr: Box<Expr>| Expr::Cast(Cast::new(expr, DataType::Float64));
    let args = vec![float(left), float(right)];
    let call = ScalarFunction::new_udf(Arc::clone(function), args);
    Transformed::yes(Expr::ScalarFunction(call))
}

static DIVISIONS: LazyLock<[Arc<ScalarUDF>; 2]> = LazyLock::new(|| {
    [false, true].map(|is_modulo| {
        let signature = Signature::exact(
            vec![DataType::Float64, DataType::Float64],
            Volatility::Immutable,
        );
        Arc::new(ScalarUDF::new_from_impl(Division {
            is_modulo,
            signature,
        }))
    })
});

fn is_division(function: &ScalarUDF) -> bool {
    function.inner().downcast_ref::<Division>().is_some()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Division {
    is_modulo: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Division {
    fn name(&self) -> &'static str {
        if self.is_modulo {
            "numeric_modulo"
        } else {
            "numeric_divide"
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = args.args.as_slice() else {
            return internal_err!("{} has two arguments", self.name());
        };
        let is_scalar = [left, right]
            .iter()
            .all(|it| matches!(it, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let (left, right) = (left.to_array(rows)?, right.to_array(rows)?);
        let pairs = left.as_primitive::<Float64Type>().iter();
        let mut pairs = pairs.zip(right.as_primitive::<Float64Type>().iter());
        if pairs.any(|pair| matches!(pair, (Some(_), Some(divisor)) if divisor == 0.0)) {
            return Err(ArrowError::DivideByZero.into());
        }
        let divided = if self.is_modulo {
            numeric::rem(&left, &right)?
        } else {
            numeric::div(&left, &right)?
        };
        Ok(if is_scalar {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&divided, 0)?)
        } else {
            ColumnarValue::Array(divided)
        })
    }
}
