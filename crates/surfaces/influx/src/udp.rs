//! Line protocol in datagrams, for collectors that do not wait for an answer.
//!
//! Does: gather the lines of datagrams into batches, write a batch when it is full or old, count what was lost. Does not: ask
//! who sends, because a datagram shows nothing: whoever reaches the address may write to its database.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use nilometer_engine::ingest::WriteReport;
use nilometer_lineproto::Precision;
use nilometer_service::{
    CancellationToken, Error, LineTarget, Metric, Principal, Scope, Service, Surface,
};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// No datagram is larger.
const DATAGRAM_BYTES_MAX: usize = 65_536;

/// A batch of this size is written, however few lines it has.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// Batches that wait while one is written; what comes then is lost.
const BATCHES_WAITING_MAX: usize = 10;

/// Datagrams of line protocol that came.
pub const DATAGRAMS: Metric = Metric {
    name: "influx_datagrams_total",
    help: "Datagrams of line protocol that came.",
};
/// Lines of them that were lost: no room in the queue, or the write failed.
pub const DATAGRAM_LINES_LOST: Metric = Metric {
    name: "influx_datagram_lines_lost_total",
    help: "Lines of datagrams that were lost or refused.",
};

/// Where datagrams go, and how they are gathered.
#[derive(Debug, Clone)]
pub struct UdpConfig {
    /// The database; made if it is not there.
    pub database: String,
    /// Lines of a batch.
    pub batch_lines_max: usize,
    /// How long a line waits for its batch to be full, in milliseconds.
    pub batch_ms_max: u64,
}

impl Default for UdpConfig {
    fn default() -> Self {
        Self {
            database: "udp".to_owned(),
            batch_lines_max: 5000,
            batch_ms_max: 1000,
        }
    }
}

/// The surface of datagrams.
#[derive(Debug)]
pub struct Udp {
    /// Bound to its address.
    pub socket: UdpSocket,
    /// What becomes of the lines.
    pub config: UdpConfig,
}

impl Surface for Udp {
    fn serve(
        self: Box<Self>,
        service: Arc<Service>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), Error>> {
        async move {
            let (batches, waiting) = mpsc::channel(BATCHES_WAITING_MAX);
            let writer = tokio::spawn(write(
                Arc::clone(&service),
                self.config.database.clone(),
                waiting,
            ));
            let received = self.receive(&service, &stop, batches).await;
            // What was taken is written before the store closes.
            let written = writer.await;
            received.and(written.map_err(|_| Error::Panicked {
                what: "write of datagrams",
            }))
        }
        .boxed()
    }
}

/// Lines on their way.
#[derive(Debug, Default)]
struct Batch {
    text: Vec<u8>,
    lines: u64,
    /// When it is written at the latest.
    due: Option<Instant>,
}

impl Batch {
    /// Adds the lines of a datagram.
    fn add(&mut self, datagram: &[u8], wait: Duration) {
        let lines = lines_of(datagram);
        if lines == 0 {
            return;
        }
        self.text.extend_from_slice(datagram);
        if !datagram.ends_with(b"\n") {
            self.text.push(b'\n');
        }
        self.lines += lines;
        self.due.get_or_insert_with(|| Instant::now() + wait);
    }
}

/// Lines that have something in them.
fn lines_of(text: &[u8]) -> u64 {
    let lines = text.split(|&byte| byte == b'\n');
    lines.filter(|line| !line.trim_ascii().is_empty()).count() as u64
}

impl Udp {
    /// Takes datagrams until it is told to stop.
    async fn receive(
        &self,
        service: &Service,
        stop: &CancellationToken,
        batches: mpsc::Sender<(Bytes, u64)>,
    ) -> Result<(), Error> {
        let wait = Duration::from_millis(self.config.batch_ms_max.max(1));
        let lines_max = self.config.batch_lines_max.max(1) as u64;
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        let mut batch = Batch::default();
        loop {
            let due = batch.due;
            let is_due = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = is_due => send(&mut batch, &batches, service),
                received = self.socket.recv(&mut buffer) => match received {
                    Ok(length) => {
                        service.counters().counter(&DATAGRAMS).add(1);
                        batch.add(buffer.get(..length).unwrap_or_default(), wait);
                        if batch.lines >= lines_max || batch.text.len() >= BATCH_BYTES_MAX {
                            send(&mut batch, &batches, service);
                        }
                    }
                    // The system tells of a sender that is gone; the socket goes on.
                    Err(error) => tracing::debug!(%error, "a datagram could not be received"),
                },
            }
        }
        // There is time for the last one.
        if batch.lines > 0 {
            let last = (Bytes::from(std::mem::take(&mut batch.text)), batch.lines);
            if batches.send(last).await.is_err() {
                service
                    .counters()
                    .counter(&DATAGRAM_LINES_LOST)
                    .add(batch.lines);
            }
        }
        Ok(())
    }
}

/// Hands a batch over, or loses it if as many wait as may.
fn send(batch: &mut Batch, batches: &mpsc::Sender<(Bytes, u64)>, service: &Service) {
    let full = std::mem::take(batch);
    if full.lines > 0
        && batches
            .try_send((Bytes::from(full.text), full.lines))
            .is_err()
    {
        service
            .counters()
            .counter(&DATAGRAM_LINES_LOST)
            .add(full.lines);
        tracing::warn!(
            lines = full.lines,
            "lines of datagrams were lost, because they come faster than they are written"
        );
    }
}

/// Writes batches, one after the other.
async fn write(service: Arc<Service>, database: String, mut batches: mpsc::Receiver<(Bytes, u64)>) {
    while let Some((text, lines)) = batches.recv().await {
        let target = LineTarget {
            principal: Principal::anyone(),
            scope: Scope::of_database(&database),
            creates: true,
            precision: Precision::Nanosecond,
            key: None,
            keeps_policy: true,
        };
        let written = service.write_lines(target, move || Ok::<_, Error>(text));
        match written.await {
            Ok(report) => note_refused(&report, &service),
            Err(error) => {
                service.counters().counter(&DATAGRAM_LINES_LOST).add(lines);
                tracing::warn!(%error, lines, "lines of datagrams were lost");
            }
        }
    }
}

/// Lines that could not be kept: their sender hears nothing, so the log and the counter have to say it.
fn note_refused(report: &WriteReport, service: &Service) {
    let beyond = report.beyond.as_ref();
    let beyond = beyond.map_or(0, |beyond| beyond.retention + beyond.limits);
    let lines = report.rejected_total + beyond;
    if lines == 0 {
        return;
    }
    service.counters().counter(&DATAGRAM_LINES_LOST).add(lines);
    let first = report.rejected.first();
    let reason = first.map_or("their times are beyond the retention policy", |line| {
        line.reason.as_str()
    });
    tracing::warn!(lines, reason, "lines of datagrams were refused");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_datagram_does_not_run_into_the_next() {
        let mut batch = Batch::default();
        let wait = Duration::from_secs(1);
        for datagram in ["m v=1\nm v=2", "\n \n", "", "m v=3\n"] {
            batch.add(datagram.as_bytes(), wait);
        }
        assert_eq!(batch.text, b"m v=1\nm v=2\nm v=3\n");
        assert_eq!(batch.lines, 3);
    }
}
