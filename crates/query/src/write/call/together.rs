//! All policies of a continuous aggregate at once: added, changed, removed and shown.
//!
//! Does: make each as its own call would, and none if one of them is refused. Does not: know which policy can work
//! (`nilometer_service::define` does).

use std::sync::Arc;

use nilometer_engine::{Engine, Snapshot};
use nilometer_service::define::{
    self, Age, Aggregate, DefineError, NewPolicy, NewRefreshPolicy, Part, Path, Policy,
    RefreshWindow, span_text,
};
use nilometer_service::{BackgroundJobs, Error as ServiceError, Job, Principal, Scope, Span};
use serde_json::{Map, Value as Json};

use super::refresh;
use crate::statement::settings::span;
use crate::statement::together::{Policies, PolicyOfView};

/// How often a refresh runs that is not said otherwise, as there.
const EVERY_NS: i64 = 3_600_000_000_000;

/// Whose policies are changed, and by whom.
pub(super) struct Site<'a> {
    pub(super) engine: &'a Arc<Engine>,
    pub(super) jobs: &'a BackgroundJobs,
    pub(super) principal: &'a Principal,
    pub(super) scope: &'a Scope,
    pub(super) path: &'a Path,
}

impl Site<'_> {
    fn view(&self) -> Result<Aggregate, ServiceError> {
        let path = self.path.clone();
        define::aggregate_to_change(self.engine, self.principal, self.scope, path)
    }

    /// Makes what is said; `false` = all were there already.
    pub(super) fn add(&self, new: &Policies, if_not_exists: bool) -> Result<bool, ServiceError> {
        self.view()?;
        let mut made = Vec::new();
        for kind in new.kinds() {
            match self.make(kind, new, None, if_not_exists) {
                Ok(true) => made.push(kind),
                Ok(false) => {}
                Err(error) => {
                    self.unmake(&made);
                    return Err(error);
                }
            }
        }
        Ok(!made.is_empty())
    }

    /// Makes those anew that something is said of, with their schedules; `false` = none of them is there.
    pub(super) fn alter(&self, new: &Policies, if_exists: bool) -> Result<bool, ServiceError> {
        let view = self.view()?;
        let snapshot = self.engine.snapshot();
        let mut old = Vec::new();
        for kind in new.kinds() {
            match job_of(&snapshot, &view, kind) {
                Some(job) => old.push((kind, job)),
                None if if_exists => {}
                None => return Err(missing(&view, kind)),
            }
        }
        // What one of them must be depends on the others, so all go before the first comes back.
        for (kind, _) in &old {
            self.remove_one(*kind)?;
        }
        let mut made = Vec::new();
        for (kind, job) in &old {
            let whole = with_old(new, *kind, job);
            if let Err(error) = self.make(*kind, &whole, Some(job), false) {
                self.unmake(&made);
                for (kind, job) in &old {
                    // They could work before; the error that is told is the first.
                    drop(self.make(*kind, &of_job(*kind, job), Some(job), true));
                }
                return Err(error);
            }
            made.push(*kind);
        }
        Ok(!old.is_empty())
    }

    /// Removes those of the kinds; `false` = none of them was there.
    pub(super) fn remove(
        &self,
        kinds: &[PolicyOfView],
        if_exists: bool,
    ) -> Result<bool, ServiceError> {
        let view = self.view()?;
        let snapshot = self.engine.snapshot();
        let is_there = |kind: &PolicyOfView| job_of(&snapshot, &view, *kind).is_some();
        if let Some(kind) = kinds.iter().find(|kind| !if_exists && !is_there(kind)) {
            return Err(missing(&view, *kind));
        }
        let mut any = false;
        for kind in kinds.iter().filter(|kind| is_there(kind)) {
            self.remove_one(*kind)?;
            any = true;
        }
        Ok(any)
    }

    /// Each policy as JSON, by its kind.
    pub(super) fn show(&self) -> Result<Vec<String>, ServiceError> {
        let view = self.view()?;
        let snapshot = self.engine.snapshot();
        let kinds = PolicyOfView::ALL.into_iter();
        let jobs = kinds.filter_map(|kind| Some((kind, job_of(&snapshot, &view, kind)?)));
        Ok(jobs.map(|(kind, job)| shown(kind, &job)).collect())
    }

    fn make(
        &self,
        kind: PolicyOfView,
        new: &Policies,
        old: Option<&Job>,
        if_not_exists: bool,
    ) -> Result<bool, ServiceError> {
        let every = old.map(|job| job.schedule.interval);
        let initial_ns = old.and_then(|job| job.schedule.initial_ns);
        let made = match kind {
            PolicyOfView::Refresh => {
                let new = NewRefreshPolicy {
                    window: RefreshWindow {
                        start: new.start,
                        end: new.end,
                    },
                    every: every.unwrap_or(Span::of_ns(EVERY_NS)),
                    if_not_exists,
                    initial_ns,
                };
                let (engine, jobs) = (self.engine, self.jobs);
                refresh::add(engine, jobs, self.principal, self.scope, (self.path, new))?
            }
            PolicyOfView::Of(policy) => {
                let new = NewPolicy {
                    policy,
                    path: self.path.clone(),
                    age: match policy {
                        Policy::Compression => new.compress_after,
                        _ => new.drop_after,
                    },
                    index: None,
                    if_not_exists,
                    every,
                    initial_ns,
                };
                define::add_policy(self.engine, self.jobs, self.principal, self.scope, new)?
            }
        };
        Ok(made.is_some())
    }

    /// Removes what was made for a call that is refused.
    fn unmake(&self, made: &[PolicyOfView]) {
        for kind in made {
            // The refusal is what is told.
            drop(self.remove_one(*kind));
        }
    }

    fn remove_one(&self, kind: PolicyOfView) -> Result<(), ServiceError> {
        let (engine, jobs) = (self.engine, self.jobs);
        match kind {
            PolicyOfView::Refresh => {
                let which = (self.path, true);
                refresh::remove(engine, jobs, self.principal, self.scope, which)
            }
            PolicyOfView::Of(policy) => {
                let which = (self.path.clone(), policy, true);
                define::remove_policy(engine, jobs, self.principal, self.scope, which).map(drop)
            }
        }
    }
}

fn job_of(snapshot: &Snapshot, view: &Aggregate, kind: PolicyOfView) -> Option<Job> {
    match kind {
        PolicyOfView::Refresh => define::refresh_policy_of(snapshot, view),
        PolicyOfView::Of(policy) => {
            let (database, schema) = (&view.name.database, &view.name.schema);
            let stored = snapshot.table(database, schema, &view.stored)?;
            define::policy_of(snapshot, database, &stored, policy)
        }
    }
}

fn missing(view: &Aggregate, kind: PolicyOfView) -> ServiceError {
    let table = view.name.table.clone();
    let policy = match kind {
        PolicyOfView::Refresh => "refresh",
        PolicyOfView::Of(Policy::Compression) => "compression",
        PolicyOfView::Of(_) => "retention",
    };
    DefineError::NoPolicy { table, policy }.about(Part::Start)
}

fn config_of(job: &Job) -> Json {
    serde_json::from_str(&job.config).unwrap_or_default()
}

/// What the job of a policy says, as if it was asked for.
fn of_job(kind: PolicyOfView, job: &Job) -> Policies {
    let config = config_of(job);
    let age = |name: &str| match config.get(name)? {
        Json::String(text) => span(text).ok().map(Age::Span),
        number => number.as_i64().map(Age::Number),
    };
    let mut said = Policies::default();
    match kind {
        PolicyOfView::Refresh => {
            said.start = age("start_offset");
            said.end = age("end_offset");
        }
        PolicyOfView::Of(Policy::Compression) => {
            said.compress_after = age(Policy::Compression.age_name());
        }
        PolicyOfView::Of(_) => said.drop_after = age(Policy::Retention.age_name()),
    }
    said
}

/// What is said, and of a window whose other end is not said, that end as it was.
fn with_old(new: &Policies, kind: PolicyOfView, job: &Job) -> Policies {
    let old = of_job(kind, job);
    Policies {
        start: new.start.or(old.start),
        end: new.end.or(old.end),
        compress_after: new.compress_after,
        drop_after: new.drop_after,
    }
}

fn shown(kind: PolicyOfView, job: &Job) -> String {
    let config = config_of(job);
    let every = Json::from(span_text(job.schedule.interval));
    let of = |name: &str| config.get(name).cloned().unwrap_or_default();
    let mut parts = vec![("policy_name", Json::from(job.kind.as_str()))];
    match kind {
        PolicyOfView::Refresh => parts.extend([
            ("refresh_interval", every),
            ("refresh_start_offset", of("start_offset")),
            ("refresh_end_offset", of("end_offset")),
        ]),
        PolicyOfView::Of(policy) => {
            let interval = match policy {
                Policy::Compression => "compress_interval",
                _ => "retention_interval",
            };
            parts.push((policy.age_name(), of(policy.age_name())));
            parts.push((interval, every));
        }
    }
    let parts = parts.into_iter().map(|(name, it)| (name.to_owned(), it));
    Json::Object(parts.collect::<Map<String, Json>>()).to_string()
}
