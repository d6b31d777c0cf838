//! Every on-disk or wire format has a page, and every page can be found.
//!
//! Does: check that each page below `docs/format` is linked from ARCHITECTURE.md.
//! Does not: compare a page with the code; golden files do.

use crate::tidy::links::{links_of, resolve};
use crate::tree::{Finding, Tree};
use crate::workspace::Workspace;

const PAGE: &str = "ARCHITECTURE.md";

pub(crate) fn check(tree: &Tree, _workspace: &Workspace) -> Vec<Finding> {
    let linked: Vec<String> = links_of(tree.text(PAGE).unwrap_or_default())
        .iter()
        .filter_map(|link| resolve(PAGE, &link.target))
        .collect();
    let pages = tree
        .files
        .iter()
        .filter(|file| file.path.starts_with("docs/format/"));
    pages
        .filter(|file| !linked.contains(&file.path))
        .map(|file| {
            Finding::new(
                file.path.clone(),
                1,
                format!("is not linked from {PAGE}; link it where that format is explained"),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::texts;

    #[test]
    fn a_format_page_that_nobody_links_is_found() {
        let tree = Tree::of(&[
            (
                PAGE,
                "[log](docs/format/log.md#records) `docs/format/page.md`\n",
            ),
            ("docs/format/log.md", ""),
            ("docs/format/page.md", ""),
            ("docs/guide/start.md", ""),
        ]);
        let found: Vec<String> = texts(&check(&tree, &Workspace::default()));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("docs/format/page.md:1: is not linked"),
            "{found:?}"
        );
    }
}
