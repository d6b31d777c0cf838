//! The service layer: the seam between surfaces, which speak a protocol, and the engine.
//!
//! Does: open a store and run its maintenance, keep sessions between writes, give queries threads of their own and
//! their turns, count the memory of bodies and statements, list and end these, carry definitions out, know users and what they may do; say what
//! a language and a surface have to do, what an error means, who does what waits for the disk and what time it is. Does not:
//! speak a protocol, or know a language; nothing of HTTP or of `DataFusion` is named here.
//!
//! Where next: `service.rs` has what all surfaces share, `surface.rs` what one is; `write.rs` for rows in, `language.rs` for
//! statements, `define.rs` for databases, tables and views, `access.rs` for users; `executor.rs` for whatever waits; `jobs` for the threads of a
//! store; `error/class.rs` for what errors mean.
//! The whole of the seam, with what is still to come, is in docs/decisions/0009-one-seam.md.

mod access;
mod counters;
pub mod define;
mod error;
mod executor;
mod heap;
mod jobs;
mod language;
mod limits;
mod options;
mod sabotage;
mod service;
mod surface;
mod write;

pub use access::{
    Access, Credentials, DeviceKey, DeviceSecret, Grant, INTERNAL_DATABASE, JwtSecret, NewPassword,
    Place, Principal, Privilege, Privileges, RevokedKeys, RoleError, RoleOptions, Scram, Token,
    User, UserChange, change_users, grants_of, privileges_of, users_of,
};
pub use counters::{Counted, Counter, Counters, Gauge, LimitsHit, Metric};
pub use error::{Class, Error, Fault, Position};
pub use executor::{BegunTask, Executor, Stopped, Threads, catch_panic, elsewhere, long};
pub use heap::{resident_bytes, set_up_heap};
pub use jobs::background::{
    BackgroundJobs, IntegerClock, Job, JobChange, JobContext, JobEnd, JobError, JobFunction,
    JobRecord, JobRun, JobSchedule, JobStatistics, NewJob, Span, USER_ACTION, job_history, job_of,
    job_statistics, jobs,
};
pub use jobs::maintenance::Maintenance;
pub use jobs::opening::open_store;
pub use jobs::schedule::{Scheduled, forget_scheduled, keep_scheduled, note_run, scheduled};
pub use language::advisory::{
    AdvisoryKey, AdvisoryLocks, AdvisoryMode, AdvisoryNumber, SessionLocks,
};
pub use language::bytea::bytes_of_text;
pub use language::notices::SessionNotices;
pub use language::numbers::SessionNumbers;
pub use language::params::{Param, Params};
pub use language::sets::{Set, SetHead, SetStream, Sets};
pub use language::timings::{Laps, TimedReads, TimedStep, Timings};
pub use language::{
    Charged, Client, Description, Due, Language, LanguageContext, Outcome, Prepared, RowStream,
    Rows, Runs, Session, SessionChange,
};
pub use limits::admission::{QueryAdmission, Turn};
pub use limits::body_memory::{BodyMemory, BodyPermit};
pub use limits::statements::{
    Ended, MemoryTaken, OverMemory, QueryMemory, Running, ShownStatement, Statements, Stop,
};
pub use nilometer_engine::ingest::{FlashPages, PageBlock};
pub use nilometer_engine::{RowWait, Savepoint, Transaction};
pub use options::{QueryOptions, ServiceOptions, ShownSetting};
#[doc(hidden)]
pub use sabotage::{AcquisitionBug, Sabotage};
pub use service::Service;
pub use surface::Surface;
pub use tokio_util::sync::CancellationToken;
pub use write::acquisition::{Acquisitions, Stamps};
pub use write::copy::CopyTarget;
pub use write::device_progress::{DeviceProgress, DeviceTarget};
pub use write::devices::DeviceRows;
pub use write::group::WriteGroup;
pub use write::made::NewTable;
pub use write::references::{ForeignKey, OnChange, REFERENCES, foreign_keys, write_relations};
pub use write::sequenced::sequence_relations;
pub use write::sessions::{Check, Scope, Sessions, WhenMissing};
pub use write::{LineTarget, RowTarget};
