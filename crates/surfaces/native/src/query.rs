//! `GET|POST /api/v3/query_sql`: a statement in, rows out as they are computed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use nilometer_http::body::{Largest, receive};
use nilometer_http::{Chunk, Chunks, ErrorResponse, Http, Parameters, principal_of, with_timings};
use nilometer_service::{
    CancellationToken, Charged, Error as ServiceError, Laps, Param, Params, Principal, RowStream,
    Sabotage, Session, TimedStep, Timings, Turn,
};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::ahead::Ahead;
use crate::app::App;
use crate::format::{Format, Writer};

/// The language of this route.
const LANGUAGE: &str = "sql";

pub(crate) async fn query_sql(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, ErrorResponse> {
    // Before anything else is found wrong: in a program without it, nothing of the request matters.
    app.service().language(LANGUAGE)?;
    let (head, body) = request.into_parts();
    let mut parameters = Parameters::parse(query.unwrap_or_default().as_bytes());
    if head.method == Method::POST {
        read_posted(&app, &head.headers, body, &mut parameters).await?;
    }
    let question = Question {
        principal: principal_of(&head),
        // Some statements need none; the others say so when it is looked up.
        database: parameters.get("db").unwrap_or_default().to_owned(),
        sql: parameters.required("q")?.to_owned(),
        // Browsers, proxies and caches repeat GET and HEAD as they like. HEAD is answered as GET is, without the body.
        is_read_only: head.method != Method::POST,
        values: values_of(parameters.get("params"))?,
        format: Format::of(parameters.get("format"), &head.headers)?,
        zone: zone_of(&app, parameters.get("timezone"))?,
    };
    let format = question.format;
    let timings = Timings::start(app.service().executor());
    let mut laps = Laps::of(&timings);
    let turn = app.service().turn_for(&question.sql).await?;
    laps.end(TimedStep::Turn);
    let gone = CancellationToken::new();
    let (sender, chunks) = Chunks::of(gone.clone());
    let service = Arc::clone(app.service());
    let asked = (question, Mutex::new(laps));
    service.spawn(run(app, asked, sender, gone, turn));
    let response = chunks.into_response(format.content_type()).await?;
    Ok(with_timings(response, &timings))
}

fn locked(laps: &Mutex<Laps>) -> MutexGuard<'_, Laps> {
    laps.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is asked, and how it is to be answered.
#[derive(Debug)]
struct Question {
    principal: Principal,
    database: String,
    sql: String,
    is_read_only: bool,
    values: Params,
    format: Format,
    /// The time zone of times in the statement without an offset, and of those in an answer of text.
    zone: Option<String>,
}

impl Question {
    fn session(&self, cancelled: CancellationToken) -> Session {
        Session {
            database: self.database.clone(),
            principal: self.principal.clone(),
            schema: None,
            is_read_only: self.is_read_only,
            zone: self.zone.clone(),
            cancelled,
            client: None,
            transaction: None,
            timings: None,
        }
    }
}

/// The name of a time zone that there is.
fn zone_of(app: &App, name: Option<&str>) -> Result<Option<String>, ErrorResponse> {
    let Some(name) = name.filter(|name| !name.trim().is_empty()) else {
        return Ok(None);
    };
    Ok(Some(app.service().language(LANGUAGE)?.time_zone(name)?))
}

/// The values of placeholders: an object for `$name`, an array for `$1`, `$2`, ...
fn values_of(text: Option<&str>) -> Result<Params, ErrorResponse> {
    let wrong = |why: String| {
        ErrorResponse::bad_request(format!(
            "params must be a JSON object such as {{\"host\": \"a\"}} for $host, or an array for $1, $2, ...: {why}"
        ))
    };
    let mut params = Params::new();
    let Some(text) = text.filter(|text| !text.trim().is_empty()) else {
        return Ok(params);
    };
    match serde_json::from_str(text) {
        Ok(Value::Null) => {}
        Ok(Value::Object(values)) => {
            for (name, value) in values {
                let value = value_of(value).map_err(|why| wrong(format!("${name} {why}")))?;
                params.set(name, value);
            }
        }
        Ok(Value::Array(values)) => {
            for (value, number) in values.into_iter().zip(1..) {
                let value = value_of(value).map_err(|why| wrong(format!("${number} {why}")))?;
                params.push(value);
            }
        }
        Ok(_) => return Err(wrong("it is neither".to_owned())),
        Err(error) => return Err(wrong(error.to_string())),
    }
    Ok(params)
}

/// A value of JSON, or why it is none for a statement.
fn value_of(value: Value) -> Result<Param, &'static str> {
    match value {
        Value::Null => Ok(Param::Null),
        Value::Bool(value) => Ok(value.into()),
        Value::String(value) => Ok(value.into()),
        Value::Number(number) => number
            .as_i64()
            .map(Param::from)
            .or_else(|| number.as_u64().map(Param::from))
            .or_else(|| number.as_f64().map(Param::from))
            .ok_or("is a number that is too large"),
        Value::Array(_) | Value::Object(_) => Err("is no text, number, true, false or null"),
    }
}

/// Of a question: a statement, which JSON may write six times as long, and as much again for values. It is in memory
/// several times while it is read.
fn largest_question(http: &Http) -> Largest {
    let bytes = http.service().options().query.sql_bytes_max;
    let bytes = bytes.saturating_mul(12);
    // The setting that is to be raised is the one that counts.
    if bytes > http.config().body_bytes_max {
        return Largest {
            advice: "a question is a body too",
            ..Largest::of_rows(http)
        };
    }
    Largest {
        bytes,
        setting: "sql-bytes-max",
        advice: "a question is a statement and values for it; write rows through /api/v3/write_lp",
    }
}

/// The parameters in a posted body: JSON or a form, by its type.
async fn read_posted(
    app: &App,
    headers: &HeaderMap,
    body: Body,
    parameters: &mut Parameters,
) -> Result<(), ErrorResponse> {
    let largest = largest_question(&app.http);
    let received = receive(headers, body, &app.http, largest).await?;
    let inflated = received.inflate()?;
    let body = inflated.as_ref();
    if body.is_empty() {
        return Ok(());
    }
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default();
    // What curl -d sends is a form by its name, whatever it is; no form begins like this.
    let is_object = body.trim_ascii_start().starts_with(b"{");
    if kind.starts_with("application/x-www-form-urlencoded") && !is_object {
        let form = Parameters::parse(body);
        for name in ["db", "q", "format", "params", "timezone"] {
            if let Some(value) = form.get(name) {
                parameters.push(name, value.to_owned());
            }
        }
        return Ok(());
    }
    let posted: Posted = serde_json::from_slice(body).map_err(|error| {
        ErrorResponse::bad_request(format!(
            "the body must be JSON such as {{\"db\": \"...\", \"q\": \"SELECT ...\", \"format\": \"json\"}}: {error}"
        ))
    })?;
    for (name, value) in [
        ("db", posted.db),
        ("q", posted.q),
        ("format", posted.format),
        ("params", posted.params.map(|params| params.to_string())),
        ("timezone", posted.timezone),
    ] {
        if let Some(value) = value {
            parameters.push(name, value);
        }
    }
    Ok(())
}

#[derive(Deserialize)]
struct Posted {
    db: Option<String>,
    q: Option<String>,
    format: Option<String>,
    params: Option<Value>,
    timezone: Option<String>,
}

/// Runs on the runtime for queries, until the answer is sent or nobody wants it any more.
async fn run(
    app: Arc<App>,
    (question, timed): (Question, Mutex<Laps>),
    sender: mpsc::Sender<Chunk>,
    gone: CancellationToken,
    turn: Turn,
) {
    let running = app.service().counters().queries_running.enter();
    let time_max = Duration::from_millis(app.service().options().query.query_ms_max);
    let executor = Arc::clone(app.service().executor());
    let work = executor.within(time_max, async {
        let timings = Arc::clone(locked(&timed).timings());
        let mut session = question.session(gone.clone());
        session.timings = Some(Arc::clone(&timings));
        let mut text = question.sql.as_str();
        if app.service().has(Sabotage::DefinedAfterAnswer) && defines(text) {
            define_later(&app, &question);
            text = "SELECT 1 AS done";
        }
        locked(&timed).leave_out();
        let outcome = session
            .run(&**app.service().language(LANGUAGE)?, text, &question.values)
            .await?;
        let parsing = timings.spent(TimedStep::Parse);
        locked(&timed).end_without(TimedStep::Plan, parsing);
        send(&app, outcome.into_rows()?, (&question, &timed), &sender).await
    });
    // An answer looks at the time when it is asked for rows, and nobody asks while a client does not read.
    let work = work.map(|done| done.unwrap_or_else(|| Err(time_limit(&app))));
    let result = tokio::select! {
        // In this order, so that nothing is begun for a client that is gone.
        biased;
        // Dropping the work drops the plan, and with it tasks, memory and the snapshot.
        () = sender.closed() => Ok(Ok(Sent::Unwanted)),
        result = std::panic::AssertUnwindSafe(work).catch_unwind() => result,
    };
    // Told that the client went, the work may end with an error before anybody looks at the channel.
    let is_unwanted = match &result {
        Ok(Ok(sent)) => *sent == Sent::Unwanted,
        Ok(Err(_)) => sender.is_closed(),
        Err(_) => false,
    };
    if is_unwanted {
        app.service().counters().queries_cancelled.add(1);
        if app.service().has(Sabotage::TurnKept) {
            turn.forget();
        }
        tracing::debug!("a query was stopped because its client went");
        return;
    }
    let refusal = match result {
        Ok(Ok(_)) => return,
        Ok(Err(refusal)) => refusal,
        Err(_) => {
            ErrorResponse::internal("the server failed on this query; its log has the details")
        }
    };
    tracing::debug!(error = refusal.error, "query ended");
    // Others may have their turn before this client has read what waits for it.
    drop((turn, running));
    // Whoever does not listen any more does not need the error either.
    let _ = sender.send(Err(refusal)).await;
}

fn time_limit(app: &App) -> ErrorResponse {
    let limit_ms = app.service().options().query.query_ms_max;
    ServiceError::QueryTime { limit_ms }.into()
}

/// What became of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Whole,
    /// The client went before.
    Unwanted,
}

async fn send(
    app: &App,
    mut answer: RowStream,
    (question, timed): (&Question, &Mutex<Laps>),
    sender: &mpsc::Sender<Chunk>,
) -> Result<Sent, ErrorResponse> {
    let mut writer = Writer::new(
        question.format,
        answer.schema(),
        app.config.answer_pretty_rows_max,
        question.zone.as_deref(),
    )?;
    let executor = app.service().executor();
    let mut ahead = Ahead::new(executor, app.service().options().query.threads);
    let mut out = Vec::new();
    let mut rows = 0usize;
    while let Some(batch) = answer.next().await {
        locked(timed).end(TimedStep::Read);
        let batch = batch?;
        rows += batch.num_rows();
        if rows > app.config.answer_rows_max {
            let what = format!(
                "the answer has more than {} rows; use LIMIT",
                app.config.answer_rows_max
            );
            return Err(ErrorResponse::limit(
                StatusCode::PAYLOAD_TOO_LARGE,
                what,
                "answer-rows-max",
            ));
        }
        // The first rows are written here, where somebody waits for them.
        let is_first = rows == batch.num_rows();
        let is_apart = !is_first && ahead.is_worth(&batch);
        if let Some(piece) = is_apart.then(|| writer.piece(&batch)).flatten() {
            ahead.begin(piece);
        } else {
            while let Some(written) = ahead.next().await {
                out.append(&mut written?);
            }
            let is_cut = question.format == Format::Parquet && !is_first;
            if !(is_cut && app.service().has(Sabotage::ParquetCutShort)) {
                writer.batch(&batch, &mut out)?;
            }
        }
        locked(timed).end(TimedStep::Encode);
        answer.hold(writer.held_bytes() + out.capacity() + ahead.held_bytes())?;
        if out.len() >= app.config.answer_chunk_bytes || (ahead.is_full() && !out.is_empty()) {
            let bytes = out.len();
            if !send_chunks(app, charged(&mut answer, &mut out), sender).await {
                return Ok(Sent::Unwanted);
            }
            if !ahead.is_full() {
                // As much again, so that it does not grow from nothing.
                out.reserve(bytes.min(8 * app.config.answer_chunk_bytes));
            }
            if app.service().has(Sabotage::TwoSnapshots) {
                answer = asked_again(app, question, rows).await?;
            }
        }
        while ahead.is_full()
            && let Some(written) = ahead.next().await
        {
            let written = charged(&mut answer, &mut written?);
            if !send_chunks(app, written, sender).await {
                return Ok(Sent::Unwanted);
            }
        }
    }
    locked(timed).end(TimedStep::Read);
    while let Some(written) = ahead.next().await {
        out.append(&mut written?);
    }
    writer.finish(&mut out)?;
    locked(timed).end(TimedStep::Encode);
    app.service().counters().rows_answered.add(rows as u64);
    let last = charged(&mut answer, &mut out);
    if send_chunks(app, last, sender).await {
        Ok(Sent::Whole)
    } else {
        Ok(Sent::Unwanted)
    }
}

/// Sends bytes in chunks, an empty one if there are none; `false` = nobody wants them.
async fn send_chunks(app: &App, mut written: Bytes, sender: &mpsc::Sender<Chunk>) -> bool {
    loop {
        let chunk = written.split_to(written.len().min(app.config.answer_chunk_bytes));
        if sender.send(Ok(chunk)).await.is_err() {
            return false;
        }
        if written.is_empty() {
            return true;
        }
    }
}

/// What is written and its memory, which is the query's until the last byte is in the hands of the system.
fn charged(answer: &mut RowStream, out: &mut Vec<u8>) -> Bytes {
    let written = std::mem::take(out);
    let memory = answer.hand_over(written.capacity());
    Bytes::from_owner(Written {
        bytes: written,
        _memory: memory,
    })
}

struct Written {
    bytes: Vec<u8>,
    _memory: Charged,
}

impl AsRef<[u8]> for Written {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// What a statement answers now, without its first rows.
async fn asked_again(
    app: &App,
    question: &Question,
    skipped: usize,
) -> Result<RowStream, ErrorResponse> {
    let text = format!("SELECT * FROM ({}) AS q OFFSET {skipped}", question.sql);
    let session = question.session(CancellationToken::new());
    let outcome = session
        .run(
            &**app.service().language(LANGUAGE)?,
            &text,
            &question.values,
        )
        .await?;
    Ok(outcome.into_rows()?)
}

fn defines(sql: &str) -> bool {
    let word = sql.split_whitespace().next().unwrap_or_default();
    matches!(word, "CREATE" | "ALTER" | "DROP")
}

/// Lets a statement of definition run when its client has its answer already.
fn define_later(app: &Arc<App>, question: &Question) {
    let service = Arc::clone(app.service());
    let session = question.session(CancellationToken::new());
    let text = question.sql.clone();
    app.service().spawn(async move {
        if let Ok(language) = service.language(LANGUAGE) {
            drop(session.run(&**language, &text, &Params::new()).await);
        }
    });
}
