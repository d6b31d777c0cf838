//! `(SELECT value FROM ... WHERE inner = outer)`: the one row that there is for each outer row, or NULL.
//!
//! Does: ask for a value and how many rows there are, and refuse more than one where the outer row is answered. Does not: refuse
//! rows that no outer row asks for, as an aggregate would.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::functions::core::expr_fn::named_struct;
use datafusion::functions_aggregate::count::count;
use datafusion::functions_aggregate::expr_fn::first_value;
use datafusion::logical_expr::{
    Aggregate, ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Subquery, Volatility, lit,
};
use datafusion::prelude::ident;

use super::{has_subquery, selected};

const VALUE: &str = "__value";
const ROWS: &str = "__rows";

/// The subquery with the number of its rows beside its value; `None` = it is an aggregate, or of another form.
pub(super) fn counted(subquery: &Subquery) -> Result<Option<Subquery>> {
    let Some((exprs, rows)) = selected(&subquery.subquery)? else {
        return Ok(None);
    };
    let [value] = exprs.as_slice() else {
        return Ok(None);
    };
    if !matches!(rows, LogicalPlan::Filter(_)) || has_subquery(value)? {
        return Ok(None);
    }
    let aggregates = vec![
        first_value(value.clone(), Vec::new()).alias(VALUE),
        count(lit(1i64)).alias(ROWS),
    ];
    let rows = Aggregate::try_new(Arc::new(rows.clone()), Vec::new(), aggregates)?;
    let both = named_struct(vec![lit(VALUE), ident(VALUE), lit(ROWS), ident(ROWS)]);
    let plan = LogicalPlanBuilder::from(LogicalPlan::Aggregate(rows))
        .project(vec![both.alias(VALUE)])?
        .build()?;
    Ok(Some(Subquery {
        outer_ref_columns: plan.all_out_ref_exprs(),
        subquery: Arc::new(plan),
        spans: subquery.spans.clone(),
    }))
}

/// The value of one that was counted.
pub(super) fn value(counted: Expr) -> Expr {
    static ONLY: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Arc::new(ScalarUDF::new_from_impl(Only {
            signature: Signature::any(1, Volatility::Immutable),
        }))
    });
    ONLY.call(vec![counted])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Only {
    signature: Signature,
}

impl ScalarUDFImpl for Only {
    fn name(&self) -> &'static str {
        "__only_row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [DataType::Struct(fields)] if fields.len() == 2 => Ok(fields
                .first()
                .map_or(DataType::Null, |it| it.data_type().clone())),
            _ => plan_err!("a value and the number of its rows are expected"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let [both] = args.args.as_slice() else {
            return plan_err!("a value and the number of its rows are expected");
        };
        let both = both.to_array(rows)?;
        let both = both.as_struct();
        let counts = both.column(1).as_primitive::<Int64Type>();
        for row in 0..both.len() {
            if both.is_valid(row) && counts.is_valid(row) && counts.value(row) > 1 {
                return exec_err!("more than one row returned by a subquery used as an expression");
            }
        }
        // A row without any has no value either.
        let value = both.column(0);
        let value = match both.nulls() {
            None => Arc::clone(value),
            Some(nulls) => {
                let is_null = arrow::array::BooleanArray::new(!nulls.inner(), None);
                arrow::compute::nullif(value, &is_null)?
            }
        };
        Ok(ColumnarValue::Array(value))
    }
}
