//! Aggregates over a frame that leaves rows behind, such as `ROWS BETWEEN 9 PRECEDING AND CURRENT ROW`.
//!
//! `DataFusion` takes a row out of such an aggregate by subtracting it: infinity, NaN and what 1e20 has swallowed stay in the sum
//! for good, and an aggregate that cannot subtract is refused. Here nothing is subtracted.
//!
//! Does: keep the rows of the frame. Of a small frame, aggregate them again, in their order. Of a large one, keep aggregates of
//! parts that can be merged, so that a row costs the same however long the frame is; where there is no such aggregate, all rows
//! are aggregated again, and the statement looks out meanwhile. Does not: see to aggregates that have an exact inverse, such as
//! sums of integers; those keep it.

mod sums;

use std::collections::VecDeque;
use std::mem::size_of_val;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};

use crate::limits::scope;

/// So many parts of one size become one. With fewer a row would be copied more often, with more there would be more to look at.
const PARTS_TO_JOIN: usize = 8;

/// How an aggregate's frames are cut.
#[derive(Debug, Clone, Copy)]
struct Cut {
    /// A frame of no more rows is aggregated again in their order; `None` = every frame.
    again_max: Option<usize>,
    /// Parts of so many rows are not joined any more.
    part: usize,
}

/// Of sums that are rounded: the answer for a frame of up to so many rows is `PostgreSQL`'s to the last bit. Adding up is fast.
const ROUNDED: Cut = Cut {
    again_max: Some(1024),
    part: 512,
};

/// Of values that are chosen, which come out the same in any order.
const CHOSEN: Cut = Cut {
    again_max: Some(128),
    part: 64,
};

/// Of aggregates without a small state.
const WHOLE: Cut = Cut {
    again_max: None,
    part: 512,
};

/// Rows that are aggregated between two looks: some hundred microseconds.
const ROWS_PER_LOOK: usize = 1 << 16;

/// Aggregates that choose one of their values, or put bits together. Their state is small, too.
const CHOOSING: [&str; 9] = [
    "bit_and", "bit_or", "bit_xor", "bool_and", "bool_or", "first", "last", "max", "min",
];

/// Aggregates whose state is a few sums, however many rows it has taken in.
const SUMMING: [&str; 18] = [
    "avg",
    "corr",
    "covar_pop",
    "covar_samp",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
    "stddev",
    "stddev_pop",
    "sum",
    "var",
    "var_pop",
];

fn cut(fun: &AggregateUDF, is_distinct: bool) -> Cut {
    match fun.name() {
        _ if is_distinct => WHOLE,
        name if CHOOSING.contains(&name) => CHOSEN,
        name if SUMMING.contains(&name) => ROUNDED,
        _ => WHOLE,
    }
}

/// Whether an aggregate rounds, so that the order of its rows shows in its last digits.
pub(crate) fn rounds(fun: &AggregateUDF, kind: &DataType) -> bool {
    kind.is_floating() && SUMMING.contains(&fun.name())
}

/// Whether an aggregate takes rows out exactly.
fn has_inverse(fun: &AggregateUDF, args: &AccumulatorArgs<'_>) -> bool {
    let is_float = args.return_type().is_floating();
    match fun.name() {
        "count" => true,
        "sum" | "avg" | "min" | "max" => !is_float && !args.is_distinct,
        "array_agg" => !args.is_distinct,
        _ => false,
    }
}

/// The accumulator of a frame that only grows.
pub(crate) fn growing(
    fun: &AggregateUDF,
    args: AccumulatorArgs<'_>,
) -> Result<Box<dyn Accumulator>> {
    match sums::of_floats(fun, &args) {
        Some(sums) => Ok(sums),
        None => fun.accumulator(args),
    }
}

/// The accumulator of a frame that leaves rows behind.
pub(crate) fn sliding(
    fun: &Arc<AggregateUDF>,
    args: AccumulatorArgs<'_>,
) -> Result<Box<dyn Accumulator>> {
    if has_inverse(fun, &args) {
        return fun.create_sliding_accumulator(args);
    }
    Ok(Box::new(Frame {
        cut: cut(fun, args.is_distinct),
        fresh: Fresh::new(fun, args),
        parts: VecDeque::new(),
        left: 0,
        rows: 0,
        front: 0,
        back: None,
        value: None,
        unlooked: 0,
    }))
}

/// What makes an accumulator that has seen no rows.
#[derive(Debug)]
struct Fresh {
    fun: Arc<AggregateUDF>,
    return_field: FieldRef,
    schema: Schema,
    ignore_nulls: bool,
    order_bys: Vec<PhysicalSortExpr>,
    is_reversed: bool,
    name: String,
    is_distinct: bool,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    expr_fields: Vec<FieldRef>,
}

impl Fresh {
    fn new(fun: &Arc<AggregateUDF>, args: AccumulatorArgs<'_>) -> Self {
        Self {
            fun: Arc::clone(fun),
            return_field: args.return_field,
            schema: args.schema.clone(),
            ignore_nulls: args.ignore_nulls,
            order_bys: args.order_bys.to_vec(),
            is_reversed: args.is_reversed,
            name: args.name.to_owned(),
            is_distinct: args.is_distinct,
            exprs: args.exprs.to_vec(),
            expr_fields: args.expr_fields.to_vec(),
        }
    }

    fn accumulator(&self) -> Result<Box<dyn Accumulator>> {
        let args = AccumulatorArgs {
            return_field: Arc::clone(&self.return_field),
            schema: &self.schema,
            ignore_nulls: self.ignore_nulls,
            order_bys: &self.order_bys,
            is_reversed: self.is_reversed,
            name: &self.name,
            is_distinct: self.is_distinct,
            exprs: &self.exprs,
            expr_fields: &self.expr_fields,
        };
        growing(&self.fun, args)
    }
}

/// Rows that came one after another.
#[derive(Debug)]
struct Part {
    columns: Vec<ArrayRef>,
    rows: usize,
    /// In the front: the state of all parts of the front that come after this one, if there are any.
    after: Option<Vec<ArrayRef>>,
}

impl Part {
    /// Parts are joined with others that are no larger than the last, so that a row is copied a few times at most.
    fn size(&self) -> u32 {
        self.rows.ilog(PARTS_TO_JOIN)
    }

    fn without(&self, rows: usize) -> Vec<ArrayRef> {
        let columns = self.columns.iter();
        columns
            .map(|column| column.slice(rows, self.rows - rows))
            .collect()
    }
}

/// An aggregate over the rows of a frame, which come at its end and leave at its beginning.
///
/// The parts of a large frame are a front and a back, the two stacks of a queue that knows the aggregate of what is in it. In the
/// front each part knows the aggregate of those after it, so one may leave; the back is one aggregate, so one may come. When
/// the front is used up, the back becomes the front: each row once.
#[derive(Debug)]
struct Frame {
    fresh: Fresh,
    cut: Cut,
    parts: VecDeque<Part>,
    /// Rows of the first part that have left the frame.
    left: usize,
    rows: usize,
    /// How many parts are the front.
    front: usize,
    /// The aggregate of all parts behind the front; `None` = not known.
    back: Option<Box<dyn Accumulator>>,
    /// The answer, until the frame changes: rows with equal times have one frame.
    value: Option<ScalarValue>,
    /// Rows aggregated since the last look.
    unlooked: usize,
}

impl Frame {
    fn push(&mut self, values: &[ArrayRef], rows: usize) -> Result<()> {
        // A row alone is part of its batch, which is there anyway; what is larger is not to keep a batch alive.
        let columns = if rows < PARTS_TO_JOIN {
            values.to_vec()
        } else {
            values.iter().map(copied).collect::<Result<_>>()?
        };
        self.parts.push_back(Part {
            columns,
            rows,
            after: None,
        });
        self.join()
    }

    /// Puts small parts at the end together.
    fn join(&mut self) -> Result<()> {
        // A part that rows have left already, or that is in the front, stays as it is.
        let fixed = self.front.max(usize::from(self.left > 0));
        while let Some(first) = self.parts.len().checked_sub(PARTS_TO_JOIN)
            && first >= fixed
        {
            let size = self.parts.back().map_or(0, Part::size);
            let mut last = self.parts.range(first..);
            if last.any(|part| part.rows >= self.cut.part || part.size() > size) {
                break;
            }
            let small: Vec<Part> = self.parts.drain(first..).collect();
            self.parts.push_back(joined(&small)?);
        }
        Ok(())
    }

    fn drop_first(&mut self, mut rows: usize) -> Result<()> {
        let Some(stay) = self.rows.checked_sub(rows) else {
            return internal_err!("more rows leave a frame than are in it");
        };
        self.rows = stay;
        while rows > 0 {
            if self.front == 0 {
                self.back = None;
            }
            let Some(part) = self.parts.front() else {
                return internal_err!("a frame has lost a part of its rows");
            };
            let there = part.rows - self.left;
            if rows < there {
                self.left += rows;
                break;
            }
            rows -= there;
            self.parts.pop_front();
            self.left = 0;
            self.front = self.front.saturating_sub(1);
        }
        Ok(())
    }

    fn look_out(&mut self, rows: usize) -> Result<()> {
        self.unlooked += rows;
        if self.unlooked >= ROWS_PER_LOOK {
            self.unlooked = 0;
            scope::check()?;
        }
        Ok(())
    }

    /// Takes a part into an aggregate, without the rows that have left it.
    fn take(&mut self, index: usize, into: &mut dyn Accumulator) -> Result<()> {
        let left = if index == 0 { self.left } else { 0 };
        let Some(part) = self.parts.get(index) else {
            return internal_err!("a frame has no such part");
        };
        let rows = part.rows - left;
        if left == 0 {
            into.update_batch(&part.columns)?;
        } else {
            into.update_batch(&part.without(left))?;
        }
        self.look_out(rows)
    }

    fn again(&mut self) -> Result<ScalarValue> {
        let mut whole = self.fresh.accumulator()?;
        for index in 0..self.parts.len() {
            self.take(index, whole.as_mut())?;
        }
        whole.evaluate()
    }

    fn merged(&mut self) -> Result<ScalarValue> {
        if self.back.is_none() {
            self.turn()?;
        }
        let mut whole = self.fresh.accumulator()?;
        if self.front > 0 {
            self.take(0, whole.as_mut())?;
            if let Some(after) = self.parts.front().and_then(|part| part.after.as_ref()) {
                whole.merge_batch(after)?;
            }
        }
        if self.front < self.parts.len()
            && let Some(back) = &mut self.back
        {
            whole.merge_batch(&state(back.as_mut())?)?;
        }
        whole.evaluate()
    }

    /// Makes all parts the front.
    fn turn(&mut self) -> Result<()> {
        let mut after: Option<Vec<ArrayRef>> = None;
        for index in (0..self.parts.len()).rev() {
            // Nobody asks for all parts at once.
            let mut before = None;
            if index > 0 {
                let mut whole = self.fresh.accumulator()?;
                self.take(index, whole.as_mut())?;
                if let Some(after) = &after {
                    whole.merge_batch(after)?;
                }
                before = Some(state(whole.as_mut())?);
            }
            if let Some(part) = self.parts.get_mut(index) {
                part.after = std::mem::replace(&mut after, before);
            }
        }
        self.front = self.parts.len();
        self.back = Some(self.fresh.accumulator()?);
        Ok(())
    }
}

fn state(accumulator: &mut dyn Accumulator) -> Result<Vec<ArrayRef>> {
    let state = accumulator.state()?;
    state.iter().map(ScalarValue::to_array).collect()
}

fn joined(parts: &[Part]) -> Result<Part> {
    let columns = parts.first().map_or(0, |part| part.columns.len());
    let column = |index| {
        let columns = parts.iter().filter_map(|part| part.columns.get(index));
        let columns: Vec<&dyn Array> = columns.map(AsRef::as_ref).collect();
        concat(&columns)
    };
    Ok(Part {
        columns: (0..columns)
            .map(column)
            .collect::<std::result::Result<_, _>>()?,
        rows: parts.iter().map(|part| part.rows).sum(),
        after: None,
    })
}

/// The same values, and nothing that they were a part of.
fn copied(column: &ArrayRef) -> Result<ArrayRef> {
    // One array alone would be handed back as it is.
    let nothing = column.slice(0, 0);
    Ok(concat(&[column.as_ref(), nothing.as_ref()])?)
}

impl Accumulator for Frame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = values.first().map_or(0, Array::len);
        if rows == 0 {
            return Ok(());
        }
        self.value = None;
        self.rows += rows;
        let mut from = 0;
        while from < rows {
            let length = self.cut.part.min(rows - from);
            let part: Vec<ArrayRef> = values.iter().map(|it| it.slice(from, length)).collect();
            if let Some(back) = &mut self.back {
                back.update_batch(&part)?;
            }
            self.push(&part, length)?;
            self.look_out(length)?;
            from += length;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = values.first().map_or(0, Array::len);
        if rows > 0 {
            self.value = None;
        }
        self.drop_first(rows)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if let Some(value) = &self.value {
            return Ok(value.clone());
        }
        let is_large = self.cut.again_max.is_some_and(|rows| self.rows > rows);
        let value = if is_large {
            self.merged()?
        } else {
            self.again()?
        };
        self.value = Some(value.clone());
        Ok(value)
    }

    fn size(&self) -> usize {
        let columns = self.parts.iter().flat_map(|part| {
            let after = part.after.iter().flatten();
            part.columns.iter().chain(after)
        });
        let columns: usize = columns.map(Array::get_array_memory_size).sum();
        size_of_val(self) + columns + self.back.as_ref().map_or(0, |back| back.size())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("a frame has no state to give away")
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        internal_err!("a frame takes in rows only")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use arrow::array::{AsArray, Float64Array};
    use arrow::datatypes::{Field, Float64Type};
    use datafusion::logical_expr::{Volatility, create_udaf};

    use super::*;

    /// The greatest value, and how many rows and states all accumulators of a frame have taken in.
    #[derive(Debug)]
    struct Greatest(f64, Arc<AtomicUsize>);

    impl Accumulator for Greatest {
        fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
            let values = values[0].as_primitive::<Float64Type>();
            self.1.fetch_add(values.len(), Ordering::Relaxed);
            self.0 = values.values().iter().copied().fold(self.0, f64::max);
            Ok(())
        }

        fn evaluate(&mut self) -> Result<ScalarValue> {
            Ok(ScalarValue::from(self.0))
        }

        fn size(&self) -> usize {
            size_of::<Self>()
        }

        fn state(&mut self) -> Result<Vec<ScalarValue>> {
            Ok(vec![ScalarValue::from(self.0)])
        }

        fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
            self.update_batch(states)
        }
    }

    /// Moves a frame over rows, and says how many rows were taken in for each, on average.
    fn taken_per_row(name: &str, preceding: usize, rows: usize) -> usize {
        let taken = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&taken);
        let fun = Arc::new(create_udaf(
            name,
            vec![DataType::Float64],
            Arc::new(DataType::Float64),
            Volatility::Immutable,
            Arc::new(move |_| {
                let greatest = Greatest(f64::MIN, Arc::clone(&counter));
                Ok(Box::new(greatest) as Box<dyn Accumulator>)
            }),
            Arc::new(vec![DataType::Float64]),
        ));
        let args = AccumulatorArgs {
            return_field: Arc::new(Field::new("x", DataType::Float64, true)),
            schema: &Schema::empty(),
            ignore_nulls: false,
            order_bys: &[],
            is_reversed: false,
            name,
            is_distinct: false,
            exprs: &[],
            expr_fields: &[],
        };
        let mut frame = sliding(&fun, args).unwrap();
        // Descending runs, so that the greatest is one that leaves.
        let value = |row: usize| (row / 700 * 10_000) as f64 - row as f64;
        let values: Float64Array = (0..rows).map(|row| Some(value(row))).collect();
        for row in 0..rows {
            let one = |row| [Arc::new(values.slice(row, 1)) as ArrayRef];
            frame.update_batch(&one(row)).unwrap();
            if row > preceding {
                frame.retract_batch(&one(row - preceding - 1)).unwrap();
            }
            let found = frame.evaluate().unwrap();
            let within = row.saturating_sub(preceding)..=row;
            if row % 97 == 0 {
                let greatest = within.map(value).fold(f64::MIN, f64::max);
                assert_eq!(found, ScalarValue::from(greatest), "{name}, row {row}");
            }
        }
        taken.load(Ordering::Relaxed) / rows
    }

    #[test]
    fn a_row_costs_the_same_in_every_long_frame() {
        for preceding in [3_000, 12_000] {
            // Half a part, and what is merged.
            assert!(taken_per_row("max", preceding, 30_000) < 100);
            assert!(taken_per_row("var", preceding, 30_000) < 600);
        }
        // Of a short one all rows are taken, which is as much.
        assert!(taken_per_row("var", 1_000, 10_000) < 1_100);
    }
}
