//! Range, groups and buckets of a query, with what it takes from the one around it.

use nilometer_influxql_syntax::ast::Fill;

use crate::select::checked::condition::TIME_MAX;
use crate::select::checked::window::Window;
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
        }
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
        Self {
            dimensions: self.dimensions.clone(),
            group,
            first_ns,
            last_ns,
            window: plan.window.or(self.window),
            fill: if plan.fill == Fill::Null && !plan.is_raw {
                Fill::None
            } else {
                plan.fill
            },
            series: (plan.slimit + self.series.0, plan.soffset + self.series.1),
        }
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
    }
}
