//! Folders of sources stay small enough to see at once.
//!
//! Does: count the entries side by side in each folder below a crate's `src`; a module's file and its folder are one. Does not:
//! look at tests, or say how to group.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::{Finding, Tree};
use crate::workspace::Workspace;

/// Entries of a folder.
const ENTRIES_MAX: usize = 16;

/// Folders that have more, and how many: none may grow, and one that is smaller now leaves the list.
const LARGER: &[(&str, usize)] = &[
    ("crates/codec/src", 17),
    ("crates/ledger/src", 19),
    ("crates/nilometer/src/import", 18),
];

pub(crate) fn check(tree: &Tree, _workspace: &Workspace) -> Vec<Finding> {
    check_with(tree, LARGER)
}

fn check_with(tree: &Tree, larger: &[(&str, usize)]) -> Vec<Finding> {
    let mut rooms: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        if !file.path.contains("/src/") || file.is_test_code() {
            continue;
        }
        let mut path = file.path.as_str();
        // Each folder on the way has the next one as an entry.
        while let Some((room, entry)) = path.rsplit_once('/') {
            let entry = entry.strip_suffix(".rs").unwrap_or(entry);
            if entry != "mod" {
                rooms.entry(room).or_default().insert(entry);
            }
            if room.ends_with("/src") {
                break;
            }
            path = room;
        }
    }
    let mut findings = Vec::new();
    for (room, entries) in rooms {
        let listed = larger.iter().find(|(known, _)| *known == room);
        let most = listed.map_or(ENTRIES_MAX, |(_, most)| *most);
        if entries.len() > most {
            let message = format!(
                "{} entries side by side, more than {most}; group them into folders by role",
                entries.len()
            );
            findings.push(Finding::new(room, 1, message));
        } else if listed.is_some() && entries.len() < most {
            let message = format!(
                "has {} entries now; write that into xtask/src/tidy/rooms.rs, or take it out there",
                entries.len()
            );
            findings.push(Finding::new(room, 1, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::texts;

    fn found(files: usize, larger: &[(&str, usize)]) -> Vec<String> {
        let paths: Vec<String> = (0..files)
            .flat_map(|n| {
                [
                    format!("crates/a/src/room/m{n}.rs"),
                    format!("crates/a/src/room/m{n}/part.rs"),
                    format!("crates/a/tests/t{n}.rs"),
                ]
            })
            .collect();
        let files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "")).collect();
        texts(&check_with(&Tree::of(&files), larger))
    }

    #[test]
    fn a_folder_has_sixteen_entries_at_most() {
        assert!(found(16, &[]).is_empty());
        let over = found(17, &[]);
        assert_eq!(over.len(), 1, "{over:?}");
        assert!(
            over[0].starts_with("crates/a/src/room:1: 17 entries"),
            "{over:?}"
        );
    }

    #[test]
    fn a_larger_one_that_is_listed_neither_grows_nor_stays_listed_when_it_shrinks() {
        assert!(found(18, &[("crates/a/src/room", 18)]).is_empty());
        assert_eq!(found(19, &[("crates/a/src/room", 18)]).len(), 1);
        assert_eq!(found(17, &[("crates/a/src/room", 18)]).len(), 1);
        assert_eq!(found(16, &[("crates/a/src/room", 17)]).len(), 1);
    }
}
