//! Settings of the surface.

use std::fmt;
use std::str::FromStr;

use nilometer_listener::Tls;
use nilometer_service::Scope;

/// The largest payload that the protocol knows.
pub const PAYLOAD_BYTES_MAX: usize = 32 << 20;

/// Settings of the surface. An error that a limit causes names the setting: the field's name with `tstorage-` before it and
/// hyphens.
#[derive(Debug, Clone)]
pub struct TstorageConfig {
    /// The table of the records; made by the first PUT if it is not there.
    pub table: TableName,
    /// The user whose privileges every client has. `None` = everything is allowed where nobody is asked who they are, and
    /// nothing where everybody is.
    pub role: Option<String>,
    /// What clients that encrypt are shown; `None` = nothing is encrypted.
    pub tls: Option<Tls>,
    /// Connections at one time; others are refused.
    pub connections_max: usize,
    /// Bytes of one record's payload.
    pub payload_bytes_max: usize,
    /// How long a client may take to send or to take the next bytes of a request that has begun.
    pub stall_ms_max: u64,
}

impl Default for TstorageConfig {
    fn default() -> Self {
        Self {
            table: TableName {
                database: "tstorage".to_owned(),
                schema: None,
                table: "records".to_owned(),
            },
            role: None,
            tls: None,
            connections_max: 1024,
            payload_bytes_max: PAYLOAD_BYTES_MAX,
            stall_ms_max: 60_000,
        }
    }
}

/// The name of a table with its database, and with a schema unless it is in the default one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName {
    /// Its database.
    pub database: String,
    /// Its schema; `None` = the default one.
    pub schema: Option<String>,
    /// Its own name.
    pub table: String,
}

impl TableName {
    pub(crate) fn scope(&self) -> Scope {
        Scope {
            database: self.database.clone(),
            schema: self.schema.clone(),
        }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.database)?;
        if let Some(schema) = &self.schema {
            write!(f, ".{schema}")?;
        }
        write!(f, ".{}", self.table)
    }
}

impl FromStr for TableName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('.').collect();
        let (database, schema, table) = match parts.as_slice() {
            [database, table] => (database, None, table),
            [database, schema, table] => (database, Some((*schema).to_owned()), table),
            _ => return Err("write database.table or database.schema.table".to_owned()),
        };
        if parts.iter().any(|part| part.is_empty()) {
            return Err("a part of the name is empty; write database.table".to_owned());
        }
        Ok(Self {
            database: (*database).to_owned(),
            schema,
            table: (*table).to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_database_and_maybe_a_schema() {
        for text in ["tstorage.records", "a.b.c"] {
            let name: TableName = text.parse().unwrap();
            assert_eq!(name.to_string(), text);
        }
        assert_eq!(
            "a.b.c".parse::<TableName>().unwrap().schema.as_deref(),
            Some("b")
        );
        for text in ["", "records", "a..c", ".b", "a.b.c.d"] {
            text.parse::<TableName>().unwrap_err();
        }
    }
}
