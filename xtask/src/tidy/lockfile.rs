//! Every package comes from the default registry.
//!
//! Does: read the sources in each `Cargo.lock`.
//! Does not: check licences; `cargo xtask deny` does.

use crate::tree::{Finding, Tree};
use crate::workspace::Workspace;

const SOURCE: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(crate) fn check(tree: &Tree, _workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    if tree.file("Cargo.lock").is_none() {
        findings.push(Finding::new(
            "Cargo.lock",
            1,
            "is missing; commit it, so that every clone builds the same versions",
        ));
    }
    for file in tree
        .files
        .iter()
        .filter(|file| file.path == "Cargo.lock" || file.path.ends_with("/Cargo.lock"))
    {
        for (at, line) in file.text().unwrap_or_default().lines().enumerate() {
            let Some(source) = line.strip_prefix("source = ") else {
                continue;
            };
            if source.trim_matches('"') != SOURCE {
                let message =
                    format!("{source} is not the default registry; use a published version");
                findings.push(Finding::new(file.path.clone(), at + 1, message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::texts;

    fn found(lock: &str) -> Vec<String> {
        texts(&check(
            &Tree::of(&[("Cargo.lock", lock)]),
            &Workspace::default(),
        ))
    }

    #[test]
    fn a_source_other_than_the_default_registry_is_found() {
        let good = format!("[[package]]\nname = \"a\"\nsource = \"{SOURCE}\"\n");
        assert_eq!(found(&good), Vec::<String>::new());
        for source in [
            "git+https://example.org/a?rev=1#2",
            "registry+https://example.org/index",
            "sparse+https://example.org/",
        ] {
            let found = found(&format!(
                "{good}[[package]]\nname = \"b\"\nsource = \"{source}\"\n"
            ));
            assert_eq!(found.len(), 1, "{source}");
            assert!(found[0].starts_with("Cargo.lock:6:"), "{found:?}");
        }
    }

    #[test]
    fn a_missing_lock_file_is_found() {
        assert_eq!(check(&Tree::default(), &Workspace::default()).len(), 1);
    }
}
