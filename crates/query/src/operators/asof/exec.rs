//! The operator of an `ASOF` join: asks for both sides in the order of keys and time, and lets [`super::merge`] walk
//! them.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexOrdering, OrderingRequirements, PhysicalExpr,
    PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, Partitioning, PlanProperties, RecordBatchStream,
    ReplaceChildrenOptions, SendableRecordBatchStream, apply_expression_roots,
};
use futures::Stream;

use super::Matching;
use super::merge::Merge;

/// Keys and times of one side.
type Exprs = Vec<Arc<dyn PhysicalExpr>>;

#[derive(Debug)]
pub(crate) struct AsofJoinExec {
    sides: [Arc<dyn ExecutionPlan>; 2],
    schema: SchemaRef,
    exprs: [Exprs; 2],
    matching: Matching,
    orderings: [LexOrdering; 2],
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// The order of a key or a time. To find the earliest row after a time, both sides are walked backwards.
pub(super) fn sort_options(matching: Matching, is_time: bool) -> SortOptions {
    SortOptions {
        descending: is_time && matching.is_forward,
        nulls_first: false,
    }
}

impl AsofJoinExec {
    pub(crate) fn new(
        sides: [Arc<dyn ExecutionPlan>; 2],
        schema: SchemaRef,
        exprs: [Exprs; 2],
        matching: Matching,
    ) -> Result<Self> {
        let ordering = |exprs: &Exprs| {
            let last = exprs.len().saturating_sub(1);
            LexOrdering::new(exprs.iter().enumerate().map(|(place, expr)| {
                PhysicalSortExpr::new(Arc::clone(expr), sort_options(matching, place == last))
            }))
        };
        let [left, right] = &exprs;
        let (Some(left), Some(right)) = (ordering(left), ordering(right)) else {
            return internal_err!("an ASOF join compares times");
        };
        let [first, second] = &sides;
        let partitions = first.output_partitioning().partition_count();
        // The rows of the left side stay in their partition and order, at their places in the schema.
        let partitioning = if second.output_partitioning().partition_count() == partitions {
            match first.output_partitioning() {
                hash @ Partitioning::Hash(..) => hash.clone(),
                _ => Partitioning::UnknownPartitioning(partitions),
            }
        } else {
            Partitioning::UnknownPartitioning(partitions)
        };
        let mut equivalence = EquivalenceProperties::new(Arc::clone(&schema));
        equivalence.add_ordering(left.clone());
        let properties = PlanProperties::new(
            equivalence,
            partitioning,
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Self {
            sides,
            schema,
            exprs,
            matching,
            orderings: [left, right],
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

impl DisplayAs for AsofJoinExec {
    fn fmt_as(&self, _kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.matching.keeps_left {
            "Left"
        } else {
            "Inner"
        };
        write!(f, "AsofJoinExec: {kind}")?;
        let [left, right] = &self.exprs;
        let last = left.len().saturating_sub(1);
        for (place, (left, right)) in left.iter().zip(right).enumerate() {
            let operator = if place == last {
                self.matching.operator()
            } else {
                "="
            };
            write!(f, ", {left} {operator} {right}")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for AsofJoinExec {
    fn name(&self) -> &'static str {
        "AsofJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.sides.iter().collect()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let keys = |exprs: &Exprs| {
            let keys = exprs.split_last().map_or(&[][..], |(_, keys)| keys);
            if keys.is_empty() {
                Distribution::SinglePartition
            } else {
                Distribution::KeyPartitioned(keys.to_vec())
            }
        };
        InputDistributionRequirements::co_partitioned(self.exprs.iter().map(keys).collect())
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        let orderings = self.orderings.iter().cloned();
        orderings
            .map(|ordering| Some(OrderingRequirements::from(ordering)))
            .collect()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true, false]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.exprs.iter().flatten(), f)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok(sides) = <[Arc<dyn ExecutionPlan>; 2]>::try_from(children) else {
            return internal_err!("an ASOF join has two sides");
        };
        Ok(Arc::new(Self::new(
            sides,
            Arc::clone(&self.schema),
            self.exprs.clone(),
            self.matching,
        )?))
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
        let [left, right] = &self.sides;
        let partitions = left.output_partitioning().partition_count();
        if partitions != right.output_partitioning().partition_count() {
            return internal_err!("the sides of an ASOF join have different partitions");
        }
        let streams = [
            left.execute(partition, Arc::clone(&context))?,
            right.execute(partition, context)?,
        ];
        Ok(Box::pin(AsofStream {
            schema: Arc::clone(&self.schema),
            merge: Merge::new(
                streams,
                self.exprs.clone(),
                self.matching,
                Arc::clone(&self.schema),
            ),
            metrics: BaselineMetrics::new(&self.metrics, partition),
            has_ended: false,
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

struct AsofStream {
    schema: SchemaRef,
    merge: Merge,
    metrics: BaselineMetrics,
    has_ended: bool,
}

impl Stream for AsofStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        let elapsed = self.metrics.elapsed_compute().clone();
        let timer = elapsed.timer();
        let polled = self.merge.poll(context);
        drop(timer);
        if let Poll::Ready(Some(Err(_)) | None) = &polled {
            self.has_ended = true;
        }
        self.metrics.record_poll(polled)
    }
}

impl RecordBatchStream for AsofStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
