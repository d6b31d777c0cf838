//! The suite's iot workload: what trucks say about their way (`readings`) and their state (`diagnostics`), with entries
//! that are missing, late, or without one of their values, and batches that are missing or late.
//!
//! Does: bring the trucks' points in the order in which they arrive, and write them. Does not: drive the trucks
//! (`trucks`), or decide what is missing, late or incomplete (`disorder`).
//!
//! As in the suite, load capacity, fuel capacity and nominal consumption are properties of a truck, but numbers, so in
//! line protocol they are fields of every row; any tag, property or field may be absent from a row. A row without its
//! truck's name can have tags and time of another such row: it replaces that one, and is counted, because a database then
//! shows fewer rows than were sent.

mod disorder;
mod trucks;

use std::collections::{HashSet, VecDeque};
use std::io::Write;

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

pub(super) use trucks::READINGS_METRICS;

use super::{Result, Spec};
use disorder::{BATCH, Disorder, Order, Place};
use trucks::{
    DIAGNOSTICS_FIELDS, FIELDS_MAX, READINGS_FIELDS, TAGS, TAGS_AND_PROPERTIES, Truck, Trucks,
};

pub(crate) use trucks::{FLEETS, truck_name};

/// The tables, in the order in which a truck reports them.
pub(super) const TABLES: [&str; 2] = ["readings", "diagnostics"];

/// Values of both tables of one truck at one time: fields, and three properties in each.
pub(super) const VALUES_AT_ONCE: u64 =
    (READINGS_FIELDS.len() + DIAGNOSTICS_FIELDS.len() + 2 * (TAGS_AND_PROPERTIES - TAGS)) as u64;

/// What one truck said at one time.
#[derive(Debug, Clone)]
struct Entry {
    truck: usize,
    /// Place in `TABLES`.
    table: usize,
    time_ns: i64,
    /// The first three of them, in `diagnostics`.
    values: [f64; FIELDS_MAX],
    /// The field that is absent.
    without_field: Option<usize>,
    /// The tag or property that is absent.
    without_tag: Option<usize>,
}

/// The points of an iot data set, from the first to the last.
#[derive(Debug)]
pub(super) struct IotPoints {
    trucks: Trucks,
    time_ns: i64,
    interval_ns: i64,
    epochs_left: u64,
    table: usize,
    next_truck: usize,
    disorder: Disorder,
    /// Entries to write next.
    batch: VecDeque<Entry>,
    late_entries: VecDeque<Entry>,
    late_batches: VecDeque<VecDeque<Entry>>,
    /// Tags and times of rows without a name.
    nameless: HashSet<(usize, i64, [usize; 4])>,
    values: u64,
    replaced: u64,
}

impl IotPoints {
    pub(super) fn new(spec: &Spec) -> Result<Self> {
        let epochs = spec.epochs()?;
        spec.rows()?;
        let mut seeds = Xoshiro256PlusPlus::seed_from_u64(spec.seed);
        let mut stream = || Xoshiro256PlusPlus::seed_from_u64(seeds.next_u64());
        let disorder = Disorder::new(stream());
        let load = stream();
        let trucks = (0..spec.hosts)
            .map(|index| Truck::new(index, stream()))
            .collect();
        Ok(Self {
            trucks: Trucks::new(trucks, load),
            time_ns: spec.start_ns,
            interval_ns: spec.interval_ns,
            epochs_left: epochs,
            table: 0,
            next_truck: 0,
            disorder,
            batch: VecDeque::new(),
            late_entries: VecDeque::new(),
            late_batches: VecDeque::new(),
            nameless: HashSet::new(),
            values: 0,
            replaced: 0,
        })
    }

    /// Appends up to `rows_max` lines; returns how many, 0 at the end.
    pub(super) fn write_batch(&mut self, rows_max: u32, out: &mut Vec<u8>) -> u32 {
        let mut rows = 0;
        while rows < rows_max {
            let Some(entry) = self.next_entry() else {
                break;
            };
            self.write(&entry, out);
            rows += 1;
        }
        rows
    }

    /// Field values written so far.
    pub(super) fn values(&self) -> u64 {
        self.values
    }

    /// Rows written so far whose table, tags and time an earlier row had.
    pub(super) fn replaced(&self) -> u64 {
        self.replaced
    }

    /// The next entry as it arrives, or `None` after the last.
    fn next_entry(&mut self) -> Option<Entry> {
        while self.batch.is_empty() {
            if self.epochs_left == 0 {
                self.batch = self.waiting()?;
                continue;
            }
            match self.disorder.order(!self.late_batches.is_empty()) {
                Order::Missing => {
                    for _ in 0..BATCH {
                        self.simulate();
                    }
                }
                Order::Earlier => self.batch = self.late_batches.pop_front().unwrap_or_default(),
                Order::Late => {
                    let batch = self.assemble();
                    self.late_batches.push_back(batch);
                }
                Order::Now => self.batch = self.assemble(),
            }
        }
        self.batch.pop_front()
    }

    /// What still waits when the trucks have said everything.
    fn waiting(&mut self) -> Option<VecDeque<Entry>> {
        if let Some(batch) = self.late_batches.pop_front() {
            return Some(batch);
        }
        let entries = BATCH.min(self.late_entries.len());
        (entries > 0).then(|| self.late_entries.drain(..entries).collect())
    }

    /// A batch from late entries and new ones.
    fn assemble(&mut self) -> VecDeque<Entry> {
        let places = self.disorder.places(self.late_entries.len());
        let mut batch = VecDeque::with_capacity(BATCH);
        // An entry that goes missing or is late takes its place's instructions with it, but leaves the slot of the batch
        // to the next one; what is absent from a row goes by slots.
        let mut instructions = places.iter();
        for slot in &places {
            loop {
                let place = instructions.next().copied().unwrap_or(Place::ORDINARY);
                let entry = if place.is_from_late {
                    self.late_entries.pop_front()
                } else {
                    self.simulate()
                };
                let Some(mut entry) = entry else {
                    return batch;
                };
                if place.is_missing {
                    continue;
                }
                if place.is_late {
                    self.late_entries.push_back(entry);
                    continue;
                }
                let fields = fields_of(entry.table).len();
                entry.without_field = slot.without_field.map(|field| field % fields);
                entry.without_tag = slot.without_tag;
                batch.push_back(entry);
                break;
            }
        }
        batch
    }

    /// The next entry in the order of time, table and truck.
    fn simulate(&mut self) -> Option<Entry> {
        if self.epochs_left == 0 {
            return None;
        }
        let entry = Entry {
            truck: self.next_truck,
            table: self.table,
            time_ns: self.time_ns,
            values: self.trucks.values(self.next_truck, self.table),
            without_field: None,
            without_tag: None,
        };
        self.next_truck += 1;
        if self.next_truck == self.trucks.len() {
            self.next_truck = 0;
            self.table += 1;
        }
        if self.table == TABLES.len() {
            self.table = 0;
            self.epochs_left -= 1;
            self.trucks.advance();
            // Only the time after the last epoch can overflow, and no row has it.
            self.time_ns = self.time_ns.saturating_add(self.interval_ns);
        }
        Some(entry)
    }

    fn write(&mut self, entry: &Entry, out: &mut Vec<u8>) {
        out.extend_from_slice(TABLES[entry.table].as_bytes());
        self.values += self.trucks.write_truck(entry.truck, entry.without_tag, out);
        let fields = fields_of(entry.table);
        for (i, (name, value)) in fields.iter().zip(entry.values).enumerate() {
            if entry.without_field == Some(i) {
                continue;
            }
            // The properties stand before the fields, and at most one of the three is absent.
            out.push(b',');
            let end = if *name == "status" { "i" } else { "" };
            write!(out, "{name}={value}{end}").expect("writing to memory does not fail");
            self.values += 1;
        }
        writeln!(out, " {}", entry.time_ns).expect("writing to memory does not fail");
        if entry.without_tag == Some(trucks::NAME) {
            let row = (
                entry.table,
                entry.time_ns,
                self.trucks.other_tags(entry.truck),
            );
            self.replaced += u64::from(!self.nameless.insert(row));
        }
    }
}

/// The fields of a table, beside the properties of the truck.
fn fields_of(table: usize) -> &'static [&'static str] {
    if table == 0 {
        &READINGS_FIELDS
    } else {
        &DIAGNOSTICS_FIELDS
    }
}
