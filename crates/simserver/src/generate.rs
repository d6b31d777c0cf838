//! From a seed to a plan.
//!
//! Does: draw requests that meet each other, the limits, the disk's faults and the end of the process. Does not: look at
//! the server; a plan is fixed before it runs.

use nilometer_engine::disk::CrashPlan;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::client::{ALL, Ending};
use crate::device;
use crate::influxql;
use crate::model::{OpId, Tables};
use crate::plan::{
    BODY_READ_MS_MAX, Change, Encoding, End, Format, Limits, Plan, QUERY_MS_MAX, Question,
    RESERVE_BYTES, Route, Step, Tongue, WRITE_MS_MAX, Write,
};

/// Until no row is too old yet, until some are, by one day and by two, and until all are, however wide their partitions.
const AGES_MS: [u64; 5] = [
    6_000_000,
    6_460_000,
    6_700_000,
    93_000_000,
    400 * 86_400_000,
];

pub(crate) type Random = Xoshiro256PlusPlus;

/// One in so many.
pub(crate) fn rarely(random: &mut Random, many: u32) -> bool {
    random.random_range(0..many) == 0
}

pub(crate) fn one_of<T: Copy>(random: &mut Random, values: &[T]) -> T {
    let nth = random.random_range(0..values.len());
    *values.get(nth).expect("the number is below their count")
}

/// The plan of a seed.
pub fn random_plan(seed: u64) -> Plan {
    let mut random = Random::seed_from_u64(seed);
    let limits = limits(&mut random);
    let count = random.random_range(8..28);
    let mut drawing = Drawing {
        random,
        steps: Vec::new(),
        next_op: 1,
        writes: Vec::new(),
        version: 0,
    };
    for _ in 0..count {
        drawing.step();
    }
    translate(seed, &mut drawing.steps);
    device::translate(seed, &mut drawing.steps);
    Plan {
        seed,
        limits,
        steps: drawing.steps.into_iter().enumerate().collect(),
    }
}

/// Says half of what can be said in InfluxQL in it. Dice of its own, so that the rest of a plan stays what its seed made it.
fn translate(seed: u64, steps: &mut [Step]) {
    let mut random = Random::seed_from_u64(!seed);
    for step in steps {
        match step {
            Step::Ask(question, format, _)
                if influxql::can_ask(*question) && random.random_bool(0.5) =>
            {
                let forms = [Format::InfluxJson, Format::InfluxChunks, Format::InfluxCsv];
                *format = one_of(&mut random, &forms);
            }
            Step::Change(change, tongue)
                if influxql::change(*change).is_some() && random.random_bool(0.5) =>
            {
                *tongue = Tongue::InfluxQl;
            }
            _ => {}
        }
    }
}

pub(crate) fn limits(random: &mut Random) -> Limits {
    let body_bytes_max = one_of(random, &[4 << 10, 64 << 10, 1 << 20]);
    Limits {
        queries_max: one_of(random, &[1, 1, 2, 3]),
        queries_waiting_max: one_of(random, &[0, 1, 2, 8]),
        writes_max: one_of(random, &[1, 1, 2, 4]),
        body_bytes_max,
        bodies_bytes_max: one_of(random, &[64 << 10, 128 << 10, 256 << 10, 1 << 30]),
        answer_rows_max: one_of(random, &[30, 1 << 20, 1 << 20, 1 << 20]),
        answer_pretty_rows_max: one_of(random, &[10, 10_000]),
        answer_chunk_bytes: one_of(random, &[64, 64, 500, 256 << 10]),
        query_memory_bytes_max: one_of(random, &[16 << 10, 512 << 20, 512 << 20]),
        flush_rows: one_of(random, &[20, 60, 1 << 19]),
        log_bytes_max: one_of(random, &[1 << 20, 256 << 20]),
        fan_in: one_of(random, &[2, 3, 4]),
    }
}

struct Drawing {
    random: Random,
    steps: Vec<Step>,
    next_op: OpId,
    writes: Vec<OpId>,
    version: u32,
}

impl Drawing {
    fn step(&mut self) {
        if rarely(&mut self.random, 12) {
            return self.burst();
        }
        if rarely(&mut self.random, 12) {
            return self.lost_answer();
        }
        if rarely(&mut self.random, 12) {
            return self.slow_reader();
        }
        if rarely(&mut self.random, 14) {
            return self.ageing();
        }
        if rarely(&mut self.random, 14) {
            return self.defining();
        }
        let which = self.random.random_range(0..8);
        let step = match self.random.random_range(0..100) {
            0..34 => self.write(),
            34..40 => match self.some_op() {
                Some(op) => Step::Again(op),
                None => self.write(),
            },
            40..48 => self.change(),
            48..62 => self.ask(),
            62..64 => Step::KillStatement,
            64..68 => Step::Release(which, self.random.random_range(1..4)),
            68..73 => Step::Take(which, self.random.random_range(1..4)),
            73..80 => Step::Cancel(which),
            80..81 => Step::Patience,
            81..84 => Step::Advance(one_of(
                &mut self.random,
                &[1, 1_000, WRITE_MS_MAX, BODY_READ_MS_MAX, QUERY_MS_MAX],
            )),
            84..87 => Step::Maintain(self.random.random_range(1..5)),
            87..89 => Step::Flush,
            89..90 => Step::Room(one_of(
                &mut self.random,
                &[None, Some(0), Some(200 << 10), Some(300 << 10)],
            )),
            90..93 => self.faults(40),
            93..97 => Step::Settle,
            _ => Step::Restart(self.end()),
        };
        self.steps.push(step);
        if !rarely(&mut self.random, 3) {
            let polls = one_of(&mut self.random, &[1, 2, 3, 5, 8, 13, 100]);
            let dice = self.random.random();
            self.steps.push(Step::Run(polls, dice));
        }
    }

    fn run(&mut self, polls: u32) {
        let dice = self.random.random();
        self.steps.push(Step::Run(polls, dice));
    }

    /// Somebody asks, reads slowly if at all, and is overtaken: by time, by somebody who ends the statement, by writers.
    fn slow_reader(&mut self) {
        let step = self.ask();
        self.steps.push(step);
        let polls = self.random.random_range(1..16);
        self.run(polls);
        match self.random.random_range(0..4) {
            0 => self.steps.push(Step::Advance(QUERY_MS_MAX)),
            1 => {
                self.steps.push(Step::KillStatement);
                self.run(40);
            }
            _ => {
                let step = self.write();
                self.steps.push(step);
            }
        }
        self.run(polls);
        let which = self.random.random_range(0..8);
        self.steps.push(Step::Take(which, ALL));
        self.run(polls);
    }

    /// Rows that are kept for a while, and time that passes or seems to.
    fn ageing(&mut self) {
        let mut step = self.write();
        if let Step::Write(write) = &mut step {
            write.tables = match write.route {
                Route::Arrow(_) | Route::Insert => Tables {
                    brief: true,
                    ..Tables::default()
                },
                _ => Tables {
                    brief: true,
                    aside: false,
                    ..write.tables
                },
            };
            (write.ending, write.padding) = (Ending::Whole, 0);
        }
        self.steps.push(step);
        self.run(40);
        for _ in 0..self.random.random_range(1..4) {
            let step = match self.random.random_range(0..9) {
                0 => Step::Jump,
                1..3 => Step::Accept,
                3 => {
                    let days = one_of(&mut self.random, &[0, 1, 1, 2]);
                    Step::Change(Change::Retain(days), Tongue::Sql)
                }
                4 => Step::Maintain(self.random.random_range(1..5)),
                5 => self.ask(),
                _ => Step::Age(one_of(&mut self.random, &AGES_MS)),
            };
            self.steps.push(step);
            let polls = self.random.random_range(1..16);
            self.run(polls);
        }
        let ms = one_of(&mut self.random, &AGES_MS);
        self.steps.push(Step::Age(ms));
    }

    /// Names are made and dropped, by several at once, and asked for.
    fn defining(&mut self) {
        for _ in 0..self.random.random_range(2..5) {
            let step = match self.random.random_range(0..6) {
                0..4 => Step::Change(self.definition(), Tongue::Sql),
                4 => {
                    let format = self.format();
                    Step::Ask(Question::Defined, format, ALL)
                }
                _ => self.write(),
            };
            self.steps.push(step);
            let polls = one_of(&mut self.random, &[0, 1, 4, 30]);
            self.run(polls);
        }
    }

    fn definition(&mut self) -> Change {
        let random = &mut self.random;
        let nth = random.random_range(0..2);
        match random.random_range(0..10) {
            0..2 => Change::Add(nth),
            2..4 => Change::Remove(nth),
            4..6 => Change::Make(nth),
            6..8 => Change::Unmake(nth),
            8 => Change::MakeAside,
            _ => Change::DropAside,
        }
    }

    fn format(&mut self) -> Format {
        one_of(
            &mut self.random,
            &[
                Format::Csv,
                Format::JsonLines,
                Format::Json,
                Format::Arrow,
                Format::Parquet,
                Format::Pretty,
            ],
        )
    }

    /// More requests at once than there are turns, some of them too long.
    fn burst(&mut self) {
        for _ in 0..self.random.random_range(2..6) {
            let step = match self.random.random_range(0..4) {
                0 => self.ask(),
                _ => self.write(),
            };
            self.steps.push(step);
        }
        let polls = self.random.random_range(1..16);
        self.run(polls);
        match self.random.random_range(0..6) {
            0..3 => self.steps.push(Step::Advance(WRITE_MS_MAX)),
            3 => self.steps.push(Step::Advance(QUERY_MS_MAX)),
            4 => self.steps.push(Step::KillStatement),
            _ => return,
        }
        self.run(polls);
    }

    /// A write whose client hears nothing, because the machine dies, the disk is full, or the client itself went; and
    /// the same write once more.
    fn lost_answer(&mut self) {
        match self.random.random_range(0..3) {
            0 => {
                let faults = self.faults(10);
                self.steps.push(faults);
            }
            1 => self.steps.push(Step::Room(Some(RESERVE_BYTES))),
            _ => {}
        }
        let op = self.next_op;
        let mut step = self.write();
        if let Step::Write(write) = &mut step {
            write.keyed = write.route != Route::Insert;
            (write.pieces, write.ending, write.padding) = (1, Ending::Whole, 0);
        }
        self.steps.push(step);
        let polls = one_of(&mut self.random, &[2, 4, 8, 30]);
        self.run(polls);
        if self.random.random_bool(0.5) {
            self.steps
                .push(Step::Cancel(self.random.random_range(0..8)));
        }
        match self.random.random_range(0..3) {
            0 => self.steps.push(Step::Settle),
            1 => self.steps.push(Step::Room(None)),
            _ => {}
        }
        self.steps.push(Step::Again(op));
        self.run(polls);
    }

    fn some_op(&mut self) -> Option<OpId> {
        let nth = self.random.random_range(0..self.writes.len().max(1));
        self.writes.iter().rev().nth(nth / 2).copied()
    }

    fn end(&mut self) -> End {
        match self.random.random_range(0..3) {
            0 => End::Stop,
            1 => End::Kill,
            _ => End::PowerCut(self.random.random()),
        }
    }

    /// Something goes wrong within so many calls.
    fn faults(&mut self, calls: u64) -> Step {
        let at = self.random.random_range(1..calls);
        let mut faults = CrashPlan::default();
        match self.random.random_range(0..5) {
            0 => faults.fail_sync_at = (at..at + 3).collect(),
            1 => faults.fail_write_at = (at..at + 2).collect(),
            _ => faults.crash_at = Some(at),
        }
        if rarely(&mut self.random, 4) {
            faults.short_write_every = 2;
        }
        let end = match self.end() {
            End::Stop => End::Kill,
            end => end,
        };
        Step::Faults(faults, end)
    }

    fn write(&mut self) -> Step {
        let random = &mut self.random;
        let route = match random.random_range(0..10) {
            0..2 => Route::V1,
            2..4 => Route::V2,
            4..7 => Route::V3,
            7..9 => Route::Arrow(random.random_range(1..4)),
            _ => Route::Insert,
        };
        let is_text = matches!(route, Route::V1 | Route::V2 | Route::V3);
        let both = is_text && !rarely(random, 4);
        let first = random.random_bool(0.5);
        let tables = if rarely(random, 7) {
            Tables {
                aside: true,
                ..Tables::default()
            }
        } else {
            Tables {
                last: both || first,
                keep: both || !first,
                brief: is_text && rarely(random, 4),
                aside: false,
            }
        };
        let write = Write {
            op: self.next_op,
            route,
            tables,
            rows: random.random_range(1..10),
            bad_lines: if is_text && rarely(random, 6) { 2 } else { 0 },
            keyed: route != Route::Insert && random.random_bool(0.5),
            encoding: if is_text {
                one_of(
                    random,
                    &[
                        Encoding::Identity,
                        Encoding::Identity,
                        Encoding::Gzip,
                        Encoding::Zstd,
                    ],
                )
            } else {
                Encoding::Identity
            },
            padding: if is_text && rarely(random, 5) {
                one_of(random, &[5 << 10, 70 << 10, 200 << 10])
            } else {
                0
            },
            pieces: one_of(random, &[1, 1, 2, 5]),
            ending: match random.random_range(0..10) {
                0 => Ending::Breaks,
                1 => Ending::Silence,
                _ => Ending::Whole,
            },
        };
        self.writes.push(self.next_op);
        self.next_op += match route {
            Route::Arrow(batches) => batches,
            _ => 1,
        };
        Step::Write(write)
    }

    fn change(&mut self) -> Step {
        if rarely(&mut self.random, 4) {
            return Step::Change(self.definition(), Tongue::Sql);
        }
        let Some(op) = self.some_op() else {
            return self.write();
        };
        let change = match self.random.random_range(0..10) {
            0..4 => {
                self.version += 1;
                Change::Update(op, self.version)
            }
            4..7 => Change::DeleteLast(op),
            7..9 => Change::DeleteKept(op),
            _ => Change::Drop,
        };
        Step::Change(change, Tongue::Sql)
    }

    fn ask(&mut self) -> Step {
        let random = &mut self.random;
        let question = one_of(
            random,
            &[
                Question::All,
                Question::All,
                Question::All,
                Question::All,
                Question::Aside,
                Question::Defined,
                Question::Sorted,
                Question::Long,
            ],
        );
        let chunks = one_of(random, &[0, 1, 3, ALL]);
        let format = self.format();
        Step::Ask(question, format, chunks)
    }
}
