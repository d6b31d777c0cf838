//! Runs of the binary, or of a shell around it, with standard input, a folder and an environment of their own.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// Standard output of a run that succeeded.
    pub(crate) fn succeeded(self) -> String {
        assert_eq!(self.status, Some(0), "{}\n{}", self.stdout, self.stderr);
        self.stdout
    }

    /// Standard error of a run that ended with status 1, as every error does that is not one of the command line.
    pub(crate) fn failed(self) -> String {
        assert_eq!(self.status, Some(1), "{}\n{}", self.stdout, self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self.stderr
    }
}

/// Runs the binary in a folder.
pub(crate) fn nilometer(dir: &Path, arguments: &[&str]) -> Run {
    nilometer_with(dir, arguments, b"")
}

/// Runs the binary in a folder with something on its standard input.
pub(crate) fn nilometer_with(dir: &Path, arguments: &[&str], stdin: &[u8]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nilometer"));
    command.args(arguments);
    finish(command, dir, stdin)
}

/// Runs a line of a shell in a folder, with the binary on its path and these variables.
pub(crate) fn bash(dir: &Path, script: &str, variables: &[(&str, &str)]) -> Run {
    let binary = Path::new(env!("CARGO_BIN_EXE_nilometer"));
    let folder = binary.parent().expect("the binary is in a folder");
    let before = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("bash");
    command
        .args(["-euo", "pipefail", "-c", script])
        .env("PATH", format!("{}:{before}", folder.display()));
    for (name, value) in variables {
        command.env(name, value);
    }
    finish(command, dir, b"")
}

fn finish(mut command: Command, dir: &Path, stdin: &[u8]) -> Run {
    let mut child = command
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut pipe = child.stdin.take().expect("standard input was piped");
    let stdin = stdin.to_vec();
    // Beside the reading, because a program may answer before it has read everything, or read nothing.
    let writer = thread::spawn(move || drop(pipe.write_all(&stdin)));
    let output = child.wait_with_output().expect("the program ends");
    writer.join().expect("the writer does not panic");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Run {
        status: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}
