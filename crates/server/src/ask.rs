//! One query without a socket: for a program that opens a store itself.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use http_body_util::BodyExt;
use nilometer_engine::Engine;
use serde_json::json;
use tower::ServiceExt;

use crate::config::ServerConfig;
use crate::error::Error;
use crate::http::router;

/// How a query ended.
#[derive(Debug)]
pub enum Asked {
    /// The whole answer went to the sink.
    Answered,
    /// The body of the error that a client would have got.
    Refused(String),
}

/// Answers a query as `/api/v3/query_sql` does, in the format of that name, into `sink`, piece by piece. Blocks; not to
/// be called from a runtime's thread.
pub fn ask(
    engine: Arc<Engine>,
    config: ServerConfig,
    database: &str,
    statement: &str,
    format: &str,
    sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> Result<Asked, Error> {
    let threads = |source| Error::Threads {
        what: "a query",
        source,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(threads)?;
    let posted = json!({ "db": database, "q": statement, "format": format });
    let request = Request::post("/api/v3/query_sql")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(posted.to_string()))
        .expect("a constant route and a JSON body make a request");
    runtime.block_on(async {
        let service = router(engine, config)?;
        let response = match service.oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let status = response.status();
        let mut body = response.into_body();
        let mut refused = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|source| Error::Answer {
                source: io::Error::other(source),
            })?;
            let Some(bytes) = frame.data_ref() else {
                continue;
            };
            if status == StatusCode::OK {
                sink(bytes).map_err(|source| Error::Answer { source })?;
            } else {
                refused.extend_from_slice(bytes);
            }
        }
        Ok(match status {
            StatusCode::OK => Asked::Answered,
            _ => Asked::Refused(String::from_utf8_lossy(&refused).into_owned()),
        })
    })
}
