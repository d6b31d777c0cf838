//! The transaction that has a row for which another asked.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Transactions that have rows, by number.
pub trait Transactions: Debug + Send + Sync {
    /// Whether a transaction has ended; if not, who asks is woken when it does.
    fn poll_ended(&self, transaction: u64, context: &mut Context<'_>) -> Poll<()>;
}

/// A transaction that somebody waits for.
#[derive(Debug, Clone)]
pub struct RowWait {
    pub(crate) transactions: Arc<dyn Transactions>,
    pub(crate) transaction: u64,
}

impl RowWait {
    /// For the end of one of others' transactions, which its number tells.
    pub fn new(transactions: Arc<dyn Transactions>, transaction: u64) -> Self {
        Self {
            transactions,
            transaction,
        }
    }

    /// Ends when the transaction has ended.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        Ended(self.clone())
    }
}

struct Ended(RowWait);

impl Future for Ended {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let wait = &self.0;
        wait.transactions.poll_ended(wait.transaction, context)
    }
}
