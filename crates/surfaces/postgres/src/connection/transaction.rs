//! Transactions of a connection: where they begin and end, and what may be in one.
//!
//! Does: hold the transaction from one message to the next, with its savepoints; make a message of several statements one.
//! Does not: keep rows (the service's `Transaction` does).

use std::sync::Arc;

use nilometer_service::{Error, Savepoint, Service, SessionLocks, Transaction};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Connection, Stop};
use crate::sqlstate::{
    ACTIVE_TRANSACTION, IN_FAILED_TRANSACTION, NO_ACTIVE_TRANSACTION, READ_ONLY, Refused,
    UNKNOWN_SAVEPOINT,
};
use crate::statement::{Mode, Statement};
use crate::wire::replies::{self, TransactionStatus};

/// A transaction that is open. Dropping it rolls it back.
#[derive(Debug)]
pub(super) struct Block {
    transaction: Arc<Transaction>,
    savepoints: Vec<Place>,
    /// It is that of one message and ends with it.
    is_implicit: bool,
    mode: Mode,
    /// Locks that end with it.
    locks: Arc<SessionLocks>,
}

#[derive(Debug)]
struct Place {
    name: String,
    savepoint: Savepoint,
    /// Names of the cursors that were open.
    cursors: Vec<String>,
}

impl Drop for Block {
    fn drop(&mut self) {
        self.transaction.rollback();
        self.locks.end_transaction();
    }
}

impl<R, W> Connection<R, W>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    /// Refuses what a transaction does not do: anything after it has failed, and what it could not take back.
    pub(super) fn check_transaction(
        &self,
        statement: &Statement,
        text: &str,
    ) -> Result<(), Refused> {
        let ends = matches!(
            statement,
            Statement::Commit | Statement::Rollback | Statement::RollbackTo(_)
        );
        if self.transaction == TransactionStatus::Error && !ends {
            return Err(Refused::new(
                IN_FAILED_TRANSACTION,
                "current transaction is aborted, commands ignored until end of transaction block",
            ));
        }
        let Some(block) = self.block.as_ref().filter(|_| statement.changes(text)) else {
            return Ok(());
        };
        if block.mode.is_read_only == Some(true) {
            return Err(Refused::new(
                READ_ONLY,
                "cannot execute a statement that changes something in a read-only transaction",
            ));
        }
        if statement.defines() && !statement.calls() {
            return Err(Refused::unsupported(
                "definitions (CREATE, ALTER, DROP, GRANT and the like) are not part of a transaction",
            )
            .hint("Send it before BEGIN or after COMMIT, in a message of its own."));
        }
        if block.mode.is_strict == Some(true) {
            return Err(Refused::unsupported(
                "writing in a transaction that is REPEATABLE READ or SERIALIZABLE is not supported: each statement sees what is committed by then",
            )
            .hint("Begin it with ISOLATION LEVEL READ COMMITTED, the default."));
        }
        Ok(())
    }

    fn open_block(&mut self, is_implicit: bool, mode: Mode) -> Result<(), Stop> {
        let transaction = self.shared.service.begin()?;
        self.session.transaction = Some(Arc::clone(&transaction));
        self.block = Some(Block {
            transaction,
            savepoints: Vec::new(),
            is_implicit,
            mode,
            locks: Arc::clone(self.settings.locks()),
        });
        Ok(())
    }

    fn close_block(&mut self) -> Option<Block> {
        self.session.transaction = None;
        self.settings.note_level(None);
        self.block.take()
    }

    /// The statements of a message that stand outside of a transaction are one.
    pub(super) fn begin_implicit(&mut self) -> Result<(), Stop> {
        if self.transaction == TransactionStatus::Idle && self.block.is_none() {
            return self.open_block(true, Mode::default());
        }
        Ok(())
    }

    /// The message ends, well or not.
    pub(super) async fn end_implicit(&mut self, done: Result<(), Stop>) -> Result<(), Stop> {
        if !self.block.as_ref().is_some_and(|block| block.is_implicit) {
            return done;
        }
        let block = self.close_block();
        match (done, block) {
            (Ok(()), Some(block)) => commit(&self.shared.service, block).await,
            (done, _) => done,
        }
    }

    pub(super) fn begin(&mut self, mode: Mode) -> Result<(), Stop> {
        if self.transaction != TransactionStatus::Idle {
            let warning = Refused::new(
                ACTIVE_TRANSACTION,
                "there is already a transaction in progress",
            );
            replies::notice(&mut self.out, "WARNING", &warning);
            return Ok(());
        }
        let mode = mode.or(self.settings.transaction_mode());
        match &mut self.block {
            // What stood before BEGIN in its message is part of it.
            Some(block) => (block.is_implicit, block.mode) = (false, mode),
            None => self.open_block(false, mode)?,
        }
        self.settings.note_level(Some(mode));
        self.transaction = TransactionStatus::Transaction;
        Ok(())
    }

    /// SET TRANSACTION.
    pub(super) fn set_mode(&mut self, mode: Mode) {
        if let Some(block) = &mut self.block {
            block.mode = mode.or(block.mode);
            self.settings.note_level(Some(block.mode));
        } else {
            let warning = Refused::new(
                NO_ACTIVE_TRANSACTION,
                "SET TRANSACTION can only be used in transaction blocks",
            );
            replies::notice(&mut self.out, "WARNING", &warning);
        }
    }

    /// COMMIT and ROLLBACK. Returns how it ended.
    pub(super) async fn end_transaction(&mut self, commits: bool) -> Result<&'static str, Stop> {
        self.portals.clear();
        let status = std::mem::replace(&mut self.transaction, TransactionStatus::Idle);
        let block = self.close_block();
        if status == TransactionStatus::Idle {
            let warning =
                Refused::new(NO_ACTIVE_TRANSACTION, "there is no transaction in progress");
            replies::notice(&mut self.out, "WARNING", &warning);
        }
        match (block, commits) {
            (Some(block), true) if status != TransactionStatus::Error => {
                commit(&self.shared.service, block).await?;
                Ok("COMMIT")
            }
            (None, true) => Ok("COMMIT"),
            _ => Ok("ROLLBACK"),
        }
    }

    fn block_for(&mut self, what: &str) -> Result<&mut Block, Refused> {
        let open = self.block.as_mut().filter(|block| !block.is_implicit);
        open.ok_or_else(|| {
            Refused::new(
                NO_ACTIVE_TRANSACTION,
                format!("{what} can only be used in transaction blocks"),
            )
        })
    }

    pub(super) fn savepoint(&mut self, name: String) -> Result<(), Stop> {
        let cursors = self.portals.iter().filter(|(_, portal)| portal.is_cursor);
        let cursors: Vec<String> = cursors.map(|(name, _)| name.clone()).collect();
        let block = self.block_for("SAVEPOINT")?;
        let savepoint = block.transaction.savepoint().map_err(Error::from)?;
        block.savepoints.push(Place {
            name,
            savepoint,
            cursors,
        });
        Ok(())
    }

    pub(super) fn release(&mut self, name: &str) -> Result<(), Stop> {
        let block = self.block_for("RELEASE SAVEPOINT")?;
        let at = block.place(name)?;
        block.savepoints.truncate(at);
        Ok(())
    }

    pub(super) fn rollback_to(&mut self, name: &str) -> Result<(), Stop> {
        let block = self.block_for("ROLLBACK TO SAVEPOINT")?;
        let at = block.place(name)?;
        block.savepoints.truncate(at + 1);
        let mut cursors = Vec::new();
        if let Some(place) = block.savepoints.last() {
            let done = block.transaction.rollback_to(&place.savepoint);
            done.map_err(Error::from)?;
            cursors.clone_from(&place.cursors);
        }
        self.portals
            .retain(|name, portal| !portal.is_cursor || cursors.contains(name));
        self.transaction = TransactionStatus::Transaction;
        Ok(())
    }
}

/// Blocks nobody: it waits for the disk where that is allowed.
async fn commit(service: &Arc<Service>, block: Block) -> Result<(), Stop> {
    let committed = service.write(move |_| {
        let lsn = block.transaction.commit();
        lsn.map(drop).map_err(Error::from)
    });
    Ok(committed.await?)
}

impl Block {
    /// The position of the newest savepoint of a name.
    fn place(&self, name: &str) -> Result<usize, Refused> {
        let found = self.savepoints.iter().rposition(|place| place.name == name);
        found.ok_or_else(|| {
            Refused::new(
                UNKNOWN_SAVEPOINT,
                format!("savepoint \"{name}\" does not exist"),
            )
        })
    }
}
