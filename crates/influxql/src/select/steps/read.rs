//! Rows of a measurement, read as a series query.
//!
//! Does: build the query of names, range, groups and condition; turn its batches into rows. Does not: aggregate (`stored`).

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use nilometer_influxql_syntax::ast::{Expr, Reference};
use nilometer_series::{
    self as series, Column, Function, Limit, Order, OrderBy, Rules, SeriesQuery, Shape, TagExpr,
    TimeRange, Unary,
};

use crate::select::checked::condition::{TIME_MAX, TIME_MIN};
use crate::select::error::Error;
use crate::select::planned::names::field_kind;
use crate::select::planned::plan::Table;
use crate::select::planned::pushed::{is_tag, pushed};
use crate::select::planned::types::kind_of_cast;
use crate::select::run::Run;
use crate::select::values::eval::{Named, Node};
use crate::select::values::rows::{Rows, SetKey};
use crate::select::values::value::{Kind, Value};

/// Which rows of a measurement are wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) condition: Option<&'a Expr>,
    /// Tags, sorted.
    pub(crate) group: &'a [String],
    /// Both included.
    pub(crate) first_ns: i64,
    pub(crate) last_ns: i64,
    pub(crate) ascending: bool,
    /// The first rows of each group; all if `None`.
    pub(crate) limit: Option<u64>,
    /// How many groups and those before them; all if both are 0.
    pub(crate) groups: (u64, u64),
}

/// The name of a column of a query, which no tag has.
pub(crate) fn column_name(place: usize) -> String {
    format!("\u{1}{place}")
}

impl Wanted<'_> {
    /// The time of what has none of its own.
    pub(crate) fn start(&self) -> i64 {
        if self.first_ns == TIME_MIN {
            0
        } else {
            self.first_ns
        }
    }

    /// The shape of the question without columns, and what of the condition is left.
    pub(crate) fn shape(&self, table: &Table) -> (Shape, Vec<Expr>) {
        let mut shape = Shape::of(Rules::Influx, series::Source::Tables(table.tables.clone()));
        let time = |ns: i64| Some(series::Value::Time(ns).into());
        shape.time = TimeRange {
            from: if self.first_ns > TIME_MIN {
                time(self.first_ns)
            } else {
                None
            },
            to: if self.last_ns < TIME_MAX {
                time(self.last_ns + 1)
            } else {
                None
            },
        };
        let mut parts = pushed(self.condition, table);
        shape.tags = match parts.tags.len() {
            0 => TagExpr::All,
            1 => parts.tags.pop().unwrap_or(TagExpr::All),
            _ => TagExpr::And(parts.tags),
        };
        shape.rows = series::Expr::joined(series::Binary::And, parts.rows);
        shape.group = self.group.to_vec();
        shape.order = Order {
            by: OrderBy::Group,
            descending: !self.ascending,
        };
        let (groups, skip) = self.groups;
        if groups > 0 || skip > 0 {
            // What comes after SOFFSET without SLIMIT is nothing, as in InfluxDB.
            shape.limit_groups = Some(Limit {
                rows: series::Value::Unsigned(groups).into(),
                skip: series::Value::Unsigned(skip).into(),
            });
        }
        (shape, parts.rest)
    }
}

/// The expression that reads a name as its type; `None` = the measurement has nothing like it.
pub(crate) fn stored(reference: &Reference, table: &Table) -> Option<series::Expr> {
    if is_tag(reference, table) {
        return table
            .has_tag(&reference.name)
            .then(|| series::Expr::tag(&reference.name));
    }
    let kinds = table
        .schemas
        .iter()
        .filter_map(|schema| field_kind(schema, &reference.name));
    let own = kinds.min()?;
    let field = series::Expr::field(&reference.name);
    match (kind_of_cast(reference.cast), own) {
        (None, _) => Some(field),
        (Some(wanted), own) if wanted == own => Some(field),
        (Some(Kind::Float), Kind::Integer | Kind::Unsigned) => {
            Some(series::Expr::Call(Function::Float, vec![field]))
        }
        (Some(Kind::Integer), Kind::Float | Kind::Unsigned) => {
            Some(series::Expr::Call(Function::Integer, vec![field]))
        }
        _ => None,
    }
}

impl Run<'_> {
    /// Rows that have a value in one of the fields among `references`, by group and time.
    pub(crate) fn read(
        &self,
        table: &Table,
        references: &[Reference],
        wanted: Wanted<'_>,
    ) -> Result<Rows, Error> {
        let (mut shape, rest) = wanted.shape(table);
        let mut names: Vec<Reference> = references.to_vec();
        for condition in &rest {
            condition.walk(&mut |expr| {
                if let Expr::Reference(reference) = expr
                    && !names.contains(reference)
                {
                    names.push(reference.clone());
                }
            });
        }
        let mut places = vec![None; names.len()];
        for (name, place) in names.iter().zip(&mut places) {
            if let Some(expr) = stored(name, table) {
                *place = Some(shape.columns.len());
                shape.columns.push(Column {
                    name: column_name(shape.columns.len()),
                    expr,
                });
            }
        }
        let fields = references
            .iter()
            .zip(&places)
            .filter(|(name, _)| !is_tag(name, table));
        let fields: Vec<usize> = fields.filter_map(|(_, place)| *place).collect();
        if fields.is_empty() {
            return Ok(Rows::of(references.len()));
        }
        let unfiltered = shape.rows.is_none();
        if rest.is_empty()
            && let Some(rows) = wanted.limit
        {
            shape.limit_per_group = Some(Limit {
                rows: series::Value::Unsigned(rows).into(),
                skip: series::Value::Unsigned(0).into(),
            });
            // Rows without any of the fields are rare: look without asking for them, and again if there are some.
            if unfiltered {
                let rows = self.answer(
                    table,
                    shape.clone(),
                    (references.len(), &places),
                    wanted.group,
                )?;
                let empty = |row: usize| {
                    fields
                        .iter()
                        .all(|at| rows.value(place_of(&places, *at), row).is_null())
                };
                if !(0..rows.len()).any(empty) {
                    return Ok(rows);
                }
            }
        }
        let present = |at: &usize| {
            let of = shape.columns.get(*at).map(|column| column.expr.clone());
            of.map(|of| series::Expr::Unary(Unary::IsNotNull, Box::new(of)))
        };
        let any = fields.iter().filter_map(present);
        let any = series::Expr::joined(series::Binary::Or, any);
        shape.rows = match (shape.rows.take(), any) {
            (Some(rows), Some(any)) => Some(series::Expr::binary(series::Binary::And, rows, any)),
            (rows, any) => rows.or(any),
        };
        let mut rows = self.answer(table, shape, (names.len(), &places), wanted.group)?;
        if !rest.is_empty() {
            filter(&mut rows, &names, &rest, true)?;
        }
        rows.columns.truncate(references.len());
        Ok(rows)
    }

    /// The rows of a question's answer; `places` says which column each name has.
    pub(super) fn answer(
        &self,
        table: &Table,
        shape: Shape,
        (columns, places): (usize, &[Option<usize>]),
        group: &[String],
    ) -> Result<Rows, Error> {
        let query = SeriesQuery::new(shape, self.context.limits)?;
        let mut rows = Rows::of(columns);
        for batch in query.run(self.snapshot, self.context)? {
            let batch = batch?;
            let before = rows.bytes();
            add_groups(&mut rows, table, group, &batch);
            let times = batch.column(0).as_primitive::<TimestampNanosecondType>();
            rows.times.extend_from_slice(times.values());
            for (column, place) in rows.columns.iter_mut().zip(places) {
                match place.and_then(|place| batch.columns().get(1 + group.len() + place)) {
                    Some(array) => add_values(array, column),
                    None => column.extend(std::iter::repeat_n(Value::Null, batch.num_rows())),
                }
            }
            self.charge(rows.bytes() - before)?;
        }
        Ok(rows)
    }
}

fn place_of(places: &[Option<usize>], column: usize) -> usize {
    places
        .iter()
        .position(|place| *place == Some(column))
        .unwrap_or(usize::MAX)
}

/// Keeps the rows for which all conditions hold; of names that stand twice the last is meant. Of what is absent in a column of
/// the answer of a query inside nothing holds, also if the column is a tag; in a measurement an absent tag is an empty text.
pub(crate) fn filter(
    rows: &mut Rows,
    names: &[Reference],
    conditions: &[Expr],
    is_table: bool,
) -> Result<(), Error> {
    let place = |named: Named<'_>| match named {
        Named::Reference(reference) => names.iter().rposition(|name| name == reference),
        Named::Call(_) => None,
    };
    let nodes = conditions
        .iter()
        .map(|condition| Node::of(condition, &place));
    let nodes: Vec<Node> = nodes.collect::<Result<_, _>>()?;
    let kinds: Vec<Option<Kind>> = names.iter().map(|name| kind_of_cast(name.cast)).collect();
    let mut kept = Vec::with_capacity(rows.len());
    for row in 0..rows.len() {
        let value = |column: usize| match rows.value(column, row) {
            Value::Null => match kinds.get(column) {
                // An absent tag is an empty text, and so is what a measurement does not have.
                Some(None | Some(Kind::Tag)) if is_table => Value::Text("".into()),
                // Equal to no boolean, and not unequal either.
                Some(Some(Kind::Boolean)) if is_table => Value::Float(f64::NAN),
                _ => Value::Null,
            },
            value => value.clone(),
        };
        if nodes.iter().all(|node| node.holds(&value)) {
            kept.push(row);
        }
    }
    if kept.len() < rows.len() {
        rows.keep(&kept);
    }
    Ok(())
}

/// Numbers the groups of a batch's rows.
pub(crate) fn add_groups(rows: &mut Rows, table: &Table, group: &[String], batch: &RecordBatch) {
    let keys: Vec<Arc<str>> = group.iter().map(|key| key.as_str().into()).collect();
    let columns: Vec<(&[i32], Option<&arrow_array::DictionaryArray<Int32Type>>)> = (1..=group
        .len())
        .map(|at| {
            let dictionary = batch.column(at).as_dictionary_opt::<Int32Type>();
            (
                dictionary.map_or(&[][..], |dictionary| dictionary.keys().values()),
                dictionary,
            )
        })
        .collect();
    let mut last: Option<(Vec<Option<i32>>, u32)> = None;
    let key_of =
        |(keys, dictionary): &(&[i32], Option<&arrow_array::DictionaryArray<Int32Type>>),
         row: usize| {
            let dictionary = dictionary.as_ref()?;
            if dictionary.is_null(row) {
                None
            } else {
                keys.get(row).copied()
            }
        };
    for row in 0..batch.num_rows() {
        let is_same = last.as_ref().is_some_and(|(places, _)| {
            columns
                .iter()
                .zip(places)
                .all(|(column, place)| key_of(column, row) == *place)
        });
        if !is_same {
            let places: Vec<Option<i32>> =
                columns.iter().map(|column| key_of(column, row)).collect();
            let tags =
                keys.iter()
                    .zip(&columns)
                    .zip(&places)
                    .map(|((key, (_, dictionary)), place)| {
                        let text = dictionary.zip(*place).and_then(|(dictionary, place)| {
                            let texts = dictionary.values().as_string_opt::<i32>()?;
                            Some(texts.value(usize::try_from(place).ok()?))
                        });
                        (Arc::clone(key), Arc::from(text.unwrap_or_default()))
                    });
            let key = SetKey {
                name: Arc::clone(&table.name),
                tags: tags.collect(),
            };
            last = Some((places, rows.sets.number(key)));
        }
        rows.set
            .push(last.as_ref().map_or(0, |(_, number)| *number));
    }
}

/// Adds the values of an array.
pub(crate) fn add_values(array: &ArrayRef, out: &mut Vec<Value>) {
    let rows = array.len();
    out.reserve(rows);
    macro_rules! primitive {
        ($kind:ty, $value:expr) => {
            out.extend(
                array
                    .as_primitive::<$kind>()
                    .iter()
                    .map(|value| value.map_or(Value::Null, $value)),
            )
        };
    }
    match array.data_type() {
        DataType::Float64 => primitive!(Float64Type, Value::Float),
        DataType::Int64 => primitive!(Int64Type, Value::Integer),
        DataType::UInt64 => primitive!(UInt64Type, Value::Unsigned),
        DataType::Timestamp(..) => primitive!(TimestampNanosecondType, Value::Integer),
        DataType::Boolean => {
            out.extend(
                array
                    .as_boolean()
                    .iter()
                    .map(|value| value.map_or(Value::Null, Value::Boolean)),
            );
        }
        DataType::Utf8 => out.extend(
            array
                .as_string::<i32>()
                .iter()
                .map(|text| text.map_or(Value::Null, |text| Value::Text(text.into()))),
        ),
        DataType::Dictionary(..) => {
            let Some(dictionary) = array.as_dictionary_opt::<Int32Type>() else {
                out.extend(std::iter::repeat_n(Value::Null, rows));
                return;
            };
            let texts: Vec<Arc<str>> = match dictionary.values().as_string_opt::<i32>() {
                Some(texts) => texts
                    .iter()
                    .map(|text| text.unwrap_or_default().into())
                    .collect(),
                None => Vec::new(),
            };
            out.extend(dictionary.keys().iter().map(|key| {
                let text = key.and_then(|key| texts.get(usize::try_from(key).ok()?));
                text.map_or(Value::Null, |text| Value::Text(Arc::clone(text)))
            }));
        }
        _ => out.extend(std::iter::repeat_n(Value::Null, rows)),
    }
}
