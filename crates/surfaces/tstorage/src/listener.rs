//! The socket: who may connect, and how many.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nilometer_service::{CancellationToken, Error, Service};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::config::TstorageConfig;
use crate::connection::{self, Shared};

/// Pause after a refused accept: mostly "too many open files", which asking again at once does not cure.
const PAUSE_AFTER_REFUSED_ACCEPT: Duration = Duration::from_millis(50);

/// The name of the protocol where TLS asks for one.
const PROTOCOL: &[u8] = b"tstorage";

/// Serves connections until it is told to stop, then lets what runs end.
pub(crate) async fn serve(
    listener: TcpListener,
    config: TstorageConfig,
    service: Arc<Service>,
    stop: CancellationToken,
) -> Result<(), Error> {
    // A role that is not there yet may be made later; who starts the server hears of it.
    if let Err(error) = service.access().standing_for(config.role.as_deref()) {
        tracing::warn!(%error, "clients of TStorage can do nothing (setting tstorage-role)");
    }
    let places = Arc::new(Semaphore::new(
        config.connections_max.clamp(1, Semaphore::MAX_PERMITS),
    ));
    let time_max = Duration::from_millis(service.options().shutdown_ms_max);
    let tls = config.tls.as_ref();
    let tls = tls.map(|tls| tls.acceptor_of(&service, PROTOCOL));
    let shared = Arc::new(Shared {
        service,
        config,
        stop: stop.clone(),
    });
    let mut running = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
            _ = running.join_next(), if !running.is_empty() => continue,
        };
        let (socket, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE_AFTER_REFUSED_ACCEPT).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            tracing::warn!(
                %peer,
                "a TStorage client was turned away: too many are connected (setting tstorage-connections-max)"
            );
            continue;
        };
        let (shared, tls) = (Arc::clone(&shared), tls.clone());
        running.spawn(async move {
            talk(&shared, tls, socket, peer).await;
            drop(place);
        });
    }
    drop(listener);
    let ended = async { while running.join_next().await.is_some() {} };
    if tokio::time::timeout(time_max, ended).await.is_err() {
        tracing::warn!(
            "requests of TStorage clients were cut at shutdown (setting shutdown-ms-max)"
        );
    }
    Ok(())
}

/// One client, from its first byte.
async fn talk(shared: &Arc<Shared>, tls: Option<TlsAcceptor>, socket: TcpStream, peer: SocketAddr) {
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let Some(tls) = tls else {
        return connection::serve(shared, socket).await;
    };
    match tokio::time::timeout(shared.stall_max(), tls.accept(socket)).await {
        Ok(Ok(stream)) => connection::serve(shared, stream).await,
        Ok(Err(error)) => {
            tracing::debug!(%peer, %error, "a client and this server found no TLS in common");
        }
        Err(_) => tracing::debug!(%peer, "a client did not begin TLS in time"),
    }
}
