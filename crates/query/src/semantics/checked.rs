//! Checked integer arithmetic: `+`, `-`, `*` and negation end with an error on overflow, as in `PostgreSQL`.
//!
//! `DataFusion` 55.2 has operators that do so, and no setting for the planner to take them; its own wrap around.
//!
//! Does: call functions in their place, of constants and signs before the planner's rules calculate them, of the rest when all
//! rules are done. Those rules take `-` for `~`: they leave out two of them, which hides that one fails, and take `-(a & b)` for
//! `-a | -b`. Does not: touch an operator before types are settled; then both sides are of one type, that of the result.

pub(crate) mod filtered;

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, LazyLock};

use arrow::compute::kernels::numeric;
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::{BinaryExpr, Case, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, lit,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr_common::datum::apply;

use super::with_names_kept;
use crate::walk::{ExprWalk, PlanWalk};

/// The rule for constants and for what is calculated in CASE. It comes when types are settled.
#[derive(Debug)]
pub(crate) struct CheckIntegers;

impl AnalyzerRule for CheckIntegers {
    fn name(&self) -> &'static str {
        "check_integers"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        if !calculates(&plan)? {
            return Ok(plan);
        }
        rewritten(plan, constants)
    }
}

/// The plan with checked operators, when no rule is to look at it any more: the type of a chain of calls takes long to find.
pub(crate) fn settle(plan: Cow<'_, LogicalPlan>) -> Result<Cow<'_, LogicalPlan>> {
    Ok(if calculates(&plan)? {
        Cow::Owned(rewritten(plan.into_owned(), all)?)
    } else {
        plan
    })
}

fn rewritten(
    plan: LogicalPlan,
    step: fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<LogicalPlan> {
    let plan = plan.replace_up(&mut |node| {
        if matches!(node, LogicalPlan::TableScan(_)) {
            return Ok(Transformed::no(node));
        }
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        node.replace_expressions(&mut |expr| {
            with_names_kept(&names, expr, |expr| {
                expr.replace_down(&mut |part| step(part, &schema))
            })
        })
    })?;
    Ok(plan.data)
}

/// Most statements calculate nothing, and looking is cheaper than taking them apart.
fn calculates(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.walk(&mut |node| {
        if matches!(node, LogicalPlan::TableScan(_)) {
            return Ok(TreeNodeRecursion::Continue);
        }
        node.walk_expressions(&mut |expr| {
            found = found
                || expr.has(&mut |inner| {
                    Ok(match inner {
                        Expr::BinaryExpr(binary) => Sign::of(binary.op).is_some(),
                        Expr::Negative(_) => true,
                        Expr::Case(case) => case.expr.is_none() && guards(case),
                        _ => false,
                    })
                })?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}

/// Checks what the planner's rules would calculate.
fn constants(part: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match part {
        Expr::BinaryExpr(ref binary)
            if Sign::of(binary.op).is_some()
                && !part.any_column_refs()
                && !part.contains_outer() =>
        {
            all(part, schema)
        }
        Expr::Negative(value) => Ok(negative(value, schema)),
        // The planner would make AND and OR of it, which do not keep a branch from being calculated.
        Expr::Case(mut case)
            if case.expr.is_none() && guards(&case) && is_condition(&case, schema) =>
        {
            case.expr = Some(Box::new(lit(true)));
            Ok(Transformed::yes(Expr::Case(case)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Checks a chain of operators, and what stands in it.
fn all(part: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match part {
        Expr::BinaryExpr(ref binary) if Sign::of(binary.op).is_some() => {
            let checked = checked(part, schema, OperandKind::Unknown)?;
            Ok(Transformed::new(checked, true, TreeNodeRecursion::Jump))
        }
        Expr::Negative(value) => Ok(negative(value, schema)),
        other => Ok(Transformed::no(other)),
    }
}

/// The sign of an integer; of what else has one, a float or an interval, it stays.
fn negative(value: Box<Expr>, schema: &DFSchema) -> Transformed<Expr> {
    if !value
        .get_type(schema)
        .is_ok_and(|kind| kind.is_signed_integer())
    {
        return Transformed::no(Expr::Negative(value));
    }
    let call = ScalarFunction::new_udf(Arc::clone(&NEGATE), vec![*value]);
    Transformed::yes(Expr::ScalarFunction(call))
}

/// What is known of the operands of a chain of operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OperandKind {
    Unknown,
    Integers,
    Others,
}

fn checked(expr: Expr, schema: &DFSchema, kind: OperandKind) -> Result<Expr> {
    let (sign, binary) = match expr {
        Expr::BinaryExpr(binary) => match Sign::of(binary.op) {
            Some(sign) => (sign, binary),
            None => return inside(Expr::BinaryExpr(binary), schema),
        },
        other => return inside(other, schema),
    };
    let kind = match kind {
        OperandKind::Unknown => match (binary.left.get_type(schema), binary.right.get_type(schema))
        {
            (Ok(left), Ok(right)) if left == right && left.is_integer() => OperandKind::Integers,
            (Ok(left), Ok(right)) if left == right => OperandKind::Others,
            _ => OperandKind::Unknown,
        },
        known => known,
    };
    let left = checked(*binary.left, schema, kind)?;
    let right = checked(*binary.right, schema, kind)?;
    Ok(match kind {
        OperandKind::Integers => {
            Expr::ScalarFunction(ScalarFunction::new_udf(sign.function(), vec![left, right]))
        }
        OperandKind::Unknown | OperandKind::Others => {
            Expr::BinaryExpr(BinaryExpr::new(Box::new(left), binary.op, Box::new(right)))
        }
    })
}

fn inside(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    Ok(expr.replace_down(&mut |part| all(part, schema))?.data)
}

/// Whether a branch calculates what can fail.
fn guards(case: &Case) -> bool {
    let fails = |expr: &Expr| {
        expr.has(&mut |part| {
            Ok(match part {
                Expr::BinaryExpr(binary) => {
                    Sign::of(binary.op).is_some()
                        || matches!(binary.op, Operator::Divide | Operator::Modulo)
                }
                Expr::ScalarFunction(_) | Expr::Cast(_) | Expr::Negative(_) => true,
                _ => false,
            })
        })
        .unwrap_or(true)
    };
    let branches = case.when_then_expr.iter().map(|(_, then)| then.as_ref());
    branches.chain(case.else_expr.as_deref()).any(fails)
}

fn is_condition(case: &Case, schema: &DFSchema) -> bool {
    let first = case.when_then_expr.first();
    first.is_some_and(|(_, then)| matches!(then.get_type(schema), Ok(DataType::Boolean)))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Sign {
    Plus,
    Minus,
    Times,
}

static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 3]> = LazyLock::new(|| {
    [Sign::Plus, Sign::Minus, Sign::Times].map(|sign| {
        let signature = Signature::any(2, Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Checked { sign, signature }))
    })
});

impl Sign {
    fn of(op: Operator) -> Option<Self> {
        match op {
            Operator::Plus => Some(Self::Plus),
            Operator::Minus => Some(Self::Minus),
            Operator::Multiply => Some(Self::Times),
            _ => None,
        }
    }

    fn function(self) -> Arc<ScalarUDF> {
        let [plus, minus, times] = &*FUNCTIONS;
        Arc::clone(match self {
            Self::Plus => plus,
            Self::Minus => minus,
            Self::Times => times,
        })
    }
}

impl fmt::Display for Sign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plus => "+",
            Self::Minus => "-",
            Self::Times => "*",
        })
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    sign: Sign,
    signature: Signature,
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &'static str {
        match self.sign {
            Sign::Plus => "checked_add",
            Sign::Minus => "checked_subtract",
            Sign::Times => "checked_multiply",
        }
    }

    /// As the operator is shown.
    fn display_name(&self, args: &[Expr]) -> Result<String> {
        let [left, right] = args else {
            return internal_err!("{} has two arguments", self.name());
        };
        Ok(format!("{left} {} {right}", self.sign))
    }

    /// As the operator is called, so that an expression finds its column again.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let [left, right] = args else {
            return internal_err!("{} has two arguments", self.name());
        };
        let (left, right) = (left.schema_name(), right.schema_name());
        Ok(format!("{left} {} {right}", self.sign))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [left, right] if left == right && left.is_integer() => Ok(left.clone()),
            _ => internal_err!("{} has two integers of one type", self.name()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = args.args.as_slice() else {
            return internal_err!("{} has two arguments", self.name());
        };
        match self.sign {
            Sign::Plus => apply(left, right, numeric::add),
            Sign::Minus => apply(left, right, numeric::sub),
            Sign::Times => apply(left, right, numeric::mul),
        }
    }
}

static NEGATE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(Negate { signature }))
});

#[derive(Debug, PartialEq, Eq, Hash)]
struct Negate {
    signature: Signature,
}

impl ScalarUDFImpl for Negate {
    fn name(&self) -> &'static str {
        "checked_negate"
    }

    /// As the sign is shown.
    fn display_name(&self, args: &[Expr]) -> Result<String> {
        let [value] = args else {
            return internal_err!("{} has one argument", self.name());
        };
        Ok(format!("(- {value})"))
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let [value] = args else {
            return internal_err!("{} has one argument", self.name());
        };
        Ok(format!("(- {})", value.schema_name()))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [kind] if kind.is_signed_integer() => Ok(kind.clone()),
            _ => internal_err!("{} has one integer", self.name()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else {
            return internal_err!("{} has one argument", self.name());
        };
        Ok(match value {
            ColumnarValue::Array(array) => ColumnarValue::Array(numeric::neg(array)?),
            ColumnarValue::Scalar(scalar) => {
                let array = numeric::neg(&scalar.to_array()?)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?)
            }
        })
    }
}
