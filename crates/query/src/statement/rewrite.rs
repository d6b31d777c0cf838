//! Rewrites of `PostgreSQL` and `TimescaleDB` syntax that the parser or the planner lacks.
//!
//! Does: rewrite tokens (`ASOF JOIN`, `AS OF ACQUISITION`), then the tree (named arguments, `^`, `mod`, sketches, points of charts). Does not: look at types or
//! tables; what a rewritten call means is decided in `function` and in the rules of `asof` and `gapfill`.

pub(crate) mod acquisition;
mod arrays;
mod calls;
mod casts;
pub(super) mod catalogue;
mod clauses;
mod distinct;
mod enums;
mod exact;
mod grouping;
mod json;
mod operators;
mod rows;
mod sets;
mod summaries;
mod unnest;

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, LimitClause, Query, TableFactor, TimezoneInfo, Value, VisitorMut,
};

use crate::error::Error;
use crate::function::bytes::{DECODE_ESCAPE, ENCODE_ESCAPE};
use crate::function::{AT_TIME_ZONE, GAPFILL, INTERPOLATE, LOCF, TIME_BUCKET, TIME_BY_PATTERN};
use crate::statement::types::{cast, null};
use crate::walk;

pub(crate) use calls::call_of;
use calls::{call, interval, named, of_one, one};
pub(crate) use clauses::join::asof_joins;
pub(crate) use clauses::{explain_options, insert_alias, merge, overriding};
pub(crate) use enums::casts_to_own;
pub(crate) use operators::exists::question_marks;
pub(crate) use operators::symmetric::between_symmetric;
use operators::{any, like, modulo, others, precedence, similar, symmetric};

/// Puts conditions together as `PostgreSQL` reads them, in a statement whose parameters have no values yet: their types come from
/// where they stand.
pub(super) fn conditions(statement: &mut ast::Statement) {
    struct Conditions;

    impl VisitorMut for Conditions {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            distinct::rebalance(expr);
            ControlFlow::Continue(())
        }
    }

    walk::visit_mut(statement, &mut Conditions);
}

/// Rewrites a statement in place.
pub(crate) fn rewrite(statement: &mut ast::Statement) -> Result<(), Error> {
    // All of them before anything else, which looks at the operands.
    let _ = walk::expressions_mut(statement, &mut |expr| {
        precedence::rebalance(expr);
        others::rebalance(expr);
        ControlFlow::Continue(())
    });
    let mut chains = Chains {
        copies: rows::Copies::new(),
        failed: None,
    };
    walk::visit_mut(statement, &mut chains);
    if let Some(error) = chains.failed {
        return Err(error);
    }
    let mut failed = None;
    let summaries = summaries::Named::in_statement(statement);
    let _ = walk::expressions_mut(statement, &mut |expr| {
        summaries.rewrite(expr);
        modulo::rewrite(expr);
        arrays::rewrite(expr);
        any::rewrite(expr);
        like::rewrite(expr);
        name_tuple(expr);
        name_time_zone(expr);
        truncate_in_zone(expr);
        truncate_below_a_second(expr);
        exact::rewrite(expr);
        json::rewrite(expr);
        enums::rewrite(expr);
        if let Err(error) = similar::rewrite(expr).and_then(|()| grouping::rewrite(expr)) {
            failed = Some(error);
            return ControlFlow::Break(());
        }
        if let Expr::Function(function) = expr {
            if let Some(error) = without_value(function).or_else(|| distinct_pairs(function)) {
                failed = Some(error);
                return ControlFlow::Break(());
            }
            match function.name.to_string().to_lowercase().as_str() {
                TIME_BUCKET => name_time_bucket_arguments(function),
                GAPFILL => place_arguments(function, &GAPFILL_PARAMETERS),
                LOCF => place_arguments(function, &LOCF_PARAMETERS),
                INTERPOLATE => place_arguments(function, &INTERPOLATE_PARAMETERS),
                "age" => age_until_today(function),
                "encode" | "decode" => {
                    pad_base64(function);
                    by_escapes(function);
                }
                "to_date" | "to_timestamp" => {
                    if let Some(read) = read_by_pattern(function) {
                        *expr = read;
                    }
                }
                "array_remove" if removes_null(function) => without_nulls(function),
                "array_remove" => change_all(function, "array_remove_n", 2),
                "array_agg" | "string_agg" => order_distinct(function),
                "array_replace" => change_all(function, "array_replace_n", 3),
                _ => {}
            }
        }
        ControlFlow::Continue(())
    });
    if let Some(error) = failed {
        return Err(error);
    }
    walk::visit_mut(statement, &mut Tables { summaries });
    Ok(())
}

/// `to_date(text, 'YYYY-MM-DD')` and `to_timestamp(text, pattern)` as casts of what the pattern reads, which is in the session's zone. A
/// pattern with `%` is one of the library's.
fn read_by_pattern(function: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let [
        FunctionArg::Unnamed(FunctionArgExpr::Expr(text)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(pattern)),
    ] = list.args.as_slice()
    else {
        return None;
    };
    let is_foreign = matches!(
        pattern,
        Expr::Value(value)
            if matches!(&value.value, Value::SingleQuotedString(text) if text.contains('%'))
    );
    if is_foreign {
        return None;
    }
    let read = call_of(TIME_BY_PATTERN, vec![text.clone(), pattern.clone()]);
    let is_date = function.name.to_string().eq_ignore_ascii_case("to_date");
    Some(if is_date {
        let time = cast(read, DataType::Timestamp(None, TimezoneInfo::None));
        cast(time, DataType::Date)
    } else {
        cast(read, DataType::Timestamp(None, TimezoneInfo::Tz))
    })
}

/// Functions over windows that the library takes to have a value.
const OF_A_VALUE: [&str; 5] = ["first_value", "last_value", "nth_value", "lag", "lead"];

/// What is wrong with a call over a window that has no argument.
fn without_value(function: &Function) -> Option<Error> {
    let has_none = match &function.args {
        FunctionArguments::None => true,
        FunctionArguments::List(list) => list.args.is_empty(),
        FunctionArguments::Subquery(_) => false,
    };
    let name = function.name.to_string().to_lowercase();
    let is_wrong = has_none && function.over.is_some() && OF_A_VALUE.contains(&name.as_str());
    is_wrong.then(|| Error::Plan {
        message: format!("{name} takes a value: {name}(value) OVER (...)"),
        position: None,
    })
}

/// Aggregates of pairs, beside `regr_*`.
const OF_PAIRS: [&str; 5] = ["corr", "covar", "covar_pop", "covar_samp", "covariance"];

/// DISTINCT in an aggregate of pairs. `DataFusion` 55.2.0 has no accumulator for distinct pairs and ends with an internal error.
fn distinct_pairs(function: &Function) -> Option<Error> {
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let name = function.name.to_string().to_lowercase();
    let is_wrong = list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct)
        && (OF_PAIRS.contains(&name.as_str()) || name.starts_with("regr_"));
    is_wrong.then(|| Error::Plan {
        message: format!(
            "{name}(DISTINCT a, b) is not supported: take the pairs once in a subquery, {name}(a, b) of (SELECT DISTINCT a, b FROM ...)"
        ),
        position: None,
    })
}

/// Puts conditions together again, the whole of a chain before its parts, and takes comparisons of rows apart.
struct Chains {
    copies: rows::Copies,
    failed: Option<Error>,
}

impl VisitorMut for Chains {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut ast::Select) -> ControlFlow<()> {
        match clauses::counted::check(select) {
            None => ControlFlow::Continue(()),
            failed => {
                self.failed = failed;
                ControlFlow::Break(())
            }
        }
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        distinct::rebalance(expr);
        let spelled = symmetric::rewrite(expr, &mut self.copies);
        match spelled.and_then(|()| rows::rewrite(expr, &mut self.copies)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

/// Rewrites what stands in FROM, and after ORDER BY.
struct Tables {
    summaries: summaries::Named,
}

impl VisitorMut for Tables {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut ast::Select) -> ControlFlow<()> {
        sets::laterals::of_select(select);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        limit_as_fetched(query);
        clauses::distinct_on::in_order(query);
        sets::of_query(query);
        casts::rewrite(query);
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        self.summaries.rows(table);
        sets::of_table(table);
        unnest::rewrite(table);
        acquisition::rewrite(table);
        ControlFlow::Continue(())
    }
}

/// `FETCH FIRST n ROWS ONLY` as `LIMIT n`. Shares, ties, and both at once are left for the planner to refuse.
fn limit_as_fetched(query: &mut Query) {
    let Some(fetch) = &mut query.fetch else {
        return;
    };
    if fetch.percent || fetch.with_ties {
        return;
    }
    let rows = || Some(fetch.quantity.clone().unwrap_or_else(one));
    match &mut query.limit_clause {
        None => {
            query.limit_clause = Some(LimitClause::LimitOffset {
                limit: rows(),
                offset: None,
                limit_by: Vec::new(),
            });
        }
        Some(LimitClause::LimitOffset {
            limit: limit @ None,
            ..
        }) => *limit = rows(),
        Some(_) => return,
    }
    query.fetch = None;
}

/// `(a, b)` as a call of `struct`: the planner takes a tuple only if it begins with a name or a literal.
fn name_tuple(expr: &mut Expr) {
    let Expr::Tuple(values) = expr else {
        return;
    };
    if let None | Some(Expr::Identifier(_) | Expr::Value(_)) = values.first() {
        return;
    }
    let args = std::mem::take(values).into_iter();
    let args = args
        .map(|value| FunctionArg::Unnamed(FunctionArgExpr::Expr(value)))
        .collect();
    *expr = call("struct", args);
}

/// `time AT TIME ZONE zone` as the call that it is in `PostgreSQL`; the planner's own keeps an instant as it is. A text is a time
/// with a zone.
fn name_time_zone(expr: &mut Expr) {
    let Expr::AtTimeZone {
        timestamp,
        time_zone,
    } = expr
    else {
        return;
    };
    let time = std::mem::replace(timestamp.as_mut(), null());
    let zone = std::mem::replace(time_zone.as_mut(), null());
    let is_text =
        matches!(&time, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)));
    let time = if is_text {
        cast(time, DataType::Timestamp(None, TimezoneInfo::Tz))
    } else {
        time
    };
    let args = [zone, time].into_iter();
    let args = args.map(|value| FunctionArg::Unnamed(FunctionArgExpr::Expr(value)));
    *expr = call(AT_TIME_ZONE, args.collect());
}

/// `date_trunc(unit, time, zone)` as what `PostgreSQL` says it is: the clock of the zone, cut off, and the instant at which it
/// shows that.
fn truncate_in_zone(expr: &mut Expr) {
    let Expr::Function(function) = expr else {
        return;
    };
    let FunctionArguments::List(list) = &mut function.args else {
        return;
    };
    let [
        _,
        FunctionArg::Unnamed(FunctionArgExpr::Expr(time)),
        FunctionArg::Unnamed(zone),
    ] = list.args.as_mut_slice()
    else {
        return;
    };
    if !function.name.to_string().eq_ignore_ascii_case("date_trunc") {
        return;
    }
    let zone = FunctionArg::Unnamed(zone.clone());
    let instant = cast(
        std::mem::replace(time, null()),
        DataType::Timestamp(None, TimezoneInfo::Tz),
    );
    let instant = FunctionArg::Unnamed(FunctionArgExpr::Expr(instant));
    *time = call(AT_TIME_ZONE, vec![zone.clone(), instant]);
    list.args.truncate(2);
    let clock = std::mem::replace(expr, null());
    let clock = FunctionArg::Unnamed(FunctionArgExpr::Expr(clock));
    *expr = call(AT_TIME_ZONE, vec![zone, clock]);
}

/// `date_trunc('millisecond', time)` by `date_bin`: the library's goes up where the time is before 1970.
fn truncate_below_a_second(expr: &mut Expr) {
    let Expr::Function(function) = expr else {
        return;
    };
    let FunctionArguments::List(list) = &function.args else {
        return;
    };
    let [
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(unit))),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(time)),
    ] = list.args.as_slice()
    else {
        return;
    };
    let is_trunc = function.name.to_string().eq_ignore_ascii_case("date_trunc");
    let Value::SingleQuotedString(unit) = &unit.value else {
        return;
    };
    let width = match unit.to_lowercase().as_str() {
        "millisecond" | "milliseconds" => "1 millisecond",
        "microsecond" | "microseconds" => "1 microsecond",
        _ => return,
    };
    if !is_trunc {
        return;
    }
    let width = Value::SingleQuotedString(width.to_owned());
    let interval = DataType::Interval {
        fields: None,
        precision: None,
    };
    let width = cast(Expr::Value(width.into()), interval);
    // A text without a type is an instant, as PostgreSQL has it.
    let time = match time {
        Expr::Value(_) => cast(time.clone(), DataType::Timestamp(None, TimezoneInfo::Tz)),
        time => time.clone(),
    };
    let args = [width, time].into_iter();
    let args = args.map(|value| FunctionArg::Unnamed(FunctionArgExpr::Expr(value)));
    *expr = call("date_bin", args.collect());
}

/// `array_remove` and `array_replace` as `PostgreSQL` has them: they change every element that is equal, the library's change the first.
/// Not by its `..._all`, whose name may stand beside it.
fn change_all(function: &mut Function, counted: &str, args: usize) {
    if let FunctionArguments::List(list) = &mut function.args
        && list.args.len() == args
    {
        let every = Value::Number(i64::MAX.to_string(), false);
        let every = FunctionArgExpr::Expr(Expr::value(every));
        list.args.push(FunctionArg::Unnamed(every));
        function.name = of_one(counted);
    }
}

/// `array_agg(DISTINCT x)` in the order of `x`, as `PostgreSQL` sorts to find what is equal; the library's order is any.
fn order_distinct(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else {
        return;
    };
    let is_ordered =
        |clause: &FunctionArgumentClause| matches!(clause, FunctionArgumentClause::OrderBy(_));
    if list.duplicate_treatment != Some(ast::DuplicateTreatment::Distinct)
        || list.clauses.iter().any(is_ordered)
        || function.over.is_some()
    {
        return;
    }
    if let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(value))) = list.args.first() {
        let order = ast::OrderByExpr {
            expr: value.clone(),
            options: ast::OrderByOptions {
                asc: None,
                nulls_first: None,
            },
            with_fill: None,
        };
        list.clauses
            .push(FunctionArgumentClause::OrderBy(vec![order]));
    }
}

/// Whether it is `array_remove(list, NULL)`, for which the library's answer is NULL.
fn removes_null(function: &Function) -> bool {
    let FunctionArguments::List(list) = &function.args else {
        return false;
    };
    let [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(element))] = list.args.as_slice() else {
        return false;
    };
    let element = match element {
        Expr::Cast { expr, .. } => expr,
        element => element,
    };
    matches!(element, Expr::Value(value) if value.value == Value::Null)
}

fn without_nulls(function: &mut Function) {
    if let FunctionArguments::List(list) = &mut function.args {
        list.args.truncate(1);
        function.name = of_one("array_compact");
    }
}

/// `age(time)` as `PostgreSQL` has it: until the midnight that today began with.
fn age_until_today(function: &mut Function) {
    if let FunctionArguments::List(list) = &mut function.args
        && list.args.len() == 1
    {
        let today = call("current_date", Vec::new());
        let midnight = cast(today, DataType::Timestamp(None, TimezoneInfo::None));
        let midnight = FunctionArg::Unnamed(FunctionArgExpr::Expr(midnight));
        list.args.insert(0, midnight);
    }
}

/// `encode(bytes, 'base64')` with `=` at its end, as `PostgreSQL` writes it.
fn pad_base64(function: &mut Function) {
    if let FunctionArguments::List(list) = &mut function.args
        && let [
            _,
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(format))),
        ] = list.args.as_mut_slice()
        && let Value::SingleQuotedString(name) = &mut format.value
        && name.eq_ignore_ascii_case("base64")
    {
        "base64pad".clone_into(name);
    }
}

/// `encode(bytes, 'escape')` and `decode(text, 'escape')` as calls of their own.
fn by_escapes(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else {
        return;
    };
    let [
        _,
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(format))),
    ] = list.args.as_slice()
    else {
        return;
    };
    let is_so = matches!(&format.value, Value::SingleQuotedString(name) if name.eq_ignore_ascii_case("escape"));
    if is_so {
        list.args.truncate(1);
        let is_read = function.name.to_string().eq_ignore_ascii_case("decode");
        function.name = of_one(if is_read {
            DECODE_ESCAPE
        } else {
            ENCODE_ESCAPE
        });
    }
}

const GAPFILL_PARAMETERS: [&str; 5] = ["bucket_width", "ts", "timezone", "start", "finish"];
const LOCF_PARAMETERS: [&str; 3] = ["value", "prev", "treat_null_as_missing"];
const INTERPOLATE_PARAMETERS: [&str; 3] = ["value", "prev", "next"];

/// Puts named arguments into their places, with NULL for those that were left out. What does not fit is left as it
/// was, for the planner to refuse.
fn place_arguments(function: &mut Function, parameters: &[&str]) {
    let FunctionArguments::List(list) = &mut function.args else {
        return;
    };
    if !list.args.iter().any(|argument| named(argument).is_some()) {
        return;
    }
    let mut placed: Vec<Option<FunctionArgExpr>> = vec![None; parameters.len()];
    for (position, argument) in list.args.iter().enumerate() {
        let (place, value) = match (named(argument), argument) {
            (Some((name, value)), _) => {
                let place = parameters
                    .iter()
                    .position(|parameter| name.value.eq_ignore_ascii_case(parameter));
                let Some(place) = place else { return };
                (place, value.clone())
            }
            (None, FunctionArg::Unnamed(value)) => (position, value.clone()),
            _ => return,
        };
        match placed.get_mut(place) {
            Some(free @ None) => *free = Some(value),
            _ => return,
        }
    }
    let given = placed
        .iter()
        .rposition(Option::is_some)
        .map_or(0, |place| place + 1);
    // The places of the longer form are told apart by types, so that one is written out whole.
    let length = if parameters.len() > 3 {
        parameters.len()
    } else {
        given
    };
    list.args = placed
        .into_iter()
        .take(length)
        .map(|value| FunctionArg::Unnamed(value.unwrap_or_else(|| FunctionArgExpr::Expr(null()))))
        .collect();
}

/// Gives the named arguments of `time_bucket` their types. `PostgreSQL` finds the overload by the name and so knows
/// that a text after `origin =>` is a time; here a function's arguments are told apart by type alone.
fn name_time_bucket_arguments(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else {
        return;
    };
    for argument in &mut list.args {
        let Some((name, FunctionArgExpr::Expr(value))) = named(argument) else {
            continue;
        };
        let value = value.clone();
        let value = match name.value.to_lowercase().as_str() {
            // Of another type it is as it is: a date or a clock belongs to a time that is one.
            "origin" if matches!(&value, Expr::Value(it) if matches!(it.value, Value::SingleQuotedString(_))) => {
                cast(value, DataType::Timestamp(None, TimezoneInfo::Tz))
            }
            "offset" => interval(value),
            "origin" | "bucket_width" | "ts" | "timezone" => value,
            _ => continue,
        };
        *argument = FunctionArg::Unnamed(FunctionArgExpr::Expr(value));
    }
}
