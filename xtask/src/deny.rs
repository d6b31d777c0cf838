//! `cargo xtask deny`: everything we depend on has a licence and a source that we accept.
//!
//! Does: run cargo-deny against deny.toml; where it is not installed, check licences, sources, banned crates and wildcard
//! versions against the same file, and say so. Compiling cargo-deny takes longer than all our tests, so a clone does not need it.
//! Does not: look at advisories (deny.toml says why), or compare licence texts with what a crate declares.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::Report;
use crate::workspace::cargo_metadata;

mod spdx;

const RULES: &str = "deny.toml";

#[derive(Debug, Deserialize)]
struct Rules {
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Debug, Deserialize)]
struct Licenses {
    allow: Vec<String>,
    #[serde(default)]
    exceptions: Vec<Exception>,
}

#[derive(Debug, Deserialize)]
struct Exception {
    allow: Vec<String>,
    #[serde(rename = "crate")]
    name: String,
}

#[derive(Debug, Deserialize)]
struct Bans {
    #[serde(default)]
    deny: Vec<Ban>,
}

#[derive(Debug, Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Graph {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    /// Absent for the crates of the workspace.
    source: Option<String>,
    #[serde(default)]
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    req: String,
    path: Option<String>,
}

pub(crate) fn run(root: &Path) -> Result<Report> {
    let installed = Command::new("cargo-deny")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success());
    if installed {
        run_cargo_deny(root)
    } else {
        run_own_check(root)
    }
}

fn run_cargo_deny(root: &Path) -> Result<Report> {
    // Not offline: it reads the manifests of every platform, and a build has fetched those of one.
    let output = Command::new("cargo-deny")
        .args([
            "--log-level",
            "error",
            "check",
            "bans",
            "licenses",
            "sources",
        ])
        .current_dir(root)
        .output()
        .context("start cargo-deny")?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    let findings = usize::from(!output.status.success());
    let verdict = if findings == 0 { "passed" } else { "failed" };
    writeln!(text, "deny: cargo-deny {verdict} (bans, licences, sources)")?;
    Ok(Report { text, findings })
}

fn run_own_check(root: &Path) -> Result<Report> {
    let rules =
        std::fs::read_to_string(root.join(RULES)).with_context(|| format!("read {RULES}"))?;
    let rules: Rules = toml::from_str(&rules).with_context(|| format!("understand {RULES}"))?;
    let host = host_platform()?;
    let json = cargo_metadata(root, &["--locked", "--filter-platform", &host])
        .context("list every dependency; run `cargo fetch` once if packages are missing")?;
    let graph: Graph =
        serde_json::from_slice(&json).context("understand the output of `cargo metadata`")?;
    let findings = check(&rules, &graph);
    let mut text = String::new();
    for finding in &findings {
        writeln!(text, "{RULES}: {finding}")?;
    }
    writeln!(
        text,
        "deny: cargo-deny is not installed; checked instead: licences, sources, banned crates and wildcards of the {} packages on {host}, {} findings",
        graph.packages.len(),
        findings.len()
    )?;
    Ok(Report {
        text,
        findings: findings.len(),
    })
}

fn host_platform() -> Result<String> {
    let output = Command::new("rustc")
        .arg("-vV")
        .output()
        .context("start rustc")?;
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host
        .context("find the line `host:` in `rustc -vV`")?
        .to_owned())
}

fn check(rules: &Rules, graph: &Graph) -> Vec<String> {
    graph
        .packages
        .iter()
        .flat_map(|package| check_package(rules, package))
        .collect()
}

fn check_package(rules: &Rules, package: &Package) -> Vec<String> {
    let mut findings = Vec::new();
    let named = format!("{} {}", package.name, package.version);
    let exceptions = rules
        .licenses
        .exceptions
        .iter()
        .filter(|exception| exception.name == package.name);
    let allowed: Vec<&str> = exceptions
        .flat_map(|exception| &exception.allow)
        .chain(&rules.licenses.allow)
        .map(String::as_str)
        .collect();
    match package
        .license
        .as_deref()
        .map(|license| (license, spdx::is_satisfied(license, &allowed)))
    {
        Some((_, Ok(true))) => {}
        Some((license, Ok(false))) => {
            findings.push(format!("{named} is licensed `{license}`, which [licenses] does not allow; use another crate or extend the list"));
        }
        Some((license, Err(problem))) => findings.push(format!(
            "{named} is licensed `{license}`, which cannot be read: {problem}"
        )),
        None => findings.push(format!("{named} declares no licence; use another crate")),
    }
    if let Some(source) = &package.source {
        let known = source.strip_prefix("registry+").is_some_and(|url| {
            rules
                .sources
                .allow_registry
                .iter()
                .any(|known| known == url)
        });
        if !known {
            findings.push(format!("{named} comes from `{source}`, which [sources] does not allow; use a published version"));
        }
    } else {
        for dependency in package
            .dependencies
            .iter()
            .filter(|dependency| dependency.req == "*" && dependency.path.is_none())
        {
            findings.push(format!(
                "{named} accepts any version of {}; name one",
                dependency.name
            ));
        }
    }
    if let Some(ban) = rules.bans.deny.iter().find(|ban| ban.name == package.name) {
        findings.push(format!("{named} is banned: {}", ban.reason));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: &str = "https://example.org/index";

    fn found(packages: &str) -> Vec<String> {
        let rules = format!(
            "[licenses]\nallow = [\"MIT\"]\nexceptions = [{{ allow = [\"CC0-1.0\"], crate = \"odd\" }}]\n\
             [bans]\ndeny = [{{ crate = \"bad\", reason = \"because\" }}]\n[sources]\nallow-registry = [\"{INDEX}\"]\n"
        );
        let graph = format!("{{\"packages\": [{packages}]}}");
        check(
            &toml::from_str(&rules).unwrap(),
            &serde_json::from_str(&graph).unwrap(),
        )
    }

    fn package(name: &str, license: &str, source: &str) -> String {
        format!(
            r#"{{"name": "{name}", "version": "1.0.0", "license": {license}, "source": {source}}}"#
        )
    }

    #[test]
    fn an_allowed_licence_from_the_registry_passes() {
        let source = format!("\"registry+{INDEX}\"");
        assert_eq!(
            found(&package("good", "\"MIT\"", &source)),
            Vec::<String>::new()
        );
        assert_eq!(
            found(&package("odd", "\"CC0-1.0\"", &source)),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_licence_that_is_not_allowed_unreadable_or_missing_is_found() {
        for license in ["\"GPL-3.0\"", "\"CC0-1.0\"", "\"MIT AND\"", "null"] {
            assert_eq!(
                found(&package("good", license, "null")).len(),
                1,
                "{license}"
            );
        }
    }

    #[test]
    fn another_source_is_found() {
        for source in [
            "\"git+https://example.org/a\"",
            "\"registry+https://example.org/other\"",
        ] {
            assert_eq!(
                found(&package("good", "\"MIT\"", source)).len(),
                1,
                "{source}"
            );
        }
    }

    #[test]
    fn a_banned_crate_is_found_with_its_reason() {
        assert_eq!(
            found(&package("bad", "\"MIT\"", "null")),
            ["bad 1.0.0 is banned: because"]
        );
    }

    #[test]
    fn a_wildcard_version_is_found_unless_it_is_a_path() {
        let with = |path: &str| {
            format!(
                r#"{{"name": "ours", "version": "0.1.0", "license": "MIT", "source": null,
                "dependencies": [{{"name": "x", "req": "*", "path": {path}}}]}}"#
            )
        };
        assert_eq!(found(&with("null")).len(), 1);
        assert!(found(&with("\"/x\"")).is_empty());
    }

    #[test]
    fn our_own_rules_can_be_read() {
        let text = std::fs::read_to_string(crate::root().join(RULES)).unwrap();
        let rules: Rules = toml::from_str(&text).unwrap();
        assert!(rules.licenses.allow.iter().any(|license| license == "MIT"));
        assert!(
            !rules
                .licenses
                .allow
                .iter()
                .any(|license| license.contains("GPL"))
        );
        assert_eq!(rules.sources.allow_registry.len(), 1);
    }
}
