//! The socket: who may connect, and how many.

use std::net::SocketAddr;
use std::sync::Arc;

use nilometer_listener::{Came, Places};
use nilometer_service::{CancellationToken, Error, Service};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::config::TstorageConfig;
use crate::connection::{self, Shared};
use crate::metrics::{CONNECTIONS, READ, UNREACHABLE, WRITTEN};

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
    for metric in [&WRITTEN, &UNREACHABLE, &READ] {
        service.counters().counter(metric);
    }
    let tls = config.tls.as_ref();
    let tls = tls.map(|tls| tls.acceptor(&service, PROTOCOL));
    let places = Places {
        connections_max: config.connections_max,
        setting: "tstorage-connections-max",
        lobby: 0,
        open: CONNECTIONS,
    };
    let shared = Arc::new(Shared {
        service: Arc::clone(&service),
        config,
        stop: stop.clone(),
    });
    let talk = |came: Came| {
        let (shared, tls) = (Arc::clone(&shared), tls.clone());
        async move { talk(&shared, tls, came.socket, came.peer).await }
    };
    nilometer_listener::serve(listener, &service, &stop, &places, talk).await;
    Ok(())
}

/// One client, from its first byte.
async fn talk(shared: &Arc<Shared>, tls: Option<TlsAcceptor>, socket: TcpStream, peer: SocketAddr) {
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
