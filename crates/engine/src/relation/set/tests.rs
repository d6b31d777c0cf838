//! What no snapshot needs is forgotten, and a refused batch leaves nothing.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::file;
use super::*;
use crate::batch::Column;
use crate::relation::RelationColumn;
use nilometer_codec::PhysicalType;

fn schema(lsn: Lsn) -> RelationSchema {
    let column = |name: &str, kind, nullable| RelationColumn {
        name: name.to_owned(),
        kind,
        nullable,
    };
    RelationSchema {
        id: RelationId(lsn),
        schema: SchemaId(1),
        name: "r".to_owned(),
        columns: vec![
            column("id", PhysicalType::I64, false),
            column("text", PhysicalType::Text, true),
            column("x", PhysicalType::F64, true),
        ],
        primary_key: vec![0],
        unique: vec![vec![1, 2]],
        declared: None,
    }
}

fn rows(values: &[(i64, Option<&str>, Option<f64>)]) -> Rows {
    let rows: Vec<Vec<Value>> = values
        .iter()
        .map(|&(id, text, x)| vec![id.into(), text.into(), x.into()])
        .collect();
    let kinds = (0u32..).zip([PhysicalType::I64, PhysicalType::Text, PhysicalType::F64]);
    Rows::of(kinds, rows.iter().map(Vec::as_slice))
}

fn created() -> Relations {
    let mut relations = Relations::default();
    relations.apply(1, &[Change::Create(schema(1))]).unwrap();
    relations
}

const R: RelationId = RelationId(1);

fn ids(relations: &Relations, lsn: Lsn) -> Vec<String> {
    let mut ids: Vec<String> = relations
        .rows(R, lsn)
        .iter()
        .map(|row| format!("{} {} {}", row[0], row[1], row[2]))
        .collect();
    ids.sort();
    ids
}

#[test]
fn versions_that_nobody_sees_are_forgotten_and_their_memory_with_them() {
    let mut relations = created();
    let mut most = 0;
    for lsn in 2..=5000 {
        let replaced = rows(&[(1, Some("some text"), Some(lsn as f64))]);
        relations
            .apply(lsn, &[Change::Replace(R, replaced)])
            .unwrap();
        relations.prune(lsn.saturating_sub(10).max(1));
        most = most.max(relations.kept());
    }
    assert!(most <= 12, "{most} versions");
    for lsn in 4990..=5000 {
        assert_eq!(ids(&relations, lsn), [format!("1 \"some text\" {lsn}.0")]);
    }
    let (_, live, before) = relations.counts();
    assert_eq!(live, 1);
    relations
        .apply(5001, &[Change::Delete(R, keys(&[1]))])
        .unwrap();
    relations.prune(5001);
    assert_eq!(relations.kept(), 0);
    assert!(relations.counts().2 < before);
}

fn keys(ids: &[i64]) -> Rows {
    let rows: Vec<Vec<Value>> = ids.iter().map(|&id| vec![id.into()]).collect();
    Rows::of([(0, PhysicalType::I64)], rows.iter().map(Vec::as_slice))
}

#[test]
fn a_refused_batch_leaves_every_version_as_it_was() {
    let mut relations = created();
    let first = rows(&[(1, Some("a"), Some(0.0)), (2, None, None)]);
    relations.apply(2, &[Change::Insert(R, first)]).unwrap();
    let before = ids(&relations, 2);
    let other = RelationSchema {
        name: "other".to_owned(),
        ..schema(3)
    };
    let refused = relations.apply(
        3,
        &[
            Change::Create(other),
            Change::Delete(R, keys(&[1, 7])),
            Change::Replace(R, rows(&[(1, Some("b"), None), (2, Some("c"), Some(1.0))])),
            Change::Insert(R, rows(&[(3, Some("d"), None), (2, None, None)])),
        ],
    );
    assert_eq!(
        refused,
        Err(Refused::Key {
            relation: "r".to_owned(),
            key: "primary key (id)".to_owned(),
            constraint: "r_pkey".to_owned(),
            row: 2,
            values: "2".to_owned(),
        })
    );
    for lsn in 2..=4 {
        assert_eq!(ids(&relations, lsn), before, "as of {lsn}");
    }
    assert_eq!(relations.kept(), 2);
    assert!(relations.named(SchemaId(1), "other").is_none());
    let refused = relations.apply(3, &[Change::Drop(R), Change::Drop(R)]);
    assert_eq!(refused, Err(Refused::Unknown(R)));
    relations
        .apply(3, &[Change::Delete(R, keys(&[1, 2]))])
        .unwrap();
    assert_eq!(ids(&relations, 2), before);
    assert_eq!(ids(&relations, 3), [] as [String; 0]);
}

#[test]
fn floats_are_one_key_when_they_are_one_number_and_nulls_never_are() {
    let nan = f64::from_bits(f64::NAN.to_bits() ^ 1);
    let mut relations = created();
    let some = [
        (1, Some("a"), Some(0.0)),
        (2, Some("a"), Some(f64::NAN)),
        (3, Some("a"), None),
        (4, Some("a"), None),
        (5, None, Some(0.0)),
        (6, None, Some(0.0)),
    ];
    relations
        .apply(2, &[Change::Insert(R, rows(&some))])
        .unwrap();
    for (text, x) in [("a", -0.0), ("a", nan)] {
        let row = rows(&[(9, Some(text), Some(x))]);
        let refused = relations.apply(3, &[Change::Insert(R, row)]);
        assert!(matches!(refused, Err(Refused::Key { key, .. }) if key == "unique key (text, x)"));
    }
    let found = relations.find(R, 1, &["a".into(), nan.into()], 2).unwrap();
    assert_eq!(found[0], Value::I64(2));
    let null = relations.find(R, 1, &["a".into(), Value::Null], 2);
    assert_eq!(null, None);
}

#[test]
fn rows_that_do_not_fit_the_relation_are_refused() {
    let mut relations = created();
    let whole = rows(&[(1, None, None)]);
    let mut short = whole.clone();
    short.columns.pop();
    let mut wrong = whole.clone();
    wrong.columns.swap(0, 1);
    let mut uneven = whole.clone();
    uneven.rows = 2;
    let mut null = whole.clone();
    null.columns[0] = Column::new(crate::schema::ColumnId(0), PhysicalType::I64);
    null.columns[0].pad(1);
    for spoilt in [short, wrong, uneven, null] {
        let refused = relations.apply(2, &[Change::Insert(R, spoilt)]);
        assert!(matches!(refused, Err(Refused::Shape { .. })), "{refused:?}");
    }
    let refused = relations.apply(2, &[Change::Delete(R, whole)]);
    assert!(matches!(refused, Err(Refused::Shape { .. })), "{refused:?}");
}

fn filed(rows: &[(i64, Option<String>, Option<f64>)]) -> Filed {
    Filed {
        schema: Arc::new(schema(7)),
        rows: rows
            .iter()
            .map(|(id, text, x)| Row::from([Value::from(*id), text.as_deref().into(), (*x).into()]))
            .collect(),
    }
}

proptest! {
    #[test]
    fn a_file_reads_back_as_written_and_no_part_of_it_does(
        rows in vec((any::<i64>(), any::<Option<String>>(), any::<Option<f64>>()), 0..50),
    ) {
        let written = filed(&rows);
        let bytes = file::encode(&written).unwrap();
        let read = file::decode(7, file::KIND.format, &bytes).unwrap();
        prop_assert_eq!(read.schema, written.schema);
        let bits = |rows: &[Row]| format!("{rows:?}");
        prop_assert_eq!(bits(&read.rows), bits(&written.rows));
        for n in 0..bytes.len() {
            prop_assert!(file::decode(7, file::KIND.format, bytes.get(..n).unwrap_or_default()).is_err());
        }
    }

    #[test]
    fn a_damaged_file_never_panics(
        flips in vec((any::<prop::sample::Index>(), any::<u8>()), 1..9),
        tail in vec(any::<u8>(), 0..50),
    ) {
        let rows = [(1, Some("a".to_owned()), None), (2, None, Some(0.5))];
        let mut bytes = file::encode(&filed(&rows)).unwrap();
        bytes.extend(tail);
        for (at, value) in flips {
            let at = at.index(bytes.len());
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
            drop(file::decode(7, file::KIND.format, &bytes));
        }
    }
}

#[test]
fn a_file_of_more_rows_than_a_chunk_reads_back() {
    let rows: Vec<_> = (0..200_000).map(|id| (id, None, Some(id as f64))).collect();
    let written = filed(&rows);
    let read = file::decode(7, file::KIND.format, &file::encode(&written).unwrap()).unwrap();
    assert!(read.rows == written.rows);
}

#[test]
fn what_is_dropped_stays_as_long_as_somebody_sees_it_and_its_file_is_listed() {
    let mut relations = created();
    let first = rows(&[(1, None, None)]);
    relations.apply(2, &[Change::Insert(R, first)]).unwrap();
    let due = relations.checkpoint(2);
    assert_eq!((due.changed.len(), due.removed.len()), (1, 0));
    relations.checkpointed(&due, &[30]);
    relations.apply(3, &[Change::Drop(R)]).unwrap();
    // The name is free at once.
    relations.apply(4, &[Change::Create(schema(4))]).unwrap();
    let name = |lsn| relations.named_at(SchemaId(1), "r", lsn).map(|it| it.id.0);
    assert_eq!(
        [0, 1, 2, 3, 4].map(name),
        [None, Some(1), Some(1), None, Some(4)]
    );
    assert_eq!(ids(&relations, 2), ["1 null null"]);
    relations.prune(4);
    assert_eq!(relations.kept(), 1, "its file is listed");
    // A flush of before the drop keeps the file: the log after it drops the relation again.
    let due = relations.checkpoint(2);
    assert_eq!((due.changed.len(), due.removed.len()), (0, 0));
    let due = relations.checkpoint(4);
    assert_eq!((due.changed.len(), due.removed.clone()), (1, vec![30]));
    relations.checkpointed(&due, &[31]);
    relations.prune(4);
    assert_eq!(relations.kept(), 0);
    assert_eq!(relations.counts().0, 1);
}
