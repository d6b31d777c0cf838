//! Files stay small enough to read, and the repository small enough to clone.
//!
//! Does: count the lines of sources and the bytes of everything else.
//! Does not: count the lines of functions; clippy does that.

use crate::tree::{File, Finding, Tree, without_test_tail};
use crate::workspace::Workspace;

/// A source file without its test module.
const LINES_MAX: usize = 700;
/// A file of tests, or a source file together with its test module.
const LINES_WITH_TESTS_MAX: usize = 1_200;
/// Anything at all.
const BYTES_MAX: usize = 1_500_000;

const SOURCES: &[&str] = &["rs", "c", "h", "js", "ts", "py", "sh"];

/// A file that may be larger, and why. An entry that is no longer needed is a finding.
struct Exception {
    path: &'static str,
    reason: &'static str,
}

const EXCEPTIONS: &[Exception] = &[];

pub(crate) fn check(tree: &Tree, _workspace: &Workspace) -> Vec<Finding> {
    check_with(tree, EXCEPTIONS)
}

fn check_with(tree: &Tree, exceptions: &[Exception]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let listed = exceptions
            .iter()
            .find(|exception| exception.path == file.path);
        match (complaint(file), listed) {
            (Some(finding), None) => findings.push(finding),
            (None, Some(exception)) => {
                let message = format!(
                    "needs no exception any more; remove it (\"{}\") from xtask/src/tidy/sizes.rs",
                    exception.reason
                );
                findings.push(Finding::new(file.path.clone(), 1, message));
            }
            _ => {}
        }
    }
    for exception in exceptions
        .iter()
        .filter(|exception| tree.file(exception.path).is_none())
    {
        findings.push(Finding::new(
            exception.path,
            1,
            "does not exist; remove its exception from xtask/src/tidy/sizes.rs",
        ));
    }
    findings
}

fn complaint(file: &File) -> Option<Finding> {
    let bytes = file.bytes.len();
    if bytes > BYTES_MAX {
        let message = format!(
            "{bytes} bytes, more than {BYTES_MAX}; generate it, compress it, or list it with its reason in xtask/src/tidy/sizes.rs"
        );
        return Some(Finding::new(file.path.clone(), 1, message));
    }
    if !SOURCES.contains(&file.extension()) {
        return None;
    }
    let text = file.text()?;
    let all = text.lines().count();
    let code = if file.is_test_code() {
        0
    } else {
        without_test_tail(text).lines().count()
    };
    if code > LINES_MAX {
        let message = format!(
            "{code} lines without tests, more than {LINES_MAX}; split it by what its parts are about"
        );
        return Some(Finding::new(file.path.clone(), LINES_MAX + 1, message));
    }
    if all > LINES_WITH_TESTS_MAX {
        let message = format!(
            "{all} lines with tests, more than {LINES_WITH_TESTS_MAX}; give the tests files of their own, one behaviour each"
        );
        return Some(Finding::new(
            file.path.clone(),
            LINES_WITH_TESTS_MAX + 1,
            message,
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::texts;

    fn found(path: &str, text: &str, exceptions: &[Exception]) -> Vec<String> {
        texts(&check_with(&Tree::of(&[(path, text)]), exceptions))
    }

    #[test]
    fn a_source_file_may_have_exactly_its_cap() {
        assert!(found("a.rs", &"x\n".repeat(LINES_MAX), &[]).is_empty());
        let over = found("a.rs", &"x\n".repeat(LINES_MAX + 1), &[]);
        assert!(
            over[0].starts_with("a.rs:701: 701 lines without tests"),
            "{over:?}"
        );
    }

    #[test]
    fn the_test_module_has_a_cap_of_its_own() {
        let file = |lines: usize| {
            format!(
                "fn a() {{}}\n#[cfg(test)]\nmod tests {{\n{}}}\n",
                "x\n".repeat(lines - 4)
            )
        };
        assert!(found("a.rs", &file(LINES_WITH_TESTS_MAX), &[]).is_empty());
        assert_eq!(found("a.rs", &file(LINES_WITH_TESTS_MAX + 1), &[]).len(), 1);
    }

    #[test]
    fn files_of_tests_have_the_larger_cap() {
        for path in ["crates/a/tests/x.rs", "crates/a/src/x/tests.rs"] {
            assert!(found(path, &"x\n".repeat(LINES_WITH_TESTS_MAX), &[]).is_empty());
            assert_eq!(
                found(path, &"x\n".repeat(LINES_WITH_TESTS_MAX + 1), &[]).len(),
                1
            );
        }
    }

    #[test]
    fn data_may_be_long_but_not_large() {
        assert!(found("a.csv", &"x\n".repeat(5_000), &[]).is_empty());
        assert!(found("a.bin", &"x".repeat(BYTES_MAX), &[]).is_empty());
        assert_eq!(found("a.bin", &"x".repeat(BYTES_MAX + 1), &[]).len(), 1);
    }

    #[test]
    fn an_exception_counts_while_it_is_needed_and_is_found_afterwards() {
        let exception = |path| {
            [Exception {
                path,
                reason: "a table",
            }]
        };
        let long = "x\n".repeat(LINES_MAX + 1);
        assert!(found("a.rs", &long, &exception("a.rs")).is_empty());
        assert!(
            found("a.rs", "x\n", &exception("a.rs"))[0].contains("needs no exception any more")
        );
        assert!(
            found("a.rs", "x\n", &exception("gone.rs"))[0].starts_with("gone.rs:1: does not exist")
        );
    }
}
