//! Printing of SHOW.

use std::fmt::{self, Display, Formatter};

use super::{clause, list, number};
use crate::ast::{Cardinality, KeyChoice, KeyOperator, Listing, Show, ShowMeasurements, Source};
use crate::quote::quote_ident;
use crate::quote_text;

impl Display for Show {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("SHOW ")?;
        match self {
            Self::ContinuousQueries => out.write_str("CONTINUOUS QUERIES"),
            Self::Databases => out.write_str("DATABASES"),
            Self::Diagnostics(module) => named(out, "DIAGNOSTICS", module.as_deref()),
            Self::FieldKeys(listing) => listed(out, "FIELD KEYS", None, listing),
            Self::FieldKeyCardinality(count) => counted(out, "FIELD KEY", None, count),
            Self::GrantsFor(user) => write!(out, "GRANTS FOR {}", quote_ident(user)),
            Self::Measurements(shown) => shown.fmt(out),
            Self::MeasurementCardinality(count) => counted(out, "MEASUREMENT", None, count),
            Self::Queries => out.write_str("QUERIES"),
            Self::RetentionPolicies(database) => {
                out.write_str("RETENTION POLICIES")?;
                on(out, database.as_deref())
            }
            Self::Series(listing) => listed(out, "SERIES", None, listing),
            Self::SeriesCardinality(count) => counted(out, "SERIES", None, count),
            Self::ShardGroups => out.write_str("SHARD GROUPS"),
            Self::Shards => out.write_str("SHARDS"),
            Self::Stats(module) => named(out, "STATS", module.as_deref()),
            Self::Subscriptions => out.write_str("SUBSCRIPTIONS"),
            // InfluxDB leaves the choice of keys out here; a statement that is shown should be the one that runs.
            Self::TagKeys(keys, listing) => listed(out, "TAG KEYS", keys.as_ref(), listing),
            Self::TagKeyCardinality(count) => counted(out, "TAG KEY", None, count),
            Self::TagValues(keys, listing) => listed(out, "TAG VALUES", Some(keys), listing),
            Self::TagValuesCardinality(keys, count) => {
                counted(out, "TAG VALUES", Some(keys), count)
            }
            Self::Users => out.write_str("USERS"),
        }
    }
}

fn named(out: &mut Formatter<'_>, word: &str, module: Option<&str>) -> fmt::Result {
    out.write_str(word)?;
    match module {
        Some(module) if !module.is_empty() => write!(out, " FOR {}", quote_text(module)),
        _ => Ok(()),
    }
}

fn on(out: &mut Formatter<'_>, database: Option<&str>) -> fmt::Result {
    match database {
        Some(database) => write!(out, " ON {}", quote_ident(database)),
        None => Ok(()),
    }
}

fn listed(
    out: &mut Formatter<'_>,
    words: &str,
    keys: Option<&KeyChoice>,
    listing: &Listing,
) -> fmt::Result {
    out.write_str(words)?;
    on(out, listing.database.as_deref())?;
    clause(out, "FROM", &listing.sources)?;
    if let Some(keys) = keys {
        write!(out, " WITH KEY {keys}")?;
    }
    rest(out, listing)
}

fn rest(out: &mut Formatter<'_>, listing: &Listing) -> fmt::Result {
    clause(out, "WHERE", listing.condition.as_slice())?;
    clause(out, "ORDER BY", &listing.order)?;
    number(out, "LIMIT", listing.limit)?;
    number(out, "OFFSET", listing.offset)?;
    number(out, "SLIMIT", listing.slimit)?;
    number(out, "SOFFSET", listing.soffset)
}

fn counted(
    out: &mut Formatter<'_>,
    words: &str,
    keys: Option<&KeyChoice>,
    count: &Cardinality,
) -> fmt::Result {
    let exact = if count.exact { " EXACT" } else { "" };
    write!(out, "{words}{exact} CARDINALITY")?;
    on(out, count.database.as_deref())?;
    clause(out, "FROM", &count.sources)?;
    if let Some(keys) = keys {
        write!(out, " WITH KEY {keys}")?;
    }
    clause(out, "WHERE", count.condition.as_slice())?;
    clause(out, "GROUP BY", &count.dimensions)?;
    number(out, "LIMIT", count.limit)?;
    number(out, "OFFSET", count.offset)
}

impl Display for ShowMeasurements {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("MEASUREMENTS")?;
        let database = self.listing.database.as_deref().map(quote_ident);
        if self.every_database || database.is_some() {
            write!(out, " ON {}", database.as_deref().unwrap_or("*"))?;
            match &self.policy {
                _ if self.every_policy => out.write_str(".*")?,
                Some(policy) => write!(out, ".{}", quote_ident(policy))?,
                None => {}
            }
        }
        if let Some(with) = &self.with {
            let pattern = matches!(with, Source::Measurement(m) if m.pattern.is_some());
            write!(
                out,
                " WITH MEASUREMENT {} {with}",
                if pattern { "=~" } else { "=" }
            )?;
        }
        rest(out, &self.listing)
    }
}

impl Display for KeyChoice {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let sign = |operator: &KeyOperator| {
            if *operator == KeyOperator::Is {
                "="
            } else {
                "!"
            }
        };
        match self {
            Self::Name(KeyOperator::Is, key) => write!(out, "= {}", quote_ident(key)),
            Self::Name(KeyOperator::IsNot, key) => write!(out, "!= {}", quote_ident(key)),
            Self::Pattern(operator, pattern) => write!(out, "{}~ {pattern}", sign(operator)),
            Self::In(keys) => {
                let keys: Vec<String> = keys.iter().map(|key| quote_ident(key)).collect();
                out.write_str("IN (")?;
                list(out, &keys, ", ")?;
                out.write_str(")")
            }
        }
    }
}
