//! Promise: what was declared of a column holds at every write, line protocol or typed, is shown as declared, and is there
//! again after a crash and after a flush. What is expected of values is what PostgreSQL 15 prints for them.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Date32Array, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampNanosecondArray,
};
use arrow_schema::{DataType, Field, Schema};
use nilometer_engine::disk::MemoryDisk;
use nilometer_engine::ingest::{OnConflict, Session, Target};
use nilometer_engine::{
    Check, ColumnKind, ConstraintKind, Declarations, Declared, DeclaredTable, DeclaredTime,
    Duplicates, Engine, Error, LogicalType, NewColumn, NewRelation, PhysicalType, RelationColumn,
    SQL_TYPE, ScanRequest, TableSettings, TimeKind,
};
use nilometer_lineproto::Precision;

use LogicalType as T;

const DAY_NS: i64 = 86_400_000_000_000;

fn numeric(precision: u8, scale: u8) -> T {
    T::Numeric { precision, scale }
}

fn of(of: T) -> Declared {
    Declared {
        of: Some(of),
        ..Declared::default()
    }
}

/// Every type, with a text of it and how it is shown.
fn types() -> Vec<(&'static str, T, &'static str, &'static str)> {
    vec![
        ("small", T::SmallInt, " -32768", "-32768"),
        ("int", T::Integer, "2147483647", "2147483647"),
        ("re", T::Real, "1.1", "1.1"),
        ("price", numeric(10, 2), "-12.345", "-12.35"),
        (
            "big",
            numeric(38, 3),
            "12345678901234567890123456789012345.6785",
            "12345678901234567890123456789012345.679",
        ),
        (
            "name",
            T::Varchar(3),
            "\u{e4}\u{f6}\u{fc}   ",
            "\u{e4}\u{f6}\u{fc}",
        ),
        ("code", T::Char(4), "ab ", "ab"),
        (
            "id",
            T::Uuid,
            "{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        ),
        ("day", T::Date, "2024-02-29", "2024-02-29"),
        (
            "clock",
            T::Timestamp,
            "2024-02-29 12:00:00.123456789",
            "2024-02-29T12:00:00.123456789",
        ),
        (
            "moment",
            T::TimestampTz,
            "2024-02-29T12:00:00+02",
            "2024-02-29T10:00:00Z",
        ),
        ("hour", T::Time, "23:59:59.5", "23:59:59.5"),
        (
            "span",
            T::Interval,
            "1 year 2 days 03:04:05",
            "1 year 2 days 03:04:05",
        ),
        ("doc", T::Json, " {\"b\":1} ", " {\"b\":1} "),
        (
            "docb",
            T::Jsonb,
            " {\"b\":1,\"a\":[]} ",
            "{\"a\": [], \"b\": 1}",
        ),
    ]
}

fn store() -> Arc<Engine> {
    open(&MemoryDisk::new())
}

fn open(disk: &MemoryDisk) -> Arc<Engine> {
    let engine = crate::typed_store::open(disk);
    engine.create_database("d").unwrap();
    engine
}

fn make(engine: &Engine, table: DeclaredTable, columns: &[(&str, ColumnKind, Declared)]) {
    let new: Vec<NewColumn<'_>> = columns
        .iter()
        .map(|&(name, kind, _)| NewColumn { name, kind })
        .collect();
    let declared = Declarations {
        table,
        columns: columns.iter().map(|it| it.2.clone()).collect(),
    };
    let settings = TableSettings {
        duplicates: Duplicates::Keep,
        ..TableSettings::default()
    };
    let made = engine.create_declared_table("d", "public", "t", &new, settings, &declared);
    assert!(made.unwrap());
}

fn field(of: T) -> ColumnKind {
    ColumnKind::Field(of.physical())
}

fn every_type(engine: &Engine) {
    let columns: Vec<(&str, ColumnKind, Declared)> = types()
        .into_iter()
        .map(|(name, kind, ..)| (name, field(kind), of(kind)))
        .collect();
    make(engine, DeclaredTable::default(), &columns);
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns
        .into_iter()
        .map(|(name, array)| (Field::new(name, array.data_type().clone(), true), array))
        .unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

fn write(engine: &Arc<Engine>, rows: &RecordBatch) -> Result<(), Error> {
    let mut session = Session::new(Arc::clone(engine), "d").unwrap();
    let target = Target::table("t");
    let written = session.write_arrow(target, rows, OnConflict::Replace);
    written.map(drop)
}

fn text(value: &str) -> ArrayRef {
    Arc::new(StringArray::from(vec![value]))
}

/// The rows of the table as SQL shows them: columns in their order, values as Arrow prints them.
fn shown(engine: &Arc<Engine>) -> Vec<Vec<String>> {
    let table = engine.snapshot().table("d", "public", "t").unwrap();
    let columns = Arc::clone(table.shown_columns());
    let types: Vec<Option<T>> = (0..columns.len())
        .map(|at| {
            let position = columns.position(at).unwrap();
            let source = table.source(position).unwrap();
            match source {
                nilometer_engine::ColumnSource::Field(at) => table.fields[at].of(),
                _ => None,
            }
        })
        .collect();
    let scan = engine
        .snapshot()
        .scan(&ScanRequest {
            table: Arc::clone(&table),
            projection: (0..columns.len())
                .map(|at| columns.position(at).unwrap())
                .collect(),
            time: i64::MIN..=i64::MAX,
            tags: Vec::new(),
            limit: None,
        })
        .unwrap();
    let mut rows = Vec::new();
    for read in (0..scan.morsels()).flat_map(|morsel| scan.read(morsel)) {
        let read = read.unwrap();
        let arrays: Vec<ArrayRef> = read
            .columns()
            .iter()
            .enumerate()
            .map(|(at, array)| {
                let shown = columns.show(at, array);
                assert_eq!(shown.data_type(), columns.schema.field(at).data_type());
                shown
            })
            .collect();
        for row in 0..read.num_rows() {
            rows.push(
                arrays
                    .iter()
                    .zip(read.columns())
                    .zip(&types)
                    .map(|((array, stored), kind)| cell(array, stored, *kind, row))
                    .collect(),
            );
        }
    }
    rows
}

/// A value as a person reads it.
fn cell(array: &ArrayRef, stored: &ArrayRef, kind: Option<T>, row: usize) -> String {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{
        Date32Type, Decimal128Type, Float32Type, Int64Type, TimestampNanosecondType,
    };
    if array.is_null(row) {
        return "NULL".to_owned();
    }
    // Kinds that print themselves from what is stored.
    if let Some(kind) = kind {
        let integer = stored.as_primitive_opt::<Int64Type>();
        let integer = integer.map(|it| it.value(row));
        let bytes = stored.as_binary_opt::<i32>().map(|it| it.value(row));
        if let Some(printed) = kind.print(integer, bytes) {
            return printed;
        }
    }
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(row).to_owned(),
        DataType::Float32 => array.as_primitive::<Float32Type>().value(row).to_string(),
        DataType::Float64 => array
            .as_primitive::<arrow_array::types::Float64Type>()
            .value(row)
            .to_string(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Date32 => array.as_primitive::<Date32Type>().value(row).to_string(),
        DataType::Decimal128(..) => array.as_primitive::<Decimal128Type>().value_as_string(row),
        DataType::Timestamp(..) => array
            .as_primitive::<TimestampNanosecondType>()
            .value(row)
            .to_string(),
        DataType::Dictionary(..) => {
            let tags = array.as_any_dictionary();
            let key = tags.normalized_keys()[row];
            tags.values().as_string::<i32>().value(key).to_owned()
        }
        other => panic!("{other}"),
    }
}

#[test]
fn every_type_is_taken_from_text_and_shown_as_itself() {
    let disk = MemoryDisk::new();
    let engine = open(&disk);
    every_type(&engine);
    let mut columns: Vec<(&str, ArrayRef)> = vec![("time", Arc::new(Int64Array::from(vec![1])))];
    for (name, _, written, _) in types() {
        columns.push((name, text(written)));
    }
    write(&engine, &batch(columns)).unwrap();
    let mut expected = vec!["1".to_owned()];
    expected.extend(types().into_iter().map(|it| it.3.to_owned()));
    assert_eq!(
        shown(&engine),
        std::slice::from_ref(&expected),
        "in the head"
    );
    let says = |engine: &Arc<Engine>| {
        let table = engine.snapshot().table("d", "public", "t").unwrap();
        for ((name, kind, ..), field) in types()
            .into_iter()
            .zip(table.shown_columns().schema.fields().iter().skip(1))
        {
            assert_eq!(field.name(), name);
            assert_eq!(field.metadata()[SQL_TYPE], kind.to_string());
            assert_eq!(field.data_type(), &kind.shown_type());
        }
    };
    says(&engine);
    // As a kill leaves it: everything from the log.
    drop(engine);
    let engine = open(&disk);
    says(&engine);
    assert_eq!(
        shown(&engine),
        std::slice::from_ref(&expected),
        "from the log"
    );
    engine.flush().unwrap();
    drop(engine);
    let engine = open(&disk);
    says(&engine);
    assert_eq!(shown(&engine), [expected], "from files");
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn what_a_type_has_not_is_refused_with_column_value_and_type() {
    let engine = store();
    every_type(&engine);
    let days = |days: i32| -> ArrayRef { Arc::new(Date32Array::from(vec![days])) };
    let cases: Vec<(&str, ArrayRef, ConstraintKind, &str)> = vec![
        (
            "small",
            Arc::new(Int64Array::from(vec![32768])),
            ConstraintKind::OutOfRange,
            "32768 is out of range for type smallint",
        ),
        (
            "int",
            text("2147483648"),
            ConstraintKind::OutOfRange,
            "2147483648 is out of range for type integer",
        ),
        (
            "int",
            text("1.5"),
            ConstraintKind::InvalidText,
            "\"1.5\" is no value of type integer",
        ),
        (
            "re",
            Arc::new(Float64Array::from(vec![1e39])),
            ConstraintKind::OutOfRange,
            "is out of range for type real",
        ),
        (
            "price",
            text("100000000"),
            ConstraintKind::OutOfRange,
            "100000000 is out of range for type numeric(10,2)",
        ),
        (
            "price",
            text("99999999.995"),
            ConstraintKind::OutOfRange,
            "99999999.995 is out of range for type numeric(10,2)",
        ),
        (
            "price",
            Arc::new(Float64Array::from(vec![f64::NAN])),
            ConstraintKind::OutOfRange,
            "NaN is out of range for type numeric(10,2)",
        ),
        (
            "name",
            text("abcd"),
            ConstraintKind::TooLong,
            "a text of 4 letters is too long for type varchar(3)",
        ),
        (
            "code",
            text("abcde"),
            ConstraintKind::TooLong,
            "a text of 5 letters is too long for type char(4)",
        ),
        (
            "id",
            text("x"),
            ConstraintKind::InvalidText,
            "\"x\" is no value of type uuid",
        ),
        (
            "day",
            text("2023-02-29"),
            ConstraintKind::TimeRange,
            "\"2023-02-29\" is out of range for type date",
        ),
        (
            "clock",
            days(i32::MAX),
            ConstraintKind::TimeRange,
            "is out of range for type timestamp",
        ),
        (
            "hour",
            text("25:00"),
            ConstraintKind::InvalidTime,
            "\"25:00\" is no value of type time",
        ),
        (
            "span",
            text("soon"),
            ConstraintKind::InvalidTime,
            "\"soon\" is no value of type interval",
        ),
        (
            "doc",
            text("{"),
            ConstraintKind::InvalidText,
            "\"{\" is no value of type json, at byte 1",
        ),
    ];
    for (name, value, kind, says) in cases {
        let rows = batch(vec![
            ("time", Arc::new(Int64Array::from(vec![1]))),
            (name, value),
        ]);
        let error = write(&engine, &rows).unwrap_err();
        assert_eq!(error.constraint(), Some(kind), "{error}");
        let said = error.to_string();
        assert!(said.contains(says), "{said}");
        assert!(said.contains(&format!("column \"{name}\"")), "{said}");
    }
    assert!(
        shown(&engine).is_empty(),
        "nothing of a refused batch is there"
    );
}

#[test]
fn typed_arrays_round_where_sql_does() {
    let engine = store();
    every_type(&engine);
    let decimal = Decimal128Array::from(vec![1_005_i128])
        .with_precision_and_scale(10, 3)
        .unwrap();
    let rows = batch(vec![
        ("time", Arc::new(Int64Array::from(vec![1]))),
        ("price", Arc::new(decimal)),
        ("big", Arc::new(Float64Array::from(vec![0.1]))),
        ("day", Arc::new(TimestampNanosecondArray::from(vec![-1]))),
        ("moment", Arc::new(Date32Array::from(vec![1]))),
    ]);
    write(&engine, &rows).unwrap();
    let rows = shown(&engine);
    let row = rows.first().unwrap();
    let at = |name: &str| types().iter().position(|it| it.0 == name).unwrap() + 1;
    assert_eq!(row[at("price")], "1.01");
    assert_eq!(row[at("big")], "0.100");
    assert_eq!(row[at("day")], "1969-12-31");
    assert_eq!(row[at("moment")], "1970-01-02T00:00:00Z");
    assert_eq!(row[at("small")], "NULL");
}

fn lines(engine: &Arc<Engine>, lines: &str) -> Vec<String> {
    let mut session = Session::new(Arc::clone(engine), "d").unwrap();
    let report = session.write_lines(lines.as_bytes(), Precision::Nanosecond);
    let rejected = report.unwrap().rejected;
    rejected.into_iter().map(|line| line.reason).collect()
}

#[test]
fn lines_obey_and_are_read_as_the_declared_types() {
    let engine = store();
    every_type(&engine);
    let good = "t small=7i,int=-1i,re=1.1,price=1.005,big=12i,name=\"abc\",id=\"a0eebc999c0b4ef8bb6d6bb9bd380a11\",day=\"2024-01-01\",span=\"2 hours\",docb=\"{\\\"z\\\":1}\" 1";
    assert_eq!(lines(&engine, good), Vec::<String>::new());
    let row = shown(&engine).remove(0);
    let at = |name: &str| types().iter().position(|it| it.0 == name).unwrap() + 1;
    for (name, expected) in [
        ("small", "7"),
        ("re", "1.1"),
        ("price", "1.01"),
        ("big", "12.000"),
        ("day", "2024-01-01"),
        ("span", "02:00:00"),
        ("docb", "{\"z\": 1}"),
    ] {
        assert_eq!(row[at(name)], expected, "{name}");
    }
    // Each bad line goes by itself, the good one between them stays.
    let rejected = lines(
        &engine,
        "t small=40000i 2\nt small=8i 3\nt small=1.5 4\nt name=\"abcd\" 5\nt price=1e300 6\nt id=7i 7\n",
    );
    let expected = [
        "input field \"small\" on measurement \"t\": 40000 is out of range for type smallint",
        "input field \"small\" on measurement \"t\": \"1.5\" is no value of type smallint",
        "input field \"name\" on measurement \"t\": a text of 4 letters is too long for type varchar(3)",
        "input field \"price\" on measurement \"t\": 1000",
        "input field \"id\" on measurement \"t\": \"7i\" is no value of type uuid",
    ];
    assert_eq!(rejected.len(), expected.len(), "{rejected:?}");
    for (found, expected) in rejected.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}");
    }
    assert_eq!(shown(&engine).len(), 2);
}

#[test]
fn not_null_and_checks_refuse_lines_and_batches() {
    let engine = store();
    let required = Declared {
        not_null: true,
        ..Declared::default()
    };
    make(
        &engine,
        DeclaredTable::default(),
        &[
            ("host", ColumnKind::Tag, required.clone()),
            ("v", ColumnKind::Field(PhysicalType::F64), required),
            (
                "w",
                ColumnKind::Field(PhysicalType::F64),
                Declared::default(),
            ),
        ],
    );
    let rejected = lines(
        &engine,
        "t,host=a v=1 1\nt,host=a w=1 2\nt v=1 3\nt,host=a v=2,w=2 4\n",
    );
    assert_eq!(
        rejected,
        [
            "the point has no field \"v\", which is NOT NULL in table \"t\"",
            "the point has no tag \"host\", which is NOT NULL in table \"t\"",
        ]
    );
    let time = || -> ArrayRef { Arc::new(Int64Array::from(vec![9, 10])) };
    let floats = |second| -> ArrayRef { Arc::new(Float64Array::from(vec![Some(1.0), second])) };
    let hosts = || -> ArrayRef { Arc::new(StringArray::from(vec!["a", "b"])) };
    for (rows, column, row) in [
        (vec![("time", time()), ("host", hosts())], "v", 1),
        (
            vec![("time", time()), ("host", hosts()), ("v", floats(None))],
            "v",
            2,
        ),
        (vec![("time", time()), ("v", floats(Some(1.0)))], "host", 1),
    ] {
        let error = write(&engine, &batch(rows)).unwrap_err();
        let Error::Constraint {
            kind: ConstraintKind::NotNull,
            column: Some(found),
            row: at,
            ..
        } = &error
        else {
            panic!("{error}");
        };
        assert_eq!((found.as_str(), *at), (column, row), "{error}");
    }
    write(
        &engine,
        &batch(vec![
            ("time", time()),
            ("host", hosts()),
            ("v", floats(Some(2.0))),
        ]),
    )
    .unwrap();
    assert_eq!(shown(&engine).len(), 4);
    engine
        .declare_table("d", "public", "t", |table| {
            table.checks.push(Check {
                name: "positive".to_owned(),
                expression: "v > 0".to_owned(),
            });
        })
        .unwrap();
    let rejected = lines(&engine, "t,host=a v=1 20\n");
    assert!(rejected[0].contains("CHECK \"positive\""), "{rejected:?}");
}

#[test]
fn a_time_column_has_its_own_name_kind_and_place() {
    let engine = store();
    let place = |position| Declared {
        position: Some(position),
        ..Declared::default()
    };
    make(
        &engine,
        DeclaredTable {
            time: Some(DeclaredTime {
                name: "day".to_owned(),
                kind: TimeKind::Date,
                column: place(1),
            }),
            ..DeclaredTable::default()
        },
        &[
            ("v", ColumnKind::Field(PhysicalType::I64), place(0)),
            ("host", ColumnKind::Tag, place(2)),
        ],
    );
    let table = engine.snapshot().table("d", "public", "t").unwrap();
    let names: Vec<String> = table
        .shown_columns()
        .schema
        .fields()
        .iter()
        .map(|field| format!("{} {}", field.name(), field.data_type()))
        .collect();
    assert_eq!(
        names,
        ["v Int64", "day Date32", "host Dictionary(Int32, Utf8)"]
    );
    let rows = batch(vec![
        ("v", Arc::new(Int64Array::from(vec![5]))),
        ("day", Arc::new(Date32Array::from(vec![2]))),
    ]);
    write(&engine, &rows).unwrap();
    let text = format!("t v=6i {}\nt v=7i {}\n", 3 * DAY_NS, 3 * DAY_NS + 1);
    let rejected = lines(&engine, &text);
    assert_eq!(rejected.len(), 1);
    assert!(
        rejected[0].contains("not the beginning of a day"),
        "{rejected:?}"
    );
    assert_eq!(shown(&engine), [["5", "2", "NULL"], ["6", "3", "NULL"]]);
}

#[test]
fn a_tag_of_integers_has_one_form() {
    let engine = store();
    make(
        &engine,
        DeclaredTable::default(),
        &[
            ("cid", ColumnKind::Tag, of(T::Integer)),
            (
                "v",
                ColumnKind::Field(PhysicalType::I64),
                Declared::default(),
            ),
        ],
    );
    let rejected = lines(
        &engine,
        "t,cid=7 v=1i 1\nt,cid=-8 v=1i 2\nt,cid=07 v=1i 3\nt,cid=x v=1i 4\nt,cid=2147483648 v=1i 5\nt v=1i 6\n",
    );
    assert_eq!(rejected.len(), 3, "{rejected:?}");
    assert!(
        rejected[0].contains("\"07\" is not the form of an integer"),
        "{rejected:?}"
    );
    assert!(
        rejected[2].contains("out of range for type integer"),
        "{rejected:?}"
    );
    let rows = batch(vec![
        ("time", Arc::new(Int64Array::from(vec![7]))),
        ("cid", Arc::new(Int64Array::from(vec![7]))),
        ("v", Arc::new(Int64Array::from(vec![2]))),
    ]);
    write(&engine, &rows).unwrap();
    let mut found: Vec<String> = shown(&engine)
        .into_iter()
        .map(|row| row[1].clone())
        .collect();
    found.sort();
    assert_eq!(found, ["-8", "7", "7", "NULL"]);
    let refused = engine.add_declared_column(
        "d",
        "public",
        "t",
        NewColumn {
            name: "f",
            kind: ColumnKind::Tag,
        },
        &of(T::Real),
    );
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("a tag is text or an integer")
    );
}

#[test]
fn a_relation_keeps_what_was_declared() {
    let disk = MemoryDisk::new();
    let engine = open(&disk);
    let column = |name: &str, kind: T| RelationColumn {
        name: name.to_owned(),
        kind: kind.physical(),
        nullable: true,
    };
    let new = NewRelation {
        columns: vec![
            RelationColumn {
                nullable: false,
                ..column("id", T::Uuid)
            },
            column("price", numeric(5, 1)),
        ],
        primary_key: vec!["id".to_owned()],
        unique: Vec::new(),
    };
    let declared = Declarations {
        table: DeclaredTable {
            keys: vec![(0, "goods_pkey".to_owned())],
            ..DeclaredTable::default()
        },
        columns: vec![of(T::Uuid), of(numeric(5, 1))],
    };
    let made = engine.create_declared_relation("d", "public", "goods", &new, declared.clone());
    assert!(made.unwrap());
    engine
        .declare_relation("d", "public", "goods", |declared| {
            declared.table.comment = Some("what is sold".to_owned());
        })
        .unwrap();
    let expected = Declarations {
        table: DeclaredTable {
            comment: Some("what is sold".to_owned()),
            ..declared.table
        },
        columns: declared.columns,
    };
    let schema = |engine: &Arc<Engine>| {
        let reader = engine.snapshot().relation("d", "public", "goods").unwrap();
        Arc::clone(reader.schema())
    };
    let rows = |id: &str, price: &str| batch(vec![("price", text(price)), ("id", text(id))]);
    let id = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
    let values = schema(&engine).rows_of(&rows(id, "1.25")).unwrap();
    let change = nilometer_engine::RelationChange::Insert(schema(&engine), values);
    engine.write_relations(&[change]).unwrap();
    let refused = schema(&engine).rows_of(&rows(id, "10000")).unwrap_err();
    assert_eq!(refused.constraint(), Some(ConstraintKind::OutOfRange));
    for flushed in [false, true, true] {
        let schema = schema(&engine);
        assert_eq!(schema.declared.as_deref(), Some(&expected), "{flushed}");
        let reader = engine.snapshot().relation("d", "public", "goods").unwrap();
        let read = reader.read(&[0, 1]).next().unwrap();
        let shown = schema.shown_columns();
        let ids = shown.show(0, read.column(0));
        let prices = shown.show(1, read.column(1));
        assert_eq!(cell(&ids, read.column(0), None, 0), id);
        assert_eq!(cell(&prices, read.column(1), None, 0), "1.3");
        if flushed {
            engine.flush().unwrap();
        }
    }
    drop(engine);
    let engine = open(&disk);
    assert_eq!(schema(&engine).declared.as_deref(), Some(&expected));
}
