//! Sending batches: to a server over a connection, or into a store.
//!
//! Does: send with a key, so that a batch that is sent again counts once; wait and try again where that may help; take
//! the answer apart. Does not: decide what becomes of an import whose batch cannot be sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow};
use arrow::array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use nilometer::{Database, Missing, OnConflict, Precision, Target, WriteReport};
use nilometer_influxql_syntax::ast::{CreateRetentionPolicy, Statement};
use nilometer_service::define::schema_of_policy;
use serde_json::Value;

use super::batch::{Batch, Content, Reject};
use super::duplicates::{Tables, name};
use super::format::exported::{Definition, LinePlace};
use crate::client::{Refused, Server};
use crate::lines::{unit_line, unit_name};
use crate::print;
use crate::source::Source;

/// First pause before a batch is sent again; the next are twice as long each.
const PAUSE_MIN: Duration = Duration::from_millis(100);

const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Times that a batch is sent while nobody answers: about half a minute.
const UNANSWERED_MAX: u32 = 8;

/// Times that a batch is sent while the server says that it is busy: about half an hour.
const BUSY_MAX: u32 = 200;

/// Where batches go.
#[derive(Debug, Clone)]
pub(super) struct Sink {
    source: Source,
    /// Empty = the one that lines say themselves.
    database: String,
    /// Names this import: keys of batches begin with it.
    import: u128,
    tables: Arc<Tables>,
}

/// What became of a batch.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) rows: u64,
    pub(super) rejected: Vec<Reject>,
    pub(super) rejected_total: u64,
}

/// What `InfluxDB` says where a policy of the same name is another one, or a database has another one.
const POLICY_EXISTS: &str = "retention policy already exists";
const POLICY_CONFLICTS: &str = "retention policy conflicts with an existing policy";

/// The policy that a `CREATE DATABASE` names, as a statement of its own.
fn policy_of(statement: &Statement) -> Option<Statement> {
    let Statement::CreateDatabase(create) = statement else {
        return None;
    };
    Some(Statement::CreateRetentionPolicy(CreateRetentionPolicy {
        name: create.policy.clone()?,
        database: create.name.clone(),
        duration: create.duration.unwrap_or(0),
        replication: create.replication.unwrap_or(1),
        shard_duration: create.shard_duration,
        future_limit: create.future_limit.unwrap_or(0),
        past_limit: create.past_limit.unwrap_or(0),
        default: false,
    }))
}

enum Failure {
    /// Trying again may help.
    Busy(anyhow::Error, Option<Duration>),
    Unanswered(anyhow::Error),
    Never(anyhow::Error),
}

impl Sink {
    pub(super) fn new(source: Source, database: &str, import: u128, tables: Arc<Tables>) -> Self {
        Self {
            source,
            database: database.to_owned(),
            import,
            tables,
        }
    }

    /// Sends a batch until it is answered for good, or `stop` is set.
    pub(super) fn write(&self, batch: &Batch, stop: &AtomicBool) -> anyhow::Result<Written> {
        if batch.is_empty() {
            return Ok(Written::default());
        }
        let key = self.key(batch);
        let body = match (&self.source, &batch.content) {
            (Source::Server(_), Content::Rows { rows, .. }) => stream_of(rows)?,
            _ => Vec::new(),
        };
        let (mut busy, mut unanswered, mut pause) = (0, 0, PAUSE_MIN);
        loop {
            let written = match &self.source {
                Source::Server(server) => self.write_server(server, key, batch, &body),
                Source::Store(store) => self.write_store(store, key, batch),
            };
            let asked = match written {
                Ok(written) => return Ok(written),
                Err(Failure::Never(error)) => return Err(error),
                Err(Failure::Busy(error, asked)) => {
                    busy += 1;
                    if busy >= BUSY_MAX {
                        return Err(error);
                    }
                    asked
                }
                Err(Failure::Unanswered(error)) => {
                    unanswered += 1;
                    if unanswered >= UNANSWERED_MAX {
                        return Err(error);
                    }
                    None
                }
            };
            if stop.load(Ordering::Relaxed) {
                return Err(anyhow!(super::batch::Stopped));
            }
            std::thread::sleep(asked.unwrap_or(pause).min(PAUSE_MAX));
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Runs a definition of an export. What is there already stays as it is, and that is said.
    pub(super) fn define(&self, definition: &Definition) -> anyhow::Result<()> {
        let Definition { line, statement } = definition;
        let is_there = |said: &str| said == POLICY_EXISTS || said == POLICY_CONFLICTS;
        let mut refused = self.influxql(&statement.to_string())?;
        let conflicts = refused.as_deref() == Some(POLICY_CONFLICTS);
        if let (true, Some(policy)) = (conflicts, policy_of(statement)) {
            // Until 1.8, an export names each retention policy of a database in a CREATE DATABASE of its own, and the second
            // one of them is refused.
            refused = self.influxql(&policy.to_string())?;
        }
        match refused {
            None => Ok(()),
            Some(said) if is_there(&said) => {
                print::note(format!(
                    "line {line}: {statement}: {said}; what is there stays as it is\n"
                ));
                Ok(())
            }
            Some(said) => Err(anyhow!("line {line}: {statement}: {said}")),
        }
    }

    /// Runs a statement of `InfluxQL`; why it was refused, if it was.
    fn influxql(&self, statement: &str) -> anyhow::Result<Option<String>> {
        match &self.source {
            Source::Server(server) => {
                let mut response = server.post("/query", &[("q", statement)], &[], &[])?;
                if response.status() != 200 {
                    return Ok(Some(Refused::of(response).sentence(server)));
                }
                let answer: Value = serde_json::from_str(&response.body_mut().read_to_string()?)?;
                let said = answer.pointer("/results/0/error").and_then(Value::as_str);
                Ok(said.map(str::to_owned))
            }
            Source::Store(store) => {
                let refused = store.influxql(statement).err();
                Ok(refused.map(|error| error.to_string()))
            }
        }
    }

    /// Different for each batch of each import, the same when it is sent again.
    fn key(&self, batch: &Batch) -> [u8; 16] {
        let place = u128::from(batch.begin) | (batch.input as u128) << 64;
        (self.import ^ place).to_le_bytes()
    }

    fn write_server(
        &self,
        server: &Server,
        key: [u8; 16],
        batch: &Batch,
        stream: &[u8],
    ) -> Result<Written, Failure> {
        use std::fmt::Write;
        let mut digits = String::with_capacity(32);
        for byte in key {
            // Writing into a string does not fail.
            let _ = write!(digits, "{byte:02x}");
        }
        let key = ("Idempotency-Key", digits.as_str());
        let database = ("db", self.database.as_str());
        let answered = match &batch.content {
            Content::Lines {
                text,
                precision,
                place,
                ..
            } => {
                let place = place.as_deref();
                let named = place.map(|place| ("db", place.database.as_str()));
                let policy = place.map(|place| ("schema", place.policy.as_str()));
                let policy = policy.filter(|(_, name)| !name.is_empty());
                let unit = ("precision", unit_name(*precision));
                let mut parameters = vec![named.unwrap_or(database), unit];
                parameters.extend(policy);
                server.post("/api/v3/write_lp", &parameters, &[key], text)
            }
            Content::Rows { table, .. } => {
                let mut parameters = vec![
                    database,
                    ("table", table),
                    ("add_columns", "true"),
                    ("on_conflict", "replace"),
                    // Which columns are tags was decided here, and they are sent as such.
                    ("guess_tags", "false"),
                ];
                let made_as = self.tables.made_as(table).map(name);
                parameters.extend(made_as.map(|kind| ("duplicates", kind)));
                let headers = [key, ("Content-Type", "application/vnd.apache.arrow.stream")];
                server.post("/api/v3/write_arrow", &parameters, &headers, stream)
            }
        };
        let response = answered.map_err(Failure::Unanswered)?;
        if matches!(response.status().as_u16(), 200 | 204) {
            return Ok(Written {
                rows: batch.rows,
                ..Written::default()
            });
        }
        let refused = Refused::of(response);
        if let (400, Some(rejected_total)) = (refused.status, refused.number("rejected_total")) {
            return Ok(Written {
                rows: refused.number("rows_written").unwrap_or(0),
                rejected: listed(&refused.body, batch),
                rejected_total,
            });
        }
        let error = anyhow!("{}", refused.sentence(server));
        Err(match refused.status {
            429 | 503 | 504 if refused.retry_after.is_some() => {
                Failure::Busy(error, refused.retry_after)
            }
            429 => Failure::Busy(error, None),
            _ => Failure::Never(error),
        })
    }

    fn write_store(
        &self,
        store: &Arc<Database>,
        key: [u8; 16],
        batch: &Batch,
    ) -> Result<Written, Failure> {
        let written = match &batch.content {
            Content::Lines {
                text,
                precision,
                place,
                ..
            } => {
                let (database, schema) = match place {
                    Some(place) => (&place.database, schema_of(store, place)?),
                    None => (&self.database, None),
                };
                store
                    .write_line_protocol_to(key, (database, schema.as_deref()), text, *precision)
                    .map(|report| reported(report, batch))
            }
            Content::Rows { table, rows } => {
                let missing = Missing {
                    tags: None,
                    adds_columns: true,
                    duplicates: self.tables.made_as(table).unwrap_or_default(),
                };
                let target = Target::table(table);
                let made = store.make_missing(&self.database, target, rows.schema_ref(), missing);
                made.and_then(|()| {
                    let replace = OnConflict::Replace;
                    store.write_arrow_once(key, &self.database, target, rows, replace)
                })
                .map(|_| Written {
                    rows: batch.rows,
                    ..Written::default()
                })
            }
        };
        match written {
            Ok(written) => Ok(written),
            Err(error @ nilometer::Error::Engine(nilometer_engine::Error::Memory { .. })) => {
                Err(Failure::Busy(error.into(), None))
            }
            Err(error) => Err(Failure::Never(error.into())),
        }
    }
}

/// The schema that a retention policy stands for; `None` = the default one.
fn schema_of(store: &Database, place: &LinePlace) -> Result<Option<String>, Failure> {
    if place.policy.is_empty() {
        return Ok(None);
    }
    let snapshot = store.engine().snapshot();
    let schema = schema_of_policy(&snapshot, &place.database, &place.policy);
    let schema = schema.with_context(|| {
        let LinePlace { database, policy } = place;
        format!("there is no retention policy {policy} in database {database}; make it first")
    });
    schema.map(Some).map_err(Failure::Never)
}

/// Rows as an Arrow stream of one batch.
fn stream_of(rows: &RecordBatch) -> anyhow::Result<Vec<u8>> {
    let mut writer = StreamWriter::try_new(Vec::new(), rows.schema_ref())?;
    writer.write(rows)?;
    Ok(writer.into_inner()?)
}

fn reported(report: WriteReport, batch: &Batch) -> Written {
    let rejected = report.rejected.into_iter().map(|reject| {
        let nth = reject.line_number as u64;
        rejected_line(batch, nth, reject.line, reject.reason)
    });
    Written {
        rows: report.rows,
        rejected: rejected.collect(),
        rejected_total: report.rejected_total,
    }
}

/// A refused line, whole as it stands in the file: an answer has only the beginning of a long one.
fn rejected_line(batch: &Batch, nth: u64, shown: String, reason: String) -> Reject {
    let whole = batch.text_of_line(nth).map(<[u8]>::to_vec);
    let (unit, place) = match &batch.content {
        Content::Lines {
            precision, place, ..
        } => (Some(*precision), place.as_deref()),
        Content::Rows { .. } => (None, None),
    };
    // The line means the same only with the unit that it was read with, and goes to the same place only with its context.
    let unit = unit.filter(|unit| *unit != Precision::Auto);
    let unit = unit.map(|unit| unit_line(unit_name(unit)));
    let heading: Vec<String> = unit
        .into_iter()
        .chain(place.map(LinePlace::heading))
        .collect();
    let heading = (!heading.is_empty()).then(|| heading.join("\n").into_bytes().into());
    Reject {
        line: batch.line(nth),
        text: whole.unwrap_or_else(|| shown.into_bytes()),
        heading,
        reason,
    }
}

/// The refused lines in a server's answer.
fn listed(body: &Value, batch: &Batch) -> Vec<Reject> {
    let listed = body.get("data").and_then(Value::as_array);
    let reject = |line: &Value| {
        let text = |member: &str| Some(line.get(member)?.as_str()?.to_owned());
        let nth = line.get("line_number")?.as_u64()?;
        let (text, reason) = (text("original_line")?, text("error_message")?);
        Some(rejected_line(batch, nth, text, reason))
    };
    listed.into_iter().flatten().filter_map(reject).collect()
}

/// A number that no other import has, without a source of randomness of our own: the keys of the standard library's
/// hash tables are random.
pub(super) fn new_import() -> u128 {
    use std::hash::{BuildHasher, RandomState};
    let half = |n: u64| u128::from(RandomState::new().hash_one(n));
    half(1) << 64 | half(2)
}

/// Whether the source answers at all, asked before anything is read.
pub(super) fn check(source: &Source) -> anyhow::Result<()> {
    if let Source::Server(server) = source {
        let response = server.get("/ping", &[])?;
        if response.status() != 204 {
            let refused = Refused::of(response);
            Err(anyhow!("{}", refused.sentence(server))).context("the server is not ready")?;
        }
    }
    Ok(())
}
