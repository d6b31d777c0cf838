//! The layers: crates name only crates below them.
//!
//! Does: compare the table between `layers:begin` and `layers:end` in ARCHITECTURE.md with what the manifests name,
//! dependencies of tests included, because those make loops just as well.
//! Does not: look at single modules; the compiler keeps those apart.

use std::collections::BTreeMap;

use crate::tree::{Finding, Tree};
use crate::workspace::{Workspace, line_of_dependency};

const PAGE: &str = "ARCHITECTURE.md";
const BEGIN: &str = "<!-- layers:begin -->";
const END: &str = "<!-- layers:end -->";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layer {
    /// `L0` at the bottom; a crate may name any crate with a smaller number.
    Level(u8),
    /// May name every layer; nobody may name it.
    Top,
    /// Names no crate of the workspace and is named by none.
    Apart,
}

impl Layer {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "top" => Some(Self::Top),
            "apart" => Some(Self::Apart),
            _ => text.strip_prefix('L')?.parse().ok().map(Self::Level),
        }
    }

    fn may_name(self, other: Self) -> bool {
        match (self, other) {
            (Self::Apart, _) | (_, Self::Apart | Self::Top) => false,
            (Self::Top, Self::Level(_)) => true,
            (Self::Level(upper), Self::Level(lower)) => upper > lower,
        }
    }
}

struct Row {
    layer: Layer,
    line: usize,
    written: String,
}

pub(crate) fn check(tree: &Tree, workspace: &Workspace) -> Vec<Finding> {
    let Some(page) = tree.text(PAGE) else {
        return vec![Finding::new(
            PAGE,
            1,
            format!("is missing; write it with the layer table between `{BEGIN}` and `{END}`"),
        )];
    };
    let (table, mut findings) = parse_table(page, workspace);
    for krate in &workspace.crates {
        let Some(from) = table.get(&krate.name) else {
            findings.push(Finding::new(
                PAGE,
                1,
                format!("the layer table has no row for `{}`; add one", krate.name),
            ));
            continue;
        };
        for dependency in &krate.dependencies {
            let Some(to) = table.get(dependency) else {
                continue;
            };
            if !from.layer.may_name(to.layer) {
                let line =
                    line_of_dependency(tree.text(&krate.manifest).unwrap_or_default(), dependency);
                let message = format!(
                    "`{}` ({}) must not depend on `{dependency}` ({}): crates name only lower layers; move what both need down, or pass it as a value",
                    krate.name, from.written, to.written
                );
                findings.push(Finding::new(krate.manifest.clone(), line, message));
            }
        }
    }
    findings
}

fn parse_table(page: &str, workspace: &Workspace) -> (BTreeMap<String, Row>, Vec<Finding>) {
    let mut table = BTreeMap::new();
    let mut findings = Vec::new();
    let lines: Vec<&str> = page.lines().collect();
    let position = |marker: &str| lines.iter().position(|line| line.trim() == marker);
    let (Some(begin), Some(end)) = (position(BEGIN), position(END)) else {
        let message = format!(
            "the layer table must stand between the lines `{BEGIN}` and `{END}`; add them around it"
        );
        return (table, vec![Finding::new(PAGE, 1, message)]);
    };
    for (at, line) in lines.iter().enumerate().take(end).skip(begin + 1) {
        let mut cells = line
            .trim()
            .trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().trim_matches('`'));
        let (Some(name), Some(layer)) = (cells.next(), cells.next()) else {
            continue;
        };
        if name == "crate" || name.starts_with(['-', ':']) {
            continue;
        }
        let full = if workspace.has(name) {
            name.to_owned()
        } else {
            format!("nilometer-{name}")
        };
        let line = at + 1;
        let Some(parsed) = Layer::parse(layer) else {
            findings.push(Finding::new(
                PAGE,
                line,
                format!("`{layer}` is no layer; write L0, L1, .., `top` or `apart`"),
            ));
            continue;
        };
        if !workspace.has(&full) {
            findings.push(Finding::new(
                PAGE,
                line,
                format!("the workspace has no crate `{name}`; remove the row"),
            ));
            continue;
        }
        let row = Row {
            layer: parsed,
            line,
            written: layer.to_owned(),
        };
        if let Some(earlier) = table.insert(full, row) {
            findings.push(Finding::new(
                PAGE,
                line,
                format!(
                    "`{name}` has a row at line {} already; keep one",
                    earlier.line
                ),
            ));
        }
    }
    (table, findings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::texts;

    fn page(rows: &str) -> String {
        format!("# A\n{BEGIN}\n| crate | layer | why |\n|---|---|---|\n{rows}{END}\n")
    }

    fn messages(rows: &str, crates: &[(&str, &[&str])]) -> Vec<String> {
        let page = page(rows);
        let manifest = "[package]\n\n[dependencies]\nnilometer-engine = { workspace = true }\n";
        let tree = Tree::of(&[(PAGE, &page), ("crates/codec/Cargo.toml", manifest)]);
        texts(&check(&tree, &Workspace::of(crates)))
    }

    const ROWS: &str = "| `codec` | L0 | x |\n| `engine` | L1 | x |\n";

    #[test]
    fn a_downward_edge_is_fine() {
        let found = messages(
            ROWS,
            &[
                ("nilometer-codec", &["crc32c"]),
                ("nilometer-engine", &["nilometer-codec"]),
            ],
        );
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn an_upward_edge_is_found_at_its_line() {
        let found = messages(
            ROWS,
            &[
                ("nilometer-codec", &["nilometer-engine"]),
                ("nilometer-engine", &[]),
            ],
        );
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with(
                "crates/codec/Cargo.toml:4: `nilometer-codec` (L0) must not depend on"
            ),
            "{found:?}"
        );
    }

    #[test]
    fn a_sideways_edge_is_found() {
        let rows = "| http | L3 |\n| query | L3 |\n";
        let found = messages(
            rows,
            &[
                ("nilometer-http", &["nilometer-query"]),
                ("nilometer-query", &[]),
            ],
        );
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn nobody_names_the_top_or_what_stands_apart() {
        let rows = "| sim | top |\n| xtask | apart |\n| engine | L1 |\n";
        let crates: [(&str, &[&str]); 3] = [
            ("nilometer-sim", &["nilometer-engine"]),
            ("xtask", &[]),
            ("nilometer-engine", &["nilometer-sim", "xtask"]),
        ];
        assert_eq!(messages(rows, &crates).len(), 2);
        let crates: [(&str, &[&str]); 3] = [
            ("nilometer-sim", &["xtask"]),
            ("xtask", &["nilometer-engine"]),
            ("nilometer-engine", &[]),
        ];
        assert_eq!(messages(rows, &crates).len(), 2);
    }

    #[test]
    fn a_crate_without_a_row_and_a_row_without_a_crate_are_found() {
        let found = messages(ROWS, &[("nilometer-codec", &[]), ("nilometer-query", &[])]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].contains("no crate `engine`")
                && found[1].contains("no row for `nilometer-query`"),
            "{found:?}"
        );
    }

    #[test]
    fn an_unknown_layer_a_second_row_and_a_missing_table_are_found() {
        let found = messages("| codec | low |\n", &[]);
        assert!(found[0].contains("`low` is no layer"), "{found:?}");
        let found = messages(
            "| codec | L0 |\n| codec | L1 |\n",
            &[("nilometer-codec", &[])],
        );
        assert!(
            found[0].contains("has a row at line 5 already"),
            "{found:?}"
        );
        assert_eq!(
            check(&Tree::of(&[(PAGE, "# A\n")]), &Workspace::default()).len(),
            1
        );
        assert_eq!(check(&Tree::default(), &Workspace::default()).len(), 1);
    }
}
