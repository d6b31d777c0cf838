//! Promise: docs/guide/series-queries.md shows the questions of the Time Series Benchmark Suite as they are written, and each
//! of them is answered.

#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a failed unwrap is the report, and the times are of one day"
)]

use std::path::Path;
use std::sync::Arc;

use nilometer_engine::Engine;
use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::{Options, SystemClock};
use nilometer_lineproto::Precision;
use nilometer_series::{
    Aggregate, Binary, Bucket, Choice, Column, Context, Expr, Fill, Limit, Limits, Literal,
    Operator, Order, OrderBy, Rules, SeriesQuery, Shape, Source, TableName, TagExpr, Top,
    Transform, Unary, Value,
};

const PAGE: &str = include_str!("../../../docs/guide/series-queries.md");

const MINUTE: i64 = 60_000_000_000;
/// 2016-01-01T00:00:00Z.
const START: i64 = 1_451_606_400_000_000_000;
const CPU: [&str; 10] = [
    "usage_user",
    "usage_system",
    "usage_idle",
    "usage_nice",
    "usage_iowait",
    "usage_irq",
    "usage_softirq",
    "usage_steal",
    "usage_guest",
    "usage_guest_nice",
];

/// The text below a heading.
fn shown(name: &str) -> String {
    let heading = format!("### {name}\n\n```text\n");
    let at = PAGE
        .find(&heading)
        .unwrap_or_else(|| panic!("no {name} on the page"));
    let rest = &PAGE[at + heading.len()..];
    rest[..rest.find("\n```").unwrap()].to_owned()
}

fn from(table: &str) -> Shape {
    let table = TableName {
        database: "benchmark".to_owned(),
        schema: None,
        table: table.to_owned(),
    };
    Shape::of(Rules::Postgres, Source::Tables(vec![table]))
}

fn around(inner: Shape) -> Shape {
    Shape::of(Rules::Postgres, Source::Nested(Box::new(inner)))
}

fn field(name: &str) -> Expr {
    Expr::field(name)
}

fn less(operator: Binary, name: &str, bound: impl Into<Literal>) -> Expr {
    Expr::binary(operator, field(name), Expr::literal(bound))
}

fn mean(name: &str) -> Expr {
    Expr::aggregate(Aggregate::Mean(field(name)))
}

fn count() -> Expr {
    Expr::aggregate(Aggregate::Rows)
}

/// Changes of a shape, one after another.
trait Clauses: Sized {
    fn time(self, from: &str, to: &str) -> Self;
    fn hosts(self, hosts: &[i64]) -> Self;
    fn is(self, tag: &str, value: &str) -> Self;
    fn rows(self, condition: Expr) -> Self;
    fn group(self, tags: &[&str]) -> Self;
    fn bucket(self, width: i64) -> Self;
    fn column(self, name: &str, expr: Expr) -> Self;
    fn fields(self, names: &[&str]) -> Self;
    fn order(self, by: OrderBy, descending: bool) -> Self;
    fn last(self) -> Self;
}

/// A time of that day, as hours, minutes, seconds and microseconds; `""` = no bound.
fn time_of(text: &str) -> Option<Literal> {
    let (days, clock) = match text.split_once('d') {
        Some((days, clock)) => (days.parse::<i64>().unwrap(), clock),
        None => (0, text),
    };
    let parts: Vec<f64> = clock
        .split(':')
        .map(|part| part.parse().unwrap_or(0.0))
        .collect();
    let [hours, minutes, seconds] = parts.as_slice() else {
        return None;
    };
    let micros = (seconds * 1e6).round() as i64;
    let minutes = days * 1440 + (*hours as i64) * 60 + *minutes as i64;
    Some(Literal::Value(Value::Time(
        START + minutes * MINUTE + micros * 1000,
    )))
}

impl Clauses for Shape {
    fn time(mut self, from: &str, to: &str) -> Self {
        self.time.from = time_of(from);
        self.time.to = time_of(to);
        self
    }

    fn hosts(mut self, hosts: &[i64]) -> Self {
        let hosts = hosts
            .iter()
            .map(|host| Literal::from(format!("host_{host}").as_str()));
        self.tags = TagExpr::OneOf("hostname".to_owned(), hosts.collect());
        self
    }

    fn is(mut self, tag: &str, value: &str) -> Self {
        self.tags = TagExpr::OneOf(tag.to_owned(), vec![Literal::from(value)]);
        self
    }

    fn rows(mut self, condition: Expr) -> Self {
        self.rows = Some(condition);
        self
    }

    fn group(mut self, tags: &[&str]) -> Self {
        self.group = tags.iter().map(|tag| (*tag).to_owned()).collect();
        self
    }

    fn bucket(mut self, width: i64) -> Self {
        self.bucket = Some(Bucket::fixed(width));
        self
    }

    fn column(mut self, name: &str, expr: Expr) -> Self {
        self.columns.push(Column {
            name: name.to_owned(),
            expr,
        });
        self
    }

    fn fields(self, names: &[&str]) -> Self {
        names
            .iter()
            .fold(self, |shape, name| shape.column(name, field(name)))
    }

    fn order(mut self, by: OrderBy, descending: bool) -> Self {
        self.order = Order { by, descending };
        self
    }

    fn last(mut self) -> Self {
        self.limit_per_group = Some(Limit {
            rows: Literal::from(1),
            skip: Literal::from(0),
        });
        self.order(OrderBy::Group, true)
    }
}

const HOUR: (&str, &str) = ("7:47:52.646325", "8:47:52.646325");
const TWELVE: (&str, &str) = ("0:40:34.646325", "12:40:34.646325");
const EIGHT: [i64; 8] = [9, 3, 5, 1, 7, 2, 8, 4];

fn maxima(time: (&str, &str), hosts: &[i64], fields: usize, width: i64) -> Shape {
    let shape = from("cpu").time(time.0, time.1).hosts(hosts).bucket(width);
    let shape = CPU[..fields].iter().fold(shape, |shape, name| {
        let max = Expr::aggregate(Aggregate::Max(field(name)));
        shape.column(&format!("max_{name}"), max)
    });
    shape.order(OrderBy::Time, false)
}

fn means(fields: usize) -> Shape {
    let shape = from("cpu")
        .time(TWELVE.0, TWELVE.1)
        .group(&["hostname"])
        .bucket(60 * MINUTE);
    let shape = CPU[..fields].iter().fold(shape, |shape, name| {
        shape.column(&format!("mean_{name}"), mean(name))
    });
    shape.order(OrderBy::Time, false)
}

fn high_cpu() -> Shape {
    let shape = from("cpu").time(TWELVE.0, TWELVE.1);
    let shape = shape.rows(less(Binary::Greater, "usage_user", 90.0));
    shape.column("hostname", Expr::tag("hostname")).fields(&CPU)
}

fn cpu_types() -> Vec<(&'static str, Shape, Operator)> {
    use Operator::{Aggregate as Groups, Last, Rows, TopN};
    let mut newest = from("cpu").time("", "8:47:52.646325").bucket(MINUTE);
    newest.limit = Some(Limit {
        rows: Literal::from(5),
        skip: Literal::from(0),
    });
    let max = Expr::aggregate(Aggregate::Max(field("usage_user")));
    let newest = newest
        .column("max_usage_user", max)
        .order(OrderBy::Time, true);
    let eight_hours = ("4:32:07.646325", "12:32:07.646325");
    let last = from("cpu").group(&["hostname"]).fields(&CPU).last();
    vec![
        (
            "single-groupby-1-1-1",
            maxima(HOUR, &[9], 1, MINUTE),
            Groups,
        ),
        (
            "single-groupby-1-1-12",
            maxima(TWELVE, &[9], 1, MINUTE),
            Groups,
        ),
        (
            "single-groupby-1-8-1",
            maxima(HOUR, &EIGHT, 1, MINUTE),
            Groups,
        ),
        (
            "single-groupby-5-1-1",
            maxima(HOUR, &[9], 5, MINUTE),
            Groups,
        ),
        (
            "single-groupby-5-1-12",
            maxima(TWELVE, &[9], 5, MINUTE),
            Groups,
        ),
        (
            "single-groupby-5-8-1",
            maxima(HOUR, &EIGHT, 5, MINUTE),
            Groups,
        ),
        (
            "cpu-max-all-1",
            maxima(eight_hours, &[9], 10, 60 * MINUTE),
            Groups,
        ),
        (
            "cpu-max-all-8",
            maxima(eight_hours, &EIGHT, 10, 60 * MINUTE),
            Groups,
        ),
        ("double-groupby-1", means(1), Groups),
        ("double-groupby-5", means(5), Groups),
        ("double-groupby-all", means(10), Groups),
        ("high-cpu-1", high_cpu().hosts(&[9]), Rows),
        ("high-cpu-all", high_cpu(), Rows),
        ("lastpoint", last, Last),
        ("groupby-orderby-limit", newest, TopN),
    ]
}

fn last_of(table: &str, fields: &[&str]) -> Shape {
    let shape = from(table).is("fleet", "South").group(&["name", "driver"]);
    shape.fields(fields).last()
}

fn sessions(time: (&str, &str), most: i64) -> Shape {
    let people = ["name", "driver"];
    let driving = from("readings").time(time.0, time.1).is("fleet", "West");
    let driving = driving.group(&people).bucket(10 * MINUTE);
    let driving = driving.column("mean_velocity", mean("velocity"));
    let counted = around(driving).rows(less(Binary::Greater, "mean_velocity", 1.0));
    let counted = counted.group(&people).column("ten_minutes", count());
    let long = around(counted).rows(less(Binary::Greater, "ten_minutes", most));
    long.group(&people).order(OrderBy::Group, false)
}

fn driving_session() -> Shape {
    let driving = from("readings").group(&["name"]).bucket(10 * MINUTE);
    let fast = Expr::binary(Binary::Greater, mean("velocity"), Expr::literal(5.0));
    let before = Expr::Neighbour(Transform::Previous, Box::new(field("driving")));
    let steps = around(driving.column("driving", fast)).group(&["name"]);
    let steps = steps.fields(&["driving"]).column("before", before);
    let changes = around(steps.order(OrderBy::Group, false));
    let differ = Expr::binary(Binary::NotEqual, field("driving"), field("before"));
    let next = Expr::Neighbour(Transform::Next, Box::new(Expr::Time));
    let duration = Expr::binary(Binary::Subtract, next, Expr::Time);
    let changes = changes.rows(differ).group(&["name"]).fields(&["driving"]);
    let changes = changes
        .column("duration", duration)
        .order(OrderBy::Group, false);
    let days = around(changes).rows(field("driving")).group(&["name"]);
    let days = days
        .bucket(1440 * MINUTE)
        .column("duration", mean("duration"));
    days.order(OrderBy::Group, false)
}

fn breakdowns() -> Shape {
    let trucks = ["model", "name"];
    let reported = Expr::aggregate(Aggregate::Count(field("status")));
    let twice = Expr::binary(Binary::Multiply, Expr::literal(2), reported);
    let broken = Expr::binary(Binary::GreaterOrEqual, twice, count());
    let ten = from("diagnostics")
        .group(&trucks)
        .bucket(10 * MINUTE)
        .column("broken_down", broken);
    let next = Expr::Neighbour(Transform::Next, Box::new(field("broken_down")));
    let steps = around(ten)
        .group(&trucks)
        .fields(&["broken_down"])
        .column("then", next);
    let not = Expr::Unary(Unary::Not, Box::new(field("broken_down")));
    let breaks = around(steps.order(OrderBy::Group, false));
    let breaks = breaks.rows(Expr::binary(Binary::And, not, field("then")));
    let breaks = breaks.group(&["model"]).column("breakdowns", count());
    breaks.order(OrderBy::Group, false)
}

fn iot_types() -> Vec<(&'static str, Shape, Operator)> {
    use Operator::{Aggregate as Groups, Last, Rows};
    let people = ["name", "driver"];
    let places = ["latitude", "longitude"];
    let one = from("readings")
        .is("name", "truck_11")
        .group(&people)
        .fields(&places)
        .last();
    let low = around(last_of("diagnostics", &["fuel_state"]));
    let low = low
        .rows(less(Binary::Less, "fuel_state", 0.1))
        .group(&people);
    let load = ["current_load", "load_capacity"];
    let most = Expr::binary(Binary::Multiply, Expr::literal(0.9), field("load_capacity"));
    let high = around(last_of("diagnostics", &load))
        .group(&people)
        .fields(&load);
    let high = high.rows(Expr::binary(
        Binary::GreaterOrEqual,
        field("current_load"),
        most,
    ));
    let still = from("readings")
        .time("16:06:49.646325", "16:16:49.646325")
        .is("fleet", "West");
    let still = still
        .group(&people)
        .column("mean_velocity", mean("velocity"));
    let still = around(still)
        .rows(less(Binary::Less, "mean_velocity", 1.0))
        .group(&people);
    let fuel = from("readings")
        .rows(less(Binary::Greater, "velocity", 1.0))
        .group(&["fleet"]);
    let fuel = fuel.column("mean_fuel_consumption", mean("fuel_consumption"));
    let fuel = fuel.column(
        "projected_fuel_consumption",
        mean("nominal_fuel_consumption"),
    );
    let drivers = ["fleet", "name", "driver"];
    let ten = from("readings").group(&drivers).bucket(10 * MINUTE);
    let ten = ten.column("mean_velocity", mean("velocity"));
    let days = around(ten)
        .rows(less(Binary::Greater, "mean_velocity", 1.0))
        .group(&drivers);
    let hours = Expr::binary(Binary::Divide, count(), Expr::literal(6));
    let days = around(days.bucket(1440 * MINUTE).column("hours", hours)).group(&drivers);
    let days = days.column("avg_daily_hours", mean("hours"));
    let share = Expr::binary(
        Binary::Divide,
        field("current_load"),
        field("load_capacity"),
    );
    let share = Expr::aggregate(Aggregate::Mean(share));
    let loads = from("diagnostics")
        .group(&["fleet", "model", "name"])
        .column("load", share);
    let loads = around(loads).group(&["fleet", "model"]);
    let loads = loads.column("mean_load_percentage", mean("load"));
    let active = from("diagnostics")
        .group(&["fleet", "model", "name"])
        .bucket(10 * MINUTE);
    let active = active
        .column("mean_status", mean("status"))
        .column("readings", count());
    let active = around(active).rows(less(Binary::Less, "mean_status", 1.0));
    let readings = Expr::aggregate(Aggregate::Sum(field("readings")));
    let part = Expr::binary(Binary::Divide, readings, Expr::literal(144));
    let active = active.group(&["fleet", "model"]).bucket(1440 * MINUTE);
    let active = active
        .column("daily_activity", part)
        .order(OrderBy::Time, false);
    let long = sessions(("1:34:21.646325", "5:34:21.646325"), 22);
    let daily = sessions(("0:40:34.646325", "1d0:40:34.646325"), 60);
    let by_group = |shape: Shape| shape.order(OrderBy::Group, false);
    vec![
        ("last-loc", last_of("readings", &places), Last),
        ("single-last-loc", one, Last),
        (
            "low-fuel",
            low.fields(&["fuel_state"]).order(OrderBy::Group, true),
            Rows,
        ),
        ("high-load", high.order(OrderBy::Group, true), Rows),
        ("stationary-trucks", by_group(still), Rows),
        ("long-driving-sessions", long, Rows),
        ("long-daily-sessions", daily, Rows),
        ("avg-vs-projected-fuel-consumption", by_group(fuel), Groups),
        ("avg-daily-driving-duration", by_group(days), Groups),
        ("avg-daily-driving-session", driving_session(), Groups),
        ("avg-load", by_group(loads), Groups),
        ("daily-activity", active, Groups),
        ("breakdown-frequency", breakdowns(), Groups),
    ]
}

/// Those that the suite does not ask.
fn others() -> Vec<(&'static str, Shape, Operator)> {
    let by_group = |shape: Shape| shape.order(OrderBy::Group, false);
    let mut busiest = from("cpu").bucket(60 * MINUTE);
    busiest = busiest.column("hostname", Expr::tag("hostname"));
    busiest = by_group(busiest.fields(&["usage_user", "usage_system"]));
    busiest.rules = Rules::Influx;
    busiest.choice = Some(Choice::Top(Top {
        by: field("usage_user"),
        rows: Literal::from(5),
        smallest: false,
        each: vec![Expr::tag("hostname")],
    }));
    let mut states = by_group(from("diagnostics").group(&["name"]).fields(&["status"]));
    states.choice = Some(Choice::Distinct(field("status")));
    let most = Expr::aggregate(Aggregate::Max(field("velocity")));
    let mut trucks = by_group(from("readings").group(&["name"]));
    trucks = trucks.column("max_velocity", most);
    trucks.rules = Rules::Influx;
    trucks.limit_groups = Some(Limit {
        rows: Literal::from(10),
        skip: Literal::from(20),
    });
    let reports = Expr::aggregate(Aggregate::Count(field("status")));
    let mut levels = by_group(from("diagnostics").group(&["name"]).bucket(60 * MINUTE));
    levels = levels.column("fuel", mean("fuel_state"));
    levels = levels.column("reports", reports);
    levels.fill = Fill::Previous;
    levels.fills = vec![("reports".to_owned(), Fill::Value(Literal::from(0)))];
    vec![
        ("busiest-hosts-of-each-hour", busiest, Operator::Choose),
        ("states-of-each-truck", states, Operator::Choose),
        ("ten-trucks-after-twenty", trucks, Operator::Aggregate),
        ("levels-and-counts", levels, Operator::Aggregate),
    ]
}

/// A truck that drives for an hour, stands for one, and drives again; a host with some load.
fn store() -> Arc<Engine> {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let engine = Engine::open(
        disk,
        Arc::new(SystemClock),
        Path::new("/d"),
        Options::default(),
    );
    let engine = Arc::new(engine.unwrap());
    engine.create_database("benchmark").unwrap();
    let mut lines = Vec::new();
    for minute in 0..180 {
        let time = START + minute * MINUTE;
        let fields: Vec<String> = CPU.iter().map(|name| format!("{name}={minute}")).collect();
        lines.push(format!("cpu,hostname=host_9 {} {time}", fields.join(",")));
        let velocity = if (60..120).contains(&minute) { 0 } else { 50 };
        let truck = "name=truck_11,driver=Andy,fleet=South,model=G-2000";
        lines.push(format!(
            "readings,{truck} velocity={velocity},latitude=1.5,longitude=2.5,fuel_consumption=10,nominal_fuel_consumption=12 {time}"
        ));
        // In the second hour it reports no status.
        let status = if (60..120).contains(&minute) {
            ""
        } else {
            ",status=0"
        };
        lines.push(format!(
            "diagnostics,{truck} fuel_state=0.05,current_load=950,load_capacity=1000{status} {time}"
        ));
    }
    let mut session = Session::new(Arc::clone(&engine), "benchmark").unwrap();
    let body = lines.join("\n");
    let report = session
        .write_lines(body.as_bytes(), Precision::Nanosecond)
        .unwrap();
    assert_eq!(report.rejected, []);
    engine
}

#[test]
fn the_page_shows_every_type_and_each_of_them_runs() {
    let snapshot = store().snapshot();
    let types = cpu_types().into_iter().chain(iot_types()).chain(others());
    let mut names = Vec::new();
    for (name, shape, operator) in types {
        assert_eq!(shape.to_string(), shown(name), "{name}");
        let query = SeriesQuery::new(shape, Limits::default()).unwrap();
        assert_eq!(query.operator(), operator, "{name}");
        let answer = query.run(&snapshot, &Context::default());
        let rows = answer.unwrap().map(|batch| batch.unwrap().num_rows());
        names.push((name, rows.sum::<usize>()));
    }
    assert_eq!(names.len(), 28 + 4);
    assert_eq!(names.len(), PAGE.matches("\n### ").count());
    let rows = |name: &str| names.iter().find(|it| it.0 == name).unwrap().1;
    // By hand, from what the store was given.
    assert_eq!(rows("lastpoint"), 1);
    assert_eq!(rows("groupby-orderby-limit"), 5);
    assert_eq!(rows("last-loc"), 1);
    assert_eq!(rows("low-fuel"), 1);
    assert_eq!(rows("high-load"), 1);
    // It stops once and starts once.
    assert_eq!(rows("avg-daily-driving-session"), 1);
    assert_eq!(rows("breakdown-frequency"), 1);
    // One host in each of three hours; one state; one truck, which is none of those after twenty; three hours.
    assert_eq!(rows("busiest-hosts-of-each-hour"), 3);
    assert_eq!(rows("states-of-each-truck"), 1);
    assert_eq!(rows("ten-trucks-after-twenty"), 0);
    assert_eq!(rows("levels-and-counts"), 3);
    // Minutes 91 to 179 from 0:40:34 on.
    assert_eq!(rows("high-cpu-1"), 89);
    assert_eq!(rows("high-cpu-all"), 89);
    assert_eq!(rows("single-groupby-1-1-12"), 139);
}
