//! Model of a database of InfluxDB: retention policies, and in each measurements of series of points.
//!
//! Does: say what a change makes of a state, every state on the way to it, or why it is refused; as InfluxDB's
//! documentation has it. Does not: expire: what a policy keeps for an hour lies in the future here, or is refused.

use std::collections::BTreeMap;

use super::Deed;
use super::names::{COPY, HOSTS, MEASUREMENTS, REGIONS, quarters, word};
use super::select::Select;

/// 2023-11-14T12:00Z, within the day on which runs begin.
const PRESENT_S: i64 = 1_699_963_200;
/// 2100: no run comes so far, so nothing of it is ever too old.
const FUTURE_S: i64 = 4_102_444_800;
/// 1979: too old for whoever keeps an hour.
pub(crate) const PAST_S: i64 = 300_000_000;
/// From one point of a series to the next.
pub(crate) const STEP_S: i64 = 10;

/// A retention policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// The one that every database begins with.
    Autogen,
    /// It keeps an hour.
    Brief,
    /// It keeps what it is told to, and never little.
    Long,
}

/// How long a policy keeps points, in hours; 0 = for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kept(pub u32);

impl Policy {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Autogen, Self::Brief, Self::Long];

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Autogen => "autogen",
            Self::Brief => "brief",
            Self::Long => "long",
        }
    }

    /// What it keeps when it is made.
    pub(crate) fn kept(self) -> Kept {
        match self {
            Self::Autogen => Kept(0),
            Self::Brief => Kept(1),
            Self::Long => Kept(36_500 * 24),
        }
    }

    /// The time of a slot in it.
    pub(crate) fn time_s(self, slot: u32) -> i64 {
        let begin = match self {
            Self::Brief => FUTURE_S,
            Self::Autogen | Self::Long => PRESENT_S,
        };
        begin + i64::from(slot) * STEP_S
    }
}

/// Fields of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Fields {
    /// An integer.
    pub i: Option<i64>,
    /// A float, in quarters: sums of them are exact.
    pub f: Option<i64>,
    /// A text, one of the words.
    pub s: Option<usize>,
    /// A truth.
    pub b: Option<bool>,
}

impl Fields {
    fn merge(&mut self, newer: Self) {
        self.i = newer.i.or(self.i);
        self.f = newer.f.or(self.f);
        self.s = newer.s.or(self.s);
        self.b = newer.b.or(self.b);
    }

    /// Whether there is none.
    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// A point of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// One of the measurements.
    pub measurement: usize,
    /// One of the hosts.
    pub host: usize,
    /// One of the regions.
    pub region: usize,
    /// When.
    pub slot: u32,
    /// Older than anything else.
    pub is_old: bool,
    /// What.
    pub fields: Fields,
}

/// A body of line protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lines {
    /// `None` = the default one.
    pub policy: Option<Policy>,
    /// By `/api/v2/write`.
    pub is_v2: bool,
    /// The body is compressed.
    pub is_gzip: bool,
    /// The points.
    pub points: Vec<Point>,
}

/// What a delete is about: hosts by number, and seconds since 1970, the second not included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// `false` = all hosts but this.
    pub host: Option<(bool, usize)>,
    /// A range of time.
    pub time: Option<(i64, i64)>,
}

impl Reach {
    fn holds(&self, host: usize, time: i64) -> bool {
        let is_host = self.host.is_none_or(|(is, of)| (host == of) == is);
        let time_is = |(from, until): (i64, i64)| (from..until).contains(&time);
        is_host && self.time.is_none_or(time_is)
    }
}

/// Host and region: the order of series by their tags.
pub(crate) type Series = (usize, usize);
/// Points of a series.
pub(crate) type Points = BTreeMap<i64, Fields>;
/// A measurement in a policy.
pub(crate) type Table = BTreeMap<Series, Points>;

/// What a database is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    /// Empty = there is no database.
    pub(crate) policies: BTreeMap<Policy, Kept>,
    pub(crate) default: Policy,
    /// Those that have points.
    pub(crate) tables: BTreeMap<(Policy, usize), Table>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            policies: BTreeMap::new(),
            default: Policy::Autogen,
            tables: BTreeMap::new(),
        }
    }
}

/// Why a statement is refused: words of the error.
pub(crate) type Refusal = &'static str;

const NO_DATABASE: Refusal = "database not found";
const NO_POLICY: Refusal = "retention policy not found";

impl State {
    pub(crate) fn is_there(&self) -> bool {
        !self.policies.is_empty()
    }

    /// The policy that a name means.
    pub(crate) fn policy(&self, named: Option<Policy>) -> Result<Policy, Refusal> {
        if !self.is_there() {
            return Err(NO_DATABASE);
        }
        let policy = named.unwrap_or(self.default);
        let is_there = self.policies.contains_key(&policy);
        is_there.then_some(policy).ok_or(NO_POLICY)
    }

    /// What may be seen from the beginning of a change on, the last of which is what it leads to.
    pub(crate) fn after(&self, deed: &Deed) -> Result<Vec<Self>, Refusal> {
        let mut next = self.clone();
        if !self.is_there() && !matches!(deed, Deed::Create | Deed::Drop) {
            return Err(NO_DATABASE);
        }
        match deed {
            Deed::Create if self.is_there() => {}
            Deed::Create => {
                next.policies.insert(Policy::Autogen, Kept(0));
            }
            Deed::Drop => next = Self::default(),
            Deed::CreatePolicy(policy) => return self.with_policy(*policy),
            Deed::AlterPolicy(policy, kept) => {
                self.policy(Some(*policy))?;
                match kept {
                    Some(kept) => drop(next.policies.insert(*policy, *kept)),
                    None => next.default = *policy,
                }
            }
            Deed::DropPolicy(policy) if self.default == *policy => return Err("default"),
            Deed::DropPolicy(policy) => {
                next.policies.remove(policy);
                next.tables.retain(|(of, _), _| of != policy);
            }
            Deed::Write(lines) => next.write(lines)?,
            Deed::Delete(measurement, reach) => return Ok(self.without(*measurement, Some(reach))),
            Deed::DropMeasurement(measurement) => {
                return Ok(self.without(Some(*measurement), None));
            }
            Deed::Into(select, policy) => return self.copied(select, *policy),
            Deed::Select(_) | Deed::Show(_) => {}
        }
        Ok(vec![next])
    }

    /// A policy that is there may be made again as it is. What it keeps is said after it is made.
    fn with_policy(&self, policy: Policy) -> Result<Vec<Self>, Refusal> {
        match self.policies.get(&policy) {
            Some(kept) if *kept == policy.kept() => Ok(vec![self.clone()]),
            Some(_) => Err("already exists"),
            None => {
                let with = |kept| {
                    let mut next = self.clone();
                    next.policies.insert(policy, kept);
                    next
                };
                Ok(vec![with(Kept(0)), with(policy.kept())])
            }
        }
    }

    /// Points of a body that the policy does not keep.
    pub(crate) fn beyond(&self, lines: &Lines) -> usize {
        match self.policy(lines.policy) {
            Ok(policy) if self.keeps_an_hour(policy) => {
                lines.points.iter().filter(|point| point.is_old).count()
            }
            _ => 0,
        }
    }

    fn keeps_an_hour(&self, policy: Policy) -> bool {
        self.policies.get(&policy) == Some(&Kept(1))
    }

    fn write(&mut self, lines: &Lines) -> Result<(), Refusal> {
        let policy = self.policy(lines.policy)?;
        for point in &lines.points {
            if point.is_old && self.keeps_an_hour(policy) {
                continue;
            }
            let time = lines.time_s(point, policy);
            let table = self.tables.entry((policy, point.measurement)).or_default();
            let points = table.entry((point.host, point.region)).or_default();
            points.entry(time).or_default().merge(point.fields);
        }
        Ok(())
    }

    /// The tables of measurements lose points one after the other, in an order that is not promised.
    fn without(&self, measurement: Option<usize>, reach: Option<&Reach>) -> Vec<Self> {
        let mut states = vec![self.clone()];
        for (&(policy, of), table) in &self.tables {
            if measurement.is_some_and(|it| it != of) {
                continue;
            }
            let mut left = table.clone();
            for ((host, _), points) in &mut left {
                points.retain(|time, _| !reach.is_none_or(|it| it.holds(*host, *time)));
            }
            left.retain(|_, points| !points.is_empty());
            let more: Vec<Self> = states
                .iter()
                .map(|state| {
                    let mut state = state.clone();
                    if left.is_empty() {
                        state.tables.remove(&(policy, of));
                    } else {
                        state.tables.insert((policy, of), left.clone());
                    }
                    state
                })
                .collect();
            states.extend(more);
        }
        states
    }

    /// Series of an answer become points one after the other.
    fn copied(&self, select: &Select, to: Option<Policy>) -> Result<Vec<Self>, Refusal> {
        let to = self.policy(to)?;
        let mut states = vec![self.clone()];
        for series in select.copies(self)? {
            let mut next = states.last().unwrap_or(self).clone();
            let table = next.tables.entry((to, COPY)).or_default();
            let points = table.entry(series.0).or_default();
            for (time, fields) in series.1 {
                points.entry(time).or_default().merge(fields);
            }
            states.push(next);
        }
        Ok(states)
    }
}

impl Lines {
    /// A policy that keeps an hour has its points in the future; of a body without a policy nobody knows where it goes.
    fn time_s(&self, point: &Point, policy: Policy) -> i64 {
        debug_assert!(self.policy.is_none_or(|named| named == policy));
        if point.is_old {
            PAST_S + i64::from(point.slot)
        } else {
            self.policy.unwrap_or(Policy::Autogen).time_s(point.slot)
        }
    }

    /// The lines.
    pub(crate) fn body(&self) -> String {
        let policy = self.policy.unwrap_or(Policy::Autogen);
        let lines = self.points.iter().map(|point| {
            let name = MEASUREMENTS.get(point.measurement).unwrap_or(&"");
            line(name, point, self.time_s(point, policy))
        });
        lines.collect()
    }
}

/// A line of line protocol.
fn line(name: &str, point: &Point, time_s: i64) -> String {
    let mut text = format!("{name},host={}", HOSTS.get(point.host).unwrap_or(&""));
    match REGIONS.get(point.region) {
        None | Some(&"") => {}
        Some(region) => text = format!("{text},region={region}"),
    }
    let Fields { i, f, s, b } = point.fields;
    let fields = [
        i.map(|i| format!("i={i}i")),
        f.map(|f| format!("f={}", quarters(f))),
        s.map(|s| format!("s=\"{}\"", word(s).replace('"', "\\\""))),
        b.map(|b| format!("b={b}")),
    ];
    let fields: Vec<String> = fields.into_iter().flatten().collect();
    format!("{text} {} {time_s}\n", fields.join(","))
}

/// As Go prints hours.
pub(super) fn hours(Kept(hours): Kept) -> String {
    match hours {
        0 => "0s".to_owned(),
        hours => format!("{hours}h0m0s"),
    }
}

/// A policy's name in a FROM clause.
pub(super) fn prefix(policy: Option<Policy>) -> String {
    policy.map_or(String::new(), |policy| format!("{}.", policy.name()))
}
