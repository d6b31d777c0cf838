//! Promise: a data directory that a released version wrote opens and answers as it did then.
//!
//! `golden/README.md` says when the files may change. With `NILOMETER_GOLDEN_WRITE` set they are made anew first; what
//! is expected of them is written by hand.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nilometer_engine::ingest::Session;
use nilometer_engine::{Engine, Options};
use nilometer_lineproto::Precision;
use support::{Answer, everything};

/// Database and lines of each write; the store is flushed after the first and the second.
const WRITES: [(&str, &str); 4] = [
    (
        "d",
        "weather,station=north,country=fi temp=-1.5,rain=0i,note=\"first snow\" 1000\n\
         weather,station=north,country=fi temp=-0.0 2000\n\
         weather,station=south temp=21.25,sunny=true 1000\n\
         meter,id=7 total=18446744073709551615u 86400000000000\n\
         meter,id=7 total=1u 1\n",
    ),
    (
        "d",
        "weather,station=north,country=fi note=\"overwritten\" 1000\n\
         weather,station=south temp=22.5,rain=-9223372036854775808i 1500\n\
         weather,station=\u{c5}land temp=1e300,note=\"a \\\"quoted\\\" word, \u{fc}ber\" -1000\n",
    ),
    (
        "d",
        "meter,id=8 total=2u 5\n\
         weather,station=south sunny=false 1000\n\
         wind speed=3.5 42\n",
    ),
    ("e", "wind speed=\"calm\" 43\n"),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/0/store")
}

fn open(dir: &Path) -> Arc<Engine> {
    Arc::new(Engine::open_dir(dir, Options::default()).unwrap())
}

fn make(dir: &Path) {
    if dir.exists() {
        std::fs::remove_dir_all(dir).unwrap();
    }
    let engine = open(dir);
    for (at, (database, lines)) in WRITES.iter().enumerate() {
        engine.create_database(database).unwrap();
        let mut session = Session::new(Arc::clone(&engine), database).unwrap();
        let report = session.write_lines(lines.as_bytes(), Precision::Nanosecond);
        assert_eq!(report.unwrap().rejected, []);
        if at < 2 {
            engine.flush().unwrap();
        }
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn the_golden_store_answers_as_it_did() {
    let data = folder().join("data");
    if std::env::var_os("NILOMETER_GOLDEN_WRITE").is_some() {
        make(&data);
    }
    let json = std::fs::read_to_string(folder().join("expected.json")).unwrap();
    let expected: Answer = serde_json::from_str(&json).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("data");
    copy(&data, &dir);

    let engine = open(&dir);
    assert_eq!(everything(&engine).unwrap(), expected, "as it was written");
    assert_eq!(engine.metrics().segments, 2);
    assert!(
        engine.metrics().head_rows > 0,
        "the log has rows of its own"
    );
    engine.close().unwrap();
    drop(engine);
    let engine = open(&dir);
    assert_eq!(engine.metrics().head_rows, 0);
    assert_eq!(everything(&engine).unwrap(), expected, "all in segments");
}
