//! SHOW.

use super::{Expr, SortField, Source};
use crate::Pattern;

/// `SHOW ..`
#[derive(Debug, Clone, PartialEq)]
pub enum Show {
    /// `SHOW CONTINUOUS QUERIES`
    ContinuousQueries,
    /// `SHOW DATABASES`
    Databases,
    /// `SHOW DIAGNOSTICS [FOR 'module']`
    Diagnostics(Option<String>),
    /// `SHOW FIELD KEYS`; without a condition.
    FieldKeys(Listing),
    /// `SHOW FIELD KEY [EXACT] CARDINALITY`
    FieldKeyCardinality(Cardinality),
    /// `SHOW GRANTS FOR user`
    GrantsFor(String),
    /// `SHOW MEASUREMENTS`
    Measurements(ShowMeasurements),
    /// `SHOW MEASUREMENT [EXACT] CARDINALITY`
    MeasurementCardinality(Cardinality),
    /// `SHOW QUERIES`
    Queries,
    /// `SHOW RETENTION POLICIES [ON database]`
    RetentionPolicies(Option<String>),
    /// `SHOW SERIES`
    Series(Listing),
    /// `SHOW SERIES [EXACT] CARDINALITY`
    SeriesCardinality(Cardinality),
    /// `SHOW SHARD GROUPS`
    ShardGroups,
    /// `SHOW SHARDS`
    Shards,
    /// `SHOW STATS [FOR 'module']`
    Stats(Option<String>),
    /// `SHOW SUBSCRIPTIONS`
    Subscriptions,
    /// `SHOW TAG KEYS [WITH KEY ..]`
    TagKeys(Option<KeyChoice>, Listing),
    /// `SHOW TAG KEY [EXACT] CARDINALITY`
    TagKeyCardinality(Cardinality),
    /// `SHOW TAG VALUES .. WITH KEY ..`
    TagValues(KeyChoice, Listing),
    /// `SHOW TAG VALUES [EXACT] CARDINALITY .. WITH KEY ..`
    TagValuesCardinality(KeyChoice, Cardinality),
    /// `SHOW USERS`
    Users,
}

/// The clauses of a list. A statement has those that its grammar has.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Listing {
    /// `ON database`
    pub database: Option<String>,
    /// `FROM`; empty is everything.
    pub sources: Vec<Source>,
    /// `WHERE`
    pub condition: Option<Expr>,
    /// `ORDER BY`
    pub order: Vec<SortField>,
    /// `LIMIT`; 0 is none.
    pub limit: u64,
    /// `OFFSET`
    pub offset: u64,
    /// `SLIMIT`; of tag keys only.
    pub slimit: u64,
    /// `SOFFSET`; of tag keys only.
    pub soffset: u64,
}

/// The clauses of a cardinality.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cardinality {
    /// `EXACT`
    pub exact: bool,
    /// `ON database`
    pub database: Option<String>,
    /// `FROM`; empty is everything.
    pub sources: Vec<Source>,
    /// `WHERE`
    pub condition: Option<Expr>,
    /// `GROUP BY`
    pub dimensions: Vec<Expr>,
    /// `LIMIT`; 0 is none.
    pub limit: u64,
    /// `OFFSET`
    pub offset: u64,
}

/// `SHOW MEASUREMENTS [ON database[.policy]] [WITH MEASUREMENT ..]`
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ShowMeasurements {
    /// `ON *`: every database.
    pub every_database: bool,
    /// `ON database.*`: every retention policy.
    pub every_policy: bool,
    /// `ON database.policy`
    pub policy: Option<String>,
    /// `WITH MEASUREMENT = name` or `=~ /pattern/`
    pub with: Option<Source>,
    /// The other clauses, without sources.
    pub listing: Listing,
}

/// `WITH KEY ..`
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyChoice {
    /// `= key` or `!= key`
    Name(KeyOperator, String),
    /// `=~ /pattern/` or `!~ /pattern/`
    Pattern(KeyOperator, Pattern),
    /// `IN (key, ..)`
    In(Vec<String>),
}

/// Whether the key is wanted or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyOperator {
    /// `=` or `=~`
    Is,
    /// `!=` or `!~`
    IsNot,
}
