//! The listening loop: accept, places, stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nilometer_service::{CancellationToken, Metric, Service};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Pause after a refused accept: mostly "too many open files", which asking again at once does not cure.
const PAUSE_AFTER_REFUSED_ACCEPT: Duration = Duration::from_millis(50);

/// Shortest time between two lines of the log about clients that were turned away: thousands may come in a second.
const TURNED_AWAY_PAUSE: Duration = Duration::from_secs(10);

/// How many clients a protocol may have. Each has its place from the first byte: who says nothing holds a file and memory too.
#[derive(Debug, Clone)]
pub struct Places {
    /// Clients at one time; one at least.
    pub connections_max: usize,
    /// The setting that says so.
    pub setting: &'static str,
    /// Clients beyond these that are heard at all, for a protocol that tells them why they cannot come in.
    pub lobby: usize,
    /// Counts those that are there.
    pub open: Metric,
}

/// A client that has come.
#[derive(Debug)]
pub struct Came {
    /// Its socket.
    pub socket: TcpStream,
    /// Where it is.
    pub peer: SocketAddr,
    /// It is in the lobby.
    pub is_full: bool,
}

/// Has `talk` speak with each client until `stop`, then lets what runs end, for `shutdown_ms_max` at most. Who has no place is
/// closed at once, and counted.
pub async fn serve<F>(
    listener: TcpListener,
    service: &Service,
    stop: &CancellationToken,
    places: &Places,
    talk: impl Fn(Came) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let of = |most: usize| Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
    let (inside, lobby) = (of(places.connections_max.max(1)), of(places.lobby));
    let open = service.counters().gauge(&places.open);
    let mut turned_away = TurnedAway::default();
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
        let place = Arc::clone(&inside).try_acquire_owned();
        let is_full = place.is_err();
        if is_full {
            service.counters().limits_hit.note(Some(places.setting));
        }
        let Ok(place) = place.or_else(|_| Arc::clone(&lobby).try_acquire_owned()) else {
            turned_away.note(peer, places.setting);
            continue;
        };
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        let talked = talk(Came {
            socket,
            peer,
            is_full,
        });
        let open = Arc::clone(&open);
        running.spawn(async move {
            let _counted = open.enter();
            talked.await;
            drop(place);
        });
    }
    drop(listener);
    let time_max = Duration::from_millis(service.options().shutdown_ms_max);
    let ended = async { while running.join_next().await.is_some() {} };
    if tokio::time::timeout(time_max, ended).await.is_err() {
        tracing::warn!("connections were cut at shutdown (setting shutdown-ms-max)");
    }
}

/// Clients that had no place, for the log.
#[derive(Debug, Default)]
struct TurnedAway {
    clients: u64,
    last_told: Option<Instant>,
}

impl TurnedAway {
    /// Counts one, and tells of all of them since the last line if that is long ago.
    fn note(&mut self, peer: SocketAddr, setting: &str) {
        self.clients += 1;
        if self
            .last_told
            .is_none_or(|at| at.elapsed() >= TURNED_AWAY_PAUSE)
        {
            let clients = std::mem::take(&mut self.clients);
            self.last_told = Some(Instant::now());
            tracing::warn!(%peer, clients, "clients were turned away, the last of them this one: too many are connected (setting {setting})");
        }
    }
}
