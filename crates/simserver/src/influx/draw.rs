//! Draws plans in which clients of InfluxDB write, ask, delete and drop, beside everything else that may happen.
//!
//! Does: draw deeds for a few databases, and the turns, faults, restarts and stops between them. Does not: change the plans
//! that [`crate::random_plan`] draws.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::names::{COPY, DATABASES, HOSTS, MEASUREMENTS, REGIONS, WORDS};
use super::select::{Call, Field, Fill, What};
use super::store::{Fields, Kept, Lines, PAST_S, Point, Policy, Reach};
use super::{Deed, How, Select, Show};
use crate::client::ALL;
use crate::generate::{limits, one_of, rarely};
use crate::plan::{End, Limits, Plan, QUERY_MS_MAX, RESERVE_BYTES, Step, WRITE_MS_MAX};
use nilometer_engine::disk::CrashPlan;

/// Points of a series have so many times.
const SLOTS: u32 = 40;

/// The plan of a seed. What limits a statement's memory or its answer is wide: this is about what answers say.
pub fn influx_plan(seed: u64) -> Plan {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x1f_1f);
    let limits = Limits {
        queries_waiting_max: 8,
        query_memory_bytes_max: 512 << 20,
        answer_rows_max: 1 << 20,
        bodies_bytes_max: 1 << 30,
        body_bytes_max: 1 << 20,
        ..limits(&mut random)
    };
    let count = random.random_range(10..40);
    let mut drawing = Drawing {
        random,
        steps: Vec::new(),
    };
    for at in 0..DATABASES.len() {
        drawing.begin(at);
    }
    for _ in 0..count {
        drawing.step();
    }
    Plan {
        seed,
        limits,
        steps: drawing.steps.into_iter().enumerate().collect(),
    }
}

struct Drawing {
    random: Xoshiro256PlusPlus,
    steps: Vec<Step>,
}

impl Drawing {
    fn tell(&mut self, at: usize, deed: Deed) {
        let random = &mut self.random;
        let how = How {
            chunk_rows: one_of(random, &[None, None, Some(1), Some(3)]),
            params: random.random_bool(0.3),
            posts: random.random_bool(0.3),
            takes: one_of(random, &[ALL, ALL, ALL, 0, 1, 3]),
        };
        self.steps.push(Step::Tell(at, deed, how));
    }

    fn run(&mut self, polls: u32) {
        let dice = self.random.random();
        self.steps.push(Step::Run(polls, dice));
    }

    /// A database with all policies, and some points.
    fn begin(&mut self, at: usize) {
        self.tell(at, Deed::Create);
        self.run(60);
        for policy in [Policy::Long, Policy::Brief] {
            self.tell(at, Deed::CreatePolicy(policy));
            self.run(60);
        }
        let lines = self.lines();
        self.tell(at, Deed::Write(lines));
        self.run(60);
    }

    fn step(&mut self) {
        let at = self.random.random_range(0..DATABASES.len());
        let which = self.random.random_range(0..4);
        match self.random.random_range(0..100) {
            0..76 => {
                let deed = self.deed();
                let is_drop = deed == Deed::Drop;
                self.tell(at, deed);
                if is_drop {
                    self.run(40);
                    self.begin(at);
                }
            }
            76..79 => self.steps.push(Step::Take(which, ALL)),
            79..81 => self.steps.push(Step::Cancel(which)),
            81..82 => self.steps.push(Step::KillStatement),
            82..84 => {
                let ms = one_of(&mut self.random, &[1_000, WRITE_MS_MAX, QUERY_MS_MAX]);
                self.steps.push(Step::Advance(ms));
            }
            84..87 => self.steps.push(Step::Maintain(2)),
            87..90 => self.steps.push(Step::Flush),
            90..92 => self.faults(),
            92..93 => {
                let room = one_of(&mut self.random, &[None, Some(RESERVE_BYTES)]);
                self.steps.push(Step::Room(room));
            }
            93..96 => self.steps.push(Step::Settle),
            _ => {
                let end = self.end();
                self.steps.push(Step::Restart(end));
            }
        }
        let polls = one_of(&mut self.random, &[2, 5, 20, 60, 60, 60]);
        self.run(polls);
    }

    fn end(&mut self) -> End {
        match self.random.random_range(0..3) {
            0 => End::Stop,
            1 => End::Kill,
            _ => End::PowerCut(self.random.random()),
        }
    }

    fn faults(&mut self) {
        let at = self.random.random_range(1..30);
        let mut faults = CrashPlan::default();
        match self.random.random_range(0..5) {
            0 => faults.fail_sync_at = (at..at + 3).collect(),
            1 => faults.fail_write_at = (at..at + 2).collect(),
            _ => faults.crash_at = Some(at),
        }
        let end = match self.end() {
            End::Stop => End::Kill,
            end => end,
        };
        self.steps.push(Step::Faults(faults, end));
    }

    fn deed(&mut self) -> Deed {
        let drawn = self.random.random_range(0..100);
        match drawn {
            0..34 => Deed::Write(self.lines()),
            34..64 => Deed::Select(self.select()),
            64..72 => Deed::Show(self.show()),
            72..82 => {
                let (from, reach) = (self.written(), self.reach());
                let all = rarely(&mut self.random, 4);
                Deed::Delete((!all).then_some(from), reach)
            }
            82..85 => Deed::DropMeasurement(self.random.random_range(0..MEASUREMENTS.len())),
            85..92 => self.into(),
            92..98 => self.policy(),
            98 => Deed::Drop,
            _ => Deed::Create,
        }
    }

    fn written(&mut self) -> usize {
        self.random.random_range(COPY + 1..MEASUREMENTS.len())
    }

    fn some_policy(&mut self) -> Option<Policy> {
        one_of(
            &mut self.random,
            &[
                None,
                None,
                Some(Policy::Autogen),
                Some(Policy::Long),
                Some(Policy::Brief),
            ],
        )
    }

    fn policy(&mut self) -> Deed {
        let random = &mut self.random;
        match random.random_range(0..6) {
            0 => Deed::CreatePolicy(Policy::Long),
            1 => Deed::CreatePolicy(Policy::Brief),
            // What keeps little is never the default: bodies without a policy would be too old.
            2 => Deed::AlterPolicy(one_of(random, &[Policy::Long, Policy::Autogen]), None),
            3 => Deed::AlterPolicy(
                Policy::Long,
                Some(Kept(one_of(random, &[0, 400_000, 876_000]))),
            ),
            _ => Deed::DropPolicy(one_of(random, &[Policy::Long, Policy::Brief])),
        }
    }

    fn fields(&mut self) -> Fields {
        let random = &mut self.random;
        let mut fields = Fields {
            i: random.random_bool(0.6).then(|| random.random_range(-5..6)),
            f: random
                .random_bool(0.5)
                .then(|| random.random_range(-40..41)),
            s: random
                .random_bool(0.3)
                .then(|| random.random_range(0..WORDS.len())),
            b: random.random_bool(0.3).then(|| random.random_bool(0.5)),
        };
        if fields.is_empty() {
            fields.i = Some(7);
        }
        fields
    }

    fn lines(&mut self) -> Lines {
        let policy = self.some_policy();
        let mut points = Vec::new();
        for _ in 0..self.random.random_range(1..25) {
            let fields = self.fields();
            let random = &mut self.random;
            points.push(Point {
                measurement: COPY + 1 + usize::from(random.random_bool(0.4)),
                host: random.random_range(0..HOSTS.len()),
                region: random.random_range(0..REGIONS.len()),
                slot: random.random_range(0..SLOTS),
                is_old: policy == Some(Policy::Brief) && rarely(random, 8),
                fields,
            });
        }
        Lines {
            policy,
            is_v2: self.random.random_bool(0.4),
            is_gzip: rarely(&mut self.random, 3),
            points,
        }
    }

    /// A range of seconds of a policy's points, now and then of none.
    fn range(&mut self, policy: Option<Policy>) -> (i64, i64) {
        let policy = policy.unwrap_or(Policy::Autogen);
        let from = self.random.random_range(0..SLOTS);
        let until = from + self.random.random_range(1..SLOTS);
        let odd = self.random.random_range(0..3);
        (policy.time_s(from) - odd, policy.time_s(until))
    }

    fn host(&mut self) -> Option<(bool, usize)> {
        let host = self.random.random_range(0..HOSTS.len());
        let is = self.random.random_bool(0.7);
        self.random.random_bool(0.4).then_some((is, host))
    }

    fn reach(&mut self) -> Reach {
        let policy = self.some_policy();
        let mut reach = Reach {
            host: self.host(),
            time: None,
        };
        if self.random.random_bool(0.6) {
            reach.time = Some(self.range(policy));
        } else if rarely(&mut self.random, 6) {
            reach.time = Some((0, PAST_S + i64::from(SLOTS)));
        } else if reach.host.is_none() {
            reach.host = Some((true, 0));
        }
        reach
    }

    fn select(&mut self) -> Select {
        let policy = self.some_policy();
        let (host, range) = (self.host(), self.range(policy));
        let random = &mut self.random;
        let is_rows = random.random_bool(0.5);
        let is_bucketed = !is_rows && random.random_bool(0.6);
        let mut select = Select {
            policy,
            from: one_of(random, &[&[1][..], &[1], &[2], &[1, 2], &[COPY]]).to_vec(),
            what: What::Rows(Vec::new()),
            host,
            region: rarely(random, 6).then(|| random.random_range(1..REGIONS.len())),
            time: (is_bucketed || random.random_bool(0.4)).then_some(range),
            least: rarely(random, 5).then(|| random.random_range(-3..4)),
            by_host: random.random_bool(0.5),
            by_region: random.random_bool(0.3),
            every: None,
            descends: rarely(random, 3),
            limit: rarely(random, 3)
                .then(|| (random.random_range(1..6), random.random_range(0..3))),
            series: None,
        };
        if is_rows {
            let all = Field::ALL.into_iter();
            let mut fields: Vec<Field> = all.filter(|_| random.random_bool(0.5)).collect();
            if rarely(random, 4) || fields.is_empty() {
                fields = Field::ALL.to_vec();
            }
            // Series that have no row count too, so there has to be none.
            let is_whole = fields.len() == 4 && select.time.is_none() && select.least.is_none();
            if is_whole && select.from.len() == 1 && random.random_bool(0.6) {
                select.series = Some((random.random_range(1..4), random.random_range(0..3)));
            }
            select.what = What::Rows(fields);
            return select;
        }
        let field = one_of(random, &[Field::I, Field::F]);
        let calls = self.calls();
        let seconds = one_of(&mut self.random, &[20, 30, 60, 300]);
        let mut fills = vec![Fill::None, Fill::Null, Fill::Number(7)];
        // What is filled with what was before it depends on the direction.
        fills.extend((!select.descends).then_some(Fill::Previous));
        let fill = one_of(&mut self.random, &fills);
        select.every = is_bucketed.then_some((seconds, fill));
        select.what = What::Calls(calls, field);
        select
    }

    fn calls(&mut self) -> Vec<Call> {
        let selectors = [Call::Min, Call::Max, Call::First, Call::Last];
        if self.random.random_bool(0.5) {
            return vec![one_of(&mut self.random, &selectors)];
        }
        let others = [Call::Count, Call::Sum, Call::Mean, Call::Spread];
        let mut calls = others.to_vec();
        calls.retain(|_| self.random.random_bool(0.5));
        if calls.is_empty() {
            calls.push(Call::Count);
        }
        calls
    }

    fn into(&mut self) -> Deed {
        let mut select = self.select();
        select.from = vec![self.written()];
        (select.by_host, select.by_region, select.descends) = (true, true, false);
        (select.limit, select.series) = (None, None);
        match &mut select.what {
            What::Rows(fields) => *fields = Field::ALL.to_vec(),
            What::Calls(calls, _) => {
                let same_type = [
                    Call::Sum,
                    Call::Spread,
                    Call::Min,
                    Call::Max,
                    Call::First,
                    Call::Last,
                ];
                *calls = vec![one_of(&mut self.random, &same_type)];
                let seconds = one_of(&mut self.random, &[20, 60]);
                select.every = Some((seconds, Fill::None));
                if select.time.is_none() {
                    select.time = Some(self.range(select.policy));
                }
            }
        }
        Deed::Into(
            select,
            one_of(
                &mut self.random,
                &[None, Some(Policy::Autogen), Some(Policy::Long)],
            ),
        )
    }

    fn show(&mut self) -> Show {
        let of = self.random.random_range(0..MEASUREMENTS.len());
        let shows = [
            Show::Measurements,
            Show::Series(of),
            Show::Hosts(of),
            Show::Regions(of),
            Show::TagKeys(of),
            Show::FieldKeys(of),
            Show::Policies,
        ];
        one_of(&mut self.random, &shows)
    }
}
