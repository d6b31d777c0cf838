//! The count of rows of an import that share their key.
//!
//! Does: count, per table, rows whose time and tags an earlier row of this import had, and stop an import that would
//! merge more rows than anybody expects. Does not: know what a table had before.
//!
//! A point of line protocol counts when an earlier one of the same series and time has the same first field: files with
//! one field in a line are usual, and there nothing is lost.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash};

use anyhow::bail;
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int32Type, TimestampNanosecondType};
use nilometer_engine::TIME_COLUMN;
use nilometer_engine::ingest::{Seen, SeenKeys};
use nilometer_lineproto::{Precision, Reader};

use super::batch::{Batch, Content};
use super::format::exported::LinePlace;
use crate::print::thousands;

/// Keys of a table that are remembered, in some 150 MB; of series whose rows come in order nothing but the ends is needed.
const KEYS_MAX: usize = 1 << 23;

/// Of how many rows one may merge without anybody having said so.
const ROWS_OF_ONE_MERGED: u64 = 100;

/// Rows by the same input give the same hash, which is all that is asked of it.
type Hasher = BuildHasherDefault<std::hash::DefaultHasher>;

/// The keys of one table.
#[derive(Debug)]
pub(super) struct TableKeys {
    seen: SeenKeys,
    /// Rows so far.
    pub(super) rows: u64,
    /// Those whose key an earlier one had.
    pub(super) again: u64,
    /// Those of which that is not known, because there were too many keys.
    pub(super) unknown: u64,
}

impl Default for TableKeys {
    fn default() -> Self {
        Self {
            seen: SeenKeys::new(KEYS_MAX),
            rows: 0,
            again: 0,
            unknown: 0,
        }
    }
}

impl TableKeys {
    fn add(&mut self, series: u64, time: i64) {
        self.rows += 1;
        match self.seen.add(series, time) {
            Seen::New => {}
            Seen::Again => self.again += 1,
            Seen::Unknown => self.unknown += 1,
        }
    }

    /// Whether so many rows would merge that somebody has to say so first.
    pub(super) fn merges_many(&self) -> bool {
        self.again * ROWS_OF_ONE_MERGED > self.rows
    }
}

/// The keys of an import.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// By table; those of line protocol are under an empty name.
    tables: BTreeMap<String, TableKeys>,
    /// Tables that merge rows without anybody having said so, and what is to be said of it. Asked of inputs that
    /// cannot be read twice.
    limits: BTreeMap<String, String>,
}

impl Keys {
    /// From now on an error when many rows of one of these tables would merge.
    pub(super) fn limit(&mut self, limits: BTreeMap<String, String>) {
        self.limits = limits;
    }

    pub(super) fn of(&self, table: &str) -> Option<&TableKeys> {
        self.tables.get(table)
    }

    /// Those of line protocol.
    pub(super) fn of_points(&self) -> Option<&TableKeys> {
        self.of("")
    }

    /// Counts the rows of a batch that is about to be sent.
    pub(super) fn add(&mut self, batch: &Batch) -> anyhow::Result<()> {
        match &batch.content {
            Content::Lines {
                text,
                precision,
                place,
                ..
            } => {
                self.add_points(text, *precision, place.as_deref(), batch.begin);
                Ok(())
            }
            Content::Rows { table, rows } => {
                if !self.tables.contains_key(&**table) {
                    self.tables.insert(table.to_string(), TableKeys::default());
                }
                let Some(keys) = self.tables.get_mut(&**table) else {
                    return Ok(());
                };
                let series = series_of(rows);
                let times = rows.column_by_name(TIME_COLUMN);
                let times = times.and_then(|it| it.as_primitive_opt::<TimestampNanosecondType>());
                for (series, time) in series.into_iter().zip(times.into_iter().flatten()) {
                    keys.add(series, time.unwrap_or(0));
                }
                match self.limits.get(&**table) {
                    Some(why) if keys.merges_many() => bail!("{}", refusal(keys, why)),
                    _ => Ok(()),
                }
            }
        }
    }

    fn add_points(
        &mut self,
        text: &[u8],
        precision: Precision,
        place: Option<&LinePlace>,
        begin: u64,
    ) {
        let keys = self.tables.entry(String::new()).or_default();
        let mut reader = Reader::new(text, precision);
        while let Some(point) = reader.next() {
            let Ok(point) = point else { continue };
            let field = point.fields.first().map(nilometer_lineproto::Field::name);
            let series = hash(&(place, point.series, field));
            // Points without a time get that of their request.
            let time = point.timestamp.unwrap_or(begin.cast_signed());
            keys.add(series, time);
        }
    }
}

/// What is said when many rows would merge.
pub(super) fn refusal(keys: &TableKeys, why: &str) -> String {
    format!(
        "{} of {} rows have the time and the tags of another row, and would merge with it, because {why}",
        thousands(keys.again),
        thousands(keys.rows)
    )
}

fn hash(of: &impl Hash) -> u64 {
    Hasher::default().hash_one(of)
}

/// A number for the tags of each row: the same for the same tags, in whichever order their columns stand.
fn series_of(rows: &RecordBatch) -> Vec<u64> {
    let mut series = vec![0_u64; rows.num_rows()];
    for (field, column) in rows.schema_ref().fields().iter().zip(rows.columns()) {
        let DataType::Dictionary(_, _) = field.data_type() else {
            continue;
        };
        let Some(tags) = column.as_dictionary_opt::<Int32Type>() else {
            continue;
        };
        let Some(texts) = tags.values().as_string_opt::<i32>() else {
            continue;
        };
        let hash_of = |text: Option<&str>| match text {
            // An empty tag is none.
            None | Some("") => 0,
            Some(text) => hash(&(field.name(), text)),
        };
        let hashes: Vec<u64> = texts.iter().map(hash_of).collect();
        for (series, code) in series.iter_mut().zip(tags.keys()) {
            let at = code.and_then(|code| usize::try_from(code).ok());
            let hash = at.and_then(|at| hashes.get(at)).copied().unwrap_or(0);
            *series = series.wrapping_add(hash);
        }
    }
    series
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, DictionaryArray, Int64Array, TimestampNanosecondArray};

    use super::*;

    fn batch(content: Content) -> Batch {
        Batch {
            input: 0,
            begin: 0,
            end: 0,
            rows: 0,
            content,
            rejected: Vec::new(),
        }
    }

    fn rows(hosts: &[Option<&str>], times: &[i64]) -> Batch {
        let hosts: DictionaryArray<Int32Type> = hosts.iter().copied().collect();
        let times = TimestampNanosecondArray::from(times.to_vec());
        let values = Int64Array::from(vec![1; times.len()]);
        let columns: [(&str, ArrayRef); 3] = [
            ("host", Arc::new(hosts)),
            ("time", Arc::new(times)),
            ("v", Arc::new(values)),
        ];
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        batch(Content::Rows {
            table: "t".into(),
            rows,
        })
    }

    #[test]
    fn rows_count_that_have_time_and_tags_of_an_earlier_one_also_of_another_batch() {
        let mut keys = Keys::default();
        let hosts = [Some("a"), Some("b"), Some("a"), Some(""), None];
        keys.add(&rows(&hosts, &[1, 1, 2, 1, 1])).unwrap();
        assert_eq!(keys.of("t").unwrap().again, 1);
        keys.add(&rows(&hosts, &[1, 2, 3, 2, 2])).unwrap();
        let of = keys.of("t").unwrap();
        assert_eq!((of.rows, of.again, of.unknown), (10, 3, 0));
    }

    #[test]
    fn of_line_protocol_one_field_a_line_is_no_loss() {
        let mut keys = Keys::default();
        let text = b"m,h=a x=1 1\nm,h=a y=1 1\nm,h=a x=2 1\nm,h=b x=1 1\nm,h=a x=1 2\n";
        let content = Content::Lines {
            text: text.to_vec(),
            first: 1,
            precision: Precision::Nanosecond,
            place: None,
        };
        keys.add(&batch(content)).unwrap();
        let of = keys.of_points().unwrap();
        assert_eq!((of.rows, of.again), (5, 1));
    }

    #[test]
    fn more_than_a_hundredth_is_refused_where_nobody_said_so() {
        let mut keys = Keys::default();
        let limits = [("t".to_owned(), "table t is so".to_owned())];
        keys.limit(limits.into());
        let times: Vec<i64> = (0..200).collect();
        keys.add(&rows(&[Some("a"); 200], &times)).unwrap();
        keys.add(&rows(&[Some("a"); 2], &[5, 6])).unwrap();
        let error = keys.add(&rows(&[Some("a")], &[7])).unwrap_err();
        assert!(error.to_string().contains("3 of 203 rows"), "{error}");
    }
}
