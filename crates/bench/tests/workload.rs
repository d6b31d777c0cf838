//! The cpu-only data set has the suite's schema and distribution, and depends on its description alone.

#![expect(
    clippy::unwrap_used,
    reason = "a failed unwrap in a helper is the test's report"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use nilometer_bench::workload::{Spec, Workload};
use nilometer_bench::{FileFormat, generate};

/// Three lines that the suite itself made.
const SUITE_LINES: &str = include_str!("data/cpu-only.lp");
const START_NS: i64 = 1_451_606_400_000_000_000;
const INTERVAL_NS: i64 = 10_000_000_000;

fn spec(hosts: u32, epochs: i64) -> Spec {
    let end_ns = START_NS + epochs * INTERVAL_NS;
    Spec {
        workload: Workload::CpuOnly,
        hosts,
        start_ns: START_NS,
        end_ns,
        interval_ns: INTERVAL_NS,
        seed: 123,
    }
}

fn text(spec: &Spec, batch_rows: u32) -> String {
    let mut points = spec.points().unwrap();
    let mut out = Vec::new();
    while points.write_batch(batch_rows, &mut out) > 0 {}
    String::from_utf8(out).unwrap()
}

/// A line of line protocol without escapes.
struct Line<'a> {
    table: &'a str,
    tags: Vec<(&'a str, &'a str)>,
    fields: Vec<(&'a str, i64)>,
    time_ns: i64,
}

fn parse(line: &str) -> Line<'_> {
    let [key, fields, time] = line.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{line}")
    };
    let (table, tags) = key.split_once(',').unwrap();
    let integer = |value: &str| {
        value
            .strip_suffix('i')
            .expect("metrics are integers")
            .parse()
            .unwrap()
    };
    Line {
        table,
        tags: tags
            .split(',')
            .map(|pair| pair.split_once('=').unwrap())
            .collect(),
        fields: fields
            .split(',')
            .map(|pair| pair.split_once('=').unwrap())
            .map(|(n, v)| (n, integer(v)))
            .collect(),
        time_ns: time.parse().unwrap(),
    }
}

fn names<'a, T>(pairs: &[(&'a str, T)]) -> Vec<&'a str> {
    pairs.iter().map(|(name, _)| *name).collect()
}

#[test]
fn lines_have_the_shape_of_the_suite_s_own() {
    let ours = text(&spec(3, 1), 100);
    assert_eq!(ours.lines().count(), SUITE_LINES.lines().count());
    assert!(ours.ends_with('\n') && !ours.contains('\r'));
    for (ours, suite) in ours.lines().zip(SUITE_LINES.lines()) {
        let (ours, suite) = (parse(ours), parse(suite));
        assert_eq!(ours.table, suite.table);
        assert_eq!(names(&ours.tags), names(&suite.tags));
        assert_eq!(names(&ours.fields), names(&suite.fields));
        assert_eq!(
            ours.tags[0], suite.tags[0],
            "hosts have the same names in the same order"
        );
        assert_eq!(ours.time_ns, suite.time_ns);
    }
    assert_eq!(
        Workload::CpuOnly.metrics(),
        names(&parse(SUITE_LINES.lines().next().unwrap()).fields)
    );
}

#[test]
fn points_come_by_time_then_host_and_end_before_the_end() {
    let spec = spec(4, 25);
    let all = text(&spec, 7);
    let got: Vec<(i64, String)> = all
        .lines()
        .map(parse)
        .map(|line| (line.time_ns, line.tags[0].1.to_owned()))
        .collect();
    let expected: Vec<(i64, String)> = (0..25)
        .flat_map(|epoch| {
            (0..4).map(move |host| (START_NS + epoch * INTERVAL_NS, format!("host_{host}")))
        })
        .collect();
    assert_eq!(got, expected);
    assert_eq!((spec.rows().unwrap(), spec.values().unwrap()), (100, 1000));
}

#[test]
fn the_description_alone_decides_the_bytes() {
    let base = spec(5, 40);
    assert_eq!(text(&base, 1), text(&base, 33));
    assert_ne!(text(&base, 33), text(&Spec { seed: 124, ..base }, 33));
    // A host says the same at every scale, so scales can be compared.
    let of_host_2 = |text: String| {
        text.lines()
            .filter(|l| l.contains("host_2,"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        of_host_2(text(&base, 33)),
        of_host_2(text(&spec(9, 40), 33))
    );
    // A longer data set begins with the shorter.
    assert!(text(&spec(5, 60), 33).starts_with(&text(&base, 33)));
}

#[test]
fn tags_stay_and_take_the_suite_s_values() {
    let all = text(&spec(2000, 2), 1000);
    let mut hosts: BTreeMap<&str, &str> = BTreeMap::new();
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in all.lines() {
        let parsed = parse(line);
        let tags = line.split(' ').next().unwrap();
        assert_eq!(
            *hosts.entry(parsed.tags[0].1).or_insert(tags),
            tags,
            "the tags of a host never change"
        );
        for (name, value) in &parsed.tags {
            values.entry(*name).or_default().insert(*value);
        }
        let (region, datacenter) = (parsed.tags[1].1, parsed.tags[2].1);
        assert!(
            datacenter.starts_with(region),
            "{datacenter} is not in {region}"
        );
    }
    // Numbers of values and examples from the suite's own host generator.
    for (name, count) in [
        ("hostname", 2000),
        ("region", 9),
        ("datacenter", 23),
        ("rack", 100),
        ("os", 3),
        ("arch", 2),
        ("team", 4),
        ("service", 20),
        ("service_version", 2),
        ("service_environment", 3),
    ] {
        assert_eq!(values[name].len(), count, "{name}");
    }
    let set = |list: &'static str| list.split(' ').collect::<BTreeSet<_>>();
    assert_eq!(values["os"], set("Ubuntu16.10 Ubuntu16.04LTS Ubuntu15.10"));
    assert_eq!(values["arch"], set("x64 x86"));
    assert_eq!(values["team"], set("SF NYC LON CHI"));
    assert_eq!(
        values["service_environment"],
        set("production staging test")
    );
    assert_eq!(values["service_version"], set("0 1"));
    assert!(
        values["datacenter"].contains("us-east-1e") && !values["datacenter"].contains("us-east-1d")
    );
}

#[test]
fn metrics_walk_like_the_suite_s() {
    let hosts = 20;
    let all = text(&spec(hosts, 2000), 1000);
    let mut last: Vec<Vec<i64>> = vec![Vec::new(); hosts as usize];
    let mut first = Vec::new();
    let mut steps: Vec<i64> = Vec::new();
    for (i, line) in all.lines().enumerate() {
        let values: Vec<i64> = parse(line).fields.iter().map(|(_, value)| *value).collect();
        assert!(
            values.iter().all(|value| (0..=100).contains(value)),
            "{line}"
        );
        let before = &mut last[i % hosts as usize];
        steps.extend(
            values
                .iter()
                .zip(before.iter())
                .map(|(now, then)| now - then),
        );
        if before.is_empty() {
            first.extend_from_slice(&values);
        }
        *before = values;
    }
    let n = steps.len() as f64;
    let mean = steps.iter().sum::<i64>() as f64 / n;
    let sd = (steps
        .iter()
        .map(|s| (*s as f64 - mean).powi(2))
        .sum::<f64>()
        / n)
        .sqrt();
    let unchanged = steps.iter().filter(|s| **s == 0).count() as f64 / n;
    // The suite's own 13 hours of 10 hosts have mean 0.0004, deviation 1.072 and 37.7 % steps of 0 after cutting to
    // integers.
    assert!(mean.abs() < 0.02, "mean {mean}");
    assert!((sd - 1.072).abs() < 0.03, "sd {sd}");
    assert!((unchanged - 0.377).abs() < 0.02, "unchanged {unchanged}");
    let start_mean = first.iter().sum::<i64>() as f64 / first.len() as f64;
    // 200 starts, uniform from 0 to 100 and cut: mean 49.5, with a deviation of the mean of 2.0.
    assert!((start_mean - 49.5).abs() < 10.0, "{start_mean}");
    assert!(first.iter().any(|v| *v < 10) && first.iter().any(|v| *v > 90));
}

#[test]
fn contradictory_descriptions_are_refused() {
    let good = spec(2, 3);
    for (bad, word) in [
        (Spec { hosts: 0, ..good }, "hosts"),
        (
            Spec {
                interval_ns: 0,
                ..good
            },
            "interval",
        ),
        (
            Spec {
                interval_ns: -5,
                ..good
            },
            "interval",
        ),
        (
            Spec {
                end_ns: START_NS,
                ..good
            },
            "end",
        ),
        (
            Spec {
                end_ns: START_NS + INTERVAL_NS - 1,
                ..good
            },
            "end",
        ),
        (
            Spec {
                start_ns: i64::MIN,
                ..good
            },
            "end",
        ),
        (
            Spec {
                interval_ns: 1,
                start_ns: 0,
                end_ns: i64::MAX,
                hosts: u32::MAX,
                ..good
            },
            "rows",
        ),
    ] {
        for error in [bad.rows().unwrap_err(), bad.points().unwrap_err()] {
            assert!(error.to_string().contains(word), "{error}");
        }
    }
    assert!("iot-no".parse::<Workload>().is_err());
    assert_eq!("cpu-only".parse::<Workload>().unwrap(), Workload::CpuOnly);
}

#[test]
fn a_generated_file_has_its_name_only_when_it_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    let spec = spec(2, 9);
    let path = directory.path().join("lines");
    let mut progress = Vec::new();
    let done = generate(&spec, &path, FileFormat::LineProtocol, 5, |rows| {
        assert!(!path.exists());
        progress.push(rows);
    })
    .unwrap();
    assert_eq!(progress, [5, 10, 15, 18]);
    assert_eq!((done.rows, done.values), (18, 180));
    assert_eq!(fs::read_to_string(&path).unwrap(), text(&spec, 100));
    assert_eq!(done.text_bytes, fs::metadata(&path).unwrap().len());
    assert_eq!(
        fs::read_dir(directory.path()).unwrap().count(),
        1,
        "nothing else is left behind"
    );
    assert!(generate(&spec, &path, FileFormat::BatchFile, 0, |_| {}).is_err());
    let nowhere = directory.path().join("no such folder").join("x");
    assert!(generate(&spec, &nowhere, FileFormat::BatchFile, 5, |_| {}).is_err());
}
