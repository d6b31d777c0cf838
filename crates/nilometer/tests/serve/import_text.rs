//! What cells of CSV mean: encodings, cells that stand for nothing, numbers that no float has.

use serde_json::json;

use crate::support::Scratch;

fn latin1(text: &str) -> Vec<u8> {
    text.chars()
        .map(|c| u8::try_from(u32::from(c)).expect("a character of Latin-1"))
        .collect()
}

const PLACES: &str = "time,city,v\n2024-05-01,M\u{fc}nchen,1\n2024-05-01,M\u{f6}nchen,2\n";

/// A file in Latin-1 was imported with U+FFFD for every umlaut, places that differed in one merged, and "imported 3 rows"
/// was all that was said.
#[test]
fn text_that_is_no_utf8_is_refused_with_its_place_or_converted_on_request() {
    let scratch = Scratch::new();
    scratch.file("places.csv", &latin1(PLACES));
    let stderr = scratch.refused(&["places.csv"]);
    for words in [
        "line 2: byte 2 of column \"city\" is 0xFC",
        "--encoding windows-1252",
        "nothing of it was imported",
    ] {
        assert!(stderr.contains(words), "no {words:?} in {stderr}");
    }
    assert_eq!(scratch.server.refused_query("d", "SELECT 1").status, 404);
    let want = json!([
        {"city": "M\u{fc}nchen", "v": 1},
        {"city": "M\u{f6}nchen", "v": 2},
    ]);
    let select = |table: &str| scratch.rows(&format!("SELECT city, v FROM {table} ORDER BY v"));
    scratch.import(&["--encoding", "latin1", "places.csv"]);
    assert_eq!(select("places"), want);
    // UTF-16 says what it is in its first bytes, as spreadsheets write it.
    let marked = format!("\u{feff}{PLACES}");
    let wide: Vec<u8> = marked.encode_utf16().flat_map(u16::to_le_bytes).collect();
    scratch.file("wide.csv", &wide);
    scratch.import(&["wide.csv"]);
    assert_eq!(select("wide"), want);
}

/// Far into a file, where rows before are on their way, the row is refused and the others are kept.
#[test]
fn a_row_that_is_no_text_is_named_and_can_be_imported_again() {
    let scratch = Scratch::new();
    let mut text = b"time,city,v\n".to_vec();
    for n in 0..12_000 {
        text.extend(format!("{},place,{n}\n", 1_700_000_000 + n).bytes());
    }
    text.extend(latin1("1800000000,M\u{fc}nchen,7\n"));
    scratch.file("long.csv", &text);
    let stderr = scratch.refused(&["--rejects", "bad.csv", "long.csv"]);
    assert!(
        stderr.contains("long.csv:12002: byte 2 of column \"city\""),
        "{stderr}"
    );
    scratch.import(&["--encoding", "windows-1252", "--table", "long", "bad.csv"]);
    let rows = scratch.rows("SELECT city FROM long WHERE v = 7 AND time > '2025-01-01'");
    assert_eq!(rows, json!([{"city": "M\u{fc}nchen"}]));
}

/// Blanks at the ends of texts were cut off without a word: what was exported came back as other texts, and two tags became one
/// series, which lost a row.
#[test]
fn blanks_are_part_of_a_text() {
    let scratch = Scratch::new();
    let text = "time,g,s,v\n2024-05-01,x,\"  lead\", 1\n2024-05-01,\"x \",trail  ,2 \n2024-05-02,y,tab\t,3\n2024-05-03,y,  ,4\n";
    scratch.file("a.csv", text.as_bytes());
    let tags = ["--tags", "g", "--type", "s=text", "a.csv"];
    let said = scratch.import(&tags);
    assert!(said.contains("--trim leaves them out"), "{said}");
    let select = |table: &str| scratch.rows(&format!("SELECT g, s, v FROM {table} ORDER BY v"));
    let want = json!([
        {"g": "x", "s": "  lead", "v": 1},
        {"g": "x ", "s": "trail  ", "v": 2},
        {"g": "y", "s": "tab\t", "v": 3},
        {"g": "y", "s": "  ", "v": 4},
    ]);
    assert_eq!(select("a"), want);
    let trimmed = [
        &["--trim", "--table", "b", "--duplicates", "keep"][..],
        &tags,
    ]
    .concat();
    scratch.import(&trimmed);
    let want = json!([
        {"g": "x", "s": "lead", "v": 1},
        {"g": "x", "s": "trail", "v": 2},
        {"g": "y", "s": "tab", "v": 3},
        {"g": "y", "v": 4},
    ]);
    assert_eq!(select("b"), want);
}

/// `NA` in a column of numbers made it a column of text, and `-` one of tags.
#[test]
fn cells_that_stand_for_nothing_are_empty() {
    let scratch = Scratch::new();
    scratch.file(
        "a.csv",
        b"time,host,v,w\n2024-05-01,a,NA,1\n2024-05-02,b,1.5,-\n2024-05-03,null,2.5,3\n",
    );
    scratch.import(&["a.csv"]);
    let want = json!([
        {"host": "a", "v": null, "w": 1},
        {"host": "b", "v": 1.5, "w": null},
        {"host": null, "v": 2.5, "w": 3},
    ]);
    assert_eq!(scratch.rows("SELECT host, v, w FROM a ORDER BY time"), want);
    scratch.file(
        "b.csv",
        b"time,country,v\n2024-05-01,NA,1\n2024-05-02,DE,?\n2024-05-03,NA,3\n",
    );
    scratch.import(&["--null", "?", "--null", "-", "b.csv"]);
    // NA is Namibia here, and a row without any value is one all the same.
    let want = json!([
        {"country": "NA", "v": 1},
        {"country": "DE", "v": null},
        {"country": "NA", "v": 3},
    ]);
    assert_eq!(scratch.rows("SELECT country, v FROM b ORDER BY time"), want);
}

/// One integer of 20 digits turned 9007199254740993 into 9007199254740992.
#[test]
fn whole_numbers_are_kept_or_named_and_never_rounded() {
    let scratch = Scratch::new();
    let big = "9007199254740993";
    scratch.file(
        "a.csv",
        format!("time,n,u\n2024-05-01,{big},{big}\n2024-05-02,99999999999999999999,18446744073709551615\n").as_bytes(),
    );
    let said = scratch.import(&["--tags", "", "a.csv"]);
    assert!(said.contains("\"n\" is read as text"), "{said}");
    let rows = scratch.rows("SELECT n, u FROM a ORDER BY time");
    let want = json!([
        {"n": big, "u": 9_007_199_254_740_993_u64},
        {"n": "99999999999999999999", "u": u64::MAX},
    ]);
    assert_eq!(rows, want);
    // Where the table has floats already, the row is named.
    let response = scratch.server.write("d", "b f=1.5 1");
    assert_eq!(response.status, 204);
    scratch.file(
        "b.csv",
        format!("time,f\n2024-05-01,2.5\n2024-05-02,{big}\n").as_bytes(),
    );
    let stderr = scratch.refused(&["b.csv"]);
    assert!(
        stderr.contains("b.csv:3: column \"f\" has 9007199254740993, which a float would round"),
        "{stderr}"
    );
    assert_eq!(
        scratch.rows("SELECT count(*) AS n FROM b"),
        json!([{"n": 2}])
    );
    // Who wants it rounded says so.
    scratch.import(&["--table", "c", "--type", "f=float", "b.csv"]);
    assert_eq!(
        scratch.rows("SELECT max(f) AS f FROM c"),
        json!([{"f": 9_007_199_254_740_992.0}])
    );
}
