//! Types of columns as SQL writes them, and the six that are stored.

use arrow::datatypes::DataType as ArrowType;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, ExactNumberInfo, Expr, TimezoneInfo, Value,
};
use nilometer_engine::{ColumnKind, ColumnSource, PhysicalType, TableSchema};

/// What a type in a definition says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// A time with its zone: the type of the time column.
    Time,
    /// The word TAG in the place of a type.
    Tag,
    /// A value.
    Value(PhysicalType),
}

/// The type of the time column.
pub(crate) fn timestamp_type() -> DataType {
    DataType::Timestamp(None, TimezoneInfo::Tz)
}

/// NULL as an expression.
pub(crate) fn null() -> Expr {
    Expr::value(Value::Null)
}

/// A value as another type.
pub(crate) fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type,
        array: false,
        format: None,
    }
}

/// What a written type is here, or why it is nothing.
pub(crate) fn read(written: &DataType) -> Result<Written, String> {
    use DataType as T;
    let kind = match written {
        T::Timestamp(None | Some(9), _) => return Ok(Written::Time),
        T::Timestamp(..) => {
            return Err("times are kept in nanoseconds; write TIMESTAMPTZ".to_owned());
        }
        T::Custom(name, _) if name.to_string().eq_ignore_ascii_case("tag") => {
            return Ok(Written::Tag);
        }
        T::Custom(name, _) if is_one_of(&name.to_string(), &["int64", "long"]) => PhysicalType::I64,
        T::Custom(name, _) if is_one_of(&name.to_string(), &["uint64", "ulong"]) => {
            PhysicalType::U64
        }
        T::DoublePrecision
        | T::Double(ExactNumberInfo::None)
        | T::Float(ExactNumberInfo::None)
        | T::Float4
        | T::Float8
        | T::Float32
        | T::Float64
        | T::Real => PhysicalType::F64,
        T::TinyInt(None)
        | T::SmallInt(None)
        | T::Int2(None)
        | T::Int(None)
        | T::Int4(None)
        | T::Int8(None)
        | T::Int16
        | T::Int32
        | T::Int64
        | T::Integer(None)
        | T::BigInt(None) => PhysicalType::I64,
        T::BigIntUnsigned(None)
        | T::IntUnsigned(None)
        | T::IntegerUnsigned(None)
        | T::UBigInt
        | T::UInt8
        | T::UInt16
        | T::UInt32
        | T::UInt64 => PhysicalType::U64,
        T::Bool | T::Boolean => PhysicalType::Bool,
        T::Text | T::String(None) | T::Varchar(None) | T::CharacterVarying(None) => {
            PhysicalType::Text
        }
        T::Bytea | T::Blob(None) | T::Binary(None) | T::Varbinary(None) | T::Bytes(None) => {
            PhysicalType::Bytes
        }
        other => return Err(refusal(other)),
    };
    Ok(Written::Value(kind))
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|known| name.eq_ignore_ascii_case(known))
}

fn refusal(written: &DataType) -> String {
    use DataType as T;
    let remedy = match written {
        T::Varchar(_) | T::CharacterVarying(_) | T::Char(_) | T::Character(_) | T::String(_) => {
            "a length is not checked; write TEXT"
        }
        T::Numeric(_) | T::Decimal(_) | T::Dec(_) => "numbers are DOUBLE PRECISION or BIGINT",
        T::Date | T::Time(..) | T::Datetime(_) | T::Interval { .. } => {
            "the column time is TIMESTAMPTZ; keep other times as BIGINT"
        }
        T::JSON | T::JSONB | T::Uuid => "write TEXT",
        T::Custom(name, _)
            if is_one_of(&name.to_string(), &["serial", "bigserial", "smallserial"]) =>
        {
            "the store counts nothing up; write BIGINT and give the number with each row"
        }
        _ => {
            "write DOUBLE PRECISION, BIGINT, BIGINT UNSIGNED, BOOLEAN, TEXT, BYTEA or, for a tag, TEXT TAG"
        }
    };
    format!("the type {written} cannot be stored: {remedy}")
}

/// The name of a stored type, as a definition writes it.
pub(crate) fn name(kind: PhysicalType) -> &'static str {
    match kind {
        PhysicalType::I64 => "BIGINT",
        PhysicalType::U64 => "BIGINT UNSIGNED",
        PhysicalType::F64 => "DOUBLE PRECISION",
        PhysicalType::Bool => "BOOLEAN",
        PhysicalType::Text => "TEXT",
        PhysicalType::Bytes => "BYTEA",
    }
}

/// The name of a type that leaves a query, in SQL's words where it has some.
pub(crate) fn name_of_arrow(kind: &ArrowType) -> String {
    match kind {
        ArrowType::Timestamp(_, Some(_)) => "TIMESTAMPTZ".to_owned(),
        ArrowType::Timestamp(_, None) => "TIMESTAMP".to_owned(),
        ArrowType::Date32 | ArrowType::Date64 => "DATE".to_owned(),
        ArrowType::Float64 => name(PhysicalType::F64).to_owned(),
        ArrowType::Int64 => name(PhysicalType::I64).to_owned(),
        ArrowType::UInt64 => name(PhysicalType::U64).to_owned(),
        ArrowType::Boolean => name(PhysicalType::Bool).to_owned(),
        ArrowType::Binary => name(PhysicalType::Bytes).to_owned(),
        ArrowType::Dictionary(_, value) => name_of_arrow(value),
        kind if kind.is_string() => name(PhysicalType::Text).to_owned(),
        other => other.to_string(),
    }
}

/// What a column of a table is, in a word: `time`, `tag` or `field`.
pub(crate) fn kind_of(table: &TableSchema, position: usize) -> &'static str {
    match table.source(position) {
        Some(ColumnSource::Time) => "time",
        Some(ColumnSource::Tag(_)) => "tag",
        _ => "field",
    }
}

/// The type of a column of a table.
pub(crate) fn type_of(table: &TableSchema, position: usize) -> &'static str {
    match table.source(position) {
        Some(ColumnSource::Time) => "TIMESTAMPTZ",
        Some(ColumnSource::Field(at)) => match table.fields.get(at).map(|field| field.kind) {
            Some(ColumnKind::Field(kind)) => name(kind),
            _ => "TEXT",
        },
        _ => "TEXT",
    }
}
