//! Records read back as written, and nothing else reads.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::batch::{Strings, Validity};
use crate::kept_page::BlockPlace;
use crate::relation::{RelationColumn, RelationSchema, Rows};
use crate::schema::SchemaId;
use crate::tombstone::Deleted;

fn sample(rows: usize) -> Batch {
    let mut text = Strings::default();
    let mut validity = Validity::default();
    for row in 0..rows {
        text.push(if row % 3 == 0 { b"" } else { b"abc" });
        validity.push(row % 3 != 0);
    }
    Batch {
        tables: vec![TableRows {
            table: TableId(7),
            series: (0..rows).map(|row| 1 + (row % 10) as u32).collect(),
            times: (0..rows).map(|row| 1_000 * (row as i64 / 10)).collect(),
            columns: vec![
                Column {
                    id: ColumnId(1),
                    values: Values::F64((0..rows).map(|row| row as f64 / 10.0).collect()),
                    validity: Validity::all(rows),
                },
                Column {
                    id: ColumnId(2),
                    values: Values::Text(text),
                    validity,
                },
            ],
        }],
        ..Batch::default()
    }
}

/// A column of nullable values; null slots hold what the codec leaves there.
fn column() -> impl Strategy<Value = Vec<Option<i64>>> {
    vec(option::of(any::<i64>()), 0..40)
}

fn relation_rows(values: &[Option<i64>]) -> Rows {
    let mut numbers = Column::new(ColumnId(0), PhysicalType::I64);
    let mut texts = Column::new(ColumnId(1), PhysicalType::Text);
    for value in values {
        match (value, &mut numbers.values, &mut texts.values) {
            (Some(value), Values::I64(numbers), Values::Text(texts)) => {
                numbers.push(*value);
                texts.push(value.to_string().as_bytes());
            }
            (_, numbers, texts) => {
                numbers.extend_default(1);
                texts.extend_default(1);
            }
        }
        numbers.validity.push(value.is_some());
        texts.validity.push(value.is_some());
    }
    Rows {
        rows: values.len(),
        columns: vec![numbers, texts],
    }
}

fn schema(name: &str) -> RelationSchema {
    let column = |name: &str, nullable| RelationColumn {
        name: name.to_owned(),
        kind: PhysicalType::I64,
        nullable,
    };
    RelationSchema {
        id: RelationId(0),
        schema: SchemaId(2),
        name: name.to_owned(),
        columns: vec![column("id", false), column("x", true), column("y", true)],
        primary_key: vec![0],
        unique: vec![vec![2, 1], vec![1]],
        declared: None,
    }
}

fn change() -> impl Strategy<Value = Change> {
    let id = any::<u64>().prop_map(RelationId);
    prop_oneof![
        "[a-z]{1,5}".prop_map(|name| Change::Create(schema(&name))),
        id.clone().prop_map(Change::Drop),
        id.clone()
            .prop_map(|id| Change::Declare(id, std::sync::Arc::default())),
        (id.clone(), column()).prop_map(|(id, it)| Change::Insert(id, relation_rows(&it))),
        (id.clone(), column()).prop_map(|(id, it)| Change::Replace(id, relation_rows(&it))),
        (id, column()).prop_map(|(id, it)| Change::Delete(id, relation_rows(&it))),
    ]
}

fn tombstone() -> impl Strategy<Value = Tombstone> {
    let range = (
        any::<i64>(),
        any::<i64>(),
        option::of(vec(any::<u32>(), 0..9)),
    )
        .prop_map(|(start, end, series)| Deleted::Range {
            series: series.map(|mut series| {
                series.sort_unstable();
                series
            }),
            time: start..=end,
        });
    let rows = vec((any::<u32>(), any::<i64>()), 0..9).prop_map(|mut rows| {
        rows.sort_unstable();
        let (series, times) = rows.into_iter().unzip();
        Deleted::Rows { series, times }
    });
    (any::<u32>(), prop_oneof![range, rows]).prop_map(|(table, what)| Tombstone {
        lsn: 0,
        table: TableId(table),
        what,
    })
}

/// The golden page `one_series`, which has one block with two fields.
fn kept_page() -> impl Strategy<Value = Arc<KeptPage>> {
    let place = (any::<u32>(), any::<u32>(), any::<[u32; 2]>());
    (any::<i64>(), option::of(place)).prop_map(|(start_ns, place)| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden/device-1");
        let bytes = std::fs::read(format!("{folder}/one_series.bin")).unwrap();
        let place = place.map(|(table, series, columns)| BlockPlace {
            table: TableId(table),
            series,
            columns: columns.map(ColumnId).to_vec(),
        });
        Arc::new(KeptPage {
            bytes: bytes.into(),
            start_ns,
            blocks: vec![place],
        })
    })
}

fn batch() -> impl Strategy<Value = Batch> {
    let key = (any::<[u8; 16]>(), any::<i64>())
        .prop_map(|(key, accepted_ns)| BatchKey { key, accepted_ns });
    (
        0..60usize,
        vec(tombstone(), 0..4),
        vec(change(), 0..4),
        option::of(key),
        // Seldom: each byte of one is a place to cut a batch at.
        option::weighted(0.1, kept_page()),
    )
        .prop_map(|(rows, tombstones, relations, key, pages)| Batch {
            tables: if rows == 0 {
                Vec::new()
            } else {
                sample(rows).tables
            },
            tombstones,
            relations,
            key,
            pages: pages.into_iter().collect(),
        })
}

proptest! {
    #[test]
    fn any_batch_reads_back_with_its_lsn(batch in batch(), lsn in 1..u64::MAX) {
        let bytes = encode_batch(&batch).unwrap();
        let mut expected = batch;
        for tombstone in &mut expected.tombstones {
            tombstone.lsn = lsn;
        }
        for change in &mut expected.relations {
            if let Change::Create(schema) = change {
                schema.id = RelationId(lsn);
            }
        }
        prop_assert_eq!(decode(lsn, &bytes), Ok(Record::Batch(expected)));
    }

    /// A batch cut between two sections is a batch without the later ones; the record's checksum and length tell.
    #[test]
    fn a_part_of_a_batch_is_an_error_or_ends_before_a_section(batch in batch()) {
        let bytes = encode_batch(&batch).unwrap();
        let mut bare = batch;
        let mut whole = vec![bytes.len()];
        bare.pages.clear();
        whole.push(encode_batch(&bare).unwrap().len());
        bare.key = None;
        whole.push(encode_batch(&bare).unwrap().len());
        bare.relations.clear();
        whole.push(encode_batch(&bare).unwrap().len());
        bare.tombstones.clear();
        whole.push(encode_batch(&bare).unwrap().len());
        for n in 0..bytes.len() {
            let read = decode(1, bytes.get(..n).unwrap_or_default());
            prop_assert_eq!(read.is_ok(), whole.contains(&n), "{} bytes", n);
        }
    }

    #[test]
    fn a_flipped_bit_never_panics(batch in batch(), flips in vec(any::<prop::sample::Index>(), 1..9)) {
        let mut bytes = encode_batch(&batch).unwrap();
        for flip in flips {
            let bit = flip.index(bytes.len() * 8);
            if let Some(byte) = bytes.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
            drop(decode(1, &bytes));
        }
    }

    #[test]
    fn any_bytes_never_panic(mut bytes in vec(any::<u8>(), 0..200), kind in 1..4u8, section in 1..4u8) {
        bytes.splice(0..0, [kind, 0, section]);
        drop(decode(1, &bytes));
    }
}

#[test]
fn a_batch_reads_back_as_written() {
    for rows in [1, 10, 1023, 1024, 1025, 5000] {
        let bytes = encode_batch(&sample(rows)).unwrap();
        assert_eq!(
            decode(1, &bytes).unwrap(),
            Record::Batch(sample(rows)),
            "{rows} rows"
        );
    }
}

/// 1024 rows of long text are more than one page may hold; the write was refused as if the store were damaged.
#[test]
fn a_batch_of_long_text_takes_as_many_pages_as_it_needs() {
    let mut text = Strings::default();
    for row in 0..40 {
        text.push(&vec![b'0' + row; 1 << 20]);
    }
    let batch = Batch {
        tables: vec![TableRows {
            table: TableId(1),
            series: vec![1; 40],
            times: (0..40).collect(),
            columns: vec![Column {
                id: ColumnId(1),
                values: Values::Text(text),
                validity: Validity::all(40),
            }],
        }],
        ..Batch::default()
    };
    let bytes = encode_batch(&batch).unwrap();
    assert_eq!(decode(1, &bytes).unwrap(), Record::Batch(batch));
}

/// A value above 16 MiB did not fit a page, though the store takes values of 32 MiB, and the write was refused as if the store
/// were damaged. Its neighbours have pages of their own, so that it is alone in its.
#[test]
fn a_batch_holds_the_largest_values() {
    let sizes = [3, 0, 16 << 20, (16 << 20) + 1, 0, 32 << 20, 5];
    let mut values = Strings::default();
    for (row, &bytes) in sizes.iter().enumerate() {
        // The first ones are noise, that nothing makes small; the largest is not.
        let mut state = row as u64 + 1;
        let noise = |at: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            if row < 5 {
                state.to_le_bytes()[4]
            } else {
                (at / 1000).to_le_bytes()[0]
            }
        };
        values.push(&(0..bytes).map(noise).collect::<Vec<u8>>());
    }
    let rows = sizes.len();
    let batch = Batch {
        tables: vec![TableRows {
            table: TableId(1),
            series: vec![1; rows],
            times: (0..7).collect(),
            columns: vec![Column {
                id: ColumnId(1),
                values: Values::Bytes(values),
                validity: Validity::all(rows),
            }],
        }],
        ..Batch::default()
    };
    let bytes = encode_batch(&batch).unwrap();
    assert!(decode(1, &bytes).unwrap() == Record::Batch(batch));
    for cut in [20 << 20, bytes.len() / 2, bytes.len() - 1] {
        assert!(decode(1, &bytes[..cut]).is_err(), "accepted {cut} bytes");
    }
}

#[test]
fn every_truncation_of_a_batch_is_an_error() {
    let bytes = encode_batch(&sample(50)).unwrap();
    for n in 0..bytes.len() {
        assert!(decode(1, &bytes[..n]).is_err(), "accepted {n} bytes");
    }
}

/// The bytes are put together by hand from the format's page.
#[test]
fn sections_stand_after_the_tables_in_the_order_of_their_ids() {
    let batch = Batch {
        tombstones: vec![Tombstone {
            lsn: 0,
            table: TableId(4),
            what: Deleted::Range {
                series: None,
                time: -1..=2,
            },
        }],
        relations: vec![Change::Drop(RelationId(9))],
        key: Some(BatchKey {
            key: *b"0123456789abcdef",
            accepted_ns: 3,
        }),
        ..Batch::default()
    };
    let head = [2, 0];
    let tombstones = [1, 6, 1, 0, 4, 0, 1, 4];
    let relations = [2, 3, 1, 2, 9];
    let key = *b"\x03\x110123456789abcdef\x06";
    let bytes = [&head[..], &tombstones, &relations, &key].concat();
    assert_eq!(encode_batch(&batch), Ok(bytes));

    let swapped = [&head[..], &relations, &tombstones].concat();
    assert!(decode(1, &swapped).is_err(), "out of order");
    let twice = [&head[..], &relations, &relations].concat();
    assert!(decode(1, &twice).is_err(), "twice");
    assert!(decode(1, &[2, 0, 1, 1, 0]).is_err(), "no tombstone");
    assert!(decode(1, &[2, 0, 2, 1, 0]).is_err(), "no change");
    assert!(decode(1, &[2, 0, 4, 1, 0]).is_err(), "no page");
    let text = decode(1, &[2, 0, 5, 0]).unwrap_err().0;
    assert!(text.contains("newer"), "{text}");
}

#[test]
fn a_relation_whose_keys_do_not_fit_its_columns_does_not_read() {
    let wrong: [fn(&mut RelationSchema); 6] = [
        |schema| schema.primary_key.clear(),
        |schema| schema.primary_key = vec![3],
        |schema| schema.primary_key = vec![1],
        |schema| schema.unique.push(vec![1, 1]),
        |schema| schema.unique.push(Vec::new()),
        |schema| schema.columns[1].name = "id".to_owned(),
    ];
    for (at, spoil) in wrong.iter().enumerate() {
        let mut schema = schema("r");
        spoil(&mut schema);
        let batch = Batch {
            relations: vec![Change::Create(schema)],
            ..Batch::default()
        };
        let bytes = encode_batch(&batch).unwrap();
        assert!(decode(1, &bytes).is_err(), "{at}");
    }
}
