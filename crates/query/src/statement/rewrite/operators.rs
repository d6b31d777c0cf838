//! Operators that the parser or the planner lacks, or has otherwise: `= ANY`, `%`, `^`, `SIMILAR TO`, `BETWEEN SYMMETRIC`,
//! `?`, `?|`, `?&`.

pub(super) mod any;
pub(super) mod exists;
pub(super) mod like;
pub(super) mod modulo;
pub(super) mod others;
pub(super) mod precedence;
pub(super) mod similar;
pub(super) mod symmetric;
