//! Calls that only one place may make, because everything else goes through that place.
//!
//! Does: look for the words of such a call in the code of the crates it concerns, tests and comments left out.
//! Does not: understand Rust; a call hidden behind a renaming import is the reviewer's to see.

use crate::tree::{File, Finding, Tree, without_test_tail};
use crate::workspace::Workspace;

struct Rule {
    /// Any of these words is the call.
    calls: &'static [&'static str],
    /// Where the rule holds: beginnings of paths.
    holds: &'static [&'static str],
    /// Where it does not: beginnings of paths.
    except: &'static [&'static str],
    instead: &'static str,
}

const LIBRARIES: &[&str] = &[
    "crates/codec/src/",
    "crates/lineproto/src/",
    "crates/engine/src/",
    "crates/series/src/",
    "crates/service/src/",
    "crates/query/src/",
    "crates/http/src/",
    "crates/surfaces/",
];

/// What stands between a socket and the service.
const SURFACES: &[&str] = &["crates/http/src/", "crates/surfaces/"];

/// The part of the program's crate that is the library.
const EMBEDDED: &[&str] = &[
    "crates/nilometer/src/lib.rs",
    "crates/nilometer/src/library",
];

const RULES: &[Rule] = &[
    Rule {
        calls: &["std::fs", "rustix::fs", "use std::{fs"],
        holds: LIBRARIES,
        // What the system says of the process is no file of a store.
        except: &["crates/engine/src/disk", "crates/service/src/heap"],
        instead: "go through the engine's Disk, so that the simulation can make this call fail too",
    },
    Rule {
        calls: &["SystemTime::now"],
        holds: LIBRARIES,
        except: &["crates/engine/src/clock"],
        instead: "ask the engine's Clock, so that a test can turn it",
    },
    Rule {
        calls: &["thread::spawn", "thread::Builder", "thread::scope"],
        holds: &[
            "crates/codec/src/",
            "crates/lineproto/src/",
            "crates/engine/src/",
            "crates/series/src/",
        ],
        except: &[],
        instead: "let the caller drive the work: the engine and series queries start no threads",
    },
    Rule {
        calls: &[
            "sync::Mutex",
            "sync::RwLock",
            "sync::{Mutex",
            "Arc, Mutex",
            "Arc, RwLock",
        ],
        holds: &["crates/engine/src/"],
        except: &["crates/engine/src/ranked"],
        instead: "take the locks of ranked.rs, whose order is checked",
    },
    Rule {
        calls: &["std::net", "tokio::net"],
        holds: &[
            "crates/codec/src/",
            "crates/lineproto/src/",
            "crates/engine/src/",
            "crates/series/src/",
            "crates/service/src/",
            "crates/query/src/",
        ],
        except: &[],
        instead: "keep sockets in the HTTP listener, or in a surface that has one of its own",
    },
    Rule {
        calls: &["nilometer_query::"],
        holds: SURFACES,
        except: &[],
        instead: "take what languages have in common from the service; the program hands them to it",
    },
    Rule {
        calls: &[
            "Arc<Engine>",
            "&Engine",
            "nilometer_engine::Engine",
            "{Engine,",
            " Engine,",
            "Engine::open",
            ".engine()",
            ".sessions()",
        ],
        holds: SURFACES,
        except: &[],
        instead: "ask the service: a surface that is wrong about its protocol cannot harm the store",
    },
    Rule {
        calls: &["pub fn engine("],
        holds: &["crates/service/src/"],
        except: &[],
        instead: "give callers what they need of the engine, not the engine",
    },
    Rule {
        calls: &[
            "tokio::spawn",
            "task::spawn_blocking",
            "time::sleep",
            "time::timeout",
        ],
        holds: &["crates/service/src/", "crates/influxql/src/"],
        except: &["crates/service/src/executor"],
        instead: "ask the executor, so that a simulation has the work and the time",
    },
    Rule {
        calls: &[
            "axum::",
            "nilometer_edge::",
            "nilometer_http::",
            "nilometer_influx::",
            "nilometer_listener::",
            "nilometer_native::",
            "nilometer_postgres::",
            "nilometer_tstorage::",
        ],
        holds: EMBEDDED,
        except: &[],
        instead: "take what an embedded store shares with the server from the service, which knows no HTTP",
    },
];

pub(crate) fn check(tree: &Tree, _workspace: &Workspace) -> Vec<Finding> {
    let sources = tree
        .files
        .iter()
        .filter(|file| file.is_rust() && !file.is_test_code());
    // This file spells the calls out.
    sources
        .filter(|file| file.path != "xtask/src/tidy/confine.rs")
        .flat_map(check_file)
        .collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let begins = |starts: &[&str]| starts.iter().any(|start| file.path.starts_with(start));
    let rules: Vec<&Rule> = RULES
        .iter()
        .filter(|rule| begins(rule.holds) && !begins(rule.except))
        .collect();
    let code = without_test_tail(file.text().unwrap_or_default());
    let mut findings = Vec::new();
    for (at, line) in code.lines().enumerate() {
        if line.trim_start().starts_with("//") {
            continue;
        }
        for rule in &rules {
            if let Some(call) = rule.calls.iter().find(|call| line.contains(**call)) {
                findings.push(Finding::new(
                    file.path.clone(),
                    at + 1,
                    format!("`{call}` is not called here: {}", rule.instead),
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::texts;

    fn found(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(&[(path, text)]);
        texts(&check(&tree, &Workspace::default()))
    }

    #[test]
    fn the_file_system_is_touched_only_behind_the_disk() {
        let code = "fn f() {\n    std::fs::read(p);\n}\n";
        let outside = found("crates/engine/src/log.rs", code);
        assert!(
            outside[0].starts_with("crates/engine/src/log.rs:2: `std::fs` is not called here"),
            "{outside:?}"
        );
        for inside in [
            "crates/engine/src/disk.rs",
            "crates/engine/src/disk/real.rs",
            "crates/bench/src/lib.rs",
        ] {
            assert_eq!(found(inside, code), Vec::<String>::new());
        }
    }

    #[test]
    fn the_clock_threads_and_sockets_have_their_place() {
        for (path, code) in [
            ("crates/engine/src/log.rs", "SystemTime::now()"),
            ("crates/engine/src/log.rs", "std::thread::spawn(f)"),
            ("crates/query/src/lib.rs", "use std::net::TcpStream;"),
        ] {
            assert_eq!(found(path, code).len(), 1, "{path}: {code}");
        }
        assert!(found("crates/engine/src/clock.rs", "SystemTime::now()").is_empty());
        assert!(found("crates/http/src/http.rs", "use std::net::SocketAddr;").is_empty());
    }

    #[test]
    fn surfaces_know_no_language_and_no_engine_and_their_tests_may() {
        for code in [
            "use nilometer_query::Sql;",
            "    engine: Arc<Engine>,",
            "use nilometer_engine::Engine;",
            "    service.engine().flush()?;",
        ] {
            for path in [
                "crates/http/src/http.rs",
                "crates/surfaces/native/src/query.rs",
                "crates/surfaces/third/src/lib.rs",
            ] {
                assert_eq!(found(path, code).len(), 1, "{path}: {code}");
            }
            assert!(found("crates/http/tests/mounted.rs", code).is_empty());
        }
    }

    #[test]
    fn locks_of_the_engine_have_ranks() {
        for code in [
            "use std::sync::Mutex;",
            "use std::sync::{Arc, Mutex, PoisonError};",
            "    inner: std::sync::RwLock<T>,",
        ] {
            let path = "crates/engine/src/engine/jobs.rs";
            assert_eq!(found(path, code).len(), 1, "{code}");
            assert!(found("crates/engine/src/ranked.rs", code).is_empty());
            assert!(found("crates/service/src/service.rs", code).is_empty());
        }
        assert!(
            found(
                "crates/engine/src/engine.rs",
                "use crate::ranked::{Mutex, Rank};"
            )
            .is_empty()
        );
    }

    #[test]
    fn the_service_keeps_its_engine_and_gives_its_work_to_the_executor() {
        for code in ["    pub fn engine(&self)", "    tokio::spawn(task);"] {
            let path = "crates/service/src/service.rs";
            assert_eq!(found(path, code).len(), 1, "{code}");
        }
        let inside = "    tokio::spawn(task);";
        assert!(found("crates/service/src/executor/threads.rs", inside).is_empty());
    }

    #[test]
    fn the_library_imports_no_http_and_the_program_may() {
        let code = "use nilometer_http::Http;";
        assert_eq!(
            found("crates/nilometer/src/library/database.rs", code).len(),
            1
        );
        assert!(found("crates/nilometer/src/commands/serve.rs", code).is_empty());
    }

    #[test]
    fn tests_and_comments_are_free() {
        assert!(found("crates/engine/tests/recovery.rs", "std::fs::read(p)").is_empty());
        assert!(found("crates/engine/src/log.rs", "// std::fs would not do\n").is_empty());
        assert!(
            found(
                "crates/engine/src/log.rs",
                "fn f() {}\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n"
            )
            .is_empty()
        );
    }
}
