//! Rows looked at before the table or the columns are made that they need: what is made stays, so a batch that will be
//! refused must not make anything.
//!
//! Does: read a batch with ids that stand for those to come, against every limit and every type, to its last row. Does
//! not: make anything, or look for keys in a table; what of a batch is refused for the sake of rows that are there is
//! refused by the write.

use std::sync::Arc;

use arrow_array::RecordBatch;

use super::super::Session;
use super::missing::Plan;
use super::series::Found;
use super::{Columns, OnConflict, conflict_of, duplicates_name};
use crate::error::Error;
use crate::order::sorted_order;
use crate::schema::{ColumnDef, Duplicates, TableSchema};

impl Session {
    /// Refuses what a write of these rows into the table of `plan` would be refused for.
    pub(super) fn check_rows(
        &mut self,
        table: &str,
        plan: &Plan<'_>,
        rows: &RecordBatch,
        duplicates: Duplicates,
        on_conflict: OnConflict,
    ) -> Result<(), Error> {
        self.planned.begin();
        let checked = self.check_planned(table, plan, rows, duplicates, on_conflict);
        // Both have ids that are none.
        self.planned.end();
        self.pending.clear();
        checked
    }

    fn check_planned(
        &mut self,
        table: &str,
        plan: &Plan<'_>,
        rows: &RecordBatch,
        duplicates: Duplicates,
        on_conflict: OnConflict,
    ) -> Result<(), Error> {
        let engine = Arc::clone(&self.engine);
        engine.check_batch(rows.num_rows(), rows.num_columns())?;
        let table = self.planned_table(table, plan, duplicates);
        let duplicates = table.settings.duplicates;
        if duplicates != Duplicates::Unique && on_conflict != OnConflict::Replace {
            return Err(Error::NoConflicts {
                table: table.name.clone(),
                duplicates: duplicates_name(duplicates),
            });
        }
        let columns = Columns::of(&table, rows, engine.options().value_bytes_max)?;
        let bytes = columns.fields.iter().map(|column| column.values.bytes());
        engine
            .site()
            .check_batch_bytes(bytes.sum::<usize>() as u64)?;
        let found = self.find_series(&table, &columns.tags, rows.num_rows())?;
        self.pending.check_all(&engine)?;
        if plan.known.is_none() && on_conflict == OnConflict::Error {
            check_repeated(&table, &columns, &found)?;
        }
        Ok(())
    }

    /// The table as it will be.
    fn planned_table(
        &mut self,
        name: &str,
        plan: &Plan<'_>,
        duplicates: Duplicates,
    ) -> TableSchema {
        let columns: Vec<ColumnDef> = plan
            .new
            .iter()
            .map(|column| ColumnDef {
                id: self.planned.column(),
                name: column.name.to_owned(),
                kind: column.kind,
                declared: None,
            })
            .collect();
        let table = if let Some(known) = &plan.known {
            known.changed(|_| {})
        } else {
            let id = self.planned.table(name);
            TableSchema::new(id, self.schema, name.to_owned())
                .changed(|table| table.settings.duplicates = duplicates)
        };
        table.changed(|table| columns.into_iter().for_each(|it| table.push_column(it)))
    }
}

/// Refuses rows of a new table that have series and time of an earlier one.
fn check_repeated(
    table: &TableSchema,
    columns: &Columns<'_>,
    found: &[Found],
) -> Result<(), Error> {
    // Of a new table none is known, so a position tells series apart as an id would.
    let series: Vec<u32> = found
        .iter()
        .map(|one| match one {
            Found::Known(id) => *id,
            Found::Pending(at) => u32::try_from(*at).unwrap_or(u32::MAX),
        })
        .collect();
    let key_of = |row: u32| {
        let row = row as usize;
        (series.get(row), columns.times.get(row))
    };
    let order = sorted_order(&series, &columns.times);
    let groups = order.chunk_by(|&a, &b| key_of(a) == key_of(b));
    let second = groups.filter_map(|group| group.get(1)).min();
    let Some(&row) = second else { return Ok(()) };
    let time = columns.times.get(row as usize).copied().unwrap_or(0);
    Err(conflict_of(
        table,
        tags_of(columns, row as usize),
        time,
        row,
        true,
    ))
}

/// The tags of a row, as they are shown of rows that are there.
fn tags_of(columns: &Columns<'_>, row: usize) -> String {
    let tags = columns.tags.iter().filter_map(|(name, _, values)| {
        let value = values.get(row).filter(|value| !value.is_empty())?;
        Some(format!("{name}={}", String::from_utf8_lossy(value)))
    });
    let tags: Vec<String> = tags.collect();
    if tags.is_empty() {
        return "no tag".to_owned();
    }
    tags.join(", ")
}
