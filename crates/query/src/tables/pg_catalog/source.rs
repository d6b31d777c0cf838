//! Source of the rows of a table of the catalogue: names, views, and the objects that are asked for.
//!
//! Does: hold them, and read from conditions which objects those are. Does not: make rows (`rows.rs`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

use super::objects::{Catalogue, Object};
use super::reading::Reading;
use super::relations::CatalogTable;

/// Columns by which rows are found without making the others.
const KEYS: [&str; 8] = [
    "hypertable_oid",
    "oid",
    "attrelid",
    "indrelid",
    "indexrelid",
    "conrelid",
    "adrelid",
    "objoid",
];

/// What makes the rows.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) table: &'static CatalogTable,
    pub(super) columns: Vec<usize>,
    pub(super) schema: SchemaRef,
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) wanted: Wanted,
    /// The columns of views by their numbers.
    pub(super) views: Arc<HashMap<i64, SchemaRef>>,
    /// What says more than the names.
    pub(super) reading: Arc<dyn Reading>,
}

impl Source {
    /// The columns of an object; `None` = it has none, or is a view that cannot be read.
    pub(super) fn columns_of(&self, object: &Object) -> Option<SchemaRef> {
        let of_view = || self.views.get(&object.oid).cloned();
        object.columns().or_else(of_view)
    }
}

/// The objects whose rows are asked for; `None` = all.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted(Option<HashSet<i64>>);

impl Wanted {
    pub(super) fn of(filters: &[Expr]) -> Self {
        let sets = filters.iter().filter_map(wanted_by);
        Self(sets.reduce(|one, other| &one & &other))
    }

    pub(super) fn has(&self, oid: i64) -> bool {
        self.0.as_ref().is_none_or(|oids| oids.contains(&oid))
    }

    /// The objects that are asked for.
    pub(super) fn objects<'a>(
        &'a self,
        catalogue: &'a Catalogue,
    ) -> Box<dyn Iterator<Item = &'a Object> + 'a> {
        match &self.0 {
            Some(oids) => Box::new(oids.iter().filter_map(|oid| catalogue.by_oid(*oid))),
            None => Box::new(catalogue.objects.iter()),
        }
    }
}

/// The numbers that a condition on a key leaves; `None` = it is another condition.
pub(super) fn wanted_by(filter: &Expr) -> Option<HashSet<i64>> {
    let is_key = |expr: &Expr| matches!(expr, Expr::Column(it) if KEYS.contains(&it.name.as_str()));
    match filter {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Eq,
            right,
        }) => {
            let value = match (is_key(left), is_key(right)) {
                (true, _) => right,
                (_, true) => left,
                _ => return None,
            };
            Some(HashSet::from([number(value)?]))
        }
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Or,
            right,
        }) => Some(&wanted_by(left)? | &wanted_by(right)?),
        Expr::InList(list) if !list.negated && is_key(&list.expr) => {
            list.list.iter().map(number).collect()
        }
        _ => None,
    }
}

fn number(value: &Expr) -> Option<i64> {
    match value {
        Expr::Literal(ScalarValue::Int64(number), _) => *number,
        Expr::Literal(ScalarValue::Int32(Some(number)), _) => Some(i64::from(*number)),
        _ => None,
    }
}
