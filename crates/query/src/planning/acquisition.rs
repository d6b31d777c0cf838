//! `t AS OF ACQUISITION time`: the records of a table that the store had taken before an acquisition time.
//!
//! Does: plan such a table as its rows with `acq` below the time, and refuse a time up to which the store is not complete: rows
//! may still be added below it, and the same question would be answered otherwise later. Does not: read the clause
//! (`statement::rewrite` does), or know more of rows than when they were taken: those that were deleted since are gone.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{Column, DataFusionError, Result, ScalarValue};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{self, TableFactor, TableVersion, Value};
use nilometer_service::define::{ACQUIRED, lack_of_records};

use crate::error::{Error, Position};
use crate::semantics::zone::{Instant, Zone};
use crate::statement::name::position;
use crate::statement::params::time_text;
use crate::tables::table::Table;

/// Plans tables as they were known at a time.
#[derive(Debug)]
pub(crate) struct AsKnown {
    /// Where times without an offset are.
    pub(crate) zone: Zone,
    /// The time below which the snapshot has all records that will ever be stamped.
    pub(crate) complete_ns: i64,
    /// The statement is described before its parameters have values.
    pub(crate) is_described: bool,
}

impl RelationPlanner for AsKnown {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let TableFactor::Table {
            name,
            alias,
            version: Some(TableVersion::ForSystemTimeAsOf(time)),
            ..
        } = &relation
        else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let first = name.0.first().and_then(|part| part.as_ident());
        let at = first.and_then(|name| position(name.span));
        let time = self.time(time, at)?;
        let (shown, called) = (name.to_string(), alias.clone());
        if let TableFactor::Table { alias, version, .. } = &mut relation {
            *version = None;
            *alias = None;
        }
        let plan = context.plan(relation)?;
        let column = acquired(&plan).map_err(|lack| {
            refused(
                format!("AS OF ACQUISITION is of tables of TStorage's records, and {shown} is none: {lack}"),
                at,
            )
        })?;
        let plan = match time {
            None => plan,
            Some(before) => below(plan, column, before)?,
        };
        let planned = PlannedRelation::new(plan, called);
        Ok(RelationPlanning::Planned(Box::new(planned)))
    }
}

impl AsKnown {
    /// The time that is asked for; `None` = a parameter that has no value yet.
    fn time(&self, written: &ast::Expr, at: Option<Position>) -> Result<Option<i64>> {
        let no_time = "AS OF ACQUISITION takes a time as it is written, such as '2026-01-31 12:00:00Z', or a parameter";
        let Some((value, place)) = value_of(written) else {
            return Err(refused(no_time.to_owned(), at));
        };
        let at = place.or(at);
        let text = match value {
            Value::SingleQuotedString(text) => text,
            Value::Null if self.is_described => return Ok(None),
            _ => return Err(refused(no_time.to_owned(), at)),
        };
        let read = self.zone.read(text).map_err(|why| refused(why, at))?;
        let asked = match read {
            Instant::At(ns) => ns,
            Instant::Before => i64::MIN,
            Instant::After => i64::MAX,
        };
        if asked > self.complete_ns {
            let until = time_text(self.complete_ns);
            return Err(refused(
                format!(
                    "what was known at '{text}' is not complete yet: records may still be stamped before it, and the answer would not be the same again; ask for {until} or earlier"
                ),
                at,
            ));
        }
        Ok(Some(asked))
    }
}

/// The value that a time is written with, and where.
fn value_of(written: &ast::Expr) -> Option<(&Value, Option<Position>)> {
    match written {
        ast::Expr::Value(value) => Some((&value.value, position(value.span))),
        ast::Expr::TypedString(typed) => Some((&typed.value.value, position(typed.value.span))),
        ast::Expr::Nested(inner) | ast::Expr::Cast { expr: inner, .. } => value_of(inner),
        _ => None,
    }
}

/// The column of a plan that says when a record was taken; else why there is none.
fn acquired(plan: &LogicalPlan) -> std::result::Result<Column, String> {
    let LogicalPlan::TableScan(scan) = plan else {
        return Err(
            "it is a view or a part of WITH; write it behind the tables of its query".to_owned(),
        );
    };
    let provider = source_as_provider(&scan.source).map_err(|error| error.to_string())?;
    let Some(table) = provider.downcast_ref::<Table>() else {
        return Err("it is no table over time".to_owned());
    };
    match lack_of_records(table.table_schema()) {
        Some(lack) => Err(lack),
        None => Ok(Column::new(Some(scan.table_name.clone()), ACQUIRED)),
    }
}

/// The records that were taken before a time. Rows that lack theirs are no records.
fn below(plan: LogicalPlan, column: Column, before: i64) -> Result<LogicalPlan> {
    let (_, field) = plan.schema().qualified_field_from_column(&column)?;
    let before = match field.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            ScalarValue::TimestampNanosecond(Some(before), zone.clone())
        }
        _ => ScalarValue::Int64(Some(before)),
    };
    let condition = Expr::Column(column).lt(Expr::Literal(before, None));
    LogicalPlanBuilder::from(plan).filter(condition)?.build()
}

fn refused(message: String, position: Option<Position>) -> DataFusionError {
    DataFusionError::External(Box::new(Error::Plan { message, position }))
}
