//! Names of what is defined, with the names of what it is in.
//!
//! Does: say what a path without database or schema means. Does not: look a name up.

use super::super::error::DefineError;

/// Names, each of what the next is in: the last is what is meant, those before it say where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// Database, or schema, or both, or nothing.
    pub before: Vec<String>,
    /// The name of the thing itself.
    pub last: String,
}

/// A table, relation or view by its whole name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName {
    /// Its database.
    pub database: String,
    /// Its schema.
    pub schema: String,
    /// Its own name.
    pub table: String,
}

impl Path {
    /// As the names of a database and of a schema in it; `database` is meant where the path names none.
    pub fn schema(self, database: &str) -> Result<(String, String), DefineError> {
        match <[String; 1]>::try_from(self.before) {
            Ok([database]) => Ok((database, self.last)),
            Err(before) if before.is_empty() => Ok((database.to_owned(), self.last)),
            Err(_) => Err(DefineError::TooManyParts {
                remedy: "write database.schema",
            }),
        }
    }

    /// As the name of a table, relation or view; `database` and `schema` are meant where the path names none.
    pub fn table(self, database: &str, schema: &str) -> Result<TableName, DefineError> {
        let (database, schema) = match self.before.as_slice() {
            [] => (database, schema),
            [schema] => (database, schema.as_str()),
            [database, schema] => (database.as_str(), schema.as_str()),
            _ => {
                return Err(DefineError::TooManyParts {
                    remedy: "write database.schema.table",
                });
            }
        };
        Ok(TableName {
            database: database.to_owned(),
            schema: schema.to_owned(),
            table: self.last,
        })
    }
}

impl TableName {
    /// `database.schema.table`.
    pub fn shown(&self) -> String {
        format!("{}.{}.{}", self.database, self.schema, self.table)
    }
}

impl From<&str> for Path {
    /// A name alone.
    fn from(name: &str) -> Self {
        Self {
            before: Vec::new(),
            last: name.to_owned(),
        }
    }
}
