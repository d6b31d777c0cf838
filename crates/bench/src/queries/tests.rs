use super::{names, statements};
use crate::calendar::parse_rfc3339;
use crate::workload::{Spec, Workload};

const START: i64 = 1_451_606_400_000_000_000;
const HOUR: i64 = 3_600_000_000_000;

fn spec(hosts: u32, hours: i64) -> Spec {
    spec_of(Workload::CpuOnly, hosts, hours)
}

fn spec_of(workload: Workload, hosts: u32, hours: i64) -> Spec {
    let interval_ns = 10_000_000_000;
    Spec {
        workload,
        hosts,
        start_ns: START,
        end_ns: START + hours * HOUR,
        interval_ns,
        seed: 1,
    }
}

/// The times named in a statement, in order.
fn times(sql: &str) -> Vec<i64> {
    sql.split("timestamp '")
        .skip(1)
        .map(|rest| parse_rfc3339(rest.split('\'').next().unwrap()).expect("times are RFC 3339"))
        .collect()
}

fn hosts(sql: &str) -> Vec<&str> {
    let Some((_, rest)) = sql.split_once("hostname in (") else {
        return Vec::new();
    };
    rest.split(')').next().unwrap().split(", ").collect()
}

#[test]
fn the_suite_s_types_are_all_there() {
    // The suite's own names, as its published reports list them.
    let expected = "single-groupby-1-1-1 single-groupby-1-1-12 single-groupby-1-8-1 single-groupby-5-1-1 \
                    single-groupby-5-1-12 single-groupby-5-8-1 cpu-max-all-1 cpu-max-all-8 double-groupby-1 \
                    double-groupby-5 double-groupby-all high-cpu-1 high-cpu-all lastpoint groupby-orderby-limit";
    assert_eq!(
        names(Workload::CpuOnly),
        expected.split_whitespace().collect::<Vec<_>>()
    );
    let specs = statements(&spec(100, 24), 5, 3).unwrap();
    assert_eq!(specs.len(), 45);
    assert!(specs.iter().all(|q| q.note.is_none()));
}

#[test]
fn statements_have_the_metrics_hosts_and_hours_of_their_names() {
    let expected = [
        ("single-groupby-1-1-1", "max(", 1, 1, 1),
        ("single-groupby-1-1-12", "max(", 1, 1, 12),
        ("single-groupby-1-8-1", "max(", 1, 8, 1),
        ("single-groupby-5-1-1", "max(", 5, 1, 1),
        ("single-groupby-5-1-12", "max(", 5, 1, 12),
        ("single-groupby-5-8-1", "max(", 5, 8, 1),
        ("cpu-max-all-1", "max(", 10, 1, 8),
        ("cpu-max-all-8", "max(", 10, 8, 8),
        ("double-groupby-1", "avg(", 1, 0, 12),
        ("double-groupby-5", "avg(", 5, 0, 12),
        ("double-groupby-all", "avg(", 10, 0, 12),
        ("high-cpu-1", "max(", 0, 1, 12),
        ("high-cpu-all", "max(", 0, 0, 12),
    ];
    let specs = statements(&spec(100, 24), 6, 20).unwrap();
    for (name, function, columns, host_count, hours) in expected {
        for q in specs.iter().filter(|q| q.name == name) {
            let mut drawn = hosts(&q.sql);
            assert_eq!(q.sql.matches(function).count(), columns, "{}", q.sql);
            drawn.sort_unstable();
            drawn.dedup();
            assert_eq!(drawn.len(), host_count, "{}", q.sql);
            let [start, end] = times(&q.sql)[..] else {
                panic!("{}", q.sql)
            };
            assert_eq!(end - start, hours * HOUR, "{}", q.sql);
            assert!(start >= START && end <= START + 24 * HOUR, "{}", q.sql);
            // The suite writes its windows with six decimals of a second.
            assert_eq!(start % 1000, 0);
        }
    }
    let starts: Vec<i64> = specs
        .iter()
        .filter_map(|q| times(&q.sql).first().copied())
        .collect();
    let whole_seconds = starts
        .iter()
        .filter(|start| *start % 1_000_000_000 == 0)
        .count();
    assert!(
        whole_seconds <= 1,
        "{whole_seconds} of {} windows begin at a whole second",
        starts.len()
    );
}

#[test]
fn devops_is_asked_one_type_more() {
    let all = names(Workload::Devops);
    assert_eq!(all.len(), 16);
    let specs = statements(&spec_of(Workload::Devops, 100, 25), 5, 2).unwrap();
    let of_many: Vec<_> = specs
        .iter()
        .filter(|q| q.name == "cpu-max-all-32-24")
        .collect();
    assert_eq!(of_many.len(), 2);
    for q in of_many {
        assert_eq!(hosts(&q.sql).len(), 32, "{}", q.sql);
        let [start, end] = times(&q.sql)[..] else {
            panic!("{}", q.sql)
        };
        assert_eq!(end - start, 24 * HOUR);
    }
    let others: Vec<&str> = all
        .into_iter()
        .filter(|name| *name != "cpu-max-all-32-24")
        .collect();
    assert_eq!(others, names(Workload::CpuOnly));
}

#[test]
fn the_suite_s_types_about_trucks_are_all_there() {
    // The labels in the suite's generator of queries.
    let expected = "last-loc single-last-loc low-fuel high-load stationary-trucks long-driving-sessions long-daily-sessions \
                    avg-vs-projected-fuel-consumption avg-daily-driving-duration avg-daily-driving-session avg-load \
                    daily-activity breakdown-frequency";
    assert_eq!(
        names(Workload::Iot),
        expected.split_whitespace().collect::<Vec<_>>()
    );
    let specs = statements(&spec_of(Workload::Iot, 30, 30), 5, 20).unwrap();
    assert_eq!(specs.len(), 13 * 20);
    let of = |name: &str| specs.iter().filter(|q| q.name == name).collect::<Vec<_>>();
    for (name, minutes) in [
        ("stationary-trucks", 10),
        ("long-driving-sessions", 240),
        ("long-daily-sessions", 1440),
    ] {
        for q in of(name) {
            let [start, end] = times(&q.sql)[..] else {
                panic!("{}", q.sql)
            };
            assert_eq!(end - start, minutes * HOUR / 60, "{}", q.sql);
            assert!(start >= START && end <= START + 30 * HOUR, "{}", q.sql);
        }
    }
    // Ten-minute periods of the window without five minutes of rest an hour, and without 35: (240 - 20) / 10, (1440 - 840) / 10.
    assert!(
        of("long-driving-sessions")
            .iter()
            .all(|q| q.sql.ends_with("> 22"))
    );
    assert!(
        of("long-daily-sessions")
            .iter()
            .all(|q| q.sql.ends_with("> 60"))
    );
    for fleet in ["East", "West", "North", "South"] {
        let asked = specs
            .iter()
            .filter(|q| q.sql.contains(&format!("fleet = '{fleet}'")));
        // Six types of twenty statements ask for one of four fleets.
        assert!((15..=45).contains(&asked.count()), "{fleet}");
    }
    for q in of("single-last-loc") {
        let truck = q
            .sql
            .split("'truck_")
            .nth(1)
            .and_then(|rest| rest.split('\'').next());
        assert!(truck.unwrap().parse::<u32>().unwrap() < 30, "{}", q.sql);
    }
}

#[test]
fn a_statement_reads_as_sql() {
    let specs = statements(&spec(1, 1), 1, 1).unwrap();
    // The window is as long as the data set, so it is not drawn.
    assert_eq!(
        specs[0].sql,
        "select time_bucket('1 minute', time) as minute, max(usage_user) as max_usage_user from cpu \
         where hostname in ('host_0') and time >= timestamp '2016-01-01T00:00:00Z' \
         and time < timestamp '2016-01-01T01:00:00Z' group by minute order by minute"
    );
}

#[test]
fn draws_depend_on_the_seed_alone() {
    let data = spec(1000, 48);
    assert_eq!(
        statements(&data, 9, 2).unwrap(),
        statements(&data, 9, 2).unwrap()
    );
    assert_ne!(
        statements(&data, 9, 2).unwrap(),
        statements(&data, 10, 2).unwrap()
    );
}

#[test]
fn a_small_data_set_is_asked_smaller_questions_and_told_so() {
    let specs = statements(&spec(3, 2), 1, 1).unwrap();
    let of = |name| specs.iter().find(|q| q.name == name).unwrap();
    assert_eq!(of("single-groupby-1-1-1").note, None);
    assert_eq!(of("single-groupby-1-1-12").note.as_deref(), Some("7200 s"));
    assert_eq!(of("cpu-max-all-8").note.as_deref(), Some("7200 s, 3 hosts"));
    assert_eq!(hosts(&of("cpu-max-all-8").sql).len(), 3);
    assert_eq!(
        times(&of("double-groupby-all").sql),
        [START, START + 2 * HOUR]
    );
}
