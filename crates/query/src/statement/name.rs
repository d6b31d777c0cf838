//! Names in a statement, with their positions.
//!
//! Does: fold what is not quoted to lower case, as the planner does, and say what a path without database or schema
//! means. Does not: look anything up.

use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use datafusion::sql::sqlparser::tokenizer::Span;

use crate::error::{Error, Position};

/// Schemas that hold what the store says of itself.
pub(crate) const SYSTEM_SCHEMA: &str = "system";
/// The standard's counterpart.
pub(crate) const INFORMATION_SCHEMA: &str = "information_schema";

/// Where something starts; tokens that were made up have no place.
pub(crate) fn position(span: Span) -> Option<Position> {
    (span.start.line > 0).then_some(Position {
        line: span.start.line,
        column: span.start.column,
    })
}

/// One name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) position: Option<Position>,
}

impl From<&Ident> for Name {
    fn from(ident: &Ident) -> Self {
        let text = match ident.quote_style {
            Some(_) => ident.value.clone(),
            None => ident.value.to_ascii_lowercase(),
        };
        Self {
            text,
            position: position(ident.span),
        }
    }
}

/// Names with points between them: the last is what is meant, those before say where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    before: Vec<Name>,
    pub(crate) last: Name,
}

/// What names without database or schema mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NameScope {
    pub(crate) database: String,
    pub(crate) schema: String,
}

/// A table or view by its whole name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableName {
    pub(crate) database: String,
    pub(crate) schema: String,
    pub(crate) table: String,
    pub(crate) position: Option<Position>,
}

impl Path {
    /// The path that a name of the statement is.
    pub(crate) fn of(name: &ObjectName) -> Result<Self, Error> {
        let mut names = Vec::new();
        for part in &name.0 {
            let ident = part.as_ident().ok_or_else(|| Error::Plan {
                message: format!("{part} is not a name; write \"a name\" in double quotes"),
                position: None,
            })?;
            names.push(Name::from(ident));
        }
        let last = names
            .pop()
            .ok_or_else(|| Error::internal("an empty name"))?;
        Ok(Self {
            before: names,
            last,
        })
    }

    /// As the name of a database.
    pub(crate) fn database(self) -> Result<Name, Error> {
        if self.before.is_empty() {
            Ok(self.last)
        } else {
            Err(self.too_long("a database has one name"))
        }
    }

    /// As the name of a schema, with its database.
    pub(crate) fn schema(self, place: &NameScope) -> Result<(String, Name), Error> {
        match self.before.as_slice() {
            [] => Ok((place.database.clone(), self.last)),
            [database] => Ok((database.text.clone(), self.last)),
            _ => Err(self.too_long("write database.schema")),
        }
    }

    /// As the name of a table or a view.
    pub(crate) fn table(self, place: &NameScope) -> Result<TableName, Error> {
        let (database, schema) = match self.before.as_slice() {
            [] => (place.database.clone(), place.schema.clone()),
            [schema] => (place.database.clone(), schema.text.clone()),
            [database, schema] => (database.text.clone(), schema.text.clone()),
            _ => return Err(self.too_long("write database.schema.table")),
        };
        let first = self.before.first().unwrap_or(&self.last);
        Ok(TableName {
            database,
            schema,
            position: first.position,
            table: self.last.text,
        })
    }

    fn too_long(&self, remedy: &str) -> Error {
        let first = self.before.first().unwrap_or(&self.last);
        Error::Plan {
            message: format!("the name has too many parts; {remedy}"),
            position: first.position,
        }
    }
}

impl TableName {
    /// `database.schema.table`.
    pub(crate) fn shown(&self) -> String {
        format!("{}.{}.{}", self.database, self.schema, self.table)
    }
}

/// Whether nothing can be made or changed in a schema.
pub(crate) fn is_reserved(schema: &str) -> bool {
    schema == SYSTEM_SCHEMA || schema == INFORMATION_SCHEMA
}

/// A name as it has to be written.
pub(crate) fn quoted(name: &str) -> String {
    let plain = name
        .chars()
        .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
        && name
            .chars()
            .next()
            .is_some_and(|first| !first.is_ascii_digit())
        && !is_keyword(name);
    if plain {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as a literal.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn is_keyword(name: &str) -> bool {
    use datafusion::sql::sqlparser::keywords::{
        ALL_KEYWORDS, ALL_KEYWORDS_INDEX, RESERVED_FOR_COLUMN_ALIAS, RESERVED_FOR_TABLE_ALIAS,
    };
    // Words that start an expression of their own.
    const STARTS: [&str; 9] = [
        "case", "cast", "exists", "false", "interval", "not", "null", "table", "true",
    ];
    if STARTS.contains(&name) {
        return true;
    }
    let upper = name.to_ascii_uppercase();
    let Ok(at) = ALL_KEYWORDS.binary_search(&upper.as_str()) else {
        return false;
    };
    ALL_KEYWORDS_INDEX.get(at).is_some_and(|keyword| {
        RESERVED_FOR_COLUMN_ALIAS.contains(keyword) || RESERVED_FOR_TABLE_ALIAS.contains(keyword)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_only_where_they_would_not_be_read_back() {
        for (name, written) in [
            ("cpu", "cpu"),
            ("usage_user", "usage_user"),
            ("Odd Name", "\"Odd Name\""),
            ("1st", "\"1st\""),
            ("a\"b", "\"a\"\"b\""),
            ("order", "\"order\""),
            ("from", "\"from\""),
            ("", "\"\""),
        ] {
            assert_eq!(quoted(name), written);
        }
        assert_eq!(literal("it's"), "'it''s'");
    }
}
