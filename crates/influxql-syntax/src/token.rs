//! Tokens and keywords.

use std::borrow::Cow;

use crate::Position;
use crate::ast::Operator;

/// A token: its kind, where it starts, and its text if its kind does not say it.
#[derive(Debug, Clone)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) at: Position,
    pub(crate) text: Cow<'a, str>,
}

impl Token<'_> {
    /// How an error shows it.
    pub(crate) fn shown(&self) -> String {
        if self.text.is_empty() {
            self.kind.name().to_owned()
        } else {
            self.text.clone().into_owned()
        }
    }
}

macro_rules! kinds {
    ($($kind:ident $name:literal),* $(,)?) => {
        /// Kinds of tokens.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Kind {
            $($kind),*
        }

        impl Kind {
            /// How an error shows a token of this kind that has no text.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name),*
                }
            }
        }
    };
}

#[rustfmt::skip]
kinds! {
    Illegal "ILLEGAL", Eof "EOF", Space "WS", Comment "", Ident "IDENT", BoundParam "", Number "NUMBER",
    Integer "", Duration "DURATIONVAL", Text "STRING", BadText "BADSTRING", BadEscape "BADESCAPE", True "TRUE",
    False "FALSE", Regex "REGEX", BadRegex "", Add "+", Sub "-", Mul "*", Div "/", Mod "%", BitAnd "&", BitOr "|",
    BitXor "^", And "AND", Or "OR", Eq "=", NotEq "!=", Match "=~", NotMatch "!~", Lt "<", LtEq "<=", Gt ">",
    GtEq ">=", LeftParen "(", RightParen ")", Comma ",", Colon ":", DoubleColon "::", Semicolon ";", Dot ".",
    All "ALL", Alter "ALTER", Analyze "ANALYZE", Any "ANY", As "AS", Asc "ASC", Begin "BEGIN", By "BY",
    Cardinality "CARDINALITY", Create "CREATE", Continuous "CONTINUOUS", Database "DATABASE",
    Databases "DATABASES", Default "DEFAULT", Delete "DELETE", Desc "DESC", Destinations "DESTINATIONS",
    Diagnostics "DIAGNOSTICS", Distinct "DISTINCT", Drop "DROP", DurationWord "DURATION", End "END", Every "EVERY",
    Exact "EXACT", Explain "EXPLAIN", Field "FIELD", For "FOR", From "FROM", Future "FUTURE", Grant "GRANT",
    Grants "GRANTS", Group "GROUP", Groups "GROUPS", In "IN", Inf "INF", Insert "INSERT", Into "INTO", Key "KEY",
    Keys "KEYS", Kill "KILL", Limit "LIMIT", Measurement "MEASUREMENT", Measurements "MEASUREMENTS", Name "NAME",
    Offset "OFFSET", On "ON", Order "ORDER", Password "PASSWORD", Past "PAST", Policy "POLICY",
    Policies "POLICIES", Privileges "PRIVILEGES", Queries "QUERIES", Query "QUERY", Read "READ",
    Replication "REPLICATION", Resample "RESAMPLE", Retention "RETENTION", Revoke "REVOKE", Select "SELECT",
    Series "SERIES", Set "SET", Show "SHOW", Shard "SHARD", Shards "SHARDS", SLimit "SLIMIT", SOffset "SOFFSET",
    Stats "STATS", Subscription "SUBSCRIPTION", Subscriptions "SUBSCRIPTIONS", Tag "TAG", To "TO", User "USER",
    Users "USERS", Values "VALUES", Verbose "VERBOSE", Where "WHERE", With "WITH", Write "WRITE",
}

/// Keywords in lower case, sorted.
#[rustfmt::skip]
const WORDS: [(&str, Kind); 83] = [
    ("all", Kind::All), ("alter", Kind::Alter), ("analyze", Kind::Analyze), ("and", Kind::And), ("any", Kind::Any),
    ("as", Kind::As), ("asc", Kind::Asc), ("begin", Kind::Begin), ("by", Kind::By),
    ("cardinality", Kind::Cardinality), ("continuous", Kind::Continuous), ("create", Kind::Create),
    ("database", Kind::Database), ("databases", Kind::Databases), ("default", Kind::Default),
    ("delete", Kind::Delete), ("desc", Kind::Desc), ("destinations", Kind::Destinations),
    ("diagnostics", Kind::Diagnostics), ("distinct", Kind::Distinct), ("drop", Kind::Drop),
    ("duration", Kind::DurationWord), ("end", Kind::End), ("every", Kind::Every), ("exact", Kind::Exact),
    ("explain", Kind::Explain), ("false", Kind::False), ("field", Kind::Field), ("for", Kind::For),
    ("from", Kind::From), ("future", Kind::Future), ("grant", Kind::Grant), ("grants", Kind::Grants),
    ("group", Kind::Group), ("groups", Kind::Groups), ("in", Kind::In), ("inf", Kind::Inf),
    ("insert", Kind::Insert), ("into", Kind::Into), ("key", Kind::Key), ("keys", Kind::Keys), ("kill", Kind::Kill),
    ("limit", Kind::Limit), ("measurement", Kind::Measurement), ("measurements", Kind::Measurements),
    ("name", Kind::Name), ("offset", Kind::Offset), ("on", Kind::On), ("or", Kind::Or), ("order", Kind::Order),
    ("password", Kind::Password), ("past", Kind::Past), ("policies", Kind::Policies), ("policy", Kind::Policy),
    ("privileges", Kind::Privileges), ("queries", Kind::Queries), ("query", Kind::Query), ("read", Kind::Read),
    ("replication", Kind::Replication), ("resample", Kind::Resample), ("retention", Kind::Retention),
    ("revoke", Kind::Revoke), ("select", Kind::Select), ("series", Kind::Series), ("set", Kind::Set),
    ("shard", Kind::Shard), ("shards", Kind::Shards), ("show", Kind::Show), ("slimit", Kind::SLimit),
    ("soffset", Kind::SOffset), ("stats", Kind::Stats), ("subscription", Kind::Subscription),
    ("subscriptions", Kind::Subscriptions), ("tag", Kind::Tag), ("to", Kind::To), ("true", Kind::True),
    ("user", Kind::User), ("users", Kind::Users), ("values", Kind::Values), ("verbose", Kind::Verbose),
    ("where", Kind::Where), ("with", Kind::With), ("write", Kind::Write),
];

impl Kind {
    /// The keyword that a word is, in any case, or an identifier.
    pub(crate) fn of_word(word: &str) -> Self {
        let order = |known: &str| {
            known
                .bytes()
                .cmp(word.bytes().map(|byte| byte.to_ascii_lowercase()))
        };
        WORDS
            .binary_search_by(|(known, _)| order(known))
            .ok()
            .and_then(|place| WORDS.get(place))
            .map_or(Self::Ident, |(_, kind)| *kind)
    }

    /// The operator that the token is.
    pub(crate) fn operator(self) -> Option<Operator> {
        Some(match self {
            Self::Add => Operator::Add,
            Self::Sub => Operator::Sub,
            Self::Mul => Operator::Mul,
            Self::Div => Operator::Div,
            Self::Mod => Operator::Mod,
            Self::BitAnd => Operator::BitAnd,
            Self::BitOr => Operator::BitOr,
            Self::BitXor => Operator::BitXor,
            Self::And => Operator::And,
            Self::Or => Operator::Or,
            Self::Eq => Operator::Eq,
            Self::NotEq => Operator::NotEq,
            Self::Match => Operator::Match,
            Self::NotMatch => Operator::NotMatch,
            Self::Lt => Operator::Lt,
            Self::LtEq => Operator::LtEq,
            Self::Gt => Operator::Gt,
            Self::GtEq => Operator::GtEq,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, WORDS};

    #[test]
    fn keywords_are_sorted_and_found_in_any_case() {
        assert!(WORDS.is_sorted_by_key(|(word, _)| *word));
        assert_eq!(Kind::of_word("SELECT"), Kind::Select);
        assert_eq!(Kind::of_word("sELECT"), Kind::Select);
        assert_eq!(Kind::of_word("selects"), Kind::Ident);
        assert_eq!(Kind::of_word(""), Kind::Ident);
    }
}
