//! Surfaces: protocols that clients speak to the store, each on a socket of its own.
//!
//! Does: say what a surface is, serve several over one service, close the store when they have ended. Does not: open a
//! socket, or know a protocol. HTTP is one surface; what speaks over it are routes on its listener.

use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::service::Service;

/// A protocol with its socket.
pub trait Surface: Send {
    /// Serves clients until `stop` is cancelled, then lets what runs end, which may take `shutdown_ms_max`.
    fn serve(
        self: Box<Self>,
        service: Arc<Service>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), Error>>;
}

impl Service {
    /// Serves surfaces until `stop` completes or one of them ends, and closes the store after the last of them.
    pub async fn serve(
        self: Arc<Self>,
        surfaces: Vec<Box<dyn Surface>>,
        stop: impl Future,
    ) -> Result<(), Error> {
        self.maintain()?;
        self.warn_of_quarantined();
        let stopping = CancellationToken::new();
        let scheduler = self.schedule(stopping.clone());
        let mut running = JoinSet::new();
        for surface in surfaces {
            running.spawn(surface.serve(Arc::clone(&self), stopping.clone()));
        }
        let mut outcome = Ok(());
        {
            let mut stop = std::pin::pin!(stop);
            loop {
                let ended = tokio::select! {
                    _ = &mut stop, if !stopping.is_cancelled() => {
                        stopping.cancel();
                        continue;
                    }
                    ended = running.join_next() => ended,
                };
                let Some(ended) = ended else { break };
                stopping.cancel();
                let ended = ended.unwrap_or_else(|_| Err(Error::Panicked { what: "surface" }));
                outcome = outcome.and(ended);
            }
        }
        stopping.cancel();
        // A panic of it was logged.
        let _ = scheduler.await;
        let executor = Arc::clone(self.executor());
        let closed = executor.block(move || self.close()).await;
        outcome.and(closed.unwrap_or(Err(Error::Panicked {
            what: "close of the store",
        })))
    }

    fn warn_of_quarantined(&self) {
        for file in self.engine().quarantined() {
            tracing::warn!(
                file = %file.file.display(),
                offset = file.offset,
                reason = file.reason,
                rows = file.rows,
                "a damaged file was put aside, and its rows are missing; `nilometer check` says more"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::access::Principal;
    use std::path::Path;
    use std::sync::mpsc::{self, SyncSender};
    use std::time::Duration;

    use nilometer_engine::disk::MemoryDisk;
    use nilometer_engine::{Engine, Options, SystemClock};
    use tokio::sync::oneshot;
    use tokio::time::Instant;

    use super::*;
    use crate::executor::{Executor, Threads};
    use crate::options::ServiceOptions;
    use crate::write::LineTarget;
    use crate::write::sessions::Scope;
    use nilometer_lineproto::Precision;

    /// Writes a line when it is told to stop, and ends with this.
    struct LastWord(Result<(), Error>);

    impl Surface for LastWord {
        fn serve(
            self: Box<Self>,
            service: Arc<Service>,
            stop: CancellationToken,
        ) -> BoxFuture<'static, Result<(), Error>> {
            Box::pin(async move {
                stop.cancelled().await;
                let target = LineTarget {
                    principal: Principal::anyone(),
                    scope: Scope::of_database("d"),
                    creates: true,
                    precision: Precision::Second,
                    key: None,
                    keeps_policy: false,
                };
                service
                    .write_lines(target, || Ok::<_, Error>(b"m v=1 1"))
                    .await?;
                self.0
            })
        }
    }

    /// Ends by itself.
    struct Broken;

    impl Surface for Broken {
        fn serve(
            self: Box<Self>,
            _: Arc<Service>,
            _: CancellationToken,
        ) -> BoxFuture<'static, Result<(), Error>> {
            Box::pin(async { Err(Error::Surface("the socket is gone".into())) })
        }
    }

    fn service() -> Arc<Service> {
        service_on(Threads::of_caller())
    }

    fn service_on(executor: Arc<dyn Executor>) -> Arc<Service> {
        let (disk, clock) = (Arc::new(MemoryDisk::default()), Arc::new(SystemClock));
        let engine = Engine::open(disk, clock, Path::new("/data"), Options::default()).unwrap();
        let options = ServiceOptions::default();
        Service::new(Arc::new(engine), executor, options, |_| Ok(Vec::new())).unwrap()
    }

    /// Hands over tasks that have ended in place of dropping them: a busy thread comes to that late.
    #[derive(Debug)]
    struct Lingering(Arc<dyn Executor>, SyncSender<BoxFuture<'static, ()>>);

    impl Executor for Lingering {
        fn spawn(&self, mut task: BoxFuture<'static, ()>) {
            let ended = self.1.clone();
            self.0.spawn(Box::pin(async move {
                (&mut task).await;
                let _ = ended.send(task);
            }));
        }

        fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) {
            self.0.spawn_blocking(work);
        }

        fn threads(&self, wanted: usize) -> usize {
            self.0.threads(wanted)
        }

        fn run_together(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
            self.0.run_together(count, work);
        }

        fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
            self.0.sleep(time)
        }

        fn now(&self) -> Instant {
            self.0.now()
        }

        fn stop(&self) {
            self.0.stop();
        }
    }

    /// On a busy machine a store that had just been closed was still locked, seldom: the task that looks at the clock said that it
    /// had ended while it still held the store.
    #[tokio::test]
    async fn what_was_served_holds_the_store_no_more_when_serving_ends() {
        let (ended, tasks) = mpsc::sync_channel(8);
        let service = service_on(Arc::new(Lingering(Threads::of_caller(), ended)));
        let engine = Arc::downgrade(service.engine());
        let stop = std::future::ready(());
        let surfaces: Vec<Box<dyn Surface>> = vec![Box::new(LastWord(Ok(())))];
        service.serve(surfaces, stop).await.unwrap();
        assert!(engine.upgrade().is_none());
        assert_eq!(tasks.iter().count(), 1, "the one that looks at the clock");
    }

    #[tokio::test]
    async fn a_surface_that_is_told_to_stop_still_writes_and_the_store_is_closed_after_it() {
        let service = service();
        let (stop, stopped) = oneshot::channel::<()>();
        stop.send(()).unwrap();
        let surfaces: Vec<Box<dyn Surface>> = vec![Box::new(LastWord(Ok(())))];
        Arc::clone(&service).serve(surfaces, stopped).await.unwrap();
        let metrics = service.store_metrics();
        assert_eq!((metrics.head_rows, metrics.segment_rows), (0, 1));
    }

    #[tokio::test]
    async fn one_that_breaks_ends_the_others_and_its_error_is_told() {
        let service = service();
        let surfaces: Vec<Box<dyn Surface>> = vec![Box::new(LastWord(Ok(()))), Box::new(Broken)];
        let ended = Arc::clone(&service)
            .serve(surfaces, std::future::pending::<()>())
            .await;
        assert_eq!(ended.unwrap_err().to_string(), "the socket is gone");
        assert_eq!(service.store_metrics().segment_rows, 1);
    }
}
