//! Faults: what is wrong with a statement, finer than a class, for protocols whose clients tell it apart.
//!
//! Does: name them, and say them of the engine's and of definitions' errors. Does not: know a code of any protocol; a surface
//! whose clients know codes has one table.

use nilometer_engine::{ConstraintKind, Error as EngineError};

use crate::define::{DefineError, Object};

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The text is no statement.
    Syntax,
    /// The language has it, and this store does not.
    Unsupported,
    /// No such database.
    UnknownDatabase,
    /// No such schema.
    UnknownSchema,
    /// No such table, relation or view.
    UnknownTable,
    /// No such column.
    UnknownColumn,
    /// No function of this name that takes such arguments.
    UnknownFunction,
    /// No such setting, or another thing with a name.
    UnknownName,
    /// A placeholder has no value.
    UnknownParameter,
    /// The database is there already.
    DatabaseExists,
    /// The schema is there already.
    SchemaExists,
    /// The table is there already.
    TableExists,
    /// The column is there already.
    ColumnExists,
    /// Something else depends on it.
    InUse,
    /// A name that cannot be one.
    InvalidName,
    /// A name that can mean several things.
    Ambiguous,
    /// A column that is neither grouped nor aggregated.
    Grouping,
    /// The types do not fit each other.
    Types,
    /// A definition that cannot be.
    Definition,
    /// A value is not what its type can hold, such as a text that is no number.
    InvalidValue,
    /// A text that is no time.
    InvalidTime,
    /// A time beyond what there is.
    TimeRange,
    /// A number beyond its type.
    NumberRange,
    /// A division by zero.
    DivisionByZero,
    /// A place that a value has not.
    OutOfPlace,
    /// A part of a value with a length below 0.
    NegativeLength,
    /// A pattern that is none.
    InvalidPattern,
    /// A subquery gives more than one row where one is wanted.
    ManyRows,
    /// A row of this key is there already.
    DuplicateKey,
    /// NULL where a value is needed.
    NotNull,
    /// A row that does not meet a condition of its table.
    Check,
    /// A text longer than its type allows.
    TooLong,
    /// Somebody else changed it meanwhile; the same may succeed when it is tried again.
    Changed,
    /// Somebody else has the row until their transaction ends.
    Locked,
    /// Transactions would wait for each other for ever.
    Deadlock,
    /// The statement changes something where only reading is allowed.
    ReadOnly,
    /// A type or a label of the name is there already.
    ObjectExists,
    /// A row points to none, or another one to it.
    ForeignKey,
    /// A foreign key that points to no key.
    InvalidForeignKey,
    /// A value for a column that is always generated.
    GeneratedAlways,
    /// A sequence has given its last number.
    SequenceLimit,
    /// An option that cannot have this value.
    InvalidParameter,
    /// It is asked too early: what it needs is not there yet.
    NotReady,
}

impl Fault {
    /// Of an error of the engine.
    pub(crate) fn of_engine(error: &EngineError) -> Option<Self> {
        Some(match error {
            EngineError::UnknownDatabase { .. } => Self::UnknownDatabase,
            EngineError::NotFound { what, .. } => match *what {
                "database" => Self::UnknownDatabase,
                "schema" => Self::UnknownSchema,
                "column" | "field" | "tag" => Self::UnknownColumn,
                _ => Self::UnknownTable,
            },
            EngineError::TableDropped { .. } | EngineError::RelationDropped { .. } => {
                Self::UnknownTable
            }
            EngineError::ExistsAlready { what, .. } => match *what {
                "database" => Self::DatabaseExists,
                "schema" => Self::SchemaExists,
                "column" | "field" | "tag" => Self::ColumnExists,
                "type" | "label" => Self::ObjectExists,
                _ => Self::TableExists,
            },
            EngineError::RelationKey { .. } | EngineError::RowConflict { .. } => Self::DuplicateKey,
            EngineError::Constraint { kind, .. } => match kind {
                ConstraintKind::OutOfRange => Self::NumberRange,
                ConstraintKind::TooLong => Self::TooLong,
                ConstraintKind::InvalidText => Self::InvalidValue,
                ConstraintKind::InvalidTime => Self::InvalidTime,
                ConstraintKind::TimeRange => Self::TimeRange,
                ConstraintKind::NotNull => Self::NotNull,
                ConstraintKind::Check => Self::Check,
                ConstraintKind::ForeignKey => Self::ForeignKey,
                ConstraintKind::Unique => Self::DuplicateKey,
            },
            EngineError::RelationChanged { .. }
            | EngineError::RefreshRunning
            | EngineError::ChangedMeanwhile { .. }
            | EngineError::TableRewritten { .. }
            | EngineError::RewriteStopped { .. }
            | EngineError::RewriteOvertaken { .. }
            | EngineError::TransactionOvertaken { .. } => Self::Changed,
            EngineError::RowLocked { .. } => Self::Locked,
            EngineError::Deadlock => Self::Deadlock,
            EngineError::InvalidName { .. } => Self::InvalidName,
            EngineError::RelationDefinition { .. } => Self::Definition,
            EngineError::DefaultSchemaInUse { .. } | EngineError::RewriteRunning { .. } => {
                Self::InUse
            }
            EngineError::HasRows { .. } | EngineError::HiddenTag { .. } => Self::Unsupported,
            EngineError::TypedColumn { .. } | EngineError::NotAField { .. } => Self::Types,
            EngineError::RelationRow { .. }
            | EngineError::TypedRow { .. }
            | EngineError::NoTagValue { .. }
            | EngineError::InvalidSetting { .. } => Self::InvalidValue,
            _ => return None,
        })
    }

    /// Of an error of a definition.
    pub fn of_definition(error: &DefineError) -> Self {
        match error {
            DefineError::Unknown { what, .. } => match what {
                Object::Database => Self::UnknownDatabase,
                Object::Schema => Self::UnknownSchema,
                Object::Table | Object::View | Object::Aggregate | Object::Sequence => {
                    Self::UnknownTable
                }
                Object::Column => Self::UnknownColumn,
                Object::Index | Object::Type => Self::UnknownName,
                Object::Function | Object::Procedure => Self::UnknownFunction,
            },
            DefineError::NoConstraint { .. } | DefineError::NoPolicy { .. } => Self::UnknownName,
            DefineError::SystemColumn { .. } => Self::ColumnExists,
            DefineError::ForeignKey { .. } => Self::InvalidForeignKey,
            DefineError::ConstraintExists { .. } => Self::ObjectExists,
            DefineError::SchemaInUse { .. }
            | DefineError::CountedOn { .. }
            | DefineError::PointedTo { .. }
            | DefineError::TypeInUse { .. }
            | DefineError::NumbersColumn { .. }
            | DefineError::RoutineInUse { .. }
            | DefineError::IsInTier { .. }
            | DefineError::Aggregated { .. }
            | DefineError::AggregatedColumn { .. }
            | DefineError::AggregatedChunks { .. }
            | DefineError::StoredAnswers { .. } => Self::InUse,
            DefineError::Exhausted { .. } => Self::SequenceLimit,
            DefineError::BeyondSequence { .. } => Self::NumberRange,
            DefineError::NothingGiven { .. } | DefineError::Identity { .. } => Self::NotReady,
            DefineError::NotEmpty { .. }
            | DefineError::Unsupported { .. }
            | DefineError::OtherKey { .. }
            | DefineError::NoTime { .. }
            | DefineError::OtherTime { .. }
            | DefineError::TimeWithRows { .. }
            | DefineError::ManyDimensions
            | DefineError::UniqueLeavesOut { .. }
            | DefineError::IsKey { .. }
            | DefineError::NeverCold { .. }
            | DefineError::DamagedChunk { .. }
            | DefineError::Extension { .. } => Self::Unsupported,
            DefineError::HasIntegerNow { .. }
            | DefineError::IsHypertable { .. }
            | DefineError::IsDimension { .. }
            | DefineError::HasPolicy { .. } => Self::TableExists,
            DefineError::NoHypertable { .. } | DefineError::NoChunk { .. } => Self::UnknownTable,
            DefineError::NoRange
            | DefineError::Policy { .. }
            | DefineError::TimeBound { .. }
            | DefineError::IntegerTime { .. }
            | DefineError::IntegerSetting { .. }
            | DefineError::NoIntegerNow { .. }
            | DefineError::NoIntegerTime { .. }
            | DefineError::NoIntegerFunction { .. }
            | DefineError::SequenceOption { .. }
            | DefineError::Enumeration { .. } => Self::InvalidParameter,
            DefineError::Interval { .. } => Self::InvalidValue,
            DefineError::IsRelation { .. }
            | DefineError::IsView { .. }
            | DefineError::IsAggregate { .. }
            | DefineError::NoTimeType { .. }
            | DefineError::NotCast { .. }
            | DefineError::NoTag { .. } => Self::Types,
            DefineError::TooManyParts { .. } => Self::InvalidName,
            DefineError::Reserved { .. }
            | DefineError::KeepsOwn { .. }
            | DefineError::PayloadSchema { .. }
            | DefineError::OverwritesRecords { .. }
            | DefineError::TimeColumn
            | DefineError::Constraint { .. }
            | DefineError::Routine { .. }
            | DefineError::Narrower { .. } => Self::Definition,
        }
    }
}
