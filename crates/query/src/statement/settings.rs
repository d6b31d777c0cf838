//! Settings in `WITH (...)` and `SET (...)`: our names, and those of TimescaleDB's users.
//!
//! Does: read the list, say which setting is unknown and which was probably meant, turn texts into lengths of time.
//! Does not: change anything.

mod compression;

use datafusion::sql::sqlparser::tokenizer::Token;
use nilometer_engine::{Duplicates, TIME_COLUMN, TableSettings, nearest};
use nilometer_service::Span;
use nilometer_service::define::{TableSetting, parse_span};

use super::grammar::Grammar;
use super::name::Name;
use crate::error::{Error, Position};

/// Settings of a table that can be changed later.
const OF_TABLE: [&str; 5] = [
    "cold_after",
    "duplicates",
    "partition_interval",
    "retention",
    TSTORAGE_PAYLOAD,
];
/// Kept beside the others.
pub(crate) const TSTORAGE_PAYLOAD: &str = "tstorage_payload";
/// Settings that only a new table has.
const OF_NEW_TABLE: [&str; 7] = [
    "tags",
    "tsdb.chunk_interval",
    "tsdb.columnstore",
    "tsdb.hypertable",
    "tsdb.orderby",
    "tsdb.partition_column",
    "tsdb.segmentby",
];

/// One of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    name: String,
    /// `None` = the name stands alone.
    value: Option<String>,
    position: Option<Position>,
    value_position: Option<Position>,
}

/// What a list says about a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableWish {
    pub(crate) settings: TableSettings,
    pub(crate) tags: Vec<Name>,
    /// The time column, where it is said.
    pub(crate) time: Option<Name>,
    /// Width of its partitions, where it is said.
    pub(crate) interval: Option<Interval>,
    /// It is a hypertable.
    pub(crate) is_hypertable: bool,
    /// The numbers of the payloads of its records.
    pub(crate) payload: Option<String>,
}

/// A width of partitions as it is written: a length of time, or a number of a time that is an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) ns: Option<i64>,
    pub(crate) number: Option<i64>,
    pub(crate) position: Option<Position>,
}

/// What a list says about a continuous aggregate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AggregateWish {
    pub(crate) is_continuous: bool,
    pub(crate) is_stored_only: Option<bool>,
}

/// Settings of a continuous aggregate; the last does nothing here, where groups have no index of their own.
const OF_AGGREGATE: [&str; 3] = [
    "tsdb.continuous",
    "tsdb.materialized_only",
    "tsdb.create_group_indexes",
];

/// What a list says about a continuous aggregate.
pub(crate) fn of_aggregate(list: &[Setting]) -> Result<AggregateWish, Error> {
    let mut wish = AggregateWish::default();
    for setting in list {
        match setting.name.as_str() {
            "tsdb.continuous" => wish.is_continuous = setting.is_on()?,
            "tsdb.materialized_only" => wish.is_stored_only = Some(setting.is_on()?),
            "tsdb.create_group_indexes" => {
                setting.is_on()?;
            }
            name => {
                let known = OF_AGGREGATE.map(str::to_owned);
                let meant = nearest(name, known)
                    .map(|name| {
                        format!("; did you mean {}?", name.replace("tsdb.", "timescaledb."))
                    })
                    .unwrap_or_default();
                return Err(Error::Plan {
                    message: format!(
                        "{}: no setting of a continuous aggregate{meant}",
                        name.replace("tsdb.", "timescaledb.")
                    ),
                    position: setting.position,
                });
            }
        }
    }
    Ok(wish)
}

/// Reads a list between parentheses.
pub(crate) fn parse(grammar: &mut Grammar<'_>) -> Result<Vec<Setting>, Error> {
    grammar.expect(&Token::LParen)?;
    let mut settings = Vec::new();
    loop {
        settings.push(parse_one(grammar)?);
        if !grammar.token(&Token::Comma) {
            break;
        }
    }
    grammar.expect(&Token::RParen)?;
    Ok(settings)
}

fn parse_one(grammar: &mut Grammar<'_>) -> Result<Setting, Error> {
    let position = grammar.position();
    let mut name = grammar.name()?.text;
    while grammar.token(&Token::Period) {
        name = format!("{name}.{}", grammar.name()?.text);
    }
    if let Some(rest) = name.strip_prefix("timescaledb.") {
        name = format!("tsdb.{rest}");
    }
    let mut setting = Setting {
        name,
        value: None,
        position,
        value_position: None,
    };
    if grammar.token(&Token::Eq) {
        grammar.word("interval");
        setting.value_position = grammar.position();
        setting.value = Some(match grammar.next() {
            Token::SingleQuotedString(text) => text,
            Token::Number(digits, _) => digits,
            Token::Word(word) => word.value,
            other => {
                return Err(Error::Syntax {
                    message: format!(
                        "Expected: a text in single quotes, a number or a word, found: {other}"
                    ),
                    position: setting.value_position,
                });
            }
        });
    }
    Ok(setting)
}

impl Setting {
    /// Whether it says how PostgreSQL lays pages out or vacuums them: nothing here depends on that.
    pub(crate) fn is_of_storage(&self) -> bool {
        self.name == "fillfactor"
            || self.name.starts_with("autovacuum_")
            || self.name.starts_with("toast.")
    }

    fn refuse(&self, message: impl std::fmt::Display) -> Error {
        Error::Plan {
            message: format!("{}: {message}", self.name),
            position: self.value_position.or(self.position),
        }
    }

    fn text(&self) -> Result<&str, Error> {
        self.value.as_deref().ok_or_else(|| {
            self.refuse("it has no value; write a name, = and a text in single quotes")
        })
    }

    /// Whether it is switched on; alone means so.
    fn is_on(&self) -> Result<bool, Error> {
        match self
            .value
            .as_deref()
            .map(str::to_ascii_lowercase)
            .as_deref()
        {
            None | Some("true" | "on" | "1") => Ok(true),
            Some("false" | "off" | "0") => Ok(false),
            Some(_) => Err(self.refuse("write true or false")),
        }
    }

    fn duration_ns(&self) -> Result<i64, Error> {
        duration_ns(self.text()?).map_err(|why| self.refuse(why))
    }

    /// A width of chunks.
    fn width_ns(&self) -> Result<i64, Error> {
        let span = span(self.text()?).map_err(|why| self.refuse(why))?;
        width_ns(span).ok_or_else(|| self.refuse("it is longer than 292 years".to_owned()))
    }

    /// A retention: a length of time, `forever`, or `default` for what the schema says.
    fn retention_ns(&self) -> Result<Option<i64>, Error> {
        match self.text()?.to_ascii_lowercase().as_str() {
            "default" | "null" => Ok(None),
            "forever" | "infinite" | "inf" => Ok(Some(i64::MAX)),
            _ => self.duration_ns().map(Some),
        }
    }

    /// An age: a length of time, `never`, or `default` for what is neither cooled nor warmed.
    fn cold_after_ns(&self) -> Result<Option<i64>, Error> {
        match self.text()?.to_ascii_lowercase().as_str() {
            "default" | "null" => Ok(None),
            "never" => Ok(Some(i64::MAX)),
            _ => self.duration_ns().map(Some),
        }
    }

    fn names(&self) -> Result<Vec<Name>, Error> {
        let text = self.text()?;
        let names = text.split(',').map(str::trim).map(|name| {
            let bare = name
                .strip_prefix('"')
                .and_then(|name| name.strip_suffix('"'));
            let text = bare.map_or_else(
                || name.to_ascii_lowercase(),
                |bare| bare.replace("\"\"", "\""),
            );
            if text.is_empty() {
                Err(self.refuse("a name is empty; write names with commas between them"))
            } else {
                Ok(Name {
                    text,
                    position: self.value_position,
                })
            }
        });
        names.collect()
    }

    fn unknown(&self, what: &'static str, known: impl IntoIterator<Item = &'static str>) -> Error {
        let known: Vec<String> = known.into_iter().map(str::to_owned).collect();
        Error::UnknownName {
            what,
            name: self.name.clone(),
            nearest: nearest(&self.name, known),
            position: self.position,
        }
    }
}

/// What a list says about a new table.
pub(crate) fn of_new_table(list: &[Setting]) -> Result<TableWish, Error> {
    let mut wish = TableWish {
        settings: TableSettings::default(),
        tags: Vec::new(),
        time: None,
        interval: None,
        is_hypertable: false,
        payload: None,
    };
    // A hypertable keeps what is written to it, as its users expect; what they say themselves comes after.
    for setting in list {
        if setting.name == "tsdb.hypertable" && setting.is_on()? {
            wish.settings.duplicates = Duplicates::Keep;
            wish.is_hypertable = true;
        }
    }
    let mut orders = Vec::new();
    for setting in list {
        match setting.name.as_str() {
            "tags" | "tsdb.segmentby" => wish.tags.extend(setting.names()?),
            "tsdb.chunk_interval" | "partition_interval" => {
                let number = setting.text()?.trim().parse().ok();
                wish.interval = Some(Interval {
                    ns: match number {
                        None if setting.name == "tsdb.chunk_interval" => Some(setting.width_ns()?),
                        None => Some(setting.duration_ns()?),
                        Some(_) => None,
                    },
                    number,
                    position: setting.value_position.or(setting.position),
                });
            }
            "tsdb.hypertable" | "tsdb.columnstore" => {
                setting.is_on()?;
            }
            "tsdb.partition_column" => {
                wish.time = setting.names()?.into_iter().next();
            }
            "tsdb.orderby" => {
                let order = setting.text()?.to_ascii_lowercase();
                orders.push((setting, order));
            }
            TSTORAGE_PAYLOAD => wish.payload = Some(setting.text()?.to_owned()),
            name if OF_TABLE.contains(&name) => of_one(setting)?.apply(&mut wish.settings),
            _ => {
                return Err(setting.unknown(
                    "setting of a table",
                    OF_TABLE.into_iter().chain(OF_NEW_TABLE),
                ));
            }
        }
    }
    for (setting, order) in orders {
        let time = wish.time.as_ref().map_or(TIME_COLUMN, |name| &name.text);
        if !order.starts_with(&time.to_ascii_lowercase()) || order.contains(',') {
            return Err(setting.refuse("rows are ordered by their tags and time; leave it out"));
        }
    }
    Ok(wish)
}

/// What a list changes of a table.
pub(crate) fn of_table(list: &[Setting]) -> Result<Vec<TableSetting>, Error> {
    let (compression, list): (Vec<&Setting>, Vec<&Setting>) = list
        .iter()
        .partition(|setting| compression::is_setting(&setting.name));
    let compression = match compression.as_slice() {
        [] => None,
        list => Some(TableSetting::Compression(compression::change(list)?)),
    };
    let changes = list.into_iter().map(|setting| {
        if OF_NEW_TABLE.contains(&setting.name.as_str()) {
            return Err(
                setting.refuse("only a new table has it; see ALTER TABLE ... ADD COLUMN for tags")
            );
        }
        of_one(setting)
    });
    changes.chain(compression.map(Ok)).collect()
}

fn of_one(setting: &Setting) -> Result<TableSetting, Error> {
    Ok(match setting.name.as_str() {
        "duplicates" => {
            TableSetting::Duplicates(match setting.text()?.to_ascii_lowercase().as_str() {
                "last" => Duplicates::Last,
                "keep" => Duplicates::Keep,
                "unique" => Duplicates::Unique,
                other => {
                    return Err(
                        setting.refuse(format!("{other:?} is none of last, keep and unique"))
                    );
                }
            })
        }
        "partition_interval" => TableSetting::PartitionInterval(setting.duration_ns()?),
        "retention" => TableSetting::Retention(setting.retention_ns()?),
        "cold_after" => TableSetting::ColdAfter(setting.cold_after_ns()?),
        TSTORAGE_PAYLOAD => TableSetting::TstoragePayload(setting.text()?.to_owned()),
        _ => return Err(setting.unknown("setting of a table", OF_TABLE)),
    })
}

/// What a list says about a schema: the retention of its tables.
pub(crate) fn of_schema(list: &[Setting]) -> Result<Option<i64>, Error> {
    let mut retention_ns = None;
    for setting in list {
        match setting.name.as_str() {
            // A schema has nothing above it, so "as the default says" is for ever.
            "retention" => retention_ns = setting.retention_ns()?.filter(|&ns| ns < i64::MAX),
            _ => return Err(setting.unknown("setting of a schema", ["retention"])),
        }
    }
    Ok(retention_ns)
}

/// What a list says about a database: its default schema.
pub(crate) fn of_database(list: &[Setting]) -> Result<Name, Error> {
    let mut schema = None;
    for setting in list {
        match setting.name.as_str() {
            "default_schema" => schema = setting.names()?.pop(),
            _ => return Err(setting.unknown("setting of a database", ["default_schema"])),
        }
    }
    schema.ok_or_else(|| Error::internal("a list of settings is empty"))
}

/// Units of fixed length, longest first, with what they are called.
const UNITS: [(i64, &str, &[&str]); 8] = [
    (604_800_000_000_000, "week", &["weeks", "w"]),
    (86_400_000_000_000, "day", &["days", "d"]),
    (3_600_000_000_000, "hour", &["hours", "h"]),
    (60_000_000_000, "minute", &["minutes", "min", "mins", "m"]),
    (1_000_000_000, "second", &["seconds", "sec", "secs", "s"]),
    (1_000_000, "millisecond", &["milliseconds", "ms"]),
    (1_000, "microsecond", &["microseconds", "us"]),
    (1, "nanosecond", &["nanoseconds", "ns"]),
];

/// A length of time such as `30 days` or `1h 30m`.
pub(crate) fn duration_ns(text: &str) -> Result<i64, String> {
    let mut rest = text.trim();
    let wrong = || format!("{text:?} is not a length of time; write 30 days, 12 hours or 90m");
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut sum = 0i64;
    while !rest.is_empty() {
        let digits = rest
            .find(|letter: char| !letter.is_ascii_digit())
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let after = after.trim_start();
        let letters = after
            .find(|letter: char| !letter.is_alphabetic())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let number: i64 = number.parse().map_err(|_| wrong())?;
        let unit = unit.to_lowercase();
        if matches!(
            unit.as_str(),
            "month" | "months" | "mon" | "year" | "years" | "y"
        ) {
            return Err(format!("a {unit} has no fixed length; write days"));
        }
        let known = UNITS
            .iter()
            .find(|(_, name, others)| *name == unit || others.contains(&unit.as_str()));
        let (ns, ..) = known.ok_or_else(wrong)?;
        sum = number
            .checked_mul(*ns)
            .and_then(|part| sum.checked_add(part))
            .ok_or_else(|| format!("{text:?} is longer than 292 years; write forever"))?;
        rest = after.trim_start_matches([' ', ',']);
    }
    if sum == 0 {
        return Err("it must be longer than nothing".to_owned());
    }
    Ok(sum)
}

/// A length of time by the calendar, such as `3 months` or `1 day 12:00:00`.
pub(crate) fn span(text: &str) -> Result<Span, String> {
    match parse_span(text) {
        Some(span) => Ok(span),
        None => duration_ns(text).map(Span::of_ns),
    }
}

/// A width of chunks: a month is 30 days, as in `TimescaleDB`. `None` = it does not fit.
pub(crate) fn width_ns(span: Span) -> Option<i64> {
    const MONTH_NS: i64 = 30 * 86_400 * 1_000_000_000;
    i64::from(span.months)
        .checked_mul(MONTH_NS)
        .and_then(|months| months.checked_add(span.ns))
}

/// A rule for duplicates as the setting has it.
pub(crate) fn duplicates_text(duplicates: Duplicates) -> &'static str {
    match duplicates {
        Duplicates::Last => "last",
        Duplicates::Keep => "keep",
        Duplicates::Unique => "unique",
    }
}

/// A retention as the setting has it.
pub(crate) fn retention_text(ns: i64) -> String {
    match ns {
        i64::MAX => "forever".to_owned(),
        ns => duration_text(ns),
    }
}

/// An age after which partitions are cold, as the setting has it.
pub(crate) fn cold_after_text(ns: i64) -> String {
    match ns {
        i64::MAX => "never".to_owned(),
        ns => duration_text(ns),
    }
}

/// A length of time as [`duration_ns`] reads it.
pub(crate) fn duration_text(ns: i64) -> String {
    // Weeks are read only: 30 days would else be days, and 28 weeks.
    let fits = UNITS.iter().skip(1).find(|(unit, ..)| ns % unit == 0);
    match fits {
        Some((unit, name, _)) if ns == *unit => format!("1 {name}"),
        Some((unit, name, _)) => format!("{} {name}s", ns / unit),
        None => format!("{ns} nanoseconds"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read_and_written() {
        for (text, ns) in [
            ("1 day", 86_400_000_000_000),
            ("30 days", 30 * 86_400_000_000_000),
            ("1h 30m", 5_400_000_000_000),
            ("90s", 90_000_000_000),
            ("1 week", 7 * 86_400_000_000_000),
            ("2 weeks, 1 day", 15 * 86_400_000_000_000),
            ("7ns", 7),
        ] {
            assert_eq!(duration_ns(text), Ok(ns), "{text}");
            assert_eq!(duration_ns(&duration_text(ns)), Ok(ns), "{text}");
        }
        for text in [
            "",
            "day",
            "1",
            "1 month",
            "-1 day",
            "0 days",
            "1 fortnight",
            "300 years x",
            "999999999 weeks",
        ] {
            assert!(duration_ns(text).is_err(), "{text}");
        }
        assert_eq!(duration_text(30 * 86_400_000_000_000), "30 days");
        assert_eq!(duration_text(1_500), "1500 nanoseconds");
    }
}
