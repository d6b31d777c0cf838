//! `GET|POST /query`: statements of InfluxQL in, their series out as they are computed.
//!
//! Does: read what is asked, have it parsed, run it on the threads for queries, send what it answers. Does not: know
//! InfluxQL; the program hands the language to the service.
//!
//! Next: `request.rs` for the parameters, `send.rs` for the answer.

mod request;
mod send;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::{FutureExt, StreamExt, stream};
use nilometer_http::{ErrorResponse, Http, principal_of};
use nilometer_service::{CancellationToken, Prepared, Principal, Session, Turn};
use tokio::sync::mpsc;
use tokio_util::sync::DropGuard;

use crate::encode::Form;
use crate::words::WORDS;
use request::Asked;
use send::Sender;

/// The language of this route.
const LANGUAGE: &str = "influxql";

/// Chunks that wait for a slow client; then the statement waits too.
const CHUNKS_WAITING_MAX: usize = 2;

/// What leaves together; an error that follows is in the document itself.
type Chunk = Result<Bytes, ErrorResponse>;

pub(crate) async fn query(
    State(http): State<Arc<Http>>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let (form, is_get) = (Form::accepted(&head.headers), head.method != Method::POST);
    let query = query.unwrap_or_default();
    let is_pretty = request::is_pretty(&query);
    let answered = async {
        let asked = request::read(&http, &head.headers, &query, body).await?;
        answer(&http, asked, form, is_get, principal_of(&head)).await
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

async fn answer(
    http: &Arc<Http>,
    asked: Asked,
    form: Form,
    is_get: bool,
    principal: Principal,
) -> Result<Response, ErrorResponse> {
    let cancelled = CancellationToken::new();
    let session = Session {
        principal,
        schema: (!asked.policy.is_empty()).then(|| asked.policy.clone()),
        database: asked.database.clone(),
        is_read_only: false,
        zone: None,
        cancelled: cancelled.clone(),
    };
    let language = http.service().language(LANGUAGE)?;
    let statements = language.prepare_all(&asked.text, &asked.parameters, &session);
    let statements = statements.map_err(|error| {
        // The text says the place in the words of its language.
        let class = error.class();
        ErrorResponse::of(class, format!("error parsing query: {error}"))
    })?;
    let turn = http.service().turn().await?;
    let (chunks, receiver) = mpsc::channel(CHUNKS_WAITING_MAX);
    let work = Work {
        http: Arc::clone(http),
        sender: Sender::new(&asked, form, chunks, is_get),
        statements,
        asked,
        turn,
    };
    if work.asked.is_async {
        // Nobody reads the answer, and nobody ends it by going away.
        http.service().spawn(work.run_unread(receiver));
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let receiver = Receiver {
        chunks: receiver,
        _gone: cancelled.drop_guard(),
    };
    http.service().spawn(work.run());
    respond(receiver, form).await
}

/// The chunks of an answer; dropped when they are sent, or when the client goes.
struct Receiver {
    chunks: mpsc::Receiver<Chunk>,
    _gone: DropGuard,
}

/// An answer that fits one chunk has a length.
async fn respond(mut receiver: Receiver, form: Form) -> Result<Response, ErrorResponse> {
    let stopped = || {
        ErrorResponse::internal(
            "the query stopped without an answer; the server's log has the details",
        )
    };
    let first = receiver.chunks.recv().await.ok_or_else(stopped)??;
    let body = match receiver.chunks.recv().await {
        None => Body::from(first),
        Some(second) => {
            let ready = stream::iter([Ok(first), second]);
            let rest = stream::unfold(receiver, async |mut receiver| {
                Some((receiver.chunks.recv().await?, receiver))
            });
            Body::from_stream(
                ready
                    .chain(rest)
                    .map(|chunk| chunk.map_err(|refusal| refusal.error)),
            )
        }
    };
    let media_type = HeaderValue::from_static(form.media_type);
    Ok(([(header::CONTENT_TYPE, media_type)], body).into_response())
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
    async fn run_unread(self, mut receiver: mpsc::Receiver<Chunk>) {
        let reading = async { while receiver.recv().await.is_some() {} };
        futures::future::join(self.run(), reading).await;
    }
}
