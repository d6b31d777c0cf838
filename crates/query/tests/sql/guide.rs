//! The guide's examples give the answers that stand below them.
//!
//! In a page of the guide, a block ```` ```line-protocol ```` is written (times in seconds) into the store that all
//! examples of the page share, and a block ```` ```sql ```` is run; the block ```` ```text ```` that follows it is its
//! answer: names, then rows, with `|` between and NULL for NULL. Spaces around values do not count.

use std::collections::BTreeSet;
use std::path::PathBuf;

use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::support::Store;

/// A fenced block: its language, the line where it starts, its text.
struct Block {
    language: String,
    line: usize,
    text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (number, line) in page.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(language)) => {
                open = Some(Block {
                    language: language.to_owned(),
                    line: number + 1,
                    text: String::new(),
                });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block without an end");
    blocks
}

fn normal(line: &str) -> String {
    line.split('|').map(str::trim).collect::<Vec<_>>().join("|")
}

async fn answer(store: &Store, sql: &str) -> Vec<String> {
    let (columns, batches) = match store.answer(sql).await {
        Ok(answer) => answer,
        Err(error) => return vec![format!("error: {error}")],
    };
    let options = FormatOptions::default().with_null("NULL");
    let mut lines = vec![columns.join("|")];
    for batch in &batches {
        let columns: Vec<ArrayFormatter<'_>> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        lines.extend((0..batch.num_rows()).map(|row| {
            let texts = columns.iter().map(|column| column.value(row).to_string());
            texts.collect::<Vec<_>>().join("|")
        }));
    }
    lines
}

/// Pages of the guide whose examples are run, with how many they have at least.
const PAGES: [(&str, usize); 3] = [
    ("sql.md", 15),
    ("sql-functions.md", 13),
    ("two-step-aggregates.md", 14),
];

#[tokio::test]
async fn every_example_of_the_guide_answers_what_it_shows() {
    for (name, examples_min) in PAGES {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide");
        let page = std::fs::read_to_string(folder.join(name)).unwrap();
        let examples = run(name, &page).await;
        assert!(examples >= examples_min, "{name}: only {examples} examples");
    }
}

/// Runs the examples of a page and returns how many there are.
async fn run(name: &str, page: &str) -> usize {
    let store = Store::new();
    let mut examples = 0;
    let blocks = blocks(page);
    let mut blocks = blocks.iter();
    while let Some(block) = blocks.next() {
        match block.language.as_str() {
            "line-protocol" => store.write_seconds(&block.text),
            "sql" => {
                let shown = blocks.next().filter(|next| next.language == "text");
                let shown = shown.unwrap_or_else(|| panic!("{name}:{}: no answer", block.line));
                let expected: Vec<String> = shown.text.lines().map(normal).collect();
                let found = answer(&store, &block.text).await.join("\n");
                let found: Vec<String> = found.lines().map(normal).collect();
                assert_eq!(found, expected, "{name}:{}: {}", block.line, block.text);
                examples += 1;
            }
            "text" => panic!("{name}:{}: an answer without a question", block.line),
            _ => {}
        }
    }
    examples
}

/// Names that pages mention and that are none of theirs: standard SQL, settings, and the word for any function.
const MENTIONED: [&str; 10] = [
    "enable_columnstore",
    "extract",
    "function",
    "now",
    "orderby",
    "random",
    "regr_slope",
    "segmentby",
    "timezone",
    "to_timestamp",
];

/// Pages that document functions, and of how many at least.
const DOCUMENTED: [(&str, usize); 3] = [
    ("sql-functions.md", 15),
    ("two-step-aggregates.md", 90),
    ("timescaledb.md", 45),
];

/// Functions that a page documents: what a call in its prose, or the first cell of its tables, names.
fn documented(page: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut is_block = false;
    for line in page.lines() {
        if line.starts_with("```") {
            is_block = !is_block;
        }
        if is_block {
            continue;
        }
        let is_table = line.starts_with('|');
        let text = if is_table {
            line.split('|').nth(1).unwrap_or_default()
        } else {
            line
        };
        // Every second part stands between backticks.
        for code in text.split('`').skip(1).step_by(2) {
            let (name, is_call) = match code.split_once('(') {
                Some((name, _)) => (name, true),
                None => (code, false),
            };
            let is_name = name.starts_with(|it: char| it.is_ascii_lowercase())
                && name
                    .chars()
                    .all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_');
            if is_name && (is_call || is_table) && !MENTIONED.contains(&name) {
                names.insert(name.to_owned());
            }
        }
    }
    names
}

/// Calls in the examples that are run.
fn is_called(examples: &str, name: &str) -> bool {
    examples.match_indices(&format!("{name}(")).any(|(at, _)| {
        let before = examples[..at].chars().next_back();
        !before.is_some_and(|it| it.is_ascii_alphanumeric() || it == '_')
    })
}

/// A function that is documented and has no example is one that nobody has seen to work as the page says. Examples in SQL are run here,
/// those of psql by the tests of PostgreSQL's clients.
#[test]
fn every_function_that_the_guide_documents_has_an_example_that_is_run() {
    let pages = DOCUMENTED.map(|(name, functions_min)| {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide");
        let page = std::fs::read_to_string(folder.join(name)).unwrap();
        (name, functions_min, page)
    });
    let examples = pages.iter().flat_map(|(_, _, page)| blocks(page));
    let examples: String = examples
        .filter(|block| ["sql", "psql"].contains(&block.language.as_str()))
        .map(|block| block.text)
        .collect();
    for (name, functions_min, page) in &pages {
        let functions = documented(page);
        assert!(functions.len() >= *functions_min, "{name}: {functions:?}");
        let without: Vec<&String> = functions
            .iter()
            .filter(|function| !is_called(&examples, function))
            .collect();
        assert!(without.is_empty(), "{name}: no example of {without:?}");
    }
}
