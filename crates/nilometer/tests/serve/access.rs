//! TLS and the token on real sockets, and what a server says that cannot start.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;

use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use tempfile::TempDir;
use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};

use crate::support::{Outcome, Server, finish, serve, wait_for};

const SECRET: &str = "planted-secret-b51e07c4";

/// A certificate for this machine and its key, as files.
struct Identity {
    folder: TempDir,
    certificate: CertificateDer<'static>,
}

impl Identity {
    fn new() -> Self {
        let folder = TempDir::new().expect("a folder for the certificate");
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let identity = Self {
            folder,
            certificate: cert.der().clone(),
        };
        identity.put("cert.pem", &cert.pem());
        identity.put("key.pem", &signing_key.serialize_pem());
        let other = KeyPair::generate().expect("another key");
        identity.put("other.pem", &other.serialize_pem());
        identity.put("nothing.pem", "nothing\n");
        identity.put("token", &format!("{SECRET}\n"));
        identity.put("short", "short");
        identity
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).expect("a file in a new folder");
    }

    fn path(&self, name: &str) -> String {
        let path = self.folder.path().join(name);
        path.to_str().expect("temporary paths are UTF-8").to_owned()
    }

    /// One request on a connection of its own, by a client that trusts this certificate only.
    fn ask(&self, server: &Server, head: &str) -> Result<String, std::io::Error> {
        let mut roots = rustls::RootCertStore::empty();
        roots
            .add(self.certificate.clone())
            .expect("a certificate that was just made");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has the versions of today")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").expect("a name");
        let connection = rustls::ClientConnection::new(Arc::new(config), name).expect("a client");
        let socket = TcpStream::connect(address(server))?;
        let mut stream = rustls::StreamOwned::new(connection, socket);
        talk(&mut stream, head)
    }
}

fn address(server: &Server) -> &str {
    server
        .url()
        .rsplit('/')
        .next()
        .expect("a URL ends in an address")
}

fn talk(stream: &mut (impl Read + Write), head: &str) -> Result<String, std::io::Error> {
    let request = format!("{head}\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    match stream.read_to_string(&mut text) {
        Err(error) if text.is_empty() => Err(error),
        _ => Ok(text),
    }
}

/// The server does not start, and says each of the words.
fn assert_refused(outcome: &Outcome, words: &[&str]) {
    assert_eq!(outcome.status.code(), Some(1), "{}", outcome.stderr);
    for word in words {
        assert!(
            outcome.stderr.contains(word),
            "no {word:?} in: {}",
            outcome.stderr
        );
    }
    assert!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
}

fn start(data: &Path, flags: &[&str]) -> Outcome {
    finish(serve(data, flags))
}

#[test]
fn a_server_with_a_certificate_and_a_token_serves_other_machines() {
    let identity = Identity::new();
    let data = TempDir::new().expect("a directory for the data");
    let mut command = serve(
        data.path(),
        &[
            "--http-bind",
            "0.0.0.0:0",
            "--tls-cert",
            &identity.path("cert.pem"),
            "--tls-key",
            &identity.path("key.pem"),
            "--token-file",
            &identity.path("token"),
        ],
    );
    // The flag given last would be one too many.
    command = without_first_bind(&command);
    let server = Server::launch(command);
    assert!(
        server.url().starts_with("https://0.0.0.0:"),
        "{}",
        server.url()
    );
    let answer = identity
        .ask(&server, "GET /health HTTP/1.1")
        .expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let answer = identity
        .ask(&server, "GET /metrics HTTP/1.1")
        .expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    let head = format!("GET /metrics HTTP/1.1\r\nAuthorization: Bearer {SECRET}");
    let answer = identity.ask(&server, &head).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // Who speaks plain HTTP gets no answer, nor who expects another certificate.
    let mut plain = TcpStream::connect(address(&server)).expect("a connection");
    let answer = talk(&mut plain, "GET /health HTTP/1.1").unwrap_or_default();
    assert!(!answer.contains("HTTP/1.1 200"), "{answer}");
    assert!(
        Identity::new()
            .ask(&server, "GET /health HTTP/1.1")
            .is_err()
    );
    assert!(
        !server.stderr().contains("--insecure"),
        "{}",
        server.stderr()
    );
    server.stop();
}

/// A `ClientHello` of a client that knows TLS up to this version (`[3, 1]` = 1.0, as RFC 2246 has it) and one cipher suite.
fn hello([major, minor]: [u8; 2]) -> Vec<u8> {
    let mut body = vec![major, minor];
    body.extend([7; 32]);
    // No session, TLS_RSA_WITH_AES_128_CBC_SHA, no compression.
    body.extend([0, 0, 2, 0x00, 0x2f, 1, 0]);
    let length = u8::try_from(body.len()).expect("a short message");
    let mut record = vec![0x16, 3, 1, 0, length + 4, 1, 0, 0, length];
    record.extend(body);
    record
}

#[test]
fn a_wrong_or_endless_tls_handshake_is_ended_and_costs_nobody_else_anything() {
    let identity = Identity::new();
    let data = TempDir::new().expect("a directory for the data");
    let server = Server::launch(serve(
        data.path(),
        &[
            "--tls-cert",
            &identity.path("cert.pem"),
            "--tls-key",
            &identity.path("key.pem"),
            "--header-read-ms-max",
            "500",
        ],
    ));
    let others_are_served = || {
        let answer = identity.ask(&server, "GET /health HTTP/1.1");
        let answer = answer.expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    };
    let whole = hello([3, 1]);
    let half = whole.get(..20).expect("it is longer");
    // A record that says it has 65,535 bytes, a handshake of 16 MiB, and no TLS at all.
    let giant = [0x16, 3, 1, 0xff, 0xff, 1, 0, 0xff, 0xfb];
    let huge = [0x16, 3, 3, 0, 4, 1, 0xff, 0xff, 0xff];
    let cases: [(&str, &[u8]); 8] = [
        ("nothing", b""),
        ("half a hello", half),
        ("TLS 1.0", &whole),
        ("TLS 1.1", &hello([3, 2])),
        ("SSL 3", &hello([3, 0])),
        ("a giant record", &giant),
        ("a huge handshake", &huge),
        ("HTTP", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ];
    for (what, bytes) in cases {
        let mut streams: Vec<TcpStream> = (0..8)
            .map(|_| TcpStream::connect(address(&server)).expect("a connection"))
            .collect();
        for stream in &mut streams {
            stream.write_all(bytes).expect("a server that listens");
        }
        others_are_served();
        for stream in &mut streams {
            // Reading ends because the server hangs up, and all that it has sent is an alert (record type 21).
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            assert!(
                answer.first().is_none_or(|kind| *kind == 21) && answer.len() <= 7,
                "{what}: {answer:?}"
            );
        }
        others_are_served();
    }
    assert!(!server.stderr().contains("panicked"), "{}", server.stderr());
    server.stop();
}

/// The same command without the first `--http-bind` and its value.
fn without_first_bind(command: &std::process::Command) -> std::process::Command {
    let mut arguments: Vec<_> = command.get_args().collect();
    let at = arguments
        .iter()
        .position(|it| *it == "--http-bind")
        .expect("an address");
    arguments.drain(at..at + 2);
    let mut shorter = std::process::Command::new(command.get_program());
    shorter.args(arguments);
    shorter
}

#[test]
fn the_token_is_in_no_log_no_error_and_no_metric() {
    let data = TempDir::new().expect("a directory for the data");
    let mut command = serve(
        data.path(),
        &["--log-level", "trace", "--access-log", "info"],
    );
    command.env("NILOMETER_TOKEN", SECRET);
    let server = Server::launch(command);
    let mut answers = String::new();
    for head in [
        format!("GET /metrics HTTP/1.1\r\nAuthorization: Bearer {SECRET}"),
        format!("GET /metrics HTTP/1.1\r\nAuthorization: Bearer {SECRET}x"),
        format!("GET /metrics HTTP/1.1\r\nAuthorization: Token u:{SECRET}"),
        format!("GET /metrics?u=u&p={SECRET} HTTP/1.1"),
        format!("GET /metrics?u=u&p={SECRET}x HTTP/1.1"),
        format!("POST /write?db=x&u=u&p={SECRET} HTTP/1.1\r\nContent-Length: 0"),
        format!("GET /api/v3/query_sql?db=x&q=SELEC&p={SECRET} HTTP/1.1"),
        format!("GET /nowhere?p={SECRET} HTTP/1.1"),
        format!("DELETE /metrics?p={SECRET} HTTP/1.1"),
        format!("GET /metrics?p={SECRET} HTTP/9.9"),
    ] {
        let mut stream = TcpStream::connect(address(&server)).expect("a connection");
        answers += &talk(&mut stream, &head).unwrap_or_default();
    }
    assert!(
        answers.contains("HTTP/1.1 200") && answers.contains("HTTP/1.1 401"),
        "{answers}"
    );
    assert!(answers.contains("nilometer_build_info"), "{answers}");
    assert!(!answers.contains("planted"), "{answers}");
    let log = wait_for("the requests", || {
        Some(server.stderr()).filter(|log| log.contains("/metrics") && log.contains("401"))
    });
    assert!(!log.contains("planted"), "{log}");
    server.stop();
    for entry in walk(data.path()) {
        let bytes = fs::read(&entry).expect("a file of the store");
        let found = bytes
            .windows(SECRET.len())
            .any(|part| part == SECRET.as_bytes());
        assert!(!found, "{}", entry.display());
    }
}

fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of the store");
    entries
        .flat_map(|entry| {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                walk(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

#[test]
fn what_is_wrong_with_certificates_keys_and_tokens_is_said_with_what_to_do() {
    let identity = Identity::new();
    let data = TempDir::new().expect("a directory for the data");
    let path = |name: &str| identity.path(name);
    let (cert, key) = (path("cert.pem"), path("key.pem"));
    let (other, nothing, absent) = (path("other.pem"), path("nothing.pem"), path("absent.pem"));
    let (short, folder) = (path("short"), path("."));
    let cases: [(&[&str], &[&str]); 11] = [
        (
            &["--tls-cert", &cert],
            &["--tls-cert is set and --tls-key is not", "needs both"],
        ),
        (
            &["--tls-key", &key],
            &["--tls-key is set and --tls-cert is not", "needs both"],
        ),
        (
            &["--tls-cert", &absent, "--tls-key", &key],
            &[&absent, "--tls-cert", "check the path"],
        ),
        (
            &["--tls-cert", &cert, "--tls-key", &absent],
            &[&absent, "--tls-key", "check the path"],
        ),
        (
            &["--tls-cert", &folder, "--tls-key", &key],
            &[&folder, "--tls-cert", "check the path"],
        ),
        (
            &["--tls-cert", &nothing, "--tls-key", &key],
            &[
                &nothing,
                "holds no certificate",
                "-----BEGIN CERTIFICATE-----",
            ],
        ),
        (
            &["--tls-cert", &cert, "--tls-key", &nothing],
            &[
                &nothing,
                "holds no private key",
                "-----BEGIN PRIVATE KEY-----",
            ],
        ),
        (
            &["--tls-cert", &cert, "--tls-key", &other],
            &[
                &other,
                "is not the key of the certificate",
                &cert,
                "give the key",
            ],
        ),
        (
            &["--tls-cert", &key, "--tls-key", &key],
            &[&key, "holds no certificate"],
        ),
        (
            &["--token-file", &absent],
            &[&absent, "--token-file", "check the path"],
        ),
        (
            &["--token-file", &short],
            &[&short, "fewer than 16 characters", "openssl rand"],
        ),
    ];
    for (flags, words) in cases {
        assert_refused(&start(data.path(), flags), words);
    }
    assert_eq!(fs::read_dir(data.path()).expect("the directory").count(), 0);
}

#[test]
fn a_port_in_use_and_a_directory_that_cannot_be_written_say_what_to_do() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("its address").to_string();
    let data = TempDir::new().expect("a directory for the data");
    let command = serve(data.path(), &["--http-bind", &address]);
    let outcome = finish(without_first_bind(&command));
    assert_refused(&outcome, &[&address, "another server", "--http-bind"]);
    // A folder cannot be made below a file, not even by a user who may do everything.
    let file = data.path().join("file");
    fs::write(&file, "").expect("a file");
    let below = file.join("data");
    let outcome = start(&below, &[]);
    assert_refused(
        &outcome,
        &["--data", below.to_str().expect("UTF-8"), "may write"],
    );
}

#[test]
fn other_machines_are_not_served_without_tls_and_token() {
    let identity = Identity::new();
    let data = TempDir::new().expect("a directory for the data");
    let (cert, key, token) = (
        identity.path("cert.pem"),
        identity.path("key.pem"),
        identity.path("token"),
    );
    let cases: [(&[&str], &str); 3] = [
        (
            &["--http-bind", "0.0.0.0:0"],
            "asks nobody for a token and does not encrypt",
        ),
        (
            &["--http-bind", "0.0.0.0:0", "--token-file", &token],
            "does not encrypt",
        ),
        (
            &[
                "--http-bind",
                "0.0.0.0:0",
                "--tls-cert",
                &cert,
                "--tls-key",
                &key,
            ],
            "asks nobody for a token",
        ),
    ];
    for (flags, word) in cases {
        let outcome = finish(without_first_bind(&serve(data.path(), flags)));
        assert_refused(
            &outcome,
            &[word, "--tls-cert", "--token-file", "--insecure"],
        );
    }
    let command = serve(data.path(), &["--http-bind", "0.0.0.0:0", "--insecure"]);
    let server = Server::launch(without_first_bind(&command));
    assert!(server.is_healthy());
    server.stop();
}
