//! Declarations: what was said of a column or a table beside its name and its stored type.
//!
//! Does: hold them, turn them into bytes and back. Does not: check rows (`write` does), or evaluate what is SQL: a default
//! and a check are texts here. Bytes: `docs/format/definitions.md`.

use nilometer_codec::varint;

use crate::error::Malformed;
use crate::logical::LogicalType;
use crate::parts::{put_text, take_byte, take_bytes, take_text, take_u32};
use crate::schema::TableId;

/// What a column was declared as, beside its name and its stored type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Declared {
    /// Its logical type; `None` = the stored one.
    pub of: Option<LogicalType>,
    /// Every row has a value.
    pub not_null: bool,
    /// What a row has that does not say: an expression of SQL.
    pub default: Option<String>,
    /// What its maker said of it.
    pub comment: Option<String>,
    /// Where SQL shows it among the columns that say this; they come first.
    pub position: Option<u32>,
}

/// What a time column is for SQL. The store has nanoseconds since 1970 in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TimeKind {
    /// A moment.
    #[default]
    TimestampTz,
    /// What a clock on the wall shows.
    Timestamp,
    /// A day.
    Date,
    /// An integer, in units of so many nanoseconds.
    Integer {
        /// 1 or more.
        unit_ns: i64,
    },
}

/// The time column as SQL shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeclaredTime {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: TimeKind,
    /// Default, comment and place; of a time that is an integer of 16 or 32 bits its type too. It is never null.
    pub column: Declared,
}

/// A condition that every row meets: it is not false.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// An expression of SQL.
    pub expression: String,
}

/// What the CHECK of a column of an enumeration calls, with the name of the type and the column.
pub const ENUM_LABEL: &str = "pg_enum_label";

/// The type and the column of a CHECK that makes a text one of an enumeration's labels; `None` = it is another condition.
pub fn enum_of_check(check: &Check) -> Option<(String, String)> {
    let rest = check.expression.strip_prefix(ENUM_LABEL)?;
    let rest = rest.strip_prefix("('")?.strip_suffix("\")")?;
    let (of, column) = rest.split_once("', \"")?;
    Some((of.replace("''", "'"), column.replace("\"\"", "\"")))
}

/// What a table or a relation was declared as, beside its columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeclaredTable {
    /// The time column; `None` = `time`, a moment, first of all columns. A relation has none.
    pub time: Option<DeclaredTime>,
    /// Conditions on rows, by name.
    pub checks: Vec<Check>,
    /// What its maker said of it.
    pub comment: Option<String>,
    /// Names of keys: 0 is the primary one, or that of time and tags; others count from 1.
    pub keys: Vec<(u32, String)>,
    /// An empty text is a value of a tag, not the lack of one.
    pub has_empty_tags: bool,
    /// The id under which others keep what belongs to the table; `None` = its own. A table whose rows were written anew in
    /// another form has another id, and belongs to the same.
    pub kept_as: Option<TableId>,
    /// Of a relation without a key: its last column, [`ROW_NUMBER`], is a number that the store gives each row and shows to
    /// nobody, and this is the first one that no row has had.
    pub row_number: Option<i64>,
}

/// What the column is called that numbers the rows of a relation without a key; `PostgreSQL` keeps that name for itself too.
pub const ROW_NUMBER: &str = "ctid";

/// What a table or a relation and its columns were declared as.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Declarations {
    /// Of the table itself; a relation has no time and no tags.
    pub table: DeclaredTable,
    /// Of each column, in the order of the columns that they are given with; none = nothing was said of any.
    pub columns: Vec<Declared>,
}

// Attributes of a column.
const TYPE: u8 = 1;
const NOT_NULL: u8 = 2;
const DEFAULT: u8 = 3;
const COMMENT: u8 = 4;
const POSITION: u8 = 5;

// Attributes of a table.
const TIME: u8 = 1;
const CHECKS: u8 = 2;
const TABLE_COMMENT: u8 = 3;
const KEYS: u8 = 4;
const EMPTY_TAGS: u8 = 5;
const KEPT_AS: u8 = 6;
const ROW_NUMBERS: u8 = 7;

/// Appends attributes: how many, then each with its number, its length and its bytes.
#[derive(Default)]
struct Attributes {
    count: u64,
    bytes: Vec<u8>,
}

impl Attributes {
    fn put(&mut self, number: u8, write: impl FnOnce(&mut Vec<u8>)) {
        let mut value = Vec::new();
        write(&mut value);
        self.count += 1;
        self.bytes.push(number);
        varint::put_u64(value.len() as u64, &mut self.bytes);
        self.bytes.extend(value);
    }

    fn finish(self, out: &mut Vec<u8>) {
        varint::put_u64(self.count, out);
        out.extend(self.bytes);
    }
}

/// Hands over attributes, whose numbers rise, each with its bytes, all of which are to be read.
fn each_attribute(
    input: &mut &[u8],
    mut read: impl FnMut(u8, &mut &[u8]) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let mut last = 0;
    for _ in 0..take_u32(input)? {
        let number = take_byte(input)?;
        if number <= last {
            return Err(Malformed::new("attributes of a declaration do not rise"));
        }
        last = number;
        let length = take_u32(input)? as usize;
        let mut value = take_bytes(input, length)?;
        read(number, &mut value)?;
        if !value.is_empty() {
            let reason = format!("attribute {number} of a declaration is too long");
            return Err(Malformed::new(reason));
        }
    }
    Ok(())
}

fn unknown(number: u8) -> Malformed {
    Malformed::new(format!("unknown attribute {number} of a declaration"))
}

impl Declared {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Memory, about.
    pub(crate) fn bytes(&self) -> usize {
        let texts = self.default.iter().chain(&self.comment);
        size_of::<Self>() + texts.map(String::len).sum::<usize>()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut attributes = Attributes::default();
        if let Some(of) = self.of {
            attributes.put(TYPE, |out| of.encode(out));
        }
        if self.not_null {
            attributes.put(NOT_NULL, |_| {});
        }
        if let Some(default) = &self.default {
            attributes.put(DEFAULT, |out| put_text(default, out));
        }
        if let Some(comment) = &self.comment {
            attributes.put(COMMENT, |out| put_text(comment, out));
        }
        if let Some(position) = self.position {
            attributes.put(POSITION, |out| varint::put_u64(position.into(), out));
        }
        attributes.finish(out);
    }

    pub(crate) fn decode(input: &mut &[u8]) -> Result<Self, Malformed> {
        let mut declared = Self::default();
        each_attribute(input, |number, value| {
            match number {
                TYPE => declared.of = Some(LogicalType::decode(value)?),
                NOT_NULL => declared.not_null = true,
                DEFAULT => declared.default = Some(take_text(value)?),
                COMMENT => declared.comment = Some(take_text(value)?),
                POSITION => declared.position = Some(take_u32(value)?),
                other => return Err(unknown(other)),
            }
            Ok(())
        })?;
        Ok(declared)
    }
}

impl TimeKind {
    fn encode(self, out: &mut Vec<u8>) {
        let (number, unit) = match self {
            Self::TimestampTz => (0, None),
            Self::Timestamp => (1, None),
            Self::Date => (2, None),
            Self::Integer { unit_ns } => (3, Some(unit_ns)),
        };
        out.push(number);
        if let Some(unit) = unit {
            varint::put_u64(unit.unsigned_abs(), out);
        }
    }

    fn decode(input: &mut &[u8]) -> Result<Self, Malformed> {
        Ok(match take_byte(input)? {
            0 => Self::TimestampTz,
            1 => Self::Timestamp,
            2 => Self::Date,
            3 => {
                let unit = varint::get_u64(input)?;
                let unit_ns = i64::try_from(unit).ok().filter(|unit| *unit > 0);
                Self::Integer {
                    unit_ns: unit_ns
                        .ok_or_else(|| Malformed::new(format!("a unit of {unit} nanoseconds")))?,
                }
            }
            other => return Err(Malformed::new(format!("unknown kind {other} of a time"))),
        })
    }
}

impl DeclaredTable {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Memory, about.
    pub(crate) fn bytes(&self) -> usize {
        let time = self.time.iter().map(|it| it.name.len() + it.column.bytes());
        let checks = self.checks.iter();
        let checks = checks.map(|it| size_of::<Check>() + it.name.len() + it.expression.len());
        let keys = self.keys.iter().map(|(_, name)| 32 + name.len());
        let comment = self.comment.iter().map(String::len);
        let all = time.chain(checks).chain(keys).chain(comment);
        size_of::<Self>() + all.sum::<usize>()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut attributes = Attributes::default();
        if let Some(time) = &self.time {
            attributes.put(TIME, |out| {
                put_text(&time.name, out);
                time.kind.encode(out);
                time.column.encode(out);
            });
        }
        if !self.checks.is_empty() {
            attributes.put(CHECKS, |out| {
                varint::put_u64(self.checks.len() as u64, out);
                for check in &self.checks {
                    put_text(&check.name, out);
                    put_text(&check.expression, out);
                }
            });
        }
        if let Some(comment) = &self.comment {
            attributes.put(TABLE_COMMENT, |out| put_text(comment, out));
        }
        if !self.keys.is_empty() {
            attributes.put(KEYS, |out| {
                varint::put_u64(self.keys.len() as u64, out);
                for (number, name) in &self.keys {
                    varint::put_u64(u64::from(*number), out);
                    put_text(name, out);
                }
            });
        }
        if self.has_empty_tags {
            attributes.put(EMPTY_TAGS, |_| {});
        }
        if let Some(id) = self.kept_as {
            attributes.put(KEPT_AS, |out| varint::put_u64(id.0.into(), out));
        }
        if let Some(next) = self.row_number {
            attributes.put(ROW_NUMBERS, |out| varint::put_u64(next.unsigned_abs(), out));
        }
        attributes.finish(out);
    }

    pub(crate) fn decode(input: &mut &[u8]) -> Result<Self, Malformed> {
        let mut declared = Self::default();
        each_attribute(input, |number, value| {
            match number {
                TIME => {
                    declared.time = Some(DeclaredTime {
                        name: take_text(value)?,
                        kind: TimeKind::decode(value)?,
                        column: Declared::decode(value)?,
                    });
                }
                CHECKS => {
                    for _ in 0..take_u32(value)? {
                        declared.checks.push(Check {
                            name: take_text(value)?,
                            expression: take_text(value)?,
                        });
                    }
                }
                TABLE_COMMENT => declared.comment = Some(take_text(value)?),
                KEYS => {
                    for _ in 0..take_u32(value)? {
                        declared.keys.push((take_u32(value)?, take_text(value)?));
                    }
                }
                EMPTY_TAGS => declared.has_empty_tags = true,
                KEPT_AS => declared.kept_as = Some(TableId(take_u32(value)?)),
                ROW_NUMBERS => {
                    let next = varint::get_u64(value)?;
                    let next = i64::try_from(next).ok().filter(|next| *next > 0);
                    declared.row_number =
                        Some(next.ok_or_else(|| Malformed::new("rows numbered from nowhere"))?);
                }
                other => return Err(unknown(other)),
            }
            Ok(())
        })?;
        Ok(declared)
    }
}

impl Declarations {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty() && self.columns.iter().all(Declared::is_empty)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.table.encode(out);
        varint::put_u64(self.columns.len() as u64, out);
        for column in &self.columns {
            column.encode(out);
        }
    }

    pub(crate) fn decode(input: &mut &[u8]) -> Result<Self, Malformed> {
        let table = DeclaredTable::decode(input)?;
        let mut columns = Vec::new();
        for _ in 0..take_u32(input)? {
            columns.push(Declared::decode(input)?);
        }
        Ok(Self { table, columns })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::logical::Element;

    pub(crate) fn any_type() -> impl Strategy<Value = LogicalType> {
        use LogicalType as T;
        prop_oneof![
            Just(T::SmallInt),
            Just(T::Integer),
            Just(T::BigInt),
            Just(T::Real),
            (1..=38u8, 0..=38u8).prop_map(|(precision, scale)| T::Numeric {
                precision,
                scale: scale.min(precision)
            }),
            (1..1000u32).prop_map(T::Varchar),
            (1..1000u32).prop_map(T::Char),
            Just(T::Uuid),
            Just(T::Date),
            Just(T::Timestamp),
            Just(T::TimestampTz),
            Just(T::Time),
            Just(T::Interval),
            Just(T::Json),
            Just(T::Jsonb),
            Just(T::Array(Element::Boolean)),
            Just(T::Array(Element::Varchar(7))),
        ]
    }

    pub(crate) fn any_column() -> impl Strategy<Value = Declared> {
        (
            proptest::option::of(any_type()),
            any::<bool>(),
            proptest::option::of(".{0,9}"),
            proptest::option::of(".{0,9}"),
            proptest::option::of(any::<u32>()),
        )
            .prop_map(|(of, not_null, default, comment, position)| Declared {
                of,
                not_null,
                default,
                comment,
                position,
            })
    }

    pub(crate) fn any_table() -> impl Strategy<Value = DeclaredTable> {
        let kind = prop_oneof![
            Just(TimeKind::TimestampTz),
            Just(TimeKind::Timestamp),
            Just(TimeKind::Date),
            (1..=i64::MAX).prop_map(|unit_ns| TimeKind::Integer { unit_ns }),
        ];
        let time = (".{0,5}", kind, any_column()).prop_map(|(name, kind, column)| DeclaredTime {
            name,
            kind,
            column,
        });
        let check = (".{0,5}", ".{0,9}").prop_map(|(name, expression)| Check { name, expression });
        (
            proptest::option::of(time),
            proptest::collection::vec(check, 0..3),
            proptest::option::of(".{0,9}"),
            proptest::collection::vec((any::<u32>(), ".{0,5}"), 0..3),
            any::<bool>(),
            proptest::option::of(any::<u32>()),
        )
            .prop_map(|(time, checks, comment, keys, has_empty_tags, kept_as)| {
                DeclaredTable {
                    time,
                    checks,
                    comment,
                    keys,
                    has_empty_tags,
                    kept_as: kept_as.map(TableId),
                    row_number: None,
                }
            })
    }

    /// The bytes of `docs/format/definitions.md`, put together by hand.
    #[test]
    fn the_bytes_are_those_of_the_format() {
        let column = Declared {
            of: Some(LogicalType::Numeric {
                precision: 10,
                scale: 2,
            }),
            not_null: true,
            default: Some("0".to_owned()),
            comment: None,
            position: Some(300),
        };
        let mut bytes = Vec::new();
        column.encode(&mut bytes);
        assert_eq!(
            bytes,
            [4, 1, 3, 5, 10, 2, 2, 0, 3, 2, 1, b'0', 5, 2, 0xAC, 0x02]
        );
        for (of, expected) in [
            (Element::Text, vec![1, 1, 2, 16, 66]),
            (Element::Varchar(300), vec![1, 1, 4, 16, 6, 0xAC, 0x02]),
        ] {
            let column = Declared {
                of: Some(LogicalType::Array(of)),
                ..Declared::default()
            };
            let mut bytes = Vec::new();
            column.encode(&mut bytes);
            assert_eq!(bytes, expected);
        }
        let table = DeclaredTable {
            time: Some(DeclaredTime {
                name: "ts".to_owned(),
                kind: TimeKind::Integer { unit_ns: 1000 },
                column: Declared::default(),
            }),
            checks: vec![Check {
                name: "c".to_owned(),
                expression: "v>0".to_owned(),
            }],
            comment: Some("x".to_owned()),
            keys: vec![(0, "k".to_owned())],
            has_empty_tags: true,
            kept_as: Some(TableId(300)),
            row_number: Some(300),
        };
        let mut bytes = Vec::new();
        table.encode(&mut bytes);
        #[rustfmt::skip]
        let expected = [
            7,
            1, 7, 2, b't', b's', 3, 0xE8, 0x07, 0,
            2, 7, 1, 1, b'c', 3, b'v', b'>', b'0',
            3, 2, 1, b'x',
            4, 4, 1, 0, 1, b'k',
            5, 0,
            6, 2, 0xAC, 0x02,
            7, 2, 0xAC, 0x02,
        ];
        assert_eq!(bytes, expected);
    }
}
