//! The scheduler: asks the languages what is due by the clock, and runs it.
//!
//! Does: run one statement after the other, each in a turn of its own among the queries, so that none runs twice at a time.
//! Does not: know what is due (`schedule.rs` keeps the statements, their languages say when).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::service::Service;

impl Service {
    /// Runs what is due now, and returns how many statements that were. Whoever else does so waits.
    pub async fn run_due(self: &Arc<Self>, stop: &CancellationToken) -> usize {
        let _alone = self.scheduler().lock().await;
        let now_ns = self.wall_ns();
        let mut count = 0;
        for language in self.languages() {
            for due in language.due(now_ns) {
                if stop.is_cancelled() {
                    return count;
                }
                let turn = match self.turn().await {
                    Ok(turn) => turn,
                    Err(error) => {
                        // It stays due.
                        tracing::warn!(%error, "a scheduled statement waits for the next look at the clock");
                        return count;
                    }
                };
                let (ended, end) = oneshot::channel();
                let run = due.run(stop.clone());
                self.spawn(async move {
                    run.await;
                    drop(turn);
                    // Nobody waits for it any more only if the server ends.
                    let _ = ended.send(());
                });
                // An error is a panic, which is logged where it happens.
                let _ = end.await;
                count += 1;
            }
        }
        count
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
