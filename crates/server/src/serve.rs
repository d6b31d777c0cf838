//! The listening loop: accept, serve, stop.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nilometer_engine::Engine;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use crate::config::ServerConfig;
use crate::error::Error;
use crate::http::router;
use crate::maintenance::Maintenance;

/// Pause after a refused accept: mostly "too many open files", which asking again at once does not cure.
const PAUSE_AFTER_REFUSED_ACCEPT: Duration = Duration::from_millis(50);

/// Refuses an address that other machines reach, unless that was asked for.
pub fn check_bind(address: SocketAddr, insecure: bool) -> Result<(), Error> {
    if address.ip().is_loopback() || insecure {
        Ok(())
    } else {
        Err(Error::Insecure { address })
    }
}

/// Serves until `shutdown` completes, then lets running requests finish and closes the engine.
pub async fn serve(
    listener: TcpListener,
    engine: Arc<Engine>,
    config: ServerConfig,
    shutdown: impl Future,
) -> Result<(), Error> {
    let address = listener.local_addr().map_err(|source| Error::Listener {
        op: "read the address of",
        source,
    })?;
    check_bind(address, config.insecure)?;
    if !address.ip().is_loopback() {
        tracing::warn!(%address, "reachable from other machines without authentication (--insecure)");
    }
    let tick = Duration::from_millis(config.maintain_tick_ms.max(1));
    let shutdown_time_max = Duration::from_millis(config.shutdown_ms_max);
    let connections = Arc::new(Semaphore::new(
        config.connections_max.clamp(1, Semaphore::MAX_PERMITS),
    ));
    let header_time_max = Duration::from_millis(config.header_read_ms_max.max(1));
    let service = router(Arc::clone(&engine), config)?;
    let maintenance = Maintenance::start(&engine, tick)?;
    tracing::info!(%address, "serving");

    let (stop, stopping) = watch::channel(false);
    let mut tasks = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            _ = &mut shutdown => break,
            Some(ended) = tasks.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "a connection's task failed");
                }
            }
            (stream, permit) = accept(&listener, &connections) => {
                tasks.spawn(connection(stream, service.clone(), header_time_max, stopping.clone(), permit));
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
    // The routes hold the engine too; it closes after the last write that they started.
    drop(service);
    let close = move || {
        maintenance.stop(shutdown_time_max);
        engine.close()
    };
    match tokio::task::spawn_blocking(close).await {
        Ok(closed) => Ok(closed?),
        Err(error) => Err(Error::Threads {
            what: "closing the store",
            source: std::io::Error::other(error),
        }),
    }
}

/// The next connection. At the limit, connections wait in the system's queue until one ends.
async fn accept(
    listener: &TcpListener,
    connections: &Arc<Semaphore>,
) -> (TcpStream, Option<OwnedSemaphorePermit>) {
    // Nobody closes the semaphore, so there always is a permit.
    let permit = Arc::clone(connections).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, permit),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(PAUSE_AFTER_REFUSED_ACCEPT).await;
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    service: Router,
    header_time_max: Duration,
    mut stopping: watch::Receiver<bool>,
    permit: Option<OwnedSemaphorePermit>,
) {
    let _permit = permit;
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_time_max)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
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
