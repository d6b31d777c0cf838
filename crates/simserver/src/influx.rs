//! Databases that only clients of InfluxDB touch: what is told and asked of them, and the model that judges it.
//!
//! Does: say what a deed is. Each database has one change on its way at a time, and any
//! number of questions beside it; so what an answer may show is what one of a few states gives. Does not: send (`sent` makes
//! requests of deeds, `run` sends them), or know anything of tables: the model is series and points, as InfluxDB's documentation has them.
//!
//! Start at [`store`] for the model, [`select`] for what SELECT answers of it, [`show`] for lists, [`draw`] for plans.

pub(crate) mod answer;
pub mod draw;
pub(crate) mod names;
pub(crate) mod select;
pub(crate) mod sent;
pub(crate) mod show;
pub(crate) mod store;
mod text;

pub use select::{Call, Field, Fill, Select, What};
pub use show::Show;
pub use store::{Fields, Kept, Lines, Point, Policy, Reach};

/// What is told or asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// `CREATE DATABASE`
    Create,
    /// `DROP DATABASE`
    Drop,
    /// `CREATE RETENTION POLICY`
    CreatePolicy(Policy),
    /// `ALTER RETENTION POLICY`: how long it keeps points, or that it is the default one.
    AlterPolicy(Policy, Option<Kept>),
    /// `DROP RETENTION POLICY`
    DropPolicy(Policy),
    /// Points, by `/write` or `/api/v2/write`.
    Write(Lines),
    /// `DELETE`, or `DROP SERIES` if there is no time in it, of one measurement or of all.
    Delete(Option<usize>, Reach),
    /// `DROP MEASUREMENT`
    DropMeasurement(usize),
    /// `SELECT ... INTO` the first measurement, in a policy or the default one.
    Into(Select, Option<Policy>),
    /// `SELECT`
    Select(Select),
    /// A list.
    Show(Show),
}

/// How it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct How {
    /// In documents of so many rows.
    pub chunk_rows: Option<usize>,
    /// The host of a condition is a parameter.
    pub params: bool,
    /// By POST, in a form.
    pub posts: bool,
    /// So many chunks of the answer are taken at once.
    pub takes: u64,
}

impl Deed {
    /// Whether it changes something.
    pub(crate) fn is_change(&self) -> bool {
        !matches!(self, Self::Select(_) | Self::Show(_))
    }
}
