//! Portals: a statement with its values, as far as its rows were fetched.

use std::sync::Arc;

use nilometer_service::Params;

use super::Prepared;
use crate::execution::Running;
use crate::values::kind::Format;
use crate::wire::replies::ColumnOf;

/// A portal.
#[derive(Debug)]
pub(crate) struct Portal {
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) values: Params,
    pub(crate) formats: Vec<i16>,
    pub(crate) state: State,
    /// Whether only a transaction keeps it: a cursor that was declared.
    pub(crate) is_cursor: bool,
}

/// How far it is.
#[derive(Debug)]
pub(crate) enum State {
    New,
    /// It runs, and its columns are known.
    Open {
        running: Running,
        columns: Vec<ColumnOf>,
        formats: Vec<Format>,
        /// So many rows were asked for already, as the message Execute that follows will.
        asked: Option<usize>,
    },
    /// Its last row was sent.
    Done,
}
