//! Errors of definitions: what is wrong with a name, and which name of the change it is.

use std::fmt;

/// What is wrong with a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DefineError {
    /// Nothing has the name.
    #[error("{what} not found: \"{name}\"{}", suggestion(.nearest.as_deref()))]
    Unknown {
        /// What was asked for.
        what: Object,
        /// The name asked for, with what it would be in.
        name: String,
        /// The name that was probably meant.
        nearest: Option<String>,
    },
    /// The schema holds what the store says of itself.
    #[error("the schema \"{schema}\" is what the store says of itself and cannot be changed")]
    Reserved {
        /// The schema.
        schema: String,
    },
    /// An enumeration that cannot be.
    #[error("the enumeration is refused: {reason}")]
    Enumeration {
        /// What is wrong.
        reason: String,
    },
    /// A foreign key that cannot be.
    #[error("the foreign key is refused: {reason}")]
    ForeignKey {
        /// What is wrong.
        reason: String,
    },
    /// A table has no such constraint.
    #[error("constraint \"{name}\" of relation \"{table}\" does not exist")]
    NoConstraint {
        /// The table.
        table: String,
        /// The constraint.
        name: String,
    },
    /// A table has a constraint of the name.
    #[error("constraint \"{name}\" for relation \"{table}\" already exists; give it another name")]
    ConstraintExists {
        /// The table.
        table: String,
        /// The constraint.
        name: String,
    },
    /// A constraint that cannot be as it is wanted.
    #[error("{reason}")]
    Constraint {
        /// What is wrong.
        reason: String,
    },
    /// Values of a column do not become another type by themselves.
    #[error("{reason}")]
    NotCast {
        /// What is wrong.
        reason: String,
    },
    /// A foreign key counts on a key or a column.
    #[error(
        "cannot drop {what} of table {table} because constraint {constraint} on table {from} depends on it; drop that first, or with it: CASCADE"
    )]
    CountedOn {
        /// What is to go.
        what: String,
        /// Its table.
        table: String,
        /// The relation that points to it.
        from: String,
        /// Its foreign key.
        constraint: String,
    },
    /// A table without a time would be left without a key, or cannot have what is asked for.
    #[error("{reason}")]
    Unsupported {
        /// What is wrong, and what to do.
        reason: String,
    },
    /// Another relation's foreign key points to it.
    #[error(
        "cannot drop table {table} because constraint {constraint} on table {from} depends on it; drop that table first"
    )]
    PointedTo {
        /// The table.
        table: String,
        /// The relation that points to it.
        from: String,
        /// Its foreign key.
        constraint: String,
    },
    /// A column is of the type.
    #[error(
        "cannot drop type {name} because column {column} of table {table} depends on it; drop the table first"
    )]
    TypeInUse {
        /// The type.
        name: String,
        /// The table.
        table: String,
        /// Its column.
        column: String,
    },
    /// The schema is not empty.
    #[error(
        "the schema \"{schema}\" has {tables} tables and {views} views; drop them first, or with it"
    )]
    SchemaInUse {
        /// The schema.
        schema: String,
        /// Its tables and relations.
        tables: usize,
        /// Its views.
        views: usize,
    },
    /// It is a relation, and a table over time is wanted.
    #[error("\"{name}\" is a relation: it has no time, no tags and no series")]
    IsRelation {
        /// The relation.
        name: String,
    },
    /// It is a view, and a table over time is wanted.
    #[error("\"{name}\" is a view; change what it reads, or replace it")]
    IsView {
        /// The view.
        name: String,
    },
    /// It is a continuous aggregate, and a view is wanted.
    #[error("\"{name}\" is a continuous aggregate; write DROP MATERIALIZED VIEW")]
    IsAggregate {
        /// The aggregate.
        name: String,
    },
    /// A continuous aggregate is made of it.
    #[error(
        "\"{table}\" belongs to the continuous aggregate \"{view}\"; drop that first, with DROP MATERIALIZED VIEW"
    )]
    Aggregated {
        /// The table, relation or aggregate.
        table: String,
        /// The aggregate.
        view: String,
    },
    /// A continuous aggregate reads the column.
    #[error(
        "the continuous aggregate \"{view}\" reads the table \"{table}\", so its column \"{column}\" stays as it is; drop the aggregate first, with DROP MATERIALIZED VIEW, or leave the column"
    )]
    AggregatedColumn {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The aggregate.
        view: String,
    },
    /// A continuous aggregate reads the chunks: it would take its stored answers for wrong, and forget them.
    #[error(
        "the continuous aggregate \"{view}\" reads the table \"{table}\", and would answer without the rows of chunks that were dropped; with ALTER TABLE ... SET (retention = '...') or add_retention_policy old rows go and its stored buckets stay"
    )]
    AggregatedChunks {
        /// The table.
        table: String,
        /// The aggregate.
        view: String,
    },
    /// It has the stored answers of a continuous aggregate, which nobody else writes.
    #[error(
        "\"{table}\" has the stored answers of the continuous aggregate \"{view}\", and only its refresh writes them; write to the tables that it reads"
    )]
    StoredAnswers {
        /// The table.
        table: String,
        /// The aggregate.
        view: String,
    },
    /// A relation in which the store keeps what is its own has the name.
    #[error("the name \"{name}\" is taken by what the store keeps for itself")]
    KeepsOwn {
        /// The name.
        name: String,
    },
    /// Every table has its time column, and it stays as it is.
    #[error("the column time cannot be changed")]
    TimeColumn,
    /// A type that does not have every value of the old one, or is stored otherwise.
    #[error(
        "the type of \"{column}\" cannot become {to}: rows that are there would not be looked at; add a column of that type and write its values with UPDATE"
    )]
    Narrower {
        /// The column.
        column: String,
        /// The type asked for.
        to: String,
    },
    /// A payload schema that does not read, or that does not fit its table.
    #[error("the payload schema is refused: {reason}")]
    PayloadSchema {
        /// What is wrong, and what to write.
        reason: String,
    },
    /// A table of records would not keep all of them.
    #[error(
        "\"{table}\" holds records of the TStorage protocol, which keeps those of one key and time; copy them into a table with other duplicates"
    )]
    OverwritesRecords {
        /// The table.
        table: String,
    },
    /// Nothing has a time that could divide it.
    #[error(
        "\"{table}\" is a relation: its rows are found by its primary key, and not kept by time; make the table without the key, or say what its time is: WITH (tsdb.hypertable, tsdb.partition_column = '...', tsdb.segmentby = '...')"
    )]
    NoTime {
        /// The relation.
        table: String,
    },
    /// The time of a table is another column.
    #[error(
        "the time of \"{table}\" is its column \"{time}\", not \"{column}\"; make the table with WITH (tsdb.hypertable, tsdb.partition_column = '{column}')"
    )]
    OtherTime {
        /// The table.
        table: String,
        /// Its time.
        time: String,
        /// What was named.
        column: String,
    },
    /// Another column is to be the time of a table that has rows.
    #[error(
        "table \"{table}\" has rows, which are kept by \"{time}\"; make a table WITH (tsdb.hypertable, tsdb.partition_column = '{column}') and copy the rows (INSERT INTO new SELECT ...)"
    )]
    TimeWithRows {
        /// The table.
        table: String,
        /// Its time.
        time: String,
        /// What was named.
        column: String,
    },
    /// A column that is no time.
    #[error(
        "\"{column}\" cannot be the time of a table: that is TIMESTAMPTZ, TIMESTAMP, DATE, BIGINT, INTEGER or SMALLINT, and no default that counts"
    )]
    NoTimeType {
        /// The column.
        column: String,
    },
    /// A length of time where the time is an integer.
    #[error(
        "{argument} is a length of time or a time, and the time of the table is an integer; say a number of it"
    )]
    IntegerTime {
        /// What was said.
        argument: String,
    },
    /// A setting that counts by the clock.
    #[error(
        "{setting} is said in lengths of time, and the time of \"{table}\" is an integer; {remedy}"
    )]
    IntegerSetting {
        /// The setting.
        setting: &'static str,
        /// The table.
        table: String,
        /// What to do.
        remedy: &'static str,
    },
    /// Nobody has said what is now in a table whose time is an integer.
    #[error(
        "integer_now function not set on hypertable \"{table}\"; make one (CREATE FUNCTION f() RETURNS BIGINT LANGUAGE SQL STABLE AS $$ SELECT ... $$) and name it: SELECT set_integer_now_func('{table}', 'f')"
    )]
    NoIntegerNow {
        /// The table.
        table: String,
    },
    /// That was said already.
    #[error(
        "integer_now function already set for hypertable \"{table}\"; replace_if_exists => true replaces it"
    )]
    HasIntegerNow {
        /// The table.
        table: String,
    },
    /// What is now is the clock's.
    #[error("the time of \"{table}\" is no integer, so the clock says what is now; leave it out")]
    NoIntegerTime {
        /// The table.
        table: String,
    },
    /// A function that cannot say what is now.
    #[error(
        "\"{function}\" cannot say what is now: such a function has no arguments and RETURNS BIGINT, INTEGER or SMALLINT"
    )]
    NoIntegerFunction {
        /// The function.
        function: String,
    },
    /// A function or a procedure that cannot be.
    #[error("the {what} cannot be: {reason}")]
    Routine {
        /// Which of the two.
        what: Object,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// Something needs a function or a procedure.
    #[error("the {what} \"{name}\" is in use: {user}")]
    RoutineInUse {
        /// Which of the two.
        what: Object,
        /// Its name.
        name: String,
        /// What needs it, and what to do.
        user: String,
    },
    /// A table is a hypertable already.
    #[error("table \"{table}\" is already a hypertable; if_not_exists => true passes over that")]
    IsHypertable {
        /// The table.
        table: String,
    },
    /// A table is no hypertable.
    #[error("table \"{table}\" is not a hypertable; make it one with create_hypertable")]
    NoHypertable {
        /// The table.
        table: String,
    },
    /// A hypertable is made of a table with rows only where that was said.
    #[error("table \"{table}\" is not empty; migrate_data => true lets it have rows")]
    NotEmpty {
        /// The table.
        table: String,
    },
    /// More tags would make another key.
    #[error(
        "the rows of \"{table}\" are unique by time and tags, and \"{column}\" would be one more; name it in the unique index"
    )]
    OtherKey {
        /// The table.
        table: String,
        /// What would be a tag.
        column: String,
    },
    /// A column that cannot tell series apart.
    #[error(
        "\"{column}\" cannot divide a table: that is for text without a length and for integers"
    )]
    NoTag {
        /// The column.
        column: String,
    },
    /// A dimension is there already.
    #[error("column \"{column}\" is already a dimension; if_not_exists => true passes over that")]
    IsDimension {
        /// The column.
        column: String,
    },
    /// One column beside the time divides a table.
    #[error(
        "a hypertable has one space dimension here; columns of segmentby may be as many as you like"
    )]
    ManyDimensions,
    /// A unique index on a table over time leaves out what tells rows apart.
    #[error(
        "a unique index of \"{table}\" has its time and every tag, here at least ({wanted}); rows are told apart by these"
    )]
    UniqueLeavesOut {
        /// The table.
        table: String,
        /// What it must have.
        wanted: String,
    },
    /// What an index is for cannot go by itself.
    #[error(
        "\"{name}\" is a key of \"{table}\", which stays as it was made; make a table without it and copy the rows (INSERT INTO new SELECT ...)"
    )]
    IsKey {
        /// The index.
        name: String,
        /// Its table.
        table: String,
    },
    /// No chunk has the name.
    #[error(
        "\"{chunk}\" is not a chunk; show_chunks lists those of a hypertable, and what is in memory or dropped is in none"
    )]
    NoChunk {
        /// The name.
        chunk: String,
    },
    /// A number where a table is kept by time, and not by an integer.
    #[error("{argument} is a number, and the time of the table is none; say a time or an interval")]
    TimeBound {
        /// The argument.
        argument: String,
    },
    /// All chunks would be meant.
    #[error("say older_than, newer_than or both: without any, every chunk would be dropped")]
    NoRange,
    /// A chunk is where it shall go.
    #[error("chunk \"{chunk}\" is {} compressed", if *.is_cold { "already" } else { "not" })]
    IsInTier {
        /// The chunk.
        chunk: String,
        /// It is in the cold tier.
        is_cold: bool,
    },
    /// Maintenance would undo it.
    #[error(
        "the chunks of \"{table}\" are never cold, by its setting; ALTER TABLE ... SET (cold_after = 'default') lifts that"
    )]
    NeverCold {
        /// The table.
        table: String,
    },
    /// Files of a chunk cannot be read.
    #[error("files of chunk \"{chunk}\" are damaged; see `nilometer check --repair`")]
    DamagedChunk {
        /// The chunk.
        chunk: String,
    },
    /// A policy of the kind is there.
    #[error(
        "{policy} policy already exists for hypertable \"{table}\"; if_not_exists => true passes over that"
    )]
    HasPolicy {
        /// The hypertable.
        table: String,
        /// What it does.
        policy: &'static str,
    },
    /// There is no policy of the kind.
    #[error(
        "{policy} policy not found for hypertable \"{table}\"; if_exists => true passes over that"
    )]
    NoPolicy {
        /// The hypertable.
        table: String,
        /// What it would do.
        policy: &'static str,
    },
    /// A policy that could not work.
    #[error("the {policy} policy cannot be: {reason}")]
    Policy {
        /// What it would do.
        policy: &'static str,
        /// Why, and what to do.
        reason: String,
    },
    /// A width of partitions that cannot be one.
    #[error("{number} is no width of partitions; write INTERVAL '1 day', or microseconds")]
    Interval {
        /// The number.
        number: i64,
    },
    /// A sequence has no number left.
    #[error("nextval: reached {end} value of sequence \"{sequence}\" ({last})")]
    Exhausted {
        /// The sequence.
        sequence: String,
        /// Which end it has come to: `maximum` or `minimum`.
        end: &'static str,
        /// The last number.
        last: i64,
    },
    /// A number that a sequence cannot be set to.
    #[error("setval: value {value} is out of bounds for sequence \"{sequence}\" ({min}..{max})")]
    BeyondSequence {
        /// The sequence.
        sequence: String,
        /// The number.
        value: i64,
        /// Its least number.
        min: i64,
        /// Its greatest.
        max: i64,
    },
    /// A session asks what it was given last, and was given nothing.
    #[error("{asked} is not yet defined in this session; call nextval first")]
    NothingGiven {
        /// `currval of sequence "s"`, or `lastval`.
        asked: String,
    },
    /// A column would have a name that the store keeps to itself.
    #[error(
        "the column name \"{column}\" conflicts with a system column name; give it another name"
    )]
    SystemColumn {
        /// The column.
        column: String,
    },
    /// A column numbers rows by itself, or does not, where it must not.
    #[error("{reason}")]
    Identity {
        /// What is wrong, and what to do.
        reason: String,
    },
    /// A way to count that there is not.
    #[error("the sequence cannot be: {reason}")]
    SequenceOption {
        /// What is wrong with it.
        reason: String,
    },
    /// A column takes its numbers from the sequence.
    #[error(
        "cannot drop sequence {sequence} because the default of column \"{column}\" of table \"{table}\" depends on it; drop the table, or the column, first"
    )]
    NumbersColumn {
        /// The sequence.
        sequence: String,
        /// The column's table.
        table: String,
        /// The column.
        column: String,
    },
    /// An extension that there is not.
    #[error("the extension \"{name}\" is not available; there is timescaledb, which needs none")]
    Extension {
        /// Its name.
        name: String,
    },
    /// The name is in more than there is.
    #[error("the name has too many parts; {remedy}")]
    TooManyParts {
        /// What to write.
        remedy: &'static str,
    },
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest
        .map(|name| format!("; did you mean \"{name}\"?"))
        .unwrap_or_default()
}

/// What has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Object {
    /// A database.
    Database,
    /// A schema.
    Schema,
    /// A table, relation or view.
    Table,
    /// A view.
    View,
    /// A continuous aggregate.
    Aggregate,
    /// A column.
    Column,
    /// A sequence.
    Sequence,
    /// An index.
    Index,
    /// An enumeration.
    Type,
    /// A function.
    Function,
    /// A procedure.
    Procedure,
}

impl Object {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Database => "database",
            Self::Schema => "schema",
            Self::Table => "table",
            Self::View => "view",
            Self::Aggregate => "continuous aggregate",
            Self::Column => "column",
            Self::Sequence => "sequence",
            Self::Index => "index",
            Self::Type => "type",
            Self::Function => "function",
            Self::Procedure => "procedure",
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// One of a change's names, for a language that knows where each stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// The first name of the path, or the only one.
    Start,
    /// The last name of the path: that of the thing itself.
    Name,
    /// The other name: the new one, the default schema, or the column.
    Other,
}
