//! The steps from rows to an answer.

pub(crate) mod buckets;
pub(crate) mod calculation;
pub(crate) mod calls;
pub(crate) mod choices;
pub(crate) mod explain;
pub(crate) mod fill;
pub(crate) mod frame;
pub(crate) mod join;
pub(crate) mod output;
pub(crate) mod query;
pub(crate) mod read;
pub(crate) mod stored;
pub(crate) mod stream;
pub(crate) mod symbols;
pub(crate) mod view;
