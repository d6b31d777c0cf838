//! Go's names for the nodes of a tree, which some error texts of InfluxDB have.

use nilometer_influxql_syntax::ast::Expr;

/// What Go calls a node of the tree.
pub(crate) fn go_type(expr: &Expr) -> &'static str {
    match expr {
        Expr::Reference(_) => "*influxql.VarRef",
        Expr::Call(_) => "*influxql.Call",
        Expr::Distinct(_) => "*influxql.Distinct",
        Expr::Wildcard(_) => "*influxql.Wildcard",
        Expr::Regex(_) => "*influxql.RegexLiteral",
        Expr::Float(_) => "*influxql.NumberLiteral",
        Expr::Integer(_) => "*influxql.IntegerLiteral",
        Expr::Unsigned(_) => "*influxql.UnsignedLiteral",
        Expr::Boolean(_) => "*influxql.BooleanLiteral",
        Expr::Text(_) => "*influxql.StringLiteral",
        Expr::Duration(_) => "*influxql.DurationLiteral",
        Expr::Binary(..) => "*influxql.BinaryExpr",
        Expr::Paren(_) => "*influxql.ParenExpr",
    }
}
