//! Cargo's view of the workspace: its crates and whom each of them names.
//!
//! Does: run `cargo metadata` offline and keep what the checks need.
//! Does not: resolve versions (that is `deny`, which asks for the whole graph).

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The crates of the workspace, sorted by name.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    pub(crate) crates: Vec<Crate>,
}

/// One crate of the workspace.
#[derive(Debug, Clone)]
pub(crate) struct Crate {
    pub(crate) name: String,
    /// Its `Cargo.toml`, relative to the root.
    pub(crate) manifest: String,
    /// `lib.rs` or, in a crate that is only a program, `main.rs`; relative to the root.
    pub(crate) root_source: String,
    /// Every crate its manifest names, for building, for tests and for build scripts alike.
    pub(crate) dependencies: Vec<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: String,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    src_path: String,
}

impl Workspace {
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let json = cargo_metadata(root, &["--no-deps"])?;
        Self::parse(&json)
    }

    pub(crate) fn parse(json: &[u8]) -> Result<Self> {
        let metadata: Metadata =
            serde_json::from_slice(json).context("understand the output of `cargo metadata`")?;
        let relative = |path: &str| {
            let inside = path.strip_prefix(&metadata.workspace_root).unwrap_or(path);
            inside.trim_start_matches(['/', '\\']).replace('\\', "/")
        };
        let mut crates: Vec<Crate> = metadata
            .packages
            .iter()
            .map(|package| {
                let of_kind = |kind: &str| {
                    package
                        .targets
                        .iter()
                        .find(|target| target.kind.iter().any(|k| k == kind))
                };
                let root_source = of_kind("lib")
                    .or_else(|| of_kind("bin"))
                    .or(package.targets.first());
                let mut dependencies: Vec<String> = package
                    .dependencies
                    .iter()
                    .map(|d| d.name.clone())
                    .collect();
                dependencies.sort();
                dependencies.dedup();
                Crate {
                    name: package.name.clone(),
                    manifest: relative(&package.manifest_path),
                    root_source: root_source
                        .map(|target| relative(&target.src_path))
                        .unwrap_or_default(),
                    dependencies,
                }
            })
            .collect();
        crates.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self { crates })
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.crates.iter().any(|krate| krate.name == name)
    }

    #[cfg(test)]
    pub(crate) fn of(crates: &[(&str, &[&str])]) -> Self {
        let crates = crates
            .iter()
            .map(|(name, dependencies)| {
                let folder = name.trim_start_matches("nilometer-");
                Crate {
                    name: (*name).to_owned(),
                    manifest: format!("crates/{folder}/Cargo.toml"),
                    root_source: format!("crates/{folder}/src/lib.rs"),
                    dependencies: dependencies.iter().map(|d| (*d).to_owned()).collect(),
                }
            })
            .collect();
        Self { crates }
    }
}

/// The line of a manifest that names `dependency`, or its first line.
pub(crate) fn line_of_dependency(manifest: &str, dependency: &str) -> usize {
    let names = |line: &str| {
        let rest = line.trim_start().strip_prefix(dependency);
        rest.is_some_and(|rest| rest.trim_start().starts_with(['=', '.']))
    };
    manifest.lines().position(names).map_or(1, |at| at + 1)
}

/// Runs `cargo metadata` without touching the network and returns its JSON.
pub(crate) fn cargo_metadata(root: &Path, arguments: &[&str]) -> Result<Vec<u8>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--offline", "--format-version", "1"])
        .args(arguments)
        .current_dir(root)
        .output()
        .context("start `cargo metadata`")?;
    if !output.status.success() {
        bail!(
            "`cargo metadata --offline` failed:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_the_root_of_a_crate_that_also_has_a_program() {
        let json = br#"{"workspace_root": "/w", "packages": [{
            "name": "a", "manifest_path": "/w/crates/a/Cargo.toml",
            "dependencies": [{"name": "z"}, {"name": "b"}, {"name": "z"}],
            "targets": [{"kind": ["bin"], "src_path": "/w/crates/a/src/main.rs"},
                        {"kind": ["lib"], "src_path": "/w/crates/a/src/lib.rs"}]}]}"#;
        let workspace = Workspace::parse(json).unwrap();
        let krate = &workspace.crates[0];
        assert_eq!(
            (krate.manifest.as_str(), krate.root_source.as_str()),
            ("crates/a/Cargo.toml", "crates/a/src/lib.rs")
        );
        assert_eq!(krate.dependencies, ["b", "z"]);
        assert!(workspace.has("a") && !workspace.has("b"));
    }

    #[test]
    fn output_that_is_not_metadata_is_an_error() {
        assert!(Workspace::parse(b"{}").is_err());
    }

    #[test]
    fn a_dependency_is_found_by_its_whole_name() {
        let manifest =
            "[dependencies]\nserde_json = { workspace = true }\nserde.workspace = true\n";
        assert_eq!(line_of_dependency(manifest, "serde"), 3);
        assert_eq!(line_of_dependency(manifest, "serde_json"), 2);
        assert_eq!(line_of_dependency(manifest, "rand"), 1);
    }
}
