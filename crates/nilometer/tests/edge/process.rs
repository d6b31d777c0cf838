//! A server that is a process: it can be killed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use ureq::Agent;

use crate::support::rows_of;

/// The program under test.
pub(crate) fn nilometer() -> Command {
    Command::new(env!("CARGO_BIN_EXE_nilometer"))
}

pub(crate) struct Process {
    child: Child,
    pub(crate) url: String,
    agent: Agent,
}

impl Process {
    /// Starts a server with the database `edge` on a free port.
    pub(crate) fn start(data: &Path, flags: &[&str]) -> Self {
        let mut child = nilometer()
            .args([
                "serve",
                "--http-bind",
                "127.0.0.1:0",
                "--pg-bind",
                "off",
                "--data",
            ])
            .arg(data)
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ");
        let url = url.unwrap_or_else(|| panic!("{line:?}")).to_owned();
        let config = Agent::config_builder().http_status_as_error(false);
        let process = Self {
            child,
            url,
            agent: config.build().into(),
        };
        let made = process.post("/query?q=CREATE%20DATABASE%20edge", &[]);
        assert_eq!(made.0, 200, "{}", made.1);
        process
    }

    pub(crate) fn port(&self) -> u16 {
        self.url.rsplit(':').next().unwrap().parse().unwrap()
    }

    pub(crate) fn post(&self, path: &str, body: &[u8]) -> (u16, Value) {
        let sent = self.agent.post(format!("{}{path}", self.url)).send(body);
        answer(sent.unwrap())
    }

    #[cfg(feature = "sql")]
    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        answer(
            self.agent
                .get(format!("{}{path}", self.url))
                .call()
                .unwrap(),
        )
    }

    pub(crate) fn rows(&self, statement: &str) -> Vec<Vec<Value>> {
        let url = format!("{}/query", self.url);
        let asked = self
            .agent
            .get(url)
            .query("db", "edge")
            .query("epoch", "ns")
            .query("q", statement);
        let (status, json) = answer(asked.call().unwrap());
        assert_eq!(status, 200, "{json}");
        rows_of(&json)
    }

    /// Ends it as a power cut does, as far as the process is concerned.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn answer(mut response: ureq::http::Response<ureq::Body>) -> (u16, Value) {
    let text = response.body_mut().read_to_string().unwrap();
    let json = serde_json::from_str(&text).unwrap_or(Value::String(text));
    (response.status().as_u16(), json)
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have been killed already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
