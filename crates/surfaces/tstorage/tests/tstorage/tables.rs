//! The records as rows of a table that others read, and who may read and write them.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampNanosecondType};
use nilometer_engine::{
    ColumnKind, Duplicates, NewColumn, PhysicalType, ScanRequest, TableSettings,
};
use nilometer_lineproto::Precision;
use nilometer_service::define::{Change, TableChange, TableSetting, run};
use nilometer_service::{
    Grant, LineTarget, Principal, Privileges, Scope, Token, UserChange, change_users,
};

use crate::client::{Answer, MAX, MIN, record};
use crate::server::{Server, World};

/// Seconds from 1970 to 2001, as the protocol's description has them.
const EPOCH: i64 = 978_307_200_000_000_000;

#[test]
fn a_record_is_a_row_with_integer_tags_a_time_and_two_fields() {
    let server = World::default().start();
    let mut client = server.connect();
    let (first, _) = client.put(&[record((7, -8, 9, 1000, 0), "bytes")]).ok();
    let snapshot = server.engine.snapshot();
    let table = snapshot.table("tstorage", "public", "records").unwrap();
    assert_eq!(table.settings.duplicates, Duplicates::Keep);
    assert_eq!(table.time().0, "cap");
    let names: Vec<String> = table
        .shown_columns()
        .schema
        .fields()
        .iter()
        .map(|it| it.name().clone())
        .collect();
    assert_eq!(names, ["cid", "mid", "moid", "cap", "acq", "payload"]);
    let arrow = table.arrow_schema();
    let at = |name: &str| arrow.index_of(name).unwrap();
    let request = ScanRequest {
        projection: vec![
            at("cid"),
            at("mid"),
            at("moid"),
            at("time"),
            at("acq"),
            at("payload"),
        ],
        time: i64::MIN..=i64::MAX,
        tags: Vec::new(),
        limit: None,
        table,
    };
    let rows = snapshot
        .scan(&request)
        .unwrap()
        .read(0)
        .next()
        .unwrap()
        .unwrap();
    let tag = |column: usize| {
        let tag = rows.column(column).as_dictionary::<Int32Type>();
        let key = usize::try_from(tag.keys().value(0)).unwrap();
        tag.values().as_string::<i32>().value(key).to_owned()
    };
    assert_eq!([tag(0), tag(1), tag(2)], ["7", "-8", "9"]);
    let time = rows.column(3).as_primitive::<TimestampNanosecondType>();
    assert_eq!(time.values(), &[EPOCH + 1000]);
    let acq = rows.column(4).as_primitive::<Int64Type>();
    assert_eq!(acq.values(), &[EPOCH + first]);
    assert_eq!(rows.column(5).as_binary::<i32>().value(0), b"bytes");
}

fn make(server: &Server, columns: &[NewColumn<'_>], duplicates: Duplicates) {
    server.engine.create_database("tstorage").unwrap();
    let settings = TableSettings {
        duplicates,
        ..TableSettings::default()
    };
    let made = server
        .engine
        .create_table("tstorage", "public", "records", columns, settings);
    assert!(made.unwrap());
}

fn column(name: &str, kind: ColumnKind) -> NewColumn<'_> {
    NewColumn { name, kind }
}

/// Where the ids of messages do not repeat, a series for each would be one for each record.
#[test]
fn a_table_may_have_ids_that_are_fields_and_more_columns() {
    let server = World::default().start();
    let integer = ColumnKind::Field(PhysicalType::I64);
    make(
        &server,
        &[
            column("cid", ColumnKind::Tag),
            column("site", ColumnKind::Tag),
            column("mid", integer),
            column("moid", integer),
            column("note", ColumnKind::Field(PhysicalType::Text)),
            column("acq", integer),
            column("payload", ColumnKind::Field(PhysicalType::Bytes)),
        ],
        Duplicates::Keep,
    );
    let mut client = server.connect();
    let records: Vec<_> = (0..100)
        .map(|n| record((1, n, 3, n, n), vec![0; 3]))
        .collect();
    client.puta(&records).ok();
    assert_eq!(client.get(MIN, MAX).ok().0, records);
    let some = client.get((0, 10, 0, 0, 5), (2, 20, 4, 15, 100)).ok().0;
    assert_eq!(some, records[10..15]);
    let snapshot = server.engine.snapshot();
    let table = snapshot.table("tstorage", "public", "records").unwrap();
    assert_eq!(snapshot.series_count(&table, &[]).unwrap(), 1);
}

#[test]
fn a_table_of_another_kind_is_left_alone() {
    let integer = ColumnKind::Field(PhysicalType::I64);
    let bytes = ColumnKind::Field(PhysicalType::Bytes);
    let all = [
        column("cid", ColumnKind::Tag),
        column("mid", ColumnKind::Tag),
        column("moid", ColumnKind::Tag),
        column("acq", integer),
        column("payload", bytes),
    ];
    let without = |name: &str| {
        all.into_iter()
            .filter(|it| it.name != name)
            .collect::<Vec<_>>()
    };
    let wrong = [
        (all.to_vec(), Duplicates::Last),
        (without("cid"), Duplicates::Keep),
        (without("acq"), Duplicates::Keep),
        (without("payload"), Duplicates::Keep),
    ];
    for (columns, duplicates) in wrong {
        let server = World::default().start();
        make(&server, &columns, duplicates);
        let refused = server.connect().put(&[record((1, 1, 1, 1, 1), "")]);
        assert_eq!(refused, Answer::Status(-1));
        assert_eq!(server.connect().get(MIN, MAX), Answer::Status(-1));
    }
}

/// Rows that other surfaces write are records if they have what a record has.
#[test]
fn rows_without_a_part_of_the_key_are_no_records() {
    let server = World::default().start();
    let mut client = server.connect();
    client.puta(&[record((1, 1, 1, 1, 1), "a record")]).ok();
    let target = LineTarget {
        principal: Principal::anyone(),
        scope: Scope::of_database("tstorage"),
        creates: false,
        precision: Precision::Nanosecond,
        key: None,
        keeps_policy: false,
    };
    let lines = "records,cid=1,mid=1,moid=1 acq=978307200000000001i 978307200000000001\n\
        records,cid=1,mid=1 acq=978307200000000001i 978307200000000001\n";
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let written = server
        .service
        .write_lines(target, move || Ok::<_, nilometer_service::Error>(lines));
    assert_eq!(runtime.block_on(written).unwrap().rows, 2);
    assert_eq!(client.get(MIN, MAX).ok().0.len(), 1);
}

fn guarded(role: Option<&str>) -> World {
    let mut world = World::default();
    world.service.token = Some(Token::new("0123456789abcdef", "a test").unwrap());
    world.config.role = role.map(str::to_owned);
    world
}

fn user(server: &Server, name: &str, privileges: Privileges) {
    let create = UserChange::Create {
        name: name.to_owned(),
        password: "a password".to_owned(),
        is_admin: false,
    };
    change_users(&server.engine, &Principal::anyone(), create).unwrap();
    let grant = UserChange::Grant {
        user: name.to_owned(),
        grant: Grant {
            database: "tstorage".to_owned(),
            schema: None,
            table: None,
            privileges,
        },
    };
    change_users(&server.engine, &Principal::anyone(), grant).unwrap();
}

#[test]
fn every_client_has_the_privileges_of_the_role() {
    let put = [record((1, 1, 1, 1, 1), "x")];
    let refused = Answer::Status(-1);
    // Everybody has to say who they are, and nobody can.
    let server = guarded(None).start();
    assert_eq!(server.connect().put(&put), refused);
    assert_eq!(server.connect().get_acq(MIN, MAX), Answer::Status(-1));
    // Nobody has this name.
    let server = guarded(Some("meter")).start();
    assert_eq!(server.connect().put(&put), refused);
    server.engine.create_database("tstorage").unwrap();
    user(&server, "meter", Privileges::READ);
    assert_eq!(server.connect().put(&put), refused);
    assert_eq!(server.connect().get(MIN, MAX).ok().0, []);
    let server = guarded(Some("meter")).start();
    server.engine.create_database("tstorage").unwrap();
    user(&server, "meter", Privileges::WRITE);
    server.connect().puta(&put).ok();
    assert_eq!(server.connect().get(MIN, MAX), Answer::Status(-1));
}

fn set_payload(server: &Server, text: &str) {
    let change = Change::AlterTable {
        path: "records".into(),
        if_exists: false,
        change: TableChange::Set(vec![TableSetting::TstoragePayload(text.to_owned())]),
        seen: None,
    };
    let scope = Scope::of_database("tstorage");
    run(&server.engine, &Principal::anyone(), &scope, change).unwrap();
}

/// Rows of `column`, in the order of their times.
fn integers(server: &Server, column: &str) -> Vec<Option<i64>> {
    let snapshot = server.engine.snapshot();
    let table = snapshot.table("tstorage", "public", "records").unwrap();
    let at = table.arrow_schema().index_of(column).unwrap();
    let request = ScanRequest {
        projection: vec![at],
        time: i64::MIN..=i64::MAX,
        tags: Vec::new(),
        limit: None,
        table,
    };
    let scan = snapshot.scan(&request).unwrap();
    (0..scan.morsels())
        .flat_map(|morsel| scan.read(morsel))
        .flat_map(|batch| {
            let batch = batch.unwrap();
            let numbers = batch.column(0).as_primitive::<Int64Type>();
            numbers.iter().collect::<Vec<_>>()
        })
        .collect()
}

/// The benchmark's records: ten integers of 32 bits, the highest byte first.
#[test]
fn numbers_of_payloads_are_columns_and_payloads_stay_as_they_are() {
    let world = World::default();
    let server = world.start();
    let mut client = server.connect();
    let before = record((1, 0, 0, 1, 1), vec![9; 40]);
    client.puta(std::slice::from_ref(&before)).ok();
    set_payload(&server, "usage_user int4be, skip 32, usage_guest int4be");
    let payload = |n: i32| {
        (0..10)
            .flat_map(|at: i32| (n * 100 - at).swap_bytes().to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let mut records = vec![before];
    records.extend((2..10).map(|n: i32| record((1, 0, 0, n.into(), 1), payload(n))));
    // Too short for both, for one, and longer than the schema.
    records.push(record((1, 0, 0, 10, 1), vec![0; 3]));
    records.push(record((1, 0, 0, 11, 1), vec![0; 39]));
    records.push(record((1, 0, 0, 12, 1), vec![1; 100]));
    client.puta(&records[1..]).ok();
    let user = |n: i64| Some(n * 100);
    let mut users = vec![None];
    users.extend((2..10).map(user));
    users.extend([None, Some(0), Some(0x0101_0101)]);
    let mut guests = vec![None];
    guests.extend((2..10).map(|n| Some(n * 100 - 9)));
    guests.extend([None, None, Some(0x0101_0101)]);
    assert_eq!(integers(&server, "usage_user"), users);
    assert_eq!(integers(&server, "usage_guest"), guests);
    assert_eq!(client.get(MIN, MAX).ok().0, records);
    drop((client, server));
    // From files of an earlier start; a column that was dropped is not written any more, and PUT goes on.
    let server = world.start();
    let mut client = server.connect();
    assert_eq!(integers(&server, "usage_user"), users);
    let drop_column = server
        .engine
        .drop_column("tstorage", "public", "records", "usage_user");
    drop_column.unwrap();
    records.push(record((1, 0, 0, 13, 1), payload(13)));
    client.puta(&records[records.len() - 1..]).ok();
    guests.push(Some(13 * 100 - 9));
    assert_eq!(integers(&server, "usage_guest"), guests);
    assert_eq!(client.get(MIN, MAX).ok().0, records);
    // Without a schema nothing is written beside the payloads.
    set_payload(&server, "");
    records.push(record((1, 0, 0, 14, 1), payload(14)));
    client.puta(&records[records.len() - 1..]).ok();
    guests.push(None);
    assert_eq!(integers(&server, "usage_guest"), guests);
    assert_eq!(client.get(MIN, MAX).ok().0, records);
}
