//! Aggregates whose state is a few arrays indexed by group: the bridge to both of `DataFusion`'s interfaces.
//!
//! An aggregate implements [`Dense`] once; [`Grouped`] runs it for GROUP BY, [`Single`] for one group and for windows.

use arrow::array::{Array, ArrayRef, BooleanArray};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

/// Which group each row of a batch belongs to.
#[derive(Debug, Clone, Copy)]
pub(in crate::function) struct Rows<'a> {
    groups: Option<&'a [usize]>,
    filter: Option<&'a BooleanArray>,
}

impl<'a> Rows<'a> {
    /// The same rows in other groups.
    pub(in crate::function) fn by(self, groups: &'a [usize]) -> Self {
        Self {
            groups: Some(groups),
            filter: self.filter,
        }
    }

    /// Whether all rows are of the first group.
    pub(in crate::function) fn is_one_group(self) -> bool {
        self.groups.is_none() && self.filter.is_none()
    }

    /// The group of a row, or `None` if FILTER leaves it out.
    pub(in crate::function) fn group(&self, row: usize) -> Option<usize> {
        if let Some(filter) = self.filter
            && !(filter.is_valid(row) && filter.value(row))
        {
            return None;
        }
        match self.groups {
            Some(groups) => groups.get(row).copied(),
            None => Some(0),
        }
    }
}

/// State of an aggregate for groups 0, 1, 2 and so on.
pub(in crate::function) trait Dense: Send + Sync + 'static {
    /// Makes room for this many groups, if there is memory for them; there are never fewer than before.
    fn grow(&mut self, groups: usize) -> Result<()>;
    /// Takes in rows of the arguments.
    fn update(&mut self, values: &[ArrayRef], rows: Rows<'_>) -> Result<()>;
    /// Takes in what [`Dense::state`] or [`Dense::convert`] returned elsewhere.
    fn merge(&mut self, state: &[ArrayRef], rows: Rows<'_>) -> Result<()>;
    /// Results of the first groups.
    fn evaluate(&self, groups: usize) -> Result<ArrayRef>;
    /// State of the first groups.
    fn state(&self, groups: usize) -> Result<Vec<ArrayRef>>;
    /// Each row as the state of a group of its own.
    fn convert(&self, values: &[ArrayRef], rows: Rows<'_>) -> Result<Vec<ArrayRef>>;
    /// Forgets the first groups; the others move up.
    fn forget(&mut self, groups: usize);
    /// How many groups there are.
    fn groups(&self) -> usize;
    /// Bytes held.
    fn bytes(&self) -> usize;
}

/// A dense aggregate under GROUP BY.
pub(in crate::function) struct Grouped<D>(pub(in crate::function) D);

impl<D: Dense> Grouped<D> {
    fn emitted(&self, emit_to: EmitTo) -> usize {
        match emit_to {
            EmitTo::All => self.0.groups(),
            EmitTo::First(groups) => groups,
        }
    }
}

impl<D: Dense> GroupsAccumulator for Grouped<D> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.0.grow(total_num_groups)?;
        let rows = Rows {
            groups: Some(group_indices),
            filter: opt_filter,
        };
        self.0.update(values, rows)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let groups = self.emitted(emit_to);
        let results = self.0.evaluate(groups)?;
        self.0.forget(groups);
        Ok(results)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let groups = self.emitted(emit_to);
        let state = self.0.state(groups)?;
        self.0.forget(groups);
        Ok(state)
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.0.grow(total_num_groups)?;
        let rows = Rows {
            groups: Some(group_indices),
            filter: None,
        };
        self.0.merge(values, rows)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let rows = Rows {
            groups: None,
            filter: opt_filter,
        };
        self.0.convert(values, rows)
    }

    fn size(&self) -> usize {
        self.0.bytes()
    }
}

/// A dense aggregate of one group.
pub(in crate::function) struct Single<D>(D);

impl<D: Dense> Single<D> {
    pub(in crate::function) fn new(mut dense: D) -> Result<Self> {
        dense.grow(1)?;
        Ok(Self(dense))
    }
}

impl<D> std::fmt::Debug for Single<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Single").finish_non_exhaustive()
    }
}

const ALL: Rows<'static> = Rows {
    groups: None,
    filter: None,
};

impl<D: Dense> Accumulator for Single<D> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update(values, ALL)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.0.evaluate(1)?, 0)
    }

    fn size(&self) -> usize {
        self.0.bytes()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let state = self.0.state(1)?;
        state
            .iter()
            .map(|array| ScalarValue::try_from_array(array, 0))
            .collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge(states, ALL)
    }
}
