//! Batches of an answer that other threads write while the next ones are read.
//!
//! Does: hand pieces of an answer to the executor, and give what becomes of them in their order. Does not: send anything, or
//! let more pieces wait than there are threads.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use nilometer_http::ErrorResponse;
use nilometer_service::Executor;
use tokio::sync::oneshot;

use crate::format::Piece;

/// Cells of a batch that are worth another thread: they take some hundred microseconds to write, which is many times what waking
/// it takes.
const CELLS_MIN: usize = 16_384;

/// Bytes of a cell as it is read and as it is written, about, until it is known.
const CELL_BYTES: usize = 40;

type Written = Result<Vec<u8>, ErrorResponse>;

/// Pieces that are being written, the first one first.
pub(crate) struct Ahead {
    executor: Arc<dyn Executor>,
    threads: usize,
    /// With the memory that it takes, about.
    pieces: VecDeque<(oneshot::Receiver<Written>, usize)>,
}

impl Ahead {
    pub(crate) fn new(executor: &Arc<dyn Executor>, threads: usize) -> Self {
        Self {
            executor: Arc::clone(executor),
            threads: executor.threads(threads),
            pieces: VecDeque::new(),
        }
    }

    /// Whether there is another thread, and enough to do for it.
    pub(crate) fn is_worth(&self, batch: &RecordBatch) -> bool {
        self.threads > 1 && cells(batch) >= CELLS_MIN
    }

    /// Lets a piece be written.
    pub(crate) fn begin(&mut self, piece: Piece) {
        let bytes = CELL_BYTES * cells(piece.batch());
        let (sender, receiver) = oneshot::channel();
        self.executor.spawn(Box::pin(async move {
            let mut out = Vec::with_capacity(bytes / 2);
            let written = piece.write(&mut out).map(|()| out);
            drop(piece);
            // Whoever does not wait any more does not need it.
            let _ = sender.send(written);
        }));
        self.pieces.push_back((receiver, bytes));
    }

    /// Whether as many are being written as there are threads for.
    pub(crate) fn is_full(&self) -> bool {
        self.pieces.len() >= self.threads
    }

    /// Memory of what is being written, about.
    pub(crate) fn held_bytes(&self) -> usize {
        self.pieces.iter().map(|(_, bytes)| bytes).sum()
    }

    /// What became of the first piece; `None` = there is none.
    pub(crate) async fn next(&mut self) -> Option<Written> {
        let (first, _) = self.pieces.front_mut()?;
        let written = first.await.unwrap_or_else(|_| {
            Err(ErrorResponse::internal(
                "the server failed while it wrote the answer; its log has the details",
            ))
        });
        self.pieces.pop_front();
        Some(written)
    }
}

fn cells(batch: &RecordBatch) -> usize {
    batch.num_rows() * batch.num_columns()
}
