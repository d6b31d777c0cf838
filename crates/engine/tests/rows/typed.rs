//! Promise: a typed write stores every value that its columns can hold, exactly, and says of everything else which
//! column or row it is and what to do.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::sync::Arc;

use crate::typed_store::{
    self, batch, in_every_state, points, points_of, rows_of, session, store, write,
};
use arrow_array::types::Int16Type;
use arrow_array::{Array as _, RecordBatch};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
    Float32Array, Float64Array, Int8Array, Int32Array, Int64Array, LargeStringArray, NullArray,
    StringArray, StringViewArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray, TimestampSecondArray, UInt8Array, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema};
use nilometer_engine::ingest::{Missing, OnConflict, Session, Stated, Target};
use nilometer_engine::{Duplicates, Error};
use nilometer_lineproto::Precision;

fn refusal(columns: Vec<(&str, ArrayRef)>) -> String {
    let engine = store(Duplicates::Last);
    let outcome = write(&engine, &batch(columns), OnConflict::Replace);
    assert!(
        points_of(&engine).is_empty(),
        "a refused batch leaves no row"
    );
    outcome.unwrap_err().to_string()
}

fn times(times: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(times.to_vec()))
}

#[test]
fn every_type_of_field_reads_back_as_written() {
    in_every_state(
        Duplicates::Last,
        |engine| {
            let rows = batch(vec![
                (
                    "raw",
                    Arc::new(BinaryArray::from_opt_vec(vec![Some(b"\x00\xFF"), None])),
                ),
                ("time", times(&[1, 2])),
                ("up", Arc::new(BooleanArray::from(vec![None, Some(false)]))),
                (
                    "host",
                    Arc::new(StringArray::from(vec![Some("a"), Some("a")])),
                ),
                ("disk", Arc::new(StringArray::from(vec![Some(""), None]))),
                ("busy", Arc::new(Float64Array::from(vec![Some(-0.0), None]))),
                (
                    "count",
                    Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX])),
                ),
                (
                    "size",
                    Arc::new(UInt64Array::from(vec![Some(u64::MAX), None])),
                ),
                ("note", Arc::new(StringArray::from(vec!["x", ""]))),
            ]);
            let report = write(engine, &rows, OnConflict::Replace).unwrap();
            assert_eq!((report.written, report.skipped, report.replaced), (2, 0, 0));
        },
        |engine, state| {
            let expected = [
                format!("1 a - -0 {} {} - x [0, 255]", i64::MIN, u64::MAX),
                format!("2 a - - {} - false  -", i64::MAX),
            ];
            let rows = rows_of(&engine.snapshot(), (0..9).collect());
            assert_eq!(rows, expected, "{state}");
        },
    );
}

#[test]
fn what_converts_without_loss_is_taken() {
    let engine = store(Duplicates::Last);
    let tag: DictionaryArray<Int16Type> = vec![Some("a"), None, Some("a")].into_iter().collect();
    let decimals = Decimal128Array::from(vec![Some(25), Some(-50), None])
        .with_precision_and_scale(10, 2)
        .unwrap();
    let whole = Decimal128Array::from(vec![700, -800, 0])
        .with_precision_and_scale(10, 2)
        .unwrap();
    let rows = batch(vec![
        (
            "time",
            Arc::new(TimestampSecondArray::from(vec![1, 2, 3]).with_timezone("+02:00")),
        ),
        ("host", Arc::new(tag)),
        (
            "disk",
            Arc::new(UInt8Array::from(vec![Some(7), None, Some(0)])),
        ),
        ("busy", Arc::new(decimals)),
        ("count", Arc::new(whole)),
        ("size", Arc::new(Int8Array::from(vec![0, 1, 127]))),
        (
            "note",
            Arc::new(StringViewArray::from(vec![
                Some("one"),
                None,
                Some("a text that is longer than a view"),
            ])),
        ),
        (
            "raw",
            Arc::new(LargeStringArray::from(vec![Some("z"), None, None])),
        ),
        ("up", Arc::new(NullArray::new(3))),
    ]);
    write(&engine, &rows, OnConflict::Replace).unwrap();
    let mut found = rows_of(&engine.snapshot(), (0..9).collect());
    found.sort();
    assert_eq!(
        found,
        [
            "1000000000 a 7 0.25 7 0 - one [122]",
            "2000000000 - - -0.5 -8 1 - - -",
            "3000000000 a 0 - 0 127 - a text that is longer than a view -",
        ]
    );
    for (column, array, shown) in [
        (
            "busy",
            Arc::new(Float32Array::from(vec![1.5])) as ArrayRef,
            "9 - 1.5 -",
        ),
        ("busy", Arc::new(Int32Array::from(vec![-3])), "9 - -3 -"),
        (
            "busy",
            Arc::new(Int64Array::from(vec![1 << 53])),
            "9 - 9007199254740992 -",
        ),
        ("count", Arc::new(UInt64Array::from(vec![5])), "9 - - 5"),
    ] {
        let engine = store(Duplicates::Last);
        let rows = batch(vec![("time", times(&[9])), (column, array)]);
        write(&engine, &rows, OnConflict::Replace).unwrap();
        assert_eq!(points_of(&engine), [shown], "{column}");
    }
}

#[test]
fn every_unit_of_time_is_taken() {
    let units: [(ArrayRef, &str); 5] = [
        (
            Arc::new(TimestampSecondArray::from(vec![-2])),
            "-2000000000",
        ),
        (
            Arc::new(TimestampMillisecondArray::from(vec![-2])),
            "-2000000",
        ),
        (Arc::new(TimestampMicrosecondArray::from(vec![-2])), "-2000"),
        (
            Arc::new(TimestampNanosecondArray::from(vec![-2]).with_timezone("UTC")),
            "-2",
        ),
        (times(&[-2]), "-2"),
    ];
    for (time, shown) in units {
        let engine = store(Duplicates::Last);
        write(&engine, &batch(vec![("time", time)]), OnConflict::Replace).unwrap();
        assert_eq!(rows_of(&engine.snapshot(), vec![0]), [shown]);
    }
}

#[test]
#[expect(
    clippy::too_many_lines,
    reason = "a list of mistakes and what is said of each"
)]
fn what_is_wrong_is_named_with_its_column_or_row() {
    let one: fn() -> (&'static str, ArrayRef) = || ("time", times(&[1]));
    let busy = |values: Vec<f64>| -> (&'static str, ArrayRef) {
        ("busy", Arc::new(Float64Array::from(values)))
    };
    let fraction = Decimal128Array::from(vec![10])
        .with_precision_and_scale(5, 2)
        .unwrap();
    let long: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat((1 << 20) + 1)]));
    let longest_tags: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(1 << 16)]));
    let cases: Vec<(Vec<(&str, ArrayRef)>, &str)> = vec![
        (
            vec![busy(vec![1.0])],
            "column \"time\" cannot be written to table \"m\": it is missing, and every row needs a time; nothing of the batch was written",
        ),
        (
            vec![("time", Arc::new(Int64Array::from(vec![Some(1), None])))],
            "row 2 for table \"m\" is refused, in column \"time\": every row needs a time, and this one's is null; nothing of the batch was written",
        ),
        (
            vec![("time", times(&[0, i64::MAX]))],
            "row 2 for table \"m\" is refused, in column \"time\": 9223372036854775807 units of 1 ns are outside the times that there are, -9223372036854775806 to 9223372036854775806 ns since 1970; nothing of the batch was written",
        ),
        (
            vec![("time", times(&[i64::MIN]))],
            "row 1 for table \"m\" is refused, in column \"time\": -9223372036854775808 units of 1 ns are outside the times that there are, -9223372036854775806 to 9223372036854775806 ns since 1970; nothing of the batch was written",
        ),
        (
            vec![(
                "time",
                Arc::new(TimestampSecondArray::from(vec![i64::MAX / 1000])),
            )],
            "row 1 for table \"m\" is refused, in column \"time\": 9223372036854775 units of 1000000000 ns are outside the times that there are, -9223372036854775806 to 9223372036854775806 ns since 1970; nothing of the batch was written",
        ),
        (
            vec![("time", Arc::new(Date32Array::from(vec![1])))],
            "column \"time\" cannot be written to table \"m\": its type is Date32; the time is taken as Timestamp of any unit and zone, or as Int64 nanoseconds since 1970; nothing of the batch was written",
        ),
        (
            vec![one(), busy(vec![1.0]), busy(vec![1.0])],
            "column \"busy\" cannot be written to table \"m\": it is given twice; give each column once; nothing of the batch was written",
        ),
        (
            vec![one(), ("Buzy", Arc::new(Float64Array::from(vec![1.0])))],
            "column \"Buzy\" cannot be written to table \"m\": the table has no such column; did you mean \"busy\"? Otherwise add it to the table first; nothing of the batch was written",
        ),
        (
            vec![one(), ("host", Arc::new(Float64Array::from(vec![1.0])))],
            "column \"host\" cannot be written to table \"m\": its type is Float64; a tag is taken as Utf8, LargeUtf8, Utf8View, a Dictionary of one of them, or an integer type; nothing of the batch was written",
        ),
        (
            vec![one(), ("host", longest_tags)],
            "row 1 for table \"m\" is refused, in column \"host\": its tags together have 65553 bytes, and 65535 are allowed; nothing of the batch was written",
        ),
        (
            vec![one(), ("count", Arc::new(Float64Array::from(vec![1.0])))],
            "column \"count\" cannot be written to table \"m\": its type is Float64; an integer field is taken as Int8 to Int64, UInt8 to UInt64, or Decimal128 without a fraction; nothing of the batch was written",
        ),
        (
            vec![
                ("time", times(&[1, 2])),
                ("count", Arc::new(UInt64Array::from(vec![1, u64::MAX]))),
            ],
            "row 2 for table \"m\" is refused, in column \"count\": 18446744073709551615 is not a signed integer of 64 bits; nothing of the batch was written",
        ),
        (
            vec![one(), ("size", Arc::new(Int64Array::from(vec![-1])))],
            "row 1 for table \"m\" is refused, in column \"size\": -1 is not an unsigned integer of 64 bits; nothing of the batch was written",
        ),
        (
            vec![
                one(),
                ("busy", Arc::new(Int64Array::from(vec![(1 << 53) + 1]))),
            ],
            "row 1 for table \"m\" is refused, in column \"busy\": 9007199254740993 is not a float of 64 bits; nothing of the batch was written",
        ),
        (
            vec![one(), ("busy", Arc::new(fraction))],
            "row 1 for table \"m\" is refused, in column \"busy\": 10e-2 is not a float of 64 bits; nothing of the batch was written",
        ),
        (
            vec![one(), ("busy", Arc::new(Date32Array::from(vec![1])))],
            "column \"busy\" cannot be written to table \"m\": its type is Date32; a float field is taken as Float32, Float64, an integer type or Decimal128, as far as floats hold the values; nothing of the batch was written",
        ),
        (
            vec![one(), ("up", Arc::new(Int64Array::from(vec![1])))],
            "column \"up\" cannot be written to table \"m\": its type is Int64; a boolean field is taken as Boolean; nothing of the batch was written",
        ),
        (
            vec![one(), ("note", Arc::new(Int64Array::from(vec![1])))],
            "column \"note\" cannot be written to table \"m\": its type is Int64; a text field is taken as Utf8, LargeUtf8, Utf8View or a Dictionary of one of them; nothing of the batch was written",
        ),
        (
            vec![one(), ("raw", Arc::new(Int64Array::from(vec![1])))],
            "column \"raw\" cannot be written to table \"m\": its type is Int64; a field of bytes is taken as Binary, LargeBinary, BinaryView, FixedSizeBinary or text; nothing of the batch was written",
        ),
        (
            vec![one(), ("note", long)],
            "row 1 for table \"m\" is refused, in column \"note\": it has 1048577 bytes, and a value may have 1048576 (setting value-bytes-max); nothing of the batch was written",
        ),
    ];
    for (columns, expected) in cases {
        assert_eq!(refusal(columns), expected);
    }
}

#[test]
fn a_table_must_exist_and_conflicts_are_for_unique_ones() {
    let engine = store(Duplicates::Last);
    let rows = points(&[("a", 1, Some(1.0), None)]);
    let mut session = session(&engine);
    let missing = session.write_arrow(Target::table("n"), &rows, OnConflict::Replace);
    assert_eq!(
        missing.unwrap_err().to_string(),
        "table \"n\" not found in \"d\".\"public\"; there are: m"
    );
    let target = Target {
        schema: Some("other"),
        table: "m",
    };
    let missing = session.write_arrow(target, &rows, OnConflict::Replace);
    assert_eq!(
        missing.unwrap_err().to_string(),
        "schema \"other\" not found in database \"d\"; there are: public"
    );
    for (kind, name) in [(Duplicates::Last, "last"), (Duplicates::Keep, "keep")] {
        let engine = store(kind);
        for on_conflict in [OnConflict::Error, OnConflict::Skip] {
            let refused = write(&engine, &rows, on_conflict).unwrap_err();
            assert_eq!(
                refused.to_string(),
                format!(
                    "table \"m\" has no conflicts that could be refused or skipped, because its duplicates are \"{name}\"; write with replace, or set its duplicates to \"unique\""
                )
            );
        }
    }
}

#[test]
fn a_batch_over_the_limit_is_refused_as_a_whole() {
    let rows: Vec<(&str, i64, Option<f64>, Option<i64>)> =
        (0..11).map(|at| ("a", at, Some(0.0), None)).collect();
    let options = nilometer_engine::Options {
        batch_rows_max: 10,
        ..nilometer_engine::Options::default()
    };
    let disk: Arc<dyn nilometer_engine::disk::Disk> =
        Arc::new(nilometer_engine::disk::MemoryDisk::new());
    let clock = Arc::new(nilometer_engine::SystemClock);
    let engine = nilometer_engine::Engine::open(disk, clock, std::path::Path::new("/d"), options);
    let engine = Arc::new(engine.unwrap());
    typed_store::make_table(&engine, Duplicates::Last);
    let refused = write(&engine, &points(&rows), OnConflict::Replace).unwrap_err();
    assert!(matches!(
        refused,
        Error::Limit {
            limit: 10,
            needed: 11,
            ..
        }
    ));
    assert!(points_of(&engine).is_empty());
    let report = write(
        &engine,
        &points(rows.get(1..).unwrap()),
        OnConflict::Replace,
    );
    assert_eq!(report.unwrap().written, 10);
}

#[test]
fn null_is_absent_where_rows_merge_or_stay_and_a_value_where_they_are_unique() {
    let first = points(&[("a", 1, Some(1.0), Some(10))]);
    let second = points(&[("a", 1, None, Some(20))]);
    let cases: [(Duplicates, &[&str]); 3] = [
        (Duplicates::Last, &["1 a 1 20"]),
        (Duplicates::Keep, &["1 a 1 10", "1 a - 20"]),
        (Duplicates::Unique, &["1 a - 20"]),
    ];
    for (duplicates, expected) in cases {
        in_every_state(
            duplicates,
            |engine| {
                write(engine, &first, OnConflict::Replace).unwrap();
                write(engine, &second, OnConflict::Replace).unwrap();
            },
            |engine, state| assert_eq!(points_of(engine), expected, "{duplicates:?}, {state}"),
        );
    }
}

#[test]
fn rows_without_any_field_are_rows() {
    for duplicates in [Duplicates::Last, Duplicates::Keep, Duplicates::Unique] {
        in_every_state(
            duplicates,
            |engine| {
                let rows = batch(vec![("time", times(&[1, 2]))]);
                write(engine, &rows, OnConflict::Replace).unwrap();
                write(
                    engine,
                    &points(&[("a", 1, None, None)]),
                    OnConflict::Replace,
                )
                .unwrap();
            },
            |engine, state| {
                let mut rows = points_of(engine);
                rows.sort();
                assert_eq!(rows, ["1 - - -", "1 a - -", "2 - - -"], "{state}");
            },
        );
    }
}

#[test]
fn typed_rows_and_lines_meet_in_the_same_series() {
    let engine = store(Duplicates::Last);
    let mut lines = Session::new(Arc::clone(&engine), "d").unwrap();
    for round in 0..2 {
        let body = format!("m,disk=x,host=a busy=1 {round}\nm,host=b busy=2 {round}");
        lines
            .write_lines(body.as_bytes(), Precision::Nanosecond)
            .unwrap();
        let rows = batch(vec![
            ("time", times(&[round, round])),
            ("count", Arc::new(Int64Array::from(vec![7, 8]))),
            ("host", Arc::new(StringArray::from(vec!["a", "b"]))),
            ("disk", Arc::new(StringArray::from(vec![Some("x"), None]))),
        ]);
        write(&engine, &rows, OnConflict::Replace).unwrap();
    }
    assert_eq!(
        points_of(&engine),
        ["0 a 1 7", "1 a 1 7", "0 b 2 8", "1 b 2 8"]
    );
    let snapshot = engine.snapshot();
    let series = snapshot.series_count(&typed_store::table(&snapshot), &[]);
    assert_eq!(series.unwrap(), 2);
}

#[test]
fn a_batch_sent_again_under_its_key_is_written_once() {
    let engine = store(Duplicates::Unique);
    let rows = points(&[("a", 1, Some(1.0), None), ("b", 1, None, None)]);
    let mut session = session(&engine);
    let first = session
        .write_arrow_once([7; 16], Target::table("m"), &rows, OnConflict::Error)
        .unwrap();
    assert_eq!((first.written, first.repeated), (2, false));
    let again = session
        .write_arrow_once([7; 16], Target::table("m"), &rows, OnConflict::Error)
        .unwrap();
    assert_eq!(
        (again.written, again.lsn, again.repeated),
        (2, first.lsn, true)
    );
    let other = session.write_arrow_once([8; 16], Target::table("m"), &rows, OnConflict::Error);
    assert!(matches!(other, Err(Error::RowConflict { row: 1, .. })));
    assert_eq!(points_of(&engine), ["1 a 1 -", "1 b - -"]);
}

/// By its name alone a column is what the table shows under it, so a tag could not be written where a field had its name: the
/// copy of a measurement lost its series.
#[test]
fn a_tag_and_a_field_of_one_name_come_as_what_they_say_that_they_are() {
    let engine = store(Duplicates::Last);
    let column = |name: &str, array: &ArrayRef, stated: Stated| {
        stated.said_of(Field::new(name, array.data_type().clone(), true))
    };
    let words = |words: &[&str]| -> ArrayRef { Arc::new(StringArray::from(words.to_vec())) };
    let time: ArrayRef = times(&[1, 2]);
    let (host, note) = (words(&["a", "b"]), words(&["x", "y"]));
    let of = |columns: Vec<(Field, ArrayRef)>| {
        let (mut fields, mut arrays) = (
            vec![Field::new("time", DataType::Int64, false)],
            vec![Arc::clone(&time)],
        );
        for (field, array) in columns {
            fields.push(field);
            arrays.push(array);
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
    };
    let missing = Missing {
        tags: None,
        adds_columns: true,
        duplicates: Duplicates::Last,
    };
    let write = |rows: &RecordBatch| {
        let target = Target::table("both");
        let mut session = session(&engine);
        session.make_missing_for(target, rows, missing, OnConflict::Replace)?;
        session.write_arrow(target, rows, OnConflict::Replace)
    };
    // The field first, then the tag of its name, then both together.
    write(&of(vec![(
        column("host", &note, Stated::Field),
        Arc::clone(&note),
    )]))
    .unwrap();
    write(&of(vec![
        (column("host", &host, Stated::Tag), Arc::clone(&host)),
        (column("v", &note, Stated::Field), Arc::clone(&note)),
    ]))
    .unwrap();
    write(&of(vec![
        (column("host", &host, Stated::Tag), Arc::clone(&host)),
        (column("host", &note, Stated::Field), Arc::clone(&note)),
    ]))
    .unwrap();
    let snapshot = engine.snapshot();
    let table = snapshot.table("d", "public", "both").unwrap();
    let tags: Vec<&str> = table.tags.iter().map(|tag| tag.name.as_str()).collect();
    let fields: Vec<&str> = table
        .fields
        .iter()
        .map(|field| field.name.as_str())
        .collect();
    assert_eq!((tags, fields), (vec!["host"], vec!["host", "v"]));
    assert_eq!(snapshot.series_count(&table, &[]).unwrap(), 3);
    // Once by what it says, and once by the name under which the table shows it.
    let twice = of(vec![
        (column("host", &note, Stated::Field), Arc::clone(&note)),
        (
            Field::new("host_1", DataType::Utf8, true),
            Arc::clone(&note),
        ),
    ]);
    let refusal = write(&twice).unwrap_err().to_string();
    assert!(refusal.contains("given twice"), "{refusal}");
}
