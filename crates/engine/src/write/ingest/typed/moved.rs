//! Rows of a table on their way into another one that has some of its fields as tags.
//!
//! Does: give them their series there, and the columns their ids. Does not: read them, or change a value: one that no tag can have
//! is refused.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StringArray};
use nilometer_lineproto::KEY_BYTES_MAX;

use super::super::Session;
use super::Strings;
use crate::batch::{Batch, Column, TableRows, Values};
use crate::catalogue::Layers;
use crate::error::Error;
use crate::logical::LogicalType;
use crate::schema::{ColumnDef, ColumnId, ColumnKind, TableSchema};

/// Rows of one batch at most.
const BATCH_ROWS: usize = 16_384;

/// Which columns of one table are which of another.
#[derive(Debug)]
pub(crate) struct Moved {
    table: String,
    /// Tags of the new table, by id, each with what it is of.
    tags: Vec<(ColumnDef, Source)>,
    /// Fields of the old one and of the new one.
    fields: Vec<(ColumnId, ColumnId)>,
}

#[derive(Debug)]
enum Source {
    Tag(ColumnId),
    Field(ColumnId),
}

impl Moved {
    /// Columns are the same by their names.
    pub(crate) fn of(from: &TableSchema, to: &TableSchema) -> Self {
        let tag = |tag: &ColumnDef| {
            let old = from.column_like(ColumnKind::Tag, &tag.name);
            let old = old.map(|it| Source::Tag(it.id));
            old.or_else(|| {
                let mut fields = from.fields.iter();
                let field = fields.find(|it| it.name == tag.name)?;
                Some(Source::Field(field.id))
            })
        };
        let tags = to.tags.iter();
        let mut tags: Vec<(ColumnDef, Source)> =
            tags.filter_map(|it| Some((it.clone(), tag(it)?))).collect();
        tags.sort_by_key(|(tag, _)| tag.id);
        let fields = from.fields.iter().filter_map(|old| {
            let new = to.fields.iter().find(|it| it.name == old.name)?;
            Some((old.id, new.id))
        });
        Self {
            table: from.name.clone(),
            tags,
            fields: fields.collect(),
        }
    }

    /// The texts of a tag of rows.
    fn array(
        &self,
        (tag, from): &(ColumnDef, Source),
        (layers, old): (&Layers, &TableRows),
    ) -> Result<ArrayRef, Error> {
        let rows = old.rows();
        let id = match from {
            Source::Tag(id) => {
                // Their ids ascend, and each stands once for many rows.
                let mut series = old.series.clone();
                series.sort_unstable();
                series.dedup();
                let column = layers.tag_column(old.table, *id, &series)?;
                let texts = old.series.iter().map(|it| {
                    let at = series.binary_search(it).ok()?;
                    column.value(at)
                });
                return Ok(Arc::new(texts.collect::<StringArray>()));
            }
            Source::Field(id) => id,
        };
        let Some(field) = old.columns.iter().find(|it| it.id == *id) else {
            return Ok(Arc::new(StringArray::new_null(rows)));
        };
        let is_there = |row: &usize| field.validity.is_valid(*row);
        Ok(match &field.values {
            Values::I64(values) => {
                let values = values.iter().enumerate();
                let values = values.map(|(row, value)| is_there(&row).then_some(*value));
                Arc::new(values.collect::<Int64Array>())
            }
            Values::Text(texts) => {
                let mut all = Vec::with_capacity(rows);
                for row in 0..rows {
                    let text = is_there(&row).then(|| texts.get(row));
                    if text.is_some_and(<[u8]>::is_empty) {
                        let reason = "a row has an empty text there, which as a tag would be NULL: update it to NULL or to another text first";
                        return Err(self.no_tag_value(tag, old, row, reason.to_owned()));
                    }
                    let text = text.map(std::str::from_utf8).transpose();
                    all.push(text.map_err(|_| {
                        self.no_tag_value(tag, old, row, "a row has no UTF-8 there".to_owned())
                    })?);
                }
                Arc::new(StringArray::from(all))
            }
            _ => {
                let reason = "a row has no text and no integer there".to_owned();
                return Err(self.no_tag_value(tag, old, 0, reason));
            }
        })
    }

    fn no_tag_value(&self, tag: &ColumnDef, old: &TableRows, row: usize, reason: String) -> Error {
        Error::NoTagValue {
            table: self.table.clone(),
            column: tag.name.clone(),
            time: old.times.get(row).copied().unwrap_or(0),
            reason,
        }
    }
}

impl Session {
    /// Writes rows of the old table into the new one; returns how many they are. Durable on return.
    pub(crate) fn write_moved(
        &mut self,
        moved: &Moved,
        to: &Arc<TableSchema>,
        layers: &Layers,
        rows: &TableRows,
    ) -> Result<u64, Error> {
        let all = rows.rows();
        let options = self.engine.options();
        let most = options.batch_rows_max.min(options.batch_series_max);
        let step = usize::try_from(most)
            .unwrap_or(usize::MAX)
            .clamp(1, BATCH_ROWS);
        for start in (0..all).step_by(step) {
            let end = all.min(start + step);
            let own: Vec<u32> = (start..end)
                .map(|row| u32::try_from(row).unwrap_or(u32::MAX))
                .collect();
            self.write_moved_part(moved, to, layers, rows.picked(&own))?;
        }
        Ok(all as u64)
    }

    fn write_moved_part(
        &mut self,
        moved: &Moved,
        to: &Arc<TableSchema>,
        layers: &Layers,
        mut rows: TableRows,
    ) -> Result<(), Error> {
        let mut arrays = Vec::with_capacity(moved.tags.len());
        for tag in &moved.tags {
            arrays.push(moved.array(tag, (layers, &rows))?);
        }
        let mut tags = Vec::with_capacity(arrays.len());
        for ((tag, _), array) in moved.tags.iter().zip(&arrays) {
            let strings = match tag.of() {
                None => Strings::tag(array),
                Some(of) => integers(array, of),
            };
            let strings = strings.map_err(|_| {
                let reason = "a row has no integer of its type there".to_owned();
                moved.no_tag_value(tag, &rows, 0, reason)
            })?;
            tags.push((tag.name.as_str(), tag.id, strings));
        }
        let length = |row: usize| -> usize {
            let texts = tags.iter().filter_map(|(_, _, texts)| texts.get(row));
            texts.map(|text| text.len() + 12).sum()
        };
        let longest = (0..rows.rows()).find(|row| length(*row) + 8 > KEY_BYTES_MAX);
        if let (Some(row), Some((tag, _))) = (longest, moved.tags.last()) {
            let reason =
                format!("the tags of a row together are longer than {KEY_BYTES_MAX} bytes");
            return Err(moved.no_tag_value(tag, &rows, row, reason));
        }
        rows.table = to.id;
        let old = std::mem::take(&mut rows.columns);
        rows.columns = old
            .into_iter()
            .filter_map(|column| {
                let (_, id) = moved.fields.iter().find(|(old, _)| *old == column.id)?;
                Some(Column { id: *id, ..column })
            })
            .collect();
        loop {
            self.follow_changes()?;
            self.engine.current(to)?;
            let Some(series) = self.series_of(to, &tags, rows.rows())? else {
                continue;
            };
            let mut own = rows.clone();
            own.series = series;
            let batch = Batch {
                tables: vec![own],
                ..Batch::default()
            };
            if self.engine.write(batch, self.epoch)?.is_some() {
                return Ok(());
            }
        }
    }
}

fn integers(array: &ArrayRef, of: LogicalType) -> Result<Strings<'_>, super::arrays::Refusal> {
    Strings::integer_tag(array, of)
}
