//! The binary `nilometer` as its users meet it: a process, a port, a data directory.
//!
//! Does: start the real binary, talk to it over HTTP, stop or kill it, and compare what it answers with what other
//! programs computed. Does not: link a crate of the workspace, nor look into the files of a data directory
//! (their sizes are no secret).
//! The real input and the answers of other databases lie in `testdata/tsbs/`.

mod access;
mod answers;
mod bad_input;
mod client;
mod command_line;
mod counts;
mod data_directory;
mod export;
mod fake_server;
mod first_steps;
mod guide;
mod health;
mod help;
mod hostile;
mod import;
mod import_damaged;
mod import_duplicates;
mod import_exported;
mod import_killed;
mod import_rejects;
mod import_text;
mod import_typed;
mod iot_answers;
mod kill;
mod logs;
mod numbers;
mod settings;
mod shell;
mod sizes;
mod states;
mod support;
mod terminal;
mod tsbs;
mod upkeep;
