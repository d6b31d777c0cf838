//! Documents of each form, byte for byte. What is expected is what `InfluxDB` 1.6.7 answered to the same rows, or what Go's
//! and the format's own documentation give.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringArray, TimestampNanosecondArray, UInt64Array, types::Int32Type,
};
use axum::http::HeaderValue;

use super::*;

fn head(name: &str, tags: &[(&str, &str)]) -> SetHead {
    let tags = tags.iter();
    SetHead {
        name: name.into(),
        tags: tags
            .map(|(key, value)| ((*key).into(), (*value).into()))
            .collect(),
    }
}

fn times(values: Vec<i64>) -> ArrayRef {
    Arc::new(TimestampNanosecondArray::from(values).with_timezone("UTC"))
}

fn rows(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(
        columns
            .into_iter()
            .map(|(name, column)| (name, column, true)),
    )
    .unwrap()
}

fn cpu() -> RecordBatch {
    rows(vec![
        ("time", times(vec![1_000_000_000, 1_500_000_000])),
        ("mean", Arc::new(Float64Array::from(vec![Some(1.0), None]))),
        ("n", Arc::new(Int64Array::from(vec![Some(-2), Some(3)]))),
    ])
}

/// A document of one result of these series.
fn document(form: Form, times: Times, series: &[(SetHead, RecordBatch)]) -> Vec<u8> {
    let (mut encoder, mut out) = (form.encoder(times, false), Vec::new());
    encoder.begin(1, &mut out);
    encoder.begin_result(0, &[], &mut out);
    for (head, rows) in series {
        encoder.begin_series(head, rows.schema_ref(), &mut out);
        encoder.rows(&Arc::new(rows.clone()), 0..rows.num_rows(), &mut out);
        encoder.end_series(false, &mut out);
    }
    encoder.end_result(ResultEnd::default(), &mut out);
    encoder.end(&mut out);
    out
}

fn text(form: &str, times: Times, series: &[(SetHead, RecordBatch)]) -> String {
    String::from_utf8(document(accepted(form), times, series)).unwrap()
}

fn accepted(accept: &str) -> Form {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::try_from(accept).unwrap());
    Form::accepted(&headers)
}

#[test]
fn json_leaves_out_what_is_empty_and_keeps_the_order_of_members() {
    let series = [
        (head("cpu", &[("host", "a")]), cpu()),
        (
            head("", &[]),
            rows(vec![(
                "name",
                Arc::new(StringArray::from(Vec::<&str>::new())),
            )]),
        ),
    ];
    assert_eq!(
        text("application/json", Times::Text, &series),
        concat!(
            r#"{"results":[{"statement_id":0,"series":[{"name":"cpu","tags":{"host":"a"},"columns":["time","mean","n"],"#,
            r#""values":[["1970-01-01T00:00:01Z",1,-2],["1970-01-01T00:00:01.5Z",null,3]]},{"columns":["name"]}]}]}"#,
            "\n"
        )
    );
}

#[test]
fn json_says_messages_partial_and_errors_after_the_series() {
    let (mut json, mut out) = (Json::new(Times::Text, false), Vec::new());
    let message = Message {
        level: "warning",
        text: "deprecated".to_owned(),
    };
    json.begin(2, &mut out);
    json.begin_result(0, &[message], &mut out);
    let rows = cpu();
    json.begin_series(&head("m", &[]), rows.schema_ref(), &mut out);
    json.rows(&Arc::new(rows.clone()), 0..1, &mut out);
    json.end_series(true, &mut out);
    json.end_result(
        ResultEnd {
            is_partial: true,
            error: None,
        },
        &mut out,
    );
    json.begin_result(1, &[], &mut out);
    json.end_result(
        ResultEnd {
            is_partial: false,
            error: Some("not executed"),
        },
        &mut out,
    );
    json.end(&mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        concat!(
            r#"{"results":[{"statement_id":0,"series":[{"name":"m","columns":["time","mean","n"],"#,
            r#""values":[["1970-01-01T00:00:01Z",1,-2]],"partial":true}],"#,
            r#""messages":[{"level":"warning","text":"deprecated"}],"partial":true},"#,
            r#"{"statement_id":1,"error":"not executed"}]}"#,
            "\n"
        )
    );
}

/// A statement that failed in the middle left its first rows in the answer, inside brackets that nothing closed.
#[test]
fn a_result_that_fails_in_the_middle_of_a_series_is_closed_or_taken_back() {
    for is_taken_back in [false, true] {
        let (mut json, mut out) = (Json::new(Times::Text, false), Vec::new());
        json.begin(1, &mut out);
        let at = out.len();
        json.begin_result(0, &[], &mut out);
        let rows = cpu();
        json.begin_series(&head("m", &[]), rows.schema_ref(), &mut out);
        json.rows(&Arc::new(rows.clone()), 0..rows.num_rows(), &mut out);
        if is_taken_back {
            out.truncate(at);
            json.take_back_result();
            json.begin_result(0, &[], &mut out);
        }
        json.end_result(
            ResultEnd {
                is_partial: false,
                error: Some("e"),
            },
            &mut out,
        );
        json.end(&mut out);
        let document: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let result = &document["results"][0];
        assert_eq!(result["error"], "e");
        assert_eq!(result.get("series").is_none(), is_taken_back, "{document}");
    }
}

#[test]
fn json_for_people_is_indented_as_go_indents_it() {
    let (mut json, mut out) = (Json::new(Times::Text, true), Vec::new());
    let names = rows(vec![("name", Arc::new(StringArray::from(vec!["d"])))]);
    json.begin(1, &mut out);
    json.begin_result(0, &[], &mut out);
    json.begin_series(&head("databases", &[]), names.schema_ref(), &mut out);
    json.rows(&Arc::new(names.clone()), 0..names.num_rows(), &mut out);
    json.end_series(false, &mut out);
    json.end_result(ResultEnd::default(), &mut out);
    json.end(&mut out);
    let expected = r#"{
    "results": [
        {
            "statement_id": 0,
            "series": [
                {
                    "name": "databases",
                    "columns": [
                        "name"
                    ],
                    "values": [
                        [
                            "d"
                        ]
                    ]
                }
            ]
        }
    ]
}
"#;
    assert_eq!(String::from_utf8(out).unwrap(), expected);
    let (mut json, mut out) = (Json::new(Times::Text, false), Vec::new());
    json.begin(0, &mut out);
    json.end(&mut out);
    assert_eq!(out, b"{}\n");
}

/// Each pair is a float and what Go's `encoding/json` prints for it.
#[test]
fn floats_in_json_are_those_of_go() {
    for (value, printed) in [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (0.1, "0.1"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (-1.5e21, "-1.5e+21"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (1.5e-9, "1.5e-9"),
        (f64::MAX, "1.7976931348623157e+308"),
        (5e-324, "5e-324"),
        (123_456_789.125, "123456789.125"),
        (f64::NAN, "null"),
        (f64::INFINITY, "null"),
    ] {
        let mut out = Vec::new();
        number::push_json_float(value, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), printed);
    }
}

#[test]
fn texts_in_json_escape_what_go_escapes() {
    for (text, printed) in [
        ("", "\"\""),
        ("a\"b\\c", r#""a\"b\\c""#),
        ("<script>&", r#""\u003cscript\u003e\u0026""#),
        ("\n\r\t\u{1}", r#""\n\r\t\u0001""#),
        ("\u{2028}\u{2029}\u{2030}", "\"\\u2028\\u2029\u{2030}\""),
        ("gr\u{fc}n\u{1f40a}", "\"gr\u{fc}n\u{1f40a}\""),
    ] {
        let mut out = Vec::new();
        text::push_json_text(text, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), printed);
    }
}

/// Times and their texts are those of `date -u` and, in Berlin, of `TZ=Europe/Berlin date`.
#[test]
fn times_are_text_with_as_many_digits_as_they_need_or_integers_of_the_unit() {
    let berlin = Some("Europe/Berlin".parse().unwrap());
    for (ns, zone, printed) in [
        (0, None, "1970-01-01T00:00:00Z"),
        (-1, None, "1969-12-31T23:59:59.999999999Z"),
        (1_709_164_800_120_000_000, None, "2024-02-29T00:00:00.12Z"),
        (i64::MAX, None, "2262-04-11T23:47:16.854775807Z"),
        (i64::MIN, None, "1677-09-21T00:12:43.145224192Z"),
        (951_782_400_000_000_000, None, "2000-02-29T00:00:00Z"),
        (
            1_709_164_800_000_000_000,
            berlin,
            "2024-02-29T01:00:00+01:00",
        ),
        (
            1_719_792_000_000_000_000,
            berlin,
            "2024-07-01T02:00:00+02:00",
        ),
    ] {
        let mut out = Vec::new();
        time::push_rfc3339(ns, zone, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), printed);
    }
    for (epoch, printed) in [
        ("ns", "5400123456789"),
        ("n", "5400123456789"),
        ("u", "5400123456"),
        ("ms", "5400123"),
        ("s", "5400"),
        ("m", "90"),
        ("h", "1"),
        ("fortnight", "5400123456789"),
    ] {
        let rows = rows(vec![("time", times(vec![5_400_123_456_789]))]);
        let json = text(
            "application/json",
            Times::of_epoch(epoch),
            &[(head("m", &[]), rows)],
        );
        assert!(json.contains(&format!("[[{printed}]]")), "{epoch}: {json}");
    }
    assert_eq!(Times::of_epoch(" "), Times::Text);
}

#[test]
fn every_type_of_column_has_its_values() {
    let words: DictionaryArray<Int32Type> = vec![Some("x"), None].into_iter().collect();
    let rows = rows(vec![
        ("u", Arc::new(UInt64Array::from(vec![u64::MAX, 0]))),
        ("i", Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX]))),
        ("b", Arc::new(BooleanArray::from(vec![Some(true), None]))),
        ("t", Arc::new(words)),
    ]);
    assert_eq!(
        text("application/json", Times::Text, &[(head("m", &[]), rows)]),
        concat!(
            r#"{"results":[{"statement_id":0,"series":[{"name":"m","columns":["u","i","b","t"],"values":"#,
            r#"[[18446744073709551615,-9223372036854775808,true,"x"],[0,9223372036854775807,null,null]]}]}]}"#,
            "\n"
        )
    );
}

/// Series of few rows are ranges of one batch. What is kept of a batch from one series to the next must not show: neither the row
/// before a range, nor text that has left, nor the columns of another batch.
#[test]
fn series_that_are_ranges_of_a_batch_are_written_as_batches_of_their_own_are() {
    let texts = [
        "a", "a", "b\"", "b\"", "a", "a", "a", "a", "a", "a", "a", "c", "c", "c", "c", "c",
    ];
    let words: DictionaryArray<Int32Type> = texts.into_iter().collect();
    let gaps = (0..16).map(|row| (row % 5 != 2).then_some("x"));
    let gaps: DictionaryArray<Int32Type> = gaps.collect();
    let numbers = (0..16).map(|row| (row % 3 > 0).then_some(row));
    let numbers: Int64Array = numbers.collect();
    let batch = Arc::new(rows(vec![
        ("time", times((0..16).collect())),
        ("w", Arc::new(words)),
        ("g", Arc::new(gaps)),
        ("n", Arc::new(numbers)),
    ]));
    let other = Arc::new(cpu());
    let ranges = [0..1, 1..3, 3..3, 3..12, 12..13, 13..16];
    for accept in ["application/json", "text/csv", "application/x-msgpack"] {
        for is_pretty in [false, true] {
            let document = |is_alone: bool| {
                let form = accepted(accept);
                let (mut encoder, mut out) = (form.encoder(Times::Text, is_pretty), Vec::new());
                let mut sent = Vec::new();
                encoder.begin(1, &mut out);
                encoder.begin_result(0, &[], &mut out);
                for (nth, range) in ranges.iter().enumerate() {
                    let head = head("m", &[("h", &nth.to_string())]);
                    let (own, own_rows) = if is_alone {
                        (
                            Arc::new(batch.slice(range.start, range.len())),
                            0..range.len(),
                        )
                    } else {
                        (Arc::clone(&batch), range.clone())
                    };
                    encoder.begin_series(&head, &own.schema(), &mut out);
                    encoder.rows(&own, own_rows, &mut out);
                    encoder.end_series(false, &mut out);
                    if !encoder.holds_results() {
                        sent.append(&mut out);
                    }
                    if nth % 2 == 0 {
                        encoder.begin_series(&head, &other.schema(), &mut out);
                        encoder.rows(&other, 0..1, &mut out);
                        encoder.end_series(false, &mut out);
                    }
                }
                encoder.end_result(ResultEnd::default(), &mut out);
                encoder.end(&mut out);
                sent.append(&mut out);
                sent
            };
            let (found, expected) = (document(false), document(true));
            assert_eq!(
                String::from_utf8_lossy(&found),
                String::from_utf8_lossy(&expected)
            );
        }
    }
}

/// Words that stand side by side are written once for all rows that have the same ones, in the batches behind too. The rows that
/// are expected are put together here.
#[test]
fn rows_that_repeat_their_words_are_written_as_any_others() {
    const ROWS: i32 = 5000;
    let list = |count: i32, name: &str, padding: usize| -> ArrayRef {
        let words = (0..count).map(|word| format!("{name}\"{word:0padding$}"));
        Arc::new(StringArray::from_iter_values(words))
    };
    // Few of them, some, one for each row, and more than are remembered.
    for (hosts, padding) in [(3, 1), (700, 1), (ROWS, 1), (1000, 2000)] {
        let form = accepted("application/json");
        let (mut encoder, mut out) = (form.encoder(Times::Text, false), Vec::new());
        let (mut expected, mut written) = (String::new(), String::new());
        encoder.begin(1, &mut out);
        encoder.begin_result(0, &[], &mut out);
        let shared = [list(hosts, "host", padding), list(7, "rack", 1)];
        let other = [list(hosts, "machine", padding), list(7, "rack", 1)];
        for (number, lists) in (0..).zip([&shared, &shared, &other, &shared]) {
            let host = |row: i32| (row % 11 > 0).then_some((row * 31 + number) % hosts);
            let keys = [
                (0..ROWS).map(host).collect::<Int32Array>(),
                (0..ROWS).map(|row| Some(row % 7)).collect(),
            ];
            let [hosts, racks] = std::array::from_fn(|tag| {
                let words = Arc::clone(&lists[tag]);
                Arc::new(DictionaryArray::new(keys[tag].clone(), words)) as ArrayRef
            });
            let second = |row: i32| i64::from(row / 4) * 977;
            let seconds = (0..ROWS).map(second);
            let batch = rows(vec![
                (
                    "time",
                    times(seconds.map(|it| it * 1_000_000_000).collect()),
                ),
                ("host", hosts),
                ("rack", racks),
                (
                    "n",
                    Arc::new(
                        (0..ROWS)
                            .map(|row| Some(i64::from(row) - 9))
                            .collect::<Int64Array>(),
                    ),
                ),
            ]);
            let head = head("m", &[("number", &number.to_string())]);
            encoder.begin_series(&head, batch.schema_ref(), &mut out);
            out.clear();
            encoder.rows(&Arc::new(batch), 0..ROWS as usize, &mut out);
            written.push_str(std::str::from_utf8(&out).unwrap());
            encoder.end_series(false, &mut out);
            let word = |tag: usize, key: Option<i32>| {
                let words = lists[tag].as_any().downcast_ref::<StringArray>().unwrap();
                key.map_or("null".to_owned(), |key| {
                    format!("\"{}\"", words.value(key as usize).replace('"', "\\\""))
                })
            };
            let lines = (0..ROWS).map(|row| {
                let time = chrono::DateTime::from_timestamp(second(row), 0).unwrap();
                format!(
                    "[\"{}\",{},{},{}]",
                    time.format("%Y-%m-%dT%H:%M:%SZ"),
                    word(0, host(row)),
                    word(1, Some(row % 7)),
                    row - 9
                )
            });
            let lines: Vec<String> = lines.collect();
            write!(expected, ",\"values\":[{}", lines.join(",")).unwrap();
        }
        assert_eq!(written.len(), expected.len(), "{hosts} hosts");
        assert!(written == expected, "{hosts} hosts");
    }
}

#[test]
fn csv_has_a_header_where_the_columns_change_and_times_as_nanoseconds() {
    let quoted = rows(vec![
        ("time", times(vec![5])),
        ("a,b", Arc::new(StringArray::from(vec!["say \"hi\""]))),
    ]);
    let series = [
        (head("cpu", &[("host", "a b"), ("dc", "x,y")]), cpu()),
        (head("cpu", &[("host", "b"), ("dc", "")]), cpu()),
        (head("odd,name", &[]), quoted),
    ];
    assert_eq!(
        text("text/csv", Times::Text, &series),
        concat!(
            "name,tags,time,mean,n\n",
            "cpu,\"host=a b,dc=x,y\",1000000000,1,-2\n",
            "cpu,\"host=a b,dc=x,y\",1500000000,,3\n",
            "cpu,host=b,1000000000,1,-2\n",
            "cpu,host=b,1500000000,,3\n",
            "\n",
            "name,tags,time,\"a,b\"\n",
            "\"odd,name\",,5,\"say \"\"hi\"\"\"\n",
        )
    );
    assert_eq!(
        accepted("application/csv").error("no, no", false),
        b"error\n\"no, no\"\n"
    );
}

/// The bytes are those of the format's specification.
#[test]
fn messagepack_counts_what_follows_and_has_times_as_extension_5() {
    let rows = rows(vec![
        ("time", times(vec![1_500_000_000])),
        ("v", Arc::new(Float64Array::from(vec![1.5]))),
        ("n", Arc::new(Int64Array::from(vec![-1]))),
    ]);
    let mut expected = vec![0x81, 0xa7];
    expected.extend(b"results");
    expected.extend([0x91, 0x82, 0xac]);
    expected.extend(b"statement_id");
    expected.extend([0x00, 0xa6]);
    expected.extend(b"series");
    expected.extend([0xdd, 0, 0, 0, 1, 0x83, 0xa4]);
    expected.extend(b"name");
    expected.extend([0xa1, b'm', 0xa7]);
    expected.extend(b"columns");
    expected.extend([0x93, 0xa4]);
    expected.extend(b"time");
    expected.extend([0xa1, b'v', 0xa1, b'n', 0xa6]);
    expected.extend(b"values");
    expected.extend([0xdd, 0, 0, 0, 1, 0x93]);
    expected.extend([0xc7, 12, 5, 0, 0, 0, 0, 0, 0, 0, 1, 0x1d, 0xcd, 0x65, 0x00]);
    expected.extend([0xcb, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0, 0xff]);
    let form = accepted("application/x-msgpack");
    let series = [(head("m", &[]), rows)];
    assert_eq!(document(form, Times::Text, &series), expected);
    assert_eq!(form.error("e", false), b"\x81\xa5error\xa1e");
}

#[test]
fn the_form_is_the_best_that_a_client_accepts_and_json_for_all_others() {
    for (accept, media_type) in [
        ("application/json", "application/json"),
        ("*/*", "application/json"),
        ("text/html", "application/json"),
        ("text/csv", "text/csv"),
        ("text/*", "text/csv"),
        (
            "application/csv;q=0.5, application/x-msgpack",
            "application/x-msgpack",
        ),
        ("text/html, application/csv", "application/csv"),
    ] {
        assert_eq!(accepted(accept).media_type, media_type, "{accept}");
    }
    assert_eq!(
        Form::accepted(&HeaderMap::new()).media_type,
        "application/json"
    );
}
