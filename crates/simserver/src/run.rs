//! A run: the plan's steps against a server on the simulated machine, and against the model.
//!
//! Does: send requests, let their tasks have turns, note each answer when it comes, end lives and begin the next. Does
//! not: judge a single answer (`verdict.rs` does) or look for what is left behind (`audit.rs`).

mod audit;
mod influx;
mod retention;
mod verdict;
mod world;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use nilometer_service::Sabotage;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::answer::Rows;
use crate::client::{ALL, Ending, Feed, Mailbox, talk};
use crate::influx::Deed;
use crate::influx::store::State;
use crate::influxql;
use crate::model::{Attempt, Effect, Model, Moment, NAMES, OpId, Tables};
use crate::plan::{Change, Format, Plan, Question, Route, Step, Tongue, Write};
use crate::request;

use influx::Side;
use retention::Belief;
pub use verdict::LIMITS;
use world::World;

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Index of the step in the plan.
    pub step: usize,
    /// Which promise, and how.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}: {}", self.step, self.what)
    }
}

/// What runs did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests sent, those of audits aside.
    pub requests: u64,
    /// Requests that were answered with success.
    pub acknowledged: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Requests whose answer says that they may have taken effect, or that have none.
    pub unanswered: u64,
    /// Answers compared with what may be there.
    pub compared: u64,
    /// Of these, those that were read while others wrote.
    pub compared_midway: u64,
    /// Lives that began after the first.
    pub restarts: u64,
    /// Of these, those after a crash amid a request.
    pub crashes: u64,
    /// Requests whose rows were too old for certain when retention had been at work.
    pub expired: u64,
    /// Definitions that were made or dropped, or refused because they were there already or not.
    pub defined: u64,
    /// Changes of databases of clients of InfluxDB that were answered with success.
    pub told: u64,
    /// Of these, writes that lacked points which a policy does not keep.
    pub told_partly: u64,
    /// Answers about these databases that were compared.
    pub shown: u64,
    /// Of these, those of SELECT, in which there was a row.
    pub selected: u64,
    /// Pages of devices that were acknowledged.
    pub pages: u64,
    /// Turns of tasks.
    pub polls: u64,
    /// How often each of [`LIMITS`] was met.
    pub limits: [u64; LIMITS.len()],
}

impl AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.requests += more.requests;
        self.acknowledged += more.acknowledged;
        self.refused += more.refused;
        self.unanswered += more.unanswered;
        self.compared += more.compared;
        self.compared_midway += more.compared_midway;
        self.restarts += more.restarts;
        self.crashes += more.crashes;
        self.expired += more.expired;
        self.defined += more.defined;
        self.told += more.told;
        self.told_partly += more.told_partly;
        self.shown += more.shown;
        self.selected += more.selected;
        self.pages += more.pages;
        self.polls += more.polls;
        for (ours, theirs) in self.limits.iter_mut().zip(more.limits) {
            *ours += theirs;
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "requests={} acknowledged={} refused={} unanswered={} compared={} midway={} restarts={} crashes={} expired={} defined={} told={} partly={} shown={} selected={} pages={} polls={}",
            self.requests,
            self.acknowledged,
            self.refused,
            self.unanswered,
            self.compared,
            self.compared_midway,
            self.restarts,
            self.crashes,
            self.expired,
            self.defined,
            self.told,
            self.told_partly,
            self.shown,
            self.selected,
            self.pages,
            self.polls
        )?;
        for (name, count) in LIMITS.iter().zip(self.limits) {
            write!(f, " {name}={count}")?;
        }
        Ok(())
    }
}

/// Runs a plan, with a bug planted or without.
pub fn run(plan: &Plan, sabotage: Option<Sabotage>) -> Result<Counts, Failure> {
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime of one thread needs nothing that could be missing");
        runtime.block_on(Run::new(plan, sabotage).all())
    }));
    ended.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(Failure {
            step: plan.steps.len(),
            what: format!("panic: {}", text.unwrap_or_default()),
        })
    })
}

/// What a client wants.
#[derive(Debug)]
enum Wish {
    Write {
        write: Write,
        attempts: Vec<Attempt>,
        ending: Ending,
    },
    Change {
        change: Change,
        tongue: Tongue,
        attempt: Attempt,
        /// The name that it makes or drops, and that may have been in its way: there already, or not there.
        name: Option<OpId>,
        in_its_way: bool,
    },
    /// To have retention believe the clock; so often it had jumped.
    Accept { jumps: u32 },
    Ask {
        question: Question,
        format: Format,
        /// What may have been there, from the question to the answer's head.
        moments: Vec<Moment>,
    },
    /// To tell or ask a database of clients of InfluxDB, and what may have been there since.
    Tell {
        at: usize,
        deed: Deed,
        moments: Vec<State>,
    },
    /// To end a statement.
    Kill,
    /// To see whether something is free.
    Probe,
}

/// What is known of the other database.
#[derive(Debug, Clone, Copy, Default)]
struct Aside {
    /// It was made for certain, at some time.
    was_made: bool,
    /// So was its table.
    has_table: bool,
    /// It was to be dropped, at some time.
    was_dropped: bool,
}

#[derive(Debug)]
struct Client {
    wish: Wish,
    task: u64,
    mailbox: Arc<Mailbox>,
    feed: Option<Arc<Feed>>,
    began_ms: u64,
    began_rooms: u64,
    /// What was known of the other database then.
    began_aside: Aside,
}

struct Run<'a> {
    plan: &'a Plan,
    world: World,
    model: Model,
    clients: BTreeMap<u64, Client>,
    last_client: u64,
    /// Every request that writes, by its number.
    writes: BTreeMap<OpId, Write>,
    rows: Rows,
    /// The first table was dropped at some time, and is not there for certain.
    dropped: bool,
    aside: Aside,
    /// Statements were ended by others.
    killed: bool,
    belief: Belief,
    /// The databases of clients of InfluxDB, once one is told something.
    sides: Vec<Side>,
    counts: Counts,
}

type Ran<T> = Result<T, String>;

impl<'a> Run<'a> {
    fn new(plan: &'a Plan, sabotage: Option<Sabotage>) -> Self {
        Self {
            plan,
            world: World::new(plan, sabotage),
            model: Model::default(),
            clients: BTreeMap::new(),
            last_client: 0,
            writes: BTreeMap::new(),
            rows: Rows::new(),
            dropped: false,
            aside: Aside::default(),
            killed: false,
            belief: Belief::default(),
            sides: Vec::new(),
            counts: Counts::default(),
        }
    }

    async fn all(mut self) -> Result<Counts, Failure> {
        let failed = |step| move |what| Failure { step, what };
        self.begin().await.map_err(failed(0))?;
        for (at, (number, step)) in self.plan.steps.iter().enumerate() {
            self.step(*number, step).await.map_err(failed(at))?;
        }
        let last = self.plan.steps.len();
        self.audit(u64::MAX).await.map_err(failed(last))?;
        self.counts.polls = self.world.machine.polls();
        self.world.stop();
        Ok(self.counts)
    }

    async fn begin(&mut self) -> Ran<()> {
        self.world.open()?;
        for sql in request::SETUP {
            let got = self.ask(request::statement(sql, "json")).await?;
            if got.status != Some(200) {
                return Err(format!("{sql}: {}", verdict::said(&got)));
            }
        }
        self.model.set(request::RETENTION, 1);
        // Retention believes the first time that it sees, whatever that is.
        self.world.upkeep();
        Ok(())
    }

    async fn step(&mut self, number: usize, step: &Step) -> Ran<()> {
        match step {
            Step::Write(write) => self.write(write.clone(), false),
            Step::Again(op) => self.again(*op),
            Step::Change(change, tongue) => self.change(*change, *tongue),
            Step::Ask(question, format, chunks) => self.question(*question, *format, *chunks),
            Step::Tell(at, deed, how) => self.tell(*at, deed, *how),
            Step::KillStatement => self.kill_statement(),
            Step::Run(polls, dice) => {
                let mut dice = Xoshiro256PlusPlus::seed_from_u64(*dice);
                for _ in 0..*polls {
                    if !self.turn(&mut dice).await? {
                        break;
                    }
                }
            }
            Step::Release(which, pieces) => {
                if let Some(feed) = self.client(*which).and_then(|it| it.feed.clone()) {
                    feed.release(*pieces);
                }
            }
            Step::Take(which, chunks) => {
                if let Some(client) = self.client(*which) {
                    client.mailbox.allow(*chunks);
                }
            }
            Step::Cancel(which) => self.cancel(*which),
            Step::Advance(ms) => self.world.machine.advance(*ms),
            Step::Jump => self.jump(),
            Step::Accept => self.accept_clock(),
            Step::Age(ms) => self.age(*ms).await?,
            Step::Maintain(jobs) => {
                self.may_expire();
                self.world.maintain(*jobs);
                if !self.crashed().await? {
                    self.look();
                }
            }
            Step::Flush => {
                self.world.flush();
                self.crashed().await?;
            }
            Step::Room(bytes) => self.world.leave_room(*bytes),
            Step::Faults(faults, end) => self.world.set_faults(faults, *end),
            Step::Settle => self.audit(number as u64).await?,
            Step::Patience => self.patience().await?,
            Step::Restart(end) => self.restart(*end).await?,
        }
        Ok(())
    }

    /// Lets one task have its turn, and notes what has come of it; false = none is ready.
    async fn turn(&mut self, dice: &mut Xoshiro256PlusPlus) -> Ran<bool> {
        let moved = self.world.machine.turn(dice).await;
        if self.crashed().await? {
            return Ok(false);
        }
        self.notice()?;
        Ok(moved)
    }

    /// The client of that number among those on their way.
    fn client(&self, which: usize) -> Option<&Client> {
        let nth = which % self.clients.len().max(1);
        self.clients.values().nth(nth)
    }

    fn send(
        &mut self,
        wish: Wish,
        request: Request<Body>,
        feed: Option<Arc<Feed>>,
        chunks: u64,
    ) -> Arc<Mailbox> {
        let mailbox = Mailbox::new(chunks);
        let talking = talk(self.world.router(), request, Arc::clone(&mailbox));
        let task = self.world.machine.start(talking);
        self.last_client += 1;
        let client = Client {
            wish,
            task,
            mailbox: Arc::clone(&mailbox),
            feed,
            began_ms: self.world.now_ms(),
            began_rooms: self.world.rooms(),
            began_aside: self.aside,
        };
        self.clients.insert(self.last_client, client);
        self.counts.requests += 1;
        self.look();
        mailbox
    }

    /// What may be there has changed: whoever has asked and has no answer yet may see it or not.
    fn look(&mut self) {
        let mut now = None;
        for client in self.clients.values_mut() {
            if let Wish::Change {
                change,
                attempt,
                name: Some(name),
                in_its_way,
                ..
            } = &mut client.wish
            {
                let there = matches!(change, Change::Add(_) | Change::Make(_));
                *in_its_way |= self.model.may_be(*name, there, *attempt);
            }
            if let Wish::Ask { moments, .. } = &mut client.wish
                && client.mailbox.status().is_none()
            {
                let now = now.get_or_insert_with(|| self.model.moment());
                if moments.last() != Some(now) {
                    moments.push(now.clone());
                }
            }
        }
    }

    fn write(&mut self, write: Write, again: bool) {
        let batches = match write.route {
            Route::Arrow(batches) => batches,
            _ => 1,
        };
        let keyed = write.keyed;
        let mut attempts = Vec::new();
        for op in (write.op..).take(batches as usize) {
            self.rows.insert(op, write.rows);
            let effect = Effect::Write { keyed };
            attempts.push(self.model.begin(op, write.tables, effect));
        }
        let (pieces, ending) = if again {
            (1, Ending::Whole)
        } else {
            (write.pieces, write.ending)
        };
        let feed = Feed::new(&request::body_of(&write), pieces, ending);
        feed.release(if pieces == 1 { ALL } else { 1 });
        let request = request::write_request(&write, &feed);
        self.writes.insert(write.op, write.clone());
        let wish = Wish::Write {
            write,
            attempts,
            ending,
        };
        self.send(wish, request, Some(feed), ALL);
    }

    fn again(&mut self, op: OpId) {
        if let Some(write) = self.writes.get(&op) {
            self.write(write.clone(), true);
        }
    }

    fn change(&mut self, change: Change, tongue: Tongue) {
        let named = |id| (Some(id), Tables::default());
        // A change of what was never written would be a statement about nothing.
        let (op, effect) = match change {
            Change::Update(op, version) => (op, Effect::Update { version }),
            Change::DeleteLast(op) => (op, Effect::DeleteLast),
            Change::DeleteKept(op) => (op, Effect::DeleteKept),
            Change::Drop => (0, Effect::DeleteLast),
            Change::Retain(version) => (request::RETENTION, Effect::Update { version }),
            Change::Add(nth) => (request::column(nth), Effect::Make),
            Change::Remove(nth) => (request::column(nth), Effect::Unmake),
            Change::Make(nth) => (request::table(nth), Effect::Make),
            Change::Unmake(nth) => (request::table(nth), Effect::Unmake),
            Change::MakeAside | Change::DropAside => (0, Effect::DropAside),
        };
        let (name, tables) = match (op, self.writes.get(&op)) {
            (NAMES.., _) => named(op),
            (0, _) => (None, Tables::default()),
            (_, Some(write)) => (None, write.tables),
            (_, None) => return,
        };
        let attempt = match change {
            // Nothing that it makes is asked for by itself.
            Change::MakeAside => Attempt::MAX,
            Change::Drop | Change::DropAside => {
                self.dropped |= change == Change::Drop;
                self.aside.was_dropped |= change == Change::DropAside;
                self.model.begin_drop(effect)
            }
            _ => self.model.begin(op, tables, effect),
        };
        let request = match (tongue, influxql::change(change)) {
            (Tongue::InfluxQl, Some(text)) => influxql::statement(&text),
            _ => request::statement(&request::change(change), "json"),
        };
        let wish = Wish::Change {
            change,
            tongue,
            attempt,
            name,
            in_its_way: false,
        };
        self.send(wish, request, None, ALL);
    }

    fn question(&mut self, question: Question, format: Format, chunks: u64) {
        let request = if format.is_influx() {
            influxql::question(question, format)
        } else {
            let (sql, name) = (request::text_of(question), request::name_of(format));
            match self.last_client % 2 {
                0 => request::question(&sql, name),
                _ => request::statement(&sql, name),
            }
        };
        let wish = Wish::Ask {
            question,
            format,
            moments: vec![self.model.moment()],
        };
        self.send(wish, request, None, chunks);
    }

    fn kill_statement(&mut self) {
        // The statement that kills is listed itself, as the newest.
        let newest = "SELECT query_id FROM system.queries ORDER BY query_id DESC LIMIT 2";
        self.send(Wish::Kill, request::question(newest, "csv"), None, ALL);
    }

    fn cancel(&mut self, which: usize) {
        let nth = which % self.clients.len().max(1);
        let Some(&id) = self.clients.keys().nth(nth) else {
            return;
        };
        if let Some(client) = self.clients.remove(&id) {
            self.world.machine.cancel(client.task);
            self.counts.unanswered += 1;
        }
    }

    /// Notes every answer that has come.
    fn notice(&mut self) -> Ran<()> {
        let ended: Vec<u64> = self
            .clients
            .iter()
            .filter(|(_, client)| client.mailbox.has_ended())
            .map(|(id, _)| *id)
            .collect();
        for id in ended {
            if let Some(client) = self.clients.remove(&id) {
                self.hear(&client)?;
            }
        }
        Ok(())
    }

    /// If the disk has crashed, the life is over: what was on its way has no answer.
    async fn crashed(&mut self) -> Ran<bool> {
        let Some(end) = self.world.crashed() else {
            return Ok(false);
        };
        self.counts.crashes += 1;
        self.next_life(end).await?;
        Ok(true)
    }

    async fn restart(&mut self, end: crate::plan::End) -> Ran<()> {
        if end == crate::plan::End::Stop {
            // As the server does: what runs may end, what waits for its client is let go of in time.
            self.run_out(0).await?;
        }
        self.next_life(end).await
    }

    async fn next_life(&mut self, end: crate::plan::End) -> Ran<()> {
        self.counts.unanswered += self.clients.len() as u64;
        self.counts.restarts += 1;
        self.clients.clear();
        self.world.end(end).await?;
        self.begin_life();
        self.model.settle();
        self.settle_sides();
        self.world.open()?;
        Box::pin(self.audit(u64::MAX / 2)).await
    }
}
