//! Refresh policies: jobs that refresh a continuous aggregate by the clock.
//!
//! Does: make and remove them, refuse one that cannot work, read the window that a job says. Does not: refresh (the language that
//! made the aggregate registers what such a job does), or know when it is due.
//!
//! One policy an aggregate. Its window goes from `start_offset` before now up to `end_offset` before now; NULL is no bound.

use std::sync::Arc;

use nilometer_engine::{Engine, Snapshot, TableId, TableSchema, TimeKind};
use serde_json::{Value as Json, json};

use super::kept::{Aggregate, all, reads_table};
use crate::access::Principal;
use crate::define::change::name::TableName;
use crate::define::error::{DefineError, Part};
use crate::define::hypertables::integer_now::check_integer_now;
use crate::define::hypertables::policies::{
    Age, integers_kept_for, length_text, parse_span, span_text,
};
use crate::error::Error;
use crate::jobs::background::{BackgroundJobs, Job, JobSchedule, NewJob, Span, job_of};

/// The kind of jobs that refresh a continuous aggregate, as `TimescaleDB` calls it.
pub const REFRESH_POLICY: &str = "policy_refresh_continuous_aggregate";

const START: &str = "start_offset";
const END: &str = "end_offset";

/// What a refresh policy refreshes: from so long before now up to so long before now; `None` = no bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RefreshWindow {
    /// How long ago it begins.
    pub start: Option<Age>,
    /// How long ago it ends.
    pub end: Option<Age>,
}

impl RefreshWindow {
    /// The window at a time, in nanoseconds.
    pub fn at(&self, now_ns: i64, kind: TimeKind) -> (Option<i64>, Option<i64>) {
        let before = |age: Age| before(age, now_ns, kind);
        (self.start.map(before), self.end.map(before))
    }

    fn config(&self, aggregate: &Aggregate) -> Json {
        let shown = |age: Option<Age>| match age {
            None => Json::Null,
            Some(Age::Number(number)) => Json::from(number),
            Some(Age::Span(span)) => Json::from(span_text(span)),
        };
        json!({
            "mat_hypertable_id": aggregate.number,
            START: shown(self.start),
            END: shown(self.end),
        })
    }
}

/// A refresh policy that is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewRefreshPolicy {
    /// What it refreshes.
    pub window: RefreshWindow,
    /// How often.
    pub every: Span,
    /// One that is there is no error.
    pub if_not_exists: bool,
    /// When it runs first.
    pub initial_ns: Option<i64>,
}

/// Makes a refresh policy, and says the number of its job; `None` = there is one already. Durable on return. `width` is that of a
/// bucket.
pub fn add_refresh_policy(
    engine: &Arc<Engine>,
    jobs: &BackgroundJobs,
    principal: &Principal,
    (aggregate, width): (&Aggregate, Span),
    new: NewRefreshPolicy,
) -> Result<Option<i64>, Error> {
    let snapshot = engine.snapshot();
    if refresh_policy_of(&snapshot, aggregate).is_some() {
        if new.if_not_exists {
            return Ok(None);
        }
        let table = aggregate.name.table.clone();
        let policy = "refresh";
        return Err(DefineError::HasPolicy { table, policy }.about(Part::Start));
    }
    if let Some((name, table)) = tables_below(&snapshot, aggregate).last() {
        check_integer_now(&snapshot, name, table)?;
    }
    let (now_ns, every) = (engine.wall_ns(), new.every);
    let checked = check(&snapshot, (aggregate, width), new.window, every, now_ns);
    checked.map_err(refused)?;
    let job = NewJob {
        kind: REFRESH_POLICY.to_owned(),
        database: aggregate.name.database.clone(),
        target: aggregate.number,
        config: new.window.config(aggregate).to_string(),
        schedule: JobSchedule {
            initial_ns: new.initial_ns,
            ..JobSchedule::every(every)
        },
        owner: principal.name().unwrap_or_default().to_owned(),
    };
    jobs.add(&job).map(Some)
}

/// Removes the refresh policy of an aggregate; `false` = there was none, and that is no error. What is stored stays.
pub fn remove_refresh_policy(
    engine: &Arc<Engine>,
    jobs: &BackgroundJobs,
    aggregate: &Aggregate,
    if_exists: bool,
) -> Result<bool, Error> {
    match refresh_policy_of(&engine.snapshot(), aggregate) {
        Some(job) => jobs.delete(job.id).map(|()| true),
        None if if_exists => Ok(false),
        None => {
            let table = aggregate.name.table.clone();
            let policy = "refresh";
            Err(DefineError::NoPolicy { table, policy }.about(Part::Start))
        }
    }
}

/// Checks a configuration that somebody gives the job of a refresh policy.
pub fn check_refresh_policy(
    snapshot: &Snapshot,
    now_ns: i64,
    (aggregate, width): (&Aggregate, Span),
    (config, every): (&str, Span),
) -> Result<(), Error> {
    let kind = kind_of(snapshot, aggregate);
    let window = window_of(config, kind).map_err(refused)?;
    check(snapshot, (aggregate, width), window, every, now_ns).map_err(refused)
}

/// The refresh policy of an aggregate.
pub fn refresh_policy_of(snapshot: &Snapshot, aggregate: &Aggregate) -> Option<Job> {
    let database = &aggregate.name.database;
    job_of(snapshot, database, REFRESH_POLICY, aggregate.number)
}

/// The aggregate that a job refreshes; `None` = it is not there any more.
pub fn aggregate_of_job(snapshot: &Snapshot, job: &Job) -> Option<Aggregate> {
    let mut known = all(snapshot, &job.database).into_iter();
    known.find(|aggregate| aggregate.number == job.target)
}

/// The window that the configuration of a job says, or what is wrong with it.
pub fn refresh_window(job: &Job, kind: TimeKind) -> Result<RefreshWindow, String> {
    window_of(&job.config, kind)
}

fn window_of(config: &str, kind: TimeKind) -> Result<RefreshWindow, String> {
    let config: Json = serde_json::from_str(config).unwrap_or_default();
    let offset = |name: &str| {
        let age = match config.get(name) {
            Some(Json::Null) => return Ok(None),
            Some(Json::String(text)) => parse_span(text).map(Age::Span),
            Some(number) => number.as_i64().map(Age::Number),
            None => None,
        };
        let age = age.ok_or_else(|| {
            format!("its configuration has no {name} that is an interval, a number or null")
        })?;
        fits(age, kind, name)?;
        Ok::<_, String>(Some(age))
    };
    Ok(RefreshWindow {
        start: offset(START)?,
        end: offset(END)?,
    })
}

/// Refuses an interval where the time is an integer, and a number where it is none.
fn fits(age: Age, kind: TimeKind, name: &str) -> Result<(), String> {
    match (age, kind) {
        (Age::Span(_), TimeKind::Integer { .. }) => Err(format!(
            "the time of the view is an integer; say {name} as a number of it, or NULL"
        )),
        (Age::Number(_), TimeKind::TimestampTz | TimeKind::Timestamp | TimeKind::Date) => Err(
            format!("the time of the view is no integer; say {name} as an interval, or NULL"),
        ),
        _ => Ok(()),
    }
}

fn before(age: Age, now_ns: i64, kind: TimeKind) -> i64 {
    match (age, kind) {
        (Age::Span(span), _) => span.before(now_ns),
        (Age::Number(number), TimeKind::Integer { unit_ns }) => {
            now_ns.saturating_sub(number.saturating_mul(unit_ns.max(1)))
        }
        // Such a one is refused.
        (Age::Number(_), _) => now_ns,
    }
}

fn kind_of(snapshot: &Snapshot, aggregate: &Aggregate) -> TimeKind {
    let (database, schema) = (&aggregate.name.database, &aggregate.name.schema);
    let stored = snapshot.table(database, schema, &aggregate.stored);
    stored.map_or(TimeKind::TimestampTz, |stored| stored.time().1)
}

/// Refuses a policy that cannot work, with the reason.
fn check(
    snapshot: &Snapshot,
    (aggregate, width): (&Aggregate, Span),
    window: RefreshWindow,
    every: Span,
    now_ns: i64,
) -> Result<(), String> {
    let kind = kind_of(snapshot, aggregate);
    for (age, name) in [(window.start, START), (window.end, END)] {
        age.map_or(Ok(()), |age| fits(age, kind, name))?;
    }
    if !every.is_positive() {
        return Err("its schedule_interval must be longer than nothing".to_owned());
    }
    let (from, until) = window.at(now_ns, kind);
    if let (Some(from), Some(until)) = (from, until) {
        if from >= until {
            return Err(
                "its start_offset must be longer ago than its end_offset: the window begins before it ends"
                    .to_owned(),
            );
        }
        let two = width.after(width.after(from));
        if two > until {
            return Err(format!(
                "its window is too small: the start and end offsets must cover at least two buckets, of {} each, so that one lies in it as a whole",
                length_text(width, kind)
            ));
        }
    }
    let sources = tables_below(snapshot, aggregate);
    for (name, table) in &sources {
        if let Some(kept_ns) = kept_for(snapshot, &name.database, table) {
            keeps_enough((&name.table, kept_ns), window, (width, every), now_ns, kind)?;
        }
    }
    let (database, schema) = (&aggregate.name.database, &aggregate.name.schema);
    let stored = snapshot.table(database, schema, &aggregate.stored);
    let own_ns = stored.and_then(|stored| kept_for(snapshot, database, &stored));
    if let (Some(own_ns), Some(from)) = (own_ns, from)
        && now_ns.saturating_sub(from) > own_ns
    {
        return Err(format!(
            "its window begins longer ago (start_offset) than stored answers are kept, {}: they would be computed and dropped again; let it begin later, or keep them longer",
            length(own_ns, kind)
        ));
    }
    Ok(())
}

/// Refuses a window that needs rows which are not there any more, or never sees them.
fn keeps_enough(
    (table, kept_ns): (&str, i64),
    window: RefreshWindow,
    (width, every): (Span, Span),
    now_ns: i64,
    kind: TimeKind,
) -> Result<(), String> {
    let (from, until) = window.at(now_ns, kind);
    let kept = length(kept_ns, kind);
    if let Some(from) = from
        && now_ns.saturating_sub(from) > kept_ns
    {
        return Err(format!(
            "its window begins longer ago (start_offset) than the rows of \"{table}\" are kept, {kept}; let it begin later, or keep them longer"
        ));
    }
    // A bucket is computed when it lies in the window as a whole, by the next run; how far an integer is by then nobody knows.
    let every = match kind {
        TimeKind::Integer { .. } => Span::default(),
        _ => every,
    };
    let first_seen = every.before(width.before(until.unwrap_or(now_ns)));
    if now_ns.saturating_sub(first_seen) > kept_ns {
        return Err(format!(
            "the rows of \"{table}\" are dropped after {kept}, before they are refreshed: that is the case after end_offset, a bucket and schedule_interval; refresh earlier, or keep them longer"
        ));
    }
    Ok(())
}

/// Refuses a retention of a table by which a refresh policy would not work any more. `None` = rows are kept for ever.
pub(in crate::define) fn check_retention(
    engine: &Arc<Engine>,
    table: TableId,
    kept_ns: Option<i64>,
) -> Result<(), String> {
    let Some(kept_ns) = kept_ns else {
        return Ok(());
    };
    let snapshot = engine.snapshot();
    let now_ns = engine.wall_ns();
    let databases = snapshot.databases();
    for aggregate in databases.iter().flat_map(|it| all(&snapshot, it)) {
        let Some(job) = refresh_policy_of(&snapshot, &aggregate) else {
            continue;
        };
        let kind = kind_of(&snapshot, &aggregate);
        let Ok(window) = refresh_window(&job, kind) else {
            continue;
        };
        let of = |reason: String| {
            let view = &aggregate.name.table;
            format!("of the refresh policy of \"{view}\" {reason}")
        };
        let sources = snapshot.aggregate_sources(aggregate.key());
        if sources.iter().any(|source| reads_table(source, table)) {
            // How wide a bucket is only the language knows: the least that is needed.
            let lengths = (Span::default(), job.schedule.interval);
            let below = ("the table", kept_ns);
            keeps_enough(below, window, lengths, now_ns, kind).map_err(of)?;
        }
        let from = window.at(now_ns, kind).0;
        if i64::from(table.0) == aggregate.number
            && from.is_some_and(|from| now_ns.saturating_sub(from) > kept_ns)
        {
            return Err(of(
                "the window begins longer ago (start_offset) than that; keep them longer, or let it begin later"
                    .to_owned(),
            ));
        }
    }
    Ok(())
}

/// The tables whose times are bucketed, down to the innermost: the stored answers of aggregates, and the table of rows.
pub fn tables_below(
    snapshot: &Snapshot,
    aggregate: &Aggregate,
) -> Vec<(TableName, Arc<TableSchema>)> {
    let mut found = Vec::new();
    let mut source = aggregate.source.clone();
    loop {
        let (database, schema) = (&source.database, &source.schema);
        let inner = super::kept::aggregate(snapshot, database, schema, &source.table);
        let table = inner.as_ref().map_or(&source.table, |inner| &inner.stored);
        if let Some(found_table) = snapshot.table(database, schema, table) {
            let name = TableName {
                table: table.clone(),
                ..source.clone()
            };
            found.push((name, found_table));
        }
        match inner {
            Some(inner) => source = inner.source,
            None => return found,
        }
    }
}

fn kept_for(snapshot: &Snapshot, database: &str, table: &TableSchema) -> Option<i64> {
    let kept = snapshot.retention_ns(table.id);
    let kept = kept.or_else(|| integers_kept_for(snapshot, database, table));
    kept.filter(|kept_ns| *kept_ns < i64::MAX)
}

fn length(ns: i64, kind: TimeKind) -> String {
    length_text(Span::of_ns(ns), kind)
}

fn refused(reason: String) -> Error {
    let policy = "refresh";
    DefineError::Policy { policy, reason }.about(Part::Other)
}
