//! Symbols of a plan: everything that has a value in each of its rows.

use nilometer_influxql_syntax::ast::{Call, Expr, Reference};

use crate::select::functions::is_math;
use crate::select::planned::plan::Plan;

/// What has a value in each row: references, then calls.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    pub(crate) references: Vec<Reference>,
    pub(crate) calls: Vec<(String, Call)>,
}

impl Symbols {
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut symbols = Self::default();
        for output in &plan.outputs {
            symbols.add(&output.expr);
        }
        symbols
    }

    fn add(&mut self, expr: &Expr) {
        match expr {
            Expr::Reference(reference) if self.references.contains(reference) => {}
            Expr::Reference(reference) => self.references.push(reference.clone()),
            Expr::Call(call) if is_math(&call.name) => {
                call.arguments
                    .iter()
                    .for_each(|argument| self.add(argument));
            }
            Expr::Call(call) => {
                let text = call.to_string();
                if !self.calls.iter().any(|(known, _)| *known == text) {
                    self.calls.push((text, call.clone()));
                }
            }
            Expr::Binary(_, left, right) => {
                self.add(left);
                self.add(right);
            }
            Expr::Paren(inner) => self.add(inner),
            _ => {}
        }
    }
}
