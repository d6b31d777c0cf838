//! From a seed to a plan.
//!
//! Does: draw steps, points and faults so that duplicates, recycled log files, flushes, and crashes in all of them
//! are common. Does not: look at the store; a plan is fixed before it runs.

use nilometer_codec::PhysicalType;
use nilometer_engine::disk::CrashPlan;
use nilometer_engine::{ColumnKind, Duplicates};
use nilometer_lineproto::FIELD_TEXT_BYTES_MAX;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::plan::{
    Act, Change, Column, Delete, Limits, Line, MEMORY_BYTES, PlaceChange, Plan, Probe,
    RESERVE_BYTES, Relate, Restart, Step, Tags, Value,
};

mod places;
mod points;
mod relations;
mod shifts;
mod tags;
mod tiers;
mod typed;
mod visits;

use points::{FIELDS, long_text};
use shifts::Shifts;

type Random = Xoshiro256PlusPlus;

/// Databases of every plan.
pub const DATABASES: [&str; 2] = ["d0", "d1"];
const TABLES: [&str; 4] = ["cpu", "mem", "disk_io", "events"];
const TYPES: [PhysicalType; 5] = [
    PhysicalType::F64,
    PhysicalType::I64,
    PhysicalType::U64,
    PhysicalType::Bool,
    PhysicalType::Text,
];
/// Less than this no store has.
const LITTLE_MEMORY_BYTES: u64 = 8 << 20;
const STEP_NS: i64 = 10_000_000_000;
const HOUR_NS: i64 = 3_600_000_000_000;
const DAY_NS: i64 = 24 * HOUR_NS;

/// Whether a plan has faults of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weather {
    Calm,
    Stormy,
}

/// A plan of many lives with faults of every kind.
pub fn random_plan(seed: u64) -> Plan {
    plan(seed, Weather::Stormy, 15..50)
}

/// A plan without faults and reads, short enough to be run once for every call that it makes.
pub fn calm_plan(seed: u64) -> Plan {
    let mut plan = plan(seed, Weather::Calm, 10..22);
    plan.steps.retain(|step| {
        !matches!(
            step.act,
            Act::Compare(_) | Act::Hold | Act::ReadOn(_) | Act::LetGo
        )
    });
    plan
}

fn plan(seed: u64, weather: Weather, steps: std::ops::Range<usize>) -> Plan {
    let mut random = Random::seed_from_u64(seed);
    let is_little = weather == Weather::Stormy && random.random_bool(0.04);
    let mut shifts = Shifts::new(seed, weather);
    let mut limits = Limits {
        flush_rows: *pick(&mut random, &[10, 20, 50, 100, 300]),
        flush_idle_rows_min: random.random_range(1..=100),
        log_bytes_max: random.random_range(32..=64) << 10,
        batch_rows_max: if random.random_bool(0.2) {
            250
        } else {
            1 << 20
        },
        fan_in: random.random_range(2..=3),
        partition_rows_min: *pick(&mut random, &[5, 40, 300]),
        widen_rows_max: *pick(&mut random, &[0, 50, 500]),
        settle_ms: *pick(&mut random, &[0, 1, 1_000]),
        memory_bytes: if is_little {
            LITTLE_MEMORY_BYTES
        } else {
            MEMORY_BYTES
        },
        forgetful: random.random_bool(0.3),
        earlier_formats: tiers::earlier_formats(seed),
    };
    shifts.fit(&mut limits);
    let mut draw = Draw {
        hosts: if random.random_bool(0.15) { 60 } else { 5 },
        rows_typical: *pick(&mut random, &[4, 12, 30, 60]),
        ballast_bytes: *pick(&mut random, &[0, 0, 1_000, 3_000]),
        giants: u32::from(
            weather == Weather::Stormy && random.random_bool(if is_little { 0.2 } else { 0.005 }),
        ),
        is_little,
        relations: is_little || random.random_bool(0.35),
        soon: None,
        days: *pick(&mut random, &[1, 2, 5, 12]),
        day: 0,
        next_key: 0,
        backed_up: false,
        retention: random.random_bool(0.15),
        tight: false,
        kinds: &[Duplicates::Last, Duplicates::Keep, Duplicates::Unique],
        sent: Vec::new(),
        shifts,
        random,
        weather,
        steps: Vec::new(),
    };
    draw.push(Act::Restart(Restart::Kill));
    draw.push(create(DATABASES[0]));
    if draw.relations {
        for made in draw.first_relations() {
            draw.push(made);
        }
    }
    if draw.retention {
        let days = draw.random.random_range(0..12);
        draw.push(Act::Advance {
            ms: 0,
            jump_ns: days * DAY_NS,
        });
    }
    // In some plans most rows meet others that are in their way.
    if draw.random.random_bool(0.15) {
        draw.kinds = &[Duplicates::Unique];
    }
    for table in TABLES {
        if draw
            .random
            .random_bool(if draw.is_unique() { 0.9 } else { 0.3 })
        {
            let create = draw.create_table(table);
            draw.push(create);
        }
    }
    let count = draw.random.random_range(steps) + draw.shifts.more_steps();
    while draw.steps.len() < count {
        let act = draw.act();
        draw.push(act);
    }
    tiers::add(seed, &mut draw.steps);
    Plan {
        seed,
        limits,
        steps: draw.steps,
    }
}

/// What every run ends with, whatever came before: two more crashes, and a write between them that must hold.
pub fn closing_steps(seed: u64) -> Vec<Step> {
    let mut random = Random::seed_from_u64(seed ^ 0xC105_E000);
    let mut cut = || Step::new(Act::Restart(Restart::PowerCut(random.random())));
    let line = |at: i64| Line::Point {
        table: TABLES[0].to_owned(),
        tags: Tags::from([("host".to_owned(), "h0".to_owned())]),
        fields: vec![("closing".to_owned(), Value::Integer(at))],
        time: Some(at * STEP_NS),
    };
    vec![
        Step::new(Act::Room(None)),
        cut(),
        Step::new(create(DATABASES[0])),
        Step::new(Act::Write {
            database: DATABASES[0].to_owned(),
            lines: (0..5).map(line).collect(),
            key: None,
        }),
        cut(),
    ]
}

fn create(place: &str) -> Act {
    Act::Place(PlaceChange::Create(place.to_owned()))
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a trait that some plans have, whatever else they have"
)]
struct Draw {
    random: Random,
    /// The store has as little memory as it may.
    is_little: bool,
    /// There are relations.
    relations: bool,
    /// Comes next, sometimes.
    soon: Option<Act>,
    weather: Weather,
    hosts: u32,
    rows_typical: usize,
    /// A text of this length goes with each batch, so that log files fill up and are recycled soon.
    ballast_bytes: usize,
    /// Batches to come that one record of the log cannot hold. Rare, because it is slow.
    giants: u32,
    /// Rows lie in so many days, a batch mostly in one of them.
    days: i64,
    day: i64,
    next_key: u8,
    backed_up: bool,
    /// Some tables keep their rows for a while only.
    retention: bool,
    tight: bool,
    /// What new tables make of duplicates.
    kinds: &'static [Duplicates],
    /// Writes with a key, to be sent again.
    sent: Vec<Act>,
    /// What is about partitions that change.
    shifts: Shifts,
    steps: Vec<Step>,
}

fn pick<'a, T>(random: &mut Random, from: &'a [T]) -> &'a T {
    let at = random.random_range(0..from.len());
    from.get(at).expect("the range ends before the length")
}

impl Draw {
    /// Adds a step with faults now and then, and what a crash needs after it.
    fn push(&mut self, act: Act) {
        let faults = self.faults(&act);
        let crashes = faults.crash_at.is_some();
        self.backed_up |= act == Act::Backup;
        let sent = match &act {
            Act::Write { key: Some(_), .. }
            | Act::WriteTyped { key: Some(_), .. }
            | Act::Relate(Relate { key: Some(_), .. }) => Some(act.clone()),
            _ => None,
        };
        let retries = matches!(act, Act::Flush | Act::Maintain)
            && !(faults.fail_sync_at.is_empty() && faults.fail_write_at.is_empty());
        let visit = self.visit(&act);
        let files_a_relation = visit
            .as_ref()
            .is_some_and(|visit| matches!(visit.act, Act::Relate(_)) && !act.writes_itself());
        self.steps.push(Step { act, faults, visit });
        if files_a_relation && !crashes && self.random.random_bool(0.6) {
            // What came while a file was written must be in the next one, or still in the log.
            let between = self.write();
            self.steps.push(Step::new(between));
            self.steps.push(Step::new(Act::Flush));
            let restart = self.restart_after_crash();
            self.push(Act::Restart(restart));
        }
        if retries && !crashes && self.random.random_bool(0.4) {
            // What a failed flush leaves is most delicate while the next one replaces it.
            let mut again = Step::new(Act::Flush);
            again.faults.crash_at = Some(self.random.random_range(1..=10));
            self.steps.push(again);
            let restart = self.restart_after_crash();
            self.push(Act::Restart(restart));
        }
        if crashes {
            let restart = self.restart_after_crash();
            self.push(Act::Restart(restart));
        }
        if let Some(sent) = sent {
            // A writer that has heard no answer sends again.
            if crashes && self.random.random_bool(0.8) {
                self.push(sent.clone());
            }
            self.sent.push(sent);
        }
    }

    fn faults(&mut self, act: &Act) -> CrashPlan {
        let mut faults = CrashPlan::default();
        // Longest run of calls that such a step usually makes.
        let (calls, chance) = match act {
            // A write and a sync, unless the log starts a file.
            Act::Write { .. } if self.random.random_bool(0.6) => (2, 0.12),
            Act::Write { .. } => (8, 0.12),
            Act::Place(_) | Act::CreateRelation { .. } | Act::DropRelation { .. } => (6, 0.15),
            Act::WriteTyped { .. } | Act::Relate(_) => (4, 0.12),
            Act::Delete { .. } | Act::Update { .. } => (3, 0.2),
            Act::Change { .. } | Act::Scrub(_) => (4, 0.2),
            Act::Flush => (14, 0.4),
            Act::Maintain => (14, 0.3),
            Act::MaintainAll | Act::Settle | Act::SettleFor(_) => (40, 0.4),
            Act::Restart(_) => (14, 0.25),
            Act::Backup => (30, 0.4),
            Act::Restore => (20, 0.2),
            Act::Damage(_) => (20, 0.3),
            Act::Advance { .. }
            | Act::Compare(_)
            | Act::Hold
            | Act::ReadOn(_)
            | Act::LetGo
            | Act::AcceptClock
            | Act::Cancel
            | Act::Room(_) => return faults,
        };
        if self.weather == Weather::Calm || !self.random.random_bool(chance) {
            return faults;
        }
        if self.random.random_bool(0.15) {
            faults.short_write_every = self.random.random_range(1..=3);
        }
        match self.random.random_range(0..10) {
            0..4 => faults.crash_at = Some(self.random.random_range(1..=calls)),
            4..7 => faults.fail_sync_at = self.some_calls(calls),
            7..9 => faults.fail_write_at = self.some_calls(calls),
            _ => {
                // A disk that answers wrongly and then is gone.
                let at = self.random.random_range(1..=calls);
                faults.fail_sync_at = vec![at];
                faults.crash_at = Some(at + self.random.random_range(1..=3));
            }
        }
        faults
    }

    fn some_calls(&mut self, calls: u64) -> Vec<u64> {
        let first = self.random.random_range(1..=calls);
        let count = if self.random.random_bool(0.3) { 4 } else { 1 };
        (first..first + count).collect()
    }

    fn restart_after_crash(&mut self) -> Restart {
        if self.random.random_bool(0.6) {
            Restart::PowerCut(self.random.random())
        } else {
            Restart::Kill
        }
    }

    fn act(&mut self) -> Act {
        if let Some(shift) = self.shift() {
            return shift;
        }
        if self.retention && self.random.random_bool(0.15) {
            return self.retain();
        }
        if self.backed_up && self.random.random_bool(0.05) {
            return Act::Restore;
        }
        if self.random.random_bool(0.5)
            && let Some(soon) = self.soon.take()
        {
            return soon;
        }
        if self.relations && self.random.random_bool(0.25) {
            return self.relation_act();
        }
        match self.random.random_range(0..1000) {
            0..20 => return self.place_change(),
            20..35 => return Act::ReadOn(self.random.random_range(1..4)),
            35..40 => return Act::LetGo,
            42..50 if self.weather == Weather::Stormy => {
                return Act::Damage(self.random.random());
            }
            _ => {}
        }
        match self.random.random_range(0..100) {
            0..37 => self.write(),
            37..43 => self.write_typed(),
            43..47 => self.update(),
            47..53 => Act::Flush,
            53..60 => Act::Maintain,
            60..67 => Act::MaintainAll,
            67..70 => Act::Settle,
            70 if self.random.random_bool(0.5) => self.room(),
            71 => Act::Backup,
            70..73 => Act::Advance {
                ms: self.random.random_range(0..5_000),
                jump_ns: if self.random.random_bool(0.2) {
                    self.random.random_range(-DAY_NS..DAY_NS)
                } else {
                    0
                },
            },
            73..77 => Act::Compare(self.probe()),
            77 => Act::Scrub(*pick(&mut self.random, &[1, 300, 5_000, 1 << 20])),
            78..80 => {
                self.soon = Some(match self.random.random_range(0..10) {
                    0..5 => Act::Settle,
                    5..8 => Act::MaintainAll,
                    _ => self.change(),
                });
                Act::Hold
            }
            80 => {
                let database = *pick(&mut self.random, &DATABASES);
                create(database)
            }
            81..86 => self.delete(),
            86..91 => self.change(),
            91..93 => Act::Restart(Restart::Clean),
            93 => Act::Restart(Restart::Stop),
            _ => Act::Restart(self.restart_after_crash()),
        }
    }

    /// Settings of retention, and time that passes or seems to.
    fn retain(&mut self) -> Act {
        if self.random.random_bool(0.1) {
            return Act::AcceptClock;
        }
        if self.random.random_bool(0.5) {
            let days = *pick(&mut self.random, &[0, 0, 1, 3, 40]);
            return Act::Advance {
                ms: self.random.random_range(0..30_000),
                jump_ns: days * DAY_NS / 2,
            };
        }
        let keeps = [None, Some(HOUR_NS), Some(DAY_NS), Some(3 * DAY_NS)];
        let change = Change::SetRetention {
            table: (*pick(&mut self.random, &TABLES)).to_owned(),
            retention_ns: *pick(&mut self.random, &keeps),
        };
        let database = self.database();
        Act::Change { database, change }
    }

    fn room(&mut self) -> Act {
        if self.weather == Weather::Calm {
            return Act::Flush;
        }
        self.tight = !self.tight;
        // From nothing at all to somewhat more than writes leave free.
        Act::Room(
            self.tight
                .then(|| self.random.random_range(0..RESERVE_BYTES * 2)),
        )
    }

    fn database(&mut self) -> String {
        let place = match self.random.random_range(0..100) {
            0..86 => DATABASES[0],
            86..92 => DATABASES[1],
            _ => "d0/s1",
        };
        place.to_owned()
    }

    fn write(&mut self) -> Act {
        if !self.sent.is_empty() && self.random.random_bool(0.08) {
            return pick(&mut self.random, &self.sent).clone();
        }
        self.day = self.random.random_range(0..self.days);
        let mut lines = match self.random.random_range(0..1000) {
            0..60 => self.one_series(),
            60..160 => vec![self.line(TABLES[0])],
            160..163 => self.long_texts(),
            _ => {
                let rows = self.random.random_range(1..=self.rows_typical * 2);
                let tables = self.random.random_range(1..=3);
                (0..rows).map(|_| self.line_of(tables)).collect()
            }
        };
        if self.giants > 0 && self.random.random_bool(0.1) {
            self.giants -= 1;
            lines = (0..6)
                .map(|at| long_text(at, self.text(FIELD_TEXT_BYTES_MAX)))
                .collect();
        }
        if self.ballast_bytes > 0 {
            let text = self.text(self.ballast_bytes);
            lines.push(long_text(0, text));
        }
        let key = self.random.random_bool(0.15).then_some(self.next_key);
        self.next_key = self.next_key.wrapping_add(u8::from(key.is_some()));
        Act::Write {
            database: self.database(),
            lines,
            key,
        }
    }

    fn line_of_any_table(&mut self) -> Line {
        self.line_of(TABLES.len())
    }

    /// A line of one of the first tables.
    fn line_of(&mut self, tables: usize) -> Line {
        let table = self.random.random_range(0..tables);
        self.line(TABLES.get(table).copied().unwrap_or(TABLES[0]))
    }

    fn probe(&mut self) -> Probe {
        let from = self.random.random_range(-5..55) * STEP_NS + self.day * DAY_NS;
        let to = if self.random.random_bool(0.2) {
            i64::MAX
        } else {
            from + self.random.random_range(0..40) * STEP_NS
        };
        Probe {
            table: (*pick(&mut self.random, &TABLES)).to_owned(),
            time: (from, to),
            tags: self.tag_filters(),
            field: pick(&mut self.random, &FIELDS).0.to_owned(),
            bucket_ns: *pick(
                &mut self.random,
                &[None, Some(HOUR_NS), Some(DAY_NS), Some(7 * STEP_NS)],
            ),
        }
    }

    fn delete(&mut self) -> Act {
        let day = self.random.random_range(0..self.days) * DAY_NS;
        let time = match self.random.random_range(0..4) {
            0 => (i64::MIN, i64::MAX),
            1 => (day, day + DAY_NS - 1),
            _ => {
                let from = day + self.random.random_range(0..60) * STEP_NS;
                (from, from + self.random.random_range(0..30) * STEP_NS)
            }
        };
        let delete = Delete {
            table: (*pick(&mut self.random, &TABLES)).to_owned(),
            time,
            tag: self.random.random_bool(0.7).then(|| self.tag_filter()),
        };
        Act::Delete {
            database: self.database(),
            delete,
        }
    }

    fn create_table(&mut self, table: &str) -> Act {
        let columns = match self.random.random_range(0..3) {
            0 => vec![("host".to_owned(), ColumnKind::Tag)],
            1 => vec![("up".to_owned(), ColumnKind::Field(PhysicalType::Bool))],
            _ => Vec::new(),
        };
        let change = Change::CreateTable {
            table: table.to_owned(),
            duplicates: *pick(&mut self.random, self.kinds),
            interval_ns: *pick(&mut self.random, &[DAY_NS / 24, DAY_NS, 4 * DAY_NS]),
            columns,
        };
        let database = self.database();
        Act::Change { database, change }
    }

    fn change(&mut self) -> Act {
        let table = (*pick(&mut self.random, &TABLES)).to_owned();
        let change = match self.random.random_range(0..10) {
            0 | 1 => return self.create_table(&table),
            2 | 3 => Change::DropTable { table },
            4 => Change::RenameTable {
                table,
                to: (*pick(&mut self.random, &TABLES)).to_owned(),
            },
            5 => Change::DropColumn {
                table,
                column: self.column(),
            },
            6 | 7 => Change::RenameColumn {
                table,
                column: self.column(),
                to: if self.random.random_bool(0.5) {
                    "other".to_owned()
                } else {
                    self.column().name
                },
            },
            _ => Change::ChangeType {
                table,
                field: pick(&mut self.random, &FIELDS).0.to_owned(),
                to: *pick(&mut self.random, &TYPES),
            },
        };
        Act::Change {
            database: self.database(),
            change,
        }
    }

    fn column(&mut self) -> Column {
        let is_tag = self.random.random_bool(0.4);
        let name = if is_tag {
            *pick(&mut self.random, &["host", "dc"])
        } else {
            pick(&mut self.random, &FIELDS).0
        };
        Column {
            is_tag,
            name: name.to_owned(),
        }
    }
}
