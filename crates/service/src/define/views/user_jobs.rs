//! Jobs that run a procedure of somebody's: `add_job`.
//!
//! Does: make them, once the procedure is known to be one that a job can run. Does not: run one (the language does), change or
//! delete one (as all jobs).

use std::sync::Arc;

use nilometer_engine::Engine;

use super::super::change::name::Path;
use super::super::error::{DefineError, Object, Part};
use super::super::place::{Place, check_table};
use super::routine::Parameter;
use super::routines::{routine, unknown_routine};
use crate::access::Principal;
use crate::error::Error;
use crate::jobs::background::{BackgroundJobs, JobSchedule, NewJob, Span, USER_ACTION};
use crate::write::sessions::Scope;

/// A job that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewUserJob {
    /// What it runs.
    pub procedure: Path,
    /// How often.
    pub every: Span,
    /// What the procedure is given, as JSON.
    pub config: Option<String>,
    /// It runs by itself.
    pub is_on: bool,
    /// Its runs begin at whole intervals from the first, and not so long after the end of the last.
    pub is_fixed: bool,
    /// When it runs first; `None` = now.
    pub initial_ns: Option<i64>,
}

/// Makes a job that runs a procedure with the rights of whoever asks for it, and says its number. Durable on return.
pub fn add_user_job(
    engine: &Arc<Engine>,
    jobs: &BackgroundJobs,
    principal: &Principal,
    scope: &Scope,
    new: NewUserJob,
) -> Result<i64, Error> {
    let place = &Place::of(engine, scope);
    check_table(principal, place, &new.procedure)?;
    let name = place.table(new.procedure)?;
    let snapshot = engine.snapshot();
    let found = routine(&snapshot, &name.database, &name.schema, &name.table);
    let Some(found) = found.filter(|it| it.is_procedure) else {
        return Err(unknown_routine(&snapshot, &name, true).about(Part::Other));
    };
    let refused = |reason: String| {
        let what = Object::Procedure;
        DefineError::Routine { what, reason }.about(Part::Other)
    };
    if !can_be_run(&found.parameters) {
        return Err(refused(format!(
            "a job gives a procedure its number and its configuration; make it {}(job_id INT, config JSONB)",
            name.table
        )));
    }
    if let Some(config) = &new.config
        && !serde_json::from_str::<serde_json::Value>(config).is_ok_and(|it| it.is_object())
    {
        return Err(refused(
            "the configuration of its job is an object of JSON, such as {\"keep\": 30}".to_owned(),
        ));
    }
    let first_ns = new.is_fixed.then(|| engine.wall_ns());
    jobs.add(&NewJob {
        kind: USER_ACTION.to_owned(),
        database: name.database,
        target: found.number,
        config: new.config.unwrap_or_default(),
        schedule: JobSchedule {
            initial_ns: new.initial_ns.or(first_ns),
            is_on: new.is_on,
            ..JobSchedule::every(new.every)
        },
        owner: principal.name().unwrap_or_default().to_owned(),
    })
}

/// Whether a job can give a procedure what it takes: its number and its configuration.
fn can_be_run(parameters: &[Parameter]) -> bool {
    let is_one_of = |parameter: &Parameter, known: &[&str]| {
        let of = parameter.of.to_ascii_lowercase();
        known.contains(&of.as_str())
    };
    match parameters {
        [id, config] => {
            is_one_of(id, &["int", "integer", "int4", "bigint", "int8"])
                && is_one_of(config, &["jsonb", "json"])
        }
        _ => false,
    }
}
