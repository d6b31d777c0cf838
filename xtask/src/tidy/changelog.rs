//! The changelog can be read by people and by scripts.
//!
//! Does: check the headings and the tags of the entries.
//! Does not: know whether a change deserves an entry.

use crate::tree::{Finding, Tree};
use crate::workspace::Workspace;

const PAGE: &str = "CHANGELOG.md";
const TAGS: &[&str] = &["[CHANGE]", "[FEATURE]", "[PERF]", "[FORMAT]", "[FIX]"];

pub(crate) fn check(tree: &Tree, _workspace: &Workspace) -> Vec<Finding> {
    let Some(text) = tree.text(PAGE) else {
        return vec![Finding::new(
            PAGE,
            1,
            "is missing; write it with a section `## Unreleased`",
        )];
    };
    let mut findings = Vec::new();
    let mut complain =
        |line: usize, message: String| findings.push(Finding::new(PAGE, line, message));
    let mut sections = 0;
    let mut section: Option<(usize, usize)> = None;
    for (at, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line)) {
        if let Some(title) = line.strip_prefix("## ") {
            if let Some((begun, 0)) = section {
                complain(
                    begun,
                    "the section has no entry; remove it or say what changed".to_owned(),
                );
            }
            sections += 1;
            section = Some((at, 0));
            let unreleased = title == "Unreleased" && sections == 1;
            if !unreleased && !is_release(title) {
                complain(
                    at,
                    format!(
                        "`{title}` is no section; write `## Unreleased` (first only) or `## 1.2.3 - 2030-12-31`"
                    ),
                );
            }
        } else if let Some(entry) = line.strip_prefix("- ") {
            if !TAGS.iter().any(|tag| {
                entry
                    .strip_prefix(tag)
                    .is_some_and(|rest| rest.starts_with(' '))
            }) {
                complain(
                    at,
                    format!(
                        "the entry has no tag; begin it with one of {}",
                        TAGS.join(" ")
                    ),
                );
            }
            match &mut section {
                Some((_, entries)) => *entries += 1,
                None => complain(
                    at,
                    "the entry stands before the first section; move it below `## Unreleased`"
                        .to_owned(),
                ),
            }
        }
    }
    match section {
        None => complain(1, "has no section; begin with `## Unreleased`".to_owned()),
        Some((begun, 0)) => complain(
            begun,
            "the section has no entry; remove it or say what changed".to_owned(),
        ),
        Some(_) => {}
    }
    findings
}

/// `1.2.3 - 2030-12-31`
fn is_release(title: &str) -> bool {
    let numbers = |text: &str, separator: char, lengths: [usize; 3]| {
        let parts: Vec<&str> = text.split(separator).collect();
        let fits = |(part, length): (&&str, usize)| {
            part.bytes().all(|b| b.is_ascii_digit())
                && !part.is_empty()
                && (length == 0 || part.len() == length)
        };
        parts.len() == lengths.len() && parts.iter().zip(lengths).all(fits)
    };
    title.split_once(" - ").is_some_and(|(version, date)| {
        numbers(version, '.', [0; 3]) && numbers(date, '-', [4, 2, 2])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::texts;

    fn found(text: &str) -> Vec<String> {
        texts(&check(&Tree::of(&[(PAGE, text)]), &Workspace::default()))
    }

    #[test]
    fn a_well_formed_changelog_passes() {
        let text = "# Changelog\n\nWhat changed.\n\n## Unreleased\n\n- [FEATURE] One\n  more of it\n  - detail\n\n## 0.1.0 - 2030-01-31\n\n- [FORMAT] Two\n";
        assert_eq!(found(text), Vec::<String>::new());
    }

    #[test]
    fn an_entry_without_its_tag_is_found_at_its_line() {
        for entry in ["- One", "- [NEW] One", "- [FIX]One", "- FIX One"] {
            let found = found(&format!("## Unreleased\n\n{entry}\n"));
            assert_eq!(found.len(), 1, "{entry}");
            assert!(
                found[0].starts_with("CHANGELOG.md:3: the entry has no tag"),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_heading_that_is_no_release_is_found() {
        for title in [
            "unreleased",
            "0.1 - 2030-01-31",
            "0.1.0",
            "0.1.0 - 31.01.2030",
            "0.1.x - 2030-01-31",
            "v0.1.0 - 2030-01-31",
        ] {
            assert_eq!(
                found(&format!("## {title}\n- [FIX] One\n")).len(),
                1,
                "{title}"
            );
        }
        let late = "## 0.1.0 - 2030-01-31\n- [FIX] One\n## Unreleased\n- [FIX] Two\n";
        assert_eq!(found(late).len(), 1);
    }

    #[test]
    fn an_empty_section_a_stray_entry_and_a_missing_file_are_found() {
        assert_eq!(found("## Unreleased\n").len(), 1);
        assert_eq!(
            found("## Unreleased\n## 0.1.0 - 2030-01-31\n- [FIX] One\n").len(),
            1
        );
        assert_eq!(found("- [FIX] One\n## Unreleased\n- [FIX] Two\n").len(), 1);
        assert_eq!(found("# Changelog\n").len(), 1);
        assert_eq!(check(&Tree::default(), &Workspace::default()).len(), 1);
    }
}
