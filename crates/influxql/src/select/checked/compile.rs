//! Checks of a SELECT that need no database: its times, groups and queries inside.
//!
//! Does: refuse what InfluxDB refuses, in its words and in its order. Does not: look up names (`names`).

use nilometer_influxql_syntax::ast::{Call, Expr, Select, Source};

use crate::select::checked::arguments::{Checked, refuse};
use crate::select::checked::condition::{self, Clock, TIME_MAX, TIME_MIN, divided, parse_time};
use crate::select::checked::fields::Checker;
use crate::select::checked::fold::folded;
use crate::select::checked::window::Window;

/// A SELECT that was checked, with its constants calculated.
#[derive(Debug, Clone)]
pub(crate) struct Compiled {
    /// Fields without `time`, with `DISTINCT x` as a call.
    pub(crate) select: Select,
    /// What is left of the condition without the time.
    pub(crate) condition: Option<Expr>,
    pub(crate) first_ns: i64,
    pub(crate) last_ns: i64,
    pub(crate) window: Option<Window>,
    pub(crate) ascending: bool,
    pub(crate) time_name: String,
    /// Queries among the sources, by their place.
    pub(crate) nested: Vec<Option<Box<Compiled>>>,
}

/// What the query around a query says of it.
#[derive(Debug, Clone, Copy)]
struct Around {
    ascending: bool,
    window: Option<Window>,
}

pub(crate) fn compile(select: &Select, now_ns: i64) -> Checked<Compiled> {
    compile_in(select, now_ns, None)
}

fn compile_in(select: &Select, now_ns: i64, around: Option<Around>) -> Checked<Compiled> {
    let zone = zone_of(select);
    let clock = Clock { now_ns, zone };
    let (condition, range) = divided(select.condition.as_ref(), clock)?;
    condition.as_ref().map_or(Ok(()), condition::check)?;
    let mut select = select.clone();
    let own = dimensions(&mut select, clock)?;
    let mut ascending = !select.is_descending();
    if let Some(around) = around {
        if !select.order.is_empty() && ascending != around.ascending {
            return refuse("subqueries must be ordered in the same direction as the query itself");
        }
        ascending = around.ascending;
    }
    let inherited = own.is_none() && around.is_some_and(|around| around.window.is_some());
    let window = own.or(around.and_then(|around| around.window));
    let mut checker = Checker {
        has_window: window.is_some(),
        inherited,
        only_selectors: true,
        limit: select.limit,
        has_target: select.target.is_some(),
        calls: 0,
        has_distinct: false,
        top_bottom: None,
        has_references: false,
        allows_wildcard: true,
    };
    let mut time_name = "time".to_owned();
    let mut fields = Vec::with_capacity(select.fields.len());
    for mut field in std::mem::take(&mut select.fields) {
        if matches!(&field.expr, Expr::Reference(reference) if reference.name == "time") {
            if let Some(alias) = field.alias {
                time_name = alias;
            }
            continue;
        }
        field.expr = folded(&field.expr);
        checker.allows_wildcard = true;
        checker.field(&field.expr)?;
        field.expr = with_distinct(field.expr);
        fields.push(field);
    }
    select.fields = fields;
    checker.together(&select)?;
    let mut nested = Vec::with_capacity(select.sources.len());
    for source in &select.sources {
        nested.push(match source {
            Source::Subquery(inner) => {
                let around = Around { ascending, window };
                Some(Box::new(compile_in(inner, now_ns, Some(around))?))
            }
            Source::Measurement(_) => None,
        });
    }
    let latest = if window.is_some() && around.is_none() {
        now_ns
    } else {
        TIME_MAX
    };
    Ok(Compiled {
        select,
        condition,
        first_ns: range.first.unwrap_or(TIME_MIN),
        last_ns: range.last.unwrap_or(latest),
        window: own,
        ascending,
        time_name,
        nested,
    })
}

pub(crate) fn zone_of(select: &Select) -> Option<chrono_tz::Tz> {
    let name = select.zone.as_deref()?;
    name.parse().ok()
}

/// `DISTINCT x` as the call that it is.
fn with_distinct(expr: Expr) -> Expr {
    match expr {
        Expr::Distinct(name) => Expr::Call(Call {
            name: "distinct".to_owned(),
            arguments: vec![Expr::name(&name)],
        }),
        Expr::Call(call) => Expr::Call(Call {
            name: call.name,
            arguments: call.arguments.into_iter().map(with_distinct).collect(),
        }),
        Expr::Binary(operator, left, right) => Expr::Binary(
            operator,
            Box::new(with_distinct(*left)),
            Box::new(with_distinct(*right)),
        ),
        Expr::Paren(inner) => Expr::Paren(Box::new(with_distinct(*inner))),
        other => other,
    }
}

/// Checks GROUP BY and finds its buckets.
fn dimensions(select: &mut Select, clock: Clock) -> Checked<Option<Window>> {
    let mut window: Option<Window> = None;
    for dimension in &mut select.dimensions {
        *dimension = folded(dimension);
        match dimension {
            Expr::Reference(reference) if reference.name.eq_ignore_ascii_case("time") => {
                return refuse("time() is a function and expects at least one argument");
            }
            Expr::Reference(_) | Expr::Wildcard(_) | Expr::Regex(_) => {}
            Expr::Call(call) => {
                if call.name != "time" {
                    return refuse("only time() calls allowed in dimensions");
                }
                if !(1..=2).contains(&call.arguments.len()) {
                    return refuse("time dimension expected 1 or 2 arguments");
                }
                let Some(Expr::Duration(width)) = call.arguments.first() else {
                    return refuse("time dimension must have duration argument");
                };
                if window.is_some() {
                    return refuse("multiple time dimensions not allowed");
                }
                let offset = offset(call.arguments.get(1), *width, clock)?;
                window = Some(Window {
                    width: *width,
                    offset,
                    zone: clock.zone,
                });
            }
            _ => return refuse("only time and tag dimensions allowed"),
        }
    }
    // A width that is not above 0 is none.
    Ok(window.filter(|window| window.width > 0))
}

fn offset(argument: Option<&Expr>, width: i64, clock: Clock) -> Checked<i64> {
    let wrong = "time dimension offset must be duration or now()";
    let into = |time: i128| {
        // Go counts from the year 1.
        const YEAR_ONE_NS: i128 = 62_135_596_800 * 1_000_000_000;
        let into = (time + YEAR_ONE_NS).rem_euclid(i128::from(width.max(1)));
        Ok(i64::try_from(into).unwrap_or_default())
    };
    match argument {
        None => Ok(0),
        Some(Expr::Duration(ns)) => Ok(if width == 0 { 0 } else { ns % width }),
        Some(Expr::Call(call)) if call.name != "now" => {
            refuse("time dimension offset function must be now()")
        }
        Some(Expr::Call(call)) if !call.arguments.is_empty() => {
            refuse("time dimension offset now() function requires no arguments")
        }
        Some(Expr::Call(_)) => into(i128::from(clock.now_ns)),
        Some(Expr::Text(text)) => match parse_time(text, clock.zone)? {
            Some(time) => into(time),
            None => refuse(wrong),
        },
        Some(_) => refuse(wrong),
    }
}
