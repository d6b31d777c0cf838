//! Errors of summaries.

/// What can be wrong with a summary, or with what is asked of it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// The bytes are something else.
    #[error("these bytes are no summary; an aggregate such as stats_agg, or rollup, makes one")]
    Foreign,
    /// The bytes were made by a later version.
    #[error(
        "the summary has version {version}, this program reads up to {known}: it was written by a newer program"
    )]
    Newer {
        /// The version of the bytes.
        version: u8,
        /// The last that is read.
        known: u8,
    },
    /// The bytes are not what was written.
    #[error("the summary is damaged ({what}): compute it again from the rows that it was made of")]
    Damaged {
        /// What does not hold.
        what: &'static str,
    },
    /// Summaries of two kinds.
    #[error("rollup takes summaries of one kind, not of {one} and of {other}")]
    Kinds {
        /// The kind of the first.
        one: &'static str,
        /// The kind of the next.
        other: &'static str,
    },
    /// Summaries of one kind that were made with other arguments.
    #[error("rollup takes summaries that were made alike, not {what} {one} and {other}")]
    Parameters {
        /// The argument.
        what: &'static str,
        /// Its value in the first.
        one: String,
        /// Its value in the next.
        other: String,
    },
    /// Summaries of the same times.
    #[error(
        "rollup takes summaries of times that do not overlap: {kind} needs the order of all values, so group by what tells the series apart"
    )]
    Overlap {
        /// The aggregate.
        kind: &'static str,
    },
    /// An argument that cannot be.
    #[error("{0}")]
    Argument(String),
    /// A time with two states.
    #[error(
        "state_agg: the state is both {one} and {other} at one time; group by what tells the series apart"
    )]
    TwoStates {
        /// One of the states.
        one: String,
        /// The other.
        other: String,
    },
    /// A heartbeat outside of the range that the summary is about.
    #[error(
        "heartbeat_agg: a heartbeat lies outside of the range from agg_start on; filter by time or make agg_duration longer"
    )]
    Outside,
}

pub(crate) fn damaged(what: &'static str) -> Error {
    Error::Damaged { what }
}
