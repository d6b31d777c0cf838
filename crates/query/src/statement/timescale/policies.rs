//! Calls about chunks, policies and jobs.
//!
//! Does: read their arguments, refuse what has no meaning here. Does not: carry them out (`write/call.rs` does).

use nilometer_engine::Tier;
use nilometer_service::define::{Conversion, NewPolicy, NewUserJob, Policy};
use nilometer_service::{Fault, JobChange};

use super::arguments::{Arguments, Given, plan};
use super::what::What;
use super::{refresh, together};
use crate::error::Error;

/// The calls, each with its arguments by place.
const CALLS: [(&str, &[&str]); 23] = [
    (
        "add_continuous_aggregate_policy",
        &[
            "continuous_aggregate",
            "start_offset",
            "end_offset",
            "schedule_interval",
            "if_not_exists",
            "initial_start",
            "timezone",
            "include_tiered_data",
            "buckets_per_batch",
            "max_batches_per_execution",
            "refresh_newest_first",
        ],
    ),
    (
        "remove_continuous_aggregate_policy",
        &["continuous_aggregate", "if_exists", "if_not_exists"],
    ),
    (
        "add_columnstore_policy",
        &[
            "hypertable",
            "after",
            "if_not_exists",
            "schedule_interval",
            "initial_start",
            "timezone",
            "created_before",
        ],
    ),
    (
        "add_compression_policy",
        &[
            "hypertable",
            "compress_after",
            "if_not_exists",
            "schedule_interval",
            "initial_start",
            "timezone",
            "compress_created_before",
        ],
    ),
    (
        "add_reorder_policy",
        &[
            "hypertable",
            "index_name",
            "if_not_exists",
            "initial_start",
            "timezone",
        ],
    ),
    (
        "add_retention_policy",
        &[
            "relation",
            "drop_after",
            "if_not_exists",
            "schedule_interval",
            "initial_start",
            "timezone",
            "drop_created_before",
        ],
    ),
    (
        "alter_job",
        &[
            "job_id",
            "schedule_interval",
            "max_runtime",
            "max_retries",
            "retry_period",
            "scheduled",
            "config",
            "next_start",
            "if_exists",
            "check_config",
            "fixed_schedule",
            "initial_start",
            "timezone",
        ],
    ),
    (
        "compress_chunk",
        &["uncompressed_chunk", "if_not_compressed", "recompress"],
    ),
    (
        "convert_to_columnstore",
        &["chunk", "if_not_columnstore", "recompress"],
    ),
    ("convert_to_rowstore", &["chunk", "if_columnstore"]),
    ("decompress_chunk", &["uncompressed_chunk", "if_compressed"]),
    ("delete_job", &["job_id"]),
    (
        "drop_chunks",
        &[
            "relation",
            "older_than",
            "newer_than",
            "verbose",
            "created_before",
            "created_after",
        ],
    ),
    ("recompress_chunk", &["chunk", "if_not_compressed"]),
    ("remove_columnstore_policy", &["hypertable", "if_exists"]),
    ("remove_compression_policy", &["hypertable", "if_exists"]),
    ("remove_reorder_policy", &["hypertable", "if_exists"]),
    ("remove_retention_policy", &["relation", "if_exists"]),
    ("run_job", &["job_id"]),
    (
        "set_integer_now_func",
        &["hypertable", "integer_now_func", "replace_if_exists"],
    ),
    (
        "add_job",
        &[
            "proc",
            "schedule_interval",
            "config",
            "initial_start",
            "scheduled",
            "check_config",
            "fixed_schedule",
            "timezone",
            "job_name",
        ],
    ),
    ("attach_chunk", &["hypertable", "chunk", "slices"]),
    ("detach_chunk", &["chunk"]),
];

/// Calls that are refused, and why.
const REFUSED: [(&str, &str); 7] = [
    (
        "attach_chunk",
        "a chunk is the rows of a range of time, and no table; INSERT INTO the hypertable SELECT ... adds rows",
    ),
    (
        "detach_chunk",
        "a chunk is the rows of a range of time, and no table; copy its rows (CREATE TABLE, INSERT ... SELECT), then drop_chunks",
    ),
    (
        "merge_chunks",
        "partitions of few rows are merged by themselves",
    ),
    ("move_chunk", "there is one place for files"),
    (
        "reorder_chunk",
        "rows are kept by tags and time in every chunk; leave it out",
    ),
    (
        "split_chunk",
        "set_chunk_time_interval changes the width of chunks",
    ),
    (
        "add_process_hypertable_invalidations_policy",
        "refreshes look themselves what was written",
    ),
];

/// Whether a name is that of such a call.
pub(super) fn is_name(name: &str) -> bool {
    let is_known = CALLS.iter().any(|(known, _)| *known == name);
    is_known || together::places(name).is_some() || refusal(name).is_some()
}

fn refusal(name: &str) -> Option<&'static str> {
    let found = REFUSED.iter().find(|(known, _)| *known == name);
    found.map(|(_, why)| *why)
}

/// The arguments of a call by place.
pub(super) fn places(name: &str) -> &'static [&'static str] {
    let found = CALLS.iter().find(|(known, _)| *known == name);
    let found = found.map(|(_, places)| *places);
    found.or_else(|| together::places(name)).unwrap_or_default()
}

/// The error for a call that is refused whatever its arguments are.
pub(super) fn refuse(name: &str) -> Option<Error> {
    let why = refusal(name)?;
    Some(Error::Definition {
        message: format!("{name} is not supported: {why}"),
        fault: Fault::Unsupported,
        position: None,
    })
}

const NO_CREATION: &str =
    "when the first row of a chunk came is not kept; say ages by the time of rows";
const NO_ZONES: &str = "jobs run by UTC; leave it out";

/// Reads a call.
pub(super) fn read(function: &str, mut given: Arguments) -> Result<What, Error> {
    let what = match function {
        "drop_chunks" => {
            given.refuse(&["created_before", "created_after"], NO_CREATION)?;
            given.is("verbose", false)?;
            let path = given.table("relation")?;
            let older = given.bound("older_than")?;
            What::DropChunks(path, older, given.bound("newer_than")?)
        }
        "compress_chunk"
        | "recompress_chunk"
        | "convert_to_columnstore"
        | "decompress_chunk"
        | "convert_to_rowstore" => conversion(function, &mut given)?,
        "add_retention_policy" => policy(&mut given, Policy::Retention, "drop_after")?,
        "add_compression_policy" => policy(&mut given, Policy::Compression, "compress_after")?,
        "add_columnstore_policy" => policy(&mut given, Policy::Compression, "after")?,
        "add_reorder_policy" => policy(&mut given, Policy::Reorder, "index_name")?,
        "remove_retention_policy" => removed(&mut given, Policy::Retention)?,
        "remove_compression_policy" | "remove_columnstore_policy" => {
            removed(&mut given, Policy::Compression)?
        }
        "remove_reorder_policy" => removed(&mut given, Policy::Reorder)?,
        "add_continuous_aggregate_policy" => refresh::added(&mut given)?,
        "remove_continuous_aggregate_policy" => refresh::removed(&mut given)?,
        name if together::places(name).is_some() => together::read(name, &mut given)?,
        "add_job" => added(&mut given)?,
        "set_integer_now_func" => What::IntegerNow(
            given.table("hypertable")?,
            given.table("integer_now_func")?,
            given.is("replace_if_exists", false)?,
        ),
        "run_job" => What::RunJob(job(&mut given)?),
        "delete_job" => What::DeleteJob(job(&mut given)?),
        _ => altered(&mut given)?,
    };
    Ok(what)
}

fn conversion(function: &str, given: &mut Arguments) -> Result<What, Error> {
    let tier = match function {
        "decompress_chunk" | "convert_to_rowstore" => Tier::Hot,
        _ => Tier::Cold,
    };
    let names = ["uncompressed_chunk", "chunk"];
    let chunk = names.into_iter().find(|name| given.has(name));
    let path = given.table(chunk.unwrap_or("chunk"))?;
    let mut if_not_done = true;
    for name in [
        "if_not_compressed",
        "if_compressed",
        "if_not_columnstore",
        "if_columnstore",
    ] {
        if given.has(name) {
            if_not_done = given.is(name, true)?;
        }
    }
    // What is not in the cold tier yet goes there in any case.
    if given.has("recompress") {
        given.is("recompress", false)?;
    }
    Ok(What::Convert(Conversion {
        path,
        tier,
        if_not_done: if_not_done || function == "recompress_chunk",
    }))
}

fn table(given: &mut Arguments) -> Result<nilometer_service::define::Path, Error> {
    let names = ["relation", "hypertable"];
    let name = names.into_iter().find(|name| given.has(name));
    given.table(name.unwrap_or("hypertable"))
}

fn policy(given: &mut Arguments, policy: Policy, age: &str) -> Result<What, Error> {
    given.refuse(
        &[
            "drop_created_before",
            "compress_created_before",
            "created_before",
        ],
        NO_CREATION,
    )?;
    utc(given)?;
    let path = table(given)?;
    let (age, index) = match (policy, given.take(age)) {
        (Policy::Reorder, Some(Given::Text(index))) => (None, Some(index)),
        (Policy::Reorder, _) | (_, None) => (None, None),
        (_, Some(value)) => (Some(given.as_age(age, value)?), None),
    };
    let initial = given.bound("initial_start")?;
    Ok(What::AddPolicy(
        NewPolicy {
            policy,
            path,
            age,
            index,
            if_not_exists: given.is("if_not_exists", false)?,
            every: given.span("schedule_interval")?,
            initial_ns: None,
        },
        initial,
    ))
}

fn removed(given: &mut Arguments, policy: Policy) -> Result<What, Error> {
    let path = table(given)?;
    Ok(What::RemovePolicy(
        path,
        policy,
        given.is("if_exists", false)?,
    ))
}

fn job(given: &mut Arguments) -> Result<i64, Error> {
    let id = given.number("job_id")?;
    id.ok_or_else(|| given.wrong("job_id", "the number of a job, and is missing"))
}

/// Reads `add_job`.
fn added(given: &mut Arguments) -> Result<What, Error> {
    given.refuse(
        &["check_config"],
        "the procedure sees its configuration itself; leave it out",
    )?;
    given.refuse(
        &["job_name"],
        "jobs are called by their numbers; leave it out",
    )?;
    utc(given)?;
    let procedure = given.table("proc")?;
    let every = given.span("schedule_interval")?;
    let every = every.filter(|it| it.is_positive()).ok_or_else(|| {
        given.wrong(
            "schedule_interval",
            "an interval longer than nothing, such as INTERVAL '1 hour'",
        )
    })?;
    let config = given.text("config")?;
    let initial = given.bound("initial_start")?;
    let is_fixed = given.is("fixed_schedule", true)?;
    if !is_fixed && initial.is_some() {
        return Err(plan(
            "initial_start of add_job is where a fixed schedule begins; leave fixed_schedule => false out".to_owned(),
            given.position,
        ));
    }
    let new = NewUserJob {
        procedure,
        every,
        config,
        is_on: given.is("scheduled", true)?,
        is_fixed,
        initial_ns: None,
    };
    Ok(What::AddJob(new, initial))
}

fn altered(given: &mut Arguments) -> Result<What, Error> {
    given.refuse(
        &["check_config"],
        "kinds of jobs check their own; leave it out",
    )?;
    utc(given)?;
    let id = job(given)?;
    let lengths = |given: &mut Arguments, name| -> Result<Option<i64>, Error> {
        match given.span(name)? {
            Some(span) if span.months != 0 || span.ns < 0 => {
                Err(given.wrong(name, "a length of time without months"))
            }
            span => Ok(span.map(|span| span.ns)),
        }
    };
    let config = given.text("config")?;
    let interval = given.span("schedule_interval")?;
    if interval.is_some_and(|it| !it.is_positive()) {
        return Err(given.wrong("schedule_interval", "longer than nothing"));
    }
    let change = JobChange {
        interval,
        runtime_ns_max: lengths(given, "max_runtime")?,
        retries_max: given.number("max_retries")?,
        retry_ns: lengths(given, "retry_period")?,
        is_on: if given.has("scheduled") {
            Some(given.is("scheduled", true)?)
        } else {
            None
        },
        config,
        ..JobChange::default()
    };
    let next = given.bound("next_start")?;
    let initial = given.bound("initial_start")?;
    if given.is("fixed_schedule", initial.is_some())? != initial.is_some() {
        return Err(plan(
            "fixed_schedule of alter_job goes with initial_start: say both, or none".to_owned(),
            given.position,
        ));
    }
    let if_exists = given.is("if_exists", false)?;
    Ok(What::AlterJob {
        id,
        change,
        next,
        initial,
        if_exists,
    })
}

/// Refuses another time zone than that which jobs run by.
pub(super) fn utc(given: &mut Arguments) -> Result<(), Error> {
    let is_utc = given.is_text("timezone", &["utc", "gmt", "etc/utc"]);
    if is_utc {
        given.take("timezone");
    }
    given.refuse(&["timezone"], NO_ZONES)
}
