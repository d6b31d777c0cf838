//! Aggregates over a value and its time: `delta`, `derivative`, `rate`, `lttb`, `asap_smooth` and `timevector`.
//!
//! Rows whose value or time is NULL do not count. The order of the rows is that of their times, never that in which
//! they come.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{
    DataType, Field, FieldRef, Float64Type, Int64Type, TimeUnit, TimestampNanosecondType,
};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;

use super::dense::{Dense, Grouped, Single};
use super::ends::{self, Ends};
use super::samples::{self, Drawn, Samples, point_fields};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum SeriesFunction {
    Delta,
    Derivative,
    Rate,
    Lttb,
    Asap,
    Timevector,
}

/// Points of a smooth curve that may be asked for: the window is looked for in steps of the square of that.
const RESOLUTION_MAX: usize = 10_000;

impl SeriesFunction {
    /// Whether the points come back, with the time as the first argument.
    fn is_picture(self) -> bool {
        matches!(self, Self::Lttb | Self::Asap | Self::Timevector)
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Series {
    kind: SeriesFunction,
    signature: Signature,
}

/// All of them.
pub(in crate::function) fn functions() -> [Arc<AggregateUDF>; 6] {
    [
        SeriesFunction::Delta,
        SeriesFunction::Derivative,
        SeriesFunction::Rate,
        SeriesFunction::Lttb,
        SeriesFunction::Asap,
        SeriesFunction::Timevector,
    ]
    .map(|kind| {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(AggregateUDF::new_from_impl(Series { kind, signature }))
    })
}

/// The value of an expression that is a constant.
pub(in crate::function) fn literal(expr: &Arc<dyn PhysicalExpr>) -> Option<&ScalarValue> {
    expr.downcast_ref::<Literal>().map(Literal::value)
}

/// Times as numbers: nanoseconds, or whatever an integer time counts.
pub(in crate::function) fn raw_times(times: &ArrayRef) -> Result<Int64Array> {
    match times.data_type() {
        DataType::Int64 => Ok(times.as_primitive::<Int64Type>().clone()),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => Ok(times
            .as_primitive::<TimestampNanosecondType>()
            .reinterpret_cast()),
        other => exec_err!("{other} is no time"),
    }
}

impl Series {
    fn usage(&self) -> &'static str {
        match self.kind {
            SeriesFunction::Delta => {
                "delta(value, time): value is a number, time a time or an integer"
            }
            SeriesFunction::Derivative => {
                "derivative(value, time): value is a number, time a time or an integer"
            }
            SeriesFunction::Rate => {
                "rate(value, time): value is a counter, time a time or an integer"
            }
            SeriesFunction::Lttb => {
                "lttb(time, value, points): time is a time or an integer, value a number, points a constant"
            }
            SeriesFunction::Asap => {
                "asap_smooth(time, value, resolution): time is a time or an integer, value a number, resolution a constant"
            }
            SeriesFunction::Timevector => {
                "timevector(time, value): time is a time or an integer, value a number"
            }
        }
    }

    /// Hands an aggregate over its state to `then`, so that one place decides which.
    fn with<R>(&self, args: &AccumulatorArgs, then: impl Then<R>) -> Result<R> {
        let field = |place: usize| {
            args.expr_fields
                .get(place)
                .map(|field| field.data_type().clone())
        };
        let time = field(usize::from(!self.kind.is_picture()));
        let (Some(first), Some(time)) = (field(0), time) else {
            return plan_err!("{}", self.usage());
        };
        let per_second = if time == DataType::Int64 {
            1
        } else {
            1_000_000_000
        };
        Ok(match self.kind {
            SeriesFunction::Delta if first == DataType::Int64 => {
                then.run(Ends::<Int64Type>::new(ends::Of::Delta))
            }
            SeriesFunction::Delta => then.run(Ends::<Float64Type>::new(ends::Of::Delta)),
            SeriesFunction::Derivative => {
                then.run(Ends::<Float64Type>::new(ends::Of::Derivative {
                    per_second,
                }))
            }
            SeriesFunction::Rate => then.run(Samples::new(samples::Of::Rate { per_second })),
            SeriesFunction::Timevector => then.run(TimeFirst(Samples::new(samples::Of::Picture {
                drawn: Drawn::All,
                time,
            }))),
            SeriesFunction::Lttb | SeriesFunction::Asap => {
                let points = match args.exprs.get(2).and_then(literal) {
                    Some(ScalarValue::Int64(Some(points))) => usize::try_from(*points).ok(),
                    _ => None,
                };
                let is_lttb = self.kind == SeriesFunction::Lttb;
                let Some(points) = points.filter(|points| *points > 0) else {
                    return if is_lttb {
                        plan_err!("lttb: points must be a constant greater than 0")
                    } else {
                        plan_err!("asap_smooth: resolution must be a constant greater than 0")
                    };
                };
                if !is_lttb && points > RESOLUTION_MAX {
                    return plan_err!(
                        "asap_smooth: resolution must be at most {RESOLUTION_MAX}, not {points}"
                    );
                }
                let drawn = if is_lttb {
                    Drawn::Triangles(points)
                } else {
                    Drawn::Smooth(points)
                };
                then.run(TimeFirst(Samples::new(samples::Of::Picture {
                    drawn,
                    time,
                })))
            }
        })
    }
}

/// What is done with an aggregate, whichever it is.
trait Then<R> {
    fn run<D: Dense>(self, dense: D) -> R;
}

struct AsSingle;

impl Then<Result<Box<dyn Accumulator>>> for AsSingle {
    fn run<D: Dense>(self, dense: D) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Single::new(dense)?))
    }
}

struct AsGrouped;

impl Then<Box<dyn GroupsAccumulator>> for AsGrouped {
    fn run<D: Dense>(self, dense: D) -> Box<dyn GroupsAccumulator> {
        Box::new(Grouped(dense))
    }
}

/// Samples whose arguments come the other way around.
struct TimeFirst(Samples);

fn turned(values: &[ArrayRef]) -> Vec<ArrayRef> {
    values.iter().take(2).rev().cloned().collect()
}

impl Dense for TimeFirst {
    fn grow(&mut self, groups: usize) -> Result<()> {
        self.0.grow(groups)
    }

    fn update(&mut self, values: &[ArrayRef], rows: super::dense::Rows<'_>) -> Result<()> {
        self.0.update(&turned(values), rows)
    }

    fn merge(&mut self, state: &[ArrayRef], rows: super::dense::Rows<'_>) -> Result<()> {
        self.0.merge(state, rows)
    }

    fn evaluate(&self, groups: usize) -> Result<ArrayRef> {
        self.0.evaluate(groups)
    }

    fn state(&self, groups: usize) -> Result<Vec<ArrayRef>> {
        self.0.state(groups)
    }

    fn convert(&self, values: &[ArrayRef], rows: super::dense::Rows<'_>) -> Result<Vec<ArrayRef>> {
        self.0.convert(&turned(values), rows)
    }

    fn forget(&mut self, groups: usize) {
        self.0.forget(groups);
    }

    fn groups(&self) -> usize {
        self.0.groups()
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

/// The type that a time is read as.
fn time_type(kind: &DataType) -> Option<DataType> {
    match kind {
        DataType::Timestamp(_, zone) => {
            Some(DataType::Timestamp(TimeUnit::Nanosecond, zone.clone()))
        }
        DataType::Date32 => Some(DataType::Timestamp(TimeUnit::Nanosecond, None)),
        kind if kind.is_integer() => Some(DataType::Int64),
        _ => None,
    }
}

impl AggregateUDFImpl for Series {
    fn name(&self) -> &str {
        match self.kind {
            SeriesFunction::Delta => "delta",
            SeriesFunction::Derivative => "derivative",
            SeriesFunction::Rate => "rate",
            SeriesFunction::Lttb => "lttb",
            SeriesFunction::Asap => "asap_smooth",
            SeriesFunction::Timevector => "timevector",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let types = match (self.kind, arg_types) {
            (SeriesFunction::Timevector, [time, value])
                if value.is_numeric() || value.is_null() =>
            {
                time_type(time).map(|time| vec![time, DataType::Float64])
            }
            (SeriesFunction::Lttb | SeriesFunction::Asap, [time, value, points])
                if points.is_integer() && (value.is_numeric() || value.is_null()) =>
            {
                time_type(time).map(|time| vec![time, DataType::Float64, DataType::Int64])
            }
            (SeriesFunction::Delta, [value, time]) if value.is_integer() => {
                time_type(time).map(|time| vec![DataType::Int64, time])
            }
            (
                SeriesFunction::Delta | SeriesFunction::Derivative | SeriesFunction::Rate,
                [value, time],
            ) if value.is_numeric() || value.is_null() => {
                time_type(time).map(|time| vec![DataType::Float64, time])
            }
            _ => None,
        };
        if let Some(types) = types {
            Ok(types)
        } else {
            plan_err!("{}", self.usage())
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match (self.kind, arg_types.first()) {
            (SeriesFunction::Delta, Some(DataType::Int64)) => Ok(DataType::Int64),
            (kind, Some(time)) if kind.is_picture() => {
                let point = DataType::Struct(point_fields(time));
                Ok(DataType::List(Arc::new(Field::new_list_field(point, true))))
            }
            _ => Ok(DataType::Float64),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let list = |kind| DataType::List(Arc::new(Field::new_list_field(kind, true)));
        let value = match (self.kind, args.return_type()) {
            (SeriesFunction::Delta, kind) => kind.clone(),
            _ => DataType::Float64,
        };
        let fields = match self.kind {
            SeriesFunction::Delta | SeriesFunction::Derivative => vec![
                ("first_time", DataType::Int64),
                ("first", value.clone()),
                ("last_time", DataType::Int64),
                ("last", value),
            ],
            _ => {
                vec![("times", list(DataType::Int64)), ("values", list(value))]
            }
        };
        let fields = fields.into_iter();
        Ok(fields
            .map(|(name, kind)| {
                Arc::new(Field::new(format_state_name(args.name, name), kind, true))
            })
            .collect())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.with(&args, AsSingle)?
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        self.with(&args, AsGrouped)
    }
}
