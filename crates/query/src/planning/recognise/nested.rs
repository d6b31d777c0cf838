//! Questions around questions: conditions on groups (HAVING), groups of groups, and conditions on the last rows of groups.
//!
//! Does: make the answer of what is known so far the source of what comes. Does not: nest what streams, which would have to be
//! gathered.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::DFSchema;
use nilometer_engine::{TimeKind, shown_time_type};
use nilometer_series::{Expr as SeriesExpr, Type};

use super::view::{Column, Field, Names, Tag, View};
use crate::planning::recognised::Recognised;

impl View {
    /// The same rows as the source of another question. `input` = the columns of their node.
    pub(super) fn around(self, input: &DFSchema) -> Option<Self> {
        around(self, input)
    }
}

fn around(view: View, input: &DFSchema) -> Option<View> {
    let columns = view.columns.clone();
    let is_shown = |column: &Column| match column {
        Column::Number => false,
        // Of buckets in buckets the times of those within say which they are.
        Column::Bucket(bucket) => {
            let grouped = view.grouped.as_ref();
            grouped.is_none_or(|grouped| grouped.bucket.as_ref() == Some(bucket))
        }
        _ => true,
    };
    // A limit chooses by places of rows, of which two may be the same.
    if columns.len() != input.fields().len() || view.limit.is_some() || !view.has_clock() {
        return None;
    }
    let shown: Vec<bool> = columns.iter().map(is_shown).collect();
    let fields = input.fields().iter().zip(&shown);
    let fields = fields.filter(|(_, shown)| **shown).map(|(field, _)| field);
    let schema = Schema::new(fields.cloned().collect::<Vec<_>>());
    let mut inner = view;
    let mut kept = shown.iter();
    inner.columns.retain(|_| kept.next() == Some(&true));
    let table = Arc::clone(&inner.table);
    let pushdown = inner.pushdown.clone();
    let found = inner.finish(&schema)?;
    let (names, places) = names_of(&found);
    let mut outputs = found.outputs.iter();
    let mut outer = Vec::with_capacity(columns.len());
    for (column, shown) in columns.into_iter().zip(shown) {
        outer.push(if shown {
            places.get(outputs.next()?.place)?.clone()
        } else {
            column
        });
    }
    Some(View {
        table,
        pushdown,
        names,
        tags: Vec::new(),
        holes: Vec::new(),
        rows: Vec::new(),
        grouped: None,
        order: None,
        limit: None,
        with_ties: false,
        chosen: None,
        columns: outer,
        below: Some(Box::new(found)),
    })
}

/// What a question around another one may name, and what each column of that one's answer is to it.
fn names_of(found: &Recognised) -> (Names, Vec<Column>) {
    let shape = &found.shape;
    let mut names = Names {
        time: TimeKind::TimestampTz,
        tags: Vec::new(),
        fields: Vec::new(),
    };
    let mut places = Vec::new();
    // What the plan shows of a column of the answer; one that nobody sees is one that nobody names.
    let shown = |place: usize| {
        let mut outputs = found.outputs.iter();
        let at = outputs.position(|output| output.place == place)?;
        Some(found.schema.field(at).data_type())
    };
    let tag = |name: &str, place: usize| Tag {
        name: name.to_owned(),
        is_integer: shown(place) == Some(&DataType::Int64),
    };
    if shape.shows_time() {
        if shown(0) == Some(&shown_time_type(TimeKind::Timestamp)) {
            names.time = TimeKind::Timestamp;
        }
        places.push(Column::Time);
    }
    for name in &shape.group {
        names.tags.push(tag(name, places.len()));
        places.push(Column::Tag(names.tags.len() - 1));
    }
    for column in &shape.columns {
        if let SeriesExpr::Tag(_) = column.expr {
            names.tags.push(tag(&column.name, places.len()));
            places.push(Column::Tag(names.tags.len() - 1));
            continue;
        }
        let kind = shown(places.len()).and_then(kind_of);
        places.push(Column::Field(names.fields.len()));
        names.fields.push(Field {
            name: column.name.clone(),
            // Of a declared type that shows other values nothing is made.
            kind: kind.unwrap_or(Type::Counts),
            shown: None,
        });
    }
    (names, places)
}

fn kind_of(kind: &DataType) -> Option<Type> {
    let all = [
        Type::Bool,
        Type::Int,
        Type::Unsigned,
        Type::Float,
        Type::Text,
        Type::Time,
    ];
    all.into_iter().find(|it| it.arrow() == *kind)
}
