//! Promise: `nilometer edge` shows what an image holds, and sends what the server has not got, whatever happened before.

use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{Process, nilometer};
use crate::support::{golden, golden_path, image_rows};

const STORED: &str = "SELECT temperature, open FROM climate WHERE device='attic' AND room='attic'";

fn run(words: &[&str]) -> Output {
    nilometer().args(words).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn image(name: &str) -> String {
    golden_path(name).to_str().unwrap().to_owned()
}

fn push(server: &Process, image: &str, more: &[&str]) -> Output {
    let words = [
        "edge",
        "push",
        image,
        "--device",
        "attic",
        "--url",
        &server.url,
    ];
    run(&[&words[..], more].concat())
}

fn secret_file(dir: &Path) -> String {
    let path = dir.join("edge.secret");
    std::fs::write(&path, "0123456789abcdef\n").unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn inspect_shows_pages_series_times_and_rows_that_are_not_sealed() {
    let output = run(&["edge", "inspect", &image("image_unit_1.img"), "--json"]);
    assert!(output.status.success(), "{}", err(&output));
    let found: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(found["sector_bytes"], 1024);
    assert_eq!(found["unsealed_rows"], 10);
    assert_eq!(found["clocks"]["7"], 1_700_000_000_000_i64);
    let pages = found["pages"].as_array().unwrap();
    let places: Vec<_> = pages
        .iter()
        .map(|it| (&it["sequence"], &it["offset"]))
        .collect();
    assert_eq!(
        format!("{places:?}"),
        "[(Number(1), Number(4128)), (Number(2), Number(4301)), (Number(3), Number(4474))]"
    );
    assert!(pages.iter().all(|it| it["health"] == "good"), "{found}");
    assert_eq!(pages[0]["from"], "2023-11-14T22:13:21Z");
    let series = &found["series"][0];
    assert_eq!(series["key"], "climate,room=attic");
    assert_eq!(
        (&series["rows"], &series["pages"]),
        (&140.into(), &3.into())
    );
    let times = "2023-11-14T22:13:21Z to 2023-11-14T22:13:22.390Z";
    assert_eq!(series["times"][0], times);

    let text = out(&run(&["edge", "inspect", &image("image_unit_1.img")]));
    for shown in [
        "climate,room=attic",
        "temperature, open",
        times,
        "4,128",
        "10 rows",
    ] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
}

#[test]
fn inspect_names_a_damaged_page_by_its_place_and_what_is_no_image_with_advice() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("flash.img");
    let mut bytes = golden("image_unit_1.img");
    bytes[4301 + 100] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let output = run(&["edge", "inspect", path.to_str().unwrap(), "--json"]);
    let found: Value = serde_json::from_str(&out(&output)).unwrap();
    let health = |page: usize| found["pages"][page]["health"].as_str().unwrap();
    assert!(health(1).contains("damaged"), "{found}");
    assert_eq!(health(2), "good");
    std::fs::write(&path, [0; 8192]).unwrap();
    let output = run(&["edge", "inspect", path.to_str().unwrap()]);
    assert!(!output.status.success());
    assert!(err(&output).contains("first sector"), "{}", err(&output));
}

#[test]
fn push_sends_what_the_server_has_not_got() {
    let dir = TempDir::new().unwrap();
    let server = Process::start(dir.path(), &[]);
    // One page a request.
    let flags = ["--request-bytes", "1"];
    let output = push(&server, &image("image_unit_32.img"), &flags);
    assert!(output.status.success(), "{}", err(&output));
    assert!(
        out(&output).starts_with("6 pages with 140 rows sent"),
        "{}",
        out(&output)
    );
    assert!(err(&output).contains("10 rows"), "{}", err(&output));
    assert_eq!(server.rows(STORED), image_rows());
    let output = push(&server, &image("image_unit_32.img"), &[]);
    assert!(
        out(&output).starts_with("0 pages with 0 rows sent"),
        "{}",
        out(&output)
    );
    // The image of another flash: its pages are others, and fewer.
    let output = push(&server, &image("image_unit_1.img"), &[]);
    assert!(!output.status.success());
    assert!(err(&output).contains("--store 2"), "{}", err(&output));
    let output = push(&server, &image("image_unit_1.img"), &["--store", "2"]);
    assert!(
        out(&output).starts_with("3 pages with 140 rows sent"),
        "{}",
        out(&output)
    );
    assert_eq!(server.rows(STORED), image_rows());
    let output = push(&server, &image("image_unit_1.img"), &["-d", "nowhere"]);
    assert!(!output.status.success());
    assert!(err(&output).contains("nowhere"), "{}", err(&output));
}

#[test]
fn push_signs_with_the_key_that_key_prints() {
    let dir = TempDir::new().unwrap();
    let secret = secret_file(dir.path());
    let flags = ["--edge-secret-file", &secret];
    let server = Process::start(&dir.path().join("data"), &flags);
    let key = |device| {
        let output = run(&[
            "edge",
            "key",
            "--edge-secret-file",
            &secret,
            "--device",
            device,
        ]);
        assert!(output.status.success(), "{}", err(&output));
        let path = dir.path().join(format!("{device}.key"));
        std::fs::write(&path, out(&output)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (own, other) = (key("attic"), key("cellar"));
    // printf attic | openssl dgst -sha256 -hmac 0123456789abcdef
    let digits = std::fs::read_to_string(&own).unwrap();
    assert_eq!(
        digits.trim(),
        "3604717353fadb85e8a635431b8653feaea172a5dec00334ac626f8714105e8e"
    );
    let output = push(&server, &image("image_unit_1.img"), &[]);
    assert!(err(&output).contains("not signed"), "{}", err(&output));
    let output = push(&server, &image("image_unit_1.img"), &["--key-file", &other]);
    assert!(err(&output).contains("not signed"), "{}", err(&output));
    let output = push(&server, &image("image_unit_1.img"), &["--key-file", &own]);
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(server.rows(STORED), image_rows());
    let output = push(
        &server,
        &image("image_unit_1.img"),
        &["--key-file", &secret],
    );
    assert!(err(&output).contains("64 hexadecimal"), "{}", err(&output));
}

#[test]
fn push_says_which_page_a_table_refuses_and_keeps_those_before_it() {
    let dir = TempDir::new().unwrap();
    let server = Process::start(dir.path(), &[]);
    let lines = "climate,room=attic open=1 1";
    let (status, answer) = server.post("/write?db=edge", lines.as_bytes());
    assert_eq!(status, 204, "{answer}");
    let output = push(&server, &image("image_unit_1.img"), &[]);
    assert!(!output.status.success());
    let said = err(&output);
    assert!(
        said.contains("page 1 is not taken") && said.contains("open"),
        "{said}"
    );
    assert_eq!(server.rows(STORED), Vec::<Vec<Value>>::new());
}
