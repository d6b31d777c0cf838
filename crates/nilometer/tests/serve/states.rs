//! The states a store can be in between a write and the day it is cold, each reached by a real process.
//!
//! An answer must not depend on them. Every step asserts by the server's own gauges that it is in the state it
//! claims, so that no test passes because it never left the head.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Server, run, wait_for};

/// Rows after which the head becomes a segment: never, in these tests.
const NEVER_FLUSH: &[&str] = &["--flush-rows", "10000000", "--flush-idle-ms", "0"];
/// Rows after which the head becomes a segment, few enough for many segments from any use case.
const FLUSH_ROWS: f64 = 5_000.0;
const FLUSH_SOON: &[&str] = &["--flush-rows", "5000"];
/// Compaction at once and of every size, so that even small data sets become partitions with files of their own.
const COMPACT_SOON: &[&str] = &[
    "--flush-rows",
    "5000",
    "--settle-ms",
    "1",
    "--compaction-fan-in",
    "2",
    "--partition-rows-min",
    "1",
    "--widen-rows-max",
    "0",
];

/// Loads into a head that never flushes and checks: in the head, after a crash, after a stop, after another crash.
pub(crate) fn from_head_to_segment(load: impl Fn(&Server) -> usize, check: impl Fn(&Server, &str)) {
    let directory = TempDir::new().expect("a directory for the data");
    let data = directory.path();

    let server = Server::start(data, NEVER_FLUSH);
    let points = load(&server);
    assert_is_head(&server, points, "loaded");
    check(&server, "in the head");
    assert_is_head(&server, points, "loaded and queried");
    server.kill();

    let server = Server::start(data, NEVER_FLUSH);
    assert_is_head(&server, points, "killed and replayed");
    check(
        &server,
        "in the head again, replayed from the log after kill -9",
    );
    server.stop();

    let server = Server::start(data, NEVER_FLUSH);
    assert_is_flushed(&server, "stopped and started");
    check(&server, "flushed by a graceful stop");
    server.kill();

    let server = Server::start(data, NEVER_FLUSH);
    assert_is_flushed(&server, "flushed, killed and started");
    check(&server, "flushed, after kill -9");
    server.stop();

    settle(data, &[]);
    let server = Server::start(data, NEVER_FLUSH);
    assert_is_flushed(&server, "settled and started");
    check(&server, "settled (compacted)");
    server.kill();
}

/// Loads into a head that flushes all the time and checks: while live, after a crash, after a stop.
pub(crate) fn through_live_flushes(load: impl Fn(&Server) -> usize, check: impl Fn(&Server, &str)) {
    let directory = TempDir::new().expect("a directory for the data");
    let data = directory.path();

    let server = Server::start(data, FLUSH_SOON);
    let points = load(&server);
    wait_for("the head to be flushed by its rows", || {
        (segments(&server) >= 1.0 && head_rows(&server) <= FLUSH_ROWS).then_some(())
    });
    assert!(
        points as f64 > FLUSH_ROWS,
        "{points} points never fill a head of {FLUSH_ROWS}"
    );
    check(&server, "flushed while live");
    server.kill();

    let server = Server::start(data, FLUSH_SOON);
    assert!(
        segments(&server) >= 1.0,
        "no segment after a live flush and kill -9"
    );
    check(&server, "flushed while live, after kill -9");
    server.stop();

    assert_restarts_flushed(data, &check);
    assert_restarts_compacted(data, &check);
}

fn assert_restarts_flushed(data: &Path, check: &impl Fn(&Server, &str)) {
    let server = Server::start(data, FLUSH_SOON);
    assert_is_flushed(&server, "flushed while live, stopped and started");
    check(&server, "flushed while live, after a graceful stop");
    server.stop();
}

/// Every segment becomes part of a partition's file, and the answers stay what they are.
fn assert_restarts_compacted(data: &Path, check: &impl Fn(&Server, &str)) {
    settle(data, COMPACT_SOON);
    let shown = run(None, &["inspect", "--json", "--data", text(data)]).stdout;
    let shown: Value = serde_json::from_str(&shown).expect("JSON on standard output");
    let segments = shown["segments"].as_array().expect("an array");
    assert!(
        !segments.is_empty() && segments.iter().all(|it| it["partition"].is_object()),
        "not every segment is a partition's: {shown:#}"
    );
    let server = Server::start(data, COMPACT_SOON);
    assert_is_flushed(&server, "settled and started");
    check(&server, "settled (compacted) into partitions");
    server.kill();
}

/// Loads while everything is compacted as soon as it can be, and checks: meanwhile, after a crash, after a stop.
pub(crate) fn through_live_compaction(
    load: impl Fn(&Server) -> usize,
    check: impl Fn(&Server, &str),
) {
    let directory = TempDir::new().expect("a directory for the data");
    let data = directory.path();

    let server = Server::start(data, COMPACT_SOON);
    load(&server);
    wait_for("partitions with files of their own", || {
        (server.metric("nilometer_partitions") >= 1.0).then_some(())
    });
    check(&server, "compacted while live");
    server.kill();

    let server = Server::start(data, COMPACT_SOON);
    check(&server, "compacted while live, after kill -9");
    server.stop();

    let server = Server::start(data, COMPACT_SOON);
    assert_is_flushed(&server, "compacted while live, stopped and started");
    check(&server, "compacted while live, after a graceful stop");
    server.stop();
}

/// Compacts a store that no server has open.
fn settle(data: &Path, flags: &[&str]) {
    let outcome = run(None, &[&["settle", "--data", text(data)], flags].concat());
    assert!(
        outcome.status.success(),
        "settle ended with {}: {}",
        outcome.status,
        outcome.stderr
    );
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

fn segments(server: &Server) -> f64 {
    server.metric("nilometer_segments")
}

fn head_rows(server: &Server) -> f64 {
    server.metric("nilometer_head_rows")
}

fn assert_is_head(server: &Server, points: usize, when: &str) {
    let state = (segments(server), head_rows(server));
    assert!(
        state == (0.0, points as f64),
        "{when}: (segments, head rows) = {state:?}, not (0, {points})"
    );
}

fn assert_is_flushed(server: &Server, when: &str) {
    let state = (segments(server), head_rows(server));
    assert!(
        state.0 >= 1.0 && state.1 == 0.0,
        "{when}: (segments, head rows) = {state:?}, not (1 or more, 0)"
    );
}
