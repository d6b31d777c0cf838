//! Definitions: databases, retention policies, continuous queries, users, subscriptions. Durations are nanoseconds.

use super::Select;

/// `CREATE DATABASE name [WITH ..]`
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CreateDatabase {
    /// Its name.
    pub name: String,
    /// Whether there is a `WITH`, which makes a retention policy of its own.
    pub with_policy: bool,
    /// `DURATION`; 0 is forever.
    pub duration: Option<i64>,
    /// `REPLICATION`
    pub replication: Option<u32>,
    /// `SHARD DURATION`; 0 is chosen by the server.
    pub shard_duration: i64,
    /// `FUTURE LIMIT`
    pub future_limit: Option<i64>,
    /// `PAST LIMIT`
    pub past_limit: Option<i64>,
    /// `NAME` of the policy.
    pub policy: Option<String>,
}

/// `CREATE RETENTION POLICY name ON database DURATION d REPLICATION n ..`
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CreateRetentionPolicy {
    /// Its name.
    pub name: String,
    /// Its database.
    pub database: String,
    /// How long points stay; 0 is forever.
    pub duration: i64,
    /// How many copies there are.
    pub replication: u32,
    /// `SHARD DURATION`; 0 is chosen by the server.
    pub shard_duration: i64,
    /// Whether it becomes the default policy.
    pub default: bool,
    /// `FUTURE LIMIT`; 0 is none.
    pub future_limit: i64,
    /// `PAST LIMIT`; 0 is none.
    pub past_limit: i64,
}

/// `ALTER RETENTION POLICY name ON database ..`
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AlterRetentionPolicy {
    /// Its name.
    pub name: String,
    /// Its database.
    pub database: String,
    /// `DURATION`; 0 is forever.
    pub duration: Option<i64>,
    /// `REPLICATION`
    pub replication: Option<u32>,
    /// `SHARD DURATION`
    pub shard_duration: Option<i64>,
    /// Whether it becomes the default policy.
    pub default: bool,
    /// `FUTURE LIMIT`
    pub future_limit: Option<i64>,
    /// `PAST LIMIT`
    pub past_limit: Option<i64>,
}

/// `CREATE CONTINUOUS QUERY name ON database [RESAMPLE ..] BEGIN SELECT .. END`
#[derive(Debug, Clone, PartialEq)]
pub struct CreateContinuousQuery {
    /// Its name.
    pub name: String,
    /// Its database.
    pub database: String,
    /// `RESAMPLE EVERY`; 0 is not given.
    pub resample_every: i64,
    /// `RESAMPLE .. FOR`; 0 is not given.
    pub resample_for: i64,
    /// What runs. It has a target.
    pub select: Select,
}

/// `CREATE USER name WITH PASSWORD 'password' [WITH ALL PRIVILEGES]`
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CreateUser {
    /// Their name.
    pub name: String,
    /// Their password; never printed.
    pub password: String,
    /// Whether they are an administrator.
    pub admin: bool,
}

/// `SET PASSWORD FOR user = 'password'`
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SetPassword {
    /// Whose.
    pub user: String,
    /// The new password; never printed.
    pub password: String,
}

/// What a user may do in a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privilege {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Both.
    All,
}

/// A privilege given or taken: `privilege ON database TO user`.
#[derive(Debug, Clone, PartialEq)]
pub struct Grant {
    /// What.
    pub privilege: Privilege,
    /// Where.
    pub database: String,
    /// Whose.
    pub user: String,
}

/// `CREATE SUBSCRIPTION name ON database.policy DESTINATIONS ALL 'url', ..`
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CreateSubscription {
    /// Its name.
    pub name: String,
    /// Its database.
    pub database: String,
    /// Its retention policy.
    pub policy: String,
    /// `ALL` (and not `ANY`) destinations get each point.
    pub all: bool,
    /// Addresses.
    pub destinations: Vec<String>,
}

/// `DROP SUBSCRIPTION name ON database.policy`
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DropSubscription {
    /// Its name.
    pub name: String,
    /// Its database.
    pub database: String,
    /// Its retention policy.
    pub policy: String,
}
