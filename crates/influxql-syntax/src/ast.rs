//! Syntax tree: statements, sources, expressions.
//!
//! Does: hold what was written. Every statement prints in its normal form.
//! Does not: know types or names of a database.

mod define;
mod expr;
mod select;
mod show;

pub use define::{
    AlterRetentionPolicy, CreateContinuousQuery, CreateDatabase, CreateRetentionPolicy,
    CreateSubscription, CreateUser, DropSubscription, Grant, Privilege, SetPassword,
};
pub use expr::{Call, Cast, Expr, Operator, Reference, WildcardKind};
pub use select::{Delete, Field, Fill, Measurement, Select, SortField, Source};
pub use show::{Cardinality, KeyChoice, KeyOperator, Listing, Show, ShowMeasurements};

/// A statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// `ALTER RETENTION POLICY`
    AlterRetentionPolicy(AlterRetentionPolicy),
    /// `CREATE CONTINUOUS QUERY`
    CreateContinuousQuery(Box<CreateContinuousQuery>),
    /// `CREATE DATABASE`
    CreateDatabase(CreateDatabase),
    /// `CREATE RETENTION POLICY`
    CreateRetentionPolicy(CreateRetentionPolicy),
    /// `CREATE SUBSCRIPTION`
    CreateSubscription(CreateSubscription),
    /// `CREATE USER`
    CreateUser(CreateUser),
    /// `DELETE FROM .. WHERE ..`: points of series.
    Delete(Delete),
    /// `DROP CONTINUOUS QUERY name ON database`
    DropContinuousQuery {
        /// The query.
        name: String,
        /// Its database.
        database: String,
    },
    /// `DROP DATABASE`
    DropDatabase(String),
    /// `DROP MEASUREMENT`
    DropMeasurement(String),
    /// `DROP RETENTION POLICY name ON database`
    DropRetentionPolicy {
        /// The policy.
        name: String,
        /// Its database.
        database: String,
    },
    /// `DROP SERIES FROM .. WHERE ..`
    DropSeries(Delete),
    /// `DROP SHARD`
    DropShard(u64),
    /// `DROP SUBSCRIPTION`
    DropSubscription(DropSubscription),
    /// `DROP USER`
    DropUser(String),
    /// `EXPLAIN [ANALYZE] [VERBOSE] SELECT ..`
    Explain {
        /// Whether it runs.
        analyze: bool,
        /// Whether more is shown.
        verbose: bool,
        /// The statement to explain.
        select: Box<Select>,
    },
    /// `GRANT privilege ON database TO user`
    Grant(Grant),
    /// `GRANT ALL PRIVILEGES TO user`
    GrantAdmin(String),
    /// `KILL QUERY id [ON host]`
    KillQuery {
        /// Number of the statement, from `SHOW QUERIES`.
        id: u64,
        /// Its server.
        host: Option<String>,
    },
    /// `REVOKE privilege ON database FROM user`
    Revoke(Grant),
    /// `REVOKE ALL PRIVILEGES FROM user`
    RevokeAdmin(String),
    /// `SELECT`
    Select(Box<Select>),
    /// `SET PASSWORD FOR user = 'password'`
    SetPassword(SetPassword),
    /// `SHOW ..`
    Show(Show),
}
