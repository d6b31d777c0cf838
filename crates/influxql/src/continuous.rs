//! Continuous queries: `SELECT .. INTO` that runs for each bucket once it has passed.
//!
//! Does: say which are due at a time and for which range (`timing.rs`), run one as its database's own statement, keep up to
//! when it ran, count how it ended. Does not: keep the definitions (the service does), or make and drop them
//! (`statements/continuous.rs` does).

pub(crate) mod counts;
pub(crate) mod timing;

use std::sync::Arc;

use futures::StreamExt;
use futures::future::BoxFuture;
use nilometer_influxql_syntax as syntax;
use nilometer_influxql_syntax::ast::{CreateContinuousQuery, Expr, Operator, Select, Statement};
use nilometer_service::{
    CancellationToken, Due, Error as ServiceError, Outcome, Params, Principal, Scheduled, Session,
    note_run, scheduled,
};

use crate::language::Shared;
use crate::select::checked::compile::compile;
use timing::{Range, Timing};

/// The definition that a text is; `None` = it is something else.
pub(crate) fn parsed(text: &str) -> Option<CreateContinuousQuery> {
    let mut statements = syntax::parse(text, &syntax::Params::new())
        .ok()?
        .into_iter();
    match (statements.next(), statements.next()) {
        (Some(Statement::CreateContinuousQuery(create)), None) => Some(*create),
        _ => None,
    }
}

/// Those that are due.
pub(crate) fn due(shared: &Arc<Shared>, now_ns: i64) -> Vec<Box<dyn Due>> {
    if shared.options.read_only {
        return Vec::new();
    }
    let all = scheduled(&shared.engine.snapshot()).into_iter();
    let due = all.filter_map(|own| {
        let create = parsed(&own.text)?;
        let timing = Timing::of(&create, now_ns)?;
        let turn = timing.next((own.made_ns, own.ran_to_ns), now_ns)?;
        let due: Box<dyn Due> = Box::new(DueQuery {
            shared: Arc::clone(shared),
            own,
            select: create.select,
            ran_to_ns: turn.ran_to_ns,
            range: turn.range,
            now_ns,
        });
        Some(due)
    });
    due.collect()
}

/// One that is due.
#[derive(Debug)]
struct DueQuery {
    shared: Arc<Shared>,
    own: Scheduled,
    select: Select,
    ran_to_ns: i64,
    /// `None` = no bucket has passed yet.
    range: Option<Range>,
    now_ns: i64,
}

impl Due for DueQuery {
    fn run(self: Box<Self>, cancelled: CancellationToken) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let Scheduled { database, name, .. } = &self.own;
            if let Some(range) = self.range {
                let result = self.run_range(range, &cancelled).await;
                if cancelled.is_cancelled() {
                    // The server stops. Whatever was written is written again after the next start.
                    return;
                }
                let counts = &self.shared.continuous;
                match result {
                    Ok(()) => counts.ended(true),
                    Err(error) => {
                        tracing::warn!(database, name, %error, "a continuous query failed");
                        counts.ended(false);
                    }
                }
            }
            // After the rows: a crash between the two writes the same rows again, and none are left out.
            let (engine, own, ran_to_ns) = (
                Arc::clone(&self.shared.engine),
                self.own.clone(),
                self.ran_to_ns,
            );
            let note = move || note_run(&engine, (&own.database, &own.name), ran_to_ns);
            let noted = self.shared.executor.block(note).await;
            let noted = noted.unwrap_or(Err(ServiceError::Panicked { what: "statement" }));
            if let Err(error) = noted {
                tracing::warn!(database, name, %error, "a continuous query will run again");
            }
        })
    }
}

impl DueQuery {
    async fn run_range(
        &self,
        range: Range,
        cancelled: &CancellationToken,
    ) -> Result<(), ServiceError> {
        let session = Session {
            cancelled: cancelled.child_token(),
            ..Session::new(&self.own.database, Principal::anyone())
        };
        let select = Statement::Select(Box::new(within(&self.select, range, self.now_ns)));
        let statement = self.shared.take(select, &session);
        if let Outcome::Sets(mut sets) = statement.run(&Params::new()).await? {
            while let Some(set) = sets.next().await {
                set?;
            }
        }
        Ok(())
    }
}

/// The statement for a range of time: its own conditions on time do not count.
fn within(select: &Select, range: Range, now_ns: i64) -> Select {
    let compare = |operator, time_ns| {
        Expr::Binary(
            operator,
            Box::new(Expr::name("time")),
            Box::new(Expr::Integer(time_ns)),
        )
    };
    let both = |one, other| Expr::Binary(Operator::And, Box::new(one), Box::new(other));
    let times = both(
        compare(Operator::GtEq, range.from_ns),
        compare(Operator::Lt, range.to_ns),
    );
    // One that cannot be checked says why when it runs.
    let rest = match compile(select, now_ns) {
        Ok(compiled) => compiled.condition,
        Err(_) => select.condition.clone(),
    };
    Select {
        condition: Some(match rest {
            Some(rest) => both(Expr::Paren(Box::new(rest)), times),
            None => times,
        }),
        ..select.clone()
    }
}
