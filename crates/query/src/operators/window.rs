//! Aggregates over windows, which are computed again for each row: of a million rows with a thousand before each, a billion
//! values in one go, and of three million with all rows before each, a trillion numbers in memory.
//!
//! Does: look out between two rows, so that a statement that has to end ends within a batch too; charge aggregates whose
//! value grows with its frame, such as `array_agg`, to the query's memory. Does not: charge frames of a few rows, whose values
//! grow no further; what an operator holds of its rows is [`crate::limits::room`]'s, and what a frame's rows make is [`crate::operators::frame`]'s.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::logical_expr::expr::{Expr, WindowFunctionParams};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ExprSchemable, LogicalPlan, ReversedUDAF,
    SetMonotonicity, Signature, WindowFrame, WindowFrameBound, WindowFrameUnits,
    WindowFunctionDefinition,
};

use crate::limits::scope;
use crate::operators::frame;
use crate::walk::{ExprWalk, PlanWalk};

/// Aggregates whose value is as large as all that they were given.
const GROWING: [&str; 2] = ["array_agg", "string_agg"];

/// A frame of no more rows makes values that are let go batch by batch.
const FRAME_ROWS_FREE: u64 = 1000;

/// Rows after which an aggregate looks out whose value is a number; one that makes a list does so at each row.
const ROWS_PER_LOOK: u8 = 64;

/// The plan with its aggregates over windows looking out, and those that grow charged to this memory.
pub(crate) fn charge(plan: LogicalPlan, memory: &Arc<dyn MemoryPool>) -> Result<LogicalPlan> {
    if !has_aggregate(&plan)? {
        return Ok(plan);
    }
    let memory = Arc::new(MemoryConsumer::new("values of windows").register(memory));
    plan.replace_up(&mut |node| {
        let input = node
            .inputs()
            .first()
            .map(|input| Arc::clone(input.schema()));
        node.replace_expressions(&mut |expr| {
            expr.replace_up(&mut |mut expr| {
                if let Some(fun) = aggregate(&expr)
                    && let Expr::WindowFunction(window) = &mut expr
                {
                    let watched = Watched {
                        is_charged: grows(&fun, &window.params.window_frame),
                        is_in_order: is_in_order(&fun, &window.params, input.as_deref()),
                        inner: fun,
                        is_repeated: is_whole(&window.params),
                        memory: Arc::clone(&memory),
                    };
                    window.fun = WindowFunctionDefinition::AggregateUDF(Arc::new(
                        AggregateUDF::new_from_impl(watched),
                    ));
                    return Ok(Transformed::yes(expr));
                }
                Ok(Transformed::no(expr))
            })
        })
    })
    .data()
}

fn has_aggregate(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.walk(&mut |node| {
        if matches!(node, LogicalPlan::Window(_)) {
            node.walk_expressions(&mut |expr| {
                found |= expr.has(&mut |expr| Ok(aggregate(expr).is_some()))?;
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// The aggregate of a window that does not look out yet.
fn aggregate(expr: &Expr) -> Option<Arc<AggregateUDF>> {
    let Expr::WindowFunction(window) = expr else {
        return None;
    };
    let WindowFunctionDefinition::AggregateUDF(fun) = &window.fun else {
        return None;
    };
    let is_watched = fun.inner().downcast_ref::<Watched>().is_some();
    (!is_watched).then(|| Arc::clone(fun))
}

/// Whether its values have no bound of their own.
fn grows(fun: &AggregateUDF, frame: &WindowFrame) -> bool {
    GROWING.contains(&fun.name()) && !is_short(frame)
}

fn is_short(frame: &WindowFrame) -> bool {
    let rows = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::CurrentRow => Some(0),
        WindowFrameBound::Preceding(ScalarValue::UInt64(rows))
        | WindowFrameBound::Following(ScalarValue::UInt64(rows)) => *rows,
        _ => None,
    };
    let is_short = |bound| rows(bound).is_some_and(|rows| rows <= FRAME_ROWS_FREE);
    frame.units == WindowFrameUnits::Rows
        && is_short(&frame.start_bound)
        && is_short(&frame.end_bound)
}

/// Whether each row's frame is all rows: its value is made once, and written at each of them.
fn is_whole(params: &WindowFunctionParams) -> bool {
    let frame = &params.window_frame;
    let has_no_order = params.order_by.is_empty() && frame.units == WindowFrameUnits::Range;
    [&frame.start_bound, &frame.end_bound]
        .into_iter()
        .all(|bound| {
            bound.is_unbounded() || (has_no_order && *bound == WindowFrameBound::CurrentRow)
        })
}

/// Whether its rows have to come in the order that they were asked for in.
fn is_in_order(
    fun: &AggregateUDF,
    params: &WindowFunctionParams,
    input: Option<&DFSchema>,
) -> bool {
    let (Some(value), Some(input)) = (params.args.first(), input) else {
        return false;
    };
    let kind = value.get_type(input);
    kind.is_ok_and(|kind| frame::rounds(fun, &kind))
}

/// An aggregate in a window that looks out. Where its values are charged, all of them are held until the query ends, as far
/// as anybody knows.
#[derive(Debug)]
struct Watched {
    inner: Arc<AggregateUDF>,
    is_charged: bool,
    is_in_order: bool,
    is_repeated: bool,
    memory: Arc<MemoryReservation>,
}

// Two are the same if what they charge for is: there is one memory in a plan.
impl PartialEq for Watched {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Eq for Watched {}

impl Hash for Watched {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl Watched {
    fn counted(&self, inner: Box<dyn Accumulator>) -> Box<dyn Accumulator> {
        Box::new(Counted {
            inner,
            left: 0,
            is_charged: self.is_charged,
            is_repeated: self.is_repeated,
            rows: 0,
            memory: Arc::clone(&self.memory),
        })
    }
}

impl AggregateUDFImpl for Watched {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn window_function_schema_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.inner.window_function_schema_name(params)
    }

    fn window_function_display_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.inner.window_function_display_name(params)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn return_field(&self, arg_fields: &[FieldRef]) -> Result<FieldRef> {
        self.inner.return_field(arg_fields)
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(self.counted(frame::growing(&self.inner, args)?))
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        Ok(self.counted(frame::sliding(&self.inner, args)?))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    /// What it would be reversed to does not look out, and charges nothing.
    fn reverse_expr(&self) -> ReversedUDAF {
        if self.is_charged || self.is_in_order {
            return ReversedUDAF::NotSupported;
        }
        match self.inner.reverse_udf() {
            ReversedUDAF::Identical => ReversedUDAF::Identical,
            ReversedUDAF::Reversed(reversed) => {
                let watched = Self {
                    inner: reversed,
                    is_charged: false,
                    is_in_order: false,
                    is_repeated: self.is_repeated,
                    memory: Arc::clone(&self.memory),
                };
                ReversedUDAF::Reversed(Arc::new(AggregateUDF::new_from_impl(watched)))
            }
            ReversedUDAF::NotSupported => ReversedUDAF::NotSupported,
        }
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arg_types)
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(data_type)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.supports_null_handling_clause()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.inner.supports_within_group_clause()
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.is_descending()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        if self.is_charged {
            SetMonotonicity::NotMonotonic
        } else {
            self.inner.inner().set_monotonicity(data_type)
        }
    }
}

#[derive(Debug)]
struct Counted {
    inner: Box<dyn Accumulator>,
    /// Calls until it looks out again.
    left: u8,
    is_charged: bool,
    is_repeated: bool,
    rows: usize,
    memory: Arc<MemoryReservation>,
}

impl Counted {
    fn look_out(&mut self) -> Result<()> {
        let Some(left) = self.left.checked_sub(1) else {
            self.left = ROWS_PER_LOOK;
            return scope::check();
        };
        self.left = left;
        Ok(())
    }
}

impl Accumulator for Counted {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.look_out()?;
        self.rows += values.first().map_or(0, Array::len);
        self.inner.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.look_out()?;
        let value = scope::long(|| self.inner.evaluate())?;
        if value.data_type().is_nested() {
            self.left = 0;
        }
        if !self.is_charged {
            return Ok(value);
        }
        let times = if self.is_repeated {
            self.rows.max(1)
        } else {
            1
        };
        self.memory.try_grow(value.size().saturating_mul(times))?;
        Ok(value)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}
