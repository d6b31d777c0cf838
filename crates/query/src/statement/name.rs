//! Names in a statement, with their positions.
//!
//! Does: fold what is not quoted to lower case, as the planner does, and say what a path without database or schema
//! means. Does not: look anything up.

use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use datafusion::sql::sqlparser::tokenizer::Span;
use nilometer_service::define;

use crate::error::{Error, Position};

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

impl From<NameScope> for nilometer_service::Scope {
    fn from(place: NameScope) -> Self {
        Self {
            database: place.database,
            schema: Some(place.schema),
        }
    }
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
    /// The path of what the last name is in, and that name; `None` = it is in nothing.
    pub(crate) fn split_last(self) -> Option<(Self, Name)> {
        let Self { mut before, last } = self;
        let owner = before.pop()?;
        let path = Self {
            before,
            last: owner,
        };
        Some((path, last))
    }

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
            let remedy = "a database has one name";
            Err(Error::of_name(
                define::DefineError::TooManyParts { remedy },
                self.start(),
            ))
        }
    }

    /// As the name of a schema, with its database.
    pub(crate) fn schema(self, place: &NameScope) -> Result<(String, Name), Error> {
        let named = self.names().schema(&place.database);
        let (database, _) = named.map_err(|wrong| Error::of_name(wrong, self.start()))?;
        Ok((database, self.last))
    }

    /// As the name of a table or a view.
    pub(crate) fn table(self, place: &NameScope) -> Result<TableName, Error> {
        let named = self.names().table(&place.database, &place.schema);
        let name = named.map_err(|wrong| Error::of_name(wrong, self.start()))?;
        Ok(TableName::at(self.start(), name))
    }

    /// Without where it stands.
    pub(crate) fn names(&self) -> define::Path {
        define::Path {
            before: self.before.iter().map(|name| name.text.clone()).collect(),
            last: self.last.text.clone(),
        }
    }

    /// Where it starts.
    pub(crate) fn start(&self) -> Option<Position> {
        self.before.first().unwrap_or(&self.last).position
    }
}

impl TableName {
    /// With where it stands.
    pub(crate) fn at(position: Option<Position>, name: define::TableName) -> Self {
        let define::TableName {
            database,
            schema,
            table,
        } = name;
        Self {
            database,
            schema,
            table,
            position,
        }
    }

    /// Without where it stands.
    pub(crate) fn name(&self) -> define::TableName {
        define::TableName {
            database: self.database.clone(),
            schema: self.schema.clone(),
            table: self.table.clone(),
        }
    }

    /// `database.schema.table`.
    pub(crate) fn shown(&self) -> String {
        self.name().shown()
    }
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

/// A name in quotes, whether or not it needs them.
pub(crate) fn always_quoted(name: &str) -> String {
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
