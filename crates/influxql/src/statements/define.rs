//! Definitions: databases, retention policies; and the refusal of what there is not yet.
//!
//! Does: turn statements into changes of the service, a policy into a schema with retention. Does not: keep
//! subscriptions: they are refused, never accepted in silence.

use nilometer_engine::Snapshot;
use nilometer_influxql_syntax::ast::{
    AlterRetentionPolicy, CreateDatabase, CreateRetentionPolicy, Statement,
};
use nilometer_service::define::{
    self, Change, Path, PolicySettings, policy_settings, schema_of_policy, shard_ns,
};
use nilometer_service::{Error as ServiceError, Scope};

use super::context::Context;
use super::continuous;
use super::error::Error;
use super::shards;

const HOUR_NS: i64 = 3_600_000_000_000;

/// Carries a definition out.
pub(super) fn run(context: &Context, statement: &Statement) -> Result<(), ServiceError> {
    match statement {
        Statement::CreateDatabase(create) => create_database(context, create),
        Statement::DropDatabase(name) => change(
            context,
            "",
            Change::DropDatabase {
                name: name.clone(),
                if_exists: true,
            },
        ),
        Statement::CreateRetentionPolicy(create) => create_policy(context, create),
        Statement::AlterRetentionPolicy(alter) => alter_policy(context, alter),
        Statement::DropRetentionPolicy { name, database } => drop_policy(context, name, database),
        Statement::CreateContinuousQuery(create) => continuous::create(context, create),
        Statement::DropContinuousQuery { name, database } => {
            continuous::drop(context, database, name)
        }
        Statement::CreateSubscription(_) => Err(Error::Unsupported("subscriptions").into()),
        Statement::DropSubscription(_) => Err(Error::UnknownSubscription.into()),
        Statement::DropShard(id) => shards::drop(context, *id),
        Statement::Explain { .. }
        | Statement::Select(_)
        | Statement::Show(_)
        | Statement::Delete(_)
        | Statement::DropSeries(_)
        | Statement::DropMeasurement(_)
        | Statement::KillQuery { .. }
        | Statement::CreateUser(_)
        | Statement::DropUser(_)
        | Statement::SetPassword(_)
        | Statement::Grant(_)
        | Statement::GrantAdmin(_)
        | Statement::Revoke(_)
        | Statement::RevokeAdmin(_) => Err(Error::Unsupported("this statement").into()),
    }
}

fn change(context: &Context, database: &str, change: Change) -> Result<(), ServiceError> {
    let scope = Scope::of_database(database);
    define::run(&context.engine, &context.principal, &scope, change)
}

fn known(context: &Context, snapshot: &Snapshot, database: &str) -> Result<(), ServiceError> {
    if snapshot.default_schema(database).is_some() {
        return Ok(());
    }
    context.may_define(database)?;
    Err(Error::UnknownDatabase(database.to_owned()).into())
}

/// Refuses names that InfluxDB refuses.
fn check_name(name: &str) -> Result<(), Error> {
    const LENGTH_MAX: usize = 255;
    if name.is_empty()
        || matches!(name, "." | "..")
        || name.contains(['/', '\\'])
        || name.contains(char::is_control)
    {
        return Err(Error::Name);
    }
    if name.len() > LENGTH_MAX {
        return Err(Error::NameTooLong);
    }
    Ok(())
}

fn create_database(context: &Context, create: &CreateDatabase) -> Result<(), ServiceError> {
    check_name(&create.name)?;
    if let Some(policy) = &create.policy {
        check_name(policy)?;
    }
    let is_new = context
        .engine
        .snapshot()
        .default_schema(&create.name)
        .is_none();
    let wanted_of = |there: Wanted| Wanted {
        retention_ns: create.duration.unwrap_or(there.retention_ns),
        settings: PolicySettings {
            replicas: create
                .replication
                .map_or(there.settings.replicas, i64::from),
            shard_ns: create.shard_duration,
            future_limit_ns: create.future_limit.unwrap_or(0),
            past_limit_ns: create.past_limit.unwrap_or(0),
        },
    };
    if create.with_policy && is_new {
        // Else there would be a database without it.
        wanted_of(Wanted::default()).check()?;
    }
    change(
        context,
        "",
        Change::CreateDatabase {
            name: create.name.clone(),
            if_not_exists: true,
        },
    )?;
    if !create.with_policy {
        return Ok(());
    }
    let snapshot = context.engine.snapshot();
    let name = create.policy.as_deref().unwrap_or(define::DEFAULT_POLICY);
    let schema = schema_of_policy(&snapshot, &create.name, name);
    let there = match &schema {
        Some(schema) if !is_new => Wanted::of(&snapshot, &create.name, schema),
        _ => Wanted::default(),
    };
    let wanted = wanted_of(there);
    wanted.check()?;
    if is_new {
        // It has one policy and no table yet, and this is the name and the settings of that policy.
        let schema = match schema {
            Some(schema) => schema,
            None => rename_default(context, &snapshot, &create.name, name)?,
        };
        return wanted.set(context, &create.name, &schema);
    }
    // Of a database that is there, this may only say what its default policy is already.
    let default = snapshot.default_schema(&create.name);
    match schema {
        Some(schema)
            if default.as_ref() == Some(&schema)
                && wanted.is_that_of(&snapshot, &create.name, &schema) =>
        {
            Ok(())
        }
        _ => Err(Error::PolicyConflict.into()),
    }
}

fn rename_default(
    context: &Context,
    snapshot: &Snapshot,
    database: &str,
    to: &str,
) -> Result<String, ServiceError> {
    let path = snapshot.default_schema(database).unwrap_or_default();
    let to = to.to_owned();
    change(
        context,
        database,
        Change::RenameSchema {
            path: Path::from(path.as_str()),
            to: to.clone(),
        },
    )?;
    Ok(to)
}

fn create_schema(context: &Context, database: &str, name: &str) -> Result<(), ServiceError> {
    change(
        context,
        database,
        Change::CreateSchema {
            path: Path::from(name),
            if_not_exists: true,
            retention_ns: None,
        },
    )
}

fn set_default(context: &Context, database: &str, schema: &str) -> Result<(), ServiceError> {
    change(
        context,
        database,
        Change::SetDefaultSchema {
            database: database.to_owned(),
            schema: schema.to_owned(),
        },
    )
}

/// What a policy is to be.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Wanted {
    /// 0 = for ever.
    retention_ns: i64,
    settings: PolicySettings,
}

impl Wanted {
    fn of(snapshot: &Snapshot, database: &str, schema: &str) -> Self {
        Self {
            retention_ns: snapshot.schema_retention_ns(database, schema).unwrap_or(0),
            settings: policy_settings(snapshot, database, schema),
        }
    }

    fn is_that_of(&self, snapshot: &Snapshot, database: &str, schema: &str) -> bool {
        let there = Self::of(snapshot, database, schema);
        let shard = |of: &Self| shard_ns(of.retention_ns, of.settings.shard_ns);
        let settings = PolicySettings {
            shard_ns: there.settings.shard_ns,
            ..self.settings
        };
        there.retention_ns == self.retention_ns
            && there.settings == settings
            && shard(&there) == shard(self)
    }

    fn check(&self) -> Result<(), Error> {
        if self.retention_ns == 0 {
            return Ok(());
        }
        if self.retention_ns < HOUR_NS {
            return Err(Error::PolicyTooShort);
        }
        if self.settings.shard_ns > self.retention_ns {
            return Err(Error::ShardTooLong);
        }
        Ok(())
    }

    fn set(&self, context: &Context, database: &str, schema: &str) -> Result<(), ServiceError> {
        let path = Path::from(schema);
        let retention_ns = (self.retention_ns > 0).then_some(self.retention_ns);
        let snapshot = context.engine.snapshot();
        if snapshot.schema_retention_ns(database, schema) != retention_ns {
            let path = path.clone();
            change(context, database, Change::SetSchema { path, retention_ns })?;
        }
        if policy_settings(&snapshot, database, schema) != self.settings {
            let settings = self.settings;
            change(context, database, Change::SetPolicy { path, settings })?;
        }
        Ok(())
    }
}

fn create_policy(context: &Context, create: &CreateRetentionPolicy) -> Result<(), ServiceError> {
    let snapshot = context.engine.snapshot();
    let database = &create.database;
    check_name(&create.name)?;
    known(context, &snapshot, database)?;
    let wanted = Wanted {
        retention_ns: create.duration,
        settings: PolicySettings {
            replicas: i64::from(create.replication),
            shard_ns: create.shard_duration,
            future_limit_ns: create.future_limit,
            past_limit_ns: create.past_limit,
        },
    };
    wanted.check()?;
    let schema = match schema_of_policy(&snapshot, database, &create.name) {
        Some(schema) if wanted.is_that_of(&snapshot, database, &schema) => schema,
        Some(_) => return Err(Error::PolicyExists.into()),
        None => {
            create_schema(context, database, &create.name)?;
            wanted.set(context, database, &create.name)?;
            create.name.clone()
        }
    };
    if create.default {
        set_default(context, database, &schema)?;
    }
    Ok(())
}

fn alter_policy(context: &Context, alter: &AlterRetentionPolicy) -> Result<(), ServiceError> {
    let snapshot = context.engine.snapshot();
    let database = &alter.database;
    known(context, &snapshot, database)?;
    let Some(schema) = schema_of_policy(&snapshot, database, &alter.name) else {
        context.may_define(database)?;
        return Err(Error::UnknownPolicy(alter.name.clone()).into());
    };
    let there = Wanted::of(&snapshot, database, &schema);
    let settings = there.settings;
    let wanted = Wanted {
        retention_ns: alter.duration.unwrap_or(there.retention_ns),
        settings: PolicySettings {
            replicas: alter.replication.map_or(settings.replicas, i64::from),
            shard_ns: alter.shard_duration.unwrap_or(settings.shard_ns),
            future_limit_ns: alter.future_limit.unwrap_or(settings.future_limit_ns),
            past_limit_ns: alter.past_limit.unwrap_or(settings.past_limit_ns),
        },
    };
    wanted.check()?;
    wanted.set(context, database, &schema)?;
    if alter.default {
        set_default(context, database, &schema)?;
    }
    Ok(())
}

fn drop_policy(context: &Context, name: &str, database: &str) -> Result<(), ServiceError> {
    let snapshot = context.engine.snapshot();
    let Some(schema) = schema_of_policy(&snapshot, database, name) else {
        return context.may_define(database);
    };
    change(
        context,
        database,
        Change::DropSchema {
            path: Path::from(schema.as_str()),
            if_exists: true,
            cascade: true,
        },
    )
}
