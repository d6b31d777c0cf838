//! `system.series`: one row a series, made by the thousand, because there may be millions.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::{Expr, Operator};
use nilometer_engine::{Error, SeriesId, Snapshot, TableSchema};

use super::Visible;

/// Series of one batch.
const BATCH_SERIES: usize = 8192;

const PLACES: [&str; 3] = ["database_name", "schema_name", "table_name"];

/// The position of the series' number; that of its tags comes after it.
const SERIES_ID: usize = PLACES.len();

pub(super) fn schema() -> SchemaRef {
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    let mut fields: Vec<Field> = PLACES.into_iter().map(text).collect();
    fields.push(Field::new("series_id", DataType::Int64, true));
    fields.push(text("tags"));
    Arc::new(Schema::new(fields))
}

/// Which series are asked for.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted {
    /// By position in [`PLACES`]: the only name asked for.
    names: [Option<String>; 3],
    /// Positions in the [`schema`] of the columns that are asked for, in the order of the answer.
    columns: Vec<usize>,
    limit: Option<usize>,
}

impl Wanted {
    pub(super) fn of(columns: Vec<usize>, filters: &[Expr], limit: Option<usize>) -> Self {
        let mut wanted = Self {
            columns,
            limit,
            ..Self::default()
        };
        for (place, name) in filters.iter().filter_map(only_name) {
            if let Some(slot) = wanted.names.get_mut(place) {
                // Two different names at once have no series; the empty name has none either.
                let differs = slot.as_ref().is_some_and(|known| *known != name);
                *slot = Some(if differs { String::new() } else { name });
            }
        }
        wanted
    }

    /// Whether a condition is taken over as a whole.
    pub(super) fn takes(filter: &Expr) -> bool {
        only_name(filter).is_some()
    }

    fn has(&self, place: usize, name: &str) -> bool {
        let wanted = self.names.get(place).and_then(Option::as_ref);
        wanted.is_none_or(|wanted| wanted == name)
    }
}

/// `table_name = 'x'`: the position of the name in [`PLACES`], and the name.
fn only_name(filter: &Expr) -> Option<(usize, String)> {
    let Expr::BinaryExpr(BinaryExpr {
        left,
        op: Operator::Eq,
        right,
    }) = filter
    else {
        return None;
    };
    let (Expr::Column(Column { name, .. }), Expr::Literal(ScalarValue::Utf8(Some(value)), _)) =
        (left.as_ref(), right.as_ref())
    else {
        return None;
    };
    let place = PLACES.iter().position(|place| place == name)?;
    Some((place, value.clone()))
}

/// The rows, batch by batch.
pub(super) fn batches(
    visible: &Visible,
    wanted: &Wanted,
) -> impl Iterator<Item = Result<RecordBatch, Error>> + use<> {
    let snapshot = Arc::clone(&visible.store.snapshot);
    let mut tables = VecDeque::new();
    for database in visible.databases() {
        if !wanted.has(0, &database) {
            continue;
        }
        for schema in snapshot.schemas(&database).unwrap_or_default() {
            if !wanted.has(1, &schema) {
                continue;
            }
            let names = snapshot.tables(&database, &schema).unwrap_or_default();
            for name in names.into_iter().filter(|name| wanted.has(2, name)) {
                // Tags are rows' values, and those are for who may read the table.
                if visible.may_read(&database, &schema, &name) {
                    tables.push_back([database.clone(), schema.clone(), name]);
                }
            }
        }
    }
    let mut left = wanted.limit.unwrap_or(usize::MAX);
    let columns = wanted.columns.clone();
    let mut current: Option<Current> = None;
    std::iter::from_fn(move || {
        while left > 0 {
            let Some(table) = &mut current else {
                let place = tables.pop_front()?;
                match Current::of(&snapshot, place) {
                    Ok(found) => current = found,
                    Err(error) => {
                        left = 0;
                        return Some(Err(error));
                    }
                }
                continue;
            };
            match table.next(&snapshot, &columns, left.min(BATCH_SERIES)) {
                Some(batch) => {
                    left = match &batch {
                        Ok(batch) => left.saturating_sub(batch.num_rows()),
                        Err(_) => 0,
                    };
                    return Some(batch);
                }
                None => current = None,
            }
        }
        None
    })
}

/// A table whose series are being listed.
struct Current {
    place: [String; 3],
    table: Arc<TableSchema>,
    series: Vec<SeriesId>,
    next: usize,
}

impl Current {
    /// `None` = it was dropped meanwhile.
    fn of(snapshot: &Snapshot, place: [String; 3]) -> Result<Option<Self>, Error> {
        let [database, schema, name] = &place;
        let Some(table) = snapshot.table(database, schema, name) else {
            return Ok(None);
        };
        let series = snapshot.series(&table, &[])?;
        Ok(Some(Self {
            place,
            table,
            series,
            next: 0,
        }))
    }

    fn next(
        &mut self,
        snapshot: &Snapshot,
        columns: &[usize],
        rows_max: usize,
    ) -> Option<Result<RecordBatch, Error>> {
        let rest = self.series.get(self.next..)?;
        let series = rest.get(..rows_max).unwrap_or(rest);
        if series.is_empty() {
            return None;
        }
        self.next += series.len();
        let mut fields = Vec::with_capacity(columns.len());
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
        for &at in columns {
            let array: ArrayRef = match (self.place.get(at), at) {
                (Some(name), _) => {
                    let names = series.iter().map(|_| name.as_str());
                    Arc::new(StringArray::from_iter_values(names))
                }
                (None, SERIES_ID) => {
                    let ids = series.iter().map(|id| i64::from(id.0));
                    Arc::new(Int64Array::from_iter_values(ids))
                }
                _ => match snapshot.series_tags(&self.table, series) {
                    Ok(tags) => {
                        let tags = tags.iter().map(|values| self.json(values));
                        Arc::new(StringArray::from_iter_values(tags))
                    }
                    Err(error) => return Some(Err(error)),
                },
            };
            fields.push(schema().field(at).clone());
            arrays.push(array);
        }
        // Whoever only counts them asks for no column.
        let rows = RecordBatchOptions::new().with_row_count(Some(series.len()));
        let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &rows);
        Some(Ok(
            batch.expect("names, numbers and texts, one for each series")
        ))
    }

    /// The tags of a series as JSON; one that it has not is left out.
    fn json(&self, values: &[Option<String>]) -> String {
        let mut text = String::from("{");
        for (tag, value) in self.table.tags.iter().zip(values) {
            let Some(value) = value else { continue };
            if text.len() > 1 {
                text.push_str(", ");
            }
            push_json(&tag.name, &mut text);
            text.push_str(": ");
            push_json(value, &mut text);
        }
        text.push('}');
        text
    }
}

fn push_json(value: &str, text: &mut String) {
    text.push('"');
    for letter in value.chars() {
        match letter {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            letter if letter.is_control() => {
                // Writing to a string cannot fail.
                let _ = write!(text, "\\u{:04x}", u32::from(letter));
            }
            letter => text.push(letter),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use nilometer_engine::disk::MemoryDisk;
    use nilometer_engine::ingest::Session;
    use nilometer_engine::{Engine, Options, SystemClock};

    use super::*;
    use crate::{Sql, SqlOptions};

    /// `count(*)` of a million series took 17 s: the tags of each were looked up and written as JSON, to be thrown away.
    #[test]
    fn only_the_columns_that_are_asked_for_are_made() {
        let disk = Arc::new(MemoryDisk::default());
        let clock = Arc::new(SystemClock);
        let engine = Engine::open(disk, clock, Path::new("/data"), Options::default());
        let engine = Arc::new(engine.unwrap());
        engine.create_database("d").unwrap();
        let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
        let lines = "m,host=a v=1 1\nm,host=b v=1 1\nm v=1 1\nn v=1 1";
        session
            .write_lines(lines.as_bytes(), nilometer_lineproto::Precision::Nanosecond)
            .unwrap();
        let reading = Sql::new(engine, SqlOptions::default()).unwrap().reading();
        let visible = Visible {
            store: reading.store(),
            principal: reading.principal,
        };
        let all = schema();
        let all = all.fields().iter().map(|it| it.name().as_str()).collect();
        for (columns, names) in [
            (vec![], vec![]),
            (vec![SERIES_ID], vec!["series_id"]),
            (vec![4, 2], vec!["tags", "table_name"]),
            (vec![0, 1, 2, 3, 4], all),
        ] {
            let wanted = Wanted::of(columns, &[], None);
            let batches: Vec<RecordBatch> =
                batches(&visible, &wanted).map(Result::unwrap).collect();
            let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
            assert_eq!(rows, 4);
            for batch in batches {
                let schema = batch.schema();
                let found: Vec<&str> = schema
                    .fields()
                    .iter()
                    .map(|it| it.name().as_str())
                    .collect();
                assert_eq!(found, names);
            }
        }
    }

    #[test]
    fn any_text_is_a_json_string_that_reads_back() {
        for text in [
            "",
            "plain",
            "a\"b\\c",
            "line\nnext\ttab\u{1}",
            "\u{e9}\u{1f980}",
        ] {
            let mut json = String::new();
            push_json(text, &mut json);
            let read: String = serde_json::from_str(&json).unwrap();
            assert_eq!(read, text);
        }
    }
}
