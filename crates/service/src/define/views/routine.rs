//! Parts of a function or procedure of SQL.
//!
//! Does: name them. Does not: keep or find one (`routines`), or read its text.

use super::super::change::name::TableName;

/// A parameter of a procedure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Its name; empty = it has none.
    pub name: String,
    /// Its type, as SQL.
    pub of: String,
    /// What it is where nothing is given: an expression of SQL.
    pub default: Option<String>,
}

/// A function without parameters that answers one value, or a procedure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routine {
    /// What jobs mean it by.
    pub number: i64,
    /// Its database, its schema and its own name.
    pub name: TableName,
    /// It is a procedure.
    pub is_procedure: bool,
    /// What a procedure is given.
    pub parameters: Vec<Parameter>,
    /// The type of what a function answers, as SQL.
    pub returns: String,
    /// The statements, as they were written.
    pub body: String,
    /// Who made it.
    pub owner: String,
}

/// A routine that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRoutine {
    /// It is a procedure.
    pub is_procedure: bool,
    /// As [`Routine::parameters`].
    pub parameters: Vec<Parameter>,
    /// As [`Routine::returns`].
    pub returns: String,
    /// As [`Routine::body`].
    pub body: String,
}
