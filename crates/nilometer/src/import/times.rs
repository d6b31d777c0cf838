//! Times as people write them into files.
//!
//! Does: read RFC 3339 and its relatives, numbers of seconds to nanoseconds, and a format that the user gives. Does not:
//! guess time zones: a time without one is UTC.

use std::str::FromStr;

use chrono::{DateTime, NaiveDate, NaiveDateTime, TimeZone};
use nilometer_lineproto::{Precision, TIME_NS_MAX, TIME_NS_MIN};

const SECOND_NS: f64 = 1e9;

/// The times that are kept, to the day.
pub(super) const KEPT: &str = "1677-09-21 to 2262-04-11";

/// Dates of digits alone.
const STAMPS: &[&str] = &["%Y%m%d%H%M%S", "%Y%m%d"];

/// Other ways to write times.
const SPELLINGS: &[&str] = &[
    "%d.%m.%Y %H:%M:%S%.f",
    "%d.%m.%Y %H:%M",
    "%d.%m.%Y",
    "%Y/%m/%d %H:%M:%S%.f",
    "%Y/%m/%d %H:%M",
    "%Y/%m/%d",
    "%d/%m/%Y %H:%M:%S%.f",
    "%m/%d/%Y %H:%M:%S%.f",
    "%d/%m/%Y %H:%M",
    "%m/%d/%Y %H:%M",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d/%m/%Y %I:%M:%S %p",
    "%m/%d/%Y %I:%M:%S %p",
    "%d/%m/%Y %I:%M %p",
    "%m/%d/%Y %I:%M %p",
    "%Y-%m-%d %I:%M:%S %p",
    "%Y-%m-%d %I:%M %p",
    "%Y%m%dT%H%M%SZ",
    "%d %B %Y %H:%M:%S",
    "%d %B %Y %H:%M",
    "%d %B %Y",
    "%B %d, %Y %H:%M",
    "%B %d, %Y",
    "%B %d %Y %H:%M",
    "%a, %d %b %Y %H:%M:%S %z",
    "%d/%b/%Y:%H:%M:%S %z",
];

/// How the times of a file are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TimeFormat {
    /// `2024-05-01T12:00:00Z`, with a blank for the T, without seconds, without a zone, or a date alone.
    Iso,
    /// A number in this unit.
    Number(Precision),
    /// What strptime(3) takes, by chrono's rules.
    Given(String),
}

/// What the user says, as an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TimeFormatArg(pub(crate) Option<TimeFormat>);

impl FromStr for TimeFormatArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(match text {
            "auto" => None,
            "rfc3339" | "iso" => Some(TimeFormat::Iso),
            "s" => Some(TimeFormat::Number(Precision::Second)),
            "ms" => Some(TimeFormat::Number(Precision::Millisecond)),
            "us" => Some(TimeFormat::Number(Precision::Microsecond)),
            "ns" => Some(TimeFormat::Number(Precision::Nanosecond)),
            text if text.contains('%') => Some(TimeFormat::Given(text.to_owned())),
            _ => {
                return Err(
                    "give auto, rfc3339, s, ms, us, ns, or a format such as \"%d.%m.%Y %H:%M:%S\""
                        .to_owned(),
                );
            }
        }))
    }
}

impl TimeFormat {
    /// The format that every sample is written in, if there is one. Times that are not kept count as written in it, but
    /// one at least is kept: 01.05.24 is no day of the year 24.
    pub(crate) fn of<'a>(samples: &(impl Iterator<Item = &'a str> + Clone)) -> Option<Self> {
        let fits = |format: &Self| {
            samples.clone().all(|sample| format.parse(sample).is_some())
                && samples.clone().any(|sample| format.read(sample).is_some())
        };
        if fits(&Self::Iso) {
            return Some(Self::Iso);
        }
        // Digits that are a date are one: as a number they would be a time soon after 1970, or far ahead.
        let is_stamp = |sample: &str| matches!(sample.len(), 8 | 14);
        if samples.clone().all(is_stamp)
            && let Some(stamp) = STAMPS.iter().map(|it| Self::given(it)).find(fits)
        {
            return Some(stamp);
        }
        if fits(&Self::Number(Precision::Auto)) {
            return Some(Self::Number(Precision::Auto));
        }
        // What may mean two things is the user's to say.
        let mut known = SPELLINGS.iter().map(|it| Self::given(it)).filter(fits);
        let first = known.next()?;
        let agrees = |other: &Self| samples.clone().all(|it| first.parse(it) == other.parse(it));
        known.all(|other| agrees(&other)).then_some(first)
    }

    fn given(format: &str) -> Self {
        Self::Given(format.to_owned())
    }

    /// The formats that a sample may be written in, as arguments.
    pub(crate) fn suggest(sample: &str) -> Vec<&'static str> {
        let reads = |format: &&&str| Self::given(format).read(sample).is_some();
        let formats = STAMPS.iter().chain(SPELLINGS);
        formats.filter(reads).copied().collect()
    }

    /// For the schema that is shown.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Iso => "RFC 3339, UTC without a zone".to_owned(),
            Self::Number(Precision::Auto) => "number, its size tells the unit".to_owned(),
            Self::Number(Precision::Second) => "seconds".to_owned(),
            Self::Number(Precision::Millisecond) => "milliseconds".to_owned(),
            Self::Number(Precision::Microsecond) => "microseconds".to_owned(),
            Self::Number(_) => "nanoseconds".to_owned(),
            Self::Given(format) => format!("{format}, UTC without a zone"),
        }
    }

    /// A time in Unix nanoseconds.
    pub(crate) fn read(&self, text: &str) -> Option<i64> {
        let time = i64::try_from(self.parse(text)?).ok()?;
        (TIME_NS_MIN..=TIME_NS_MAX).contains(&time).then_some(time)
    }

    /// Why a text is not read.
    pub(super) fn refusal(&self, text: &str) -> String {
        if self.parse(text).is_some() {
            return format!("{text:?} is outside of the times that are kept, {KEPT}");
        }
        format!("{text:?} is no time ({})", self.name())
    }

    /// A time in Unix nanoseconds, whether or not it is one that is kept.
    pub(super) fn parse(&self, text: &str) -> Option<i128> {
        let text = text.trim();
        match self {
            Self::Iso => iso(text),
            Self::Number(precision) => number(text, *precision).map(i128::from),
            Self::Given(format) => given(text, format),
        }
    }
}

/// The time now, for rows of files that have none.
pub(super) fn now_ns() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
    })
}

/// Nanoseconds since 1970.
fn nanoseconds<Z: TimeZone>(time: &DateTime<Z>) -> i128 {
    i128::from(time.timestamp()) * 1_000_000_000 + i128::from(time.timestamp_subsec_nanos())
}

fn iso(text: &str) -> Option<i128> {
    // The usual case first: it costs a fraction of the rest.
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Some(nanoseconds(&time));
    }
    let text = text
        .strip_suffix(" UTC")
        .or_else(|| text.strip_suffix('Z'))
        .unwrap_or(text);
    for format in ["%Y-%m-%d %H:%M:%S%.f%#z", "%Y-%m-%dT%H:%M:%S%.f%#z"] {
        if let Ok(time) = DateTime::parse_from_str(text, format) {
            return Some(nanoseconds(&time));
        }
    }
    naive(
        text,
        &[
            "%Y-%m-%d %H:%M:%S%.f",
            "%Y-%m-%dT%H:%M:%S%.f",
            "%Y-%m-%d %H:%M",
            "%Y-%m-%dT%H:%M",
        ],
        &["%Y-%m-%d"],
    )
}

fn naive(text: &str, with_time: &[&str], dates: &[&str]) -> Option<i128> {
    let read = |format: &&str| NaiveDateTime::parse_from_str(text, format).ok();
    let date = |format: &&str| {
        NaiveDate::parse_from_str(text, format)
            .ok()?
            .and_hms_opt(0, 0, 0)
    };
    let time = with_time.iter().find_map(read);
    let time = time.or_else(|| dates.iter().find_map(date))?;
    Some(nanoseconds(&time.and_utc()))
}

fn number(text: &str, precision: Precision) -> Option<i64> {
    if let Ok(number) = text.parse::<i64>() {
        return precision.nanoseconds(number);
    }
    let number: f64 = text.parse().ok()?;
    let unit = match precision {
        Precision::Auto => SECOND_NS,
        unit => unit.multiplier() as f64,
    };
    // Split, because a double has no room for nanoseconds since 1970 beside the fraction.
    let whole = number.floor();
    let fraction = ((number - whole) * unit).round();
    let time = whole * unit + fraction;
    (time.is_finite() && time.abs() < 9e18).then(|| {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "both are whole and within 9e18"
        )]
        let time = (whole * unit) as i64 + fraction as i64;
        time
    })
}

fn given(text: &str, format: &str) -> Option<i128> {
    if let Ok(time) = DateTime::parse_from_str(text, format) {
        return Some(nanoseconds(&time));
    }
    naive(text, &[format], &[format])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2024-05-01T12:00:00Z, by `date -d 2024-05-01T12:00:00Z +%s`.
    const NOON: i64 = 1_714_564_800_000_000_000;

    #[test]
    fn spellings_that_mean_one_thing_are_known() {
        for texts in [
            ["01.05.2024 12:00", "31.12.2023 00:00"],
            ["2024/05/01 12:00:00", "2024/05/01 12:00:01"],
            ["05/01/2024 12:00", "05/31/2024 12:00"],
            ["1/5/2024 12:00:00 PM", "13/5/2024 1:00:00 AM"],
            ["2024-05-01 12:00:00 PM", "2024-05-01 01:00:00 AM"],
            ["20240501120000", "20240501120001"],
            ["May 1 2024 12:00", "June 1 2024 12:00"],
            ["1 May 2024 12:00", "2 May 2024 12:00"],
            [
                "Wed, 01 May 2024 14:00:00 +0200",
                "Thu, 02 May 2024 14:00:00 +0200",
            ],
            ["01/May/2024:12:00:00 +0000", "02/May/2024:12:00:00 +0000"],
        ] {
            let format = TimeFormat::of(&texts.into_iter()).unwrap();
            assert_eq!(format.read(texts[0]), Some(NOON), "{texts:?} as {format:?}");
        }
        let midnight = NOON - 12 * 3_600 * 1_000_000_000;
        let format = TimeFormat::of(&["20240501", "20240502"].into_iter()).unwrap();
        assert_eq!(format.read("20240501"), Some(midnight));
        // Seconds stay seconds.
        let format = TimeFormat::of(&["1714564800", "99999999"].into_iter()).unwrap();
        assert_eq!(format.read("1714564800"), Some(NOON));
    }

    #[test]
    fn what_may_mean_two_things_is_asked_for_with_both() {
        let texts = ["05/01/2024 12:00", "05/02/2024 12:00"];
        assert_eq!(TimeFormat::of(&texts.into_iter()), None);
        assert_eq!(
            TimeFormat::suggest(texts[0]),
            ["%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M"]
        );
        // The same either way.
        assert!(TimeFormat::of(&["05/05/2024"].into_iter()).is_some());
        assert!(TimeFormat::suggest("noon").is_empty());
    }

    #[test]
    fn times_are_read_in_every_usual_spelling() {
        for text in [
            "2024-05-01T12:00:00Z",
            "2024-05-01 12:00:00",
            "2024-05-01T12:00",
            "2024-05-01 12:00:00 UTC",
            "2024-05-01T14:00:00+02:00",
            "2024-05-01 14:00:00+02",
            " 2024-05-01 12:00:00.000 ",
        ] {
            assert_eq!(TimeFormat::Iso.read(text), Some(NOON), "{text}");
        }
        assert_eq!(
            TimeFormat::Iso.read("2024-05-01"),
            Some(NOON - 12 * 3600 * 1_000_000_000)
        );
        for text in [
            "1714564800",
            "1714564800000",
            "1714564800.0",
            "1714564800000000000",
        ] {
            let auto = TimeFormat::Number(Precision::Auto);
            assert_eq!(auto.read(text), Some(NOON), "{text}");
        }
        let german = TimeFormat::Given("%d.%m.%Y %H:%M".to_owned());
        assert_eq!(german.read("01.05.2024 12:00"), Some(NOON));
        let milliseconds = TimeFormat::Number(Precision::Millisecond);
        assert_eq!(milliseconds.read("0.5"), Some(500_000));
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "x",
            "12",
            "2024-13-01",
            "2024-05-01T25:00:00Z",
            "9999-01-01",
        ] {
            assert_eq!(TimeFormat::Iso.read(text), None, "{text}");
        }
        for text in ["", "x", "1e300", "NaN", "9223372036854775807"] {
            let number = TimeFormat::Number(Precision::Nanosecond);
            assert_eq!(number.read(text), None, "{text}");
        }
    }

    /// A file with 2024-01-01, 9999-12-31 and 1600-01-01 was refused as a whole, and the reason was that 2024-01-01 is no
    /// known time.
    #[test]
    fn times_that_are_not_kept_are_written_in_the_format_all_the_same() {
        let of = |samples: &[&str]| TimeFormat::of(&samples.iter().copied());
        let iso = Some(TimeFormat::Iso);
        for samples in [
            &["2024-01-01", "9999-12-31", "1600-01-01"][..],
            &[
                "9999-12-31T23:59:59Z",
                "0001-01-01T00:00:00Z",
                "2024-01-01T00:00:00Z",
            ],
            &["9999-12-31 23:59", "2024-01-01 00:00"],
        ] {
            assert_eq!(of(samples), iso, "{samples:?}");
        }
        let said = TimeFormat::Iso.refusal("9999-12-31");
        assert!(said.contains("1677-09-21 to 2262-04-11"), "{said}");
        let german = of(&["31.12.9999", "24.12.2024"]).unwrap();
        assert_eq!(german.read("31.12.9999"), None);
        assert_eq!(german.read("24.12.2024"), Some(1_734_998_400_000_000_000));
        // Which number is the day is not known from these, though one of the two is a time that is not kept.
        assert_eq!(of(&["05/01/2024", "05/02/9999"]), None);
        // Years of two digits are not years of long ago.
        assert_eq!(of(&["24-05-01", "24-05-02"]), None);
        assert_eq!(of(&["9999-12-31"]), None);
    }

    #[test]
    fn a_format_must_fit_every_sample() {
        let of = |samples: &[&str]| TimeFormat::of(&samples.iter().copied());
        assert_eq!(of(&["2024-05-01", "2024-05-02"]), Some(TimeFormat::Iso));
        assert_eq!(
            of(&["1714564800"]),
            Some(TimeFormat::Number(Precision::Auto))
        );
        assert_eq!(of(&["2024-05-01", "1714564800"]), None);
        assert_eq!(of(&[]), None);
    }
}
