//! The routes, and the state that their handlers share.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use nilometer_service::Service;
use serde_json::json;

use crate::config::ServerConfig;
use crate::error::{ErrorResponse, Words};
use crate::metrics::Metrics;
use crate::parameters::Parameters;
use crate::query::query_sql;
use crate::request;
use crate::write::{write_arrow, write_lp, write_v1, write_v2};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const VERSION_HEADER: HeaderName = HeaderName::from_static("x-nilometer-version");

/// What handlers share.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) service: Arc<Service>,
    pub(crate) config: ServerConfig,
    pub(crate) metrics: Metrics,
    /// Whether only some names may be used for this server.
    pub(crate) asks_for_host: bool,
}

impl App {
    /// `address` is where it listens; `None` = nowhere, and it is asked directly.
    pub(crate) fn new(
        service: Arc<Service>,
        config: ServerConfig,
        address: Option<SocketAddr>,
    ) -> Arc<Self> {
        // Elsewhere the names are not known, unless somebody lists them.
        let is_reached = |address: SocketAddr| {
            address.ip().to_canonical().is_loopback() || !config.hosts.is_empty()
        };
        let asks_for_host = service.options().token.is_none() && address.is_some_and(is_reached);
        Arc::new(Self {
            asks_for_host,
            metrics: Metrics::default(),
            service,
            config,
        })
    }
}

/// The routes over a service, without a socket. Needs a tokio runtime around it when it is called.
pub fn router(service: Arc<Service>, config: ServerConfig) -> Router {
    routes_of(&App::new(service, config, None))
}

pub(crate) fn routes_of(app: &Arc<App>) -> Router {
    let mut router = Router::new();
    for route in &ROUTES {
        router = router.route(route.path, (route.handler)());
    }
    router
        .fallback(async |request: Request| unknown(&request))
        .method_not_allowed_fallback(async |request: Request| wrong_method(&request))
        .layer(from_fn_with_state(Arc::clone(app), request::around))
        .with_state(Arc::clone(app))
}

/// One address and what holds for it.
pub(crate) struct Route {
    path: &'static str,
    methods: &'static [&'static str],
    /// Nobody is asked for the token.
    pub(crate) is_open: bool,
    pub(crate) words: Words,
    handler: fn() -> MethodRouter<Arc<App>>,
}

impl Route {
    pub(crate) fn path(&self) -> &'static str {
        self.path
    }
}

/// Every route. What is not here does not exist, and needs the token to be told so.
static ROUTES: [Route; 9] = [
    Route {
        path: "/api/v3/write_lp",
        methods: &["POST"],
        is_open: false,
        words: Words::Own,
        handler: || post(write_lp),
    },
    Route {
        path: "/api/v3/write_arrow",
        methods: &["POST"],
        is_open: false,
        words: Words::Own,
        handler: || post(write_arrow),
    },
    Route {
        path: "/api/v2/write",
        methods: &["POST"],
        is_open: false,
        words: Words::Influx,
        handler: || post(write_v2),
    },
    Route {
        path: "/write",
        methods: &["POST"],
        is_open: false,
        words: Words::Influx,
        handler: || post(write_v1),
    },
    Route {
        path: "/api/v3/query_sql",
        methods: &["GET", "POST"],
        is_open: false,
        words: Words::Own,
        handler: || get(query_sql).post(query_sql),
    },
    Route {
        path: "/api/v3/accept_clock",
        methods: &["POST"],
        is_open: false,
        words: Words::Own,
        handler: || post(async |State(app): State<Arc<App>>| accept_clock(&app)),
    },
    Route {
        path: "/health",
        methods: &["GET"],
        is_open: true,
        words: Words::Own,
        handler: || get(async |State(app): State<Arc<App>>| health(&app)),
    },
    Route {
        path: "/ping",
        methods: &["GET"],
        is_open: true,
        words: Words::Influx,
        handler: || get(async |RawQuery(query): RawQuery| ping(query.as_deref())),
    },
    Route {
        path: "/metrics",
        methods: &["GET"],
        is_open: false,
        words: Words::Own,
        handler: || get(async |State(app): State<Arc<App>>| metrics(&app)),
    },
];

/// The route with this path.
pub(crate) fn route(path: &str) -> Option<&'static Route> {
    ROUTES.iter().find(|route| route.path == path)
}

/// What a test, or a page about the routes, can know of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteInfo {
    /// The method; HEAD comes with GET.
    pub method: &'static str,
    /// The path.
    pub path: &'static str,
    /// Whether it answers without the token.
    pub is_open: bool,
}

/// All routes of the router.
pub fn routes() -> impl Iterator<Item = RouteInfo> {
    ROUTES.iter().flat_map(|route| {
        route.methods.iter().map(|&method| RouteInfo {
            method,
            path: route.path,
            is_open: route.is_open,
        })
    })
}

/// Somebody looked at the clock: what it says is right, although it jumped.
fn accept_clock(app: &App) -> StatusCode {
    app.service.accept_clock();
    StatusCode::NO_CONTENT
}

fn health(app: &App) -> Response {
    let poisoned = app.service.store_metrics().poisoned;
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

/// As `InfluxDB` 1 has it: nothing, or with `verbose` the version.
fn ping(query: Option<&str>) -> Response {
    let parameters = Parameters::parse(query.unwrap_or_default().as_bytes());
    let mut response = match parameters.get("verbose") {
        None | Some("" | "0" | "false") => StatusCode::NO_CONTENT.into_response(),
        Some(_) => (
            [(
                header::CONTENT_TYPE,
                HeaderValue::from_static("application/json"),
            )],
            format!("{}\n", json!({ "version": VERSION })),
        )
            .into_response(),
    };
    let version = HeaderValue::from_static(VERSION);
    response.headers_mut().insert(VERSION_HEADER, version);
    response
}

fn metrics(app: &App) -> Response {
    let content_type = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    (
        [(header::CONTENT_TYPE, content_type)],
        app.metrics.print(&app.service),
    )
        .into_response()
}

fn unknown(request: &Request) -> ErrorResponse {
    let path: String = request.uri().path().chars().take(200).collect();
    ErrorResponse::new(StatusCode::NOT_FOUND, format!("no such route: {path}"))
}

fn wrong_method(request: &Request) -> ErrorResponse {
    let (method, path) = (request.method(), request.uri().path());
    ErrorResponse::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("{path} does not take {method}"),
    )
}
