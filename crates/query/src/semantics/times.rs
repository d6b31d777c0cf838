//! Time literals: text in place of a time, read in the session's time zone before types are settled.
//!
//! Does: turn literals that are compared with times, or cast to times, into times; put those that are too far away before
//! or after all times, in comparisons; read texts of columns that are cast to times. Does not: touch a text that is compared
//! with a text, or compute with a zone: the start of a day is in UTC unless a function is told otherwise.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, TimestampNanosecondArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, TimeUnit, TimestampNanosecondType};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast,
};

use nilometer_engine::spelled;

use crate::error::Error;
use crate::function::arrays::{element_of, of_text};
use crate::function::{COALESCE, GAPFILL, TIME_BUCKET, is_temporal};
use crate::semantics::with_names_kept;
use crate::semantics::zone::{Instant, Zone, beyond};
use crate::walk::{ExprWalk, PlanWalk};

/// The function that takes a text for a time.
const TO_TIMESTAMP: &str = "to_timestamp";

/// The function that takes a text for the origin of its bins.
const DATE_BIN: &str = "date_bin";

/// The plan with its texts read as times where they are times.
pub(crate) fn read(plan: LogicalPlan, zone: &Zone) -> Result<LogicalPlan> {
    // Most statements that have no text have nothing to read, and looking is cheaper than taking them apart.
    if !has_texts(&plan)? {
        return Ok(plan);
    }
    let read = plan.replace_up(&mut |node| {
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        let reader = Reader {
            schema: &schema,
            zone,
        };
        node.replace_expressions(&mut |expr| {
            with_names_kept(&names, expr, |expr| {
                expr.replace_down(&mut |inner| reader.expr(inner))
            })
        })
    })?;
    Ok(read.data)
}

/// Whether a plan has a literal that is text, or a cast to a time.
fn has_texts(plan: &LogicalPlan) -> Result<bool> {
    plan.has_expr(&mut |inner| match inner {
        Expr::Cast(cast) => matches!(cast.field.data_type(), DataType::Timestamp(..)),
        Expr::ScalarFunction(call) if call.name() == COALESCE => true,
        inner => text(inner).is_some(),
    })
}

fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(
            ScalarValue::Utf8(Some(text))
            | ScalarValue::LargeUtf8(Some(text))
            | ScalarValue::Utf8View(Some(text)),
            _,
        ) => Some(text),
        _ => None,
    }
}

/// Whether an expression is a literal that is text, or one that is cast to a time or a date.
fn is_written(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(cast) => {
            let kind = cast.field.data_type();
            matches!(kind, DataType::Timestamp(..) | DataType::Date32) && text(&cast.expr).is_some()
        }
        expr => text(expr).is_some(),
    }
}

fn wrong(message: String) -> DataFusionError {
    DataFusionError::External(Box::new(Error::Plan {
        message,
        position: None,
    }))
}

/// What times are compared with.
enum Compared {
    /// No text: it stays as it is.
    Other,
    At(Expr),
    Before,
    After,
}

struct Reader<'a> {
    schema: &'a DFSchema,
    zone: &'a Zone,
}

impl Reader<'_> {
    fn expr(&self, expr: Expr) -> Result<Transformed<Expr>> {
        match expr {
            Expr::BinaryExpr(binary) if binary.op.supports_propagation() => self.comparison(binary),
            Expr::Between(between) => self.between(between),
            Expr::InList(list) => self.in_list(list),
            Expr::Case(case) => self.case(case),
            Expr::Cast(cast) => self.cast(cast),
            Expr::ScalarFunction(call) => match call.func.name() {
                TO_TIMESTAMP => self.to_timestamp(call),
                TIME_BUCKET | GAPFILL => Ok(self.bucket(call)),
                COALESCE => self.coalesce(call),
                DATE_BIN => self.date_bin(call),
                _ => Ok(Transformed::no(Expr::ScalarFunction(call))),
            },
            other => Ok(Transformed::no(other)),
        }
    }

    /// The type of an expression, if it is a time: whether it has a zone.
    fn time(&self, expr: &Expr) -> Option<bool> {
        if text(expr).is_some() {
            return None;
        }
        match expr.get_type(self.schema) {
            Ok(DataType::Timestamp(_, zone)) => Some(zone.is_some()),
            _ => None,
        }
    }

    /// What a time with or without a zone is compared with.
    fn compared(&self, expr: &Expr, has_zone: bool) -> Result<Compared> {
        let (text, clock_of) = match expr {
            Expr::Cast(cast) => match (text(&cast.expr), cast.field.data_type()) {
                (Some(text), DataType::Timestamp(_, Some(_))) => (text, false),
                // What the clock on the wall shows; a date is its midnight.
                (Some(text), DataType::Timestamp(_, None) | DataType::Date32) => (text, true),
                _ => return Ok(Compared::Other),
            },
            expr => match text(expr) {
                Some(text) => (text, false),
                None => return Ok(Compared::Other),
            },
        };
        let instant = if !has_zone {
            Zone::read_clock(text)
        } else if clock_of {
            Zone::read_clock(text).map(|instant| match instant {
                Instant::At(ns) => self.zone.instant(ns),
                beyond => beyond,
            })
        } else {
            self.zone.read(text)
        };
        Ok(match instant.map_err(wrong)? {
            Instant::At(ns) => Compared::At(time_literal(ns, has_zone)),
            Instant::Before => Compared::Before,
            Instant::After => Compared::After,
        })
    }

    /// `time >= '2024-01-01 05:00'`, either way around.
    fn comparison(&self, binary: BinaryExpr) -> Result<Transformed<Expr>> {
        let BinaryExpr { left, op, right } = &binary;
        // Of two literals the first one is what the second is compared with.
        let is_said = is_written(left) && !is_written(right);
        let (column, op, value, has_zone) = if !is_said && let Some(has_zone) = self.time(left) {
            (left, *op, right, has_zone)
        } else if let Some(has_zone) = self.time(right)
            && let Some(swapped) = op.swap()
        {
            (right, swapped, left, has_zone)
        } else {
            return Ok(Transformed::no(Expr::BinaryExpr(binary)));
        };
        let column = column.clone();
        let read = match self.compared(value, has_zone)? {
            Compared::Other => return Ok(Transformed::no(Expr::BinaryExpr(binary))),
            Compared::At(value) => Expr::BinaryExpr(BinaryExpr::new(column, op, Box::new(value))),
            Compared::After => beyond_all(column, op, has_zone, Side::After),
            Compared::Before => beyond_all(column, op, has_zone, Side::Before),
        };
        Ok(Transformed::yes(read))
    }

    fn between(&self, between: Between) -> Result<Transformed<Expr>> {
        let Some(has_zone) = self.time(&between.expr) else {
            return Ok(Transformed::no(Expr::Between(between)));
        };
        let low = self.compared(&between.low, has_zone)?;
        let high = self.compared(&between.high, has_zone)?;
        let first = || time_literal(i64::MIN, has_zone);
        let last = || time_literal(i64::MAX, has_zone);
        let Between {
            expr,
            negated,
            low: old_low,
            high: old_high,
        } = between;
        let (low, high) = match (low, high) {
            (Compared::Other, Compared::Other) => {
                let same = Between::new(expr, negated, old_low, old_high);
                return Ok(Transformed::no(Expr::Between(same)));
            }
            // Nothing is between: the bounds are the wrong way around.
            (Compared::After, _) | (_, Compared::Before) => (last(), first()),
            (low, high) => (
                match low {
                    Compared::At(low) => low,
                    Compared::Before => first(),
                    _ => *old_low,
                },
                match high {
                    Compared::At(high) => high,
                    Compared::After => last(),
                    _ => *old_high,
                },
            ),
        };
        let read = Between::new(expr, negated, Box::new(low), Box::new(high));
        Ok(Transformed::yes(Expr::Between(read)))
    }

    /// Times that are too far away are in no list.
    fn in_list(&self, list: InList) -> Result<Transformed<Expr>> {
        let Some(has_zone) = self.time(&list.expr) else {
            return Ok(Transformed::no(Expr::InList(list)));
        };
        let mut is_read = false;
        let mut values = Vec::with_capacity(list.list.len());
        for value in &list.list {
            let compared = self.compared(value, has_zone)?;
            is_read |= !matches!(compared, Compared::Other);
            match compared {
                Compared::Other => values.push(value.clone()),
                Compared::At(value) => values.push(value),
                Compared::Before | Compared::After => {}
            }
        }
        if !is_read {
            return Ok(Transformed::no(Expr::InList(list)));
        }
        let InList { expr, negated, .. } = list;
        if values.is_empty() {
            let op = if negated {
                Operator::NotEq
            } else {
                Operator::Eq
            };
            let read = beyond_all(expr, op, has_zone, Side::After);
            return Ok(Transformed::yes(read));
        }
        let read = InList::new(expr, values, negated);
        Ok(Transformed::yes(Expr::InList(read)))
    }

    /// `CASE time WHEN '2024-01-01' THEN ...`.
    fn case(&self, mut case: Case) -> Result<Transformed<Expr>> {
        let Some(has_zone) = case.expr.as_ref().and_then(|of| self.time(of)) else {
            return Ok(Transformed::no(Expr::Case(case)));
        };
        for (when, _) in &mut case.when_then_expr {
            match self.compared(when, has_zone)? {
                Compared::Other => {}
                Compared::At(value) => **when = value,
                // Equal to no time, as NULL is.
                Compared::Before | Compared::After => {
                    **when = Expr::Literal(null(has_zone), None);
                }
            }
        }
        Ok(Transformed::yes(Expr::Case(case)))
    }

    /// `'2024-01-01 05:00'::timestamptz`, and the same of a column of texts.
    fn cast(&self, cast: Cast) -> Result<Transformed<Expr>> {
        if let Some(DataType::Timestamp(_, Some(_))) = element_of(cast.field.data_type())
            && cast
                .expr
                .get_type(self.schema)
                .is_ok_and(|kind| is_text(&kind))
        {
            let Cast { expr, field } = cast;
            let function = of_text(field.data_type().clone(), Some(self.zone));
            let call = ScalarFunction::new_udf(function, vec![*expr]);
            return Ok(Transformed::yes(Expr::ScalarFunction(call)));
        }
        if *cast.field.data_type() == DataType::Date32
            && let Some(day) = text(&cast.expr).and_then(day)
        {
            return Ok(Transformed::yes(day));
        }
        let DataType::Timestamp(_, zone) = cast.field.data_type() else {
            return Ok(Transformed::no(Expr::Cast(cast)));
        };
        let has_zone = zone.is_some();
        let Cast { expr, field } = cast;
        // What the clock shows in this zone: `'2024-01-01'::date::timestamptz`.
        if has_zone && is_written(&expr) && text(&expr).is_none() {
            let read = match self.compared(&expr, has_zone)? {
                Compared::At(time) => time,
                _ => *expr,
            };
            return Ok(Transformed::yes(Expr::Cast(Cast {
                expr: Box::new(read),
                field,
            })));
        }
        let read = if let Some(text) = text(&expr) {
            time_literal(self.one(text, has_zone)?, has_zone)
        } else if expr.get_type(self.schema).is_ok_and(|kind| is_text(&kind)) {
            let function = ReadTimes::new(self.zone, has_zone);
            let function = Arc::new(ScalarUDF::new_from_impl(function));
            Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![*expr]))
        } else {
            return Ok(Transformed::no(Expr::Cast(Cast { expr, field })));
        };
        let is_same = read.get_type(self.schema)? == *field.data_type();
        Ok(Transformed::yes(if is_same {
            read
        } else {
            let expr = Box::new(read);
            Expr::Cast(Cast { expr, field })
        }))
    }

    /// `to_timestamp('2024-01-01 05:00')`.
    fn to_timestamp(&self, call: ScalarFunction) -> Result<Transformed<Expr>> {
        let text = match call.args.as_slice() {
            [argument] => text(argument).map(str::to_owned),
            _ => None,
        };
        let call = Expr::ScalarFunction(call);
        let Some(text) = text else {
            return Ok(Transformed::no(call));
        };
        let DataType::Timestamp(TimeUnit::Nanosecond, zone) = call.get_type(self.schema)? else {
            return Ok(Transformed::no(call));
        };
        let has_zone = zone.is_some();
        let ns = self.one(&text, has_zone)?;
        Ok(Transformed::yes(time_literal(ns, has_zone)))
    }

    /// The origin of `date_bin(width, time, '2024-01-01 05:00')`.
    fn date_bin(&self, mut call: ScalarFunction) -> Result<Transformed<Expr>> {
        let mut is_read = false;
        if let [_, time, origin] = call.args.as_mut_slice()
            && let Some(has_zone) = self.time(time)
            && let Some(said) = text(origin)
        {
            *origin = time_literal(self.one(said, has_zone)?, has_zone);
            is_read = true;
        }
        Ok(Transformed::new_transformed(
            Expr::ScalarFunction(call),
            is_read,
        ))
    }

    /// `coalesce(time, '2024-01-01 05:00')`.
    fn coalesce(&self, mut call: ScalarFunction) -> Result<Transformed<Expr>> {
        let kinds = call.args.iter().filter(|it| text(it).is_none());
        let kinds = kinds.filter_map(|it| it.get_type(self.schema).ok());
        let kinds = kinds.filter(is_temporal);
        // What `PostgreSQL` prefers of them.
        let Some(kind) = kinds.max_by_key(|kind| match kind {
            DataType::Timestamp(_, Some(_)) => 2,
            DataType::Timestamp(_, None) => 1,
            _ => 0,
        }) else {
            return Ok(Transformed::no(Expr::ScalarFunction(call)));
        };
        for argument in &mut call.args {
            let read = match (text(argument), &kind) {
                (Some(text), DataType::Timestamp(_, zone)) => {
                    time_literal(self.one(text, zone.is_some())?, zone.is_some())
                }
                (Some(_), kind) => cast(std::mem::take(argument), kind.clone()),
                (None, _) => {
                    if argument.get_type(self.schema).is_ok_and(|it| is_text(&it)) {
                        return Err(wrong(format!(
                            "coalesce has a text beside a time: cast one to the type of the other, as in {argument}::timestamptz"
                        )));
                    }
                    continue;
                }
            };
            *argument = read;
        }
        Ok(Transformed::yes(Expr::ScalarFunction(call)))
    }

    /// The origin of buckets, or where they start and finish. What is no time is the name of a time zone.
    fn bucket(&self, mut call: ScalarFunction) -> Transformed<Expr> {
        let mut is_read = false;
        for argument in call.args.iter_mut().skip(2) {
            let read = text(argument).and_then(|text| self.one(text, true).ok());
            if let Some(ns) = read {
                *argument = time_literal(ns, true);
                is_read = true;
            }
        }
        Transformed::new(
            Expr::ScalarFunction(call),
            is_read,
            TreeNodeRecursion::Continue,
        )
    }

    fn one(&self, text: &str, has_zone: bool) -> Result<i64> {
        nanoseconds(text, has_zone.then_some(self.zone)).map_err(wrong)
    }
}

/// The day of a text that PostgreSQL reads and the library does not: `Jan 5 2024`.
fn day(text: &str) -> Option<Expr> {
    let day = ScalarValue::try_from_string(text.to_owned(), &DataType::Date32);
    if day.is_ok() {
        return None;
    }
    let days = i32::try_from(spelled(text)?.days).ok()?;
    Some(Expr::Literal(ScalarValue::Date32(Some(days)), None))
}

/// The time that a text says, which there must be; without a zone what the clock shows.
fn nanoseconds(text: &str, zone: Option<&Zone>) -> std::result::Result<i64, String> {
    let instant = match zone {
        Some(zone) => zone.read(text)?,
        None => Zone::read_clock(text)?,
    };
    match instant {
        Instant::At(ns) => Ok(ns),
        Instant::Before | Instant::After => Err(beyond(text)),
    }
}

/// Texts as times in a zone; `position` is for the caller to add.
pub(crate) fn of_texts(
    texts: &ArrayRef,
    zone: &Zone,
) -> std::result::Result<TimestampNanosecondArray, String> {
    times_of(texts, Some(zone)).map(|times| times.with_timezone("UTC"))
}

/// What clocks on the wall show, as times in a zone.
pub(crate) fn of_clocks(
    clocks: &ArrayRef,
    zone: &Zone,
) -> std::result::Result<TimestampNanosecondArray, String> {
    let kind = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let clocks = cast_with_options(clocks, &kind, &options).map_err(|error| error.to_string())?;
    let clocks = clocks.as_primitive::<TimestampNanosecondType>().iter();
    let times = clocks.map(|clock| {
        clock.map_or(Ok(None), |clock| match zone.instant(clock) {
            Instant::At(ns) => Ok(Some(ns)),
            Instant::Before | Instant::After => Err(beyond("this time")),
        })
    });
    let times: std::result::Result<TimestampNanosecondArray, String> = times.collect();
    times.map(|times| times.with_timezone("UTC"))
}

fn times_of(
    texts: &ArrayRef,
    zone: Option<&Zone>,
) -> std::result::Result<TimestampNanosecondArray, String> {
    let texts = arrow::compute::cast(texts, &DataType::Utf8).map_err(|error| error.to_string())?;
    let read = texts.as_string::<i32>().iter();
    read.map(|text| text.map(|text| nanoseconds(text, zone)).transpose())
        .collect()
}

fn is_text(kind: &DataType) -> bool {
    match kind {
        DataType::Dictionary(_, value) => value.is_string(),
        kind => kind.is_string(),
    }
}

fn time_literal(ns: i64, has_zone: bool) -> Expr {
    Expr::Literal(
        ScalarValue::TimestampNanosecond(Some(ns), has_zone.then(|| Arc::from("UTC"))),
        None,
    )
}

fn null(has_zone: bool) -> ScalarValue {
    ScalarValue::TimestampNanosecond(None, has_zone.then(|| Arc::from("UTC")))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

/// What a comparison with a time beyond all others means: one with the last or the first that holds for all, or for none.
fn beyond_all(column: Box<Expr>, op: Operator, has_zone: bool, side: Side) -> Expr {
    let is_after = side == Side::After;
    let (holds, fails, bound) = if is_after {
        (Operator::LtEq, Operator::Gt, i64::MAX)
    } else {
        (Operator::GtEq, Operator::Lt, i64::MIN)
    };
    let op = match op {
        Operator::Lt | Operator::LtEq if is_after => holds,
        Operator::Gt | Operator::GtEq if !is_after => holds,
        Operator::NotEq => holds,
        // NULL is another than any time, too.
        Operator::IsDistinctFrom => return Expr::Literal(ScalarValue::Boolean(Some(true)), None),
        Operator::IsNotDistinctFrom => {
            return Expr::Literal(ScalarValue::Boolean(Some(false)), None);
        }
        _ => fails,
    };
    let bound = Box::new(time_literal(bound, has_zone));
    Expr::BinaryExpr(BinaryExpr::new(column, op, bound))
}

/// Texts of a column as times.
#[derive(Debug)]
struct ReadTimes {
    signature: Signature,
    zone: Option<Zone>,
}

impl ReadTimes {
    fn new(zone: &Zone, has_zone: bool) -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
            zone: has_zone.then(|| zone.clone()),
        }
    }

    fn zone_name(&self) -> Option<&str> {
        self.zone.as_ref().map(|zone| &**zone.name())
    }
}

impl PartialEq for ReadTimes {
    fn eq(&self, other: &Self) -> bool {
        self.zone_name() == other.zone_name()
    }
}

impl Eq for ReadTimes {}

impl std::hash::Hash for ReadTimes {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.zone_name().hash(state);
    }
}

impl ScalarUDFImpl for ReadTimes {
    fn name(&self) -> &'static str {
        "read_times"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        let zone = self.zone.as_ref().map(|_| Arc::from("UTC"));
        Ok(DataType::Timestamp(TimeUnit::Nanosecond, zone))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = matches!(args.args.as_slice(), [ColumnarValue::Scalar(_)]);
        let rows = if is_scalar { 1 } else { args.number_rows };
        let texts = ColumnarValue::values_to_arrays(&args.args)?;
        let Some(texts) = texts.first().filter(|texts| texts.len() == rows) else {
            return datafusion::common::internal_err!("read_times has one argument");
        };
        let times = times_of(texts, self.zone.as_ref())
            .map_err(|message| DataFusionError::External(Box::new(Error::Execution { message })))?;
        let times: ArrayRef = match &self.zone {
            Some(_) => Arc::new(times.with_timezone("UTC")),
            None => Arc::new(times),
        };
        Ok(if is_scalar {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&times, 0)?)
        } else {
            ColumnarValue::Array(times)
        })
    }
}
