//! Promise: looking at a store finds every damaged file in it, names all of them at once, and changes nothing.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nilometer_engine::ingest::Session;
use nilometer_engine::{Engine, Error, Options};
use nilometer_lineproto::Precision;

/// A closed store of two segments and a log with rows that are in neither.
fn store(dir: &Path) {
    let engine = Arc::new(Engine::open_dir(dir, Options::default()).unwrap());
    engine.create_database("d").unwrap();
    let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
    for round in 0..3 {
        let lines: Vec<String> = (0..2000)
            .map(|n| format!("m,host=h{} v={n},s=\"{n}\" {}\n", n % 3, round * 2000 + n))
            .collect();
        let lines = lines.concat();
        session
            .write_lines(lines.as_bytes(), Precision::Second)
            .unwrap();
        if round < 2 {
            engine.flush().unwrap();
        }
    }
}

fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.append(&mut self::files(&path));
        } else {
            files.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    files
}

#[test]
fn a_store_in_order_has_no_damage_and_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path());
    let before = files(dir.path());
    let verified = Engine::verify_dir(dir.path()).unwrap();
    assert_eq!(verified.damage, []);
    assert_eq!(verified.segments, 2);
    assert!(
        verified.pages > 10 && verified.log_files > 0,
        "{verified:?}"
    );
    assert!(files(dir.path()) == before);
}

#[test]
fn every_damaged_file_is_named_in_one_go() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path());
    let segments: Vec<PathBuf> = files(dir.path())
        .into_keys()
        .filter(|path| path.extension().is_some_and(|it| it == "seg"))
        .collect();
    assert_eq!(segments.len(), 2);
    for path in &segments {
        let mut bytes = std::fs::read(path).unwrap();
        // Pages come first: two of them, far apart.
        let (first, second) = (200, bytes.len() / 2);
        bytes[first] ^= 1;
        bytes[second] ^= 1;
        std::fs::write(path, bytes).unwrap();
    }
    let damage = Engine::verify_dir(dir.path()).unwrap().damage;
    for path in &segments {
        let places: Vec<u64> = damage
            .iter()
            .filter(|it| it.path == *path)
            .map(|it| it.offset)
            .collect();
        assert!(
            places.len() >= 2 && places.iter().any(|at| *at <= 200),
            "{damage:?}"
        );
    }
    std::fs::remove_file(&segments[0]).unwrap();
    let damage = Engine::verify_dir(dir.path()).unwrap().damage;
    assert!(damage.iter().any(|it| it.path == segments[0]), "{damage:?}");
}

#[test]
fn what_is_no_store_or_is_open_is_not_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let error = Engine::verify_dir(dir.path()).unwrap_err();
    assert!(matches!(error, Error::NotAStore { .. }), "{error}");
    let engine = Engine::open_dir(dir.path(), Options::default()).unwrap();
    let error = Engine::verify_dir(dir.path()).unwrap_err();
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    drop(engine);
    let mut manifest = std::fs::read(dir.path().join("manifest")).unwrap();
    manifest[20] ^= 1;
    std::fs::write(dir.path().join("manifest"), manifest).unwrap();
    assert!(Engine::verify_dir(dir.path()).is_err());
}
