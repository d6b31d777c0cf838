//! The listening loop: accept, serve, stop.

pub(crate) mod connections;
mod raw_address;
mod stall_timeout;

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, header};
use futures::future::BoxFuture;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use nilometer_service::{CancellationToken, Error as ServiceError, Service, Surface};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::config::HttpConfig;
use crate::error::Error;
use crate::http::Http;
use crate::routes::{Routes, router};
use connections::{ConnectionPlace, OnKeptPlace, OverConnection, Owed, PlaceKind, Places};
use raw_address::RawAddress;
use stall_timeout::StallTimeout;

/// Pause after a refused accept: mostly "too many open files", which asking again at once does not cure.
const PAUSE_AFTER_REFUSED_ACCEPT: Duration = Duration::from_millis(50);

/// How far a head may be over its limits and still be read, so that the answer can name the limit.
const HEAD_BYTES_BEYOND: usize = 64 << 10;

/// A network may do nothing for so long, whatever queries may.
const ANSWER_TIME_MIN: Duration = Duration::from_secs(1);

/// So long a client may go on to send what nobody reads.
const UNREAD_TIME_MAX: Duration = Duration::from_secs(1);

/// Bodies come through the same buffer; a smaller one would make them slow.
const BUFFER_BYTES_MIN: usize = 512 << 10;

/// HTTP as a surface of the service.
#[derive(Debug)]
pub struct HttpSurface {
    /// Where clients come.
    pub listener: TcpListener,
    /// Settings.
    pub config: HttpConfig,
    /// What is spoken over it.
    pub routes: Vec<Box<dyn Routes>>,
}

impl Surface for HttpSurface {
    fn serve(
        self: Box<Self>,
        service: Arc<Service>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), ServiceError>> {
        Box::pin(async move {
            let shutdown = stop.cancelled_owned();
            let served = serve(*self, service, shutdown).await;
            served.map_err(|error| ServiceError::Surface(Box::new(error)))
        })
    }
}

/// Refuses an address that other machines reach without TLS and a token, unless that was asked for.
pub fn check_bind(address: SocketAddr, has_token: bool, config: &HttpConfig) -> Result<(), Error> {
    match lack(has_token, config) {
        Some(lack) if !address.ip().is_loopback() && !config.insecure => {
            Err(Error::Insecure { address, lack })
        }
        _ => Ok(()),
    }
}

/// What a server that other machines reach should have and this one has not.
fn lack(has_token: bool, config: &HttpConfig) -> Option<&'static str> {
    match (config.tls.is_some(), has_token) {
        (true, true) => None,
        (true, false) => Some("asks nobody for a token"),
        (false, true) => Some("does not encrypt what it is sent, the token included"),
        (false, false) => Some("asks nobody for a token and does not encrypt"),
    }
}

/// Serves HTTP until `shutdown` completes, then lets running requests finish. The store is left open.
async fn serve(
    surface: HttpSurface,
    service: Arc<Service>,
    shutdown: impl Future,
) -> Result<(), Error> {
    let HttpSurface {
        listener,
        config,
        routes,
    } = surface;
    let address = listener.local_addr().map_err(|source| Error::Listener {
        op: "read the address of",
        source,
    })?;
    let has_token = service.access().is_guarded();
    check_bind(address, has_token, &config)?;
    if let Some(lack) = lack(has_token, &config)
        && !address.ip().is_loopback()
    {
        tracing::warn!(%address, "reachable from other machines, and this server {lack} (--insecure)");
    }
    let options = service.options();
    let shutdown_time_max = Duration::from_millis(options.shutdown_ms_max);
    let answer_time_max = Duration::from_millis(options.query.query_ms_max / 2);
    let places = Places::new(config.connections_max);
    let options = ConnectionOptions {
        header_time_max: Duration::from_millis(config.header_read_ms_max.max(1)),
        answer_time_max: answer_time_max.max(ANSWER_TIME_MIN),
        // What is over a limit by less than this gets an answer with the limit's name; beyond, the connection's reader
        // has its own.
        head_bytes_max: config.url_bytes_max + config.header_bytes_max + HEAD_BYTES_BEYOND,
        tls: config
            .tls
            .as_ref()
            .map(|tls| tls.acceptor(&service, b"http/1.1")),
    };
    let http = Http::at(Some(address), service, config);
    let routes = router(&http, &routes);
    tracing::info!(%address, "serving");

    let (stop, stopping) = watch::channel(false);
    let mut tasks = JoinSet::new();
    {
        let mut shutdown = std::pin::pin!(shutdown);
        // Goes on where it was when something else happens: a connection that has come waits for its place in here.
        let mut coming = std::pin::pin!(accept(&listener, &places));
        loop {
            tokio::select! {
                _ = &mut shutdown => break,
                Some(ended) = tasks.join_next() => {
                    if let Err(error) = ended {
                        tracing::error!(%error, "a connection's task failed");
                    }
                }
                (stream, place) = &mut coming => {
                    let open = OpenConnection { http: Arc::clone(&http), place };
                    tasks.spawn(connection(stream, routes.clone(), options.clone(), stopping.clone(), open));
                    coming.set(accept(&listener, &places));
                }
            }
        }
    }
    drop(listener);
    tracing::info!(connections = tasks.len(), "stopping");
    // The receivers live in the tasks; when there is none, nobody needs to know.
    let _ = stop.send(true);
    let all_ended = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(shutdown_time_max, all_ended)
        .await
        .is_err()
    {
        tracing::warn!(
            "some requests did not end in time and are cut off (setting shutdown-ms-max)"
        );
        tasks.shutdown().await;
    }
    Ok(())
}

/// The next connection, when it has its place.
async fn accept(listener: &TcpListener, places: &Arc<Places>) -> (TcpStream, ConnectionPlace) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, places.take().await),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(PAUSE_AFTER_REFUSED_ACCEPT).await;
            }
        }
    }
}

/// How connections are spoken to.
#[derive(Clone)]
struct ConnectionOptions {
    header_time_max: Duration,
    /// How long a client may take nothing of what is ready for it.
    answer_time_max: Duration,
    head_bytes_max: usize,
    tls: Option<TlsAcceptor>,
}

/// A connection with its place.
struct OpenConnection {
    http: Arc<Http>,
    place: ConnectionPlace,
}

async fn connection(
    stream: TcpStream,
    service: Router,
    options: ConnectionOptions,
    stopping: watch::Receiver<bool>,
    open: OpenConnection,
) {
    let _counted = open.http.metrics().connections.enter();
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let activity = Arc::clone(&open.place.activity);
    let all = async {
        let Some(acceptor) = &options.tls else {
            speak(stream, service, &options, stopping, &open).await;
            return;
        };
        // A client that does not speak TLS would hold its place for ever.
        match tokio::time::timeout(options.header_time_max, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => speak(stream, service, &options, stopping, &open).await,
            Ok(Err(error)) => {
                tracing::debug!(%error, "a client and this server found no TLS in common");
            }
            Err(_) => {
                tracing::debug!(
                    "a client did not finish its TLS handshake (setting header-read-ms-max)"
                );
            }
        }
    };
    let mut all = std::pin::pin!(all);
    loop {
        tokio::select! {
            () = &mut all => return,
            is_idle = activity.dismissed() => if is_idle {
                tracing::debug!("an idle connection left for another one (setting connections-max)");
                return;
            }
        }
    }
}

async fn speak(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    service: Router,
    options: &ConnectionOptions,
    mut stopping: watch::Receiver<bool>,
    open: &OpenConnection,
) {
    let activity = &open.place.activity;
    let stream = StallTimeout::new(stream, Arc::clone(activity), options.answer_time_max);
    let mut stream = RawAddress::new(stream, Arc::clone(activity));
    if open.http.service().wall_ns() < 0 {
        // The library that speaks HTTP cannot write such a date, and fails.
        answer_bad_clock(&mut stream).await;
        return;
    }
    let is_kept = open.place.kind == PlaceKind::Kept;
    let noted = Arc::clone(activity);
    let service = service_fn(move |request: Request<Incoming>| {
        let (mut head, body) = request.into_parts();
        head.extensions.insert(OverConnection);
        if is_kept {
            head.extensions.insert(OnKeptPlace);
        }
        let (body, answering) = noted.begin(head.version, Body::new(body));
        let answer = service.clone().oneshot(Request::from_parts(head, body));
        async move {
            let mut answer = answer.await?;
            if is_kept {
                let close = HeaderValue::from_static("close");
                answer.headers_mut().insert(header::CONNECTION, close);
            }
            Ok::<_, Infallible>(answer.map(|body| {
                Body::new(Owed {
                    body,
                    _answering: answering,
                })
            }))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(options.header_time_max)
        .max_buf_size(options.head_bytes_max.max(BUFFER_BYTES_MIN))
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let result = tokio::select! {
        result = &mut connection => result,
        _ = stopping.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended with an error");
    }
}

/// Says what is wrong, whatever is asked.
async fn answer_bad_clock(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    let what = "the clock of the server's machine is before 1970; set it, and the server goes on by itself";
    tracing::warn!("{what}");
    let body = format!("{}\n", serde_json::json!({ "error": what }));
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: {}\r\nRetry-After: 1\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    // Who does not wait for the answer does not need it.
    drop(stream.write_all(answer.as_bytes()).await);
    drop(stream.shutdown().await);
    // A connection that is closed with something unread is reset, and the answer with it.
    let mut nowhere = tokio::io::sink();
    let rest = tokio::io::copy(stream, &mut nowhere);
    drop(tokio::time::timeout(UNREAD_TIME_MAX, rest).await);
}
