//! Filter pushdown: the parts of WHERE on time, tags and field ranges.
//!
//! Does: turn one conjunct into what the engine prunes by, and say whether that is all of the conjunct. Does not:
//! promise more than it keeps: what is not [`Coverage::Exact`], and conditions on fields never are, is filtered again
//! above the scan.

mod field;

use std::fmt::Write;
use std::ops::RangeInclusive;

use arrow::datatypes::{DataType, Schema, TimeUnit};
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::expr::{BinaryExpr, InList};
use datafusion::logical_expr::{Between, Expr, Like, Operator};
pub(crate) use field::FieldCondition;
use nilometer_engine::{ColumnSource, TableSchema, TagMatch, TagPredicate, TimeKind};

const DAY_NS: i128 = 86_400_000_000_000;

/// Tag values that EXPLAIN spells out.
const VALUES_SHOWN_MAX: usize = 5;

/// How much of a conjunct the pushed part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coverage {
    /// All of it.
    Exact,
    /// Rows that the conjunct refuses may remain.
    Inexact,
    /// Nothing is pushed.
    None,
}

/// What the engine prunes by; a conjunction.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pushdown {
    /// Times in Unix nanoseconds; empty when nothing can match.
    pub(crate) time: RangeInclusive<i64>,
    pub(crate) tags: Vec<TagPredicate>,
    pub(crate) fields: Vec<FieldCondition>,
}

impl Pushdown {
    pub(crate) fn everything() -> Self {
        Self {
            time: i64::MIN..=i64::MAX,
            tags: Vec::new(),
            fields: Vec::new(),
        }
    }

    fn nothing() -> Self {
        Self {
            time: RangeInclusive::new(1, 0),
            ..Self::everything()
        }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.time.is_empty()
            || self.tags.iter().any(|tag| {
                !tag.negated && matches!(&tag.matches, TagMatch::OneOf(values) if values.is_empty())
            })
    }

    pub(crate) fn and(mut self, other: Self) -> Self {
        let start = *self.time.start().max(other.time.start());
        self.time = start..=*self.time.end().min(other.time.end());
        self.tags.extend(other.tags);
        self.fields.extend(other.fields);
        self
    }

    /// What of `filter` the scan takes over.
    pub(crate) fn of(filter: &Expr, table: &TableSchema) -> (Self, Coverage) {
        let found = match filter {
            Expr::Alias(alias) => return Self::of(&alias.expr, table),
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
                Operator::And => return Self::both(left, right, table),
                Operator::Or => return Self::either(left, right, table),
                _ => compare(left, *op, right, table),
            },
            Expr::Between(between) => self::between(between, table),
            Expr::InList(list) => in_list(list, table),
            Expr::Like(like) => self::like(like, table),
            Expr::IsNull(expr) => is_null(expr, false, table),
            Expr::IsNotNull(expr) => is_null(expr, true, table),
            Expr::Literal(scalar, _) => constant(scalar),
            _ => None,
        };
        let of_field = || {
            let fields = vec![field::condition(filter, table)?];
            let pushdown = Self {
                fields,
                ..Self::everything()
            };
            Some((pushdown, Coverage::Inexact))
        };
        let found = found.or_else(of_field);
        found.unwrap_or_else(|| (Self::everything(), Coverage::None))
    }

    fn both(left: &Expr, right: &Expr, table: &TableSchema) -> (Self, Coverage) {
        let (left, left_covers) = Self::of(left, table);
        let (right, right_covers) = Self::of(right, table);
        let coverage = match (left_covers, right_covers) {
            (Coverage::Exact, Coverage::Exact) => Coverage::Exact,
            (Coverage::None, Coverage::None) => Coverage::None,
            _ => Coverage::Inexact,
        };
        (left.and(right), coverage)
    }

    /// Of two alternatives, a choice among values of one tag or one field is kept (the planner writes short IN lists so),
    /// and else the span of their times.
    fn either(left: &Expr, right: &Expr, table: &TableSchema) -> (Self, Coverage) {
        let (mut left, left_covers) = Self::of(left, table);
        let (mut right, right_covers) = Self::of(right, table);
        if left_covers == Coverage::None || right_covers == Coverage::None {
            return (Self::everything(), Coverage::None);
        }
        if left_covers == Coverage::Exact
            && right_covers == Coverage::Exact
            && let (Some(one), Some(other)) = (left.one_choice(), right.one_choice())
            && one.column == other.column
            && let (TagMatch::OneOf(one), TagMatch::OneOf(other)) =
                (&mut one.matches, &mut other.matches)
        {
            one.append(other);
            return (left, Coverage::Exact);
        }
        if let (Some(one), Some(other)) = (left.one_field(), right.one_field())
            && one.or(other)
        {
            return (left, Coverage::Inexact);
        }
        (
            Self {
                time: hull(&left.time, &right.time),
                ..Self::everything()
            },
            Coverage::Inexact,
        )
    }

    /// The choice among values of a tag, if this is nothing else.
    fn one_choice(&mut self) -> Option<&mut TagPredicate> {
        match self.tags.as_mut_slice() {
            [tag] if !tag.negated && self.time == (i64::MIN..=i64::MAX) => Some(tag),
            _ => None,
        }
    }

    /// The condition on a field, if this is nothing else.
    fn one_field(&mut self) -> Option<&mut FieldCondition> {
        match self.fields.as_mut_slice() {
            [field] if self.tags.is_empty() && self.time == (i64::MIN..=i64::MAX) => Some(field),
            _ => None,
        }
    }

    /// The pruning in words, for EXPLAIN.
    pub(crate) fn describe(&self, schema: &Schema) -> String {
        let mut text = String::from("time=");
        match (*self.time.start(), *self.time.end()) {
            (i64::MIN, i64::MAX) => text.push_str("all"),
            (start, end) => {
                text.push_str(&instant(start));
                text.push_str("..=");
                text.push_str(&instant(end));
            }
        }
        text.push_str(", tags=[");
        for (number, tag) in self.tags.iter().enumerate() {
            let separator = if number > 0 { ", " } else { "" };
            let name = schema
                .fields()
                .get(tag.column)
                .map_or("?", |field| field.name().as_str());
            let not = if tag.negated { "NOT " } else { "" };
            // Writing to a string cannot fail.
            let _ = match &tag.matches {
                TagMatch::Pattern(pattern) => write!(text, "{separator}{name} {not}~ /{pattern}/"),
                TagMatch::OneOf(values) => {
                    let _ = write!(text, "{separator}{name} {not}IN (");
                    describe_values(values, &mut text);
                    text.write_char(')')
                }
                // No statement is planned with them.
                TagMatch::Texts(_) | TagMatch::Integers(_) => {
                    write!(text, "{separator}{name} {not}in ranges")
                }
            };
        }
        text.push(']');
        if !self.fields.is_empty() {
            let fields: Vec<&str> = self.fields.iter().map(FieldCondition::shown).collect();
            // Writing to a string cannot fail.
            let _ = write!(text, ", fields=[{}]", fields.join(", "));
        }
        text
    }
}

fn describe_values(values: &[Option<String>], text: &mut String) {
    for (number, value) in values.iter().take(VALUES_SHOWN_MAX).enumerate() {
        let separator = if number > 0 { ", " } else { "" };
        let _ = match value {
            Some(value) => write!(text, "{separator}'{value}'"),
            None => write!(text, "{separator}NULL"),
        };
    }
    if values.len() > VALUES_SHOWN_MAX {
        let _ = write!(text, ", and {} more", values.len() - VALUES_SHOWN_MAX);
    }
}

fn instant(time_ns: i64) -> String {
    match time_ns {
        i64::MIN => "start".to_owned(),
        i64::MAX => "end".to_owned(),
        _ => chrono::DateTime::from_timestamp_nanos(time_ns)
            .to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true),
    }
}

fn hull(a: &RangeInclusive<i64>, b: &RangeInclusive<i64>) -> RangeInclusive<i64> {
    if a.is_empty() {
        return b.clone();
    }
    if b.is_empty() {
        return a.clone();
    }
    *a.start().min(b.start())..=*a.end().max(b.end())
}

/// A column that can be pruned by, and what the expression makes of it.
enum Operand {
    Time,
    /// The day of the time, in UTC.
    Day,
    /// The time, counted in units of so many nanoseconds.
    Units(i64),
    Tag(usize),
    /// A tag of integers.
    Integer(usize),
}

fn operand(expr: &Expr, table: &TableSchema) -> Option<Operand> {
    match expr {
        Expr::Column(Column { name, .. }) => {
            let position = table.shown_columns().named(name)?;
            match table.source(position)? {
                ColumnSource::Time => match table.time().1 {
                    TimeKind::TimestampTz | TimeKind::Timestamp => Some(Operand::Time),
                    // Every time is the first of its day.
                    TimeKind::Date => Some(Operand::Day),
                    TimeKind::Integer { unit_ns } => Some(Operand::Units(unit_ns)),
                },
                ColumnSource::Tag(at) if table.tags.get(at)?.of().is_some() => {
                    Some(Operand::Integer(position))
                }
                ColumnSource::Tag(_) => Some(Operand::Tag(position)),
                ColumnSource::Field(_) => None,
            }
        }
        Expr::Cast(cast) => match (operand(&cast.expr, table)?, cast.field.data_type()) {
            // The time is in UTC, and so is a timestamp without a zone: the number stays what it is.
            (Operand::Time, DataType::Timestamp(TimeUnit::Nanosecond, _)) => Some(Operand::Time),
            (Operand::Time, DataType::Date32) => Some(Operand::Day),
            (Operand::Tag(position), kind) => is_text(kind).then_some(Operand::Tag(position)),
            _ => None,
        },
        _ => None,
    }
}

fn is_text(kind: &DataType) -> bool {
    match kind {
        DataType::Dictionary(_, value) => is_text(value),
        _ => kind.is_string(),
    }
}

/// A literal that a tag can be compared with; `None` in it is NULL.
struct TagValue(Option<String>);

fn text(expr: &Expr) -> Option<TagValue> {
    match expr {
        Expr::Literal(scalar, _) => text_of(scalar),
        Expr::Cast(cast) if is_text(cast.field.data_type()) => text(&cast.expr),
        _ => None,
    }
}

fn text_of(scalar: &ScalarValue) -> Option<TagValue> {
    match scalar {
        ScalarValue::Utf8(value) | ScalarValue::LargeUtf8(value) | ScalarValue::Utf8View(value) => {
            Some(TagValue(value.clone()))
        }
        ScalarValue::Dictionary(_, value) => text_of(value),
        ScalarValue::Null => Some(TagValue(None)),
        _ => None,
    }
}

/// First and last nanosecond of what a literal names: an instant, or for [`Operand::Day`] a day.
fn instants(expr: &Expr, operand: &Operand) -> Option<(i128, i128)> {
    let Expr::Literal(scalar, _) = expr else {
        return None;
    };
    let (value, unit_ns) = match (operand, scalar) {
        (Operand::Day, ScalarValue::Date32(Some(day))) => {
            let start = i128::from(*day) * DAY_NS;
            return Some((start, start + DAY_NS - 1));
        }
        (Operand::Units(unit_ns), ScalarValue::Int64(Some(value))) => {
            let instant = i128::from(*value) * i128::from(*unit_ns);
            return Some((instant, instant));
        }
        (Operand::Time, ScalarValue::TimestampSecond(Some(value), _)) => (*value, 1_000_000_000),
        (Operand::Time, ScalarValue::TimestampMillisecond(Some(value), _)) => (*value, 1_000_000),
        (Operand::Time, ScalarValue::TimestampMicrosecond(Some(value), _)) => (*value, 1_000),
        (Operand::Time, ScalarValue::TimestampNanosecond(Some(value), _)) => (*value, 1),
        _ => return None,
    };
    let instant = i128::from(value) * unit_ns;
    Some((instant, instant))
}

fn clamped(start: i128, end: i128) -> RangeInclusive<i64> {
    let (min, max) = (i128::from(i64::MIN), i128::from(i64::MAX));
    if start > end || end < min || start > max {
        return RangeInclusive::new(1, 0);
    }
    let inside = |time: i128| i64::try_from(time.clamp(min, max)).unwrap_or_default();
    inside(start)..=inside(end)
}

type Found = Option<(Pushdown, Coverage)>;

fn exact_time(time: RangeInclusive<i64>) -> (Pushdown, Coverage) {
    let pushdown = Pushdown {
        time,
        ..Pushdown::everything()
    };
    (pushdown, Coverage::Exact)
}

fn exact_tag(column: usize, values: Vec<Option<String>>, negated: bool) -> (Pushdown, Coverage) {
    let tags = vec![TagPredicate {
        column,
        matches: TagMatch::OneOf(values),
        negated,
    }];
    let pushdown = Pushdown {
        tags,
        ..Pushdown::everything()
    };
    (pushdown, Coverage::Exact)
}

fn compare(left: &Expr, op: Operator, right: &Expr, table: &TableSchema) -> Found {
    let (column, op, literal) = match operand(left, table) {
        Some(column) => (column, op, right),
        None => (operand(right, table)?, op.swap()?, left),
    };
    match column {
        Operand::Integer(position) => integer_tag(position, op, literal),
        Operand::Time | Operand::Day | Operand::Units(_) => {
            let (first, last) = instants(literal, &column)?;
            Some(exact_time(match op {
                Operator::Eq => clamped(first, last),
                Operator::Lt => clamped(i128::MIN, first - 1),
                Operator::LtEq => clamped(i128::MIN, last),
                Operator::Gt => clamped(last + 1, i128::MAX),
                Operator::GtEq => clamped(first, i128::MAX),
                _ => return None,
            }))
        }
        Operand::Tag(position) => {
            // A comparison with NULL is not true for any row.
            let TagValue(value) = text(literal)?;
            match (op, value) {
                (Operator::RegexMatch, Some(pattern)) => pattern_of(position, &pattern, false),
                (Operator::RegexNotMatch, Some(pattern)) => pattern_of(position, &pattern, true),
                (Operator::RegexIMatch, Some(pattern)) => {
                    pattern_of(position, &format!("(?i:{pattern})"), false)
                }
                (Operator::RegexNotIMatch, Some(pattern)) => {
                    pattern_of(position, &format!("(?i:{pattern})"), true)
                }
                (Operator::Eq | Operator::NotEq, None) => {
                    Some((Pushdown::nothing(), Coverage::Exact))
                }
                (Operator::Eq, value) => Some(exact_tag(position, vec![value], false)),
                // Nor is one of NULL, so an absent tag is not "another value".
                (Operator::NotEq, value) => Some(exact_tag(position, vec![value, None], true)),
                _ => None,
            }
        }
    }
}

/// Series by the number that their tag is. An absent tag is NULL, and in no range.
fn integer_tag(column: usize, op: Operator, literal: &Expr) -> Found {
    let Expr::Literal(ScalarValue::Int64(Some(value)), _) = literal else {
        return None;
    };
    let value = *value;
    let below = value.checked_sub(1).map(|last| i64::MIN..=last);
    let above = value.checked_add(1).map(|first| first..=i64::MAX);
    let ranges: Vec<RangeInclusive<i64>> = match op {
        // An integer has one form as a tag.
        Operator::Eq => return Some(exact_tag(column, vec![Some(value.to_string())], false)),
        Operator::NotEq => {
            return Some(exact_tag(column, vec![Some(value.to_string()), None], true));
        }
        Operator::Lt => below.into_iter().collect(),
        Operator::LtEq => vec![i64::MIN..=value],
        Operator::Gt => above.into_iter().collect(),
        Operator::GtEq => vec![value..=i64::MAX],
        _ => return None,
    };
    Some(exact_integers(column, ranges))
}

fn exact_integers(column: usize, ranges: Vec<RangeInclusive<i64>>) -> (Pushdown, Coverage) {
    if ranges.is_empty() {
        return (Pushdown::nothing(), Coverage::Exact);
    }
    let tags = vec![TagPredicate {
        column,
        matches: TagMatch::Integers(ranges),
        negated: false,
    }];
    let pushdown = Pushdown {
        tags,
        ..Pushdown::everything()
    };
    (pushdown, Coverage::Exact)
}

/// Series by an expression that their tag matches. The planner filters again: what matches exactly is its to say.
fn pattern_of(column: usize, pattern: &str, negated: bool) -> Found {
    let matches = TagPredicate::pattern(column, pattern, negated).ok()?;
    // An absent tag is NULL, which neither matches nor does not.
    let is_there = TagPredicate {
        negated: true,
        ..TagPredicate::one_of(column, vec![None])
    };
    let pushdown = Pushdown {
        tags: vec![matches, is_there],
        ..Pushdown::everything()
    };
    Some((pushdown, Coverage::Inexact))
}

fn like(like: &Like, table: &TableSchema) -> Found {
    let Operand::Tag(position) = operand(&like.expr, table)? else {
        return None;
    };
    let TagValue(Some(pattern)) = text(&like.pattern)? else {
        return None;
    };
    let escape = like.escape_char.unwrap_or('\\');
    let mut expression = String::from(if like.case_insensitive {
        "(?is)^"
    } else {
        "(?s)^"
    });
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        let literal = match letter {
            '%' => {
                expression.push_str(".*");
                continue;
            }
            '_' => {
                expression.push('.');
                continue;
            }
            letter if letter == escape => letters.next().unwrap_or(letter),
            letter => letter,
        };
        if literal.is_ascii_punctuation() && !matches!(literal, '<' | '>') {
            expression.push('\\');
        }
        expression.push(literal);
    }
    expression.push('$');
    pattern_of(position, &expression, like.negated)
}

fn between(between: &Between, table: &TableSchema) -> Found {
    if between.negated {
        return None;
    }
    let column = operand(&between.expr, table)?;
    let (first, _) = instants(&between.low, &column)?;
    let (_, last) = instants(&between.high, &column)?;
    Some(exact_time(clamped(first, last)))
}

fn in_list(list: &InList, table: &TableSchema) -> Found {
    let column = operand(&list.expr, table)?;
    match column {
        Operand::Tag(position) => {
            let values: Option<Vec<Option<String>>> = list
                .list
                .iter()
                .map(|item| text(item).map(|TagValue(value)| value))
                .collect();
            let mut values = values?;
            if list.negated && values.iter().any(Option::is_none) {
                // `x NOT IN (..., NULL)` is NULL or false, never true.
                return Some((Pushdown::nothing(), Coverage::Exact));
            }
            values.retain(Option::is_some);
            if list.negated {
                values.push(None);
            }
            Some(exact_tag(position, values, list.negated))
        }
        Operand::Integer(position) if !list.negated => {
            let value = |item: &Expr| match item {
                Expr::Literal(ScalarValue::Int64(Some(value)), _) => Some(Some(value.to_string())),
                _ => None,
            };
            let values: Option<Vec<Option<String>>> = list.list.iter().map(value).collect();
            Some(exact_tag(position, values?, false))
        }
        Operand::Time | Operand::Day | Operand::Units(_) if !list.negated => {
            let mut time = RangeInclusive::new(1, 0);
            for item in &list.list {
                let (start, end) = instants(item, &column)?;
                time = hull(&time, &clamped(start, end));
            }
            let coverage = if list.list.len() == 1 {
                Coverage::Exact
            } else {
                Coverage::Inexact
            };
            let pushdown = Pushdown {
                time,
                ..Pushdown::everything()
            };
            Some((pushdown, coverage))
        }
        Operand::Integer(_) | Operand::Time | Operand::Day | Operand::Units(_) => None,
    }
}

/// A condition without a column. The planner leaves NULL behind where a list had one, and counts on the scan for it.
fn constant(scalar: &ScalarValue) -> Found {
    match scalar {
        ScalarValue::Boolean(Some(true)) => Some((Pushdown::everything(), Coverage::Exact)),
        ScalarValue::Boolean(_) | ScalarValue::Null => Some((Pushdown::nothing(), Coverage::Exact)),
        _ => None,
    }
}

fn is_null(expr: &Expr, negated: bool, table: &TableSchema) -> Found {
    match operand(expr, table)? {
        Operand::Tag(position) | Operand::Integer(position) => {
            Some(exact_tag(position, vec![None], negated))
        }
        // The time of a point is never NULL.
        Operand::Time | Operand::Day | Operand::Units(_) if negated => {
            Some((Pushdown::everything(), Coverage::Exact))
        }
        Operand::Time | Operand::Day | Operand::Units(_) => {
            Some((Pushdown::nothing(), Coverage::Exact))
        }
    }
}
