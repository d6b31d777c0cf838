//! Clocks and instants: a time without a zone, or a date, that meets a time with one is what the clock of the session shows.
//!
//! The planner settles such a pair on times with a zone too, but reads the clock in UTC whatever the session's zone is.
//!
//! Does: turn clocks into instants where they are compared with instants, joined, cast to them or stand in one column with them;
//! turn instants into what the clock of the session shows where they are cast to times without a zone or to dates, and where they are
//! taken apart (`extract`, `date_trunc`, `to_char`). Does not: read
//! texts (`times` has done so before), or look into views, which are in UTC for whoever reads them.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, TimestampNanosecondArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, TimeUnit, TimestampNanosecondType};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{
    Column, DFSchema, DataFusionError, JoinConstraint, JoinType, NullEquality, Result, internal_err,
};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, Projection,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Subquery, TryCast, Union, Volatility,
};

use crate::error::Error;
use crate::function::{AT_TIME_ZONE, GAPFILL, TIME_BUCKET};
use crate::semantics::times;
use crate::semantics::with_names_kept;
use crate::semantics::zone::Zone;
use crate::walk::{ExprWalk, PlanWalk};

/// Functions whose arguments become one type, or are times that belong together.
const UNIFYING: [&str; 12] = [
    AT_TIME_ZONE,
    GAPFILL,
    TIME_BUCKET,
    "age",
    "coalesce",
    "date_bin",
    "greatest",
    "ifnull",
    "least",
    "make_array",
    "nullif",
    "nvl",
];

/// Functions that take a time apart.
const ON_CLOCK: [&str; 3] = ["date_part", "date_trunc", "to_char"];

/// Functions over windows with a value to take where there is none.
const WITH_DEFAULT: [&str; 2] = ["lag", "lead"];

/// The plan with clocks of `zone` as instants where they meet such, and the other way around.
pub(crate) fn settle(plan: LogicalPlan, zone: &Zone) -> Result<LogicalPlan> {
    // The planner reads them in UTC by itself.
    if zone.is_utc() {
        return Ok(plan);
    }
    settled(plan, zone)
}

/// The same of the query of a view, which is in UTC: it says so, where the plan that it becomes part of is in another zone.
pub(crate) fn settle_view(plan: LogicalPlan, session: &Zone) -> Result<LogicalPlan> {
    if session.is_utc() {
        return Ok(plan);
    }
    settled(plan, &Zone::default())
}

fn settled(plan: LogicalPlan, zone: &Zone) -> Result<LogicalPlan> {
    let mut is_changed = false;
    let settled = plan.replace_up(&mut |node| {
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        let clocks = Clocks {
            schema: &schema,
            zone,
        };
        let done = node.replace_expressions(&mut |expr| {
            with_names_kept(&names, expr, |expr| {
                expr.replace_up(&mut |part| clocks.part(part))
            })
        })?;
        let done = done.transform_data(|node| match node {
            LogicalPlan::Join(_) => joined(node, zone),
            LogicalPlan::Union(union) => united(union, zone),
            other => Ok(Transformed::no(other)),
        })?;
        // Types may have changed from here upwards.
        is_changed |= done.transformed;
        if is_changed {
            return done.map_data(LogicalPlan::recompute_schema);
        }
        Ok(done)
    })?;
    Ok(settled.data)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// With a zone, so that it says when it is.
    Instant,
    /// A time without a zone, or a date.
    Clock,
    Date,
}

fn kind_of(kind: &DataType) -> Option<Kind> {
    match kind {
        DataType::Timestamp(_, Some(_)) => Some(Kind::Instant),
        DataType::Timestamp(_, None) => Some(Kind::Clock),
        DataType::Date32 | DataType::Date64 => Some(Kind::Date),
        _ => None,
    }
}

fn is_clock(kind: Option<Kind>) -> bool {
    matches!(kind, Some(Kind::Clock | Kind::Date))
}

struct Clocks<'a> {
    schema: &'a DFSchema,
    zone: &'a Zone,
}

impl Clocks<'_> {
    fn kind(&self, expr: &Expr) -> Option<Kind> {
        let kind = expr.get_type(self.schema).ok()?;
        kind_of(&kind)
    }

    /// Turns clocks among these into instants, if there is an instant among them.
    fn unify<'e>(&self, exprs: impl IntoIterator<Item = &'e mut Expr>) -> bool {
        let exprs: Vec<(Option<Kind>, &mut Expr)> = exprs
            .into_iter()
            .map(|expr| (self.kind(expr), expr))
            .collect();
        if !exprs.iter().any(|(kind, _)| *kind == Some(Kind::Instant)) {
            return false;
        }
        let mut is_changed = false;
        for (kind, expr) in exprs {
            if is_clock(kind) {
                *expr = instant_of(std::mem::take(expr), self.zone);
                is_changed = true;
            }
        }
        is_changed
    }

    fn part(&self, part: Expr) -> Result<Transformed<Expr>> {
        let mut part = part;
        let is_changed = match &mut part {
            Expr::BinaryExpr(binary)
                if binary.op.supports_propagation()
                    || matches!(
                        binary.op,
                        Operator::Minus | Operator::IsDistinctFrom | Operator::IsNotDistinctFrom
                    ) =>
            {
                self.unify([binary.left.as_mut(), binary.right.as_mut()])
            }
            Expr::Between(it) => self.unify([it.expr.as_mut(), it.low.as_mut(), it.high.as_mut()]),
            Expr::InList(list) => {
                self.unify(std::iter::once(list.expr.as_mut()).chain(&mut list.list))
            }
            Expr::InSubquery(it) => self.with_subquery(&mut it.expr, &mut it.subquery)?,
            Expr::SetComparison(it) => self.with_subquery(&mut it.expr, &mut it.subquery)?,
            Expr::Case(case) => {
                let branches = case.when_then_expr.iter_mut();
                let (whens, thens): (Vec<&mut Expr>, Vec<&mut Expr>) = branches
                    .map(|(when, then)| (when.as_mut(), then.as_mut()))
                    .unzip();
                let of = case.expr.as_deref_mut();
                let is_compared = of.is_some() && self.unify(of.into_iter().chain(whens));
                let otherwise = case.else_expr.as_deref_mut();
                self.unify(thens.into_iter().chain(otherwise)) || is_compared
            }
            Expr::ScalarFunction(call) if call.func.name() == "current_date" => {
                let now = datafusion::functions::datetime::expr_fn::now();
                part = cast_to(clock_of(now, self.zone), &DataType::Date32);
                true
            }
            Expr::ScalarFunction(call) if ON_CLOCK.contains(&call.func.name()) => {
                let Expr::ScalarFunction(call) = part else {
                    return internal_err!("a call is no call any more");
                };
                return Ok(self.on_clock(call));
            }
            Expr::ScalarFunction(call) => self.call(call),
            Expr::WindowFunction(call) if WITH_DEFAULT.contains(&call.fun.name()) => {
                self.unify(&mut call.params.args)
            }
            Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => {
                self.cast(expr, field.data_type())
            }
            _ => false,
        };
        Ok(Transformed::new_transformed(part, is_changed))
    }

    fn call(&self, call: &mut ScalarFunction) -> bool {
        let name = call.func.name();
        if name == AT_TIME_ZONE {
            // A date is an instant there, as in PostgreSQL.
            let mut dates = call.args.iter_mut();
            let date = dates.find(|it| self.kind(it) == Some(Kind::Date));
            return date.is_some_and(|date| {
                *date = instant_of(std::mem::take(date), self.zone);
                true
            });
        }
        if name == "nullif"
            && let [value, other] = call.args.as_mut_slice()
            && is_clock(self.kind(value))
            && self.kind(other) == Some(Kind::Instant)
        {
            // It returns the first as it is.
            *other = clock_of(std::mem::take(other), self.zone);
            return true;
        }
        UNIFYING.contains(&name) && self.unify(&mut call.args)
    }

    /// A call that takes a time apart, of the clock of the zone: `extract`, `to_char`, `date_trunc`.
    fn on_clock(&self, mut call: ScalarFunction) -> Transformed<Expr> {
        let place = match (call.func.name(), call.args.as_slice()) {
            ("date_part", [part, _]) if !says_instants(part) => 1,
            ("to_char", [_, pattern]) if !shows_zone(pattern) => 0,
            ("date_trunc", [unit, _]) if self.depends_on_zone(unit) => 1,
            _ => return Transformed::no(Expr::ScalarFunction(call)),
        };
        let is_truncated = call.func.name() == "date_trunc";
        let Some(time) = call.args.get_mut(place) else {
            return Transformed::no(Expr::ScalarFunction(call));
        };
        if self.kind(time) != Some(Kind::Instant) {
            return Transformed::no(Expr::ScalarFunction(call));
        }
        *time = clock_of(std::mem::take(time), self.zone);
        let call = Expr::ScalarFunction(call);
        Transformed::yes(if is_truncated {
            instant_of(call, self.zone)
        } else {
            call
        })
    }

    /// Whether where a unit of this name begins depends on the zone: days and more, and hours where a clock is off by parts of one. Other hours
    /// stay as they are, since one that comes twice would become one.
    fn depends_on_zone(&self, unit: &Expr) -> bool {
        let Some(unit) = lower(unit) else {
            return true;
        };
        match unit.as_str() {
            // A view says that it is in UTC: the session may be off by parts of an hour.
            "hour" => self.zone.is_utc() || !self.zone.has_whole_hours(),
            unit => !["minute", "second", "millisecond", "microsecond"].contains(&unit),
        }
    }

    fn cast(&self, expr: &mut Expr, to: &DataType) -> bool {
        let (from, to) = (self.kind(expr), kind_of(to));
        if is_clock(from) && to == Some(Kind::Instant) {
            *expr = instant_of(std::mem::take(expr), self.zone);
        } else if from == Some(Kind::Instant) && is_clock(to) {
            *expr = clock_of(std::mem::take(expr), self.zone);
        } else {
            return false;
        }
        true
    }

    /// `expr IN (SELECT ...)`, and with `ANY` and `ALL`.
    fn with_subquery(&self, expr: &mut Expr, subquery: &mut Subquery) -> Result<bool> {
        let schema = subquery.subquery.schema();
        let Some(column) = schema.fields().first() else {
            return Ok(false);
        };
        match (self.kind(expr), kind_of(column.data_type())) {
            (Some(Kind::Instant), other) if is_clock(other) => {
                let plan = Arc::clone(&subquery.subquery);
                subquery.subquery = Arc::new(as_instants(plan, &[0], self.zone)?);
                Ok(true)
            }
            (one, Some(Kind::Instant)) if is_clock(one) => {
                *expr = instant_of(std::mem::take(expr), self.zone);
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

/// A literal that is text, in lower case.
fn lower(expr: &Expr) -> Option<String> {
    let Expr::Literal(value, _) = expr else {
        return None;
    };
    let text = value.try_as_str().flatten()?;
    Some(text.trim_matches(['\'', '"']).to_ascii_lowercase())
}

/// Whether a part is of the instant itself.
fn says_instants(part: &Expr) -> bool {
    lower(part).is_some_and(|part| part == "epoch" || part.starts_with("timezone"))
}

/// Whether a pattern shows the zone, which a clock does not know.
fn shows_zone(pattern: &Expr) -> bool {
    lower(pattern).is_none_or(|pattern| {
        let mut marks = ["tz", "of", "%z", "%:z", "%+"].iter();
        marks.any(|mark| pattern.contains(mark))
    })
}

/// The keys of a join, which are compared pair by pair; set operations are joins too.
fn joined(node: LogicalPlan, zone: &Zone) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(mut join) = node else {
        return Ok(Transformed::no(node));
    };
    let mut is_changed = false;
    for (left, right) in &mut join.on {
        let kind = |expr: &Expr, side: &LogicalPlan| {
            let kind = expr.get_type(side.schema());
            kind.ok().and_then(|kind| kind_of(&kind))
        };
        let expr = match (kind(left, &join.left), kind(right, &join.right)) {
            (Some(Kind::Instant), other) if is_clock(other) => right,
            (one, Some(Kind::Instant)) if is_clock(one) => left,
            _ => continue,
        };
        *expr = instant_of(std::mem::take(expr), zone);
        is_changed = true;
    }
    let is_set = join.null_equality == NullEquality::NullEqualsNull
        && matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti);
    if is_changed && is_set {
        // INTERSECT and EXCEPT put out what they compare.
        let clocks = join.left.schema().fields().iter().zip(&join.on).enumerate();
        let clocks = clocks.filter(|(_, (field, (left, _)))| {
            is_clock(kind_of(field.data_type())) && !matches!(left, Expr::Column(_))
        });
        let clocks: Vec<usize> = clocks.map(|(at, _)| at).collect();
        if !clocks.is_empty() {
            join.left = Arc::new(as_instants(join.left, &clocks, zone)?);
            for (left, _) in &mut join.on {
                if let Expr::ScalarFunction(call) = left
                    && call.func.inner().downcast_ref::<ReadClock>().is_some()
                    && let Some(column) = call.args.pop()
                {
                    *left = column;
                }
            }
        }
    }
    if is_changed {
        // What is written with USING is joined by columns, and this is none any more.
        join.join_constraint = JoinConstraint::On;
    }
    Ok(Transformed::new_transformed(
        LogicalPlan::Join(join),
        is_changed,
    ))
}

fn united(union: Union, zone: &Zone) -> Result<Transformed<LogicalPlan>> {
    let kinds = |input: &Arc<LogicalPlan>| -> Vec<Option<Kind>> {
        let fields = input.schema().fields().iter();
        fields.map(|field| kind_of(field.data_type())).collect()
    };
    let of_inputs: Vec<Vec<Option<Kind>>> = union.inputs.iter().map(kinds).collect();
    let is_instant = |column: usize| {
        let mut inputs = of_inputs.iter();
        inputs.any(|kinds| kinds.get(column) == Some(&Some(Kind::Instant)))
    };
    let mut is_changed = false;
    let mut inputs = Vec::with_capacity(union.inputs.len());
    for (input, kinds) in union.inputs.into_iter().zip(&of_inputs) {
        let clocks = kinds.iter().enumerate();
        let clocks = clocks.filter(|(column, kind)| is_clock(**kind) && is_instant(*column));
        let clocks: Vec<usize> = clocks.map(|(column, _)| column).collect();
        if clocks.is_empty() {
            inputs.push(input);
        } else {
            inputs.push(Arc::new(as_instants(input, &clocks, zone)?));
            is_changed = true;
        }
    }
    // An input may have other types than before, also where this union changes nothing.
    let union = Union::try_new_with_loose_types(inputs)?;
    Ok(Transformed::new_transformed(
        LogicalPlan::Union(union),
        is_changed,
    ))
}

/// The same rows with instants in place of the clocks of these columns.
fn as_instants(plan: Arc<LogicalPlan>, columns: &[usize], zone: &Zone) -> Result<LogicalPlan> {
    let fields = plan.schema().iter().enumerate();
    let exprs = fields.map(|(at, (qualifier, field))| {
        let column = Expr::Column(Column::from((qualifier, field)));
        if columns.contains(&at) {
            instant_of(column, zone).alias_qualified(qualifier.cloned(), field.name())
        } else {
            column
        }
    });
    let exprs = exprs.collect();
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, plan)?))
}

fn instant_of(clock: Expr, zone: &Zone) -> Expr {
    call(clock, zone, Kind::Instant)
}

fn clock_of(instant: Expr, zone: &Zone) -> Expr {
    call(instant, zone, Kind::Clock)
}

fn call(expr: Expr, zone: &Zone, to: Kind) -> Expr {
    let function = Arc::new(ScalarUDF::new_from_impl(ReadClock {
        zone: zone.clone(),
        to_instant: to == Kind::Instant,
        signature: Signature::any(1, Volatility::Immutable),
    }));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![expr]))
}

fn cast_to(expr: Expr, kind: &DataType) -> Expr {
    datafusion::logical_expr::cast(expr, kind.clone())
}

/// What clocks of a zone show as instants, or the other way around.
#[derive(Debug)]
struct ReadClock {
    zone: Zone,
    to_instant: bool,
    signature: Signature,
}

impl ReadClock {
    fn key(&self) -> (&str, bool) {
        (self.zone.name(), self.to_instant)
    }
}

impl PartialEq for ReadClock {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for ReadClock {}

impl std::hash::Hash for ReadClock {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl ScalarUDFImpl for ReadClock {
    fn name(&self) -> &'static str {
        if self.to_instant {
            "instant_of_clock"
        } else {
            "clock_of_instant"
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        let zone = self.to_instant.then(|| Arc::from("UTC"));
        Ok(DataType::Timestamp(TimeUnit::Nanosecond, zone))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else {
            return internal_err!("{} has one argument", self.name());
        };
        let is_scalar = matches!(value, ColumnarValue::Scalar(_));
        let values = value.to_array(if is_scalar { 1 } else { args.number_rows })?;
        let read = if self.to_instant {
            instants(&values, &self.zone)?
        } else {
            clocks(&values, &self.zone)?
        };
        Ok(if is_scalar {
            ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&read, 0)?)
        } else {
            ColumnarValue::Array(read)
        })
    }
}

fn wrong(message: String) -> DataFusionError {
    DataFusionError::External(Box::new(Error::Execution { message }))
}

/// The instants at which the clock of a zone shows these times.
pub(crate) fn instants(clocks: &ArrayRef, zone: &Zone) -> Result<ArrayRef> {
    let times = times::of_clocks(clocks, zone).map_err(wrong)?;
    Ok(Arc::new(times))
}

/// What the clock of a zone shows at these instants.
pub(crate) fn clocks(instants: &ArrayRef, zone: &Zone) -> Result<ArrayRef> {
    let kind = DataType::Timestamp(TimeUnit::Nanosecond, Some(Arc::from("UTC")));
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let instants = cast_with_options(instants, &kind, &options)?;
    let instants = instants.as_primitive::<TimestampNanosecondType>().iter();
    let clocks = instants.map(|instant| {
        let clock = instant.map(|instant| zone.clock(instant).ok_or_else(|| beyond(instant)));
        clock.transpose()
    });
    let clocks: Result<TimestampNanosecondArray> = clocks.collect();
    Ok(Arc::new(clocks?))
}

fn beyond(instant: i64) -> DataFusionError {
    let time = chrono::DateTime::from_timestamp_nanos(instant);
    wrong(crate::semantics::zone::beyond(&time.to_rfc3339()))
}
