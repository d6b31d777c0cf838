//! Casts that an assignment makes by itself, by PostgreSQL's rules: a column becomes another type without USING only by one of these.
//!
//! Does: say whether there is one from a type to another, and what a default becomes. Does not: cast (the planner does, and may do more
//! where a statement asks).

use arrow::datatypes::{DataType, Field};
use datafusion::sql::sqlparser::ast;
use nilometer_engine::{
    Check, ENUM_TYPE, Element, LogicalType, PhysicalType, SQL_TYPE, enum_of_check,
};
use nilometer_service::define::{DefineError, Numbered, NumberedBy};

use super::altered::without_place;
use super::query_of;
use crate::error::Error;
use crate::statement::name::quoted;
use crate::write::writing::Writing;

/// Types among which the same casts are there.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Family {
    Number,
    Text,
    Bool,
    Bytes,
    Date,
    Timestamp,
    TimestampTz,
    Time,
    Interval,
    Json,
    Uuid,
    Enumeration(String),
    Array(Box<Family>),
    /// NULL, or something that is not kept in columns: whoever casts says whether that can be.
    Unknown,
}

impl Family {
    /// Of a column or an expression.
    fn of_field(field: &Field) -> Self {
        match field.metadata().get(SQL_TYPE) {
            Some(named) => Self::named(named).unwrap_or_else(|| Self::of_arrow(field.data_type())),
            None => Self::of_arrow(field.data_type()),
        }
    }

    /// Of a type that a column is declared as.
    fn of_type(kind: PhysicalType, of: Option<LogicalType>) -> Self {
        use LogicalType as L;
        match (of, kind) {
            (Some(of), _) => match of {
                L::SmallInt | L::Integer | L::BigInt | L::Real | L::Numeric { .. } => Self::Number,
                L::Varchar(_) | L::Char(_) => Self::Text,
                L::Uuid => Self::Uuid,
                L::Date => Self::Date,
                L::Timestamp => Self::Timestamp,
                L::TimestampTz => Self::TimestampTz,
                L::Time => Self::Time,
                L::Interval => Self::Interval,
                L::Json | L::Jsonb => Self::Json,
                L::Array(of) => Self::Array(Box::new(Self::of_element(of))),
            },
            (None, PhysicalType::I64 | PhysicalType::U64 | PhysicalType::F64) => Self::Number,
            (None, PhysicalType::Bool) => Self::Bool,
            (None, PhysicalType::Text) => Self::Text,
            (None, PhysicalType::Bytes) => Self::Bytes,
        }
    }

    fn of_element(of: Element) -> Self {
        Self::named(&of.to_string()).unwrap_or(Self::Unknown)
    }

    /// Of a type as SQL names it.
    fn named(name: &str) -> Option<Self> {
        if let Some(of) = name.strip_prefix(ENUM_TYPE) {
            return Some(Self::Enumeration(of.to_owned()));
        }
        if let Some(element) = name.strip_suffix("[]") {
            return Some(Self::Array(Box::new(Self::named(element)?)));
        }
        let bare = name.split('(').next().unwrap_or_default().trim();
        Some(match bare {
            "smallint" | "integer" | "bigint" | "real" | "double precision" | "numeric"
            | "bigint unsigned" => Self::Number,
            "text" | "varchar" | "char" | "character varying" | "character" => Self::Text,
            "boolean" => Self::Bool,
            "bytea" => Self::Bytes,
            "date" => Self::Date,
            "timestamp" | "timestamp without time zone" => Self::Timestamp,
            "timestamptz" | "timestamp with time zone" => Self::TimestampTz,
            "time" | "time without time zone" => Self::Time,
            "interval" => Self::Interval,
            "json" | "jsonb" => Self::Json,
            "uuid" => Self::Uuid,
            _ => return None,
        })
    }

    fn of_arrow(kind: &DataType) -> Self {
        match kind {
            DataType::Boolean => Self::Bool,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text,
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => Self::Bytes,
            DataType::Date32 | DataType::Date64 => Self::Date,
            DataType::Timestamp(_, None) => Self::Timestamp,
            DataType::Timestamp(_, Some(_)) => Self::TimestampTz,
            DataType::Time32(_) | DataType::Time64(_) => Self::Time,
            DataType::Interval(_) | DataType::Duration(_) => Self::Interval,
            DataType::Dictionary(_, values) => Self::of_arrow(values),
            DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _) => {
                Self::Array(Box::new(Self::of_field(of)))
            }
            other if other.is_numeric() => Self::Number,
            _ => Self::Unknown,
        }
    }

    /// Whether values of one become values of another where they are assigned, as `pg_cast` says; every type becomes text.
    fn is_assigned_to(&self, to: &Self) -> bool {
        use Family as F;
        if let (F::Array(from), F::Array(to)) = (self, to) {
            return from.is_assigned_to(to);
        }
        self == to
            || matches!(
                (self, to),
                (F::Unknown, _)
                    | (_, F::Unknown | F::Text)
                    | (F::Date, F::Timestamp | F::TimestampTz)
                    | (F::Timestamp, F::TimestampTz | F::Date | F::Time)
                    | (F::TimestampTz, F::Timestamp | F::Date | F::Time)
                    | (F::Time, F::Interval)
                    | (F::Interval, F::Time)
            )
    }
}

/// The type that a column becomes.
pub(super) struct Becomes {
    family: Family,
    /// As SQL writes it.
    name: String,
    is_integer: bool,
}

impl Becomes {
    /// Of a type that a column is declared as, with the CHECK that makes it one of an enumeration.
    pub(super) fn of(
        (kind, of): (PhysicalType, Option<LogicalType>),
        label: Option<&Check>,
    ) -> Self {
        match label.and_then(enum_of_check) {
            Some((name, _)) => Self {
                family: Family::Enumeration(name.clone()),
                name,
                is_integer: false,
            },
            None => Self {
                family: Family::of_type(kind, of),
                name: name_of(kind, of),
                is_integer: of.map_or(kind == PhysicalType::I64, LogicalType::is_integer),
            },
        }
    }
}

/// Refuses a type that values of a column do not become by themselves, where the statement says no `USING`, and one that its default
/// does not become, of which a statement can say nothing but to drop it first. Returns the default as one of the new type; `None` = it
/// stays as it is written.
pub(super) async fn assigned(
    writing: &Writing<'_>,
    (column, default): (&Field, Option<&str>),
    to: &Becomes,
    cast: Option<&str>,
) -> Result<Option<String>, Error> {
    let name = column.name();
    let from = Family::of_field(column);
    let refused = |reason: String| Err(Error::of_name(DefineError::NotCast { reason }, None));
    if let Some(cast) = cast
        && !from.is_assigned_to(&to.family)
    {
        return refused(format!(
            "column \"{name}\" cannot be cast automatically to type {}; say how: USING {cast}",
            to.name
        ));
    }
    let Some(default) = default else {
        return Ok(None);
    };
    let not_cast = || {
        refused(format!(
            "default for column \"{name}\" cannot be cast automatically to type {}; drop it in the same statement: ALTER COLUMN {} DROP DEFAULT",
            to.name,
            quoted(name)
        ))
    };
    if let Some(numbered) = Numbered::of(default) {
        if numbered.how != NumberedBy::Default && !to.is_integer {
            let reason = format!(
                "the identity column \"{name}\" is smallint, integer or bigint; DROP IDENTITY first"
            );
            return Err(Error::of_name(DefineError::SequenceOption { reason }, None));
        }
        return match to.family {
            Family::Number => Ok(None),
            _ => not_cast(),
        };
    }
    let (made, value) = of_default(writing, default, column).await?;
    if !made.is_assigned_to(&to.family) {
        return not_cast();
    }
    let is_text_already = matches!(made, Family::Enumeration(_)) && to.family == Family::Text;
    let stays = value == default && (made == to.family || is_text_already);
    Ok((!stays).then(|| format!("CAST(({value}) AS {})", to.name)))
}

/// The type of a default, and its expression. A text in quotes has the type of its column, which it is read as.
async fn of_default(
    writing: &Writing<'_>,
    default: &str,
    column: &Field,
) -> Result<(Family, String), Error> {
    let query = query_of(&format!("SELECT {default}"), writing)?;
    if let ast::SetExpr::Select(select) = query.body.as_ref()
        && let [ast::SelectItem::UnnamedExpr(ast::Expr::Value(literal))] =
            select.projection.as_slice()
        && matches!(literal.value, ast::Value::SingleQuotedString(_))
    {
        let family = Family::of_field(column);
        let value = match (&family, column.metadata().get(SQL_TYPE)) {
            (Family::Text | Family::Enumeration(_), _) => default.to_owned(),
            (_, Some(named)) => format!("CAST({default} AS {named})"),
            (_, None) => format!("CAST({default} AS {})", name_of_arrow(column.data_type())),
        };
        return Ok((family, value));
    }
    let planned = writing.plan(&writing.reading, query).await;
    let (_, plan) = planned.map_err(without_place)?;
    let field = plan.schema().fields().first();
    let family = field.map_or(Family::Unknown, |field| Family::of_field(field));
    Ok((family, default.to_owned()))
}

fn name_of_arrow(kind: &DataType) -> &'static str {
    match kind {
        DataType::Boolean => "boolean",
        DataType::Float64 => "double precision",
        DataType::Binary => "bytea",
        DataType::UInt64 => "bigint unsigned",
        DataType::Date32 => "date",
        DataType::Timestamp(_, None) => "timestamp",
        DataType::Timestamp(_, Some(_)) => "timestamptz",
        _ => "bigint",
    }
}

/// A type as an error names it.
fn name_of(kind: PhysicalType, of: Option<LogicalType>) -> String {
    match (of, kind) {
        (Some(of), _) => of.to_string(),
        (None, PhysicalType::I64) => "bigint".to_owned(),
        (None, PhysicalType::U64) => "bigint unsigned".to_owned(),
        (None, PhysicalType::F64) => "double precision".to_owned(),
        (None, PhysicalType::Bool) => "boolean".to_owned(),
        (None, PhysicalType::Text) => "text".to_owned(),
        (None, PhysicalType::Bytes) => "bytea".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Casts of PostgreSQL 15: `SELECT castsource::regtype, casttarget::regtype FROM pg_cast WHERE castcontext IN ('a', 'i')`, of types
    /// that are kept here; one type of each family. Casts to text go by what types write, which PostgreSQL allows in assignments.
    #[test]
    fn a_type_becomes_another_by_itself_where_postgresql_assigns_it() {
        let all = [
            ("bigint", ""),
            ("boolean", ""),
            ("bytea", ""),
            ("date", "timestamp timestamptz"),
            ("timestamp", "timestamptz date time"),
            ("timestamptz", "timestamp date time"),
            ("time", "interval"),
            ("interval", "time"),
            ("jsonb", ""),
            ("uuid", ""),
            ("text", ""),
            ("enum mood", ""),
            ("bigint[]", "text[]"),
            ("text[]", ""),
        ];
        for (from, others) in all {
            for (to, _) in all {
                let is_there = to == from || to == "text" || others.split(' ').any(|it| it == to);
                let families = (Family::named(from).unwrap(), Family::named(to).unwrap());
                assert_eq!(
                    families.0.is_assigned_to(&families.1),
                    is_there,
                    "{from} to {to}"
                );
            }
        }
    }
}
