//! The trucks of the iot workload: tags, properties, and what their devices measure.
//!
//! Does: move all trucks from one time to the next and say what each measures. Does not: know what arrives, and when.
//!
//! The load is one number for all trucks, as in the suite, where its generator is shared: it is drawn anew each time one
//! of them changes its load, and each of them does so with a chance of 1 in 20.

use std::io::Write;

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::workload::walk::{Walk, cut};

/// Fields of `readings`, beside the properties of the truck.
pub(super) const READINGS_FIELDS: [&str; 7] = [
    "latitude",
    "longitude",
    "elevation",
    "velocity",
    "heading",
    "grade",
    "fuel_consumption",
];
/// Most fields of a table; a field to leave out is drawn among so many.
pub(super) const FIELDS_MAX: usize = READINGS_FIELDS.len();
/// Fields of `diagnostics`, beside the properties of the truck.
pub(super) const DIAGNOSTICS_FIELDS: [&str; 3] = ["fuel_state", "current_load", "status"];

/// All fields of `readings`, in the order of the text.
pub(crate) const READINGS_METRICS: [&str; 10] = [
    "load_capacity",
    "fuel_capacity",
    "nominal_fuel_consumption",
    "latitude",
    "longitude",
    "elevation",
    "velocity",
    "heading",
    "grade",
    "fuel_consumption",
];

/// What a truck is: five tags, then three properties.
pub(super) const TAGS_AND_PROPERTIES: usize = 8;
/// Place of the name among them.
pub(super) const NAME: usize = 0;
/// How many of them are tags.
pub(super) const TAGS: usize = 5;

/// The fleets that a truck may belong to.
pub(crate) const FLEETS: [&str; 4] = ["East", "West", "North", "South"];
const DRIVERS: [&str; 6] = ["Derek", "Rodney", "Albert", "Andy", "Seth", "Trish"];
const DEVICE_VERSIONS: [&str; 4] = ["v1.0", "v1.5", "v2.0", "v2.3"];
/// Name, load capacity, fuel capacity, nominal consumption.
const MODELS: [(&str, u32, u32, u32); 3] = [
    ("F-150", 2000, 200, 15),
    ("G-2000", 5000, 300, 19),
    ("H-2", 1500, 150, 12),
];

const LOAD_MAX: f64 = 5000.0;
const LOAD_CHANGES: f64 = 0.05;

/// The suite's name of truck number `index`.
pub(crate) fn truck_name(index: u32) -> String {
    format!("truck_{index}")
}

/// One truck.
#[derive(Debug)]
pub(super) struct Truck {
    /// `,name=truck_7` to `,device_version=v2.0`, then `load_capacity=1500` and the other properties.
    pieces: [String; TAGS_AND_PROPERTIES],
    /// Places of fleet, driver, model and device version among their values.
    choices: [usize; 4],
    readings: [Walk; READINGS_FIELDS.len()],
    fuel: Walk,
    status: Walk,
    random: Xoshiro256PlusPlus,
}

impl Truck {
    pub(super) fn new(index: u32, mut random: Xoshiro256PlusPlus) -> Self {
        let choices = [
            FLEETS.len(),
            DRIVERS.len(),
            MODELS.len(),
            DEVICE_VERSIONS.len(),
        ]
        .map(|count| random.random_range(0..count));
        let [fleet, driver, model, version] = choices;
        let (model, load, fuel, consumption) = MODELS[model];
        let pieces = [
            format!(",name={}", truck_name(index)),
            format!(",fleet={}", FLEETS[fleet]),
            format!(",driver={}", DRIVERS[driver]),
            format!(",model={model}"),
            format!(",device_version={}", DEVICE_VERSIONS[version]),
            format!("load_capacity={load}"),
            format!("fuel_capacity={fuel}"),
            format!("nominal_fuel_consumption={consumption}"),
        ];
        let mut start = |max: f64| random.random::<f64>() * max;
        let (geo, big, small) = ([-0.005, 0.005], [-10.0, 10.0], [-5.0, 5.0]);
        let readings = [
            Walk::uniform(geo, [-90.0, 90.0], start(90.0)),
            Walk::uniform(geo, [-180.0, 180.0], start(180.0)),
            Walk::uniform(big, [0.0, 5000.0], start(500.0)),
            Walk::uniform(big, [0.0, 100.0], 0.0),
            Walk::uniform(small, [0.0, 360.0], start(360.0)),
            Walk::uniform(small, [0.0, 100.0], 0.0),
            Walk::uniform(small, [0.0, 50.0], 25.0),
        ];
        Self {
            pieces,
            choices,
            readings,
            fuel: Walk::uniform([-0.001, 0.0], [0.0, 1.0], 1.0),
            status: Walk::normal(0.0, 1.0, [0.0, 5.0], 0.0),
            random,
        }
    }

    fn advance(&mut self) {
        for walk in &mut self.readings {
            walk.advance(&mut self.random);
        }
        self.fuel.advance(&mut self.random);
        // An empty tank is filled.
        self.fuel.refill();
        self.status.advance(&mut self.random);
    }
}

/// All trucks and their load.
#[derive(Debug)]
pub(super) struct Trucks {
    all: Vec<Truck>,
    load: f64,
    load_random: Xoshiro256PlusPlus,
}

impl Trucks {
    pub(super) fn new(all: Vec<Truck>, load_random: Xoshiro256PlusPlus) -> Self {
        Self {
            all,
            load: 0.0,
            load_random,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// What a truck measures now, as it is reported.
    pub(super) fn values(&self, truck: usize, table: usize) -> [f64; FIELDS_MAX] {
        let truck = &self.all[truck];
        if table == 0 {
            // Decimals of the fields, in their order.
            let scales = [1e5, 1e5, 1.0, 1.0, 1.0, 1.0, 10.0];
            return std::array::from_fn(|i| truck.readings[i].decimals(scales[i]));
        }
        let mut values = [0.0; FIELDS_MAX];
        values[0] = truck.fuel.decimals(10.0);
        values[1] = cut(self.load) as f64;
        values[2] = truck.status.decimals(1.0);
        values
    }

    /// From one time to the next.
    pub(super) fn advance(&mut self) {
        for truck in &mut self.all {
            truck.advance();
            if self.load_random.random::<f64>() < LOAD_CHANGES {
                self.load = self.load_random.random::<f64>() * LOAD_MAX;
            }
        }
    }

    /// Writes tags and properties, from the comma after the table's name; returns how many properties.
    pub(super) fn write_truck(
        &self,
        truck: usize,
        without: Option<usize>,
        out: &mut Vec<u8>,
    ) -> u64 {
        let mut properties = 0;
        for (i, piece) in self.all[truck].pieces.iter().enumerate() {
            if without == Some(i) {
                continue;
            }
            if i >= TAGS {
                out.push(if properties == 0 { b' ' } else { b',' });
                properties += 1;
            }
            out.write_all(piece.as_bytes())
                .expect("writing to memory does not fail");
        }
        properties
    }

    /// What the tags of a truck are, beside its name.
    pub(super) fn other_tags(&self, truck: usize) -> [usize; 4] {
        self.all[truck].choices
    }
}
