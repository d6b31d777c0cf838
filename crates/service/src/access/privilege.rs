//! Privileges by database, schema and table.

/// What somebody may want to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Privilege {
    /// Read rows, and see that they are there.
    Read,
    /// Write, change and delete rows; a table or column that a write brings with it is made.
    Write,
    /// Create, change and drop what is in a database.
    Define,
    /// Create and drop databases and users, and see what everybody does.
    Administer,
}

/// A set of privileges over what is in a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Privileges(u8);

impl Privileges {
    /// To read.
    pub const READ: Self = Self(1);
    /// To write.
    pub const WRITE: Self = Self(2);
    /// To read, to write and to define.
    pub const ALL: Self = Self(7);

    /// Those of both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that are not among the others.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether this one is among them.
    pub fn has(self, privilege: Privilege) -> bool {
        let bit = match privilege {
            Privilege::Read => 1,
            Privilege::Write => 2,
            Privilege::Define => 4,
            Privilege::Administer => return false,
        };
        self.0 & bit != 0
    }

    /// Whether one is among both.
    pub fn meet(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether all of the others are among them.
    pub fn hold(self, other: Self) -> bool {
        other.without(self).is_empty()
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// As they are stored.
    pub(super) fn bits(self) -> i64 {
        i64::from(self.0)
    }

    /// As they were stored; what this version does not know is no privilege.
    pub(super) fn of_bits(bits: i64) -> Self {
        Self(u8::try_from(bits & 7).unwrap_or_default())
    }
}

/// What a privilege is about: a database, a schema of it, or a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// The database.
    pub database: &'a str,
    /// `None` = all of it.
    pub schema: Option<&'a str>,
    /// `None` = all of the schema.
    pub table: Option<&'a str>,
}

impl<'a> Place<'a> {
    /// A whole database.
    pub fn database(database: &'a str) -> Self {
        Self {
            database,
            schema: None,
            table: None,
        }
    }

    /// A schema.
    pub fn schema(database: &'a str, schema: &'a str) -> Self {
        Self {
            schema: Some(schema),
            ..Self::database(database)
        }
    }

    /// Whether another place is in it, or is the same.
    pub fn has(self, other: Self) -> bool {
        let covers = |own: Option<&str>, other| own.is_none() || own == other;
        self.database == other.database
            && covers(self.schema, other.schema)
            && covers(self.table, other.table)
    }

    /// A table.
    pub fn table(database: &'a str, schema: &'a str, table: &'a str) -> Self {
        Self {
            database,
            schema: Some(schema),
            table: Some(table),
        }
    }
}

impl std::fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.schema, self.table) {
            (Some(schema), Some(table)) => write!(f, "table \"{schema}\".\"{table}\""),
            (Some(schema), None) => write!(f, "schema \"{schema}\""),
            _ => write!(f, "database \"{}\"", self.database),
        }
    }
}
