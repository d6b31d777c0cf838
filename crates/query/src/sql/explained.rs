//! Plans as JSON, in the form in which `PostgreSQL`'s tools read them: `EXPLAIN (FORMAT JSON)`, also with ANALYZE.
//!
//! Does: name steps as `PostgreSQL` does where it has such a step, and say how many rows each is thought to make, and has made.
//! Does not: say costs, which nobody estimates here: they are 0.

use std::collections::HashMap;
use std::iter::Peekable;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::format::ExplainFormat;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::sql::parser::Statement as DfStatement;
use futures::StreamExt;
use nilometer_engine::SQL_TYPE;
use nilometer_service::Running;
use serde_json::{Map, Value, json};

use super::Sql;
use crate::answer::Answer;
use crate::error::Error;
use crate::limits::memory::pool;
use crate::limits::plan_time;
use crate::statement::Question;
use crate::statement::headings::Headings;
use crate::statement::name::NameScope;
use crate::tables::catalogue::ReadContext;

/// Whether a statement asks for its plan as JSON.
pub(super) fn is_asked(statement: &DfStatement) -> bool {
    matches!(statement, DfStatement::Explain(explain)
        if matches!(explain.options.format, Some(ExplainFormat::PostgresJSON)))
}

/// The only column of the answer.
pub(super) fn columns() -> SchemaRef {
    let said = HashMap::from([(SQL_TYPE.to_owned(), "json".to_owned())]);
    let field = Field::new("QUERY PLAN", DataType::Utf8, false).with_metadata(said);
    Arc::new(Schema::new(vec![field]))
}

/// A step of a plan.
struct Step {
    depth: usize,
    /// The name of the operator.
    name: String,
    details: String,
    /// Rows that it is thought to make.
    rows: Option<usize>,
    /// What was counted while it ran.
    metrics: Option<String>,
}

impl Sql {
    /// The plan of a query as JSON; of ANALYZE the query runs.
    pub(super) async fn explained(
        &self,
        reading: &ReadContext,
        place: &NameScope,
        question: Question,
        mut running: Running,
    ) -> Result<Answer, Error> {
        let DfStatement::Explain(mut explain) = question.statement else {
            return Err(Error::internal("a plan is asked for without EXPLAIN"));
        };
        let session = reading.session(place);
        let queries = &self.queries.planner;
        let asks = |statement: DfStatement| Question {
            statement,
            headings: Headings::default(),
        };
        // Who analyses is timed.
        let timings = running.timings().cloned();
        let now = || timings.as_ref().map_or(Duration::ZERO, |it| it.now());
        let began = now();
        let memory = pool(&running);
        let inner = asks(explain.statement.as_ref().clone());
        let planning = queries.plan(reading, &session, place, inner, None, &memory);
        let query = plan_time::within(&running, planning).await?;
        let planned = now();
        let mut steps = Vec::new();
        add(&query.plan, 0, &mut steps);
        let mut whole = Map::new();
        if explain.options.analyze {
            explain.options.format = None;
            let outer = asks(DfStatement::Explain(explain));
            let planning = queries.plan(reading, &session, place, outer, None, &memory);
            let query = plan_time::within(&running, planning).await?;
            let batches = self.queries.start(&session, query, &running)?;
            let mut answer = Answer::new(batches, running, self.options());
            let mut text = String::new();
            while let Some(batch) = answer.next().await {
                text.push_str(&metrics_of(&batch?));
            }
            running = answer.into_running();
            steps = joined(steps, measured(&text));
            let ms = |from: Duration, to: Duration| to.saturating_sub(from).as_secs_f64() * 1000.0;
            whole.insert("Planning Time".to_owned(), json!(ms(began, planned)));
            whole.insert("Triggers".to_owned(), json!([]));
            let execution = ms(planned, now());
            whole.insert("Execution Time".to_owned(), json!(execution));
        }
        let mut rest = steps.iter().peekable();
        whole.insert("Plan".to_owned(), tree(&mut rest).unwrap_or_default());
        let text = serde_json::to_string_pretty(&json!([whole]));
        let text = text.map_err(|error| Error::internal(error.to_string()))?;
        let array: ArrayRef = Arc::new(StringArray::from(vec![text]));
        let batch = RecordBatch::try_new(columns(), vec![array]);
        let batch = batch.map_err(|error| Error::internal(error.to_string()))?;
        Ok(Answer::of_batch(batch, running, self.options()))
    }
}

/// Adds a step and those below it, each before its own.
fn add(plan: &Arc<dyn ExecutionPlan>, depth: usize, steps: &mut Vec<Step>) {
    let shown = displayable(plan.as_ref()).one_line().to_string();
    let (name, details) = split(shown.trim());
    let rows = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new());
    let rows = rows.ok();
    let rows = rows.and_then(|it| it.num_rows.get_value().copied());
    steps.push(Step {
        depth,
        name,
        details,
        rows,
        metrics: None,
    });
    for child in plan.children() {
        add(child, depth + 1, steps);
    }
}

fn split(line: &str) -> (String, String) {
    let (name, details) = line.split_once(':').unwrap_or((line, ""));
    (name.trim().to_owned(), details.trim().to_owned())
}

/// The text of a plan with metrics, from the rows of EXPLAIN ANALYZE.
fn metrics_of(batch: &RecordBatch) -> String {
    let columns: Vec<_> = batch
        .columns()
        .iter()
        .filter_map(|column| column.as_string_opt::<i32>())
        .collect();
    let [kinds, plans] = columns.as_slice() else {
        return String::new();
    };
    let rows = kinds.iter().zip(plans.iter());
    let plans = rows.filter(|(kind, _)| *kind == Some("Plan with Metrics"));
    plans.filter_map(|(_, plan)| plan).collect()
}

/// Steps that ran: each has a line, two spaces further in than the one above it.
fn measured(text: &str) -> Vec<Step> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let steps = lines.map(|line| {
        let depth = (line.len() - line.trim_start().len()) / 2;
        let (shown, metrics) = match line.split_once(", metrics=[") {
            Some((shown, metrics)) => (shown, Some(metrics.trim_end_matches(']').to_owned())),
            None => (line, None),
        };
        let (name, details) = split(shown.trim());
        Step {
            depth,
            name,
            details,
            rows: None,
            metrics,
        }
    });
    steps.collect()
}

/// Steps that ran, with the rows that they were thought to make, where they are the planned ones.
fn joined(planned: Vec<Step>, mut ran: Vec<Step>) -> Vec<Step> {
    if ran.is_empty() {
        return planned;
    }
    let mut known = planned.into_iter();
    for step in &mut ran {
        if let Some(of) = known.find(|it| it.name == step.name) {
            step.rows = of.rows;
        }
    }
    ran
}

/// A step as JSON, with those below it.
fn tree<'a>(rest: &mut Peekable<impl Iterator<Item = &'a Step>>) -> Option<Value> {
    let step = rest.next()?;
    let mut node = step.node();
    let mut below = Vec::new();
    while rest.peek().is_some_and(|next| next.depth > step.depth) {
        below.extend(tree(rest));
    }
    if !below.is_empty() {
        node.insert("Plans".to_owned(), Value::Array(below));
    }
    Some(Value::Object(node))
}

impl Step {
    /// What `PostgreSQL` calls such a step; `None` = it has none.
    fn kind(&self) -> Option<&'static str> {
        Some(match self.name.as_str() {
            "RelationScan" if self.details.contains("key=(") => "Index Scan",
            "SeriesScan" | "RelationScan" | "SeriesExec" => "Seq Scan",
            "DataSourceExec" => "Values Scan",
            "SortExec" => "Sort",
            "SortPreservingMergeExec" => "Gather Merge",
            "CoalescePartitionsExec" => "Gather",
            "AggregateExec" => "Aggregate",
            "HashJoinExec" => "Hash Join",
            "SortMergeJoinExec" => "Merge Join",
            "NestedLoopJoinExec" | "CrossJoinExec" => "Nested Loop",
            "ProjectionExec" | "FilterExec" | "PlaceholderRowExec" | "EmptyExec" => "Result",
            "GlobalLimitExec" | "LocalLimitExec" => "Limit",
            "UnionExec" | "InterleaveExec" => "Append",
            "WindowAggExec" | "BoundedWindowAggExec" => "WindowAgg",
            "UnnestExec" => "ProjectSet",
            "RecursiveQueryExec" => "Recursive Union",
            _ => return None,
        })
    }

    fn metric(&self, name: &str) -> Option<&str> {
        let metrics = self.metrics.as_deref()?;
        let found = metrics.split(", ").find_map(|it| it.strip_prefix(name));
        found?.strip_prefix('=')
    }

    fn node(&self) -> Map<String, Value> {
        let mut node = Map::new();
        let mut put = |name: &str, value: Value| node.insert(name.to_owned(), value);
        if let Some(kind) = self.kind() {
            put("Node Type", kind.into());
        } else {
            put("Node Type", "Custom Scan".into());
            put("Custom Plan Provider", self.name.as_str().into());
        }
        put("Parallel Aware", false.into());
        put("Async Capable", false.into());
        if let Some((_, rest)) = self.details.split_once("table=") {
            let table = rest.split([',', ' ']).next().unwrap_or(rest);
            let bare = table.rsplit('.').next().unwrap_or(table);
            let bare = bare.trim_matches('"');
            put("Relation Name", bare.into());
            put("Alias", bare.into());
        }
        put("Startup Cost", json!(0.0));
        put("Total Cost", json!(0.0));
        let actual = self.metric("output_rows").and_then(count);
        let rows = self.rows.map(|rows| rows as u64).or(actual).unwrap_or(0);
        put("Plan Rows", rows.into());
        put("Plan Width", 0.into());
        if self.metrics.is_some() {
            let spent = self.metric("elapsed_compute").and_then(milliseconds);
            put("Actual Startup Time", json!(0.0));
            put("Actual Total Time", json!(spent.unwrap_or(0.0)));
            put("Actual Rows", actual.unwrap_or(0).into());
            put("Actual Loops", 1.into());
        }
        if self.name == "FilterExec" {
            put("Filter", self.details.as_str().into());
        }
        put("Operator", self.name.as_str().into());
        put("Details", self.details.as_str().into());
        node
    }
}

/// A number of rows as metrics have it: `12`, `1.50 K`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rows are a whole number and none below zero"
)]
fn count(text: &str) -> Option<u64> {
    let (digits, unit) = text.split_once(' ').unwrap_or((text, ""));
    let times: f64 = match unit {
        "" => 1.0,
        "K" => 1e3,
        "M" => 1e6,
        "B" => 1e9,
        _ => return None,
    };
    let value = digits.parse::<f64>().ok()? * times;
    (value >= 0.0).then_some(value.round() as u64)
}

/// A time as metrics have it: `12.3\u{b5}s`, `4ms`, `1.2s`.
fn milliseconds(text: &str) -> Option<f64> {
    let unit_at = text.find(|it: char| it != '.' && !it.is_ascii_digit())?;
    let (digits, unit) = text.split_at(unit_at);
    let value: f64 = digits.parse().ok()?;
    Some(match unit {
        "ns" => value / 1e6,
        "\u{b5}s" | "us" => value / 1e3,
        "ms" => value,
        "s" => value * 1e3,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_their_numbers_are_read_from_lines() {
        let text = "SortExec: expr=[a], metrics=[output_rows=3, elapsed_compute=1.5ms, x=2]\n  RelationScan: table=d.public.t, columns=[a], metrics=[output_rows=1.50 K, elapsed_compute=12\u{b5}s]\n";
        let steps = measured(text);
        let mut rest = steps.iter().peekable();
        let tree = tree(&mut rest).unwrap();
        assert_eq!(tree["Node Type"], "Sort");
        assert_eq!(tree["Actual Rows"], 3);
        assert_eq!(tree["Actual Total Time"], 1.5);
        let below = &tree["Plans"][0];
        assert_eq!(below["Node Type"], "Seq Scan");
        assert_eq!(below["Relation Name"], "t");
        assert_eq!(below["Actual Rows"], 1500);
        assert_eq!(below["Actual Total Time"], 0.012);
    }
}
