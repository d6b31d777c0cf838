//! Words that must not be in the repository.
//!
//! Does: look for paths of somebody's machine, package registries, notes to self, switched-off tests, characters outside
//! ASCII in code, and blanks at the end of a line.
//! Does not: look into data files, whose bytes are what they are. The words below are put together from two halves, so
//! that this file does not find itself.

use crate::tree::{File, Finding, Tree};
use crate::workspace::Workspace;

/// Roots of paths that exist on one machine only.
const MACHINE_PATHS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
];

/// A clone must not depend on where its packages came from; lock files name their source and are checked apart.
const REGISTRIES: &[&str] = &[
    concat!("py", "pi.org"),
    concat!("files.python", "hosted"),
    concat!("static.crates", ".io"),
    concat!("index.crates", ".io"),
    concat!("registry.npm", "js"),
    concat!("proxy.go", "lang"),
    concat!("repo1.ma", "ven"),
    concat!("deb.deb", "ian.org"),
];

const NOTES: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

const STUBS: &[(&str, &str)] = &[
    (
        concat!("#[ign", "ore"),
        "an ignored test protects nothing; make it pass or remove it",
    ),
    (
        concat!("assert!(tr", "ue)"),
        "this cannot fail; assert what the test promises",
    ),
    (concat!("to", "do!("), "finish it, or leave the feature out"),
    (
        concat!("unimple", "mented!("),
        "finish it, or return an error that says what is not supported",
    ),
];

/// First words of a module header that promise a sentence where a noun phrase names the room.
const QUESTIONS: &[&str] = &[
    "What", "Who", "How", "Whether", "Where", "Which", "When", "Why",
];

/// Kinds of file that people write by hand.
const WRITTEN: &[&str] = &[
    "rs", "c", "h", "js", "ts", "py", "sh", "toml", "yml", "yaml", "md", "css", "html",
];
/// Kinds of file whose every character must be ASCII.
const ASCII: &[&str] = &["rs", "c", "h", "sh"];

pub(crate) fn check(tree: &Tree, _workspace: &Workspace) -> Vec<Finding> {
    tree.files.iter().flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let is_lock = file.extension() == "lock" || file.path.ends_with("package-lock.json");
    let Some(text) = file.text() else {
        return Vec::new();
    };
    if is_lock {
        return Vec::new();
    }
    let written = is_written(file);
    let mut findings = Vec::new();
    // Not `lines`, which would hide a carriage return.
    for (at, line) in text.split('\n').enumerate() {
        let mut complain =
            |message: String| findings.push(Finding::new(file.path.clone(), at + 1, message));
        if let Some(path) = MACHINE_PATHS.iter().find(|path| starts_a_path(line, path)) {
            complain(format!(
                "`{path}` is a path of one machine; write it relative to the repository"
            ));
        }
        if let Some(host) = REGISTRIES.iter().find(|host| line.contains(**host)) {
            complain(format!(
                "`{host}` is a package registry; only lock files say where packages come from"
            ));
        }
        if !written {
            continue;
        }
        if let Some(note) = NOTES.iter().find(|note| has_word(line, note)) {
            complain(format!(
                "`{note}` is a note to self; do it, or open an issue and say here what holds until then"
            ));
        }
        if line.ends_with([' ', '\t', '\r']) {
            complain("blanks at the end of the line; remove them".to_owned());
        }
        if at == 0 && file.is_rust() && !file.is_test_code() && begins_with_question(line) {
            complain("name the module in a noun phrase: \"Memory budget\", not \"who may have how much memory\"".to_owned());
        }
        if file.is_rust() {
            for (_, advice) in STUBS.iter().filter(|(stub, _)| line.contains(stub)) {
                complain((*advice).to_owned());
            }
        }
        if let Some(c) = line
            .chars()
            .find(|c| ASCII.contains(&file.extension()) && !c.is_ascii())
        {
            complain(format!(
                "`{}` is not ASCII; write it in ASCII, or escaped inside a string",
                c.escape_unicode()
            ));
        }
    }
    if written && !text.is_empty() && !text.ends_with('\n') {
        findings.push(Finding::new(
            file.path.clone(),
            text.lines().count(),
            "the last line has no line end; add it",
        ));
    }
    findings
}

fn is_written(file: &File) -> bool {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    WRITTEN.contains(&file.extension()) || name == "Makefile" || file.path == ".ci/run"
}

/// Whether `line` has `start` where a path begins, not in the middle of a longer one.
fn starts_a_path(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-~/}".contains(c))
    })
}

/// Whether a module header begins with a question word.
fn begins_with_question(line: &str) -> bool {
    let header = line.strip_prefix("//! ").unwrap_or_default();
    let first = header.split(' ').next().unwrap_or_default();
    QUESTIONS.contains(&first)
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::texts;

    fn found(path: &str, text: &str) -> Vec<String> {
        texts(&check(&Tree::of(&[(path, text)]), &Workspace::default()))
    }

    #[test]
    fn a_path_of_one_machine_is_found_wherever_it_begins() {
        for start in MACHINE_PATHS {
            for line in [
                format!("cd {start}x\n"),
                format!("\"{start}x\"\n"),
                format!("{start}x\n"),
                format!("={start}x\n"),
            ] {
                assert_eq!(found("a.sh", &line).len(), 1, "{line}");
            }
            assert!(
                found(
                    "a.md",
                    &format!("https://example.org{start}x and a{start}x\n")
                )
                .is_empty()
            );
        }
    }

    #[test]
    fn a_registry_is_found_except_in_a_lock_file() {
        for host in REGISTRIES {
            assert_eq!(
                found("a.toml", &format!("url = \"https://{host}/x\"\n")).len(),
                1,
                "{host}"
            );
            assert_eq!(found("data.txt", &format!("{host}\n")).len(), 1, "{host}");
            assert!(found("fuzz/Cargo.lock", &format!("{host}\n")).is_empty());
        }
    }

    #[test]
    fn a_module_header_names_the_module() {
        let path = "crates/engine/src/watch.rs";
        assert_eq!(found(path, "//! What bounds the store.\n").len(), 1);
        assert!(
            found(
                path,
                "//! Bounds of the store.\n\n/// What it is.\nfn f() {}\n"
            )
            .is_empty()
        );
        assert!(found(path, "//! Whatever.\n").is_empty());
        assert!(found("crates/engine/tests/store.rs", "//! What holds.\n").is_empty());
    }

    #[test]
    fn notes_to_self_are_found_as_words_only() {
        for note in NOTES {
            assert_eq!(
                found("Makefile", &format!("# {note}: later\n")).len(),
                1,
                "{note}"
            );
            assert!(found("a.rs", &format!("let A{note} = 1;\n")).is_empty());
            assert!(found("rows.lp", &format!("cpu,host={note} v=1 1\n")).is_empty());
        }
    }

    #[test]
    fn tests_that_cannot_fail_and_stubs_are_found() {
        for (stub, _) in STUBS {
            assert_eq!(found("a.rs", &format!("    {stub}\n")).len(), 1, "{stub}");
            assert!(found("a.md", &format!("    {stub}\n")).is_empty());
        }
    }

    #[test]
    fn other_characters_are_found_in_code_and_allowed_in_prose() {
        let line = "// 5 \u{b5}s\n";
        assert!(found("a.rs", line)[0].contains("`\\u{b5}` is not ASCII"));
        assert!(found("a.md", line).is_empty());
    }

    #[test]
    fn blanks_at_line_ends_and_a_missing_line_end_are_found() {
        let lines = found("a.md", "a \nb\t\nc\r\nd");
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert!(found("a.csv", "a \nb").is_empty());
        assert!(found("empty.md", "").is_empty());
    }
}
