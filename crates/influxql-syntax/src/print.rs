//! Printing: statements in their normal form, which continuous queries and lists of running statements show.

mod define;
mod show;

use std::fmt::{self, Display, Formatter};

use crate::ast::{
    Call, Cast, Delete, Expr, Field, Fill, Measurement, Privilege, Reference, Select, SortField,
    Source, Statement, WildcardKind,
};
use crate::quote::quote_ident;
use crate::{format_duration, quote_text};

/// Several statements, a line each.
#[derive(Debug)]
pub struct Statements<'a>(pub &'a [Statement]);

impl Display for Statements<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        list(out, self.0, ";\n")
    }
}

pub(crate) fn list<T: Display>(
    out: &mut Formatter<'_>,
    items: &[T],
    separator: &str,
) -> fmt::Result {
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            out.write_str(separator)?;
        }
        item.fmt(out)?;
    }
    Ok(())
}

/// A clause that is there only if it has items.
pub(crate) fn clause<T: Display>(out: &mut Formatter<'_>, word: &str, items: &[T]) -> fmt::Result {
    if items.is_empty() {
        return Ok(());
    }
    write!(out, " {word} ")?;
    list(out, items, ", ")
}

/// A number that is there only if it is not 0.
pub(crate) fn number(out: &mut Formatter<'_>, word: &str, value: u64) -> fmt::Result {
    if value > 0 {
        write!(out, " {word} {value}")
    } else {
        Ok(())
    }
}

impl Display for Statement {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlterRetentionPolicy(alter) => alter.fmt(out),
            Self::CreateContinuousQuery(create) => create.fmt(out),
            Self::CreateDatabase(create) => create.fmt(out),
            Self::CreateRetentionPolicy(create) => create.fmt(out),
            Self::CreateSubscription(create) => create.fmt(out),
            Self::CreateUser(create) => create.fmt(out),
            Self::Delete(delete) => write!(out, "DELETE{delete}"),
            Self::DropContinuousQuery { name, database } => {
                let (name, database) = (quote_ident(name), quote_ident(database));
                write!(out, "DROP CONTINUOUS QUERY {name} ON {database}")
            }
            Self::DropDatabase(name) => write!(out, "DROP DATABASE {}", quote_ident(name)),
            Self::DropMeasurement(name) => write!(out, "DROP MEASUREMENT {}", quote_ident(name)),
            Self::DropRetentionPolicy { name, database } => {
                let (name, database) = (quote_ident(name), quote_ident(database));
                write!(out, "DROP RETENTION POLICY {name} ON {database}")
            }
            Self::DropSeries(delete) => write!(out, "DROP SERIES{delete}"),
            Self::DropShard(id) => write!(out, "DROP SHARD {id}"),
            Self::DropSubscription(drop) => drop.fmt(out),
            Self::DropUser(name) => write!(out, "DROP USER {}", quote_ident(name)),
            Self::Explain {
                analyze,
                verbose,
                select,
            } => {
                let analyze = if *analyze { "ANALYZE " } else { "" };
                let verbose = if *verbose { "VERBOSE " } else { "" };
                write!(out, "EXPLAIN {analyze}{verbose}{select}")
            }
            Self::Grant(grant) => {
                let (database, user) = (quote_ident(&grant.database), quote_ident(&grant.user));
                write!(out, "GRANT {} ON {database} TO {user}", grant.privilege)
            }
            Self::GrantAdmin(user) => write!(out, "GRANT ALL PRIVILEGES TO {}", quote_ident(user)),
            Self::KillQuery { id, host } => {
                write!(out, "KILL QUERY {id}")?;
                match host {
                    Some(host) => write!(out, " ON {}", quote_ident(host)),
                    None => Ok(()),
                }
            }
            Self::Revoke(grant) => {
                let (database, user) = (quote_ident(&grant.database), quote_ident(&grant.user));
                write!(out, "REVOKE {} ON {database} FROM {user}", grant.privilege)
            }
            Self::RevokeAdmin(user) => {
                write!(out, "REVOKE ALL PRIVILEGES FROM {}", quote_ident(user))
            }
            Self::Select(select) => select.fmt(out),
            Self::SetPassword(set) => {
                write!(
                    out,
                    "SET PASSWORD FOR {} = [REDACTED]",
                    quote_ident(&set.user)
                )
            }
            Self::Show(show) => show.fmt(out),
        }
    }
}

impl Display for Privilege {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Read => "READ",
            Self::Write => "WRITE",
            Self::All => "ALL PRIVILEGES",
        })
    }
}

impl Display for Delete {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        clause(out, "FROM", &self.sources)?;
        clause(out, "WHERE", self.condition.as_slice())
    }
}

impl Display for Select {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("SELECT ")?;
        list(out, &self.fields, ", ")?;
        if let Some(target) = &self.target {
            write!(out, " INTO {target}")?;
            if target.name.is_empty() {
                out.write_str(":MEASUREMENT")?;
            }
        }
        clause(out, "FROM", &self.sources)?;
        clause(out, "WHERE", self.condition.as_slice())?;
        clause(out, "GROUP BY", &self.dimensions)?;
        match self.fill {
            Fill::Null => {}
            Fill::None => out.write_str(" fill(none)")?,
            Fill::Previous => out.write_str(" fill(previous)")?,
            Fill::Linear => out.write_str(" fill(linear)")?,
            Fill::Integer(value) => write!(out, " fill({value})")?,
            Fill::Float(value) => write!(out, " fill({})", shortest(value))?,
        }
        clause(out, "ORDER BY", &self.order)?;
        number(out, "LIMIT", self.limit)?;
        number(out, "OFFSET", self.offset)?;
        number(out, "SLIMIT", self.slimit)?;
        number(out, "SOFFSET", self.soffset)?;
        match &self.zone {
            Some(zone) => write!(out, " TZ('{zone}')"),
            None => Ok(()),
        }
    }
}

impl Display for Field {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        self.expr.fmt(out)?;
        match &self.alias {
            Some(alias) => write!(out, " AS {}", quote_ident(alias)),
            None => Ok(()),
        }
    }
}

impl Display for SortField {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(out, "{name} ")?;
        }
        out.write_str(if self.ascending { "ASC" } else { "DESC" })
    }
}

impl Display for Source {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Measurement(measurement) => measurement.fmt(out),
            Self::Subquery(select) => write!(out, "({select})"),
        }
    }
}

impl Display for Measurement {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        if !self.database.is_empty() {
            write!(out, "{}.", quote_ident(&self.database))?;
        }
        if !self.policy.is_empty() {
            out.write_str(&quote_ident(&self.policy))?;
        }
        if !self.database.is_empty() || !self.policy.is_empty() {
            out.write_str(".")?;
        }
        match &self.pattern {
            Some(pattern) if self.name.is_empty() => pattern.fmt(out),
            None if self.name.is_empty() => Ok(()),
            _ => out.write_str(&quote_ident(&self.name)),
        }
    }
}

impl Display for Expr {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reference(reference) => reference.fmt(out),
            Self::Call(call) => call.fmt(out),
            Self::Distinct(name) => write!(out, "DISTINCT {}", quote_ident(name)),
            Self::Wildcard(None) => out.write_str("*"),
            Self::Wildcard(Some(WildcardKind::Field)) => out.write_str("*::field"),
            Self::Wildcard(Some(WildcardKind::Tag)) => out.write_str("*::tag"),
            Self::Regex(pattern) => pattern.fmt(out),
            Self::Float(value) => out.write_str(&format_float(*value)),
            Self::Integer(value) => value.fmt(out),
            Self::Unsigned(value) => value.fmt(out),
            Self::Boolean(value) => value.fmt(out),
            Self::Text(text) => out.write_str(&quote_text(text)),
            Self::Duration(ns) => out.write_str(&format_duration(*ns)),
            Self::Binary(operator, left, right) => {
                write!(out, "{left} {} {right}", operator.symbol())
            }
            Self::Paren(inner) => write!(out, "({inner})"),
        }
    }
}

impl Display for Reference {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(&quote_ident(&self.name))?;
        let Some(cast) = self.cast else { return Ok(()) };
        out.write_str(match cast {
            Cast::Float => "::float",
            Cast::Integer => "::integer",
            Cast::Unsigned => "::unsigned",
            Cast::Text => "::string",
            Cast::Boolean => "::boolean",
            Cast::Field => "::field",
            Cast::Tag => "::tag",
        })
    }
}

impl Display for Call {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}(", self.name)?;
        list(out, &self.arguments, ", ")?;
        out.write_str(")")
    }
}

/// A float as a literal: all digits, and always a point.
pub fn format_float(value: f64) -> String {
    let mut text = value.to_string();
    if !text.contains('.') && value.is_finite() {
        text.push_str(".0");
    }
    text
}

/// A float as Go's `%v` has it: shortest, with an exponent below 1e-4 and from 1e21 on.
fn shortest(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude == 0.0 || (1e-4..1e21).contains(&magnitude) {
        return value.to_string();
    }
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    match exponent.strip_prefix('-') {
        Some(exponent) => format!("{digits}e-{exponent:0>2}"),
        None => format!("{digits}e+{exponent:0>2}"),
    }
}
