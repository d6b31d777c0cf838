//! Errors of definitions: what is wrong with a name, and which name of the change it is.

use std::fmt;

/// What is wrong with a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DefineError {
    /// Nothing has the name.
    #[error("{what} not found: \"{name}\"{}", suggestion(.nearest.as_deref()))]
    Unknown {
        /// What was asked for.
        what: Object,
        /// The name asked for, with what it would be in.
        name: String,
        /// The name that was probably meant.
        nearest: Option<String>,
    },
    /// The schema holds what the store says of itself.
    #[error("the schema \"{schema}\" is what the store says of itself and cannot be changed")]
    Reserved {
        /// The schema.
        schema: String,
    },
    /// The schema is not empty.
    #[error(
        "the schema \"{schema}\" has {tables} tables and {views} views; drop them first, or with it"
    )]
    SchemaInUse {
        /// The schema.
        schema: String,
        /// Its tables and relations.
        tables: usize,
        /// Its views.
        views: usize,
    },
    /// It is a relation, and a table over time is wanted.
    #[error(
        "\"{name}\" is a relation: it has no time, no tags and no series, and its columns stay as they were made"
    )]
    IsRelation {
        /// The relation.
        name: String,
    },
    /// It is a view, and a table over time is wanted.
    #[error("\"{name}\" is a view; change what it reads, or replace it")]
    IsView {
        /// The view.
        name: String,
    },
    /// A relation in which the store keeps what is its own has the name.
    #[error("the name \"{name}\" is taken by what the store keeps for itself")]
    KeepsOwn {
        /// The name.
        name: String,
    },
    /// Every table has its time column, and it stays as it is.
    #[error("the column time cannot be changed")]
    TimeColumn,
    /// A type that does not have every value of the old one, or is stored otherwise.
    #[error(
        "the type of \"{column}\" cannot become {to}: rows that are there would not be looked at; add a column of that type and write its values with UPDATE"
    )]
    Narrower {
        /// The column.
        column: String,
        /// The type asked for.
        to: String,
    },
    /// A payload schema that does not read, or that does not fit its table.
    #[error("the payload schema is refused: {reason}")]
    PayloadSchema {
        /// What is wrong, and what to write.
        reason: String,
    },
    /// The name is in more than there is.
    #[error("the name has too many parts; {remedy}")]
    TooManyParts {
        /// What to write.
        remedy: &'static str,
    },
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest
        .map(|name| format!("; did you mean \"{name}\"?"))
        .unwrap_or_default()
}

/// What has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Object {
    /// A database.
    Database,
    /// A schema.
    Schema,
    /// A table, relation or view.
    Table,
    /// A view.
    View,
    /// A column.
    Column,
}

impl Object {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Database => "database",
            Self::Schema => "schema",
            Self::Table => "table",
            Self::View => "view",
            Self::Column => "column",
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// One of a change's names, for a language that knows where each stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// The first name of the path, or the only one.
    Start,
    /// The last name of the path: that of the thing itself.
    Name,
    /// The other name: the new one, the default schema, or the column.
    Other,
}
