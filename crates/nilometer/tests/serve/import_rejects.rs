//! What is not kept can be mended and imported again, and an import that is stopped says how it goes on.

use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::TempDir;

use crate::fake_server::FakeServer;
use crate::support::{Scratch, gzip, nilometer, wait_for};

/// The file of rejects had places, reasons and text in one line each, which no program reads.
#[test]
fn rejected_rows_of_csv_are_a_csv_that_is_imported_again_once_mended() {
    let scratch = Scratch::new();
    let text = "time;city;v\n2024-05-01;\"Cairo; old\";1,5\n2024-05-02;\"Cairo; old\";two\nnever;Aswan;3\n";
    scratch.file("in.csv.gz", &gzip(text.as_bytes()));
    let arguments = ["--type", "v=float", "--rejects", "bad.csv", "in.csv.gz"];
    let stderr = scratch.refused(&arguments);
    assert!(
        stderr.contains("bad.csv has them and bad.csv.reasons the reasons"),
        "{stderr}"
    );
    let path = scratch.path().join("bad.csv");
    let bad = std::fs::read_to_string(&path).expect("the rejects");
    assert_eq!(
        bad,
        "time;city;v\n2024-05-02;\"Cairo; old\";two\nnever;Aswan;3\n"
    );
    let mended = bad.replace("two", "2,5").replace("never", "2024-05-03");
    std::fs::write(&path, mended).expect("a mended file");
    scratch.import(&["--type", "v=float", "--table", "in", "bad.csv"]);
    let rows = scratch.rows("SELECT city, v FROM \"in\" ORDER BY time");
    let want = json!([
        {"city": "Cairo; old", "v": 1.5},
        {"city": "Cairo; old", "v": 2.5},
        {"city": "Aswan", "v": 3.0},
    ]);
    assert_eq!(rows, want);
}

#[test]
fn rejected_lines_of_line_protocol_stand_under_their_reasons_and_inputs_of_another_form_apart() {
    let scratch = Scratch::new();
    // Longer than what an answer of the server repeats of it.
    let long = "x".repeat(3000);
    let lines = format!("m v=1 1\nm v=oops,s=\"{long}\" 2\n");
    scratch.file("m.lp", lines.as_bytes());
    scratch.file("a.csv", b"time,v\n2024-05-01,1\n2024-05-02,1\nsoon,2\n");
    // With one sender the batches end in their order.
    let senders = ["--senders", "1", "--rejects", "bad.txt"];
    let stderr = scratch.refused(&[&senders[..], &["m.lp", "a.csv"]].concat());
    assert!(stderr.contains("bad-2.txt has them"), "{stderr}");
    let read = |name: &str| std::fs::read_to_string(scratch.path().join(name)).expect("rejects");
    let bad = read("bad.txt");
    let (reason, line) = bad.split_once('\n').expect("two lines");
    assert!(reason.starts_with("# m.lp:2: "), "{reason}");
    assert!(
        line == lines
            .lines()
            .nth(1)
            .map(|line| format!("{line}\n"))
            .unwrap_or_default()
    );
    assert_eq!(read("bad-2.txt"), "time,v\nsoon,2\n");
    scratch.file("bad.lp", bad.replace("oops", "2").as_bytes());
    scratch.import(&["bad.lp"]);
    assert_eq!(
        scratch.rows("SELECT count(*) AS n, max(length(s)) AS l FROM m"),
        json!([{"n": 2, "l": 3000}])
    );
}

/// After Ctrl-C there was nothing to read but the shell's prompt.
#[test]
fn an_import_that_is_stopped_says_in_its_last_line_how_it_goes_on() {
    let dir = TempDir::new().expect("a scratch folder");
    let lines: Vec<String> = (0..60_000).map(|n| format!("m v={n} {n}\n")).collect();
    let text = lines.concat();
    std::fs::write(dir.path().join("m.lp"), &text).expect("a file");
    let fake = FakeServer::start();
    let url = fake.url();
    fake.be_busy_for(1000, 1);
    let arguments = ["import", "--url", &url, "-d", "d", "m.lp"];
    let child = Command::new(env!("CARGO_BIN_EXE_nilometer"))
        .args(arguments)
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    wait_for("a write", || (fake.writes() > 0).then_some(()));
    let id = i32::try_from(child.id()).expect("an id of a process");
    let id = Pid::from_raw(id).expect("an id of a process");
    kill_process(id, Signal::INT).expect("a signal");
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = stderr.lines().last().unwrap_or_default();
    assert!(
        last.contains("the import was stopped") && last.ends_with(" m.lp --resume"),
        "{stderr}"
    );
    fake.be_busy(0);
    fake.take();
    nilometer(dir.path(), &[&arguments[..], &["--resume"]].concat()).succeeded();
    let mut sent: Vec<String> = fake.take().into_iter().map(|(_, body)| body).collect();
    sent.sort_by_key(|body| {
        body.split(['=', ' '])
            .nth(2)
            .and_then(|it| it.parse::<u32>().ok())
    });
    assert!(sent.concat() == text);
}
