//! The statement a thread works for: its start, its limits, its use of memory.
//!
//! Does: charge what a thread allocates to the statement that it polls; say, where work looks out, that the statement has to
//! end: by its time, by whoever ends it, or by its memory; have long work leave its thread to others. Does not: interrupt
//! anything. Work that never looks out is cut into pieces before it begins ([`crate::limits::guard`], [`crate::function`]).
//!
//! A value of the thread and not an argument: functions and aggregates are called with nothing but their rows.

use std::any::Any;
use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use datafusion::common::{DataFusionError, Result};
use futures::future::BoxFuture;
use nilometer_service::{MemoryTaken, OverMemory, QueryMemory, Running, Stop, Timings};
use tokio::time::Instant;

use crate::limits::allocated;

/// How long one poll works before it lets others have their turn.
const TURN: Duration = Duration::from_millis(10);

/// What a thread has to know of a statement that it works for.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    pub(crate) memory: Arc<QueryMemory>,
    pub(crate) stop: Stop,
    /// Where its times are added up; `None` = nobody shows them.
    pub(crate) timings: Option<Arc<Timings>>,
}

#[derive(Debug)]
struct Current {
    scope: Scope,
    /// When the poll began.
    since: Instant,
}

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

/// The thread works for a statement until this is dropped.
#[derive(Debug)]
#[must_use]
struct Entered {
    is_outermost: bool,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.is_outermost {
            let taken = allocated::take();
            let current = CURRENT.with_borrow_mut(Option::take);
            if let Some(current) = current {
                current.scope.memory.allocated(taken);
            }
        }
    }
}

impl Scope {
    /// What the threads of a statement have to know.
    pub(crate) fn of(running: &Running) -> Self {
        Self {
            memory: Arc::clone(running.memory()),
            stop: running.stop().clone(),
            timings: running.timings().cloned(),
        }
    }

    /// Does work that this statement answers for. Within itself it changes nothing.
    pub(crate) fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        let is_outermost = CURRENT.with_borrow_mut(|current| {
            let is_outermost = current.is_none();
            if is_outermost {
                *current = Some(Current {
                    scope: self.clone(),
                    since: self.stop.now(),
                });
            }
            is_outermost
        });
        if is_outermost {
            // What the thread took before is nobody's.
            allocated::take();
        }
        let _entered = Entered { is_outermost };
        work()
    }
}

/// The statement that this thread works for.
pub(crate) fn current() -> Option<Scope> {
    CURRENT.with_borrow(|current| current.as_ref().map(|current| current.scope.clone()))
}

/// Fails when the statement has to end. The error of one that is stopped says nothing: the answer that it reaches knows
/// what has ended the statement.
pub(crate) fn check() -> Result<()> {
    CURRENT.with_borrow(|current| match current {
        Some(current) => current.scope.check(),
        None => Ok(()),
    })
}

/// Rows that are worked on without a look at whether the statement has to end.
const LOOK_ROWS: usize = 65_536;

/// Looks once in [`LOOK_ROWS`] rows whether the statement has to end, in loops over more rows than a batch has.
#[derive(Debug, Default)]
pub(crate) struct Looks(usize);

impl Looks {
    /// So many more rows were worked on.
    pub(crate) fn rows(&mut self, rows: usize) -> Result<()> {
        self.0 += rows;
        if self.0 >= LOOK_ROWS {
            self.0 = 0;
            check()?;
        }
        Ok(())
    }
}

impl Scope {
    fn check(&self) -> Result<()> {
        if self.stop.is_due() {
            return Err(DataFusionError::Execution(
                "the statement has to end".to_owned(),
            ));
        }
        let over = self.memory.allocated(allocated::take());
        over.map_or(Ok(()), |over| {
            Err(DataFusionError::External(Box::new(over)))
        })
    }
}

/// Whether the poll has had its time: what can come back later should do so.
pub(crate) fn is_turn_over() -> bool {
    CURRENT.with_borrow(|current| {
        current
            .as_ref()
            .is_some_and(|current| current.scope.stop.now().duration_since(current.since) >= TURN)
    })
}

/// Does work that cannot come back later. Once a poll has had its time, another thread takes the other tasks over.
pub(crate) fn long<T>(work: impl FnOnce() -> T) -> T {
    if is_turn_over() {
        nilometer_service::long(work)
    } else {
        work()
    }
}

/// Takes so much of the statement's memory until it is dropped, before the work that needs it is begun.
pub(crate) fn reserve(bytes: usize) -> Result<Option<MemoryTaken>, OverMemory> {
    match current() {
        Some(scope) => scope.memory.take(bytes).map(Some),
        None => Ok(None),
    }
}

/// Does work of the store within a statement. What the store keeps of it for itself, such as what it has read of its files, is
/// not the statement's.
pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    let Some(scope) = current() else {
        return work();
    };
    let before = scope.memory.kept_by_store() as i64;
    let done = work();
    let after = scope.memory.kept_by_store() as i64;
    allocated::leave_out(after.wrapping_sub(before));
    done
}

/// Tasks that operators start work for the statement of the thread that starts them.
struct Tasks;

struct Task {
    scope: Scope,
    work: BoxFuture<'static, Box<dyn Any + Send>>,
}

impl Future for Task {
    type Output = Box<dyn Any + Send>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { scope, work } = &mut *self;
        scope.run(|| work.as_mut().poll(context))
    }
}

impl JoinSetTracer for Tasks {
    fn trace_future(
        &self,
        work: BoxFuture<'static, Box<dyn Any + Send>>,
    ) -> BoxFuture<'static, Box<dyn Any + Send>> {
        match current() {
            Some(scope) => Box::pin(Task { scope, work }),
            None => work,
        }
    }

    fn trace_block(
        &self,
        work: Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>,
    ) -> Box<dyn FnOnce() -> Box<dyn Any + Send> + Send> {
        match current() {
            Some(scope) => Box::new(move || scope.run(work)),
            None => work,
        }
    }
}

/// Has tasks of operators counted, from the first call on. Where the program has put something else there, they are not.
pub(crate) fn follow_tasks() {
    let _ = set_join_set_tracer(&Tasks);
}

#[cfg(test)]
pub(crate) mod tests {
    use nilometer_engine::MemoryBudget;
    use nilometer_service::{CancellationToken, QueryOptions, Statements, Threads};

    use super::*;

    /// Of a statement that has to end.
    pub(crate) fn ended_scope() -> Scope {
        let budget = MemoryBudget::new(80 << 20);
        let options = QueryOptions::default();
        let statements = Arc::new(Statements::new(&options, &budget, Threads::of_caller()));
        let caller = CancellationToken::new();
        caller.cancel();
        Scope::of(&statements.start("d", "SELECT 1", &caller))
    }

    #[test]
    fn a_long_loop_looks_once_in_so_many_rows() {
        ended_scope().run(|| {
            let mut looks = Looks::default();
            for _ in 1..LOOK_ROWS {
                looks.rows(1).unwrap();
            }
            looks.rows(1).unwrap_err();
            looks.rows(LOOK_ROWS).unwrap_err();
        });
    }
}
