//! The commands as clients of a server that speaks TLS and asks for a token.

use std::fs;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use tempfile::TempDir;

use crate::support::{Run, Server, bash, nilometer, serve};

const SECRET: &str = "planted-secret-9c31d2e8";

struct Guarded {
    dir: TempDir,
    server: Server,
}

impl Guarded {
    fn new() -> Self {
        let dir = TempDir::new().expect("a scratch folder");
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let put = |name: &str, text: String| {
            let path = dir.path().join(name);
            fs::write(&path, text).expect("a file in a new folder");
            path.to_str().expect("temporary paths are UTF-8").to_owned()
        };
        let flags = [
            "--tls-cert".to_owned(),
            put("cert.pem", cert.pem()),
            "--tls-key".to_owned(),
            put("key.pem", signing_key.serialize_pem()),
            "--token-file".to_owned(),
            put("token", SECRET.to_owned()),
        ];
        put("m.lp", "m,host=a v=1.5 1\nm,host=b v=2.5 2\n".to_owned());
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let server = Server::launch(serve(&dir.path().join("data"), &flags));
        Self { dir, server }
    }

    /// Runs a command of the program with the address of the server, by the name that its certificate has.
    fn run(&self, command: &str, variables: &[(&str, &str)]) -> Run {
        let url = self.server.url().replace("127.0.0.1", "localhost");
        let all = [&[("NILOMETER_URL", url.as_str())][..], variables].concat();
        bash(self.dir.path(), &format!("nilometer {command}"), &all)
    }
}

#[test]
fn every_command_speaks_tls_and_shows_its_token() {
    let guarded = Guarded::new();
    let both = [("NILOMETER_TOKEN", SECRET), ("NILOMETER_CA", "cert.pem")];
    for command in [
        "import -d d --precision s m.lp",
        "sql -d d 'select * from m'",
        "export -d d m --format lp",
        "status",
    ] {
        let out = guarded.run(command, &both).succeeded();
        assert!(!out.contains(SECRET), "{command}: {out}");
    }
    let totals = "sql -d d --format csv 'select sum(v) as v from m'";
    assert_eq!(guarded.run(totals, &both).succeeded(), "v\n4.0\n");
    let flags = format!("{totals} --ca cert.pem --token {SECRET}");
    assert_eq!(guarded.run(&flags, &[]).succeeded(), "v\n4.0\n");
}

#[test]
fn without_token_or_certificate_it_says_which_is_missing() {
    let guarded = Guarded::new();
    let question = "sql -d d 'select 1'";
    let ca = ("NILOMETER_CA", "cert.pem");
    for (variables, word) in [
        (&[ca][..], "--token"),
        (&[ca, ("NILOMETER_TOKEN", "another")], "--token"),
        (&[("NILOMETER_TOKEN", SECRET)], "certificate"),
        (
            &[("NILOMETER_TOKEN", SECRET), ("NILOMETER_CA", "m.lp")],
            "m.lp",
        ),
        (
            &[("NILOMETER_TOKEN", SECRET), ("NILOMETER_CA", "nowhere")],
            "nowhere",
        ),
    ] {
        let stderr = guarded.run(question, variables).failed();
        assert!(stderr.contains(word), "{word}: {stderr}");
        assert!(!stderr.contains(SECRET), "{stderr}");
    }
    let import = guarded.run("import -d d m.lp", &[ca]).failed();
    assert!(import.contains("--token"), "{import}");
    // A token is not sent where others could read it.
    let arguments = [
        "sql",
        "--url",
        "http://192.0.2.1:8086",
        "--token",
        SECRET,
        "-d",
        "d",
        "select 1",
    ];
    let stderr = nilometer(guarded.dir.path(), &arguments).failed();
    assert!(
        stderr.contains("https") && !stderr.contains(SECRET),
        "{stderr}"
    );
}
