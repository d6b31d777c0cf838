//! The types of CSV columns, from the first rows and the user's options.

use std::collections::BTreeSet;

use anyhow::bail;
use csv::StringRecord;
use nilometer_engine::ingest::is_likely_tag;
use nilometer_lineproto::Precision;

use super::times::{KEPT, TimeFormat};
use crate::lines::{FieldType, Role};

/// Names that are taken for the time, if one has values that are times.
pub(super) const TIME_NAMES: &[&str] = &["time", "timestamp", "ts", "datetime", "date", "_time"];

/// What the user says of the columns.
#[derive(Debug, Clone, Default)]
pub(super) struct ColumnWishes {
    pub(super) time: Option<String>,
    pub(super) time_format: Option<TimeFormat>,
    pub(super) tags: Option<Vec<String>>,
    /// Columns with a type of the user's choice.
    pub(super) types: Vec<(String, FieldType)>,
    pub(super) absent: Absent,
}

/// Cells that stand for nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Absent {
    /// Beside the empty one; `None` = the usual ones.
    pub(super) texts: Option<Vec<String>>,
}

impl Absent {
    /// Whether a cell is one of them.
    pub(super) fn is(&self, cell: &str) -> bool {
        match &self.texts {
            _ if cell.is_empty() => true,
            Some(texts) => texts.iter().any(|text| text == cell),
            None => matches!(
                cell,
                "\\N"
                    | "NULL"
                    | "null"
                    | "Null"
                    | "NA"
                    | "N/A"
                    | "n/a"
                    | "#N/A"
                    | "<NA>"
                    | "-"
                    | "--"
            ),
        }
    }
}

/// A column of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) role: Role,
    /// Its first value, to be shown.
    pub(super) example: String,
}

/// All columns, and how the times are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) all: Vec<Column>,
    /// Where the time stands; `None` = points get the time of their arrival.
    pub(super) time: Option<(usize, TimeFormat)>,
    /// What the user should know of them.
    pub(super) notes: Vec<String>,
}

/// Decides by the names and the first rows.
pub(super) fn decide(
    names: &[String],
    sample: &[StringRecord],
    wishes: &ColumnWishes,
) -> anyhow::Result<Columns> {
    check(names, wishes)?;
    let time = time_of(names, sample, wishes)?;
    let (mut all, mut notes) = (Vec::new(), Vec::new());
    for (at, name) in names.iter().enumerate() {
        let values = || present(sample, at, &wishes.absent);
        let given = wishes.types.iter().find(|(column, _)| column == name);
        let kind = given.map_or_else(|| kind_of(&values()), |(_, kind)| *kind);
        let is_tag = match &wishes.tags {
            Some(tags) => tags.contains(name),
            None => given.is_none() && kind == FieldType::Text && is_likely_tag(values()),
        };
        if let (None, FieldType::Text, Some(number)) = (given, kind, rounded_of(&values())) {
            notes.push(format!(
                "\"{name}\" is read as text: a float would round its {number}, and no integer has all of its values; --type \"{name}\"=float rounds them"
            ));
        }
        let role = match &time {
            Some((time, _)) if *time == at => Role::Time,
            _ if is_tag => Role::Tag,
            _ => Role::Field(kind),
        };
        let example = values()
            .next()
            .unwrap_or_default()
            .chars()
            .take(40)
            .collect();
        all.push(Column {
            name: name.clone(),
            role,
            example,
        });
    }
    // A file of texts alone has no value that is measured, but it has values.
    if wishes.tags.is_none()
        && !all
            .iter()
            .any(|column| matches!(column.role, Role::Field(_)))
    {
        let tag = all.iter_mut().rev().find(|column| column.role == Role::Tag);
        if let Some(tag) = tag {
            tag.role = Role::Field(FieldType::Text);
        }
    }
    if !all
        .iter()
        .any(|column| matches!(column.role, Role::Field(_)))
    {
        bail!("no column is left for a field, and a point has at least one; name fewer in --tags");
    }
    Ok(Columns { all, time, notes })
}

fn check(names: &[String], wishes: &ColumnWishes) -> anyhow::Result<()> {
    let mut seen = BTreeSet::new();
    for name in names {
        if name.is_empty() {
            bail!("a column has no name; give all names with --columns");
        }
        if !seen.insert(name) {
            bail!("two columns are called \"{name}\"; give all names with --columns");
        }
    }
    let time_and_tags = wishes.time.iter().chain(wishes.tags.iter().flatten());
    for name in time_and_tags.chain(wishes.types.iter().map(|(name, _)| name)) {
        if !names.contains(name) {
            bail!(
                "there is no column \"{name}\"; there are {}",
                names.join(", ")
            );
        }
    }
    Ok(())
}

/// The cells of a column that stand for something.
pub(super) fn present<'a>(
    sample: &'a [StringRecord],
    at: usize,
    absent: &'a Absent,
) -> impl Iterator<Item = &'a str> + Clone {
    let cells = sample.iter().filter_map(move |row| row.get(at));
    cells.map(str::trim).filter(|cell| !absent.is(cell))
}

fn time_of(
    names: &[String],
    sample: &[StringRecord],
    wishes: &ColumnWishes,
) -> anyhow::Result<Option<(usize, TimeFormat)>> {
    let cells = |at: usize| present(sample, at, &wishes.absent);
    let format_of = |at: usize| match &wishes.time_format {
        Some(format) => {
            let fits = cells(at).all(|cell| format.parse(cell).is_some());
            fits.then(|| format.clone())
        }
        None => TimeFormat::of(&cells(at)),
    };
    if let Some(name) = &wishes.time {
        let at = names.iter().position(|known| known == name).unwrap_or(0);
        // Bad times in single rows are named row by row; a format is needed all the same.
        let given = wishes.time_format.clone().or_else(|| format_of(at));
        let first = cells(at).next();
        return match (given, first) {
            (Some(format), _) => Ok(Some((at, format))),
            (None, None) => Ok(Some((at, TimeFormat::Iso))),
            (None, Some(first)) => {
                // A date that is not kept says nothing of how the others are written.
                let telling = cells(at).find(|cell| !is_far(cell)).unwrap_or(first);
                match TimeFormat::of(&std::iter::once(telling)) {
                    Some(format) => Ok(Some((at, format))),
                    None => bail!("{}", unknown_time(name, telling)),
                }
            }
        };
    }
    // A column that is called so and mostly has times is it; its other rows are named one by one.
    let mostly = |at: usize| {
        let known = wishes.time_format.clone().into_iter();
        let known = known.chain([TimeFormat::Iso, TimeFormat::Number(Precision::Auto)]);
        let all = cells(at).count();
        let fitting = |format: &TimeFormat| {
            cells(at)
                .filter(|cell| format.parse(cell).is_some())
                .count()
        };
        let is_kept = |format: &TimeFormat| cells(at).any(|cell| format.read(cell).is_some());
        known
            .into_iter()
            .find(|format| fitting(format) * 2 > all && is_kept(format))
    };
    let by_name = TIME_NAMES.iter().filter_map(|wanted| {
        names
            .iter()
            .position(|name| name.eq_ignore_ascii_case(wanted))
    });
    for at in by_name {
        if let Some(format) = format_of(at).or_else(|| mostly(at)) {
            return Ok(Some((at, format)));
        }
    }
    // Any column of dates will do; numbers could be anything.
    let dated = (0..names.len()).find_map(|at| match format_of(at) {
        Some(TimeFormat::Number(_)) | None => None,
        Some(format) => Some((at, format)),
    });
    if dated.is_none() && !sample.is_empty() {
        let is_time = |name: &&String| TIME_NAMES.iter().any(|it| name.eq_ignore_ascii_case(it));
        let looks_like_one = |at: &usize| {
            cells(*at)
                .next()
                .is_some_and(|cell| !TimeFormat::suggest(cell).is_empty())
        };
        let by_its_name = names.iter().position(|name| is_time(&name));
        let likely = (0..names.len()).find(looks_like_one).or(by_its_name);
        if let Some((name, first)) = likely.and_then(|at| Some((names.get(at)?, cells(at).next()?)))
        {
            bail!("{}", unknown_time(name, first));
        }
        bail!(
            "no column looks like a time; name it with --time COLUMN (there are {}), and if it is written in a way of its own, say how with --time-format",
            names.join(", ")
        );
    }
    Ok(dated)
}

/// Whether a cell is a date of a year of four digits that is not kept.
fn is_far(cell: &str) -> bool {
    let has_year = cell.bytes().take(4).all(|byte| byte.is_ascii_digit());
    has_year && TimeFormat::Iso.read(cell).is_none() && TimeFormat::Iso.parse(cell).is_some()
}

/// Says that a time is not understood, and how it may be meant.
fn unknown_time(name: &str, first: &str) -> String {
    if is_far(first) {
        return format!(
            "column \"{name}\" has no time that is kept: {first:?} is outside of {KEPT}"
        );
    }
    let formats = TimeFormat::suggest(first);
    let formats: Vec<String> = formats
        .iter()
        .map(|format| format!("--time-format \"{format}\""))
        .collect();
    let time = format!("--time \"{name}\"");
    match formats.as_slice() {
        [] => format!(
            "column \"{name}\" has {first:?}, which is no time that is known; say how it is written, as in {time} --time-format \"%d.%m.%Y %H:%M:%S\", or name another column"
        ),
        [one] => format!(
            "column \"{name}\" has {first:?}, and not all of its values are written so; say how they are, as in {time} {one}"
        ),
        several => format!(
            "column \"{name}\" has {first:?}, which may be read in several ways; say which with {time} and {}",
            several.join(" or ")
        ),
    }
}

/// The narrowest type that has every value.
fn kind_of<'a>(values: &(impl Iterator<Item = &'a str> + Clone)) -> FieldType {
    let all = |fits: fn(&str) -> bool| values.clone().all(fits);
    if values.clone().next().is_none() {
        FieldType::Text
    } else if all(|cell| cell.parse::<i64>().is_ok()) {
        FieldType::Integer
    } else if all(|cell| cell.parse::<u64>().is_ok()) {
        FieldType::Unsigned
    } else if all(|cell| cell.parse::<f64>().is_ok()) && rounded_of(values).is_none() {
        FieldType::Float
    } else if all(|cell| boolean(cell).is_some()) {
        FieldType::Boolean
    } else {
        FieldType::Text
    }
}

pub(super) fn boolean(cell: &str) -> Option<bool> {
    match cell {
        "true" | "True" | "TRUE" => Some(true),
        "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

/// The first of some numbers that a float would not have as it is, if all of them are numbers.
fn rounded_of<'a>(values: &(impl Iterator<Item = &'a str> + Clone)) -> Option<&'a str> {
    let rounded = values.clone().find(|cell| is_rounded(cell))?;
    let all = values.clone().all(|cell| cell.parse::<f64>().is_ok());
    all.then_some(rounded)
}

/// Whether a cell is a whole number that becomes another one as a float: 9007199254740993, and not 1e20 or 0.1.
pub(super) fn is_rounded(cell: &str) -> bool {
    /// So many digits a float has, whatever they are.
    const DIGITS: usize = 15;
    if cell.len() <= DIGITS {
        return false;
    }
    let digits = cell.strip_prefix(['-', '+']).unwrap_or(cell);
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    match (digits.parse::<u128>(), digits.parse::<f64>()) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the digits are those of a u128, and a float of them is at most one step beyond, where the cast saturates"
        )]
        (Ok(whole), Ok(float)) => float as u128 != whole,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(text: &str, wishes: &ColumnWishes) -> anyhow::Result<Columns> {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let names: Vec<String> = reader.headers()?.iter().map(str::to_owned).collect();
        let sample = reader.records().collect::<Result<Vec<_>, _>>()?;
        decide(&names, &sample, wishes)
    }

    fn roles(columns: &Columns) -> Vec<Role> {
        columns.all.iter().map(|column| column.role).collect()
    }

    const WEATHER: &str =
        "time,city,temp,n,ok,note\n2024-01-01,a,1,1,true,x\n2024-01-02,b,2.5,2,false,\n";

    #[test]
    fn types_and_tags_come_from_the_values() {
        let columns = decided(WEATHER, &ColumnWishes::default()).unwrap();
        let field = Role::Field;
        let want = [
            Role::Time,
            Role::Tag,
            field(FieldType::Float),
            field(FieldType::Integer),
            field(FieldType::Boolean),
            Role::Tag,
        ];
        assert_eq!(roles(&columns), want);
        assert_eq!(columns.time, Some((0, TimeFormat::Iso)));
    }

    #[test]
    fn what_the_user_says_counts() {
        let wishes = ColumnWishes {
            tags: Some(vec!["n".to_owned()]),
            types: vec![("temp".to_owned(), FieldType::Text)],
            ..ColumnWishes::default()
        };
        let columns = decided(WEATHER, &wishes).unwrap();
        let text = Role::Field(FieldType::Text);
        let boolean = Role::Field(FieldType::Boolean);
        assert_eq!(
            roles(&columns),
            [Role::Time, text, text, Role::Tag, boolean, text]
        );
    }

    #[test]
    fn a_text_that_never_repeats_is_a_field() {
        let rows = (0..100).map(|n| format!("{},id-{n},1\n", 1_700_000_000 + n));
        let text = "time,id,v\n".to_owned() + &rows.collect::<Vec<_>>().concat();
        let columns = decided(&text, &ColumnWishes::default()).unwrap();
        assert_eq!(columns.all[1].role, Role::Field(FieldType::Text));
    }

    /// A column of integers with one of 20 digits became floats, and 9007199254740993 became 9007199254740992.
    #[test]
    fn whole_numbers_are_never_rounded_unasked() {
        let decided = |values: &str, wishes: &ColumnWishes| {
            let rows = values.split(' ').enumerate();
            let rows = rows.map(|(at, value)| format!("{},{value}\n", 1_700_000_000 + at));
            let text = "time,n\n".to_owned() + &rows.collect::<String>();
            let columns = decided(&text, wishes).unwrap();
            (columns.all[1].role, columns.notes)
        };
        let none = ColumnWishes::default();
        for (values, want, has_note) in [
            ("1 9007199254740993", FieldType::Integer, false),
            (
                "1 9007199254740993 18446744073709551615",
                FieldType::Unsigned,
                false,
            ),
            ("0.1 100000000000000000000 1e300", FieldType::Float, false),
            ("0.5 9007199254740993", FieldType::Text, true),
            (
                "1 9007199254740993 18446744073709551616",
                FieldType::Text,
                true,
            ),
            ("-1 18446744073709551615", FieldType::Text, true),
        ] {
            let wishes = ColumnWishes {
                tags: Some(Vec::new()),
                ..none.clone()
            };
            let (role, notes) = decided(values, &wishes);
            assert_eq!(role, Role::Field(want), "{values}");
            assert_eq!(!notes.is_empty(), has_note, "{values}: {notes:?}");
        }
    }

    #[test]
    fn cells_that_stand_for_nothing_do_not_decide() {
        let text = "time,v,w\n2024-05-01,NA,-\n2024-05-02,1.5,3\n2024-05-03,null,x\n";
        let columns = decided(text, &ColumnWishes::default()).unwrap();
        assert_eq!(columns.all[1].role, Role::Field(FieldType::Float));
        let wishes = ColumnWishes {
            absent: Absent {
                texts: Some(vec!["-".to_owned(), "x".to_owned()]),
            },
            tags: Some(Vec::new()),
            ..ColumnWishes::default()
        };
        let columns = decided(text, &wishes).unwrap();
        let kinds = [
            Role::Time,
            Role::Field(FieldType::Text),
            Role::Field(FieldType::Integer),
        ];
        assert_eq!(roles(&columns), kinds);
    }

    #[test]
    fn a_few_bad_times_do_not_hide_the_time_column() {
        let text = "v,time\n1,2024-05-01\n2,soon\n3,2024-05-02\n";
        let columns = decided(text, &ColumnWishes::default()).unwrap();
        assert_eq!(columns.time, Some((1, TimeFormat::Iso)));
    }

    #[test]
    fn what_is_missing_is_named_with_what_there_is() {
        let error =
            |text: &str, wishes: &ColumnWishes| decided(text, wishes).unwrap_err().to_string();
        let none = ColumnWishes::default();
        assert!(error("a,b\n1,2\n", &none).contains("--time"));
        assert!(error("time,time\n1,2\n", &none).contains("two columns"));
        let wishes = ColumnWishes {
            tags: Some(vec!["nope".to_owned()]),
            ..none.clone()
        };
        assert!(error(WEATHER, &wishes).contains("city"));
        let wishes = ColumnWishes {
            time: Some("city".to_owned()),
            ..none
        };
        assert!(error(WEATHER, &wishes).contains("--time-format"));
    }
}
