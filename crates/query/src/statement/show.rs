//! SHOW and DESCRIBE: each is a query over what the store says of itself.
//!
//! Does: read them, and say which query each is. Does not: run it, or describe a table (`sql.rs` does, from its columns).

use datafusion::sql::sqlparser::tokenizer::Token;

use super::grammar::Grammar;
use super::name::{Name, NameScope, Path, literal};
use crate::error::Error;

/// What to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Show {
    Databases {
        like: Option<String>,
    },
    Schemas {
        database: Option<Name>,
        like: Option<String>,
    },
    Tables {
        from: Option<Path>,
        like: Option<String>,
        only_views: bool,
    },
    Columns {
        table: Path,
    },
    Tags {
        table: Path,
    },
    Series {
        table: Path,
        limit: Option<u64>,
    },
    /// One of the system's tables as it is.
    Whole(&'static str),
    Setting(Name),
    /// The time zone of the session.
    Zone,
    Create {
        table: Path,
    },
}

/// Things that SHOW knows, for who misspells one.
const THINGS: [&str; 15] = [
    "columns",
    "create",
    "databases",
    "functions",
    "jobs",
    "metrics",
    "queries",
    "schemas",
    "segments",
    "series",
    "settings",
    "tables",
    "tags",
    "timezone",
    "views",
];

/// Reads what follows SHOW; `None` = the planner knows it.
pub(crate) fn show(grammar: &mut Grammar<'_>) -> Result<Option<Show>, Error> {
    let show = if grammar.word("databases") {
        let like = like(grammar)?;
        Show::Databases { like }
    } else if grammar.word("schemas") {
        let database = if from(grammar) {
            Some(grammar.path()?.database()?)
        } else {
            None
        };
        let like = like(grammar)?;
        Show::Schemas { database, like }
    } else if grammar.word("tables") {
        tables(grammar, false)?
    } else if grammar.word("views") {
        tables(grammar, true)?
    } else if grammar.word("columns") || grammar.word("fields") {
        expect_from(grammar)?;
        let table = grammar.path()?;
        Show::Columns { table }
    } else if grammar.word("tags") {
        expect_from(grammar)?;
        let table = grammar.path()?;
        Show::Tags { table }
    } else if grammar.word("series") {
        expect_from(grammar)?;
        let table = grammar.path()?;
        let limit = if grammar.word("limit") {
            Some(grammar.number()?)
        } else {
            None
        };
        Show::Series { table, limit }
    } else if grammar.word("segments") {
        Show::Whole("segments")
    } else if grammar.word("jobs") {
        Show::Whole("jobs")
    } else if grammar.word("queries") {
        Show::Whole("queries")
    } else if grammar.word("settings") || grammar.word("all") {
        Show::Whole("settings")
    } else if grammar.word("metrics") {
        Show::Whole("metrics")
    } else if grammar.word("create") {
        if !grammar.word("table") && !grammar.word("view") {
            return grammar.expected("TABLE or VIEW");
        }
        let table = grammar.path()?;
        Show::Create { table }
    } else if grammar.word("functions") {
        return Ok(None);
    } else if grammar.word("timezone") {
        Show::Zone
    } else if grammar.word("time") {
        if !grammar.word("zone") {
            return grammar.expected("ZONE");
        }
        Show::Zone
    } else {
        Show::Setting(setting(grammar)?)
    };
    Ok(Some(show))
}

/// Reads what follows DESCRIBE; `None` = a statement, which it explains.
pub(crate) fn describe(grammar: &mut Grammar<'_>) -> Result<Option<Show>, Error> {
    let explains = [
        "select", "with", "insert", "update", "delete", "analyze", "verbose", "(",
    ];
    let next = grammar.next_shown().to_ascii_lowercase();
    if explains.contains(&next.as_str()) {
        return Ok(None);
    }
    grammar.word("table");
    let table = grammar.path()?;
    Ok(Some(Show::Columns { table }))
}

fn tables(grammar: &mut Grammar<'_>, only_views: bool) -> Result<Show, Error> {
    let from = if from(grammar) {
        Some(grammar.path()?)
    } else {
        None
    };
    let like = like(grammar)?;
    Ok(Show::Tables {
        from,
        like,
        only_views,
    })
}

fn from(grammar: &mut Grammar<'_>) -> bool {
    grammar.word("from") || grammar.word("in")
}

fn expect_from(grammar: &mut Grammar<'_>) -> Result<(), Error> {
    if from(grammar) {
        Ok(())
    } else {
        grammar.expected("FROM and a table")
    }
}

fn like(grammar: &mut Grammar<'_>) -> Result<Option<String>, Error> {
    if grammar.word("like") {
        grammar.text().map(Some)
    } else {
        Ok(None)
    }
}

/// A setting's name is written with hyphens, as on the command line, or with underscores.
fn setting(grammar: &mut Grammar<'_>) -> Result<Name, Error> {
    let mut name = grammar.name()?;
    while grammar.token(&Token::Minus) {
        let part = grammar.name()?;
        name.text = format!("{}-{}", name.text, part.text);
    }
    Ok(name)
}

/// The error for a setting that is none.
pub(crate) fn unknown_setting(name: &Name, known: impl IntoIterator<Item = String>) -> Error {
    let things = THINGS.map(str::to_owned);
    Error::UnknownName {
        what: "setting",
        name: name.text.clone(),
        nearest: nilometer_engine::nearest(&name.text, known.into_iter().chain(things)),
        position: name.position,
    }
}

impl Show {
    /// The query that shows it, in a session of this time zone; `None` = it is no query.
    pub(crate) fn query(&self, place: &NameScope, zone: &str) -> Result<Option<String>, Error> {
        let in_place = |database: &str, schema: &str| {
            format!(
                "database_name = {} AND schema_name = {}",
                literal(database),
                literal(schema)
            )
        };
        let of_table = |table: &Path| {
            let name = table.clone().table(place)?;
            Ok::<_, Error>(format!(
                "{} AND table_name = {}",
                in_place(&name.database, &name.schema),
                literal(&name.table)
            ))
        };
        let query = match self {
            Self::Databases { like } => format!(
                "SELECT database_name FROM system.databases WHERE true{} ORDER BY 1",
                like_condition("database_name", like.as_ref())
            ),
            Self::Schemas { database, like } => {
                let database = database.as_ref().map_or(&place.database, |name| &name.text);
                format!(
                    "SELECT schema_name, is_default, retention FROM system.schemas WHERE database_name = {}{} ORDER BY 1",
                    literal(database),
                    like_condition("schema_name", like.as_ref())
                )
            }
            Self::Tables {
                from,
                like,
                only_views,
            } => {
                let condition = match from {
                    Some(path) => {
                        let (database, schema) = path.clone().schema(place)?;
                        in_place(&database, &schema.text)
                    }
                    None => format!("database_name = {}", literal(&place.database)),
                };
                let views = if *only_views {
                    " AND kind = 'view'"
                } else {
                    ""
                };
                format!(
                    "SELECT database_name, schema_name, table_name, kind FROM system.tables WHERE {condition}{views}{} ORDER BY 1, 2, 3",
                    like_condition("table_name", like.as_ref())
                )
            }
            Self::Tags { table } => format!(
                "SELECT column_name FROM system.columns WHERE {} AND kind = 'tag' ORDER BY position",
                of_table(table)?
            ),
            Self::Series { table, limit } => {
                let limit = limit.map(|n| format!(" LIMIT {n}")).unwrap_or_default();
                format!(
                    "SELECT series_id, tags FROM system.series WHERE {}{limit}",
                    of_table(table)?
                )
            }
            Self::Whole(table) => format!("SELECT * FROM system.{table}"),
            Self::Setting(name) => format!(
                "SELECT value FROM system.settings WHERE name = {}",
                literal(&name.text.replace('_', "-"))
            ),
            // Under the name that PostgreSQL gives it.
            Self::Zone => format!("SELECT {} AS \"TimeZone\"", literal(zone)),
            Self::Columns { .. } | Self::Create { .. } => return Ok(None),
        };
        Ok(Some(query))
    }
}

fn like_condition(column: &str, like: Option<&String>) -> String {
    like.map(|pattern| format!(" AND {column} LIKE {}", literal(pattern)))
        .unwrap_or_default()
}
