//! Promise: a data directory of an earlier format opens and answers as it did, or is refused by its number, with what to do
//! about it; one of a newer format is refused by its number. Whatever is refused is left as it is: nothing is put aside.
//!
//! `golden/README.md` says where the stores come from. What is expected of them is written from what was written into
//! them, not from what a reader said.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::copy::copy;
use crate::files::files_in;
use crate::rich::{self, assert_same};
use crate::support::{Answer, everything};
use nilometer_codec::crc32c;
use nilometer_engine::disk::{CrashPlan, Disk, FaultyDisk};
use nilometer_engine::{Engine, Error, OnDamage, Options};

fn stores() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/stores")
}

fn options() -> Options {
    Options {
        on_damage: OnDamage::Quarantine,
        on_log_damage: OnDamage::Quarantine,
        ..Options::default()
    }
}

fn open(dir: &Path) -> Result<Arc<Engine>, Error> {
    Engine::open_dir(dir, options()).map(Arc::new)
}

/// A store that was frozen, copied so that it may be opened.
struct Frozen {
    name: String,
    folder: PathBuf,
    scratch: tempfile::TempDir,
}

impl Frozen {
    fn all() -> Vec<Self> {
        let names = std::fs::read_dir(stores()).unwrap();
        let names: BTreeSet<PathBuf> = names.map(|it| it.unwrap().path()).collect();
        names.into_iter().map(Self::of).collect()
    }

    fn of(folder: PathBuf) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        copy(&folder.join("data"), &scratch.path().join("data"));
        Self {
            name: folder.file_name().unwrap().to_string_lossy().into_owned(),
            folder,
            scratch,
        }
    }

    fn newest() -> Self {
        Self::all().pop().unwrap()
    }

    fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    /// What the error says, for a store that is not read any more.
    fn refusal(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.folder.join("refused")).ok()?;
        Some(text.trim().to_owned())
    }

    fn expected(&self) -> Answer {
        let json = std::fs::read_to_string(self.folder.join("expected.json")).unwrap();
        serde_json::from_str(&json).unwrap()
    }
}

#[test]
fn every_frozen_store_answers_as_it_did_or_is_refused_by_its_number() {
    let all = Frozen::all();
    assert!(all.len() >= 6, "{} stores", all.len());
    for store in &all {
        let (name, dir) = (&store.name, store.data());
        let before = files_in(&dir);
        if let Some(refusal) = store.refusal() {
            let error = open(&dir).unwrap_err();
            assert!(
                matches!(error, Error::OlderFormat { .. }),
                "{name}: {error}"
            );
            let text = error.to_string();
            assert!(text.contains(&refusal), "{name}: {text}");
            assert!(text.contains("nilometer export"), "{name}: {text}");
            assert!(files_in(&dir) == before, "{name}: a refused store changed");
            continue;
        }
        for opening in ["as it was frozen", "opened once", "settled"] {
            let engine = open(&dir).unwrap_or_else(|error| panic!("{name}, {opening}: {error}"));
            assert_eq!(engine.quarantined(), [], "{name}, {opening}");
            let answer = everything(&engine).unwrap();
            assert_same(&answer, &store.expected(), &format!("{name}, {opening}"));
            if opening == "opened once" {
                engine.settle().unwrap();
                assert_eq!(segment_formats(&engine), now(), "{name}");
                let answer = everything(&engine).unwrap();
                let when = format!("{name}, merged and compacted");
                assert_same(&answer, &store.expected(), &when);
            }
            drop(engine);
            let verified = Engine::verify_dir(&dir).unwrap();
            assert_eq!(verified.damage, [], "{name}, {opening}");
        }
        let folders: Vec<_> = files_in(&dir).into_keys().collect();
        let aside = |path: &&PathBuf| path.starts_with(dir.join("quarantine"));
        assert_eq!(folders.iter().find(aside), None, "{name}");
    }
}

/// The format of every segment of a store that is settled.
fn now() -> BTreeSet<u16> {
    BTreeSet::from([Options::default().segment_format])
}

fn segment_formats(engine: &Arc<Engine>) -> BTreeSet<u16> {
    let segments = engine.snapshot().segments();
    segments.into_iter().map(|it| it.format).collect()
}

/// Segments of an earlier format are rewritten while rows come, and the process dies at each call of the disk in turn.
#[test]
fn segments_are_rewritten_in_the_format_of_now_whatever_happens_meanwhile() {
    for format in 1..Options::default().segment_format {
        segments_are_rewritten(format);
    }
}

fn segments_are_rewritten(format: u16) {
    let disk = FaultyDisk::new(7, CrashPlan::default());
    let dir = Path::new("/d");
    let shared = || -> Arc<dyn Disk> { Arc::new(disk.clone()) };
    let earlier = Options {
        segment_format: format,
        ..rich::options()
    };
    let expected = rich::make(&shared(), dir, earlier.clone()).now;
    // What only the log has becomes a segment of the earlier format as well.
    let engine = rich::open(&shared(), dir, earlier);
    engine.flush().unwrap();
    assert_eq!(segment_formats(&engine), BTreeSet::from([format]));
    drop(engine);
    let life = |seed, plan: CrashPlan| {
        let disk = disk.after_power_cut(seed, CrashPlan::default());
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let engine = rich::open(&shared, dir, rich::options());
        disk.set_plan(plan);
        let settled = engine.settle();
        if let Ok(answer) = everything(&engine) {
            assert_same(&answer, &expected, "while it dies");
        }
        let calls = disk.calls();
        drop(engine);
        (disk, settled, calls)
    };
    let (_, settled, calls) = life(1, CrashPlan::default());
    settled.unwrap();
    assert!(calls > 10, "{calls} calls rewrite nothing");
    for crash_at in 1..=calls {
        let plan = CrashPlan {
            crash_at: Some(crash_at),
            ..CrashPlan::default()
        };
        let (disk, ..) = life(crash_at, plan);
        let disk: Arc<dyn Disk> = Arc::new(disk.after_power_cut(crash_at, CrashPlan::default()));
        let engine = rich::open(&disk, dir, rich::options());
        let when = format!("format {format}, killed at call {crash_at}");
        assert_same(&everything(&engine).unwrap(), &expected, &when);
        engine.settle().unwrap();
        assert_eq!(segment_formats(&engine), now(), "{when}");
        assert_same(&everything(&engine).unwrap(), &expected, &when);
    }
}

#[test]
fn a_frozen_store_that_is_read_verifies_as_it_is() {
    for store in Frozen::all().iter().filter(|it| it.refusal().is_none()) {
        let before = files_in(&store.data());
        let verified = Engine::verify_dir(&store.data()).unwrap();
        assert_eq!(verified.damage, [], "{}", store.name);
        assert!(files_in(&store.data()) == before, "{}", store.name);
    }
}

/// Kinds of file by how they start, with the bytes of their own fields in the header.
const KINDS: [(&[u8; 8], usize); 8] = [
    (b"NILOLOG0", 16),
    (b"NILOMAN0", 0),
    (b"NILOSEG0", 8),
    (b"NILOIDX0", 8),
    (b"NILODEF0", 16),
    (b"NILOKEY0", 16),
    (b"NILOREL0", 16),
    (b"NILOBAK0", 8),
];

/// The header as a version with this format would have written it.
fn with_format(bytes: &[u8], own: usize, format: u16) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[8..10].copy_from_slice(&format.to_le_bytes());
    let end = 32 + own;
    let crc = crc32c(0, &bytes[..end]);
    bytes[end..end + 4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// A store, and a backup of it, with a file of each kind.
fn of_every_kind() -> Frozen {
    let store = Frozen::newest();
    let engine = open(&store.data()).unwrap();
    engine.backup(&store.scratch.path().join("backup")).unwrap();
    drop(engine);
    // As it was frozen: opening had made its log shorter.
    std::fs::remove_dir_all(store.data()).unwrap();
    copy(&store.folder.join("data"), &store.data());
    store
}

#[test]
fn a_newer_format_of_any_kind_of_file_is_refused_by_its_number_and_nothing_is_moved() {
    let mut seen: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    let base = of_every_kind();
    for folder in ["data", "backup"] {
        let from = base.scratch.path().join(folder);
        for (path, bytes) in files_in(&from) {
            let kind = KINDS.iter().find(|(magic, _)| bytes.starts_with(*magic));
            let Some((magic, own)) = kind else { continue };
            let scratch = tempfile::tempdir().unwrap();
            let dir = scratch.path().join("copy");
            copy(&from, &dir);
            let path = dir.join(path.strip_prefix(&from).unwrap());
            std::fs::write(&path, with_format(&bytes, *own, 999)).unwrap();
            let before = files_in(&dir);
            let is_refused = |error: Error| {
                // Restoring looks at its copy.
                let named = matches!(&error, Error::NewerFormat { path: named, found: 999, .. }
                    if named.file_name() == path.file_name());
                assert!(named, "{}: {error}", path.display());
                assert!(files_in(&dir) == before, "{}", path.display());
            };
            is_refused(open(&dir).unwrap_err());
            if folder == "backup" {
                let to = scratch.path().join("restored");
                is_refused(Engine::restore_dir(&dir, &to).unwrap_err());
            }
            *seen.entry(magic.to_vec()).or_default() += 1;
        }
    }
    assert_eq!(seen.len(), KINDS.len(), "{seen:?}");
}

#[test]
fn looking_at_a_store_of_an_earlier_form_names_the_format_and_no_damage() {
    let stores = Frozen::all();
    let mut refused = 0;
    for old in stores.iter().filter(|it| it.refusal().is_some()) {
        let error = match Engine::verify_dir(&old.data()) {
            Ok(verified) => panic!("{}: {:?}", old.name, verified.damage),
            Err(error) => error,
        };
        assert!(
            matches!(error, Error::OlderFormat { found: 0, .. }),
            "{}: {error}",
            old.name
        );
        refused += 1;
    }
    assert!(refused > 0);
}
