//! Syntax of InfluxQL: text to syntax tree and back.
//!
//! Does: parse every statement of InfluxQL 1.x, print it in its normal form, say errors with InfluxDB's words and positions.
//! Does not: know a database, plan or run anything; the crate `influxql` does.
//! Next: [`parse`], then [`ast`].

pub mod ast;
mod duration;
mod error;
mod params;
mod parser;
mod pattern;
mod print;
mod quote;
mod scan;
mod token;

pub use duration::{format_clock, format_duration, parse_duration};
pub use error::{Error, Position};
pub use params::{Params, Value};
pub use pattern::{Pattern, translate};
pub use print::{Statements, format_float};
pub use quote::{quote_ident, quote_text};

use ast::{Expr, Statement};
use parser::Parser;

/// How deep parentheses, calls and subqueries may nest. InfluxDB has no limit; a text made to nest deeper would end its
/// server, and ours. Statements of people and tools nest less than 20 deep.
pub const NESTING_MAX: usize = 100;

/// How many levels an expression may have: as many operators may follow each other. There may be any number of `AND` and
/// `OR` in a row.
pub const HEIGHT_MAX: usize = 500;

/// The statements of a text, separated by semicolons. Parameters `$name` stand for their values.
pub fn parse(text: &str, params: &Params) -> Result<Vec<Statement>, Error> {
    Parser::new(text, params).statements()
}

/// An expression on its own.
pub fn parse_expr(text: &str) -> Result<Expr, Error> {
    let params = Params::default();
    Parser::new(text, &params).expr()
}
