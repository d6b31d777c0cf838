//! Every crate takes the workspace's lints and versions, and says at its top what it does and does not.
//!
//! Does: read each member's `Cargo.toml` and the module doc of its root file.
//! Does not: judge whether the sentence is true.

use toml::{Table, Value};

use crate::tree::{Finding, Tree};
use crate::workspace::{Crate, Workspace, line_of_dependency};

const DEPENDENCY_TABLES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

pub(crate) fn check(tree: &Tree, workspace: &Workspace) -> Vec<Finding> {
    workspace
        .crates
        .iter()
        .flat_map(|krate| check_crate(tree, krate))
        .collect()
}

fn check_crate(tree: &Tree, krate: &Crate) -> Vec<Finding> {
    let mut findings = Vec::new();
    let text = tree.text(&krate.manifest).unwrap_or_default();
    match text.parse::<Table>() {
        Ok(manifest) => {
            let lints = manifest
                .get("lints")
                .and_then(|lints| lints.get("workspace"))
                .and_then(Value::as_bool);
            if lints != Some(true) {
                let message = "the crate does not take the workspace's lints; add `[lints]` with `workspace = true`";
                findings.push(Finding::new(krate.manifest.clone(), 1, message));
            }
            for name in own_versions(&manifest) {
                let message = format!(
                    "`{name}` does not come from the workspace; name its version once, in the root's [workspace.dependencies], and write `{name} = {{ workspace = true }}` here"
                );
                findings.push(Finding::new(
                    krate.manifest.clone(),
                    line_of_dependency(text, &name),
                    message,
                ));
            }
        }
        Err(error) => findings.push(Finding::new(
            krate.manifest.clone(),
            1,
            format!("is no TOML: {error}"),
        )),
    }
    let doc = module_doc(tree.text(&krate.root_source).unwrap_or_default());
    if !says_does_and_does_not(&doc) {
        let message = "the module doc must say what the crate is, with a sentence that begins `Does` and one that begins `Does not`";
        findings.push(Finding::new(krate.root_source.clone(), 1, message));
    }
    findings
}

/// The dependencies that a manifest declares by itself, tables for single platforms included.
fn own_versions(manifest: &Table) -> Vec<String> {
    let platforms = manifest
        .get("target")
        .and_then(Value::as_table)
        .into_iter()
        .flat_map(Table::values);
    let holders = std::iter::once(manifest).chain(platforms.filter_map(Value::as_table));
    let tables = holders.flat_map(|holder| {
        DEPENDENCY_TABLES
            .iter()
            .filter_map(|key| holder.get(*key)?.as_table())
    });
    tables
        .flat_map(Table::iter)
        .filter(|(_, value)| value.get("workspace").and_then(Value::as_bool) != Some(true))
        .map(|(name, _)| name.clone())
        .collect()
}

fn module_doc(source: &str) -> String {
    let lines = source
        .lines()
        .skip_while(|line| !line.starts_with("//!"))
        .take_while(|line| line.starts_with("//!"));
    lines
        .map(|line| line.trim_start_matches("//!"))
        .collect::<Vec<_>>()
        .join("\n")
}

fn says_does_and_does_not(doc: &str) -> bool {
    let refusals = doc.matches("Does not").count();
    refusals > 0 && doc.matches("Does").count() > refusals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::texts;

    const GOOD_MANIFEST: &str = "[package]\nname = \"a\"\n[lints]\nworkspace = true\n[dependencies]\nserde.workspace = true\n";
    const GOOD_DOC: &str = "//! The head.\n//! Does: insert. Does not: touch the disk.\n";

    fn found(manifest: &str, doc: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("crates/a/Cargo.toml", manifest),
            ("crates/a/src/lib.rs", doc),
        ]);
        texts(&check(&tree, &Workspace::of(&[("a", &[])])))
    }

    #[test]
    fn a_crate_that_follows_the_rules_passes() {
        assert_eq!(found(GOOD_MANIFEST, GOOD_DOC), Vec::<String>::new());
    }

    #[test]
    fn a_crate_without_the_lints_is_found() {
        let missing = found("[package]\nname = \"a\"\n", GOOD_DOC);
        assert!(
            missing[0].contains("does not take the workspace's lints"),
            "{missing:?}"
        );
        let off = found("[package]\n[lints]\nworkspace = false\n", GOOD_DOC);
        assert_eq!(off.len(), 1, "{off:?}");
    }

    #[test]
    fn a_version_of_its_own_is_found_at_its_line_for_every_kind_of_dependency() {
        for table in [
            "dependencies",
            "dev-dependencies",
            "build-dependencies",
            "target.'cfg(unix)'.dependencies",
        ] {
            let manifest = format!("[lints]\nworkspace = true\n[{table}]\nrand = \"0.9\"\n");
            let found = found(&manifest, GOOD_DOC);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(
                found[0].starts_with("crates/a/Cargo.toml:4: `rand` does not come"),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_doc_that_says_only_half_is_found() {
        for doc in [
            "",
            "//! The head.\n",
            "//! Does not: touch the disk.\n",
            "//! Does: insert.\n",
            "// Does. Does not.\n",
        ] {
            assert_eq!(found(GOOD_MANIFEST, doc).len(), 1, "{doc:?}");
        }
    }

    #[test]
    fn a_manifest_that_is_no_toml_is_found() {
        assert!(found("[package", GOOD_DOC)[0].contains("is no TOML"));
    }
}
