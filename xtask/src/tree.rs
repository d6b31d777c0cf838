//! The files of the checkout, read once, and what a check says about them.
//!
//! Does: list what git tracks or would track (a plain walk where there is no git), hold each file's bytes.
//! Does not: follow links, look at ignored files, write.

use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// One rule broken in one place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) path: String,
    /// Counted from 1; a finding about a whole file points at its first line.
    pub(crate) line: usize,
    /// What is wrong and what to do about it.
    pub(crate) message: String,
}

impl Finding {
    pub(crate) fn new(path: impl Into<String>, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Findings as they are printed.
#[cfg(test)]
pub(crate) fn texts(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(ToString::to_string).collect()
}

/// One file; its path is relative to the root and uses `/`.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) bytes: Vec<u8>,
}

impl File {
    /// The contents, unless they are not text.
    pub(crate) fn text(&self) -> Option<&str> {
        if self.bytes.contains(&0) {
            None
        } else {
            std::str::from_utf8(&self.bytes).ok()
        }
    }

    pub(crate) fn extension(&self) -> &str {
        extension_of(&self.path)
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.extension() == "rs"
    }

    pub(crate) fn is_markdown(&self) -> bool {
        self.extension() == "md"
    }

    /// Files that hold nothing but tests: below a `tests` folder, or a module kept in `tests.rs`.
    pub(crate) fn is_test_code(&self) -> bool {
        self.path.ends_with("/tests.rs")
            || self
                .path
                .split('/')
                .rev()
                .skip(1)
                .any(|folder| folder == "tests")
    }
}

/// The part of a path's last name after its last dot, or the empty string.
pub(crate) fn extension_of(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.rsplit_once('.').map_or("", |(_, extension)| extension)
}

/// All files of the checkout, sorted by path.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
}

impl Tree {
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let paths = match listed_by_git(root) {
            Some(paths) => paths,
            None => walked(root)?,
        };
        let mut files = Vec::with_capacity(paths.len());
        for path in paths {
            let full = root.join(&path);
            // A link is checked as the file it names, which git lists too.
            if full.symlink_metadata().is_ok_and(|meta| !meta.is_file()) {
                continue;
            }
            match std::fs::read(&full) {
                Ok(bytes) => files.push(File { path, bytes }),
                // Git lists a tracked file until its removal is committed.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error).with_context(|| format!("read {path}")),
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup_by(|a, b| a.path == b.path);
        Ok(Self { files })
    }

    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files
            .binary_search_by(|file| file.path.as_str().cmp(path))
            .ok()
            .map(|at| &self.files[at])
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.file(path).and_then(File::text)
    }

    /// Whether `path` is a file of the tree, or a folder that holds one.
    pub(crate) fn exists(&self, path: &str) -> bool {
        let inside = format!("{path}/");
        path.is_empty()
            || self.file(path).is_some()
            || self.files.iter().any(|file| file.path.starts_with(&inside))
    }

    #[cfg(test)]
    pub(crate) fn of(texts: &[(&str, &str)]) -> Self {
        let mut files: Vec<File> = texts
            .iter()
            .map(|(path, text)| File {
                path: (*path).to_owned(),
                bytes: text.as_bytes().to_vec(),
            })
            .collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Self { files }
    }
}

/// The Rust code of a file without the test module at its end.
pub(crate) fn without_test_tail(text: &str) -> &str {
    let mut offset = 0;
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let opens_module = |next: &&str| next.starts_with("mod ") && next.trim_end().ends_with('{');
        if line.trim_end() == "#[cfg(test)]" && lines.peek().is_some_and(opens_module) {
            return &text[..offset];
        }
        offset += line.len();
    }
    text
}

/// Git in `folder`, even if a hook of another repository runs us and has said where that one is.
fn git(folder: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(folder);
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(variable);
    }
    command
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let arguments = [
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ];
    let output = git(root).args(arguments).output().ok()?;
    if !output.status.success() {
        return None;
    }
    let names = String::from_utf8(output.stdout).ok()?;
    Some(
        names
            .split('\0')
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect(),
    )
}

fn walked(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let full = root.join(&folder);
        for entry in std::fs::read_dir(&full).with_context(|| format!("list {}", full.display()))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() {
                name.clone()
            } else {
                format!("{folder}/{name}")
            };
            let kind = entry.file_type()?;
            if kind.is_dir() && name != ".git" && name != "target" {
                folders.push(path);
            } else if kind.is_file() {
                found.push(path);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(tree: &Tree) -> Vec<&str> {
        tree.files.iter().map(|file| file.path.as_str()).collect()
    }

    #[test]
    fn a_folder_without_git_is_walked_and_build_output_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("src/deep")).unwrap();
        std::fs::create_dir_all(folder.path().join("target/release")).unwrap();
        std::fs::write(folder.path().join("a.md"), "a").unwrap();
        std::fs::write(folder.path().join("src/deep/b.rs"), "b").unwrap();
        std::fs::write(folder.path().join("target/release/c"), "c").unwrap();
        let mut listed = walked(folder.path()).unwrap();
        listed.sort();
        assert_eq!(listed, ["a.md", "src/deep/b.rs"]);
    }

    #[test]
    fn git_lists_new_files_and_hides_ignored_ones() {
        let folder = tempfile::tempdir().unwrap();
        let git = git(folder.path()).args(["init", "-q"]).status();
        assert!(
            git.is_ok_and(|status| status.success()),
            "git is one of the tools that scripts/setup.sh asks for"
        );
        std::fs::write(folder.path().join(".gitignore"), "secret\n").unwrap();
        std::fs::write(folder.path().join("secret"), "x").unwrap();
        std::fs::write(folder.path().join("new.md"), "x").unwrap();
        assert_eq!(
            paths(&Tree::read(folder.path()).unwrap()),
            [".gitignore", "new.md"]
        );
    }

    #[test]
    fn a_file_that_git_still_lists_after_its_removal_is_no_error() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("gone.md"), "x").unwrap();
        for arguments in [["init", "-q"], ["add", "gone.md"]] {
            let status = git(folder.path()).args(arguments).status();
            assert!(status.is_ok_and(|status| status.success()));
        }
        std::fs::remove_file(folder.path().join("gone.md")).unwrap();
        assert!(paths(&Tree::read(folder.path()).unwrap()).is_empty());
    }

    #[test]
    fn the_test_module_at_the_end_does_not_count_as_code() {
        let code = "fn a() {}\n";
        let tail = "#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!(without_test_tail(&format!("{code}{tail}")), code);
        let outside = "#[cfg(test)]\nmod tests;\nfn b() {}\n";
        assert_eq!(without_test_tail(outside), outside);
        let helper = "#[cfg(test)]\nfn only_for_tests() {}\nfn b() {}\n";
        assert_eq!(without_test_tail(helper), helper);
    }

    #[test]
    fn a_folder_exists_if_a_file_lies_in_it() {
        let tree = Tree::of(&[("docs/guide/a.md", "")]);
        assert!(tree.exists("docs/guide/a.md") && tree.exists("docs/guide") && tree.exists("docs"));
        assert!(!tree.exists("doc") && !tree.exists("docs/guide/b.md"));
    }
}
