//! Expressions.

use crate::Pattern;

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// A field, a tag or `time`.
    Reference(Reference),
    /// A function of arguments.
    Call(Call),
    /// `DISTINCT name`
    Distinct(String),
    /// `*`, `*::field`, `*::tag`
    Wildcard(Option<WildcardKind>),
    /// `/expression/`
    Regex(Pattern),
    /// A number with a point.
    Float(f64),
    /// A number without.
    Integer(i64),
    /// A number that only fits 64 bits without a sign.
    Unsigned(u64),
    /// `true` or `false`
    Boolean(bool),
    /// `'text'`
    Text(String),
    /// `10m`, in nanoseconds.
    Duration(i64),
    /// Two operands.
    Binary(Operator, Box<Expr>, Box<Expr>),
    /// Parentheses.
    Paren(Box<Expr>),
}

impl Expr {
    /// A reference without a cast.
    pub fn name(name: &str) -> Self {
        Self::Reference(Reference {
            name: name.to_owned(),
            cast: None,
        })
    }

    /// The expression inside any parentheses around it.
    pub fn inner(&self) -> &Self {
        let mut expr = self;
        while let Self::Paren(inner) = expr {
            expr = inner;
        }
        expr
    }

    /// Calls `visit` for the expression and every one inside it, outer ones first.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Self)) {
        visit(self);
        match self {
            Self::Call(call) => {
                for argument in &call.arguments {
                    argument.walk(visit);
                }
            }
            Self::Binary(_, left, right) => {
                left.walk(visit);
                right.walk(visit);
            }
            Self::Paren(inner) => inner.walk(visit),
            _ => {}
        }
    }
}

/// A field, a tag or `time`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Its name. Segments of `a.b` are joined by dots.
    pub name: String,
    /// What it is said to be.
    pub cast: Option<Cast>,
}

/// What stands behind `::`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cast {
    /// `::float`
    Float,
    /// `::integer`
    Integer,
    /// `::unsigned`
    Unsigned,
    /// `::string`
    Text,
    /// `::boolean`
    Boolean,
    /// `::field`
    Field,
    /// `::tag`
    Tag,
}

/// What a `*` stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WildcardKind {
    /// `*::field`
    Field,
    /// `*::tag`
    Tag,
}

/// A call of a function.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// In lower case.
    pub name: String,
    /// Any number.
    pub arguments: Vec<Expr>,
}

/// Operators of two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Mod,
    /// `&`
    BitAnd,
    /// `|`
    BitOr,
    /// `^`
    BitXor,
    /// `AND`
    And,
    /// `OR`
    Or,
    /// `=`
    Eq,
    /// `!=`
    NotEq,
    /// `=~`
    Match,
    /// `!~`
    NotMatch,
    /// `<`
    Lt,
    /// `<=`
    LtEq,
    /// `>`
    Gt,
    /// `>=`
    GtEq,
}

impl Operator {
    /// As it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Sub => "-",
            Self::Mul => "*",
            Self::Div => "/",
            Self::Mod => "%",
            Self::BitAnd => "&",
            Self::BitOr => "|",
            Self::BitXor => "^",
            Self::And => "AND",
            Self::Or => "OR",
            Self::Eq => "=",
            Self::NotEq => "!=",
            Self::Match => "=~",
            Self::NotMatch => "!~",
            Self::Lt => "<",
            Self::LtEq => "<=",
            Self::Gt => ">",
            Self::GtEq => ">=",
        }
    }

    /// How strongly it binds: 1 (`OR`) to 5 (`*`).
    pub fn precedence(self) -> u8 {
        match self {
            Self::Or => 1,
            Self::And => 2,
            Self::Eq
            | Self::NotEq
            | Self::Match
            | Self::NotMatch
            | Self::Lt
            | Self::LtEq
            | Self::Gt
            | Self::GtEq => 3,
            Self::Add | Self::Sub | Self::BitOr | Self::BitXor => 4,
            Self::Mul | Self::Div | Self::Mod | Self::BitAnd => 5,
        }
    }

    /// Whether it takes a regular expression.
    pub fn takes_regex(self) -> bool {
        matches!(self, Self::Match | Self::NotMatch)
    }

    /// Whether its answer is true or false.
    pub fn is_condition(self) -> bool {
        self.precedence() <= 3
    }
}
