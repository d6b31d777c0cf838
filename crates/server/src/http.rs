//! The routes, and what their handlers share.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use nilometer_engine::Engine;
use nilometer_query::Sql;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::body::BodyMemory;
use crate::config::ServerConfig;
use crate::error::{Error, Refusal};
use crate::metrics::Metrics;
use crate::query::{Turns, query_sql};
use crate::request;
use crate::runtime::QueryRuntime;
use crate::sessions::Sessions;
use crate::write::write_lp;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const VERSION_HEADER: HeaderName = HeaderName::from_static("x-nilometer-version");

/// What handlers share.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) engine: Arc<Engine>,
    pub(crate) config: ServerConfig,
    pub(crate) sql: Sql,
    pub(crate) query_runtime: QueryRuntime,
    pub(crate) turns: Turns,
    pub(crate) writes: Arc<Semaphore>,
    pub(crate) sessions: Sessions,
    pub(crate) body_memory: BodyMemory,
    pub(crate) metrics: Metrics,
}

/// The routes over an engine, without a socket. Needs a tokio runtime around it when it is called.
pub fn router(engine: Arc<Engine>, config: ServerConfig) -> Result<Router, Error> {
    let app = Arc::new(App {
        sql: Sql::new(Arc::clone(&engine), config.sql.clone())?,
        query_runtime: QueryRuntime::start(config.sql.threads)?,
        turns: Turns::new(config.queries_max, config.queries_waiting_max),
        writes: Arc::new(Semaphore::new(
            config.writes_max.clamp(1, Semaphore::MAX_PERMITS),
        )),
        sessions: Sessions::new(Arc::clone(&engine)),
        body_memory: BodyMemory::new(config.bodies_bytes_max),
        metrics: Metrics::default(),
        engine,
        config,
    });
    Ok(Router::new()
        .route("/api/v3/write_lp", post(write_lp))
        .route("/api/v3/query_sql", get(query_sql).post(query_sql))
        .route(
            "/health",
            get(async |State(app): State<Arc<App>>| health(&app)),
        )
        .route("/ping", get(async || ping()))
        .route(
            "/metrics",
            get(async |State(app): State<Arc<App>>| metrics(&app)),
        )
        .fallback(async |request: Request| unknown(&request))
        .method_not_allowed_fallback(async |request: Request| wrong_method(&request))
        .layer(from_fn_with_state(Arc::clone(&app), request::around))
        .with_state(app))
}

fn health(app: &App) -> Response {
    let poisoned = app.engine.metrics().poisoned;
    let (code, status, message) = match poisoned {
        None => (
            StatusCode::OK,
            "pass",
            "ready for queries and writes".to_owned(),
        ),
        Some(reason) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "fail",
            format!(
                "writes are refused after a failed disk operation ({reason}); check the disk, then restart"
            ),
        ),
    };
    let body = json!({
        "name": "nilometer",
        "status": status,
        "message": message,
        "version": VERSION,
        "durability": "sync",
        "checks": [],
    });
    (
        code,
        [(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        )],
        format!("{body}\n"),
    )
        .into_response()
}

fn ping() -> Response {
    (
        StatusCode::NO_CONTENT,
        [(VERSION_HEADER, HeaderValue::from_static(VERSION))],
    )
        .into_response()
}

fn metrics(app: &App) -> Response {
    let content_type = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    (
        [(header::CONTENT_TYPE, content_type)],
        app.metrics.print(&app.engine.metrics()),
    )
        .into_response()
}

fn unknown(request: &Request) -> Refusal {
    let path: String = request.uri().path().chars().take(200).collect();
    Refusal::new(StatusCode::NOT_FOUND, format!("no such route: {path}"))
}

fn wrong_method(request: &Request) -> Refusal {
    let (method, path) = (request.method(), request.uri().path());
    Refusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("{path} does not take {method}"),
    )
}
