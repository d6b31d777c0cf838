//! Builds the library for microcontrollers and its suite of measurements, so that `nilometer bench edge` needs no compiler where it runs.

use std::path::PathBuf;

fn main() {
    let edge = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../edge");
    let mut build = cc::Build::new();
    build
        // As firmwares are built, and quick in tests too.
        .opt_level(2)
        .include(edge.join("include"))
        .include(edge.join("src"))
        .include(edge.join("bench"))
        // Values of the suite are the same on every processor.
        .flag_if_supported("-ffp-contract=off")
        .std("c99");
    let sources = edge.join("src");
    println!("cargo::rerun-if-changed={}", sources.display());
    let mut files = vec![edge.join("bench/ne_suite.c")];
    for entry in std::fs::read_dir(&sources).expect("edge/src is part of the repository") {
        let path = entry.expect("edge/src can be read").path();
        if path.extension().is_some_and(|it| it == "c") {
            files.push(path);
        }
    }
    files.sort();
    let headers = ["bench", "include"].map(|folder| edge.join(folder));
    for path in files.iter().chain(&headers) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    build.files(&files).compile("nilometer_edge_suite");
}
