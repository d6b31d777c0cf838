//! The questions about trucks, for iot.
//!
//! The suite keeps the tags of a truck in a table of their own for TimescaleDB, and the rows of `readings` and
//! `diagnostics` name it by an id. Line protocol brings tags as columns and a truck's capacities as fields of every row,
//! so here:
//!
//! - a truck is what the question shows or groups by: name and driver, or name, fleet and model. A row whose driver is
//!   absent belongs to a truck without one, as it has a row of its own in the suite's table of tags;
//! - the load capacity in `high-load` is that of the row, in `avg-load` the truck's, from whichever row has it;
//! - `sum(...) / 144` of `daily-activity` has a fraction, because PostgreSQL's sum of integers is `numeric`;
//! - the driving time of `avg-daily-driving-session` is `stop - start`; of times less than a month apart `age` says the
//!   same.
//!
//! Everything else, with its thresholds and its integer divisions, is as the suite has it.

use std::time::Duration;

use super::{Draw, HOUR};

/// What a type asks for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    /// Place of every truck of a fleet.
    LastLoc,
    /// Place of one truck.
    SingleLastLoc,
    /// Trucks of a fleet with less than a tenth of their fuel.
    LowFuel,
    /// Trucks of a fleet with more than nine tenths of their load.
    HighLoad,
    /// Trucks of a fleet that stood for ten minutes.
    Stationary,
    /// Trucks of a fleet that drove in more than so many periods of ten minutes.
    LongSessions { hours: u32, periods: u32 },
    /// Consumption of fleets against what their models promise.
    AvgVsProjectedFuel,
    /// Hours a day, mean per truck.
    AvgDailyDrivingDuration,
    /// Time without a stop, mean per truck and day.
    AvgDailyDrivingSession,
    /// Load of a model in a fleet, mean of its trucks' means.
    AvgLoad,
    /// Share of a day that the trucks of a fleet and model were in service.
    DailyActivity,
    /// How often trucks of a model broke down.
    BreakdownFrequency,
}

/// Ten-minute periods of four hours but for a rest of five minutes an hour, and of a day but for 35 minutes an hour.
const LONG_SESSION_PERIODS: u32 = 22;
const LONG_DAY_PERIODS: u32 = 60;
const STATIONARY: Duration = Duration::from_mins(10);

/// The types in the order of the suite's reports.
pub(super) const TYPES: [(&str, Shape); 13] = [
    ("last-loc", Shape::LastLoc),
    ("single-last-loc", Shape::SingleLastLoc),
    ("low-fuel", Shape::LowFuel),
    ("high-load", Shape::HighLoad),
    ("stationary-trucks", Shape::Stationary),
    (
        "long-driving-sessions",
        Shape::LongSessions {
            hours: 4,
            periods: LONG_SESSION_PERIODS,
        },
    ),
    (
        "long-daily-sessions",
        Shape::LongSessions {
            hours: 24,
            periods: LONG_DAY_PERIODS,
        },
    ),
    (
        "avg-vs-projected-fuel-consumption",
        Shape::AvgVsProjectedFuel,
    ),
    ("avg-daily-driving-duration", Shape::AvgDailyDrivingDuration),
    ("avg-daily-driving-session", Shape::AvgDailyDrivingSession),
    ("avg-load", Shape::AvgLoad),
    ("daily-activity", Shape::DailyActivity),
    ("breakdown-frequency", Shape::BreakdownFrequency),
];

/// A statement of a type.
pub(super) fn statement(shape: Shape, draw: &mut Draw) -> String {
    match shape {
        Shape::LastLoc => last("readings", "longitude, latitude", &of_fleet(draw)),
        Shape::SingleLastLoc => {
            let truck = draw.truck();
            last("readings", "longitude, latitude", &format!("name in ({truck})"))
        }
        Shape::LowFuel => {
            let last = last("diagnostics", "fuel_state", &of_fleet(draw));
            format!("select name, driver, fuel_state from ({last}) as d where fuel_state < 0.1")
        }
        Shape::HighLoad => {
            let last = last("diagnostics", "current_load, load_capacity", &of_fleet(draw));
            format!(
                "select name, driver, current_load from ({last}) as d \
                 where current_load / load_capacity > 0.9"
            )
        }
        Shape::Stationary => {
            let window = draw.window(STATIONARY);
            let fleet = of_fleet(draw);
            format!(
                "select name, driver from readings where {window} and {fleet} \
                 group by name, driver having avg(velocity) < 1"
            )
        }
        Shape::LongSessions { hours, periods } => {
            let window = draw.window(HOUR * hours);
            let fleet = of_fleet(draw);
            format!(
                "select name, driver from (\
                 select name, driver, time_bucket('10 minutes', time) as ten_minutes \
                 from readings where {window} and {fleet} \
                 group by name, driver, ten_minutes having avg(velocity) > 1) as r \
                 group by name, driver having count(ten_minutes) > {periods}"
            )
        }
        Shape::AvgVsProjectedFuel => "select fleet, avg(fuel_consumption) as avg_fuel_consumption, \
             avg(nominal_fuel_consumption) as projected_fuel_consumption \
             from readings where velocity > 1 and fleet is not null \
             and nominal_fuel_consumption is not null and name is not null group by fleet"
            .to_owned(),
        Shape::AvgDailyDrivingDuration => "with ten_minute_driving_sessions as (\
             select fleet, name, driver, time_bucket('10 minutes', time) as ten_minutes \
             from readings group by fleet, name, driver, ten_minutes having avg(velocity) > 1\
             ), daily_total_session as (\
             select fleet, name, driver, time_bucket('24 hours', ten_minutes) as day, count(*) / 6 as hours \
             from ten_minute_driving_sessions group by fleet, name, driver, day\
             ) select fleet, name, driver, avg(hours) as avg_daily_hours \
             from daily_total_session group by fleet, name, driver"
            .to_owned(),
        Shape::AvgDailyDrivingSession => "with driver_status as (\
             select name, time_bucket('10 minutes', time) as ten_minutes, avg(velocity) > 5 as driving \
             from readings where name is not null group by name, ten_minutes\
             ), driver_status_change as (\
             select name, ten_minutes as start, \
             lead(ten_minutes) over (partition by name order by ten_minutes) as stop, driving from (\
             select name, ten_minutes, driving, \
             lag(driving) over (partition by name order by ten_minutes) as prev_driving \
             from driver_status) as x where x.driving <> x.prev_driving\
             ) select name, time_bucket('24 hours', start) as day, avg(stop - start) as duration \
             from driver_status_change where driving = true group by name, day order by name, day"
            .to_owned(),
        Shape::AvgLoad => "select fleet, model, load_capacity, \
             avg(avg_load / load_capacity) as avg_load_percentage from (\
             select fleet, model, name, max(load_capacity) as load_capacity, avg(current_load) as avg_load \
             from diagnostics where name is not null group by fleet, model, name) as d \
             group by fleet, model, load_capacity"
            .to_owned(),
        Shape::DailyActivity => "select fleet, model, day, sum(ten_mins_per_day) / 144.0 as daily_activity from (\
             select time_bucket('24 hours', time) as day, time_bucket('10 minutes', time) as ten_minutes, \
             fleet, model, name, count(*) as ten_mins_per_day \
             from diagnostics where name is not null \
             group by day, ten_minutes, fleet, model, name having avg(status) < 1) as y \
             group by fleet, model, day order by day"
            .to_owned(),
        Shape::BreakdownFrequency => "with breakdown_per_truck_per_ten_minutes as (\
             select time_bucket('10 minutes', time) as ten_minutes, model, name, \
             count(status = 0) / count(*) >= 0.5 as broken_down \
             from diagnostics where name is not null group by ten_minutes, model, name\
             ), breakdowns_per_truck as (\
             select model, broken_down, \
             lead(broken_down) over (partition by model, name order by ten_minutes) as next_broken_down \
             from breakdown_per_truck_per_ten_minutes\
             ) select model, count(*) as breakdowns from breakdowns_per_truck \
             where broken_down = false and next_broken_down = true group by model"
            .to_owned(),
    }
}

/// The newest row of every truck.
fn last(table: &str, columns: &str, condition: &str) -> String {
    format!(
        "select distinct on (name, driver) name, driver, {columns} from {table} \
         where {condition} order by name, driver, time desc"
    )
}

/// The condition for trucks of a random fleet.
fn of_fleet(draw: &mut Draw) -> String {
    format!("name is not null and fleet = {}", draw.fleet())
}
