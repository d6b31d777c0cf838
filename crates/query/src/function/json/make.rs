//! JSON of other values, and of other JSON.

use std::fmt::Write;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, TimeUnit, TimestampNanosecondType,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use chrono::{DateTime, NaiveDate, TimeDelta};
use datafusion::common::{Result, exec_err};
use nilometer_engine::Json;

use super::Argument;
use super::part::{Key, place_in};

pub(super) fn null() -> Json {
    Json::Word("null".to_owned())
}

/// A value of a column as JSON.
pub(super) fn value(array: &ArrayRef, row: usize) -> Result<Json> {
    if array.is_null(row) {
        return Ok(null());
    }
    Ok(match array.data_type() {
        DataType::Boolean => Json::Word(array.as_boolean().value(row).to_string()),
        kind if kind.is_integer() || matches!(kind, DataType::Decimal128(..)) => {
            Json::Word(shown(array, row)?)
        }
        DataType::Float64 => float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Float32 => {
            let value = array.as_primitive::<Float32Type>().value(row);
            if value.is_finite() {
                // By its own digits, of which a double has more.
                Json::Word(value.to_string())
            } else {
                float(value.into())
            }
        }
        DataType::Timestamp(_, zone) => {
            let ns = cast(
                array,
                &DataType::Timestamp(TimeUnit::Nanosecond, zone.clone()),
            )?;
            let ns = ns.as_primitive::<TimestampNanosecondType>().value(row);
            let time = DateTime::from_timestamp_nanos(ns);
            let clock = time.format("%Y-%m-%dT%H:%M:%S").to_string();
            let rest = time.timestamp_subsec_nanos();
            let rest = match rest {
                0 => String::new(),
                rest => format!(".{rest:09}").trim_end_matches('0').to_owned(),
            };
            let zone = if zone.is_some() { "+00:00" } else { "" };
            Json::Text(format!("{clock}{rest}{zone}"))
        }
        DataType::Date32 => {
            let days = array.as_primitive::<Date32Type>().value(row);
            let date = NaiveDate::default().checked_add_signed(TimeDelta::days(days.into()));
            match date {
                Some(date) => Json::Text(date.to_string()),
                None => return exec_err!("date out of range"),
            }
        }
        DataType::Binary => {
            let bytes = array.as_binary::<i32>().value(row).iter();
            let mut text = "\\x".to_owned();
            for byte in bytes {
                // Writing to a string cannot fail.
                let _ = write!(text, "{byte:02x}");
            }
            Json::Text(text)
        }
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            let values = (0..items.len()).map(|at| value(&items, at));
            Json::Array(values.collect::<Result<_>>()?)
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            let entries = fields.iter().zip(columns);
            let entries = entries.map(|(field, column)| {
                let column = plain(column)?;
                Ok((field.name().clone(), value(&column, row)?))
            });
            Json::Object(entries.collect::<Result<_>>()?)
        }
        DataType::Dictionary(..) => value(&plain(array)?, row)?,
        _ => Json::Text(shown(array, row)?),
    })
}

fn plain(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Dictionary(_, kind) => Ok(cast(array, kind)?),
        _ => Ok(ArrayRef::clone(array)),
    }
}

fn shown(array: &ArrayRef, row: usize) -> Result<String> {
    let options = FormatOptions::default();
    Ok(ArrayFormatter::try_new(array, &options)?
        .value(row)
        .try_to_string()?)
}

/// All digits of it; what JSON has no number for is a string.
fn float(value: f64) -> Json {
    if value.is_nan() {
        return Json::Text("NaN".to_owned());
    }
    match value.is_finite() {
        true if value == 0.0 => Json::Word("0".to_owned()),
        true => Json::Word(value.to_string()),
        false if value > 0.0 => Json::Text("Infinity".to_owned()),
        false => Json::Text("-Infinity".to_owned()),
    }
}

pub(super) fn value_or_null(of: &Argument, row: usize) -> Result<Json> {
    Ok(of.value(row)?.unwrap_or_else(null))
}

/// An object of keys and values, one after the other.
pub(super) fn object(name: &str, row: usize, arguments: &[Argument]) -> Result<Json> {
    let mut entries = Vec::with_capacity(arguments.len() / 2);
    for (at, pair) in arguments.chunks(2).enumerate() {
        let [key, of] = pair else {
            return exec_err!("{name}: argument list must have even number of elements");
        };
        if key.array.is_null(row) {
            return exec_err!("argument {}: key must not be null", at * 2 + 1);
        }
        entries.push((key_of(key, row)?, value_or_null(of, row)?));
    }
    Ok(Json::Object(entries))
}

fn key_of(key: &Argument, row: usize) -> Result<String> {
    match key.text(row) {
        Some(text) => Ok(text.to_owned()),
        None => shown(&key.array, row),
    }
}

/// An object of an array of keys and one of JSON; `None` = there are none.
pub(super) fn pairs(
    keys: &Argument,
    values: Option<&Argument>,
    row: usize,
) -> Result<Option<Json>> {
    let Some(keys) = keys.array.as_list_opt::<i32>() else {
        return exec_err!("keys of an object are an array");
    };
    let values = values.map_or(Ok(None), |it| it.elements(row))?;
    let Some(values) = values.filter(|_| keys.is_valid(row)) else {
        return Ok(None);
    };
    let keys = plain(&keys.value(row))?;
    let entries = values.into_iter().enumerate().map(|(at, value)| {
        if keys.is_null(at) {
            return exec_err!("field name must not be null");
        }
        Ok((shown(&keys, at)?, value))
    });
    Ok(Some(Json::Object(entries.collect::<Result<_>>()?)))
}

/// Two objects as one, of equal keys the second's; anything else as arrays one after the other.
pub(super) fn concat(one: Json, other: Json) -> Json {
    let items = |json| match json {
        Json::Array(items) => items,
        json => vec![json],
    };
    match (one, other) {
        (Json::Object(mut entries), Json::Object(more)) => {
            entries.extend(more);
            Json::Object(entries)
        }
        (one, other) => {
            let mut all = items(one);
            all.extend(items(other));
            Json::Array(all)
        }
    }
}

/// Without a key, a string of an array, or an element.
pub(super) fn without(json: Json, key: &Key) -> Result<Json> {
    Ok(match (json, key) {
        (Json::Object(mut entries), Key::Name(name)) => {
            entries.retain(|(key, _)| key != name);
            Json::Object(entries)
        }
        (Json::Array(mut items), Key::Name(name)) => {
            items.retain(|item| !matches!(item, Json::Text(text) if text == name));
            Json::Array(items)
        }
        (Json::Array(mut items), Key::Place(place)) => {
            let place = place_in(items.len(), *place);
            if let Some(place) = place.filter(|place| *place < items.len()) {
                items.remove(place);
            }
            Json::Array(items)
        }
        (Json::Object(_), Key::Place(_)) => {
            return exec_err!("cannot delete from object using integer index");
        }
        _ => return exec_err!("cannot delete from scalar"),
    })
}

/// Without the keys of objects whose value is null.
pub(super) fn without_nulls(json: Json) -> Json {
    match json {
        Json::Object(entries) => {
            let kept = entries.into_iter();
            let kept = kept.filter(|(_, value)| *value != null());
            Json::Object(
                kept.map(|(key, value)| (key, without_nulls(value)))
                    .collect(),
            )
        }
        Json::Array(items) => Json::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}
