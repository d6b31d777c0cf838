//! Windows, charged to the query's memory: the planner's operators for them count nothing of what they hold.
//!
//! A window of all rows keeps its whole input until its last row has come. An aggregate whose value grows with its frame, such
//! as `array_agg`, makes that value again for each row: of three million rows with all rows before each, a trillion numbers.
//! Does: count both, so that such a query ends with the error of the limit that it meets. Does not: change what windows say,
//! or count frames of a few rows, whose values grow no further.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::expr::{Expr, WindowFunctionParams};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, LogicalPlan, ReversedUDAF, SetMonotonicity,
    Signature, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::{Stream, StreamExt};

/// Aggregates whose value is as large as all that they were given.
const GROWING: [&str; 2] = ["array_agg", "string_agg"];

/// A frame of no more rows makes values that are let go batch by batch.
const FRAME_ROWS_FREE: u64 = 1000;

/// The plan with its growing windows charged to this memory.
pub(crate) fn charge(plan: LogicalPlan, memory: &Arc<dyn MemoryPool>) -> Result<LogicalPlan> {
    if !has_growing(&plan)? {
        return Ok(plan);
    }
    let memory = Arc::new(MemoryConsumer::new("values of windows").register(memory));
    plan.transform_up_with_subqueries(|node| {
        node.map_expressions(|expr| {
            expr.transform_up(|mut expr| {
                if let Some(fun) = growing(&expr)
                    && let Expr::WindowFunction(window) = &mut expr
                {
                    let growing = Growing {
                        inner: fun,
                        is_repeated: is_whole(&window.params),
                        memory: Arc::clone(&memory),
                    };
                    window.fun = WindowFunctionDefinition::AggregateUDF(Arc::new(
                        AggregateUDF::new_from_impl(growing),
                    ));
                    return Ok(Transformed::yes(expr));
                }
                Ok(Transformed::no(expr))
            })
        })
    })
    .data()
}

fn has_growing(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        if matches!(node, LogicalPlan::Window(_)) {
            node.apply_expressions(|expr| {
                found |= expr.exists(|expr| Ok(growing(expr).is_some()))?;
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// The aggregate of a window whose values have no bound of their own.
fn growing(expr: &Expr) -> Option<Arc<AggregateUDF>> {
    let Expr::WindowFunction(window) = expr else {
        return None;
    };
    let WindowFunctionDefinition::AggregateUDF(fun) = &window.fun else {
        return None;
    };
    let grows = GROWING.contains(&fun.name()) && fun.inner().downcast_ref::<Growing>().is_none();
    (grows && !is_short(&window.params.window_frame)).then(|| Arc::clone(fun))
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

/// An aggregate in a window, whose values are charged as they are made. All of them are held until the query ends, as far
/// as anybody knows.
#[derive(Debug)]
struct Growing {
    inner: Arc<AggregateUDF>,
    is_repeated: bool,
    memory: Arc<MemoryReservation>,
}

// Two are the same if what they charge for is: there is one memory in a plan.
impl PartialEq for Growing {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Eq for Growing {}

impl Hash for Growing {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl Growing {
    fn counted(&self, inner: Box<dyn Accumulator>) -> Box<dyn Accumulator> {
        Box::new(Counted {
            inner,
            is_repeated: self.is_repeated,
            rows: 0,
            memory: Arc::clone(&self.memory),
        })
    }
}

impl AggregateUDFImpl for Growing {
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
        Ok(self.counted(self.inner.accumulator(args)?))
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        Ok(self.counted(self.inner.create_sliding_accumulator(args)?))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::NotSupported
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

    fn set_monotonicity(&self, _data_type: &DataType) -> SetMonotonicity {
        SetMonotonicity::NotMonotonic
    }
}

#[derive(Debug)]
struct Counted {
    inner: Box<dyn Accumulator>,
    is_repeated: bool,
    rows: usize,
    memory: Arc<MemoryReservation>,
}

impl Accumulator for Counted {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.rows += values.first().map_or(0, Array::len);
        self.inner.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let value = self.inner.evaluate()?;
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

/// The plan in which what windows of all rows take in is charged.
pub(crate) fn hold(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|plan| {
        let Some(window) = plan.downcast_ref::<WindowAggExec>() else {
            return Ok(Transformed::no(plan));
        };
        let input = Arc::clone(window.input());
        let held: Arc<dyn ExecutionPlan> = Arc::new(Held { input });
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
        let held = plan.replace_children(vec![held], options)?;
        Ok(Transformed::yes(held))
    })
    .data()
}

/// What is below a window of all rows. The rows are charged twice, because the window puts all of a part into one batch.
#[derive(Debug)]
struct Held {
    input: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for Held {
    fn fmt_as(&self, _kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held")
    }
}

impl ExecutionPlan for Held {
    fn name(&self) -> &'static str {
        "Held"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = <[_; 1]>::try_from(children).map_err(|_| {
            DataFusionError::Internal("what is held comes from one operator".to_owned())
        })?;
        Ok(Arc::new(Self { input }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let memory = MemoryConsumer::new("rows of windows").register(context.memory_pool());
        Ok(Box::pin(HeldStream {
            input: self.input.execute(partition, context)?,
            memory,
        }))
    }
}

/// Passes batches on, and gives their memory back when the window is done with it and lets it go.
struct HeldStream {
    input: SendableRecordBatchStream,
    memory: MemoryReservation,
}

impl Stream for HeldStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = ready!(self.input.poll_next_unpin(context));
        Poll::Ready(match item {
            Some(Ok(batch)) => {
                let grown = self.memory.try_grow(batch.get_array_memory_size() * 2);
                Some(grown.map(|()| batch))
            }
            other => other,
        })
    }
}

impl RecordBatchStream for HeldStream {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
