//! Rows on their way through a query.
//!
//! Does: hold columns with the time, the group and the tie of each row. Does not: read.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, BooleanArray, DictionaryArray, Int32Array, StringArray};
use arrow_select::filter::FilterBuilder;
use rustc_hash::FxHashMap;

use crate::evaluate::{Name, array_of};
use crate::value::Type;

/// Some rows.
#[derive(Debug, Clone)]
pub(crate) struct Chunk {
    /// By slot.
    pub(crate) columns: Vec<ArrayRef>,
    pub(crate) times: Vec<i64>,
    pub(crate) groups: Vec<u32>,
    /// What tells rows of one time and several series apart: the place of the series among all by their tags.
    pub(crate) ties: Vec<u64>,
}

impl Chunk {
    pub(crate) fn rows(&self) -> usize {
        self.times.len()
    }

    /// The rows for which something holds.
    pub(crate) fn filtered(self, holds: &BooleanArray) -> Self {
        if holds.true_count() == self.rows() {
            return self;
        }
        let filter = FilterBuilder::new(holds).optimize().build();
        let columns = self.columns.iter().map(|column| filter.filter(column));
        let columns = columns
            .collect::<Result<Vec<_>, _>>()
            .expect("the filter and the columns have the same rows");
        let keep = |at: &usize| holds.value(*at);
        let rows: Vec<usize> = (0..self.rows()).filter(keep).collect();
        let pick = |values: &[u64]| -> Vec<u64> {
            rows.iter()
                .filter_map(|&at| values.get(at).copied())
                .collect()
        };
        Self {
            columns,
            ties: pick(&self.ties),
            times: rows
                .iter()
                .filter_map(|&at| self.times.get(at).copied())
                .collect(),
            groups: rows
                .iter()
                .filter_map(|&at| self.groups.get(at).copied())
                .collect(),
        }
    }
}

/// Values of a tag as it leaves a query: a dictionary of those that are there.
pub(crate) fn tag_column<'a>(values: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    let mut codes: FxHashMap<&str, i32> = FxHashMap::default();
    let mut known: Vec<&str> = Vec::new();
    let keys = values.map(|value| {
        let value = value?;
        let next = i32::try_from(known.len()).ok()?;
        Some(*codes.entry(value).or_insert_with(|| {
            known.push(value);
            next
        }))
    });
    let keys: Int32Array = keys.collect();
    let values = Arc::new(StringArray::from_iter_values(known));
    let array = DictionaryArray::<Int32Type>::try_new(keys, values);
    Arc::new(array.expect("every key is the place of a value"))
}

/// The same of values that are there, by the place of each row's; `None` = absent.
pub(crate) fn coded_column(
    values: &Arc<StringArray>,
    codes: impl ExactSizeIterator<Item = Option<i32>>,
) -> ArrayRef {
    if values.len() > codes.len() {
        let value = |code: i32| Some(values.value(usize::try_from(code).ok()?));
        return tag_column(codes.map(|code| code.and_then(value)));
    }
    let keys: Int32Array = codes.collect();
    let values = Arc::clone(values) as ArrayRef;
    let array = DictionaryArray::<Int32Type>::try_new(keys, values);
    Arc::new(array.expect("every code is the place of a value"))
}

/// A column of an input that does not have it.
pub(crate) fn absent_column(name: &Name, kind: Option<Type>, rows: usize) -> ArrayRef {
    match name {
        Name::Tag(_) => tag_column(std::iter::repeat_n(None, rows)),
        Name::Time | Name::Field(_) => array_of(kind.unwrap_or(Type::Bool), vec![None; rows]),
    }
}
