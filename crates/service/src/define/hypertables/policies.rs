//! Policies of hypertables: retention, compression and reorder, as jobs.
//!
//! Does: make and remove them, refuse one that cannot work, and carry them out. Does not: know when they are due
//! (`jobs/background.rs` does).
//!
//! A retention is also the table's own setting, so that rows go as they get old and not only when the job runs. Compression is
//! the job's alone, so that a chunk that somebody has made hot stays so until its next run.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use nilometer_engine::{Engine, RetentionTime, Snapshot, TableSchema, Tier, TimeKind};
use serde_json::{Value as Json, json};

use super::chunks::{ChunkRange, TimeBound, chunks_of, drop_range, table_by_id};
use super::compression::{Moved, convert};
use super::integer_now::{check_integer_now, is_integer};
use super::{hypertable, integer_now};
use crate::access::Principal;
use crate::define::change::name::{Path, TableName};
use crate::define::error::{DefineError, Part};
use crate::define::indexes::{self, Owner};
use crate::define::place::{Place, check_table};
use crate::define::views::kept::reader_of;
use crate::define::views::kept_rows::{note_dropped, note_retention};
use crate::define::views::policies::check_retention;
use crate::error::Error;
use crate::jobs::background::{
    BackgroundJobs, Job, JobContext, JobEnd, JobError, JobSchedule, NewJob, Span, job_of,
};
use crate::write::sessions::Scope;

const HOUR_NS: i64 = 3_600_000_000_000;
/// Pause before a chunk is tried again whose files maintenance has.
const BUSY_PAUSE: Duration = Duration::from_millis(250);
/// So often a chunk is tried: for ten minutes.
const BUSY_MAX: u32 = 2400;

/// What a policy does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Chunks that are old enough are dropped.
    Retention,
    /// Chunks that are old enough are moved to the cold tier.
    Compression,
    /// Rows are kept in the order of an index: they are kept by tags and time anyway.
    Reorder,
}

impl Policy {
    /// All of them. Refreshes of continuous aggregates are apart (`views/policies.rs`).
    pub const ALL: [Self; 3] = [Self::Retention, Self::Compression, Self::Reorder];

    /// The kind of its jobs, as `TimescaleDB` calls it.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Retention => "policy_retention",
            Self::Compression => "policy_compression",
            Self::Reorder => "policy_reorder",
        }
    }

    /// The name of its age in its configuration.
    pub fn age_name(self) -> &'static str {
        match self {
            Self::Retention => "drop_after",
            Self::Compression => "compress_after",
            Self::Reorder => "index_name",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Retention => "retention",
            Self::Compression => "compression",
            Self::Reorder => "reorder",
        }
    }
}

/// A policy that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPolicy {
    /// What it does.
    pub policy: Policy,
    /// The hypertable.
    pub path: Path,
    /// From which age on; of a reorder there is none.
    pub age: Option<Age>,
    /// The index that rows are ordered by, of a reorder.
    pub index: Option<String>,
    /// One that is there is no error.
    pub if_not_exists: bool,
    /// How often it runs; `None` = as often as there.
    pub every: Option<Span>,
    /// When it runs first.
    pub initial_ns: Option<i64>,
}

/// An age of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// A length of time.
    Span(Span),
    /// A number of the table's time, which is an integer.
    Number(i64),
}

/// Makes a policy, and says the number of its job; `None` = it is there already. Durable on return.
pub fn add_policy(
    engine: &Arc<Engine>,
    jobs: &BackgroundJobs,
    principal: &Principal,
    scope: &Scope,
    new: NewPolicy,
) -> Result<Option<i64>, Error> {
    let place = &Place::of(engine, scope);
    check_table(principal, place, &new.path)?;
    let (name, table) = hypertable(engine, place, new.path)?;
    let snapshot = engine.snapshot();
    let policy = new.policy;
    if policy_of(&snapshot, &name.database, &table, policy).is_some() {
        if new.if_not_exists {
            return Ok(None);
        }
        let (table, policy) = (name.table, policy.word());
        return Err(DefineError::HasPolicy { table, policy }.about(Part::Start));
    }
    let refuse = |reason: String| {
        let policy = policy.word();
        DefineError::Policy { policy, reason }.about(Part::Other)
    };
    if policy != Policy::Reorder {
        check_integer_now(&snapshot, &name, &table)?;
    }
    let mut config = json!({ "hypertable_id": i64::from(table.kept_id().0) });
    let mut age = None;
    if policy == Policy::Reorder {
        let index = new.index.unwrap_or_default();
        let within = (name.database.as_str(), name.schema.as_str());
        let known = indexes::indexes_of(&snapshot, within, Owner::Table(table.kept_id()));
        if !known.iter().any(|it| it.name == index) {
            return Err(refuse(format!(
                "the table has no index \"{index}\"; name one of it, or leave the policy out: rows are kept by tags and time anyway"
            )));
        }
        put(&mut config, policy.age_name(), Json::from(index));
    } else {
        let wanted = new.age.ok_or_else(|| {
            refuse(format!(
                "{} is missing; say an age, such as INTERVAL '30 days'",
                policy.age_name()
            ))
        })?;
        let (span, shown) = checked(&table, wanted).map_err(refuse)?;
        put(&mut config, policy.age_name(), shown);
        age = Some(span);
    }
    if let Some(age) = age {
        fits_others(&snapshot, &name, &table, policy, age).map_err(refuse)?;
    }
    if policy == Policy::Compression && table.settings.cold_after_ns == Some(i64::MAX) {
        let table = name.table;
        return Err(DefineError::NeverCold { table }.about(Part::Start));
    }
    // How long a chunk takes to be filled nobody knows whose time is an integer.
    let is_integer = matches!(table.time().1, TimeKind::Integer { .. });
    let interval_ns = if is_integer {
        24 * HOUR_NS
    } else {
        table.settings.partition_interval_ns.max(1)
    };
    let usual = match policy {
        Policy::Retention => 24 * HOUR_NS,
        Policy::Compression if is_integer => 24 * HOUR_NS,
        Policy::Compression => (12 * HOUR_NS).min((interval_ns / 2).max(1_000_000_000)),
        Policy::Reorder => (interval_ns / 2).max(HOUR_NS),
    };
    let every = new.every.unwrap_or(Span::of_ns(usual));
    if !every.is_positive() {
        return Err(refuse(
            "its schedule_interval must be longer than nothing".to_owned(),
        ));
    }
    if let (Policy::Retention, Some(age)) = (policy, age) {
        let now_ns = engine.wall_ns();
        let kept_ns = now_ns.saturating_sub(age.before(now_ns));
        check_retention(engine, table.kept_id(), Some(kept_ns)).map_err(refuse)?;
        keep_for(engine, &name, &table, Some(age))?;
    }
    let job = NewJob {
        kind: policy.kind().to_owned(),
        database: name.database,
        target: i64::from(table.kept_id().0),
        config: config.to_string(),
        schedule: JobSchedule {
            initial_ns: new.initial_ns,
            ..JobSchedule::every(every)
        },
        owner: principal.name().unwrap_or_default().to_owned(),
    };
    jobs.add(&job).map(Some)
}

/// Removes a policy; `false` = there was none, and that is no error. What it has done stays.
pub fn remove_policy(
    engine: &Arc<Engine>,
    jobs: &BackgroundJobs,
    principal: &Principal,
    scope: &Scope,
    (path, policy, if_exists): (Path, Policy, bool),
) -> Result<bool, Error> {
    let place = &Place::of(engine, scope);
    check_table(principal, place, &path)?;
    let (name, table) = hypertable(engine, place, path)?;
    let Some(job) = policy_of(&engine.snapshot(), &name.database, &table, policy) else {
        if if_exists {
            return Ok(false);
        }
        let (table, policy) = (name.table, policy.word());
        return Err(DefineError::NoPolicy { table, policy }.about(Part::Start));
    };
    jobs.delete(job.id)?;
    if policy == Policy::Retention {
        keep_for(engine, &name, &table, None)?;
    }
    Ok(true)
}

/// The job of a table's policy.
pub fn policy_of(
    snapshot: &Snapshot,
    database: &str,
    table: &TableSchema,
    policy: Policy,
) -> Option<Job> {
    job_of(
        snapshot,
        database,
        policy.kind(),
        i64::from(table.kept_id().0),
    )
}

/// What a table's job says of its age; `None` = nothing that can be read.
fn age_of(job: &Job, policy: Policy, table: &TableSchema) -> Option<Span> {
    let config: Json = serde_json::from_str(&job.config).ok()?;
    match config.get(policy.age_name())? {
        Json::String(text) => parse_span(text),
        number => checked(table, Age::Number(number.as_i64()?))
            .ok()
            .map(|(span, _)| span),
    }
}

/// An age in time, and as a configuration has it.
fn checked(table: &TableSchema, age: Age) -> Result<(Span, Json), String> {
    let (span, shown) = match (age, table.time().1) {
        (Age::Span(_), TimeKind::Integer { .. }) => {
            return Err(
                "the time of the table is an integer; say the age as a number of it".to_owned(),
            );
        }
        (Age::Span(span), _) => (span, Json::from(span_text(span))),
        (Age::Number(number), TimeKind::Integer { unit_ns }) => (
            Span::of_ns(number.saturating_mul(unit_ns.max(1))),
            Json::from(number),
        ),
        (Age::Number(_), _) => {
            return Err("the time of the table is no integer; say the age as an interval, such as INTERVAL '30 days'".to_owned());
        }
    };
    if !span.is_positive() {
        return Err("its age must be longer than nothing".to_owned());
    }
    Ok((span, shown))
}

/// Refuses ages by which chunks would go before they are compressed.
fn fits_others(
    snapshot: &Snapshot,
    name: &TableName,
    table: &TableSchema,
    policy: Policy,
    age: Span,
) -> Result<(), String> {
    let other = match policy {
        Policy::Retention => Policy::Compression,
        Policy::Compression => Policy::Retention,
        Policy::Reorder => return Ok(()),
    };
    let job = policy_of(snapshot, &name.database, table, other);
    let known = job.and_then(|job| age_of(&job, other, table));
    // Rows may be kept for so long without a policy too: by the table's setting, or its schema's.
    let kept = || match policy {
        Policy::Compression => snapshot.retention_ns(table.id).map(Span::of_ns),
        _ => None,
    };
    let Some(known) = known.or_else(kept) else {
        return Ok(());
    };
    let (drop, compress) = match policy {
        Policy::Retention => (age, known),
        _ => (known, age),
    };
    // As long ago as they reach from a day of a month of 31 days.
    if drop.before(0) < compress.before(0) {
        return Ok(());
    }
    Err(format!(
        "chunks would be dropped (after {}) before they are compressed (after {}); compress earlier, or keep them longer",
        length_text(drop, table.time().1),
        length_text(compress, table.time().1)
    ))
}

/// A length as the table has times.
pub(in crate::define) fn length_text(span: Span, kind: TimeKind) -> String {
    match kind {
        TimeKind::Integer { unit_ns } => (span.ns / unit_ns.max(1)).to_string(),
        _ => span_text(span),
    }
}

/// How long the retention policy of a table whose time is an integer keeps its rows, in nanoseconds; `None` = it has none.
pub(in crate::define) fn integers_kept_for(
    snapshot: &Snapshot,
    database: &str,
    table: &TableSchema,
) -> Option<i64> {
    let job = policy_of(snapshot, database, table, Policy::Retention)?;
    let age = age_of(&job, Policy::Retention, table)?;
    is_integer(table).then_some(age.ns)
}

/// Sets how long a table keeps its rows, by the calendar as of now. Where the time is an integer the job alone drops them.
fn keep_for(
    engine: &Arc<Engine>,
    name: &TableName,
    table: &TableSchema,
    age: Option<Span>,
) -> Result<(), Error> {
    if is_integer(table) {
        return Ok(());
    }
    let now_ns = engine.wall_ns();
    let retention_ns = age.map(|age| now_ns.saturating_sub(age.before(now_ns)));
    let mut settings = table.settings;
    if settings.retention_ns == retention_ns {
        return Ok(());
    }
    settings.retention_ns = retention_ns;
    note_retention(engine, name, table.kept_id())?;
    Ok(engine.set_table(&name.database, &name.schema, &name.table, settings)?)
}

/// Says what jobs of policies do: for a language that makes such.
pub fn register(jobs: &BackgroundJobs) {
    jobs.register(Policy::Retention.kind(), Arc::new(retain));
    jobs.register(Policy::Compression.kind(), Arc::new(compress));
    jobs.register(
        Policy::Reorder.kind(),
        Arc::new(|context| reorder(&context)),
    );
}

/// The hypertable of a job, and the age that it says.
fn target(
    context: &JobContext,
    policy: Policy,
) -> Result<Option<(TableName, Arc<TableSchema>, Span)>, Error> {
    let snapshot = context.engine.snapshot();
    let Some((name, table)) = table_by_id(&snapshot, &context.job.database, context.job.target)
    else {
        return Ok(None);
    };
    let age = age_of(&context.job, policy, &table);
    let age = age.filter(|age| age.is_positive()).ok_or_else(|| {
        let wanted = policy.age_name();
        failed(
            context,
            format!("its configuration has no {wanted} that is an age; set one with alter_job, or make the policy anew"),
        )
    })?;
    Ok(Some((name, table, age)))
}

fn failed(context: &JobContext, reason: String) -> Error {
    let id = context.job.id;
    JobError::Failed { id, reason }.into()
}

fn retain(context: JobContext) -> BoxFuture<'static, Result<JobEnd, Error>> {
    let executor = Arc::clone(&context.executor);
    async move {
        let Some((name, table, age)) = target(&context, Policy::Retention)? else {
            return Ok(JobEnd::TargetGone);
        };
        let asked_ns = if is_integer(&table) {
            Some(integer_now::now_ns(&context, &name, &table).await?)
        } else {
            None
        };
        let work = move || match asked_ns {
            Some(now_ns) => retain_integers(&context.engine, &name, &table, age.before(now_ns)),
            None => retain_times(&context, &name, &table, age),
        };
        let done = executor.block(work).await;
        done.unwrap_or(Err(Error::Panicked { what: "job" }))
    }
    .boxed()
}

/// Drops the chunks that are old enough by the clock.
fn retain_times(
    context: &JobContext,
    name: &TableName,
    table: &Arc<TableSchema>,
    age: Span,
) -> Result<JobEnd, Error> {
    let engine = &context.engine;
    let RetentionTime::Believed(now_ns) = engine.guarded_time()? else {
        let reason = "the clock is further ahead than time can have passed; look at it, then say `nilometer` that it is right, as the guide to operations says".to_owned();
        return Err(failed(context, reason));
    };
    keep_for(engine, name, table, Some(age))?;
    // Which of its buckets have lost rows an aggregate knows by the table's retention, so that alone takes rows away.
    if reader_of(&engine.snapshot(), table.kept_id()).is_some() {
        return Ok(JobEnd::Done);
    }
    let range = ChunkRange {
        older_than: Some(TimeBound::Ago(age)),
        newer_than: None,
    };
    drop_range(engine, table, &range, now_ns)?;
    Ok(JobEnd::Done)
}

/// Drops the chunks that end by a time of a table whose time is an integer.
fn retain_integers(
    engine: &Arc<Engine>,
    name: &TableName,
    table: &Arc<TableSchema>,
    older_ns: i64,
) -> Result<JobEnd, Error> {
    let TimeKind::Integer { unit_ns } = table.time().1 else {
        return Ok(JobEnd::Done);
    };
    // Before rows go, so that an aggregate computes no bucket anew without them.
    let width = table.settings.partition_interval_ns.max(1);
    let from_ns = older_ns.div_euclid(width).saturating_mul(width);
    note_dropped(engine, name, table.kept_id(), from_ns)?;
    let range = ChunkRange {
        older_than: Some(TimeBound::Number(older_ns.div_euclid(unit_ns.max(1)))),
        newer_than: None,
    };
    drop_range(engine, table, &range, older_ns)?;
    Ok(JobEnd::Done)
}

fn compress(context: JobContext) -> BoxFuture<'static, Result<JobEnd, Error>> {
    let work = async move {
        let Some((name, table, age)) = target(&context, Policy::Compression)? else {
            return Ok(JobEnd::TargetGone);
        };
        let (engine, executor) = (&context.engine, &context.executor);
        let now_ns = integer_now::now_ns(&context, &name, &table).await?;
        let older_ns = age.before(now_ns);
        let (own, table_read) = (Arc::clone(engine), Arc::clone(&table));
        let chunks = executor
            .block(move || chunks_of(&own.snapshot(), &table_read))
            .await;
        let chunks = chunks.unwrap_or(Ok(Vec::new()))?;
        for chunk in chunks {
            if chunk.end() > older_ns || (chunk.is_cold && chunk.is_all_cold) {
                continue;
            }
            let mut tries = 0;
            loop {
                if context.cancelled.is_cancelled() {
                    return Ok(JobEnd::Done);
                }
                let (own, name, table, chunk) = (
                    Arc::clone(engine),
                    name.clone(),
                    Arc::clone(&table),
                    chunk.clone(),
                );
                let work = move || convert(&own, &name, &table, &chunk, Tier::Cold);
                let moved = executor.block(work).await;
                match moved.unwrap_or(Err(Error::Panicked { what: "job" }))? {
                    Moved::Done(_) | Moved::Not => break,
                    Moved::Busy(chunk) if tries >= BUSY_MAX => {
                        let reason = format!(
                            "maintenance has the files of {chunk} for long; it is tried again"
                        );
                        return Err(failed(&context, reason));
                    }
                    Moved::Busy(_) => {
                        tries += 1;
                        executor.sleep(BUSY_PAUSE).await;
                    }
                }
            }
        }
        Ok(JobEnd::Done)
    };
    work.boxed()
}

fn reorder(context: &JobContext) -> BoxFuture<'static, Result<JobEnd, Error>> {
    let found = table_by_id(
        &context.engine.snapshot(),
        &context.job.database,
        context.job.target,
    );
    let end = match found {
        Some(_) => JobEnd::Done,
        None => JobEnd::TargetGone,
    };
    async move { Ok(end) }.boxed()
}

fn put(config: &mut Json, name: &str, value: Json) {
    if let Some(config) = config.as_object_mut() {
        config.insert(name.to_owned(), value);
    }
}

/// A length of time as `PostgreSQL` writes one: `1 mon 3 days 04:05:06`.
pub fn span_text(span: Span) -> String {
    const DAY_NS: i64 = 24 * HOUR_NS;
    let mut parts = Vec::new();
    let mut part = |number: i64, unit: &str| {
        if number != 0 {
            let end = if number == 1 { "" } else { "s" };
            parts.push(format!("{number} {unit}{end}"));
        }
    };
    part(i64::from(span.months / 12), "year");
    part(i64::from(span.months % 12), "mon");
    part(span.ns / DAY_NS, "day");
    let rest = span.ns % DAY_NS;
    if rest != 0 || parts.is_empty() {
        let sign = if rest < 0 { "-" } else { "" };
        let rest = rest.unsigned_abs();
        let seconds = rest / 1_000_000_000;
        let mut text = format!(
            "{sign}{:02}:{:02}:{:02}",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60
        );
        let fraction = rest % 1_000_000_000;
        if fraction > 0 {
            let digits = format!("{fraction:09}");
            text.push('.');
            text.push_str(digits.trim_end_matches('0'));
        }
        parts.push(text);
    }
    parts.join(" ")
}

/// The length of time that a text is, as [`span_text`] writes it.
pub fn parse_span(text: &str) -> Option<Span> {
    const DAY_NS: i64 = 24 * HOUR_NS;
    let mut span = Span::default();
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        if let Some((hours, rest)) = word.split_once(':') {
            let (hours, sign) = match hours.strip_prefix('-') {
                Some(hours) => (hours, -1),
                None => (hours, 1),
            };
            let (minutes, seconds) = rest.split_once(':')?;
            let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
            let number = |digits: &str| digits.parse::<i64>().ok();
            let seconds = number(hours)?
                .checked_mul(3600)?
                .checked_add(number(minutes)? * 60 + number(seconds)?)?;
            let fraction = number(&format!("{fraction:0<9}"))?;
            let ns = seconds.checked_mul(1_000_000_000)?.checked_add(fraction)?;
            span.ns = span.ns.checked_add(sign * ns)?;
            continue;
        }
        let number: i64 = word.parse().ok()?;
        match words.next()?.trim_end_matches('s') {
            "year" => {
                span.months = span
                    .months
                    .checked_add(i32::try_from(number.checked_mul(12)?).ok()?)?;
            }
            "mon" | "month" => {
                span.months = span.months.checked_add(i32::try_from(number).ok()?)?;
            }
            unit => {
                let unit_ns = match unit {
                    "week" => 7 * DAY_NS,
                    "day" => DAY_NS,
                    "hour" => HOUR_NS,
                    "minute" | "min" => HOUR_NS / 60,
                    "second" | "sec" => HOUR_NS / 3600,
                    _ => return None,
                };
                span.ns = span.ns.checked_add(number.checked_mul(unit_ns)?)?;
            }
        }
    }
    Some(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What PostgreSQL 15 prints of the intervals.
    #[test]
    fn lengths_of_time_are_written_as_postgresql_writes_them_and_read_again() {
        let second = 1_000_000_000;
        for (months, ns, text) in [
            (0, 0, "00:00:00"),
            (1, 0, "1 mon"),
            (26, 3 * 24 * HOUR_NS, "2 years 2 mons 3 days"),
            (0, 24 * HOUR_NS + 90 * second, "1 day 00:01:30"),
            (0, 12 * HOUR_NS, "12:00:00"),
            (0, second / 2, "00:00:00.5"),
        ] {
            let span = Span { months, ns };
            assert_eq!(span_text(span), text);
            assert_eq!(parse_span(text), Some(span), "{text}");
        }
        for other in ["30", "a day", "1 fortnight", "1:2"] {
            assert_eq!(parse_span(other), None, "{other}");
        }
    }
}
