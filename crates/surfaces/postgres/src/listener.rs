//! The socket: who may connect, and how many.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use nilometer_listener::{Came, Places};
use nilometer_service::{CancellationToken, Error, Metric, Service};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::config::PostgresConfig;
use crate::connection::Connection;
use crate::connection::startup::{self, Begun, First};
use crate::shared::Shared;
use crate::sqlstate::{Refused, TOO_MANY_CONNECTIONS};
use crate::wire::frames::Frames;
use crate::wire::replies;

const CONNECTIONS: Metric = Metric {
    name: "pg_connections",
    help: "Connections of PostgreSQL clients that are open.",
};

/// Clients beyond the setting that are heard at all, until they are told why they cannot come in, or have cancelled something.
const LOBBY: usize = 64;
/// How long they are heard.
const LOBBY_TIME_MAX: Duration = Duration::from_secs(5);

/// Serves connections until it is told to stop, then lets what runs end.
pub(crate) async fn serve(
    listener: TcpListener,
    config: PostgresConfig,
    service: Arc<Service>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let places = Places {
        connections_max: config.connections_max,
        setting: "pg-connections-max",
        lobby: LOBBY,
        open: CONNECTIONS,
    };
    let shared = Shared::new(Arc::clone(&service), config, stop.clone());
    let talk = |came: Came| talk(Arc::clone(&shared), came);
    nilometer_listener::serve(listener, &service, &stop, &places, talk).await;
    Ok(())
}

/// One client, from its first byte.
async fn talk(shared: Arc<Shared>, came: Came) {
    let Came {
        socket,
        peer,
        is_full,
    } = came;
    let time_max = Duration::from_millis(shared.config.startup_ms_max);
    let time_max = if is_full {
        time_max.min(LOBBY_TIME_MAX)
    } else {
        time_max
    };
    let begun = tokio::time::timeout(time_max, begin(&shared, socket)).await;
    match begun {
        Ok(Some(Met::Plain(met, socket))) => meet(shared, socket, met, peer, is_full).await,
        Ok(Some(Met::Tls(met, socket))) => meet(shared, *socket, met, peer, is_full).await,
        Ok(None) => {}
        Err(_) => {
            tracing::debug!(%peer, "a client did not begin in time (setting pg-startup-ms-max)");
        }
    }
}

/// How a client that is here speaks.
enum Met {
    Plain(First, TcpStream),
    Tls(First, Box<tokio_rustls::server::TlsStream<TcpStream>>),
}

/// Agrees on encryption. `None` = there is nothing more to say.
async fn begin(shared: &Arc<Shared>, socket: TcpStream) -> Option<Met> {
    let memory = shared.service.body_memory();
    let bytes_max = shared.config.message_bytes_max;
    let mut socket = socket;
    loop {
        let mut frames = Frames::new(socket, memory.clone(), bytes_max);
        let first = startup::first(&mut frames).await.ok()?;
        // What was read ahead of an answer was not meant for this ear.
        match first {
            First::Tls => {
                socket = frames.into_socket()?;
                let Some(tls) = &shared.config.tls else {
                    socket.write_all(b"N").await.ok()?;
                    continue;
                };
                let acceptor = tls.acceptor(&shared.service, b"postgresql");
                socket.write_all(b"S").await.ok()?;
                let stream = match acceptor.accept(socket).await {
                    Ok(stream) => stream,
                    Err(error) => {
                        tracing::debug!(%error, "a client and this server found no TLS in common");
                        return None;
                    }
                };
                let mut frames = Frames::new(stream, memory.clone(), bytes_max);
                let first = startup::first(&mut frames).await.ok()?;
                let stream = frames.into_socket()?;
                return Some(Met::Tls(first, Box::new(stream)));
            }
            First::Gss => {
                socket = frames.into_socket()?;
                socket.write_all(b"N").await.ok()?;
            }
            First::Cancel { number, secret } => {
                shared.cancel(number, secret);
                return None;
            }
            other => return Some(Met::Plain(other, frames.into_socket()?)),
        }
    }
}

/// Lets a client in, and serves it until it goes.
async fn meet<S: AsyncRead + AsyncWrite + Unpin + Send>(
    shared: Arc<Shared>,
    socket: S,
    first: First,
    peer: SocketAddr,
    is_full: bool,
) {
    let (read, mut write) = tokio::io::split(socket);
    let memory = shared.service.body_memory().clone();
    let mut frames = Frames::new(read, memory, shared.config.message_bytes_max);
    let startup = match first {
        First::Startup(startup) => startup,
        First::Cancel { number, secret } => return shared.cancel(number, secret),
        First::Tls | First::Gss => return,
        First::Refused(refused) => return say_goodbye(&mut write, &refused).await,
    };
    if is_full {
        shared
            .service
            .counters()
            .limits_hit
            .note(Some("pg-connections-max"));
        let refused = Refused::new(
            TOO_MANY_CONNECTIONS,
            "sorry, too many clients already (setting pg-connections-max)",
        );
        return say_goodbye(&mut write, &refused).await;
    }
    let time_max = Duration::from_millis(shared.config.startup_ms_max);
    let number = shared.number();
    let entering = startup::enter(&shared, startup, &number, &mut frames, &mut write);
    let begun: Begun = match tokio::time::timeout(time_max, entering).await {
        Ok(Ok(begun)) => begun,
        Ok(Err(Some(refused))) => {
            tracing::debug!(%peer, refused.message, "a client was not let in");
            return say_goodbye(&mut write, &refused).await;
        }
        Ok(Err(None)) | Err(_) => return,
    };
    Connection::new(shared, begun, number, frames, write)
        .serve()
        .await;
}

async fn say_goodbye(socket: &mut (impl AsyncWrite + Unpin), refused: &Refused) {
    let mut out = BytesMut::new();
    replies::fatal(&mut out, refused);
    // Who does not wait for it does not need it.
    let _ = socket.write_all(&out).await;
    let _ = socket.shutdown().await;
}
