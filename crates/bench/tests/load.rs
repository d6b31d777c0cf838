//! The loader against a server that counts, refuses, asks for time, closes connections and hides rows.

#![expect(
    clippy::unwrap_used,
    reason = "a failed unwrap in a helper is the test's report"
)]

mod support;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use nilometer_bench::queries::{
    AnswerFormat, QueryOptions, run_queries, run_while_loading, statements,
};
use nilometer_bench::workload::{Spec, Workload};
use nilometer_bench::{Error, FileFormat, LoadOptions, generate, load};
use support::{Faults, Server};

const HOUR_NS: i64 = 3_600_000_000_000;

/// 3 hosts, 120 epochs: 360 rows.
fn spec() -> Spec {
    let start_ns = 1_451_606_400_000_000_000;
    let interval_ns = 30_000_000_000;
    Spec {
        workload: Workload::CpuOnly,
        hosts: 3,
        start_ns,
        end_ns: start_ns + HOUR_NS,
        interval_ns,
        seed: 11,
    }
}

struct Files {
    _directory: tempfile::TempDir,
    batches: PathBuf,
    lines: PathBuf,
}

/// The data set as a batch file with 50 rows a batch, and as lines.
fn files() -> Files {
    let directory = tempfile::tempdir().unwrap();
    let (batches, lines) = (
        directory.path().join("data.batches"),
        directory.path().join("data.lp"),
    );
    generate(&spec(), &batches, FileFormat::BatchFile, 50, |_| {}).unwrap();
    generate(&spec(), &lines, FileFormat::LineProtocol, 50, |_| {}).unwrap();
    Files {
        _directory: directory,
        batches,
        lines,
    }
}

fn options(server: &Server, file: &PathBuf) -> LoadOptions {
    LoadOptions {
        batch_rows: 70,
        ..LoadOptions::new(&server.url, "bench db", file)
    }
}

#[test]
fn a_batch_file_arrives_whole_over_one_connection_per_worker() {
    let files = files();
    let server = Server::start(Faults::default(), false);
    let mut progress = Vec::new();
    let report = load(&options(&server, &files.batches), |rows| {
        progress.push(rows);
    })
    .unwrap();
    assert_eq!(
        (report.rows, report.values, report.batches),
        (360, Some(3600), 8)
    );
    assert_eq!(report.text_bytes, fs::metadata(&files.lines).unwrap().len());
    assert_eq!((report.visible.rows, report.visible.rows_before), (360, 0));
    assert_eq!(report.sync_mode, "none at all");
    assert_eq!(
        (report.retries, report.batch_rows, report.workers),
        (0, 50, 2)
    );
    assert_eq!(progress.len(), 8);
    assert_eq!(progress.last(), Some(&360));
    let seen = server.seen();
    assert_eq!((seen.rows, seen.writes), (360, 8));
    // One worker may have sent everything before the other began.
    assert!(
        (1..=2).contains(&seen.write_connections),
        "{} connections",
        seen.write_connections
    );
    assert_eq!(report.connections, seen.write_connections as u64);
    assert!(
        seen.targets
            .contains(&"/api/v3/write_lp?db=bench%20db&precision=ns".to_owned()),
        "{:?}",
        seen.targets
    );
    let table = report.table();
    assert!(
        table.contains("rows        360\n") && table.contains("values      3,600\n"),
        "{table}"
    );
}

#[test]
fn both_kinds_of_file_send_the_same_text_in_order() {
    let files = files();
    let expected = fs::read(&files.lines).unwrap();
    for (file, batches) in [(&files.batches, 8), (&files.lines, 6)] {
        let server = Server::start(Faults::default(), true);
        let report = load(
            &LoadOptions {
                workers: 1,
                ..options(&server, file)
            },
            |_| {},
        )
        .unwrap();
        assert_eq!(
            (report.rows, report.batches, report.connections),
            (360, batches, 1)
        );
        assert!(server.seen().text == expected, "{} differs", file.display());
    }
}

#[test]
fn a_refused_batch_stops_the_load_with_its_number_and_the_server_s_words() {
    let files = files();
    let server = Server::start(
        Faults {
            refuse_write: Some(3),
            ..Faults::default()
        },
        false,
    );
    let error = load(
        &LoadOptions {
            workers: 1,
            ..options(&server, &files.batches)
        },
        |_| {},
    )
    .unwrap_err();
    let Error::Refused {
        batch,
        status,
        body,
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!((*batch, *status), (3, 400));
    assert!(body.contains("field type conflict"), "{body}");
    let seen = server.seen();
    assert_eq!((seen.writes, seen.rows), (4, 150));
}

#[test]
fn a_busy_server_gets_time_but_not_for_ever() {
    let files = files();
    let server = Server::start(
        Faults {
            busy_writes: 5,
            ..Faults::default()
        },
        false,
    );
    let report = load(&options(&server, &files.batches), |_| {}).unwrap();
    assert_eq!((report.retries, report.rows), (5, 360));
    let server = Server::start(
        Faults {
            busy_writes: usize::MAX,
            ..Faults::default()
        },
        false,
    );
    let error = load(&options(&server, &files.batches), |_| {}).unwrap_err();
    assert!(
        matches!(error, Error::Refused { status: 503, .. }),
        "{error}"
    );
}

#[test]
fn connections_that_the_server_closes_are_opened_again() {
    let files = files();
    let server = Server::start(
        Faults {
            close_after_answer: true,
            ..Faults::default()
        },
        true,
    );
    let report = load(
        &LoadOptions {
            workers: 1,
            ..options(&server, &files.batches)
        },
        |_| {},
    )
    .unwrap();
    assert_eq!((report.rows, report.connections), (360, 8));
    assert!(server.seen().text == fs::read(&files.lines).unwrap());
}

#[test]
fn acknowledged_rows_that_cannot_be_read_fail_the_load() {
    let files = files();
    for (faults, counted) in [
        (
            Faults {
                hide_rows: 10,
                ..Faults::default()
            },
            350,
        ),
        (
            Faults {
                count_twice: true,
                ..Faults::default()
            },
            720,
        ),
    ] {
        let server = Server::start(faults, false);
        let impatient = LoadOptions {
            visible_wait: Duration::ZERO,
            ..options(&server, &files.batches)
        };
        let error = load(&impatient, |_| {}).unwrap_err();
        let Error::NotVisible {
            acknowledged: 360,
            before: 0,
            visible,
            ..
        } = error
        else {
            panic!("{error}")
        };
        assert_eq!(visible, counted);
    }
}

/// Gives the server a thousand rows that were there before.
fn have_rows(server: &Server) {
    let mut seen = server.seen();
    seen.tables.insert("cpu".to_owned(), 1000);
    seen.rows = 1000;
}

#[test]
fn a_database_with_rows_in_it_can_be_loaded() {
    let files = files();
    let server = Server::start(Faults::default(), false);
    have_rows(&server);
    let report = load(&options(&server, &files.batches), |_| {}).unwrap();
    assert_eq!(
        (report.rows, report.visible.rows_before, report.visible.rows),
        (360, 1000, 1360)
    );
}

#[test]
fn a_database_with_figures_tells_size_and_amplification_and_another_does_not() {
    let files = files();
    let server = Server::start(
        Faults {
            row_bytes_shown: Some(10),
            ..Faults::default()
        },
        false,
    );
    have_rows(&server);
    let patient = LoadOptions {
        settle_wait: Duration::from_mins(1),
        settle_quiet: Duration::from_millis(1),
        ..options(&server, &files.batches)
    };
    let report = load(&patient, |_| {}).unwrap();
    let store = report.store.unwrap();
    assert_eq!(store.before.segment_bytes, 10_000);
    assert_eq!(store.settled.segment_bytes, 13_600);
    // 360 rows of ten values in 3600 bytes.
    assert_eq!(
        (store.write_amplification, store.bytes_per_value),
        (2.5, 1.0)
    );
    let table = report.table();
    assert!(table.contains("1.0000 bytes a value"), "{table}");

    let server = Server::start(Faults::default(), false);
    let report = load(&options(&server, &files.batches), |_| {}).unwrap();
    assert_eq!(report.store, None);
}

#[test]
fn limits_end_a_load_at_a_whole_batch() {
    let files = files();
    let server = Server::start(Faults::default(), false);
    let limited = LoadOptions {
        rows_max: Some(101),
        ..options(&server, &files.batches)
    };
    assert_eq!(load(&limited, |_| {}).unwrap().rows, 150);
    let server = Server::start(Faults::default(), false);
    let limited = LoadOptions {
        time_max: Some(Duration::ZERO),
        ..options(&server, &files.batches)
    };
    let report = load(&limited, |_| {}).unwrap();
    assert_eq!(
        (report.rows, report.batches, server.seen().writes),
        (0, 0, 0)
    );
}

#[test]
fn what_cannot_be_loaded_is_refused_with_a_reason() {
    let files = files();
    let server = Server::start(Faults::default(), false);
    let fails = |options: &LoadOptions| load(options, |_| {}).unwrap_err();
    let base = options(&server, &files.batches);
    assert!(matches!(
        fails(&LoadOptions {
            workers: 0,
            ..base.clone()
        }),
        Error::Spec { .. }
    ));
    assert!(matches!(
        fails(&LoadOptions {
            url: "localhost".to_owned(),
            ..base.clone()
        }),
        Error::Address { .. }
    ));
    assert!(matches!(
        fails(&LoadOptions {
            file: "no such file".into(),
            ..base.clone()
        }),
        Error::Io { .. }
    ));
    let unreachable = LoadOptions {
        // Port 1 of the loopback address is nobody's.
        url: "http://127.0.0.1:1".to_owned(),
        reach_wait: Duration::ZERO,
        ..base.clone()
    };
    assert!(matches!(fails(&unreachable), Error::Unreachable { .. }));
    for (name, bytes) in [
        ("empty", &b""[..]),
        ("gzip", b"\x1f\x8b\x08rest"),
        ("zstd", b"\x28\xb5\x2f\xfdrest"),
    ] {
        let file = files.batches.with_file_name(name);
        fs::write(&file, bytes).unwrap();
        let error = fails(&LoadOptions {
            file,
            ..base.clone()
        });
        assert!(
            matches!(error, Error::NotLoadable { .. }),
            "{name}: {error}"
        );
    }
    let cut = files.batches.with_file_name("cut");
    let whole = fs::read(&files.batches).unwrap();
    fs::write(&cut, &whole[..whole.len() - 9]).unwrap();
    assert!(matches!(
        fails(&LoadOptions { file: cut, ..base }),
        Error::Truncated { .. }
    ));
}

#[test]
fn a_paced_load_takes_the_time_of_its_rows() {
    let files = files();
    let server = Server::start(Faults::default(), false);
    let mut paced = options(&server, &files.batches);
    paced.rows_per_second = Some(1000.0);
    // 360 rows in batches of 50: the last one is not sent before 350 rows had their time.
    let report = load(&paced, |_| {}).unwrap();
    assert_eq!(report.rows, 360);
    assert!(report.seconds >= 0.349, "{}", report.seconds);
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        paced.rows_per_second = Some(rate);
        assert!(
            matches!(load(&paced, |_| {}), Err(Error::Spec { .. })),
            "{rate}"
        );
    }
}

#[test]
fn a_load_ends_when_it_is_asked_to() {
    let files = files();
    let server = Server::start(Faults::default(), false);
    let mut paced = options(&server, &files.batches);
    // An hour for the second batch.
    paced.rows_per_second = Some(50.0 / 3600.0);
    let stop = std::sync::Arc::clone(&paced.stop);
    let report = load(&paced, |_| {
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    })
    .unwrap();
    assert_eq!((report.rows, report.visible.rows), (50, 50));
}

#[test]
fn queries_are_timed_by_type_and_their_rows_counted() {
    let server = Server::start(Faults::default(), false);
    let specs = statements(&spec(), 4, 2).unwrap();
    let timings = run_queries(&server.url, "bench", &specs, &QueryOptions::new(3)).unwrap();
    assert_eq!(timings.len(), 15);
    for timing in &timings {
        assert_eq!((timing.runs, timing.rows), (6, 2), "{}", timing.name);
        assert!(
            0.0 < timing.min_ms
                && timing.min_ms <= timing.median_ms
                && timing.median_ms <= timing.p99_ms
                && timing.p99_ms <= timing.max_ms
        );
        assert!(timing.per_second > 0.0 && timing.per_second <= 1e3 / timing.min_ms);
    }
    let seen = server.seen();
    let asked: Vec<&String> = seen
        .targets
        .iter()
        .filter(|t| t.contains("query_sql"))
        .collect();
    assert_eq!(asked.len(), 90);
    assert!(
        asked[0].starts_with("/api/v3/query_sql?db=bench&q=select%20time_bucket%28")
            && asked[0].ends_with("&format=json"),
        "{}",
        asked[0]
    );
    assert_eq!(seen.query_connections, 1, "one client keeps its connection");
    drop(seen);
    let server = Server::start(
        Faults {
            refuse_queries: true,
            ..Faults::default()
        },
        false,
    );
    let error = run_queries(&server.url, "bench", &specs, &QueryOptions::new(1)).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("no such function") && text.contains("time_bucket"),
        "{text}"
    );
}

#[test]
fn clients_ask_all_statements_each_over_a_connection_of_its_own() {
    let server = Server::start(Faults::default(), false);
    let specs = statements(&spec(), 4, 3).unwrap();
    let options = QueryOptions {
        clients: 4,
        ..QueryOptions::new(2)
    };
    let timings = run_queries(&server.url, "bench", &specs, &options).unwrap();
    assert!(
        timings
            .iter()
            .all(|t| t.runs == 4 * 3 * 2 && t.clients == 4)
    );
    let seen = server.seen();
    assert_eq!(seen.query_connections, 4);
    for spec in &specs {
        // `lastpoint` is one statement, three times.
        let same = specs.iter().filter(|other| other.sql == spec.sql).count();
        let target = format!("/api/v3/query_sql?db=bench&q={}&format=json", spec.sql);
        let asked = seen.targets.iter().filter(|t| decoded(t) == target);
        assert_eq!(asked.count(), 8 * same, "{}", spec.sql);
    }
    for (clients, repeats) in [(0, 1), (1, 0)] {
        let none = QueryOptions {
            clients,
            ..QueryOptions::new(repeats)
        };
        let error = run_queries(&server.url, "bench", &specs, &none).unwrap_err();
        assert!(matches!(error, Error::Spec { .. }));
    }
}

/// A target without its percent signs.
fn decoded(target: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = target.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first == b'%' {
            let hex = std::str::from_utf8(&rest[..2]).unwrap();
            bytes.push(u8::from_str_radix(hex, 16).unwrap());
            rest = &rest[2..];
        } else {
            bytes.push(first);
        }
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_request_of_a_query_is_never_repeated() {
    // What was once asked twice, after a connection that broke, had the time of both in one figure.
    let server = Server::start(
        Faults {
            hang_up_on_query: Some(2),
            ..Faults::default()
        },
        false,
    );
    let specs = statements(&spec(), 4, 1).unwrap();
    let error = run_queries(&server.url, "bench", &specs[..1], &QueryOptions::new(5)).unwrap_err();
    assert!(matches!(error, Error::NoAnswer { .. }), "{error}");
    let asked = server
        .seen()
        .targets
        .iter()
        .filter(|t| t.contains("query_sql"))
        .count();
    assert_eq!(asked, 3);
}

#[test]
fn answers_in_arrow_are_asked_for_and_their_rows_counted() {
    let server = Server::start(Faults::default(), false);
    let specs = statements(&spec(), 4, 1).unwrap();
    let options = QueryOptions {
        format: AnswerFormat::Arrow,
        ..QueryOptions::new(1)
    };
    let timings = run_queries(&server.url, "bench", &specs, &options).unwrap();
    assert!(timings.iter().all(|t| t.rows == 3 && t.answer_bytes == 448));
    // A server that answers in JSON all the same is found out.
    let server = Server::start(
        Faults {
            json_only: true,
            ..Faults::default()
        },
        false,
    );
    let error = run_queries(&server.url, "bench", &specs, &options).unwrap_err();
    assert!(error.to_string().contains("not the arrow"), "{error}");
}

#[test]
fn queries_run_while_rows_arrive_and_end_the_load() {
    let files = files();
    let server = Server::start(Faults::default(), false);
    let mut arriving = options(&server, &files.batches);
    // The second batch would come after an hour, so the queries end first.
    arriving.rows_per_second = Some(50.0 / 3600.0);
    let specs = statements(&spec(), 4, 1).unwrap();
    let run = |arriving: &LoadOptions| {
        run_while_loading(
            arriving,
            &server.url,
            "bench",
            &specs,
            &QueryOptions::new(1),
        )
        .unwrap()
    };
    let (timings, arrival) = run(&arriving);
    assert_eq!(timings.len(), 15);
    assert_eq!((arrival.rows, arrival.is_to_the_end), (50, true));
    let first_query = server
        .seen()
        .targets
        .iter()
        .position(|t| t.contains("time_bucket"))
        .unwrap();
    let first_write = server
        .seen()
        .targets
        .iter()
        .position(|t| t.contains("write_lp"))
        .unwrap();
    assert!(
        first_write < first_query,
        "rows arrive before the first statement"
    );
    assert!(!arrival.line().contains("ended before"));
    // A file of one batch has ended before the first statement.
    let mut short = options(&server, &files.batches);
    short.rows_max = Some(50);
    let (_, arrival) = run(&short);
    assert_eq!((arrival.rows, arrival.is_to_the_end), (50, false));
    assert!(
        arrival.line().contains("ended before"),
        "{}",
        arrival.line()
    );
}

#[test]
fn lines_that_replace_others_are_not_missed_after_the_load() {
    // A row of a truck without its name may have the tags and the time of another one: a database shows one row.
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("iot.batches");
    let spec = Spec {
        workload: Workload::Iot,
        hosts: 16_000,
        end_ns: spec().start_ns + 5 * spec().interval_ns,
        ..spec()
    };
    let made = generate(&spec, &file, FileFormat::BatchFile, 10_000, |_| {}).unwrap();
    assert!(made.replaced > 0, "the data set is too small for this test");
    let server = Server::start(
        Faults {
            hide_rows: made.replaced,
            ..Faults::default()
        },
        false,
    );
    let mut once = options(&server, &file);
    once.visible_wait = Duration::ZERO;
    let report = load(&once, |_| {}).unwrap();
    assert_eq!((report.rows, report.values), (made.rows, Some(made.values)));
    assert_eq!(report.visible.rows, made.rows - made.replaced);
    let counted = server
        .seen()
        .targets
        .iter()
        .filter(|t| t.contains("count%28%2A%29"))
        .count();
    assert_eq!(counted, 4, "both tables, before and after");
    // One row fewer, or one more, is a fault of the database.
    for hide_rows in [made.replaced + 1, made.replaced - 1] {
        let server = Server::start(
            Faults {
                hide_rows,
                ..Faults::default()
            },
            false,
        );
        let mut once = options(&server, &file);
        once.visible_wait = Duration::ZERO;
        assert!(
            matches!(load(&once, |_| {}), Err(Error::NotVisible { .. })),
            "{hide_rows}"
        );
    }
}
