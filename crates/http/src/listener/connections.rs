//! Connection limits: how many there may be, and which idle one is closed for a new one.
//!
//! Does: give places, keep a few for questions about the server itself, note what a connection is at, choose the one that
//! has done nothing for longest. Does not: speak, or end a connection; whoever runs it does when it is told to leave.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::Version;
use hyper::body::{Frame, SizeHint};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};

/// Places beyond `connections-max`, for health checks: several of them may ask at once.
const KEPT_PLACES: usize = 16;

/// Who has been here for less than this may be about to send his request.
const IDLE_TIME_MIN: Duration = Duration::from_secs(1);

/// A connection that is told to leave has gone after one turn of its task.
const LEAVE_TIME_MAX: Duration = Duration::from_secs(1);

/// How often it is looked again for one that may leave.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// All places.
#[derive(Debug)]
pub(crate) struct Places {
    ordinary: Arc<Semaphore>,
    kept: Arc<Semaphore>,
    taken: Mutex<BTreeMap<u64, (PlaceKind, Arc<Activity>)>>,
    /// Since when no place was free at once.
    crowded: Mutex<Option<Instant>>,
    last: AtomicU64,
}

/// What a place is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlaceKind {
    /// Every request.
    Ordinary,
    /// One request about the server itself.
    Kept,
}

/// Marks a request that came over a kept place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnKeptPlace;

/// Marks a request that came over a connection, and not from this process itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OverConnection;

/// The place of one connection, free again when dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPlace {
    pub(crate) kind: PlaceKind,
    pub(crate) activity: Arc<Activity>,
    places: Arc<Places>,
    number: u64,
    _permit: OwnedSemaphorePermit,
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.places.taken().remove(&self.number);
    }
}

impl Places {
    pub(crate) fn new(connections_max: usize) -> Arc<Self> {
        let ordinary = connections_max.clamp(1, Semaphore::MAX_PERMITS);
        Arc::new(Self {
            ordinary: Arc::new(Semaphore::new(ordinary)),
            kept: Arc::new(Semaphore::new(KEPT_PLACES)),
            taken: Mutex::default(),
            crowded: Mutex::default(),
            last: AtomicU64::new(0),
        })
    }

    fn taken(&self) -> MutexGuard<'_, BTreeMap<u64, (PlaceKind, Arc<Activity>)>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection that has come. When there is none, the one that has been idle for longest leaves; when all
    /// have something to do, it is one of the kept places; when these are taken too, it is the next that is free.
    pub(crate) async fn take(self: &Arc<Self>) -> ConnectionPlace {
        if let Ok(permit) = Arc::clone(&self.ordinary).try_acquire_owned() {
            *self.crowded() = None;
            return self.place(PlaceKind::Ordinary, permit);
        }
        let crowded = *self.crowded().get_or_insert_with(Instant::now);
        loop {
            let wait = match self.dismiss(PlaceKind::Ordinary) {
                Dismissed::Leaves => LEAVE_TIME_MAX,
                // Once, and not for each of those that come: idle ones may be about to ask again, again and again.
                Dismissed::Soon(wait) if crowded.elapsed() < IDLE_TIME_MIN => wait,
                _ => Duration::ZERO,
            };
            let next = Arc::clone(&self.ordinary).acquire_owned();
            if let Ok(Ok(permit)) = timeout(wait, next).await {
                return self.place(PlaceKind::Ordinary, permit);
            }
            if !wait.is_zero() {
                continue;
            }
            if let Ok(permit) = Arc::clone(&self.kept).try_acquire_owned() {
                return self.place(PlaceKind::Kept, permit);
            }
            self.dismiss(PlaceKind::Kept);
            tokio::select! {
                biased;
                Ok(permit) = Arc::clone(&self.ordinary).acquire_owned() => {
                    return self.place(PlaceKind::Ordinary, permit);
                }
                Ok(permit) = Arc::clone(&self.kept).acquire_owned() => {
                    return self.place(PlaceKind::Kept, permit);
                }
                () = sleep(LOOK_AGAIN) => {}
            }
        }
    }

    fn crowded(&self) -> MutexGuard<'_, Option<Instant>> {
        self.crowded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(self: &Arc<Self>, kind: PlaceKind, permit: OwnedSemaphorePermit) -> ConnectionPlace {
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        let activity = Arc::new(Activity::default());
        let noted = (kind, Arc::clone(&activity));
        self.taken().insert(number, noted);
        ConnectionPlace {
            kind,
            activity,
            places: Arc::clone(self),
            number,
            _permit: permit,
        }
    }

    /// Tells the connection of this kind that has been idle for longest to leave.
    fn dismiss(&self, kind: PlaceKind) -> Dismissed {
        let taken = self.taken();
        let ours = taken.values().filter(|(other, _)| *other == kind);
        let idle = ours.filter_map(|(_, it)| Some((it.idle_since()?, it)));
        let Some((since, longest)) = idle.min_by_key(|(since, _)| *since) else {
            return Dismissed::Nobody;
        };
        let rest = IDLE_TIME_MIN.saturating_sub(since.elapsed());
        if !rest.is_zero() {
            return Dismissed::Soon(rest);
        }
        if longest.dismiss() {
            Dismissed::Leaves
        } else {
            Dismissed::Nobody
        }
    }
}

/// Whether there is somebody who can leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dismissed {
    /// One does.
    Leaves,
    /// One has been idle, and in so long will have been for long enough.
    Soon(Duration),
    /// All have something to do.
    Nobody,
}

/// What a connection is at.
#[derive(Debug)]
enum Stage {
    /// Nothing, or the head of a request is on its way.
    Idle(Instant),
    /// A body is on its way.
    Receiving,
    /// The request is here, and its answer is not on its way to the last byte.
    Answering {
        /// The client knows of answers that are no last ones.
        knows_interim: bool,
        /// Some of the answer is on its way.
        has_begun: bool,
    },
    /// It was idle and is to leave.
    Dismissed,
}

/// What a connection is at, for who reads it, who answers it and who needs its place.
#[derive(Debug)]
pub(crate) struct Activity {
    stage: Mutex<Stage>,
    /// Bytes wait for the client to take others before them.
    is_blocked: AtomicBool,
    /// Requests that have come.
    requests: AtomicU64,
    leave: Notify,
}

impl Default for Activity {
    fn default() -> Self {
        Self {
            stage: Mutex::new(Stage::Idle(Instant::now())),
            is_blocked: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            leave: Notify::new(),
        }
    }
}

/// How long who sends no more is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Silence {
    /// Not at all: nothing is owed to him.
    IsTheEnd,
    /// He is owed an answer, and can be asked whether he is still there.
    MayBeAsked,
    /// He is owed the rest of an answer, or knows no question.
    MayListen,
}

impl Activity {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle_since(&self) -> Option<Instant> {
        match *self.stage() {
            Stage::Idle(since) if !self.is_blocked.load(Ordering::Relaxed) => Some(since),
            _ => None,
        }
    }

    /// Tells an idle connection to leave; false = it is idle no more.
    fn dismiss(&self) -> bool {
        let mut stage = self.stage();
        let is_idle = matches!(*stage, Stage::Idle(_));
        if is_idle {
            *stage = Stage::Dismissed;
            self.leave.notify_one();
        }
        is_idle
    }

    /// Waits until the connection has to leave; true = at once, as it does nothing.
    pub(crate) async fn dismissed(&self) -> bool {
        self.leave.notified().await;
        matches!(*self.stage(), Stage::Dismissed)
    }

    /// The number of the request whose head is on its way, or comes next; `None` = another one is not answered yet.
    pub(crate) fn awaited_request(&self) -> Option<u64> {
        match *self.stage() {
            Stage::Idle(_) => Some(self.requests.load(Ordering::Relaxed)),
            _ => None,
        }
    }

    /// A request has come, its body perhaps not.
    pub(crate) fn begin(self: &Arc<Self>, version: Version, body: Body) -> (Body, Answering) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        *self.stage() = Stage::Receiving;
        let mut body = Heard {
            knows_interim: version >= Version::HTTP_11,
            has_come: false,
            activity: Arc::clone(self),
            body,
        };
        if body.body.is_end_stream() {
            body.hear();
        }
        let answering = Answering(Arc::clone(self));
        (Body::new(body), answering)
    }

    fn hear(&self, knows_interim: bool) {
        let mut stage = self.stage();
        if matches!(*stage, Stage::Receiving) {
            *stage = Stage::Answering {
                knows_interim,
                has_begun: false,
            };
        }
    }

    /// Bytes wait for the client to take others before them, or not any more.
    pub(crate) fn block(&self, is_blocked: bool) {
        self.is_blocked.store(is_blocked, Ordering::Relaxed);
    }

    /// Bytes of an answer are on their way.
    pub(crate) fn answer(&self) {
        if let Stage::Answering { has_begun, .. } = &mut *self.stage() {
            *has_begun = true;
        }
    }

    /// What it means that the client sends no more.
    pub(crate) fn silence(&self) -> Silence {
        match *self.stage() {
            Stage::Answering {
                knows_interim: true,
                has_begun: false,
            } => Silence::MayBeAsked,
            Stage::Answering { .. } => Silence::MayListen,
            _ => Silence::IsTheEnd,
        }
    }
}

/// An answer on its way; at its end when dropped.
#[derive(Debug)]
pub(crate) struct Answering(Arc<Activity>);

impl Drop for Answering {
    fn drop(&mut self) {
        *self.0.stage() = Stage::Idle(Instant::now());
    }
}

/// The body of a request, which says when it has come.
struct Heard {
    body: Body,
    activity: Arc<Activity>,
    knows_interim: bool,
    has_come: bool,
}

impl Heard {
    fn hear(&mut self) {
        if !std::mem::replace(&mut self.has_come, true) {
            self.activity.hear(self.knows_interim);
        }
    }
}

impl HttpBody for Heard {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_none() || self.body.is_end_stream() {
            self.hear();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        // Whoever lets go of a body has no use for the rest of it.
        self.hear();
    }
}

/// The body of an answer, with what says that it is on its way.
pub(crate) struct Owed {
    pub(crate) body: Body,
    pub(crate) _answering: Answering,
}

impl HttpBody for Owed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
