//! Gap filling: `GROUP BY time_bucket_gapfill(...)` with `locf` and `interpolate`, as in `TimescaleDB`.
//!
//! Does: a rule turns such a GROUP BY into one by `time_bucket` with a [`GapFill`] above it, which the planner makes
//! an operator of. It reads each group's rows by time and adds the buckets that are missing. Does not: filter rows; a
//! bucket outside the range stays where it is.
//!
//! Where next: `rule.rs` takes the statement apart, `bounds.rs` finds the range in WHERE, `exec.rs` runs, `fill.rs`
//! decides what stands in a bucket that was missing.

mod bounds;
mod exec;
mod fill;
mod rule;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::{DFSchema, DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};

pub(crate) use exec::GapFillExec;
pub(crate) use rule::FillGaps;

/// Where a value before the first or after the last row of a group comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Lookup {
    /// An expression of the node: the same for all groups.
    Once(usize),
    /// A column of the input: each group's own.
    Column(usize),
}

/// What a column holds in a bucket that was missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Fill {
    /// The start of the bucket.
    Bucket,
    /// What it holds in all rows of the group.
    Group,
    /// NULL.
    Nothing,
    /// What it held in the row before.
    Locf {
        prev: Option<Lookup>,
        /// Whether a row whose value is NULL is filled as well, and passed over.
        nulls_are_missing: bool,
    },
    /// What lies on the line between the rows before and after.
    Interpolate {
        prev: Option<Lookup>,
        next: Option<Lookup>,
    },
}

/// One end of the range: an expression of the node, and whether the range begins just after it (a start) or ends just
/// after it (a finish).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Bound {
    pub(crate) expr: usize,
    pub(crate) is_after: bool,
}

/// Which column and which expression is what.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Layout {
    /// The column of the buckets.
    pub(crate) bucket: usize,
    /// One for each column of the input.
    pub(crate) columns: Vec<Fill>,
    pub(crate) width: usize,
    pub(crate) zone: Option<usize>,
    /// The latest of them is the start.
    pub(crate) starts: Vec<Bound>,
    /// The earliest of them is the finish.
    pub(crate) finishes: Vec<Bound>,
    pub(crate) buckets_max: usize,
}

impl Layout {
    /// Columns that tell groups apart.
    pub(crate) fn groups(&self) -> impl Iterator<Item = usize> {
        let columns = self.columns.iter().enumerate();
        columns.filter_map(|(column, fill)| (*fill == Fill::Group).then_some(column))
    }
}

/// The node of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GapFill {
    input: Arc<LogicalPlan>,
    schema: DFSchemaRef,
    exprs: Vec<Expr>,
    layout: Layout,
}

impl GapFill {
    pub(crate) fn new(input: Arc<LogicalPlan>, exprs: Vec<Expr>, layout: Layout) -> Result<Self> {
        if input.schema().fields().len() != layout.columns.len() {
            return internal_err!("gap filling has lost a column");
        }
        let fields = input.schema().iter().zip(&layout.columns);
        let fields = fields
            .map(|((qualifier, field), fill)| {
                let is_whole = matches!(fill, Fill::Bucket | Fill::Group);
                let nullable = field.is_nullable() || !is_whole;
                let field = field.as_ref().clone().with_nullable(nullable);
                (qualifier.cloned(), Arc::new(field))
            })
            .collect();
        let metadata = input.schema().metadata().clone();
        let schema = Arc::new(DFSchema::new_with_metadata(fields, metadata)?);
        Ok(Self {
            input,
            schema,
            exprs,
            layout,
        })
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn exprs(&self) -> &[Expr] {
        &self.exprs
    }
}

impl Hash for GapFill {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.input.hash(state);
        self.exprs.hash(state);
        self.layout.hash(state);
    }
}

impl PartialOrd for GapFill {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        // An order is only asked for to have one; nodes that differ in more than their input have none.
        match self.input.partial_cmp(&other.input) {
            Some(Ordering::Equal) => (self == other).then_some(Ordering::Equal),
            order => order,
        }
    }
}

impl UserDefinedLogicalNodeCore for GapFill {
    fn name(&self) -> &'static str {
        "GapFill"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.exprs.clone()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "GapFill: ")?;
        self.layout.describe(&self.exprs, f)
    }

    fn with_exprs_and_inputs(
        &self,
        exprs: Vec<Expr>,
        mut inputs: Vec<LogicalPlan>,
    ) -> Result<Self> {
        let Some(input) = inputs.pop() else {
            return internal_err!("gap filling has no input");
        };
        Self::new(Arc::new(input), exprs, self.layout.clone())
    }
}

impl Layout {
    fn describe(&self, exprs: &[Expr], f: &mut fmt::Formatter) -> fmt::Result {
        let shown = |place: usize| {
            exprs
                .get(place)
                .map(ToString::to_string)
                .unwrap_or_default()
        };
        write!(f, "width={}", shown(self.width))?;
        if let Some(zone) = self.zone {
            write!(f, ", timezone={}", shown(zone))?;
        }
        for start in &self.starts {
            let sign = if start.is_after { ">" } else { ">=" };
            write!(f, ", {sign} {}", shown(start.expr))?;
        }
        for finish in &self.finishes {
            let sign = if finish.is_after { "<=" } else { "<" };
            write!(f, ", {sign} {}", shown(finish.expr))?;
        }
        Ok(())
    }
}
