//! Rows at the top, or bottom, of each group and bucket.
//!
//! Does: compare numbers with the last of those that are kept, keep no more than twice as many rows as are wanted, and take
//! the columns only of those that stay after a chunk. Does not: read.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float64Type, Int32Type, Int64Type, TimestampNanosecondType, UInt64Type,
};
use arrow_array::{Array, ArrayRef, NullArray};
use arrow_schema::DataType;
use nilometer_engine::Snapshot;
use rustc_hash::FxHashMap;

use super::{Answer, Cell, Chosen, Key, answer, collect, in_order};
use crate::context::{Context, Step};
use crate::error::Error;
use crate::evaluate::{Name, Resolved, Scalar, Slots, array_of, resolve, scalar_at};
use crate::input::{Chunk, Inputs, Needs, RunNested, tag_column};
use crate::long::Asks;
use crate::operators::edges::Edges;
use crate::operators::project::Projection;
use crate::query::{Expr, SeriesQuery, Top};
use crate::value::{Rules, Type};

/// The place of a row among those of its group and bucket; the lowest comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    value: u64,
    time: i64,
    tie: u64,
    /// The place of the row among all that its thread has looked at: rows of one series and time are met by one.
    written: u64,
}

#[derive(Debug)]
struct Candidate {
    rank: Rank,
    row: Row,
}

/// The columns of a row, but for its time.
#[derive(Debug)]
enum Row {
    /// Of the chunk that is looked at.
    At(usize),
    Held(Box<[Option<Scalar>]>),
}

impl Candidate {
    /// Memory beside its place.
    fn bytes(&self) -> usize {
        match &self.row {
            Row::At(_) => 0,
            Row::Held(values) => {
                let texts = values.iter().flatten().map(Scalar::bytes);
                size_of_val::<[Option<Scalar>]>(values) + texts.sum::<usize>()
            }
        }
    }
}

/// The rows of one group and bucket that are kept.
#[derive(Debug, Default)]
struct Best {
    all: Vec<Candidate>,
    /// The last of those that are wanted, once there are as many.
    last: Option<Rank>,
    /// Where each key counts once: the place of its row.
    keys: FxHashMap<Box<[u8]>, usize>,
    /// Places of rows that are those of the chunk that is looked at, where each key counts once.
    fresh: Vec<usize>,
    /// Memory that is charged.
    bytes: usize,
}

impl Best {
    /// Keeps the first rows.
    fn prune(&mut self, wanted: usize) {
        if wanted == 0 {
            self.all.clear();
        } else if self.all.len() > wanted {
            let (_, last, _) = self
                .all
                .select_nth_unstable_by_key(wanted - 1, |candidate| candidate.rank);
            self.last = Some(last.rank);
            self.all.truncate(wanted);
        }
    }
}

impl Cell for Best {
    fn join(&mut self, other: Self, context: &Context) -> Result<(), Error> {
        if self.keys.is_empty() && other.keys.is_empty() {
            self.all.extend(other.all);
            return Ok(());
        }
        let mut asks = Asks::of(context);
        let mut theirs: Vec<Option<Candidate>> = other.all.into_iter().map(Some).collect();
        for (key, place) in other.keys {
            asks.rows(1)?;
            let Some(new) = theirs.get_mut(place).and_then(Option::take) else {
                continue;
            };
            match self.keys.get(&key).and_then(|at| self.all.get_mut(*at)) {
                Some(known) if known.rank <= new.rank => {}
                Some(known) => *known = new,
                None => {
                    self.keys.insert(key, self.all.len());
                    self.all.push(new);
                }
            }
        }
        Ok(())
    }
}

/// What is looked for.
struct Search<'a> {
    top: &'a Top,
    wanted: usize,
    by: Resolved,
    each: Vec<Each>,
    rules: Rules,
    descending: bool,
}

/// What rows are told apart by.
enum Each {
    /// A tag, where the chunk has it.
    Tag(usize),
    Value(Resolved),
}

pub(super) fn run(
    (query, top): (&SeriesQuery, &Top),
    (snapshot, context): (&Snapshot, &Context),
    shows_time: bool,
    run_nested: RunNested<'_>,
) -> Result<Answer, Error> {
    let shape = query.shape();
    let columns = shape.columns.iter().map(|column| &column.expr);
    let exprs: Vec<&Expr> = columns.chain(&top.each).chain([&top.by]).collect();
    let inputs = Inputs::plan(
        query,
        &exprs,
        Needs::all(true),
        (snapshot, context),
        run_nested,
    )?;
    let of = |expr: &Expr| resolve(expr, &inputs.slots, shape.rules);
    let search = Search {
        top,
        wanted: usize::try_from(query.bound.top).unwrap_or(usize::MAX),
        by: of(&top.by)?,
        each: each(&top.each, &inputs.slots, of)?,
        rules: shape.rules,
        descending: shape.order.descending,
    };
    if let Some(kind) = search.by.kind
        && !kind.is_number()
        && kind != Type::Time
    {
        let choice = shape.choice.as_ref().map(ToString::to_string);
        return Err(Error::WrongType {
            operation: choice.unwrap_or_default(),
            types: vec![kind],
        });
    }
    let exprs: Vec<Expr> = shape.columns.iter().map(|it| it.expr.clone()).collect();
    let projection = Projection::new(shape, &exprs, &inputs.slots, shows_time)?;
    let chosen = collect(
        (query, &inputs),
        (snapshot, context),
        |chosen, edges, chunk| search.add(chosen, edges, &chunk),
    )?;
    let _timed = context.timed(Step::Operate);
    let Chosen {
        cells,
        charge: _charge,
        ..
    } = chosen;
    let mut rows = Vec::new();
    let mut asks = Asks::of(context);
    for ((group, _), mut best) in cells {
        asks.rows(1 + best.all.len())?;
        best.prune(search.wanted);
        rows.extend(best.all.into_iter().map(|candidate| (group, candidate)));
    }
    let key = |(group, candidate): &(u32, Candidate)| -> Key {
        let Rank {
            time, tie, written, ..
        } = candidate.rank;
        (*group, time, (search.turned(tie), search.turned(written)))
    };
    let keys: Vec<Key> = rows.iter().map(key).collect();
    let order = in_order(&keys, query, context)?;
    answer(&order, (&inputs, &projection), context, |places| {
        let own = places.iter().filter_map(|at| rows.get(*at as usize));
        chunk_of(&own.collect::<Vec<_>>(), &inputs.slots)
    })
}

fn each(
    exprs: &[Expr],
    slots: &Slots,
    of: impl Fn(&Expr) -> Result<Resolved, Error>,
) -> Result<Vec<Each>, Error> {
    let each = exprs.iter().map(|expr| {
        if let Expr::Tag(tag) = expr
            && let Some(slot) = slots.place(&Name::Tag(tag.clone()))
        {
            return Ok(Each::Tag(slot));
        }
        of(expr).map(Each::Value)
    });
    each.collect()
}

/// Rows that were chosen, as a chunk.
fn chunk_of(rows: &[&(u32, Candidate)], slots: &Slots) -> Chunk {
    let times: Vec<i64> = rows.iter().map(|(_, row)| row.rank.time).collect();
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(slots.all.len());
    let shown = times.iter().map(|time| Some(Scalar::Time(*time)));
    columns.push(array_of(Type::Time, shown.collect()));
    // The time is the first.
    for (at, (name, kind)) in slots.all.iter().skip(1).enumerate() {
        let values = rows.iter().map(|(_, candidate)| match &candidate.row {
            Row::Held(values) => values.get(at)?.as_ref(),
            Row::At(_) => None,
        });
        columns.push(match (name, kind) {
            (Name::Tag(_), _) => tag_column(values.map(|value| match value {
                Some(Scalar::Text(text)) => Some(&**text),
                _ => None,
            })),
            (_, Some(kind)) => array_of(*kind, values.map(Option::<&Scalar>::cloned).collect()),
            (_, None) => Arc::new(NullArray::new(rows.len())),
        });
    }
    Chunk {
        columns,
        groups: rows.iter().map(|(group, _)| *group).collect(),
        ties: Vec::new(),
        times,
    }
}

impl Search<'_> {
    /// A number that orders as the answer does. Its own inverse.
    fn turned(&self, tie: u64) -> u64 {
        if self.descending { !tie } else { tie }
    }

    fn add(
        &self,
        chosen: &mut Chosen<Best>,
        edges: &Edges<'_>,
        chunk: &Chunk,
    ) -> Result<(), Error> {
        let column = self.by.column(&chunk.columns, chunk.rows())?;
        let runs = chosen.runs(edges, chunk)?;
        let keys = Keys::of(&self.each, chunk)?;
        let mut rows = Rows {
            search: self,
            chunk,
            column: &column,
            keys,
            first: chosen.rows,
        };
        for (place, run) in &runs {
            if let Some((_, best)) = chosen.cells.get_mut(*place) {
                rows.offer(best, run.clone());
            }
        }
        let mut touched: Vec<usize> = runs.into_iter().map(|(place, _)| place).collect();
        touched.sort_unstable();
        touched.dedup();
        let (mut more, mut less) = (0, 0);
        for place in touched {
            if let Some((_, best)) = chosen.cells.get_mut(place) {
                less += best.bytes;
                self.settle(best, chunk);
                more += best.bytes;
            }
        }
        if more >= less {
            chosen.charge.grow(more - less)?;
        } else {
            chosen.charge.shrink(less - more);
        }
        Ok(())
    }

    /// Takes the columns of the rows of a chunk that are kept.
    fn settle(&self, best: &mut Best, chunk: &Chunk) {
        let hold = |candidate: &mut Candidate| {
            if let Row::At(row) = candidate.row {
                let columns = chunk.columns.iter().skip(1);
                let values = columns.map(|column| scalar_at(column, row));
                candidate.row = Row::Held(values.collect());
            }
        };
        if !self.each.is_empty() {
            for place in std::mem::take(&mut best.fresh) {
                if let Some(candidate) = best.all.get_mut(place) {
                    hold(candidate);
                    best.bytes += candidate.bytes();
                }
            }
            return;
        }
        best.prune(self.wanted);
        best.all.iter_mut().for_each(hold);
        let values: usize = best.all.iter().map(Candidate::bytes).sum();
        best.bytes = best.all.capacity() * size_of::<Candidate>() + values;
    }
}

/// The rows of a chunk while they are looked at.
struct Rows<'a> {
    search: &'a Search<'a>,
    chunk: &'a Chunk,
    column: &'a ArrayRef,
    keys: Option<Keys>,
    /// The place of the first.
    first: u64,
}

impl Rows<'_> {
    fn offer(&mut self, best: &mut Best, run: Range<usize>) {
        let rules = self.search.rules;
        if let Some(keys) = &mut self.keys {
            keys.before = None;
        }
        match self.column.data_type() {
            DataType::Float64 => self.typed::<Float64Type>(best, run, |value| {
                // Zero with a sign is none.
                let value = if rules == Rules::Influx {
                    value + 0.0
                } else {
                    value
                };
                if value.is_nan() {
                    return u64::MAX;
                }
                let bits = value.to_bits();
                bits ^ if bits >> 63 == 1 { u64::MAX } else { 1 << 63 }
            }),
            DataType::UInt64 => self.typed::<UInt64Type>(best, run, |value| value),
            DataType::Int64 => self.typed::<Int64Type>(best, run, signed),
            DataType::Timestamp(..) => self.typed::<TimestampNanosecondType>(best, run, signed),
            // Null in every row.
            _ => {}
        }
    }

    /// `of` turns a number into one that orders as it does.
    fn typed<T: ArrowPrimitiveType>(
        &mut self,
        best: &mut Best,
        run: Range<usize>,
        of: impl Fn(T::Native) -> u64,
    ) {
        let (array, wanted) = (self.column.as_primitive::<T>(), self.search.wanted);
        let greatest = if self.search.top.smallest {
            0
        } else {
            u64::MAX
        };
        let room = wanted.saturating_mul(2);
        let nulls = array.nulls();
        for (row, value) in run.clone().zip(array.values().get(run).unwrap_or_default()) {
            let value = of(*value) ^ greatest;
            if best.last.is_some_and(|last| value > last.value)
                || nulls.is_some_and(|nulls| nulls.is_null(row))
            {
                continue;
            }
            let rank = Rank {
                value,
                time: self.chunk.times.get(row).copied().unwrap_or_default(),
                tie: self
                    .search
                    .turned(self.chunk.ties.get(row).copied().unwrap_or(0)),
                written: self.search.turned(self.first + row as u64),
            };
            let candidate = Candidate {
                rank,
                row: Row::At(row),
            };
            if let Some(keys) = &mut self.keys {
                keys.offer(best, candidate, row);
                continue;
            }
            if best.last.is_some_and(|last| rank > last) {
                continue;
            }
            best.all.push(candidate);
            if best.all.len() >= room {
                best.prune(wanted);
            }
        }
    }
}

fn signed(value: i64) -> u64 {
    value.cast_unsigned() ^ 1 << 63
}

/// What rows are told apart by, of which each counts once.
struct Keys {
    columns: Vec<ArrayRef>,
    /// By column: where each row's value stands, if they are those of tags.
    codes: Option<Vec<Vec<i32>>>,
    /// Of the row before in the same group and bucket: its place, and that of its key.
    before: Option<(usize, usize)>,
}

impl Keys {
    /// `None` = all rows count.
    fn of(each: &[Each], chunk: &Chunk) -> Result<Option<Self>, Error> {
        if each.is_empty() {
            return Ok(None);
        }
        let mut columns = Vec::with_capacity(each.len());
        for of in each {
            match of {
                Each::Tag(slot) => columns.extend(chunk.columns.get(*slot).map(Arc::clone)),
                Each::Value(of) => columns.push(of.column(&chunk.columns, chunk.rows())?),
            }
        }
        let codes = columns.iter().map(|column| {
            let tags = column.as_dictionary_opt::<Int32Type>()?;
            let keys = tags.keys();
            Some(keys.iter().map(|key| key.unwrap_or(-1)).collect())
        });
        let codes = codes.collect();
        Ok(Some(Self {
            columns,
            codes,
            before: None,
        }))
    }

    fn offer(&mut self, best: &mut Best, candidate: Candidate, row: usize) {
        let place = self.place(best, row);
        match best.all.get_mut(place) {
            Some(known) if known.rank <= candidate.rank => {}
            Some(known) => {
                if let Row::Held(_) = known.row {
                    best.bytes -= known.bytes();
                    best.fresh.push(place);
                }
                *known = candidate;
            }
            None => {
                best.fresh.push(place);
                best.all.push(candidate);
            }
        }
    }

    /// The place of a row's key among those of its group and bucket, or that for it.
    fn place(&mut self, best: &mut Best, row: usize) -> usize {
        if let (Some(codes), Some((before, place))) = (&self.codes, self.before)
            && before + 1 == row
            && codes
                .iter()
                .all(|codes| codes.get(before) == codes.get(row))
            && place < best.all.len()
        {
            self.before = Some((row, place));
            return place;
        }
        let mut key = Vec::new();
        for column in &self.columns {
            encode(scalar_at(column, row).as_ref(), &mut key);
        }
        let next = best.all.len();
        let place = if let Some(known) = best.keys.get(key.as_slice()) {
            *known
        } else {
            // Both lists double.
            let each = size_of::<(Box<[u8]>, usize)>() + size_of::<Candidate>();
            best.bytes += key.len() + 2 * each;
            best.keys.insert(key.into_boxed_slice(), next);
            next
        };
        self.before = Some((row, place));
        place
    }
}

/// Bytes that are the same for equal values of one type only.
fn encode(value: Option<&Scalar>, key: &mut Vec<u8>) {
    match value {
        None => key.push(0),
        Some(Scalar::Bool(value)) => key.extend([1, u8::from(*value)]),
        Some(Scalar::Int(value) | Scalar::Time(value)) => {
            key.push(1);
            key.extend(value.to_le_bytes());
        }
        Some(Scalar::Unsigned(value)) => {
            key.push(1);
            key.extend(value.to_le_bytes());
        }
        Some(Scalar::Float(value)) => {
            key.push(1);
            key.extend(value.to_bits().to_le_bytes());
        }
        Some(Scalar::Numeric(value, _)) => {
            key.push(1);
            key.extend(value.to_le_bytes());
        }
        Some(Scalar::Text(text)) => bytes(text.as_bytes(), key),
        Some(Scalar::Bytes(all)) => bytes(all, key),
        Some(Scalar::Counts(counts)) => {
            key.push(1);
            key.extend(counts.len().to_le_bytes());
            key.extend(counts.iter().flat_map(|count| count.to_le_bytes()));
        }
    }
}

fn bytes(of: &[u8], key: &mut Vec<u8>) {
    key.push(1);
    key.extend(of.len().to_le_bytes());
    key.extend(of);
}
