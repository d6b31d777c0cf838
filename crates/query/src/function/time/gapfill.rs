//! `time_bucket_gapfill`, `locf` and `interpolate` as the planner meets them: names, arguments and types.
//!
//! Does not: compute. They mean something to a whole GROUP BY only, so the rule in `crate::operators::gapfill` takes them out of
//! the plan; one that is left has no GROUP BY around it and says so.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, IntervalUnit, TimeUnit};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::time_bucket::signed;

pub(crate) const GAPFILL: &str = "time_bucket_gapfill";
pub(crate) const LOCF: &str = "locf";
pub(crate) const INTERPOLATE: &str = "interpolate";

const USAGE: &str = "time_bucket_gapfill(width, time [, timezone] [, start, finish]): width is an interval such as '5 minutes', time a timestamp or a date, start and finish are times; or all are integers";
const LOCF_USAGE: &str = "locf(value [, prev] [, treat_null_as_missing]): prev is a value of value's type, treat_null_as_missing true or false";
const INTERPOLATE_USAGE: &str = "interpolate(value [, prev] [, next]): value is a number, prev and next are pairs (time, value)";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum GapfillFunction {
    Bucket,
    Locf,
    Interpolate,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Placeholder {
    kind: GapfillFunction,
    signature: Signature,
}

/// All three.
pub(in crate::function) fn functions() -> [Arc<ScalarUDF>; 3] {
    [
        GapfillFunction::Bucket,
        GapfillFunction::Locf,
        GapfillFunction::Interpolate,
    ]
    .map(|kind| {
        // Volatile, so that no rule computes one of constants or merges two.
        let signature = Signature::user_defined(Volatility::Volatile);
        Arc::new(ScalarUDF::new_from_impl(Placeholder { kind, signature }))
    })
}

impl ScalarUDFImpl for Placeholder {
    fn name(&self) -> &str {
        match self.kind {
            GapfillFunction::Bucket => GAPFILL,
            GapfillFunction::Locf => LOCF,
            GapfillFunction::Interpolate => INTERPOLATE,
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match self.kind {
            GapfillFunction::Bucket => bucket_types(arg_types),
            GapfillFunction::Locf => locf_types(arg_types),
            GapfillFunction::Interpolate => interpolate_types(arg_types),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        let place = usize::from(self.kind == GapfillFunction::Bucket);
        if let Some(kind) = arg_types.get(place) {
            Ok(kind.clone())
        } else {
            plan_err!("{USAGE}")
        }
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        misplaced(self.name())
    }
}

/// What is wrong with a call that no GROUP BY took over.
pub(crate) fn misplaced<T>(name: &str) -> Result<T> {
    if name == GAPFILL {
        plan_err!(
            "no top level time_bucket_gapfill in group by clause: write GROUP BY time_bucket_gapfill(width, time), by itself and not inside another expression"
        )
    } else {
        plan_err!(
            "{name} fills what time_bucket_gapfill makes: it stands in the SELECT list of a query that has GROUP BY time_bucket_gapfill(width, time)"
        )
    }
}

fn bucket_types(arg_types: &[DataType]) -> Result<Vec<DataType>> {
    let [width, time, rest @ ..] = arg_types else {
        return plan_err!("{USAGE}");
    };
    if width.is_integer() {
        let kind = signed(time);
        let all = rest.iter().chain([time]);
        // The named form has a place for the time zone.
        if rest.len() > 3
            || !all
                .into_iter()
                .all(|kind| kind.is_integer() || kind.is_null())
        {
            return plan_err!("{USAGE}");
        }
        return Ok(vec![kind; arg_types.len()]);
    }
    if rest.len() > 3 || !(width.is_string() || width.is_null() || is_interval(width)) {
        return plan_err!("{USAGE}");
    }
    let time = match time {
        DataType::Timestamp(..) | DataType::Date32 => time.clone(),
        kind if kind.is_string() || kind.is_null() => {
            DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
        }
        _ => return plan_err!("{USAGE}"),
    };
    let mut coerced = vec![DataType::Interval(IntervalUnit::MonthDayNano), time.clone()];
    for (place, kind) in rest.iter().enumerate() {
        let is_zone = place == 0 && (kind.is_string() || (kind.is_null() && rest.len() == 3));
        coerced.push(match kind {
            _ if is_zone => DataType::Utf8,
            DataType::Timestamp(..) | DataType::Date32 => time.clone(),
            kind if kind.is_string() || kind.is_null() => time.clone(),
            _ => return plan_err!("{USAGE}"),
        });
    }
    Ok(coerced)
}

fn is_interval(kind: &DataType) -> bool {
    matches!(kind, DataType::Interval(_))
}

fn locf_types(arg_types: &[DataType]) -> Result<Vec<DataType>> {
    match arg_types {
        [value] => Ok(vec![value.clone()]),
        [value, DataType::Boolean] if *value != DataType::Boolean => {
            plan_err!("{LOCF_USAGE}; write treat_null_as_missing => true")
        }
        [value, _] => Ok(vec![value.clone(), value.clone()]),
        [value, _, DataType::Boolean | DataType::Null] => {
            Ok(vec![value.clone(), value.clone(), DataType::Boolean])
        }
        _ => plan_err!("{LOCF_USAGE}"),
    }
}

fn interpolate_types(arg_types: &[DataType]) -> Result<Vec<DataType>> {
    let Some((value, records)) = arg_types.split_first() else {
        return plan_err!("{INTERPOLATE_USAGE}");
    };
    let value = match value {
        value if value.is_integer() => value.clone(),
        DataType::Float32 | DataType::Float64 => value.clone(),
        value if value.is_numeric() || value.is_null() => DataType::Float64,
        _ => return plan_err!("{INTERPOLATE_USAGE}"),
    };
    if records.len() > 2 {
        return plan_err!("{INTERPOLATE_USAGE}");
    }
    let mut coerced = vec![value.clone()];
    for record in records {
        coerced.push(match record {
            DataType::Struct(fields) => match fields.as_ref() {
                [time, given] => DataType::Struct(Fields::from(vec![
                    Arc::clone(time),
                    Arc::new(Field::new(given.name(), value.clone(), true)),
                ])),
                _ => return plan_err!("{INTERPOLATE_USAGE}"),
            },
            DataType::Null => DataType::Null,
            _ => return plan_err!("{INTERPOLATE_USAGE}"),
        });
    }
    Ok(coerced)
}
