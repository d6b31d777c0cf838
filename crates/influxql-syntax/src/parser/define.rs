//! CREATE, ALTER and DROP.

use std::borrow::Cow;

use super::{Parsed, Parser, unexpected};
use crate::ast::{
    AlterRetentionPolicy, CreateContinuousQuery, CreateDatabase, CreateRetentionPolicy,
    CreateSubscription, DropSubscription, Statement,
};
use crate::token::Kind;
use crate::{Error, format_duration};

impl Parser<'_> {
    pub(super) fn create(&mut self) -> Parsed<Statement> {
        let token = self.next();
        match token.kind {
            Kind::Continuous => {
                self.expect(Kind::Query)?;
                let query = self.create_continuous_query()?;
                Ok(Statement::CreateContinuousQuery(Box::new(query)))
            }
            Kind::Database => self.create_database().map(Statement::CreateDatabase),
            Kind::User => self.create_user().map(Statement::CreateUser),
            Kind::Retention => {
                self.expect(Kind::Policy)?;
                self.create_policy().map(Statement::CreateRetentionPolicy)
            }
            Kind::Subscription => self
                .create_subscription()
                .map(Statement::CreateSubscription),
            _ => Err(unexpected(
                &token,
                &[
                    "CONTINUOUS",
                    "DATABASE",
                    "USER",
                    "RETENTION",
                    "SUBSCRIPTION",
                ],
            )),
        }
    }

    pub(super) fn drop(&mut self) -> Parsed<Statement> {
        let token = self.next();
        match token.kind {
            Kind::Continuous => {
                self.expect(Kind::Query)?;
                let (name, database) = self.name_on()?;
                Ok(Statement::DropContinuousQuery { name, database })
            }
            Kind::Database => self.ident().map(Statement::DropDatabase),
            Kind::Measurement => self.ident().map(Statement::DropMeasurement),
            Kind::Retention => {
                self.expect(Kind::Policy)?;
                let (name, database) = self.name_on()?;
                Ok(Statement::DropRetentionPolicy { name, database })
            }
            Kind::Series => self.delete().map(Statement::DropSeries),
            Kind::Shard => self.id().map(Statement::DropShard),
            Kind::Subscription => {
                let (name, database) = self.name_on()?;
                let policy = self.dotted()?;
                Ok(Statement::DropSubscription(DropSubscription {
                    name,
                    database,
                    policy,
                }))
            }
            Kind::User => self.ident().map(Statement::DropUser),
            _ => Err(unexpected(
                &token,
                &[
                    "CONTINUOUS",
                    "DATABASE",
                    "MEASUREMENT",
                    "RETENTION",
                    "SERIES",
                    "SHARD",
                    "SUBSCRIPTION",
                    "USER",
                ],
            )),
        }
    }

    /// `name ON database`
    fn name_on(&mut self) -> Parsed<(String, String)> {
        let name = self.ident()?;
        self.expect(Kind::On)?;
        Ok((name, self.ident()?))
    }

    /// `.name`, without a space before the dot.
    fn dotted(&mut self) -> Parsed<String> {
        let token = self.scan();
        if token.kind != Kind::Dot {
            return Err(unexpected(&token, &["."]));
        }
        self.ident()
    }

    fn create_database(&mut self) -> Parsed<CreateDatabase> {
        let mut create = CreateDatabase {
            name: self.ident()?,
            ..CreateDatabase::default()
        };
        if !self.accept(Kind::With) {
            return Ok(create);
        }
        let token = self.next();
        if !matches!(
            token.kind,
            Kind::DurationWord
                | Kind::Name
                | Kind::Replication
                | Kind::Shard
                | Kind::Future
                | Kind::Past
        ) {
            let words = ["DURATION", "NAME", "REPLICATION", "SHARD", "FUTURE", "PAST"];
            return Err(unexpected(&token, &words));
        }
        self.back();
        create.with_policy = true;
        if self.accept(Kind::DurationWord) {
            create.duration = Some(self.duration()?);
        }
        if self.accept(Kind::Replication) {
            create.replication = Some(self.count()?);
        }
        if self.accept(Kind::Shard) {
            self.expect(Kind::DurationWord)?;
            create.shard_duration = self.duration()?;
        }
        if self.accept(Kind::Future) {
            create.future_limit = Some(self.write_limit()?);
        }
        if self.accept(Kind::Past) {
            create.past_limit = Some(self.write_limit()?);
        }
        if self.accept(Kind::Name) {
            create.policy = Some(self.ident()?);
        }
        Ok(create)
    }

    /// `LIMIT duration`, behind FUTURE or PAST.
    fn write_limit(&mut self) -> Parsed<i64> {
        self.expect(Kind::Limit)?;
        self.duration()
    }

    /// `DURATION duration`, behind SHARD. It cannot be infinite.
    fn shard_duration(&mut self) -> Parsed<i64> {
        self.expect(Kind::DurationWord)?;
        let token = self.next();
        if token.kind == Kind::Inf {
            let reason = "invalid duration INF for shard duration".to_owned();
            return Err(Error::Invalid {
                reason,
                at: token.at,
            });
        }
        self.back();
        self.duration()
    }

    fn create_policy(&mut self) -> Parsed<CreateRetentionPolicy> {
        let (name, database) = self.name_on()?;
        let mut create = CreateRetentionPolicy {
            name,
            database,
            ..CreateRetentionPolicy::default()
        };
        self.expect(Kind::DurationWord)?;
        create.duration = self.duration()?;
        self.expect(Kind::Replication)?;
        create.replication = self.count()?;
        if self.accept(Kind::Shard) {
            create.shard_duration = self.shard_duration()?;
        }
        create.default = self.accept(Kind::Default);
        if self.accept(Kind::Future) {
            create.future_limit = self.write_limit()?;
        }
        if self.accept(Kind::Past) {
            create.past_limit = self.write_limit()?;
        }
        Ok(create)
    }

    pub(super) fn alter_policy(&mut self) -> Parsed<AlterRetentionPolicy> {
        let token = self.next();
        let name = match token.kind {
            Kind::Default => "default".to_owned(),
            Kind::Ident => token.text.into_owned(),
            _ => return Err(unexpected(&token, &["identifier"])),
        };
        self.expect(Kind::On)?;
        let database = self.ident()?;
        let mut alter = AlterRetentionPolicy {
            name,
            database,
            ..AlterRetentionPolicy::default()
        };
        let mut found: Vec<Kind> = Vec::new();
        loop {
            let token = self.next();
            if found.contains(&token.kind) {
                let reason = format!("found duplicate {} option", token.kind.name());
                return Err(Error::Invalid {
                    reason,
                    at: token.at,
                });
            }
            match token.kind {
                Kind::DurationWord => alter.duration = Some(self.duration()?),
                Kind::Replication => alter.replication = Some(self.count()?),
                Kind::Shard => alter.shard_duration = Some(self.shard_duration()?),
                Kind::Default => alter.default = true,
                Kind::Future => alter.future_limit = Some(self.write_limit()?),
                Kind::Past => alter.past_limit = Some(self.write_limit()?),
                _ if found.is_empty() => {
                    let words = [
                        "DURATION",
                        "REPLICATION",
                        "SHARD",
                        "DEFAULT",
                        "FUTURE",
                        "PAST",
                    ];
                    return Err(unexpected(&token, &words));
                }
                _ => {
                    self.back();
                    return Ok(alter);
                }
            }
            found.push(token.kind);
        }
    }

    fn create_subscription(&mut self) -> Parsed<CreateSubscription> {
        let (name, database) = self.name_on()?;
        let policy = self.dotted()?;
        self.expect(Kind::Destinations)?;
        let token = self.next();
        if !matches!(token.kind, Kind::All | Kind::Any) {
            return Err(unexpected(&token, &["ALL", "ANY"]));
        }
        let all = token.kind == Kind::All;
        Ok(CreateSubscription {
            name,
            database,
            policy,
            all,
            destinations: self.texts()?,
        })
    }

    fn create_continuous_query(&mut self) -> Parsed<CreateContinuousQuery> {
        let (name, database) = self.name_on()?;
        let (mut resample_every, mut resample_for) = (0, 0);
        if self.accept(Kind::Resample) {
            (resample_every, resample_for) = self.resample()?;
        }
        self.expect(Kind::Begin)?;
        self.expect(Kind::Select)?;
        let select = self.select(false)?;
        let interval = select.interval();
        if !select.is_raw() && !matches!(interval, Ok(Some(width)) if width != 0) {
            // The position is that of the last token of the SELECT.
            self.back();
            self.back();
            let token = self.next();
            let mut error = unexpected(&token, &["GROUP BY time(...)"]);
            if let (Err(reason), Error::Unexpected { expected, .. }) = (interval, &mut error) {
                expected.push(Cow::Borrowed(reason));
            }
            return Err(error);
        }
        self.expect(Kind::End)?;
        let width = interval.map_err(Error::refused)?.unwrap_or_default();
        let least = if resample_every > width {
            resample_every
        } else {
            width
        };
        if resample_for != 0 && least > resample_for {
            return Err(Error::refused(format!(
                "FOR duration must be >= GROUP BY time duration: must be a minimum of {}, got {}",
                format_duration(least),
                format_duration(resample_for)
            )));
        }
        Ok(CreateContinuousQuery {
            name,
            database,
            resample_every,
            resample_for,
            select,
        })
    }

    /// `EVERY duration`, `FOR duration`, or both.
    fn resample(&mut self) -> Parsed<(i64, i64)> {
        let (mut every, mut over) = (0, 0);
        if self.accept(Kind::Every) {
            every = Self::duration_token(&self.next())?;
        }
        if self.accept(Kind::For) {
            over = Self::duration_token(&self.next())?;
        }
        if every == 0 && over == 0 {
            return Err(unexpected(&self.next(), &["EVERY", "FOR"]));
        }
        Ok((every, over))
    }
}
