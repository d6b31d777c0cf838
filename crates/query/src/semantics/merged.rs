//! Merged columns: what `USING (k)` and `NATURAL` make of the two columns of a name.
//!
//! The planner of `DataFusion` (55.2) keeps both columns and takes the first where it is asked for `k`, which is NULL for
//! rows that only the right side has; in WHERE it calls `k` ambiguous, and in a subquery it takes that of the outer query.
//! Here such joins are planned as the standard has it: the merged column comes first and is the only one called `k`; the
//! columns that it was made of get other names, and `a.k` is spelled with the other name wherever it stands.
//!
//! Does: mark the joins in the tree (`runs`), plan them (`columns`), and spell names anew with what was learnt from that
//! (`spelling`), until nothing changes. Does not: touch joins with ON, ASOF and LATERAL, or semi and anti joins.

mod columns;
mod runs;
mod spelling;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::common::{Result, TableReference, plan_err};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast;

use columns::MergedColumns;
use spelling::spell;

/// Rounds of planning and spelling. Each settles what is inside the last one's, so that statements that are as deep as they
/// may be take no more.
const ROUNDS_MAX: usize = 60;

/// The plan of a query.
pub(crate) async fn plan(session: &SessionState, statement: &DfStatement) -> Result<LogicalPlan> {
    let mut marked = statement.clone();
    let has_runs = match inner(&mut marked) {
        Some(query) => runs::mark(query)?,
        None => false,
    };
    if !has_runs {
        return session.statement_to_plan(marked).await;
    }
    let learnt = Arc::new(Learnt::default());
    let mut session = session.clone();
    session.register_relation_planner(Arc::new(MergedColumns::new(Arc::clone(&learnt))))?;
    let mut spelled = marked.clone();
    for _ in 0..ROUNDS_MAX {
        let plan = session.statement_to_plan(spelled.clone()).await;
        let mut again = marked.clone();
        if let Some(query) = inner(&mut again) {
            spell(query, &learnt.runs());
        }
        if again == spelled {
            return plan;
        }
        spelled = again;
    }
    plan_err!(
        "joins with USING or NATURAL stand too deep inside each other; name the columns in their ON"
    )
}

/// The statement that is explained, or the whole.
fn inner(statement: &mut DfStatement) -> Option<&mut ast::Statement> {
    match statement {
        DfStatement::Explain(explain) => inner(&mut explain.statement),
        DfStatement::Statement(statement) => Some(statement),
        _ => None,
    }
}

/// What planning has shown of each run of joins.
#[derive(Debug, Default)]
struct Learnt(Mutex<Runs>);

/// By the number of the run, the columns that it puts out, without the merged ones.
type Runs = HashMap<usize, Vec<Output>>;

impl Learnt {
    fn runs(&self) -> MutexGuard<'_, Runs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A column of one of the joined tables.
#[derive(Debug, Clone)]
struct Output {
    table: TableReference,
    /// Its name in the table.
    name: String,
    /// What it is called now, if it became part of a merged one.
    hidden: Option<String>,
}

/// The table of the merged columns of a run.
fn tag(run: usize) -> String {
    format!("{MARK} {run}")
}

const MARK: &str = "USING";

/// Another name for a column of which there is a merged one.
fn hidden(name: &str, run: usize, place: usize) -> String {
    format!("{name} ({MARK} {run}.{place})")
}

/// The name that a column has for who wrote the statement.
pub(crate) fn shown(name: &str) -> &str {
    let shown = name.strip_suffix(')').and_then(|name| {
        let (shown, place) = name.rsplit_once(" (")?;
        place.strip_prefix(MARK)?;
        Some(shown)
    });
    shown.unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_shown_as_it_was_before_it_was_hidden() {
        for name in ["k", "a b", "a (b)", ""] {
            assert_eq!(shown(&hidden(name, 1, 2)), name);
            assert_eq!(
                shown(&hidden(&hidden(name, 1, 2), 3, 4)),
                hidden(name, 1, 2)
            );
            assert_eq!(shown(name), name);
        }
    }
}
