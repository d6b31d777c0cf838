//! Functions that ask a summary: their names, their arguments, and the calls.
//!
//! Does: read arguments row by row and build the answers. Does not: know what the answers are ([`super::answer`]). NULL for a
//! summary is NULL as the answer; so it is for the other arguments, apart from summaries before and after, which may be missing.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryBuilder};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use nilometer_summaries::{Candlestick, Summary};

use super::answer::{self, Answer, Answers};
use super::argument::{self, Argument, INTERVAL, time_type};
use super::error::wrong_in;
use super::maker::MADE_BY;
use super::names::{INTO_VALUES, rows_of, shown};
use super::rollup::said;

/// What a function answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Out {
    Number,
    Whole,
    Time,
    Interval,
    Truth,
    Summary,
    /// A value of the type that the summary holds.
    Value,
    /// Values of that type.
    Values,
    /// Rows: a list of structs.
    Rows,
}

use Argument::{Interval, Number, Summary as Of, Text, Time, Value, Whole};

/// Name, arguments, how many there are at least, how many may not be NULL, and the answer.
type Call = (&'static str, &'static [Argument], usize, usize, Out);

const ONE: &[Argument] = &[Of];
const METHOD: &[Argument] = &[Of, Text];

/// All functions, in the order of their names.
const CALLS: [Call; 78] = [
    ("__summary_corr", ONE, 1, 1, Out::Number),
    ("__summary_covariance", METHOD, 1, 2, Out::Number),
    ("__summary_delta", ONE, 1, 1, Out::Number),
    ("__summary_mean", ONE, 1, 1, Out::Number),
    ("__summary_rate", ONE, 1, 1, Out::Number),
    ("__summary_stddev", METHOD, 1, 2, Out::Number),
    ("__summary_sum", ONE, 1, 1, Out::Number),
    ("__summary_variance", METHOD, 1, 2, Out::Number),
    ("approx_percentile", &[Number, Of], 2, 2, Out::Number),
    ("approx_percentile_rank", &[Number, Of], 2, 2, Out::Number),
    ("average", ONE, 1, 1, Out::Number),
    ("average_x", ONE, 1, 1, Out::Number),
    ("average_y", ONE, 1, 1, Out::Number),
    (
        "candlestick",
        &[Time, Number, Number, Number, Number, Number],
        6,
        5,
        Out::Summary,
    ),
    ("close", ONE, 1, 1, Out::Number),
    ("close_time", ONE, 1, 1, Out::Time),
    ("counter_zero_time", ONE, 1, 1, Out::Time),
    ("dead_ranges", ONE, 1, 1, Out::Rows),
    ("determination_coeff", ONE, 1, 1, Out::Number),
    ("distinct_count", ONE, 1, 1, Out::Whole),
    ("downtime", ONE, 1, 1, Out::Interval),
    (
        "duration_in",
        &[Of, Value, Time, Interval],
        2,
        3,
        Out::Interval,
    ),
    ("error", ONE, 1, 1, Out::Number),
    ("extrapolated_delta", METHOD, 1, 2, Out::Number),
    ("extrapolated_rate", METHOD, 1, 2, Out::Number),
    ("first_time", ONE, 1, 1, Out::Time),
    ("first_val", ONE, 1, 1, Out::Number),
    ("high", ONE, 1, 1, Out::Number),
    ("high_time", ONE, 1, 1, Out::Time),
    ("idelta_left", ONE, 1, 1, Out::Number),
    ("idelta_right", ONE, 1, 1, Out::Number),
    ("intercept", ONE, 1, 1, Out::Number),
    (
        "interpolated_average",
        &[Of, Time, Interval, Of, Of],
        3,
        3,
        Out::Number,
    ),
    (
        "interpolated_delta",
        &[Of, Time, Interval, Of, Of],
        3,
        3,
        Out::Number,
    ),
    ("interpolated_downtime", &[Of, Of], 2, 1, Out::Interval),
    (
        "interpolated_duration_in",
        &[Of, Value, Time, Interval, Of],
        4,
        4,
        Out::Interval,
    ),
    (
        "interpolated_integral",
        &[Of, Time, Interval, Of, Of, Text],
        3,
        3,
        Out::Number,
    ),
    (
        "interpolated_rate",
        &[Of, Time, Interval, Of, Of],
        3,
        3,
        Out::Number,
    ),
    ("interpolated_uptime", &[Of, Of], 2, 1, Out::Interval),
    ("integral", METHOD, 1, 2, Out::Number),
    ("into_array", &[Of, Value], 1, 1, Out::Values),
    ("into_values", &[Of, Value, Value], 1, 1, Out::Rows),
    ("irate_left", ONE, 1, 1, Out::Number),
    ("irate_right", ONE, 1, 1, Out::Number),
    ("kurtosis", METHOD, 1, 2, Out::Number),
    ("kurtosis_x", METHOD, 1, 2, Out::Number),
    ("kurtosis_y", METHOD, 1, 2, Out::Number),
    ("last_time", ONE, 1, 1, Out::Time),
    ("last_val", ONE, 1, 1, Out::Number),
    ("live_at", &[Of, Time], 2, 2, Out::Truth),
    ("live_ranges", ONE, 1, 1, Out::Rows),
    ("low", ONE, 1, 1, Out::Number),
    ("low_time", ONE, 1, 1, Out::Time),
    ("max_frequency", &[Of, Value], 2, 2, Out::Number),
    ("max_val", ONE, 1, 1, Out::Number),
    ("min_frequency", &[Of, Value], 2, 2, Out::Number),
    ("min_val", ONE, 1, 1, Out::Number),
    ("num_changes", ONE, 1, 1, Out::Whole),
    ("num_elements", ONE, 1, 1, Out::Whole),
    ("num_gaps", ONE, 1, 1, Out::Whole),
    ("num_live_ranges", ONE, 1, 1, Out::Whole),
    ("num_resets", ONE, 1, 1, Out::Whole),
    ("num_vals", ONE, 1, 1, Out::Whole),
    ("open", ONE, 1, 1, Out::Number),
    ("open_time", ONE, 1, 1, Out::Time),
    ("skewness", METHOD, 1, 2, Out::Number),
    ("skewness_x", METHOD, 1, 2, Out::Number),
    ("skewness_y", METHOD, 1, 2, Out::Number),
    ("slope", ONE, 1, 1, Out::Number),
    ("state_at", &[Of, Time], 2, 2, Out::Value),
    ("state_periods", &[Of, Value], 2, 2, Out::Rows),
    ("state_timeline", &[Of, Value], 1, 1, Out::Rows),
    ("stddev_x", METHOD, 1, 2, Out::Number),
    ("stddev_y", METHOD, 1, 2, Out::Number),
    ("stderror", ONE, 1, 1, Out::Number),
    ("sum_x", ONE, 1, 1, Out::Number),
    ("sum_y", ONE, 1, 1, Out::Number),
    ("time_delta", ONE, 1, 1, Out::Number),
];

const MORE: [Call; 8] = [
    ("topn", &[Of, Whole, Value], 1, 1, Out::Values),
    ("uptime", ONE, 1, 1, Out::Interval),
    ("variance_x", METHOD, 1, 2, Out::Number),
    ("variance_y", METHOD, 1, 2, Out::Number),
    ("volume", ONE, 1, 1, Out::Number),
    ("vwap", ONE, 1, 1, Out::Number),
    ("with_bounds", &[Of, Time, Time], 3, 3, Out::Summary),
    ("x_intercept", ONE, 1, 1, Out::Number),
];

fn calls() -> impl Iterator<Item = Call> {
    CALLS.into_iter().chain(MORE)
}

/// Whether there is such a function.
pub(super) fn is_known(name: &str) -> bool {
    calls().any(|(known, ..)| known == name)
}

/// All of them.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let all = calls().map(|(name, arguments, least, strict, out)| {
        Arc::new(ScalarUDF::new_from_impl(Accessor {
            name,
            arguments,
            least,
            strict,
            out,
            signature: Signature::user_defined(Volatility::Immutable),
        }))
    });
    all.collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Accessor {
    name: &'static str,
    arguments: &'static [Argument],
    least: usize,
    strict: usize,
    out: Out,
    signature: Signature,
}

impl Accessor {
    fn usage(&self) -> String {
        let mut usage = format!("{}(", shown(self.name));
        for (place, argument) in self.arguments.iter().enumerate() {
            let name = match argument {
                Number => "number",
                Whole => "n",
                Time => "time",
                Interval => "interval",
                Text => "method",
                Of if place > 1 => "summary before or after",
                Of => "summary",
                Value => "value",
            };
            let between = if place > 0 { ", " } else { "" };
            if place < self.least {
                usage.extend([between, name]);
            } else {
                usage.extend(["[", between, name, "]"]);
            }
        }
        usage.push(')');
        usage
    }

    /// Which aggregate made the summary and what types it holds, from the field and from what the call says itself.
    fn made(&self, args: &ReturnFieldArgs<'_>) -> Vec<String> {
        let field = args.arg_fields.first();
        let said = field.and_then(|field| field.metadata().get(MADE_BY));
        let mut made: Vec<String> = said
            .map(|said| said.split(',').map(str::to_owned).collect())
            .unwrap_or_default();
        for (field, value) in args.arg_fields.iter().zip(args.scalar_arguments).skip(1) {
            if let Some(ScalarValue::Utf8(Some(name))) = value
                && self.name == INTO_VALUES
            {
                match made.first_mut() {
                    Some(known) => known.clone_from(name),
                    None => made.push(name.clone()),
                }
                continue;
            }
            // The type of a value that is not looked at, as in NULL::bigint.
            let is_specimen = matches!(value, Some(value) if value.is_null());
            if let Some(kind) = argument::kind_of(field.data_type())
                && is_specimen
            {
                if made.is_empty() {
                    made.push(String::new());
                }
                made.truncate(1);
                made.push(kind.name().to_owned());
            }
        }
        made
    }

    fn kind(&self, args: &ReturnFieldArgs<'_>) -> Result<DataType> {
        let made = self.made(args);
        let maker = made.first().map_or("", String::as_str);
        let value = |place: usize, other: DataType| {
            let name = made.get(place).map(String::as_str);
            answer::type_named(name).unwrap_or(other)
        };
        let list = |kind| DataType::List(Arc::new(Field::new_list_field(kind, true)));
        Ok(match self.out {
            Out::Number => DataType::Float64,
            Out::Whole => DataType::Int64,
            Out::Time => time_type(),
            Out::Interval => INTERVAL,
            Out::Truth => DataType::Boolean,
            Out::Summary => DataType::Binary,
            Out::Value => value(1, DataType::Utf8),
            Out::Values if self.name == "into_array" => list(value(1, DataType::Float64)),
            Out::Values => list(value(1, DataType::Utf8)),
            Out::Rows if self.name == INTO_VALUES && matches!(maker, "max_n" | "min_n") => {
                list(value(1, DataType::Float64))
            }
            Out::Rows => {
                let of = if self.name == INTO_VALUES {
                    maker
                } else {
                    self.name
                };
                let Some(columns) = rows_of(of) else {
                    return plan_err!(
                        "{}: which aggregate made this summary is not known here; name it, as in into_values(summary, 'freq_agg')",
                        self.name
                    );
                };
                let fields: Vec<Field> = columns
                    .iter()
                    .map(|column| {
                        let kind = match *column {
                            "value" if maker.ends_with("_by") => value(1, DataType::Float64),
                            "state" | "value" => value(1, DataType::Utf8),
                            "data" => value(2, DataType::Utf8),
                            "duration" => INTERVAL,
                            "min_freq" | "max_freq" => DataType::Float64,
                            _ => time_type(),
                        };
                        Field::new(*column, kind, true)
                    })
                    .collect();
                list(DataType::Struct(fields.into()))
            }
        })
    }

    fn row(&self, columns: &[ArrayRef], row: usize) -> Result<Option<Answer>> {
        let strict = columns.iter().take(self.strict);
        if strict.into_iter().any(|column| column.is_null(row)) {
            return Ok(None);
        }
        if self.name == "candlestick" {
            let number = |place: usize| columns.get(place).and_then(|it| argument::number(it, row));
            let at = columns.first().and_then(|it| argument::time(it, row));
            let (Some(at), Some(open), Some(high), Some(low), Some(close)) =
                (at, number(1), number(2), number(3), number(4))
            else {
                return Ok(None);
            };
            let made = Candlestick::of_prices(at, [open, high, low, close], number(5));
            return Ok(Some(Answer::Summary(Summary::Candlestick(Box::new(made)))));
        }
        let place = usize::from(self.arguments.first() != Some(&Of));
        let Some(bytes) = columns.get(place).and_then(|it| argument::bytes(it, row)) else {
            return Ok(None);
        };
        let summary = Summary::decode(bytes).map_err(|error| wrong_in(shown(self.name), error))?;
        answer::of(shown(self.name), summary, columns, row)
    }
}

impl ScalarUDFImpl for Accessor {
    fn name(&self) -> &'static str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let is_count = (self.least..=self.arguments.len()).contains(&arg_types.len());
        let types = self.arguments.iter().zip(arg_types);
        let read = types
            .map(|(argument, kind)| argument.read_as(kind))
            .collect::<Option<Vec<DataType>>>();
        if let Some(read) = read.filter(|_| is_count) {
            Ok(read)
        } else {
            let of_column = match self.name {
                "__summary_rate" => "rate(value, time), or ",
                "__summary_delta" => "delta(value, time), or ",
                "__summary_corr" => "corr(y, x), or ",
                _ => "",
            };
            plan_err!(
                "{of_column}{}: summary is what an aggregate such as stats_agg makes, kept as bytea",
                self.usage()
            )
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        internal_err!("{} says its type by its fields", self.name)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = Field::new(shown(self.name), self.kind(&args)?, true);
        let said = match (self.name, args.arg_fields.first()) {
            ("with_bounds", Some(field)) => said(field),
            _ => std::collections::HashMap::new(),
        };
        Ok(Arc::new(field.with_metadata(said)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args
            .args
            .iter()
            .all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let columns = args.args.iter().map(|value| value.to_array(rows));
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let answers = (0..rows).map(|row| self.row(&columns, row));
        let array = if self.out == Out::Summary {
            let mut made = BinaryBuilder::new();
            for answer in answers {
                let bytes = match answer? {
                    Some(Answer::Summary(summary)) => Some(summary.encode()),
                    _ => None,
                };
                made.append_option(bytes);
            }
            Arc::new(made.finish()) as ArrayRef
        } else {
            let mut made = Answers::new(shown(self.name), args.return_field.data_type())?;
            for answer in answers {
                made.push(answer?)?;
            }
            made.finish()
        };
        Ok(if is_scalar {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?)
        } else {
            ColumnarValue::Array(array)
        })
    }
}
