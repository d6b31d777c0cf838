//! The scheduler: asks the languages and the background jobs what is due by the clock, and runs it.
//!
//! Does: run one after the other, each in a turn of its own among the queries, so that none runs twice at a time.
//! Does not: know what is due (`schedule.rs` keeps the statements, their languages say when; `background.rs` keeps the jobs).

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::service::Service;

impl Service {
    /// Runs what is due now, and returns how many statements and jobs that were. Whoever else does so waits.
    pub async fn run_due(self: &Arc<Self>, stop: &CancellationToken) -> usize {
        let _alone = self.scheduler().lock().await;
        let now_ns = self.wall_ns();
        let mut count = 0;
        for language in self.languages() {
            for due in language.due(now_ns) {
                let run = due.run(stop.clone());
                if !self.run_alone(run, stop).await {
                    return count;
                }
                count += 1;
            }
        }
        if self.options().query.read_only {
            return count;
        }
        for id in self.jobs().due(now_ns) {
            let (jobs, stop_job) = (Arc::clone(self.jobs()), stop.clone());
            let run = async move {
                if let Err(error) = jobs.run(id, stop_job).await {
                    tracing::warn!(job = id, %error, "a job failed");
                }
            };
            if !self.run_alone(Box::pin(run), stop).await {
                return count;
            }
            count += 1;
        }
        count
    }

    /// Runs one thing in a turn of its own, to its end; `false` = there is no turn, or it is time to stop.
    async fn run_alone(
        self: &Arc<Self>,
        run: BoxFuture<'static, ()>,
        stop: &CancellationToken,
    ) -> bool {
        if stop.is_cancelled() {
            return false;
        }
        let turn = match self.turn().await {
            Ok(turn) => turn,
            Err(error) => {
                // It stays due.
                tracing::warn!(%error, "what is due waits for the next look at the clock");
                return false;
            }
        };
        let (ended, end) = oneshot::channel();
        self.spawn(async move {
            run.await;
            drop(turn);
            // Nobody waits for it any more only if the server ends.
            let _ = ended.send(());
        });
        // An error is a panic, which is logged where it happens.
        let _ = end.await;
        true
    }

    /// Looks at the clock again and again until it is told to stop; what it returns ends when what runs has come to its end.
    pub(crate) fn schedule(self: &Arc<Self>, stop: CancellationToken) -> oneshot::Receiver<()> {
        let service = Arc::clone(self);
        let time = Duration::from_millis(self.options().schedule_tick_ms.max(1));
        let (ended, end) = oneshot::channel();
        self.spawn(async move {
            loop {
                let pause = service.executor().sleep(time);
                if stop.run_until_cancelled(pause).await.is_none() {
                    break;
                }
                service.run_due(&stop).await;
            }
            // Whoever waits may open the store again, which nothing may hold then.
            drop(service);
            // Nobody waits for it any more only if the program ends.
            let _ = ended.send(());
        });
        end
    }
}
