//! Deeds as statements of InfluxQL.

use std::fmt::Write as _;

use super::Deed;
use super::names::{COPY, HOSTS, MEASUREMENTS};
use super::show::Show;
use super::store::{Kept, Reach};

fn duration(kept: Kept) -> String {
    match kept {
        Kept(0) => "INF".to_owned(),
        Kept(hours) => format!("{hours}h"),
    }
}

impl Reach {
    /// The condition, and the host if it is a parameter.
    fn condition(&self, params: bool) -> (String, Option<&'static str>) {
        let mut parts = Vec::new();
        let mut parameter = None;
        if let Some((is, host)) = self.host {
            let (is, host) = (if is { "=" } else { "!=" }, HOSTS.get(host).unwrap_or(&""));
            if params {
                parameter = Some(*host);
                parts.push(format!("host {is} $h"));
            } else {
                parts.push(format!("host {is} '{host}'"));
            }
        }
        if let Some((from, until)) = self.time {
            parts.push(format!("time >= {from}s AND time < {until}s"));
        }
        (parts.join(" AND "), parameter)
    }
}

impl Deed {
    /// The statement, and the host if it is a parameter.
    pub(crate) fn text(&self, database: &str, params: bool) -> (String, Option<&'static str>) {
        let name = |nth: &usize| MEASUREMENTS.get(*nth).copied().unwrap_or("");
        let text = match self {
            Self::Create => format!("CREATE DATABASE {database}"),
            Self::Drop => format!("DROP DATABASE {database}"),
            Self::CreatePolicy(policy) => format!(
                "CREATE RETENTION POLICY {} ON {database} DURATION {} REPLICATION 1",
                policy.name(),
                duration(policy.kept())
            ),
            Self::AlterPolicy(policy, change) => format!(
                "ALTER RETENTION POLICY {} ON {database} {}",
                policy.name(),
                change.map_or("DEFAULT".to_owned(), |kept| format!(
                    "DURATION {}",
                    duration(kept)
                ))
            ),
            Self::DropPolicy(policy) => {
                format!("DROP RETENTION POLICY {} ON {database}", policy.name())
            }
            Self::Write(_) => String::new(),
            Self::Delete(from, reach) => {
                let (condition, parameter) = reach.condition(params);
                let mut text = if reach.time.is_some() {
                    "DELETE".to_owned()
                } else {
                    "DROP SERIES".to_owned()
                };
                if let Some(from) = from {
                    let _ = write!(text, " FROM {}", name(from));
                }
                if !condition.is_empty() {
                    let _ = write!(text, " WHERE {condition}");
                }
                return (text, parameter);
            }
            Self::DropMeasurement(of) => format!("DROP MEASUREMENT {}", name(of)),
            Self::Into(select, policy) => {
                let policy = policy.map_or(String::new(), |it| format!("{}.", it.name()));
                let into = format!(" INTO {policy}{}", MEASUREMENTS.get(COPY).unwrap_or(&""));
                return select.text(&into, params);
            }
            Self::Select(select) => return select.text("", params),
            Self::Show(show) => show.text(database),
        };
        (text, None)
    }
}

impl Show {
    fn text(self, database: &str) -> String {
        let name = |nth: usize| MEASUREMENTS.get(nth).copied().unwrap_or("");
        match self {
            Self::Measurements => "SHOW MEASUREMENTS".to_owned(),
            Self::Series(of) => format!("SHOW SERIES FROM {}", name(of)),
            Self::Hosts(of) => format!("SHOW TAG VALUES FROM {} WITH KEY = host", name(of)),
            Self::Regions(of) => format!("SHOW TAG VALUES FROM {} WITH KEY = region", name(of)),
            Self::TagKeys(of) => format!("SHOW TAG KEYS FROM {}", name(of)),
            Self::FieldKeys(of) => format!("SHOW FIELD KEYS FROM {}", name(of)),
            Self::Policies => format!("SHOW RETENTION POLICIES ON {database}"),
        }
    }
}
