//! `GET|POST /query`: statements of InfluxQL in, their series out as they are computed.
//!
//! Does: read what is asked, have it parsed, run it on the threads for queries, send what it answers. Does not: know
//! InfluxQL; the program hands the language to the service.
//!
//! Next: `request.rs` for the parameters, `send.rs` for the answer.

mod request;
mod send;

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::extract::{RawQuery, Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use nilometer_http::{Chunks, ErrorResponse, Http, may_only_read, principal_of, with_timings};
use nilometer_service::{
    CancellationToken, Laps, Prepared, Principal, Sabotage, Session, TimedStep, Timings, Turn,
};

use crate::encode::Form;
use crate::words::WORDS;
use request::Asked;
use send::Sender;

/// The language of this route.
const LANGUAGE: &str = "influxql";

pub(crate) async fn query(
    State(http): State<Arc<Http>>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let (form, is_get) = (Form::accepted(&head.headers), head.method != Method::POST);
    let query = query.unwrap_or_default();
    let is_pretty = request::is_pretty(&query);
    let caller = Caller {
        principal: principal_of(&head),
        is_get,
        is_read_only: may_only_read(&head),
    };
    let answered = async {
        let asked = request::read(&http, &head.headers, &query, body).await?;
        answer(&http, asked, form, caller).await
    };
    answered
        .await
        .unwrap_or_else(|refusal| refused(refusal, form, is_pretty))
}

/// A refusal as an answer of the form that the client takes.
fn refused(refusal: ErrorResponse, form: Form, is_pretty: bool) -> Response {
    let refusal = refusal.in_words(&WORDS);
    let body = form.error(&refusal.error, is_pretty);
    refusal.written_as(form.media_type, body).into_response()
}

/// Who asks, and in which way.
struct Caller {
    principal: Principal,
    /// What changes something is done, as there, with a warning.
    is_get: bool,
    /// What changes something is refused.
    is_read_only: bool,
}

async fn answer(
    http: &Arc<Http>,
    asked: Asked,
    form: Form,
    caller: Caller,
) -> Result<Response, ErrorResponse> {
    let cancelled = CancellationToken::new();
    let timings = Timings::start(http.service().executor());
    let mut laps = Laps::of(&timings);
    let session = Session {
        principal: caller.principal,
        schema: (!asked.policy.is_empty()).then(|| asked.policy.clone()),
        database: asked.database.clone(),
        is_read_only: caller.is_read_only,
        zone: None,
        cancelled: cancelled.clone(),
        client: None,
        transaction: None,
        timings: Some(Arc::clone(&timings)),
    };
    let language = http.service().language(LANGUAGE)?;
    let text = text_of(http, &asked);
    let statements = language.prepare_all(&text, &asked.parameters, &session);
    let statements = statements.map_err(|error| {
        // The text says the place in the words of its language.
        let class = error.class();
        ErrorResponse::of(class, format!("error parsing query: {error}"))
    })?;
    laps.end(TimedStep::Parse);
    let turn = http.service().turn_for(&asked.text).await?;
    laps.end(TimedStep::Turn);
    let (sender, chunks) = Chunks::of(cancelled);
    let work = Work {
        http: Arc::clone(http),
        sender: Sender::new(&asked, form, sender, caller.is_get, laps),
        statements,
        asked,
        turn,
    };
    if work.asked.is_async {
        // Nobody reads the answer, and nobody ends it by going away.
        http.service().spawn(work.run_unread(chunks));
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    http.service().spawn(work.run());
    let response = chunks.into_response(form.media_type).await?;
    Ok(with_timings(response, &timings))
}

/// What is asked, or what planted bugs make of it.
fn text_of<'a>(http: &Http, asked: &'a Asked) -> Cow<'a, str> {
    let text = asked.text.as_str();
    if http.service().has(Sabotage::DeleteTooFar) && text.starts_with("DELETE") {
        return text.replace("time < ", "time <= ").into();
    }
    if http.service().has(Sabotage::OrderIgnored) {
        return text.replace(" ORDER BY time DESC", "").into();
    }
    text.into()
}

/// Statements that run, one after the other.
struct Work {
    http: Arc<Http>,
    asked: Asked,
    statements: Vec<Box<dyn Prepared>>,
    sender: Sender,
    turn: Turn,
}

impl Work {
    /// Runs on the threads for queries until the answer is sent or nobody wants it any more.
    async fn run(self) {
        let Self {
            http,
            asked,
            statements,
            mut sender,
            turn,
        } = self;
        let counters = http.service().counters();
        let running = counters.queries_running.enter();
        let gone = sender.gone();
        let work = AssertUnwindSafe(sender.run(&http, &statements, &asked.parameters));
        let result = tokio::select! {
            // In this order, so that nothing is begun for a client that is gone.
            biased;
            () = gone => None,
            result = work.catch_unwind() => Some(result),
        };
        // Others may have their turn before this client has read what waits for it.
        drop((turn, running));
        match result {
            Some(Ok(send::Sent::Whole)) => {}
            Some(Ok(send::Sent::Unwanted)) | None => counters.queries_cancelled.add(1),
            Some(Err(_)) => {
                let text = "the server failed on this query; its log has the details";
                sender.fail(ErrorResponse::internal(text)).await;
            }
        }
    }

    /// The same for a client that does not wait.
    async fn run_unread(self, chunks: Chunks) {
        futures::future::join(self.run(), chunks.discard()).await;
    }
}
