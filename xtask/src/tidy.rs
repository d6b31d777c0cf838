//! `cargo xtask tidy`: the rules a machine can check, checked.
//!
//! Does: run every check over one reading of the tree, sort the findings, count them.
//! Does not: repair anything, compile anything, judge prose.
//! Next: STYLE.md has the rules in words.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use crate::Report;
use crate::tree::{Finding, Tree};
use crate::workspace::Workspace;

mod changelog;
mod circles;
mod confine;
mod homes;
mod layers;
mod links;
mod lockfile;
mod manifests;
mod pages;
mod rooms;
mod seeds;
mod sizes;
mod words;

type Check = fn(&Tree, &Workspace) -> Vec<Finding>;

const CHECKS: &[Check] = &[
    layers::check,
    homes::check,
    manifests::check,
    circles::check,
    confine::check,
    rooms::check,
    seeds::check,
    sizes::check,
    links::check,
    words::check,
    lockfile::check,
    pages::check,
    changelog::check,
];

pub(crate) fn run(root: &Path) -> Result<Report> {
    let tree = Tree::read(root)?;
    let workspace = Workspace::read(root)?;
    let mut findings: Vec<Finding> = CHECKS
        .iter()
        .flat_map(|check| check(&tree, &workspace))
        .collect();
    findings.sort();
    findings.dedup();
    let mut text = String::new();
    for finding in &findings {
        writeln!(text, "{finding}")?;
    }
    writeln!(
        text,
        "tidy: {} files, {} findings",
        tree.files.len(),
        findings.len()
    )?;
    Ok(Report {
        text,
        findings: findings.len(),
    })
}

/// What `tidy` knows of circles: where to begin when one has to become smaller.
pub(crate) fn circles(root: &Path) -> Result<Report> {
    let text = circles::describe(&Tree::read(root)?, &Workspace::read(root)?);
    Ok(Report { text, findings: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let report = run(&crate::root()).unwrap();
        assert_eq!(report.findings, 0, "\n{}", report.text);
    }
}
