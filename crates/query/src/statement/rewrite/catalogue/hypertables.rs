//! Functions of FROM about hypertables as subselects: chunks, sizes, what compression saved.
//!
//! Does: write the subselect over `timescaledb_information.chunk_sizes`. Does not: look at what is there.

use datafusion::sql::sqlparser::ast::{self, DataType, Expr, FunctionArg, FunctionArgExpr, Value};

use crate::tables::pg_catalog::{HYPERTABLE, HYPERTABLE_BY_CLOCK};

/// The subselect of a call, and what its one column is called; `None` = it is another function, or its arguments are none that
/// it has.
pub(super) fn rows_of(name: &str, args: &[FunctionArg], column: &str) -> Option<String> {
    let places: &[&str] = match name {
        "show_chunks" => &[
            "relation",
            "older_than",
            "newer_than",
            "created_before",
            "created_after",
        ],
        "chunks_detailed_size"
        | "hypertable_detailed_size"
        | "hypertable_compression_stats"
        | "chunk_compression_stats"
        | "hypertable_columnstore_stats"
        | "chunk_columnstore_stats" => &["hypertable"],
        _ => return None,
    };
    let args = named(args, places)?;
    let argument = |name: &str| {
        let mut found = args.iter();
        found
            .find(|(known, _)| known == name)
            .map(|(_, value)| *value)
    };
    let relation = argument(places.first()?)?;
    let bounds = [argument("older_than"), argument("newer_than")];
    let lookup = if bounds.into_iter().flatten().any(is_of_clock) {
        HYPERTABLE_BY_CLOCK
    } else {
        HYPERTABLE
    };
    let from = format!(
        "FROM timescaledb_information.chunk_sizes WHERE hypertable_oid = {lookup}({relation})"
    );
    Some(match name {
        "show_chunks" => {
            if argument("created_before").is_some() || argument("created_after").is_some() {
                // The planner says that there is no such function with these arguments.
                return None;
            }
            let mut conditions = String::new();
            if let Some(bound) = argument("older_than") {
                conditions.push_str(&condition(bound, "range_end", "<="));
            }
            if let Some(bound) = argument("newer_than") {
                conditions.push_str(&condition(bound, "range_start", ">="));
            }
            format!(
                "SELECT chunk_schema || '.' || chunk_name AS {column} {from}{conditions} ORDER BY range_start, range_start_integer"
            )
        }
        "chunks_detailed_size" => format!(
            "SELECT chunk_schema, chunk_name, total_bytes AS table_bytes, 0::bigint AS index_bytes, 0::bigint AS toast_bytes, total_bytes, NULL::text AS node_name {from} ORDER BY range_start, range_start_integer"
        ),
        "hypertable_detailed_size" => format!(
            "SELECT hypertable_size({relation}) AS table_bytes, 0::bigint AS index_bytes, 0::bigint AS toast_bytes, hypertable_size({relation}) AS total_bytes, NULL::text AS node_name"
        ),
        "chunk_compression_stats" | "chunk_columnstore_stats" => format!(
            "SELECT chunk_schema, chunk_name, CASE WHEN is_compressed THEN 'Compressed' ELSE 'Uncompressed' END AS compression_status, {BEFORE}, {AFTER}, NULL::text AS node_name {from} ORDER BY range_start, range_start_integer",
        ),
        _ => format!(
            "SELECT count(*) AS total_chunks, count(*) FILTER (WHERE is_compressed) AS number_compressed_chunks, {}, {}, NULL::text AS node_name {from}",
            summed(BEFORE),
            summed(AFTER)
        ),
    })
}

/// Bytes of the chunk before, where it is compressed and that is known: everything is in the table.
const BEFORE: &str = "before_compression_bytes AS before_compression_table_bytes, CASE WHEN before_compression_bytes IS NULL THEN NULL ELSE 0::bigint END AS before_compression_index_bytes, CASE WHEN before_compression_bytes IS NULL THEN NULL ELSE 0::bigint END AS before_compression_toast_bytes, before_compression_bytes AS before_compression_total_bytes";
/// The same after it.
const AFTER: &str = "CASE WHEN is_compressed THEN compressed_bytes ELSE NULL END AS after_compression_table_bytes, CASE WHEN is_compressed THEN 0::bigint ELSE NULL END AS after_compression_index_bytes, CASE WHEN is_compressed THEN 0::bigint ELSE NULL END AS after_compression_toast_bytes, CASE WHEN is_compressed THEN compressed_bytes ELSE NULL END AS after_compression_total_bytes";

/// The sums of such columns.
fn summed(columns: &str) -> String {
    let summed = columns
        .split(", ")
        .map(|column| match column.split_once(" AS ") {
            Some((value, name)) => format!("sum({value}) AS {name}"),
            None => column.to_owned(),
        });
    summed.collect::<Vec<_>>().join(", ")
}

/// Arguments by their names; `None` = they are not those of the function.
fn named<'a>(args: &'a [FunctionArg], places: &[&str]) -> Option<Vec<(String, &'a Expr)>> {
    let mut named = Vec::new();
    for (at, arg) in args.iter().enumerate() {
        let (name, value) = match arg {
            FunctionArg::Unnamed(value) => ((*places.get(at)?).to_owned(), value),
            FunctionArg::Named { name, arg, .. }
            | FunctionArg::ExprNamed {
                name: Expr::Identifier(name),
                arg,
                ..
            } => (name.value.to_lowercase(), arg),
            FunctionArg::ExprNamed { .. } => return None,
        };
        let FunctionArgExpr::Expr(value) = value else {
            return None;
        };
        if !places.contains(&name.as_str()) {
            return None;
        }
        let is_null = matches!(value, Expr::Value(value) if value.value == Value::Null);
        if !is_null {
            named.push((name, value));
        }
    }
    Some(named)
}

/// The condition that a bound is: an interval is counted back from now, a number is one of an integer time.
fn condition(bound: &Expr, column: &str, operator: &str) -> String {
    match bound {
        Expr::Value(value) if matches!(value.value, Value::Number(..)) => {
            format!(" AND {column}_integer {operator} {bound}")
        }
        Expr::UnaryOp { .. } => format!(" AND {column}_integer {operator} {bound}"),
        Expr::Cast { data_type, .. } if is_integer(data_type) => {
            format!(" AND {column}_integer {operator} {bound}")
        }
        Expr::Interval(_)
        | Expr::Cast {
            data_type: DataType::Interval { .. },
            ..
        } => format!(" AND {column} {operator} now() - {bound}"),
        Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)) => {
            format!(" AND {column} {operator} {bound}::timestamptz")
        }
        bound => format!(" AND {column} {operator} ({bound})"),
    }
}

/// Whether a bound is a length of time or a time.
fn is_of_clock(bound: &Expr) -> bool {
    match bound {
        Expr::Interval(_) | Expr::TypedString(_) => true,
        Expr::Cast { data_type, .. } => !is_integer(data_type),
        Expr::Value(value) => matches!(value.value, Value::SingleQuotedString(_)),
        _ => false,
    }
}

fn is_integer(of: &DataType) -> bool {
    let name = of.to_string().to_ascii_lowercase();
    [
        "bigint", "integer", "int", "smallint", "int8", "int4", "int2",
    ]
    .contains(&name.as_str())
}

/// `SELECT show_chunks('t')` as `SELECT * FROM show_chunks('t')`: its rows are those of the answer.
pub(super) fn open(query: &mut ast::Query) {
    let ast::SetExpr::Select(select) = query.body.as_mut() else {
        return;
    };
    let [ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. }] =
        select.projection.as_slice()
    else {
        return;
    };
    let Expr::Function(function) = expr else {
        return;
    };
    let is_chunks = function
        .name
        .to_string()
        .eq_ignore_ascii_case("show_chunks");
    if !is_chunks || !select.from.is_empty() {
        return;
    }
    let text = format!("SELECT * FROM {function}");
    let dialect = datafusion::sql::sqlparser::dialect::GenericDialect {};
    let parsed = datafusion::sql::sqlparser::parser::Parser::parse_sql(&dialect, &text);
    if let Some(ast::Statement::Query(parsed)) = parsed.ok().and_then(|mut it| it.pop())
        && let ast::SetExpr::Select(parsed) = *parsed.body
    {
        select.projection = parsed.projection;
        select.from = parsed.from;
    }
}
