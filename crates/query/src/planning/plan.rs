//! From parsed statement to logical plan, and what is checked before it runs: writes, number of tables, listings.

use std::ops::ControlFlow;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, TableReference};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{DdlStatement, DmlStatement, LogicalPlan};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{self, Visitor};
use nilometer_service::Privilege;
use nilometer_service::define::{self, INFORMATION_SCHEMA, PG_CATALOG, SYSTEM_SCHEMA};

use crate::error::{Error, NO_FUNCTION, Position};
use crate::planning::bounds::bound_tables;
use crate::planning::enum_order;
use crate::semantics::clocks;
use crate::semantics::merged;
use crate::semantics::times;
use crate::semantics::zone::Zone;
use crate::statement::name::{NameScope, TableName, position};
use crate::tables::catalogue::{EXCLUDED, ReadContext};
use crate::tables::names;
use crate::tables::pg_catalog;
use crate::tables::relation;
use crate::tables::system;
use crate::walk;
use crate::walk::PlanWalk;

/// The plan of a query, with texts read as times in `zone` where they are times; or what is wrong with it.
pub(crate) async fn plan(
    reading: &ReadContext,
    session: &SessionState,
    place: &NameScope,
    statement: &DfStatement,
) -> Result<LogicalPlan, Error> {
    let plan = plan_as_asked(reading, session, place, statement).await?;
    let plan = read_times(plan, &reading.zone, statement)?;
    let ordered = enum_order::settled(&plan, || reading.enum_place(&place.database))?;
    Ok(ordered.unwrap_or(plan))
}

/// The plan of a query as it was written.
pub(crate) async fn plan_as_asked(
    reading: &ReadContext,
    session: &SessionState,
    place: &NameScope,
    statement: &DfStatement,
) -> Result<LogicalPlan, Error> {
    check_privileges(reading, session, place, statement)?;
    check_filters(session, statement)?;
    let plan = match merged::plan(session, statement).await {
        Ok(plan) => plan,
        Err(error) => {
            let error = explain(error.into(), session, reading, place, statement);
            return Err(explain_by_text(error, statement));
        }
    };
    only_reading(&plan)?;
    bound_tables(&plan, reading.shared.options.sql_operators_max)?;
    Ok(plan)
}

/// Refuses a statement that reads what its asker may not. A name that is nothing is a function of FROM, or told of when it is
/// looked up.
fn check_privileges(
    reading: &ReadContext,
    session: &SessionState,
    place: &NameScope,
    statement: &DfStatement,
) -> Result<(), Error> {
    for reference in session.resolve_table_references(statement)? {
        let resolved = reference.resolve(&place.database, &place.schema);
        let name = TableName {
            database: resolved.catalog.to_string(),
            schema: resolved.schema.to_string(),
            table: resolved.table.to_string(),
            position: None,
        };
        let is_rows = name.table == EXCLUDED || reading.is_nothing(&name);
        if !is_rows {
            reading.allow(Privilege::Read, &name)?;
        }
    }
    Ok(())
}

/// Refuses FILTER behind a function that is no aggregate: the planner would leave it out.
fn check_filters(session: &SessionState, statement: &DfStatement) -> Result<(), Error> {
    let mut wrong = None;
    if let DfStatement::Statement(statement) = inner_of(statement) {
        let _ = walk::expressions(statement.as_ref(), &mut |expr| {
            if let ast::Expr::Function(function) = expr
                && function.filter.is_some()
                && let Some(name) = function.name.0.last().and_then(|it| it.as_ident())
            {
                let known = name.value.to_lowercase();
                if session.scalar_functions().contains_key(&known)
                    && !session.aggregate_functions().contains_key(&known)
                {
                    wrong = Some(Error::Plan {
                        message: format!(
                            "FILTER specified, but {known} is not an aggregate function; write FILTER behind the aggregate \
                             inside of it"
                        ),
                        position: position(name.span),
                    });
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
    }
    wrong.map_or(Ok(()), Err)
}

/// A statement without EXPLAIN.
fn inner_of(statement: &DfStatement) -> &DfStatement {
    let mut inner = statement;
    while let DfStatement::Explain(explain) = inner {
        inner = &explain.statement;
    }
    inner
}

/// The plan with texts read as times where they are times, and with what clocks show in `zone` where it meets instants.
pub(crate) fn read_times(
    plan: LogicalPlan,
    zone: &Zone,
    statement: &DfStatement,
) -> Result<LogicalPlan, Error> {
    let read = times::read(plan, zone).and_then(|plan| clocks::settle(plan, zone));
    read.map_err(|error| explain_by_text(error.into(), statement))
}

/// Says where an error is that has no place but quotes a literal or names a function of the statement.
pub(crate) fn explain_by_text(error: Error, statement: &DfStatement) -> Error {
    let Error::Plan {
        message,
        position: None,
    } = error
    else {
        return error;
    };
    let mut found = Mentioned {
        message: &message,
        literal: None,
        function: None,
    };
    if let DfStatement::Statement(statement) = inner_of(statement) {
        walk::visit(statement.as_ref(), &mut found);
    }
    let position = found.function.or(found.literal);
    Error::Plan { message, position }
}

/// The first literal that a message quotes, and the first function that it begins with.
struct Mentioned<'a> {
    message: &'a str,
    literal: Option<Position>,
    function: Option<Position>,
}

impl Visitor for Mentioned<'_> {
    type Break = ();

    fn pre_visit_value(&mut self, value: &ast::ValueWithSpan) -> ControlFlow<()> {
        if let ast::Value::SingleQuotedString(text) = &value.value
            && self.literal.is_none()
            && !text.is_empty()
            && self.message.contains(&format!("'{text}'"))
        {
            self.literal = position(value.span);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
        if let ast::Expr::Function(function) = expr
            && self.function.is_none()
            && let Some(name) = function.name.0.last().and_then(|it| it.as_ident())
            && let Some(rest) = self.message.strip_prefix(NO_FUNCTION)
            && let Some((known, _)) = rest.split_once('(')
            && known.eq_ignore_ascii_case(&name.value)
        {
            self.function = position(name.span);
        }
        ControlFlow::Continue(())
    }
}

/// Whether something of it lists tables, columns or functions as the standard has it, in a view too.
pub(crate) fn reads_information_schema(plan: &LogicalPlan) -> Result<bool, DataFusionError> {
    let mut found = false;
    plan.walk(&mut |node| {
        if let LogicalPlan::TableScan(scan) = node {
            found = scan.table_name.schema() == Some(INFORMATION_SCHEMA)
                || match scan.source.get_logical_plan() {
                    Some(view) => reads_information_schema(&view)?,
                    None => false,
                };
        }
        Ok(if found {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    Ok(found)
}

/// Refuses what the statement's first word does not give away, such as `WITH ... INSERT`.
fn only_reading(plan: &LogicalPlan) -> Result<(), Error> {
    let statement = match plan {
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(_)) => "SELECT INTO".to_owned(),
        LogicalPlan::Ddl(_) => "a definition in a query".to_owned(),
        LogicalPlan::Dml(DmlStatement { op, .. }) => format!("{op} in a query"),
        LogicalPlan::Copy(_) => "COPY".to_owned(),
        LogicalPlan::Statement(_) => "SET".to_owned(),
        LogicalPlan::Explain(explain) => return only_reading(&explain.plan),
        LogicalPlan::Analyze(analyze) => return only_reading(&analyze.input),
        _ => return Ok(()),
    };
    Err(Error::Unsupported {
        statement,
        instead: "write it as a statement of its own",
    })
}

/// Says which table, schema or database is missing, where one is; else leaves the error as it was.
fn explain(
    error: Error,
    session: &SessionState,
    reading: &ReadContext,
    place: &NameScope,
    statement: &DfStatement,
) -> Error {
    if !matches!(error, Error::Plan { .. }) {
        return error;
    }
    let position = error.position();
    let references = session.resolve_table_references(statement);
    for reference in references.unwrap_or_default() {
        if let Some(missing) = missing(&reference, reading, place, position) {
            return missing;
        }
    }
    error
}

fn missing(
    reference: &TableReference,
    reading: &ReadContext,
    place: &NameScope,
    position: Option<Position>,
) -> Option<Error> {
    let resolved = reference.clone().resolve(&place.database, &place.schema);
    let name = TableName {
        database: resolved.catalog.to_string(),
        schema: resolved.schema.to_string(),
        table: resolved.table.to_string(),
        position,
    };
    let lack = lack_of(&name, reading)?;
    // Who may not read it is told the same as if it were there, and no other name.
    Some(reading.allow(Privilege::Read, &name).err().unwrap_or(lack))
}

/// What is wrong with a name; `None` = nothing.
fn lack_of(name: &TableName, reading: &ReadContext) -> Option<Error> {
    let position = name.position;
    let snapshot = &reading.snapshot;
    if let Err(missing) = names::find_database(snapshot, &name.database, position) {
        return Some(missing);
    }
    if pg_catalog::is_catalogue(&name.schema) {
        return pg_catalog::unknown_table(name);
    }
    if pg_catalog::has(PG_CATALOG, &name.table) {
        return None;
    }
    if name.schema == SYSTEM_SCHEMA {
        return system::unknown_table(name);
    }
    let is_table = snapshot.table(&name.database, &name.schema, &name.table);
    if is_table.is_some() || relation::find(snapshot, name).is_some() {
        return None;
    }
    let view = define::view(snapshot, &name.database, &name.schema, &name.table);
    if view.is_some() {
        let view_error = reading.view_error()?;
        return Some(Error::View {
            name: view_error.view,
            message: view_error.message,
            position,
        });
    }
    Some(names::unknown_table(snapshot, name))
}
