//! Durations: `1h30m` and back, in nanoseconds.

use crate::Error;

const UNITS: [(i64, &str); 7] = [
    (7 * 24 * 3_600_000_000_000, "w"),
    (24 * 3_600_000_000_000, "d"),
    (3_600_000_000_000, "h"),
    (60_000_000_000, "m"),
    (1_000_000_000, "s"),
    (1_000_000, "ms"),
    (1_000, "u"),
];

/// The duration in the largest unit that divides it: `90m`, `1w`, `0s`.
pub fn format_duration(ns: i64) -> String {
    if ns == 0 {
        return "0s".to_owned();
    }
    for (unit, name) in UNITS {
        if ns % unit == 0 {
            return format!("{}{name}", ns / unit);
        }
    }
    format!("{ns}ns")
}

/// The duration as Go prints it, which `CREATE DATABASE` does: `24h0m0s`, `1.5ms`.
pub fn format_clock(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    let total = ns.unsigned_abs();
    if total == 0 {
        return "0s".to_owned();
    }
    if total < 1_000_000_000 {
        let (unit, name) = match total {
            0..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "\u{b5}s"),
            _ => (1_000_000, "ms"),
        };
        return format!("{sign}{}{name}", fraction(total, unit));
    }
    let seconds = total / 1_000_000_000;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let rest = fraction(total % 60_000_000_000, 1_000_000_000);
    match (hours, minutes) {
        (0, 0) => format!("{sign}{rest}s"),
        (0, _) => format!("{sign}{minutes}m{rest}s"),
        _ => format!("{sign}{hours}h{minutes}m{rest}s"),
    }
}

/// `value / unit` in decimal, without zeros at the end. `unit` is a power of ten.
fn fraction(value: u64, unit: u64) -> String {
    let (whole, rest) = (value / unit, value % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let digits = format!("{:0width$}", rest, width = unit.ilog10() as usize);
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

/// Nanoseconds of a duration of numbers and units: ns, u, ms, s, m, h, d, w.
pub fn parse_duration(text: &str) -> Result<i64, Error> {
    let invalid = || Error::refused("invalid duration");
    if text.len() < 2 {
        return Err(invalid());
    }
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut total = 0_i64;
    let mut last = (0_i64, "");
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        let number: i64 = number.parse().map_err(|_| invalid())?;
        let (unit, name) = unit_of(tail).ok_or_else(invalid)?;
        // Go's integers wrap; whether the sum did is seen by its sign.
        total = total.wrapping_add(number.wrapping_mul(unit));
        last = (number, name);
        rest = tail.get(name.len()..).unwrap_or_default();
    }
    if total < 0 && !negative {
        let (number, name) = last;
        return Err(Error::refused(format!(
            "overflowed duration {number}{name}: choose a smaller duration or INF"
        )));
    }
    Ok(if negative {
        total.wrapping_neg()
    } else {
        total
    })
}

fn unit_of(text: &str) -> Option<(i64, &str)> {
    let (unit, bytes) = match text.chars().next()? {
        'n' if text.starts_with("ns") => (1, 2),
        'u' => (1_000, 1),
        '\u{b5}' => (1_000, 2),
        'm' if text.starts_with("ms") => (1_000_000, 2),
        'm' => (60_000_000_000, 1),
        's' => (1_000_000_000, 1),
        'h' => (3_600_000_000_000, 1),
        'd' => (24 * 3_600_000_000_000, 1),
        'w' => (7 * 24 * 3_600_000_000_000, 1),
        _ => return None,
    };
    Some((unit, text.get(..bytes)?))
}

#[cfg(test)]
mod tests {
    use super::{format_clock, format_duration, parse_duration};

    #[test]
    fn durations_have_their_largest_unit() {
        for (text, ns, shown, clock) in [
            ("10ns", 10, "10ns", "10ns"),
            ("3u", 3_000, "3u", "3\u{b5}s"),
            ("3\u{b5}", 3_000, "3u", "3\u{b5}s"),
            ("1500ms", 1_500_000_000, "1500ms", "1.5s"),
            ("1500u", 1_500_000, "1500u", "1.5ms"),
            ("90m", 5_400_000_000_000, "90m", "1h30m0s"),
            ("1h30m", 5_400_000_000_000, "90m", "1h30m0s"),
            ("60m", 3_600_000_000_000, "1h", "1h0m0s"),
            ("14d", 1_209_600_000_000_000, "2w", "336h0m0s"),
            ("2m1s", 121_000_000_000, "121s", "2m1s"),
            ("-5m", -300_000_000_000, "-5m", "-5m0s"),
        ] {
            assert_eq!(parse_duration(text), Ok(ns), "{text}");
            assert_eq!(format_duration(ns), shown);
            assert_eq!(format_clock(ns), clock);
        }
        for text in [
            "",
            "1",
            "s",
            "1y",
            "1n",
            "1hh",
            "h1",
            "99999999999999999999h",
        ] {
            assert_eq!(
                parse_duration(text).unwrap_err().to_string(),
                "invalid duration",
                "{text}"
            );
        }
        assert_eq!(
            parse_duration("15251w").unwrap_err().to_string(),
            "overflowed duration 15251w: choose a smaller duration or INF"
        );
    }
}
