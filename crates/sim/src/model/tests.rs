//! The model against examples by hand.

use nilometer_codec::PhysicalType;

use super::*;
use crate::plan::{Column, Delete, Value};

fn line(field: &str, value: Value, time: i64) -> Line {
    tagged(&[], field, value, time)
}

fn tagged(tags: &[(&str, &str)], field: &str, value: Value, time: i64) -> Line {
    let tags = tags.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    Line::Point {
        table: "t".to_owned(),
        tags: tags.collect(),
        fields: vec![(field.to_owned(), value)],
        time: Some(time),
    }
}

fn taken(lines: &[Line]) -> Op {
    Op::Write(predict("d", lines, Types::new(), 0).batch)
}

fn change(change: Change, state: &State) -> Op {
    let name = ("d".to_owned(), change.table().to_owned());
    Op::Change {
        database: "d".to_owned(),
        before: state.found(&name).map(|found| found.schema),
        change,
    }
}

/// A store that shows what it must.
fn found(ops: &[&Op]) -> Found {
    let mut state = State::default();
    for op in ops {
        state.apply(op);
    }
    let names: Vec<Name> = state.names().cloned().collect();
    let tables = names
        .into_iter()
        .filter_map(|name| Some((name.clone(), state.found(&name)?)));
    Found {
        places: state.places().clone(),
        tables: tables.collect(),
        relations: state.relations.clone(),
    }
}

fn shown(ops: &[&Op]) -> Vec<(i64, Vec<Fields>)> {
    let tables = found(ops).tables.into_values();
    tables
        .flat_map(|table| table.rows)
        .map(|((_, time), rows)| (time, rows))
        .collect()
}

fn row(fields: &[(&str, i64)]) -> Fields {
    let fields = fields.iter();
    fields
        .map(|(name, value)| ((*name).to_owned(), Value::Integer(*value)))
        .collect()
}

fn table_of(duplicates: nilometer_engine::Duplicates) -> Op {
    let create = Change::CreateTable {
        table: "t".to_owned(),
        duplicates,
        interval_ns: 1,
        columns: Vec::new(),
    };
    change(create, &State::default())
}

#[test]
fn two_rows_of_one_time_are_what_the_table_says() {
    use nilometer_engine::Duplicates;
    let first = taken(&[
        line("a", Value::Integer(1), 1),
        line("b", Value::Integer(2), 1),
    ]);
    let second = taken(&[line("a", Value::Integer(3), 1)]);
    let rows = |kind| shown(&[&table_of(kind), &first, &second]);
    let merged = row(&[("a", 3), ("b", 2)]);
    assert_eq!(rows(Duplicates::Last), [(1, vec![merged])]);
    let three = vec![row(&[("a", 1)]), row(&[("b", 2)]), row(&[("a", 3)])];
    assert_eq!(rows(Duplicates::Keep), [(1, three)]);
    assert_eq!(rows(Duplicates::Unique), [(1, vec![row(&[("a", 3)])])]);
}

#[test]
fn a_delete_takes_what_is_there_and_nothing_later() {
    let body = [
        line("a", Value::Integer(1), 1),
        line("a", Value::Integer(2), 2),
    ];
    let write = taken(&body);
    let delete = Op::Delete {
        database: "d".to_owned(),
        delete: Delete {
            table: "t".to_owned(),
            time: (1, 1),
            tag: None,
        },
    };
    let two = (2, vec![row(&[("a", 2)])]);
    assert_eq!(shown(&[&write, &delete]), std::slice::from_ref(&two));
    let one = (1, vec![row(&[("a", 1)])]);
    assert_eq!(shown(&[&write, &delete, &write]), [one, two]);
}

#[test]
fn series_that_a_dropped_tag_told_apart_stay_apart() {
    let write = taken(&[
        tagged(&[("x", "1")], "a", Value::Integer(1), 1),
        tagged(&[("x", "2")], "a", Value::Integer(2), 1),
    ]);
    let drop = Change::DropColumn {
        table: "t".to_owned(),
        column: Column {
            is_tag: true,
            name: "x".to_owned(),
        },
    };
    let drop = Op::Change {
        database: "d".to_owned(),
        change: drop,
        before: None,
    };
    let third = taken(&[line("a", Value::Integer(3), 1)]);
    let rows = shown(&[&write, &drop, &third]);
    let [(1, rows)] = rows.as_slice() else {
        panic!("{rows:?}");
    };
    assert_eq!(rows.len(), 3);
}

#[test]
fn a_value_converts_if_it_comes_back_the_same() {
    use super::convert::convert;
    let float = |value: f64| Value::Float(value.to_bits());
    let (integer, text) = (PhysicalType::I64, PhysicalType::Text);
    let two = Value::Text("2".to_owned());
    assert_eq!(convert(&float(2.0), integer), Some(Value::Integer(2)));
    assert_eq!(convert(&float(-0.0), integer), None);
    assert_eq!(convert(&float(0.5), integer), None);
    assert_eq!(convert(&float(2.0), text), Some(two.clone()));
    assert_eq!(convert(&two, PhysicalType::F64), Some(float(2.0)));
    let padded = Value::Text("02".to_owned());
    assert_eq!(convert(&padded, integer), None);
    let large = Value::Integer((1 << 53) + 1);
    assert_eq!(convert(&large, PhysicalType::F64), None);
    let edge = Value::Integer(1 << 53);
    assert!(convert(&edge, PhysicalType::F64).is_some());
    assert_eq!(convert(&Value::Integer(2), PhysicalType::Bool), None);
}

#[test]
fn a_line_of_another_type_is_refused_and_the_others_are_kept() {
    let lines = [
        line("a", Value::Integer(1), 1),
        line("a", Value::Boolean(true), 2),
        Line::Bad("?".to_owned()),
        line("a", Value::Integer(4), 4),
    ];
    let prediction = predict("d", &lines, Types::new(), 0);
    assert_eq!(prediction.rejected, [2, 3]);
    assert_eq!(prediction.batch.rows(), 2);
}

/// A line that was refused once gave its other, new fields their types, in the store and here: good lines of others were refused.
#[test]
fn a_refused_line_gives_no_field_a_type() {
    let mut refused = line("b", Value::Integer(5), 2);
    if let Line::Point { fields, .. } = &mut refused {
        fields.push(("a".to_owned(), Value::Boolean(true)));
    }
    let lines = [
        line("a", Value::Integer(1), 1),
        refused,
        line("b", Value::Boolean(false), 3),
        line("b", Value::Integer(6), 4),
    ];
    let prediction = predict("d", &lines, Types::new(), 0);
    assert_eq!(prediction.rejected, [2, 4]);
}

#[test]
fn a_batch_in_doubt_is_there_whole_or_not_at_all_and_in_order() {
    let first = taken(&[
        line("a", Value::Integer(1), 1),
        line("a", Value::Integer(2), 2),
    ]);
    let second = taken(&[line("a", Value::Integer(3), 3)]);
    let settles = |found: &Found| {
        let mut model = Model::default();
        model.doubt(first.clone());
        model.doubt(second.clone());
        model.settle(found, 0).is_ok()
    };
    assert!(settles(&Found::default()));
    assert!(settles(&found(&[&first])));
    assert!(settles(&found(&[&first, &second])));
    assert!(!settles(&found(&[&second])));
    let half = taken(&[line("a", Value::Integer(1), 1)]);
    assert!(!settles(&found(&[&half])));
}

#[test]
fn a_settled_batch_may_not_change_its_mind() {
    let batch = taken(&[line("a", Value::Integer(1), 1)]);
    let mut model = Model::default();
    model.doubt(batch.clone());
    model.settle(&Found::default(), 0).unwrap();
    assert!(model.settle(&found(&[&batch]), 0).is_err());
}
