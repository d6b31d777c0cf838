//! Planted bugs: what the simulation of requests must catch, or it proves nothing.
//!
//! Each names a rule of the service or of a surface and breaks it. No setting, flag or variable reaches this: only a program
//! that fills in `ServiceOptions::sabotage` can, and the simulation is the only one that does.

/// A rule to break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sabotage {
    /// A write whose time is over is answered as if it were stored.
    TimeLimitIsSuccess,
    /// A write is answered when it is its turn, and stored afterwards.
    AnsweredBeforeStored,
    /// The key of a body is stored before the body, by itself.
    KeyApartFromRows,
    /// A body that breaks off is stored as far as it came.
    HalfBodyStored,
    /// The memory of a body whose client went is not given back.
    BodyMemoryKept,
    /// The turn of a query whose client went is not given back.
    TurnKept,
    /// An answer that a client reads slowly goes on with what is there by then.
    TwoSnapshots,
    /// A Parquet file has the first batch of rows only.
    ParquetCutShort,
    /// A statement that defines something is answered first, and carried out afterwards.
    DefinedAfterAnswer,
    /// Whoever says that the clock is right is thanked, and retention goes on waiting.
    ClockNotAccepted,
    /// An answer in InfluxQL has its first series only.
    SeriesLeftOut,
    /// A definition or drop in InfluxQL is answered and not carried out.
    DropForgotten,
    /// Line protocol goes to the default retention policy, whichever is named.
    PolicyIgnored,
    /// `DELETE` takes points at the end of its range with it.
    DeleteTooFar,
    /// Rows in descending order are those in ascending order.
    OrderIgnored,
    /// How far a device has come is not stored with the rows of its pages.
    ProgressForgotten,
}

impl Sabotage {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::TimeLimitIsSuccess,
        Self::AnsweredBeforeStored,
        Self::KeyApartFromRows,
        Self::HalfBodyStored,
        Self::BodyMemoryKept,
        Self::TurnKept,
        Self::TwoSnapshots,
        Self::ParquetCutShort,
        Self::DefinedAfterAnswer,
        Self::ClockNotAccepted,
        Self::SeriesLeftOut,
        Self::DropForgotten,
        Self::PolicyIgnored,
        Self::DeleteTooFar,
        Self::OrderIgnored,
        Self::ProgressForgotten,
    ];
}

/// A rule of acquisition times to break; the simulation of the store plants them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcquisitionBug {
    /// What is complete does not wait for writes that are on their way.
    WritesNotAwaited,
    /// The bound is raised before it is durable.
    BoundNotDurable,
    /// The stamps of a write that failed are forgotten, although its rows may be in the log.
    FailedWriteForgotten,
    /// Stamps follow the clock, also where it is set back.
    ClockBelieved,
}

impl AcquisitionBug {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::WritesNotAwaited,
        Self::BoundNotDurable,
        Self::FailedWriteForgotten,
        Self::ClockBelieved,
    ];
}
