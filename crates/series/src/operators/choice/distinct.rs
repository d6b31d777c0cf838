//! Each value of each group and bucket once.
//!
//! Does: hold a set of values with the time of the first row of each in the order of the answer, charged as it grows. Does not: keep it on disk.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{Array, ArrayRef, NullArray};
use arrow_schema::DataType;
use nilometer_engine::Snapshot;
use rustc_hash::FxHashMap;

use super::{Answer, Cell, Chosen, Key, answer, collect, in_order};
use crate::context::{Context, Step};
use crate::error::Error;
use crate::evaluate::{Name, Scalar, Slots, array_of, hoisted_name, order, resolve};
use crate::input::{Chunk, Inputs, Needs, RunNested};
use crate::long::{self, Asks};
use crate::operators::edges::Edges;
use crate::operators::project::Projection;
use crate::query::{Expr, SeriesQuery};
use crate::value::{Rules, Type};

/// The values of one group and bucket.
#[derive(Debug, Default)]
struct Values {
    /// Of numbers, times and booleans, by what is the same for equal ones: the turned time of their row, and its bits.
    bits: FxHashMap<u64, (i64, u64)>,
    /// Of texts and bytes: the turned time of their row.
    texts: FxHashMap<Arc<[u8]>, i64>,
}

impl Cell for Values {
    fn join(&mut self, other: Self, context: &Context) -> Result<(), Error> {
        let mut asks = Asks::of(context);
        for (key, (time, bits)) in other.bits {
            asks.rows(1)?;
            offer(&mut self.bits, key, (time, bits));
        }
        for (text, time) in other.texts {
            asks.rows(1)?;
            let first = self.texts.entry(text).or_insert(time);
            *first = time.min(*first);
        }
        Ok(())
    }
}

/// A time that is the lower, the earlier a row is met in the order of the answer. Its own inverse.
fn turned(time: i64, descending: bool) -> i64 {
    if descending { !time } else { time }
}

/// Adds a value. Returns whether it is a new one.
fn offer(all: &mut FxHashMap<u64, (i64, u64)>, key: u64, new: (i64, u64)) -> bool {
    let Some(known) = all.get_mut(&key) else {
        all.insert(key, new);
        return true;
    };
    // Of one time the smaller zero.
    if new.0 < known.0 || (new.0 == known.0 && new.1 > known.1) {
        *known = new;
    }
    false
}

/// Memory of a value beside its text. The table doubles.
const VALUE_BYTES: usize = 2 * (size_of::<u64>() + size_of::<(i64, u64)>() + 1);

pub(super) fn run(
    (query, of): (&SeriesQuery, &Expr),
    (snapshot, context): (&Snapshot, &Context),
    shows_time: bool,
    run_nested: RunNested<'_>,
) -> Result<Answer, Error> {
    let shape = query.shape();
    let inputs = Inputs::plan(
        query,
        &[of],
        Needs::all(false),
        (snapshot, context),
        run_nested,
    )?;
    let resolved = resolve(of, &inputs.slots, shape.rules)?;
    let kind = resolved.kind;
    let descending = shape.order.descending;
    let slots = slots(query, kind);
    let exprs = shape.columns.iter();
    let exprs: Vec<Expr> = exprs.map(|it| with_value(&it.expr, of)).collect();
    let projection = Projection::new(shape, &exprs, &slots, shows_time)?;
    let chosen = collect(
        (query, &inputs),
        (snapshot, context),
        |chosen, edges, chunk| {
            let column = resolved.column(&chunk.columns, chunk.rows())?;
            add(chosen, edges, (&chunk, &column), (shape.rules, descending))
        },
    )?;
    let _timed = context.timed(Step::Operate);
    let mut charge = chosen.charge;
    let mut keys: Vec<Key> = Vec::new();
    let mut values: Vec<Scalar> = Vec::new();
    for ((group, start), own) in chosen.cells {
        context.check()?;
        let mut all: Vec<(i64, Scalar)> = Vec::with_capacity(own.bits.len() + own.texts.len());
        charge.grow(all.capacity() * (size_of::<(i64, Scalar)>() + size_of::<(Key, Scalar)>()))?;
        let bits = own.bits.into_values();
        all.extend(bits.map(|(time, bits)| (turned(time, descending), of_bits(bits, kind))));
        let texts = own.texts.into_iter();
        all.extend(texts.map(|(text, time)| (turned(time, descending), of_text(&text, kind))));
        let all = long::sorted(all, context, |one, other| {
            one.0.cmp(&other.0).then_with(|| order(&one.1, &other.1))
        })?;
        keys.extend((0..).take(all.len()).map(|at| (group, start, (at, 0))));
        values.extend(all.into_iter().map(|(_, value)| value));
    }
    let places = in_order(&keys, query, context)?;
    let found = answer(&places, (&inputs, &projection), context, |places| {
        let own = places.iter().filter_map(|at| {
            let (group, start, _) = keys.get(*at as usize)?;
            Some((*group, *start, values.get(*at as usize)?))
        });
        chunk_of(&own.collect::<Vec<_>>(), kind, &slots, &inputs)
    });
    drop(charge);
    found
}

/// The columns that the answer's are made of: start of the bucket, tags of the group, the value.
fn slots(query: &SeriesQuery, kind: Option<Type>) -> Slots {
    let mut all = vec![(Name::Time, Some(Type::Time))];
    let group = query.shape().group.iter();
    all.extend(group.map(|tag| (Name::Tag(tag.clone()), Some(Type::Text))));
    all.push((Name::Field(hoisted_name(0)), kind));
    Slots { all }
}

/// The expression with the value in place of what it is of.
fn with_value(expr: &Expr, of: &Expr) -> Expr {
    let inner = |expr: &Expr| Box::new(with_value(expr, of));
    match expr {
        _ if expr == of => Expr::Field(hoisted_name(0)),
        Expr::Unary(operator, of) => Expr::Unary(*operator, inner(of)),
        Expr::Binary(operator, left, right) => Expr::Binary(*operator, inner(left), inner(right)),
        Expr::Call(function, operands) => {
            let operands = operands.iter().map(|operand| with_value(operand, of));
            Expr::Call(*function, operands.collect())
        }
        other => other.clone(),
    }
}

fn chunk_of(
    rows: &[(u32, i64, &Scalar)],
    kind: Option<Type>,
    slots: &Slots,
    inputs: &Inputs,
) -> Chunk {
    let groups: Vec<u32> = rows.iter().map(|row| row.0).collect();
    let times: Vec<i64> = rows.iter().map(|row| row.1).collect();
    let columns = slots
        .all
        .iter()
        .enumerate()
        .map(|(at, (name, _))| match name {
            Name::Time => {
                let shown = times.iter().map(|time| Some(Scalar::Time(*time)));
                array_of(Type::Time, shown.collect())
            }
            // The time comes first, then the tags of the group.
            Name::Tag(_) => inputs.groups.column(at - 1, &groups),
            Name::Field(_) => match kind {
                Some(kind) => array_of(kind, rows.iter().map(|row| Some(row.2.clone())).collect()),
                None => Arc::new(NullArray::new(rows.len())) as ArrayRef,
            },
        });
    Chunk {
        columns: columns.collect(),
        ties: Vec::new(),
        times,
        groups,
    }
}

fn add(
    chosen: &mut Chosen<Values>,
    edges: &Edges<'_>,
    (chunk, column): (&Chunk, &ArrayRef),
    (rules, descending): (Rules, bool),
) -> Result<(), Error> {
    let runs = chosen.runs(edges, chunk)?;
    let mut grown = 0;
    for (place, run) in runs {
        let Some((_, values)) = chosen.cells.get_mut(place) else {
            continue;
        };
        // Rows that repeat the one before in the order of the answer say nothing new.
        let mut before = None;
        for at in 0..run.len() {
            let row = if descending {
                run.end - 1 - at
            } else {
                run.start + at
            };
            if column.is_null(row) {
                continue;
            }
            let time = chunk.times.get(row).copied().unwrap_or_default();
            let time = turned(time, descending);
            if let Some(bits) = bits_at(column, row) {
                if before != Some(bits) {
                    before = Some(bits);
                    let key = key_of(column.data_type(), bits, rules);
                    let is_new = offer(&mut values.bits, key, (time, bits));
                    grown += if is_new { VALUE_BYTES } else { 0 };
                }
                continue;
            }
            let Some(text) = text_at(column, row) else {
                continue;
            };
            if let Some(first) = values.texts.get_mut(text) {
                *first = time.min(*first);
            } else {
                grown += VALUE_BYTES + text.len() + size_of::<usize>() * 2;
                values.texts.insert(Arc::from(text), time);
            }
        }
    }
    Ok(chosen.charge.grow(grown)?)
}

/// The bits of a value that is a number, a time or a boolean.
fn bits_at(column: &ArrayRef, row: usize) -> Option<u64> {
    Some(match column.data_type() {
        DataType::Boolean => u64::from(column.as_boolean().value(row)),
        DataType::Int64 => column
            .as_primitive::<Int64Type>()
            .value(row)
            .cast_unsigned(),
        DataType::UInt64 => column.as_primitive::<UInt64Type>().value(row),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row).to_bits(),
        DataType::Timestamp(..) => column
            .as_primitive::<TimestampNanosecondType>()
            .value(row)
            .cast_unsigned(),
        _ => return None,
    })
}

/// The bytes of a text, a tag or of bytes.
fn text_at(column: &ArrayRef, row: usize) -> Option<&[u8]> {
    Some(match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().value(row).as_bytes(),
        DataType::Binary => column.as_binary::<i32>().value(row),
        DataType::Dictionary(..) => {
            let tags = column.as_dictionary_opt::<Int32Type>()?;
            let key = usize::try_from(tags.keys().value(row)).ok()?;
            tags.values().as_string::<i32>().value(key).as_bytes()
        }
        _ => return None,
    })
}

/// What is the same for equal values: NaN is one, and zero is one by `InfluxQL`.
fn key_of(kind: &DataType, bits: u64, rules: Rules) -> u64 {
    if !matches!(kind, DataType::Float64) {
        return bits;
    }
    let value = f64::from_bits(bits);
    match rules {
        _ if value.is_nan() => f64::NAN.to_bits(),
        Rules::Influx if value == 0.0 => 0.0_f64.to_bits(),
        _ => bits,
    }
}

fn of_bits(bits: u64, kind: Option<Type>) -> Scalar {
    match kind {
        Some(Type::Bool) => Scalar::Bool(bits != 0),
        Some(Type::Float) => Scalar::Float(f64::from_bits(bits)),
        Some(Type::Unsigned) => Scalar::Unsigned(bits),
        Some(Type::Time) => Scalar::Time(bits.cast_signed()),
        _ => Scalar::Int(bits.cast_signed()),
    }
}

fn of_text(text: &Arc<[u8]>, kind: Option<Type>) -> Scalar {
    match kind {
        Some(Type::Bytes) => Scalar::Bytes(Arc::clone(text)),
        _ => Scalar::Text(Arc::from(&*String::from_utf8_lossy(text))),
    }
}
