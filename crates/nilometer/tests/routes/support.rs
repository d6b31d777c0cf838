//! The routes over a store in memory, called without a socket.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request};
use axum::response::Response;
use http_body_util::BodyExt;
use nilometer_edge::Edge;
use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::{Engine, Options, SystemClock};
use nilometer_http::{Hosts, Http, HttpConfig, HttpSurface, Origins, RouteInfo, Routes, router};
use nilometer_influx::Influx;
use nilometer_native::{Native, NativeConfig};
use nilometer_query::Sql;
use nilometer_service::{Error, QueryOptions, Service, ServiceOptions, Threads, Token};
use serde_json::Value;
use tokio::net::TcpListener;
use tower::ServiceExt;

pub(crate) struct Server {
    pub(crate) engine: Arc<Engine>,
    pub(crate) service: Arc<Service>,
    router: Router,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn error(&self) -> String {
        self.json()["error"].as_str().unwrap().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }
}

pub(crate) fn engine_on(disk: Arc<dyn Disk>) -> Arc<Engine> {
    Arc::new(
        Engine::open(
            disk,
            Arc::new(SystemClock),
            Path::new("/data"),
            Options::default(),
        )
        .unwrap(),
    )
}

/// Settings by the crate that they are for.
#[derive(Debug, Default)]
struct Settings {
    service: ServiceOptions,
    http: HttpConfig,
    native: NativeConfig,
}

macro_rules! settings {
    ($($name:ident: $kind:ty, $($path:ident).+;)*) => {
        /// Settings of a server that tests choose, side by side.
        #[derive(Debug, Clone)]
        pub(crate) struct ServerConfig {
            $(pub(crate) $name: $kind,)*
        }

        impl Default for ServerConfig {
            fn default() -> Self {
                let all = Settings::default();
                Self { $($name: all.$($path).+.clone(),)* }
            }
        }

        impl From<ServerConfig> for Settings {
            fn from(config: ServerConfig) -> Self {
                let mut all = Self::default();
                $(all.$($path).+ = config.$name;)*
                all
            }
        }
    };
}

settings! {
    token: Option<Token>, service.token;
    auth: bool, service.auth;
    writes_max: usize, service.writes_max;
    write_ms_max: u64, service.write_ms_max;
    queries_max: usize, service.queries_max;
    queries_waiting_max: usize, service.queries_waiting_max;
    bodies_bytes_max: usize, service.bodies_bytes_max;
    sql: QueryOptions, service.query;
    cors_origins: Origins, http.cors_origins;
    hosts: Hosts, http.hosts;
    url_bytes_max: usize, http.url_bytes_max;
    header_bytes_max: usize, http.header_bytes_max;
    header_read_ms_max: u64, http.header_read_ms_max;
    body_bytes_max: usize, http.body_bytes_max;
    body_compressed_bytes_max: usize, http.body_compressed_bytes_max;
    body_ratio_max: usize, http.body_ratio_max;
    body_read_ms_max: u64, http.body_read_ms_max;
    connections_max: usize, http.connections_max;
    answer_rows_max: usize, native.answer_rows_max;
    answer_pretty_rows_max: usize, native.answer_pretty_rows_max;
}

/// All that surfaces share over an engine, asked in SQL.
pub(crate) fn service_over(engine: Arc<Engine>, options: ServiceOptions) -> Arc<Service> {
    let executor = Threads::start(options.query.threads).unwrap();
    Service::new(engine, executor, options, |context| {
        Ok(vec![Arc::new(Sql::among(context)?)])
    })
    .unwrap()
}

/// What the program mounts.
fn surfaces(config: NativeConfig) -> Vec<Box<dyn Routes>> {
    vec![
        Box::new(Native { config }),
        Box::new(Influx),
        Box::new(Edge::default()),
    ]
}

/// Every route of these.
pub(crate) fn routes() -> Vec<RouteInfo> {
    let service = service_over(
        engine_on(Arc::new(MemoryDisk::default())),
        ServiceOptions::default(),
    );
    let http = Http::new(service, HttpConfig::default());
    let surfaces = surfaces(NativeConfig::default());
    let routes = surfaces.iter().flat_map(|surface| surface.routes(&http));
    routes
        .flat_map(|route| route.infos().collect::<Vec<_>>())
        .collect()
}

/// A server on a socket, asked in SQL.
pub(crate) async fn serve(
    listener: TcpListener,
    engine: Arc<Engine>,
    config: ServerConfig,
    shutdown: impl Future,
) -> Result<(), Error> {
    let all = Settings::from(config);
    let http = HttpSurface {
        listener,
        config: all.http,
        routes: surfaces(all.native),
    };
    let service = service_over(engine, all.service);
    service.serve(vec![Box::new(http)], shutdown).await
}

impl Server {
    pub(crate) fn new() -> Self {
        Self::with(ServerConfig::default())
    }

    pub(crate) fn with(config: ServerConfig) -> Self {
        Self::over(engine_on(Arc::new(MemoryDisk::default())), config)
    }

    /// As a program that was built without SQL.
    pub(crate) fn without_sql() -> Self {
        let engine = engine_on(Arc::new(MemoryDisk::default()));
        let options = ServiceOptions::default();
        let executor = Threads::start(options.query.threads).unwrap();
        let service = Service::new(Arc::clone(&engine), executor, options, |_| Ok(Vec::new()));
        Self::mounted(engine, service.unwrap(), Settings::default())
    }

    pub(crate) fn over(engine: Arc<Engine>, config: ServerConfig) -> Self {
        let all = Settings::from(config);
        let service = service_over(Arc::clone(&engine), all.service.clone());
        Self::mounted(engine, service, all)
    }

    fn mounted(engine: Arc<Engine>, service: Arc<Service>, all: Settings) -> Self {
        let http = Http::new(Arc::clone(&service), all.http);
        let router = router(&http, &surfaces(all.native));
        Self {
            engine,
            service,
            router,
        }
    }

    /// The answer with its body still to be read.
    pub(crate) async fn respond(&self, request: Request<Body>) -> Response {
        self.router.clone().oneshot(request).await.unwrap()
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.respond(request).await;
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Request::get(path).body(Body::empty()).unwrap())
            .await
    }

    pub(crate) async fn post(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        let mut request = Request::post(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(body.into()).unwrap()).await
    }

    /// Writes lines with times in nanoseconds into the database `d`.
    pub(crate) async fn write(&self, lines: impl Into<Body>) -> Answer {
        self.post("/api/v3/write_lp?db=d&precision=ns", &[], lines)
            .await
    }

    /// Asks the database `d` and expects an answer.
    pub(crate) async fn query(&self, sql: &str, format: &str) -> String {
        let answer = self.try_query(sql, format).await;
        assert_eq!(answer.status, 200, "{sql}: {}", answer.text());
        answer.text().to_owned()
    }

    pub(crate) async fn try_query(&self, sql: &str, format: &str) -> Answer {
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("db", "d")
            .append_pair("q", sql)
            .append_pair("format", format)
            .finish();
        self.get(&format!("/api/v3/query_sql?{form}")).await
    }
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    ::zstd::encode_all(bytes, 3).unwrap()
}
