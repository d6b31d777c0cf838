//! Range, groups and buckets of a query, with what it takes from the one around it.

use nilometer_influxql_syntax::ast::{Call, Expr, Fill};

use crate::select::checked::condition::{TIME_MAX, TIME_MIN};
use crate::select::checked::window::Window;
use crate::select::functions::is_transform;
use crate::select::planned::plan::Plan;
use crate::select::steps::read::Wanted;

/// Range, groups and buckets of a query, with what it takes from the one around it.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    /// Tags by which rows are ordered: those of the outermost query.
    pub(crate) dimensions: Vec<String>,
    /// Tags of groups: its own and those of the queries around it, sorted.
    pub(crate) group: Vec<String>,
    /// Both included.
    pub(crate) first_ns: i64,
    pub(crate) last_ns: i64,
    pub(crate) window: Option<Window>,
    pub(crate) fill: Fill,
    /// Series of each measurement, and those before them.
    pub(crate) series: (u64, u64),
    /// Tags by which these series are told apart: the group, also where rows are read by more tags than that.
    pub(crate) counted: Vec<String>,
    /// First and last time that any query in the statement reads: a transformation inside asks for buckets before its range,
    /// and gets those that the outermost query would read.
    pub(crate) bounds: (i64, i64),
}

impl Frame {
    pub(crate) fn outermost(plan: &Plan) -> Self {
        Self {
            dimensions: plan.group.clone(),
            group: plan.group.clone(),
            first_ns: plan.first_ns,
            last_ns: plan.last_ns,
            window: plan.window,
            // Nulls would not be written.
            fill: if plan.has_target && plan.fill == Fill::Null {
                Fill::None
            } else {
                plan.fill
            },
            series: (plan.slimit, plan.soffset),
            counted: plan.group.clone(),
            bounds: bounds(plan),
        }
    }

    /// Whether the series that SLIMIT and SOFFSET count are the groups that are read.
    pub(crate) fn counts_groups(&self) -> bool {
        self.counted == self.group
    }

    /// The frame of a query inside this one.
    pub(crate) fn inner(&self, plan: &Plan, now_ns: i64) -> Self {
        let mut group = plan.group.clone();
        group.extend(self.group.iter().cloned());
        group.sort_unstable();
        group.dedup();
        let first_ns = plan.first_ns.max(self.first_ns);
        let mut last_ns = plan.last_ns.min(self.last_ns);
        if plan.window.is_some() && last_ns == TIME_MAX {
            last_ns = now_ns;
        }
        // The width comes from the query around it, and the time zone does not.
        let inherited = self.window.map(|window| Window {
            zone: plan.zone.as_deref().and_then(|zone| zone.parse().ok()),
            ..window
        });
        Self {
            dimensions: self.dimensions.clone(),
            counted: group.clone(),
            group,
            first_ns,
            last_ns,
            window: plan.window.or(inherited),
            bounds: self.bounds,
            fill: if plan.fill == Fill::Null && !plan.is_raw {
                Fill::None
            } else {
                plan.fill
            },
            series: (plan.slimit + self.series.0, plan.soffset + self.series.1),
        }
    }
}

/// The range of the outermost query, with as many buckets before it as its own transformations need.
fn bounds(plan: &Plan) -> (i64, i64) {
    let mut buckets = 0;
    for output in &plan.outputs {
        output.expr.walk(&mut |expr| {
            if let Expr::Call(call) = expr {
                buckets = buckets.max(buckets_before(call));
            }
        });
    }
    let width = plan.window.map_or(0, |window| window.width);
    let more = width.saturating_mul(buckets);
    if plan.ascending {
        (
            plan.first_ns.saturating_sub(more).max(TIME_MIN),
            plan.last_ns,
        )
    } else {
        (
            plan.first_ns,
            plan.last_ns.saturating_add(more).min(TIME_MAX),
        )
    }
}

/// Buckets before its range that a call asks for.
fn buckets_before(call: &Call) -> i64 {
    match call.arguments.get(1) {
        Some(Expr::Integer(points)) if call.name == "moving_average" => (*points).max(1),
        _ => i64::from(is_transform(&call.name)),
    }
}

/// What is wanted of a measurement.
pub(crate) fn wanted<'a>(plan: &'a Plan, frame: &'a Frame) -> Wanted<'a> {
    Wanted {
        condition: plan.condition.as_ref(),
        group: &frame.group,
        first_ns: frame.first_ns,
        last_ns: frame.last_ns,
        ascending: plan.ascending,
        limit: None,
        groups: if frame.counts_groups() {
            frame.series
        } else {
            (0, 0)
        },
    }
}
