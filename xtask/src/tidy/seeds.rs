//! Tests that are the same on every run: no test draws its seed from a clock or from the system.
//!
//! Does: look for such a draw in test code and in the script that runs the tests, and for the seed that proptest is given.
//! Does not: look at programs that are run by hand (soaks, the ledger), which are there to draw new seeds.

use crate::tree::{File, Finding, Tree, without_test_tail};
use crate::workspace::Workspace;

/// Any of these is another number on each run.
const DRAWS: &[&str] = &[
    "SystemTime::now",
    "RandomState::new",
    "rand::rng()",
    "thread_rng",
    "from_os_rng",
    "from_rng(&mut rand::rng",
    "rand::random",
];

/// Asks other databases new queries, and only when a variable says so.
const BY_HAND: &[&str] = &["crates/query/tests/sql/oracle.rs"];

/// Where the tests are run.
const SCRIPT: &str = "scripts/test.sh";
/// What draws a seed of its own unless it is given one.
const LEDGER: &str = "nilometer-ledger\" ";

const CONFIG: &str = ".cargo/config.toml";
const PROPTEST: &str = "PROPTEST_RNG_SEED = ";

pub(crate) fn check(tree: &Tree, _workspace: &Workspace) -> Vec<Finding> {
    let mut findings: Vec<Finding> = tree
        .files
        .iter()
        // This file spells the draws out.
        .filter(|file| file.is_rust() && !file.path.starts_with("xtask/"))
        .filter(|file| !BY_HAND.contains(&file.path.as_str()))
        .flat_map(check_tests)
        .collect();
    for file in &tree.files {
        let text = file.text().unwrap_or_default();
        if file.path == SCRIPT {
            findings.extend(check_script(text));
        }
        let has_seed = || text.lines().any(|line| line.starts_with(PROPTEST));
        if file.path == CONFIG && !has_seed() {
            let message = format!(
                "set {PROPTEST}\"...\" below [env]: without it proptest draws another seed each time"
            );
            findings.push(Finding::new(CONFIG, 1, message));
        }
    }
    findings
}

fn check_tests(file: &File) -> Vec<Finding> {
    let text = file.text().unwrap_or_default();
    let skipped = if file.is_test_code() {
        0
    } else {
        without_test_tail(text).lines().count()
    };
    let lines = text.lines().enumerate().skip(skipped);
    let code = lines.filter(|(_, line)| !line.trim_start().starts_with("//"));
    code.filter_map(|(at, line)| {
        let draw = DRAWS.iter().find(|draw| line.contains(**draw))?;
        let message = format!(
            "`{draw}` in a test: a test is the same on every run; write its seed down, and let `make soak` or `make ledger` draw new ones"
        );
        Some(Finding::new(file.path.clone(), at + 1, message))
    })
    .collect()
}

fn check_script(text: &str) -> Vec<Finding> {
    let lines = text.lines().enumerate();
    let runs = lines.filter(|(_, line)| line.contains(LEDGER) && !line.contains("--seed "));
    runs.map(|(at, _)| {
        let message = "the ledger draws a seed of its own here: give it one with --seed";
        Finding::new(SCRIPT, at + 1, message)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::texts;

    fn found(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(&[(path, text)]);
        texts(&check(&tree, &Workspace::default()))
    }

    /// A new user's `make test` failed in a fresh clone: a simulation took the time for its first seed, and met what no run
    /// before had met.
    #[test]
    fn no_test_takes_its_seed_from_the_clock() {
        let draws = "let seed = SystemTime::now();\n";
        let tail = format!("fn f() {{}}\n#[cfg(test)]\nmod tests {{\n    {draws}}}\n");
        assert_eq!(found("crates/sim/tests/random.rs", draws).len(), 1);
        let in_tail = found("crates/engine/src/clock.rs", &tail);
        assert!(
            in_tail[0].starts_with("crates/engine/src/clock.rs:4: `SystemTime::now` in a test"),
            "{in_tail:?}"
        );
        for (path, text) in [
            ("crates/soak/src/lib.rs", draws),
            ("crates/query/tests/sql/oracle.rs", draws),
            ("crates/sim/tests/random.rs", "// not SystemTime::now()\n"),
        ] {
            assert_eq!(found(path, text), Vec::<String>::new(), "{path}");
        }
    }

    #[test]
    fn what_draws_a_seed_unless_it_is_given_one_is_given_one() {
        let ledger = "\"$(scripts/target-dir.sh)/release/nilometer-ledger\" --quick";
        assert_eq!(found("scripts/test.sh", ledger).len(), 1);
        assert!(found("scripts/test.sh", &format!("{ledger} --seed 1")).is_empty());
        assert_eq!(found(".cargo/config.toml", "[env]\n").len(), 1);
        assert!(found(".cargo/config.toml", "[env]\nPROPTEST_RNG_SEED = \"1\"\n").is_empty());
    }
}
