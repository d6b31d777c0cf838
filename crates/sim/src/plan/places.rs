//! Places of tables: `d0` is the default schema of the database `d0`, `d0/s1` its schema `s1`.

use nilometer_engine::DEFAULT_SCHEMA;

/// Database and schema of a place.
pub fn split(place: &str) -> (&str, &str) {
    place.split_once('/').unwrap_or((place, DEFAULT_SCHEMA))
}

/// The place of a schema.
pub fn place_of(database: &str, schema: &str) -> String {
    if schema == DEFAULT_SCHEMA {
        database.to_owned()
    } else {
        format!("{database}/{schema}")
    }
}

/// A change of databases and schemas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlaceChange {
    /// Makes a database, or a schema of one.
    Create(String),
    /// Drops it with all that is in it.
    Drop(String),
    /// Gives it another name; both are databases, or both are schemas of one.
    Rename(String, String),
}

impl PlaceChange {
    /// What it names first.
    pub fn place(&self) -> &str {
        match self {
            Self::Create(place) | Self::Drop(place) | Self::Rename(place, _) => place,
        }
    }
}

/// What a place is called after a rename of it or of what it is in; `None` = it is neither.
pub fn renamed(place: &str, from: &str, to: &str) -> Option<String> {
    let rest = place.strip_prefix(from)?;
    (rest.is_empty() || rest.starts_with('/')).then(|| format!("{to}{rest}"))
}

/// Whether a place is this one or in it.
pub fn is_in(place: &str, outer: &str) -> bool {
    renamed(place, outer, outer).is_some()
}
