//! Printing of definitions.

use std::fmt::{self, Display, Formatter};

use super::list;
use crate::ast::{
    AlterRetentionPolicy, CreateContinuousQuery, CreateDatabase, CreateRetentionPolicy,
    CreateSubscription, CreateUser, DropSubscription,
};
use crate::duration::format_clock;
use crate::quote::quote_ident;
use crate::{format_duration, quote_text};

/// A duration that is there only if it is above 0.
fn duration(out: &mut Formatter<'_>, word: &str, ns: Option<i64>) -> fmt::Result {
    match ns {
        Some(ns) if ns != 0 => write!(out, " {word} {}", format_duration(ns)),
        _ => Ok(()),
    }
}

impl Display for CreateDatabase {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "CREATE DATABASE {}", quote_ident(&self.name))?;
        if !self.with_policy {
            return Ok(());
        }
        out.write_str(" WITH")?;
        if let Some(ns) = self.duration {
            write!(out, " DURATION {}", format_clock(ns))?;
        }
        if let Some(copies) = self.replication {
            write!(out, " REPLICATION {copies}")?;
        }
        if self.shard_duration > 0 {
            write!(out, " SHARD DURATION {}", format_clock(self.shard_duration))?;
        }
        duration(out, "FUTURE LIMIT", self.future_limit)?;
        duration(out, "PAST LIMIT", self.past_limit)?;
        match &self.policy {
            Some(name) if !name.is_empty() => write!(out, " NAME {}", quote_ident(name)),
            _ => Ok(()),
        }
    }
}

impl Display for CreateRetentionPolicy {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "CREATE RETENTION POLICY {} ON {} DURATION {} REPLICATION {}",
            quote_ident(&self.name),
            quote_ident(&self.database),
            format_duration(self.duration),
            self.replication
        )?;
        duration(out, "SHARD DURATION", Some(self.shard_duration))?;
        if self.default {
            out.write_str(" DEFAULT")?;
        }
        duration(out, "FUTURE LIMIT", Some(self.future_limit))?;
        duration(out, "PAST LIMIT", Some(self.past_limit))
    }
}

impl Display for AlterRetentionPolicy {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let (name, database) = (quote_ident(&self.name), quote_ident(&self.database));
        write!(out, "ALTER RETENTION POLICY {name} ON {database}")?;
        if let Some(ns) = self.duration {
            write!(out, " DURATION {}", format_duration(ns))?;
        }
        if let Some(copies) = self.replication {
            write!(out, " REPLICATION {copies}")?;
        }
        if let Some(ns) = self.shard_duration {
            write!(out, " SHARD DURATION {}", format_duration(ns))?;
        }
        if self.default {
            out.write_str(" DEFAULT")?;
        }
        duration(out, "FUTURE LIMIT", self.future_limit)?;
        duration(out, "PAST LIMIT", self.past_limit)
    }
}

impl Display for CreateContinuousQuery {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let (name, database) = (quote_ident(&self.name), quote_ident(&self.database));
        write!(out, "CREATE CONTINUOUS QUERY {name} ON {database} ")?;
        if self.resample_every > 0 || self.resample_for > 0 {
            out.write_str("RESAMPLE ")?;
            if self.resample_every > 0 {
                write!(out, "EVERY {} ", format_duration(self.resample_every))?;
            }
            if self.resample_for > 0 {
                write!(out, "FOR {} ", format_duration(self.resample_for))?;
            }
        }
        write!(out, "BEGIN {} END", self.select)
    }
}

impl Display for CreateUser {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "CREATE USER {} WITH PASSWORD [REDACTED]",
            quote_ident(&self.name)
        )?;
        if self.admin {
            out.write_str(" WITH ALL PRIVILEGES")
        } else {
            Ok(())
        }
    }
}

impl Display for CreateSubscription {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let destinations: Vec<String> = self
            .destinations
            .iter()
            .map(|text| quote_text(text))
            .collect();
        write!(
            out,
            "CREATE SUBSCRIPTION {} ON {}.{} DESTINATIONS {} ",
            quote_ident(&self.name),
            quote_ident(&self.database),
            quote_ident(&self.policy),
            if self.all { "ALL" } else { "ANY" }
        )?;
        list(out, &destinations, ", ")
    }
}

impl Display for DropSubscription {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let (database, policy) = (quote_ident(&self.database), quote_ident(&self.policy));
        write!(
            out,
            "DROP SUBSCRIPTION {} ON {database}.{policy}",
            quote_ident(&self.name)
        )
    }
}
