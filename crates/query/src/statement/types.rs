//! Types of columns as SQL writes them: the six that are stored, and the logical ones over them.

use arrow::datatypes::DataType as ArrowType;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, CastKind, CharacterLength, DataType, ExactNumberInfo, Expr, TimezoneInfo,
    Value,
};
use nilometer_engine::{
    ColumnDef, ColumnKind, ColumnSource, Element, LogicalType, PhysicalType, RelationSchema,
    TableSchema, TimeKind,
};

use crate::statement::name::Name;

/// What a type in a definition says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// The word TAG in the place of a type.
    Tag,
    /// A value that is stored as it is written.
    Value(PhysicalType),
    /// A value of a type over a stored one.
    Logical(LogicalType),
}

impl Written {
    /// The kind of time that a table could have of this type.
    pub(crate) fn time(self) -> Option<TimeKind> {
        match self {
            Self::Logical(LogicalType::TimestampTz) => Some(TimeKind::TimestampTz),
            Self::Logical(LogicalType::Timestamp) => Some(TimeKind::Timestamp),
            Self::Logical(LogicalType::Date) => Some(TimeKind::Date),
            _ => None,
        }
    }

    /// How it is stored, and what it is declared as; `None` = the word TAG.
    pub(crate) fn stored(self) -> Option<(PhysicalType, Option<LogicalType>)> {
        match self {
            Self::Tag => None,
            Self::Value(kind) => Some((kind, None)),
            Self::Logical(of) => Some((of.physical(), Some(of))),
        }
    }
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
    use LogicalType as L;
    let logical = match written {
        T::SmallInt(None) | T::Int2(None) | T::Int16 => Some(L::SmallInt),
        T::Int(None) | T::Int4(None) | T::Integer(None) | T::Int32 => Some(L::Integer),
        T::Real | T::Float4 | T::Float32 => Some(L::Real),
        T::Numeric(digits) | T::Decimal(digits) | T::Dec(digits) => Some(numeric(*digits)?),
        T::Varchar(Some(length))
        | T::CharacterVarying(Some(length))
        | T::CharVarying(Some(length))
        | T::Nvarchar(Some(length)) => Some(L::Varchar(letters(*length)?)),
        T::Char(length) | T::Character(length) => Some(L::Char(length.map_or(Ok(1), letters)?)),
        T::Uuid => Some(L::Uuid),
        T::Date => Some(L::Date),
        T::Timestamp(None | Some(6 | 9), zone) => Some(match zone {
            TimezoneInfo::Tz | TimezoneInfo::WithTimeZone => L::TimestampTz,
            TimezoneInfo::None | TimezoneInfo::WithoutTimeZone => L::Timestamp,
        }),
        T::Timestamp(..) => {
            return Err("times are kept in nanoseconds; write TIMESTAMPTZ".to_owned());
        }
        T::Time(None | Some(6 | 9), TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            Some(L::Time)
        }
        T::Interval { .. } => Some(L::Interval),
        T::JSON => Some(L::Json),
        T::JSONB => Some(L::Jsonb),
        T::Array(of) => Some(L::Array(element(of)?)),
        _ => None,
    };
    if let Some(of) = logical {
        of.check().map_err(str::to_owned)?;
        return Ok(Written::Logical(of));
    }
    let kind = match written {
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
        | T::Float8
        | T::Float64 => PhysicalType::F64,
        T::TinyInt(None) | T::Int8(None) | T::Int64 | T::BigInt(None) => PhysicalType::I64,
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

/// What an array is of. How many arrays it is within does not count, as in `PostgreSQL`; what is stored is one.
fn element(of: &ArrayElemTypeDef) -> Result<Element, String> {
    let inner = match of {
        ArrayElemTypeDef::AngleBracket(inner)
        | ArrayElemTypeDef::SquareBracket(inner, _)
        | ArrayElemTypeDef::Parenthesis(inner) => inner,
        ArrayElemTypeDef::None => return Err("an array needs a type, such as int[]".to_owned()),
    };
    if let DataType::Array(inner) = inner.as_ref() {
        return element(inner);
    }
    let written = read(inner)?;
    let stored = written.stored();
    let found = stored.and_then(|(kind, logical)| Element::of(kind, logical));
    found.ok_or_else(|| format!("there are no arrays of {inner}: write JSONB, or an array of SMALLINT, INTEGER, BIGINT, REAL, DOUBLE PRECISION, NUMERIC(p, s), BOOLEAN, TEXT, VARCHAR(n), UUID, DATE, TIMESTAMP or TIMESTAMPTZ"))
}

/// A numeric of these digits.
fn numeric(digits: ExactNumberInfo) -> Result<LogicalType, String> {
    let (precision, scale) = match digits {
        ExactNumberInfo::None => {
            return Err(
                "a numeric needs its digits: write numeric(p, s), with p up to 38".to_owned(),
            );
        }
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    let of = |precision: u64, scale| {
        Some(LogicalType::Numeric {
            precision: u8::try_from(precision).ok()?,
            scale: u8::try_from(scale).ok()?,
        })
    };
    of(precision, scale).ok_or_else(|| {
        "numeric(p, s) has 1 to 38 digits, and no more behind the point than there are".to_owned()
    })
}

fn letters(length: CharacterLength) -> Result<u32, String> {
    match length {
        CharacterLength::IntegerLength { length, .. } => {
            u32::try_from(length).map_err(|_| "a length is 1 to 10485760 letters".to_owned())
        }
        CharacterLength::Max => Err("write TEXT for text of any length".to_owned()),
    }
}

/// What a cast to an enumeration becomes.
pub(crate) const ENUM_CAST: &str = "pg_enum_cast";
/// By what values of an enumeration are ordered.
pub(crate) const ENUM_PLACE: &str = "pg_enum_place";

/// Types of `PostgreSQL` that are written by a name alone, and that nobody makes.
const BUILT_IN: [&str; 44] = [
    "aclitem",
    "bit",
    "box",
    "bpchar",
    "cardinal_number",
    "cid",
    "cidr",
    "circle",
    "citext",
    "daterange",
    "geography",
    "geometry",
    "hstore",
    "inet",
    "int4range",
    "int8range",
    "int2vector",
    "line",
    "lseg",
    "macaddr",
    "macaddr8",
    "money",
    "name",
    "numrange",
    "oid",
    "oidvector",
    "path",
    "pg_lsn",
    "pg_snapshot",
    "point",
    "polygon",
    "record",
    "refcursor",
    "sql_identifier",
    "tid",
    "timetz",
    "tsquery",
    "tsrange",
    "tstzrange",
    "tsvector",
    "txid_snapshot",
    "varbit",
    "xid",
    "xml",
];

/// The name of a type that somebody may have made; `None` = it is one that is known, or has modifiers.
pub(crate) fn own_name(written: &DataType) -> Option<String> {
    let DataType::Custom(name, modifiers) = written else {
        return None;
    };
    let parts = name.0.iter().map(|part| part.as_ident().map(Name::from));
    let parts = parts.collect::<Option<Vec<Name>>>()?;
    let last = parts.last()?;
    if !modifiers.is_empty() || !is_own(&last.text) {
        return None;
    }
    Some(last.text.clone())
}

/// Whether a type of this name would be one that somebody has made.
pub(crate) fn is_own(name: &str) -> bool {
    let known = [
        "tag",
        "int64",
        "long",
        "uint64",
        "ulong",
        "serial",
        "bigserial",
        "smallserial",
        "serial2",
        "serial4",
        "serial8",
    ];
    !is_one_of(name, &known) && !is_one_of(name, &BUILT_IN) && !name.starts_with("reg")
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|known| name.eq_ignore_ascii_case(known))
}

fn refusal(written: &DataType) -> String {
    use DataType as T;
    let remedy = match written {
        T::Time(..) | T::Datetime(_) => "write TIMESTAMPTZ, TIMESTAMP, DATE or TIME",
        T::Custom(name, _)
            if is_one_of(&name.to_string(), &["serial", "bigserial", "smallserial"]) =>
        {
            "the store counts nothing up; write BIGINT and give the number with each row"
        }
        _ => {
            "write DOUBLE PRECISION, REAL, BIGINT, INTEGER, SMALLINT, BIGINT UNSIGNED, NUMERIC(p, s), BOOLEAN, TEXT, VARCHAR(n), BYTEA, UUID, DATE, TIMESTAMPTZ, INTERVAL, JSONB or, for a tag, TEXT TAG"
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

/// The type of a column of a table, as a definition writes it.
pub(crate) fn type_of(table: &TableSchema, position: usize) -> String {
    let (of, kind) = match table.source(position) {
        Some(ColumnSource::Time) => {
            return match table.time().1 {
                TimeKind::TimestampTz => "TIMESTAMPTZ",
                TimeKind::Timestamp => "TIMESTAMP",
                TimeKind::Date => "DATE",
                TimeKind::Integer { .. } => match table.time_type() {
                    Some(LogicalType::SmallInt) => "SMALLINT",
                    Some(_) => "INTEGER",
                    None => "BIGINT",
                },
            }
            .to_owned();
        }
        Some(ColumnSource::Tag(at)) => (
            table.tags.get(at).and_then(ColumnDef::of),
            PhysicalType::Text,
        ),
        Some(ColumnSource::Field(at)) => {
            let field = table.fields.get(at);
            let kind = match field.map(|field| field.kind) {
                Some(ColumnKind::Field(kind)) => kind,
                _ => PhysicalType::Text,
            };
            (field.and_then(ColumnDef::of), kind)
        }
        None => (None, PhysicalType::Text),
    };
    logical_name(of, kind)
}

/// The type of a column of a relation, as a definition writes it.
pub(crate) fn of_relation(relation: &RelationSchema, at: usize) -> String {
    let kind = relation.columns.get(at).map(|column| column.kind);
    logical_name(relation.of(at), kind.unwrap_or(PhysicalType::Text))
}

fn logical_name(of: Option<LogicalType>, kind: PhysicalType) -> String {
    match of {
        Some(of) => of.to_string().to_uppercase(),
        None => name(kind).to_owned(),
    }
}
