//! The guide and the README are true: their blocks of shell run in order, and what they show is what came.
//!
//! A page's blocks marked `sh` run in one folder, one after the other, with the program on the path and a free port in
//! the place of 8086. A block marked `text` after one is what that printed; a line of dots stands for lines that are left
//! out, and three dots in a line for anything.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::support::bash;

/// Pages whose shell is run.
const PAGES: &[&str] = &[
    "get-started.md",
    "writing.md",
    "shell.md",
    "../../README.md",
];

#[derive(Debug, PartialEq, Eq)]
struct Block {
    kind: String,
    text: String,
    /// Of the page, for messages.
    line: usize,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (at, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(kind), None) => {
                open = Some(Block {
                    kind: kind.to_owned(),
                    text: String::new(),
                    line: at + 1,
                });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

/// A shell that runs all blocks and writes what each printed into a file of its own.
fn script(blocks: &[Block], port: u16) -> String {
    let mut script = String::from("trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n");
    for (at, block) in blocks
        .iter()
        .enumerate()
        .filter(|(_, block)| block.kind == "sh")
    {
        let text = block.text.replace("8086", &port.to_string());
        // A server in the background is waited for, so that the page need not.
        let is_server = text.lines().any(|line| line.trim_end().ends_with('&'));
        let _ = writeln!(
            script,
            "{{\n{text}}} > out-{at} 2> err-{at} < /dev/null || {{ echo failed {at}; exit 1; }}"
        );
        if is_server {
            let _ = writeln!(
                script,
                "for _ in $(seq 600); do said=$(nilometer sql -d none 'select 1' 2>&1 || true); case \"$said\" in *'cannot reach'*) sleep 0.1;; *) break;; esac; done"
            );
        }
    }
    script
}

/// Whether `shown`, which may leave something out, is what came.
fn agrees(shown: &str, came: &str) -> bool {
    let mut came = came.lines().map(str::trim_end).peekable();
    let mut shown = shown.lines().map(str::trim_end).peekable();
    while let Some(line) = shown.next() {
        if line.trim() == "..." {
            let Some(next) = shown.peek() else {
                return true;
            };
            while came.peek().is_some_and(|came| !fits(next, came)) {
                came.next();
            }
        } else if !came.next().is_some_and(|came| fits(line, came)) {
            return false;
        }
    }
    came.next().is_none()
}

fn fits(shown: &str, came: &str) -> bool {
    let mut parts = shown.split("...");
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = came.strip_prefix(first) else {
        return false;
    };
    let mut ends_open = false;
    let mut is_whole = true;
    for part in parts {
        is_whole = false;
        ends_open = part.is_empty();
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.is_empty() || (!is_whole && ends_open)
}

fn guide() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide")
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("a port").port()
}

#[test]
fn every_block_of_the_guide_runs_and_prints_what_is_shown() {
    for name in PAGES {
        let page = std::fs::read_to_string(guide().join(name)).expect("a page of the guide");
        let blocks = blocks(&page);
        assert!(
            blocks.iter().any(|block| block.kind == "sh"),
            "{name} has no shell"
        );
        let dir = TempDir::new().expect("a scratch folder");
        let port = free_port();
        let url = format!("http://127.0.0.1:{port}");
        let run = bash(
            dir.path(),
            &script(&blocks, port),
            &[("NILOMETER_URL", &url)],
        );
        let read = |what: &str, at: usize| {
            std::fs::read_to_string(dir.path().join(format!("{what}-{at}"))).unwrap_or_default()
        };
        let failed = run
            .stdout
            .trim()
            .strip_prefix("failed ")
            .and_then(|at| at.parse::<usize>().ok());
        if let Some(at) = failed {
            let block = &blocks[at];
            panic!(
                "{name}:{}: failed\n{}\n{}{}",
                block.line,
                block.text,
                read("out", at),
                read("err", at)
            );
        }
        assert_eq!(run.status, Some(0), "{name}: {}", run.stderr);
        for (at, pair) in blocks.windows(2).enumerate() {
            let [before, shown] = pair else { continue };
            if before.kind == "sh" && shown.kind == "text" {
                let came = read("out", at);
                assert!(
                    agrees(&shown.text, &came),
                    "{name}:{}: shown is\n{}\nbut this came:\n{came}{}",
                    shown.line,
                    shown.text,
                    read("err", at)
                );
            }
        }
    }
}

#[test]
fn what_a_page_leaves_out_is_left_out_and_nothing_else() {
    for (shown, came, want) in [
        ("a\nb\n", "a\nb\n", true),
        ("a\nb\n", "a\nc\n", false),
        ("a\n", "a\nb\n", false),
        ("a\n...\nd\n", "a\nb\nc\nd\n", true),
        ("a\n...\n", "a\nb\n", true),
        ("took ... s\n", "took 12 s\n", true),
        ("took ... s\n", "took 12 ms\n", false),
        ("took ...\n", "took 12 s\n", true),
        ("", "a\n", false),
    ] {
        assert_eq!(agrees(shown, came), want, "{shown:?} {came:?}");
    }
}

/// Everything that a page has between backticks.
fn quoted(page: &str) -> Vec<&str> {
    // Blocks are marked with three of them, and leave nothing between.
    page.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .collect()
}

/// The sources of all tests, as one text.
fn tests_of_the_repository(root: &Path) -> String {
    let mut folders = vec![root.join("crates")];
    let mut all = String::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of the repository") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                all += &std::fs::read_to_string(path).expect("a source");
            }
        }
    }
    all
}

#[test]
fn every_test_that_a_promise_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = root.join("docs/guide/reliability.md");
    let page = std::fs::read_to_string(page).expect("the page about promises");
    let sources = tests_of_the_repository(&root);
    let mut named = 0;
    for word in quoted(&page) {
        // Braces stand for several files at once.
        let (before, inner, after) = match word.split_once('{').zip(word.split_once('}')) {
            Some(((before, _), (_, after))) => {
                let inner = &word[before.len() + 1..word.len() - after.len() - 1];
                (before, inner, after)
            }
            None => (word, "", ""),
        };
        if before.starts_with("crates/") || before.starts_with("sqltests/") {
            for one in inner.split(',') {
                let path = root.join(format!("{before}{one}{after}"));
                assert!(path.exists(), "{word}: {} is not there", path.display());
                named += 1;
            }
        }
        let is_name = word
            .chars()
            .all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit());
        if is_name && word.matches('_').count() >= 4 {
            assert!(
                sources.contains(&format!("fn {word}()")),
                "no test is called {word}"
            );
            named += 1;
        }
    }
    assert!(named > 60, "the page names {named} files and tests");
}
