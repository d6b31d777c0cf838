//! One data directory belongs to one server, and a directory that cannot be used is refused by name.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::process::geteuid;
use tempfile::TempDir;

use crate::support::{Outcome, Server, run};

/// The user id of `nobody` on all common systems. It need not exist in the user table.
const NOBODY: &str = "65534";

fn serve(data: &Path) -> [&str; 5] {
    [
        "serve",
        "--data",
        data.to_str().expect("temporary paths are UTF-8"),
        "--http-bind",
        "127.0.0.1:0",
    ]
}

fn assert_refused(outcome: &Outcome, directory: &Path) {
    assert!(
        outcome.status.code().is_some_and(|code| code != 0),
        "ended with {}",
        outcome.status
    );
    assert!(
        outcome.stdout.is_empty(),
        "it claimed to serve: {}",
        outcome.stdout
    );
    let path = directory.display().to_string();
    assert!(
        outcome.stderr.contains(&path),
        "{path} is not named: {}",
        outcome.stderr
    );
    assert!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
}

#[test]
fn a_second_server_on_the_same_directory_is_refused_by_name_and_the_first_goes_on() {
    let directory = TempDir::new().expect("a directory for the data");
    let first = Server::start(directory.path(), &[]);
    assert_eq!(first.write("d", "m v=1i 1").status, 204);

    let second = run(None, &serve(directory.path()));
    assert_refused(&second, directory.path());

    assert_eq!(
        first.write("d", "m v=2i 2").status,
        204,
        "the first server lost its directory"
    );
    assert_eq!(
        first.query("d", "SELECT sum(v) AS total FROM m")[0]["total"],
        3
    );
    first.stop();

    // The lock ends with its holder, also with one that was killed.
    let third = Server::start(directory.path(), &[]);
    third.kill();
    let fourth = Server::start(directory.path(), &[]);
    assert_eq!(
        fourth.query("d", "SELECT sum(v) AS total FROM m")[0]["total"],
        3
    );
    fourth.stop();
}

#[test]
fn a_directory_of_another_user_is_refused_by_name() {
    let place = TempDir::new().expect("a directory for all");
    let data = place.path().join("data");
    fs::create_dir(&data).expect("a new directory");
    Server::start(&data, &[]).stop();

    if geteuid().is_root() {
        // Root may read everything, so the server runs as another user, from where that user may execute it.
        let program = place.path().join("nilometer");
        fs::copy(env!("CARGO_BIN_EXE_nilometer"), &program).expect("a copy of the binary");
        set_mode(place.path(), 0o755);
        set_mode(&program, 0o755);
        set_mode(&data, 0o700);
        let user = format!("--reuid={NOBODY}");
        let group = format!("--regid={NOBODY}");
        let as_nobody = [user.as_str(), group.as_str(), "--clear-groups"];
        if !can_run_as_nobody(&as_nobody) {
            println!(
                "skipped: running as root, and `setpriv` cannot start a program as another user here"
            );
            return;
        }
        let program = program.to_str().expect("temporary paths are UTF-8");
        let arguments = [&as_nobody[..], &[program], &serve(&data)].concat();
        assert_refused(&run(Some("setpriv"), &arguments), &data);
    } else {
        set_mode(&data, 0o000);
        let outcome = run(None, &serve(&data));
        set_mode(&data, 0o700);
        assert_refused(&outcome, &data);
    }
    Server::start(&data, &[]).stop();
}

#[test]
fn a_file_in_place_of_the_directory_is_refused_by_name() {
    let place = TempDir::new().expect("a directory for all");
    let file = place.path().join("data");
    fs::write(&file, "not a directory").expect("a new file");
    assert_refused(&run(None, &serve(&file)), &file);
    assert_eq!(
        fs::read_to_string(&file).expect("the file is still there"),
        "not a directory"
    );
}

fn can_run_as_nobody(as_nobody: &[&str]) -> bool {
    std::process::Command::new("setpriv")
        .args(as_nobody)
        .arg("true")
        .status()
        .is_ok_and(|status| status.success())
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
