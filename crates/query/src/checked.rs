//! `+`, `-` and `*` of integers that end with an error where the result does not fit, as in `PostgreSQL`.
//!
//! `DataFusion` 55.2 has operators that do so, and no setting for the planner to take them; its own wrap around.
//!
//! The rule comes when types are settled: both sides are of one type then, and that is the type of the result.

use std::fmt;
use std::sync::{Arc, LazyLock};

use arrow::compute::kernels::numeric;
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::logical_expr::expr::{Case, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, lit,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr_common::datum::apply;

/// The rule.
#[derive(Debug)]
pub(crate) struct CheckIntegers;

impl AnalyzerRule for CheckIntegers {
    fn name(&self) -> &'static str {
        "check_integers"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        // Most statements calculate with none, and looking is cheaper than taking them apart.
        if !calculates(&plan)? {
            return Ok(plan);
        }
        let checked = plan.transform_up_with_subqueries(|node| {
            let schema = merge_schema(&node.inputs());
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let checked = expr.transform_up(|inner| Ok(checked(inner, &schema)))?;
                Ok(checked.update_data(|expr| name.restore(expr)))
            })
        })?;
        Ok(checked.data)
    }
}

fn calculates(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found = found
                || expr.exists(|inner| {
                    Ok(match inner {
                        Expr::BinaryExpr(binary) => Sign::of(binary.op).is_some(),
                        Expr::Case(case) => case.expr.is_none() && guards(case),
                        _ => false,
                    })
                })?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}

fn checked(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::BinaryExpr(binary) => {
            let is_integer = |expr: &Expr| expr.get_type(schema).ok().filter(DataType::is_integer);
            let sign = Sign::of(binary.op);
            let kind = sign.and_then(|_| is_integer(&binary.left));
            match sign {
                Some(sign) if kind.is_some() && kind == is_integer(&binary.right) => {
                    let args = vec![*binary.left, *binary.right];
                    let call = ScalarFunction::new_udf(sign.function(), args);
                    Transformed::yes(Expr::ScalarFunction(call))
                }
                _ => Transformed::no(Expr::BinaryExpr(binary)),
            }
        }
        // The planner would make AND and OR of it, which do not keep a branch from being calculated.
        Expr::Case(mut case)
            if case.expr.is_none() && guards(&case) && is_condition(&case, schema) =>
        {
            case.expr = Some(Box::new(lit(true)));
            Transformed::yes(Expr::Case(case))
        }
        other => Transformed::no(other),
    }
}

/// Whether a branch calculates what can fail.
fn guards(case: &Case) -> bool {
    let fails = |expr: &Expr| {
        expr.exists(|part| {
            Ok(match part {
                Expr::BinaryExpr(binary) => {
                    matches!(binary.op, Operator::Divide | Operator::Modulo)
                }
                Expr::ScalarFunction(_) | Expr::Cast(_) => true,
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
