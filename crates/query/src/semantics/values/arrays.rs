//! Arrays as `PostgreSQL` has them: casts between texts and arrays, operators, subscripts.
//!
//! Does: read a text as an array wherever the planner casts it to one, or where it stands beside one; plan `@>`, `<@`, `&&`, `||`,
//! subscripts and slices. Does not: carry them out (`function::arrays` does).

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr,
};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Cast, Expr, ExprSchemable, GetFieldAccess, LogicalPlan, ScalarUDF, cast, lit, when,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::sqlparser::ast::BinaryOperator;

use crate::function::arrays::{self, element_of};
use crate::semantics::with_names_kept;
use crate::walk::{ExprWalk, PlanWalk};

/// Plans operators and subscripts.
#[derive(Debug)]
pub(crate) struct ArrayOperators {
    contains: Arc<ScalarUDF>,
    overlaps: Arc<ScalarUDF>,
    slice: Arc<ScalarUDF>,
}

impl ArrayOperators {
    pub(crate) fn new() -> Self {
        Self {
            contains: arrays::contains(),
            overlaps: arrays::overlaps(),
            slice: arrays::slice(),
        }
    }
}

/// Whether an operator is one that arrays have, so that types are looked at.
fn is_of_arrays(op: &BinaryOperator) -> bool {
    use BinaryOperator as B;
    matches!(
        op,
        B::AtArrow
            | B::ArrowAt
            | B::PGOverlap
            | B::StringConcat
            | B::Eq
            | B::NotEq
            | B::Lt
            | B::LtEq
            | B::Gt
            | B::GtEq
    )
}

fn is_text(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Utf8(Some(_)), _))
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if value.is_null() && value.data_type().is_null())
}

/// A side's type if it is seen to be an array without looking through a chain of operators.
fn list_type(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    match expr {
        Expr::BinaryExpr(_) | Expr::Literal(ScalarValue::Utf8(_), _) => None,
        other => {
            let kind = other.get_type(schema).ok()?;
            element_of(&kind).is_some().then_some(kind)
        }
    }
}

impl ExprPlanner for ArrayOperators {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        if !is_of_arrays(&expr.op) {
            return Ok(PlannerResult::Original(expr));
        }
        let kinds = [&expr.left, &expr.right].map(|side| list_type(side, schema));
        let Some(kind) = kinds.iter().flatten().next().cloned() else {
            return Ok(PlannerResult::Original(expr));
        };
        let RawBinaryExpr { op, left, right } = expr;
        if op == BinaryOperator::StringConcat {
            // NULL beside an array is an array.
            if is_null(&right) {
                return Ok(PlannerResult::Planned(left));
            }
            if is_null(&left) {
                return Ok(PlannerResult::Planned(right));
            }
        }
        let typed = |side: Expr| {
            if is_text(&side) {
                cast(side, kind.clone())
            } else {
                side
            }
        };
        let (left, right) = (typed(left), typed(right));
        let (function, sides) = match op {
            BinaryOperator::AtArrow => (&self.contains, vec![left, right]),
            BinaryOperator::ArrowAt => (&self.contains, vec![right, left]),
            BinaryOperator::PGOverlap => (&self.overlaps, vec![left, right]),
            op => return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right })),
        };
        let call = ScalarFunction::new_udf(Arc::clone(function), sides);
        Ok(PlannerResult::Planned(Expr::ScalarFunction(call)))
    }

    fn plan_field_access(
        &self,
        expr: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let RawFieldAccessExpr { field_access, expr } = expr;
        let is_list = list_type(&expr, schema).is_some();
        let field_access = match field_access {
            GetFieldAccess::ListIndex { key } if is_list => {
                let is_plain = matches!(key.as_ref(), Expr::Literal(ScalarValue::Int64(Some(at)), _) if *at > 0);
                let key = if is_plain {
                    key
                } else {
                    // There is nothing before the first, and no counting from the end.
                    Box::new(when(key.as_ref().clone().gt(lit(0i64)), *key).end()?)
                };
                GetFieldAccess::ListIndex { key }
            }
            GetFieldAccess::ListRange {
                start,
                stop,
                stride,
            } if is_list && *stride == lit(1i64) => {
                let call =
                    ScalarFunction::new_udf(Arc::clone(&self.slice), vec![expr, *start, *stop]);
                return Ok(PlannerResult::Planned(Expr::ScalarFunction(call)));
            }
            other => other,
        };
        Ok(PlannerResult::Original(RawFieldAccessExpr {
            field_access,
            expr,
        }))
    }
}

/// Casts between texts and arrays, for when types are settled.
#[derive(Debug)]
pub(crate) struct TextAsArray;

impl AnalyzerRule for TextAsArray {
    fn name(&self) -> &'static str {
        "text_as_array"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_such_casts(&plan)? {
            return Ok(plan);
        }
        let read = plan.replace_up(&mut |node| {
            let schema = merge_schema(&node.inputs());
            let names = NamePreserver::new(&node);
            node.replace_expressions(&mut |expr| {
                with_names_kept(&names, expr, |expr| {
                    expr.replace_up(&mut |inner| Ok(read(inner, &schema)))
                })
            })
        })?;
        Ok(read.data)
    }
}

fn read(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let Expr::Cast(Cast { expr, field }) = expr else {
        return Transformed::no(expr);
    };
    let from = match expr.get_type(schema) {
        Ok(DataType::Dictionary(_, value)) => *value,
        Ok(kind) => kind,
        Err(_) => return Transformed::no(Expr::Cast(Cast { expr, field })),
    };
    let (function, value) = if element_of(field.data_type()).is_some() && from.is_string() {
        let value = cast(*expr, DataType::Utf8);
        (arrays::of_text(field.data_type().clone(), None), value)
    } else if element_of(&from).is_some() && *field.data_type() == DataType::Utf8 {
        (arrays::text(), *expr)
    } else {
        return Transformed::no(Expr::Cast(Cast { expr, field }));
    };
    let call = ScalarFunction::new_udf(function, vec![value]);
    Transformed::yes(Expr::ScalarFunction(call))
}

fn has_such_casts(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.walk(&mut |node| {
        let has_lists = |node: &LogicalPlan| {
            let inputs = node.inputs();
            let mut fields = inputs.iter().flat_map(|input| input.schema().fields());
            fields.any(|field| element_of(field.data_type()).is_some())
        };
        let mut texts = false;
        node.walk_expressions(&mut |expr| {
            found |= expr.has(&mut |inner| {
                Ok(match inner {
                    Expr::Cast(cast) if *cast.field.data_type() == DataType::Utf8 => {
                        texts = true;
                        false
                    }
                    Expr::Cast(cast) => element_of(cast.field.data_type()).is_some(),
                    // What makes arrays, so that a cast to text beside it may be one of an array.
                    Expr::ScalarFunction(call) => call.name().contains("array"),
                    Expr::AggregateFunction(call) => call.func.name().contains("array"),
                    Expr::Literal(value, _) => element_of(&value.data_type()).is_some(),
                    _ => false,
                })
            })?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        found |= texts && has_lists(node);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}
