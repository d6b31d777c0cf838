//! Types by their numbers (OIDs), and which of them a column of an answer has.

use arrow::datatypes::{DataType, Field, TimeUnit};

/// The key of a field's metadata that names the type of a column that is stored as another one, such as `varchar(20)`.
const LOGICAL_TYPE: &str = "sql_type";

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Format {
    #[default]
    Text,
    Binary,
}

impl Format {
    /// Of its number in a message; `None` = there is no such format.
    pub(crate) fn of(code: i16) -> Option<Self> {
        match code {
            0 => Some(Self::Text),
            1 => Some(Self::Binary),
            _ => None,
        }
    }

    pub(crate) fn code(self) -> i16 {
        match self {
            Self::Text => 0,
            Self::Binary => 1,
        }
    }

    /// Of each of so many things, as a message gives them: none = all text, one = all the same.
    pub(crate) fn each(codes: &[i16], count: usize) -> Option<Vec<Self>> {
        match codes {
            [] => Some(vec![Self::Text; count]),
            [one] => Some(vec![Self::of(*one)?; count]),
            all if all.len() == count => all.iter().map(|code| Self::of(*code)).collect(),
            _ => None,
        }
    }
}

/// A type of single values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Scalar {
    Bool,
    Bytea,
    Char,
    Name,
    Int8,
    Int2,
    /// Column numbers of an index: an array that is written without braces.
    Int2Vector,
    OidVector,
    Int4,
    Text,
    Oid,
    Json,
    Float4,
    Float8,
    Unknown,
    Bpchar,
    Varchar,
    Date,
    Time,
    Timestamp,
    Timestamptz,
    Interval,
    Numeric,
    Regclass,
    Void,
    Uuid,
    Jsonb,
}

/// A type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    One(Scalar),
    Array(Scalar),
}

/// Names, numbers, numbers of arrays, and sizes; -1 = as long as it is, -2 = to a zero byte.
const SCALARS: [(Scalar, &str, u32, u32, i16); 27] = [
    (Scalar::Bool, "boolean", 16, 1000, 1),
    (Scalar::Bytea, "bytea", 17, 1001, -1),
    (Scalar::Char, "\"char\"", 18, 1002, 1),
    (Scalar::Name, "name", 19, 1003, 64),
    (Scalar::Int8, "bigint", 20, 1016, 8),
    (Scalar::Int2, "smallint", 21, 1005, 2),
    (Scalar::Int2Vector, "int2vector", 22, 1006, -1),
    (Scalar::Int4, "integer", 23, 1007, 4),
    (Scalar::Text, "text", 25, 1009, -1),
    (Scalar::Oid, "oid", 26, 1028, 4),
    (Scalar::OidVector, "oidvector", 30, 1013, -1),
    (Scalar::Json, "json", 114, 199, -1),
    (Scalar::Float4, "real", 700, 1021, 4),
    (Scalar::Float8, "double precision", 701, 1022, 8),
    (Scalar::Unknown, "unknown", 705, 1009, -2),
    (Scalar::Bpchar, "character", 1042, 1014, -1),
    (Scalar::Varchar, "character varying", 1043, 1015, -1),
    (Scalar::Date, "date", 1082, 1182, 4),
    (Scalar::Time, "time without time zone", 1083, 1183, 8),
    (
        Scalar::Timestamp,
        "timestamp without time zone",
        1114,
        1115,
        8,
    ),
    (
        Scalar::Timestamptz,
        "timestamp with time zone",
        1184,
        1185,
        8,
    ),
    (Scalar::Interval, "interval", 1186, 1187, 16),
    (Scalar::Numeric, "numeric", 1700, 1231, -1),
    (Scalar::Regclass, "regclass", 2205, 2210, 4),
    (Scalar::Void, "void", 2278, 1009, 4),
    (Scalar::Uuid, "uuid", 2950, 2951, 16),
    (Scalar::Jsonb, "jsonb", 3802, 3807, -1),
];

impl Scalar {
    fn row(self) -> (&'static str, u32, u32, i16) {
        let found = SCALARS.iter().find(|(scalar, ..)| *scalar == self);
        found.map_or(("text", 25, 1009, -1), |(_, name, oid, array, size)| {
            (*name, *oid, *array, *size)
        })
    }

    pub(crate) fn oid(self) -> u32 {
        self.row().1
    }

    /// Of a name, as a definition or an error has it.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let name = name.split('(').next().unwrap_or(name).trim();
        let name = match name {
            "int" | "int4" => "integer",
            "int8" => "bigint",
            "int2" => "smallint",
            "float8" | "float" => "double precision",
            "float4" => "real",
            "bool" => "boolean",
            "varchar" => "character varying",
            "char" | "bpchar" => "character",
            "timestamptz" => "timestamp with time zone",
            "timestamp" => "timestamp without time zone",
            "time" => "time without time zone",
            "decimal" => "numeric",
            other => other,
        };
        let found = SCALARS.iter().find(|(_, known, ..)| *known == name);
        found.map(|(scalar, ..)| *scalar)
    }
}

impl Kind {
    pub(crate) const TEXT: Self = Self::One(Scalar::Text);

    pub(crate) fn oid(self) -> u32 {
        match self {
            Self::One(scalar) => scalar.row().1,
            Self::Array(scalar) => scalar.row().2,
        }
    }

    /// The type of an array's elements.
    pub(crate) fn element(self) -> Option<Scalar> {
        match self {
            Self::One(_) => None,
            Self::Array(of) => Some(of),
        }
    }

    pub(crate) fn size(self) -> i16 {
        match self {
            Self::One(scalar) => scalar.row().3,
            Self::Array(_) => -1,
        }
    }

    /// As SQL writes it.
    pub(crate) fn name(self) -> String {
        match self {
            Self::One(scalar) => scalar.row().0.to_owned(),
            Self::Array(scalar) => format!("{}[]", scalar.row().0),
        }
    }

    /// Of a number; `None` = nothing here has this one.
    pub(crate) fn of_oid(oid: u32) -> Option<Self> {
        let one = SCALARS.iter().find(|(_, _, own, ..)| *own == oid);
        let array = || SCALARS.iter().find(|(_, _, _, array, _)| *array == oid);
        one.map(|(scalar, ..)| Self::One(*scalar))
            .or_else(|| array().map(|(scalar, ..)| Self::Array(*scalar)))
    }

    /// Of a column of an answer.
    pub(crate) fn of_field(field: &Field) -> Self {
        Self::of_metadata(field).unwrap_or_else(|| Self::of_arrow(field.data_type()))
    }

    /// Of a column that says its type beside the stored one.
    pub(crate) fn of_metadata(field: &Field) -> Option<Self> {
        let name = field.metadata().get(LOGICAL_TYPE)?;
        match name.strip_suffix("[]") {
            Some(element) => Scalar::named(element).map(Self::Array),
            None => Scalar::named(name).map(Self::One),
        }
    }

    /// What its type says of a column beside which one it is, as clients are told: -1 = nothing. A length counts itself and
    /// four bytes, a numeric's digits have 16 bits each.
    pub(crate) fn modifier_of(field: &Field) -> i32 {
        const HEADER: i32 = 4;
        let numbers = || {
            let name = field.metadata().get(LOGICAL_TYPE)?;
            let (_, rest) = name.split_once('(')?;
            let numbers = rest.trim_end_matches("[]").trim_end_matches(')').split(',');
            numbers
                .map(|number| number.trim().parse::<i32>().ok())
                .collect::<Option<Vec<i32>>>()
        };
        match numbers().as_deref() {
            Some([length]) => length + HEADER,
            Some([precision, scale]) => ((precision << 16) | scale) + HEADER,
            _ => -1,
        }
    }

    /// The letters that a value of a column is filled up to with spaces: those of `char(n)`.
    pub(crate) fn padded_to(self, modifier: i32) -> usize {
        match self {
            Self::One(Scalar::Bpchar) => usize::try_from(modifier - 4).unwrap_or(0),
            _ => 0,
        }
    }

    /// Of an Arrow type. What PostgreSQL has no type for is text.
    pub(crate) fn of_arrow(kind: &DataType) -> Self {
        use DataType as T;
        Self::One(match kind {
            T::Boolean => Scalar::Bool,
            T::Int8 | T::UInt8 | T::Int16 => Scalar::Int2,
            T::UInt16 | T::Int32 => Scalar::Int4,
            T::UInt32 | T::Int64 => Scalar::Int8,
            // Half of its values are beyond bigint.
            T::UInt64 => Scalar::Numeric,
            T::Float16 | T::Float32 => Scalar::Float4,
            T::Float64 => Scalar::Float8,
            T::Decimal32(..) | T::Decimal64(..) | T::Decimal128(..) | T::Decimal256(..) => {
                Scalar::Numeric
            }
            // The bytes of a UUID are nothing else's.
            T::FixedSizeBinary(16) => Scalar::Uuid,
            T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => Scalar::Bytea,
            T::Timestamp(_, Some(_)) => Scalar::Timestamptz,
            T::Timestamp(_, None) => Scalar::Timestamp,
            T::Date32 | T::Date64 => Scalar::Date,
            T::Time32(_) | T::Time64(_) => Scalar::Time,
            T::Interval(_) | T::Duration(_) => Scalar::Interval,
            T::Dictionary(_, value) => return Self::of_arrow(value),
            T::List(of) | T::LargeList(of) | T::FixedSizeList(of, _) | T::ListView(of) => {
                return match Self::of_field(of) {
                    Self::One(of) | Self::Array(of) => Self::Array(of),
                };
            }
            _ => Scalar::Text,
        })
    }

    /// The Arrow type of a parameter that its sender gives this type.
    pub(crate) fn arrow(self) -> Option<DataType> {
        let one = |scalar: Scalar| {
            Some(match scalar {
                Scalar::Bool => DataType::Boolean,
                Scalar::Bytea => DataType::Binary,
                Scalar::Int8 | Scalar::Oid => DataType::Int64,
                Scalar::Int2 => DataType::Int16,
                Scalar::Int4 => DataType::Int32,
                Scalar::Float4 => DataType::Float32,
                Scalar::Float8 => DataType::Float64,
                Scalar::Date => DataType::Date32,
                Scalar::Time => DataType::Time64(TimeUnit::Nanosecond),
                Scalar::Timestamp => DataType::Timestamp(TimeUnit::Nanosecond, None),
                Scalar::Timestamptz => {
                    DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
                }
                Scalar::Interval => {
                    DataType::Interval(arrow::datatypes::IntervalUnit::MonthDayNano)
                }
                Scalar::Numeric => DataType::Decimal128(38, 10),
                Scalar::Unknown | Scalar::Void => return None,
                _ => DataType::Utf8,
            })
        };
        match self {
            Self::One(scalar) => one(scalar),
            Self::Array(scalar) => {
                let field = Field::new_list_field(one(scalar)?, true);
                Some(DataType::List(std::sync::Arc::new(field)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_found_by_its_number_again() {
        for (scalar, _, oid, array, _) in SCALARS {
            assert_eq!(Kind::of_oid(oid), Some(Kind::One(scalar)));
            if !matches!(scalar, Scalar::Unknown | Scalar::Void) {
                assert_eq!(Kind::of_oid(array), Some(Kind::Array(scalar)));
            }
        }
        assert_eq!(Kind::of_oid(4242), None);
    }

    /// `SELECT atttypid, atttypmod FROM pg_attribute` of a table of these types in PostgreSQL 15.
    #[test]
    fn declared_types_have_the_numbers_and_modifiers_of_postgresql() {
        for (name, oid, modifier) in [
            ("smallint", 21, -1),
            ("integer", 23, -1),
            ("real", 700, -1),
            ("numeric(10,2)", 1700, 655_366),
            ("numeric(30,4)", 1700, 1_966_088),
            ("varchar(5)", 1043, 9),
            ("char(4)", 1042, 8),
            ("uuid", 2950, -1),
            ("date", 1082, -1),
            ("timestamp", 1114, -1),
            ("timestamptz", 1184, -1),
            ("time", 1083, -1),
            ("interval", 1186, -1),
            ("json", 114, -1),
            ("jsonb", 3802, -1),
            ("integer[]", 1007, -1),
            ("text[]", 1009, -1),
            ("uuid[]", 2951, -1),
            ("numeric(10,2)[]", 1231, 655_366),
            ("varchar(5)[]", 1015, 9),
            ("timestamptz[]", 1185, -1),
        ] {
            let said = [(LOGICAL_TYPE.to_owned(), name.to_owned())];
            let field = Field::new("c", DataType::Utf8, true).with_metadata(said.into());
            assert_eq!(Kind::of_field(&field).oid(), oid, "{name}");
            assert_eq!(Kind::modifier_of(&field), modifier, "{name}");
        }
        assert_eq!(Kind::One(Scalar::Bpchar).padded_to(8), 4);
        assert_eq!(Kind::One(Scalar::Bpchar).padded_to(-1), 0);
        assert_eq!(Kind::One(Scalar::Varchar).padded_to(8), 0);
    }

    #[test]
    fn formats_are_given_for_all_or_for_each() {
        use Format::{Binary, Text};
        assert_eq!(Format::each(&[], 2), Some(vec![Text, Text]));
        assert_eq!(Format::each(&[1], 2), Some(vec![Binary, Binary]));
        assert_eq!(Format::each(&[0, 1], 2), Some(vec![Text, Binary]));
        assert_eq!(Format::each(&[0, 1, 0], 2), None);
        assert_eq!(Format::each(&[2], 1), None);
    }
}
