//! `ASOF JOIN`: for each row of the left side the one row of the right side that is nearest in time, among those with
//! equal keys.
//!
//! Does: a rule turns a join whose condition calls [`MARKER`] (`rewrite::join` puts it there) into an [`AsofJoin`],
//! and the operator merges both sides in the order of keys and time, a batch of each in memory. Does not: match NULL
//! with anything, or join RIGHT or FULL.
//!
//! Where next: `rule.rs` reads the condition, `exec.rs` merges.

mod exec;
mod merge;
mod rule;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::builder::build_join_schema;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, UserDefinedLogicalNodeCore};

pub(crate) use exec::AsofJoinExec;
pub(crate) use rule::{FindAsofJoins, marker};

/// The function that marks a condition as that of an `ASOF` join. Nobody calls it by name.
pub(crate) const MARKER: &str = "__asof_match";

/// Which row of the right side matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Matching {
    /// The earliest row at or after the time instead of the latest at or before it.
    pub(crate) is_forward: bool,
    /// Not one of the same time.
    pub(crate) is_strict: bool,
    /// Rows of the left side that match nothing stay, with NULLs.
    pub(crate) keeps_left: bool,
}

impl Matching {
    fn operator(self) -> &'static str {
        match (self.is_forward, self.is_strict) {
            (false, false) => ">=",
            (false, true) => ">",
            (true, false) => "<=",
            (true, true) => "<",
        }
    }
}

/// The node of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AsofJoin {
    left: Arc<LogicalPlan>,
    right: Arc<LogicalPlan>,
    /// Expressions that are equal, of the left and of the right side; the times come last.
    on: Vec<(Expr, Expr)>,
    matching: Matching,
    schema: DFSchemaRef,
}

impl AsofJoin {
    pub(crate) fn new(
        left: Arc<LogicalPlan>,
        right: Arc<LogicalPlan>,
        on: Vec<(Expr, Expr)>,
        matching: Matching,
    ) -> Result<Self> {
        let join_type = if matching.keeps_left {
            JoinType::Left
        } else {
            JoinType::Inner
        };
        let schema = build_join_schema(left.schema(), right.schema(), &join_type)?;
        Ok(Self {
            left,
            right,
            on,
            matching,
            schema: Arc::new(schema),
        })
    }

    pub(crate) fn left_exprs(&self) -> Vec<&Expr> {
        self.on.iter().map(|(left, _)| left).collect()
    }

    pub(crate) fn right_exprs(&self) -> Vec<&Expr> {
        self.on.iter().map(|(_, right)| right).collect()
    }

    pub(crate) fn matching(&self) -> Matching {
        self.matching
    }
}

impl Hash for AsofJoin {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.left.hash(state);
        self.right.hash(state);
        self.on.hash(state);
        self.matching.hash(state);
    }
}

impl PartialOrd for AsofJoin {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        // An order is only asked for to have one; joins that differ in more than their left side have none.
        match self.left.partial_cmp(&other.left) {
            Some(Ordering::Equal) => (self == other).then_some(Ordering::Equal),
            order => order,
        }
    }
}

impl UserDefinedLogicalNodeCore for AsofJoin {
    fn name(&self) -> &'static str {
        "AsofJoin"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.left, &self.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        let pairs = self.on.iter();
        pairs
            .flat_map(|(left, right)| [left.clone(), right.clone()])
            .collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(if self.matching.keeps_left {
            "AsofJoin: Left"
        } else {
            "AsofJoin: Inner"
        })?;
        let last = self.on.len().saturating_sub(1);
        for (place, (left, right)) in self.on.iter().enumerate() {
            let operator = if place == last {
                self.matching.operator()
            } else {
                "="
            };
            write!(f, ", {left} {operator} {right}")?;
        }
        Ok(())
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let Ok([left, right]) = <[LogicalPlan; 2]>::try_from(inputs) else {
            return internal_err!("an ASOF join has two sides");
        };
        let mut on = Vec::with_capacity(self.on.len());
        let mut exprs = exprs.into_iter();
        while let (Some(left), Some(right)) = (exprs.next(), exprs.next()) {
            on.push((left, right));
        }
        Self::new(Arc::new(left), Arc::new(right), on, self.matching)
    }

    /// Columns of the answer come from their side; those of the condition are added by the caller.
    fn necessary_children_exprs(&self, output: &[usize]) -> Option<Vec<Vec<usize>>> {
        let width = self.left.schema().fields().len();
        let (left, right): (Vec<usize>, Vec<usize>) =
            output.iter().partition(|column| **column < width);
        Some(vec![
            left,
            right.into_iter().map(|column| column - width).collect(),
        ])
    }
}
