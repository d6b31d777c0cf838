//! Calls about refresh policies of continuous aggregates.
//!
//! Does: read their arguments. Does not: carry them out (`write/call/refresh.rs` does), or know what the window of a policy must be
//! (`nilometer_service::define` does).

use nilometer_service::define::{NewRefreshPolicy, RefreshWindow};

use super::arguments::{Arguments, Given, plan};
use super::policies::utc;
use super::what::What;
use crate::error::Error;

/// Reads `add_continuous_aggregate_policy`.
pub(super) fn added(given: &mut Arguments) -> Result<What, Error> {
    utc(given)?;
    given.refuse(
        &["include_tiered_data"],
        "the tiers of a table are read alike; leave it out",
    )?;
    // A refresh here is one transaction whatever it computes, and what has not changed costs nothing.
    given.refuse(
        &[
            "buckets_per_batch",
            "max_batches_per_execution",
            "refresh_newest_first",
        ],
        "a refresh is one transaction, and computes what has changed; leave it out",
    )?;
    let path = given.table("continuous_aggregate")?;
    let mut offset = |name: &str| {
        if !given.is_given(name) {
            return Err(given.wrong(
                name,
                "an interval before now, a number of the time, or NULL for no bound, and is missing",
            ));
        }
        match given.take(name) {
            None => Ok(None),
            Some(value) => given.as_age(name, value).map(Some),
        }
    };
    let window = RefreshWindow {
        start: offset("start_offset")?,
        end: offset("end_offset")?,
    };
    let every = given.span("schedule_interval")?;
    let every = every.ok_or_else(|| {
        given.wrong(
            "schedule_interval",
            "an interval, such as INTERVAL '1 hour', and is missing",
        )
    })?;
    let initial = given.bound("initial_start")?;
    let new = NewRefreshPolicy {
        window,
        every,
        if_not_exists: given.is("if_not_exists", false)?,
        initial_ns: None,
    };
    Ok(What::AddRefresh(path, new, initial))
}

/// Reads `remove_continuous_aggregate_policy`.
pub(super) fn removed(given: &mut Arguments) -> Result<What, Error> {
    let path = given.table("continuous_aggregate")?;
    // What the argument was called at first, and means.
    let old = given.take("if_not_exists");
    let if_exists = match old {
        None => given.is("if_exists", false)?,
        Some(Given::Bool(value)) if !given.has("if_exists") => value,
        Some(_) => {
            return Err(plan(
                "if_exists of remove_continuous_aggregate_policy is true or false, once".to_owned(),
                given.position,
            ));
        }
    };
    Ok(What::RemoveRefresh(path, if_exists))
}
