//! Running statements over HTTP and timing them.
//!
//! The clock of a statement runs from the sending of its request until the whole answer is there. Connections are open
//! and warm before, stay open in between, and send at once (`TCP_NODELAY`). Rows are counted after all clocks of a type
//! have stopped. A request is never repeated: one that fails ends the run.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::timing::Spread;
use super::{AnswerFormat, QuerySpec, QueryTiming};
use crate::http::{Address, Client, shown};
use crate::{Error, Result};

/// How statements are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryOptions {
    /// The form of the answers.
    pub format: AnswerFormat,
    /// Connections that ask at the same time, each all statements.
    pub clients: u32,
    /// How often each of them asks each statement.
    pub repeats: u32,
}

impl QueryOptions {
    /// JSON, one connection, so many repeats.
    pub fn new(repeats: u32) -> Self {
        Self {
            format: AnswerFormat::Json,
            clients: 1,
            repeats,
        }
    }
}

/// Runs all statements, type by type: statements of one type that follow each other share a timing.
pub fn run_queries(
    url: &str,
    database: &str,
    specs: &[QuerySpec],
    options: &QueryOptions,
) -> Result<Vec<QueryTiming>> {
    if options.clients == 0 || options.repeats == 0 {
        return Err(Error::Spec {
            what: "0 clients or 0 repeats ask nothing; give 1 or more".to_owned(),
        });
    }
    let address = Address::parse(url)?;
    let clients: Vec<Client> = (0..options.clients)
        .map(|_| Client::new(&address))
        .collect();
    let same_types = specs.chunk_by(|a, b| a.name == b.name);
    same_types
        .map(|specs| time_type(&clients, database, specs, options))
        .collect()
}

/// What one connection measured.
struct Measured {
    millis: Vec<f64>,
    begin: Instant,
    end: Instant,
    /// The last answer.
    answer: Vec<u8>,
}

/// Times statements of one type, of which there is at least one.
fn time_type(
    clients: &[Client],
    database: &str,
    specs: &[QuerySpec],
    options: &QueryOptions,
) -> Result<QueryTiming> {
    for client in clients {
        // Opens the connection, or finds out that the server closed it while rows were counted.
        client.get("/health").map_err(|why| Error::NoAnswer {
            name: "health".to_owned(),
            why,
        })?;
    }
    let all_ready = Barrier::new(clients.len());
    let stop = AtomicBool::new(false);
    let measured: Vec<Result<Measured>> = thread::scope(|scope| {
        let threads: Vec<_> = clients
            .iter()
            .enumerate()
            .map(|(number, client)| {
                let turn = Turn {
                    client,
                    database,
                    specs,
                    options,
                    number,
                    stop: &stop,
                };
                let all_ready = &all_ready;
                scope.spawn(move || {
                    all_ready.wait();
                    turn.run()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("clients return their errors"))
            .collect()
    });
    let measured = measured.into_iter().collect::<Result<Vec<Measured>>>()?;
    timing(&measured, specs, options)
}

fn timing(
    measured: &[Measured],
    specs: &[QuerySpec],
    options: &QueryOptions,
) -> Result<QueryTiming> {
    let (first, last) = (
        measured.first().expect("there is a client"),
        specs.last().expect("a type has a statement"),
    );
    let begin = measured.iter().map(|one| one.begin).min();
    let end = measured.iter().map(|one| one.end).max();
    let elapsed = begin
        .zip(end)
        .map_or(Duration::ZERO, |(begin, end)| end - begin);
    let mut millis: Vec<f64> = measured
        .iter()
        .flat_map(|one| one.millis.iter().copied())
        .collect();
    let spread = Spread::of(&mut millis);
    Ok(QueryTiming {
        name: last.name,
        clients: options.clients,
        runs: millis.len(),
        min_ms: spread.min,
        median_ms: spread.median,
        p99_ms: spread.p99,
        max_ms: spread.max,
        per_second: millis.len() as f64 / elapsed.as_secs_f64(),
        rows: options.format.count_rows(last.name, &first.answer)?,
        answer_bytes: first.answer.len(),
        note: last.note.clone(),
    })
}

/// One connection's part of a type.
struct Turn<'a> {
    client: &'a Client,
    database: &'a str,
    specs: &'a [QuerySpec],
    options: &'a QueryOptions,
    /// Which of the connections.
    number: usize,
    /// Another one failed.
    stop: &'a AtomicBool,
}

impl Turn<'_> {
    fn run(&self) -> Result<Measured> {
        let result = self.ask_all();
        if result.is_err() {
            self.stop.store(true, Ordering::Relaxed);
        }
        result
    }

    fn ask_all(&self) -> Result<Measured> {
        let begin = Instant::now();
        let mut measured = Measured {
            millis: Vec::new(),
            begin,
            end: begin,
            answer: Vec::new(),
        };
        // Each begins with another statement, so that they do not all ask the same at the same time.
        let (before, after) = self.specs.split_at(self.number % self.specs.len());
        for spec in after.iter().chain(before) {
            for _ in 0..self.options.repeats {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(measured);
                }
                let begin = Instant::now();
                let answer = self.ask(spec)?;
                measured.end = Instant::now();
                let elapsed = measured.end - begin;
                measured.millis.push(elapsed.as_secs_f64() * 1e3);
                measured.answer = answer;
            }
        }
        Ok(measured)
    }

    fn ask(&self, spec: &QuerySpec) -> Result<Vec<u8>> {
        let format = self.options.format.name();
        let (status, body) = self
            .client
            .query_once(self.database, &spec.sql, format)
            .map_err(|why| Error::NoAnswer {
                name: spec.name.to_owned(),
                why,
            })?;
        if status == 200 {
            return Ok(body);
        }
        Err(Error::Query {
            name: spec.name.to_owned(),
            status,
            body: shown(&body),
            sql: spec.sql.clone(),
        })
    }
}
