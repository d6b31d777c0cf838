//! SELECT: its text, and what it answers of a state.
//!
//! Does: rows and aggregates of one or two measurements, in buckets or without, by groups of tags, under conditions on
//! tags, time and a field, backwards, in part. Does not: say in which order points of one time stand, which InfluxDB's
//! documentation does not: an answer has to have them all, or as many of them as its limit leaves.

mod calls;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::answer::{Cell, Set, Wanted};
use super::names::{HOSTS, MEASUREMENTS, REGIONS, quarters, word};
use super::store::{Fields, Points, Policy, Refusal, Series, State, Table, prefix};
pub use calls::{Call, Field, Fill};

/// What is selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// Fields as they are.
    Rows(Vec<Field>),
    /// Functions of one number field.
    Calls(Vec<Call>, Field),
}

/// A SELECT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Select {
    /// `None` = the default policy.
    pub policy: Option<Policy>,
    /// Measurements, in the order of their names.
    pub from: Vec<usize>,
    /// Columns.
    pub what: What,
    /// `false` = all hosts but this.
    pub host: Option<(bool, usize)>,
    /// One region that is one.
    pub region: Option<usize>,
    /// A range of seconds.
    pub time: Option<(i64, i64)>,
    /// Points whose field `i` is at least this.
    pub least: Option<i64>,
    /// By host.
    pub by_host: bool,
    /// By region.
    pub by_region: bool,
    /// Buckets of so many seconds; the range of time is given then.
    pub every: Option<(i64, Fill)>,
    /// Backwards.
    pub descends: bool,
    /// So many rows of each series, after so many.
    pub limit: Option<(usize, usize)>,
    /// So many series, after so many.
    pub series: Option<(usize, usize)>,
}

/// A point with its place in the order of what is read.
#[derive(Debug, Clone, Copy)]
struct Read {
    time: i64,
    fields: Fields,
}

/// A group: host and region, if they are grouped by.
type Group = (Option<usize>, Option<usize>);

impl Select {
    /// All that a policy has.
    pub(crate) fn all_of(policy: Policy) -> Self {
        Self {
            policy: Some(policy),
            from: (0..MEASUREMENTS.len()).collect(),
            what: What::Rows(Field::ALL.to_vec()),
            host: None,
            region: None,
            time: None,
            least: None,
            by_host: true,
            by_region: true,
            every: None,
            descends: false,
            limit: None,
            series: None,
        }
    }

    /// The statement, and the host if it is a parameter.
    pub(super) fn text(&self, into: &str, params: bool) -> (String, Option<&'static str>) {
        let columns: Vec<String> = match &self.what {
            What::Rows(fields) => fields.iter().map(|it| it.name().to_owned()).collect(),
            // A measurement that is written to gets the field of the same type.
            What::Calls(calls, field) if !into.is_empty() => {
                let columns = calls.iter();
                columns
                    .map(|call| format!("{} AS {}", call.text(*field), field.name()))
                    .collect()
            }
            What::Calls(calls, field) => calls.iter().map(|it| it.text(*field)).collect(),
        };
        let from: Vec<String> = self
            .from
            .iter()
            .map(|of| {
                let name = MEASUREMENTS.get(*of).copied().unwrap_or("");
                format!("{}{name}", prefix(self.policy))
            })
            .collect();
        let mut text = format!(
            "SELECT {}{into} FROM {}",
            columns.join(", "),
            from.join(", ")
        );
        let (condition, host) = self.condition(params);
        text.push_str(&condition);
        let mut groups = Vec::new();
        if let Some((seconds, _)) = self.every {
            groups.push(format!("time({seconds}s)"));
        }
        groups.extend(self.by_host.then(|| "host".to_owned()));
        groups.extend(self.by_region.then(|| "region".to_owned()));
        if !groups.is_empty() {
            let _ = write!(text, " GROUP BY {}", groups.join(", "));
        }
        if let Some((_, fill)) = self.every {
            let _ = write!(text, " fill({})", fill.text());
        }
        if self.descends {
            text.push_str(" ORDER BY time DESC");
        }
        for (range, limit, offset) in [
            (self.limit, "LIMIT", "OFFSET"),
            (self.series, "SLIMIT", "SOFFSET"),
        ] {
            if let Some((count, after)) = range {
                let _ = write!(text, " {limit} {count}");
                if after > 0 {
                    let _ = write!(text, " {offset} {after}");
                }
            }
        }
        (text, host)
    }

    fn condition(&self, params: bool) -> (String, Option<&'static str>) {
        let (mut parts, mut parameter) = (Vec::new(), None);
        if let Some((is, host)) = self.host {
            let (is, host) = (
                if is { "=" } else { "!=" },
                HOSTS.get(host).copied().unwrap_or(""),
            );
            parameter = params.then_some(host);
            let host = if params {
                "$h".to_owned()
            } else {
                format!("'{host}'")
            };
            parts.push(format!("host {is} {host}"));
        }
        if let Some(region) = self.region {
            parts.push(format!("region = '{}'", REGIONS.get(region).unwrap_or(&"")));
        }
        if let Some((from, until)) = self.time {
            parts.push(format!("time >= {from}s AND time < {until}s"));
        }
        if let Some(least) = self.least {
            parts.push(format!("i >= {least}"));
        }
        if parts.is_empty() {
            return (String::new(), None);
        }
        (format!(" WHERE {}", parts.join(" AND ")), parameter)
    }

    /// What it answers.
    pub(crate) fn answer(&self, state: &State) -> Result<Vec<Wanted>, Refusal> {
        let policy = state.policy(self.policy)?;
        let mut all = Vec::new();
        for &of in &self.from {
            let Some(table) = state.tables.get(&(policy, of)) else {
                continue;
            };
            let name = MEASUREMENTS.get(of).copied().unwrap_or("");
            // SLIMIT counts groups that have points, whether or not conditions and LIMIT leave any of them.
            let (count, after) = self.series.unwrap_or((usize::MAX, 0));
            let groups = self.groups(table).into_iter();
            let groups = groups.filter(|(group, _)| Self::has_points(table, *group));
            for (group, points) in groups.skip(after).take(count) {
                all.extend(self.series_of(name, group, &points));
            }
        }
        // Series stand the other way round as well.
        if self.descends {
            all.reverse();
        }
        Ok(all)
    }

    /// Points by group, in the order of time.
    fn groups(&self, table: &Table) -> BTreeMap<Group, Vec<Read>> {
        let mut groups: BTreeMap<Group, Vec<Read>> = BTreeMap::new();
        for (&(host, region), points) in table {
            let is_host = self.host.is_none_or(|(is, of)| (host == of) == is);
            if !is_host || self.region.is_some_and(|of| of != region) {
                continue;
            }
            let group = (
                self.by_host.then_some(host),
                self.by_region.then_some(region),
            );
            groups.entry(group).or_default().extend(self.chosen(points));
        }
        for points in groups.values_mut() {
            points.sort_by_key(|read| read.time);
            if self.descends {
                points.reverse();
            }
        }
        groups
    }

    /// Whether there is a point in a group at any time.
    fn has_points(table: &Table, (host, region): Group) -> bool {
        table.iter().any(|(&(of_host, of_region), points)| {
            let is_of = |asked: Option<usize>, is: usize| asked.is_none_or(|asked| asked == is);
            is_of(host, of_host) && is_of(region, of_region) && !points.is_empty()
        })
    }

    fn chosen(&self, points: &Points) -> Vec<Read> {
        let is_in = |time: i64| {
            self.time
                .is_none_or(|(from, until)| (from..until).contains(&time))
        };
        let is_least = |fields: &Fields| self.least.is_none_or(|least| fields.i >= Some(least));
        let points = points
            .iter()
            .filter(|(time, fields)| is_in(**time) && is_least(fields));
        points
            .map(|(&time, &fields)| Read { time, fields })
            .collect()
    }

    fn series_of(&self, name: &str, (host, region): Group, points: &[Read]) -> Option<Wanted> {
        let mut tags = Vec::new();
        let tag = |names: &[&str], nth: usize| names.get(nth).copied().unwrap_or("").to_owned();
        tags.extend(host.map(|it| ("host".to_owned(), tag(&HOSTS, it))));
        tags.extend(region.map(|it| ("region".to_owned(), tag(&REGIONS, it))));
        let mut columns = vec!["time".to_owned()];
        let pool = match &self.what {
            What::Rows(fields) => {
                columns.extend(fields.iter().map(|field| field.name().to_owned()));
                rows(fields, points)
            }
            What::Calls(calls, field) => {
                columns.extend(calls.iter().map(|call| call.name().to_owned()));
                self.calculated(calls, *field, points)
            }
        };
        let (count, after) = self.limit.unwrap_or((usize::MAX, 0));
        let rows: Vec<_> = pool.iter().skip(after).take(count).cloned().collect();
        if rows.is_empty() {
            return None;
        }
        let set = Set {
            name: name.to_owned(),
            tags,
            columns,
            rows,
        };
        Some(Wanted { set, pool })
    }

    /// Points that `INTO` writes, by series, in the order of series.
    pub(super) fn copies(&self, state: &State) -> Result<Vec<(Series, Points)>, Refusal> {
        let policy = state.policy(self.policy)?;
        let mut copies = Vec::new();
        for table in self
            .from
            .iter()
            .filter_map(|of| state.tables.get(&(policy, *of)))
        {
            for ((host, region), points) in self.groups(table) {
                let series = (host.unwrap_or(0), region.unwrap_or(0));
                let written: Points = match &self.what {
                    What::Rows(_) => points.iter().map(|it| (it.time, it.fields)).collect(),
                    What::Calls(calls, field) => {
                        let rows = self.calculated(calls, *field, &points);
                        rows.iter().filter_map(|row| field.point_of(row)).collect()
                    }
                };
                if !written.is_empty() {
                    copies.push((series, written));
                }
            }
        }
        Ok(copies)
    }
}

fn rows(fields: &[Field], points: &[Read]) -> Vec<Vec<Cell>> {
    let row = |read: &Read| {
        let mut row = vec![Cell::Int(read.time)];
        row.extend(fields.iter().map(|field| field.cell(&read.fields)));
        row
    };
    let has_any = |row: &Vec<Cell>| row.iter().skip(1).any(|cell| *cell != Cell::Null);
    points.iter().map(row).filter(has_any).collect()
}

impl Field {
    /// Its value.
    fn cell(self, fields: &Fields) -> Cell {
        let cell = match self {
            Self::I => fields.i.map(Cell::Int),
            Self::F => fields.f.map(|f| Cell::Float(quarters(f))),
            Self::S => fields.s.map(|s| Cell::Text(word(s).to_owned())),
            Self::B => fields.b.map(Cell::Truth),
        };
        cell.unwrap_or(Cell::Null)
    }
}
