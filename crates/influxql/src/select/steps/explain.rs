//! The plan of a SELECT as lines of text.

use nilometer_influxql_syntax::ast::Expr;
use nilometer_series::Column;

use crate::select::planned::plan::{Input, Plan};
use crate::select::steps::choices::choice;
use crate::select::steps::frame::{Frame, wanted};
use crate::select::steps::read::stored;
use crate::select::steps::stored::bucket;
use crate::select::steps::symbols::Symbols;

/// The expressions of a plan and, for each measurement, the series query that reads it.
pub(crate) fn lines(plan: &Plan, frame: &Frame, now_ns: i64, indent: usize, out: &mut Vec<String>) {
    let symbols = Symbols::of(plan);
    let space = " ".repeat(indent);
    for (text, _) in &symbols.calls {
        out.push(format!("{space}EXPRESSION: {text}"));
    }
    if symbols.calls.is_empty() {
        out.push(format!("{space}EXPRESSION: <nil>"));
    }
    if !symbols.references.is_empty() {
        let names = symbols
            .references
            .iter()
            .map(|name| Expr::Reference(name.clone()).to_string());
        let names: Vec<String> = names.collect();
        out.push(format!("{space}AUXILIARY FIELDS: {}", names.join(", ")));
    }
    for input in &plan.inputs {
        match input {
            Input::Table(table) => {
                let (mut shape, rest) = wanted(plan, frame).shape(table);
                let mut names = symbols.references.clone();
                for output in &plan.outputs {
                    output.expr.walk(&mut |expr| {
                        if let Expr::Reference(name) = expr
                            && !names.contains(name)
                        {
                            names.push(name.clone());
                        }
                    });
                }
                let columns = names
                    .iter()
                    .filter_map(|name| Some((name, stored(name, table)?)));
                shape.columns = columns
                    .map(|(name, expr)| Column {
                        name: name.name.clone(),
                        expr,
                    })
                    .collect();
                shape.bucket = frame
                    .window
                    .filter(|window| window.zone.is_none())
                    .map(bucket);
                if let [(_, call)] = symbols.calls.as_slice()
                    && shape.bucket.is_some() == frame.window.is_some()
                {
                    shape.choice = choice(call, table, &symbols.references);
                }
                out.push(format!("{space}SERIES QUERY:"));
                out.extend(
                    shape
                        .to_string()
                        .lines()
                        .map(|line| format!("{space}    {line}")),
                );
                for condition in rest {
                    out.push(format!("{space}    and of each row here: {condition}"));
                }
            }
            Input::Nested(inner) => {
                out.push(format!("{space}SUBQUERY:"));
                lines(inner, &frame.inner(inner, now_ns), now_ns, indent + 4, out);
            }
        }
    }
}
