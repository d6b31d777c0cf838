//! Values in the places of parameters.
//!
//! Does: rebuild a shape with each parameter replaced. Does not: check what comes out.

use std::convert::Infallible;

use super::{Choice, Column, Expr, Fill, Limit, Shape, Source, TagExpr, TimeRange, Top};
use crate::error::Error;
use crate::value::{Literal, Value};

/// The first parameter that has no value, from 0.
struct Missing<'a> {
    values: &'a [Value],
    first: Option<usize>,
}

pub(super) fn bound(shape: &Shape, values: &[Value]) -> Result<Shape, Error> {
    let mut missing = Missing {
        values,
        first: None,
    };
    let shape = missing.shape(shape);
    match missing.first {
        None => Ok(shape),
        Some(number) => Err(Error::Parameter {
            number: number + 1,
            problem: format!("it has no value; {} were given", values.len()),
        }),
    }
}

impl Missing<'_> {
    fn literal(&mut self, literal: &Literal) -> Literal {
        let Literal::Parameter(number) = literal else {
            return literal.clone();
        };
        if let Some(value) = self.values.get(*number) {
            return Literal::Value(value.clone());
        }
        self.first.get_or_insert(*number);
        literal.clone()
    }

    fn maybe(&mut self, literal: Option<&Literal>) -> Option<Literal> {
        literal.map(|literal| self.literal(literal))
    }

    fn limit(&mut self, limit: Option<&Limit>) -> Option<Limit> {
        limit.map(|limit| Limit {
            rows: self.literal(&limit.rows),
            skip: self.literal(&limit.skip),
        })
    }

    fn shape(&mut self, shape: &Shape) -> Shape {
        Shape {
            rules: shape.rules,
            source: match &shape.source {
                Source::Tables(tables) => Source::Tables(tables.clone()),
                Source::Nested(nested) => Source::Nested(Box::new(self.shape(nested))),
            },
            time: TimeRange {
                from: self.maybe(shape.time.from.as_ref()),
                to: self.maybe(shape.time.to.as_ref()),
            },
            tags: self.tags(&shape.tags),
            rows: shape.rows.as_ref().map(|rows| self.expr(rows)),
            group: shape.group.clone(),
            bucket: shape.bucket.clone(),
            choice: shape.choice.as_ref().map(|choice| self.choice(choice)),
            columns: shape
                .columns
                .iter()
                .map(|column| Column {
                    name: column.name.clone(),
                    expr: self.expr(&column.expr),
                })
                .collect(),
            fill: self.fill(&shape.fill),
            fills: shape
                .fills
                .iter()
                .map(|(name, fill)| (name.clone(), self.fill(fill)))
                .collect(),
            order: shape.order,
            limit_groups: self.limit(shape.limit_groups.as_ref()),
            limit_per_group: self.limit(shape.limit_per_group.as_ref()),
            limit: self.limit(shape.limit.as_ref()),
            with_ties: shape.with_ties,
        }
    }

    fn fill(&mut self, fill: &Fill) -> Fill {
        match fill {
            Fill::Value(value) => Fill::Value(self.literal(value)),
            fill => fill.clone(),
        }
    }

    fn choice(&mut self, choice: &Choice) -> Choice {
        match choice {
            Choice::Distinct(of) => Choice::Distinct(self.expr(of)),
            Choice::Top(top) => Choice::Top(Top {
                by: self.expr(&top.by),
                rows: self.literal(&top.rows),
                smallest: top.smallest,
                each: top.each.iter().map(|of| self.expr(of)).collect(),
            }),
        }
    }

    fn tags(&mut self, tags: &TagExpr) -> TagExpr {
        match tags {
            TagExpr::All => TagExpr::All,
            TagExpr::OneOf(tag, values) => {
                let values = values.iter().map(|value| self.literal(value)).collect();
                TagExpr::OneOf(tag.clone(), values)
            }
            TagExpr::Range(tag, first, last) => {
                let first = self.maybe(first.as_ref());
                TagExpr::Range(tag.clone(), first, self.maybe(last.as_ref()))
            }
            TagExpr::Matches(tag, pattern) => TagExpr::Matches(tag.clone(), self.literal(pattern)),
            TagExpr::Absent(tag) => TagExpr::Absent(tag.clone()),
            TagExpr::And(all) => TagExpr::And(all.iter().map(|it| self.tags(it)).collect()),
            TagExpr::Or(all) => TagExpr::Or(all.iter().map(|it| self.tags(it)).collect()),
            TagExpr::Not(inner) => TagExpr::Not(Box::new(self.tags(inner))),
        }
    }

    fn expr(&mut self, expr: &Expr) -> Expr {
        match expr {
            Expr::Time | Expr::Tag(_) | Expr::Field(_) => expr.clone(),
            Expr::Literal(literal) => Expr::Literal(self.literal(literal)),
            Expr::Unary(operator, of) => Expr::Unary(*operator, Box::new(self.expr(of))),
            Expr::Neighbour(which, of) => Expr::Neighbour(*which, Box::new(self.expr(of))),
            Expr::Binary(operator, left, right) => {
                let left = Box::new(self.expr(left));
                Expr::Binary(*operator, left, Box::new(self.expr(right)))
            }
            Expr::Call(function, operands) => {
                let operands = operands.iter().map(|of| self.expr(of)).collect();
                Expr::Call(*function, operands)
            }
            Expr::Aggregate(aggregate) => {
                let Ok(mapped) = aggregate.map(|of| Ok::<_, Infallible>(self.expr(of)));
                Expr::Aggregate(Box::new(mapped))
            }
        }
    }
}
