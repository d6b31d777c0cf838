//! The corpus, replayed: what fuzzing kept, and as many random changes to it as there is time for in every run of the
//! tests. A panic prints the target, the input's file and the seed of the change.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]
#![expect(
    clippy::print_stdout,
    reason = "the seed of this run, which repeats it"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use nilometer_hostile::mutate::{Random, mutate};
use nilometer_hostile::{target, targets};

/// The same changes in every run of the tests; `make fuzz-smoke` draws others.
const SEED: u64 = 1;
/// Changes of each target's inputs; a store is opened for each input of the slow ones.
const CHANGES: u64 = 4000;
const CHANGES_SLOW: u64 = 300;
const SLOW: [&str; 5] = ["store", "typed_lines", "log_file", "log_records", "record"];
/// Longer inputs say nothing that a shorter one would not.
const INPUT_BYTES_MAX: u64 = 16 << 10;
const CORPUS_BYTES_MAX: u64 = 2_000_000;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/corpus")
}

/// The inputs of a target, in the order of their names.
fn inputs(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all: Vec<(PathBuf, Vec<u8>)> = fs::read_dir(corpus().join(name))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    all.sort();
    all
}

/// Says which input it was when a target panics.
struct Label(String);

impl Drop for Label {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", self.0);
        }
    }
}

#[test]
fn every_target_has_a_corpus_and_every_folder_of_the_corpus_a_target() {
    let known: BTreeSet<String> = targets().map(|(name, _)| name.to_owned()).collect();
    let found: BTreeSet<String> = fs::read_dir(corpus())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(known, found);
    let lengths = known.iter().flat_map(|name| inputs(name));
    let lengths: Vec<u64> = lengths.map(|(_, bytes)| bytes.len() as u64).collect();
    assert!(lengths.iter().all(|&length| length <= INPUT_BYTES_MAX));
    assert!(lengths.iter().sum::<u64>() < CORPUS_BYTES_MAX);
}

#[test]
fn every_target_has_a_fuzzer() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    for (name, _) in targets() {
        let source =
            fs::read_to_string(fuzz.join("fuzz_targets").join(format!("{name}.rs"))).unwrap();
        assert!(source.contains(&format!("\"{name}\"")), "{name}");
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
    }
}

#[test]
fn what_fuzzing_kept_breaks_no_promise() {
    for (name, run) in targets() {
        for (path, bytes) in inputs(name) {
            let _label = Label(path.display().to_string());
            run(&bytes);
        }
    }
}

#[test]
fn random_changes_to_what_fuzzing_kept_break_no_promise() {
    let seed = std::env::var("NILOMETER_HOSTILE_SEED").map_or(SEED, |it| it.parse().unwrap());
    println!("NILOMETER_HOSTILE_SEED={seed}");
    // Longer runs by hand: so many times as many.
    let times = std::env::var("NILOMETER_HOSTILE_TIMES").map_or(1, |it| it.parse().unwrap());
    for (at, (name, run)) in (0..).zip(targets()) {
        let inputs = inputs(name);
        let changes = if SLOW.contains(&name) {
            CHANGES_SLOW
        } else {
            CHANGES
        };
        for n in 0..changes * times {
            let mut random = Random::new(seed ^ (at << 32) ^ n);
            let (path, bytes) = &inputs[random.index(inputs.len())];
            let (_, other) = &inputs[random.index(inputs.len())];
            let input = mutate(bytes, other, &mut random);
            let _label = Label(format!(
                "{name}: {} changed, number {n}: {input:?}",
                path.display()
            ));
            run(&input);
        }
        println!("{name}: {} inputs", changes * times);
    }
}

/// Repeats one input: `NILOMETER_HOSTILE_INPUT=folder/file` of the corpus, or of a path of its own.
#[test]
fn an_input_that_is_named_breaks_no_promise() {
    let Ok(path) = std::env::var("NILOMETER_HOSTILE_INPUT") else {
        return;
    };
    let path = corpus().join(path);
    let name = path
        .parent()
        .unwrap()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap();
    target(name)(&fs::read(&path).unwrap());
}
