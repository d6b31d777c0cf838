//! Retention policies of names in statements.
//!
//! Does: say which policy a name means, by one rule for what is read, written, listed and allowed. Does not: know which
//! schema a policy is (the service does).

use nilometer_engine::Snapshot;
use nilometer_service::define::schema_of_policy;

/// The schema of a name: its own policy, else the session's (`rp`), whatever database the name is of, as in `InfluxDB`, else
/// the database's default. `Err` = the policy that is not there.
pub(crate) fn schema_of<'a>(
    snapshot: &Snapshot,
    database: &str,
    named: &'a str,
    session: Option<&'a str>,
) -> Result<String, &'a str> {
    let policy = match named {
        "" => session.unwrap_or_default(),
        named => named,
    };
    schema_of_policy(snapshot, database, policy).ok_or(policy)
}
