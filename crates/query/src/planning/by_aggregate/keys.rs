//! Keys and conditions of a query, in terms of those that an aggregate stores.
//!
//! Does: write expressions of raw rows as expressions of stored columns, where they mean the same for every row of a stored group.
//! Does not: look at aggregates of rows (`parts.rs` does).

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable};
use nilometer_engine::TimeKind;

use super::asked::{Asked, bucket_args};
use super::form::Form;
use crate::function::TIME_BUCKET;
use crate::planning::incremental::read_buckets;
use crate::walk::ExprWalk;

/// A group of a query in terms of stored columns.
pub(super) struct Key {
    pub(super) stored: Expr,
    /// The stored key that it is as it stands.
    pub(super) same_as: Option<usize>,
    /// It is the bucket, or a wider one.
    pub(super) is_bucket: bool,
}

/// What is needed to write expressions in terms of stored columns.
pub(super) struct Terms<'a> {
    pub(super) form: &'a Form,
    /// The columns of the rows, without qualifiers.
    pub(super) rows: &'a DFSchema,
    pub(super) time: (&'a str, TimeKind),
    pub(super) session: &'a SessionState,
    /// Texts and times mean the same wherever the session is.
    pub(super) is_utc: bool,
}

impl Terms<'_> {
    /// The groups of a query; `None` = stored groups do not tell them apart.
    pub(super) fn keys(&self, asked: &Asked<'_>) -> Result<Option<Vec<Key>>> {
        let mut keys = Vec::new();
        for group in &asked.node.group_expr {
            let Some(group) = super::asked::comparable(group) else {
                return Ok(None);
            };
            let Some(key) = self.key(&group)? else {
                return Ok(None);
            };
            keys.push(key);
        }
        Ok(Some(keys))
    }

    fn key(&self, group: &Expr) -> Result<Option<Key>> {
        let form = self.form;
        if let Some(args) = bucket_args(group, self.time.0) {
            return self.bucket(group, args);
        }
        let same_as = form.keys.iter().position(|(key, _)| key == group);
        let stored = self.stored(group)?;
        Ok(stored.map(|stored| Key {
            stored,
            same_as,
            is_bucket: false,
        }))
    }

    /// The bucket itself, or one that is made of whole buckets.
    fn bucket(&self, group: &Expr, args: &[Expr]) -> Result<Option<Key>> {
        let form = self.form;
        let Some(bucket) = self.column(form.bucket_at)? else {
            return Ok(None);
        };
        let Ok(wider) = read_buckets(args, self.time.1, self.session) else {
            return Ok(None);
        };
        let own = &form.buckets;
        if own.text() == wider.text() {
            let same_as = Some(form.bucket_at);
            return Ok(Some(Key {
                stored: bucket,
                same_as,
                is_bucket: true,
            }));
        }
        if !own.divides(&wider) {
            return Ok(None);
        }
        let Expr::ScalarFunction(ScalarFunction { func, .. }) = group else {
            return Ok(None);
        };
        let args = args.iter().enumerate();
        let args = args.map(|(at, arg)| if at == 1 { bucket.clone() } else { arg.clone() });
        Ok(Some(Key {
            stored: Expr::ScalarFunction(ScalarFunction::new_udf(func.clone(), args.collect())),
            same_as: None,
            is_bucket: true,
        }))
    }

    /// A stored key with the type that it has of rows; `None` = it is in no column.
    fn column(&self, at: usize) -> Result<Option<Expr>> {
        let Some((key, Some(column))) = self.form.keys.get(at) else {
            return Ok(None);
        };
        let kind = key.get_type(self.rows)?;
        Ok(Some(cast_to(stored_column(column), kind)))
    }

    /// An expression of rows in terms of stored keys; `None` = it needs more than these.
    pub(super) fn stored(&self, expr: &Expr) -> Result<Option<Expr>> {
        if !self.is_utc && depends_on_zone(expr)? {
            return Ok(None);
        }
        let mut is_covered = true;
        let replaced = expr.clone().replace_down(&mut |part| {
            let at = self.form.keys.iter().position(|(key, _)| *key == part);
            if let Some(at) = at
                && let Some(column) = self.column(at)?
            {
                return Ok(Transformed::new(column, true, TreeNodeRecursion::Jump));
            }
            is_covered &= !matches!(part, Expr::Column(_));
            Ok(Transformed::no(part))
        })?;
        Ok(is_covered.then_some(replaced.data))
    }

    /// The conditions of a query, without those that the aggregate has itself; `None` = they need more than what is stored.
    pub(super) fn conditions(&self, asked: &Asked<'_>) -> Result<Option<Vec<Expr>>> {
        let of_aggregate = &self.form.filters;
        if !of_aggregate.iter().all(|it| asked.conditions.contains(it)) {
            return Ok(None);
        }
        let mut all = Vec::new();
        for condition in &asked.conditions {
            if of_aggregate.contains(condition) {
                continue;
            }
            match self.stored(condition)? {
                Some(condition) => all.push(condition),
                None => return Ok(None),
            }
        }
        Ok(Some(all))
    }
}

pub(super) fn stored_column(name: &str) -> Expr {
    Expr::Column(Column::new_unqualified(name))
}

pub(super) fn cast_to(expr: Expr, kind: DataType) -> Expr {
    Expr::Cast(Cast::new(Box::new(expr), kind))
}

/// Whether an expression may read texts or times by the time zone of the session.
fn depends_on_zone(expr: &Expr) -> Result<bool> {
    expr.has(&mut |part| {
        Ok(match part {
            Expr::Cast(_) | Expr::TryCast(_) => true,
            Expr::ScalarFunction(call) => call.func.name() != TIME_BUCKET,
            _ => false,
        })
    })
}
