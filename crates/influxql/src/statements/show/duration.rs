//! Durations as Go prints them: `168h0m0s`, `1.5s`, `90ms`.

/// A duration of so many nanoseconds.
pub(super) fn go_duration(ns: i64) -> String {
    let size = ns.unsigned_abs();
    let sign = if ns < 0 { "-" } else { "" };
    if size == 0 {
        return "0s".to_owned();
    }
    let (unit, name) = match size {
        0..=999 => (1, "ns"),
        1_000..=999_999 => (1_000, "\u{b5}s"),
        1_000_000..=999_999_999 => (1_000_000, "ms"),
        _ => return format!("{sign}{}", clock(size)),
    };
    format!("{sign}{}{name}", fraction(size, unit))
}

/// One second or more.
fn clock(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    let rest = fraction(ns % 60_000_000_000, 1_000_000_000);
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m{rest}s"),
        _ => format!("{hours}h{minutes}m{rest}s"),
    }
}

/// So many units, with as many decimals as it takes.
fn fraction(ns: u64, unit: u64) -> String {
    let digits = match unit {
        1 => 0,
        1_000 => 3,
        1_000_000 => 6,
        _ => 9,
    };
    let (whole, part) = (ns / unit, ns % unit);
    if part == 0 {
        return whole.to_string();
    }
    let decimals = format!("{part:0digits$}");
    format!("{whole}.{}", decimals.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::go_duration;

    /// The examples are those of Go's own test of `time.Duration`.
    #[test]
    fn a_duration_is_printed_as_go_prints_it() {
        for (ns, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1\u{b5}s"),
            (2_200_000, "2.2ms"),
            (3_300_000_000, "3.3s"),
            (245_000_000_000, "4m5s"),
            (245_001_000_000, "4m5.001s"),
            (18_367_001_000_000, "5h6m7.001s"),
            (480_000_000_001, "8m0.000000001s"),
            (i64::MAX, "2562047h47m16.854775807s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(go_duration(ns), text);
        }
    }
}
