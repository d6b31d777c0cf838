//! Changes of one table: of a relation, or of a table over time with its columns, its name, its settings, its conditions.
//!
//! Does: what `ALTER TABLE` says, after asking who else counts on what is there. Does not: check who asks (`run.rs`), change relations
//! (`relation.rs`), or look at rows: the language has looked at those of a table over time before a condition is added.

use std::sync::Arc;

use nilometer_engine::{
    AggregateSource, ColumnDef, Engine, LogicalType, PhysicalType, TableSchema, TableSettings,
};

use super::super::change::name::TableName;
use super::super::change::{SeenRows, TableChange, TableSetting};
use super::super::error::{DefineError, Part};
use super::super::hypertables::integer_now::is_integer;
use super::super::place::{existing_table, must_be_new};
use super::super::records::lack_of_records;
use super::super::views::kept as aggregates;
use super::super::views::kept_rows::note_retention;
use super::super::views::policies::check_retention;
use super::super::{columns, hypertables, lookup, payload, views};
use super::model::unsupported;
use super::{constraints, new_column, refuse_view, relation};
use crate::error::Error;

/// Finds what is to be changed, and changes it.
pub(super) fn alter(
    engine: &Arc<Engine>,
    name: TableName,
    if_exists: bool,
    change: TableChange,
    seen: Option<&SeenRows>,
) -> Result<(), Error> {
    let snapshot = engine.snapshot();
    let (database, schema, table) = (&name.database, &name.schema, &name.table);
    if let Some(reader) = lookup::find_relation(&snapshot, database, schema, table) {
        return relation::alter_relation(engine, &name, &reader, change, seen);
    }
    let has_no_columns = views::view(&snapshot, database, schema, table).is_some()
        || columns::is_sequence(&snapshot, (database, schema), table);
    if change == TableChange::Owner && has_no_columns {
        return Ok(());
    }
    match existing_table(engine, name, if_exists)? {
        Some((name, table)) => alter_table(engine, &name, &table, change),
        None => Ok(()),
    }
}

fn alter_table(
    engine: &Arc<Engine>,
    name: &TableName,
    table: &TableSchema,
    change: TableChange,
) -> Result<(), Error> {
    let (database, schema, of) = (&name.database, &name.schema, &name.table);
    let find_column = |column: &str| {
        lookup::find_column(table, column).map_err(|missing| missing.about(Part::Other))
    };
    match change {
        TableChange::Add {
            column,
            if_not_exists,
            ..
        } => {
            let declared = &column.declared;
            let new =
                engine.add_declared_column(database, schema, of, new_column(&column), declared)?;
            Ok(must_be_new(
                new || if_not_exists,
                "column",
                &column.name,
                &format!("table \"{of}\""),
            )?)
        }
        TableChange::Drop { column, if_exists } => {
            if if_exists && table.shown(&column).is_none() {
                return Ok(());
            }
            find_column(&column)?;
            aggregates::refuse_column_in_use(&engine.snapshot(), name, table.kept_id(), &column)?;
            Ok(engine.drop_column(database, schema, of, &column)?)
        }
        TableChange::RenameColumn { column, to } => {
            find_column(&column)?;
            aggregates::refuse_column_in_use(&engine.snapshot(), name, table.kept_id(), &column)?;
            payload::check_rename(&engine.snapshot(), name, table, (&column, &to))?;
            Ok(engine.rename_column(database, schema, of, &column, &to)?)
        }
        TableChange::Type {
            column,
            to,
            of: logical,
            default,
            is_said,
            ..
        } => {
            find_column(&column)?;
            if is_said {
                return Err(unsupported(
                    "USING is for tables without a time; add a column, write its values with UPDATE, and drop the first"
                        .to_owned(),
                ));
            }
            change_type(engine, name, table, &column, (to, logical, default))
        }
        TableChange::Rename { to } => {
            let snapshot = engine.snapshot();
            refuse_view(&snapshot, name, &to)?;
            let reads = |it: &AggregateSource| aggregates::reads_table(it, table.kept_id());
            aggregates::refuse_in_use(&snapshot, name, reads)?;
            Ok(engine.rename_table(database, schema, of, &to)?)
        }
        TableChange::Set(list) => set(engine, name, table, list),
        TableChange::Owner => Ok(()),
        TableChange::Several(_) => Err(unsupported(
            "a table over time takes one change at a time; send the others in statements of their own"
                .to_owned(),
        )),
        of_constraint => constraints::alter(engine, name, table, of_constraint),
    }
}

/// Another type of a column: the stored one, and the declared one if there is to be any.
fn change_type(
    engine: &Arc<Engine>,
    name: &TableName,
    table: &TableSchema,
    column: &str,
    (to, logical, default): (PhysicalType, Option<LogicalType>, Option<String>),
) -> Result<(), Error> {
    let (database, schema, of) = (&name.database, &name.schema, &name.table);
    let known = table.shown(column).and_then(ColumnDef::of);
    if known == logical && logical.is_some() {
        return Ok(());
    }
    if let Some(logical) = logical
        && !known.is_some_and(|known| logical.has_all_of(known))
    {
        let refused = DefineError::Narrower {
            column: column.to_owned(),
            to: logical.to_string(),
        };
        return Err(refused.about(Part::Other));
    }
    if known.is_some_and(|known| !known.is_plain()) && logical.is_none() {
        let refused = DefineError::Narrower {
            column: column.to_owned(),
            to: "its stored type".to_owned(),
        };
        return Err(refused.about(Part::Other));
    }
    aggregates::refuse_column_in_use(&engine.snapshot(), name, table.kept_id(), column)?;
    engine.change_type(database, schema, of, column, to)?;
    Ok(
        engine.declare_column(database, schema, of, column, |declared| {
            declared.of = logical;
            if default.is_some() {
                declared.default = default;
            }
        })?,
    )
}

fn set(
    engine: &Arc<Engine>,
    name: &TableName,
    table: &TableSchema,
    list: Vec<TableSetting>,
) -> Result<(), Error> {
    let (database, schema, of) = (&name.database, &name.schema, &name.table);
    let mut settings = table.settings;
    let (mut payloads, mut compressions) = (Vec::new(), Vec::new());
    for setting in list {
        match setting {
            TableSetting::TstoragePayload(text) => payloads.push(text),
            TableSetting::Compression(change) => compressions.push(change),
            setting => setting.apply(&mut settings),
        }
    }
    let is_of_records = || lack_of_records(table).is_none();
    if settings.duplicates != table.settings.duplicates && is_of_records() {
        let table = of.clone();
        return Err(DefineError::OverwritesRecords { table }.about(Part::Other));
    }
    refuse_clocked(table, settings, of).map_err(|refused| refused.about(Part::Other))?;
    for text in payloads {
        payload::set(engine, name, table, &text)?;
    }
    for change in compressions {
        hypertables::compression::set(engine, name, table, change)?;
    }
    if settings.retention_ns != table.settings.retention_ns {
        let checked = check_retention(engine, table.kept_id(), settings.retention_ns);
        checked.map_err(|reason| {
            let policy = "retention";
            DefineError::Policy { policy, reason }.about(Part::Other)
        })?;
        note_retention(engine, name, table.kept_id())?;
    }
    if settings != table.settings {
        engine.set_table(database, schema, of, settings)?;
    }
    Ok(())
}

/// Refuses settings that count by the clock, where the time of a table is an integer.
fn refuse_clocked(
    table: &TableSchema,
    settings: TableSettings,
    name: &str,
) -> Result<(), DefineError> {
    if !is_integer(table) {
        return Ok(());
    }
    let known = table.settings;
    let (setting, remedy) = if settings.retention_ns != known.retention_ns {
        ("retention", "say the age with add_retention_policy")
    } else if settings.cold_after_ns != known.cold_after_ns {
        ("cold_after", "say the age with add_compression_policy")
    } else if settings.partition_interval_ns != known.partition_interval_ns {
        (
            "partition_interval",
            "say the width with set_chunk_time_interval",
        )
    } else {
        return Ok(());
    };
    let table = name.to_owned();
    Err(DefineError::IntegerSetting {
        setting,
        table,
        remedy,
    })
}
