//! Users and what each may do.
//!
//! Does: turn statements about users into changes of the service, show users and grants, and say what a statement needs
//! before it runs. Does not: keep users, or check a definition; the service does both.

use nilometer_influxql_syntax::ast::{self, Select, Show, Source, Statement};
use nilometer_service::define::schema_of_policy;
use nilometer_service::{
    Error as ServiceError, Place, Principal, Privilege, Privileges, Set, UserChange, change_users,
    grants_of, users_of,
};

use super::Context;
use super::error::Error;
use super::sets::Table;

/// The change that a statement is; `None` = it is not about users.
fn change_of(statement: &Statement) -> Option<UserChange> {
    let privileges = |privilege| match privilege {
        ast::Privilege::Read => Privileges::READ,
        ast::Privilege::Write => Privileges::WRITE,
        ast::Privilege::All => Privileges::ALL,
    };
    Some(match statement {
        Statement::CreateUser(create) => UserChange::Create {
            name: create.name.clone(),
            password: create.password.clone(),
            is_admin: create.admin,
        },
        Statement::DropUser(name) => UserChange::Drop { name: name.clone() },
        Statement::SetPassword(set) => UserChange::SetPassword {
            name: set.user.clone(),
            password: set.password.clone(),
        },
        Statement::GrantAdmin(name) => UserChange::SetAdmin {
            name: name.clone(),
            is_admin: true,
        },
        Statement::RevokeAdmin(name) => UserChange::SetAdmin {
            name: name.clone(),
            is_admin: false,
        },
        Statement::Grant(grant) => UserChange::Grant {
            user: grant.user.clone(),
            database: grant.database.clone(),
            schema: None,
            table: None,
            privileges: privileges(grant.privilege),
        },
        Statement::Revoke(grant) => UserChange::Revoke {
            user: grant.user.clone(),
            database: grant.database.clone(),
            schema: None,
            table: None,
            privileges: privileges(grant.privilege),
        },
        _ => return None,
    })
}

/// Carries a statement about users out; false = it is none.
pub(super) fn run(context: &Context, statement: &Statement) -> Result<bool, ServiceError> {
    let Some(change) = change_of(statement) else {
        return Ok(false);
    };
    let done = change_users(&context.engine, &context.principal, change);
    done.map_err(|error| match error {
        // As clients know it.
        ServiceError::UnknownUser { .. } => Error::UnknownUser.into(),
        other => other,
    })?;
    Ok(true)
}

/// `SHOW USERS`
pub(super) fn users(context: &Context) -> Vec<Set> {
    let users = users_of(&context.engine.snapshot());
    let table = Table::default().texts("user", users.iter().map(|user| &user.name));
    let admin = users.iter().map(|user| user.is_admin).collect();
    vec![table.flags("admin", admin).set()]
}

/// `SHOW GRANTS FOR user`: those of whole databases, which are all that this language grants.
pub(super) fn grants(context: &Context, user: &str) -> Result<Vec<Set>, Error> {
    let grants = grants_of(&context.engine.snapshot(), user).ok_or(Error::UnknownUser)?;
    let whole = grants.iter().filter(|grant| grant.schema.is_none());
    let names = |privileges: Privileges| {
        let has = |privilege| privileges.has(privilege);
        match (has(Privilege::Read), has(Privilege::Write)) {
            (true, true) => "ALL PRIVILEGES",
            (true, false) => "READ",
            (false, true) => "WRITE",
            (false, false) => "NO PRIVILEGES",
        }
    };
    let table = Table::default()
        .texts("database", whole.clone().map(|grant| &grant.database))
        .texts("privilege", whole.map(|grant| names(grant.privileges)));
    Ok(vec![table.set()])
}

/// Refuses a statement that its sender may not run. Definitions and changes of users are checked where they are made.
pub(super) fn check(context: &Context, statement: &Statement) -> Result<(), ServiceError> {
    if context.principal.is_admin() {
        return Ok(());
    }
    let asks = Asks(context);
    match statement {
        Statement::Select(select) => {
            asks.select(select)?;
            match &select.target {
                Some(target) => asks.of(Privilege::Write, &target.database),
                None => Ok(()),
            }
        }
        Statement::Explain { select, .. } => asks.select(select),
        Statement::Show(show) => asks.show(show),
        Statement::Delete(delete) | Statement::DropSeries(delete) => {
            asks.sources(Privilege::Write, &delete.sources)?;
            asks.of(Privilege::Write, "")
        }
        Statement::CreateContinuousQuery(create) => {
            asks.of(Privilege::Define, &create.database)?;
            asks.select(&create.select)
        }
        Statement::DropContinuousQuery { database, .. } => asks.of(Privilege::Define, database),
        Statement::CreateSubscription(create) => asks.of(Privilege::Administer, &create.database),
        Statement::DropSubscription(drop) => asks.of(Privilege::Administer, &drop.database),
        Statement::KillQuery { .. } | Statement::DropShard(_) => context.principal.check_admin(),
        Statement::AlterRetentionPolicy(_)
        | Statement::CreateDatabase(_)
        | Statement::CreateRetentionPolicy(_)
        | Statement::CreateUser(_)
        | Statement::DropDatabase(_)
        | Statement::DropMeasurement(_)
        | Statement::DropRetentionPolicy { .. }
        | Statement::DropUser(_)
        | Statement::Grant(_)
        | Statement::GrantAdmin(_)
        | Statement::Revoke(_)
        | Statement::RevokeAdmin(_)
        | Statement::SetPassword(_) => Ok(()),
    }
}

/// What a statement asks for, in the place where it runs.
struct Asks<'a>(&'a Context);

impl Asks<'_> {
    fn principal(&self) -> &Principal {
        &self.0.principal
    }

    /// Of a whole database; an empty name is the statement's.
    fn of(&self, privilege: Privilege, database: &str) -> Result<(), ServiceError> {
        let own = self.0.database.as_str();
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
            let own = self.0.database.as_str();
            let database = if named.is_empty() { own } else { named };
            let snapshot = self.0.engine.snapshot();
            let own = self.0.schema.as_deref().filter(|_| named.is_empty());
            let policy = match measurement.policy.as_str() {
                "" => own.unwrap_or_default(),
                policy => policy,
            };
            let schema = schema_of_policy(&snapshot, database, policy);
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
