//! The text form of a query, which `EXPLAIN` prints.
//!
//! Does: write one clause a line, a nested query indented; docs/guide/series-queries.md explains it. Does not: read it back;
//! languages build the form, and people read the text.

use std::fmt::{self, Display};

use super::{
    Aggregate, Binary, Choice, Column, Expr, Fill, Function, Limit, OrderBy, Percentile, Selector,
    SeriesQuery, Shape, Source, TableName, TagExpr, TimeRange, Transform, Unary,
};
use crate::bucket::{Bucket, Width};
use crate::value::{Literal, Rules, Value, quoted, write_time};

/// Units of a width, the longest first.
const UNITS: [(i64, &str); 8] = [
    (7 * 86_400_000_000_000, "w"),
    (86_400_000_000_000, "d"),
    (3_600_000_000_000, "h"),
    (60_000_000_000, "m"),
    (1_000_000_000, "s"),
    (1_000_000, "ms"),
    (1000, "us"),
    (1, "ns"),
];

fn duration(length_ns: i64) -> String {
    let unit = UNITS.iter().find(|(unit, _)| length_ns % unit == 0);
    let (unit, name) = unit.copied().unwrap_or((1, "ns"));
    format!("{}{name}", length_ns / unit)
}

/// A name, between quotes unless it is a plain word.
fn name(text: &str) -> String {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let starts = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if starts && text.bytes().all(is_word) {
        text.to_owned()
    } else {
        quoted(text, '"')
    }
}

fn list<T>(items: &[T], write: impl Fn(&T) -> String) -> String {
    items.iter().map(write).collect::<Vec<_>>().join(", ")
}

impl Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", name(&self.database))?;
        if let Some(schema) = &self.schema {
            write!(f, ".{}", name(schema))?;
        }
        write!(f, ".{}", name(&self.table))
    }
}

impl Display for TimeRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = |literal: &Option<Literal>| match literal {
            None => String::new(),
            Some(Literal::Value(Value::Int(time))) => write_time(*time),
            Some(literal) => literal.to_string(),
        };
        write!(f, "{} .. {}", bound(&self.from), bound(&self.to))
    }
}

impl Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.width {
            Width::Fixed(width) => write!(f, "bucket {}", duration(width))?,
            Width::Months(months) => write!(f, "bucket {months}mo")?,
        }
        if self.origin_ns != 0 {
            write!(f, " origin {}", write_time(self.origin_ns))?;
        }
        if self.offset.months != 0 {
            write!(f, " offset {}mo", self.offset.months)?;
        }
        if self.offset.fixed_ns != 0 {
            write!(f, " offset {}", duration(self.offset.fixed_ns))?;
        }
        match &self.zone {
            Some(zone) => write!(f, " zone {}", quoted(zone.name(), '\'')),
            None => Ok(()),
        }
    }
}

impl Display for TagExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |all: &[Self], word: &str, none: &str| match all {
            [] => none.to_owned(),
            all => {
                let parts: Vec<String> = all.iter().map(ToString::to_string).collect();
                format!("({})", parts.join(word))
            }
        };
        match self {
            Self::All => f.write_str("all"),
            Self::OneOf(tag, values) => match values.as_slice() {
                [value] => write!(f, "{} = {value}", name(tag)),
                values => write!(
                    f,
                    "{} in ({})",
                    name(tag),
                    list(values, ToString::to_string)
                ),
            },
            Self::Range(tag, first, last) => {
                if let Some(first) = first {
                    write!(f, "{first} <= ")?;
                }
                write!(f, "{}", name(tag))?;
                match last {
                    Some(last) => write!(f, " <= {last}"),
                    None => Ok(()),
                }
            }
            Self::Matches(tag, pattern) => write!(f, "{} matches {pattern}", name(tag)),
            Self::Absent(tag) => write!(f, "{} is absent", name(tag)),
            Self::And(all) => f.write_str(&joined(all, " and ", "all")),
            Self::Or(all) => f.write_str(&joined(all, " or ", "none")),
            Self::Not(inner) => write!(f, "not {inner}"),
        }
    }
}

impl Display for Binary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::And => "and",
            Self::Or => "or",
        })
    }
}

impl Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Floor => "floor",
            Self::Ceil => "ceil",
            Self::Abs => "abs",
            Self::Sqrt => "sqrt",
            Self::Coalesce => "coalesce",
            Self::Float => "float",
            Self::Integer => "integer",
            Self::NullIfNan => "null_if_nan",
        })
    }
}

impl Display for Aggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows => f.write_str("count(*)"),
            Self::Count(of) => write!(f, "count({of})"),
            Self::CountDistinct(of) => write!(f, "count(distinct {of})"),
            Self::Sum(of) => write!(f, "sum({of})"),
            Self::Mean(of) => write!(f, "mean({of})"),
            Self::NumericSum(of) => write!(f, "numeric_sum({of})"),
            Self::NumericMean(of) => write!(f, "numeric_mean({of})"),
            Self::Min(of) => write!(f, "min({of})"),
            Self::Max(of) => write!(f, "max({of})"),
            Self::Spread(of) => write!(f, "spread({of})"),
            Self::Stddev(of) => write!(f, "stddev({of})"),
            Self::First(of) => write!(f, "first({of})"),
            Self::Last(of) => write!(f, "last({of})"),
            Self::Select {
                selector,
                by,
                value,
            } => {
                let selector = match selector {
                    Selector::First => "first",
                    Selector::Last => "last",
                    Selector::Min => "min",
                    Selector::Max => "max",
                };
                write!(f, "{value} at {selector}({by})")
            }
            Self::Median(of) => write!(f, "median({of})"),
            Self::Mode(of) => write!(f, "mode({of})"),
            Self::Percentile(of, percent, kind) => {
                let kind = match kind {
                    Percentile::Nearest => "percentile",
                    Percentile::Continuous => "percentile_cont",
                    Percentile::Discrete => "percentile_disc",
                };
                write!(f, "{kind}({of}, {percent})")
            }
            Self::Histogram {
                of,
                low,
                high,
                buckets,
            } => write!(f, "histogram({of}, {low}, {high}, {buckets})"),
        }
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time => f.write_str("time"),
            Self::Tag(tag) => f.write_str(&name(tag)),
            Self::Field(field) => f.write_str(&name(field)),
            Self::Literal(literal) => write!(f, "{literal}"),
            Self::Unary(operator, of) => match operator {
                Unary::Negate => write!(f, "-{}", Operand(of)),
                Unary::Not => write!(f, "not {}", Operand(of)),
                Unary::IsNull => write!(f, "{} is null", Operand(of)),
                Unary::IsNotNull => write!(f, "{} is not null", Operand(of)),
            },
            Self::Binary(operator, left, right) => {
                write!(f, "{} {operator} {}", Operand(left), Operand(right))
            }
            Self::Call(function, operands) => {
                write!(f, "{function}({})", list(operands, ToString::to_string))
            }
            Self::Aggregate(aggregate) => write!(f, "{aggregate}"),
            Self::Neighbour(Transform::Previous, of) => write!(f, "previous({of})"),
            Self::Neighbour(Transform::Next, of) => write!(f, "next({of})"),
        }
    }
}

/// An expression in another one.
struct Operand<'a>(&'a Expr);

impl Display for Operand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_simple = match self.0 {
            Expr::Unary(..) | Expr::Binary(..) => false,
            Expr::Aggregate(aggregate) => !matches!(**aggregate, Aggregate::Select { .. }),
            _ => true,
        };
        if is_simple {
            write!(f, "{}", self.0)
        } else {
            write!(f, "({})", self.0)
        }
    }
}

impl Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, called) = (self.expr.to_string(), name(&self.name));
        if shown == called {
            f.write_str(&shown)
        } else {
            write!(f, "{shown} as {called}")
        }
    }
}

impl Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.rows)?;
        let zeros = [Value::Int(0), Value::Unsigned(0)].map(Literal::Value);
        if zeros.contains(&self.skip) {
            return Ok(());
        }
        write!(f, " after {}", self.skip)
    }
}

impl Display for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("absent"),
            Self::Null => f.write_str("null"),
            Self::Previous => f.write_str("previous"),
            Self::Linear => f.write_str("linear"),
            Self::Value(value) => write!(f, "{value}"),
        }
    }
}

impl Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let top = match self {
            Self::Distinct(of) => return write!(f, "distinct {of}"),
            Self::Top(top) => top,
        };
        let end = if top.smallest { "bottom" } else { "top" };
        write!(f, "{end} {} of {}", top.rows, top.by)?;
        if !top.each.is_empty() {
            let each = list(&top.each, ToString::to_string);
            write!(f, ", one for each {each}")?;
        }
        Ok(())
    }
}

impl Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = match self.rules {
            Rules::Postgres => "postgres",
            Rules::Influx => "influx",
        };
        match &self.source {
            Source::Tables(tables) => write!(f, "from {}", list(tables, ToString::to_string))?,
            Source::Nested(nested) => {
                f.write_str("from (")?;
                for line in nested.to_string().lines() {
                    write!(f, "\n    {line}")?;
                }
                f.write_str("\n)")?;
            }
        }
        if self.time != TimeRange::default() {
            write!(f, "\ntime {}", self.time)?;
        }
        if self.tags != TagExpr::All {
            write!(f, "\ntags {}", self.tags)?;
        }
        if let Some(rows) = &self.rows {
            write!(f, "\nrows {rows}")?;
        }
        let mut group: Vec<String> = self.group.iter().map(|tag| name(tag)).collect();
        group.extend(self.bucket.iter().map(ToString::to_string));
        if !group.is_empty() {
            write!(f, "\ngroup by {}", group.join(", "))?;
        }
        if let Some(choice) = &self.choice {
            write!(f, "\nchoose {choice}")?;
        }
        if !self.columns.is_empty() {
            write!(f, "\nselect {}", list(&self.columns, ToString::to_string))?;
        }
        if self.fill != Fill::Absent {
            write!(f, "\nfill {}", self.fill)?;
            for (column, fill) in &self.fills {
                write!(f, ", {fill} for {}", name(column))?;
            }
        }
        let time = if self.order.descending {
            "time desc"
        } else {
            "time"
        };
        match self.order.by {
            OrderBy::Nothing => {}
            OrderBy::Group => write!(f, "\norder by group, {time}")?,
            OrderBy::Time => write!(f, "\norder by {time}, group")?,
        }
        if let Some(limit) = &self.limit_groups {
            write!(f, "\nlimit groups {limit}")?;
        }
        if let Some(limit) = &self.limit_per_group {
            write!(f, "\nlimit {limit} per group")?;
        }
        if let Some(limit) = &self.limit {
            write!(f, "\nlimit {limit}")?;
            if self.with_ties {
                f.write_str(" with ties")?;
            }
        }
        write!(f, "\nrules {rules}")
    }
}

impl Display for SeriesQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.shape)
    }
}
