//! The machine that the server runs on: its disk, its clock, its one thread, and how it ends.

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use nilometer_edge::Edge;
use nilometer_engine::disk::{CrashPlan, Disk, FaultyDisk};
use nilometer_engine::{Clock, Engine, Maintained};
use nilometer_http::{Http, HttpConfig, Routes, router};
use nilometer_influx::Influx;
use nilometer_influxql::InfluxQl;
use nilometer_native::{Native, NativeConfig};
use nilometer_query::Sql;
use nilometer_service::{Sabotage, Service, ServiceOptions};

use super::Ran;
use crate::machine::{Machine, PlannedClock};
use crate::plan::{End, Plan};

/// Where the store lives on the simulated disk.
const DIR: &str = "/data";
/// More than any plan writes.
const HUGE_BYTES: u64 = 1 << 40;
/// More than a store of some hundred rows has to do.
const JOBS_MAX: u32 = 1_000;
/// Turns that tokio gets to drop what operators have spawned.
const FAREWELL_TURNS: usize = 8;

pub(super) struct World {
    plan: Plan,
    shared: ServiceOptions,
    http: HttpConfig,
    native: NativeConfig,
    disk: FaultyDisk,
    clock: Arc<PlannedClock>,
    pub(super) machine: Machine,
    engine: Option<Arc<Engine>>,
    router: Option<Router>,
    /// Without limits, for audits; made when it is first asked for.
    auditor: Option<Router>,
    /// How the life ends if the disk crashes.
    end: End,
    /// The disk may be full.
    tight: bool,
    /// How often the room on the disk was changed, and which of these changes was the last from or to little room.
    rooms: u64,
    last_tight: u64,
}

impl World {
    pub(super) fn new(plan: &Plan, sabotage: Option<Sabotage>) -> Self {
        let clock = Arc::new(PlannedClock::default());
        let machine = Machine::new(Arc::clone(&clock));
        Self {
            shared: plan.limits.service(sabotage),
            http: plan.limits.http(),
            native: plan.limits.native(),
            disk: FaultyDisk::new(plan.seed, CrashPlan::default()),
            plan: plan.clone(),
            clock,
            machine,
            engine: None,
            router: None,
            auditor: None,
            end: End::Kill,
            tight: false,
            rooms: 0,
            last_tight: 0,
        }
    }

    pub(super) fn open(&mut self) -> Ran<()> {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let clock: Arc<dyn Clock> = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let engine = Engine::open(disk, clock, Path::new(DIR), self.plan.limits.options())
            .map_err(|error| format!("the store does not open: {error}"))?;
        let engine = Arc::new(engine);
        self.router = Some(self.routes(&engine, self.shared.clone(), self.native.clone())?);
        self.engine = Some(engine);
        Ok(())
    }

    pub(super) fn router(&self) -> Router {
        self.router.clone().expect("there is one from open to end")
    }

    /// The routes under limits that let everything be read.
    pub(super) fn auditor(&mut self) -> Router {
        let limits = &self.plan.limits;
        let is_wide = limits.answer_rows_max >= 1 << 20
            && limits.queries_waiting_max > 0
            && limits.query_memory_bytes_max >= 1 << 20;
        if is_wide {
            return self.router();
        }
        let engine = Arc::clone(self.engine.as_ref().expect("there is one from open to end"));
        if let Some(made) = &self.auditor {
            return made.clone();
        }
        let native = NativeConfig {
            answer_rows_max: 1 << 20,
            ..self.native.clone()
        };
        let mut shared = self.shared.clone();
        shared.query.query_memory_bytes_max = 512 << 20;
        let made = self.routes(&engine, shared, native);
        let made = made.expect("the same settings made a router before");
        self.auditor.insert(made).clone()
    }

    /// The routes of a server over this engine.
    fn routes(
        &self,
        engine: &Arc<Engine>,
        shared: ServiceOptions,
        config: NativeConfig,
    ) -> Ran<Router> {
        let failed = |error: &dyn std::fmt::Display| format!("the server does not start: {error}");
        let service = Service::new(
            Arc::clone(engine),
            self.machine.executor(),
            shared,
            |context| {
                Ok(vec![
                    Arc::new(InfluxQl::new(context)),
                    Arc::new(Sql::among(context)?),
                ])
            },
        );
        let service = service.map_err(|error| failed(&error))?;
        let http = Http::new(service, self.http.clone());
        let surfaces: [Box<dyn Routes>; 3] = [
            Box::new(Native { config }),
            Box::new(Influx),
            Box::new(Edge::default()),
        ];
        Ok(router(&http, &surfaces))
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.clock.monotonic_ms()
    }

    /// What the wall clock says, in nanoseconds since 1970.
    pub(super) fn wall_ns(&self) -> i64 {
        self.clock.now_ns()
    }

    /// Puts the wall clock ahead, and no other.
    pub(super) fn jump(&self, ms: u64) {
        self.clock.jump(ms);
    }

    /// Whether the store refuses writes after a failure.
    pub(super) fn is_poisoned(&self) -> bool {
        let engine = self.engine.as_ref();
        engine.is_some_and(|engine| engine.metrics().poisoned.is_some())
    }

    /// Whether something has failed that did not end the life.
    pub(super) fn has_faults(&self, since: u64) -> bool {
        self.was_tight(since) || self.disk.failures() > 0
    }

    pub(super) fn rooms(&self) -> u64 {
        self.rooms
    }

    /// Whether there was little room at some time since the room was changed so often: an answer may be heard when there
    /// is more again.
    pub(super) fn was_tight(&self, since: u64) -> bool {
        self.tight || self.last_tight > since
    }

    pub(super) fn maintain(&self, jobs: u32) {
        let Some(engine) = &self.engine else {
            return;
        };
        for _ in 0..jobs {
            // What fails is in the store's own words to whoever writes next.
            if !matches!(engine.maintain(), Ok(done) if done != Maintained::Idle) {
                return;
            }
        }
    }

    pub(super) fn flush(&self) {
        if let Some(engine) = &self.engine {
            drop(engine.flush());
        }
    }

    /// Makes the head a segment, and does all that is left to do; false = something failed, or there is no end of it.
    pub(super) fn upkeep(&self) -> bool {
        let Some(engine) = &self.engine else {
            return false;
        };
        if engine.flush().is_err() {
            return false;
        }
        for _ in 0..JOBS_MAX {
            match engine.maintain() {
                Ok(Maintained::Idle) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
        false
    }

    /// Leaves so many bytes free on the disk, from now on.
    pub(super) fn leave_room(&mut self, bytes: Option<u64>) {
        self.disk.set_capacity(HUGE_BYTES);
        let was_tight = std::mem::replace(&mut self.tight, bytes.is_some());
        self.rooms += 1;
        if was_tight || self.tight {
            self.last_tight = self.rooms;
        }
        if let Some(bytes) = bytes {
            let free = self.disk.free_bytes(Path::new(DIR)).unwrap_or(HUGE_BYTES);
            self.disk.set_capacity(HUGE_BYTES - free + bytes);
        }
    }

    pub(super) fn set_faults(&mut self, faults: &CrashPlan, end: End) {
        self.disk.set_plan(faults.clone());
        self.end = end;
    }

    /// How the life ends, if the disk has crashed.
    pub(super) fn crashed(&self) -> Option<End> {
        self.disk.crashed().then_some(self.end)
    }

    /// Lets go of everything.
    pub(super) fn stop(&mut self) {
        self.router = None;
        self.auditor = None;
        self.machine.kill();
        self.engine = None;
    }

    /// Ends the life; the disk is as it is left to the next.
    pub(super) async fn end(&mut self, end: End) -> Ran<()> {
        let calm = CrashPlan::default;
        let next = match end {
            End::PowerCut(seed) => Some(self.disk.after_power_cut(seed, calm())),
            End::Kill => Some(self.disk.after_kill(calm())),
            End::Stop => None,
        };
        let engine = self.engine.take();
        self.stop();
        for _ in 0..FAREWELL_TURNS {
            tokio::task::yield_now().await;
        }
        let Some(engine) = engine else {
            return Ok(());
        };
        let holders = Arc::strong_count(&engine);
        if holders > 1 {
            return Err(format!(
                "requests are gone, and {} of them still have the store",
                holders - 1
            ));
        }
        if let Some(next) = next {
            self.disk = next;
        } else {
            // A store that is poisoned says so here too; what it acknowledged is in its log.
            drop(engine.close());
            drop(engine);
            if self.disk.crashed() {
                self.disk = self.disk.after_kill(calm());
            } else {
                self.disk.set_plan(calm());
            }
        }
        self.leave_room(None);
        Ok(())
    }
}
