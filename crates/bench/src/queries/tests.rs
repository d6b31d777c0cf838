use super::{cpu_only, names};
use crate::calendar::parse_rfc3339;
use crate::workload::{Spec, Workload};

const START: i64 = 1_451_606_400_000_000_000;
const HOUR: i64 = 3_600_000_000_000;

fn spec(hosts: u32, hours: i64) -> Spec {
    let interval_ns = 10_000_000_000;
    Spec {
        workload: Workload::CpuOnly,
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
        names().collect::<Vec<_>>(),
        expected.split_whitespace().collect::<Vec<_>>()
    );
    let specs = cpu_only(&spec(100, 24), 5, 3).unwrap();
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
    let specs = cpu_only(&spec(100, 24), 6, 20).unwrap();
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
            assert_eq!(start % 1_000_000_000, 0);
        }
    }
}

#[test]
fn a_statement_reads_as_sql() {
    let specs = cpu_only(&spec(1, 1), 1, 1).unwrap();
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
        cpu_only(&data, 9, 2).unwrap(),
        cpu_only(&data, 9, 2).unwrap()
    );
    assert_ne!(
        cpu_only(&data, 9, 2).unwrap(),
        cpu_only(&data, 10, 2).unwrap()
    );
}

#[test]
fn a_small_data_set_is_asked_smaller_questions_and_told_so() {
    let specs = cpu_only(&spec(3, 2), 1, 1).unwrap();
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
