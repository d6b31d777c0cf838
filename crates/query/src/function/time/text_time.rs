//! Times that are text: as people write them, and those in UUIDs of version 7.
//!
//! Does: read each value by itself. Does not: round to buckets.

use arrow::array::{Array, StringArray, TimestampNanosecondArray};
use datafusion::common::{Result, exec_err};

use crate::semantics::zone::{Instant, Zone, beyond};

/// Nanoseconds in a millisecond, which is what a UUID counts.
const MS_NS: i64 = 1_000_000;

/// The times of texts, in UTC where they do not say; `function` is who asks.
pub(in crate::function) fn times(
    texts: &StringArray,
    function: &str,
) -> Result<TimestampNanosecondArray> {
    let utc = Zone::default();
    let mut times = Vec::with_capacity(texts.len());
    for text in texts {
        let time = text.map(|text| of_text(text, function, &utc));
        times.push(time.transpose()?);
    }
    Ok(TimestampNanosecondArray::from(times).with_timezone("UTC"))
}

fn of_text(text: &str, function: &str, utc: &Zone) -> Result<i64> {
    if let Some(uuid) = uuid(text) {
        return of_uuid(uuid, text, function);
    }
    match utc.read(text) {
        Ok(Instant::At(time)) => Ok(time),
        Ok(Instant::Before | Instant::After) => exec_err!("{function}: {}", beyond(text)),
        Err(message) => exec_err!("{function}: {message}"),
    }
}

/// A text of 32 hexadecimal digits with hyphens after the 8th, 12th, 16th and 20th, as a number.
fn uuid(text: &str) -> Option<u128> {
    let groups: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    if lengths != [8, 4, 4, 4, 12] || text.contains('+') {
        return None;
    }
    u128::from_str_radix(&groups.concat(), 16).ok()
}

/// The milliseconds since 1970 in its first 48 bits.
fn of_uuid(uuid: u128, text: &str, function: &str) -> Result<i64> {
    let (version, variant) = ((uuid >> 76) & 0xF, (uuid >> 62) & 0b11);
    if version != 7 || variant != 0b10 {
        return exec_err!(
            "{function}: {text} is a UUID of version {version}, and only those of version 7 have a time"
        );
    }
    let time = i64::try_from(uuid >> 80).ok();
    time.and_then(|ms| ms.checked_mul(MS_NS)).map_or_else(
        || exec_err!("{function}: the time of {text} is beyond the times there are"),
        Ok,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_written_as_a_uuid_is_one() {
        for text in [
            "",
            "2026-01-01T00:00:00Z",
            "019913ce-f124-7835-96c7-a2df691caa9",
            "019913cef124783596c7a2df691caa98",
            "019913ce-f124-7835-96c7-a2df691caa9g",
            "+19913ce-f124-7835-96c7-a2df691caa98",
        ] {
            assert_eq!(uuid(text), None, "{text}");
        }
        assert_eq!(uuid("00000000-0000-0000-0000-00000000000A"), Some(10));
    }
}
