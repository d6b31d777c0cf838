//! Conditions on tags: the series that meet one, and whether some tags do.
//!
//! Does: ask the engine's index for each comparison, and unite and intersect what it finds; test the tags of groups that are
//! no series. Does not: look at rows.

use std::sync::Arc;

use nilometer_engine::{SeriesId, Snapshot, TableSchema, TagMatch, TagPredicate, TextRange};

use crate::error::Error;
use crate::query::TagExpr;
use crate::value::{Literal, Rules, Value};

/// The series of a table that meet a condition, ascending.
pub(super) fn series(
    snapshot: &Snapshot,
    table: &TableSchema,
    expr: &TagExpr,
    rules: Rules,
) -> Result<Vec<SeriesId>, Error> {
    Search {
        snapshot,
        table,
        rules,
    }
    .find(expr, false)
}

struct Search<'a> {
    snapshot: &'a Snapshot,
    table: &'a TableSchema,
    rules: Rules,
}

/// What a comparison of one tag means, for the index.
#[derive(Debug)]
struct Comparison<'a> {
    tag: &'a str,
    matches: TagMatch,
    /// Whether an absent tag meets it; `None` = neither it nor what denies it.
    absent: Option<bool>,
}

impl Search<'_> {
    fn find(&self, expr: &TagExpr, negated: bool) -> Result<Vec<SeriesId>, Error> {
        match expr {
            TagExpr::All if negated => Ok(Vec::new()),
            TagExpr::All => self.all(),
            TagExpr::Not(inner) => self.find(inner, !negated),
            TagExpr::And(parts) if !negated => self.meet(parts, negated),
            TagExpr::Or(parts) if negated => self.meet(parts, negated),
            TagExpr::And(parts) | TagExpr::Or(parts) => self.join(parts, negated),
            leaf => self.compare(&comparison(leaf, self.rules)?, negated),
        }
    }

    fn all(&self) -> Result<Vec<SeriesId>, Error> {
        Ok(self.snapshot.series(self.table, &[])?)
    }

    fn meet(&self, parts: &[TagExpr], negated: bool) -> Result<Vec<SeriesId>, Error> {
        let mut parts = parts.iter();
        let Some(first) = parts.next() else {
            return self.all();
        };
        let mut found = self.find(first, negated)?;
        for part in parts {
            if found.is_empty() {
                break;
            }
            let other = self.find(part, negated)?;
            found.retain(|series| other.binary_search(series).is_ok());
        }
        Ok(found)
    }

    fn join(&self, parts: &[TagExpr], negated: bool) -> Result<Vec<SeriesId>, Error> {
        let mut found = Vec::new();
        for part in parts {
            found.extend(self.find(part, negated)?);
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    fn compare(&self, leaf: &Comparison<'_>, negated: bool) -> Result<Vec<SeriesId>, Error> {
        let holds_absent = leaf.absent.is_some_and(|absent| absent != negated);
        let tags = &self.table.tags;
        let Some(at) = tags.iter().position(|tag| tag.name == leaf.tag) else {
            // No series has it.
            return if holds_absent {
                self.all()
            } else {
                Ok(Vec::new())
            };
        };
        // In the table's schema the time comes first, then the tags.
        let column = at + 1;
        let none = TagPredicate::one_of(column, vec![None]);
        let mut present = none.clone();
        present.negated = true;
        let own = TagPredicate {
            column,
            matches: leaf.matches.clone(),
            negated,
        };
        // Of a choice among values no absent tag is one, and to ask for those that are there is to ask for most.
        let is_choice = !negated && matches!(leaf.matches, TagMatch::OneOf(_));
        let mut found = if is_choice {
            self.snapshot.series(self.table, &[own])?
        } else {
            self.snapshot.series(self.table, &[present, own])?
        };
        if holds_absent {
            found.extend(self.snapshot.series(self.table, &[none])?);
            found.sort_unstable();
        }
        Ok(found)
    }
}

fn text(literal: &Literal) -> String {
    match literal {
        Literal::Value(Value::Text(text)) => text.to_string(),
        literal => literal.to_string(),
    }
}

fn comparison(leaf: &TagExpr, rules: Rules) -> Result<Comparison<'_>, Error> {
    // By `Influx` an absent tag is the empty text, by `Postgres` a null.
    let of_absent = |matches: &TagMatch| match rules {
        Rules::Postgres => None,
        Rules::Influx => Some(is_match(matches, "")),
    };
    let (tag, matches) = match leaf {
        TagExpr::OneOf(tag, values) => {
            let values = values.iter().map(|value| Some(text(value))).collect();
            (tag, TagMatch::OneOf(values))
        }
        TagExpr::Range(tag, first, last) => (tag, range(first.as_ref(), last.as_ref())),
        TagExpr::Matches(tag, pattern) => {
            let pattern = text(pattern);
            let predicate = TagPredicate::pattern(0, &pattern, false);
            let predicate = predicate.map_err(|problem| Error::Pattern { pattern, problem })?;
            (tag, predicate.matches)
        }
        TagExpr::Absent(tag) => {
            return Ok(Comparison {
                tag,
                matches: TagMatch::OneOf(Vec::new()),
                absent: Some(true),
            });
        }
        TagExpr::All | TagExpr::And(_) | TagExpr::Or(_) | TagExpr::Not(_) => {
            return Err(Error::contradiction(format!("{leaf} is no comparison")));
        }
    };
    Ok(Comparison {
        absent: of_absent(&matches),
        tag,
        matches,
    })
}

fn range(first: Option<&Literal>, last: Option<&Literal>) -> TagMatch {
    let integer = |bound: Option<&Literal>| match bound {
        Some(Literal::Value(Value::Int(value))) => Some(*value),
        _ => None,
    };
    if let (None, None) = (integer(first), integer(last)) {
        let bytes = |bound: Option<&Literal>| bound.map(|bound| text(bound).into_bytes());
        return TagMatch::Texts(vec![TextRange {
            first: bytes(first),
            last: bytes(last),
        }]);
    }
    let first = integer(first).unwrap_or(i64::MIN);
    TagMatch::Integers(vec![first..=integer(last).unwrap_or(i64::MAX)])
}

/// Whether a text that is there matches.
fn is_match(matches: &TagMatch, value: &str) -> bool {
    matches.is_match(Some(value))
}

/// Whether tags meet a condition.
pub(super) fn matches(
    expr: &TagExpr,
    rules: Rules,
    tag: &dyn Fn(&str) -> Option<Arc<str>>,
) -> Result<bool, Error> {
    holds(expr, false, rules, tag)
}

fn holds(
    expr: &TagExpr,
    negated: bool,
    rules: Rules,
    tag: &dyn Fn(&str) -> Option<Arc<str>>,
) -> Result<bool, Error> {
    match expr {
        TagExpr::All => Ok(!negated),
        TagExpr::Not(inner) => holds(inner, !negated, rules, tag),
        TagExpr::And(parts) | TagExpr::Or(parts) => {
            let all = matches!(expr, TagExpr::And(_)) != negated;
            for part in parts {
                if holds(part, negated, rules, tag)? != all {
                    return Ok(!all);
                }
            }
            Ok(all)
        }
        leaf => {
            let leaf = comparison(leaf, rules)?;
            Ok(match tag(leaf.tag) {
                Some(value) => is_match(&leaf.matches, &value) != negated,
                None => leaf.absent.is_some_and(|absent| absent != negated),
            })
        }
    }
}
