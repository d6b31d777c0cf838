//! Days and times in PostgreSQL's other spellings: `Jan 5 2024`, `1/5/2024`, `20240105T0304`, `Mon Jan 05 03:04:05 2024 PST`, `3:04 PM`.
//!
//! Does: read what is no ISO 8601, months before days as PostgreSQL's own setting has it (`DateStyle = MDY`). Does not: know
//! what is now (`today`), or the rules of zones that have a name; those of an abbreviation are fixed (`PST` is eight hours).

use super::text::{DAY_NS, days_of, number, time_of_day};

/// What a text says: a day, and where on its clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spelled<'a> {
    /// Days since 1970.
    pub days: i64,
    /// Nanoseconds of the day, up to 24 hours.
    pub ns: i64,
    /// The zone that is said.
    pub zone: SpelledZone<'a>,
}

/// The zone of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpelledZone<'a> {
    /// None is said.
    Unsaid,
    /// Seconds east of UTC.
    Offset(i32),
    /// What may be the name of a zone.
    Name(&'a str),
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

const WEEKDAYS: [&str; 7] = [
    "sunday",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
];

/// Abbreviations of PostgreSQL's default set that people write, with hours and minutes east of UTC.
const ZONES: [(&str, i32, i32); 33] = [
    ("z", 0, 0),
    ("zulu", 0, 0),
    ("utc", 0, 0),
    ("ut", 0, 0),
    ("gmt", 0, 0),
    ("wet", 0, 0),
    ("bst", 1, 0),
    ("cet", 1, 0),
    ("met", 1, 0),
    ("cest", 2, 0),
    ("mest", 2, 0),
    ("eet", 2, 0),
    ("eest", 3, 0),
    ("msk", 3, 0),
    ("msd", 4, 0),
    ("pkt", 5, 0),
    ("ist", 2, 0),
    ("hkt", 8, 0),
    ("sgt", 8, 0),
    ("jst", 9, 0),
    ("kst", 9, 0),
    ("aest", 10, 0),
    ("aedt", 11, 0),
    ("nzst", 12, 0),
    ("nzdt", 13, 0),
    ("nst", -3, -30),
    ("ast", -4, 0),
    ("edt", -4, 0),
    ("est", -5, 0),
    ("cdt", -5, 0),
    ("cst", -6, 0),
    ("mdt", -6, 0),
    ("mst", -7, 0),
];

/// Those of the Pacific and beyond.
const WESTERN: [(&str, i32); 5] = [
    ("pdt", -7),
    ("pst", -8),
    ("akdt", -8),
    ("akst", -9),
    ("hst", -10),
];

/// The furthest that a zone is from UTC: PostgreSQL's limit.
const OFFSET_MAX: i32 = 15 * 3600 + 59 * 60 + 59;

/// The Julian day of 1970-01-01.
const JULIAN_1970: i64 = 2_440_588;

/// Reads a time; `None` = it is none, or says only what today's date would complete.
pub fn spelled(text: &str) -> Option<Spelled<'_>> {
    if text.trim().eq_ignore_ascii_case("epoch") {
        return Some(Spelled {
            days: 0,
            ns: 0,
            zone: SpelledZone::Offset(0),
        });
    }
    let mut read = Reading::default();
    let mut rest = text.trim_matches(is_between);
    while !rest.is_empty() {
        let (token, after) = first_token(rest)?;
        read.take(token)?;
        rest = after.trim_start_matches(is_between);
    }
    read.finish()
}

fn is_between(letter: char) -> bool {
    letter.is_ascii_whitespace() || letter == ','
}

#[derive(Debug, Clone, Copy)]
enum Token<'a> {
    /// Digits, maybe with colons and a point.
    Clock(&'a str),
    /// `2024-Jan-05`, `1/5/2024`, `5.1.2024`.
    Day(&'a str),
    Number(&'a str),
    Offset(&'a str),
    Word(&'a str),
}

/// The first token of a text that has one, and what follows.
fn first_token(text: &str) -> Option<(Token<'_>, &str)> {
    let first = text.chars().next()?;
    if first.is_ascii_digit() {
        return first_number(text);
    }
    if matches!(first, '+' | '-') {
        let digits = text.get(1..)?;
        let end = digits.find(|letter: char| !(letter.is_ascii_digit() || letter == ':'));
        let (offset, rest) = text.split_at(1 + end.unwrap_or(digits.len()));
        return Some((Token::Offset(offset), rest));
    }
    if !first.is_ascii_alphabetic() {
        return None;
    }
    let letters = length(text, &|letter| letter.is_ascii_alphabetic());
    let behind = text.get(letters..)?;
    // `Jan-05-2024`
    let is_number = |text: &str| text.starts_with(|letter: char| letter.is_ascii_digit());
    if behind.strip_prefix('-').is_some_and(is_number) && month_of(text.get(..letters)?).is_some() {
        let end = length(text, &|letter| {
            letter.is_ascii_alphanumeric() || letter == '-'
        });
        let (day, rest) = text.split_at(day_end(text.get(..end)?, '-'));
        return Some((Token::Day(day), rest));
    }
    // The T before a clock.
    if first.eq_ignore_ascii_case(&'t') && letters == 1 && is_number(behind) {
        return first_number(behind);
    }
    let is_of_word =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '/' | '_' | '.');
    let (word, rest) = text.split_at(length(text, &is_of_word));
    Some((Token::Word(word), rest))
}

/// How many bytes at the beginning are such letters.
fn length(text: &str, is_part: &dyn Fn(char) -> bool) -> usize {
    let end = text.find(|letter: char| !is_part(letter));
    end.unwrap_or(text.len())
}

/// The first token of a text that begins with a digit.
fn first_number(text: &str) -> Option<(Token<'_>, &str)> {
    let digits = length(text, &|letter| letter.is_ascii_digit());
    let next = text.get(digits..)?.chars().next();
    Some(match next {
        Some(':') => {
            let is_of_clock = |letter: char| letter.is_ascii_digit() || matches!(letter, ':' | '.');
            let (clock, rest) = text.split_at(length(text, &is_of_clock));
            (Token::Clock(clock), rest)
        }
        Some(separator @ ('-' | '/')) if is_day(text.get(digits..)?, separator) => {
            let is_of_day = |letter: char| letter.is_ascii_alphanumeric() || letter == separator;
            // `2024-01-05T03:04`: the time begins behind the last digits.
            let end = day_end(text.get(..length(text, &is_of_day))?, separator);
            let (day, rest) = text.split_at(end);
            (Token::Day(day), rest)
        }
        Some('.') => {
            let end = length(text, &|letter| letter.is_ascii_digit() || letter == '.');
            let (number, rest) = text.split_at(end);
            if number.matches('.').count() == 2 {
                (Token::Day(number), rest)
            } else {
                (Token::Number(number), rest)
            }
        }
        _ => {
            let (number, rest) = text.split_at(digits);
            (Token::Number(number), rest)
        }
    })
}

/// Whether what follows digits makes a day of them: a part between two separators.
fn is_day(text: &str, separator: char) -> bool {
    let mut parts = text.get(1..).unwrap_or_default().splitn(2, separator);
    let is_part =
        |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_alphanumeric());
    parts.next().is_some_and(is_part) && parts.next().is_some()
}

/// Where the third part of a day ends: behind its digits.
fn day_end(text: &str, separator: char) -> usize {
    let Some((at, _)) = text.match_indices(separator).nth(1) else {
        return text.len();
    };
    let last = text.get(at + 1..).unwrap_or_default();
    let end = last.find(|letter: char| !letter.is_ascii_digit());
    match end {
        // A month may be the last part of none.
        Some(digits) if digits > 0 => at + 1 + digits,
        Some(_) => at + 1,
        None => text.len(),
    }
}

fn month_of(word: &str) -> Option<i64> {
    let word = word.to_ascii_lowercase();
    let at = MONTHS.iter().position(|name| {
        *name == word || name.get(..3) == Some(&*word) || (*name == "september" && word == "sept")
    })?;
    i64::try_from(at + 1).ok()
}

fn is_weekday(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    let is_known = |name: &&str| **name == word || name.get(..3) == Some(&*word);
    WEEKDAYS.iter().any(is_known) || matches!(&*word, "tues" | "wednes" | "weds" | "thur" | "thurs")
}

/// Seconds east of UTC of an abbreviation.
fn abbreviation(word: &str) -> Option<i32> {
    let word = word.to_ascii_lowercase();
    let known = ZONES.iter().find(|(name, ..)| *name == word);
    let known = known.map(|(_, hours, minutes)| hours * 3600 + minutes * 60);
    let western = || WESTERN.iter().find(|(name, _)| *name == word);
    known.or_else(|| western().map(|(_, hours)| hours * 3600))
}

/// Seconds east of UTC of `+1`, `+01`, `+0130`, `-01:30` or `+01:30:15`.
fn offset(text: &str) -> Option<i32> {
    let (sign, digits) = text.split_at_checked(1)?;
    let mut parts = digits.split(':');
    let first = parts.next()?;
    let (hours, minutes) = match (parts.next(), first.len()) {
        (Some(minutes), _) => (first, minutes),
        (None, 3 | 4) => first.split_at(first.len() - 2),
        (None, 1 | 2) => (first, "0"),
        _ => return None,
    };
    let seconds = parts.next().unwrap_or("0");
    let is_over = parts.next().is_some();
    let (hours, minutes, seconds) = (number(hours)?, number(minutes)?, number(seconds)?);
    let fits = !is_over && hours <= 15 && minutes < 60 && seconds < 60;
    let all = i32::try_from(hours * 3600 + minutes * 60 + seconds).ok()?;
    (fits && all <= OFFSET_MAX).then_some(if sign == "-" { -all } else { all })
}

/// What was read of a text so far.
#[derive(Debug, Default)]
struct Reading<'a> {
    year: Option<(i64, bool)>,
    month: Option<i64>,
    is_month_named: bool,
    day: Option<i64>,
    /// Days since 1970, of what says them at once.
    whole: Option<i64>,
    clock: Option<i64>,
    /// Whether hours are of the afternoon.
    afternoon: Option<bool>,
    zone: Option<SpelledZone<'a>>,
    is_bc: Option<bool>,
}

impl<'a> Reading<'a> {
    fn take(&mut self, token: Token<'a>) -> Option<()> {
        match token {
            Token::Clock(clock) => self.set_clock(time_of_day(clock)?),
            Token::Day(day) => self.take_day(day),
            Token::Number(digits) => self.take_number(digits),
            Token::Offset(text) => self.set_zone(SpelledZone::Offset(offset(text)?)),
            Token::Word(word) => self.take_word(word),
        }
    }

    fn set_clock(&mut self, ns: i64) -> Option<()> {
        self.clock.replace(ns).is_none().then_some(())
    }

    fn set_zone(&mut self, zone: SpelledZone<'a>) -> Option<()> {
        self.zone.replace(zone).is_none().then_some(())
    }

    fn has_day(&self) -> bool {
        self.whole.is_some() || (self.year.is_some() && self.month.is_some() && self.day.is_some())
    }

    /// The parts of a day: its month first, if that has a name.
    fn take_day(&mut self, text: &str) -> Option<()> {
        let parts = || text.split(['-', '/', '.']);
        for part in parts() {
            if part.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
                self.name_month(month_of(part)?)?;
            }
        }
        for part in parts() {
            if part.starts_with(|letter: char| letter.is_ascii_digit()) {
                self.part_of_day(part)?;
            }
        }
        self.has_day().then_some(())
    }

    fn name_month(&mut self, month: i64) -> Option<()> {
        if self.is_month_named {
            return None;
        }
        // `08 Jan 1999`: the number before the name was the day.
        if let Some(number) = self.month.take() {
            self.day.replace(number).is_none().then_some(())?;
        }
        self.month = Some(month);
        self.is_month_named = true;
        Some(())
    }

    fn set_year(&mut self, digits: &str) -> Option<()> {
        let is_short = digits.len() <= 2;
        let year = (number(digits)?, is_short);
        self.year.replace(year).is_none().then_some(())
    }

    /// One number of a day, by what is known before it.
    fn part_of_day(&mut self, digits: &str) -> Option<()> {
        let value = number(digits)?;
        let is_long = digits.len() >= 3;
        match (
            self.year.is_some(),
            self.month.is_some(),
            self.day.is_some(),
        ) {
            (false, false, false) if is_long => self.set_year(digits),
            (false, true, false) if self.is_month_named && is_long => self.set_year(digits),
            (_, false, _) => {
                self.month = Some(value);
                Some(())
            }
            (_, true, false) => {
                self.day = Some(value);
                Some(())
            }
            (false, true, true) => self.set_year(digits),
            (true, true, true) => None,
        }
    }

    fn take_number(&mut self, digits: &str) -> Option<()> {
        if let Some((whole, fraction)) = digits.split_once('.') {
            if self.has_day() || whole.len() > 4 {
                return self.clock_without_colons(whole, fraction);
            }
            // `2024.008`: the day of the year.
            let day = number(fraction).filter(|_| fraction.len() == 3)?;
            let year = number(whole).filter(|_| whole.len() == 4)?;
            let length = days_of(year + 1, 1, 1)? - days_of(year, 1, 1)?;
            (1..=length).contains(&day).then_some(())?;
            self.whole = Some(days_of(year, 1, 1)? + day - 1);
            return Some(());
        }
        if self.has_day() {
            return self.clock_without_colons(digits, "");
        }
        match digits.len() {
            8 if self.is_without_day() => self.day_without_hyphens(digits.split_at(4)),
            6 if self.is_without_day() => self.day_without_hyphens(digits.split_at(2)),
            1..=4 => self.part_of_day(digits),
            _ => None,
        }
    }

    fn is_without_day(&self) -> bool {
        self.year.is_none() && self.month.is_none() && self.day.is_none()
    }

    fn day_without_hyphens(&mut self, (year, rest): (&str, &str)) -> Option<()> {
        let (month, day) = rest.split_at(2);
        self.set_year(year)?;
        self.month = Some(number(month)?);
        self.day = Some(number(day)?);
        Some(())
    }

    /// `0304`, `030405` and `030405.25`.
    fn clock_without_colons(&mut self, digits: &str, fraction: &str) -> Option<()> {
        let (hours, rest) = digits.split_at_checked(2)?;
        let clock = match rest.len() {
            2 if fraction.is_empty() => format!("{hours}:{rest}"),
            4 => {
                let (minutes, seconds) = rest.split_at(2);
                let point = if fraction.is_empty() { "" } else { "." };
                format!("{hours}:{minutes}:{seconds}{point}{fraction}")
            }
            _ => return None,
        };
        self.set_clock(time_of_day(&clock)?)
    }

    fn take_word(&mut self, word: &'a str) -> Option<()> {
        if let Some(month) = month_of(word) {
            return self.name_month(month);
        }
        if is_weekday(word) || matches!(&*word.to_ascii_lowercase(), "at" | "on") {
            return Some(());
        }
        let lower = word.to_ascii_lowercase();
        match &*lower {
            "am" | "pm" => {
                return self
                    .afternoon
                    .replace(lower == "pm")
                    .is_none()
                    .then_some(());
            }
            "bc" | "ad" => return self.is_bc.replace(lower == "bc").is_none().then_some(()),
            "allballs" => {
                self.set_clock(0)?;
                return self.set_zone(SpelledZone::Offset(0));
            }
            _ => {}
        }
        if let Some(julian) = lower.strip_prefix('j').and_then(number) {
            let days = self.is_without_day().then_some(julian - JULIAN_1970)?;
            return self.whole.replace(days).is_none().then_some(());
        }
        self.set_zone(match abbreviation(word) {
            Some(seconds) => SpelledZone::Offset(seconds),
            None => SpelledZone::Name(word),
        })
    }

    fn finish(self) -> Option<Spelled<'a>> {
        let is_bc = self.is_bc == Some(true);
        let days = if let Some(days) = self.whole {
            days
        } else {
            let (year, is_short) = self.year?;
            let year = match year {
                year if is_bc => 1 - year,
                0 if !is_short => return None,
                year if is_short && year < 70 => year + 2000,
                year if is_short => year + 1900,
                year => year,
            };
            if !(-5000..=5_874_897).contains(&year) || (is_bc && year > 0) {
                return None;
            }
            days_of(year, self.month?, self.day?)?
        };
        let ns = match (self.clock, self.afternoon) {
            (None, None) => 0,
            (None, Some(_)) => return None,
            (Some(ns), None) => ns,
            (Some(ns), Some(is_afternoon)) => {
                let half = DAY_NS / 2;
                (ns < half + half / 12).then_some(())?;
                ns % half + if is_afternoon { half } else { 0 }
            }
        };
        Some(Spelled {
            days,
            ns,
            zone: self.zone.unwrap_or(SpelledZone::Unsaid),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The day, the clock's seconds and the offset that PostgreSQL 15 reads (`DateStyle = ISO, MDY`).
    #[test]
    fn spellings_of_postgresql_are_read() {
        let day = |text: &str| super::super::text::date(text).unwrap();
        let east = SpelledZone::Offset;
        for (text, date, seconds, zone) in [
            (
                "Jan 5 2024 3:04 PM",
                "2024-01-05",
                54_240,
                SpelledZone::Unsaid,
            ),
            (
                "Mon Jan 05 03:04:05 2024 PST",
                "2024-01-05",
                11_045,
                east(-28_800),
            ),
            (
                "Mon Mar 20 09:17:00.5 2017",
                "2017-03-20",
                33_420,
                SpelledZone::Unsaid,
            ),
            ("20240105T030405", "2024-01-05", 11_045, SpelledZone::Unsaid),
            ("20240105", "2024-01-05", 0, SpelledZone::Unsaid),
            ("240105", "2024-01-05", 0, SpelledZone::Unsaid),
            ("2024/1/5", "2024-01-05", 0, SpelledZone::Unsaid),
            ("2018/01/02", "2018-01-02", 0, SpelledZone::Unsaid),
            ("5-1-2024", "2024-05-01", 0, SpelledZone::Unsaid),
            ("1/18/1999", "1999-01-18", 0, SpelledZone::Unsaid),
            ("01/02/03", "2003-01-02", 0, SpelledZone::Unsaid),
            ("5.1.2024", "2024-05-01", 0, SpelledZone::Unsaid),
            ("2024-Jan-05", "2024-01-05", 0, SpelledZone::Unsaid),
            ("08-Jan-1999", "1999-01-08", 0, SpelledZone::Unsaid),
            ("08-Jan-99", "1999-01-08", 0, SpelledZone::Unsaid),
            ("Jan-08-1999", "1999-01-08", 0, SpelledZone::Unsaid),
            ("08 Jan 1999", "1999-01-08", 0, SpelledZone::Unsaid),
            ("1999 Jan 08", "1999-01-08", 0, SpelledZone::Unsaid),
            ("1999 08 Jan", "1999-01-08", 0, SpelledZone::Unsaid),
            ("January 8, 1999", "1999-01-08", 0, SpelledZone::Unsaid),
            ("1999 01 08", "1999-01-08", 0, SpelledZone::Unsaid),
            ("J2451187", "1999-01-08", 0, SpelledZone::Unsaid),
            ("1999.008", "1999-01-08", 0, SpelledZone::Unsaid),
            ("January 8, 99 BC", "0099-01-08 BC", 0, SpelledZone::Unsaid),
            ("2024-01-01Z", "2024-01-01", 0, east(0)),
            ("2024-01-01 PST", "2024-01-01", 0, east(-28_800)),
            ("2024-01-01 05:00:00+3", "2024-01-01", 18_000, east(10_800)),
            ("2000-01-01 0:00:00+0", "2000-01-01", 0, east(0)),
            (
                "2024-01-01 05:00:00 -0730",
                "2024-01-01",
                18_000,
                east(-27_000),
            ),
            (
                "2024-01-01 05:00:00 PDT",
                "2024-01-01",
                18_000,
                east(-25_200),
            ),
            ("2024-1-1T1:2:3+05:30:15", "2024-01-01", 3_723, east(19_815)),
            ("2024-01-01 12:00 AM", "2024-01-01", 0, SpelledZone::Unsaid),
            (
                "2024-01-01 12:30 PM",
                "2024-01-01",
                45_000,
                SpelledZone::Unsaid,
            ),
            (
                "2024-01-01,05:00",
                "2024-01-01",
                18_000,
                SpelledZone::Unsaid,
            ),
            ("2024-01-01 allballs", "2024-01-01", 0, east(0)),
            ("100-01-05", "0100-01-05", 0, SpelledZone::Unsaid),
            (
                "2024/1/5 5:00 America/New_York",
                "2024-01-05",
                18_000,
                SpelledZone::Name("America/New_York"),
            ),
            ("epoch", "1970-01-01", 0, east(0)),
        ] {
            let read = spelled(text).unwrap_or_else(|| panic!("{text}"));
            let seconds = seconds * 1_000_000_000;
            let half = if text.contains(".5 ") { 500_000_000 } else { 0 };
            assert_eq!(
                (read.days, read.ns, read.zone),
                (day(date), seconds + half, zone),
                "{text}"
            );
        }
    }

    /// PostgreSQL 15 refuses all of these.
    #[test]
    fn what_postgresql_refuses_is_no_time() {
        for text in [
            "",
            "x",
            "2024",
            "2024-01",
            "2024-02-30",
            "2024-13-01",
            "13/5/2024",
            "99-01-05",
            "2024-01-01 05",
            "2024-01-01 24:01",
            "05:00",
            "+2024-01-01",
            "2024-01-01 1:2:3:4",
            "2024-01-01 05:61",
            "2024-01-01 13:00 PM",
            "2024-01-01 05:00+16",
            "3 months",
            "5 days",
            "1 mon",
            "Jan 2024",
            "12 Jan Feb 2024",
            "J",
            "2024-01-01 2024-01-02",
            "Jan 08 99 BC AD",
        ] {
            assert_eq!(spelled(text), None, "{text}");
        }
    }
}
