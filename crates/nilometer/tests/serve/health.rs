//! How a server and a directory are: `nilometer status` and `nilometer check`.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::support::{Server, nilometer};

fn written(dir: &TempDir) -> Server {
    let server = Server::start(&dir.path().join("data"), &[]);
    let lines = (0..5000)
        .map(|n| format!("m,host=h{} v={n} {n}\n", n % 4))
        .collect::<Vec<_>>()
        .concat();
    assert_eq!(server.write("d", &lines).status, 204);
    server
}

#[test]
fn status_shows_a_server_in_one_screen() {
    let dir = TempDir::new().expect("a scratch folder");
    let server = written(&dir);
    let out = nilometer(dir.path(), &["status", "--url", server.url()]).succeeded();
    for words in [
        "pass",
        env!("CARGO_PKG_VERSION"),
        "rows written per second",
        "series",
        "log size",
    ] {
        assert!(out.contains(words), "no {words:?} in:\n{out}");
    }
    let out = nilometer(dir.path(), &["status", "--json", "--url", server.url()]).succeeded();
    let status: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(status["metrics"]["series"], 4.0);
    let url = server.url().to_owned();
    server.stop();
    let stderr = nilometer(dir.path(), &["status", "--url", &url]).failed();
    assert!(stderr.contains("nilometer serve"), "{stderr}");
}

#[test]
fn check_finds_what_is_damaged_and_only_that() {
    let dir = TempDir::new().expect("a scratch folder");
    let server = written(&dir);
    let stderr = nilometer(dir.path(), &["check", "--data", "data"]).failed();
    assert!(stderr.contains("in use"), "{stderr}");
    server.stop();
    let out = nilometer(dir.path(), &["check", "--data", "data"]).succeeded();
    assert!(out.contains("all in order"), "{out}");
    let segment = the_segment(dir.path());
    let mut bytes = std::fs::read(&segment).expect("a segment");
    // Pages stand between the header and the directory, which begins at 148.
    bytes[140] ^= 0x10;
    std::fs::write(&segment, bytes).expect("a damaged segment");
    let run = nilometer(dir.path(), &["check", "--data", "data"]);
    let name = segment
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    assert!(
        run.stdout.contains(&name) && run.stdout.contains("damaged at byte"),
        "{}",
        run.stdout
    );
    assert!(run.failed().contains("restore"));
    // A page that does not read costs the rows of its block; a file that does not open costs all of its rows.
    let out = nilometer(dir.path(), &["check", "--data", "data", "--repair"]).succeeded();
    assert!(
        out.contains("put aside: ") && out.contains(" rows") && !out.contains("5,000 rows"),
        "{out}"
    );
    let segment = the_segment(dir.path());
    let size = std::fs::metadata(&segment).expect("a segment").len();
    let file = std::fs::File::options()
        .write(true)
        .open(&segment)
        .expect("a segment");
    file.set_len(size - 1).expect("a shorter segment");
    let out = nilometer(dir.path(), &["check", "--data", "data", "--repair"]).succeeded();
    assert!(
        out.contains("put aside: ") && out.contains(" rows"),
        "{out}"
    );
    let out = nilometer(dir.path(), &["check", "--data", "data"]).succeeded();
    assert!(out.contains("all in order"), "{out}");
    let stderr = nilometer(dir.path(), &["check", "--data", "nowhere"]).failed();
    assert!(stderr.contains("nowhere"), "{stderr}");
}

fn the_segment(dir: &Path) -> PathBuf {
    let segments = std::fs::read_dir(dir.join("data/segments")).expect("segments");
    segments
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.extension().is_some_and(|it| it == "seg"))
        .expect("a segment")
}
