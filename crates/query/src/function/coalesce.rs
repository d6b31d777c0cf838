//! `coalesce` of times and texts: a literal among its arguments is a time, as in `PostgreSQL`.
//!
//! Does: let the planner pass a text beside a time, which the library's refuses. Does not: read the text: `semantics::times` does so in
//! the session's zone, and refuses a text that is no literal.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

/// The function's name.
pub(crate) const COALESCE: &str = "coalesce";

/// Puts it in the place of the library's.
pub(super) fn register(session: &mut SessionState) -> Result<()> {
    let library = session.udf(COALESCE)?;
    session.register_udf(Arc::new(ScalarUDF::new_from_impl(Coalesce {
        library,
        signature: Signature::user_defined(Volatility::Immutable),
    })))?;
    Ok(())
}

/// Whether values of a type are times, days, clocks or lengths of time.
pub(crate) fn is_temporal(kind: &DataType) -> bool {
    kind.is_temporal()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Coalesce {
    library: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for Coalesce {
    fn name(&self) -> &str {
        self.library.name()
    }

    fn aliases(&self) -> &[String] {
        self.library.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.library.documentation()
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        if !given.iter().any(is_temporal) {
            return self.library.inner().coerce_types(given);
        }
        // Texts take the type of the rest: they are literals, or refused later.
        let texts: Vec<bool> = given.iter().map(DataType::is_string).collect();
        let rest = given.iter().zip(&texts).filter(|(_, is_text)| !**is_text);
        let rest: Vec<DataType> = rest.map(|(kind, _)| kind.clone()).collect();
        let mut rest = self.library.inner().coerce_types(&rest)?.into_iter();
        let common = rest.clone().find(is_temporal).unwrap_or(DataType::Null);
        let of = |is_text: bool| {
            if is_text {
                return common.clone();
            }
            rest.next().unwrap_or_else(|| common.clone())
        };
        Ok(texts.into_iter().map(of).collect())
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        self.library.return_type(given)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.library.return_field_from_args(args)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.library.simplify(args, info)
    }

    fn conditional_arguments<'a>(
        &self,
        args: &'a [Expr],
    ) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.library.conditional_arguments(args)
    }

    fn short_circuits(&self) -> bool {
        self.library.short_circuits()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.library.invoke_with_args(args)
    }
}
