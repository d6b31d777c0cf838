//! Tables and columns that typed rows name and nobody has made.
//!
//! Does: make a table as the types of the rows say, and add columns to one that is there. Does not: change what is
//! there, look at rows (`beforehand.rs` does, where there are some), or guess a type: what has none of the stored ones is
//! refused, with what to cast it to.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema};
use nilometer_codec::PhysicalType;

use super::super::Session;
use super::super::planned::PLANNED_SCHEMA;
use super::stated::{Stated, meant};
use super::{OnConflict, Target};
use crate::engine::{Engine, NewColumn};
use crate::error::Error;
use crate::schema::{
    ColumnKind, DEFAULT_SCHEMA, Duplicates, TIME_COLUMN, TableSchema, TableSettings,
};

/// What becomes of columns that are to be made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Missing<'a> {
    /// Exactly these are tags; `None` = those of dictionary-encoded text, as tags are when they leave the store. A column that
    /// says what it is ([`super::Stated`]) is that.
    pub tags: Option<&'a [String]>,
    /// Columns are added to a table that is there; otherwise only a table that is not is made.
    pub adds_columns: bool,
    /// What a table that is made does with rows of one series and time.
    pub duplicates: Duplicates,
}

/// What is to be made for rows of some columns.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    /// The table, if it is there.
    pub(super) known: Option<Arc<TableSchema>>,
    /// Its columns, or those that it lacks and is to get.
    pub(super) new: Vec<NewColumn<'a>>,
}

impl Plan<'_> {
    /// Whether all is there already.
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_some() && self.new.is_empty()
    }
}

impl Session {
    /// Makes the table that rows of these columns would go to, if it is not there, or the columns that it lacks, if that
    /// is wanted. The time is the column `time`. Whatever is made is durable on return, and stays if the rows do not come.
    pub fn make_missing(
        &mut self,
        target: Target<'_>,
        columns: &Schema,
        missing: Missing<'_>,
    ) -> Result<(), Error> {
        self.follow_changes()?;
        let plan = self.plan_missing(target, columns, missing)?;
        self.make(target, &plan, missing)
    }

    /// As [`Self::make_missing`], for rows that are at hand and are to be written with `on_conflict`: nothing is made for
    /// what would be refused then, except for rows whose key is in the table already, or because something changes
    /// meanwhile.
    pub fn make_missing_for(
        &mut self,
        target: Target<'_>,
        rows: &RecordBatch,
        missing: Missing<'_>,
        on_conflict: OnConflict,
    ) -> Result<(), Error> {
        self.follow_changes()?;
        let plan = self.plan_missing(target, rows.schema_ref(), missing)?;
        if !plan.is_empty() {
            self.check_rows(target.table, &plan, rows, missing.duplicates, on_conflict)?;
        }
        self.make(target, &plan, missing)
    }

    /// Whether rows could be written into a database that is not there yet: asked before that is made.
    pub fn check_rows_for_new(
        engine: &Arc<Engine>,
        target: Target<'_>,
        rows: &RecordBatch,
        missing: Missing<'_>,
        on_conflict: OnConflict,
    ) -> Result<(), Error> {
        if let Some(name) = target.schema.filter(|name| *name != DEFAULT_SCHEMA) {
            return Err(Error::NotFound {
                what: "schema",
                name: name.to_owned(),
                place: "a database that is not there either".to_owned(),
                hint: "create both first".to_owned(),
            });
        }
        let mut session = Self::of_schema(Arc::clone(engine), PLANNED_SCHEMA);
        let plan = plan_table(engine, target.table, None, rows.schema_ref(), missing)?;
        session.check_rows(target.table, &plan, rows, missing.duplicates, on_conflict)
    }

    fn plan_missing<'a>(
        &self,
        target: Target<'_>,
        columns: &'a Schema,
        missing: Missing<'_>,
    ) -> Result<Plan<'a>, Error> {
        let schema = self.schema_of(&target);
        let engine = &self.engine;
        let found = super::find_table(
            &engine.sequencer().catalogue(),
            &self.database,
            &schema,
            target.table,
        );
        let known = match found {
            Err(Error::NotFound { what: "table", .. }) => None,
            found => Some(found?),
        };
        if known.is_some() && !missing.adds_columns {
            let new = Vec::new();
            return Ok(Plan { known, new });
        }
        plan_table(engine, target.table, known, columns, missing)
    }

    fn make(
        &mut self,
        target: Target<'_>,
        plan: &Plan<'_>,
        missing: Missing<'_>,
    ) -> Result<(), Error> {
        let schema = self.schema_of(&target);
        if plan.known.is_some() {
            for column in &plan.new {
                self.engine
                    .add_column(&self.database, &schema, target.table, *column)?;
            }
            return Ok(());
        }
        let settings = TableSettings {
            duplicates: missing.duplicates,
            ..TableSettings::default()
        };
        self.engine
            .create_table(&self.database, &schema, target.table, &plan.new, settings)?;
        Ok(())
    }
}

/// What a table lacks, or what it is to be if it is not there.
fn plan_table<'a>(
    engine: &Engine,
    table: &str,
    known: Option<Arc<TableSchema>>,
    columns: &'a Schema,
    missing: Missing<'_>,
) -> Result<Plan<'a>, Error> {
    engine
        .site()
        .check_batch_columns(columns.fields().len() as u64)?;
    let mut new = Vec::new();
    for column in columns.fields() {
        let is_there = known
            .as_ref()
            .is_some_and(|known| meant(known, column).is_some());
        let time = known.as_ref().map_or(TIME_COLUMN, |known| known.time().0);
        if column.name() != TIME_COLUMN && column.name() != time && !is_there {
            new.push(new_column(table, column, missing.tags)?);
        }
    }
    if let Some(there) = &known {
        // All or none of them.
        let tags = new.iter().filter(|column| column.kind == ColumnKind::Tag);
        engine
            .site()
            .check_table_tags((there.tags.len() + tags.count()) as u64)?;
        return Ok(Plan { known, new });
    }
    check_tags(table, columns, missing.tags)?;
    if columns.index_of(TIME_COLUMN).is_err() {
        return Err(refused(
            table,
            TIME_COLUMN,
            "it is missing, and every row needs a time",
        ));
    }
    engine.check_new_table(table, &new)?;
    Ok(Plan { known: None, new })
}

fn refused(table: &str, column: &str, reason: impl Into<String>) -> Error {
    Error::TypedColumn {
        table: table.to_owned(),
        column: column.to_owned(),
        reason: reason.into(),
    }
}

fn check_tags(table: &str, columns: &Schema, tags: Option<&[String]>) -> Result<(), Error> {
    let lacks = |tag: &&String| columns.index_of(tag).is_err();
    let Some(tag) = tags.into_iter().flatten().find(lacks) else {
        return Ok(());
    };
    let names: Vec<&str> = columns
        .fields()
        .iter()
        .map(|column| column.name().as_str())
        .collect();
    let names = names.join(", ");
    Err(refused(
        table,
        tag,
        format!("it is to be a tag, and the rows have only {names}"),
    ))
}

fn new_column<'a>(
    table: &str,
    column: &'a Field,
    tags: Option<&[String]>,
) -> Result<NewColumn<'a>, Error> {
    let name = column.name();
    let kind = column.data_type();
    let is_tag = match (Stated::of(column), tags) {
        (Some(stated), _) => stated == Stated::Tag,
        (None, Some(tags)) => tags.contains(name),
        (None, None) => matches!(kind, DataType::Dictionary(_, values) if is_text(values)),
    };
    let kind = match (is_tag, field_type(kind)) {
        (false, Some(kind)) => ColumnKind::Field(kind),
        (true, Some(PhysicalType::Text | PhysicalType::I64 | PhysicalType::U64)) => ColumnKind::Tag,
        (true, _) => {
            let reason =
                format!("it is to be a tag and has the type {kind}; cast it to text or an integer");
            return Err(refused(table, name, reason));
        }
        (false, None) => {
            let reason = format!(
                "its type is {kind}, which no field has; cast it to Int64, UInt64, Float64, Boolean, Utf8 or Binary, or leave it out"
            );
            return Err(refused(table, name, reason));
        }
    };
    Ok(NewColumn { name, kind })
}

pub(super) fn is_text(kind: &DataType) -> bool {
    matches!(
        kind,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

/// The stored type that has every value of another one; `None` = there is none, or the user has to say which.
fn field_type(kind: &DataType) -> Option<PhysicalType> {
    Some(match kind {
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => PhysicalType::I64,
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => {
            PhysicalType::U64
        }
        DataType::Float32 | DataType::Float64 => PhysicalType::F64,
        DataType::Boolean => PhysicalType::Bool,
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => PhysicalType::Bytes,
        DataType::Dictionary(_, values) if is_text(values) => PhysicalType::Text,
        kind if is_text(kind) => PhysicalType::Text,
        _ => return None,
    })
}
