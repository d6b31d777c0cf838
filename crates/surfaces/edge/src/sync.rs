//! `POST /api/edge/v1/pages`: pages in, how far the device has come out.
//!
//! Does: read a request, have its pages taken, store their rows, answer. Does not: keep a connection's state; a device that heard
//! no answer sends the same again.

use std::sync::Arc;

use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use nilometer_http::body::{Largest, Received, receive};
use nilometer_http::{ErrorResponse, Http, principal_of};
use nilometer_service::{DeviceProgress, DeviceTarget, Metric, Principal, Service};
use serde_json::{Map, Value, json};

use crate::body::{Reason, Rules, Stopped, Taken, take};
use crate::config::EdgeConfig;
use crate::page::PageError;
use crate::request::Asked;

const PAGES: Metric = Metric {
    name: "device_pages_total",
    help: "Pages of devices that were stored.",
};
const PAGES_REPEATED: Metric = Metric {
    name: "device_pages_repeated_total",
    help: "Pages of devices that came again and were there already.",
};
const PAGES_REFUSED: Metric = Metric {
    name: "device_pages_refused_total",
    help: "Requests of devices that ended at a page that was refused.",
};
const ROWS: Metric = Metric {
    name: "device_rows_total",
    help: "Rows in the pages of devices that were stored.",
};
pub(crate) const METRICS: [Metric; 4] = [PAGES, PAGES_REPEATED, PAGES_REFUSED, ROWS];

/// What requests share.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) http: Arc<Http>,
    pub(crate) config: EdgeConfig,
}

pub(crate) async fn pages(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, ErrorResponse> {
    let (head, body) = request.into_parts();
    let asked = Asked::of(query.unwrap_or_default().as_bytes(), &head.headers);
    let of_rows = Largest::of_rows(&app.http);
    let own = Largest {
        bytes: app.config.body_bytes_max,
        setting: "edge-body-bytes-max",
        advice: "send fewer pages at once",
    };
    let largest = if own.bytes < of_rows.bytes {
        own
    } else {
        of_rows
    };
    // The body is read even if the parameters are wrong: a client that is still sending would not see the answer.
    let received = receive(&head.headers, body, &app.http, largest).await?;
    let asked = asked?;
    let principal = match &app.config.secret {
        Some(_) => None,
        None => Some(principal_of(&head)),
    };
    let service = Arc::clone(app.http.service());
    let work = move |service: &Service| answer(service, &app, (&asked, principal), received);
    service.write(work).await
}

/// Checks who asks, takes the pages and stores their rows. Blocks.
fn answer(
    service: &Service,
    app: &App,
    (asked, principal): (&Asked, Option<Principal>),
    received: Received,
) -> Result<Response, ErrorResponse> {
    if let Some(secret) = &app.config.secret {
        asked.check_signature(secret, &app.config.revoked, received.as_sent())?;
        if !app.config.databases.contains(&asked.database) {
            return Err(ErrorResponse::limit(
                StatusCode::FORBIDDEN,
                format!(
                    "devices with a key may not write to database {:?}; list it",
                    asked.database
                ),
                "edge-databases",
            ));
        }
    }
    let target = DeviceTarget {
        // Who has signed with a device's key may write to the databases that were listed for it.
        principal: principal.unwrap_or_else(Principal::anyone),
        database: asked.database.clone(),
        device: asked.device.clone(),
        store: asked.store,
    };
    service.check_device(&target)?;
    let body = received.inflate()?;
    let known = service.device_progress(&target);
    check_after(asked.after, known, body.as_ref())?;
    let rules = Rules {
        config: &app.config,
        device: &asked.device,
        clocks: &asked.clocks,
        known,
    };
    let mut held = service.body_memory().hold();
    let taken = take(body.as_ref(), &rules, &mut held);
    let rows = taken.rows.count() as u64;
    let counters = service.counters();
    counters.body_bytes.add(body.as_ref().len() as u64);
    counters.counter(&PAGES_REPEATED).add(taken.repeated);
    let refused = u64::from(taken.stopped.is_some());
    counters.counter(&PAGES_REFUSED).add(refused);
    let Taken {
        pages,
        repeated,
        progress,
        stopped,
        ..
    } = taken;
    if let Some(progress) = progress.filter(|_| pages > 0) {
        let kept = taken.kept;
        let parts = taken.rows.finish();
        let parts = parts.map_err(|error| ErrorResponse::internal(error.to_string()))?;
        service
            .store_device_rows(&target, known, progress, &parts, &kept)
            .map_err(|error| with_progress(ErrorResponse::from(error), known))?;
        counters.counter(&PAGES).add(pages);
        counters.counter(&ROWS).add(rows);
    }
    let mut members = progress_members(progress);
    members.insert("pages".to_owned(), json!(pages));
    members.insert("repeated".to_owned(), json!(repeated));
    members.insert("rows".to_owned(), json!(rows));
    match stopped {
        None => {
            let content_type = HeaderValue::from_static("application/json");
            let text = format!("{}\n", Value::Object(members));
            Ok(([(header::CONTENT_TYPE, content_type)], text).into_response())
        }
        Some(stopped) => Err(refusal(stopped, members)),
    }
}

/// Refuses pages that follow one that was not taken in: what is between was lost on the way, or the store is an older one.
fn check_after(
    after: Option<u64>,
    known: Option<DeviceProgress>,
    body: &[u8],
) -> Result<(), ErrorResponse> {
    let sequence = known.map_or(0, |known| known.sequence);
    match after {
        Some(after) if after > sequence => {
            let what = format!(
                "the pages follow page {after}, and the flash was taken in up to {sequence}; send what comes after {sequence}"
            );
            let refused = ErrorResponse::new(StatusCode::CONFLICT, what);
            Err(with_progress(refused, known))
        }
        None if !body.is_empty() => Err(ErrorResponse::bad_request(
            "missing query parameter 'after': the sequence of the page before the first one, 0 if there is none",
        )),
        _ => Ok(()),
    }
}

fn progress_members(progress: Option<DeviceProgress>) -> Map<String, Value> {
    let (sequence, checksum) = progress.map_or((0, 0), |it| (it.sequence, it.checksum));
    let mut members = Map::new();
    members.insert("acknowledged".to_owned(), json!(sequence));
    members.insert("checksum".to_owned(), json!(checksum));
    members
}

fn with_progress(mut refused: ErrorResponse, known: Option<DeviceProgress>) -> ErrorResponse {
    refused.members.extend(progress_members(known));
    refused
}

/// What is said of the page at which a body ends; the pages before it are stored.
fn refusal(stopped: Stopped, members: Map<String, Value>) -> ErrorResponse {
    let Stopped {
        page,
        offset,
        sequence,
        reason,
    } = stopped;
    let place = match sequence {
        Some(sequence) => format!("page {page} of the body (sequence {sequence})"),
        None => format!("page {page} of the body (from byte {offset} on)"),
    };
    let mut refused = match reason {
        Reason::Page(error) => {
            let status = match error {
                PageError::OtherStore { .. } => StatusCode::CONFLICT,
                _ => StatusCode::UNPROCESSABLE_ENTITY,
            };
            let boot = match error {
                PageError::Clock { boot } => Some(boot),
                _ => None,
            };
            let refused = ErrorResponse::new(status, format!("{place} is not taken: {error}"));
            match boot {
                Some(boot) => refused.member("boot", json!(boot)),
                None => refused,
            }
        }
        Reason::Limit(setting, most) => ErrorResponse::limit(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!(
                "with {place} the request is beyond the limit of {most}; send fewer pages at once"
            ),
            setting,
        ),
        Reason::Memory(error) => error.into(),
        Reason::Rows(error) => ErrorResponse::internal(format!("{place}: {error}")),
    };
    refused.members.extend(members);
    refused
        .member("page", json!(page))
        .member("offset", json!(offset))
}
