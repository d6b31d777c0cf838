//! Privileges that statements need.
//!
//! Does: find what a statement reads and writes, and ask whether its sender may. Does not: check definitions and changes of
//! users; the service does, where they are made.

use crate::policies::schema_of;
use crate::statements::{Error, continuous};
use nilometer_engine::Snapshot;
use nilometer_influxql_syntax::ast::{Select, Show, Source, Statement};
use nilometer_service::{
    Error as ServiceError, INTERNAL_DATABASE, Place, Principal, Privilege, Session,
};

/// Refuses a statement that its sender may not run. Definitions and changes of users are checked where they are made.
pub(crate) fn check(
    session: &Session,
    snapshot: &Snapshot,
    statement: &Statement,
) -> Result<(), ServiceError> {
    let principal = &session.principal;
    let writing = match statement {
        Statement::Select(select) => Some(&**select),
        Statement::CreateContinuousQuery(create) => Some(&create.select),
        _ => None,
    };
    if let Some(select) = writing
        && let Some(target) = &select.target
        && [target.database.as_str(), session.database.as_str()]
            .into_iter()
            .find(|name| !name.is_empty())
            == Some(INTERNAL_DATABASE)
    {
        return Err(ServiceError::InternalDatabase);
    }
    if principal.is_admin() {
        return Ok(());
    }
    // Before there is an administrator nobody learns what there is.
    let founds = matches!(statement, Statement::CreateUser(create) if create.admin);
    if principal.is_founder() && !founds {
        return Err(Error::NoAdministrator.into());
    }
    let asks = Asks { session, snapshot };
    match statement {
        Statement::Select(select) | Statement::Explain { select, .. } => {
            asks.select(select)?;
            match &select.target {
                Some(target) => asks.of(Privilege::Write, &target.database),
                None => Ok(()),
            }
        }
        Statement::Show(show) => asks.show(show),
        Statement::Delete(delete) | Statement::DropSeries(delete) => {
            asks.sources(Privilege::Write, &delete.sources)?;
            asks.of(Privilege::Write, "")
        }
        Statement::CreateContinuousQuery(create) => {
            asks.of(Privilege::Define, &create.database)?;
            // It runs for nobody in particular, with what its maker may do.
            let own = Session {
                database: continuous::home(&session.database, create).to_owned(),
                ..session.clone()
            };
            let asks = Asks {
                session: &own,
                snapshot,
            };
            asks.select(&create.select)?;
            let target = create.select.target.as_ref();
            target.map_or(Ok(()), |target| asks.of(Privilege::Write, &target.database))
        }
        Statement::CreateSubscription(create) => asks.of(Privilege::Administer, &create.database),
        Statement::DropSubscription(drop) => asks.of(Privilege::Administer, &drop.database),
        Statement::KillQuery { .. } | Statement::DropShard(_) => principal.check_admin(),
        // Asked here too, because one that would change nothing is not carried out.
        Statement::AlterRetentionPolicy(alter) => asks.of(Privilege::Define, &alter.database),
        Statement::CreateRetentionPolicy(create) => asks.of(Privilege::Define, &create.database),
        Statement::DropRetentionPolicy { database, .. }
        | Statement::DropContinuousQuery { database, .. } => asks.of(Privilege::Define, database),
        Statement::CreateDatabase(_)
        | Statement::CreateUser(_)
        | Statement::DropDatabase(_)
        | Statement::DropMeasurement(_)
        | Statement::DropUser(_)
        | Statement::Grant(_)
        | Statement::GrantAdmin(_)
        | Statement::Revoke(_)
        | Statement::RevokeAdmin(_)
        | Statement::SetPassword(_) => Ok(()),
    }
}

/// What a statement asks for, in the place where it runs.
struct Asks<'a> {
    session: &'a Session,
    snapshot: &'a Snapshot,
}

impl Asks<'_> {
    fn principal(&self) -> &Principal {
        &self.session.principal
    }

    /// Of a whole database; an empty name is the statement's.
    fn of(&self, privilege: Privilege, database: &str) -> Result<(), ServiceError> {
        let own = self.session.database.as_str();
        let database = if database.is_empty() { own } else { database };
        self.principal().check(privilege, Place::database(database))
    }

    fn select(&self, select: &Select) -> Result<(), ServiceError> {
        self.sources(Privilege::Read, &select.sources)
    }

    /// Of measurements. A pattern may find any of a policy.
    fn sources(&self, privilege: Privilege, sources: &[Source]) -> Result<(), ServiceError> {
        for source in sources {
            let measurement = match source {
                Source::Subquery(select) => {
                    self.select(select)?;
                    continue;
                }
                Source::Measurement(measurement) => measurement,
            };
            let named = measurement.database.as_str();
            let own = self.session.database.as_str();
            let database = if named.is_empty() { own } else { named };
            let own = self.session.schema.as_deref();
            // Of a policy that is not there nothing is read.
            let schema = schema_of(self.snapshot, database, &measurement.policy, own).ok();
            let place = Place {
                schema: schema.as_deref(),
                table: Some(measurement.name.as_str()).filter(|_| measurement.pattern.is_none()),
                ..Place::database(database)
            };
            self.principal().check(privilege, place)?;
        }
        Ok(())
    }

    fn show(&self, show: &Show) -> Result<(), ServiceError> {
        let read = |on: Option<&str>| self.of(Privilege::Read, on.unwrap_or_default());
        match show {
            // Everybody sees those of which they see something.
            Show::Databases => Ok(()),
            Show::GrantsFor(user) if self.principal().name() == Some(user) => Ok(()),
            Show::RetentionPolicies(on) => read(on.as_deref()),
            // Of all databases it shows those that the asker may read.
            Show::Measurements(show) if show.every_database => Ok(()),
            Show::Measurements(show) => read(show.listing.database.as_deref()),
            Show::Series(listing) | Show::FieldKeys(listing) | Show::TagKeys(_, listing) => {
                read(listing.database.as_deref())
            }
            Show::TagValues(_, listing) => read(listing.database.as_deref()),
            Show::SeriesCardinality(clauses)
            | Show::MeasurementCardinality(clauses)
            | Show::TagKeyCardinality(clauses)
            | Show::TagValuesCardinality(_, clauses)
            | Show::FieldKeyCardinality(clauses) => read(clauses.database.as_deref()),
            Show::ContinuousQueries
            | Show::Diagnostics(_)
            | Show::GrantsFor(_)
            | Show::Queries
            | Show::ShardGroups
            | Show::Shards
            | Show::Stats(_)
            | Show::Subscriptions
            | Show::Users => self.principal().check_admin(),
        }
    }
}
