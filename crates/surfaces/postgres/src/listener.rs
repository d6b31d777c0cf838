//! The socket: who may connect, how many, and which connection a cancel request means.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use nilometer_service::{CancellationToken, Error, Service};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::connection::Connection;
use crate::connection::startup::{self, Begun, First};
use crate::sqlstate::{Refused, TOO_MANY_CONNECTIONS};
use crate::wire::frames::Frames;
use crate::wire::replies;
use crate::{Postgres, PostgresConfig};

/// Pause after a refused accept: mostly "too many open files", which asking again at once does not cure.
const PAUSE_AFTER_REFUSED_ACCEPT: Duration = Duration::from_millis(50);

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) service: Arc<Service>,
    pub(crate) config: PostgresConfig,
    pub(crate) stop: CancellationToken,
    connections: Mutex<Connections>,
}

#[derive(Debug, Default)]
struct Connections {
    by_number: HashMap<i32, (i32, Cancel)>,
    last: i32,
}

/// What a connection is at, for a cancel request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cancel(Arc<Mutex<CancellationToken>>);

impl Cancel {
    /// The next statement begins: what ends this one.
    pub(crate) fn renew(&self) -> CancellationToken {
        let token = CancellationToken::new();
        *self.lock() = token.clone();
        token
    }

    fn lock(&self) -> MutexGuard<'_, CancellationToken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of a connection, given back when dropped.
#[derive(Debug)]
pub(crate) struct Number {
    shared: Arc<Shared>,
    pub(crate) number: i32,
    pub(crate) secret: i32,
    pub(crate) cancel: Cancel,
}

impl Drop for Number {
    fn drop(&mut self) {
        self.shared.lock().by_number.remove(&self.number);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for a connection, and the secret that a cancel request shows.
    pub(crate) fn number(self: &Arc<Self>) -> Number {
        let mut secret = [0; 4];
        // Where the system gives none, the number alone would cancel a statement, which harms no data.
        let _ = SystemRandom::new().fill(&mut secret);
        let secret = i32::from_be_bytes(secret);
        let cancel = Cancel::default();
        let mut connections = self.lock();
        loop {
            connections.last = connections.last.wrapping_add(1).max(1);
            let number = connections.last;
            if !connections.by_number.contains_key(&number) {
                connections
                    .by_number
                    .insert(number, (secret, cancel.clone()));
                break;
            }
        }
        let number = connections.last;
        drop(connections);
        Number {
            shared: Arc::clone(self),
            number,
            secret,
            cancel,
        }
    }

    /// Ends what a connection is at, if the secret is its own.
    pub(crate) fn cancel(&self, number: i32, secret: i32) {
        let found = self.lock().by_number.get(&number).cloned();
        if let Some((own, cancel)) = found
            && own == secret
        {
            cancel.lock().cancel();
        }
    }
}

/// Serves connections until it is told to stop, then lets what runs end.
pub(crate) async fn serve(
    surface: Postgres,
    service: Arc<Service>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let Postgres { listener, config } = surface;
    let places = Arc::new(Semaphore::new(
        config.connections_max.clamp(1, Semaphore::MAX_PERMITS),
    ));
    let time_max = Duration::from_millis(service.options().shutdown_ms_max);
    let shared = Arc::new(Shared {
        service,
        config,
        stop: stop.clone(),
        connections: Mutex::default(),
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
        let place = Arc::clone(&places).try_acquire_owned().ok();
        let shared = Arc::clone(&shared);
        running.spawn(async move {
            let is_full = place.is_none();
            talk(shared, socket, peer, is_full).await;
            drop(place);
        });
    }
    drop(listener);
    let ended = async { while running.join_next().await.is_some() {} };
    if tokio::time::timeout(time_max, ended).await.is_err() {
        tracing::warn!(
            "connections of PostgreSQL clients were cut at shutdown (setting shutdown-ms-max)"
        );
    }
    Ok(())
}

/// One client, from its first byte.
async fn talk(shared: Arc<Shared>, socket: TcpStream, peer: SocketAddr, is_full: bool) {
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let time_max = Duration::from_millis(shared.config.startup_ms_max);
    let begun = tokio::time::timeout(time_max, begin(&shared, socket, is_full)).await;
    match begun {
        Ok(Some(Met::Plain(met, socket))) => meet(shared, socket, met, peer, is_full).await,
        Ok(Some(Met::Tls(met, socket))) => meet(shared, *socket, met, peer, is_full).await,
        Ok(None) => {}
        Err(_) => {
            tracing::debug!(%peer, "a client did not begin in time (setting pg-startup-ms-max)")
        }
    }
}

/// How a client that is here speaks.
enum Met {
    Plain(First, TcpStream),
    Tls(First, Box<tokio_rustls::server::TlsStream<TcpStream>>),
}

/// Agrees on encryption. `None` = there is nothing more to say.
async fn begin(shared: &Arc<Shared>, socket: TcpStream, _is_full: bool) -> Option<Met> {
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
                let acceptor = tls.acceptor_of(&shared.service, b"postgresql");
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
