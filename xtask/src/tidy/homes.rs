//! Heavy or contagious dependencies each have a home, and stay there.
//!
//! Does: fail if another crate's manifest names one of them.
//! Does not: look at what those crates pull in themselves.

use crate::tree::{Finding, Tree};
use crate::workspace::{Workspace, line_of_dependency};

struct Home {
    /// The dependency, or the first part of its name up to a hyphen.
    dependency: &'static str,
    crates: &'static [&'static str],
    reason: &'static str,
}

const HOMES: &[Home] = &[
    Home {
        dependency: "datafusion",
        crates: &["nilometer-query"],
        reason: "its API changes monthly and its build is the longest: one crate absorbs both",
    },
    Home {
        dependency: "tokio",
        crates: &[
            "nilometer-service",
            "nilometer-query",
            "nilometer-listener",
            "nilometer-http",
            "nilometer-native",
            "nilometer-influx",
            "nilometer-postgres",
            "nilometer-tstorage",
            "nilometer-influxql",
            "nilometer-bench",
            "nilometer-simserver",
            "nilometer",
        ],
        reason: "the engine is synchronous, so that a seeded simulation can drive every step of it",
    },
    Home {
        dependency: "axum",
        crates: &[
            "nilometer-http",
            "nilometer-native",
            "nilometer-influx",
            "nilometer-edge",
            "nilometer-simserver",
            "nilometer",
        ],
        reason: "only what is spoken over HTTP has routes; the simulation and the program's tests call them without a socket",
    },
    Home {
        dependency: "hyper",
        crates: &["nilometer-http"],
        reason: "the service knows no protocol, so that every surface can stand on it",
    },
    Home {
        dependency: "nilometer-query",
        crates: &["nilometer", "nilometer-simserver"],
        reason: "SQL is a language that the program hands to the service: no surface depends on it, and a build can leave it out",
    },
    Home {
        dependency: "clap",
        crates: &["nilometer"],
        reason: "only the binary has a command line",
    },
    Home {
        dependency: "anyhow",
        crates: &["nilometer", "nilometer-bench", "nilometer-ledger", "xtask"],
        reason: "a library's error says what its caller can do, which an opaque one cannot",
    },
];

pub(crate) fn check(tree: &Tree, workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for krate in &workspace.crates {
        for dependency in &krate.dependencies {
            let family = dependency.split('-').next().unwrap_or_default();
            let Some(home) = HOMES
                .iter()
                .find(|home| home.dependency == dependency || home.dependency == family)
            else {
                continue;
            };
            if !home.crates.contains(&krate.name.as_str()) {
                let line =
                    line_of_dependency(tree.text(&krate.manifest).unwrap_or_default(), dependency);
                let message = format!(
                    "`{dependency}` belongs to {} alone: {}",
                    home.crates.join(", "),
                    home.reason
                );
                findings.push(Finding::new(krate.manifest.clone(), line, message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::texts;

    #[test]
    fn a_heavy_dependency_outside_its_home_is_found() {
        let workspace = Workspace::of(&[
            ("nilometer-engine", &["tokio", "crc32c"]),
            ("nilometer-query", &["datafusion", "datafusion-functions"]),
            ("nilometer-http", &["datafusion-functions"]),
        ]);
        let tree = Tree::of(&[(
            "crates/engine/Cargo.toml",
            "[dependencies]\ntokio = { workspace = true }\n",
        )]);
        let found: Vec<String> = texts(&check(&tree, &workspace));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with("crates/engine/Cargo.toml:2: `tokio`"),
            "{found:?}"
        );
        assert!(
            found[1].starts_with("crates/http/Cargo.toml:1: `datafusion-functions`"),
            "{found:?}"
        );
    }
}
