//! The row that a selector chooses.
//!
//! Does: say which of two rows is chosen, and keep what is wanted of it. Does not: read.

use crate::evaluate::{Scalar, order};
use crate::query::Selector;
use crate::value::Rules;

/// A row that was chosen so far.
#[derive(Debug, Clone)]
pub(crate) struct Picked {
    pub(crate) time: i64,
    pub(crate) tie: u64,
    /// What it was chosen by.
    pub(crate) by: Scalar,
    /// What is wanted of it.
    pub(crate) value: Option<Scalar>,
}

impl Picked {
    /// Whether a row that was written later, if it is of the same series, is chosen in place of this one.
    fn gives_way(&self, other: &Self, selector: Selector, rules: Rules) -> bool {
        let by_value = order(&other.by, &self.by);
        let by_time = other.time.cmp(&self.time);
        let by_series = other.tie.cmp(&self.tie);
        // Of one time.
        let among = |first: bool| match rules {
            Rules::Influx if by_value.is_ne() => by_value.is_gt(),
            _ if first => by_series.is_lt(),
            _ => by_series.is_ge(),
        };
        match selector {
            Selector::First => by_time.is_lt() || (by_time.is_eq() && among(true)),
            Selector::Last => by_time.is_gt() || (by_time.is_eq() && among(false)),
            Selector::Min => by_value.then(by_time).then(by_series).is_lt(),
            Selector::Max => by_value.reverse().then(by_time).then(by_series).is_lt(),
        }
    }
}

/// Chooses between what was chosen so far and another row.
pub(crate) fn offer(kept: &mut Option<Box<Picked>>, new: Picked, selector: Selector, rules: Rules) {
    let is_chosen = kept
        .as_ref()
        .is_none_or(|kept| kept.gives_way(&new, selector, rules));
    if is_chosen {
        *kept = Some(Box::new(new));
    }
}
