//! Expressions over the columns of rows, and over the tags of series.
//!
//! Does: hold them, and say which columns they name. Does not: calculate (`evaluate`), or find series (`input`).

use crate::value::Literal;

/// Operands of one operator that stand in a row before they are put together by twos.
const JOINED_IN_A_ROW: usize = 16;

/// An expression over the columns of a row, or over the aggregates of a bucket.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// The time of the row; of an aggregate, the start of the bucket.
    Time,
    /// A tag.
    Tag(String),
    /// A field.
    Field(String),
    /// A value.
    Literal(Literal),
    /// Of one operand.
    Unary(Unary, Box<Expr>),
    /// Of two.
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// A function of values.
    Call(Function, Vec<Expr>),
    /// An aggregate of the rows of a bucket. Its operands are expressions over rows.
    Aggregate(Box<Aggregate>),
    /// What an expression is in the row before, or after, in the same group by time; null at the end. Among rows only.
    Neighbour(Transform, Box<Expr>),
}

/// Which neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transform {
    /// The row before, in time.
    Previous,
    /// The row after.
    Next,
}

/// An operator before or behind its operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unary {
    /// `-x`
    Negate,
    /// `not x`
    Not,
    /// `x is null`
    IsNull,
    /// `x is not null`
    IsNotNull,
}

/// An operator between its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Binary {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Remainder,
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `and`
    And,
    /// `or`
    Or,
}

/// A function of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Function {
    /// The next whole number below.
    Floor,
    /// The next whole number above.
    Ceil,
    /// Without its sign.
    Abs,
    /// The root.
    Sqrt,
    /// The first operand that is not null.
    Coalesce,
    /// As a float.
    Float,
    /// As an integer: of floats the nearest by `Postgres`, towards zero by `Influx`.
    Integer,
    /// The number, or null where it is NaN: `InfluxQL` shows no row that has only such.
    NullIfNan,
}

/// An aggregate. Nulls do not count.
#[derive(Debug, Clone, PartialEq)]
pub enum Aggregate {
    /// Number of rows.
    Rows,
    /// Number of values.
    Count(Expr),
    /// Number of values, each once.
    CountDistinct(Expr),
    /// Sum of numbers; of integers an integer.
    Sum(Expr),
    /// Mean of numbers.
    Mean(Expr),
    /// Sum of integers that nothing is too large for.
    NumericSum(Expr),
    /// Mean of integers with [`MEAN_SCALE`](crate::MEAN_SCALE) digits behind the point, the last one rounded.
    NumericMean(Expr),
    /// Smallest value. -0.0 is below 0.0, and NaN above everything.
    Min(Expr),
    /// Largest value.
    Max(Expr),
    /// Largest less smallest number.
    Spread(Expr),
    /// Standard deviation of a sample; null of fewer than two numbers.
    Stddev(Expr),
    /// Value of the earliest row that has one. Of rows of one time, `Postgres` takes that of the series whose tags come first,
    /// and of one series that which was written first; `Influx` takes the greatest value.
    First(Expr),
    /// Value of the latest row that has one; at one time that of the series whose tags come last, or the greatest value.
    Last(Expr),
    /// A value of the row that another one chooses. That one must not be null, this one may be.
    Select {
        /// How the row is chosen.
        selector: Selector,
        /// By which value.
        by: Expr,
        /// Which value of the row.
        value: Expr,
    },
    /// The middle of the numbers, or the mean of the two in the middle.
    Median(Expr),
    /// The value that most rows have. Of several, `Postgres` takes the smallest, `Influx` that of the earliest row.
    Mode(Expr),
    /// A percentile of the numbers, from 0 to 100.
    Percentile(Expr, f64, Percentile),
    /// Numbers of values below `low`, in each of `buckets` equal parts up to `high`, and from there on.
    Histogram {
        /// Of which numbers.
        of: Expr,
        /// Where the first part begins.
        low: f64,
        /// Where the last ends.
        high: f64,
        /// How many there are.
        buckets: u32,
    },
}

/// How a row is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Selector {
    /// The earliest.
    First,
    /// The latest.
    Last,
    /// That of the smallest value; of several the earliest.
    Min,
    /// That of the largest value; of several the earliest.
    Max,
}

/// Which percentile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Percentile {
    /// The nearest value, as in `InfluxQL`: null if it would be before the first.
    Nearest,
    /// Between values, as `percentile_cont`.
    Continuous,
    /// The first value that has so many at or below it, as `percentile_disc`.
    Discrete,
}

/// What holds for the tags of a series. Under `Influx` an absent tag is the text `''`; under `Postgres` it is NULL, and a
/// comparison with it, or what denies one, never holds.
#[derive(Debug, Clone, PartialEq)]
pub enum TagExpr {
    /// Anything.
    All,
    /// The tag is one of some values. An integer stands for the text that it is printed as.
    OneOf(String, Vec<Literal>),
    /// The tag is from the first to the last, both included: by bytes of texts, by size of integers.
    Range(String, Option<Literal>, Option<Literal>),
    /// A regular expression is found in the tag.
    Matches(String, Literal),
    /// The series has no such tag.
    Absent(String),
    /// All of them hold.
    And(Vec<TagExpr>),
    /// One of them holds.
    Or(Vec<TagExpr>),
    /// It does not hold.
    Not(Box<TagExpr>),
}

impl TagExpr {
    /// The tags that it names.
    pub fn names(&self) -> Vec<String> {
        match self {
            Self::All => Vec::new(),
            Self::OneOf(tag, _)
            | Self::Range(tag, ..)
            | Self::Matches(tag, _)
            | Self::Absent(tag) => vec![tag.clone()],
            Self::And(all) | Self::Or(all) => all.iter().flat_map(Self::names).collect(),
            Self::Not(inner) => inner.names(),
        }
    }
}

impl Aggregate {
    /// Its operands.
    pub fn operands(&self) -> Vec<&Expr> {
        match self {
            Self::Rows => Vec::new(),
            Self::Select { by, value, .. } => vec![by, value],
            Self::Count(of)
            | Self::CountDistinct(of)
            | Self::Sum(of)
            | Self::Mean(of)
            | Self::NumericSum(of)
            | Self::NumericMean(of)
            | Self::Min(of)
            | Self::Max(of)
            | Self::Spread(of)
            | Self::Stddev(of)
            | Self::First(of)
            | Self::Last(of)
            | Self::Median(of)
            | Self::Mode(of)
            | Self::Percentile(of, ..)
            | Self::Histogram { of, .. } => vec![of],
        }
    }

    /// The same of other operands, which `change` makes of each.
    pub(crate) fn map<E>(
        &self,
        mut change: impl FnMut(&Expr) -> Result<Expr, E>,
    ) -> Result<Self, E> {
        Ok(match self {
            Self::Rows => Self::Rows,
            Self::Count(of) => Self::Count(change(of)?),
            Self::CountDistinct(of) => Self::CountDistinct(change(of)?),
            Self::Sum(of) => Self::Sum(change(of)?),
            Self::Mean(of) => Self::Mean(change(of)?),
            Self::NumericSum(of) => Self::NumericSum(change(of)?),
            Self::NumericMean(of) => Self::NumericMean(change(of)?),
            Self::Min(of) => Self::Min(change(of)?),
            Self::Max(of) => Self::Max(change(of)?),
            Self::Spread(of) => Self::Spread(change(of)?),
            Self::Stddev(of) => Self::Stddev(change(of)?),
            Self::First(of) => Self::First(change(of)?),
            Self::Last(of) => Self::Last(change(of)?),
            Self::Select {
                selector,
                by,
                value,
            } => Self::Select {
                selector: *selector,
                by: change(by)?,
                value: change(value)?,
            },
            Self::Median(of) => Self::Median(change(of)?),
            Self::Mode(of) => Self::Mode(change(of)?),
            Self::Percentile(of, percent, kind) => Self::Percentile(change(of)?, *percent, *kind),
            Self::Histogram {
                of,
                low,
                high,
                buckets,
            } => Self::Histogram {
                of: change(of)?,
                low: *low,
                high: *high,
                buckets: *buckets,
            },
        })
    }
}

impl Expr {
    /// A tag.
    pub fn tag(name: &str) -> Self {
        Self::Tag(name.to_owned())
    }

    /// A field.
    pub fn field(name: &str) -> Self {
        Self::Field(name.to_owned())
    }

    /// A value.
    pub fn literal(value: impl Into<Literal>) -> Self {
        Self::Literal(value.into())
    }

    /// An operator between two operands.
    pub fn binary(operator: Binary, left: Self, right: Self) -> Self {
        Self::Binary(operator, Box::new(left), Box::new(right))
    }

    /// An aggregate.
    pub fn aggregate(aggregate: Aggregate) -> Self {
        Self::Aggregate(Box::new(aggregate))
    }

    /// Whether a field stands in it, in its aggregates too.
    pub fn names_field(&self, name: &str) -> bool {
        self.has(|expr| matches!(expr, Self::Field(field) if field == name))
    }

    /// All of these with `AND` or `OR` between each two, in their order; `None` of none. Of very many it is not very deep.
    pub fn joined(operator: Binary, all: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut all: Vec<Self> = all.into_iter().collect();
        while all.len() > 1 {
            let mut rest = all.into_iter().peekable();
            all = Vec::new();
            while rest.peek().is_some() {
                let own = rest.by_ref().take(JOINED_IN_A_ROW);
                all.extend(own.reduce(|left, right| Self::binary(operator, left, right)));
            }
        }
        all.pop()
    }

    /// Levels of it; a query has expressions of at most [`EXPR_DEPTH_MAX`](crate::EXPR_DEPTH_MAX).
    pub fn depth(&self) -> usize {
        let mut deepest = 0;
        let mut open = vec![(self, 1)];
        while let Some((expr, depth)) = open.pop() {
            deepest = deepest.max(depth);
            open.extend(expr.operands().into_iter().map(|of| (of, depth + 1)));
        }
        deepest
    }

    /// The expressions right in it.
    fn operands(&self) -> Vec<&Self> {
        match self {
            Self::Time | Self::Tag(_) | Self::Field(_) | Self::Literal(_) => Vec::new(),
            Self::Unary(_, of) | Self::Neighbour(_, of) => vec![of],
            Self::Binary(_, left, right) => vec![left, right],
            Self::Call(_, operands) => operands.iter().collect(),
            Self::Aggregate(aggregate) => aggregate.operands(),
        }
    }

    /// Calls `visit` for this expression and every one in it, those in aggregates too.
    pub(crate) fn walk<'a>(&'a self, visit: &mut impl FnMut(&'a Self)) {
        visit(self);
        match self {
            Self::Time | Self::Tag(_) | Self::Field(_) | Self::Literal(_) => {}
            Self::Unary(_, of) | Self::Neighbour(_, of) => of.walk(visit),
            Self::Binary(_, left, right) => {
                left.walk(visit);
                right.walk(visit);
            }
            Self::Call(_, operands) => operands.iter().for_each(|of| of.walk(visit)),
            Self::Aggregate(aggregate) => {
                for of in aggregate.operands() {
                    of.walk(visit);
                }
            }
        }
    }

    pub(crate) fn has(&self, wanted: impl Fn(&Self) -> bool) -> bool {
        let mut found = false;
        self.walk(&mut |expr| found |= wanted(expr));
        found
    }

    pub(crate) fn has_aggregate(&self) -> bool {
        self.has(|expr| matches!(expr, Self::Aggregate(_)))
    }

    pub(crate) fn has_neighbour(&self) -> bool {
        self.has(|expr| matches!(expr, Self::Neighbour(..)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A statement that shows 300 fields asks whether one of them is there: one operator behind the other was an expression of
    /// 300 levels, and refused.
    #[test]
    fn very_many_operands_make_no_deep_expression_and_keep_their_order() {
        for count in [0, 1, 2, 3, 16, 17, 300, 10_000] {
            let all = (0..count).map(|at| Expr::field(&at.to_string()));
            let joined = Expr::joined(Binary::Or, all);
            let mut names: Vec<usize> = Vec::new();
            if let Some(joined) = &joined {
                joined.walk(&mut |expr| {
                    if let Expr::Field(name) = expr {
                        names.push(name.parse().unwrap());
                    }
                });
                assert!(joined.depth() <= 64, "{count}: {}", joined.depth());
            }
            assert_eq!(names, (0..count).collect::<Vec<usize>>());
        }
        let chain = (0..99).fold(Expr::Time, |left, _| {
            Expr::binary(Binary::Add, left, Expr::Time)
        });
        assert_eq!(chain.depth(), 100);
    }
}
