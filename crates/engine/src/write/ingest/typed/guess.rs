//! The guess of tags among text columns, where the caller has not named them.
//!
//! Does: look at values. A text that comes again and again, as names of places and machines do, is a tag; a free text, or
//! one that is nearly another one in each row, is a field. Does not: know names of columns.

use std::collections::HashSet;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;

use super::arrays;
use super::missing::is_text;
use crate::declared::TimeKind;
use crate::schema::TIME_COLUMN;

/// Rows that are looked at.
const ROWS_MAX: usize = 10_000;

/// Different values above which a text is no tag: each combination of tags is a series.
const VALUES_MAX: usize = 1_000;

/// Bytes above which a text is no tag.
const BYTES_MAX: usize = 64;

/// Words above which a text is a sentence, and no name.
const WORDS_MAX: usize = 6;

/// Rows below which repetition says nothing.
const ROWS_THAT_SAY_LITTLE: usize = 20;

/// Rows from which a name comes more than twice.
const ROWS_THAT_SAY_MUCH: usize = 200;

/// Whether these values of a column, in the order of its rows, look like those of a tag.
pub fn is_likely_tag<'a>(values: impl IntoIterator<Item = &'a str>) -> bool {
    let (mut different, mut rows) = (HashSet::new(), 0);
    for value in values.into_iter().take(ROWS_MAX) {
        rows += 1;
        let is_long = value.len() > BYTES_MAX || value.contains('\n');
        if is_long || value.split_ascii_whitespace().count() > WORDS_MAX {
            return false;
        }
        different.insert(value);
    }
    let times_each = match rows {
        0 => return false,
        1..ROWS_THAT_SAY_LITTLE => 0,
        ROWS_THAT_SAY_LITTLE..ROWS_THAT_SAY_MUCH => 2,
        _ => 4,
    };
    different.len() <= VALUES_MAX && different.len() * times_each <= rows
}

/// The columns of rows for a new table that become its tags: dictionary-encoded texts, as tags are when they leave the
/// store, or if there are none, texts that [look like tags](is_likely_tag). Of fewer than twenty rows that is said only if
/// they do not all have times of their own. If no column would be left for a field, the last of the texts is none.
pub fn likely_tags(rows: &RecordBatch) -> Vec<String> {
    let schema = rows.schema_ref();
    let encoded =
        |kind: &DataType| matches!(kind, DataType::Dictionary(_, values) if is_text(values));
    // Whoever encodes some of the texts has told them apart already.
    let is_told = schema.fields().iter().any(|it| encoded(it.data_type()));
    let says_much = rows.num_rows() >= ROWS_THAT_SAY_LITTLE || shares_times(rows);
    let guesses = says_much && !is_told;
    let mut tags = Vec::new();
    let mut fields = 0;
    let mut last_guess = None;
    for (column, values) in schema.fields().iter().zip(rows.columns()) {
        let name = column.name();
        let is_encoded = encoded(column.data_type());
        let is_guess = guesses && !is_encoded && has_likely_tags(values.as_ref());
        if name == TIME_COLUMN {
            continue;
        }
        if is_encoded || is_guess {
            if is_guess {
                last_guess = Some(tags.len());
            }
            tags.push(name.clone());
        } else {
            fields += 1;
        }
    }
    if let (0, Some(at)) = (fields, last_guess) {
        tags.remove(at);
    }
    tags
}

/// Whether two rows have one time.
fn shares_times(rows: &RecordBatch) -> bool {
    let times = rows.column_by_name(TIME_COLUMN);
    let times = times.and_then(|times| arrays::times(times, TimeKind::default()).ok());
    let mut seen = HashSet::new();
    times.is_some_and(|times| !times.into_iter().all(|time| seen.insert(time)))
}

fn has_likely_tags(values: &dyn Array) -> bool {
    match values.data_type() {
        DataType::Utf8 => is_likely_tag(values.as_string::<i32>().iter().flatten()),
        DataType::LargeUtf8 => is_likely_tag(values.as_string::<i64>().iter().flatten()),
        DataType::Utf8View => is_likely_tag(values.as_string_view().iter().flatten()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, LargeStringArray, StringArray};

    use super::*;

    fn likely(values: impl Iterator<Item = String>) -> bool {
        let values: Vec<String> = values.collect();
        is_likely_tag(values.iter().map(String::as_str))
    }

    /// A table of texts that pyarrow made was written into one series, and most of its rows were merged.
    #[test]
    fn texts_of_a_batch_become_tags_where_rows_share_times() {
        let rows = |times: Vec<i64>, texts: Vec<&str>| {
            let columns: [(&str, ArrayRef); 3] = [
                ("time", Arc::new(Int64Array::from(times))),
                ("city", Arc::new(StringArray::from(texts))),
                (
                    "note",
                    Arc::new(LargeStringArray::from(vec![
                        "the sky was grey and the wind blew cold";
                        3
                    ])),
                ),
            ];
            likely_tags(&RecordBatch::try_from_iter(columns).unwrap())
        };
        assert_eq!(rows(vec![1, 1, 2], vec!["a", "b", "a"]), ["city"]);
        assert!(rows(vec![1, 2, 3], vec!["a", "b", "a"]).is_empty());
    }

    #[test]
    fn names_repeat_and_texts_do_not() {
        assert!(likely((0..1000).map(|n| format!("host-{}", n % 50))));
        assert!(likely((0..40).map(|n| format!("host-{}", n % 20))));
        assert!(likely(["Cairo", "Aswan"].map(str::to_owned).into_iter()));
        assert!(!likely(std::iter::empty()));
        assert!(!likely((0..1000).map(|n| format!("order-{n}"))));
        assert!(!likely((0..1000).map(|n| format!("order-{}", n / 2))));
        assert!(!likely((0..10_000).map(|n| format!("user-{}", n % 2000))));
        assert!(!likely(
            (0..1000).map(|n| format!("{n}: the door of the cellar was open again"))
        ));
        let same = "the door of the cellar was open again".to_owned();
        assert!(!likely(std::iter::repeat_n(same, 1000)));
        assert!(!likely(["a\nb".to_owned()].into_iter()));
    }
}
