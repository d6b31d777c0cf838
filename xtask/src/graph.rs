//! `cargo xtask graph`: the program and its tests compile the same third-party code, and the program can be built without SQL.
//!
//! Does: ask cargo which features every package gets when the program is built and when its tests are, and report packages
//! that differ: one such package low in the graph makes cargo compile everything above it a second time. Report what of SQL is
//! in the program without default features.
//! Does not: compare the parts that leave DataFusion out; they are small.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::Report;

const PROGRAM: &[&str] = &["--edges", "normal,build", "--package", "nilometer"];
/// The program for small machines.
const WITHOUT_SQL: &[&str] = &[
    "--edges",
    "normal,build",
    "--no-default-features",
    "--package",
    "nilometer",
];
/// What it is without, with all that begins like this.
const OF_SQL: [&str; 5] = [
    "arrow-cast",
    "datafusion",
    "nilometer-query",
    "parquet",
    "pgwire",
];
/// The selection of scripts/test.sh for the part `rest`.
const TESTS: &[&str] = &[
    "--edges",
    "normal,build,dev",
    "--workspace",
    "--exclude",
    "nilometer-sim",
    "--exclude",
    "nilometer-codec",
    "--exclude",
    "nilometer-lineproto",
    "--exclude",
    "nilometer-summaries",
    "--exclude",
    "nilometer-engine",
    "--exclude",
    "nilometer-series",
    "--exclude",
    "nilometer-hostile",
    "--exclude",
    "xtask",
];

/// What each package is compiled with; one package can be there more than once, for programs and for build scripts.
type Features = BTreeMap<String, Vec<String>>;

pub(crate) fn run(root: &Path) -> Result<Report> {
    let program = features(root, PROGRAM)?;
    let tests = features(root, TESTS)?;
    let mut findings = differences(&program, &tests);
    findings.extend(of_sql(&features(root, WITHOUT_SQL)?));
    let mut text = String::new();
    for finding in &findings {
        writeln!(text, "{finding}")?;
    }
    writeln!(
        text,
        "graph: {} packages in the program, {} findings",
        program.len(),
        findings.len()
    )?;
    Ok(Report {
        text,
        findings: findings.len(),
    })
}

fn features(root: &Path, selection: &[&str]) -> Result<Features> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "tree",
            "--offline",
            "--locked",
            "--prefix",
            "none",
            "--format",
            "{p}|{f}",
        ])
        .args(selection)
        .current_dir(root)
        .output()
        .context("start `cargo tree`")?;
    if !output.status.success() {
        bail!(
            "`cargo tree --offline` failed; run `cargo fetch` once if packages are missing:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(parse(&String::from_utf8(output.stdout)?))
}

/// Reads lines like `rand v0.10.3|alloc,std (*)`, where the mark says that the package was listed before.
fn parse(listing: &str) -> Features {
    let mut features = Features::new();
    for line in listing.lines() {
        let Some((package, set)) = line.trim_end_matches(" (*)").split_once('|') else {
            continue;
        };
        // After name and version come remarks, for instance the path of a crate of the workspace.
        let package: Vec<&str> = package.split(' ').take(2).collect();
        let sets = features.entry(package.join(" ")).or_default();
        if !sets.iter().any(|known| known == set) {
            sets.push(set.to_owned());
            sets.sort();
        }
    }
    features
}

fn differences(program: &Features, tests: &Features) -> Vec<String> {
    let shared = program
        .iter()
        .filter_map(|(package, ours)| Some((package, ours, tests.get(package)?)));
    shared
        .filter(|(_, ours, theirs)| ours != theirs)
        .map(|(package, ours, theirs)| {
            format!(
                "Cargo.toml:1: {package} has the features [{}] in the program and [{}] in the tests, so what stands above it is compiled twice; name the missing ones in [workspace.dependencies]",
                ours.join("] and ["),
                theirs.join("] and [")
            )
        })
        .collect()
}

/// What a program without SQL should not have.
fn of_sql(without: &Features) -> Vec<String> {
    let packages = without.keys();
    let found = packages.filter(|it| OF_SQL.iter().any(|part| it.starts_with(part)));
    found
        .map(|package| {
            format!(
                "crates/nilometer/Cargo.toml:1: {package} is in the program without default features; only `nilometer-query` may need it, and only the feature `sql` that"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_with_other_features_in_the_tests_is_found() {
        let program =
            parse("rand v0.10.3|std\nours v0.1.0 (somewhere)|\nserde v1.0.0|derive (*)\n");
        let tests = parse(
            "rand v0.10.3|std,sys_rng\nours v0.1.0 (somewhere)|\nserde v1.0.0|derive\nproptest v1.0.0|std\n",
        );
        let found = differences(&program, &tests);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].contains(
                "rand v0.10.3 has the features [std] in the program and [std,sys_rng] in the tests"
            ),
            "{found:?}"
        );
    }

    #[test]
    fn what_is_of_sql_is_found_in_a_program_without_it() {
        let found = of_sql(&parse(
            "datafusion-common v55.2.0|sql\narrow v59.2.0|\nnilometer v0.1.0|\n",
        ));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("datafusion-common v55.2.0"), "{found:?}");
        assert!(of_sql(&parse("arrow v59.2.0|\nsqlparser-like v1.0.0|\n")).is_empty());
    }

    #[test]
    fn the_order_in_which_packages_are_listed_does_not_matter() {
        let one = parse("syn v2.0.0|full\nsyn v2.0.0|derive\n\nsyn v2.0.0|full (*)\n");
        let other = parse("syn v2.0.0|derive\nsyn v2.0.0|full\n");
        assert_eq!(one, other);
        assert!(differences(&one, &other).is_empty());
    }
}
