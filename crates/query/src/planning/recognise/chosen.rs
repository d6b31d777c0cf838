//! `tag IN (SELECT ...)`: values of a tag that another query chooses.
//!
//! Does: take over a join that keeps the rows whose tag is among the values of one column, as text, or as integers where every
//! value of the tag is one. Does not: run the other query; the operator does, before its own.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, NullEquality, Result};
use datafusion::logical_expr::{Expr, Join, JoinType};

use super::view::{Column, View};
use crate::planning::recognised::Chosen;

/// Values of a tag that are looked through.
const VALUES_MAX: usize = 100_000;

/// The rows that a join keeps.
pub(super) fn chosen(mut view: View, join: &Join) -> Result<Option<View>> {
    let [(left, right)] = join.on.as_slice() else {
        return Ok(None);
    };
    let is_choice = join.join_type == JoinType::LeftSemi
        && join.filter.is_none()
        && join.null_equality == NullEquality::NullEqualsNothing;
    if !is_choice
        || !view.is_rows()
        || view.below.is_some()
        || view.order.is_some()
        || view.chosen.is_some()
    {
        return Ok(None);
    }
    let Expr::Column(column) = right else {
        return Ok(None);
    };
    let Some(place) = join.right.schema().maybe_index_of_column(column) else {
        return Ok(None);
    };
    let kind = join.right.schema().field(place).data_type().clone();
    let (tag, is_text) = match left {
        Expr::Cast(cast) if *cast.field.data_type() == DataType::Int64 => {
            (cast.expr.as_ref(), false)
        }
        expr => (expr, true),
    };
    let Some(Column::Tag(tag)) = view.column(tag, join.left.schema()) else {
        return Ok(None);
    };
    let Some(tag) = view.schema().tags.get(*tag) else {
        return Ok(None);
    };
    let is_like = if tag.of().is_some() {
        // A declared integer, which has one form as a text.
        is_text && kind == DataType::Int64
    } else if is_text {
        match &kind {
            DataType::Dictionary(_, values) => **values == DataType::Utf8,
            kind => *kind == DataType::Utf8,
        }
    } else {
        // Of a value that is no integer the cast is an error, and of `01` it is the integer 1.
        let values = view
            .table
            .snapshot()
            .tag_values(view.schema(), tag.id, &[], "", VALUES_MAX + 1)
            .map_err(|error| DataFusionError::External(Box::new(error)))?;
        let is_printed = |value: &String| {
            let number = value.parse::<i64>();
            number.is_ok_and(|number| number.to_string() == *value)
        };
        kind == DataType::Int64 && values.len() <= VALUES_MAX && values.iter().all(is_printed)
    };
    if !is_like {
        return Ok(None);
    }
    view.chosen = Some(Chosen {
        tag: tag.name.clone(),
        plan: Arc::clone(&join.right),
        column: place,
        is_of_now: tag.of().is_none() && !is_text,
    });
    Ok(Some(view))
}
