//! Errors of the service, between a surface and the engine.

mod class;
mod fault;

use std::{fmt, io};

use nilometer_engine::{Error as EngineError, Offence, RowWait};

use crate::define::{DefineError, Part};
use crate::limits::statements::{Ended, OverMemory};

pub use class::Class;
pub use fault::Fault;

/// A place in a statement; both count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: u64,
    /// The character in that line.
    pub column: u64,
}

/// An error of the service. Its text says what to do next, [`Error::class`] what it means for whoever asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused threads.
    #[error(
        "cannot start threads for {what}: {source}; raise the limit of threads of this process"
    )]
    Threads {
        /// What they are for.
        what: &'static str,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// A token is unfit. Its text is never said.
    #[error("the token of {origin} {reason}; make one with `openssl rand -hex 32`")]
    Token {
        /// Where it came from.
        origin: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A secret of signed tokens is unfit. Its text is never said.
    #[error(
        "the secret of signed tokens of {origin} {reason}; make one with `openssl rand -hex 32`"
    )]
    JwtSecret {
        /// Where it came from.
        origin: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A secret of device keys is unfit. Its text is never said.
    #[error("the secret of device keys of {origin} {reason}; make one with `openssl rand -hex 32`")]
    DeviceSecret {
        /// Where it came from.
        origin: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A list of revoked keys of devices is unfit.
    #[error(
        "line {line} of the list of revoked keys {origin} {reason}; write the name of a device, or a number, a tab and a name"
    )]
    RevokedKeys {
        /// Where it came from.
        origin: String,
        /// Which line, counted from 1.
        line: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// What a device sent is not signed with its key.
    #[error(
        "authorization failed: the request is not signed with a key of device \"{device}\" that counts; `nilometer edge key` prints it, with --number once an older one was revoked (edge-revoked-file)"
    )]
    DeviceSignature {
        /// The device that it says it is.
        device: String,
    },
    /// Two requests have sent pages of one flash.
    #[error(
        "pages of device \"{device}\" are being stored by another request; ask again how far it has come"
    )]
    DeviceBusy {
        /// The device.
        device: String,
    },
    /// A client and this server do not agree on how a password is proved.
    #[error("the client's proof of its password is not one of SCRAM-SHA-256: {reason}")]
    Scram {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A signed token lets nobody in.
    #[error("authorization failed: {reason}")]
    BearerToken {
        /// Why.
        reason: &'static str,
    },
    /// What was shown is not the token.
    #[error("authorization failed: this is not the server's token")]
    WrongToken,
    /// Nothing was shown.
    #[error(
        "unable to parse authentication credentials: send the name and password of a user, or the server's token"
    )]
    NoCredentials,
    /// There is no such user, or the password is another one.
    #[error("authorization failed: no user has this name and password")]
    WrongPassword,
    /// A user may not do this.
    #[error("\"{user}\" user is not authorized to {action} database \"{database}\"")]
    NotAllowed {
        /// The user.
        user: String,
        /// What they wanted.
        action: &'static str,
        /// Where.
        database: String,
    },
    /// Only an administrator may do this.
    #[error("\"{user}\" user is not an administrator; ask one to do it, or for more privileges")]
    NotAdministrator {
        /// The user.
        user: String,
    },
    /// Nobody may do anything yet.
    #[error(
        "create admin user first or disable authentication: CREATE USER name WITH PASSWORD '...' WITH ALL PRIVILEGES"
    )]
    NoAdministrator,
    /// A password cannot be one.
    #[error("the password {reason}")]
    Password {
        /// Why.
        reason: &'static str,
    },
    /// A name cannot be that of a user.
    #[error("\"{name}\" cannot be the name of a user: it has 1 to 255 bytes and no ':'")]
    UserName {
        /// The name.
        name: String,
    },
    /// There is no such user.
    #[error("user not found: \"{name}\"{}", did_you_mean(.nearest.as_deref()))]
    UnknownUser {
        /// The name.
        name: String,
        /// One that is like it.
        nearest: Option<String>,
    },
    /// Something cannot be done with a role.
    #[error(transparent)]
    Role(#[from] crate::access::RoleError),
    /// What the store keeps for itself.
    #[error(
        "the database \"_internal\" is the store's own, and nothing can be written or changed there"
    )]
    InternalDatabase,
    /// As many queries wait for their turn as may.
    #[error(
        "{waiting_max} queries are waiting already; try again later (setting queries-waiting-max)"
    )]
    QueriesWaiting {
        /// The limit in force.
        waiting_max: usize,
    },
    /// The bodies of running requests have all the memory that they may.
    #[error(
        "all request bodies together may use {bytes_max} bytes of memory; try again later (setting bodies-bytes-max)"
    )]
    BodyMemory {
        /// The limit in force.
        bytes_max: usize,
    },
    /// The process is so near to the machine's memory that another large body might end it.
    #[error(
        "the server has {resident} of the {machine} bytes of memory that it may have here, too many for a body of {bytes} more; try again later, send smaller bodies, or give it more memory (setting memory-bytes-max)"
    )]
    MachineMemory {
        /// What the body would take.
        bytes: u64,
        /// What the process has in memory.
        resident: u64,
        /// What the machine gives it.
        machine: u64,
    },
    /// A query ran longer than it may.
    #[error(
        "the query ran longer than {limit_ms} ms and was stopped; narrow its time range or raise query-ms-max"
    )]
    QueryTime {
        /// The limit in force.
        limit_ms: u64,
    },
    /// Who asked does not want the answer any more.
    #[error("the statement was cancelled by its caller")]
    Cancelled,
    /// Somebody ended the query.
    #[error("the query was ended by KILL QUERY {id}")]
    Killed {
        /// Its number.
        id: u64,
    },
    /// The query needs more memory than it, or all of them together, may use.
    #[error(transparent)]
    Memory(#[from] OverMemory),
    /// A write took longer than it may.
    #[error(
        "the write did not finish within {limit_ms} ms; it may still be stored (setting write-ms-max)"
    )]
    WriteTime {
        /// The limit in force.
        limit_ms: u64,
    },
    /// The program was built without a language.
    #[error(
        "this program was built without the language '{name}' (feature '{name}' of the crate nilometer); use a build that has it"
    )]
    UnknownLanguage {
        /// What it is called.
        name: &'static str,
    },
    /// What the statements of this language take and answer is known when they run, and not before.
    #[error("what a statement in '{name}' answers is known only when it runs")]
    Undescribed {
        /// What the language is called.
        name: &'static str,
    },
    /// Whoever asked can show one table only.
    #[error(
        "the answer has several series, each with columns of its own, and this route shows one table; ask at /query"
    )]
    NotOneTable,
    /// A statement is wrong, may not run, passed a limit or failed, in the words of its language.
    #[error("{source}")]
    Statement {
        /// What that means for whoever asked.
        class: Class,
        /// What is wrong, if the language tells it apart.
        fault: Option<Fault>,
        /// The setting whose limit was reached.
        setting: Option<&'static str>,
        /// Where in the statement it is, if that is known.
        position: Option<Position>,
        /// What the language says.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A definition names something that is not there, or that cannot be changed so.
    #[error("{source}")]
    Define {
        /// Which of the change's names it is about.
        part: Part,
        /// What is wrong with it.
        #[source]
        source: DefineError,
    },
    /// Nothing is begun any more.
    #[error("the server is shutting down")]
    Stopping,
    /// Something in here broke.
    #[error("the server failed on this {what}; its log has the details")]
    Panicked {
        /// What it was at.
        what: &'static str,
    },
    /// Something is wrong with a job.
    #[error(transparent)]
    Job(#[from] crate::jobs::background::JobError),
    /// A surface ended with an error, in its own words.
    #[error(transparent)]
    Surface(Box<dyn std::error::Error + Send + Sync>),
    /// The engine refused or failed.
    #[error("{}", class::text_of_engine(.0))]
    Engine(#[from] EngineError),
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| {
        format!("; did you mean \"{nearest}\"?")
    })
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

impl Error {
    /// What it means for whoever asked.
    pub fn class(&self) -> Class {
        match self {
            Self::Threads { .. }
            | Self::Token { .. }
            | Self::JwtSecret { .. }
            | Self::DeviceSecret { .. }
            | Self::RevokedKeys { .. }
            | Self::Panicked { .. }
            | Self::Surface(_) => Class::Internal,
            Self::WrongToken
            | Self::NoCredentials
            | Self::WrongPassword
            | Self::Scram { .. }
            | Self::DeviceSignature { .. }
            | Self::BearerToken { .. } => Class::Unauthorized,
            Self::NotAllowed { .. }
            | Self::NotAdministrator { .. }
            | Self::NoAdministrator
            | Self::InternalDatabase => Class::Forbidden,
            Self::Password { .. } | Self::UserName { .. } | Self::UnknownUser { .. } => {
                Class::BadRequest
            }
            Self::QueriesWaiting { .. } => Class::TooMany,
            Self::BodyMemory { .. }
            | Self::MachineMemory { .. }
            | Self::DeviceBusy { .. }
            | Self::Stopping => Class::Busy,
            Self::QueryTime { .. } | Self::WriteTime { .. } => Class::Time,
            // Nobody is there to read this one.
            Self::Cancelled | Self::Killed { .. } => Class::Conflict,
            Self::Memory(over) => over.class(),
            Self::UnknownLanguage { .. } | Self::NotOneTable | Self::Undescribed { .. } => {
                Class::Unsupported
            }
            Self::Statement { class, .. } => *class,
            Self::Job(error) => error.class(),
            Self::Role(error) => error.class(),
            Self::Define { .. } => Class::BadRequest,
            Self::Engine(error) => Class::of(error),
        }
    }

    /// What is wrong, finer than its class, if that is known.
    pub fn fault(&self) -> Option<Fault> {
        match self {
            Self::Statement { fault, .. } => *fault,
            Self::Define { source, .. } => Some(Fault::of_definition(source)),
            Self::Engine(error) => Fault::of_engine(error),
            Self::Role(error) => Some(error.fault()),
            Self::UnknownUser { .. } => Some(Fault::UnknownName),
            Self::UserName { .. } => Some(Fault::InvalidName),
            Self::Password { .. } => Some(Fault::InvalidParameter),
            _ => None,
        }
    }

    /// The setting whose limit was reached; `engine` = a limit of the engine that is no setting.
    pub fn setting(&self) -> Option<&'static str> {
        match self {
            Self::QueriesWaiting { .. } => Some("queries-waiting-max"),
            Self::BodyMemory { .. } => Some("bodies-bytes-max"),
            Self::MachineMemory { .. } => Some("memory-bytes-max"),
            Self::QueryTime { .. } => Some("query-ms-max"),
            Self::Memory(over) => Some(over.setting()),
            Self::WriteTime { .. } => Some("write-ms-max"),
            Self::Statement { setting, .. } => *setting,
            Self::Engine(error) => class::setting_of_engine(error),
            _ => None,
        }
    }

    /// Where in the statement it is, if that is known.
    pub fn position(&self) -> Option<Position> {
        match self {
            Self::Statement { position, .. } => *position,
            _ => None,
        }
    }

    /// What a constraint that refused a row is about, if one did.
    pub fn offence(&self) -> Option<Offence<'_>> {
        match self {
            Self::Engine(error) => error.offence(),
            _ => None,
        }
    }

    /// The transaction to wait for, before the same is tried again.
    pub fn row_wait(&self) -> Option<&RowWait> {
        match self {
            Self::Engine(EngineError::RowLocked { wait }) => Some(wait),
            _ => None,
        }
    }

    /// Whether the same may succeed a moment later.
    pub fn passes(&self) -> bool {
        matches!(
            self,
            Self::QueriesWaiting { .. }
                | Self::BodyMemory { .. }
                | Self::MachineMemory { .. }
                | Self::DeviceBusy { .. }
                | Self::WriteTime { .. }
                | Self::Engine(EngineError::Memory { .. })
        )
    }
}

impl From<Ended> for Error {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Cancelled => Self::Cancelled,
            Ended::Killed { id } => Self::Killed { id },
            Ended::Time { limit_ms } => Self::QueryTime { limit_ms },
        }
    }
}
