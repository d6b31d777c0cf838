//! SELECT, and what stands behind FROM.

use super::Expr;
use crate::Pattern;

/// `SELECT fields [INTO target] FROM sources [WHERE ..] [GROUP BY ..] [fill(..)] [ORDER BY ..] [LIMIT ..] ..`
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Select {
    /// At least one.
    pub fields: Vec<Field>,
    /// `INTO`. An empty name is `:MEASUREMENT`.
    pub target: Option<Measurement>,
    /// At least one.
    pub sources: Vec<Source>,
    /// `WHERE`
    pub condition: Option<Expr>,
    /// `GROUP BY`
    pub dimensions: Vec<Expr>,
    /// `fill(..)`
    pub fill: Fill,
    /// `ORDER BY`: one at most.
    pub order: Vec<SortField>,
    /// `LIMIT`; 0 is none.
    pub limit: u64,
    /// `OFFSET`
    pub offset: u64,
    /// `SLIMIT`; 0 is none.
    pub slimit: u64,
    /// `SOFFSET`
    pub soffset: u64,
    /// `tz('zone')`
    pub zone: Option<String>,
}

impl Select {
    /// Whether no function is called.
    pub fn is_raw(&self) -> bool {
        let mut raw = true;
        for field in &self.fields {
            field
                .expr
                .walk(&mut |expr| raw &= !matches!(expr, Expr::Call(_)));
        }
        raw
    }

    /// Whether rows come newest first.
    pub fn is_descending(&self) -> bool {
        self.order.first().is_some_and(|field| !field.ascending)
    }

    /// Width of `GROUP BY time(width)`.
    pub fn interval(&self) -> Result<Option<i64>, &'static str> {
        for dimension in &self.dimensions {
            let Expr::Call(call) = dimension else {
                continue;
            };
            if call.name != "time" {
                continue;
            }
            if !(1..=2).contains(&call.arguments.len()) {
                return Err("time dimension expected 1 or 2 arguments");
            }
            return match call.arguments.first() {
                Some(Expr::Duration(width)) => Ok(Some(*width)),
                _ => Err("time dimension must have duration argument"),
            };
        }
        Ok(None)
    }
}

/// An expression and its name: `mean(x) AS y`.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// What.
    pub expr: Expr,
    /// `AS`
    pub alias: Option<String>,
}

/// Where rows come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// A measurement, or several by a regular expression.
    Measurement(Measurement),
    /// `(SELECT ..)`
    Subquery(Box<Select>),
}

/// `database.policy.name` or `database.policy./pattern/`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Measurement {
    /// Empty is the statement's.
    pub database: String,
    /// Empty is the default of the database.
    pub policy: String,
    /// Empty if there is a pattern.
    pub name: String,
    /// Which measurements.
    pub pattern: Option<Pattern>,
}

/// What buckets without rows have.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Fill {
    /// `fill(null)`, and without a fill.
    #[default]
    Null,
    /// `fill(none)`: no row.
    None,
    /// `fill(previous)`
    Previous,
    /// `fill(linear)`
    Linear,
    /// `fill(5)`
    Integer(i64),
    /// `fill(0.5)`
    Float(f64),
}

/// `ORDER BY time DESC`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortField {
    /// `time`, or nothing.
    pub name: Option<String>,
    /// Whether `DESC` is absent.
    pub ascending: bool,
}

/// `[FROM sources] [WHERE condition]`: one of them at least.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Delete {
    /// Empty is everything.
    pub sources: Vec<Source>,
    /// `WHERE`
    pub condition: Option<Expr>,
}
