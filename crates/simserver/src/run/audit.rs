//! Audit at the end: what is there is what must be, and nothing is held any more.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::verdict::said;
use super::{Ran, Run, Wish};
use crate::answer;
use crate::client::{ALL, Ending, Feed, Got, Mailbox, talk};
use crate::influxql;
use crate::model::{Shown, View, contradiction};
use crate::plan::{Encoding, Format, QUERY_MS_MAX, Question, Route, Write};
use crate::request;

/// What a run may take to come to rest.
const TURNS_MAX: u32 = 200_000;
/// In what body memory is counted.
const UNIT_BYTES: usize = 64 << 10;
/// So many bodies at once are tried.
const UNITS_MAX: usize = 4;

/// Gauges that are nothing when nothing runs.
const GAUGES: [&str; 2] = [
    "nilometer_queries_running",
    "nilometer_memory_bytes{use=\"query\"}",
];

impl Run<'_> {
    /// Lets every client send and take all that it has, and everything end.
    pub(super) async fn run_out(&mut self, dice: u64) -> Ran<()> {
        for client in self.clients.values() {
            if let Some(feed) = &client.feed {
                feed.finish();
            }
            client.mailbox.allow(ALL);
        }
        let mut dice = Xoshiro256PlusPlus::seed_from_u64(dice ^ self.plan.seed);
        for _ in 0..TURNS_MAX {
            if !self.turn(&mut dice).await? {
                return Ok(());
            }
        }
        Err(format!("nothing has come to rest after {TURNS_MAX} turns"))
    }

    /// One request of the auditor, and its answer.
    pub(super) async fn ask(&mut self, request: Request<Body>) -> Ran<Got> {
        let router = self.world.router();
        self.ask_of(router, request).await
    }

    pub(super) async fn ask_of(&mut self, router: Router, request: Request<Body>) -> Ran<Got> {
        let mailbox = Mailbox::new(ALL);
        let talking = talk(router, request, Arc::clone(&mailbox));
        self.world.machine.start(talking);
        self.run_out(1).await?;
        Ok(mailbox.got())
    }

    /// Everything ends; then everything is read.
    pub(super) async fn audit(&mut self, dice: u64) -> Ran<()> {
        let lives = self.counts.restarts;
        self.run_out(dice).await?;
        if self.counts.restarts != lives {
            // The life ended meanwhile, and the next one began with an audit.
            return Ok(());
        }
        if let Some(client) = self.clients.values().next() {
            return Err(format!(
                "a request waits for ever: {:?}, which has {}",
                client.wish,
                said(&client.mailbox.got())
            ));
        }
        let poisoned = self.world.is_poisoned();
        if !poisoned {
            self.model.settle();
            self.settle_sides();
        }
        self.compare(poisoned).await?;
        self.compare_sides(poisoned).await?;
        self.nothing_is_held().await
    }

    /// However slowly somebody reads, others have their turn in time.
    pub(super) async fn patience(&mut self) -> Ran<()> {
        let lives = self.counts.restarts;
        let mut dice = Xoshiro256PlusPlus::seed_from_u64(3);
        // Whoever waits has a turn and all its time once those before are over.
        for _ in 0..self.clients.len() + 2 {
            while self.turn(&mut dice).await? {}
            self.world.machine.advance(QUERY_MS_MAX);
        }
        while self.turn(&mut dice).await? {}
        let request = request::question("SELECT 1 AS one", "csv");
        let mailbox = Mailbox::new(ALL);
        let talking = talk(self.world.router(), request, Arc::clone(&mailbox));
        self.world.machine.start(talking);
        while self.turn(&mut dice).await? {}
        let got = mailbox.got();
        if got.status == Some(200) || self.counts.restarts != lives {
            return Ok(());
        }
        Err(format!(
            "all queries are as old as they may become, and another one gets {}",
            said(&got)
        ))
    }

    async fn compare(&mut self, poisoned: bool) -> Ran<()> {
        let shown = self.look_at(&request::everything(true)).await?;
        let shown = match shown {
            None if self.dropped => self.look_at(&request::everything(false)).await?,
            shown => shown,
        };
        let shown = shown.ok_or("reading does not go on: a table is not there")?;
        self.must_be(View::Rows, &shown, poisoned)?;
        let defined = self.look_at(&request::text_of(Question::Defined)).await?;
        let defined = defined.ok_or("what the store says of itself cannot be read")?;
        self.must_be(View::Names, &defined, poisoned)?;
        // A database that is not there has no rows.
        let aside = self.look_at(&request::text_of(Question::Aside)).await?;
        self.must_be(View::Aside, &aside.unwrap_or_default(), poisoned)?;
        // In another language it is the same.
        for (question, view) in [(Question::All, View::Rows), (Question::Aside, View::Aside)] {
            for format in [Format::InfluxJson, Format::InfluxChunks, Format::InfluxCsv] {
                let request = influxql::question(question, format);
                let shown = self.shown_by(request, format).await?;
                self.must_be(view, &shown.unwrap_or_default(), poisoned)?;
            }
        }
        Ok(())
    }

    /// What a statement shows now; `None` = something that it names is not there.
    async fn look_at(&mut self, sql: &str) -> Ran<Option<Shown>> {
        let request = request::question(sql, "csv");
        self.shown_by(request, Format::Csv).await
    }

    async fn shown_by(&mut self, request: Request<Body>, format: Format) -> Ran<Option<Shown>> {
        let auditor = self.world.auditor();
        let got = self.ask_of(auditor, request).await?;
        let refusal = influxql::refusal(&got);
        let status = refusal.map(|(status, _)| status).or(got.status);
        if matches!(status, Some(400 | 404)) {
            return Ok(None);
        }
        if status != got.status {
            return Err(format!("reading does not go on: {}", said(&got)));
        }
        if got.status != Some(200) || got.whole != Some(true) {
            return Err(format!("reading does not go on: {}", said(&got)));
        }
        self.counts.compared += 1;
        answer::shown(&got.bytes, format, &self.rows).map(Some)
    }

    fn must_be(&mut self, view: View, shown: &Shown, poisoned: bool) -> Ran<()> {
        if let Some(wrong) = contradiction(view, &[self.model.moment()], shown) {
            return Err(wrong);
        }
        // What a poisoned store has in its log may come back in the next life.
        if !poisoned {
            self.model.see(view, shown);
        }
        Ok(())
    }

    async fn nothing_is_held(&mut self) -> Ran<()> {
        let page = Request::get("/metrics").body(Body::empty());
        let page = page.expect("a constant path makes a request");
        let got = self.ask(page).await?;
        let text = String::from_utf8_lossy(&got.bytes).into_owned();
        for gauge in GAUGES {
            let value = text
                .lines()
                .find_map(|line| line.strip_prefix(gauge)?.trim().parse::<u64>().ok());
            if value != Some(0) {
                return Err(format!("nothing runs, and {gauge} is {value:?}"));
            }
        }
        self.bodies_are_free().await
    }

    /// As many bodies as there are units of body memory can be on their way.
    async fn bodies_are_free(&mut self) -> Ran<()> {
        let units = self.plan.limits.bodies_bytes_max / UNIT_BYTES;
        if units > UNITS_MAX {
            return Ok(());
        }
        let comment = Write {
            op: 0,
            route: Route::V3,
            tables: crate::model::Tables::default(),
            rows: 0,
            bad_lines: 0,
            keyed: false,
            encoding: Encoding::Identity,
            padding: 128,
            pieces: 2,
            ending: Ending::Whole,
        };
        let mailboxes: Vec<_> = (0..units)
            .map(|_| {
                let feed = Feed::new(&request::body_of(&comment), 2, Ending::Whole);
                feed.release(1);
                let request = request::write_request(&comment, &feed);
                self.send(Wish::Probe, request, Some(feed), ALL)
            })
            .collect();
        self.counts.requests -= units as u64;
        let mut dice = Xoshiro256PlusPlus::seed_from_u64(1);
        while self.turn(&mut dice).await? {}
        self.run_out(2).await?;
        let got = mailboxes.iter().map(|mailbox| mailbox.got());
        let refused = got.into_iter().find(|got| {
            let text = String::from_utf8_lossy(&got.bytes);
            text.contains("bodies-bytes-max")
        });
        match refused {
            Some(got) => Err(format!("no body is on its way, and {}", said(&got))),
            None => Ok(()),
        }
    }
}
