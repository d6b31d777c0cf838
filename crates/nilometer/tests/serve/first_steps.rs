//! What a new user does first with a server: look how it is, make a database, ask with curl, and have it encrypt. The
//! commands are those of the guide to HTTP, taken from its page.

use std::path::Path;

use tempfile::TempDir;

use crate::support::{Server, bash, nilometer, serve};

/// The only line of the guide to HTTP that begins like this and goes on like that.
fn from_the_guide(begins: &str, has: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/http.md");
    let page = std::fs::read_to_string(page).expect("the guide");
    let mut lines = page
        .lines()
        .filter(|line| line.starts_with(begins) && line.contains(has));
    match (lines.next(), lines.next()) {
        (Some(line), None) => line.to_owned(),
        other => panic!("{begins} ... {has}: {other:?}"),
    }
}

/// `status` of a fresh server showed a disk with 0.0 MB free: nobody had looked before the first write.
#[test]
fn a_server_that_nobody_has_written_to_knows_its_disk() {
    let dir = TempDir::new().expect("a scratch folder");
    let server = Server::start(&dir.path().join("data"), &[]);
    let out = nilometer(dir.path(), &["status", "--json", "--url", server.url()]).succeeded();
    let status: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    let free = status["metrics"]["disk_free_bytes"].as_f64();
    assert!(free.is_some_and(|free| free > 1e6), "{out}");
    server.stop();
}

/// `CREATE DATABASE` on a fresh server was answered with the question, which database.
#[test]
fn the_first_database_is_made_without_naming_another() {
    let dir = TempDir::new().expect("a scratch folder");
    let server = Server::start(&dir.path().join("data"), &[]);
    let sql = |statement: &str| nilometer(dir.path(), &["sql", "--url", server.url(), statement]);
    sql("CREATE DATABASE first").succeeded();
    let shown = sql("SHOW DATABASES").succeeded();
    assert!(shown.contains("first"), "{shown}");
    // The only one there is needs no name, and of two none is guessed.
    sql("SELECT 1").succeeded();
    sql("CREATE DATABASE second").succeeded();
    for statement in ["SELECT 1", "CREATE TABLE m (time TIMESTAMPTZ, v DOUBLE)"] {
        let stderr = sql(statement).failed();
        assert!(
            stderr.contains("which database? give its name with -d"),
            "{stderr}"
        );
    }
    server.stop();
}

/// The guide's examples with curl failed as printed: what `curl -d` sends is called a form unless it is said to be JSON.
#[test]
fn the_guides_questions_with_curl_are_answered() {
    let dir = TempDir::new().expect("a scratch folder");
    let server = Server::start(&dir.path().join("data"), &[]);
    assert_eq!(
        server.write("d", "m,host=a v=1.5 1\nm,host=b v=2 2").status,
        204
    );
    let address = server.url().trim_start_matches("http://");
    let as_printed = from_the_guide("curl ", "\"params\"");
    let without_type = as_printed.replace("-H 'Content-Type: application/json' ", "");
    assert_ne!(as_printed, without_type);
    for line in [as_printed, without_type] {
        let line = line.replacen("curl ", "curl -sS ", 1);
        let out = bash(dir.path(), &line.replace("localhost:8086", address), &[]).succeeded();
        assert_eq!(out, "[{\"v\":1.5}]\n", "{line}");
    }
    server.stop();
}

/// Runs one of the guide's lines about certificates, for this machine's name.
fn openssl(dir: &Path, line: &str) {
    let line = line.replace("DNS:db", "DNS:localhost");
    bash(dir, &format!("{line} 2>/dev/null"), &[]).succeeded();
}

fn encrypted(dir: &Path) -> (Server, String) {
    let file = |name: &str| dir.join(name).display().to_string();
    let command = serve(
        &dir.join("data"),
        &[
            "--tls-cert",
            &file("cert.pem"),
            "--tls-key",
            &file("key.pem"),
            "--token-file",
            &file("token"),
        ],
    );
    let server = Server::launch(command);
    let url = server.url().replace("127.0.0.1", "localhost");
    (server, url)
}

/// The guide's recipe made a certificate of an authority, which our own commands refuse, with the advice to start a server.
#[test]
fn the_guides_certificate_is_one_that_our_own_commands_take() {
    let dir = TempDir::new().expect("a scratch folder");
    let recipe = from_the_guide("openssl req ", "subjectAltName");
    openssl(dir.path(), &from_the_guide("openssl rand ", "token"));
    openssl(dir.path(), &recipe);
    let (server, url) = encrypted(dir.path());
    let ask = |arguments: &str| {
        let script = format!(
            "nilometer sql --format csv --token \"$(cat token)\" {arguments} 'SHOW DATABASES'"
        );
        bash(dir.path(), &script, &[])
    };
    ask(&format!("--ca cert.pem --url {url}")).succeeded();
    // What is wrong otherwise is not that there is no server.
    let other_name = url.replace("localhost", "127.0.0.1");
    for (arguments, advice) in [
        (format!("--url {url}"), "--ca FILE"),
        (
            format!("--ca cert.pem --url {other_name}"),
            "subjectAltName",
        ),
    ] {
        let stderr = ask(&arguments).failed();
        assert!(stderr.contains("certificate of https://"), "{stderr}");
        assert!(stderr.contains(advice), "no {advice:?} in {stderr}");
        assert!(!stderr.contains("nilometer serve"), "{stderr}");
    }
    server.stop();

    let authority = recipe.replace("critical,CA:FALSE", "critical,CA:TRUE");
    assert_ne!(recipe, authority);
    openssl(dir.path(), &authority);
    let (server, url) = encrypted(dir.path());
    let stderr = ask(&format!("--ca cert.pem --url {url}")).failed();
    assert!(
        stderr.contains("-addext basicConstraints=critical,CA:FALSE"),
        "{stderr}"
    );
    assert!(!stderr.contains("nilometer serve"), "{stderr}");
    server.stop();
}

/// Where nobody is asked for a token, the name under which a server is asked is compared, and can be listed.
#[test]
fn names_of_a_server_are_a_setting() {
    let dir = TempDir::new().expect("a scratch folder");
    let server = Server::start(
        &dir.path().join("data"),
        &["--http-hosts", "db.test, nilometer"],
    );
    let ask = |host: &str| {
        let url = server.url();
        let script = format!("curl -sS -o out -w '%{{http_code}}' -H 'Host: {host}' {url}/metrics");
        bash(dir.path(), &script, &[]).succeeded()
    };
    for host in ["localhost", "127.0.0.1:1", "db.test:8086", "nilometer"] {
        assert_eq!(ask(host), "200", "{host}");
    }
    assert_eq!(ask("evil.example.org"), "403");
    server.stop();
    let wrong = ["config", "--http-hosts", "http://db.test"];
    let run = nilometer(dir.path(), &wrong);
    assert_eq!(run.status, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("no name of a host"), "{}", run.stderr);
    let shown = nilometer(dir.path(), &["config", "--http-hosts", "db.test"]).succeeded();
    assert!(shown.contains("http-hosts"), "{shown}");
}
